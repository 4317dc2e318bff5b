//! A limit for SQLite's own waiting.
//!
//! Its busy timeout is not the whole of it: who begins to read, while another process has the places of readers (it moves the log, say),
//! tries a hundred times with longer and longer sleeps, ten seconds altogether, whatever the timeout is. Where that other process was
//! stopped (SIGSTOP), each submission would keep a whole slurmctld or pbs_server for ten seconds. All of SQLite's sleeps go through its
//! interface to the system, so they end where this thread's time is up; its tries then fail at once.

use rusqlite::{Connection, OpenFlags, ffi};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const NAME: &CStr = c"libra";

thread_local! {
    /// When this thread's time for SQLite is up.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Opens a database whose waiting [`within`] limits.
///
/// # Errors
/// As [`Connection::open_with_flags`].
pub fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    match *REGISTERED.get_or_init(register) {
        true => Connection::open_with_flags_and_vfs(path, flags, NAME),
        // Without memory for a name, say: only the limit is missing.
        false => Connection::open_with_flags(path, flags),
    }
}

/// Runs `work`. From so much time on SQLite sleeps no more on this thread: what it waits for fails. Inside another one the earlier end counts.
pub fn within<T>(time: Duration, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Instant>);
    impl Drop for Back {
        fn drop(&mut self) {
            UNTIL.set(self.0);
        }
    }
    let before = UNTIL.get();
    let _back = Back(before);
    let end = Instant::now() + time;
    UNTIL.set(Some(before.map_or(end, |before| before.min(end))));
    work()
}

/// Returns true if a full disk says so: there was no room for what was to be written, or for a file beside the database that those who have
/// it open share.
pub fn is_without_room(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(ffi::SQLITE_FULL | ffi::SQLITE_IOERR_SHMSIZE))
}

/// The system's own interface, but for sleeping.
fn register() -> bool {
    // SAFETY: null asks for the default one, which stays for ever; calling this first initialises SQLite.
    let default = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    if default.is_null() {
        return false;
    }
    // SAFETY: found just now. It is plain data: functions that take the interface they are called by, and a pointer to constants.
    let mut own = unsafe { *default };
    own.zName = NAME.as_ptr();
    own.pNext = std::ptr::null_mut();
    own.xSleep = Some(sleep);
    let own: &'static mut ffi::sqlite3_vfs = Box::leak(Box::new(own));
    // SAFETY: it lives as long as the process, and SQLite alone changes it from now on.
    unsafe { ffi::sqlite3_vfs_register(own, 0) == ffi::SQLITE_OK }
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    let asked = Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
    // A thread that is just ending has no limit any more, and no connection either.
    let until = UNTIL.try_with(Cell::get).unwrap_or(None);
    let left = until.map_or(asked, |until| {
        until.saturating_duration_since(Instant::now())
    });
    std::thread::sleep(asked.min(left));
    microseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_no_longer_than_there_is_time() {
        let slept = |microseconds| {
            let began = Instant::now();
            // SAFETY: it does not look at the interface.
            unsafe { sleep(std::ptr::null_mut(), microseconds) };
            began.elapsed()
        };
        let tried = within(Duration::from_millis(20), || {
            // An inner limit that is later is none.
            within(Duration::from_secs(3600), || {
                (0..100).map(|_| slept(60_000_000)).sum::<Duration>()
            })
        });
        assert!(tried < Duration::from_secs(60), "{tried:?}");
        assert!(
            slept(30_000) >= Duration::from_millis(30),
            "no limit any more"
        );
    }
}
