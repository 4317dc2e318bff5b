//! Why a request did not fit, from what each node answered.

use super::{Admission, affordable, lacking};
use crate::decision::job::Request;
use crate::decision::node::{Cluster, SummedNode};
use crate::decision::node_index::{At, Entry, Kind, NodeIndex};
use crate::decision::policy::{Obstacle, Policy};
use crate::decision::pricing::Pricing;
use crate::decision::refusal::Reason;

/// What the nodes answered, of each obstacle that of the node that came nearest; of equals, of the first.
#[derive(Debug, Default, PartialEq)]
struct Evidence {
    /// Chunks that would fit, on all nodes together.
    fit: u64,
    /// The least share that a slot would need on a node that is too slow.
    slot: Option<f64>,
    /// [`Reason::Share`].
    share: Option<Reason>,
    /// [`Reason::Memory`].
    memory: Option<Reason>,
    /// [`Reason::Consumable`].
    consumable: Option<Reason>,
    /// [`Reason::Time`].
    time: Option<Reason>,
    /// [`Reason::Risk`].
    risk: Option<Reason>,
    /// [`Reason::Return`].
    earns: Option<Reason>,
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
            of_an_index(&admission.policy, search.nodes, &planned)
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
    let full = (found.earns).or(found.time).or(found.risk).or(found.share);
    (full.or(found.memory).or(found.consumable).or(deadline)).unwrap_or(Reason::NoNode)
}

/// Asks every node, or one of those that are alike.
fn of_all_nodes<P: Policy, Q: Pricing, C: Cluster + ?Sized>(
    admission: &Admission<P, Q>,
    cluster: &C,
    planned: &Request,
) -> Evidence {
    let mut found = Evidence::default();
    let mut most: Option<Option<u64>> = None;
    for (node, count, answer) in admission.answers(cluster, planned) {
        match answer {
            Ok(offer) => found.fit += u64::from(offer.chunks) * count,
            Err(Obstacle::Slot { share }) => {
                found.slot = Some(found.slot.map_or(share, |least| least.min(share)));
            }
            // To whom no node has a place, none is open.
            Err(Obstacle::Slots) => {}
            Err(Obstacle::Share { needed, free }) => match found.share {
                Some(Reason::Share {
                    needed: n, free: f, ..
                }) if needed - free >= n - f => {}
                _ => found.share = Some(Reason::Share { needed, free, node }),
            },
            Err(Obstacle::Memory { needed, free }) => match found.memory {
                Some(Reason::Memory { free: most, .. }) if free <= most => {}
                _ => found.memory = Some(Reason::Memory { needed, free, node }),
            },
            // A node that has some of it, though too little, came nearer than one that never has any.
            Err(Obstacle::Consumable { free, .. }) if most.is_some_and(|most| free <= most) => {}
            Err(Obstacle::Consumable { what, needed, free }) => {
                most = Some(free);
                found.consumable = Some(Reason::Consumable {
                    what,
                    needed,
                    free: free.unwrap_or(0),
                    node: Some(node),
                });
            }
            Err(Obstacle::Time { needed, free }) => match found.time {
                Some(Reason::Time {
                    needed: n, free: f, ..
                }) if needed - free >= n - f => {}
                _ => found.time = Some(Reason::Time { needed, free, node }),
            },
            Err(Obstacle::Risk { delay }) => match found.risk {
                Some(Reason::Risk { delay: least, .. }) if delay >= least => {}
                _ => found.risk = Some(Reason::Risk { delay, node }),
            },
            Err(Obstacle::Return { with, without }) => match found.earns {
                Some(Reason::Return {
                    with: w,
                    without: o,
                    ..
                }) if with - without <= w - o => {}
                _ => {
                    found.earns = Some(Reason::Return {
                        with,
                        without,
                        node,
                    });
                }
            },
        }
    }
    found
}

/// What all nodes of an index say to a request, see [`Search::all`].
fn of_an_index<P: Policy>(policy: &P, nodes: &NodeIndex, request: &Request) -> Evidence {
    let mut evidence = Evidence::default();
    // Lacks least of all; of equals, the first node.
    let mut nearest = (f64::INFINITY, usize::MAX);
    let mut roomiest: Option<(u64, usize)> = None;
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
            if (needed - free)
                .total_cmp(&nearest.0)
                .then(node.cmp(&nearest.1))
                .is_lt()
            {
                nearest = (needed - free, node);
                evidence.share = Some(Reason::Share { needed, free, node });
            }
            before = start;
        }
        let mut at = with_room;
        while let Some(block) = kind.blocks.get(at.block) {
            let entries = &block.entries[at.entry..];
            let lacking = block.memory < request.shape.memory_per_chunk;
            if lacking && at.entry == 0 {
                roomiest = roomier(roomiest, block.memory, block.roomiest);
            }
            for entry in entries.iter().filter(|_| !(lacking && at.entry == 0)) {
                match policy.offer(&SummedNode::of(kind, entry), request) {
                    Ok(offer) => evidence.fit += u64::from(offer.chunks),
                    Err(_) => roomiest = roomier(roomiest, entry.memory, entry.node),
                }
            }
            at = At {
                block: at.block + 1,
                entry: 0,
            };
        }
    }
    evidence.memory = roomiest.map(|(free, node)| Reason::Memory {
        needed: request.shape.memory_per_chunk,
        free,
        node,
    });
    evidence
}

fn roomier(known: Option<(u64, usize)>, memory: u64, node: u32) -> Option<(u64, usize)> {
    let node = node as usize;
    match known {
        Some((most, first)) if memory < most || (memory == most && node > first) => known,
        _ => Some((memory, node)),
    }
}
