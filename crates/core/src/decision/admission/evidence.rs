//! Why a request did not fit, from what each node answered.

use super::{Admission, affordable};
use crate::decision::job::Request;
use crate::decision::node::Cluster;
use crate::decision::policy::{Obstacle, Policy};
use crate::decision::pricing::Pricing;
use crate::decision::refusal::Reason;

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
    let planned = admission.planned(request);
    let mut fit: u64 = 0;
    let mut slot: Option<f64> = None;
    let mut share: Option<Reason> = None;
    let mut memory: Option<Reason> = None;
    let mut time: Option<Reason> = None;
    let mut risk: Option<Reason> = None;
    let mut earns: Option<Reason> = None;
    for (node, answer) in admission.obstacles(cluster, &planned) {
        match answer {
            Ok(offer) => fit += u64::from(offer.chunks),
            Err(Obstacle::Slot { share }) => {
                slot = Some(slot.map_or(share, |least| least.min(share)));
            }
            // To whom no node has a place, none is open.
            Err(Obstacle::Slots) => {}
            Err(Obstacle::Share { needed, free }) => match share {
                Some(Reason::Share {
                    needed: n, free: f, ..
                }) if needed - free >= n - f => {}
                _ => share = Some(Reason::Share { needed, free, node }),
            },
            Err(Obstacle::Memory { needed, free }) => match memory {
                Some(Reason::Memory { free: most, .. }) if free <= most => {}
                _ => memory = Some(Reason::Memory { needed, free, node }),
            },
            Err(Obstacle::Time { needed, free }) => match time {
                Some(Reason::Time {
                    needed: n, free: f, ..
                }) if needed - free >= n - f => {}
                _ => time = Some(Reason::Time { needed, free, node }),
            },
            Err(Obstacle::Risk { delay }) => match risk {
                Some(Reason::Risk { delay: least, .. }) if delay >= least => {}
                _ => risk = Some(Reason::Risk { delay, node }),
            },
            Err(Obstacle::Return { with, without }) => match earns {
                Some(Reason::Return {
                    with: w,
                    without: o,
                    ..
                }) if with - without <= w - o => {}
                _ => {
                    earns = Some(Reason::Return {
                        with,
                        without,
                        node,
                    });
                }
            },
        }
    }
    if fit > 0 {
        return Reason::Chunks {
            asked: request.shape.chunks,
            fit: fit.min(u64::from(u32::MAX)) as u32,
        };
    }
    // A node that lacks only memory or processors came nearer than one that is too slow.
    let deadline = slot.map(|share| Reason::Deadline {
        fastest: share * planned.terms.deadline,
        deadline: planned.terms.deadline,
    });
    let full = earns.or(time).or(risk).or(share);
    full.or(memory).or(deadline).unwrap_or(Reason::NoNode)
}
