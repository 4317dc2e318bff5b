//! Submissions that come from no session, as those of `--test-only`. slurmctld asks for them what it asks for jobs, so each holds what it is
//! promised until the queue has been read and shows no job of it.
//!
//! Invariant: what a user's tests hold, nobody else can have for at most one part in [`PAUSES`] of the time. Whoever has tested waits
//! before the next; a submission whose job was found counts as none.

use std::collections::HashMap;

/// Something was searched for if it was submitted so many seconds before the queue was read: slurmctld has mostly written down its job by then,
/// and one that comes later is found.
const UNNAMED: f64 = 0.1;
/// After a test its user waits so many times as long as it was held,
const PAUSES: f64 = 9.0;
/// and at most so many seconds: a poll that took long is not the user's doing.
const LONGEST_PAUSE: f64 = 10.0;

/// What tests hold, and who has to wait with the next.
#[derive(Debug, Default)]
pub(super) struct TestOnly {
    open: Vec<Held>,
    /// Until when, Unix time, by the user's number.
    pauses: HashMap<u32, f64>,
}

/// What was accepted and may have no job.
#[derive(Debug, Clone, Copy)]
struct Held {
    token: u64,
    submitted: f64,
    user: u32,
}

impl TestOnly {
    /// Seconds until this user may test again; none: now.
    pub(super) fn pause(&self, user: u32, now: f64) -> Option<f64> {
        let left = self.pauses.get(&user)? - now;
        // A clock that was set back is no reason to wait for longer.
        (left > 0.0).then_some(left.min(LONGEST_PAUSE))
    }

    /// These were accepted, and may be a test.
    pub(super) fn accepted(&mut self, tokens: impl Iterator<Item = u64>, user: u32, now: f64) {
        self.open.extend(tokens.map(|token| Held {
            token,
            submitted: now,
            user,
        }));
    }

    /// The queue was read at `read`: `drop_token` gives back what has no job, and says whether that was so. The tokens that were given back.
    pub(super) fn searched(
        &mut self,
        read: f64,
        now: f64,
        mut drop_token: impl FnMut(u64) -> bool,
    ) -> Vec<u64> {
        let mut dropped = Vec::new();
        self.pauses.retain(|_, until| *until > now);
        let pauses = &mut self.pauses;
        self.open.retain(|held| {
            if held.submitted >= read - UNNAMED {
                return true;
            }
            if drop_token(held.token) {
                dropped.push(held.token);
                let pause = (PAUSES * (now - held.submitted)).clamp(0.0, LONGEST_PAUSE);
                let until = pauses.entry(held.user).or_default();
                *until = until.max(now + pause);
            }
            false
        });
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_whose_test_held_something_waits_and_nobody_else_does() {
        let mut tests = TestOnly::default();
        tests.accepted(7..9, 1000, 50.0);
        assert_eq!(tests.pause(1000, 50.0), None, "it may have been a job");
        assert!(tests.searched(50.05, 50.06, |_| true).is_empty());
        assert_eq!(tests.searched(50.15, 50.2, |_| true), [7, 8]);
        let pause = tests.pause(1000, 50.2).expect("a pause");
        assert!((pause - 1.8).abs() < 1e-6, "{pause}");
        assert_eq!(tests.pause(1001, 50.2), None);
        assert_eq!(tests.pause(1000, 52.1), None);
        assert!(tests.searched(53.0, 53.0, |_| true).is_empty());
        assert!(tests.pauses.is_empty());
    }

    #[test]
    fn a_submission_that_has_a_job_is_no_test() {
        let mut tests = TestOnly::default();
        tests.accepted(7..8, 1000, 50.0);
        assert!(tests.searched(50.2, 50.2, |_| false).is_empty());
        assert_eq!(tests.pause(1000, 50.2), None);
        assert!(tests.open.is_empty());
    }

    #[test]
    fn a_pause_has_an_end_whatever_the_clock_does() {
        let mut tests = TestOnly::default();
        tests.accepted(7..8, 1000, 50.0);
        tests.searched(500.0, 500.0, |_| true);
        assert_eq!(tests.pause(1000, 500.0), Some(LONGEST_PAUSE));
        assert_eq!(tests.pause(1000, 100.0), Some(LONGEST_PAUSE));
        tests.accepted(9..10, 1000, 600.0);
        tests.searched(601.0, 599.0, |_| true);
        assert_eq!(tests.pause(1000, 599.0), None);
    }
}
