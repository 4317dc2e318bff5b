//! What a class of service makes of a price.

use super::{PricedNode, Pricing};
use crate::decision::job::Request;

/// A price of a class other than that of deadlines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InClass<Q> {
    /// So many times what its terms cost.
    Times(Q, f64),
    /// So many times what its estimate costs with a deadline at full speed of a reference processor: that is what it gets.
    AtFullSpeed(Q, f64),
    /// So many credits for a processor second, at most for its estimate; nothing where it has none.
    ByUse(f64),
}

impl<Q: Pricing> InClass<Q> {
    fn times(&self, request: &Request, price: impl FnOnce(&Q, &Request) -> f64) -> f64 {
        match self {
            InClass::Times(pricing, factor) => factor * price(pricing, request),
            InClass::AtFullSpeed(pricing, factor) => {
                let mut fast = *request;
                fast.terms.deadline = fast.terms.deadline.min(fast.terms.estimate);
                factor * price(pricing, &fast)
            }
            InClass::ByUse(_) if !request.terms.has_estimate() => 0.0,
            InClass::ByUse(rate) => rate * request.terms.estimate * request.shape.slots() as f64,
        }
    }
}

impl<Q: Pricing> Pricing for InClass<Q> {
    fn least(&self, request: &Request) -> f64 {
        self.times(request, |pricing, request| pricing.least(request))
    }

    fn price(&self, request: &Request, places: impl Iterator<Item = PricedNode>) -> f64 {
        self.times(request, |pricing, request| pricing.price(request, places))
    }

    fn depends_on_places(&self) -> bool {
        match self {
            InClass::Times(pricing, _) | InClass::AtFullSpeed(pricing, _) => {
                pricing.depends_on_places()
            }
            InClass::ByUse(_) => false,
        }
    }
}
