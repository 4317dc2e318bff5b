//! A host's side: Libra is started in the place of each shepherd (`shepherd_cmd`), puts itself where the job belongs, and becomes the shepherd.
//!
//! Execution daemons start it as root, in the directory of the task, with an environment of their own; users can change neither. So all of a
//! job, its prolog and the tasks of parallel jobs on other hosts included, is in its cgroup before its first instruction. A process of
//! its own, outside of that, waits for the shepherd's end and ends the job here ([`end_after`]): no epilog is needed, and a job whose daemon or
//! shepherd was killed ends as well.
//!
//! Each call opens the host anew: what there is to know is in the registry and in the kernel's cgroups.
//!
//! Invariants: nothing is begun that qmaster's own record of this job does not say; a job without a commitment is promised nothing.

use super::context::name_of;
use super::records::Detail;
use libra_config::{OnFault, WithoutTerms};
use libra_core::commitment::Commitment;
use libra_host::entry::{Entry, Process};
use libra_host::session::{Begun, Starting};
use libra_host::{Host, HostError};
use libra_metrics::Rejection;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A job without processes that began so many seconds ago is not taken for left over yet.
const JUST_BEGUN: f64 = 10.0;

/// Time between two checks of what tells of an end.
const INTERVAL: Duration = Duration::from_millis(200);

/// A task that a daemon starts, as the file `config` in its directory has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Number of the job.
    pub job: u32,
    /// Number of the task of an array.
    pub task: Option<u32>,
    /// It is a further task of a parallel job: another process has begun the job.
    pub is_further: bool,
    /// Slots on this host.
    pub slots: u32,
    /// This host, as qmaster calls it.
    pub host: String,
}

/// Why a task's configuration is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the task's configuration has no {0}")]
pub struct NoTask(&'static str);

impl Task {
    /// Reads `config`.
    ///
    /// # Errors
    /// What it lacks.
    pub fn read(config: &str) -> Result<Task, NoTask> {
        let text = |key: &'static str| {
            (config.lines())
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
                .map(str::trim)
                .filter(|value| !value.is_empty())
                .ok_or(NoTask(key))
        };
        let number = |key: &'static str| text(key)?.parse::<u32>().map_err(|_| NoTask(key));
        Ok(Task {
            job: number("job_id")?,
            task: match number("ja_task_id")? {
                0 => None,
                task => Some(task),
            },
            is_further: !matches!(text("pe_task_id"), Err(_) | Ok("0")),
            slots: number("host_slots").unwrap_or(1).max(1),
            host: text("host")?.to_string(),
        })
    }

    /// As the registry calls it.
    pub fn name(&self) -> String {
        name_of(self.job, self.task)
    }

    /// Directory of the job among those of all live jobs of this host.
    pub fn directory(&self, active_jobs: &Path) -> PathBuf {
        directory_of(&self.name(), active_jobs)
    }
}

fn directory_of(name: &str, active_jobs: &Path) -> PathBuf {
    active_jobs.join(match name.contains('.') {
        true => name.to_string(),
        false => format!("{name}.1"),
    })
}

/// Asks qmaster for a job by its number: None if there is none.
pub type Ask<'a> = &'a dyn Fn(u32) -> Result<Option<Detail>, String>;

/// Starts the process that waits for the end of a job that has begun here, by the registry's name for it ([`end_after`]).
pub type Watch<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Unix time, when it is asked for: qmaster may take its time to answer, and the deadline is no later for it.
pub type Now<'a> = &'a dyn Fn() -> f64;

/// Where a task's processes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// Held to what is committed.
    Held,
    /// Among those that were promised nothing.
    BestEffort,
    /// Where they were.
    LeftAlone,
    /// Nowhere: it must not run; why.
    Refused(String),
}

/// Places process `pid`, which is to be the shepherd of a task, with all that it will start. `active_jobs`: the daemon's directory of live jobs.
pub fn place(
    host: &Host,
    task: &Task,
    pid: i32,
    active_jobs: &Path,
    ask: Ask<'_>,
    watch: Watch<'_>,
    now: Now<'_>,
) -> Placed {
    end_leftovers(host, active_jobs);
    match place_committed(host, task, pid, ask, watch, now) {
        Ok(Some(placed)) => placed,
        Ok(None) => without_terms(host, &task.name(), pid).unwrap_or_else(|error| {
            log::error!(
                "job {} runs as Grid Engine started it: {error}",
                task.name()
            );
            Placed::LeftAlone
        }),
        Err(problem) => {
            let problem = format!("job {} is not held to its share: {problem}", task.name());
            match host.config().gridengine.on_fault {
                OnFault::Refuse => Placed::Refused(problem),
                OnFault::Admit => {
                    log::error!("{problem}");
                    Placed::LeftAlone
                }
            }
        }
    }
}

/// None for a job that was promised nothing.
fn place_committed(
    host: &Host,
    task: &Task,
    pid: i32,
    ask: Ask<'_>,
    watch: Watch<'_>,
    now: Now<'_>,
) -> Result<Option<Placed>, String> {
    let name = task.name();
    if task.is_further {
        match host.join(&name, pid) {
            Ok(entry) => return held(entry).map(Some),
            Err(HostError::UnknownJob(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let Some(detail) = ask(task.job)? else {
        return Ok(None);
    };
    let commitment = match detail.commitment {
        None => return Ok(None),
        Some(Ok(commitment)) if commitment.deferred => {
            return unrecorded(
                host,
                &name,
                "its promise was deferred, and is not confirmed",
            );
        }
        Some(Ok(commitment)) => commitment,
        Some(Err(problem)) => return unrecorded(host, &name, &problem.to_string()),
    };
    let begun = begin(host, &name, detail.user, task, &commitment, now())?;
    // The others make room first, where no agent runs.
    adjust(host);
    match begun {
        None => return Ok(None),
        // Before it is in the cgroup, where its children would be as well.
        Some(true) => watch(&name)?,
        Some(false) => {}
    }
    let joined = host.join(&name, pid);
    joined
        .map_err(|error| error.to_string())
        .and_then(held)
        .map(Some)
}

/// It gets what a job without terms gets, and is counted.
fn unrecorded(host: &Host, name: &str, problem: &str) -> Result<Option<Placed>, String> {
    log::warn!(
        "job {name} claims what is not committed to it: {problem}; it gets what a job without terms gets"
    );
    if let Err(error) = host.reject_claim(Rejection::Unrecorded) {
        log::error!("not counted: {error}");
    }
    Ok(None)
}

/// Execution daemons make no groups of their own: whoever is in another's that cannot be adopted is held to no share.
fn held(entry: Entry) -> Result<Placed, String> {
    match entry.unenforced {
        None => Ok(Placed::Held),
        Some(reason) => Err(reason),
    }
}

/// None for a job that this host has no room for; else whether it began just now.
fn begin(
    host: &Host,
    name: &str,
    user: u32,
    task: &Task,
    commitment: &Commitment,
    now: f64,
) -> Result<Option<bool>, String> {
    let starting = Starting {
        id: name,
        commitment,
        slots: u64::from(task.slots),
        share: commitment.share_on(&task.host),
        user,
    };
    let begun = match task.is_further {
        true => host.begin_committed_once(&starting, now),
        false => host.begin_committed(&starting, now).map(Some),
    };
    match begun.map_err(|error| error.to_string())? {
        None => Ok(Some(false)),
        Some(Begun::Held | Begun::Uncapped(_)) => Ok(Some(true)),
        Some(Begun::Unenforced(reason)) => Err(reason),
        Some(Begun::NoRoom(reason)) => {
            log::warn!("{reason}");
            Ok(None)
        }
    }
}

fn without_terms(host: &Host, name: &str, pid: i32) -> Result<Placed, HostError> {
    // Nobody is told when such a job ends.
    host.remove_empty_best_effort();
    let rule = host.config().gridengine.without_terms;
    let placed = rule == WithoutTerms::BestEffort && host.place_best_effort(name, pid)?;
    Ok(match placed {
        true => Placed::BestEffort,
        false => Placed::LeftAlone,
    })
}

/// Waits until a shepherd has ended, and ends its job here. `is_further`: there may be more shepherds of it, until the daemon has removed the
/// job's directory.
///
/// # Errors
/// When its processes do not go or the registry fails.
pub fn end_after(
    host: &Host,
    name: &str,
    pid: i32,
    is_further: bool,
    active_jobs: &Path,
) -> Result<(), HostError> {
    let directory = directory_of(name, active_jobs);
    let shepherd = Process::find(pid);
    while shepherd.as_ref().is_some_and(|process| process.is_alive())
        || (is_further && directory.exists())
    {
        std::thread::sleep(INTERVAL);
    }
    let is_its = |leader: &Process| {
        leader.pid == pid
            && (shepherd.as_ref()).is_none_or(|shepherd| shepherd.start == leader.start)
    };
    // Started anew meanwhile, it has another shepherd, and somebody else who waits for that.
    if (host.registry().read(name)?)
        .and_then(|entry| entry.leader)
        .is_some_and(|leader| !is_its(&leader))
    {
        return Ok(());
    }
    match host.end(name) {
        Ok(_) => adjust(host),
        Err(HostError::UnknownJob(_)) => {}
        Err(error) => return Err(error),
    }
    host.remove_unused()
}

/// Where no agent runs, nobody else would make room for a job that comes, or give on what one leaves.
fn adjust(host: &Host) {
    if let Err(error) = host.adjust() {
        log::error!("shares were not taken anew: {error}");
    }
}

/// Ends jobs that have no process here and no directory: who waited for their end was killed as well.
fn end_leftovers(host: &Host, active_jobs: &Path) {
    let is_ours =
        |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ended = host.end_left_over(&mut |entry, age| {
        is_ours(&entry.id)
            && age > JUST_BEGUN
            && !directory_of(&entry.id, active_jobs).exists()
            && host.is_without_process(entry)
    });
    match ended {
        Ok(lines) => {
            for line in lines {
                match line {
                    Ok(ended) => log::warn!("{ended}"),
                    Err(problem) => log::error!("{problem}"),
                }
            }
        }
        Err(error) => log::error!("leftovers were not looked for: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context;
    use libra_config::{Config, VersionChoice};
    use std::cell::Cell;
    use std::collections::BTreeMap;

    /// As 8.1.9 writes it, cut to what is read.
    const CONFIG: &str = "add_grp_id=65401\nh_vmem=INFINITY\njob_owner=ann\npe_slots=2\nhost_slots=1\nqueue=main.q\nhost=n1\njob_id=12\nja_task_id=0\n\
         pe_task_id=0\nsubmission_time=1700000000\n";
    const LINE: &str = "v=1:token=17:submitted=1700000000:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
         chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.525";

    fn host(directory: &Path) -> Host {
        let mut config = Config::default();
        config.cgroup.version = VersionChoice::Off;
        config.registry.directory = directory.join("registry").display().to_string();
        Host::open(config).expect("a host")
    }

    #[test]
    fn a_task_is_what_its_daemon_has_written() {
        let task = Task::read(CONFIG).expect("a task");
        assert_eq!(
            (task.name(), task.is_further, task.slots),
            ("12".to_string(), false, 1)
        );
        assert_eq!(task.directory(Path::new("/a")), Path::new("/a/12.1"));
        let further = CONFIG
            .replace("ja_task_id=0", "ja_task_id=3")
            .replace("pe_task_id=0", "pe_task_id=1.n1");
        let further = Task::read(&further).expect("a task");
        assert_eq!(
            (further.name(), further.is_further),
            ("12.3".to_string(), true)
        );
        assert_eq!(further.directory(Path::new("/a")), Path::new("/a/12.3"));
        for key in ["job_id", "ja_task_id", "host"] {
            let without = CONFIG.replace(&format!("\n{key}="), "\nother=");
            assert_eq!(Task::read(&without), Err(NoTask(key)));
        }
    }

    #[test]
    fn nothing_begins_that_qmaster_has_no_record_of() {
        let directory = tempfile::tempdir().expect("a directory");
        let host = host(directory.path());
        let task = Task::read(CONFIG).expect("a task");
        let pid = std::process::id() as i32;
        let watched = Cell::new(0);
        let watch = |name: &str| {
            assert_eq!(name, "12");
            watched.set(watched.get() + 1);
            Ok(())
        };
        let place = |value: Option<&str>| {
            let detail = Detail {
                user: 1001,
                commitment: value.map(|value| context::read(12, value)),
                tasks: (1, 1),
                started: BTreeMap::new(),
                asked: None,
            };
            let ask = |_: u32| Ok(Some(detail.clone()));
            place(&host, &task, pid, directory.path(), &ask, &watch, &|| {
                1_700_000_001.0
            })
        };
        for value in [
            None,
            Some("12:nonsense"),
            Some(&*format!("13:{LINE}")),
            Some(LINE),
        ] {
            assert_eq!(place(value), Placed::LeftAlone, "{value:?}");
        }
        assert!(host.usage("12").is_err());
        assert_eq!(watched.get(), 0);
        assert_eq!(place(Some(&format!("12:{LINE}"))), Placed::Held);
        assert!(host.usage("12").is_ok());
        assert_eq!(watched.get(), 1, "somebody sees to its end");
        let silent = |_: u32| Err("no answer".to_string());
        let placed = super::place(
            &host,
            &task,
            pid,
            directory.path(),
            &silent,
            &watch,
            &|| 1_700_000_001.0,
        );
        assert!(matches!(placed, Placed::Refused(_)), "{placed:?}");
    }
}
