//! Finding out that a job is over, and cleaning up after it.

use super::entry::{Ending, Entry, Exit, Phase, group_name};
use super::registry::Lock;
use super::{Host, HostError, used};
use libra_cgroup::{Group, RootRecord, Signal, signal_tree};
use libra_core::decision::class::Class;
use libra_metrics::Outcome;
use libra_system::clock;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Longest wait for killed processes to go, where nobody else waits.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The same where a user waits, who would rather hear that it is gone, and may stop waiting: on a busy host dying takes its time.
const PATIENCE_OF_A_USER: Duration = Duration::from_secs(90);
/// After so long the user is told what is waited for.
const SILENT: Duration = Duration::from_secs(5);
/// The same where the registry's lock is held, or other jobs are waiting for their round.
const BRIEFLY: Duration = Duration::from_millis(200);
/// Most ended jobs that are kept, whatever `keep-ended` says.
const MOST_ENDED: usize = 1000;

/// What is known of a job that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Over {
    /// Processor seconds used, all slots.
    pub used: f64,
    /// How its first process ended; None if its end was found out afterwards.
    pub exit: Option<Exit>,
    /// When, seconds since boot.
    pub at: f64,
}

/// Sends a signal to all processes of a job; where it has no group, to its first one and what that has started, if it lives.
pub(super) fn signal_job(
    entry: &Entry,
    group: Option<&Group>,
    signal: Signal,
) -> Result<(), HostError> {
    match (group, entry.leader) {
        (Some(group), _) => {
            // What stands still heeds no signal.
            if entry.class() == Class::BestEffort {
                group.freeze(false)?;
            }
            Ok(group.signal(signal).map(|_| ())?)
        }
        (None, Some(leader)) if leader.is_alive() => match signal_tree(leader.pid, signal)? {
            0 if leader.is_alive() => Err(HostError::System {
                action: "signal the job",
                error: nix::errno::Errno::EPERM.into(),
            }),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

impl Host {
    /// Returns true if this job is over, with nobody left to say so.
    pub(super) fn is_abandoned(&self, entry: &Entry, group: Option<&Group>) -> bool {
        if entry.boot != self.boot {
            return true;
        }
        if entry.group.is_some() && self.enforcer().is_none() {
            // It was made by a process that could, and this one cannot even look.
            return false;
        }
        if entry.phase == Phase::Ending {
            return true;
        }
        if entry.quote.is_some() {
            return entry.cancelled || entry.is_expired_quote(clock::since_boot());
        }
        let Some(supervisor) = entry.supervisor else {
            // A batch system's: it may have no process between two tasks, nor a group where that is the batch system's own, and
            // it is ended by name.
            let ours = (entry.group.as_ref()).is_some_and(|record| record.adopted.is_none());
            return group.is_none() && ours;
        };
        let leader_ended = entry.leader.is_some_and(|process| !process.is_alive());
        if supervisor.is_alive() {
            // One that was stopped does not see that its job was cancelled.
            return entry.cancelled && leader_ended && supervisor.is_stopped();
        }
        match (group, &entry.group) {
            // Its first process has ended, or it was never started.
            (Some(group), _) => leader_ended || !group.is_populated().unwrap_or(true),
            (None, Some(_)) => true,
            (None, None) => leader_ended || entry.leader.is_none(),
        }
    }

    /// As [`Host::is_abandoned`]; where it cannot be found out, the job is taken to be there.
    pub(super) fn is_left_over(&self, entry: &Entry) -> bool {
        if entry.boot != self.boot {
            return true;
        }
        if self.is_watched_over(entry) {
            return false;
        }
        // What could not be ended still holds its share.
        entry.phase != Phase::Ending
            && self
                .group_of(entry)
                .is_ok_and(|group| self.is_abandoned(entry, group.as_ref()))
    }

    /// All live jobs, those that are over and were left by whoever watched over them ended first, and
    /// those that ended long ago forgotten.
    pub(super) fn settle(&self, lock: &Lock, now: f64) -> Result<Vec<Entry>, HostError> {
        self.registry.sweep(lock)?;
        let mut entries = self.registry.live()?;
        for entry in entries.iter_mut() {
            if !entry.is_live() || self.is_watched_over(entry) {
                continue;
            }
            if let Err(error) = self.settle_one(lock, entry, now) {
                // It holds its share until somebody finds out; the others are still to be looked at.
                log::warn!("job {}: {error}", entry.id);
            }
        }
        entries.retain(Entry::is_live);
        Ok(entries)
    }

    /// A cheap check that spares the others: whoever watches over it is there, and nobody asked for its end.
    fn is_watched_over(&self, entry: &Entry) -> bool {
        entry.boot == self.boot
            && matches!(entry.phase, Phase::Reserved | Phase::Running)
            && entry.quote.is_none()
            && !entry.cancelled
            && !(entry.group.is_some() && self.enforcer().is_none())
            && entry.supervisor.is_some_and(|process| process.is_alive())
    }

    /// Ends one job if it is over. The lock is held: what cannot be killed at once is left to the
    /// control loop.
    pub(super) fn settle_one(
        &self,
        lock: &Lock,
        entry: &mut Entry,
        now: f64,
    ) -> Result<bool, HostError> {
        if entry.boot != self.boot {
            // Nothing of another boot is left, and its paths and process numbers mean others now.
            self.registry.remove(&entry.id)?;
            if entry.begun.is_none() {
                self.count(lock, |counts| counts.end(Outcome::Unknown));
            }
            entry.phase = Phase::Ended;
            return Ok(true);
        }
        self.remove_half_made(entry)?;
        let group = self.group_of(entry)?;
        if !self.is_abandoned(entry, group.as_ref()) {
            return Ok(false);
        }
        if entry.quote.is_some() {
            // It never was a job.
            self.registry.remove(&entry.id)?;
            entry.phase = Phase::Ended;
            return Ok(true);
        }
        let over = Over {
            used: used(entry, group.as_ref()),
            exit: None,
            at: now,
        };
        // One that was tried before gets no more of the others' time.
        let patience = match entry.phase {
            Phase::Ending => Duration::ZERO,
            _ => BRIEFLY,
        };
        let released = self.release(entry, group, patience);
        *entry = self.write_ending(lock, entry.clone(), over, released)?;
        Ok(true)
    }

    /// Removes the cgroup of a job whose maker was killed between making it and writing it down.
    /// Nothing was placed in it yet, so one with processes in it is somebody else's and stays.
    pub(super) fn remove_half_made(&self, entry: &mut Entry) -> Result<(), HostError> {
        let alive = entry.supervisor.is_some_and(|process| process.is_alive());
        if !entry.making_group || entry.group.is_some() || alive {
            return Ok(());
        }
        self.remove_unused_group(entry)?;
        entry.making_group = false;
        Ok(())
    }

    /// Removes a cgroup of the job's name that was made for it and is not on record.
    fn remove_unused_group(&self, entry: &Entry) -> Result<(), HostError> {
        if let Some(enforcer) = self.enforcer() {
            // A second of doubt for clocks of different grain.
            let since = UNIX_EPOCH + Duration::from_secs_f64((entry.submitted_unix - 1.0).max(0.0));
            if let Some(record) = enforcer.recover(&group_name(&entry.id), since)? {
                enforcer.remove_unused(&record)?;
            }
        }
        Ok(())
    }

    /// Finds jobs that were left behind, and ends them.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn clean(&self) -> Result<(), HostError> {
        let lock = self.registry.lock()?;
        let now = clock::since_boot();
        self.settle(&lock, now)?;
        self.forget(&lock, now)
    }

    /// Says which directories beside the jobs' own nobody has on record. They are for a person to
    /// look at, never deleted.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn report_orphans(&self) -> Result<(), HostError> {
        let Some(enforcer) = self.enforcer() else {
            return Ok(());
        };
        let entries = self.registry.live()?;
        let known: Vec<_> = entries
            .into_iter()
            .filter_map(|entry| entry.group)
            .collect();
        for orphan in enforcer.orphans(&known)? {
            log::warn!(
                "{} is not a job of this registry ({}); it is left alone",
                orphan.path.display(),
                if orphan.populated {
                    "processes are in it"
                } else {
                    "empty"
                }
            );
        }
        Ok(())
    }

    /// Kills what is left of a job and removes its cgroup; takes the limits off an adopted one. Returns whether nothing of ours is left.
    pub(super) fn release(&self, entry: &Entry, group: Option<Group>, patience: Duration) -> bool {
        if entry.group.as_ref().is_some_and(|g| g.adopted.is_some()) {
            // Whoever adopted it may have been killed before it parted with the job's own.
            if let Err(error) = self.remove_unused_group(entry) {
                log::warn!("job {}: {error}", entry.id);
            }
        }
        let removed = match (group, self.enforcer(), &entry.group) {
            (Some(group), _, _) => group.remove(patience),
            // The cpu directory is gone; other hierarchies may still have theirs.
            (None, Some(enforcer), Some(record)) => enforcer.discard(record, patience),
            _ => Ok(()),
        };
        match &removed {
            Ok(()) => {}
            // Said when it was found out; it is tried again at every round.
            Err(error) if entry.phase == Phase::Ending => log::debug!("job {}: {error}", entry.id),
            Err(error) => log::error!("job {}: {error}", entry.id),
        }
        removed.is_ok()
    }

    /// Writes down how a job ended, unless somebody has done that already.
    pub(super) fn write_ending(
        &self,
        lock: &Lock,
        mut entry: Entry,
        over: Over,
        released: bool,
    ) -> Result<Entry, HostError> {
        let written = self.registry.read(&entry.id).ok().flatten();
        if let Some(written) = written.filter(|written| written.is_same(&entry)) {
            if written.phase == Phase::Ended {
                return Ok(written);
            }
            // Somebody else may have asked for its end meanwhile.
            entry.cancelled |= written.cancelled;
            entry.stopped = entry.stopped.or(written.stopped);
            entry.ending = entry.ending.or(written.ending);
        }
        entry.phase = if released {
            Phase::Ended
        } else {
            Phase::Ending
        };
        let failed = over.exit.is_some_and(|exit| exit.has_failed());
        let cut_short = entry.cancelled || entry.stopped.is_some();
        let met = entry.started.is_some() && over.at <= entry.due() && !cut_short && !failed;
        let first = entry.ending.is_none();
        let ending = entry.ending.get_or_insert(Ending {
            at: over.at,
            met,
            used: over.used,
            exit_code: over.exit.and_then(|exit| exit.code),
            signal: over.exit.and_then(|exit| exit.signal),
            cancelled: entry.cancelled,
            found: over.exit.is_none(),
        });
        let ending = ending.clone();
        self.registry.write(&entry)?;
        self.settle_payment(&entry, clock::unix_time());
        if first {
            self.count_ending(lock, &entry, &ending);
        }
        self.remove_roots()?;
        Ok(entry)
    }

    /// Forgets jobs that ended long ago.
    pub(super) fn forget(&self, _lock: &Lock, now: f64) -> Result<(), HostError> {
        // One that was killed between its last write and its move, or an older version's.
        for entry in self.registry.live()?.iter().filter(|e| !e.is_live()) {
            self.registry.put_aside(&entry.id)?;
        }
        let keep = self.config.registry.keep_ended.0;
        let is_old = |entry: &Entry| {
            let at = entry.ending.as_ref().map_or(0.0, |ending| ending.at);
            entry.boot != self.boot || now - at > keep
        };
        Ok(self.registry.forget_ended(MOST_ENDED, keep, is_old)?)
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
            if let Err(error) = signal_job(&entry, group.as_ref(), signal) {
                log::warn!("job {id}: {error}");
            }
        };
        let over = || match (&group, entry.leader) {
            (Some(group), _) => !group.is_populated().unwrap_or(true),
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
        let killed = Instant::now();
        let (mut said, mut pause) = (false, Duration::from_millis(20));
        if !over() {
            signal(Signal::SIGKILL);
        }
        while !over() && killed.elapsed() < PATIENCE_OF_A_USER {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
            // Again and again: somebody else may hold it to its share again.
            if let Err(error) = signal_job(&entry, group.as_ref(), Signal::SIGKILL) {
                log::debug!("job {id}: {error}");
            }
            if !said && killed.elapsed() > SILENT {
                log::warn!("job {id}: it is killed, and its processes have not ended yet");
                said = true;
            }
        }
        if !over() {
            return Err(HostError::StillThere(id.to_string()));
        }
        // Whoever watches over it writes down its end; else it is done here.
        let start = Instant::now();
        while start.elapsed() < PATIENCE_OF_A_USER {
            match self.registry.read(id)? {
                Some(entry) if entry.is_live() => {
                    let watched = entry
                        .supervisor
                        .is_some_and(|process| process.is_alive() && !process.is_stopped());
                    if !watched {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return Ok(()),
            }
        }
        self.clean()?;
        match self.registry.read(id)? {
            // A batch system's, whose own end of it never came.
            Some(entry) if entry.is_live() && over() => self.end(id).map(|_| ()),
            Some(entry) if entry.is_live() => Err(HostError::StillThere(id.to_string())),
            _ => Ok(()),
        }
    }

    fn roots_path(&self) -> PathBuf {
        self.registry.directory().join("roots.json")
    }

    pub(super) fn has_roots(&self) -> bool {
        self.roots_path().exists()
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
        let mut changed = false;
        for made in enforcer.made_root().directories {
            if !roots.directories.contains(&made) {
                roots.directories.retain(|known| known.path != made.path);
                roots.directories.push(made);
                changed = true;
            }
        }
        if changed {
            let text = serde_json::to_vec(&roots).unwrap_or_default();
            self.registry.replace(&self.roots_path(), &text)?;
        }
        Ok(())
    }

    /// Sees to it that all jobs together leave the host what is kept for it.
    pub(super) fn hold_ceiling(&self) {
        let Some(enforcer) = self.enforcer() else {
            return;
        };
        match enforcer.hold_ceiling(&self.read_roots()) {
            Ok(false) => {}
            Ok(true) => log::info!("{}", enforcer.describe()),
            Err(error) if error.is_gone() => {}
            Err(error) => log::warn!("the reserve of this host is not kept as configured: {error}"),
        }
    }

    /// Removes the directories above the jobs that were made here, once they are empty.
    pub(super) fn remove_roots(&self) -> Result<(), HostError> {
        let roots = self.read_roots();
        if roots.directories.is_empty() {
            return Ok(());
        }
        if let Some(enforcer) = self.enforcer() {
            if enforcer.remove_root_if_empty(&roots)? {
                // Best effort: a list of directories that are gone does no harm.
                let _ = fs::remove_file(self.roots_path());
            }
        }
        Ok(())
    }
}
