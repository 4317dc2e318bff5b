//! What was promised nothing gets the least weight there is. It is written when a process comes, and by nobody again.
//!
//! On version 1 in one group for all of it, beside the directory above jobs: the cpu hierarchy is used by nobody else there, and
//! many processes at its top together outweigh jobs. Beside that directory, not in it: it has the most weight there is, and what is in it
//! alone would take that from the rest of the host, daemons too.
//!
//! On version 2 a process is in one group for everything: moving it would take it from the group in which its
//! batch system counts and ends it. Where that is one for the job, it gets the least weight itself
//! ([`Enforcer::weigh_least`]); elsewhere its weight is a hundredth of ours already.

use std::path::PathBuf;

use super::detect::Role;
use super::enforcer::Enforcer;
use super::error::Error;
use super::file::write_once;
use super::limits::{V1_SHARES, V2_WEIGHT};
use super::processes::{self, PROCS};
use super::record::DirectoryRecord;
use super::settings::Version;
use super::{v1, v2};

/// What its name adds to that of the directory above jobs.
const SUFFIX: &str = "-best-effort";

impl Enforcer {
    /// On version 1: makes the group of the least weight where it is missing; then it is one of [`Enforcer::made_root`]. False where there is no such
    /// group (version 2).
    ///
    /// # Errors
    /// When it cannot be made or written to.
    pub fn make_best_effort(&self) -> Result<bool, Error> {
        let Some(at) = self.best_effort() else {
            return Ok(false);
        };
        match DirectoryRecord::make(&at, &[Role::Cpu]) {
            Ok(made) => self.note_made(made),
            Err(Error::Exists { .. }) => {}
            Err(e) => return Err(e),
        }
        // Each time: whoever made it may have been killed before it wrote.
        write_once(&at.join(v1::SHARES), &V1_SHARES.0.to_string())?;
        Ok(true)
    }

    /// Puts one process into it. False where it is not there: an empty one is removed at any time.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn enter_best_effort(&self, pid: i32) -> Result<bool, Error> {
        let Some(at) = self.best_effort() else {
            return Ok(false);
        };
        match write_once(&at.join(PROCS), &pid.to_string()) {
            Err(e) if processes::has_ended(&e) => Ok(true),
            Err(e) if e.is_gone() => Ok(false),
            other => other.map(|()| true),
        }
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

    fn best_effort(&self) -> Option<PathBuf> {
        if self.version() != Version::V1 {
            return None;
        }
        let root = self.root_of(Role::Cpu)?;
        let mut name = root.file_name()?.to_owned();
        name.push(SUFFIX);
        Some(root.with_file_name(name))
    }
}
