//! How much longer than their estimates a site's jobs run, and the margin that follows from it.
//!
//! A promise counts on the estimate and a margin. The margin that is proposed is the least, in whole percent, that at most
//! one job in a hundred exceeds: a job that needs more may be late, and need not be, where its deadline leaves it room. Whether records of the past
//! say something of the future is tried on themselves: what the first two thirds propose is held against the last third.

use super::swf::SwfRecord;

/// Part of the jobs that may need more than their estimates with the margin.
pub const EXCEEDED: f64 = 0.01;
/// The largest margin that is proposed. Each job is planned with it, so this one halves what is accepted.
pub const LARGEST: f64 = 1.0;
/// Fewer jobs say nothing of one in a hundred, least of all a third of them.
pub const FEWEST: usize = 300;
/// Margins of which it is said how many jobs exceed them.
pub const STEPS: [f64; 7] = [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0];

/// What the records propose.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Jobs that ran and had an estimate.
    pub jobs: usize,
    /// Jobs that never ran.
    pub never_ran: usize,
    /// Jobs that ran and had none.
    pub without_estimate: usize,
    /// Part of the jobs that exceed each of [`STEPS`].
    pub exceeding: [f64; STEPS.len()],
    /// Of all jobs.
    pub margin: Margin,
    /// Of the first two thirds, and the part of the last third that exceeds it.
    pub earlier: (Margin, f64),
}

/// A margin and who exceeds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// A part of the estimate, 0 to [`LARGEST`], in whole percent.
    pub margin: f64,
    /// Part of the jobs that need more. More than [`EXCEEDED`] only where the margin is the largest.
    pub exceeded: f64,
}

/// Why nothing can be proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoMargin {
    /// No job ran.
    #[error("none of the {0} jobs of the log ran")]
    NoneRan(usize),
    /// No job that ran had an estimate.
    #[error(
        "none of the {0} jobs that ran has an estimate (the log's field 9, the requested time), so there is nothing to hold their run times against"
    )]
    NoEstimates(usize),
    /// Too few did.
    #[error(
        "only {0} jobs ran and had an estimate; how many in a hundred exceed a margin is told by {FEWEST} or more"
    )]
    TooFew(usize),
}

/// What these records, in order of submission, propose.
///
/// # Errors
/// When too few of them ran and had an estimate.
pub fn propose(records: &[SwfRecord]) -> Result<Proposal, NoMargin> {
    let ran = || records.iter().filter(|record| record.ran());
    let over: Vec<f64> = ran()
        .filter(|record| record.requested_time > 0.0)
        .map(|record| record.run_time / record.requested_time - 1.0)
        .collect();
    let all = ran().count();
    match (all, over.len()) {
        (0, _) => return Err(NoMargin::NoneRan(records.len())),
        (all, 0) => return Err(NoMargin::NoEstimates(all)),
        (_, jobs) if jobs < FEWEST => return Err(NoMargin::TooFew(jobs)),
        _ => {}
    }
    let (first, last) = over.split_at(over.len() / 3 * 2);
    let earlier = least(first);
    Ok(Proposal {
        jobs: over.len(),
        never_ran: records.len() - all,
        without_estimate: all - over.len(),
        exceeding: STEPS.map(|margin| exceeding(&over, margin)),
        margin: least(&over),
        earlier: (earlier, exceeding(last, earlier.margin)),
    })
}

/// Part of these jobs that runs longer than its estimate by more than a margin. A run time that is rounded is not longer.
fn exceeding(over: &[f64], margin: f64) -> f64 {
    let longer = over.iter().filter(|over| **over > margin + 1e-9).count();
    longer as f64 / over.len() as f64
}

/// The least margin that few enough exceed, or the largest.
fn least(over: &[f64]) -> Margin {
    let of = |percent: u32| Margin {
        margin: f64::from(percent) / 100.0,
        exceeded: exceeding(over, f64::from(percent) / 100.0),
    };
    let (mut low, mut high) = (0, (LARGEST * 100.0) as u32);
    while low < high {
        let middle = (low + high) / 2;
        match of(middle).exceeded <= EXCEEDED {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    of(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Jobs estimated at 100 s that ran so long.
    fn log(run_times: impl IntoIterator<Item = f64>) -> Vec<SwfRecord> {
        let job = |(number, run_time)| SwfRecord {
            run_time,
            requested: 1,
            requested_time: 100.0,
            ..SwfRecord::unknown(number as u32 + 1, number as f64)
        };
        run_times.into_iter().enumerate().map(job).collect()
    }

    #[test]
    fn the_margin_is_the_least_that_one_in_a_hundred_exceeds() {
        // Of 300 jobs, two need 150 s, one 120 s, three 107 s: the 107 s of three must fit, so that three are left.
        let run_times = |at: usize| match at {
            10 | 250 => 150.0,
            20 => 120.0,
            30 | 40 | 50 => 107.0,
            _ => 60.0,
        };
        let proposal = propose(&log((0..300).map(run_times))).expect("enough jobs");
        let margin = |margin, exceeded| Margin { margin, exceeded };
        assert_eq!(proposal.margin, margin(0.07, 0.01));
        let parts = [6.0, 6.0, 3.0, 2.0, 0.0, 0.0, 0.0].map(|jobs| jobs / 300.0);
        assert_eq!(proposal.exceeding, parts);
        // Of the first 200 two may: 107 s must fit and 120 s need not. One of the last hundred needs more.
        assert_eq!(proposal.earlier, (margin(0.07, 0.01), 0.01));
    }

    #[test]
    fn what_exact_estimates_propose_is_none_and_what_nothing_covers_the_largest() {
        let none = propose(&log((0..400).map(|_| 100.0))).expect("enough jobs");
        assert_eq!((none.margin.margin, none.margin.exceeded), (0.0, 0.0));
        let wild = propose(&log((0..400).map(|_| 500.0))).expect("enough jobs");
        assert_eq!((wild.margin.margin, wild.margin.exceeded), (1.0, 1.0));
    }

    #[test]
    fn logs_that_say_nothing_are_errors() {
        assert_eq!(propose(&[]), Err(NoMargin::NoneRan(0)));
        let never = log((0..400).map(|_| -1.0));
        assert_eq!(propose(&never), Err(NoMargin::NoneRan(400)));
        let mut unknown = log((0..400).map(|_| 50.0));
        for record in &mut unknown {
            record.requested_time = -1.0;
        }
        assert_eq!(propose(&unknown), Err(NoMargin::NoEstimates(400)));
        let few = propose(&log((0..299).map(|_| 50.0)));
        assert_eq!(few, Err(NoMargin::TooFew(299)));
        unknown.extend(log((0..300).map(|_| 50.0)));
        let counted = propose(&unknown).expect("enough jobs");
        assert_eq!((counted.jobs, counted.without_estimate), (300, 400));
    }

    proptest! {
        #[test]
        fn few_exceed_it_and_more_would_exceed_a_percent_less(
            run_times in proptest::collection::vec(1.0f64..250.0, FEWEST..900),
        ) {
            let proposal = propose(&log(run_times)).expect("enough jobs");
            let Margin { margin, exceeded } = proposal.margin;
            prop_assert!((0.0..=LARGEST).contains(&margin));
            prop_assert!(exceeded <= EXCEEDED || margin == LARGEST);
            prop_assert!(proposal.exceeding.is_sorted_by(|a, b| a >= b));
        }
    }
}
