//! What a prolog leaves to the tasks of its job where the registry has nothing of it: one file per job and kind, below the registry's directory.

use libra_host::Host;
use libra_host::registry::{Lock, RegistryError};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

/// The lock that tasks of a job take in turn to ask slurmctld.
fn turn_of(number: u32) -> String {
    format!("asking-{number}")
}

/// What is on record of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// Its tasks are refused; the text says why.
    Refused,
    /// It runs here without a share, as its prolog was told.
    WithoutShare,
    /// Its prolog could not begin it for now, so its tasks try; the text is what its environment claims, or nothing on a disk that was full.
    NotYet,
}

impl Note {
    const ALL: [Note; 3] = [Note::Refused, Note::WithoutShare, Note::NotYet];

    fn directory(self) -> &'static str {
        match self {
            Note::Refused => "refused",
            Note::WithoutShare => "without-share",
            Note::NotYet => "not-yet",
        }
    }

    /// Where it is; None for what cannot be a job of Slurm's.
    fn path(self, host: &Host, name: &str) -> Option<PathBuf> {
        let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        number.then(|| {
            host.registry()
                .directory()
                .join(self.directory())
                .join(name)
        })
    }

    pub(super) fn write(self, host: &Host, name: &str, text: &str) -> std::io::Result<()> {
        let path = (self.path(host, name)).ok_or(std::io::ErrorKind::InvalidInput)?;
        if let Some(parent) = path.parent() {
            // A task has its user's umask by now: whoever could write here would have root write elsewhere.
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(parent)?;
        }
        let mut file = (OpenOptions::new().write(true).create(true).truncate(true))
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        file.write_all(text.as_bytes())
    }

    pub(super) fn read(self, host: &Host, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(host, name)?).ok()
    }

    /// Waits for the turn of a task of this job to ask slurmctld, which all of them would ask for the same.
    pub(super) fn turn(
        host: &Host,
        number: u32,
        patience: Duration,
    ) -> Result<Lock, RegistryError> {
        host.registry().turn(&turn_of(number), patience)
    }

    /// Nothing is on record of this job any more.
    pub(super) fn forgive(host: &Host, name: &str) {
        let turn =
            (name.parse::<u32>()).map(|number| host.registry().directory().join(turn_of(number)));
        let notes = Note::ALL.iter().filter_map(|note| note.path(host, name));
        for path in notes.chain(turn.ok()) {
            // Mostly there is none.
            let _ = std::fs::remove_file(path);
        }
    }
}
