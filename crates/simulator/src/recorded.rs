//! What the log really did: every job starts and ends when the log says so. Nobody decides anything; it is what a policy is to be compared with
//! at the site that the log is from.
//!
//! It holds for the log's own submissions on the log's own machine. A job of which the log does not say how long it waited counts as
//! refused (`not-recorded`).

use super::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_workload::Job;

/// Its name among the policies.
pub const NAME: &str = "recorded";

/// The log's own starts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded;

impl Scheduler for Recorded {
    fn run(&mut self, jobs: &[Job], _machine: &Machine, observer: &mut dyn Observer) {
        let mut ends: Vec<(f64, usize)> = (jobs.iter().enumerate())
            .map(|(index, job)| (known_at(job), index))
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (at, index) in ends {
            let job = &jobs[index];
            let fate = match job.logged_wait >= 0.0 {
                true => Fate::Ended {
                    start: job.submit + job.logged_wait,
                    finish: at,
                    price: 0.0,
                    nodes: &[],
                },
                false => Fate::Refused {
                    at,
                    reason: "not-recorded",
                },
            };
            observer.outcome(&Outcome { index, job, fate });
        }
    }
}

/// When it is known what becomes of a job, seconds of the simulation.
fn known_at(job: &Job) -> f64 {
    match job.logged_wait >= 0.0 {
        true => job.submit + job.logged_wait + job.run_time,
        false => job.submit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;

    #[test]
    fn jobs_end_as_the_log_says_and_are_told_in_that_order() {
        let waited = |wait, job| Job {
            logged_wait: wait,
            ..job
        };
        let jobs = [
            waited(100.0, job(0.0, 50.0, 200.0)),
            waited(0.0, job(10.0, 20.0, 15.0)),
            waited(-1.0, job(20.0, 20.0, 200.0)),
        ];
        struct Told(Vec<(usize, Option<f64>, bool)>);
        impl Observer for Told {
            fn outcome(&mut self, outcome: &Outcome<'_>) {
                let finish = match outcome.fate {
                    Fate::Ended { finish, .. } => Some(finish),
                    Fate::Refused { .. } => None,
                };
                self.0.push((outcome.index, finish, outcome.met()));
            }
        }
        let mut told = Told(Vec::new());
        Recorded.run(&jobs, &Machine::uniform(1, 1), &mut told);
        assert_eq!(
            told.0,
            [
                (2, None, false),
                (1, Some(30.0), false),
                (0, Some(150.0), true)
            ]
        );
    }
}
