//! Libra (2004, sections 3.1 and 4.1): a node takes a job when the shares of all its jobs, the new
//! one among them, fit into its processors.

use super::fit::most_chunks;
use super::{NodeChoice, Obstacle, Offer, Policy};
use crate::decision::TOLERANCE;
use crate::decision::job::Request;
use crate::decision::node::NodeView;
use crate::decision::share::ShareRule;

/// The policy of the 2004 paper.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Libra {
    /// Which node is taken first.
    pub node_choice: NodeChoice,
    /// How shares count.
    pub share_rule: ShareRule,
}

impl Policy for Libra {
    #[inline(always)]
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        let spec = node.spec();
        let shape = &request.shape;
        let share = request.terms.estimate / spec.rating / request.terms.deadline;
        if share > 1.0 + TOLERANCE {
            return Err(Obstacle::Slot { share });
        }
        let share = self.share_rule.apply(share.min(1.0));
        let per_chunk = share * f64::from(shape.processors_per_chunk);
        let free = spec.processors - node.committed();
        // Room that exists only because quotients do not add up exactly; see TOLERANCE.
        let slack = spec.processors * TOLERANCE;
        let by_share = (free + slack) / per_chunk;
        if by_share < 1.0 {
            return Err(Obstacle::Share {
                needed: per_chunk,
                free: free.max(0.0),
            });
        }
        // `as` saturates, which is what is wanted of a node far larger than the job.
        let chunks = most_chunks(node, shape)?.min(by_share as u32);
        let loadfree = (free - per_chunk).max(0.0);
        let (rank, rank_step) = match self.node_choice {
            NodeChoice::BestFit => (loadfree, -per_chunk),
            NodeChoice::LeastLoaded => (-loadfree, per_chunk),
        };
        Ok(Offer {
            chunks,
            share,
            loadfree,
            per_chunk,
            rank,
            rank_step,
        })
    }

    fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        request.terms.estimate / fastest / request.terms.deadline > 1.0 + TOLERANCE
    }

    #[inline(always)]
    fn goes_by_sums(&self) -> Option<NodeChoice> {
        Some(self.node_choice)
    }

    fn share_rule(&self) -> ShareRule {
        self.share_rule
    }
}
