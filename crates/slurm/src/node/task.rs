//! Tasks of a job come and go: into its cgroup, with what its prolog could not do done by the first of them.

use super::super::claim::{Ask, Claim, look_up};
use super::notes::Note;
use super::{
    NotBegun, PROLOG_ASKS, Recorded, TASK_ASKS, adjust, end_given_up, end_leftovers,
    has_chunks_here, note_suspended, reject_claim_of, starting,
};
use libra_config::{OnFault, WithoutTerms};
use libra_core::commitment::Commitment;
use libra_host::entry::{Entry, Exit};
use libra_host::registry::RegistryError;
use libra_host::session::Begun;
use libra_host::{Host, HostError};
use libra_system::clock::{self, Moment};
use libra_wording::errors;
use std::time::{Duration, Instant};

/// So long tasks of a job that has not begun here ask slurmctld, or wait for one of them that does, and the registry's lock is to wait for that too.
pub fn patience(host: &Host) -> Duration {
    match host.config().slurm.on_fault {
        OnFault::Refuse => TASK_ASKS,
        // It would run all the same, so nothing is won by waiting.
        OnFault::Admit => PROLOG_ASKS,
    }
}

/// A process that is about to be a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task<'a> {
    /// Slurm's number of its job.
    pub name: &'a str,
    /// User number of the job's owner.
    pub user: u32,
    /// The process.
    pub pid: i32,
    /// Slurm's name for this node.
    pub node: &'a str,
    /// The job, or this step of it, was submitted with options of ours. Users say so.
    pub has_terms: bool,
}

/// What becomes of a process that is about to be a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Joined {
    /// It is held to its job's share. The job's deadline, Unix time; infinite where it has none.
    Held(f64),
    /// It runs, and is held to no share: Slurm keeps it in a group that could not be adopted. The job's deadline, Unix time.
    Unenforced(f64),
    /// It is where jobs are that were promised nothing.
    BestEffort,
    /// It was left where it is.
    LeftAlone,
    /// It must not run: why.
    Refused(String),
}

/// A process becomes a task of a job that began here, or of one that has no commitment. One that Slurm keeps in a group that
/// cannot be adopted stays there and runs, whatever `on-fault` says: its job was accepted, and Slurm could not end a task that was taken away.
/// `now`: Unix time.
pub fn join(host: &Host, task: &Task<'_>, ask: Ask<'_>, now: f64) -> Joined {
    let now = Moment::of(now);
    let name = task.name;
    let refuse = host.config().slurm.on_fault == OnFault::Refuse;
    if let (true, Some(problem)) = (refuse, Note::Refused.read(host, name)) {
        return Joined::Refused(problem);
    }
    let joined = match host.join(name, task.pid).or_else(|error| {
        match begin_with_task(host, task, ask, now)? {
            true => host.join(name, task.pid),
            false => Err(error),
        }
    }) {
        Ok(entry) => {
            let deadline = match entry.request.terms.has_deadline() {
                true => entry.submitted_unix + entry.request.terms.deadline,
                false => f64::INFINITY,
            };
            let Some(reason) = entry.unenforced else {
                return Joined::Held(deadline);
            };
            log::error!("job {name} RUNS WITHOUT ITS SHARE on this node: {reason}");
            return Joined::Unenforced(deadline);
        }
        Err(HostError::UnknownJob(_)) => without_terms(host, name, task.pid),
        Err(error) if refuse => return Joined::Refused(error.to_string()),
        Err(error) => Err(error),
    };
    joined.unwrap_or_else(|error| {
        log::error!("a task of job {name} runs as Slurm started it: {error}");
        Joined::LeftAlone
    })
}

/// A job has a task here and has not begun; it begins now, if slurmctld says that something is committed to it. Returns true if it has begun by
/// then, by this task or by another one. There are three kinds. One the prolog could not begin for now: slurmctld did not say in time what is committed to it, or the registry was locked. One was here and had its epilog, and Slurm has started it anew without a prolog: it does so
/// when a requeued job is let go before its credentials have expired, as `scontrol update … starttime=now` does. Of the third the registry knows
/// nothing, and it was submitted with options of ours: a step alone has them, or there was no prolog of ours. slurmd asks for plugins that have
/// one when it starts, and whoever installs Libra may restart it later; and where a step comes before the request for its job's prolog (srun, with
/// PrologFlags=NoHold, on a busy machine), slurmd 22.05 takes the prolog for done, because the step's credential has made the job known to it.
///
/// Tasks of a job ask one after the other: a slurmctld that is behind is not helped by a hundred that ask for the same.
///
/// # Errors
/// When slurmctld does not say what is committed to it, or it cannot begin.
fn begin_with_task(
    host: &Host,
    task: &Task<'_>,
    ask: Ask<'_>,
    now: Moment,
) -> Result<bool, HostError> {
    let ended =
        |known: &Entry| !known.is_live() && known.begun.is_some() && known.boot == clock::boot_id();
    let told = || Note::WithoutShare.read(host, task.name).is_some();
    let not_yet = Note::NotYet.read(host, task.name);
    let was_here = match host.registry().read(task.name) {
        Ok(None) if (task.has_terms || not_yet.is_some()) && !told() => false,
        Ok(Some(known)) if ended(&known) => true,
        // Of another boot, before numbers were given again.
        Ok(Some(known)) if not_yet.is_some() && known.boot != clock::boot_id() && !told() => false,
        _ => return Ok(false),
    };
    let no_cap = |reason| HostError::NoCap {
        id: task.name.to_string(),
        reason,
    };
    let until = Instant::now() + patience(host);
    let number = (task.name.parse())
        .map_err(|_| no_cap(format!("'{}' is not the number of a job", task.name)))?;
    let turn = Note::turn(host, number, patience(host));
    // Whoever had the turn before may have been told.
    if has_begun(host, task.name) {
        return Ok(true);
    }
    if told() {
        return Ok(false);
    }
    let _turn = turn.map_err(|error| {
        let error = match error {
            RegistryError::Locked { .. } | RegistryError::Busy { .. } => {
                "another task of this job has tried all the time to begin it here; slurmd's log says what it waited for".to_string()
            }
            other => other.to_string(),
        };
        no_cap(error)
    })?;
    let without_share = || {
        // The job's other tasks need not ask for it once more; where it cannot be written they do. One that was started anew may be let go once more.
        if !was_here {
            let _ = Note::WithoutShare.write(host, task.name, "");
        }
        Ok(false)
    };
    let first = &|number| ask(number, until.saturating_duration_since(Instant::now()));
    // A full disk keeps a note's name without its text.
    let claimed = not_yet.as_deref().filter(|claimed| !claimed.is_empty());
    let claim = look_up(task.name, task.user, claimed, first);
    // It answers, or nobody gets here; that one was the last to wait for it does not mean that others are not asked about.
    let then = &|number| {
        let left = until.saturating_duration_since(Instant::now());
        ask(number, left.max(PROLOG_ASKS))
    };
    let others = &|number| ask(number, PROLOG_ASKS);
    let committed = match claim {
        Claim::Commitment(committed) => committed,
        Claim::Unknown(reason) => return Err(no_cap(reason)),
        Claim::Over if not_yet.is_some() => {
            return Err(no_cap(
                "slurmctld says that it does not run: it is over, or will be started anew"
                    .to_string(),
            ));
        }
        Claim::Unrecorded(reason) => {
            // Options that nothing came of claim nothing.
            if was_here || not_yet.is_some() {
                reject_claim_of(host, task.name, &reason);
            }
            return without_share();
        }
        Claim::GivenBack(reason) if not_yet.is_some() => {
            log::info!(
                "job {}: {reason}; it gets what a job without terms gets",
                task.name
            );
            return without_share();
        }
        Claim::GivenBack(_) | Claim::Over => return Ok(false),
    };
    let job = Recorded::new(host, (task.name, task.user, task.node), &committed);
    let commitment = Commitment::parse(&committed.line)
        .map_err(|error| no_cap(errors::not_committed(&error)))?;
    if !has_chunks_here(host, &commitment, &job) {
        return without_share();
    }
    // As its prolog would have done.
    end_leftovers(host);
    end_given_up(host, &|job| others(job).map(|record| !record.is_here()));
    if let Err(NotBegun::ForNow(problem) | NotBegun::Failed(problem)) =
        note_suspended(host, &starting(&commitment, &job), then)
    {
        return Err(no_cap(problem));
    }
    let begun = match host.begin_committed_once(&starting(&commitment, &job), now.unix_time())? {
        Some(Begun::NoRoom(reason)) => {
            log::warn!("{reason}");
            return without_share();
        }
        // Why it is not held is said to the task that joins.
        Some(Begun::Held | Begun::Uncapped(_) | Begun::Unenforced(_)) => {
            let begins = |why| format!("job {} begins with its first task: {why}", task.name);
            match (not_yet.is_some(), was_here) {
                // Nothing is wrong here. A warning would be in its output.
                (true, _) => {
                    log::info!("{}", begins("its prolog could not"))
                }
                (false, true) => log::warn!("{}", begins("it had no prolog of Libra's here")),
                (false, false) => log::warn!(
                    "{}",
                    begins(
                        "it had no prolog of Libra's here (a busy slurmd, or not restarted since Libra was installed)"
                    )
                ),
            }
            adjust(host);
            true
        }
        None => true,
    };
    Ok(begun)
}

/// Returns true where the registry has this job as one that is here.
fn has_begun(host: &Host, name: &str) -> bool {
    let known = host.registry().read(name).ok().flatten();
    known.is_some_and(|known| known.is_live() && known.boot == clock::boot_id())
}

fn without_terms(host: &Host, name: &str, pid: i32) -> Result<Joined, HostError> {
    let rule = host.config().slurm.without_terms;
    let placed = rule == WithoutTerms::BestEffort && host.place_best_effort(name, pid)?;
    Ok(match placed {
        true => Joined::BestEffort,
        false => Joined::LeftAlone,
    })
}

/// Slurm has put a task where it belongs, and it has begun no program yet. One of a job that [`runs_anywhere`] is let off the processors that Slurm has picked; where
/// that cannot be done it has its share all the same, of fewer.
///
/// # Errors
/// When the kernel refuses it, or the registry fails.
pub fn placed(host: &Host, name: &str, pid: i32) -> Result<(), HostError> {
    if runs_anywhere(host, name)? {
        host.let_off(pid)?;
    }
    Ok(())
}

/// Returns true if a job is held to a share here, and so runs on all processors of the node, whichever Slurm has picked. A job that has all whole processors keeps
/// to Slurm's, and its tasks to those that `--cpu-bind` gives them.
///
/// # Errors
/// When the registry fails.
pub fn runs_anywhere(host: &Host, name: &str) -> Result<bool, HostError> {
    let known = host.registry().read(name)?;
    Ok(known.is_some_and(|entry| {
        entry.is_live() && entry.unenforced.is_none() && !host.has_all_whole(&entry)
    }))
}

/// A task of a job has ended. `script`: what wait(2) said of the batch script, if it was that. What the job has used by now is written down: the group that Slurm made for it goes with its
/// last step, before the epilog.
///
/// # Errors
/// When the registry fails.
pub fn left(host: &Host, name: &str, script: Option<i32>) -> Result<(), HostError> {
    let noted = match script {
        Some(status) => host.note_exit(name, Exit::of_wait(status)),
        None => Ok(()),
    };
    match noted.and_then(|()| host.note_usage(name)) {
        Err(HostError::UnknownJob(_)) => Ok(()),
        other => other,
    }
}
