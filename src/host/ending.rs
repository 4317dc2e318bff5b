//! Finding out that a job is over, and cleaning up after it.

use super::entry::{Ending, Entry, Phase};
use super::registry::Lock;
use super::{Host, HostError, clock, used};
use crate::cgroup::{Group, RootRecord, Signal};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest wait for killed processes to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most ended jobs that are kept, whatever `keep-ended` says.
const MOST_ENDED: usize = 1000;

/// How a job's first process ended, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exit {
    /// Exit code, where no signal ended it.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
}

impl Host {
    /// Is this job over, with nobody left to say so?
    pub(super) fn is_abandoned(&self, entry: &Entry, group: Option<&Group>) -> bool {
        if entry.boot != self.boot {
            return true;
        }
        if entry.supervisor.is_some_and(|process| process.is_alive()) {
            return false;
        }
        if entry.supervisor.is_none() {
            // A batch system's: it may have no process between two tasks, and it is ended by name.
            return group.is_none() && entry.group.is_some();
        }
        let leader_alive = entry.leader.is_some_and(|process| process.is_alive());
        match (group, &entry.group) {
            (Some(group), _) => !leader_alive && !group.is_populated().unwrap_or(true),
            (None, Some(_)) => true,
            (None, None) => !leader_alive,
        }
    }

    /// All jobs, those that are over and were left by whoever watched over them ended first, and
    /// those that ended long ago forgotten.
    pub(super) fn settle(&self, lock: &Lock, now: f64) -> Result<Vec<Entry>, HostError> {
        let mut entries = self.registry.all()?;
        for entry in entries.iter_mut().filter(|entry| entry.is_live()) {
            let group = match self.group_of(entry) {
                Ok(group) => group,
                Err(error) => {
                    log::warn!("job {}: {error}", entry.id);
                    continue;
                }
            };
            if self.is_abandoned(entry, group.as_ref()) {
                let used = used(entry, group.as_ref());
                log::info!("job {} is over; nobody was left to say so", entry.id);
                *entry = self.finish(lock, entry.clone(), group, used, None, now)?;
            }
        }
        self.forget(&mut entries, now)?;
        Ok(entries)
    }

    /// Finds jobs that were left behind, and ends them.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn clean(&self) -> Result<(), HostError> {
        let lock = self.registry.lock()?;
        self.settle(&lock, clock::since_boot())?;
        Ok(())
    }

    /// Ends a job: kills what is left of it, removes its cgroup, writes down how it ended.
    ///
    /// `exit`: how its first process ended, none where its end was found out afterwards.
    pub(super) fn finish(
        &self,
        _lock: &Lock,
        mut entry: Entry,
        group: Option<Group>,
        used: f64,
        exit: Option<Exit>,
        now: f64,
    ) -> Result<Entry, HostError> {
        if let Some(group) = group
            && let Err(error) = group.remove(PATIENCE)
        {
            log::error!("job {}: {error}", entry.id);
        } else if let (Some(enforcer), Some(record)) = (self.enforcer(), &entry.group)
            && let Err(error) = enforcer.discard(record, PATIENCE)
        {
            log::error!("job {}: {error}", entry.id);
        }
        // Somebody else may have asked for its end meanwhile.
        let cancelled = entry.cancelled
            || self
                .registry
                .read(&entry.id)
                .ok()
                .flatten()
                .is_some_and(|written| written.cancelled);
        let started = entry.started.is_some();
        entry.cancelled = cancelled;
        entry.phase = Phase::Ended;
        entry.ending = Some(Ending {
            at: now,
            met: started && now <= entry.due() && !cancelled,
            used,
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            cancelled,
            found: exit.is_none(),
        });
        self.registry.write(&entry)?;
        self.remove_roots()?;
        Ok(entry)
    }

    /// Forgets jobs that ended long ago.
    fn forget(&self, entries: &mut Vec<Entry>, now: f64) -> Result<(), HostError> {
        let keep = self.config.registry.keep_ended.0;
        let ended = entries.iter().filter(|entry| !entry.is_live()).count();
        let mut surplus = ended.saturating_sub(MOST_ENDED);
        let mut forgotten = Vec::new();
        for entry in entries.iter().filter(|entry| !entry.is_live()) {
            let at = entry.ending.as_ref().map_or(0.0, |ending| ending.at);
            if entry.boot != self.boot || now - at > keep || surplus > 0 {
                surplus = surplus.saturating_sub(1);
                self.registry.remove(&entry.id)?;
                forgotten.push(entry.id.clone());
            }
        }
        entries.retain(|entry| !forgotten.contains(&entry.id));
        Ok(())
    }

    /// Ends a job because somebody asked for it: SIGTERM to all its processes, SIGKILL to what is
    /// left after the configured grace.
    ///
    /// # Errors
    /// When there is no such job, or the registry fails.
    pub fn cancel(&self, id: &str) -> Result<(), HostError> {
        let unknown = || HostError::UnknownJob(id.to_string());
        let (entry, group) = {
            let _lock = self.registry.lock()?;
            let mut entry = self.registry.read(id)?.ok_or_else(unknown)?;
            if !entry.is_live() {
                return Err(unknown());
            }
            entry.cancelled = true;
            self.registry.write(&entry)?;
            let group = self.group_of(&entry)?;
            (entry, group)
        };
        let signal = |signal: Signal| {
            let sent = match (&group, entry.leader) {
                (Some(group), _) => group.signal(signal).map(|_| ()).map_err(HostError::from),
                (None, Some(leader)) if leader.is_alive() => {
                    nix::sys::signal::kill(nix::unistd::Pid::from_raw(leader.pid), signal).map_err(
                        |errno| HostError::System {
                            action: "signal the job",
                            error: errno.into(),
                        },
                    )
                }
                _ => Ok(()),
            };
            if let Err(error) = sent {
                log::warn!("job {id}: {error}");
            }
        };
        let over = || match (&group, entry.leader) {
            (Some(group), _) => !group.is_populated().unwrap_or(false),
            (None, Some(leader)) => !leader.is_alive(),
            (None, None) => true,
        };
        signal(Signal::SIGTERM);
        // A stopped process takes its SIGTERM only when it goes on.
        signal(Signal::SIGCONT);
        let start = Instant::now();
        let grace = Duration::from_secs_f64(self.config.agent.grace.0.min(3600.0));
        while !over() && start.elapsed() < grace {
            std::thread::sleep(Duration::from_millis(20));
        }
        if !over() {
            signal(Signal::SIGKILL);
            let killed = Instant::now();
            while !over() && killed.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // Whoever watches over it writes down its end; else it is done here.
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let watched = entry.supervisor.is_some_and(|process| process.is_alive());
            match self.registry.read(id)? {
                Some(entry) if entry.is_live() && watched => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => break,
            }
        }
        self.clean()
    }

    fn roots_path(&self) -> PathBuf {
        self.registry.directory().join("roots.json")
    }

    fn read_roots(&self) -> RootRecord {
        fs::read(self.roots_path())
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Writes down which directories above the jobs were made here.
    pub(super) fn note_roots(&self) -> Result<(), HostError> {
        let Some(enforcer) = self.enforcer() else {
            return Ok(());
        };
        let mut roots = self.read_roots();
        let before = roots.directories.len();
        for made in enforcer.made_root().directories {
            if !roots.directories.contains(&made) {
                roots.directories.retain(|known| known.path != made.path);
                roots.directories.push(made);
            }
        }
        if roots.directories.len() == before {
            return Ok(());
        }
        let text = serde_json::to_vec(&roots).unwrap_or_default();
        fs::write(self.roots_path(), text).map_err(|error| HostError::System {
            action: "write the list of cgroup roots",
            error,
        })
    }

    /// Removes the directories above the jobs that were made here, once they are empty.
    fn remove_roots(&self) -> Result<(), HostError> {
        let roots = self.read_roots();
        if roots.directories.is_empty() {
            return Ok(());
        }
        if let Some(enforcer) = self.enforcer()
            && enforcer.remove_root_if_empty(&roots)?
        {
            // Best effort: a list of directories that are gone does no harm.
            let _ = fs::remove_file(self.roots_path());
        }
        Ok(())
    }
}
