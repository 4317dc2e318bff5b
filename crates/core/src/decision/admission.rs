//! The order of a decision: the values themselves, the budget, the nodes (Libra 2004, figure 2).

mod evidence;

use super::consumable::{Consumable, Scope};
use super::counter_offer::{self, Capacity, Question};
use super::job::{Request, Terms};
use super::node::{Cluster, NodeView};
use super::placement::{self, Placement};
use super::policy::{AnyPolicy, Policy};
use super::pricing::{AnyPricing, PricedNode, Pricing};
use super::refusal::{Reason, Refusal};

/// A site's rules of admission.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Admission<P = AnyPolicy, Q = AnyPricing> {
    /// What the nodes answer.
    pub policy: P,
    /// What a job costs.
    pub pricing: Q,
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

impl<P: Policy, Q: Pricing> Admission<P, Q> {
    /// The request with the estimate that shares are planned with.
    pub fn planned(&self, request: &Request) -> Request {
        Request {
            terms: self.planned_terms(&request.terms),
            ..*request
        }
    }

    /// The terms with that estimate.
    #[inline(always)]
    pub fn planned_terms(&self, terms: &Terms) -> Terms {
        Terms {
            estimate: terms.estimate * (1.0 + self.estimate_margin),
            ..*terms
        }
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
        self.judge_jobs(cluster, request, 1, scratch)
    }

    /// As [`Admission::judge`], for a request that asks for all jobs of an array together, whose chunks are all alike: what is
    /// offered instead is fewer of these jobs, not the same work on fewer processors.
    ///
    /// # Errors
    /// As [`Admission::judge`].
    pub fn judge_jobs<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
        jobs: u32,
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
                reason: evidence::reason(self, cluster, request),
                counter_offers: counter_offer::find(
                    &Question {
                        accepts: &|changed| self.would_accept(cluster, changed),
                        price: &|changed| self.price_now(cluster, changed),
                        capacity: &|| Capacity::of(cluster),
                        margin: self.estimate_margin,
                        weighs_budgets: self.policy.weighs_budgets(),
                    },
                    request,
                    jobs,
                ),
            })),
        }
    }

    /// Returns true if no node of at most this rating can take the job, whatever runs there. Said without looking at any
    /// of them, of a job that can pay; its reason is the deadline.
    pub fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        affordable(self.pricing.least(request), request.terms.budget)
            && self.policy.is_hopeless(&self.planned(request), fastest)
    }

    /// Why a request that was not accepted was not.
    pub fn reason<C: Cluster + ?Sized>(&self, cluster: &C, request: &Request) -> Reason {
        match request.check() {
            Err(error) => Reason::Invalid(error),
            Ok(()) => evidence::reason(self, cluster, request),
        }
    }

    /// Budget, then nodes, of a request that passed [`Request::check`]: yes or no, without the
    /// reasons that [`Admission::judge`] finds at the cost of judging many more placements.
    pub fn accepts<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
        scratch: &mut [Placement],
    ) -> Option<Acceptance> {
        let least = self.pricing.least(request);
        if !affordable(least, request.terms.budget) {
            return None;
        }
        if lacking(cluster, request).is_some() {
            return None;
        }
        let planned = self.planned(request);
        let nodes = placement::place(&self.policy, cluster, &planned, scratch)?;
        let price = self.price_at(cluster, request, &scratch[..nodes]);
        affordable(price, request.terms.budget).then_some(Acceptance { price, nodes })
    }

    /// What the job costs at these places.
    fn price_at<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
        places: &[Placement],
    ) -> f64 {
        if !self.pricing.depends_on_places() {
            return self.pricing.least(request);
        }
        let per_chunk = f64::from(request.shape.processors_per_chunk);
        let places = places.iter().filter_map(|place| {
            let node = cluster.node_for(place.node, request)?;
            let slots = f64::from(place.chunks) * per_chunk;
            let processors = node.spec().processors;
            Some(PricedNode {
                slots,
                processors,
                // What it gets was free.
                free: (processors - node.committed()).max(slots * place.share),
            })
        });
        self.pricing.price(request, places)
    }

    /// What the job would cost now if the budget were no matter; the least it can cost where it fits
    /// nowhere.
    pub fn price_now<C: Cluster + ?Sized>(&self, cluster: &C, request: &Request) -> f64 {
        if self.pricing.depends_on_places() {
            let mut unlimited = *request;
            unlimited.terms.budget = f64::INFINITY;
            let mut scratch =
                vec![Placement::EMPTY; placement::room(&self.policy, request, cluster.len())];
            // Where it would go as it is; where that is nowhere, a policy that looks at budgets
            // (LibraSLA) may know a place for one that pays more.
            for asked in [request, &unlimited] {
                let planned = self.planned(asked);
                if let Some(nodes) = placement::place(&self.policy, cluster, &planned, &mut scratch)
                {
                    return self.price_at(cluster, asked, &scratch[..nodes]);
                }
            }
        }
        self.pricing.least(request)
    }

    /// As [`Admission::accepts`], without saying where: quicker, and needs no room.
    pub(super) fn would_accept<C: Cluster + ?Sized>(
        &self,
        cluster: &C,
        request: &Request,
    ) -> Option<f64> {
        let least = self.pricing.least(request);
        if !affordable(least, request.terms.budget) {
            return None;
        }
        if self.pricing.depends_on_places() {
            let mut scratch =
                vec![Placement::EMPTY; placement::room(&self.policy, request, cluster.len())];
            let acceptance = self.accepts(cluster, request, &mut scratch)?;
            return Some(acceptance.price);
        }
        if lacking(cluster, request).is_some() {
            return None;
        }
        placement::fits(&self.policy, cluster, &self.planned(request)).then_some(least)
    }

    /// What each node that takes new jobs answers, in their order, for the evidence of a refusal. Of nodes that are alike the first speaks for
    /// all; how many they are stands beside it.
    pub(super) fn answers<'a, C: Cluster + ?Sized>(
        &'a self,
        cluster: &'a C,
        planned: &'a Request,
    ) -> impl Iterator<
        Item = (
            usize,
            u64,
            Result<super::policy::Offer, super::policy::Obstacle>,
        ),
    > + 'a {
        let groups = cluster.groups().map(|groups| {
            let mut groups: Vec<(usize, u64)> = (groups.members.iter())
                .filter_map(|members| Some((*members.first()? as usize, members.len() as u64)))
                .collect();
            groups.sort_unstable();
            groups
        });
        let each = match groups {
            None => cluster.len(),
            Some(_) => 0,
        };
        let nodes = (0..each).map(|node| (node, 1));
        (nodes.chain(groups.into_iter().flatten())).filter_map(move |(index, count)| {
            let node = cluster.node_for(index, planned)?;
            Some((index, count, self.policy.offer(&node, planned)))
        })
    }
}

/// Of what is counted once for all nodes, what there is not enough of: what is needed, and what is free.
#[inline(always)]
pub(super) fn lacking<C: Cluster + ?Sized>(
    cluster: &C,
    request: &Request,
) -> Option<(Consumable, u64, u64)> {
    let wanted = &request.shape.consumables;
    if wanted.is_empty() {
        return None;
    }
    wanted.counted(Scope::Cluster).find_map(|(what, needed)| {
        let free = cluster.free_of(what).filter(|free| *free < needed)?;
        Some((what, needed, free))
    })
}

/// Returns true if the budget is enough. (2004 paper: `req_budget`)
pub fn affordable(price: f64, budget: f64) -> bool {
    price <= budget * (1.0 + super::TOLERANCE)
}
