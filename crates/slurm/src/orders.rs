//! What Slurm is told of jobs that are to stand still or to go on ([`super::suspended`]), and of which jobs it can be: by their records alone.
//!
//! slurmctld tells slurmd once that a job is to stand still or to go on, and changes its own records whether that was heard or not: a job could stand still for ever whose records
//! say that it runs, where its slurmd was down for a moment. What was said last is on record with its time, and so is since when each slurmd is up: where that is later, it is
//! said once more.

use super::array::going_on_by;
use super::records::{Records, SlurmJob, State};
use libra_core::decision::class::Class;
use std::collections::HashMap;

/// A job that is to stand still, or to go on, with all its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Number of the one that stands still.
    Suspend(u32),
    /// Of the one that goes on.
    Resume(u32),
}

/// So many seconds may pass until a job that is to stand still does: three polls, and Slurm's way to the nodes and back.
pub(super) const STANDS_STILL_WITHIN: f64 = 5.0;

/// Seconds between two orders for the same job. A slurmd that is told a third thing while it does the first, which may take it three seconds, does them in any order.
const APART: f64 = 5.0;

/// Whether a job can be made to stand still for others, by its record. A task of an array has its record with others, a component of a heterogeneous job
/// runs with others, and what an administrator has suspended is his.
pub(super) fn is_possible(job: &SlurmJob, taken: f64) -> bool {
    is_one(job) && !job.suspended && is_settled(job, taken)
}

/// Whether its nodes do what they were told last, whoever told them.
pub(super) fn is_settled(job: &SlurmJob, taken: f64) -> bool {
    // A clock may have been set back since.
    !(job.changed..job.changed + APART).contains(&taken)
}

/// A dedicated job that has begun, alone in its record.
fn is_one(job: &SlurmJob) -> bool {
    let one = job.state == State::Running && job.array.is_none() && !job.component;
    one && matches!(job.admin_comment.commitment(), Some(Ok(known))
        if known.commitment.count == 1 && known.commitment.request.terms.class == Class::Dedicated)
}

/// Whether it has not ended, and its record says when it goes on.
pub(super) fn is_marked(job: &SlurmJob) -> bool {
    job.state != State::Ended && going_on_by(&job.admin_comment).is_some()
}

/// Seconds from the start of a slurmd until it certainly hears what it is told, and has heard what slurmctld was still trying to tell.
const HEARS_AFTER: f64 = 5.0;

/// Dedicated jobs to which something was said that a node may not have heard, and since when its slurmd has been up, Unix time.
pub(super) fn missed(records: &Records) -> HashMap<u32, f64> {
    let mut jobs = (records.jobs.iter())
        .filter(|job| job.changed > 0.0 && is_one(job))
        .peekable();
    if jobs.peek().is_none() {
        return HashMap::new();
    }
    let up_since: HashMap<&str, f64> = (records.nodes.iter())
        .map(|node| (node.name.as_str(), node.up_since))
        .collect();
    jobs.filter_map(|job| {
        let nodes = job.nodes.iter();
        let last = nodes.filter_map(|name| up_since.get(name.as_str()).copied());
        let last = last.fold(0.0, f64::max);
        // Both are whole seconds, cut off.
        let is_missed = job.changed <= last && records.taken > last + HEARS_AFTER;
        is_missed.then_some((job.id, last))
    })
    .collect()
}
