//! What was promised nothing gets the least weight there is. It is written when a process comes, and by nobody again.
//!
//! On version 1 each such job has a group of its own beside the directory above jobs: the cpu hierarchy is used by nobody else there, and
//! many processes at its top together outweigh jobs. Beside that directory, not in it: it has the most weight there is, and what is in it
//! alone would take that from the rest of the host, daemons too. And not in one with each other: one whose processes are all killed gets
//! more ([`super::killed`]), in which none that lives may have a part.
//!
//! Invariant: what has such a name was made here, so no record of it is kept.
//!
//! On version 2 a process is in one group for everything: moving it would take it from the group in which its
//! batch system counts and ends it. Where that is one for the job, it gets the least weight itself
//! ([`Enforcer::weigh_least`]); elsewhere its weight is a hundredth of ours already.

use std::fs;
use std::path::PathBuf;

use super::detect::Role;
use super::enforcer::{Enforcer, check_name};
use super::error::Error;
use super::file::write_once;
use super::limits::{V1_SHARES, V2_WEIGHT};
use super::processes::{self, PROCS};
use super::record::{DirectoryRecord, GroupRecord};
use super::settings::Version;
use super::{v1, v2};

/// What is between the names of the directory above jobs and of the job.
const BETWEEN: &str = "-best-effort-";

impl Enforcer {
    /// On version 1: makes the group of such a job, of the least weight, where it is missing. False where there is no such group (version 2).
    ///
    /// # Errors
    /// When it cannot be made or written to.
    pub fn make_best_effort(&self, name: &str) -> Result<bool, Error> {
        check_name(name)?;
        let Some(at) = self.best_effort(name) else {
            return Ok(false);
        };
        match DirectoryRecord::make(&at, &[Role::Cpu]) {
            Ok(_) | Err(Error::Exists { .. }) => {}
            Err(e) => return Err(e),
        }
        // Each time: whoever made it may have been killed before it wrote, or all that was in it was killed.
        write_once(&at.join(v1::SHARES), &V1_SHARES.0.to_string())?;
        Ok(true)
    }

    /// Puts one process into it. False where it is not there: an empty one is removed at any time.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn enter_best_effort(&self, name: &str, pid: i32) -> Result<bool, Error> {
        let Some(at) = self.best_effort(name) else {
            return Ok(false);
        };
        match write_once(&at.join(PROCS), &pid.to_string()) {
            Err(e) if processes::has_ended(&e) => Ok(true),
            Err(e) if e.is_gone() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Removes those of these groups in which nothing is.
    pub fn remove_empty_best_effort(&self) {
        for group in self.groups_best_effort() {
            for directory in &group.directories {
                if let Err(e) = directory.remove_if_empty() {
                    log::warn!("{e}");
                }
            }
        }
    }

    /// All of these groups.
    pub(super) fn groups_best_effort(&self) -> Vec<GroupRecord> {
        let Some(prefix) = self.best_effort("") else {
            return Vec::new();
        };
        let (Some(above), Some(prefix)) = (prefix.parent(), prefix.file_name()) else {
            return Vec::new();
        };
        let prefix = prefix.as_encoded_bytes();
        let entries = fs::read_dir(above).into_iter().flatten().flatten();
        let named = entries.filter(|e| e.file_name().as_encoded_bytes().starts_with(prefix));
        named
            .filter_map(|entry| {
                let directory = DirectoryRecord::find(&entry.path(), &[Role::Cpu]).ok()?;
                Some(GroupRecord {
                    name: entry.file_name().to_string_lossy().into_owned(),
                    version: self.version(),
                    capacity: 1.0,
                    directories: vec![directory],
                    adopted: None,
                })
            })
            .collect()
    }

    /// On version 2: gives the group that a batch system has made for a job that was promised nothing the least weight there is.
    ///
    /// # Errors
    /// As for [`Enforcer::adopt`].
    pub fn weigh_least(&self, directory: &DirectoryRecord) -> Result<(), Error> {
        self.furnish_adopted(directory)?;
        let least = V2_WEIGHT.0;
        write_once(&directory.path.join(v2::WEIGHT), &least.to_string())
    }

    fn best_effort(&self, job: &str) -> Option<PathBuf> {
        if self.version() != Version::V1 {
            return None;
        }
        let root = self.root_of(Role::Cpu)?;
        let mut name = root.file_name()?.to_owned();
        name.push(BETWEEN);
        name.push(job);
        Some(root.with_file_name(name))
    }
}
