//! What is measured of one run: counts, means, utility, utilisation.
//!
//! A promise may have a condition: where the deadline is shorter than the estimate, the job ends in time only
//! if it needs less than it says ([`Job::conditional`]). Late ones of those are counted apart, since nobody
//! broke a promise; what counts is how many of the others are late.
//!
//! Invariants: memory does not grow with the number of jobs; the result depends on the outcomes
//! alone, not on who computes it; accepted + rejected = submitted and fulfilled + late + conditional_late =
//! accepted.
//!
//! [`Job::conditional`]: libra_workload::Job::conditional

use super::sums::Sum;
use super::{Fate, Machine, Observer, Outcome};
use libra_core::decision::job::DeadlineType;
use serde::Serialize;
use std::collections::BTreeMap;

/// The measures of one run of one policy. Field names are those of the JSON output and stay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Jobs that were submitted and had a run time: a log's jobs that never ran are no part of it.
    pub submitted: u64,
    /// Jobs that ran.
    pub accepted: u64,
    /// Jobs that were refused.
    pub rejected: u64,
    /// Jobs that ended by their deadline.
    pub fulfilled: u64,
    /// Jobs that ran and ended after it although their promise had no condition.
    pub late: u64,
    /// Jobs that ran whose promise had one.
    pub conditional: u64,
    /// Those of them that ended after their deadline.
    pub conditional_late: u64,
    /// Fulfilled jobs in percent of the submitted ones (LibraRisk 2006, section 5), 0 to 100.
    pub fulfilled_percent: Option<f64>,
    /// Their work in percent of that of all submitted jobs, in processor seconds, 0 to 100: a policy that keeps
    /// many small jobs and refuses the large ones shows here.
    pub fulfilled_work_percent: Option<f64>,
    /// Late jobs in percent of those that ran without a condition, 0 to 100: how good a promise is.
    pub late_percent: Option<f64>,
    /// Mean of response time / run time of the fulfilled jobs (LibraRisk 2006, section 5): it says
    /// nothing about jobs that were late or refused.
    pub mean_slowdown: Option<f64>,
    /// Mean of turnaround - run time of the jobs that ran, in seconds, at least 0: what a job with processors of its own waits for its start, and
    /// what one with a share, or suspended, stands still or goes slowly besides.
    pub mean_wait: Option<f64>,
    /// Sum of [`utility`] over the jobs that ran, in credits; None if a submitted job has no
    /// limit to its budget. The same for every policy, so that none of them gains by refusing it.
    pub utility: Option<f64>,
    /// Sum of the prices of the jobs that ran, as they were committed, in credits; None if nothing had a price, as in a queue.
    pub revenue: Option<f64>,
    /// Work of the jobs that ran / what the machine could have done from the first submission to
    /// the last end or submission, 0 to 1.
    pub utilisation: Option<f64>,
    /// Rejected jobs by reason.
    pub rejected_by_reason: BTreeMap<&'static str, u64>,
    /// Mean of end - deadline of all jobs that ended after it, with and without a condition, in seconds.
    pub mean_delay: Option<f64>,
    /// Greatest such delay, in seconds.
    pub longest_delay: Option<f64>,
    /// Accepted jobs that were refused at first, and promised when others had ended. Not told where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub promised_later: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a job was worth to the cluster, in credits (LibraSLA 2005, formula 1):
/// budget - delay × penalty rate, and 0 where it did not run.
///
/// A late result of a hard job is useless: its budget counts for nothing, and only what the penalty
/// exceeds it by remains. The paper's own runs have no such job. None if the budget is unlimited.
pub fn utility(outcome: &Outcome<'_>) -> Option<f64> {
    let terms = &outcome.job.terms;
    if terms.budget == f64::INFINITY {
        return None;
    }
    let Fate::Ended { finish, .. } = outcome.fate else {
        return Some(0.0);
    };
    if outcome.met() {
        return Some(terms.budget);
    }
    let left = terms.budget - (finish - outcome.job.due()) * terms.penalty_rate;
    Some(match terms.deadline_type {
        DeadlineType::Hard => left.min(0.0),
        DeadlineType::Soft => left,
    })
}

/// Sums up the outcomes of one run.
#[derive(Debug, Clone)]
pub struct MeasureObserver {
    /// Reference processors.
    capacity: f64,
    so_far: Measures,
    slowdown: Sum,
    wait: Sum,
    utility: Sum,
    revenue: Sum,
    unlimited: bool,
    work: Sum,
    submitted_work: Sum,
    fulfilled_work: Sum,
    delay: Sum,
    first: f64,
    last: f64,
}

impl MeasureObserver {
    /// Of a run on this machine, with no outcome yet.
    pub fn new(machine: &Machine) -> MeasureObserver {
        MeasureObserver {
            capacity: capacity(machine),
            so_far: Measures::default(),
            slowdown: Sum::default(),
            wait: Sum::default(),
            utility: Sum::default(),
            revenue: Sum::default(),
            unlimited: false,
            work: Sum::default(),
            submitted_work: Sum::default(),
            fulfilled_work: Sum::default(),
            delay: Sum::default(),
            first: f64::INFINITY,
            last: f64::NEG_INFINITY,
        }
    }

    /// The measures of what was told so far.
    pub fn measures(&self) -> Measures {
        let counts = &self.so_far;
        let span = self.last - self.first;
        let could_do = self.capacity * span;
        let percent = |part: f64, of: f64| (of > 0.0).then(|| part / of * 100.0);
        let unconditional = counts.accepted - counts.conditional;
        Measures {
            fulfilled_percent: percent(counts.fulfilled as f64, counts.submitted as f64),
            fulfilled_work_percent: percent(
                self.fulfilled_work.total(),
                self.submitted_work.total(),
            ),
            late_percent: percent(counts.late as f64, unconditional as f64),
            mean_slowdown: self.slowdown.mean(),
            mean_wait: self.wait.mean(),
            utility: (!self.unlimited && counts.submitted > 0).then(|| self.utility.total()),
            revenue: Some(self.revenue.total()).filter(|revenue| *revenue > 0.0),
            // Also where there was no job at all, and the span is no number.
            utilisation: (could_do > 0.0).then(|| self.work.total() / could_do),
            mean_delay: self.delay.mean(),
            ..counts.clone()
        }
    }
}

impl Observer for MeasureObserver {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let job = outcome.job;
        let counts = &mut self.so_far;
        counts.submitted += 1;
        self.submitted_work.add(work(outcome));
        self.first = self.first.min(job.submit);
        self.last = self.last.max(job.submit);
        self.unlimited |= job.terms.budget == f64::INFINITY;
        let finish = match outcome.fate {
            Fate::Refused { reason, .. } => {
                counts.rejected += 1;
                *counts.rejected_by_reason.entry(reason).or_default() += 1;
                return;
            }
            Fate::Ended { finish, price, .. } => {
                self.revenue.add(price);
                finish
            }
        };
        counts.accepted += 1;
        counts.conditional += u64::from(job.conditional());
        self.last = self.last.max(finish);
        self.wait.add((finish - job.submit - job.run_time).max(0.0));
        self.work.add(work(outcome));
        if let Some(worth) = utility(outcome) {
            self.utility.add(worth);
        }
        if outcome.met() {
            counts.fulfilled += 1;
            self.fulfilled_work.add(work(outcome));
            self.slowdown.add((finish - job.submit) / job.run_time);
        } else {
            match job.conditional() {
                true => counts.conditional_late += 1,
                false => counts.late += 1,
            }
            let delay = finish - job.due();
            self.delay.add(delay);
            counts.longest_delay = Some(counts.longest_delay.map_or(delay, |most| most.max(delay)));
        }
    }

    fn promised_later(&mut self) {
        self.so_far.promised_later += 1;
    }
}

/// Processor seconds of a job on reference nodes.
pub(super) fn work(outcome: &Outcome<'_>) -> f64 {
    outcome.job.run_time * f64::from(outcome.job.processors)
}

/// What a machine does in a second, in processor seconds of reference nodes.
pub(super) fn capacity(machine: &Machine) -> f64 {
    let nodes = machine.nodes.iter();
    nodes.map(|node| node.processors * node.rating).sum()
}

/// Tells two observers.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        self.0.outcome(outcome);
        self.1.outcome(outcome);
    }

    fn worked(&mut self, from: f64, to: f64, work: f64) {
        self.0.worked(from, to, work);
        self.1.worked(from, to, work);
    }

    fn promised_later(&mut self) {
        self.0.promised_later();
        self.1.promised_later();
    }
}

/// Tells an observer where there is one.
impl<A: Observer> Observer for Option<A> {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        if let Some(observer) = self {
            observer.outcome(outcome);
        }
    }

    fn worked(&mut self, from: f64, to: f64, work: f64) {
        if let Some(observer) = self {
            observer.worked(from, to, work);
        }
    }

    fn promised_later(&mut self) {
        if let Some(observer) = self {
            observer.promised_later();
        }
    }
}

/// Tells an observer by reference.
impl<A: Observer + ?Sized> Observer for &mut A {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        (**self).outcome(outcome);
    }

    fn worked(&mut self, from: f64, to: f64, work: f64) {
        (**self).worked(from, to, work);
    }

    fn promised_later(&mut self) {
        (**self).promised_later();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, job, refused};
    use super::*;
    use libra_workload::Job;

    fn of(outcomes: &[Outcome<'_>]) -> Measures {
        let mut measured = MeasureObserver::new(&Machine::uniform(2, 2));
        outcomes
            .iter()
            .for_each(|outcome| measured.outcome(outcome));
        measured.measures()
    }

    fn estimated(estimate: f64, mut job: Job) -> Job {
        job.terms.estimate = estimate;
        job
    }

    #[test]
    fn promises_under_a_condition_are_counted_apart() {
        // Due at 20; the second was estimated at 21.
        let jobs = [
            job(0.0, 10.0, 20.0),
            estimated(21.0, job(0.0, 10.0, 20.0)),
            estimated(20.0, job(0.0, 10.0, 20.0)),
        ];
        let late: Vec<Outcome<'_>> = jobs.iter().map(|job| ended(job, 0.0, 25.0)).collect();
        let measures = of(&late);
        assert_eq!((measures.accepted, measures.late), (3, 2));
        assert_eq!((measures.conditional, measures.conditional_late), (1, 1));
        assert_eq!(measures.late_percent, Some(100.0));
        assert_eq!(measures.mean_delay, Some(5.0));
        let only = of(&late[1..2]);
        assert_eq!((only.late, only.late_percent), (0, None));
        assert_eq!(only.fulfilled_work_percent, Some(0.0));
    }

    #[test]
    fn a_run_worked_out_by_hand() {
        // Four processors.
        let jobs = [
            // Starts at once, ends at 40 of 40: slowdown 4. Work 10 × 2 = 20.
            Job {
                processors: 2,
                ..job(0.0, 10.0, 40.0)
            },
            // Waits 10 s, ends at 50, 15 s late. Work 30.
            estimated(25.0, job(10.0, 30.0, 25.0)),
            // Starts at once, ends 20 s after submission: slowdown 1. Work 20. Estimated at more than its
            // deadline: a promise under a condition.
            estimated(50.0, job(20.0, 20.0, 40.0)),
            job(30.0, 5.0, 6.0),
            job(35.0, 5.0, 6.0),
        ];
        let measures = of(&[
            ended(&jobs[0], 0.0, 40.0),
            refused(&jobs[3], "share"),
            ended(&jobs[2], 20.0, 40.0),
            ended(&jobs[1], 20.0, 50.0),
            refused(&jobs[4], "budget"),
        ]);
        let expected = Measures {
            submitted: 5,
            accepted: 3,
            rejected: 2,
            fulfilled: 2,
            late: 1,
            conditional: 1,
            conditional_late: 0,
            fulfilled_percent: Some(40.0),
            // 20 + 20 of 20 + 30 + 20 + 5 + 5.
            fulfilled_work_percent: Some(50.0),
            // One of two: that of the other is conditional.
            late_percent: Some(50.0),
            mean_slowdown: Some(2.5),
            // 30 + 10 + 0: the first ran slowly, the second began late.
            mean_wait: Some(40.0 / 3.0),
            // 100 + 100 for the two in time; the late one is hard and has no penalty.
            utility: Some(200.0),
            // Each cost 3.
            revenue: Some(9.0),
            // 70 processor seconds of 4 × 50.
            utilisation: Some(0.35),
            rejected_by_reason: BTreeMap::from([("budget", 1), ("share", 1)]),
            mean_delay: Some(15.0),
            longest_delay: Some(15.0),
            promised_later: 0,
        };
        assert_eq!(measures, expected);
    }

    #[test]
    fn nothing_submitted_measures_nothing() {
        assert_eq!(of(&[]), Measures::default());
        let json = serde_json::to_value(Measures::default()).expect("plain data");
        assert_eq!(json["fulfilled_percent"], serde_json::Value::Null);
    }

    #[test]
    fn the_machine_waits_for_jobs_that_it_refuses() {
        // 10 processor seconds done of 4 × 100, although the last end was at 10.
        let jobs = [job(0.0, 10.0, 10.0), job(100.0, 1.0, 1.0)];
        let measures = of(&[ended(&jobs[0], 0.0, 10.0), refused(&jobs[1], "share")]);
        assert_eq!(measures.utilisation, Some(0.025));
    }

    #[test]
    fn utility_of_soft_and_hard_jobs() {
        let worth = |deadline_type, penalty_rate, finish| {
            let mut job = job(5.0, 10.0, 20.0);
            job.terms.deadline_type = deadline_type;
            job.terms.penalty_rate = penalty_rate;
            utility(&ended(&job, 5.0, finish))
        };
        use DeadlineType::{Hard, Soft};
        // Due at 25, budget 100.
        assert_eq!(worth(Soft, 3.0, 25.0), Some(100.0));
        assert_eq!(worth(Soft, 3.0, 35.0), Some(70.0));
        assert_eq!(worth(Soft, 3.0, 75.0), Some(-50.0));
        assert_eq!(worth(Hard, 3.0, 25.0), Some(100.0));
        assert_eq!(worth(Hard, 3.0, 35.0), Some(0.0));
        assert_eq!(worth(Hard, 3.0, 75.0), Some(-50.0));
        assert_eq!(worth(Hard, 0.0, 75.0), Some(0.0));
    }

    #[test]
    fn revenue_is_what_those_that_ran_had_agreed_to() {
        let jobs = [job(0.0, 10.0, 20.0), job(1.0, 10.0, 20.0)];
        let of_prices = |prices: [f64; 2]| {
            let mut ends = [ended(&jobs[0], 0.0, 50.0), ended(&jobs[1], 1.0, 11.0)];
            for (outcome, agreed) in ends.iter_mut().zip(prices) {
                if let Fate::Ended { price, .. } = &mut outcome.fate {
                    *price = agreed;
                }
            }
            let [late, met] = ends;
            of(&[late, met, refused(&jobs[1], "budget")]).revenue
        };
        assert_eq!(of_prices([7.0, 3.5]), Some(10.5));
        assert_eq!(of_prices([0.0, 0.0]), None);
    }

    #[test]
    fn one_unlimited_budget_leaves_utility_unknown_whatever_becomes_of_it() {
        let mut unlimited = job(0.0, 10.0, 20.0);
        unlimited.terms.budget = f64::INFINITY;
        let limited = job(1.0, 10.0, 20.0);
        for outcome in [refused(&unlimited, "share"), ended(&unlimited, 0.0, 10.0)] {
            let measures = of(&[outcome, ended(&limited, 1.0, 11.0)]);
            assert_eq!(measures.utility, None);
        }
    }
}
