//! The share formula: how much of a processor a slot needs from now on to end in time.
//!
//! share = remaining estimate / remaining deadline (Libra 2004, section 4.1). The paper leaves two
//! cases open, settled here: a job that outlived its estimate keeps the share it last held and is
//! an overrun; a job past its deadline counts a whole processor per slot and is late.

use serde::{Deserialize, Serialize};

/// How long past its deadline a job is not late yet, in seconds: what rounding in sums of times and the
/// tolerance of the admission may come to.
#[inline(always)]
pub fn grace(deadline: f64) -> f64 {
    1e-6 + deadline * 1e-8
}

/// How one slot stands, on the node where it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Estimate in seconds on this node's processors (reference estimate / rating).
    pub estimate: f64,
    /// Seconds from submission to deadline.
    pub deadline: f64,
    /// Processor seconds used so far, per slot.
    pub cput: f64,
    /// Seconds since submission.
    pub walltime: f64,
    /// Share that the slot last held, in processors; used for an overrun only.
    /// Not positive: estimate / deadline stands in for it.
    pub held_share: f64,
}

/// Where a job stands against its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineStatus {
    /// The share it needs is one it can have.
    OnTrack,
    /// Even a whole processor per slot would end it after its deadline, if the estimate holds.
    AtRisk,
    /// It has used its estimate and runs on; nobody knows for how long.
    Overrun,
    /// Its deadline has passed.
    Late,
}

/// What one slot needs from now on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Processors, 0 < share ≤ 1.
    pub share: f64,
    /// How it stands.
    pub deadline_status: DeadlineStatus,
}

/// The share that a slot needs from now on.
///
/// Example of the 2004 paper, section 4.1: 20 of 30 CPU seconds done after 20 s, deadline 50 s:
/// ```
/// use libra_core::decision::share::{need, DeadlineStatus, Work};
/// let need = need(&Work { estimate: 30.0, deadline: 50.0, cput: 20.0, walltime: 20.0, held_share: 0.0 });
/// assert!((need.share - 1.0 / 3.0).abs() < 1e-12);
/// assert_eq!(need.deadline_status, DeadlineStatus::OnTrack);
/// ```
#[inline(always)]
pub fn need(work: &Work) -> Need {
    let remaining_deadline = work.deadline - work.walltime;
    // Not 0: a clock set to exactly the deadline may miss it by the last digit.
    if remaining_deadline <= work.deadline * 1e-12 {
        return Need {
            share: 1.0,
            deadline_status: DeadlineStatus::Late,
        };
    }
    let remaining_estimate = work.estimate - work.cput;
    if remaining_estimate <= 0.0 {
        let held = if work.held_share > 0.0 {
            work.held_share
        } else {
            work.estimate / work.deadline
        };
        return Need {
            share: held.min(1.0),
            deadline_status: DeadlineStatus::Overrun,
        };
    }
    let share = remaining_estimate / remaining_deadline;
    if share > 1.0 + super::TOLERANCE {
        // A single-threaded slot can never use more than one processor.
        return Need {
            share: 1.0,
            deadline_status: DeadlineStatus::AtRisk,
        };
    }
    Need {
        share: share.min(1.0),
        deadline_status: DeadlineStatus::OnTrack,
    }
}

/// How a share is counted and enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShareRule {
    /// As the formula gives it.
    #[default]
    Exact,
    /// Rounded up to 1/k, see [`integral`].
    Integral,
}

impl ShareRule {
    /// The share that counts, 0 to 1.
    #[inline(always)]
    pub fn apply(self, share: f64) -> f64 {
        match self {
            ShareRule::Exact => share,
            ShareRule::Integral => integral(share),
        }
    }
}

/// Rounds a share up to 1/k (100, 50, 33, 25 % …): for kernels that cannot cap a share and give
/// each of k processes the k-th part (Libra 2004, section 4.1).
pub fn integral(share: f64) -> f64 {
    if share >= 1.0 {
        return share;
    }
    if share <= 0.0 {
        return 0.0;
    }
    1.0 / (1.0 / share + super::TOLERANCE).floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(estimate: f64, deadline: f64, cput: f64, walltime: f64) -> Work {
        Work {
            estimate,
            deadline,
            cput,
            walltime,
            held_share: 0.25,
        }
    }

    #[test]
    fn a_job_past_its_estimate_keeps_the_share_it_held() {
        let need = need(&work(10.0, 50.0, 10.5, 20.0));
        assert_eq!(
            (need.share, need.deadline_status),
            (0.25, DeadlineStatus::Overrun)
        );
    }

    #[test]
    fn a_job_past_its_deadline_counts_a_whole_processor() {
        for cput in [1.0, 11.0] {
            let need = need(&work(10.0, 50.0, cput, 50.0));
            assert_eq!(
                (need.share, need.deadline_status),
                (1.0, DeadlineStatus::Late)
            );
        }
    }

    #[test]
    fn a_slot_never_counts_more_than_one_processor() {
        let need = need(&work(10.0, 20.0, 1.0, 15.0));
        assert_eq!(
            (need.share, need.deadline_status),
            (1.0, DeadlineStatus::AtRisk)
        );
    }

    #[test]
    fn a_job_that_runs_at_its_share_keeps_needing_it() {
        // The book rests on this: between reports the committed share is a constant.
        let share = need(&work(30.0, 100.0, 0.0, 0.0)).share;
        for walltime in [1.0, 10.0, 50.0, 99.0] {
            let later = need(&work(30.0, 100.0, share * walltime, walltime)).share;
            assert!((later - share).abs() < 1e-9, "{later} after {walltime} s");
        }
    }

    #[test]
    fn integral_shares_are_unit_fractions_not_below_the_share() {
        assert_eq!(integral(0.3), 1.0 / 3.0);
        assert_eq!(integral(1.0 / 3.0), 1.0 / 3.0);
        assert_eq!(integral(0.34), 0.5);
        assert_eq!(integral(0.51), 1.0);
        assert_eq!(integral(0.1), 0.1);
    }
}
