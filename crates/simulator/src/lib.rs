//! The simulator: what a policy would have done to a workload. It knows the core,
//! workloads and plots, and no batch system.
//!
//! Event-driven and deterministic: the same jobs on the same machine yield the same outcomes, to
//! the last byte. A true run time drives the execution and is never shown to a policy.
//!
//! One scheduler, one module, behind the one trait [`Scheduler`]. What becomes of a job is told
//! once, when it is known, to an [`Observer`]; nothing is kept of a job that has ended.

pub mod aroma;
pub mod classes;
pub mod experiment;
pub mod gang;
pub mod groups;
pub mod measures;
pub mod outcomes;
pub mod queue;
pub mod range;
pub mod recorded;
pub mod report;
pub mod schedulers;
pub mod series;
pub mod setting;
pub mod shares;
pub mod summary;
pub mod sums;
#[cfg(test)]
pub(crate) mod testing;

use libra_core::decision::node::NodeSpec;
use libra_workload::Job;

/// The simulated cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its nodes.
    pub nodes: Vec<NodeSpec>,
}

impl Machine {
    /// So many equal nodes of rating 1 whose memory is not counted.
    pub fn uniform(nodes: usize, processors_per_node: u32) -> Machine {
        let node = NodeSpec {
            processors: f64::from(processors_per_node),
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        Machine {
            nodes: vec![node; nodes],
        }
    }

    /// All processors.
    pub fn processors(&self) -> f64 {
        self.nodes.iter().map(|node| node.processors).sum()
    }
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate<'a> {
    /// It did not run.
    Refused {
        /// When that was said, seconds of the simulation.
        at: f64,
        /// The category of the reason, see [`libra_core::decision::refusal::Reason::category`].
        reason: &'static str,
    },
    /// It ran to its end.
    Ended {
        /// When it first ran, seconds of the simulation.
        start: f64,
        /// When its last slot ended.
        finish: f64,
        /// Price as committed, credits; 0 under schedulers that commit nothing.
        price: f64,
        /// Indices of the nodes it ran on, ascending, each once.
        nodes: &'a [u32],
    },
}

/// One job and what became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome<'a> {
    /// Index of the job in the workload.
    pub index: usize,
    /// The job.
    pub job: &'a Job,
    /// What became of it.
    pub fate: Fate<'a>,
}

impl Outcome<'_> {
    /// Returns true if it ended by its deadline. Two roundings of one time are forgiven.
    pub fn met(&self) -> bool {
        match self.fate {
            Fate::Refused { .. } => false,
            Fate::Ended { finish, .. } => self.job.met_by(finish),
        }
    }
}

/// Is told what becomes of each job, once, in the order in which it becomes known.
pub trait Observer {
    /// A job was refused or has ended.
    fn outcome(&mut self, outcome: &Outcome<'_>);

    /// So much work, in processor seconds of reference nodes, was done evenly between two times, seconds of the
    /// simulation. Only schedulers that say so tell it ([`Scheduler::tells_work`]).
    fn worked(&mut self, _from: f64, _to: f64, _work: f64) {}

    /// A job that was refused is promised after all, as others have ended. What becomes of it is told as of any other.
    fn promised_later(&mut self) {}
}

/// Decides which job runs when and where.
pub trait Scheduler {
    /// Runs all jobs, which stand in order of submission, from an empty machine until the last
    /// one has ended.
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer);

    /// Returns true if it tells all work as it is done ([`Observer::worked`]). Under others each job works evenly
    /// from its start to its end.
    fn tells_work(&self) -> bool {
        false
    }
}
