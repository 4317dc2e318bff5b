//! What is committed on a node: the sums over its jobs, and who they are.
//!
//! Invariants:
//! - A sum is that over what [`Allocation::counted`] says of the node's jobs, exactly: shares are counted in whole units, so what is taken
//!   off again leaves nothing behind, and no rounding piles up.
//! - Whoever changes a share, or what counts of it, calls [`Book::recount`]. That takes one step, however many jobs the node has, so
//!   that an array of many jobs costs about as much as they do one by one on an empty node.
//! - Tenants are shown in the order in which they came.

use super::{Allocation, Book, BookedJob};
use crate::decision::node::NodeSpec;
use crate::decision::policy::Policy;
use std::collections::BTreeMap;

/// Units of a processor: 2^72, of which a share down to 2^-19 loses nothing, and an i128 holds more than all processors of a node.
const UNITS: f64 = (1u128 << 72) as f64;

/// What jobs take up together on a node, or one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    /// Processors, in [`UNITS`].
    committed: i128,
    /// Bytes.
    memory: u128,
    /// Slots, whatever their shares.
    slots: u128,
    /// Those of them that are held for jobs to come.
    quoted: u128,
}

impl Sums {
    fn of(job: &BookedJob, place: &Allocation) -> Sums {
        let slots = u128::from(place.chunks) * u128::from(job.request.shape.processors_per_chunk);
        let share = super::judge::slots(&job.request, place.chunks) * place.counted_share();
        Sums {
            committed: (share * UNITS) as i128,
            memory: u128::from(super::judge::memory(&job.request, place.chunks)),
            slots,
            quoted: if job.held_until.is_some() { slots } else { 0 },
        }
    }

    // Wrapping, since a sum that comes back into its range is right again.
    fn add(&mut self, other: &Sums) {
        self.committed = self.committed.wrapping_add(other.committed);
        self.memory = self.memory.wrapping_add(other.memory);
        self.slots = self.slots.wrapping_add(other.slots);
        self.quoted = self.quoted.wrapping_add(other.quoted);
    }

    fn release(&mut self, other: &Sums) {
        self.committed = self.committed.wrapping_sub(other.committed);
        self.memory = self.memory.wrapping_sub(other.memory);
        self.slots = self.slots.wrapping_sub(other.slots);
        self.quoted = self.quoted.wrapping_sub(other.quoted);
    }

    fn committed(&self) -> f64 {
        self.committed as f64 / UNITS
    }
}

/// The jobs on a node, each with its number there.
#[derive(Debug, Clone, Default)]
pub(super) struct Tenants {
    next: u64,
    /// (job, place of that job), by their numbers, which count up.
    by_number: BTreeMap<u64, (usize, usize)>,
}

impl Tenants {
    fn add(&mut self, key: usize, place: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_number.insert(number, (key, place));
        number
    }

    fn remove(&mut self, number: u64) {
        self.by_number.remove(&number);
    }

    /// All of them, (job, place of that job), in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.by_number.values().map(|&tenant| {
            work::step();
            tenant
        })
    }
}

impl Book {
    /// A job that is in the book comes to the node of one of its places.
    pub(super) fn settle(&mut self, key: usize, place: usize) {
        let node = self.job(key).places[place].node;
        let number = self.details[node].tenants.add(key, place);
        let allocation = &mut self.job_mut(key).places[place];
        (allocation.number, allocation.counted) = (number, Sums::default());
        self.recount(key, place);
    }

    /// A job that is taken out of the book leaves the node of one of its places.
    pub(super) fn unsettle(&mut self, place: &Allocation) {
        work::step();
        self.details[place.node].tenants.remove(place.number);
        self.details[place.node].sums.release(&place.counted);
        self.show_sums(place.node);
    }

    /// A job's share on one of its nodes changed, or what counts of it: into the node's sums.
    pub(super) fn recount(&mut self, key: usize, place: usize) {
        work::step();
        let job = self.job(key);
        let counts = Sums::of(job, &job.places[place]);
        let allocation = &mut self.job_mut(key).places[place];
        let node = allocation.node;
        let counted = std::mem::replace(&mut allocation.counted, counts);
        let sums = &mut self.details[node].sums;
        sums.release(&counted);
        sums.add(&counts);
        self.show_sums(node);
    }

    /// Writes a node's sums where decisions read them.
    fn show_sums(&mut self, node: usize) {
        let sums = self.details[node].sums;
        let shown = &mut self.nodes[node];
        let whole = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        shown.committed = sums.committed();
        shown.memory_committed = whole(sums.memory);
        shown.slots = whole(sums.slots);
        shown.quoted_slots = whole(sums.quoted);
        self.reindex(node);
    }

    /// A node changed, or what is committed there.
    pub(super) fn reindex(&mut self, index: usize) {
        let node = &self.nodes[index];
        if !node.available {
            self.index.remove(index);
        } else if self.admission.policy.goes_by_sums().is_some() {
            let NodeSpec {
                processors,
                rating,
                memory,
            } = node.spec;
            let free = memory.saturating_sub(node.memory_committed);
            (self.index).set(index, (rating, processors), node.committed, free);
        }
    }
}

impl Allocation {
    /// The share that counts in the node's sum, per slot.
    pub(super) fn counted_share(&self) -> f64 {
        self.share.max(self.committed_share)
    }
}

/// Steps that the book takes, counted for tests: what costs more than a constant each must not be among what is done once for each
/// job of an array.
pub(super) mod work {
    #[cfg(test)]
    use std::cell::Cell;

    #[cfg(test)]
    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    #[cfg(test)]
    pub(in crate::book) fn step() {
        STEPS.with(|steps| steps.set(steps.get() + 1));
    }

    #[cfg(not(test))]
    #[inline(always)]
    pub(in crate::book) fn step() {}

    /// Steps that something takes.
    #[cfg(test)]
    pub(in crate::book) fn steps<T>(what: impl FnOnce() -> T) -> (T, u64) {
        let before = STEPS.with(Cell::get);
        let result = what();
        (result, STEPS.with(Cell::get) - before)
    }
}
