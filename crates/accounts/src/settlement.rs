//! What a job costs in the end.
//!
//! | how it ended | what is charged |
//! | --- | --- |
//! | by its deadline | the price |
//! | late, soft deadline | the price less penalty rate × delay; below zero the user is paid (LibraSLA 2005, section 3), at most the price |
//! | late, hard deadline | nothing |
//! | late because it used more than its estimate, or though it had its share in time | the price: the delay is its own |
//! | ended by a limit of the batch system (time, processor time, memory) | the price |
//! | cancelled while it ran | the part of the price that it had used of its estimate |
//! | cancelled or failed before it began, or ended by its node's failure | nothing |
//!
//! What a job used beyond its estimate is free (`overrun = "free"`), or costs as much a second as the estimate did
//! (`overrun = "charged"`), as far as the account reaches. Where nobody knows what was used, the doubt is the user's benefit.
//!
//! Had it its share in time? A share grows while its job waits, so a job that waited (in the queue, suspended) no longer than deadline
//! less estimate was given its whole estimate by its deadline. It may have slept; otherwise whoever sleeps beyond the deadline would pay nothing.
//! The user chooses the penalty rate, so what is paid out has a bound: the price.

use libra_config::Overrun;
use libra_core::decision::job::{DeadlineType, Terms};

/// Part of the estimate that may be used beyond it without being an overrun: measuring has its grain.
const GRAIN: f64 = 0.02;

/// How a job came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowEnded {
    /// By itself, with whatever exit code.
    Itself,
    /// It ran into a limit of the batch system: its time, which is beyond its deadline, or what it asked for and used more of.
    TimeLimit,
    /// Somebody cancelled it while it ran.
    Cancelled,
    /// It never began.
    NeverBegan,
    /// Its node failed.
    NodeFailure,
}

/// The end of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct End {
    /// How.
    pub how: HowEnded,
    /// Seconds from submission to end, ≥ 0.
    pub took: f64,
    /// Processor seconds that each slot used; None if nobody counted.
    pub used: Option<f64>,
    /// Seconds of `took` in which it had no processor: before it began, and suspended. None if nobody knows, and where no
    /// share is given all the time.
    pub waited: Option<f64>,
    /// It was begun more than once, and nobody knows on whose account: nothing is paid out.
    pub restarted: bool,
}

/// Who pays whom how much; both ≥ 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settlement {
    /// Credits out of what was held, at most the price.
    pub charge: f64,
    /// Credits beyond it, as far as the account reaches.
    pub overrun: f64,
    /// Credits paid to the user.
    pub compensation: f64,
    /// In a few words.
    pub reason: &'static str,
}

/// What is paid for a job that was accepted for `price` on these terms. `margin`: the part that estimates are stretched by.
pub fn settle(price: f64, terms: &Terms, margin: f64, end: &End, rule: Overrun) -> Settlement {
    let nothing = |reason| Settlement {
        charge: 0.0,
        overrun: 0.0,
        compensation: 0.0,
        reason,
    };
    let price = price.max(0.0);
    let full = |reason| Settlement {
        charge: price,
        ..nothing(reason)
    };
    let part = end.used.map(|used| used / terms.estimate);
    let delay = end.took - terms.deadline;
    let in_time = |waited| waited <= terms.deadline - terms.estimate * (1.0 + margin);
    let beyond = match end.how {
        HowEnded::TimeLimit => true,
        _ => {
            part.is_some_and(|part| part > 1.0 + margin + GRAIN) || end.waited.is_some_and(in_time)
        }
    };
    let mut settlement = match end.how {
        HowEnded::NeverBegan => return nothing("never began"),
        HowEnded::NodeFailure => return nothing("its node failed"),
        HowEnded::Cancelled => {
            // What it had, used or not. Without a count, the part of its time that has passed.
            let had = end
                .waited
                .map(|waited| (end.took - waited) / terms.deadline);
            let part = match (part, had) {
                (None, None) => end.took / terms.deadline,
                (part, had) => part.unwrap_or(0.0).max(had.unwrap_or(0.0)),
            };
            let part = part.clamp(0.0, 1.0);
            Settlement {
                charge: price * part,
                ..nothing("cancelled")
            }
        }
        HowEnded::Itself | HowEnded::TimeLimit if delay <= 0.0 => full("met its deadline"),
        HowEnded::Itself | HowEnded::TimeLimit if beyond => full("late by its own overrun"),
        _ => match terms.deadline_type {
            DeadlineType::Hard => nothing("missed its deadline"),
            DeadlineType::Soft => {
                let left = price - delay * terms.penalty_rate;
                Settlement {
                    charge: left.max(0.0),
                    compensation: match end.restarted {
                        true => 0.0,
                        false => (-left).clamp(0.0, price),
                    },
                    ..nothing("late, less the penalty")
                }
            }
        },
    };
    if rule == Overrun::Charged && settlement.charge > 0.0 {
        let more = (part.unwrap_or(0.0) - 1.0 - margin).max(0.0);
        settlement.overrun = price * more;
    }
    settlement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(deadline_type: DeadlineType, penalty_rate: f64) -> Terms {
        Terms {
            estimate: 100.0,
            deadline: 200.0,
            budget: 1000.0,
            deadline_type,
            penalty_rate,
        }
    }

    fn end(how: HowEnded, took: f64, used: Option<f64>) -> End {
        End {
            how,
            took,
            used,
            waited: None,
            restarted: false,
        }
    }

    fn paid(terms: &Terms, end: End) -> (f64, f64) {
        let settled = settle(50.0, terms, 0.05, &end, Overrun::Free);
        assert_eq!(settled.overrun, 0.0);
        (settled.charge, settled.compensation)
    }

    #[test]
    fn each_row_of_the_table() {
        let hard = terms(DeadlineType::Hard, 0.0);
        let soft = terms(DeadlineType::Soft, 2.0);
        use HowEnded::*;
        assert_eq!(paid(&hard, end(Itself, 200.0, Some(100.0))), (50.0, 0.0));
        assert_eq!(paid(&hard, end(Itself, 201.0, Some(100.0))), (0.0, 0.0));
        assert_eq!(paid(&hard, end(Itself, 201.0, None)), (0.0, 0.0));
        assert_eq!(paid(&hard, end(Itself, 230.0, Some(120.0))), (50.0, 0.0));
        assert_eq!(paid(&hard, end(TimeLimit, 300.0, None)), (50.0, 0.0));
        // 10 s late at 2 a second: 30 are left; 40 s late: 30 are paid out.
        assert_eq!(paid(&soft, end(Itself, 210.0, Some(100.0))), (30.0, 0.0));
        assert_eq!(paid(&soft, end(Itself, 240.0, Some(100.0))), (0.0, 30.0));
        assert_eq!(paid(&soft, end(Itself, 240.0, Some(150.0))), (50.0, 0.0));
        // At most the price, whatever the rate.
        assert_eq!(paid(&soft, end(Itself, 900.0, Some(100.0))), (0.0, 50.0));
        assert_eq!(paid(&soft, end(Cancelled, 50.0, Some(20.0))), (10.0, 0.0));
        assert_eq!(paid(&soft, end(Cancelled, 50.0, None)), (12.5, 0.0));
        assert_eq!(paid(&soft, end(Cancelled, 500.0, Some(900.0))), (50.0, 0.0));
        assert_eq!(paid(&soft, end(NeverBegan, 50.0, Some(0.0))), (0.0, 0.0));
        assert_eq!(paid(&soft, end(NodeFailure, 50.0, Some(90.0))), (0.0, 0.0));
    }

    #[test]
    fn who_had_its_share_and_slept_pays() {
        let hard = terms(DeadlineType::Hard, 0.0);
        let soft = terms(DeadlineType::Soft, 2.0);
        let late = |waited| End {
            waited: Some(waited),
            ..end(HowEnded::Itself, 230.0, Some(60.0))
        };
        // 200 less 105: so long it could wait.
        for waited in [0.0, 1.0, 95.0] {
            assert_eq!(paid(&hard, late(waited)), (50.0, 0.0), "{waited}");
            assert_eq!(paid(&soft, late(waited)), (50.0, 0.0), "{waited}");
        }
        assert_eq!(paid(&hard, late(95.1)), (0.0, 0.0));
        assert_eq!(paid(&soft, late(150.0)), (0.0, 10.0));
        // A reservation that was not used is one.
        let cancelled = End {
            waited: Some(10.0),
            ..end(HowEnded::Cancelled, 90.0, Some(5.0))
        };
        assert_eq!(paid(&hard, cancelled), (20.0, 0.0));
        // Begun anew by nobody knows whom: nothing to be had from it.
        let again = End {
            restarted: true,
            ..end(HowEnded::Itself, 240.0, None)
        };
        assert_eq!(paid(&soft, again), (0.0, 0.0));
    }

    #[test]
    fn an_overrun_costs_what_the_estimate_did_where_the_site_says_so() {
        let hard = terms(DeadlineType::Hard, 0.0);
        let late = end(HowEnded::Itself, 230.0, Some(125.0));
        let settled = settle(50.0, &hard, 0.05, &late, Overrun::Charged);
        // 125 of 100 estimated, 105 with the margin: 20 % more.
        assert_eq!(settled.charge, 50.0);
        assert!((settled.overrun - 10.0).abs() < 1e-9);
    }
}
