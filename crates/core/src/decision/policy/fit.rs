//! What is the same for every policy: how many chunks a node's memory, its consumables and its batch system take, the most that a
//! job wants of one node, and what is left beside jobs that are to come.

use super::{Obstacle, Offer};
use crate::decision::TOLERANCE;
use crate::decision::consumable::Scope;
use crate::decision::job::Shape;
use crate::decision::node::NodeView;

/// The most chunks of a job that a node may take: those it wants there, its memory and its consumables hold and its batch system lets
/// onto it.
///
/// # Errors
/// When not even one chunk fits into the memory, or of a consumable is not enough for one, or there is no place for one.
#[inline(always)]
pub(super) fn most_chunks<N: NodeView>(node: &N, shape: &Shape) -> Result<u32, Obstacle> {
    let most = if shape.scatter { 1 } else { shape.chunks };
    let most = match node.open_slots() {
        u32::MAX => most,
        open => most.min(open / shape.processors_per_chunk.max(1)),
    };
    if most == 0 {
        return Err(Obstacle::Slots);
    }
    let most = match shape.consumables.is_empty() {
        true => most,
        false => most.min(chunks_by_consumables(node, shape)?),
    };
    let free = node.spec().memory.saturating_sub(node.memory_committed());
    match free.checked_div(shape.memory_per_chunk) {
        None => Ok(most),
        Some(0) => Err(Obstacle::Memory {
            needed: shape.memory_per_chunk,
            free,
        }),
        Some(chunks) => Ok(most.min(chunks.min(u64::from(u32::MAX)) as u32)),
    }
}

/// What a policy offers, of it as many chunks, of `each` slots, as so many slots are, see [`NodeView::slots_beside_whole`].
///
/// # Errors
/// When they are not even one chunk.
pub(super) fn beside_whole(offer: Offer, each: u32, slots: f64) -> Result<Offer, Obstacle> {
    if slots == f64::INFINITY {
        return Ok(offer);
    }
    // Processors may be no whole number; what is left of one is none.
    match ((slots + TOLERANCE) / f64::from(each.max(1))) as u32 {
        0 => Err(Obstacle::Share {
            needed: f64::from(each),
            free: slots,
        }),
        most => Ok(Offer {
            chunks: offer.chunks.min(most),
            ..offer
        }),
    }
}

/// The chunks that a node's consumables hold.
#[inline(never)]
fn chunks_by_consumables<N: NodeView>(node: &N, shape: &Shape) -> Result<u32, Obstacle> {
    let mut most = u64::from(u32::MAX);
    for (what, needed) in shape.consumables.counted(Scope::Node) {
        let free = node.free_of(what);
        match free.unwrap_or(0) / needed {
            0 => return Err(Obstacle::Consumable { what, needed, free }),
            chunks => most = most.min(chunks),
        }
    }
    Ok(most as u32)
}

/// The largest number of chunks up to `most` that is suitable, found by doubling and halving; every
/// number that is returned was tried. One is known to be suitable.
pub(super) fn largest_suitable(most: u32, suitable: impl Fn(u32) -> bool) -> u32 {
    let (mut yes, mut no) = (1, most.saturating_add(1));
    let mut next = 2;
    while no - yes > 1 {
        if suitable(next) {
            yes = next;
            next = next.saturating_mul(2);
        } else {
            no = next;
        }
        if next >= no {
            next = yes + (no - yes) / 2;
        }
        if next <= yes {
            break;
        }
    }
    yes
}

#[cfg(test)]
mod tests {
    use super::largest_suitable;

    #[test]
    fn the_largest_number_is_found() {
        for most in 1..40 {
            for limit in 1..=most {
                assert_eq!(largest_suitable(most, |n| n <= limit), limit, "{most}");
            }
        }
    }
}
