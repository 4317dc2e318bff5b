//! The linear cost of the 2004 paper, formula (1): α·E + β·E/D for each processor.
//!
//! The first term pays for the processor time, the second for the hurry: who allows twice the
//! deadline pays half of it.

use super::Pricing;
use crate::decision::job::Request;

/// cost = (α·E + β·E/D) × numproc.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    /// Credits per processor second of the estimate, ≥ 0.
    pub alpha: f64,
    /// Credits per unit of estimate / deadline, ≥ 0.
    pub beta: f64,
}

impl Default for Linear {
    /// α = β = 1, as in the authors' own later experiments.
    fn default() -> Linear {
        Linear {
            alpha: 1.0,
            beta: 1.0,
        }
    }
}

impl Pricing for Linear {
    fn least(&self, request: &Request) -> f64 {
        let terms = &request.terms;
        let per_slot = self.alpha * terms.estimate + self.beta * terms.estimate / terms.deadline;
        per_slot * request.shape.slots() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::{Shape, Terms};

    #[test]
    fn price_of_the_papers_example() {
        // PBSWeb's form in the 2004 paper (figure 3): estimate 10, deadline 20, budget 15.
        let mut request = Request::single(Terms::hard(10.0, 20.0, 15.0));
        assert_eq!(Linear::default().least(&request), 10.5);
        request.shape = Shape {
            chunks: 2,
            processors_per_chunk: 3,
            ..Shape::default()
        };
        assert_eq!(Linear::default().least(&request), 63.0);
    }
}
