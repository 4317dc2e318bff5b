//! What a job costs in the end.
//!
//! | how it ended | what is charged |
//! | --- | --- |
//! | by its deadline | the price |
//! | late by the site's delay, soft deadline | the price less penalty rate × that delay; below zero the user is paid (LibraSLA 2005, section 3), at most the price |
//! | late by the site's delay, hard deadline | nothing |
//! | late for another reason (it used more than its estimate, slept, or could begin in time) | the price: the delay is its own |
//! | late, and nobody knows how long it waited or what it used | the part of the price that it used of its estimate; the price where nobody counted |
//! | ended by a limit of the batch system (time, processor time, memory) | the price |
//! | cancelled while it ran | the part of the price that it had used of its estimate |
//! | cancelled or failed before it began, or ended by its node's failure | nothing |
//! | of best effort, however it ended once it had begun | the part of the price that it used of its estimate: while it is suspended it uses nothing |
//!
//! What a job used beyond its estimate is free (`overrun = "free"`), or costs as much a second as the estimate did
//! (`overrun = "charged"`), as far as the account reaches.
//!
//! A share grows while its job waits, so a job that waited (in the queue, suspended) no longer than its slack, deadline less estimate,
//! was given its whole estimate by its deadline. The site's delay is what it waited beyond that, and counts only for a job that used
//! what it was given while it ran: who sleeps would have been late anyway. Otherwise whoever sleeps beyond a deadline, or leaves himself no slack,
//! would pay nothing or be paid. The user chooses the penalty rate, so what is paid out has a bound: the price.

use libra_config::Overrun;
use libra_core::decision::class::Class;
use libra_core::decision::job::{DeadlineType, Terms};

/// Part of the estimate that may be used beyond it without being an overrun: measuring has its grain.
const GRAIN: f64 = 0.02;

/// What a start may take, and what the times of batch systems (whole seconds) may be wrong by, in seconds: waiting beyond a job's slack
/// that is no longer is no delay of the site's.
const STARTING: f64 = 2.0;

/// Part of its share that a job which never sleeps uses at least: starting, reading and writing take some.
const WORKING: f64 = 0.9;

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
    /// Seconds of `took` in which the site gave it no processor: before it began, and suspended. None if nobody knows, where the user
    /// may have caused it, and where no share is given all the time.
    pub waited: Option<f64>,
    /// It was begun more than once, and nobody knows on whose account: its delay is never the site's.
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

/// Whose fault it is that a job is late.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Its own.
    Own,
    /// The site's, by so many seconds of its delay, > 0.
    Site(f64),
    /// Nobody knows.
    Unknown,
}

/// Of a job that ended `delay` > 0 seconds after its deadline.
fn fault(terms: &Terms, margin: f64, share: f64, end: &End, delay: f64) -> Fault {
    let needed = terms.estimate * (1.0 + margin);
    let most = terms.estimate * (1.0 + margin + GRAIN);
    if end.how == HowEnded::TimeLimit || end.used.is_some_and(|used| used > most) {
        return Fault::Own;
    }
    let Some(waited) = end.waited else {
        return Fault::Unknown;
    };
    let beyond = waited - (terms.deadline - needed).max(0.0);
    if beyond <= STARTING {
        return Fault::Own;
    }
    match end.used {
        _ if end.restarted => Fault::Unknown,
        None => Fault::Unknown,
        Some(used) => {
            // A share is never less than what it began with.
            let least = (needed / terms.deadline).min(share);
            let given = least * (end.took - waited - STARTING).max(0.0);
            match used >= given * WORKING {
                true => Fault::Site(beyond.min(delay)),
                false => Fault::Own,
            }
        }
    }
}

/// What is paid for a job that was accepted for `price` on these terms. `margin`: the part that estimates are stretched by. `share`: the
/// smallest that was committed to a slot, in processors; 1 where nobody knows.
pub fn settle(
    price: f64,
    terms: &Terms,
    margin: f64,
    share: f64,
    end: &End,
    rule: Overrun,
) -> Settlement {
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
    let mut settlement = match end.how {
        HowEnded::NeverBegan => return nothing("never began"),
        HowEnded::NodeFailure => return nothing("its node failed"),
        _ if terms.class == Class::BestEffort => Settlement {
            charge: price * part.map_or(1.0, |part| part.clamp(0.0, 1.0)),
            ..nothing("best effort, for what it used")
        },
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
        HowEnded::Itself | HowEnded::TimeLimit => match fault(terms, margin, share, end, delay) {
            Fault::Own => full("late by its own overrun"),
            Fault::Unknown => Settlement {
                charge: price * part.map_or(1.0, |part| part.clamp(0.0, 1.0)),
                ..nothing("late, for what it used")
            },
            Fault::Site(caused) => match terms.deadline_type {
                DeadlineType::Hard => nothing("missed its deadline"),
                DeadlineType::Soft => {
                    let left = price - caused * terms.penalty_rate;
                    Settlement {
                        charge: left.max(0.0),
                        compensation: (-left).clamp(0.0, price),
                        ..nothing("late, less the penalty")
                    }
                }
            },
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
    use proptest::prelude::*;

    fn terms(deadline_type: DeadlineType, penalty_rate: f64) -> Terms {
        Terms {
            estimate: 100.0,
            deadline: 200.0,
            budget: 1000.0,
            deadline_type,
            penalty_rate,
            class: Class::Deadline,
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
        let settled = settle(50.0, terms, 0.05, 1.0, &end, Overrun::Free);
        assert_eq!(settled.overrun, 0.0);
        (settled.charge, settled.compensation)
    }

    /// It waited so long, and used so much.
    fn waited(took: f64, waited: f64, used: f64) -> End {
        End {
            waited: Some(waited),
            ..end(HowEnded::Itself, took, Some(used))
        }
    }

    #[test]
    fn best_effort_is_paid_for_by_what_it_used() {
        let best = Terms {
            class: Class::BestEffort,
            ..terms(DeadlineType::Hard, 0.0)
        };
        use HowEnded::*;
        for (how, took, used, charge) in [
            // However long it stood still, and whatever its user hoped for.
            (Itself, 100.0, Some(50.0), 25.0),
            (Itself, 1e6, Some(50.0), 25.0),
            (Cancelled, 1e6, Some(20.0), 10.0),
            (Itself, 150.0, Some(150.0), 50.0),
            (Itself, 150.0, None, 50.0),
            (NeverBegan, 150.0, None, 0.0),
        ] {
            assert_eq!(paid(&best, end(how, took, used)), (charge, 0.0), "{how:?}");
        }
    }

    #[test]
    fn each_row_of_the_table() {
        let hard = terms(DeadlineType::Hard, 0.0);
        let soft = terms(DeadlineType::Soft, 2.0);
        use HowEnded::*;
        assert_eq!(paid(&hard, end(Itself, 200.0, Some(100.0))), (50.0, 0.0));
        assert_eq!(paid(&hard, end(Itself, 200.0, Some(0.0))), (50.0, 0.0));
        // Its slack is 95 s, 200 less 105. 10 s late at 2 a second: 30 are left; 40 s late: 30 are paid out.
        assert_eq!(paid(&soft, waited(210.0, 110.0, 100.0)), (30.0, 0.0));
        assert_eq!(paid(&soft, waited(240.0, 140.0, 100.0)), (0.0, 30.0));
        // At most the price, whatever the rate.
        assert_eq!(paid(&soft, waited(900.0, 800.0, 100.0)), (0.0, 50.0));
        assert_eq!(paid(&hard, waited(240.0, 140.0, 100.0)), (0.0, 0.0));
        // No more than what the site has caused: 20 s beyond the slack, of 30 s.
        assert_eq!(paid(&soft, waited(230.0, 115.0, 80.0)), (10.0, 0.0));
        // More than its estimate.
        assert_eq!(paid(&hard, end(Itself, 230.0, Some(120.0))), (50.0, 0.0));
        assert_eq!(paid(&soft, waited(900.0, 800.0, 150.0)), (50.0, 0.0));
        // Nobody knows how long it waited, or what it used.
        assert_eq!(paid(&hard, end(Itself, 201.0, Some(100.0))), (50.0, 0.0));
        assert_eq!(paid(&soft, end(Itself, 900.0, Some(60.0))), (30.0, 0.0));
        assert_eq!(paid(&hard, end(Itself, 201.0, None)), (50.0, 0.0));
        let uncounted = End {
            used: None,
            ..waited(900.0, 800.0, 0.0)
        };
        assert_eq!(paid(&soft, uncounted), (50.0, 0.0));
        assert_eq!(paid(&hard, end(TimeLimit, 300.0, None)), (50.0, 0.0));
        let limited = End {
            how: TimeLimit,
            ..waited(900.0, 800.0, 100.0)
        };
        assert_eq!(paid(&soft, limited), (50.0, 0.0));
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
        // 200 less 105: so long it could wait, and be started.
        for wait in [0.0, 1.0, 95.0, 97.0] {
            let late = waited(230.0, wait, 60.0);
            assert_eq!(paid(&hard, late), (50.0, 0.0), "{wait}");
            assert_eq!(paid(&soft, late), (50.0, 0.0), "{wait}");
        }
        // Who waited longer, and used what it was given then; who slept then.
        assert_eq!(paid(&hard, waited(230.0, 125.0, 100.0)), (0.0, 0.0));
        assert_eq!(paid(&hard, waited(330.0, 125.0, 5.0)), (50.0, 0.0));
        assert_eq!(paid(&soft, waited(330.0, 125.0, 5.0)), (50.0, 0.0));
        // A reservation that was not used is one.
        let cancelled = End {
            waited: Some(10.0),
            ..end(HowEnded::Cancelled, 90.0, Some(5.0))
        };
        assert_eq!(paid(&hard, cancelled), (20.0, 0.0));
        // Begun anew by nobody knows whom: nothing to be had from it.
        let again = End {
            restarted: true,
            ..waited(900.0, 800.0, 100.0)
        };
        assert_eq!(paid(&soft, again), (50.0, 0.0));
    }

    #[test]
    fn who_leaves_himself_no_slack_is_not_paid_for_a_start() {
        let tight = |deadline_type| Terms {
            estimate: 10.0,
            deadline: 10.5,
            ..terms(deadline_type, 1e6)
        };
        for kind in [DeadlineType::Hard, DeadlineType::Soft] {
            // It slept; it slept for a little; it worked for most of the time; it worked all the time.
            for end in [
                waited(11.5, 0.5, 0.0),
                waited(10.6, 0.4, 0.1),
                waited(12.5, 0.5, 9.0),
                waited(10.9, 0.5, 10.4),
                waited(16.0, 5.0, 0.0),
            ] {
                assert_eq!(paid(&tight(kind), end), (50.0, 0.0), "{end:?}");
            }
        }
        // It worked, and the site was late indeed.
        let late = waited(15.5, 5.0, 10.4);
        assert_eq!(paid(&tight(DeadlineType::Hard), late), (0.0, 0.0));
        assert_eq!(paid(&tight(DeadlineType::Soft), late), (0.0, 50.0));
    }

    #[test]
    fn who_was_suspended_in_between_and_used_its_share_is_compensated() {
        // 100 s at 0.525, 150 s suspended, the rest at a whole processor: 97 s late, 55 of them beyond its slack.
        let soft = terms(DeadlineType::Soft, 0.1);
        let (charge, compensation) = paid(&soft, waited(297.5, 150.0, 100.0));
        assert!((charge - 44.5).abs() < 1e-9 && compensation == 0.0);
    }

    proptest! {
        /// Whoever gets away with less than what was used had a site that was late, and used what it was given; and no more is paid for
        /// than that delay.
        #[test]
        fn nobody_earns_by_sleeping(
            estimate in 0.1..1000.0f64,
            stretch in 0.5..5.0f64,
            rate in prop_oneof![Just(0.0), 0.0..10.0f64, Just(1e6)],
            soft: bool,
            took in 0.0..5.0f64,
            waited in proptest::option::of(0.0..1.2f64),
            used in proptest::option::of(0.0..1.2f64),
            how in prop_oneof![Just(HowEnded::Itself), Just(HowEnded::TimeLimit), Just(HowEnded::Cancelled), Just(HowEnded::NeverBegan), Just(HowEnded::NodeFailure)],
            restarted: bool,
            price in 0.0..1000.0f64,
        ) {
            let terms = Terms {
                estimate,
                deadline: estimate * stretch,
                ..terms(if soft { DeadlineType::Soft } else { DeadlineType::Hard }, rate)
            };
            let took = took * terms.deadline;
            let end = End { how, took, used: used.map(|part| part * took), waited: waited.map(|part| part * took), restarted };
            let settled = settle(price, &terms, 0.05, 1.0, &end, Overrun::Free);
            prop_assert!(settled.charge >= 0.0 && settled.charge <= price);
            prop_assert!(settled.compensation >= 0.0 && settled.compensation <= price);
            prop_assert!(settled.compensation == 0.0 || settled.charge == 0.0);
            let fair = end.used.map_or(price, |used| price * (used / estimate).min(1.0));
            let ran_by_itself = matches!(how, HowEnded::Itself | HowEnded::TimeLimit);
            if settled.compensation > 0.0 || (ran_by_itself && settled.charge < fair * (1.0 - 1e-9)) {
                prop_assert!(how == HowEnded::Itself && !restarted && took > terms.deadline);
                let (waited, used) = (end.waited.expect("known"), end.used.expect("known"));
                let beyond = waited - (terms.deadline - estimate * 1.05).max(0.0);
                prop_assert!(beyond > 2.0, "the site was not late: {beyond}");
                let share = (estimate * 1.05 / terms.deadline).min(1.0);
                prop_assert!(used >= 0.9 * share * (took - waited - 2.0), "it slept: {used}");
                prop_assert!(used <= 1.07 * estimate + 1e-9);
                if soft {
                    let owed = beyond.min(took - terms.deadline) * rate;
                    prop_assert!(settled.compensation - settled.charge <= owed - price + 1e-6 * (1.0 + owed));
                }
            }
        }
    }

    #[test]
    fn an_overrun_costs_what_the_estimate_did_where_the_site_says_so() {
        let hard = terms(DeadlineType::Hard, 0.0);
        let late = end(HowEnded::Itself, 230.0, Some(125.0));
        let settled = settle(50.0, &hard, 0.05, 1.0, &late, Overrun::Charged);
        // 125 of 100 estimated, 105 with the margin: 20 % more.
        assert_eq!(settled.charge, 50.0);
        assert!((settled.overrun - 10.0).abs() < 1e-9);
    }
}
