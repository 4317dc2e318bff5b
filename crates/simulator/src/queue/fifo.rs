//! First in, first out: strict order, no admission. A job whose processors are not free holds up
//! everything behind it. The PBS that Libra 2004 is compared with (section 5, Table I).

use super::site::Site;
use super::{Discipline, drive};
use crate::{Machine, Observer, Scheduler};
use libra_workload::Job;
use std::collections::VecDeque;

/// First in, first out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fifo;

impl Scheduler for Fifo {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        drive(Line::default(), jobs, machine, observer);
    }
}

/// The waiting jobs, in order of submission.
#[derive(Default)]
struct Line(VecDeque<usize>);

impl Discipline for Line {
    fn submitted(&mut self, index: usize, _site: &Site<'_>) {
        self.0.push_back(index);
    }

    fn pass(&mut self, site: &mut Site<'_>) {
        while let Some(&head) = self.0.front() {
            let Some(placement) = site.place(head) else {
                return;
            };
            site.start(head, placement);
            self.0.pop_front();
        }
    }
}
