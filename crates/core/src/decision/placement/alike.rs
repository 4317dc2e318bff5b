//! Placing where nodes that are alike are kept together: each group is asked once at the most. The same nodes as a scan over all of them finds, ties
//! included.

use super::{Placement, is_ranked_first};
use crate::decision::job::Request;
use crate::decision::node::{Cluster, Groups};
use crate::decision::policy::{Offer, Policy};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a group offers for each of its nodes, or that it is not asked yet.
struct Answer<'a> {
    group: usize,
    offer: Option<Offer>,
    members: &'a [u32],
}

/// What a group offers for each of its nodes; None for nothing.
#[inline(always)]
fn offer_of<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    group: usize,
    request: &Request,
) -> Option<Offer> {
    policy.offer(&cluster.any_of(group)?, request).ok()
}

/// A rank as a number in the same order, the total one of f64.
fn in_order(rank: f64) -> i64 {
    let bits = rank.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The best candidates, as many as there is room for. Returns how many there are.
pub(super) fn place<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    groups: Groups<'_>,
    request: &Request,
    best: &mut [Placement],
) -> usize {
    if policy.takes_any_node() {
        return first_nodes(policy, cluster, groups, request, best);
    }
    // Where the rank is known before the answer, only those are asked that may be among the best.
    let asks_by_rank = is_ranked_first(policy);
    let mut answers: Vec<Answer<'_>> = Vec::with_capacity(groups.members.len());
    let mut ranks = Vec::with_capacity(groups.members.len());
    for (group, members) in groups.members.iter().enumerate() {
        if members.is_empty() {
            continue;
        }
        let (offer, rank) = match asks_by_rank {
            true => match cluster.any_of(group) {
                Some(node) => (None, policy.rank(&node, request)),
                None => continue,
            },
            false => match offer_of(policy, cluster, group, request) {
                Some(offer) => (Some(offer), offer.rank),
                None => continue,
            },
        };
        ranks.push(Reverse((in_order(rank), answers.len())));
        answers.push(Answer {
            group,
            offer,
            members,
        });
    }
    let ask = |answer: usize| {
        let answer = &answers[answer];
        let later = || offer_of(policy, cluster, answer.group, request);
        Some((answer.offer.or_else(later)?, answer.members))
    };
    // Mostly the first few groups are enough: not all are put in order.
    let mut ranks = BinaryHeap::from(ranks);
    let mut equal = Vec::new();
    let mut known = 0;
    while let Some(Reverse((rank, first))) = ranks.pop().filter(|_| known < best.len()) {
        equal.clear();
        equal.extend(ask(first));
        while let Some(Reverse((_, next))) = ranks.peek().filter(|next| next.0.0 == rank) {
            equal.extend(ask(*next));
            ranks.pop();
        }
        known += take(&mut equal, &mut best[known..]);
    }
    known
}

/// Nodes of the same rank, in the order of their indices.
fn take(equal: &mut [(Offer, &[u32])], best: &mut [Placement]) -> usize {
    if let [(offer, members)] = equal {
        let places = best.iter_mut().zip(members.iter());
        let place_on = |node: &u32| Placement::new(*node as usize, offer, offer.rank);
        return places.map(|(place, node)| *place = place_on(node)).count();
    }
    let mut known = 0;
    for place in best.iter_mut() {
        let heads = equal.iter_mut().filter(|(_, members)| !members.is_empty());
        let Some((offer, members)) = heads.min_by_key(|(_, members)| members[0]) else {
            break;
        };
        *place = Placement::new(members[0] as usize, offer, offer.rank);
        *members = &members[1..];
        known += 1;
    }
    known
}

/// Where one node is as good as any other: the first ones, so that groups which have none of them are not asked.
fn first_nodes<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    groups: Groups<'_>,
    request: &Request,
    best: &mut [Placement],
) -> usize {
    let mut answers: Vec<Option<Option<Offer>>> = vec![None; groups.members.len()];
    let mut known = 0;
    for (node, group) in groups.of.iter().enumerate() {
        if known == best.len() {
            break;
        }
        let group = *group as usize;
        let answer =
            answers[group].get_or_insert_with(|| offer_of(policy, cluster, group, request));
        if let Some(offer) = answer {
            best[known] = Placement::new(node, offer, offer.rank);
            known += 1;
        }
    }
    known
}

/// Is there room for all chunks?
pub(super) fn fits<P: Policy, C: Cluster + ?Sized>(
    policy: &P,
    cluster: &C,
    groups: Groups<'_>,
    request: &Request,
) -> bool {
    let mut left = u64::from(request.shape.chunks);
    let mut groups = (groups.members.iter().enumerate()).filter(|(_, members)| !members.is_empty());
    groups.any(|(group, members)| {
        let offer = offer_of(policy, cluster, group, request);
        let chunks = offer.map_or(0, |offer| u64::from(offer.chunks) * members.len() as u64);
        left = left.saturating_sub(chunks);
        left == 0
    })
}
