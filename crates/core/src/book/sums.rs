//! What is committed on a node: the sums over its jobs, and who they are.
//!
//! Invariants:
//! - A sum is that over the node's jobs at their [`Allocation::counted`] shares, exactly: shares are counted in whole units, so what is taken
//!   off again leaves nothing behind, and no rounding piles up.
//! - Whoever changes a share, or what counts of it, calls [`Book::recount`]. That takes one step, however many jobs the node has, so
//!   that an array of many jobs costs about as much as they do one by one on an empty node.
//! - Tenants are shown in the order in which they came.

use super::{Allocation, Book, BookedJob};
use crate::decision::node::NodeSpec;
use crate::decision::policy::Policy;
use std::num::NonZeroU32;

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
    slots: u64,
    /// Those of them that are held for jobs to come.
    quoted: u64,
    /// Those of jobs that have whole processors.
    whole: u64,
}

impl Sums {
    /// What a job's part is in the sums of its node, at the share that they have of it.
    fn counted(job: &BookedJob, place: &Allocation) -> Sums {
        // Whoever begins or goes on later has no processors now; its memory is kept for it.
        let later = job.later().is_some();
        let slots = u64::from(place.chunks) * u64::from(job.request.shape.processors_per_chunk);
        let share = job.slots_at(place) * place.counted;
        Sums {
            committed: if later { 0 } else { (share * UNITS) as i128 },
            memory: u128::from(job.memory_at(place)),
            slots,
            quoted: if place.quoted { slots } else { 0 },
            whole: if job.request.terms.class.is_whole() && !later {
                slots
            } else {
                0
            },
        }
    }

    // Wrapping, since a sum that comes back into its range is right again.
    fn add(&mut self, other: &Sums) {
        self.committed = self.committed.wrapping_add(other.committed);
        self.memory = self.memory.wrapping_add(other.memory);
        self.slots = self.slots.wrapping_add(other.slots);
        self.quoted = self.quoted.wrapping_add(other.quoted);
        self.whole = self.whole.wrapping_add(other.whole);
    }

    fn release(&mut self, other: &Sums) {
        self.committed = self.committed.wrapping_sub(other.committed);
        self.memory = self.memory.wrapping_sub(other.memory);
        self.slots = self.slots.wrapping_sub(other.slots);
        self.quoted = self.quoted.wrapping_sub(other.quoted);
        self.whole = self.whole.wrapping_sub(other.whole);
    }

    fn committed(&self) -> f64 {
        self.committed as f64 / UNITS
    }

    /// Slots of the node's jobs, whatever their shares.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// Those of them that are held for jobs to come.
    pub(super) fn quoted(&self) -> u64 {
        self.quoted
    }
}

/// A job on a node: its key, and which of its places is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tenant {
    key: u32,
    /// Its number and one.
    place: NonZeroU32,
}

impl Tenant {
    fn new(key: usize, place: usize) -> Tenant {
        let place = (place as u32).saturating_add(1);
        Tenant {
            key: key as u32,
            place: NonZeroU32::new(place).unwrap_or(NonZeroU32::MAX),
        }
    }

    /// (key, place).
    fn numbers(self) -> (usize, usize) {
        (self.key as usize, self.place.get() as usize - 1)
    }
}

/// The jobs on a node: who came first and who came last. Each knows who came before and after it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tenants {
    first: Option<Tenant>,
    last: Option<Tenant>,
}

impl Book {
    /// All jobs on a node, (key, place of that job), in the order in which they came.
    pub(super) fn tenants(&self, node: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut next = self.details[node].tenants.first;
        std::iter::from_fn(move || {
            work::step();
            let (key, place) = next?.numbers();
            next = self.job(key).places[place].after;
            Some((key, place))
        })
    }

    fn part(&mut self, tenant: Tenant) -> &mut Allocation {
        let (key, place) = tenant.numbers();
        &mut self.job_mut(key).places[place]
    }

    /// A job that is in the book comes to the node of one of its places.
    pub(super) fn settle(&mut self, key: usize, place: usize) {
        let comes = Tenant::new(key, place);
        let node = self.part(comes).node as usize;
        let before = self.details[node].tenants.last.replace(comes);
        match before {
            Some(last) => self.part(last).after = Some(comes),
            None => self.details[node].tenants.first = Some(comes),
        }
        let part = self.part(comes);
        (part.before, part.after) = (before, None);
        let job = self.job_mut(key);
        let quoted = job.held_until.is_some();
        let part = &mut job.places[place];
        (part.counted, part.quoted) = (part.counted_share(), quoted);
        let counts = Sums::counted(self.job(key), &self.job(key).places[place]);
        self.nodes[node].planned += u32::from(self.job(key).later().is_some());
        self.details[node].sums.add(&counts);
        self.draw_on(key, place);
        work::step();
        self.show_sums(node);
    }

    /// A job that is to leave the book leaves the node of one of its places.
    pub(super) fn unsettle(&mut self, key: usize, place: usize) {
        work::step();
        let job = self.job(key);
        let Allocation {
            node,
            before,
            after,
            ..
        } = job.places[place];
        let counted = Sums::counted(job, &job.places[place]);
        let node = node as usize;
        match before {
            Some(tenant) => self.part(tenant).after = after,
            None => self.details[node].tenants.first = after,
        }
        match after {
            Some(tenant) => self.part(tenant).before = before,
            None => self.details[node].tenants.last = before,
        }
        self.nodes[node].planned -= u32::from(self.job(key).later().is_some());
        self.details[node].sums.release(&counted);
        self.give_back_on(key, place);
        self.show_sums(node);
    }

    /// A job's share on one of its nodes changed, or what counts of it: into the node's sums.
    pub(super) fn recount(&mut self, key: usize, place: usize) {
        work::step();
        let job = self.job(key);
        let part = &job.places[place];
        let (share, quoted) = (part.counted_share(), job.held_until.is_some());
        // Nothing else of what is counted changes while a job is on its nodes, and this is asked for each report of each job.
        if (share, quoted) == (part.counted, part.quoted) {
            return;
        }
        let node = part.node as usize;
        let before = Sums::counted(job, part);
        let part = &mut self.job_mut(key).places[place];
        (part.counted, part.quoted) = (share, quoted);
        let job = self.job(key);
        let counts = Sums::counted(job, &job.places[place]);
        let sums = &mut self.details[node].sums;
        sums.release(&before);
        sums.add(&counts);
        self.show_sums(node);
    }

    /// Writes a node's sums where decisions read them.
    pub(super) fn show_sums(&mut self, node: usize) {
        let details = &self.details[node];
        let (sums, others) = (details.sums, details.stock.memory_of_others);
        let shown = &mut self.nodes[node];
        let memory = u64::try_from(sums.memory).unwrap_or(u64::MAX);
        shown.committed = sums.committed();
        shown.memory_committed = memory.saturating_add(others);
        shown.whole = sums.whole as f64;
        self.reindex(node);
    }

    /// A node changed, or what is committed there.
    pub(super) fn reindex(&mut self, index: usize) {
        let node = &self.nodes[index];
        if self.admission.admission.policy.ranks_by_sums().is_none() {
            return;
        }
        if !node.available {
            self.index.remove(index);
            return;
        }
        let NodeSpec {
            processors,
            rating,
            memory,
        } = node.spec;
        if node.planned > 0 {
            self.index.set_apart(index, (rating, processors));
        } else {
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
