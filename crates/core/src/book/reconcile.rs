//! Bringing the book into line with the batch system's own records.
//!
//! Events keep the book exact, but some never come: a batch system may delete a waiting job without
//! telling anybody, and a node may change between two comparisons. So the records are read every now and
//! then. They are older than the book by the time they arrive; what happened since then stands:
//!
//! - a job that got its id or was started after the records were taken is not missed,
//! - a job that left the book after they were taken does not come back,
//! - a node keeps what it holds, whatever the records say of its size.

use super::{Book, BookError, JobRecord, NodeRecord, Phase, Snapshot, Untaken, check_seconds};
use crate::decision::node::NodeSpec;
use std::collections::{HashMap, HashSet};

/// For so long the book remembers who left, in seconds; older records are not taken.
pub const OLDEST_RECORDS: f64 = 600.0;

/// What reconciling changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Differences {
    /// Jobs that the batch system does not have any more; their shares are free.
    pub vanished: Vec<String>,
    /// How many of these did not run yet.
    pub waited: usize,
    /// Jobs that the book did not know.
    pub found: Vec<String>,
    /// Records that could not be taken, with the reason.
    pub problems: Vec<Untaken>,
}

impl Book {
    /// Compares the book with records that were taken at `records.now`, and believes the records
    /// about everything that did not change since. Progress is taken where a record has any.
    ///
    /// # Errors
    /// When the records are older than [`OLDEST_RECORDS`] or their time is none; nothing is changed.
    pub fn reconcile(&mut self, records: &Snapshot, now: f64) -> Result<Differences, BookError> {
        self.advance(check_seconds("now", now)?);
        let taken = check_seconds("now", records.now)?;
        if self.now - taken > OLDEST_RECORDS {
            return Err(BookError::TooOld(self.now - taken));
        }
        let mut differences = Differences {
            problems: self.set_nodes(&records.nodes),
            ..Differences::default()
        };
        self.set_cluster_consumables(&records.consumables);
        let recorded: HashSet<&str> = (records.jobs.iter())
            .filter_map(|job| job.id.as_deref())
            .collect();
        let vanished: Vec<String> = (self.jobs.iter().flatten())
            .filter(|job| job.changed < taken)
            .filter_map(|job| job.id.as_deref().map(str::to_string))
            .filter(|id| !recorded.contains(id.as_str()))
            .collect();
        for id in &vanished {
            let key = self.key_of(id)?;
            let job = self.remove(key);
            differences.waited += usize::from(job.phase != Phase::Running);
        }
        differences.vanished = vanished;
        let mut unknown: Vec<&JobRecord> = (records.jobs.iter())
            .filter(|record| (record.id.as_ref()).is_some_and(|id| !self.contains(id)))
            .collect();
        if !unknown.is_empty() {
            let left: HashMap<&str, f64> = (self.left.iter())
                .map(|(id, at)| (id.as_str(), *at))
                .collect();
            let gone_before = |id: &str| left.get(id).is_none_or(|at| *at < taken);
            unknown.retain(|record| record.id.as_deref().is_some_and(gone_before));
        }
        for record in unknown {
            let id = record.id.clone().unwrap_or_default();
            match self.restore(record) {
                Ok(()) => differences.found.push(id),
                Err(error) => (differences.problems).push(Untaken::job(Some(&id), error)),
            }
        }
        for record in &records.jobs {
            self.take_progress(record, taken);
        }
        Ok(differences)
    }

    /// Declares nodes or changes them, as [`Book::set_node`]; those that are not among them are closed. No
    /// nodes at all change nothing. Returns what could not be taken, with the reason.
    pub fn set_nodes(&mut self, records: &[NodeRecord]) -> Vec<Untaken> {
        let mut problems = Vec::new();
        for node in records {
            if let Err(error) = self.declare(node) {
                problems.push(Untaken::node(&node.name, error));
            }
        }
        if records.is_empty() {
            return problems;
        }
        let recorded: HashSet<&str> = records.iter().map(|node| node.name.as_str()).collect();
        for index in 0..self.nodes.len() {
            if !recorded.contains(self.node_name(index)) {
                self.nodes[index].available = false;
                self.reindex(index);
            }
        }
        problems
    }

    /// A node as its record has it.
    pub(super) fn declare(&mut self, node: &NodeRecord) -> Result<(), BookError> {
        let spec = NodeSpec {
            processors: node.processors,
            rating: node.rating,
            memory: node.memory.unwrap_or(NodeSpec::MEMORY_UNLIMITED),
        };
        self.set_node(&node.name, spec, node.available)?;
        self.set_consumables(&node.name, &node.consumables)
    }

    /// A measured progress, as of when the records were taken.
    fn take_progress(&mut self, record: &JobRecord, taken: f64) {
        let Some(key) = record.id.as_ref().and_then(|id| self.find_id(id)) else {
            return;
        };
        if self.job(key).changed > taken {
            return;
        }
        if record.phase != Phase::Running {
            // It was started and did not come to run.
            if self.job(key).phase == Phase::Running {
                let id = record.id.clone().unwrap_or_default();
                let _ = self.requeued(&id, self.now);
            }
            return;
        }
        let key = self.begun(key);
        self.note_still(key, record.suspended.as_ref());
        let since = match self.job(key).stands_still() {
            true => 0.0,
            false => (self.now - taken).max(0.0),
        };
        let now = self.now;
        let mut measured = false;
        for index in 0..self.job(key).places.len() {
            let node = self.node_name(self.job(key).places[index].node as usize);
            let Some(record) = (record.places.iter()).find(|r| r.node == node && r.cput > 0.0)
            else {
                continue;
            };
            let place = &mut self.job_mut(key).places[index];
            (place.cput, place.reported) = (record.cput + place.share * since, now);
            measured = true;
        }
        if measured || self.job(key).phase != Phase::Running {
            self.job_mut(key).phase = Phase::Running;
            self.waiting.remove(&key);
            self.refresh(key);
        }
    }

    pub(super) fn remember_left(&mut self, id: String) {
        let now = self.now;
        while (self.left.front()).is_some_and(|(_, at)| now - at > OLDEST_RECORDS) {
            self.left.pop_front();
        }
        self.left.push_back((id, now));
    }
}
