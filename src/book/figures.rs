//! How the book stands, in numbers.

use super::{Book, Phase};
use crate::metrics::ClusterFigures;
use crate::metrics::figures::{MOST_NODES, NodeFigures};

impl Book {
    /// Jobs by how far they have come, and the nodes; nothing about accounts. `now` as for all calls.
    pub fn figures(&self, now: f64) -> ClusterFigures {
        let mut figures = ClusterFigures::default();
        for job in self.jobs.iter().flatten() {
            match job.phase {
                Phase::Provisional => figures.provisional += 1,
                Phase::Bound => figures.waiting += 1,
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
