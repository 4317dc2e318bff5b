//! The order of a decision: the values themselves, the budget, the nodes (Libra 2004, figure 2).

use super::counter_offer;
use super::job::Request;
use super::node::Cluster;
use super::placement::{self, Placement};
use super::policy::{AnyPolicy, Policy};
use super::pricing::{AnyPricing, Pricing};
use super::refusal::{Reason, Refusal};

/// A site's rules of admission.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Admission {
    /// What the nodes answer.
    pub policy: AnyPolicy,
    /// What a job costs.
    pub pricing: AnyPricing,
    /// Part by which every estimate is stretched when shares are planned (0.05 = 5 %), ≥ 0: room
    /// for start-up, for the kernel's own work and for estimates that were a little short. The
    /// price is for the estimate as given. The papers have none: 0.
    pub estimate_margin: f64,
}

/// A job that was accepted. The places it took stand first in the scratch given to
/// [`Admission::judge`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Acceptance {
    /// What it costs, in credits; never above the budget.
    pub price: f64,
    /// How many nodes it uses.
    pub nodes: usize,
}

impl Admission {
    /// The request with the estimate that shares are planned with.
    pub fn planned(&self, request: &Request) -> Request {
        let mut planned = *request;
        planned.terms.estimate *= 1.0 + self.estimate_margin;
        planned
    }

    /// Judges one request. Changes nothing; allocates nothing when it accepts (but see
    /// [`placement`] on `least-loaded`).
    ///
    /// `scratch` must hold at least [`placement::room`] places.
    ///
    /// # Errors
    /// A refusal with its reason, the evidence, and what would be accepted now.
    pub fn judge<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
        scratch: &mut [Placement],
    ) -> Result<Acceptance, Box<Refusal>> {
        request.check().map_err(|error| {
            Box::new(Refusal {
                reason: Reason::Invalid(error),
                counter_offers: Vec::new(),
            })
        })?;
        match self.accepts(cluster, request, scratch) {
            Some(acceptance) => Ok(acceptance),
            None => Err(Box::new(Refusal {
                reason: Reason::find(self, cluster, request),
                counter_offers: counter_offer::find(self, cluster, request),
            })),
        }
    }

    /// Budget, then nodes, of a request that passed [`Request::check`]: yes or no, without the
    /// reasons that [`Admission::judge`] finds at the cost of many more looks at the cluster.
    pub fn accepts<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
        scratch: &mut [Placement],
    ) -> Option<Acceptance> {
        let price = self.pricing.price(request);
        if !affordable(price, request.terms.budget) {
            return None;
        }
        let planned = self.planned(request);
        let nodes = placement::place(&self.policy, cluster, &planned, scratch)?;
        Some(Acceptance { price, nodes })
    }

    /// As [`Admission::accepts`], without saying where: quicker, and needs no room.
    pub(super) fn would_accept<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
    ) -> Option<f64> {
        let price = self.pricing.price(request);
        let planned = self.planned(request);
        (affordable(price, request.terms.budget)
            && placement::fits(&self.policy, cluster, &planned))
        .then_some(price)
    }

    /// The obstacle that each node that takes new jobs puts up, for the evidence of a refusal.
    pub(super) fn obstacles<'a, C: Cluster + ?Sized>(
        &'a self,
        cluster: &'a C,
        planned: &'a Request,
    ) -> impl Iterator<Item = (usize, Result<super::policy::Offer, super::policy::Obstacle>)> + 'a
    {
        (0..cluster.len()).filter_map(move |index| {
            let node = cluster.node(index)?;
            Some((index, self.policy.offer(&node, planned)))
        })
    }
}

/// Is the budget enough? (2004 paper: `req_budget`)
pub fn affordable(price: f64, budget: f64) -> bool {
    price <= budget * (1.0 + super::TOLERANCE)
}
