//! Jobs that their batch system suspends: all of their processes stand still.
//!
//! A batch system stops the sessions of the tasks that it has started. What made a session of its own there, as MPI's launchers do for each process,
//! runs on; here it is in the job's group. Nothing of it is kept: whoever lets the job go on reaches the same processes, and one that is killed ends
//! stopped or not.

use super::entry::group_name;
use super::{Host, HostError};
use libra_cgroup::Group;
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
