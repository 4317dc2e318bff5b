//! What Slurm is told of jobs that are to stand still or to go on ([`super::suspended`]), and of which jobs it can be: by their records alone.

use super::array::going_on_by;
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

/// What Slurm does not obey it is told again after so many seconds, then after twice as many, and so on up to a minute.
const TOLD_AGAIN: f64 = 1.0;
const TOLD_AGAIN_AT_MOST: f64 = 60.0;

/// What Slurm is told of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Suspend,
    Resume,
    /// Its record.
    Mark,
}

/// Something that Slurm was told, and whether it has obeyed is still to be seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Given {
    pub(super) job: u32,
    pub(super) told: Told,
    /// When it is to be told again, Unix time, and how long that is.
    again: f64,
    pub(super) wait: f64,
}

impl Given {
    /// What is to be told of a job, and whether now. What was told `before` and was not obeyed is told again, more and more rarely.
    pub(super) fn again(job: u32, told: Told, before: &mut Vec<Given>, now: f64) -> (Given, bool) {
        let known = (before.iter()).position(|given| (given.job, given.told) == (job, told));
        let wait = match known.map(|at| before.swap_remove(at)) {
            Some(given) if now < given.again => return (given, false),
            Some(given) => (given.wait * 2.0).min(TOLD_AGAIN_AT_MOST),
            None => TOLD_AGAIN,
        };
        let given = Given {
            job,
            told,
            again: now + wait,
            wait,
        };
        (given, true)
    }
}

/// Whether a job can be made to stand still for others, by its record. A task of an array has its record with others, a component of a heterogeneous job
/// runs with others, and what an administrator has suspended is his.
pub(super) fn is_possible(job: &SlurmJob) -> bool {
    let one = job.state == State::Running && job.array.is_none() && !job.component;
    one && !job.suspended
        && matches!(job.admin_comment.commitment(), Some(Ok(known))
            if known.commitment.count == 1 && known.commitment.request.terms.class == Class::Dedicated)
}

/// Whether it has not ended, and its record says when it goes on.
pub(super) fn is_marked(job: &SlurmJob) -> bool {
    job.state != State::Ended && going_on_by(&job.admin_comment).is_some()
}
