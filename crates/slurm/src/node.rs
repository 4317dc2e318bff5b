//! A node's side: a job begins, its tasks come, it ends.
//!
//! Each call is a process of its own that opens the host anew: what there is to know is in the registry and in the kernel's
//! cgroups.
//!
//! Here a job is called by Slurm's number alone, also a task of an array: a prolog is told of no array. What is committed
//! to an array is the same for all its tasks, and a node has one share for them.
//!
//! Invariants: nothing is begun that slurmctld's own record of this job does not say ([`super::claim`]); a job without a claim and without options
//! of ours is asked nothing about, and once its prolog was told, no task asks again. A job that has a commitment is in the registry from its prolog, or its
//! first task where it had none or was told nothing in time, to its epilog, or a refusal of its tasks is on record, or the site admits without a promise. Nothing here ends a job that
//! has a process.

mod notes;
mod task;

pub use task::{Joined, Task, join, left, patience, placed, runs_anywhere};

use super::array::going_on_by;
use super::claim::{Ask, Claim, Committed, ControllerRecord, Records, look_up};
use libra_config::OnFault;
use libra_core::commitment::Commitment;
use libra_host::entry::Entry;
use libra_host::registry::RegistryError;
use libra_host::session::{self, Begun};
use libra_host::{Host, HostError};
use libra_metrics::Rejection;
use libra_system::clock::Moment;
use libra_wording::errors;
use notes::Note;
use std::time::Duration;

/// Seconds beyond its longest time in Slurm after which a job without processes is taken for left over: for Slurm's
/// OverTimeLimit and KillWait, and a slurmd that is slow.
const LEFT_OVER: f64 = 600.0;

/// How long a prolog, a task or an epilog waits for the registry's lock, altogether, beside what it waits for slurmctld. Nobody but its job waits for it: slurmd has each in a process of its own, and a job whose
/// tasks are refused after a few seconds has lost what it was promised to a machine that was busy. Its work has a minute.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// So many seconds after its prolog nobody asks whether Slurm has given a job up.
const JUST_BEGUN: f64 = 10.0;

/// How long a prolog asks slurmctld, with everything. Where slurmctld is killed while it starts a job, it starts it a second time when it is
/// there again; slurmd drains the node ("Duplicate jobid") if the first prolog still waits then. What it does not hear in this time the job's tasks ask.
pub const PROLOG_ASKS: Duration = Duration::from_secs(3);

/// So long a task asks where its job's prolog had no answer, or there was none. Nobody but its job waits: a slurmctld that is restarted or busy for
/// some seconds costs an accepted job these seconds, and not its promise.
pub const TASK_ASKS: Duration = Duration::from_secs(60);

/// A job that Slurm is about to start on this node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Starting<'a> {
    /// Slurm's number for it.
    pub name: &'a str,
    /// User number of its owner.
    pub user: u32,
    /// What its environment says was committed to it ([`libra_core::commitment`]); None for a job without terms. Users can write it.
    pub claimed: Option<&'a str>,
    /// Slurm's name for this node.
    pub node: &'a str,
}

/// A job that Slurm starts on this node, as slurmctld's records have it.
struct Recorded<'a> {
    name: &'a str,
    user: u32,
    node: &'a str,
    committed: &'a Committed,
}

impl<'a> Recorded<'a> {
    /// What else was claimed is not believed.
    fn new(
        host: &Host,
        (name, user, node): (&'a str, u32, &'a str),
        committed: &'a Committed,
    ) -> Recorded<'a> {
        if let Some(reason) = &committed.other {
            reject(host, name, reason);
        }
        Recorded {
            name,
            user,
            node,
            committed,
        }
    }
}

/// A job begins here: its cgroup is made, and all shares are taken anew. What it claims and slurmctld has no record of, or no
/// host could keep, is logged and counted, and the job goes on as one without terms.
///
/// # Errors
/// Why it is not held to what is committed to it, in words for slurmd's log. Whether its tasks run all the same says `[slurm]
/// on-fault`, to [`join`].
pub fn prolog(host: &Host, job: &Starting<'_>, ask: Ask<'_>, now: f64) -> Result<(), String> {
    // slurmctld may take its time to answer, and the deadline is no later for it.
    let now = Moment::of(now);
    end_leftovers(host);
    Note::forgive(host, job.name);
    let ask = &|number| ask(number, PROLOG_ASKS);
    let begun = job.claimed.map_or(Ok(false), |claimed| {
        let begun = begin_claimed(host, job, claimed, ask, now);
        adjust(host);
        begun
    });
    let is_for_good = !matches!(begun, Err(NotBegun::ForNow(_)));
    let problem = match begun {
        Ok(true) => return Ok(()),
        Ok(false) => {
            // Numbers are given again one day; this one's tasks are not those of the job that had it.
            forget(host, job.name).unwrap_or_else(|error| log::error!("job {}: {error}", job.name));
            // Its tasks need not ask for it once more; where it cannot be written they do.
            if job.claimed.is_some() {
                let _ = Note::WithoutShare.write(host, job.name, "");
            }
            return Ok(());
        }
        Err(NotBegun::ForNow(problem) | NotBegun::Failed(problem)) => problem,
    };
    let mut problem = format!("job {} is not held to its share: {problem}", job.name);
    if host.config().slurm.on_fault == OnFault::Refuse {
        let noted = match is_for_good {
            false => {
                problem.push_str("; its tasks wait and try again");
                Note::NotYet.write(host, job.name, job.claimed.unwrap_or_default())
            }
            // One that is in the registry without a cgroup needs no further record.
            true if host.usage(job.name).is_ok() => Ok(()),
            true => Note::Refused.write(host, job.name, &problem),
        };
        if let Err(error) = noted {
            return Err(format!(
                "{problem}; that cannot be written down for its tasks: {error}"
            ));
        }
    }
    Err(problem)
}

/// Why a job has not begun here, for slurmd's log.
enum NotBegun {
    /// slurmctld did not say in time what there is to know of it, or the registry is locked.
    ForNow(String),
    /// It cannot begin.
    Failed(String),
}

/// Returns true if it has begun with a promise.
fn begin_claimed(
    host: &Host,
    job: &Starting<'_>,
    claimed: &str,
    ask: Records<'_>,
    now: Moment,
) -> Result<bool, NotBegun> {
    let claim = look_up(job.name, job.user, Some(claimed), ask);
    if !matches!(claim, Claim::Unknown(_)) {
        end_given_up(host, &|job| ask(job).map(|record| !record.is_here()));
    }
    let committed = match claim {
        Claim::Commitment(committed) => committed,
        Claim::Unrecorded(reason) => {
            reject_claim_of(host, job.name, &reason);
            return Ok(false);
        }
        Claim::GivenBack(reason) => {
            log::info!(
                "job {}: {reason}; it gets what a job without terms gets",
                job.name
            );
            return Ok(false);
        }
        Claim::Over => {
            log::info!("job {} is over before it began here", job.name);
            return Ok(false);
        }
        Claim::Unknown(problem) => return Err(NotBegun::ForNow(problem)),
    };
    let recorded = Recorded::new(host, (job.name, job.user, job.node), &committed);
    begin(host, &recorded, ask, now)
}

/// A claim of something that nobody has promised.
fn reject_claim_of(host: &Host, name: &str, reason: &str) {
    let reason = format!("{reason}; it gets what a job without terms gets");
    reject(host, name, &reason);
}

/// A claim that is not believed: said, and counted.
fn reject(host: &Host, name: &str, reason: &str) {
    log::warn!("job {name} claims what is not committed to it: {reason}");
    if let Err(error) = host.reject_claim(Rejection::Unrecorded) {
        log::error!("not counted: {error}");
    }
}

/// Where a job finds less room than was promised to it, somebody stands still for it, as slurmctld says: Slurm tells nobody here.
///
/// # Errors
/// When slurmctld does not say it of one of them, or the registry is locked: begun now, the job would have what they leave. Where the site admits
/// without a promise it begins with that.
fn note_suspended(
    host: &Host,
    job: &session::Starting<'_>,
    ask: Records<'_>,
) -> Result<(), NotBegun> {
    // For whole processors alone.
    if !job.commitment.request.terms.class.is_whole() {
        return Ok(());
    }
    let asked = job.share * job.slots as f64;
    let noted = host.in_its_way(job.id, asked).and_then(|others| {
        for other in others {
            let Ok(number) = other.parse() else {
                continue;
            };
            let Some(record) = ask(number) else {
                return Ok(Some(format!(
                    "slurmctld did not say in time whether job {other} stands still for it; see that it answers this node ('scontrol ping')"
                )));
            };
            let is_still = matches!(record, ControllerRecord::Job(job) if job.is_suspended && going_on_by(&job.admin_comment).is_some());
            if is_still {
                host.note_suspended(&other, true)?;
            }
        }
        Ok(None)
    });
    let (problem, passes) = match noted {
        Ok(None) => return Ok(()),
        Ok(Some(silence)) => (silence, true),
        Err(error) => (error.to_string(), may_pass(&error)),
    };
    let problem = format!("who stands still for it is not known: {problem}");
    if passes && host.config().slurm.on_fault == OnFault::Refuse {
        return Err(NotBegun::ForNow(problem));
    }
    log::error!("job {}: {problem}; it has what is left", job.id);
    Ok(())
}

fn begin(host: &Host, job: &Recorded<'_>, ask: Records<'_>, now: Moment) -> Result<bool, NotBegun> {
    let commitment = Commitment::parse(&job.committed.line)
        .map_err(|error| NotBegun::Failed(errors::not_committed(&error)))?;
    if !has_chunks_here(host, &commitment, job) {
        return Ok(false);
    }
    note_suspended(host, &starting(&commitment, job), ask)?;
    match host.begin_committed(&starting(&commitment, job), now.unix_time()) {
        Ok(Begun::Held | Begun::Uncapped(_)) => Ok(true),
        Ok(Begun::NoRoom(reason)) => {
            log::warn!("{reason}");
            Ok(false)
        }
        Ok(Begun::Unenforced(reason)) => Err(NotBegun::Failed(reason)),
        Err(error) if may_pass(&error) => Err(NotBegun::ForNow(error.to_string())),
        Err(error) => Err(NotBegun::Failed(error.to_string())),
    }
}

/// Returns true where another process keeps the registry's lock: nothing was begun, and it may be free soon.
fn may_pass(error: &HostError) -> bool {
    matches!(
        error,
        HostError::Registry(RegistryError::Locked { .. } | RegistryError::Busy { .. })
    )
}

/// False where the job has more nodes than chunks, and this is one of those beyond: said, and counted.
fn has_chunks_here(host: &Host, commitment: &Commitment, job: &Recorded<'_>) -> bool {
    let has = chunks_here(commitment, job) > 0;
    if !has {
        let reason = format!(
            "it has {} nodes, and {} chunks were committed; this node gets what a job without terms gets",
            job.committed.nodes, commitment.request.shape.chunks
        );
        reject(host, job.name, &reason);
    }
    has
}

fn starting<'a>(commitment: &'a Commitment, job: &Recorded<'a>) -> session::Starting<'a> {
    let slots = u64::from(chunks_here(commitment, job))
        .saturating_mul(u64::from(commitment.request.shape.processors_per_chunk));
    session::Starting {
        id: job.name,
        commitment,
        slots,
        share: commitment.share_on(job.node),
        user: job.user,
    }
}

/// Chunks of the job on this node: as planned, or evenly over its nodes where Slurm has put it elsewhere, or it is one task of
/// an array, and the plan does not say which. Over all of its nodes they are no more than was committed.
fn chunks_here(commitment: &Commitment, job: &Recorded<'_>) -> u32 {
    let chunks = u64::from(commitment.request.shape.chunks);
    let (nodes, before) = (job.committed.nodes, job.committed.before);
    let up_to = |count: u32| chunks * u64::from(count.min(nodes)) / u64::from(nodes.max(1));
    let even = (up_to(before.saturating_add(1)) - up_to(before)) as u32;
    let plan = commitment.plan(0);
    if commitment.count != 1 || plan.len() != nodes as usize {
        return even;
    }
    (plan.iter().find(|place| place.node == job.node)).map_or(even, |place| place.chunks)
}

fn forget(host: &Host, name: &str) -> Result<(), HostError> {
    if host
        .registry()
        .read(name)?
        .is_some_and(|known| !known.is_live())
    {
        let _lock = host.registry().lock()?;
        host.registry().remove(name)?;
    }
    Ok(())
}

/// A job ends here: what is left of it in a cgroup made here is killed, that cgroup removed, and all shares are taken anew. Returns the processor
/// seconds that it used here; None if it was not here.
///
/// # Errors
/// When its processes do not go or the registry fails.
pub fn epilog(host: &Host, name: &str) -> Result<Option<f64>, HostError> {
    Note::forgive(host, name);
    let used = match host.end(name) {
        Ok(entry) => {
            adjust(host);
            Some(entry.ending.map_or(0.0, |ending| ending.used))
        }
        Err(HostError::UnknownJob(_)) => None,
        Err(error) => return Err(error),
    };
    host.remove_unused()?;
    Ok(used)
}

/// Where no agent runs, nobody else would make room for a job that comes, or give on what one leaves.
fn adjust(host: &Host) {
    if let Err(error) = host.adjust() {
        log::error!("shares were not taken anew: {error}");
    }
}

/// Ends jobs whose epilog never came, because slurmd was killed meanwhile: they have no process, and their time in Slurm is up.
///
/// That time is at most the deadline and the estimate, from the prolog on. A job may be without a process before: it
/// runs its steps elsewhere, or it is between two of them.
fn end_leftovers(host: &Host) {
    end_left_over(host, &mut |entry, age| {
        let terms = &entry.request.terms;
        let longest = terms.expected_end() + terms.estimate + LEFT_OVER;
        age >= longest && host.is_without_process(entry)
    });
}

/// Says what was ended, and what could not be.
fn end_left_over(host: &Host, is_left_over: &mut dyn FnMut(&Entry, f64) -> bool) {
    match host.end_left_over(is_left_over) {
        Ok(lines) => {
            for line in lines {
                match line {
                    Ok(ended) => log::warn!("{ended}, as it had no epilog"),
                    Err(problem) => log::error!("{problem}"),
                }
            }
        }
        Err(error) => log::error!("leftovers were not looked for: {error}"),
    }
}

/// Ends jobs that have no process here and that Slurm has given up, so that no epilog will come: it lost them before they began
/// to run, or their epilog was killed. What stays of them would take its share from others. `given_up`: has slurmctld, by the
/// job's number, nothing of it on this node? None if it does not say.
pub fn end_given_up(host: &Host, given_up: &dyn Fn(u32) -> Option<bool>) {
    let mut answers = true;
    end_left_over(host, &mut |entry, age| {
        let Ok(number) = entry.id.parse() else {
            return false;
        };
        if !answers || age < JUST_BEGUN || !host.is_without_process(entry) {
            return false;
        }
        let answer = given_up(number);
        // It will not say more about the next one.
        answers = answer.is_some();
        answer == Some(true)
    });
}

#[cfg(test)]
#[path = "node_suspended_tests.rs"]
mod suspended_tests;
#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "node_unanswered_tests.rs"]
mod unanswered_tests;
#[cfg(test)]
#[path = "node_v2_tests.rs"]
mod v2_tests;
