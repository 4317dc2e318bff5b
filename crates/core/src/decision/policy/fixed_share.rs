//! Classes of service whose jobs have the same share whatever their terms need: a whole processor for each slot, or nothing.
//!
//! No site chooses it: [`crate::decision::service`] asks it for such jobs, beside the policy that the site has for shares.

use super::fit::most_chunks;
use super::{NodeChoice, Obstacle, Offer, Policy};
use crate::decision::TOLERANCE;
use crate::decision::job::Request;
use crate::decision::node::NodeView;
use crate::decision::share::ShareRule;

/// Every slot has this share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedShare {
    /// Processors, 0 to 1. Who has none is promised no end either.
    pub share: f64,
    /// Which node is taken first, as the site's policy goes by sums; None if it does not: the fullest, and every node is asked.
    pub node_choice: Option<NodeChoice>,
}

impl Policy for FixedShare {
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        let spec = node.spec();
        let shape = &request.shape;
        let fastest = request.terms.estimate / spec.rating / request.terms.deadline;
        if self.share > 0.0 && fastest > 1.0 + TOLERANCE {
            return Err(Obstacle::Slot { share: fastest });
        }
        let per_chunk = self.share * f64::from(shape.processors_per_chunk);
        let free = (spec.processors - node.committed()).max(0.0);
        // Room that exists only because sums do not add up exactly; see TOLERANCE.
        let slack = spec.processors * TOLERANCE;
        if per_chunk > free + slack {
            return Err(Obstacle::Share {
                needed: per_chunk,
                free,
            });
        }
        let by_share = match per_chunk > 0.0 {
            // `as` saturates, which is what is wanted of a node far larger than the job.
            true => ((free + slack) / per_chunk) as u32,
            false => u32::MAX,
        };
        let chunks = most_chunks(node, shape)?.min(by_share);
        let loadfree = (free - per_chunk).max(0.0);
        let (rank, rank_step) = match self.node_choice.unwrap_or_default() {
            NodeChoice::BestFit => (loadfree, -per_chunk),
            NodeChoice::LeastLoaded => (-loadfree, per_chunk),
        };
        Ok(Offer {
            chunks,
            share: self.share,
            loadfree,
            per_chunk,
            rank,
            rank_step,
        })
    }

    fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        let terms = &request.terms;
        self.share > 0.0 && terms.estimate / fastest / terms.deadline > 1.0 + TOLERANCE
    }

    fn goes_by_sums(&self) -> Option<NodeChoice> {
        self.node_choice
    }

    fn share_rule(&self) -> ShareRule {
        ShareRule::Exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::Terms;
    use crate::decision::node::{NodeSpec, PlainNode};

    fn node(processors: f64) -> PlainNode {
        let spec = NodeSpec {
            processors,
            rating: 2.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        PlainNode::new(spec, Vec::new(), ShareRule::Exact)
    }

    fn chunks(chunks: u32, processors: u32) -> Request {
        let mut request = Request::single(Terms::hard(10.0, 100.0, 1e6));
        request.shape.chunks = chunks;
        request.shape.processors_per_chunk = processors;
        request
    }

    #[test]
    fn whole_chunks_fit_as_often_as_there_are_processors() {
        let whole = FixedShare {
            share: 1.0,
            node_choice: None,
        };
        let offer = whole.offer(&&node(7.5), &chunks(5, 2)).expect("three");
        assert_eq!((offer.chunks, offer.share, offer.loadfree), (3, 1.0, 5.5));
        let full = whole.offer(&&node(1.9), &chunks(1, 2));
        assert_eq!(
            full,
            Err(Obstacle::Share {
                needed: 2.0,
                free: 1.9
            })
        );
        // 30 s are 15 s on a node that is twice as fast.
        let mut late = chunks(1, 1);
        late.terms = Terms::hard(30.0, 14.0, 1e6);
        let slot = whole.offer(&&node(8.0), &late);
        assert!(matches!(slot, Err(Obstacle::Slot { .. })), "{slot:?}");
        assert!(whole.is_hopeless(&late, 2.0) && !whole.is_hopeless(&late, 3.0));
    }

    #[test]
    fn who_has_nothing_fits_everywhere_and_is_never_too_late() {
        let nothing = FixedShare {
            share: 0.0,
            node_choice: Some(NodeChoice::LeastLoaded),
        };
        let mut asked = chunks(3, 2);
        asked.terms.deadline = 1.0;
        let offer = nothing
            .offer(&&node(0.0), &asked)
            .expect("nothing is there");
        assert_eq!((offer.chunks, offer.share), (3, 0.0));
        assert!(!nothing.is_hopeless(&asked, 1.0));
    }
}
