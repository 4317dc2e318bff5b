//! Policies of admission: what a node answers when it is asked to take a job.
//!
//! One policy, one module, behind the one trait [`Policy`]. A policy sees one node at a time and
//! the request; it does not choose between nodes, [`super::placement`] does, by the rank that the
//! policy gave. The estimate in the request is the planned one (any margin included).

mod fit;
pub mod fixed_share;
pub mod libra;
pub mod libra_adaptive;
pub mod libra_risk;
pub mod libra_sla;

use super::allotment::Shortage;
use super::consumable::Consumable;
use super::job::{Request, Shape};
use super::node::{JobOnNode, NodeSpec, NodeView};
use super::share::{Need, ShareRule};
pub use fixed_share::FixedShare;
pub use libra::Libra;
pub use libra_adaptive::LibraAdaptive;
pub use libra_risk::LibraRisk;
pub use libra_sla::LibraSla;

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
    /// The batch system has no place left for even one chunk.
    Slots,
    /// The node has not enough memory left.
    Memory {
        /// Bytes that one chunk needs.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The node has not enough left of a consumable.
    Consumable {
        /// Of which.
        what: Consumable,
        /// What one chunk needs, in its unit.
        needed: u64,
        /// What is free; None on a node that never has any.
        free: Option<u64>,
    },
    /// Before some deadline there is not enough time left for all (deadline order).
    Time {
        /// Processor seconds that one chunk needs before that deadline.
        needed: f64,
        /// Processor seconds that are free before it.
        free: f64,
    },
    /// Some job of the node is late already or would be (LibraRisk).
    Risk {
        /// The longest delay, seconds.
        delay: f64,
    },
    /// The penalties to others would outweigh what the job brings (LibraSLA).
    Return {
        /// Return of the node with the job, credits per second squared.
        with: f64,
        /// Its return without.
        without: f64,
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

    /// What each slot of a job needs from now on, on a node of this rating.
    #[inline(always)]
    fn need(&self, job: &JobOnNode, rating: f64) -> Need {
        let need = job.need(rating);
        Need {
            share: self.share_rule().apply(need.share),
            ..need
        }
    }

    /// Who gives way on a node whose jobs need more than it has.
    fn shortage(&self) -> Shortage {
        Shortage::CommittedFirst
    }

    /// A job was accepted and stands last in `jobs`, all jobs of a node: sets the delays that were
    /// accepted with it.
    fn accept_delays(&self, spec: &NodeSpec, jobs: &mut [JobOnNode]) {
        let _ = (spec, jobs);
    }

    /// Returns true if the deadline is too short for every node of at most this rating, whatever runs there: the refusal is
    /// [`super::refusal::Reason::Deadline`] then.
    fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        let _ = (request, fastest);
        false
    }

    /// Returns true if every node that takes the job is as good as any other. Then the first ones are taken and the
    /// others need not be asked.
    #[inline(always)]
    fn takes_any_node(&self) -> bool {
        false
    }

    /// Which nodes are the best, of a policy that goes by sums alone: what it offers depends on a node's rating and processors, on what is
    /// committed there, on its free memory and on its open slots. Of nodes of one rating and as many processors, an emptier one takes at
    /// least as much; share, rank and its step do not depend on memory and slots; and the rank does not rise (least loaded) or not fall (best
    /// fit) with what is free. Then a [`super::node_index`] finds the same nodes as asking all of them. None: every node is to be asked.
    #[inline(always)]
    fn goes_by_sums(&self) -> Option<NodeChoice> {
        None
    }

    /// Which nodes come first, of a policy with a [`Policy::rank`] that depends on what [`Policy::goes_by_sums`] names, as the rank of an offer does there,
    /// whatever its answer depends on: nodes are asked in that order then, until there are enough. It is the same, to the last bit, if whole processors are
    /// taken off both what is committed and what the node has. And a node without jobs takes a job if any node of its kind does. None: every node is to be
    /// asked.
    #[inline(always)]
    fn ranks_by_sums(&self) -> Option<NodeChoice> {
        self.goes_by_sums()
    }

    /// Of the nodes that come first and take a job of this shape, so many more than it could use are compared: those whose offers have the lowest
    /// ranks get it. 0 where the first ones are taken.
    #[inline(always)]
    fn compared(&self, shape: &Shape) -> usize {
        let _ = shape;
        0
    }

    /// Where this node comes for a job, the lowest first. Asked only of policies that rank by sums and do not go by them.
    fn rank<N: NodeView>(&self, node: &N, request: &Request) -> f64 {
        let _ = (node, request);
        0.0
    }

    /// Returns true if delays are ever accepted.
    fn accepts_delays(&self) -> bool {
        false
    }

    /// Returns true if a job may be taken for a larger budget that is refused for one which it does not exceed.
    fn weighs_budgets(&self) -> bool {
        false
    }
}

/// Which node is the best of those that take a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// LibraSLA, 2005.
    LibraSla(LibraSla),
    /// LibraRisk, 2006.
    LibraRisk(LibraRisk),
    /// Deadlines in order.
    LibraAdaptive(LibraAdaptive),
}

impl Default for AnyPolicy {
    fn default() -> AnyPolicy {
        AnyPolicy::Libra(Libra::default())
    }
}

/// Asks the policy that was chosen.
macro_rules! ask {
    ($any:expr, $policy:ident => $question:expr) => {
        match $any {
            AnyPolicy::Libra($policy) => $question,
            AnyPolicy::LibraSla($policy) => $question,
            AnyPolicy::LibraRisk($policy) => $question,
            AnyPolicy::LibraAdaptive($policy) => $question,
        }
    };
}

/// Shows every job of a node.
type ShowJobs<'a> = dyn Fn(&mut dyn FnMut(&JobOnNode)) + 'a;

/// What a node has free of a consumable.
type FreeOf<'a> = dyn Fn(Consumable) -> Option<u64> + 'a;

/// Any kind of node, as it is left to jobs with shares: the policies that look at every job are compiled once for it and not once for each
/// kind, in a library whose size counts.
struct AnyNode<'a> {
    spec: NodeSpec,
    committed: f64,
    memory_committed: u64,
    open_slots: u32,
    slots_beside_whole: f64,
    free_of: &'a FreeOf<'a>,
    jobs: &'a ShowJobs<'a>,
}

impl NodeView for AnyNode<'_> {
    fn spec(&self) -> NodeSpec {
        self.spec
    }

    fn committed(&self) -> f64 {
        self.committed
    }

    fn memory_committed(&self) -> u64 {
        self.memory_committed
    }

    fn open_slots(&self) -> u32 {
        self.open_slots
    }

    fn free_of(&self, what: Consumable) -> Option<u64> {
        (self.free_of)(what)
    }

    fn for_each_job(&self, mut show: impl FnMut(&JobOnNode)) {
        (self.jobs)(&mut show);
    }
}

impl AnyPolicy {
    /// Has a policy answer that looks at every job.
    #[inline(always)]
    fn with_any_node<N: NodeView, R>(node: &N, answer: impl FnOnce(&AnyNode<'_>) -> R) -> R {
        answer(&AnyNode {
            spec: node.spec().without(node.whole()),
            committed: node.committed() - node.whole(),
            memory_committed: node.memory_committed(),
            open_slots: node.open_slots(),
            slots_beside_whole: node.slots_beside_whole(),
            free_of: &|what| node.free_of(what),
            jobs: &|show| node.for_each_job(show),
        })
    }

    #[inline(never)]
    fn offer_of_any_node(&self, node: &AnyNode<'_>, request: &Request) -> Result<Offer, Obstacle> {
        let offer = ask!(self, policy => policy.offer(node, request))?;
        let each = request.shape.processors_per_chunk;
        fit::beside_whole(offer, each, node.slots_beside_whole)
    }
}

impl Policy for AnyPolicy {
    #[inline(always)]
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        match self {
            AnyPolicy::Libra(policy) => policy.offer(node, request),
            others => {
                AnyPolicy::with_any_node(node, |node| others.offer_of_any_node(node, request))
            }
        }
    }

    fn share_rule(&self) -> ShareRule {
        ask!(self, policy => policy.share_rule())
    }

    #[inline(never)]
    fn need(&self, job: &JobOnNode, rating: f64) -> Need {
        ask!(self, policy => policy.need(job, rating))
    }

    fn shortage(&self) -> Shortage {
        ask!(self, policy => policy.shortage())
    }

    fn accept_delays(&self, spec: &NodeSpec, jobs: &mut [JobOnNode]) {
        ask!(self, policy => policy.accept_delays(spec, jobs));
    }

    fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        ask!(self, policy => policy.is_hopeless(request, fastest))
    }

    #[inline(always)]
    fn takes_any_node(&self) -> bool {
        ask!(self, policy => policy.takes_any_node())
    }

    #[inline(always)]
    fn goes_by_sums(&self) -> Option<NodeChoice> {
        ask!(self, policy => policy.goes_by_sums())
    }

    #[inline(always)]
    fn ranks_by_sums(&self) -> Option<NodeChoice> {
        ask!(self, policy => policy.ranks_by_sums())
    }

    #[inline(always)]
    fn compared(&self, shape: &Shape) -> usize {
        ask!(self, policy => policy.compared(shape))
    }

    #[inline(always)]
    fn rank<N: NodeView>(&self, node: &N, request: &Request) -> f64 {
        AnyPolicy::with_any_node(
            node,
            |node| ask!(self, policy => policy.rank(node, request)),
        )
    }

    fn accepts_delays(&self) -> bool {
        ask!(self, policy => policy.accepts_delays())
    }

    fn weighs_budgets(&self) -> bool {
        ask!(self, policy => policy.weighs_budgets())
    }
}
