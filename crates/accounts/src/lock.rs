//! A lock between processes that is waited for no longer than somebody can wait.
//!
//! The kernel's own waiting has no limit: a process that was stopped (SIGSTOP, a debugger, a frozen cgroup) while it had the lock would
//! stop all others, pbs_server and slurmctld among them. Who has it writes its number and the time into the file, so that those who do
//! not get it can say who it is.

use super::{AccountsError, unix_millis};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two tries.
const POLL: Duration = Duration::from_millis(2);

/// Takes the lock in this file, which is made where it is not there. Waits for it no longer than `patience`.
///
/// # Errors
/// [`AccountsError::Locked`] where it is not to be had, others where the file cannot be opened.
pub(super) fn take(path: &Path, patience: Duration) -> Result<Flock<File>, AccountsError> {
    let failed = |error: std::io::Error| AccountsError::File {
        path: path.to_path_buf(),
        problem: error.to_string(),
    };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let began = Instant::now();
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut held) => {
                // Only helps others to say who has it.
                let _ = held.set_len(0);
                let _ = writeln!(held, "{} {}", std::process::id(), unix_millis());
                return Ok(held);
            }
            Err((back, Errno::EWOULDBLOCK | Errno::EINTR)) => file = back,
            Err((_, error)) => return Err(failed(error.into())),
        }
        if began.elapsed() >= patience {
            return Err(AccountsError::Locked {
                path: path.to_path_buf(),
                patience: patience.as_secs_f64(),
                holder: holder(path),
            });
        }
        std::thread::sleep(POLL);
    }
}

/// Who has it and since when, by what the file says: ` by process 12 (slurmctld, stopped) for 5 s`. Empty where it says nothing of use, as
/// of a process that has ended.
fn holder(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut words = text.split_whitespace().map(str::parse::<i64>);
    let (Some(Ok(process)), Some(Ok(since))) = (words.next(), words.next()) else {
        return String::new();
    };
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // 12 (name with ) in it) T 1 ...
    let found = stat
        .split_once('(')
        .and_then(|(_, rest)| rest.rsplit_once(')'));
    let Some((name, rest)) = found else {
        return String::new();
    };
    let stopped = match rest.trim_start().starts_with(['T', 't']) {
        true => ", stopped",
        false => "",
    };
    let seconds = unix_millis().saturating_sub(since).max(0) / 1000;
    format!(" by process {process} ({name}{stopped}) for {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_waited_for_so_long_and_who_has_it_is_said() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lock");
        let held = take(&path, Duration::ZERO).expect("free");
        let error = take(&path, Duration::from_millis(20)).expect_err("held");
        let said = error.to_string();
        let us = format!("by process {} (", std::process::id());
        assert!(said.contains(&us) && said.contains(") for "), "{said}");
        assert!(!error.is_refusal());
        // Of one that has ended nothing is said: 0 is nobody's number.
        std::fs::write(&path, "0 1\n").expect("written");
        let said = take(&path, Duration::ZERO).expect_err("held").to_string();
        assert!(said.contains("is locked, waited"), "{said}");
        drop(held);
        // Soon: a program that another test is starting may have it open until it begins.
        take(&path, Duration::from_secs(120)).expect("free again");
        // What leads elsewhere is not followed.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(take(&link, Duration::ZERO).is_err());
    }
}
