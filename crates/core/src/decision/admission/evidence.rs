//! Why a request did not fit, from what each node answered.

use super::{Admission, affordable, lacking};
use crate::decision::job::Request;
use crate::decision::node::{Cluster, SummedNode};
use crate::decision::node_index::{At, Entry, Kind, NodeIndex};
use crate::decision::policy::{Obstacle, Offer, Policy};
use crate::decision::pricing::Pricing;
use crate::decision::refusal::Reason;
use std::cmp::Reverse;

/// Of the nodes with one obstacle the one that came nearest, which has the least of `K`; of equals, the first.
#[derive(Debug, PartialEq)]
struct Nearest<K>(Option<(K, usize, Reason)>);

impl<K> Default for Nearest<K> {
    fn default() -> Nearest<K> {
        Nearest(None)
    }
}

impl<K: PartialOrd> Nearest<K> {
    fn hear(&mut self, by: K, node: usize, reason: Reason) {
        let is_nearer = match &self.0 {
            None => true,
            Some((least, first, _)) => by < *least || by == *least && node < *first,
        };
        if is_nearer {
            self.0 = Some((by, node, reason));
        }
    }

    fn reason(self) -> Option<Reason> {
        self.0.map(|(_, _, reason)| reason)
    }
}

/// What the nodes answered.
#[derive(Debug, Default, PartialEq)]
struct Evidence {
    /// Chunks that would fit, on all nodes together.
    fit: u64,
    /// The least share that a slot would need on a node that is too slow.
    slot: Option<f64>,
    /// [`Reason::Share`], by what is lacking.
    share: Nearest<f64>,
    /// [`Reason::Memory`], by what is free.
    memory: Nearest<Reverse<u64>>,
    /// [`Reason::Consumable`], by what is free: a node that has some of it, though too little, came nearer than one that never has any.
    consumable: Nearest<Reverse<Option<u64>>>,
    /// [`Reason::Time`], by what is lacking.
    time: Nearest<f64>,
    /// [`Reason::Risk`], by the delay.
    risk: Nearest<f64>,
    /// [`Reason::Return`], by the loss.
    earns: Nearest<f64>,
}

impl Evidence {
    /// What a node answered, for as many as are like it.
    fn hear(&mut self, node: usize, count: u64, answer: Result<Offer, Obstacle>) {
        match answer {
            Ok(offer) => self.fit += u64::from(offer.chunks) * count,
            Err(Obstacle::Slot { share }) => {
                self.slot = Some(self.slot.map_or(share, |least| least.min(share)));
            }
            // To whom no node has a place, none is open.
            Err(Obstacle::Slots) => {}
            Err(Obstacle::Share { needed, free }) => {
                (self.share).hear(needed - free, node, Reason::Share { needed, free, node });
            }
            Err(Obstacle::Memory { needed, free }) => {
                (self.memory).hear(Reverse(free), node, Reason::Memory { needed, free, node });
            }
            Err(Obstacle::Consumable { what, needed, free }) => {
                let reason = Reason::Consumable {
                    what,
                    needed,
                    free: free.unwrap_or(0),
                    node: Some(node),
                };
                self.consumable.hear(Reverse(free), node, reason);
            }
            Err(Obstacle::Time { needed, free }) => {
                (self.time).hear(needed - free, node, Reason::Time { needed, free, node });
            }
            Err(Obstacle::Risk { delay }) => {
                self.risk.hear(delay, node, Reason::Risk { delay, node });
            }
            Err(Obstacle::Return { with, without }) => {
                let reason = Reason::Return {
                    with,
                    without,
                    node,
                };
                self.earns.hear(without - with, node, reason);
            }
        }
    }
}

/// Finds the reason for a request that did not fit. The first that applies, in the order in
/// which a decision is made; of the nodes, the one that came nearest speaks.
pub(super) fn reason<P: Policy, Q: Pricing, C: Cluster + ?Sized>(
    admission: &Admission<P, Q>,
    cluster: &C,
    request: &Request,
) -> Reason {
    let price = admission.price_now(cluster, request);
    if !affordable(price, request.terms.budget) {
        return Reason::Budget {
            price,
            budget: request.terms.budget,
        };
    }
    if let Some((what, needed, free)) = lacking(cluster, request) {
        return Reason::Consumable {
            what,
            needed,
            free,
            node: None,
        };
    }
    let planned = admission.planned(request);
    // The index knows no consumables.
    let by_index = planned.shape.consumables.is_empty();
    let found = match cluster.index().filter(|search| search.all && by_index) {
        Some(search) if admission.policy.goes_by_sums().is_some() => {
            let mut found = of_an_index(&admission.policy, search.nodes, &planned);
            for index in search.nodes.apart() {
                if let Some(node) = cluster.node_for(index, &planned) {
                    found.hear(index, 1, admission.policy.offer(&node, &planned));
                }
            }
            found
        }
        _ => of_all_nodes(admission, cluster, &planned),
    };
    if found.fit > 0 {
        return Reason::Chunks {
            asked: request.shape.chunks,
            fit: found.fit.min(u64::from(u32::MAX)) as u32,
        };
    }
    // A node that lacks only memory, processors or a consumable came nearer than one that is too slow.
    let deadline = found.slot.map(|share| Reason::Deadline {
        fastest: share * planned.terms.deadline,
        deadline: planned.terms.deadline,
    });
    let full = (found.earns.reason())
        .or(found.time.reason())
        .or(found.risk.reason())
        .or(found.share.reason());
    (full.or(found.memory.reason()))
        .or(found.consumable.reason())
        .or(deadline)
        .unwrap_or(Reason::NoNode)
}

/// Asks every node, or one of those that are alike.
fn of_all_nodes<P: Policy, Q: Pricing, C: Cluster + ?Sized>(
    admission: &Admission<P, Q>,
    cluster: &C,
    planned: &Request,
) -> Evidence {
    let mut found = Evidence::default();
    cluster.expect_questions();
    for (node, count, answer) in admission.answers(cluster, planned) {
        found.hear(node, count, answer);
    }
    found
}

/// What all nodes of an index say to a request that do not stand apart, see [`Search::all`].
fn of_an_index<P: Policy>(policy: &P, nodes: &NodeIndex, request: &Request) -> Evidence {
    let mut evidence = Evidence::default();
    let roomy = |free: u64, node: u32| {
        let (needed, node) = (request.shape.memory_per_chunk, node as usize);
        (Reverse(free), node, Reason::Memory { needed, free, node })
    };
    let by_share = |kind: &Kind, entry: &Entry| {
        let node = SummedNode::of(kind, entry).without_memory();
        policy.offer(&node, request)
    };
    for kind in nodes.kinds() {
        let Some(first) = kind.blocks.first() else {
            continue;
        };
        if let Err(Obstacle::Slot { share }) = by_share(kind, &first.last) {
            evidence.slot = Some(evidence.slot.map_or(share, |least| least.min(share)));
            continue;
        }
        let with_room = kind.partition_point(|entry| by_share(kind, entry).is_err());
        let mut before = with_room;
        let mut lack = None;
        while let Some(at) = kind.previous(before) {
            let entry = &kind.blocks[at.block].entries[at.entry];
            let Err(Obstacle::Share { needed, free }) = by_share(kind, entry) else {
                break;
            };
            if lack.is_some_and(|lack| needed - free > lack) {
                break;
            }
            lack = Some(needed - free);
            // Of those that are full, each lacks as much as any other.
            let start = match free > 0.0 {
                true => kind.partition_point(|other| other.committed > entry.committed),
                false => At { block: 0, entry: 0 },
            };
            let node = kind.first_between(start, before) as usize;
            (evidence.share).hear(needed - free, node, Reason::Share { needed, free, node });
            before = start;
        }
        let mut at = with_room;
        while let Some(block) = kind.blocks.get(at.block) {
            let entries = &block.entries[at.entry..];
            let lacking = block.memory < request.shape.memory_per_chunk;
            if lacking && at.entry == 0 {
                let (by, node, reason) = roomy(block.memory, block.roomiest);
                evidence.memory.hear(by, node, reason);
            }
            for entry in entries.iter().filter(|_| !(lacking && at.entry == 0)) {
                match policy.offer(&SummedNode::of(kind, entry), request) {
                    Ok(offer) => evidence.fit += u64::from(offer.chunks),
                    Err(_) => {
                        let (by, node, reason) = roomy(entry.memory, entry.node);
                        evidence.memory.hear(by, node, reason);
                    }
                }
            }
            at = At {
                block: at.block + 1,
                entry: 0,
            };
        }
    }
    evidence
}
