//! What a job costs. One rule, one module, behind the one trait [`Pricing`].

pub mod linear;

use super::job::Request;
pub use linear::Linear;

/// A rule of pricing.
pub trait Pricing {
    /// Price of the job in credits, ≥ 0, as the user gave it (the estimate without any margin).
    ///
    /// Must not rise with the deadline: counter-offers search along it.
    fn price(&self, request: &Request) -> f64;
}

/// The pricing rules that can be chosen, behind one type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnyPricing {
    /// Formula (1) of the 2004 paper.
    Linear(Linear),
}

impl Default for AnyPricing {
    fn default() -> AnyPricing {
        AnyPricing::Linear(Linear::default())
    }
}

impl Pricing for AnyPricing {
    fn price(&self, request: &Request) -> f64 {
        match self {
            AnyPricing::Linear(pricing) => pricing.price(request),
        }
    }
}
