//! Jobs that a batch system runs on this host: it decides when they begin and end, its hooks call
//! here, and the same registry and control loop hold them to their shares.
//!
//! Nothing is judged: the job was accepted when it was submitted. But what it claims is not taken from others ([`super::room`]). Nothing is ended by itself either:
//! between two tasks a job may have no process at all, so only the batch system knows its end.

use super::control::ControlLoop;
use super::ending::{Over, PATIENCE};
use super::entry::{Entry, Exit, Phase, Process, VERSION, group_name};
use super::submit::Terms;
use super::{Host, HostError, used};
use libra_cgroup::{DirectoryRecord, Enforcer, Group, GroupRecord};
use libra_config::VersionChoice;
use libra_core::decision::job::{OutOfRange, Request};
use libra_core::decision::share::Need;
use libra_metrics::Rejection;
use libra_system::clock;
use std::time::{Duration, UNIX_EPOCH};

/// Longest id of a job, in bytes: it becomes part of a file's and a directory's name.
pub const LONGEST_ID: usize = 180;

/// A job as the batch system hands it over.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchJob {
    /// The batch system's id; unique on this host.
    pub id: String,
    /// As accepted.
    pub request: Request,
    /// Slots on this host.
    pub slots: u32,
    /// Share per slot as accepted, in processors.
    pub share: f64,
    /// As accepted, credits.
    pub price: f64,
    /// Seconds since its submission.
    pub elapsed: f64,
    /// Part by which its estimate was stretched when it was planned; None: as this host's rules have it.
    pub margin: Option<f64>,
    /// User number of its owner.
    pub user: u32,
}

/// How such a job stands on this host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Processor seconds used here, per slot.
    pub cput: f64,
    /// Share per slot now held, in processors.
    pub share: f64,
    /// What each slot needs from now on, and how it stands.
    pub need: Need,
    /// Processes of the job on this host.
    pub processes: usize,
}

/// An id may not lead out of the registry, hide in it, or spoil a terminal.
pub(super) fn check_id(id: &str) -> Result<(), HostError> {
    let problem = if id.is_empty() || id.len() > LONGEST_ID {
        "an id has 1 to 180 bytes"
    } else if id.contains('/') || id.starts_with('.') {
        "an id has no '/' and does not start with '.'"
    } else if id.chars().any(char::is_control) {
        "an id has no control characters"
    } else {
        return Ok(());
    };
    Err(HostError::Id {
        id: id.chars().take(64).filter(|c| !c.is_control()).collect(),
        problem,
    })
}

impl Host {
    /// Makes the cgroup of a job that is about to begin here, and writes it into the registry: with its share as accepted, or
    /// with what is left beside what others were promised. Returns why its share is not enforced; None if it is.
    ///
    /// # Errors
    /// When a value is out of range, more is claimed than the host has ([`HostError::NoRoom`], counted; nothing is written), the id
    /// is that of a job that is here, or the registry fails.
    pub fn begin(&self, job: &BatchJob) -> Result<Option<String>, HostError> {
        // Who waits for the registry is due no later for it.
        let came = clock::since_boot();
        check_id(&job.id)?;
        job.request.check()?;
        for (field, value, expected) in [
            ("share", job.share, 0.0..=1.0),
            ("price", job.price, 0.0..=f64::MAX),
            ("elapsed", job.elapsed, 0.0..=1e10),
            ("slots", f64::from(job.slots), 1.0..=1e9),
        ] {
            if !expected.contains(&value) {
                return Err(OutOfRange {
                    field,
                    value,
                    expected: "0 to 1 for a share, 1 or more slots, 0 or more for the others",
                }
                .into());
            }
        }
        let lock = self.registry.lock()?;
        let now = clock::since_boot();
        if let Some(mut known) = self.registry.read(&job.id)? {
            // One whose `begin` was killed half way has no processes yet: it begins anew.
            let half_made = known.making_group && known.group.is_none();
            if known.is_live() && known.boot == self.boot && !half_made {
                return Err(HostError::Id {
                    id: job.id.clone(),
                    problem: "a job of this id is here already",
                });
            }
            self.remove_half_made(&mut known)?;
        }
        let share = match self.promisable(&job.id, job.share, job.slots) {
            Ok(share) => share,
            Err(error) => {
                if matches!(error, HostError::NoRoom { .. }) {
                    self.count(&lock, |counts| counts.reject(Rejection::Capacity));
                }
                return Err(error);
            }
        };
        if share < job.share {
            self.count(&lock, |counts| counts.reject(Rejection::Capacity));
            log::warn!(
                "job {}: {:.3} processors were accepted for it here and {:.3} are left beside what others were promised; it begins with these, and gets more when there is more",
                job.id,
                job.share * f64::from(job.slots),
                share * f64::from(job.slots),
            );
        }
        let entry = Entry {
            version: VERSION,
            id: job.id.clone(),
            boot: self.boot.clone(),
            user: job.user,
            name: None,
            command: String::new(),
            request: job.request,
            slots: job.slots,
            estimate_margin: (job.margin)
                .unwrap_or_else(|| libra_rules::admission(&self.config).estimate_margin),
            delay: 0.0,
            payer: None,
            price: job.price,
            share,
            submitted: came - job.elapsed,
            submitted_unix: clock::unix_time() - (clock::since_boot() - came) - job.elapsed,
            phase: Phase::Reserved,
            begun: Some(now),
            started: None,
            supervisor: None,
            leader: None,
            group: None,
            making_group: false,
            unenforced: None,
            quote: None,
            cancelled: false,
            stopped: None,
            exit: None,
            asked_to_end: false,
            suspended: None,
            stood_still: 0.0,
            ending: None,
        };
        let terms = Terms {
            price: job.price,
            share,
            loadfree: 0.0,
        };
        Ok(self.reserve(&lock, entry, terms)?.unenforced)
    }

    /// Puts a process of the job into the job's cgroup: alone, where it is about to become a task of it, or with all that it has started
    /// since (`tree`). This process itself stays outside unless it is the one that is named. Returns how many were put there; 0 where
    /// nothing is enforced or the process has ended.
    ///
    /// # Errors
    /// When there is no such job here, or the cgroup fails.
    pub fn attach(&self, id: &str, pid: i32, tree: bool) -> Result<usize, HostError> {
        let entry = self.live(id)?;
        let entry = self.note_start(entry, pid)?;
        // Last of all: if it is this process, it waits for its share from then on, and would hold the lock meanwhile.
        Ok(match self.group_of(&entry)? {
            Some(group) if tree => group.place_tree(pid)?,
            Some(group) => usize::from(group.place(pid)?),
            None => 0,
        })
    }

    /// Puts one process that is about to become a task of the job into the job's cgroup, and nothing else with it; or
    /// holds the group to the job's share that the batch system has put it into ([`Enforcer::external_group`]). Where that is not
    /// possible the process stays there, held to no share: this is counted, and why is in the job's [`Entry::unenforced`]. Returns the job.
    ///
    /// # Errors
    /// When there is no such job here, it has no cgroup although shares are to be enforced, or the cgroup fails.
    pub fn join(&self, id: &str, pid: i32) -> Result<Entry, HostError> {
        let entry = self.live(id)?;
        if let Some(enforcer) = self.enforcer() {
            match enforcer.external_group(id, pid) {
                Ok(None) => {}
                Ok(Some(directory)) => return self.adopt(enforcer, entry, directory, pid),
                Err(error) => return self.leave_unenforced(entry, pid, error.to_string(), false),
            }
        }
        match self.group_of(&entry)? {
            Some(group) => {
                let entry = self.note_start(entry, pid)?;
                // Last of all: from then on this process waits for its share, and would hold the lock meanwhile.
                group.place(pid)?;
                Ok(entry)
            }
            None if self.config.cgroup.version == VersionChoice::Off => self.note_start(entry, pid),
            None => Err(HostError::NoCap {
                id: id.to_string(),
                reason: (self.unenforced().unwrap_or("its cgroup is not there")).to_string(),
            }),
        }
    }

    /// The group that the batch system made becomes the job's, in place of the one made here, which holds nothing yet, or of
    /// one that went with an earlier step.
    fn adopt(
        &self,
        enforcer: &Enforcer,
        entry: Entry,
        directory: DirectoryRecord,
        pid: i32,
    ) -> Result<Entry, HostError> {
        let id = entry.id.clone();
        let is_adopted = |entry: &Entry| {
            let record = entry.group.as_ref().filter(|r| r.adopted.is_some());
            record.is_some_and(|record| record.directories.contains(&directory))
        };
        let mut entry = entry;
        if !is_adopted(&entry) {
            let lock = self.registry.lock()?;
            entry = self.live(&id)?;
            // Several tasks come at once, and one of them does it.
            if !is_adopted(&entry) {
                let before = self.group_of(&entry)?;
                let limits = (before.as_ref())
                    .and_then(|group| group.limits().ok())
                    .unwrap_or_else(|| self.limits(entry.share * f64::from(entry.slots)));
                let taken = enforcer.adopt(directory, used(&entry, before.as_ref()));
                let old = entry.group.take();
                entry.group = taken.as_ref().ok().map(Group::record);
                let is_counted = entry.unenforced.take().is_some();
                self.registry.write(&entry)?;
                self.part_with(enforcer, &id, old.as_ref());
                // This process is in the group already: once it is held to its share it must not hold the lock.
                drop(lock);
                entry = self.note_start(entry, pid)?;
                if let Err(error) = taken.and_then(|mut group| group.set(&limits)) {
                    return self.leave_unenforced(entry, pid, error.to_string(), is_counted);
                }
            }
        }
        self.note_start(entry, pid)
    }

    /// A process of a job stays in the group of the batch system's that it is in: taken away from there, the batch system could not end
    /// its job any more. Counted once for a job; `is_counted`: it was already.
    fn leave_unenforced(
        &self,
        entry: Entry,
        pid: i32,
        reason: String,
        is_counted: bool,
    ) -> Result<Entry, HostError> {
        let entry = self.note_start(entry, pid)?;
        if entry.unenforced.as_ref() == Some(&reason) {
            return Ok(entry);
        }
        let lock = self.registry.lock()?;
        let mut entry = self.live(&entry.id)?;
        let is_known = entry.unenforced.replace(reason).is_some();
        self.registry.write(&entry)?;
        if !is_known && !is_counted {
            self.count(&lock, |counts| {
                counts.unenforced = counts.unenforced.saturating_add(1);
            });
        }
        Ok(entry)
    }

    /// The group that a job had before it adopted another one.
    fn part_with(&self, enforcer: &Enforcer, id: &str, old: Option<&GroupRecord>) {
        let Some(old) = old else { return };
        let parted = match old.adopted {
            Some(_) => enforcer.discard(old, Duration::ZERO).map(|()| true),
            None => enforcer.remove_unused(old),
        };
        match parted {
            Ok(true) => {}
            Ok(false) => log::warn!("job {id}: its own cgroup still holds processes"),
            Err(error) => log::warn!("job {id}: {error}"),
        }
    }

    /// Writes down what a job has used so far, where its group may go before its end: an adopted one.
    ///
    /// # Errors
    /// When there is no such job here, or the registry fails.
    pub fn note_usage(&self, id: &str) -> Result<(), HostError> {
        let is_adopted = |entry: &Entry| entry.group.as_ref().is_some_and(|g| g.adopted.is_some());
        if !is_adopted(&self.live(id)?) {
            return Ok(());
        }
        let _lock = self.registry.lock()?;
        let mut entry = self.live(id)?;
        let group = self.group_of(&entry)?;
        let seen = used(&entry, group.as_ref());
        if let Some(adopted) = entry.group.as_mut().and_then(|g| g.adopted.as_mut()) {
            adopted.seen = seen;
            self.registry.write(&entry)?;
        }
        Ok(())
    }

    fn note_start(&self, mut entry: Entry, pid: i32) -> Result<Entry, HostError> {
        if entry.phase == Phase::Reserved {
            let _lock = self.registry.lock()?;
            entry = self.live(&entry.id)?;
            if entry.phase == Phase::Reserved {
                entry.phase = Phase::Running;
                entry.started = Some(clock::since_boot());
                entry.leader = Process::find(pid);
                self.registry.write(&entry)?;
            }
        }
        Ok(entry)
    }

    /// Returns true if a job has several whole processors, and no other one can be committed on this host: what others are promised meanwhile is less than one, so
    /// that it may keep to those that its batch system has picked for it, and its tasks to one each.
    pub fn has_all_whole(&self, entry: &Entry) -> bool {
        let slots = f64::from(entry.slots);
        entry.class().is_whole() && slots >= 2.0 && slots >= self.machine().spec.processors.floor()
    }

    /// Lets a process of a job with a share run on all processors that its batch system has here, whichever it has picked for the job. Returns true if
    /// it was kept to some of them.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn let_off(&self, pid: i32) -> Result<bool, HostError> {
        match self.enforcer() {
            Some(_) => Ok(libra_cgroup::let_off(pid)?),
            None => Ok(false),
        }
    }

    /// Puts a process of a job that was promised nothing where it takes nothing from those that were, or sees to that in
    /// the group that the batch system made for it. False where there is no such place: nothing is enforced here, or its
    /// own group has little weight already (version 2, where the batch system makes none for the job).
    ///
    /// # Errors
    /// When the cgroup or the registry fails.
    pub fn place_best_effort(&self, id: &str, pid: i32) -> Result<bool, HostError> {
        let Some(enforcer) = self.enforcer() else {
            return Ok(false);
        };
        check_id(id)?;
        if let Some(directory) = enforcer.external_group(id, pid)? {
            enforcer.weigh_least(&directory)?;
            return Ok(true);
        }
        // Another process may remove the empty group between our making it and our entering it.
        for _ in 0..8 {
            match enforcer.make_best_effort(&group_name(id)) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if error.is_gone() => continue,
                Err(error) => return Err(error.into()),
            }
            if enforcer.enter_best_effort(&group_name(id), pid)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the directories above jobs where they are empty and were made here, and the groups of jobs that were promised nothing
    /// in which nothing is.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn remove_unused(&self) -> Result<(), HostError> {
        self.remove_empty_best_effort();
        if !self.has_roots() {
            return Ok(());
        }
        let _lock = self.registry.lock()?;
        self.remove_roots()
    }

    /// Of jobs that were promised nothing and are over: the groups in which nothing is.
    pub fn remove_empty_best_effort(&self) {
        if let Some(enforcer) = self.enforcer() {
            enforcer.remove_empty_best_effort();
        }
    }

    /// How a job stands here.
    ///
    /// # Errors
    /// When there is no such job here.
    pub fn usage(&self, id: &str) -> Result<Usage, HostError> {
        let entry = self.live(id)?;
        let progress = self.progress(&entry, clock::since_boot());
        let processes = match self.group_of(&entry)? {
            Some(group) => group.pids()?.len(),
            None => 0,
        };
        Ok(Usage {
            cput: progress.used / f64::from(entry.slots.max(1)),
            share: progress.held_share,
            need: progress.need,
            processes,
        })
    }

    /// One round of the control loop, where nobody else runs it. Returns whether it was run.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn adjust(&self) -> Result<bool, HostError> {
        match ControlLoop::try_lead(self)? {
            Some(mut control) => control.round().map(|_| true),
            None => Ok(false),
        }
    }

    /// Writes down how the batch script of a job ended, where the batch system says so before the job's end.
    ///
    /// # Errors
    /// When there is no such job here, or the registry fails.
    pub fn note_exit(&self, id: &str, exit: Exit) -> Result<(), HostError> {
        // Mostly of a job that was promised nothing.
        self.live(id)?;
        let _lock = self.registry.lock()?;
        let mut entry = self.live(id)?;
        entry.exit = Some(exit);
        Ok(self.registry.write(&entry)?)
    }

    /// Ends a job here, of which nobody says how it ended. As [`Host::end_as`].
    ///
    /// # Errors
    /// As [`Host::end_as`].
    pub fn end(&self, id: &str) -> Result<Entry, HostError> {
        self.end_as(id, None)
    }

    /// Ends a job here: kills what is left of it and removes its cgroup. `exit`: how it ended, where the batch system says so now.
    ///
    /// # Errors
    /// When there is no such job here, or the registry fails.
    pub fn end_as(&self, id: &str, exit: Option<Exit>) -> Result<Entry, HostError> {
        let mut entry = match self.live(id) {
            Err(unknown @ HostError::UnknownJob(_)) => {
                self.remove_lost(id);
                return Err(unknown);
            }
            other => other?,
        };
        self.remove_half_made(&mut entry)?;
        let group = self.group_of(&entry)?;
        let over = Over {
            used: used(&entry, group.as_ref()),
            exit: exit.or(entry.exit).or(Some(Exit::default())),
            at: clock::since_boot(),
        };
        let released = self.release(&entry, group, PATIENCE);
        let lock = self.registry.lock()?;
        self.write_ending(&lock, entry, over, released)
    }

    /// The registry was removed while a job ran: its cgroup goes with its end, once nothing is in it. Nothing is killed, as nobody knows any
    /// more whose it was.
    fn remove_lost(&self, id: &str) {
        let (Some(enforcer), Ok(None)) = (self.enforcer(), self.registry.read(id)) else {
            return;
        };
        let removed = match enforcer.recover(&group_name(id), UNIX_EPOCH) {
            Ok(None) => return,
            Ok(Some(record)) => enforcer.remove_unused(&record),
            Err(error) => Err(error),
        };
        match removed {
            Ok(true) => log::warn!("job {id} is not in the registry; its empty cgroup was removed"),
            Ok(false) => log::warn!(
                "job {id} is not in the registry; processes are in its cgroup, which is left alone"
            ),
            Err(error) => log::warn!(
                "job {id} is not in the registry, and its cgroup was not removed: {error}"
            ),
        }
    }

    fn live(&self, id: &str) -> Result<Entry, HostError> {
        check_id(id)?;
        self.registry
            .read(id)?
            .filter(|entry| entry.is_live() && entry.boot == self.boot)
            .ok_or_else(|| HostError::UnknownJob(id.to_string()))
    }
}
