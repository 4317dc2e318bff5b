//! Whether this slurmctld is in control of its cluster, or stands by as a backup of another one (`SlurmctldHost`, several times).
//!
//! A backup loads its plugins when it starts, listens and answers pings, and what its plugins ask through libslurm the one in control answers. So nothing but slurmctld
//! itself tells the two apart. It notes since when it has been in control, 0 if it is not, for the controllers that ask one another (`control_time` in its
//! controller.c, 22.05 to 26.05). While slurm.conf is read anew that is 0 as well in some versions, and stays 0 where that failed: a primary that has had control
//! keeps it until it ends, as only backups stand by again.

use libc::{RTLD_DEFAULT, c_char, c_void, dlsym, time_t};

/// What is known of it from look to look.
#[derive(Debug, Default)]
pub struct Control {
    /// This process has had control.
    had: bool,
}

impl Control {
    /// Returns true if this slurmctld is in control, or does not say.
    pub fn is_ours(&mut self) -> bool {
        // SAFETY: a variable of slurmctld's own, of this type.
        let since = unsafe { variable::<time_t>(c"control_time".as_ptr()) };
        let is_backup = self.is_backup();
        self.judge(since, is_backup)
    }

    /// Returns true if another slurmctld is the primary.
    pub fn is_backup(&self) -> bool {
        // SAFETY: a variable of slurmctld's own, of this type or a longer one whose first byte says as much.
        unsafe { variable::<u8>(c"slurmctld_primary".as_ptr()) == Some(0) }
    }

    fn judge(&mut self, since: Option<time_t>, is_backup: bool) -> bool {
        let Some(since) = since else {
            return true;
        };
        let in_control = since != 0 || (self.had && !is_backup);
        self.had |= in_control;
        in_control
    }
}

/// What a variable of this process has now; None if there is none of this name.
///
/// # Safety
/// `name` ends with a NUL, and a variable of this name is of this type.
unsafe fn variable<T: Copy>(name: *const c_char) -> Option<T> {
    // SAFETY: the caller's; whoever has loaded us has its symbols for all.
    let found: *mut c_void = unsafe { dlsym(RTLD_DEFAULT, name) };
    // SAFETY: the caller's. Another thread may be writing it, in one piece: read anew each time.
    (!found.is_null()).then(|| unsafe { found.cast::<T>().read_volatile() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_stands_by_until_it_is_in_control_and_again_afterwards() {
        let mut backup = Control::default();
        for (since, ours) in [
            (0, false),
            (1_790_000_000, true),
            (0, false),
            (1_790_000_100, true),
        ] {
            assert_eq!(backup.judge(Some(since), true), ours, "{since}");
        }
    }

    #[test]
    fn a_primary_begins_when_the_backup_has_let_go_and_then_has_control() {
        let mut primary = Control::default();
        for (since, ours) in [(0, false), (1_790_000_000, true), (0, true)] {
            assert_eq!(primary.judge(Some(since), false), ours, "{since}");
        }
    }

    #[test]
    fn who_does_not_say_is_taken_to_be_in_control() {
        assert!(Control::default().is_ours(), "no slurmctld at all");
        assert!(Control::default().judge(None, false));
    }
}
