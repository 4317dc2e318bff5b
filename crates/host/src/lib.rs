//! One host: its registry, its cgroups, its jobs. It may know all engines, and no batch system.
//!
//! The thin edge around the core on an execution host. The registry ([`registry`], one [`entry`] per
//! job) and the kernel's own cgroup tree are the truth; nothing else remembers anything, so every
//! process of Libra may be killed at any time and the next one finds what is there.
//!
//! [`session`] and [`batch`] serve the hooks of a batch system, and [`room`] sees to it that their jobs take nothing from others; [`without_terms`] counts and ends
//! jobs that nothing was promised to. [`submit`] decides and reserves, [`supervise`] runs a job from its start to its end, [`control`]
//! readjusts shares, [`ending`] finds out that a job is over and cleans up, [`report`] tells,
//! [`counts`] and [`figures`] count.
//! A batch system's daemon that has loaded Libra leaves a [`mark`]. [`machine`] is the only place that looks at the host.

pub mod batch;
pub mod control;
pub mod counts;
mod ended;
pub mod ending;
pub mod entry;
pub mod figures;
pub mod machine;
pub mod mark;
mod payment;
pub mod quotes;
pub mod registry;
pub mod report;
mod room;
pub mod session;
mod sole_admission;
pub mod submit;
pub mod supervise;
mod suspended;
#[cfg(test)]
mod tests;
mod without_terms;

use entry::Entry;
pub use libra_cgroup::let_run_anywhere;
use libra_cgroup::{Enforcement, Enforcer, Group};
use libra_config::Config;
use libra_core::book::held_quote::QuoteError;
use libra_core::decision::job::OutOfRange;
use libra_core::decision::node::JobOnNode;
use libra_core::decision::service::ClassError;
use libra_system::clock;
use machine::Machine;
use registry::{Limit, Registry, RegistryError};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A host that is open for business.
pub struct Host {
    config: Config,
    machine: Machine,
    registry: Registry,
    enforcement: Enforcement,
    boot: String,
    /// When accounts could not be opened: the next job that ends does not wait for them again.
    accounts_failed: Mutex<Option<Instant>>,
}

/// What went wrong on the host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A cgroup.
    #[error(transparent)]
    Cgroup(#[from] libra_cgroup::Error),
    /// A system call that should not fail.
    #[error("cannot {action}: {error}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
    /// No job of that id.
    #[error("there is no job {0}; 'libra status' lists the known ones")]
    UnknownJob(String),
    /// Its processes do not end.
    #[error(
        "job {0} is still there: its processes do not end even by SIGKILL (frozen, or waiting for a device); it ends when they do"
    )]
    StillThere(String),
    /// It is here and not held to its share.
    #[error("job {id} is not held to its share here: {reason}")]
    NoCap {
        /// The job.
        id: String,
        /// Why.
        reason: String,
    },
    /// More was claimed for it than this host could give an only job.
    #[error(
        "job {id}: {asked:.3} processors were claimed for it here and this host has {processors}; it gets what a job without terms gets"
    )]
    NoRoom {
        /// The job.
        id: String,
        /// Processors that were claimed, over all slots.
        asked: f64,
        /// Processors of this host.
        processors: f64,
    },
    /// The id cannot be one, or is taken.
    #[error("'{id}' cannot be the id of a new job: {problem}")]
    Id {
        /// What was given.
        id: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Another installation promises the same processors.
    #[error(
        "the processors of this host are promised by another installation of Libra, {0}, and two cannot keep their promises on the same ones: run it when that one has no jobs here any more, or through the batch system of this host if it has one; an administrator can set up one for everybody"
    )]
    OtherAdmitter(String),
    /// A quote.
    #[error("{}", libra_wording::errors::quote(.0))]
    Quote(QuoteError),
    /// A class of service cannot be had.
    #[error("{}", libra_wording::errors::class(.0))]
    Class(ClassError),
    /// A value is out of range.
    #[error("{}", libra_wording::refusal::out_of_range(.0))]
    OutOfRange(OutOfRange),
}

impl From<QuoteError> for HostError {
    fn from(error: QuoteError) -> HostError {
        HostError::Quote(error)
    }
}

impl From<ClassError> for HostError {
    fn from(error: ClassError) -> HostError {
        HostError::Class(error)
    }
}

impl From<OutOfRange> for HostError {
    fn from(error: OutOfRange) -> HostError {
        HostError::OutOfRange(error)
    }
}

impl Host {
    /// Opens this host.
    ///
    /// # Errors
    /// When the registry cannot be made or opened. Missing cgroups are no error, see
    /// [`Host::unenforced`].
    pub fn open(config: Config) -> Result<Host, HostError> {
        let directory = if config.registry.directory == "auto" {
            Registry::default_directory()?
        } else {
            PathBuf::from(&config.registry.directory)
        };
        let machine = Machine::find(&config);
        let enforcement = libra_cgroup::open(&machine.cgroup_settings(&config));
        Ok(Host {
            machine,
            registry: Registry::open(&directory)?,
            enforcement,
            boot: clock::boot_id(),
            accounts_failed: Mutex::new(None),
            config,
        })
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it is.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// For an event of a batch system, whose daemon waits for the answer: the registry's lock is waited for only for some seconds from now on.
    #[must_use]
    pub fn in_a_hurry(self) -> Host {
        self.patient_for(registry::HURRY)
    }

    /// The registry's lock is waited for no longer than so from now on, altogether.
    #[must_use]
    pub fn patient_for(mut self, patience: Duration) -> Host {
        self.registry.limit = Some(Limit::new(patience));
        self
    }

    /// Its registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Why shares are not enforced here; None if they are.
    pub fn unenforced(&self) -> Option<&str> {
        match &self.enforcement {
            Enforcement::Active(_) => None,
            Enforcement::None { reason } => Some(reason),
        }
    }

    /// How shares are enforced, in words.
    pub fn enforcement(&self) -> String {
        match &self.enforcement {
            Enforcement::Active(enforcer) => enforcer.describe(),
            Enforcement::None { reason } => format!("not enforced: {reason}"),
        }
    }

    fn enforcer(&self) -> Option<&Enforcer> {
        match &self.enforcement {
            Enforcement::Active(enforcer) => Some(enforcer),
            Enforcement::None { .. } => None,
        }
    }

    /// Opens the group of a job, if it has one and it is still there.
    fn group_of(&self, entry: &Entry) -> Result<Option<Group>, HostError> {
        match (self.enforcer(), &entry.group) {
            (Some(enforcer), Some(record)) => Ok(enforcer.reopen(record)?),
            _ => Ok(None),
        }
    }
}

/// Processor seconds that a job has used so far, all slots.
///
/// Without a cgroup that is what its first process and the children it waited for have used: a
/// lower bound.
fn used(entry: &Entry, group: Option<&Group>) -> f64 {
    match group.map(Group::usage) {
        Some(Ok(usage)) => usage.seconds,
        Some(Err(error)) => {
            log::debug!("job {}: {error}", entry.id);
            0.0
        }
        // Between two steps a batch system's own group is gone; what was used by then is on record.
        None => match entry.group.as_ref().and_then(|record| record.adopted) {
            Some(adopted) => adopted.seen,
            None => entry
                .leader
                .filter(entry::Process::is_alive)
                .and_then(|leader| process_seconds(leader.pid))
                .unwrap_or(0.0),
        },
    }
}

fn process_seconds(pid: i32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    // utime, stime, cutime, cstime: fields 14 to 17 of the whole line.
    let ticks: u64 = fields
        .get(11..15)?
        .iter()
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .unwrap_or(100);
    Some(ticks as f64 / per_second as f64)
}

/// A job as the decision core sees it on this host.
fn on_node(entry: &Entry, used: f64, held_share: f64, now: f64) -> JobOnNode {
    JobOnNode {
        terms: entry.planned_terms(),
        slots: entry.slots,
        cput: used / f64::from(entry.slots.max(1)),
        walltime: match entry.quote {
            // Its deadline begins when it is submitted.
            Some(_) => 0.0,
            None => (now - entry.submitted).max(0.0),
        },
        held_share,
        memory: entry.memory(),
        delay: entry.delay,
    }
}
