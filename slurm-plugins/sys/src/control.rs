//! Whether this slurmctld is in control of its cluster, or stands by as a backup of another one (`SlurmctldHost`, several times).
//!
//! A backup loads its plugins when it starts, listens and answers pings, and what its plugins ask through libslurm the one in control answers. So nothing but slurmctld
//! itself tells the two apart. It notes since when it has been in control, 0 if it is not, for the controllers that ask one another (`control_time` in its
//! controller.c, 22.05 to 26.05). From 23.11 on that becomes 0 as well where slurm.conf was to be read anew and could not be, and stays so. Then a primary that has had control
//! has it still, as only backups stand by again; and a backup has it when it is asked about a submission, which nobody is who stands by.

use libc::{RTLD_DEFAULT, dlsym, time_t};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A submission came while slurmctld said that it is not in control.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Notes that slurmctld asks about a submission.
pub fn is_asked() {
    if since() == Some(0) {
        ASKED.store(true, Ordering::Relaxed);
    }
}

/// What is known of it from look to look.
#[derive(Debug, Default)]
pub struct Control {
    /// This process has had control.
    had: bool,
}

impl Control {
    /// Returns true if this slurmctld is in control, or does not say.
    pub fn is_ours(&mut self) -> bool {
        let since = since();
        if since != Some(0) {
            ASKED.store(false, Ordering::Relaxed);
        }
        self.judge(since, is_backup(), ASKED.load(Ordering::Relaxed))
    }

    fn judge(&mut self, since: Option<time_t>, is_backup: bool, asked: bool) -> bool {
        let Some(since) = since else {
            return true;
        };
        let in_control = since != 0 || (self.had && (asked || !is_backup));
        self.had |= in_control;
        in_control
    }
}

/// Returns true if another slurmctld is the primary.
pub fn is_backup() -> bool {
    static PLACE: OnceLock<usize> = OnceLock::new();
    // SAFETY: a variable of slurmctld's own, of this type, or (before 23.11) an int whose first byte says as much where it is the lowest.
    unsafe { variable::<u8>(&PLACE, c"slurmctld_primary") == Some(0) }
}

/// Since when this slurmctld is in control, Unix time; 0: it is not; None: it does not say.
fn since() -> Option<time_t> {
    static PLACE: OnceLock<usize> = OnceLock::new();
    // SAFETY: a variable of slurmctld's own, of this type.
    unsafe { variable::<time_t>(&PLACE, c"control_time") }
}

/// What a variable of this process has now; None if there is none of this name. It is looked for once, as submissions ask.
///
/// # Safety
/// A variable of this name is of this type.
unsafe fn variable<T: Copy>(place: &OnceLock<usize>, name: &CStr) -> Option<T> {
    // SAFETY: whoever has loaded us has its symbols for all, and keeps them.
    let place = *place.get_or_init(|| unsafe { dlsym(RTLD_DEFAULT, name.as_ptr()) } as usize);
    // SAFETY: the caller's. Another thread may be writing it, in one piece: read anew each time.
    (place != 0).then(|| unsafe { (place as *const T).read_volatile() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: Option<time_t> = Some(1_790_000_000);

    #[test]
    fn a_backup_stands_by_until_it_is_in_control_and_again_afterwards() {
        let mut backup = Control::default();
        for (since, ours) in [
            (Some(0), false),
            (THEN, true),
            (Some(0), false),
            (THEN, true),
        ] {
            assert_eq!(backup.judge(since, true, false), ours, "{since:?}");
        }
    }

    #[test]
    fn a_primary_begins_when_the_backup_has_let_go_and_then_has_control() {
        let mut primary = Control::default();
        for (since, ours) in [(Some(0), false), (THEN, true), (Some(0), true)] {
            assert_eq!(primary.judge(since, false, false), ours, "{since:?}");
        }
    }

    #[test]
    fn a_backup_whose_slurm_conf_could_not_be_read_anew_goes_on_when_it_is_asked() {
        let mut backup = Control::default();
        assert!(!backup.judge(Some(0), true, true), "it never was");
        assert!(backup.judge(THEN, true, false));
        assert!(!backup.judge(Some(0), true, false));
        assert!(backup.judge(Some(0), true, true));
    }

    #[test]
    fn who_does_not_say_is_taken_to_be_in_control() {
        is_asked();
        assert!(Control::default().is_ours(), "no slurmctld at all");
        assert!(Control::default().judge(None, false, false));
    }
}
