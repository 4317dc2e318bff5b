//! The utilisation-sensitive price of the authors of the 2004 paper (Yeo and Buyya, "Pricing for
//! utility-driven resource management and allocation in clusters", 2004): the fuller the node, the
//! dearer its time, so that the last free processors go to those who value them.

use super::{PricedNode, Pricing};
use crate::decision::job::Request;

/// Price of a processor second on node j = α·base + β·base·capacity / free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utilisation {
    /// Weight of the fixed part, ≥ 0.
    pub alpha: f64,
    /// Weight of the part that grows as the node fills, ≥ 0.
    pub beta: f64,
    /// Credits per processor second, ≥ 0.
    pub base: f64,
}

impl Default for Utilisation {
    fn default() -> Utilisation {
        Utilisation {
            alpha: 1.0,
            beta: 1.0,
            base: 1.0,
        }
    }
}

impl Pricing for Utilisation {
    /// On empty nodes.
    fn least(&self, request: &Request) -> f64 {
        let seconds = request.terms.estimate * request.shape.slots() as f64;
        (self.alpha + self.beta) * self.base * seconds
    }

    fn price(&self, request: &Request, places: impl Iterator<Item = PricedNode>) -> f64 {
        let rate = |place: PricedNode| {
            let scarcity = (place.processors / place.free).max(1.0);
            place.slots * (self.alpha + self.beta * scarcity) * self.base
        };
        request.terms.estimate * places.map(rate).sum::<f64>()
    }

    fn depends_on_places(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::{Shape, Terms};

    #[test]
    fn a_node_that_is_half_full_costs_half_as_much_again() {
        let mut request = Request::single(Terms::hard(10.0, 20.0, 100.0));
        let place = |slots, free| PricedNode {
            slots,
            processors: 4.0,
            free,
        };
        let pricing = Utilisation::default();
        assert_eq!(pricing.least(&request), 20.0);
        assert_eq!(pricing.price(&request, [place(1.0, 4.0)].into_iter()), 20.0);
        assert_eq!(pricing.price(&request, [place(1.0, 2.0)].into_iter()), 30.0);
        request.shape = Shape {
            chunks: 3,
            ..Shape::default()
        };
        // Two slots at 2 and one at 1 + 4.
        let places = [place(2.0, 4.0), place(1.0, 1.0)];
        assert_eq!(pricing.price(&request, places.into_iter()), 90.0);
    }
}
