//! What was there before an installation, kept for `uninstall`: one JSON file for each server or cluster, and a lock.

use super::replace::{beside, replace};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file whose lock a run holds.
const LOCK: &str = "lock";

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum InstallStateError {
    #[error("{file}: {error}; 'libra {command} install' keeps there what was before, see --state")]
    File {
        file: PathBuf,
        error: std::io::Error,
        command: &'static str,
    },
    #[error(
        "another 'libra {command} install' or 'uninstall' is at work ({directory} is locked); wait for it"
    )]
    Busy {
        directory: PathBuf,
        command: &'static str,
    },
}

/// One file and its directory.
pub struct InstallState {
    directory: PathBuf,
    file: PathBuf,
    command: &'static str,
}

impl InstallState {
    /// What `libra COMMAND install` keeps of a server or cluster; nothing is made yet.
    pub fn of(directory: &Path, name: &str, command: &'static str) -> InstallState {
        InstallState {
            directory: directory.to_path_buf(),
            file: directory.join(format!("{name}.json")),
            command,
        }
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn failed(&self, file: &Path) -> impl Fn(std::io::Error) -> InstallStateError {
        let (file, command) = (file.to_path_buf(), self.command);
        move |error| InstallStateError::File {
            file: file.clone(),
            error,
            command,
        }
    }

    /// Makes the directory and keeps other installations out while the value lives.
    pub fn lock(&self) -> Result<Flock<File>, InstallStateError> {
        let failed = self.failed(&self.directory);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(&failed)?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.directory.join(LOCK))
            .map_err(failed)?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| InstallStateError::Busy {
            directory: self.directory.clone(),
            command: self.command,
        })
    }

    /// Reads it; None if nothing is installed.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, InstallStateError> {
        let failed = self.failed(&self.file);
        match fs::read(&self.file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| failed(std::io::Error::other(error))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes it, or removes it where there is nothing to keep.
    pub fn write<T: Serialize>(&self, state: Option<&T>) -> Result<(), InstallStateError> {
        let written = match state {
            None => match fs::remove_file(&self.file) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            Some(state) => serde_json::to_string_pretty(state)
                .map_err(std::io::Error::other)
                .and_then(|text| replace(&self.file, format!("{text}\n").as_bytes(), 0o600)),
        };
        written.map_err(self.failed(&self.file))
    }

    /// Takes away what a run that was killed may have left half written. Needs the lock.
    pub fn tidy(&self) {
        let _ = fs::remove_file(beside(&self.file));
    }

    /// Takes the directory away where nothing is kept in it any more. Needs the lock.
    pub fn clear(&self) {
        let others = fs::read_dir(&self.directory).map(|files| {
            let names = files.flatten().map(|file| file.file_name());
            names.filter(|name| name != LOCK).count()
        });
        if others.is_ok_and(|others| others == 0) {
            let _ = fs::remove_file(self.directory.join(LOCK));
            let _ = fs::remove_dir(&self.directory);
        }
    }
}
