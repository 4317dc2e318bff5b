//! What a daemon of the batch system that has loaded Libra says of itself when it starts, in a file of the registry: by that an
//! administrator is told whether the daemon that runs now has Libra in it, and which.
//!
//! Invariants: the daemon keeps the file open as long as it lives, so whether a mark is that of a process is seen by the process's
//! open files, also where the daemon has forked since to go into the background; a mark is never read half written.

use super::{Host, HostError};
use libra_system::clock;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A limit may be read back with so much less or more than was written, as a part of it: kernels count in whole units.
const READ_BACK: f64 = 0.05;

/// What a daemon had when it started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Mark {
    /// Version of the Libra in it.
    pub version: String,
    /// The batch system that this was built for, as in `Slurm 24.11.5`.
    pub built_for: String,
    /// The configuration that it reads.
    pub configuration: PathBuf,
    /// Of the configuration's content then ([`content_hash`]); None if it could not be read.
    pub hash: Option<String>,
    /// Whether limits that were written into a control group were read back from the kernel.
    pub enforced: bool,
    /// How shares are enforced, or why they are not.
    pub enforcement: String,
    /// Unix time.
    pub at: f64,
}

fn path(directory: &Path, daemon: &str) -> PathBuf {
    directory.join(format!("{daemon}.json"))
}

impl Mark {
    /// The mark of a daemon of this name in the registry in `directory`; None if none has left one.
    ///
    /// # Errors
    /// When it is there and cannot be read, or holds something else.
    pub fn read(directory: &Path, daemon: &str) -> io::Result<Option<Mark>> {
        match fs::read(path(directory, daemon)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        }
    }

    /// Returns true if the mark there is that of this process. None if its open files may not be looked at.
    pub fn is_of(directory: &Path, daemon: &str, pid: i32) -> Option<bool> {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let Ok(wanted) = fs::metadata(path(directory, daemon)) else {
            return Some(false);
        };
        Some(files.flatten().any(|file| {
            fs::metadata(file.path())
                .is_ok_and(|file| (file.dev(), file.ino()) == (wanted.dev(), wanted.ino()))
        }))
    }
}

/// A number for the content of a file: the same for the same bytes, on every machine and in every version (FNV-1a, 64 bits).
pub fn content_hash(content: &[u8]) -> String {
    let hash = (content.iter()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

impl Host {
    /// Leaves the mark of this process, which is a daemon of that name. It counts as long as the file that is returned is open.
    ///
    /// # Errors
    /// When the registry cannot be written.
    pub fn leave_mark(
        &self,
        daemon: &str,
        built_for: &str,
        configuration: &Path,
    ) -> Result<File, HostError> {
        let tried = self.try_enforcement();
        let mark = Mark {
            version: env!("CARGO_PKG_VERSION").to_string(),
            built_for: built_for.to_string(),
            configuration: configuration.to_path_buf(),
            hash: fs::read(configuration).ok().map(|text| content_hash(&text)),
            enforced: tried.is_ok(),
            enforcement: tried.unwrap_or_else(|problem| problem),
            at: clock::unix_time(),
        };
        let path = path(self.registry.directory(), daemon);
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let written = fs::create_dir_all(self.registry.directory())
            .and_then(|()| fs::write(&new, serde_json::to_vec(&mark)?))
            .and_then(|()| fs::rename(&new, &path))
            .and_then(|()| File::open(&path));
        written.map_err(|error| HostError::System {
            action: "leave a mark in the registry",
            error,
        })
    }

    /// Makes a control group as for a job, writes limits into it, reads them back, and removes it. Returns how shares are enforced.
    ///
    /// # Errors
    /// Why they are not, in words.
    pub fn try_enforcement(&self) -> Result<String, String> {
        let Some(enforcer) = self.enforcer() else {
            return Err(self.unenforced().unwrap_or_default().to_string());
        };
        let limits = self.limits(self.machine.spec.processors / 2.0);
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let _lock = self.registry.lock().map_err(|error| words(&error))?;
        let name = format!("trial-{}", std::process::id());
        let tried = enforcer.create(&name, &limits).and_then(|group| {
            let found = group.limits();
            group.remove(Duration::ZERO)?;
            found
        });
        let roots = self.note_roots().and_then(|()| self.remove_roots());
        roots.map_err(|error| words(&error))?;
        let found = tried.map_err(|error| words(&error))?;
        match (found.processors / limits.processors - 1.0).abs() <= READ_BACK {
            true => Ok(enforcer.describe()),
            false => Err(format!(
                "a limit of {} processors was written, and the kernel has {}",
                limits.processors, found.processors
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_config::Config;

    #[test]
    fn a_mark_is_that_of_the_process_that_has_it_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let registry = directory.path().join("registry");
        let file = directory.path().join("libra.toml");
        let text = format!(
            "[cgroup]\nversion = 'off'\n[registry]\ndirectory = '{}'\n",
            registry.display()
        );
        fs::write(&file, &text).expect("written");
        let host = Host::open(Config::from_file(&file).expect("valid")).expect("opened");
        let this = std::process::id() as i32;
        assert_eq!(Mark::read(&registry, "slurmd").expect("read"), None);
        assert_eq!(Mark::is_of(&registry, "slurmd", this), Some(false));
        let open = host
            .leave_mark("slurmd", "Slurm 24.11.5", &file)
            .expect("left");
        let mark = Mark::read(&registry, "slurmd")
            .expect("read")
            .expect("there");
        assert_eq!(mark.built_for, "Slurm 24.11.5");
        assert_eq!(mark.hash, Some(content_hash(text.as_bytes())));
        assert!(
            !mark.enforced && mark.enforcement.contains("off"),
            "{mark:?}"
        );
        assert_eq!(Mark::is_of(&registry, "slurmd", this), Some(true));
        assert_eq!(Mark::is_of(&registry, "slurmctld", this), Some(false));
        // Another daemon has started since: the old one's is gone with its file.
        let next = host
            .leave_mark("slurmd", "Slurm 24.11.5", &file)
            .expect("left");
        drop(next);
        assert_eq!(Mark::is_of(&registry, "slurmd", this), Some(false));
        drop(open);
        assert_eq!(Mark::is_of(&registry, "slurmd", i32::MAX), None);
        fs::write(path(&registry, "slurmd"), "{").expect("written");
        assert!(Mark::read(&registry, "slurmd").is_err());
    }

    #[test]
    fn the_same_content_has_the_same_hash_everywhere() {
        // The test vectors of the algorithm's authors.
        assert_eq!(content_hash(b""), "cbf29ce484222325");
        assert_eq!(content_hash(b"a"), "af63dc4c8601ec8c");
        assert_eq!(content_hash(b"foobar"), "85944171f73967e8");
    }
}
