//! EASY backfilling among jobs that can still be in time: what a site would run that knows deadlines and
//! promises nothing.
//!
//! - The queue stands in order of submission, or of deadlines (EDF with backfilling). Its head has a
//!   reservation, and others behind it may start, in that order, if that does not move it: see
//!   [`super::Easy`].
//! - A waiting job is dropped (`deadline`) once it is hopeless: started now it would end after its deadline
//!   by what it is planned to need, see [`planned`].

use super::expected::{Expected, ExpectedEnds};
use super::reservation::Reservation;
use super::site::Site;
use super::{Discipline, drive, planned};
use crate::{Machine, Observer, Scheduler};
use libra_workload::Job;

/// In what order jobs wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Of submission.
    Submission,
    /// Of deadlines; those due at one time in order of submission.
    Deadline,
}

/// EASY backfilling that drops hopeless jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropping {
    /// Who is first.
    pub order: Order,
    /// Part by which estimates are stretched, ≥ 0.
    pub estimate_margin: f64,
}

impl Scheduler for Dropping {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        let queue = Queue {
            rules: *self,
            waiting: Vec::new(),
            expected: ExpectedEnds::default(),
        };
        drive(queue, jobs, machine, observer);
    }
}

struct Queue {
    rules: Dropping,
    /// In their order. Hopeless ones leave, so they are never many.
    waiting: Vec<usize>,
    expected: ExpectedEnds,
}

impl Discipline for Queue {
    fn submitted(&mut self, index: usize, site: &Site<'_>) {
        let place = match self.rules.order {
            Order::Submission => self.waiting.len(),
            Order::Deadline => {
                let due = site.job(index).due();
                (self.waiting).partition_point(|&other| site.job(other).due() <= due)
            }
        };
        self.waiting.insert(place, index);
    }

    fn ended(&mut self, expected: Expected) {
        self.expected.remove(&expected);
    }

    fn pass(&mut self, site: &mut Site<'_>) {
        let margin = self.rules.estimate_margin;
        self.waiting.retain(|&index| {
            let job = site.job(index);
            let possible =
                job.met_by(site.now() + planned(&job.terms, margin) / site.best_rating(job));
            if !possible {
                site.refuse(index, "deadline");
            }
            possible
        });
        let mut started = 0;
        while let Some(&head) = self.waiting.get(started) {
            let Some(placement) = site.place(head) else {
                break;
            };
            self.expected.insert(site.start(head, placement));
            started += 1;
        }
        self.waiting.drain(..started);
        self.backfill(site);
    }
}

impl Queue {
    /// Starts what does not move the head, which has to wait.
    fn backfill(&mut self, site: &mut Site<'_>) {
        let [head, _, ..] = self.waiting[..] else {
            return;
        };
        let reservation = Reservation::new(site.job(head), &self.expected, site);
        let Some(mut reservation) = reservation else {
            return;
        };
        let mut place = 1;
        while place < self.waiting.len() && site.free() > 0 {
            let index = self.waiting[place];
            place += 1;
            let Some(placement) = site.place(index) else {
                continue;
            };
            let job = site.job(index);
            let end = site.expected_end(job, &placement);
            if reservation.admit(job, &placement, end, site) {
                self.expected.insert(site.start(index, placement));
                place -= 1;
                self.waiting.remove(place);
            } else {
                site.undo(index, placement);
            }
        }
    }
}
