//! When a job's promise is over, and what becomes of one that runs on then: it may never end.
//!
//! | class | its promise is over |
//! | --- | --- |
//! | deadline | when it has used its estimate and passed its deadline; one that is late and has not used its estimate lacks what it did not get |
//! | dedicated, immediate | when it has had whole processors for its estimate as planned, whether it worked or not |
//! | best effort | nothing was promised to it |
//!
//! What is promised with whole processors is that time on them, by the deadline. A deadline that is far away makes it no longer: else an estimate of a
//! second would keep processors from all others for hours, for the price of a second. It is counted from when the job began, so that the side that
//! admits and the host know it alike, without a message.

use super::class::Class;
use super::node::JobOnNode;
use super::share::{DeadlineStatus, Need};

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum PastDeadline {
    /// It keeps the share committed to it, and gets more where others leave some.
    KeepsShare,
    /// It gets what all others leave, and what it holds may be committed anew.
    #[default]
    WhatIsLeft,
    /// As [`PastDeadline::WhatIsLeft`], and it is ended when it has used so many times its estimate, 1 or more.
    EndedAfter(f64),
}

impl PastDeadline {
    /// Returns true if this job gets nothing but what all others leave. `job`: its estimate as planned. `ran`: seconds since it began.
    /// `rating`: the node's.
    pub fn yields(self, job: &JobOnNode, ran: f64, need: Need, rating: f64) -> bool {
        self != PastDeadline::KeepsShare && is_over(job, ran, need, rating)
    }

    /// Returns true if this job is to be ended. `estimate`: as it was committed, seconds on a reference node.
    pub fn ends(self, job: &JobOnNode, ran: f64, need: Need, estimate: f64, rating: f64) -> bool {
        match self {
            PastDeadline::EndedAfter(times) => {
                is_over(job, ran, need, rating) && job.cput >= times * estimate / rating
            }
            PastDeadline::KeepsShare | PastDeadline::WhatIsLeft => false,
        }
    }
}

/// Whether the promise of a job is over that began `ran` seconds ago.
fn is_over(job: &JobOnNode, ran: f64, need: Need, rating: f64) -> bool {
    let terms = &job.terms;
    match terms.class {
        Class::Deadline => {
            // Without a deadline there is the estimate alone.
            let past = need.deadline_status == DeadlineStatus::Late || !terms.has_deadline();
            past && job.cput >= terms.estimate / rating
        }
        Class::Dedicated | Class::Immediate => {
            has_outlived(terms.class, ran, terms.estimate, rating)
        }
        // It runs for as long as it likes.
        Class::BestEffort => false,
    }
}

/// Whether a job of this class has had whole processors for as long as it asked for: `ran` seconds, of an estimate as planned, on a node of this
/// rating.
pub fn has_outlived(class: Class, ran: f64, estimate: f64, rating: f64) -> bool {
    class.is_whole() && ran >= estimate / rating
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::{LONGEST, Terms};

    fn job(cput: f64, walltime: f64) -> JobOnNode {
        JobOnNode {
            terms: Terms::hard(10.0, 20.0, 100.0),
            slots: 2,
            cput,
            walltime,
            held_share: 0.5,
            memory: 0,
            delay: 0.0,
        }
    }

    #[test]
    fn only_a_job_past_both_its_estimate_and_its_deadline_yields() {
        for (cput, walltime, rating, yields) in [
            (9.0, 25.0, 1.0, false),
            (11.0, 19.0, 1.0, false),
            (10.0, 20.0, 1.0, true),
            (6.0, 25.0, 2.0, true),
            (6.0, 25.0, 1.0, false),
        ] {
            let job = job(cput, walltime);
            let need = job.need(rating);
            for rule in [PastDeadline::WhatIsLeft, PastDeadline::EndedAfter(3.0)] {
                assert_eq!(
                    rule.yields(&job, walltime, need, rating),
                    yields,
                    "{cput} {walltime} {rating}"
                );
            }
            assert!(!PastDeadline::KeepsShare.yields(&job, walltime, need, rating));
        }
    }

    #[test]
    fn with_whole_processors_it_is_the_time_on_them_that_counts() {
        for (class, deadline) in [
            (Class::Dedicated, 1e6),
            (Class::Immediate, 1e6),
            (Class::Immediate, LONGEST),
        ] {
            for (cput, ran, rating, yields) in [
                // Whether it worked or not.
                (0.0, 10.0, 1.0, true),
                (9.9, 9.9, 1.0, false),
                (0.0, 5.0, 2.0, true),
                (4.9, 4.9, 2.0, false),
            ] {
                let mut job = job(cput, ran + 30.0);
                job.terms.class = class;
                job.terms.deadline = deadline;
                let need = job.need(rating);
                let is = |rule: PastDeadline| rule.yields(&job, ran, need, rating);
                assert_eq!(is(PastDeadline::WhatIsLeft), yields, "{class:?} {ran}");
                assert_eq!(is(PastDeadline::EndedAfter(2.0)), yields, "{class:?} {ran}");
                assert!(!is(PastDeadline::KeepsShare));
            }
            // It is ended by what it has used, as any other.
            let mut job = job(19.9, 100.0);
            (job.terms.class, job.terms.deadline) = (class, deadline);
            let ends = |job: &JobOnNode, ran| {
                PastDeadline::EndedAfter(2.0).ends(job, ran, job.need(1.0), 10.0, 1.0)
            };
            assert!(!ends(&job, 50.0));
            job.cput = 20.0;
            assert!(ends(&job, 50.0));
            assert!(!ends(&job, 9.0), "it is in its time");
        }
    }

    #[test]
    fn it_is_ended_by_what_it_has_used() {
        let rule = PastDeadline::EndedAfter(3.0);
        let ends = |rule: PastDeadline, cput, walltime, rating| {
            let job = job(cput, walltime);
            rule.ends(&job, walltime, job.need(rating), 10.0, rating)
        };
        assert!(!ends(rule, 29.0, 100.0, 1.0));
        assert!(ends(rule, 30.0, 100.0, 1.0));
        assert!(ends(rule, 15.0, 100.0, 2.0));
        // Its deadline is still to come.
        assert!(!ends(rule, 30.0, 19.0, 1.0));
        assert!(!ends(PastDeadline::WhatIsLeft, 300.0, 1000.0, 1.0));
        assert!(!ends(PastDeadline::KeepsShare, 300.0, 1000.0, 1.0));
    }
}
