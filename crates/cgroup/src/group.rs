//! The control group of one job.
//!
//! Invariants: only what changed is written; after an error the notion of what the kernel holds is still
//! right; every wait is bounded by the caller's patience.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use super::detect::Role;
use super::dying::{held_to_nothing, let_end};
use super::error::Error;
use super::external;
use super::file::{ControlFile, write_once};
use super::freezer::{Freezer, Frozen, thaw_all};
use super::limits::{Held, Limits, Policy, format_cpus, parse_cpus};
use super::processes::{self, PROCS};
use super::record::{self, DirectoryRecord, GroupRecord};
use super::settings::Version;
use super::usage::{self, Usage};
use super::{v1, v2};

/// A file that no longer holds what was written into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The file.
    pub path: PathBuf,
    /// What was written last.
    pub expected: String,
    /// What it holds now.
    pub found: String,
}

/// What [`Group::kill`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Processes still there: empty means that the job is dead.
    pub left: Vec<i32>,
    /// How long it took.
    pub took: Duration,
}

/// The control files of either version.
#[derive(Debug)]
enum Controls {
    V1(v1::Controls),
    V2(v2::Controls),
}

/// `controls.f(…)` for either version.
macro_rules! each {
    ($controls:expr, $c:ident => $call:expr) => {
        match $controls {
            Controls::V1($c) => $call,
            Controls::V2($c) => $call,
        }
    };
}

/// The control group of one job. Dropping it closes files and leaves the job alone.
#[derive(Debug)]
pub struct Group {
    record: GroupRecord,
    policy: Policy,
    controls: Controls,
    cpus: Option<ControlFile>,
    freezer: Option<Freezer>,
    /// What the kernel holds, as far as we know.
    held: Held,
    held_cpus: Option<Vec<u32>>,
    /// What it was held to when it was found killed.
    before: Option<Held>,
    /// A process inside that lived when all were checked the last time.
    living: Option<processes::Living>,
    number_of_files: usize,
    is_closed: bool,
}

impl Group {
    /// Opens the files of directories that have been checked to be ours.
    pub(crate) fn open(record: GroupRecord, policy: Policy) -> Result<Self, Error> {
        let of = |role| {
            record
                .directories
                .iter()
                .find(|d| d.roles.contains(&role))
                .map(|d| d.path.as_path())
        };
        let cpu = of(Role::Cpu).ok_or_else(|| Error::Gone {
            path: PathBuf::from(&record.name),
        })?;
        let controls = match record.version {
            Version::V1 => Controls::V1(v1::Controls::open(cpu, of(Role::Accounting))?),
            Version::V2 => Controls::V2(v2::Controls::open(cpu)?),
        };
        // Absent on v2 where a parent does not hand the controller on.
        let cpus = of(Role::Cpuset)
            .map(|d| ControlFile::open_if_present(d, v1::CPUS, true))
            .transpose()?
            .flatten();
        let held = each!(&controls, c => c.read())?;
        let freezer = Freezer::open(&record)?;
        let mut group = Self {
            record,
            policy,
            controls,
            cpus,
            freezer,
            held,
            held_cpus: None,
            before: None,
            living: None,
            number_of_files: 0,
            is_closed: false,
        };
        group.number_of_files = group.files().len();
        group.held_cpus = group.read_cpus()?;
        Ok(group)
    }

    /// What to remember this group by.
    pub fn record(&self) -> GroupRecord {
        self.record.clone()
    }

    /// The directory with quota and weight.
    pub fn directory(&self) -> &Path {
        // `open` has found a cpu directory, and it is the first.
        self.record
            .directories
            .first()
            .map_or(Path::new(""), |d| d.path.as_path())
    }

    fn files(&mut self) -> Vec<&mut ControlFile> {
        let mut files: Vec<&mut ControlFile> = each!(&mut self.controls, c => c.files().collect());
        files.extend(&mut self.cpus);
        files.extend((self.freezer.iter_mut()).flat_map(Freezer::files));
        files
    }

    /// How many files it has.
    pub fn number_of_files(&self) -> usize {
        self.number_of_files
    }

    /// True while its files are opened for each use.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Opens its files for each use from now on, for a process that may not have so many open. That takes several times as long.
    pub fn close_files(&mut self) {
        self.files().into_iter().for_each(ControlFile::close);
        self.is_closed = true;
    }

    /// Keeps them open again: all of them, or none if one cannot be opened. Returns true if they are open.
    pub fn keep_files_open(&mut self) -> bool {
        if self.is_closed && self.files().into_iter().all(ControlFile::keep_open) {
            self.is_closed = false;
        } else if self.is_closed {
            self.close_files();
        }
        !self.is_closed
    }

    /// True where this job can be held to chosen processors.
    pub fn can_pin(&self) -> bool {
        self.cpus.is_some()
    }

    /// True where all of this job can be made to stand still.
    pub fn can_freeze(&self) -> bool {
        self.freezer.is_some()
    }

    /// Lets all of the job stand still, or go on. Asked for again while it is [`Frozen::Going`], the kernel tries again. Without effect where
    /// [`Group::can_freeze`] is false.
    pub fn freeze(&self, frozen: bool) -> Result<(), Error> {
        self.freezer.as_ref().map_or(Ok(()), |f| f.set(frozen))
    }

    /// How much of the job stands still.
    pub fn frozen(&self) -> Result<Frozen, Error> {
        self.freezer.as_ref().map_or(Ok(Frozen::No), Freezer::state)
    }

    /// Writes the limits, as far as they differ from what the kernel is known to hold. Returns the number
    /// of files written. A change acts at once, also on running processes.
    pub fn set(&mut self, limits: &Limits) -> Result<usize, Error> {
        limits.check()?;
        self.record.capacity = limits.capacity;
        self.before = None;
        let burst = each!(&self.controls, c => c.has_burst());
        let mut wanted = self.policy.held(limits, burst);
        if self.record.adopted.is_some() {
            let least = external::with_room(limits);
            wanted.bandwidth = self.policy.held(&least, burst).bandwidth;
        }
        let mut written = match each!(&self.controls, c => c.write(&mut self.held, &wanted)) {
            // Someone else's write may have made our order of steps invalid: look, then try once more.
            Err(e) if e.errno() == Some(Errno::EINVAL) => {
                self.held = each!(&self.controls, c => c.read())?;
                each!(&self.controls, c => c.write(&mut self.held, &wanted))?
            }
            other => other?,
        };
        if let Some(cpus) = &limits.pinned {
            written += self.set_cpus(cpus)?;
        }
        Ok(written)
    }

    fn set_cpus(&mut self, cpus: &[u32]) -> Result<usize, Error> {
        let Some(file) = &self.cpus else { return Ok(0) };
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        if self.held_cpus.as_ref() == Some(&cpus) {
            return Ok(0);
        }
        file.write(&format_cpus(&cpus))?;
        self.held_cpus = Some(cpus);
        Ok(1)
    }

    fn read_cpus(&self) -> Result<Option<Vec<u32>>, Error> {
        let Some(file) = &self.cpus else {
            return Ok(None);
        };
        let text = file.read()?;
        parse_cpus(&text)
            .map(Some)
            .ok_or_else(|| Error::malformed(file.path(), &text, "a list of processors"))
    }

    /// The limits as the kernel holds them now: by the quota where there is one, else by the weight.
    pub fn limits(&self) -> Result<Limits, Error> {
        let held = each!(&self.controls, c => c.read())?;
        let pinned = self.read_cpus()?.filter(|c| !c.is_empty());
        Ok(Limits {
            pinned,
            ..self.policy.limits(&held, self.record.capacity)
        })
    }

    /// Files that no longer hold what was written last: others write here too, systemd at each
    /// daemon-reload. The next [`Group::set`] repairs them.
    pub fn drift(&mut self) -> Result<Vec<Drift>, Error> {
        let found = each!(&self.controls, c => c.read())?;
        let cpus = self.read_cpus()?;
        let mut drifts = Vec::new();
        if found != self.held {
            let differences = each!(&self.controls, c => c.differences(&self.held, &found));
            drifts.extend(
                differences
                    .into_iter()
                    .map(|(path, expected, found)| Drift {
                        path: path.to_owned(),
                        expected,
                        found,
                    }),
            );
            self.held = found;
        }
        if let (Some(file), Some(now), Some(before)) = (&self.cpus, &cpus, &self.held_cpus) {
            if now != before {
                let (expected, found) = (format_cpus(before), format_cpus(now));
                drifts.push(Drift {
                    path: file.path().to_owned(),
                    expected,
                    found,
                });
            }
        }
        self.held_cpus = cpus;
        Ok(drifts)
    }

    /// Processor seconds by the kernel's own count alone; `None` where it has none. Cheap, and short of
    /// [`Group::usage`] where somebody has moved processes to another accounting group.
    pub fn counted(&self) -> Result<Option<f64>, Error> {
        let counted = each!(&self.controls, c => c.usage());
        match (self.record.adopted, counted) {
            (Some(adopted), Ok(Some(seconds))) => Ok(Some(seconds + adopted.offset)),
            // Its maker has removed it; the job may go on in another one.
            (Some(adopted), Err(e)) if e.is_gone() => Ok(Some(adopted.seen)),
            (_, counted) => counted,
        }
    }

    /// Processor time used so far by everything that ever ran in here.
    pub fn usage(&self) -> Result<Usage, Error> {
        usage::complete(self.counted()?, &self.record)
    }

    /// Seconds in which processes of this job could have run but had used up their quota, summed over
    /// processors.
    pub fn throttled(&self) -> Result<f64, Error> {
        each!(&self.controls, c => c.throttled())
    }

    /// Moves one process in, in every hierarchy. False if it has ended.
    pub fn place(&self, pid: i32) -> Result<bool, Error> {
        for directory in &self.record.directories {
            if !directory.matches()? {
                return Err(Error::Gone {
                    path: directory.path.clone(),
                });
            }
            match write_once(&directory.path.join(PROCS), &pid.to_string()) {
                Err(e) if processes::has_ended(&e) => return Ok(false),
                other => other?,
            }
        }
        Ok(true)
    }

    /// Moves a process, its descendants and the members of their sessions in, again and again until none
    /// has been born outside meanwhile. This process itself only if it is the one that is named. Returns how many were moved.
    pub fn place_tree(&self, pid: i32) -> Result<usize, Error> {
        let mut moved = BTreeSet::new();
        // What is born after its parent was moved is inside; only the first rounds find more.
        for _ in 0..64 {
            let new: Vec<i32> = processes::tree(pid).difference(&moved).copied().collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                self.place(pid)?;
                moved.insert(pid);
            }
        }
        Ok(moved.len())
    }

    /// Moves processes that are counted as this job's and have left the group that holds them to its share back into it; returns
    /// which. Only where that can be told: on version 1 with accounting mounted apart, in a group that was made here. A process
    /// that left both is nobody's any more.
    pub fn put_back(&self) -> Result<Vec<i32>, Error> {
        let of = |role| {
            let found = self
                .record
                .directories
                .iter()
                .find(|d| d.roles.contains(&role));
            found
                .filter(|d| d.matches().unwrap_or(false))
                .map(|d| d.path.as_path())
        };
        let (Some(held), Some(counted)) = (of(Role::Cpu), of(Role::Accounting)) else {
            return Ok(Vec::new());
        };
        if held == counted || self.record.adopted.is_some() {
            return Ok(Vec::new());
        }
        // In this order: whoever is placed enters the one that holds it first.
        let mut left = processes::listed_below([counted])?;
        let inside = processes::listed_below([held])?;
        left.retain(|pid| inside.binary_search(pid).is_err());
        let mut moved = Vec::new();
        for pid in left {
            // Its number may have been given away since; then it is not counted here.
            let is_ours = pid > 1
                && processes::listed_below([counted])?
                    .binary_search(&pid)
                    .is_ok();
            if !is_ours || pid == std::process::id() as i32 {
                continue;
            }
            match write_once(&held.join(PROCS), &pid.to_string()) {
                Err(e) if processes::has_ended(&e) => {}
                other => {
                    other?;
                    moved.push(pid);
                }
            }
        }
        Ok(moved)
    }

    /// The `cgroup.procs` of every hierarchy, opened for writing: a child that writes "0\n" into each of
    /// them between fork and exec starts inside.
    pub fn procs_files(&self) -> Result<Vec<File>, Error> {
        let open = |d: &DirectoryRecord| {
            let path = d.path.join(PROCS);
            OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(|e| Error::io("open", &path, None, e))
        };
        self.record.directories.iter().map(open).collect()
    }

    /// Processes inside, in any hierarchy and in groups the job made below; of an adopted group without its maker's own.
    pub fn pids(&self) -> Result<Vec<i32>, Error> {
        pids_in(&self.record)
    }

    /// True if processes are inside, and all of them are killed: nothing of the job's program runs any more. `thoroughly`: whatever was found
    /// the last time; else the process that was alive then is asked first, and as long as it is no other is.
    ///
    /// # Errors
    /// When processes cannot be listed.
    pub fn is_killed(&mut self, thoroughly: bool) -> Result<bool, Error> {
        if !thoroughly && self.living.is_some_and(processes::Living::lives) {
            return Ok(false);
        }
        let mut living = None;
        let killed = processes::all_killed_but_for(|| self.pids(), &mut living);
        self.living = living;
        killed
    }

    /// Takes off what keeps a group that [`Group::is_killed`] from ending: it gets the weight of one of so many processors, and no quota.
    /// The next [`Group::set`] or [`Group::hold_again`] holds it again.
    pub fn let_end(&mut self, capacity: f64) -> Result<(), Error> {
        let thawed = thaw_all(&self.record);
        self.before.get_or_insert_with(|| self.held.clone());
        let wanted = held_to_nothing(self.record.version, capacity);
        let written = each!(&self.controls, c => c.write(&mut self.held, &wanted));
        written.and(thawed)
    }

    /// Holds it to what it was held to before [`Group::let_end`].
    pub fn hold_again(&mut self) -> Result<(), Error> {
        let Some(wanted) = self.before.take() else {
            return Ok(());
        };
        each!(&self.controls, c => c.write(&mut self.held, &wanted)).map(drop)
    }

    /// True while a process lives inside, or in a group below.
    pub fn is_populated(&self) -> Result<bool, Error> {
        match self.record.version {
            Version::V1 => Ok(!self.pids()?.is_empty()),
            Version::V2 => match ControlFile::open(self.directory(), v2::EVENTS, false) {
                Ok(file) => Ok(file.keyed("populated")? == Some(1)),
                Err(e) if e.is_gone() => Ok(false),
                Err(e) => Err(e),
            },
        }
    }

    /// Sends a signal to every process inside. Returns how many got it. What is killed is no longer held to its share, which dying needs.
    pub fn signal(&self, signal: Signal) -> Result<usize, Error> {
        if signal == Signal::SIGKILL && self.record.adopted.is_none() {
            let_end(&self.record);
        }
        processes::send(|| self.pids(), signal)
    }

    /// Stops every process inside (SIGSTOP), those too that are begun meanwhile, within `patience`. Returns those that run all the same.
    pub fn stop(&self, patience: Duration) -> Result<Vec<i32>, Error> {
        processes::stop_all(|| self.pids(), patience)
    }

    /// Kills everything inside and waits, at most `patience`, until it is dead. Kills nothing in an adopted group.
    pub fn kill(&self, patience: Duration) -> Result<Killed, Error> {
        let start = Instant::now();
        if self.record.adopted.is_some() {
            return Ok(Killed {
                left: self.pids()?,
                took: start.elapsed(),
            });
        }
        let_end(&self.record);
        kill_at_once(&self.record)?;
        let paths: Vec<&Path> = self.paths().collect();
        let left = processes::kill_until_empty(&paths, patience, &|| let_end(&self.record))?;
        Ok(Killed {
            left,
            took: start.elapsed(),
        })
    }

    /// Kills what is left and removes the directories, nested ones first, within `patience`. On
    /// [`Error::Busy`] the record serves for another try with `Enforcer::discard`. Limits are taken off an adopted group instead.
    pub fn remove(self, patience: Duration) -> Result<(), Error> {
        discard(&self.record, patience)
    }

    /// Our directories, without those whose place another one of the same name has taken: a job that
    /// is run again must not be hit by what is meant for its first run.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        paths_of(&self.record)
    }
}

fn paths_of(record: &GroupRecord) -> impl Iterator<Item = &Path> {
    let ours = (record.directories.iter()).filter(|d| d.matches().unwrap_or(false));
    ours.map(|d| d.path.as_path())
}

/// As [`Group::pids`].
pub(crate) fn pids_in(record: &GroupRecord) -> Result<Vec<i32>, Error> {
    if record.adopted.is_none() {
        return processes::listed_below(paths_of(record));
    }
    let mut pids = BTreeSet::new();
    for nested in paths_of(record).flat_map(processes::with_nested) {
        if !external::is_its_makers(&nested) {
            pids.extend(processes::listed(&nested)?);
        }
    }
    Ok(pids.into_iter().collect())
}

/// Kills what is left of a group that was made here and removes it; takes the limits off an adopted one.
pub(crate) fn discard(record: &GroupRecord, patience: Duration) -> Result<(), Error> {
    if record.adopted.is_some() {
        return external::take_limits_off(record);
    }
    let_end(record);
    kill_at_once(record)?;
    record::discard(&record.directories, patience, &|| let_end(record))
}

/// The kernel's own kill, where there is one: no fork escapes it.
fn kill_at_once(record: &GroupRecord) -> Result<(), Error> {
    let (Version::V2, Some(directory)) = (record.version, record.directories.first()) else {
        return Ok(());
    };
    let own = std::process::id() as i32;
    if !directory.matches()? || processes::listed_below([directory.path.as_path()])?.contains(&own)
    {
        return Ok(());
    }
    // An older kernel has no such file; the loop over all processes follows in any case.
    match write_once(&directory.path.join(v2::KILL), "1") {
        Err(e) if e.is_gone() => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Spare, V1_SHARES, V2_WEIGHT};

    fn group(version: Version) -> (tempfile::TempDir, Group) {
        let dir = tempfile::tempdir().unwrap();
        let roles = vec![Role::Cpu, Role::Accounting, Role::Cpuset];
        let made = DirectoryRecord::make(&dir.path().join("1.host"), &roles).unwrap();
        let weights = match version {
            Version::V1 => {
                v1::fixture(&made.path);
                V1_SHARES
            }
            Version::V2 => {
                v2::fixture(&made.path);
                V2_WEIGHT
            }
        };
        std::fs::write(made.path.join(v1::CPUS), "\n").unwrap();
        let policy = Policy {
            spare: Spare::Idle,
            period_us: 100_000,
            weights,
        };
        let record = GroupRecord {
            name: "1.host".into(),
            version,
            capacity: 2.0,
            directories: vec![made],
            adopted: None,
        };
        (dir, Group::open(record, policy).unwrap())
    }

    #[test]
    fn limits_come_back_and_drift_is_repaired() {
        for (version, file, text, closes) in [
            (Version::V1, v1::SHARES, "1024\n", false),
            (Version::V2, v2::WEIGHT, "100\n", false),
            (Version::V1, v1::SHARES, "1024\n", true),
            (Version::V2, v2::WEIGHT, "100\n", true),
        ] {
            let (_dir, mut group) = group(version);
            let open = |group: &mut Group| group.files().iter().filter(|f| f.is_open()).count();
            assert_eq!(open(&mut group), group.number_of_files());
            if closes {
                group.close_files();
                assert_eq!((open(&mut group), group.is_closed()), (0, true));
            }
            let limits = Limits {
                pinned: Some(vec![1, 0]),
                ..Limits::new(0.6, 2.0)
            };
            assert_eq!(group.set(&limits).unwrap(), 4);
            assert_eq!(group.set(&limits).unwrap(), 0);
            assert_eq!(
                group.limits().unwrap(),
                Limits {
                    pinned: Some(vec![0, 1]),
                    ..Limits::new(0.6, 2.0)
                }
            );
            assert!(group.drift().unwrap().is_empty());
            std::fs::write(group.directory().join(file), text).unwrap();
            let drift = group.drift().unwrap();
            assert_eq!(drift.len(), 1, "{drift:?}");
            assert_eq!(drift[0].found, text.trim());
            assert_eq!(group.set(&limits).unwrap(), 1);
            assert!(group.drift().unwrap().is_empty());
            assert_eq!(
                group.usage().unwrap(),
                Usage {
                    seconds: 1.5,
                    complete: true
                }
            );
            assert_eq!(group.throttled().unwrap(), 2.5);
            assert!(group.keep_files_open());
            assert_eq!(open(&mut group), group.number_of_files());
            // All of them, or none.
            group.close_files();
            std::fs::remove_file(group.directory().join(file)).unwrap();
            assert!(!group.keep_files_open());
            assert_eq!((open(&mut group), group.is_closed()), (0, true));
        }
    }

    #[test]
    fn limits_out_of_range_write_nothing() {
        let (_dir, mut group) = group(Version::V2);
        assert!(group.set(&Limits::new(f64::NAN, 2.0)).is_err());
        assert!(group.drift().unwrap().is_empty());
    }
}
