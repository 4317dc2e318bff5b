//! A host's part in the life of a batch system's job, in the order in which every system takes its steps: it begins as it was
//! committed, its processes come and go ([`super::batch`]), and what its system does not have any more is ended.

use super::batch::BatchJob;
use super::entry::Entry;
use super::{Host, HostError};
use libra_config::VersionChoice;
use libra_core::commitment::Commitment;

/// A job that its batch system starts here, with what is on record as committed to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Starting<'a> {
    /// The batch system's id; unique on this host.
    pub id: &'a str,
    /// What was committed to it, on all its hosts.
    pub commitment: &'a Commitment,
    /// Slots on this host; 0 counts as 1.
    pub slots: u64,
    /// Share of each of them as committed, in processors.
    pub share: f64,
    /// User number of its owner.
    pub user: u32,
}

/// How a job has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is held to its share.
    Held,
    /// It has no cap, as the site wants it; why.
    Uncapped(String),
    /// It has no cap, and the site wants one; why. It is in the registry all the same.
    Unenforced(String),
    /// The host has not what it claims, which was counted; why. It has not begun: what runs of it was promised nothing.
    NoRoom(String),
}

impl Starting<'_> {
    fn as_batch(&self, now: f64) -> BatchJob {
        let commitment = self.commitment;
        BatchJob {
            id: self.id.to_string(),
            request: commitment.request,
            slots: u32::try_from(self.slots.max(1)).unwrap_or(u32::MAX),
            share: self.share,
            price: commitment.price,
            elapsed: (now - commitment.submitted).clamp(0.0, 1e10),
            margin: commitment.margin,
            user: self.user,
        }
    }
}

impl Host {
    /// Begins a job as it was committed. One that began here before and is started anew, without an end in between, begins anew. `now`:
    /// Unix time.
    ///
    /// # Errors
    /// As [`Host::begin`], but for a host that has no room.
    pub fn begin_committed(&self, job: &Starting<'_>, now: f64) -> Result<Begun, HostError> {
        let batch = job.as_batch(now);
        let begun = match self.begin(&batch) {
            Err(HostError::Id { .. }) if self.usage(job.id).is_ok() => {
                self.end(job.id).and_then(|_| self.begin(&batch))
            }
            other => other,
        };
        self.begun(begun)
    }

    /// The same for one of several processes that come to a job on this host at any time: None if another one has begun it.
    ///
    /// # Errors
    /// As [`Host::begin_committed`].
    pub fn begin_committed_once(
        &self,
        job: &Starting<'_>,
        now: f64,
    ) -> Result<Option<Begun>, HostError> {
        match self.begin(&job.as_batch(now)) {
            Err(HostError::Id { .. }) if self.usage(job.id).is_ok() => Ok(None),
            other => self.begun(other).map(Some),
        }
    }

    fn begun(&self, begun: Result<Option<String>, HostError>) -> Result<Begun, HostError> {
        match begun {
            Ok(None) => Ok(Begun::Held),
            Ok(Some(reason)) if self.config().cgroup.version == VersionChoice::Off => {
                Ok(Begun::Uncapped(reason))
            }
            Ok(Some(reason)) => Ok(Begun::Unenforced(reason)),
            Err(error @ HostError::NoRoom { .. }) => Ok(Begun::NoRoom(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Ends the jobs of a batch system that it does not have any more. `is_left_over`: of a live job that a batch system began, and the seconds
    /// since. Returns lines for the log.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn end_left_over(
        &self,
        is_left_over: &mut dyn FnMut(&Entry, f64) -> bool,
    ) -> Result<Vec<Result<String, String>>, HostError> {
        let mut log = Vec::new();
        let known = self.registry().all()?;
        for entry in known.iter().filter(|entry| entry.is_live()) {
            let Some(begun) = entry.begun else { continue };
            if !is_left_over(entry, libra_system::clock::since_boot() - begun) {
                continue;
            }
            log.push(match self.end(&entry.id) {
                Ok(_) => Ok(format!("job {} was left over, ended", entry.id)),
                Err(error) => Err(format!("job {} is left over: {error}", entry.id)),
            });
        }
        Ok(log)
    }

    /// Returns true if no process of a job is here, that is known of.
    pub fn is_without_process(&self, entry: &Entry) -> bool {
        let lives = entry.leader.is_some_and(|leader| leader.is_alive());
        // Without a cgroup there is nothing that could have a process.
        !lives && !(self.usage(&entry.id)).is_ok_and(|usage| usage.processes > 0)
    }
}
