//! What outlives this program: which directories were made here.
//!
//! Invariants: a directory is ours only while both its path and its inode match the record. Directories are
//! removed through this file alone, and only when they match.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::detect::Role;
use super::error::Error;
use super::processes;
use super::settings::Version;

/// What is remembered of a group that another made. Its count may have begun before it was adopted, and ends before
/// the job does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Adopted {
    /// To be added to the kernel's count for what the job has used in all, processor seconds.
    pub offset: f64,
    /// What the job had used in all when it was last read, processor seconds.
    pub seen: f64,
}

/// A directory made here, or found in place of one ([`Adopted`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DirectoryRecord {
    /// Absolute path.
    pub path: PathBuf,
    /// Its inode: kernels of 64 bits never use one twice between boots.
    pub inode: u64,
    /// What it is for.
    pub roles: Vec<Role>,
}

/// The directories of one job, for the agent's registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GroupRecord {
    /// The job's name, the last component of each path.
    pub name: String,
    /// The interface they were made with.
    pub version: Version,
    /// Processors of the host, for reading shares back from weights.
    pub capacity: f64,
    /// The cpu directory first.
    pub directories: Vec<DirectoryRecord>,
    /// Another made them, and removes them: None if they were made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adopted>,
}

/// The directories above all jobs that were made here, outermost first; empty where they were there before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RootRecord {
    /// In the order in which they were made.
    pub directories: Vec<DirectoryRecord>,
}

impl DirectoryRecord {
    /// Makes the directory; one that is there already is [`Error::Exists`].
    pub(crate) fn make(path: &Path, roles: &[Role]) -> Result<Self, Error> {
        fs::create_dir(path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists {
                path: path.to_owned(),
            },
            _ => Error::io("make", path, None, e),
        })?;
        let inode = match inode(path) {
            Ok(Some(inode)) => inode,
            Ok(None) => {
                return Err(Error::Gone {
                    path: path.to_owned(),
                });
            }
            Err(error) => {
                // Empty and made a moment ago; nothing better can be done if this fails as well.
                let _ = fs::remove_dir(path);
                return Err(error);
            }
        };
        Ok(Self {
            path: path.to_owned(),
            inode,
            roles: roles.to_vec(),
        })
    }

    /// True while the directory made here is there.
    pub fn matches(&self) -> Result<bool, Error> {
        Ok(inode(&self.path)? == Some(self.inode))
    }

    /// Removes the directory if it is ours and empty. True if it is gone afterwards or never was ours,
    /// false if something keeps it.
    pub(crate) fn remove_if_empty(&self) -> Result<bool, Error> {
        if !self.matches()? {
            return Ok(true);
        }
        remove_dir(&self.path)
    }
}

/// True if the directory is gone, false if something keeps it.
fn remove_dir(path: &Path) -> Result<bool, Error> {
    let Err(e) = fs::remove_dir(path) else {
        return Ok(true);
    };
    match e.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENODEV) => Ok(true),
        Some(Errno::EBUSY | Errno::ENOTEMPTY) => Ok(false),
        _ => Err(Error::io("remove", path, None, e)),
    }
}

fn inode(path: &Path) -> Result<Option<u64>, Error> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => Ok(Some(data.ino())),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("look at", path, None, e)),
    }
}

/// Kills what is left in the recorded directories and removes them with all that jobs made below, within
/// `patience`. Directories that are not ours (any more) stay. `help`: what helps those that are dying.
pub(crate) fn discard(
    directories: &[DirectoryRecord],
    patience: Duration,
    help: &dyn Fn(),
) -> Result<(), Error> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let mut ours = Vec::new();
        for directory in directories {
            if directory.matches()? {
                ours.push(directory);
            }
        }
        let paths: Vec<&Path> = ours.iter().map(|d| d.path.as_path()).collect();
        let left =
            processes::kill_until_empty(&paths, patience.saturating_sub(start.elapsed()), help)?;
        let mut kept = None;
        for directory in ours {
            for nested in processes::with_nested(&directory.path) {
                // The directory itself comes last; inside it everything is the job's.
                let gone = if nested == directory.path {
                    directory.remove_if_empty()?
                } else {
                    remove_dir(&nested)?
                };
                if !gone {
                    kept = Some(directory.path.clone());
                }
            }
        }
        // A process that has just died holds its directory a moment longer.
        let Some(path) = kept else { return Ok(()) };
        if start.elapsed() >= patience {
            return Err(Error::Busy {
                path,
                pids: left,
                seconds: start.elapsed().as_secs_f64(),
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_here_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("12[3].host");
        let ours = DirectoryRecord::make(&path, &[Role::Cpu]).unwrap();
        assert!(matches!(
            DirectoryRecord::make(&path, &[]),
            Err(Error::Exists { .. })
        ));
        assert!(ours.matches().unwrap());
        let other = DirectoryRecord {
            inode: ours.inode + 1,
            ..ours.clone()
        };
        discard(&[other], Duration::ZERO, &|| ()).unwrap();
        assert!(path.is_dir());
        fs::create_dir_all(path.join("nested/deeper")).unwrap();
        discard(std::slice::from_ref(&ours), Duration::ZERO, &|| ()).unwrap();
        assert!(!path.exists());
        discard(&[ours], Duration::ZERO, &|| ()).unwrap();
    }

    #[test]
    fn a_directory_that_is_kept_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let ours = DirectoryRecord::make(&dir.path().join("x"), &[]).unwrap();
        fs::write(ours.path.join("file"), "").unwrap();
        let error = discard(&[ours], Duration::from_millis(5), &|| ()).unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
    }

    #[test]
    fn records_are_plain_json() {
        let text = r#"{"name":"1.h","version":"v2","capacity":2.0,"directories":[{"path":"/x/1.h","inode":7,"roles":["cpu","accounting"]}]}"#;
        let record: GroupRecord = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        let adopted = text.replace("]}]}", r#"]}],"adopted":{"offset":-0.5,"seen":2.0}}"#);
        let record: GroupRecord = serde_json::from_str(&adopted).unwrap();
        assert_eq!(record.adopted.unwrap().seen, 2.0);
        assert_eq!(serde_json::to_string(&record).unwrap(), adopted);
    }
}
