//! What Slurm is told of jobs that are to stand still or to go on ([`super::suspended`]), and of which jobs it can be: by their records alone.

use super::array::{going_on_by, has_gone_on};
use super::records::{SlurmJob, State};
use libra_core::decision::class::Class;

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

/// Whether it has not ended, and its record says when it goes on, or that it has and its nodes may not have heard so.
pub(super) fn is_marked(job: &SlurmJob) -> bool {
    let comment: &str = &job.admin_comment;
    job.state != State::Ended && (going_on_by(comment).is_some() || has_gone_on(comment))
}
