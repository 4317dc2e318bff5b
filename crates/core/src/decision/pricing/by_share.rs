//! A price in the units of what is bought: a processor second costs the more, the larger the share of a processor that the job holds.
//!
//! With the paper's formula ([`super::linear`]) the second term, β·E/D, is one number for a job of a minute and one of a day, so hurry
//! costs next to nothing: 20 s of work cost 20.95 credits within 21 s and 20.05 within 400 s. Here they cost 39.05 and 21.

use super::Pricing;
use crate::decision::job::Request;

/// cost = (α + β·share)·E × numproc, with share = E/D, at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByShare {
    /// Credits per processor second, ≥ 0.
    pub alpha: f64,
    /// Credits that a processor second costs more for who holds a whole processor, ≥ 0.
    pub beta: f64,
}

impl Default for ByShare {
    /// α = β = 1: who is in no hurry pays half of what a whole processor costs.
    fn default() -> ByShare {
        ByShare {
            alpha: 1.0,
            beta: 1.0,
        }
    }
}

impl Pricing for ByShare {
    fn least(&self, request: &Request) -> f64 {
        let terms = &request.terms;
        let share = (terms.estimate / terms.deadline).min(1.0);
        (self.alpha + self.beta * share) * terms.estimate * request.shape.slots() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::{Shape, Terms};

    fn price(estimate: f64, deadline: f64) -> f64 {
        ByShare::default().least(&Request::single(Terms::hard(estimate, deadline, 1e9)))
    }

    #[test]
    fn who_is_in_a_hurry_pays_for_it() {
        assert!((price(20.0, 21.0) - 39.0476).abs() < 1e-4);
        assert_eq!(price(20.0, 400.0), 21.0);
    }

    #[test]
    fn a_whole_processor_is_the_dearest() {
        assert_eq!(price(20.0, 20.0), 40.0);
        // At its word, see the policies: it gets no more than a whole one.
        assert_eq!(price(20.0, 5.0), 40.0);
    }

    #[test]
    fn each_processor_costs_as_much() {
        let mut request = Request::single(Terms::hard(10.0, 20.0, 100.0));
        request.shape = Shape {
            chunks: 2,
            processors_per_chunk: 3,
            ..Shape::default()
        };
        assert_eq!(ByShare::default().least(&request), 90.0);
    }
}
