//! Which nodes take the chunks of a job.
//!
//! Every node is asked once, or one of those that are alike, or those that an index of nodes finds. All chunks of a job are alike, so a job fits when the nodes' offers
//! add up to its chunks, whatever their order; the rank decides only which nodes are used.
//! A job fits whole or not at all: nothing is reserved here.
//!
//! At most `chunks` nodes can be used, so that many candidates, kept in order in memory that the
//! caller gives, are enough: accepting allocates nothing. Where a policy ranks nodes by their sums and, of those that come first, takes the ones whose offers
//! are best, there are so many more candidates as it compares ([`Policy::compared`]).

mod alike;
mod indexed;

use super::job::Request;
use super::node::Cluster;
use super::node_index::Search;
use super::policy::{Offer, Policy};

/// One node that takes part of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Index of the node.
    pub node: usize,
    /// Chunks placed on it; 0 where it was a candidate and is not used.
    pub chunks: u32,
    /// Share of each slot there, in processors.
    pub share: f64,
    /// Processors left over on the node with all those chunks on it, ≥ 0.
    pub loadfree: f64,
    offered: u32,
    per_chunk: f64,
    /// By this candidates are chosen, and then chunks given out.
    rank: f64,
    /// The rank of its offer: [`Placement::rank`] once candidates are chosen.
    offer_rank: f64,
    rank_step: f64,
}

impl Placement {
    /// An empty place, to make room with.
    pub const EMPTY: Placement = Placement {
        node: 0,
        chunks: 0,
        share: 0.0,
        loadfree: 0.0,
        offered: 0,
        per_chunk: 0.0,
        rank: 0.0,
        offer_rank: 0.0,
        rank_step: 0.0,
    };

    /// What somebody has there, whoever has given it to him.
    pub fn given(node: usize, chunks: u32, share: f64) -> Placement {
        Placement {
            node,
            chunks,
            share,
            ..Placement::EMPTY
        }
    }

    /// A candidate whose rank is this.
    fn new(node: usize, offer: &Offer, rank: f64) -> Placement {
        Placement {
            node,
            chunks: 0,
            share: offer.share,
            loadfree: offer.loadfree,
            offered: offer.chunks,
            per_chunk: offer.per_chunk,
            rank,
            offer_rank: offer.rank,
            rank_step: offer.rank_step,
        }
    }

    /// Best first; of equals, the one that was declared first.
    fn order(&self, other: &Placement) -> std::cmp::Ordering {
        self.rank
            .total_cmp(&other.rank)
            .then(self.node.cmp(&other.node))
    }

    /// Returns true if a node of this rank comes behind this one, or is it.
    #[inline(always)]
    fn is_before(&self, rank: f64, node: usize) -> bool {
        let order = self.rank.total_cmp(&rank);
        order.then(self.node.cmp(&node)).is_le()
    }

    /// Returns true if the other's rank is better, whatever their nodes.
    fn is_behind(&self, other: &Placement) -> bool {
        self.rank.total_cmp(&other.rank).is_gt()
    }

    fn take(&mut self, chunks: u32) {
        // `loadfree` stands for one chunk until chunks are taken.
        let beyond_one = f64::from(self.chunks + chunks) - 1.0;
        let first = self.loadfree + f64::from(self.chunks.saturating_sub(1)) * self.per_chunk;
        self.chunks += chunks;
        self.loadfree = (first - beyond_one * self.per_chunk).max(0.0);
        self.rank += f64::from(chunks) * self.rank_step;
    }
}

/// Room that [`place`] needs for this request on a cluster of so many nodes.
pub fn room<P: Policy>(policy: &P, request: &Request, nodes: usize) -> usize {
    let compared = policy.compared(&request.shape);
    nodes.min((request.shape.chunks as usize).saturating_add(compared))
}

/// Returns true if a node's rank is known before it is asked, and is not that of its offer.
fn is_ranked_first<P: Policy>(policy: &P) -> bool {
    policy.ranks_by_sums().is_some() && policy.goes_by_sums().is_none()
}

/// Places all chunks of a job, or none.
///
/// `request` carries the planned estimate. `scratch` must hold at least [`room`] places. Returns
/// how many nodes are used: they stand first in `scratch`, best first. None: it does not fit.
///
/// # Panics
/// When `scratch` is shorter than [`room`].
pub fn place<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    request: &Request,
    scratch: &mut [Placement],
) -> Option<usize> {
    let scratch = &mut scratch[..room(policy, request, cluster.len())];
    let known = candidates_of(policy, cluster, request, scratch);
    let best = &mut scratch[..known];
    for candidate in best.iter_mut() {
        candidate.rank = candidate.offer_rank;
    }
    best.sort_unstable_by(Placement::order);
    distribute(best, request.shape.chunks)
}

/// The nodes that come first, as many as there is room for. Returns how many there are.
#[inline(always)]
fn candidates_of<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    request: &Request,
    scratch: &mut [Placement],
) -> usize {
    if let Some(groups) = cluster.groups() {
        return alike::place(policy, cluster, groups, request, scratch);
    }
    let mut best = Candidates::new(scratch);
    let found = match (policy.ranks_by_sums(), index_for(cluster, request)) {
        (Some(choice), Some(search)) => {
            indexed::place(policy, choice, cluster, search, request, &mut best).is_ok()
        }
        _ => false,
    };
    if !found {
        best.known = 0;
        scan(policy, cluster, request, &mut best);
    }
    best.known
}

/// The index of the nodes, for a request that it answers: of consumables it knows nothing.
#[inline(always)]
fn index_for<'a, C: Cluster + ?Sized>(cluster: &'a C, request: &Request) -> Option<Search<'a>> {
    match request.shape.consumables.is_empty() {
        true => cluster.index(),
        false => None,
    }
}

/// The best of those that take part of a job, as many as can be used.
struct Candidates<'a> {
    /// The first of them are known. Once all are, the worst stands first, as in a heap.
    places: &'a mut [Placement],
    known: usize,
}

impl Candidates<'_> {
    fn new(places: &mut [Placement]) -> Candidates<'_> {
        Candidates { places, known: 0 }
    }

    /// The worst of them, if there are as many as can be used.
    #[inline(always)]
    fn worst(&self) -> Option<&Placement> {
        (self.known == self.places.len()).then(|| &self.places[0])
    }

    /// Returns true if there are as many as can be used, none of them worse than one of this rank would be.
    #[inline(always)]
    fn excludes(&self, rank: f64, node: usize) -> bool {
        self.worst()
            .is_some_and(|worst| worst.is_before(rank, node))
    }

    /// Takes one that is better than the worst, which makes room for it.
    #[inline(always)]
    fn take(&mut self, candidate: Placement) {
        let room = self.places.len();
        if self.known == room {
            self.places[0] = candidate;
            sift_down(self.places, 0);
            return;
        }
        self.places[self.known] = candidate;
        self.known += 1;
        if self.known == room {
            for parent in (0..room / 2).rev() {
                sift_down(self.places, parent);
            }
        }
    }
}

/// Asks every node in its order.
#[inline(always)]
fn scan<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    request: &Request,
    best: &mut Candidates<'_>,
) {
    for index in 0..cluster.len() {
        let Some(node) = cluster.node_for(index, request) else {
            continue;
        };
        let first = is_ranked_first(policy).then(|| policy.rank(&node, request));
        consider(index, first, || policy.offer(&node, request).ok(), best);
        // Every candidate takes at least one chunk, so a full table is already enough.
        if policy.takes_any_node() && best.worst().is_some() {
            break;
        }
    }
}

/// Takes what a node offers if that is among the best. Where its rank is known first, it is not asked if it would not be.
#[inline(always)]
fn consider(
    index: usize,
    first: Option<f64>,
    offer: impl FnOnce() -> Option<Offer>,
    best: &mut Candidates<'_>,
) {
    if first.is_some_and(|rank| best.excludes(rank, index)) {
        return;
    }
    if let Some(offer) = offer() {
        let rank = first.unwrap_or(offer.rank);
        if !best.excludes(rank, index) {
            best.take(Placement::new(index, &offer, rank));
        }
    }
}

/// Returns true if there is room for all chunks of a job. The same answer as [`place`] gives, found sooner.
pub(super) fn fits<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    request: &Request,
) -> bool {
    if let (Some(_), Some(search)) = (policy.ranks_by_sums(), index_for(cluster, request)) {
        if let Ok(fits) = indexed::fits(policy, cluster, search, request) {
            return fits;
        }
    }
    if let Some(groups) = cluster.groups() {
        return alike::fits(policy, cluster, groups, request);
    }
    let mut left = request.shape.chunks;
    (0..cluster.len()).any(|index| {
        let offer = cluster
            .node_for(index, request)
            .and_then(|node| policy.offer(&node, request).ok());
        left = left.saturating_sub(offer.map_or(0, |offer| offer.chunks));
        left == 0
    })
}

/// Restores the order of a heap, worst first, below `parent`.
fn sift_down(heap: &mut [Placement], mut parent: usize) {
    loop {
        let mut child = 2 * parent + 1;
        if child >= heap.len() {
            return;
        }
        if child + 1 < heap.len() && heap[child].order(&heap[child + 1]).is_lt() {
            child += 1;
        }
        if heap[parent].order(&heap[child]).is_ge() {
            return;
        }
        heap.swap(parent, child);
        parent = child;
    }
}

/// Gives out the chunks to candidates that stand in order of rank.
fn distribute(candidates: &mut [Placement], chunks: u32) -> Option<usize> {
    let offered: u64 = candidates.iter().map(|c| u64::from(c.offered)).sum();
    if offered < u64::from(chunks) {
        return None;
    }
    let mut left = chunks;
    if candidates
        .iter()
        .all(|c| c.rank_step <= 0.0 || c.offered == 1)
    {
        // Taking a chunk only makes a node better, or leaves it nothing to take: fill one after the other.
        for candidate in candidates.iter_mut() {
            let taken = candidate.offered.min(left);
            if taken > 0 {
                candidate.take(taken);
            }
            left -= taken;
        }
    } else {
        spread(candidates, left);
    }
    let mut used = 0;
    for index in 0..candidates.len() {
        if candidates[index].chunks > 0 {
            candidates.swap(used, index);
            used += 1;
        }
    }
    Some(used)
}

/// One chunk at a time to the node that is best by then. The one case that allocates, and only
/// for jobs of several chunks whose rank gets worse with each that is placed (`least-loaded`, `libra-adaptive`).
fn spread(candidates: &mut [Placement], chunks: u32) {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// f64 in the total order that a heap wants.
    #[derive(PartialEq)]
    struct Rank(f64);
    impl Eq for Rank {}
    impl PartialOrd for Rank {
        fn partial_cmp(&self, other: &Rank) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Rank {
        fn cmp(&self, other: &Rank) -> std::cmp::Ordering {
            self.0.total_cmp(&other.0)
        }
    }

    let mut queue: BinaryHeap<Reverse<(Rank, usize)>> = candidates
        .iter()
        .enumerate()
        .map(|(index, candidate)| Reverse((Rank(candidate.rank), index)))
        .collect();
    for _ in 0..chunks {
        let Some(Reverse((_, index))) = queue.pop() else {
            return;
        };
        let candidate = &mut candidates[index];
        candidate.take(1);
        if candidate.chunks < candidate.offered {
            queue.push(Reverse((Rank(candidate.rank), index)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::Terms;
    use crate::decision::node::{NodeSpec, PlainNode};
    use crate::decision::policy::libra_adaptive::COMPARED;
    use crate::decision::policy::{Libra, LibraAdaptive};
    use crate::decision::share::ShareRule;
    use proptest::prelude::*;

    fn cluster(processors: &[u8]) -> Vec<PlainNode> {
        let node = |processors: &u8| {
            let spec = NodeSpec {
                processors: f64::from(*processors) / 4.0,
                rating: 1.0,
                memory: NodeSpec::MEMORY_UNLIMITED,
            };
            PlainNode::new(spec, Vec::new(), ShareRule::Exact)
        };
        processors.iter().map(node).collect()
    }

    /// Nodes of four processors with jobs of one slot, (estimate, deadline).
    fn busy(jobs: &[(f64, f64)]) -> PlainNode {
        let spec = NodeSpec {
            processors: 4.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        let mut node = PlainNode::new(spec, Vec::new(), ShareRule::Exact);
        for &(estimate, deadline) in jobs {
            let terms = Terms::hard(estimate, deadline, f64::INFINITY);
            node.reserve(&Request::single(terms), 1);
        }
        node
    }

    #[test]
    fn of_the_nodes_that_come_first_the_best_offers_are_taken() {
        // As much is committed on each, and on one less of it is due before the deadline that is asked for.
        let mut nodes = vec![busy(&[(5.0, 10.0)]); COMPARED + 1];
        nodes[40] = busy(&[(2.5, 10.0), (25.0, 100.0)]);
        // Nothing is, where a little more is committed.
        nodes.push(busy(&[(50.1, 100.0)]));
        let taken = |nodes: &[PlainNode], chunks, slots| {
            let mut request = Request::single(Terms::hard(5.0, 10.0, f64::INFINITY));
            request.shape.chunks = chunks;
            request.shape.scatter = true;
            request.shape.processors_per_chunk = slots;
            let policy = LibraAdaptive::default();
            let mut scratch = vec![Placement::EMPTY; room(&policy, &request, nodes.len())];
            let used = place(&policy, nodes, &request, &mut scratch);
            let used = &scratch[..used.expect("there is room")];
            used.iter().map(|place| place.node).collect::<Vec<_>>()
        };
        assert_eq!(taken(&nodes, 1, 2), [40]);
        // One more is compared for a job that can use two.
        assert_eq!(taken(&nodes, 2, 1), [64, 40]);
        assert_eq!(taken(&nodes[1..], 1, 2), [63]);
        // Of one slot, the first.
        assert_eq!(taken(&nodes, 1, 1), [0]);
    }

    proptest! {
        #[test]
        fn the_best_nodes_in_their_order_are_used(
            processors in proptest::collection::vec(0u8..40, 0..60),
            chunks in 1u32..200,
            scatter: bool,
        ) {
            let nodes = cluster(&processors);
            // A chunk takes half a processor, two of the quarters above.
            let mut request = Request::single(Terms::hard(10.0, 20.0, f64::INFINITY));
            request.shape.chunks = chunks;
            request.shape.scatter = scatter;
            let mut scratch = vec![Placement::EMPTY; room(&Libra::default(), &request, nodes.len())];
            let used = place(&Libra::default(), &nodes[..], &request, &mut scratch);

            let mut order: Vec<usize> = (0..nodes.len()).filter(|n| processors[*n] >= 2).collect();
            order.sort_by_key(|node| processors[*node]);
            let mut left = chunks;
            let mut expected = Vec::new();
            for node in order {
                let fit = if scatter { 1 } else { u32::from(processors[node] / 2) };
                let taken = fit.min(left);
                left -= taken;
                if taken > 0 {
                    expected.push((node, taken));
                }
            }
            prop_assert_eq!(fits(&Libra::default(), &nodes[..], &request), left == 0);
            match used {
                None => prop_assert!(left > 0),
                Some(used) => {
                    prop_assert_eq!(left, 0);
                    let places: Vec<(usize, u32)> =
                        scratch[..used].iter().map(|p| (p.node, p.chunks)).collect();
                    prop_assert_eq!(places, expected);
                }
            }
        }
    }
}
