//! The directory above all jobs: making it, making jobs' groups in it, finding what is left there.
//!
//! Invariants: a group's directories are all made by `create` or none is left; a directory that was there
//! before is never written to, entered or removed; what is not on record is reported, never deleted.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;

use super::detect::{Hierarchy, LEAF, Layout, Role};
use super::error::Error;
use super::file::write_once;
use super::group::{self, Group};
use super::limits::{Limits, Policy, Spare, V1_SHARES, V2_WEIGHT};
use super::processes::{self, PROCS};
use super::record::{DirectoryRecord, GroupRecord, RootRecord};
use super::settings::{Settings, Version};
use super::{v1, v2};

/// The longest name of a job's directory, in bytes; the kernel's own limit is 255.
const LONGEST_NAME: usize = 200;

/// Makes and finds the control groups of jobs. Cheap to share between threads by reference.
#[derive(Debug)]
pub struct Enforcer {
    version: Version,
    hierarchies: Vec<Hierarchy>,
    delegated: Option<PathBuf>,
    policy: Policy,
    ceiling: Option<f64>,
    made: Mutex<RootRecord>,
}

/// A directory below our root that no record mentions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Its path.
    pub path: PathBuf,
    /// How long it has been there: a young one may belong to a job that is just starting.
    pub age: Duration,
    /// True while processes live in it or below.
    pub populated: bool,
}

impl Enforcer {
    pub(crate) fn new(layout: Layout, settings: &Settings) -> Self {
        let weights = match layout.version {
            Version::V1 => V1_SHARES,
            Version::V2 => V2_WEIGHT,
        };
        let policy = Policy {
            spare: settings.spare,
            period_us: settings.period_us(),
            weights,
        };
        let Layout {
            version,
            hierarchies,
            delegated,
        } = layout;
        Self {
            version,
            hierarchies,
            delegated,
            policy,
            ceiling: settings.ceiling,
            made: Mutex::default(),
        }
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy
    }

    pub(super) fn ceiling(&self) -> Option<f64> {
        self.ceiling
    }

    /// The kernel interface in use.
    pub fn version(&self) -> Version {
        self.version
    }

    /// One line for people: version, directories, what is held how.
    pub fn describe(&self) -> String {
        let places: Vec<String> = self
            .hierarchies
            .iter()
            .map(|h| h.root.display().to_string())
            .collect();
        let version = match self.version {
            Version::V1 => "v1",
            Version::V2 => "v2",
        };
        let held = match self.policy.spare {
            Spare::Idle => format!(
                "shares are caps, period {} ms",
                self.policy.period_us as f64 / 1e3
            ),
            Spare::Shared => "shares are guarantees, spare time is shared".to_owned(),
        };
        let usage = if self.has(Role::Accounting) {
            ""
        } else {
            "; no cpuacct: usage is a lower bound"
        };
        let all = self.ceiling.map_or(String::new(), |processors| {
            format!(
                "; all together get at most {} processors",
                libra_units::processors(processors)
            )
        });
        format!(
            "cgroup {version} below {}; {held}{all}{usage}",
            places.join(", ")
        )
    }

    /// True where jobs can be held to chosen processors.
    pub fn can_pin(&self) -> bool {
        self.has(Role::Cpuset)
    }

    fn has(&self, role: Role) -> bool {
        self.hierarchies.iter().any(|h| h.roles.contains(&role))
    }

    /// The directories above jobs that this value has made so far, to be stored and handed to
    /// [`Enforcer::remove_root_if_empty`] one day.
    pub fn made_root(&self) -> RootRecord {
        self.made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn note_made(&self, directory: DirectoryRecord) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.directories.push(directory);
    }

    /// The cpu hierarchy comes first.
    pub(super) fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// The directory above jobs in the hierarchy that does this.
    pub(super) fn root_of(&self, role: Role) -> Option<&Path> {
        let hierarchy = self.hierarchies.iter().find(|h| h.roles.contains(&role));
        hierarchy.map(|h| h.root.as_path())
    }

    /// Where the hierarchy with the cpu controller is mounted.
    pub(super) fn mount(&self) -> Option<&Path> {
        self.hierarchies.first().map(|h| h.mount.as_path())
    }

    /// Makes a job's group and writes its limits. The name becomes the directory: 1 to 200 bytes, no "/",
    /// no control characters. A name that is in use is [`Error::Exists`]. After an error nothing is left.
    pub fn create(&self, name: &str, limits: &Limits) -> Result<Group, Error> {
        self.create_with(name, limits, false)
    }

    /// As [`Enforcer::create`], of a job that may be suspended: where the host has a freezer, [`Group::can_freeze`].
    pub fn create_freezable(&self, name: &str, limits: &Limits) -> Result<Group, Error> {
        self.create_with(name, limits, true)
    }

    fn create_with(&self, name: &str, limits: &Limits, freezable: bool) -> Result<Group, Error> {
        check_name(name)?;
        limits.check()?;
        let mut last = None;
        // Another process may remove the empty root between our making it and our making the group.
        for _ in 0..8 {
            match self.try_create(name, limits, freezable) {
                Err(e) if e.is_gone() => last = Some(e),
                other => return other,
            }
        }
        Err(last.unwrap_or(Error::Gone {
            path: PathBuf::from(name),
        }))
    }

    fn try_create(&self, name: &str, limits: &Limits, freezable: bool) -> Result<Group, Error> {
        let pinned = limits.pinned.is_some() && self.can_pin();
        let wanted = |role: Role| match role {
            Role::Cpu | Role::Accounting => true,
            Role::Cpuset => pinned,
            Role::Freezer => freezable,
        };
        let mut made = Vec::new();
        let result = self
            .make_directories(name, &wanted, &mut made)
            .and_then(|()| {
                let directories = made.clone();
                let record = GroupRecord {
                    name: name.to_owned(),
                    version: self.version,
                    capacity: limits.capacity,
                    directories,
                    adopted: None,
                };
                let mut group = Group::open(record, self.policy)?;
                group.set(limits)?;
                Ok(group)
            });
        if result.is_err() {
            for directory in made.iter().rev() {
                if !matches!(directory.remove_if_empty(), Ok(true)) {
                    log::warn!(
                        "{} is left behind; remove it with rmdir",
                        directory.path.display()
                    );
                }
            }
        }
        result
    }

    fn make_directories(
        &self,
        name: &str,
        wanted: &dyn Fn(Role) -> bool,
        made: &mut Vec<DirectoryRecord>,
    ) -> Result<(), Error> {
        for hierarchy in &self.hierarchies {
            let roles: Vec<Role> = hierarchy
                .roles
                .iter()
                .copied()
                .filter(|role| wanted(*role))
                .collect();
            if roles.is_empty() {
                continue;
            }
            self.ensure_root(hierarchy)?;
            let directory = DirectoryRecord::make(&hierarchy.root.join(name), &roles)?;
            let seed = (self.version == Version::V1 && hierarchy.roles.contains(&Role::Cpuset))
                .then(|| seed_cpuset(&directory.path));
            made.push(directory);
            seed.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Makes what is missing of the directory above all jobs and gives its children the controllers.
    pub(super) fn ensure_root(&self, hierarchy: &Hierarchy) -> Result<(), Error> {
        let below = hierarchy
            .root
            .strip_prefix(&hierarchy.mount)
            .unwrap_or(Path::new(""));
        let mut at = hierarchy.mount.clone();
        if self.version == Version::V2 {
            let wanted =
                ["cpu", "cpuset"]
                    .iter()
                    .take(if hierarchy.roles.contains(&Role::Cpuset) {
                        2
                    } else {
                        1
                    });
            if wanted.into_iter().all(|c| v2::hands_on(&hierarchy.root, c)) {
                return Ok(());
            }
            self.hand_on(&at, hierarchy)?;
        }
        for component in below.components() {
            at.push(component);
            match DirectoryRecord::make(&at, &hierarchy.roles) {
                Ok(directory) => {
                    self.note_made(directory);
                    self.furnish(&at, hierarchy)?;
                }
                Err(Error::Exists { .. }) => {}
                Err(e) => return Err(e),
            }
            if self.version == Version::V2 {
                self.hand_on(&at, hierarchy)?;
            }
        }
        Ok(())
    }

    /// Prepares a directory above jobs that we have just made: the most weight there is, because jobs
    /// compete with everything else on the host through it, the ceiling, and the parent's processors. One above jobs without terms
    /// stays as it is.
    fn furnish(&self, at: &Path, hierarchy: &Hierarchy) -> Result<(), Error> {
        let is_ours = |h: &Hierarchy| at == h.root;
        let promises = at != hierarchy.root || self.hierarchies.iter().any(is_ours);
        if promises && hierarchy.roles.contains(&Role::Cpu) {
            let (file, most) = match self.version {
                Version::V1 => (v1::SHARES, V1_SHARES.1),
                Version::V2 => (v2::WEIGHT, V2_WEIGHT.1),
            };
            if let Err(e) = write_once(&at.join(file), &most.to_string()) {
                log::warn!("jobs compete with the rest of the host at its usual weight: {e}");
            }
            if at == hierarchy.root {
                if let Err(e) = self.write_ceiling(at) {
                    log::warn!(
                        "nothing but their own shares holds jobs back from the rest of the host: {e}"
                    );
                }
            }
        }
        if self.version == Version::V1 && hierarchy.roles.contains(&Role::Cpuset) {
            seed_cpuset(at)?;
        }
        Ok(())
    }

    /// Gives the children of `at` the controllers.
    fn hand_on(&self, at: &Path, hierarchy: &Hierarchy) -> Result<(), Error> {
        match v2::refuse_occupied(at, "cpu") {
            Err(e) if e.errno() == Some(Errno::EBUSY) && self.delegated.as_deref() == Some(at) => {
                move_to_leaf(at)?;
            }
            other => other?,
        }
        v2::hand_on(at, "cpu")?;
        if hierarchy.roles.contains(&Role::Cpuset) {
            if let Err(e) = v2::hand_on(at, "cpuset") {
                log::info!(
                    "jobs below {} are not held to chosen processors: {e}",
                    at.display()
                );
            }
        }
        Ok(())
    }

    /// Opens the group of a record. `None` where its cpu directory is gone or another one has taken its
    /// place: the job has ended, and [`Enforcer::discard`] removes what else may be left of it.
    pub fn reopen(&self, record: &GroupRecord) -> Result<Option<Group>, Error> {
        let mut found = record.clone();
        found.directories.clear();
        for directory in &record.directories {
            if directory.matches()? {
                found.directories.push(directory.clone());
            } else if directory.roles.contains(&Role::Cpu) {
                return Ok(None);
            }
        }
        let weights = match record.version {
            Version::V1 => V1_SHARES,
            Version::V2 => V2_WEIGHT,
        };
        let policy = Policy {
            weights,
            ..self.policy
        };
        match Group::open(found.clone(), policy) {
            Ok(group) => Ok(Some(group)),
            Err(e) if e.is_gone() => self.reopen_unfurnished(found, policy),
            Err(e) => Err(e),
        }
    }

    /// A directory whose files are missing: it was removed this moment, or it is there and its parents
    /// hand on no controllers any more (before version 254 systemd cannot restart the agent beside
    /// running jobs otherwise, see packaging/agent-stopped). Those are handed on again.
    fn reopen_unfurnished(
        &self,
        record: GroupRecord,
        policy: Policy,
    ) -> Result<Option<Group>, Error> {
        for directory in &record.directories {
            if !directory.matches()? {
                return Ok(None);
            }
        }
        if record.adopted.is_some() {
            for directory in &record.directories {
                self.furnish_adopted(directory)?;
            }
        } else {
            for hierarchy in self.hierarchies_of(&record) {
                // Only of jobs that may be suspended; and it hands nothing on.
                if hierarchy.roles == [Role::Freezer] {
                    continue;
                }
                self.ensure_root(&hierarchy)?;
            }
        }
        let at = record.directories.first().map(|d| d.path.clone());
        Group::open(record, policy).map(Some).map_err(|e| match at {
            // Not "gone": a caller would take a job that runs for one that has ended.
            Some(at) if e.is_gone() => {
                Error::io("open the files in", &at, None, Errno::EACCES.into())
            }
            _ => e,
        })
    }

    /// The group of this name where it was made since `since` and its maker was killed before it could
    /// write the record down. `None` where there is none, or only an older one: that is not ours.
    pub fn recover(&self, name: &str, since: SystemTime) -> Result<Option<GroupRecord>, Error> {
        check_name(name)?;
        let mut directories = Vec::new();
        for hierarchy in &self.hierarchies {
            let path = hierarchy.root.join(name);
            let Ok(data) = fs::symlink_metadata(&path) else {
                continue;
            };
            if data.is_dir() && data.modified().is_ok_and(|made| made >= since) {
                directories.push(DirectoryRecord {
                    path,
                    inode: data.ino(),
                    roles: hierarchy.roles.clone(),
                });
            }
        }
        Ok((!directories.is_empty()).then(|| GroupRecord {
            name: name.to_owned(),
            version: self.version,
            capacity: 1.0,
            directories,
            adopted: None,
        }))
    }

    /// Removes the directories of a group that nothing was ever placed in; kills nothing.
    pub fn remove_unused(&self, record: &GroupRecord) -> Result<bool, Error> {
        if record.adopted.is_some() {
            return Ok(false);
        }
        let mut all_gone = true;
        for directory in &record.directories {
            all_gone &= directory.remove_if_empty()?;
        }
        Ok(all_gone)
    }

    /// Kills and removes whatever of a recorded group is still there and ours, within `patience`. Limits are taken off an adopted one, which stays.
    pub fn discard(&self, record: &GroupRecord, patience: Duration) -> Result<(), Error> {
        group::discard(record, patience)
    }

    /// Removes the directories above jobs which `made` says were made here, once no job is in them.
    /// Returns true where none of them is left; a root that an administrator made stays.
    pub fn remove_root_if_empty(&self, made: &RootRecord) -> Result<bool, Error> {
        let mut all_gone = true;
        for directory in made.directories.iter().rev() {
            all_gone &= directory.remove_if_empty()?;
        }
        if all_gone {
            let mut own = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            own.directories.retain(|d| !made.directories.contains(d));
        }
        Ok(all_gone)
    }

    /// Directories below our root that are in none of the records. They are for a person to look at.
    pub fn orphans(&self, known: &[GroupRecord]) -> Result<Vec<Orphan>, Error> {
        let known: HashSet<&Path> = known
            .iter()
            .flat_map(|r| &r.directories)
            .map(|d| d.path.as_path())
            .collect();
        let mut orphans = Vec::new();
        for hierarchy in &self.hierarchies {
            for entry in fs::read_dir(&hierarchy.root)
                .into_iter()
                .flatten()
                .flatten()
            {
                let path = entry.path();
                let Ok(data) = entry.metadata() else { continue };
                if !data.is_dir() || known.contains(path.as_path()) {
                    continue;
                }
                let made = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let age = SystemTime::now().duration_since(made).unwrap_or_default();
                let populated = !processes::listed_below([path.as_path()])?.is_empty();
                orphans.push(Orphan {
                    path,
                    age,
                    populated,
                });
            }
        }
        orphans.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(orphans)
    }
}

/// A new v1 cpuset has no processors and takes no process until it is given some.
fn seed_cpuset(at: &Path) -> Result<(), Error> {
    for file in [v1::CPUS, v1::MEMS] {
        let path = at.parent().unwrap_or(at).join(file);
        let text = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, None, e))?;
        write_once(&at.join(file), text.trim())?;
    }
    Ok(())
}

/// Moves the processes of a delegated group into a child of it, repeatedly since they may fork.
///
/// # Errors
/// Nothing is moved where one of them is of another namespace of processes: its number is 0 here, which written back would mean this process.
fn move_to_leaf(at: &Path) -> Result<(), Error> {
    if processes::listed(at)?.contains(&0) {
        return Err(v2::occupied(at));
    }
    let leaf = at.join(LEAF);
    match DirectoryRecord::make(&leaf, &[]) {
        Ok(_) | Err(Error::Exists { .. }) => {}
        Err(e) => return Err(e),
    }
    for _ in 0..16 {
        let pids = processes::listed(at)?;
        if pids.is_empty() {
            break;
        }
        for pid in pids {
            match write_once(&leaf.join(PROCS), &pid.to_string()) {
                Err(e) if processes::has_ended(&e) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST_NAME {
        "it is longer than 200 bytes"
    } else if name == "." || name == ".." {
        "it means another directory"
    } else if name.contains('/') {
        "it contains \"/\""
    } else if name.chars().any(char::is_control) {
        "it contains a control character"
    } else {
        return Ok(());
    };
    Err(Error::Name {
        name: name.chars().take(80).collect(),
        why,
    })
}

#[cfg(test)]
#[path = "enforcer_tests.rs"]
mod tests;
