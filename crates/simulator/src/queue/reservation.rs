//! EASY's reservation: when the head of the queue is expected to start, and what others may hold at
//! that time without moving it.
//!
//! It promises a time, not which processors. Where the head asks for no memory, counting processors
//! is enough. Where it does, what is expected to be free on each node is kept, and a job that would
//! still run then is let in if the head fits on what that leaves.

use super::expected::ExpectedEnds;
use super::free::{NodeFree, Placement};
use super::site::Site;
use libra_core::decision::node::NodeSpec;
use libra_workload::Job;

/// The head's reservation.
pub(super) struct Reservation {
    /// When the head is expected to start; not before it was made.
    pub at: f64,
    /// Processors that are expected to be free then and that the head does not need.
    pub extra: u32,
    /// The nodes at that time, where the head asks for memory.
    nodes: Option<Nodes>,
}

struct Nodes {
    free: Vec<NodeFree>,
    /// Memory of a slot of the head.
    memory: u64,
    /// Slots of the head.
    wanted: u64,
    /// Slots of the head that would fit.
    fit: u64,
}

impl Nodes {
    /// Gives a slot's processor and memory back to a node.
    fn give_back(&mut self, node: u32, memory: u64) {
        let free = &mut self.free[node as usize];
        self.fit -= u64::from(free.slots(self.memory));
        free.processors += 1;
        if free.memory != NodeSpec::MEMORY_UNLIMITED {
            free.memory += memory;
        }
        self.fit += u64::from(free.slots(self.memory));
    }

    /// Takes them. The node has them, as they are free before the time of the reservation.
    fn take(&mut self, node: u32, memory: u64) {
        let free = &mut self.free[node as usize];
        self.fit -= u64::from(free.slots(self.memory));
        free.processors = free.processors.saturating_sub(1);
        if free.memory != NodeSpec::MEMORY_UNLIMITED {
            free.memory = free.memory.saturating_sub(memory);
        }
        self.fit += u64::from(free.slots(self.memory));
    }
}

impl Reservation {
    /// For a head that does not fit now. None if it would not fit on the empty machine.
    pub fn new(head: &Job, expected: &ExpectedEnds, site: &Site<'_>) -> Option<Reservation> {
        let free = u64::from(site.free());
        let wanted = u64::from(head.processors);
        if !site.counts(head.memory) {
            let relief = expected.relief(wanted.saturating_sub(free), site.now())?;
            return Some(Reservation {
                at: relief.at,
                extra: (free + relief.processors - wanted) as u32,
                nodes: None,
            });
        }
        let by_node = site.free_by_node();
        let fit = by_node
            .iter()
            .map(|node| u64::from(node.slots(head.memory)))
            .sum();
        let mut nodes = Nodes {
            free: by_node,
            memory: head.memory,
            wanted,
            fit,
        };
        let mut processors = free;
        let mut at: Option<f64> = None;
        for entry in expected.iter() {
            if at.is_some_and(|at| entry.end > at) {
                break;
            }
            site.for_each_node_of(entry.run, |node, memory| nodes.give_back(node, memory));
            processors += u64::from(entry.processors);
            if at.is_none() && nodes.fit >= wanted {
                at = Some(entry.end.max(site.now()));
            }
        }
        Some(Reservation {
            at: at?,
            extra: (processors - wanted) as u32,
            nodes: Some(nodes),
        })
    }

    /// Returns true if it can be kept while nothing ends, until its time has come. Not with nodes: which of them a
    /// waiting job would get, and so whether it is in the way, changes with each start.
    pub fn lasts(&self) -> bool {
        self.nodes.is_none()
    }

    /// Returns true if this job may start now on these processors, being expected to end at `end`. If so, what it
    /// holds at the time of the reservation is no longer extra.
    pub fn admit(&mut self, job: &Job, placement: &Placement, end: f64, site: &Site<'_>) -> bool {
        if end <= self.at {
            return true;
        }
        if job.processors > self.extra {
            return false;
        }
        if let Some(nodes) = &mut self.nodes {
            site.for_each_node(placement, |node| nodes.take(node, job.memory));
            if nodes.fit < nodes.wanted {
                site.for_each_node(placement, |node| nodes.give_back(node, job.memory));
                return false;
            }
        }
        self.extra -= job.processors;
        true
    }
}
