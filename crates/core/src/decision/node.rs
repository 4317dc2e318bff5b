//! What a decision sees of a cluster: nodes, each with its capacity and the jobs that are on it.
//!
//! Traits, because the same decision runs over C structs, over the book's running sums, over the
//! registry of one host and over a simulator, and none of them should copy its state to be asked.

use super::consumable::Consumable;
use super::job::{Request, Terms};
use super::node_index::{Entry, Kind, Search};
use super::share::{Need, ShareRule, Work, need};

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeSpec {
    /// Capacity in processors, ≥ 0. May be fractional where a site keeps a part for itself.
    pub processors: f64,
    /// Speed against a reference node, > 0: an estimate E takes E / rating here.
    pub rating: f64,
    /// Memory in bytes; [`NodeSpec::MEMORY_UNLIMITED`] where it is not counted.
    pub memory: u64,
}

impl NodeSpec {
    /// Memory of this node is not counted.
    pub const MEMORY_UNLIMITED: u64 = u64::MAX;
    /// Most processors of one node.
    pub const MOST_PROCESSORS: f64 = 1e6;

    /// The same without so many processors, which some jobs have whole.
    pub fn without(self, processors: f64) -> NodeSpec {
        NodeSpec {
            processors: (self.processors - processors).max(0.0),
            ..self
        }
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), super::job::OutOfRange> {
        if !(0.0..=Self::MOST_PROCESSORS).contains(&self.processors) {
            return Err(super::job::OutOfRange {
                field: "processors",
                value: self.processors,
                expected: "processors of the node, from 0 to 1000000",
            });
        }
        if !(1e-6..=1e6).contains(&self.rating) {
            return Err(super::job::OutOfRange {
                field: "rating",
                value: self.rating,
                expected: "speed against a reference node, from 0.000001 to 1000000",
            });
        }
        Ok(())
    }
}

/// One job as it stands on one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobOnNode {
    /// Its terms; the estimate is the planned one (any margin included), on a reference node.
    pub terms: Terms,
    /// Its slots on this node.
    pub slots: u32,
    /// Processor seconds used so far, per slot.
    pub cput: f64,
    /// Seconds since submission.
    pub walltime: f64,
    /// Share per slot that it last held.
    pub held_share: f64,
    /// Memory reserved for it on this node, in bytes.
    pub memory: u64,
    /// Seconds after its deadline that were accepted for it here (LibraSLA; 0 elsewhere): it runs
    /// toward the end of those.
    pub delay: f64,
}

impl JobOnNode {
    /// What each of its slots needs from now on, on a node of this rating.
    #[inline(always)]
    pub fn need(&self, rating: f64) -> Need {
        need(&Work {
            estimate: self.terms.estimate / rating,
            deadline: self.terms.deadline + self.delay,
            cput: self.cput,
            walltime: self.walltime,
            held_share: self.held_share,
        })
    }
}

/// One node as a policy sees it. Reservations count like running jobs.
pub trait NodeView {
    /// What the node is.
    fn spec(&self) -> NodeSpec;
    /// Sum of slots × share over the node's jobs, in processors.
    fn committed(&self) -> f64;
    /// Sum of the memory reserved on the node, in bytes.
    fn memory_committed(&self) -> u64;
    /// Slots that the batch system has open here for the request that is judged, whatever their shares; [`u32::MAX`] for no limit.
    fn open_slots(&self) -> u32 {
        u32::MAX
    }
    /// How much of a consumable is free here; None if there is none of it at all. Asked only for requests that want it.
    fn free_of(&self, what: Consumable) -> Option<u64> {
        let _ = what;
        None
    }
    /// Processors that jobs have whole here, see [`super::service`]; they are among those committed. Policies that look at every job are shown
    /// the node without them.
    fn whole(&self) -> f64 {
        0.0
    }
    /// Slots of a job with a share that find a whole processor each beside jobs that are to begin with theirs later, under policies that look at every
    /// job; [`f64::INFINITY`] for no limit.
    fn slots_beside_whole(&self) -> f64 {
        f64::INFINITY
    }
    /// Shows every job of the node that has a share; for policies that need more than the sum.
    fn for_each_job(&self, show: impl FnMut(&JobOnNode));
}

/// The nodes that a job may be placed on.
pub trait Cluster {
    /// A node, as seen by a policy.
    type Node<'a>: NodeView
    where
        Self: 'a;
    /// Number of nodes.
    fn len(&self) -> usize;
    /// True where there is no node at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Node `index`, or None if that node takes no new jobs now (down, removed).
    /// `index` is below [`Cluster::len`].
    fn node(&self, index: usize) -> Option<Self::Node<'_>>;
    /// The same as this request finds it, its estimate as planned: what is committed there is the most that is at any time while it would run.
    /// It is the same as [`Cluster::node`] where nothing is promised to begin later.
    #[inline(always)]
    fn node_for(&self, index: usize, request: &Request) -> Option<Self::Node<'_>> {
        let _ = request;
        self.node(index)
    }
    /// All nodes are asked why they refuse, and may be asked for other terms then, again and again, all of what holds now: what is looked up for each
    /// question may be kept meanwhile.
    fn expect_questions(&self) {}
    /// How much is free of a consumable that is counted once for all nodes; None if there is no limit. Asked only for requests that
    /// want it.
    fn free_of(&self, what: Consumable) -> Option<u64> {
        let _ = what;
        None
    }
    /// The nodes by what is committed on them, where somebody keeps that in order: every node that takes new jobs is in it, and what the sums say of
    /// those that do not stand apart is what [`Cluster::node_for`] says.
    #[inline(always)]
    fn index(&self) -> Option<Search<'_>> {
        None
    }
    /// The nodes that are alike, where somebody keeps them together.
    #[inline(always)]
    fn groups(&self) -> Option<Groups<'_>> {
        None
    }
    /// What each node of a group is. Asked only where there are groups, and never for one that has no nodes.
    fn any_of(&self, group: usize) -> Option<Self::Node<'_>> {
        let first = *self.groups()?.members[group].first()?;
        self.node(first as usize)
    }
}

/// Nodes that are alike to the last bit, so that what one of them answers all of its group would.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    /// The nodes of each group, ascending. Every node of the cluster is in one; a group may have none.
    pub members: &'a [Vec<u32>],
    /// The group of each node.
    pub of: &'a [u32],
}

/// A node of an index: what policies that go by sums answer, the rank of those that rank by them, and what these would answer if it were empty.
pub(super) struct SummedNode {
    spec: NodeSpec,
    committed: f64,
}

impl SummedNode {
    #[inline(always)]
    pub fn of(kind: &Kind, entry: &Entry) -> SummedNode {
        SummedNode {
            spec: NodeSpec {
                processors: kind.processors,
                rating: kind.rating,
                // What is free of it, so that nothing of this is committed.
                memory: entry.memory,
            },
            committed: entry.committed,
        }
    }

    /// The same, if memory were no matter.
    #[inline(always)]
    pub fn without_memory(mut self) -> SummedNode {
        self.spec.memory = NodeSpec::MEMORY_UNLIMITED;
        self
    }
}

impl NodeView for SummedNode {
    #[inline(always)]
    fn spec(&self) -> NodeSpec {
        self.spec
    }

    #[inline(always)]
    fn committed(&self) -> f64 {
        self.committed
    }

    #[inline(always)]
    fn memory_committed(&self) -> u64 {
        0
    }

    /// None: nobody who goes by sums asks, and others ask what an empty node would say.
    fn for_each_job(&self, _: impl FnMut(&JobOnNode)) {}
}

/// A node given as plain data: the sums, not the jobs behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainNode {
    /// What the node is.
    pub spec: NodeSpec,
    /// Its jobs.
    pub jobs: Vec<JobOnNode>,
    /// Sum of slots × share of the jobs.
    committed: f64,
    /// Sum of the jobs' memory.
    memory_committed: u64,
    /// How shares count here.
    rule: ShareRule,
}

impl PlainNode {
    /// A node with these jobs, their shares counted by `rule`.
    pub fn new(spec: NodeSpec, jobs: Vec<JobOnNode>, rule: ShareRule) -> PlainNode {
        let committed = jobs
            .iter()
            .map(|job| f64::from(job.slots) * rule.apply(job.need(spec.rating).share))
            .sum();
        let memory_committed = jobs
            .iter()
            .fold(0u64, |sum, job| sum.saturating_add(job.memory));
        PlainNode {
            spec,
            jobs,
            committed,
            memory_committed,
            rule,
        }
    }

    /// Takes memory that something else holds here, in bytes.
    pub fn reserve_memory(&mut self, bytes: u64) {
        self.memory_committed = self.memory_committed.saturating_add(bytes);
    }

    /// Adds a job that was accepted here, as a reservation: no time has passed for it yet.
    /// `request` is the planned one, as policies see it.
    pub fn reserve(&mut self, request: &Request, chunks: u32) {
        let slots = chunks.saturating_mul(request.shape.processors_per_chunk);
        let job = JobOnNode {
            terms: request.terms,
            slots,
            cput: 0.0,
            walltime: 0.0,
            held_share: 0.0,
            memory: request
                .shape
                .memory_per_chunk
                .saturating_mul(u64::from(chunks)),
            delay: 0.0,
        };
        self.committed += f64::from(slots) * self.rule.apply(job.need(self.spec.rating).share);
        self.memory_committed = self.memory_committed.saturating_add(job.memory);
        self.jobs.push(job);
    }
}

impl NodeView for &PlainNode {
    fn spec(&self) -> NodeSpec {
        self.spec
    }
    fn committed(&self) -> f64 {
        self.committed
    }
    fn memory_committed(&self) -> u64 {
        self.memory_committed
    }
    fn for_each_job(&self, show: impl FnMut(&JobOnNode)) {
        self.jobs.iter().for_each(show);
    }
}

impl Cluster for [PlainNode] {
    type Node<'a> = &'a PlainNode;
    fn len(&self) -> usize {
        <[PlainNode]>::len(self)
    }
    fn node(&self, index: usize) -> Option<&PlainNode> {
        self.get(index)
    }
}
