//! Policies of admission: what a node answers when it is asked to take a job.
//!
//! One policy, one module, behind the one trait [`Policy`]. A policy sees one node at a time and
//! the request; it does not choose between nodes, [`super::placement`] does, by the rank that the
//! policy gave. The estimate in the request is the planned one (any margin included).

pub mod libra;

use super::job::Request;
use super::node::NodeView;
use super::share::ShareRule;
pub use libra::Libra;
use serde::{Deserialize, Serialize};

/// What a node offers for a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Chunks of the job that the node can take, ≥ 1 and at most as many as the job has.
    pub chunks: u32,
    /// Share of each of the job's slots on this node, in processors.
    pub share: f64,
    /// Processors left over on the node after one chunk (the 2004 paper's loadfree), ≥ 0.
    pub loadfree: f64,
    /// Processors that one chunk takes here.
    pub per_chunk: f64,
    /// The lowest rank is taken first.
    pub rank: f64,
    /// What each chunk placed here adds to the rank of the next one.
    pub rank_step: f64,
}

/// Why a node cannot take even one chunk of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Obstacle {
    /// A slot would need more than one processor: the estimate on this node exceeds the deadline.
    Slot {
        /// Share needed per slot, above 1.
        share: f64,
    },
    /// The node has not enough processors left.
    Share {
        /// Processors that one chunk needs.
        needed: f64,
        /// Processors that are free.
        free: f64,
    },
    /// The node has not enough memory left.
    Memory {
        /// Bytes that one chunk needs.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
}

/// A rule of admission.
pub trait Policy {
    /// What the node says to this job.
    ///
    /// # Errors
    /// The obstacle, when the node takes no chunk of it.
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle>;

    /// How shares count under this policy.
    fn share_rule(&self) -> ShareRule;
}

/// Which node is the best of those that take a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeChoice {
    /// Least processors left over (2004 paper, section 4.1, and both later papers).
    #[default]
    BestFit,
    /// Most processors left over (2004 paper, section 3.1).
    LeastLoaded,
}

/// The policies that can be chosen, behind one type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnyPolicy {
    /// Libra, 2004.
    Libra(Libra),
}

impl Default for AnyPolicy {
    fn default() -> AnyPolicy {
        AnyPolicy::Libra(Libra::default())
    }
}

impl Policy for AnyPolicy {
    #[inline(always)]
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        match self {
            AnyPolicy::Libra(policy) => policy.offer(node, request),
        }
    }

    fn share_rule(&self) -> ShareRule {
        match self {
            AnyPolicy::Libra(policy) => policy.share_rule(),
        }
    }
}
