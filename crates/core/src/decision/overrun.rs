//! What becomes of a job that has used its estimate and passed its deadline: its promise is over, and it may never end.
//!
//! A job that is late and has not used its estimate is none of these: what it lacks it did not get.

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
    /// Returns true if this job gets nothing but what all others leave. `job`: its estimate as planned. `rating`: the node's.
    pub fn yields(self, job: &JobOnNode, need: Need, rating: f64) -> bool {
        self != PastDeadline::KeepsShare && is_past(job, need, rating)
    }

    /// Returns true if this job is to be ended. `estimate`: as it was committed, seconds on a reference node.
    pub fn ends(self, job: &JobOnNode, need: Need, estimate: f64, rating: f64) -> bool {
        match self {
            // What is promised nothing runs for as long as it likes.
            PastDeadline::EndedAfter(_) if job.terms.class == Class::BestEffort => false,
            PastDeadline::EndedAfter(times) => {
                is_past(job, need, rating) && job.cput >= times * estimate / rating
            }
            _ => false,
        }
    }
}

fn is_past(job: &JobOnNode, need: Need, rating: f64) -> bool {
    // Without a deadline there is the estimate alone.
    let past = need.deadline_status == DeadlineStatus::Late || !job.terms.has_deadline();
    past && job.cput >= job.terms.estimate / rating
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::Terms;

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
                    rule.yields(&job, need, rating),
                    yields,
                    "{cput} {walltime} {rating}"
                );
            }
            assert!(!PastDeadline::KeepsShare.yields(&job, need, rating));
        }
    }

    #[test]
    fn it_is_ended_by_what_it_has_used() {
        let rule = PastDeadline::EndedAfter(3.0);
        let ends = |rule: PastDeadline, cput, walltime, rating| {
            let job = job(cput, walltime);
            rule.ends(&job, job.need(rating), 10.0, rating)
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
