//! Consumables: what nodes have of them, and the cluster, and who uses it up.
//!
//! Invariants:
//! - What is committed is the sum over the jobs of the book, exactly: a job counts from its acceptance to its end, whether it runs or not.
//! - What others use (jobs that this book does not have) is as the caller said last; it never makes what is committed less.
//! - Memory is counted with the shares ([`super::sums`]), beside which every decision reads it; of it only what others use is kept here.

use super::{Book, BookError, BookedJob};
use crate::decision::consumable::{Consumable, Scope};

/// One consumable, in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    what: Consumable,
    has: u64,
    others: u64,
    committed: u128,
}

/// All consumables of a node, or of the cluster: a handful, looked through.
#[derive(Debug, Clone, Default)]
pub(super) struct Stock {
    entries: Vec<Entry>,
    /// Bytes of memory that others use.
    pub(super) memory_of_others: u64,
}

impl Stock {
    fn entry(&mut self, what: Consumable) -> &mut Entry {
        let known = self.entries.iter().position(|entry| entry.what == what);
        let index = known.unwrap_or_else(|| {
            self.entries.push(Entry {
                what,
                has: 0,
                others: 0,
                committed: 0,
            });
            self.entries.len() - 1
        });
        &mut self.entries[index]
    }

    fn find(&self, what: Consumable) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.what == what)
    }

    /// What it has from now on, and nothing of anything else.
    fn set(&mut self, has: &[(Consumable, u64)]) {
        self.entries.iter_mut().for_each(|entry| entry.has = 0);
        for &(what, amount) in has {
            self.entry(what).has = amount;
        }
        (self.entries)
            .retain(|entry| entry.committed > 0 || has.iter().any(|(what, _)| *what == entry.what));
    }

    fn set_others(&mut self, taken: &[(Consumable, u64)]) {
        self.entries.iter_mut().for_each(|entry| entry.others = 0);
        for &(what, amount) in taken {
            let entry = self.entry(what);
            entry.others = entry.others.saturating_add(amount);
        }
    }

    // Wrapping, as the sums of shares: what comes back into its range is right again.
    fn add(&mut self, what: Consumable, amount: u128) {
        let entry = self.entry(what);
        entry.committed = entry.committed.wrapping_add(amount);
    }

    fn release(&mut self, what: Consumable, amount: u128) {
        let entry = self.entry(what);
        entry.committed = entry.committed.wrapping_sub(amount);
    }

    /// What is neither committed nor used by others; None if it is not counted.
    pub(super) fn free(&self, what: Consumable) -> Option<u64> {
        let entry = self.find(what)?;
        let taken = entry.committed.saturating_add(u128::from(entry.others));
        Some(u64::try_from(u128::from(entry.has).saturating_sub(taken)).unwrap_or(0))
    }

    fn overdrawn(&self) -> Option<&'static str> {
        let over = |entry: &&Entry| {
            entry.committed.saturating_add(u128::from(entry.others)) > u128::from(entry.has)
        };
        // Nobody has to give back what nobody has taken here.
        let of_jobs = (self.entries.iter()).filter(|entry| entry.committed > 0);
        of_jobs.clone().find(over).map(|entry| entry.what.name())
    }

    /// What there is of each, in the order in which it was named.
    pub(super) fn has(&self) -> Vec<(Consumable, u64)> {
        let there = self.entries.iter().filter(|entry| entry.has > 0);
        there.map(|entry| (entry.what, entry.has)).collect()
    }
}

impl Book {
    /// What a node has of its consumables, and nothing of any other. What is committed stays committed.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn set_consumables(
        &mut self,
        node: &str,
        has: &[(Consumable, u64)],
    ) -> Result<(), BookError> {
        let index = self.node_index(node)?;
        self.details[index].stock.set(has);
        Ok(())
    }

    /// What the cluster has of what is counted once for all nodes; of anything else there is no limit.
    pub fn set_cluster_consumables(&mut self, has: &[(Consumable, u64)]) {
        self.stock.set(has);
    }

    /// What jobs that this book does not have use on a node now: bytes of memory, and consumables. Each call replaces the one before.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn set_taken(
        &mut self,
        node: &str,
        memory: u64,
        taken: &[(Consumable, u64)],
    ) -> Result<(), BookError> {
        let index = self.node_index(node)?;
        let stock = &mut self.details[index].stock;
        stock.set_others(taken);
        stock.memory_of_others = memory;
        self.show_sums(index);
        Ok(())
    }

    /// The same of what is counted once for all nodes.
    pub fn set_cluster_taken(&mut self, taken: &[(Consumable, u64)]) {
        self.stock.set_others(taken);
    }

    /// What a node has free of a consumable; None if it is not counted or there is no such node.
    pub fn free_on(&self, node: &str, what: Consumable) -> Option<u64> {
        self.details[*self.by_name.get(node)?].stock.free(what)
    }

    /// What the cluster has free of one; None if there is no limit.
    pub fn free_in_all(&self, what: Consumable) -> Option<u64> {
        self.stock.free(what)
    }

    /// Bytes of memory that a node has free; None if there is no such node.
    pub fn free_memory_on(&self, node: &str) -> Option<u64> {
        let node = &self.nodes[*self.by_name.get(node)?];
        Some(node.spec.memory.saturating_sub(node.memory_committed))
    }

    /// Something that a node has promised more of than it has, jobs that this book does not have included; None if there is nothing, or no such
    /// node. So it is when a node was made smaller, or a job was put back that had nothing meanwhile.
    pub fn overdrawn(&self, node: &str) -> Option<&'static str> {
        let index = *self.by_name.get(node)?;
        let node = &self.nodes[index];
        match node.memory_committed > node.spec.memory {
            true => Some("mem"),
            false => self.details[index].stock.overdrawn(),
        }
    }

    /// A job that is in the book begins to use up what the whole cluster has.
    pub(super) fn draw(&mut self, key: usize) {
        let amounts = *self.job(key).request.shape.consumables();
        for (what, amount) in amounts.counted(Scope::Cluster) {
            self.stock.add(what, u128::from(amount));
        }
    }

    /// A job that is taken out does not any more.
    pub(super) fn give_back(&mut self, job: &BookedJob) {
        let amounts = *job.request.shape.consumables();
        for (what, amount) in amounts.counted(Scope::Cluster) {
            self.stock.release(what, u128::from(amount));
        }
    }

    /// The chunks of one of a job's places come to their node.
    pub(super) fn draw_on(&mut self, key: usize, place: usize) {
        self.each_on(key, place, Stock::add);
    }

    /// They leave it.
    pub(super) fn give_back_on(&mut self, key: usize, place: usize) {
        self.each_on(key, place, Stock::release);
    }

    fn each_on(&mut self, key: usize, place: usize, count: fn(&mut Stock, Consumable, u128)) {
        let job = self.job(key);
        if job.request.shape.consumables().is_empty() {
            return;
        }
        let amounts = *job.request.shape.consumables();
        let part = &job.places[place];
        let (node, chunks) = (part.node as usize, u128::from(part.chunks));
        for (what, amount) in amounts.counted(Scope::Node) {
            count(
                &mut self.details[node].stock,
                what,
                u128::from(amount) * chunks,
            );
        }
    }
}
