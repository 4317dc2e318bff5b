//! Groups of jobs that nothing was promised to. They are held to no share, but counted, and nothing of such a job is left behind at its end.
//!
//! They are in a directory of their own beside the one above jobs with terms, not in that one: what runs there uses up its
//! ceiling. The kernel gives this directory its usual weight, that of a service of the host; in it jobs compete by their processors.
//!
//! Invariants: what is in this directory was made here, so no record beside that of the directory itself is kept; a process that
//! somebody else has put into a group (the hook that PBS brings) stays in it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::detect::{Hierarchy, Role};
use super::enforcer::{Enforcer, check_name};
use super::error::Error;
use super::file::write_once;
use super::group::Group;
use super::limits::{Limits, Policy, Spare};
use super::processes::{self, PROCS};
use super::record::{DirectoryRecord, GroupRecord};
use super::settings::Version;

/// What its name adds to that of the directory above jobs with terms.
const SUFFIX: &str = "-without-terms";

impl Enforcer {
    /// Makes the group of such a job where it is missing, and gives it the weight of so many processors.
    ///
    /// # Errors
    /// When it cannot be made or written to; nothing new is left then.
    pub fn make_without_terms(&self, name: &str, limits: &Limits) -> Result<GroupRecord, Error> {
        check_name(name)?;
        let mut last = None;
        // Another process may remove the empty directory above between our making it and our making the group.
        for _ in 0..8 {
            match self.try_make_without_terms(name, limits) {
                Err(e) if e.is_gone() => last = Some(e),
                other => return other,
            }
        }
        Err(last.unwrap_or(Error::Gone { path: name.into() }))
    }

    fn try_make_without_terms(&self, name: &str, limits: &Limits) -> Result<GroupRecord, Error> {
        let mut record = self.record_of(name, Vec::new());
        let made = self.make_all(&mut record).and_then(|()| {
            let policy = Policy {
                spare: Spare::Shared,
                ..self.policy()
            };
            Group::open(record.clone(), policy)?.set(limits)
        });
        match made {
            Ok(_) => Ok(record),
            Err(e) => {
                // What is in use stays.
                let _ = self.remove_unused(&record);
                Err(e)
            }
        }
    }

    fn make_all(&self, record: &mut GroupRecord) -> Result<(), Error> {
        for hierarchy in self.without_terms() {
            self.ensure_root(&hierarchy)?;
            let path = hierarchy.root.join(&record.name);
            let directory = match DirectoryRecord::make(&path, &hierarchy.roles) {
                // A job that is run again, or one whose maker was killed half way.
                Err(Error::Exists { .. }) => DirectoryRecord::find(&path, &hierarchy.roles)?,
                other => other?,
            };
            record.directories.push(directory);
        }
        Ok(())
    }

    /// The group of such a job; None if there is none.
    ///
    /// # Errors
    /// When its directories cannot be looked at.
    pub fn group_without_terms(&self, name: &str) -> Result<Option<GroupRecord>, Error> {
        check_name(name)?;
        let mut directories = Vec::new();
        for hierarchy in self.without_terms() {
            match DirectoryRecord::find(&hierarchy.root.join(name), &hierarchy.roles) {
                Ok(directory) => directories.push(directory),
                Err(e) if e.is_gone() => {}
                Err(e) => return Err(e),
            }
        }
        Ok((!directories.is_empty()).then(|| self.record_of(name, directories)))
    }

    /// The names of all such groups, and how long they have been there.
    pub fn groups_without_terms(&self) -> Vec<(String, Duration)> {
        let mut found: Vec<(String, Duration)> = Vec::new();
        for hierarchy in self.without_terms() {
            let entries = fs::read_dir(&hierarchy.root)
                .into_iter()
                .flatten()
                .flatten();
            for entry in entries {
                let (Ok(name), Ok(data)) = (entry.file_name().into_string(), entry.metadata())
                else {
                    continue;
                };
                if data.is_dir() && !found.iter().any(|(known, _)| *known == name) {
                    let made = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    let age = SystemTime::now().duration_since(made).unwrap_or_default();
                    found.push((name, age));
                }
            }
        }
        found
    }

    /// Puts one process into such a group, as far as nobody else has put it into one: then it is where its parent is not. False if it has
    /// ended.
    ///
    /// # Errors
    /// When the group is gone or cannot be written to.
    pub fn place_without_terms(&self, record: &GroupRecord, pid: i32) -> Result<bool, Error> {
        let (Some(own), Some(parents)) = (groups_of(pid), processes::parent(pid).map(groups_of))
        else {
            return Ok(false);
        };
        let parents = parents.unwrap_or_default();
        for directory in &record.directories {
            let controller = match (self.version(), directory.roles.contains(&Role::Cpu)) {
                (Version::V2, _) => "",
                (Version::V1, true) => "cpu",
                (Version::V1, false) => "cpuacct",
            };
            if path_in(&own, controller) != path_in(&parents, controller) {
                continue;
            }
            match write_once(&directory.path.join(PROCS), &pid.to_string()) {
                Err(e) if processes::has_ended(&e) => return Ok(false),
                other => other?,
            }
        }
        Ok(true)
    }

    /// Where a group is that was made here.
    pub(super) fn hierarchies_of(&self, record: &GroupRecord) -> Vec<Hierarchy> {
        let first = record.directories.first();
        match first.is_some_and(|directory| is_without_terms(&directory.path)) {
            true => self.without_terms(),
            false => self.hierarchies().to_vec(),
        }
    }

    /// Where such groups are. Nothing of them is held to chosen processors, or suspended.
    fn without_terms(&self) -> Vec<Hierarchy> {
        let mut hierarchies = self.hierarchies().to_vec();
        for hierarchy in &mut hierarchies {
            let mut name = hierarchy.root.file_name().unwrap_or_default().to_owned();
            name.push(SUFFIX);
            hierarchy.root.set_file_name(name);
            hierarchy
                .roles
                .retain(|role| matches!(role, Role::Cpu | Role::Accounting));
        }
        hierarchies.retain(|hierarchy| !hierarchy.roles.is_empty());
        hierarchies
    }

    fn record_of(&self, name: &str, directories: Vec<DirectoryRecord>) -> GroupRecord {
        GroupRecord {
            name: name.to_owned(),
            version: self.version(),
            capacity: 1.0,
            directories,
            adopted: None,
        }
    }
}

/// Returns true if this directory of a job is one of those.
fn is_without_terms(directory: &Path) -> bool {
    let above = directory.parent().and_then(Path::file_name);
    above.is_some_and(|name| name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()))
}

/// `/proc/PID/cgroup`; None of a process that has ended.
fn groups_of(pid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
}

/// The path of the group of this controller; that of version 2 has no name.
fn path_in<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = controllers.split(',').any(|name| name == controller);
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "9:cpuset:/a\n4:cpu,cpuacct:/pbs:1\n1:name=systemd:/x\n0::/u\n";

    #[test]
    fn the_group_of_a_controller() {
        for (controller, path) in [
            ("cpu", Some("/pbs:1")),
            ("cpuacct", Some("/pbs:1")),
            ("", Some("/u")),
            ("memory", None),
        ] {
            assert_eq!(path_in(GROUPS, controller), path, "{controller}");
        }
    }

    #[test]
    fn jobs_of_either_kind_are_apart() {
        assert!(is_without_terms(Path::new(
            "/c/libra-without-terms/job-1.s"
        )));
        assert!(!is_without_terms(Path::new("/c/libra/job-1-without-terms")));
    }
}
