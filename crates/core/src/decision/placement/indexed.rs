//! Placing by an index: the same nodes as a scan over all of them finds, ties included.

use super::{Candidates, Placement, is_ranked_first};
use crate::decision::job::Request;
use crate::decision::node::{Cluster, SummedNode};
use crate::decision::node_index::{At, Entry, Kind, Search};
use crate::decision::policy::{NodeChoice, Obstacle, Offer, Policy};

/// More nodes than this part of all were looked at in vain: the search gives up, and all are looked at in their order, which costs less for
/// each. Only where nodes are asked themselves: the cluster has some of the index's, or the policy looks at their jobs.
const IN_VAIN: usize = 16;

/// Too many nodes were looked at in vain.
pub(super) struct GaveUp;

/// A search that is under way.
struct Finder<'a, P, C: ?Sized> {
    policy: &'a P,
    cluster: &'a C,
    request: &'a Request,
    search: Search<'a>,
    /// Whether the sums say what a node answers, or only which is the best.
    by_sums: bool,
    /// So many more may be looked at in vain.
    patience: usize,
}

impl<P: Policy, C: Cluster + ?Sized> Finder<'_, P, C> {
    fn new<'a>(
        policy: &'a P,
        cluster: &'a C,
        search: Search<'a>,
        request: &'a Request,
    ) -> Finder<'a, P, C> {
        Finder {
            policy,
            cluster,
            request,
            search,
            by_sums: policy.goes_by_sums().is_some(),
            patience: cluster.len() / IN_VAIN + 64,
        }
    }

    /// What a node says by its sums.
    #[inline(always)]
    fn by_sums(&self, kind: &Kind, entry: &Entry) -> Result<Offer, Obstacle> {
        self.policy
            .offer(&SummedNode::of(kind, entry), self.request)
    }

    /// What it says if memory is no matter. Of a kind, this falls from the emptiest to the fullest, or is the same for all.
    #[inline(always)]
    fn by_share(&self, kind: &Kind, entry: &Entry) -> Result<Offer, Obstacle> {
        let node = SummedNode::of(kind, entry).without_memory();
        self.policy.offer(&node, self.request)
    }

    /// What it offers in this cluster; None for nothing.
    #[inline(always)]
    fn offer(&mut self, kind: &Kind, entry: &Entry) -> Result<Option<Offer>, GaveUp> {
        let offer = match self.search.all && self.by_sums {
            true => self.by_sums(kind, entry).ok(),
            false => ask(self.policy, self.cluster, entry.node as usize, self.request),
        };
        if offer.is_none() {
            self.patience = self.patience.checked_sub(1).ok_or(GaveUp)?;
        }
        Ok(offer)
    }

    /// Whether its sums say that neither this node nor a fuller one of its kind has room. Of a policy that looks at every job that is where none of the
    /// kind had room if it were empty, as sums show no jobs.
    #[inline(always)]
    fn is_full(&self, kind: &Kind, entry: &Entry) -> bool {
        self.by_share(kind, entry).is_err()
    }

    fn memory(&self) -> u64 {
        self.request.shape.memory_per_chunk
    }

    /// The first node that has processors for a chunk; None if no node of this kind is fast enough, however empty.
    fn first_with_room(&self, kind: &Kind) -> Option<At> {
        let any = kind.blocks.first()?.last;
        if let Err(Obstacle::Slot { .. }) = self.by_share(kind, &any) {
            return None;
        }
        Some(kind.partition_point(|entry| self.by_share(kind, entry).is_err()))
    }

    /// The fullest first.
    fn best_fits(&mut self, kind: &Kind, best: &mut Candidates<'_>) -> Result<(), GaveUp> {
        let Some(mut at) = self.first_with_room(kind) else {
            return Ok(());
        };
        while let Some(block) = kind.blocks.get(at.block) {
            if block.memory < self.memory() {
                at = At {
                    block: at.block + 1,
                    entry: 0,
                };
                continue;
            }
            let entry = &block.entries[at.entry];
            at = match self.consider(kind, entry, best)? {
                Considered::Taken => kind.next(at),
                // Nor are those that are as full, which come after it.
                Considered::AsGood => {
                    kind.partition_point(|other| other.committed >= entry.committed)
                }
                Considered::Worse => return Ok(()),
            };
        }
        Ok(())
    }

    /// The emptiest first.
    fn least_loaded(&mut self, kind: &Kind, best: &mut Candidates<'_>) -> Result<(), GaveUp> {
        let mut end = kind.end();
        let emptiest = kind.previous(end);
        let emptiest = emptiest.map(|at| &kind.blocks[at.block].entries[at.entry]);
        if emptiest.is_none_or(|entry| self.is_full(kind, entry)) {
            return Ok(());
        }
        while let Some(last) = kind.previous(end) {
            if kind.blocks[last.block].memory < self.memory() {
                end = At { entry: 0, ..last };
                continue;
            }
            let committed = kind.blocks[last.block].entries[last.entry].committed;
            // Of equally empty ones, in their order.
            let start = kind.partition_point(|other| other.committed > committed);
            let mut at = start;
            while at < end {
                let block = &kind.blocks[at.block];
                if block.memory < self.memory() {
                    at = At {
                        block: at.block + 1,
                        entry: 0,
                    };
                    continue;
                }
                let entry = &block.entries[at.entry];
                if self.by_sums && self.is_full(kind, entry) {
                    return Ok(());
                }
                at = match self.consider(kind, entry, best)? {
                    Considered::Taken => kind.next(at),
                    Considered::AsGood => end,
                    Considered::Worse => return Ok(()),
                };
            }
            end = start;
        }
        Ok(())
    }

    fn consider(
        &mut self,
        kind: &Kind,
        entry: &Entry,
        best: &mut Candidates<'_>,
    ) -> Result<Considered, GaveUp> {
        // Of a policy that looks at the jobs of whom it asks, nobody is asked who would be worse.
        let ranked_first = || (self.policy).rank(&SummedNode::of(kind, entry), self.request);
        let first = (!self.by_sums).then(ranked_first);
        if let (Some(worst), Some(rank)) = (best.worst(), first) {
            if rank.total_cmp(&worst.rank).is_gt() {
                return Ok(Considered::Worse);
            }
        }
        let Some(offer) = self.offer(kind, entry)? else {
            return Ok(Considered::Taken);
        };
        let candidate = Placement::new(entry.node as usize, &offer, first.unwrap_or(offer.rank));
        Ok(match best.worst() {
            Some(worst) if candidate.is_behind(worst) => Considered::Worse,
            Some(worst) if candidate.order(worst).is_ge() => Considered::AsGood,
            _ => {
                best.take(candidate);
                Considered::Taken
            }
        })
    }
}

/// What became of a node that was found.
enum Considered {
    /// The next one may be taken as well.
    Taken,
    /// There are enough that are as good and come before it.
    AsGood,
    /// There are enough that are better, and those after it are no better.
    Worse,
}

/// What a node offers that is asked by itself; None for nothing. One copy for all who ask so, as the library is loaded by servers.
#[inline(never)]
fn ask<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    index: usize,
    request: &Request,
) -> Option<Offer> {
    let node = cluster.node_for(index, request)?;
    policy.offer(&node, request).ok()
}

/// The best candidates, as [`super::place`] has them.
///
/// # Errors
/// When too many nodes were looked at in vain.
pub(super) fn place<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    choice: NodeChoice,
    cluster: &C,
    search: Search<'_>,
    request: &Request,
    best: &mut Candidates<'_>,
) -> Result<(), GaveUp> {
    let mut finder = Finder::new(policy, cluster, search, request);
    for kind in search.nodes.kinds() {
        match choice {
            NodeChoice::BestFit => finder.best_fits(kind, best)?,
            NodeChoice::LeastLoaded => finder.least_loaded(kind, best)?,
        }
    }
    for index in search.nodes.apart() {
        let rank = |node| policy.rank(&node, request);
        let first = match is_ranked_first(policy) {
            true => cluster.node_for(index, request).map(rank),
            false => None,
        };
        super::consider(index, first, || ask(policy, cluster, index, request), best);
    }
    Ok(())
}

/// Is there room for all chunks?
///
/// # Errors
/// When too many nodes were looked at in vain.
pub(super) fn fits<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    search: Search<'_>,
    request: &Request,
) -> Result<bool, GaveUp> {
    let mut finder = Finder::new(policy, cluster, search, request);
    let mut left = request.shape.chunks;
    for kind in search.nodes.kinds() {
        // The emptiest first: they take the most.
        for block in kind.blocks.iter().rev() {
            if block.memory < finder.memory() {
                continue;
            }
            if finder.is_full(kind, &block.last) {
                break;
            }
            let full = |entry: &Entry| finder.is_full(kind, entry);
            let with_room = block.entries.partition_point(full);
            for entry in block.entries[with_room..].iter().rev() {
                let offer = finder.offer(kind, entry)?;
                left = left.saturating_sub(offer.map_or(0, |offer| offer.chunks));
                if left == 0 {
                    return Ok(true);
                }
            }
        }
    }
    Ok((search.nodes.apart()).any(|index| {
        let offer = ask(policy, cluster, index, request);
        left = left.saturating_sub(offer.map_or(0, |offer| offer.chunks));
        left == 0
    }))
}
