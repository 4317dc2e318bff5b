//! How many changes one user may make: each is a line in the ledger and in the log, for ever.
//!
//! A user may make [`BURST`] at once, and gets back one for each [`SECONDS_EACH`] seconds, up to as many. Administrators are not counted.

use std::collections::HashMap;

/// Changes at once.
pub const BURST: i64 = 500;
/// Seconds until one more may be made.
pub const SECONDS_EACH: i64 = 10;

const EACH: i64 = 1000 * SECONDS_EACH;

/// Who has made how many.
#[derive(Debug, Default)]
pub struct ChangeRate {
    /// When all of a user's changes are had back, Unix time in milliseconds; by the user's number.
    had_back: HashMap<u32, i64>,
}

impl ChangeRate {
    /// One more change by this user, at `now` in Unix milliseconds.
    ///
    /// # Errors
    /// The user has made too many: the whole seconds until one may be made.
    pub fn change(&mut self, user: u32, now: i64) -> Result<(), i64> {
        // A clock that was set back is nobody's doing.
        (self.had_back).retain(|_, at| *at > now && *at <= now + BURST * EACH);
        let at = self.had_back.get(&user).copied().unwrap_or(now) + EACH;
        let over = at - (now + BURST * EACH);
        if over > 0 {
            return Err(over.div_euclid(1000) + i64::from(over % 1000 > 0));
        }
        self.had_back.insert(user, at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_burst_and_then_one_in_ten_seconds() {
        let mut rate = ChangeRate::default();
        for _ in 0..BURST {
            assert_eq!(rate.change(7, 1_000_000), Ok(()));
        }
        assert_eq!(rate.change(7, 1_000_000), Err(10));
        assert_eq!(rate.change(7, 1_009_001), Err(1));
        assert_eq!(rate.change(8, 1_009_001), Ok(()), "another user");
        assert_eq!(rate.change(7, 1_010_000), Ok(()));
        assert_eq!(rate.change(7, 1_010_000), Err(10));
        for _ in 0..3 {
            assert_eq!(rate.change(7, 1_040_000), Ok(()));
        }
        assert_eq!(rate.change(7, 1_040_000), Err(10));
    }

    #[test]
    fn a_clock_that_was_set_back_locks_nobody_out_and_nothing_is_kept_for_ever() {
        let mut rate = ChangeRate::default();
        for _ in 0..BURST {
            assert_eq!(rate.change(7, 1_000_000_000), Ok(()));
        }
        assert_eq!(rate.change(7, 1_000), Ok(()));
        assert_eq!(rate.change(8, 2_000_000_000), Ok(()));
        assert_eq!(rate.had_back.len(), 1);
    }
}
