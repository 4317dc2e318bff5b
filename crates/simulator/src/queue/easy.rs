//! EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001): FIFO, but while the head of the queue
//! waits, others behind it may start, in order of submission, if that does not move the head's
//! expected start.
//!
//! - The head's reservation is made anew at each pass, from the expected ends of the running jobs:
//!   start + estimate / rating. Jobs that have outlived their estimate are expected to end now.
//! - A job is started before its turn if its processors are free and it is either expected to end by
//!   the time of the reservation or needs none of the processors that the head will take then.
//! - No job is ended at its estimate, so the head may start later than once expected.
//!
//! A pass costs little while nothing has ended: the reservation stands, and what did not fit before
//! does not fit now. Only jobs that came since are looked at.

use super::expected::{Expected, ExpectedEnds};
use super::free::Placement;
use super::reservation::Reservation;
use super::site::Site;
use super::waiting::{Gap, Waiting};
use super::{Discipline, drive};
use crate::{Machine, Observer, Scheduler};
use libra_workload::Job;

/// EASY backfilling.
#[derive(Debug, Clone, Copy, Default)]
pub struct Easy;

impl Scheduler for Easy {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        drive(Backfilling::default(), jobs, machine, observer);
    }
}

#[derive(Default)]
struct Backfilling {
    waiting: Waiting,
    expected: ExpectedEnds,
    /// The head's reservation as of the last pass, if nothing has ended since: then it is still the
    /// same head, as only an end makes room for it.
    reservation: Option<Reservation>,
    /// The jobs up to this index, exclusive, have been examined under that reservation.
    examined: usize,
    /// The jobs up to this index, exclusive, have been submitted.
    submitted: usize,
}

impl Discipline for Backfilling {
    fn submitted(&mut self, index: usize, site: &Site<'_>) {
        let job = site.job(index);
        self.waiting.push(index, job.processors, job.terms.estimate);
        self.submitted = index + 1;
    }

    fn ended(&mut self, expected: Expected) {
        self.expected.remove(&expected);
        self.reservation = None;
    }

    fn pass(&mut self, site: &mut Site<'_>) {
        let (position, head) = loop {
            let Some(position) = self.waiting.head() else {
                return;
            };
            let index = self.waiting.job(position);
            let Some(placement) = site.place(index) else {
                break (position, index);
            };
            self.start(position, placement, site);
        };
        if self.waiting.len() < 2 || site.free() == 0 {
            return;
        }
        let kept = self
            .reservation
            .take()
            .filter(|reservation| reservation.lasts() && site.now() <= reservation.at);
        let (mut reservation, from) = match kept {
            Some(reservation) => (reservation, self.waiting.position(self.examined)),
            None => match Reservation::new(site.job(head), &self.expected, site) {
                Some(reservation) => (reservation, 0),
                None => return,
            },
        };
        self.backfill(from.max(position + 1), &mut reservation, site);
        self.reservation = Some(reservation);
        self.examined = self.submitted;
    }
}

impl Backfilling {
    /// Starts what may be started from this position on.
    fn backfill(&mut self, from: usize, reservation: &mut Reservation, site: &mut Site<'_>) {
        let fastest = site.fastest();
        let mut from = from;
        loop {
            // A little too long, so that rounding hides no job; what is found is checked exactly.
            let slack = (reservation.at - site.now() + reservation.at.abs() * 1e-14)
                * fastest
                * (1.0 + 1e-14);
            let gap = Gap {
                free: site.free(),
                extra: reservation.extra,
                slack,
            };
            let Some(position) = self.waiting.next(from, &gap) else {
                return;
            };
            from = position + 1;
            let index = self.waiting.job(position);
            let job = site.job(index);
            let Some(placement) = site.place(index) else {
                continue;
            };
            let end = site.expected_end(job, &placement);
            if reservation.admit(job, &placement, end, site) {
                self.start(position, placement, site);
            } else {
                site.undo(index, placement);
            }
        }
    }

    fn start(&mut self, position: usize, placement: Placement, site: &mut Site<'_>) {
        let expected = site.start(self.waiting.job(position), placement);
        self.expected.insert(expected);
        self.waiting.remove(position);
    }
}
