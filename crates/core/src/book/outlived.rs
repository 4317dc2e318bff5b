//! Jobs that have had whole processors for as long as was promised to them: where the site's rule is that they get what others leave, what they
//! hold may be promised anew. Why is said in [`crate::decision::overrun`].
//!
//! Invariants:
//! - That moment is the one by which others' starts are planned ([`super::planned`]), and later by as long as the job stood suspended.
//! - Processors alone are free then. Memory, the batch system's own slots and consumables stay its own to its end.
//! - A batch system that counts shares itself still counts its share. Where it chooses the nodes, as it does for the jobs of an array, they are judged by
//!   that count.
//! - A job that is taken back into the queue begins anew and is promised its time anew. If others have its processors by then, the node has
//!   more promised than it has, and no other job comes there before that is over.

use super::judge::Nodes;
use super::{Alarm, Allocation, Book, BookedJob, Phase};
use crate::decision::overrun::PastDeadline;
use std::cmp::Reverse;

impl Book {
    /// When the processors of a job at one of its places may be promised anew; None if not before its end, or if it has not begun.
    fn outlives_at(&self, job: &BookedJob, place: &Allocation) -> Option<f64> {
        let gives_way = job.has_whole()
            && job.phase == Phase::Running
            && self.admission.rules.past != PastDeadline::KeepsShare;
        let suspended = job.suspended.as_deref().copied().unwrap_or(0.0);
        gives_way.then(|| self.own_time(job, place).1 + suspended)
    }

    /// Whether that is so now.
    pub(super) fn has_outlived(&self, job: &BookedJob, place: &Allocation) -> bool {
        (self.outlives_at(job, place)).is_some_and(|at| at <= self.now)
    }

    /// Whether that has come to be so at one of its places, and does not count yet.
    pub(super) fn outlives_now(&self, key: usize) -> bool {
        let job = self.job(key);
        (job.places.iter()).any(|place| !place.outlived && self.has_outlived(job, place))
    }

    /// The site's rule is another one now.
    pub(super) fn recount_whole(&mut self) {
        let live = |key: &usize| self.jobs[*key].as_ref().is_some_and(BookedJob::has_whole);
        let whole: Vec<usize> = (0..self.jobs.len()).filter(live).collect();
        for key in whole {
            (0..self.job(key).places.len()).for_each(|place| self.recount(key, place));
            self.await_outliving(key);
        }
    }

    /// Has the job looked at when that comes to be so next.
    pub(super) fn await_outliving(&mut self, key: usize) {
        let job = self.job(key);
        let next = (job.places.iter())
            .filter_map(|place| self.outlives_at(job, place))
            .filter(|at| *at > self.now)
            .min_by(f64::total_cmp);
        let token = job.token;
        if let Some(at) = next {
            self.alarms.push(Reverse(Alarm { at, token }));
        }
    }
}

impl<'a> Nodes<'a> {
    /// The same for a job that the batch system places itself, by its own count of shares, or not.
    pub(super) fn placed_by_system(mut self, is: bool) -> Nodes<'a> {
        self.by_its_count = is && self.book.reserve_committed_share;
        self
    }

    /// Processors that the batch system counts on a node and this book does not.
    pub(super) fn counted_beyond(&self, node: usize) -> f64 {
        match self.by_its_count {
            true => self.book.details[node].sums.outlived(),
            false => 0.0,
        }
    }

    /// Whether there are any.
    pub(super) fn is_any_counted_beyond(&self) -> bool {
        self.by_its_count && (0..self.book.nodes.len()).any(|node| self.counted_beyond(node) > 0.0)
    }
}
