//! Jobs that their batch system suspends: all of their processes stand still.
//!
//! A batch system stops the sessions of the tasks that it has started. What made a session of its own there, as MPI's launchers do for each process,
//! runs on; here it is in the job's group. Nothing of it is kept: whoever lets the job go on reaches the same processes, and one that is killed ends
//! stopped or not.

use super::entry::{Entry, group_name};
use super::{Host, HostError};
use libra_cgroup::Group;
use libra_core::decision::class::Class;
use libra_system::clock;
use nix::sys::signal::Signal;
use std::time::Duration;

/// The longest that is waited for processes to stand still. pbs_mom waits for the hook.
const PATIENCE: Duration = Duration::from_secs(2);

impl Host {
    /// Stops all processes of a job. Returns those that run all the same, which stop when they come back from the kernel; None if it has no group here.
    ///
    /// # Errors
    /// When its processes cannot be listed.
    pub fn suspend_all(&self, id: &str) -> Result<Option<Vec<i32>>, HostError> {
        let group = self.any_group(id)?;
        Ok(group.map(|group| group.stop(PATIENCE)).transpose()?)
    }

    /// Lets all of them go on.
    ///
    /// # Errors
    /// As for [`Host::suspend_all`].
    pub fn resume_all(&self, id: &str) -> Result<(), HostError> {
        if let Some(group) = self.any_group(id)? {
            group.signal(Signal::SIGCONT)?;
        }
        Ok(())
    }

    /// Dedicated jobs of a batch system that would have to stand still for one that is about to begin and asks for so many processors, if they do not yet; empty if
    /// there is room for it.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn in_its_way(&self, id: &str, asked: f64) -> Result<Vec<String>, HostError> {
        let others = self.registry.all()?.into_iter();
        let others: Vec<Entry> = others
            .filter(|entry| entry.id != id && entry.is_live() && entry.boot == self.boot)
            .filter(|entry| entry.suspended.is_none())
            .collect();
        let taken: f64 = (others.iter())
            .map(|entry| entry.share * f64::from(entry.slots))
            .sum();
        if taken + asked <= self.machine.spec.processors {
            return Ok(Vec::new());
        }
        let dedicated = |entry: &Entry| entry.class() == Class::Dedicated && entry.begun.is_some();
        Ok((others.into_iter().filter(dedicated))
            .map(|entry| entry.id)
            .collect())
    }

    /// Writes down that a dedicated job's batch system has it suspended, or that it has gone on: it is promised nothing meanwhile. Of others nothing is.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn note_suspended(&self, id: &str, suspended: bool) -> Result<(), HostError> {
        let _lock = self.registry.lock()?;
        let known = self.registry.read(id)?;
        let is_news = |e: &Entry| e.is_live() && e.suspended.is_some() != suspended;
        let Some(mut entry) = known.filter(|e| e.class() == Class::Dedicated && is_news(e)) else {
            return Ok(());
        };
        let now = clock::since_boot();
        match entry.suspended.take() {
            Some(since) => entry.stood_still += (now - since).max(0.0),
            None => entry.suspended = Some(now),
        }
        self.registry.write(&entry)?;
        log::info!(
            "job {id} {}",
            if suspended {
                "stands still for another job"
            } else {
                "goes on"
            }
        );
        Ok(())
    }

    /// The group of a job, whether something was promised to it or not.
    fn any_group(&self, id: &str) -> Result<Option<Group>, HostError> {
        if let Some(entry) = self.registry.read(id)?.filter(|entry| entry.is_live()) {
            return self.group_of(&entry);
        }
        let Some(enforcer) = self.enforcer() else {
            return Ok(None);
        };
        match enforcer.group_without_terms(&group_name(id))? {
            Some(record) => Ok(enforcer.reopen(&record)?),
            None => Ok(None),
        }
    }
}
