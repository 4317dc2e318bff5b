//! Earliest deadline first, not preemptive (LibraRisk 2006, section 4).
//!
//! Whenever a job ends or is submitted, the waiting job with the earliest deadline is selected anew.
//! It is refused (`deadline`) if by its estimate it could no longer be finished in time; otherwise
//! it starts if its processors are free, and if they are not, everything waits with it. So a job is
//! judged when it is selected and never before, and one with an earlier deadline overtakes.
//!
//! On nodes of unequal ratings a selected job is judged on the processors that it would get now;
//! while they are not free, on the fastest that it could ever get.

use super::site::Site;
use super::{Discipline, drive};
use crate::{Machine, Observer, Scheduler};
use libra_workload::Job;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Earliest deadline first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edf;

impl Scheduler for Edf {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        drive(Waiting::default(), jobs, machine, observer);
    }
}

/// The waiting jobs.
#[derive(Default)]
struct Waiting(BinaryHeap<Due>);

/// A job and when it is due. The greatest is the one that is due first; of two that are due at one
/// time, the one submitted first.
struct Due {
    due: f64,
    index: usize,
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other
            .due
            .total_cmp(&self.due)
            .then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

impl Discipline for Waiting {
    fn submitted(&mut self, index: usize, site: &Site<'_>) {
        let due = site.job(index).due();
        self.0.push(Due { due, index });
    }

    fn pass(&mut self, site: &mut Site<'_>) {
        while let Some(&Due { index, .. }) = self.0.peek() {
            let job = site.job(index);
            let placement = site.place(index);
            let rating = placement
                .as_ref()
                .map_or_else(|| site.best_rating(job), |placement| placement.rating);
            let in_time = job.met_by(site.now() + job.terms.estimate / rating);
            match placement {
                Some(placement) if in_time => {
                    site.start(index, placement);
                }
                None if in_time => return,
                refused => {
                    if let Some(placement) = refused {
                        site.undo(index, placement);
                    }
                    site.refuse(index, "deadline");
                }
            }
            self.0.pop();
        }
    }
}
