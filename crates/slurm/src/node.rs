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
//! first task where it had none, to its epilog, or a refusal of its tasks is on record, or the site admits without a promise. Nothing here ends a job that
//! has a process.

use super::array::going_on_by;
use super::claim::{Ask, Claim, ControllerRecord, look_up};
use libra_config::{OnFault, WithoutTerms};
use libra_core::commitment::Commitment;
use libra_host::entry::{Entry, Exit};
use libra_host::session::{self, Begun};
use libra_host::{Host, HostError};
use libra_metrics::Rejection;
use libra_system::clock::{self, Moment};
use libra_wording::errors;
use std::path::PathBuf;
use std::time::Duration;

/// Seconds beyond its longest time in Slurm after which a job without processes is taken for left over: for Slurm's
/// OverTimeLimit and KillWait, and a slurmd that is slow.
const LEFT_OVER: f64 = 600.0;

/// How long a prolog, a task or an epilog waits for the registry's lock, altogether. Nobody but its job waits for it: slurmd has each in a process of its own, and a job whose
/// tasks are refused after a few seconds has lost what it was promised to a machine that was busy. Its work has a minute.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// So many seconds after its prolog nobody asks whether Slurm has given a job up.
const JUST_BEGUN: f64 = 10.0;

/// Where it is on record that tasks of a job are refused: one file per job, with the reason, below the registry's directory.
const REFUSED: &str = "refused";

/// Where it is on record that a job runs here without a share, as its prolog was told: as above.
const WITHOUT_SHARE: &str = "without-share";

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
    line: &'a str,
    node: &'a str,
    nodes: u32,
    before: u32,
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
    forgive(host, job.name);
    let begun = match job.claimed {
        None => Ok(false),
        Some(claimed) => {
            end_given_up(host, &|job| ask(job).map(|record| !record.is_here()));
            let begun = begin_claimed(host, job, claimed, ask, now);
            adjust(host);
            begun
        }
    };
    let problem = match begun {
        Ok(true) => return Ok(()),
        Ok(false) => {
            // Numbers are given again one day; this one's tasks are not those of the job that had it.
            forget(host, job.name).unwrap_or_else(|error| log::error!("job {}: {error}", job.name));
            // Its tasks need not ask for it once more; where it cannot be written they do.
            if job.claimed.is_some() {
                let _ = note(host, WITHOUT_SHARE, job.name, "");
            }
            return Ok(());
        }
        Err(problem) => problem,
    };
    let problem = format!("job {} is not held to its share: {problem}", job.name);
    // One that is in the registry without a cgroup needs no further record.
    if host.config().slurm.on_fault == OnFault::Refuse && host.usage(job.name).is_err() {
        if let Err(error) = note(host, REFUSED, job.name, &problem) {
            return Err(format!(
                "{problem}; that its tasks are refused cannot be written down: {error}"
            ));
        }
    }
    Err(problem)
}

/// Returns true if it has begun with a promise.
fn begin_claimed(
    host: &Host,
    job: &Starting<'_>,
    claimed: &str,
    ask: Ask<'_>,
    now: Moment,
) -> Result<bool, String> {
    let (line, nodes, before) = match look_up(job.name, job.user, Some(claimed), ask) {
        Claim::Commitment {
            line,
            nodes,
            before,
            other,
        } => {
            if let Some(reason) = other {
                reject(host, job.name, &reason);
            }
            (line, nodes, before)
        }
        Claim::Unrecorded(reason) => {
            let reason = format!("{reason}; it gets what a job without terms gets");
            reject(host, job.name, &reason);
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
        Claim::Unknown(problem) => return Err(problem),
    };
    let recorded = Recorded {
        name: job.name,
        user: job.user,
        line: &line,
        node: job.node,
        nodes,
        before,
    };
    begin(host, &recorded, ask, now)
}

/// A claim that is not believed: said, and counted.
fn reject(host: &Host, name: &str, reason: &str) {
    log::warn!("job {name} claims what is not committed to it: {reason}");
    if let Err(error) = host.reject_claim(Rejection::Unrecorded) {
        log::error!("not counted: {error}");
    }
}

/// Where a job finds less room than was promised to it, somebody stands still for it, as slurmctld says: Slurm tells nobody here.
fn note_suspended(host: &Host, job: &session::Starting<'_>, ask: Ask<'_>) {
    // For whole processors alone.
    if !job.commitment.request.terms.class.is_whole() {
        return;
    }
    let asked = job.share * job.slots as f64;
    let noted = host.in_its_way(job.id, asked).and_then(|others| {
        for other in others {
            let record = other.parse().ok().and_then(ask);
            let is_still = |record: &ControllerRecord| {
                matches!(record, ControllerRecord::Job(job) if job.is_suspended && going_on_by(&job.admin_comment).is_some())
            };
            if record.is_some_and(|record| is_still(&record)) {
                host.note_suspended(&other, true)?;
            }
        }
        Ok(())
    });
    if let Err(error) = noted {
        log::error!(
            "job {}: who stands still for it is not known: {error}",
            job.id
        );
    }
}

fn begin(host: &Host, job: &Recorded<'_>, ask: Ask<'_>, now: Moment) -> Result<bool, String> {
    let commitment = Commitment::parse(job.line).map_err(|error| errors::not_committed(&error))?;
    if chunks_here(&commitment, job) == 0 {
        let reason = format!(
            "it has {} nodes, and {} chunks were committed; this node gets what a job without terms gets",
            job.nodes, commitment.request.shape.chunks
        );
        reject(host, job.name, &reason);
        return Ok(false);
    }
    note_suspended(host, &starting(&commitment, job), ask);
    match host.begin_committed(&starting(&commitment, job), now.unix_time()) {
        Ok(Begun::Held | Begun::Uncapped(_)) => Ok(true),
        Ok(Begun::NoRoom(reason)) => {
            log::warn!("{reason}");
            Ok(false)
        }
        Ok(Begun::Unenforced(reason)) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
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
    let up_to = |nodes: u32| chunks * u64::from(nodes.min(job.nodes)) / u64::from(job.nodes.max(1));
    let even = (up_to(job.before.saturating_add(1)) - up_to(job.before)) as u32;
    let plan = commitment.plan(0);
    if commitment.count != 1 || plan.len() != job.nodes as usize {
        return even;
    }
    (plan.iter().find(|place| place.node == job.node)).map_or(even, |place| place.chunks)
}

/// A process becomes a task of a job that began here, or of one that has no commitment. One that Slurm keeps in a group that
/// cannot be adopted stays there and runs, whatever `on-fault` says: its job was accepted, and Slurm could not end a task that was taken away.
/// `now`: Unix time.
pub fn join(host: &Host, task: &Task<'_>, ask: Ask<'_>, now: f64) -> Joined {
    let now = Moment::of(now);
    let name = task.name;
    let refuse = host.config().slurm.on_fault == OnFault::Refuse;
    if let (true, Some(problem)) = (refuse, noted(host, REFUSED, name)) {
        return Joined::Refused(problem);
    }
    let joined = match host.join(name, task.pid).or_else(|error| {
        match begin_without_prolog(host, task, ask, now)? {
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
/// then, by this task or by another one. There are two kinds. One was here and had its epilog, and Slurm has started it anew without a prolog: it does so
/// when a requeued job is let go before its credentials have expired, as `scontrol update … starttime=now` does. Of the other the registry knows
/// nothing, and it was submitted with options of ours: a step alone has them, or there was no prolog of ours. slurmd asks for plugins that have
/// one when it starts, and whoever installs Libra may restart it later; and where a step comes before the request for its job's prolog (srun, with
/// PrologFlags=NoHold, on a busy machine), slurmd 22.05 takes the prolog for done, because the step's credential has made the job known to it.
///
/// # Errors
/// When slurmctld does not say what is committed to it, or it cannot begin.
fn begin_without_prolog(
    host: &Host,
    task: &Task<'_>,
    ask: Ask<'_>,
    now: Moment,
) -> Result<bool, HostError> {
    let ended =
        |known: &Entry| !known.is_live() && known.begun.is_some() && known.boot == clock::boot_id();
    let told = || noted(host, WITHOUT_SHARE, task.name).is_some();
    let was_here = match host.registry().read(task.name) {
        Ok(None) if task.has_terms && !told() => false,
        Ok(Some(known)) if ended(&known) => true,
        _ => return Ok(false),
    };
    let no_cap = |reason| HostError::NoCap {
        id: task.name.to_string(),
        reason,
    };
    let (line, nodes, before) = match look_up(task.name, task.user, None, ask) {
        Claim::Commitment {
            line,
            nodes,
            before,
            ..
        } => (line, nodes, before),
        // Another task may have been told.
        Claim::Unknown(reason) => return has_begun(host, task.name).ok_or(no_cap(reason)),
        Claim::Unrecorded(reason) if was_here => {
            reject(host, task.name, &reason);
            return Ok(false);
        }
        Claim::Unrecorded(_) | Claim::GivenBack(_) | Claim::Over => return Ok(false),
    };
    let job = Recorded {
        name: task.name,
        user: task.user,
        line: &line,
        node: task.node,
        nodes,
        before,
    };
    let commitment =
        Commitment::parse(job.line).map_err(|error| no_cap(errors::not_committed(&error)))?;
    if chunks_here(&commitment, &job) == 0 {
        return Ok(false);
    }
    if has_begun(host, task.name).is_some() {
        return Ok(true);
    }
    // As its prolog would have done.
    end_leftovers(host);
    end_given_up(host, &|job| ask(job).map(|record| !record.is_here()));
    note_suspended(host, &starting(&commitment, &job), ask);
    let begun = match host.begin_committed_once(&starting(&commitment, &job), now.unix_time())? {
        Some(Begun::NoRoom(reason)) => {
            log::warn!("{reason}");
            false
        }
        // Why it is not held is said to the task that joins.
        Some(Begun::Held | Begun::Uncapped(_) | Begun::Unenforced(_)) => {
            log::warn!(
                "job {} had no prolog of Libra's here, and begins with its first task{}",
                task.name,
                match was_here {
                    true => "",
                    false => " (a busy slurmd, or not restarted since Libra was installed)",
                }
            );
            adjust(host);
            true
        }
        None => true,
    };
    Ok(begun)
}

/// Some(true) where the registry has this job as one that is here.
fn has_begun(host: &Host, name: &str) -> Option<bool> {
    let known = host.registry().read(name).ok().flatten();
    known.filter(Entry::is_live).map(|_| true)
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

/// A job ends here: what is left of it in a cgroup made here is killed, that cgroup removed, and all shares are taken anew. Returns the processor
/// seconds that it used here; None if it was not here.
///
/// # Errors
/// When its processes do not go or the registry fails.
pub fn epilog(host: &Host, name: &str) -> Result<Option<f64>, HostError> {
    forgive(host, name);
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

/// Where something is on record of a job's tasks; None for what cannot be a job of Slurm's.
fn note_path(host: &Host, what: &str, name: &str) -> Option<PathBuf> {
    let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| host.registry().directory().join(what).join(name))
}

fn note(host: &Host, what: &str, name: &str, text: &str) -> std::io::Result<()> {
    let path = note_path(host, what, name).ok_or(std::io::ErrorKind::InvalidInput)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text)
}

fn noted(host: &Host, what: &str, name: &str) -> Option<String> {
    std::fs::read_to_string(note_path(host, what, name)?).ok()
}

fn forgive(host: &Host, name: &str) {
    for what in [REFUSED, WITHOUT_SHARE] {
        if let Some(path) = note_path(host, what, name) {
            // Mostly there is none.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
#[path = "node_suspended_tests.rs"]
mod suspended_tests;
#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "node_v2_tests.rs"]
mod v2_tests;
