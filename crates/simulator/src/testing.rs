//! Jobs and outcomes for the tests of what is measured.

use super::{Fate, Outcome};
use libra_core::decision::job::Terms;
use libra_workload::Job;

/// A job of one slot, with an exact estimate and a budget of 100.
pub fn job(submit: f64, run_time: f64, deadline: f64) -> Job {
    Job {
        number: 1,
        submit,
        run_time,
        terms: Terms::hard(run_time, deadline, 100.0),
        processors: 1,
        memory: 0,
        user: 0,
        queue: -1,
        logged_wait: -1.0,
        coupled: false,
    }
}

/// It ran on node 0, for 3 credits.
pub fn ended(job: &Job, start: f64, finish: f64) -> Outcome<'_> {
    let fate = Fate::Ended {
        start,
        finish,
        price: 3.0,
        nodes: &[0],
    };
    Outcome {
        index: 0,
        job,
        fate,
    }
}

/// It was refused when it came.
pub fn refused<'a>(job: &'a Job, reason: &'static str) -> Outcome<'a> {
    let at = job.submit;
    Outcome {
        index: 0,
        job,
        fate: Fate::Refused { at, reason },
    }
}
