//! What a job costs. One rule, one module, behind the one trait [`Pricing`].

pub mod by_share;
pub mod in_class;
pub mod linear;
pub mod utilisation;

use super::job::Request;
pub use by_share::ByShare;
pub use in_class::InClass;
pub use linear::Linear;
pub use utilisation::Utilisation;

/// A node that takes part of a job, as a price sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PricedNode {
    /// Slots of the job there.
    pub slots: f64,
    /// Processors of the node.
    pub processors: f64,
    /// Processors that were free there before the job came, > 0.
    pub free: f64,
}

/// A rule of pricing. All prices are for the job as the user gave it (the estimate without margin).
pub trait Pricing {
    /// The least that the job costs wherever it runs, in credits, ≥ 0: who offers less need not look
    /// at the nodes.
    ///
    /// Must not rise with the deadline: counter-offers search along it.
    fn least(&self, request: &Request) -> f64;

    /// What it costs on these nodes, in credits, not below [`Pricing::least`].
    fn price(&self, request: &Request, places: impl Iterator<Item = PricedNode>) -> f64 {
        let _ = places;
        self.least(request)
    }

    /// Returns true if the price depends on where the job runs.
    fn depends_on_places(&self) -> bool {
        false
    }
}

/// The pricing rules that can be chosen, behind one type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnyPricing {
    /// Formula (1) of the 2004 paper.
    Linear(Linear),
    /// A large share is dear.
    ByShare(ByShare),
    /// A scarce node is dear.
    Utilisation(Utilisation),
}

impl Default for AnyPricing {
    fn default() -> AnyPricing {
        AnyPricing::Linear(Linear::default())
    }
}

impl Pricing for AnyPricing {
    fn least(&self, request: &Request) -> f64 {
        match self {
            AnyPricing::Linear(pricing) => pricing.least(request),
            AnyPricing::ByShare(pricing) => pricing.least(request),
            AnyPricing::Utilisation(pricing) => pricing.least(request),
        }
    }

    fn price(&self, request: &Request, places: impl Iterator<Item = PricedNode>) -> f64 {
        match self {
            AnyPricing::Linear(pricing) => pricing.price(request, places),
            AnyPricing::ByShare(pricing) => pricing.price(request, places),
            AnyPricing::Utilisation(pricing) => pricing.price(request, places),
        }
    }

    fn depends_on_places(&self) -> bool {
        match self {
            AnyPricing::Linear(pricing) => pricing.depends_on_places(),
            AnyPricing::ByShare(pricing) => pricing.depends_on_places(),
            AnyPricing::Utilisation(pricing) => pricing.depends_on_places(),
        }
    }
}
