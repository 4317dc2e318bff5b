//! How the book stands, in numbers.

use super::{Book, Phase};

/// Most nodes that can have lines of their own; more would not go into a file.
pub const MOST_NODES: usize = 256;

/// A node, as who admits sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeFigures {
    /// Its name.
    pub name: String,
    /// Processors that jobs may share.
    pub processors: f64,
    /// Processors that accepted jobs need.
    pub committed: f64,
}

/// How things stand where jobs are admitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterFigures {
    /// Accepted, and the batch system has not shown them yet.
    pub provisional: u64,
    /// Not started yet.
    pub waiting: u64,
    /// They run.
    pub running: u64,
    /// They stand still for others with earlier deadlines, or are to.
    pub suspended: u64,
    /// Of all of these, those whose deadline has passed.
    pub late: u64,
    /// Nodes that take new jobs, and those that do not.
    pub open: u64,
    /// See `open`.
    pub closed: u64,
    /// Processors that jobs may share, on all nodes.
    pub processors: f64,
    /// Processors that accepted jobs need, on all nodes.
    pub committed: f64,
    /// The first of the nodes, at most [`MOST_NODES`].
    pub nodes: Vec<NodeFigures>,
    /// Prices held back on accounts; the book knows nothing of them, so who has accounts says it.
    pub holds: Holds,
}

/// What accounts hold back for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Holds {
    /// The site has no accounts.
    #[default]
    Off,
    /// It has, and they cannot be read.
    Unreachable,
    /// They can.
    Open {
        /// How many prices are held back.
        number: u64,
        /// What they come to.
        credits: f64,
    },
}

impl Holds {
    /// `has_accounts`: the site has; `read`: how many holds there are, and their sum in credits, where that could be read.
    pub fn new(has_accounts: bool, read: Option<(u64, f64)>) -> Holds {
        match read {
            _ if !has_accounts => Holds::Off,
            None => Holds::Unreachable,
            Some((number, credits)) => Holds::Open { number, credits },
        }
    }
}

impl Book {
    /// Jobs by how far they have come, and the nodes; nothing about accounts. `now` as for all calls.
    pub fn figures(&self, now: f64) -> ClusterFigures {
        let mut figures = ClusterFigures::default();
        for job in self.jobs.iter().flatten() {
            match job.phase {
                Phase::Provisional => figures.provisional += 1,
                Phase::Bound => figures.waiting += 1,
                Phase::Running if job.suspended.is_some() => figures.suspended += 1,
                Phase::Running => figures.running += 1,
            }
            figures.late += u64::from(now > job.submitted + job.request.terms.deadline);
        }
        for node in &self.nodes {
            match node.available {
                true => figures.open += 1,
                false => figures.closed += 1,
            }
            figures.processors += node.spec.processors;
            figures.committed += node.committed;
        }
        figures.nodes = (self.nodes.iter().zip(&self.details))
            .take(MOST_NODES)
            .map(|(node, details)| NodeFigures {
                name: details.name.clone(),
                processors: node.spec.processors,
                committed: node.committed,
            })
            .collect();
        figures
    }

    /// How many acceptances came to nothing since this was asked last: they expired, or their jobs were looked for in the
    /// batch system and not found.
    pub fn take_withdrawn(&mut self) -> u64 {
        std::mem::take(&mut self.withdrawn)
    }
}
