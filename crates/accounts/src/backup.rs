//! A copy of the ledger, made while everything runs.

use super::AccountsError;
use super::crash::point;
use super::ledger::{FLAGS, Ledger, sync_directory, with};
use super::live::Live;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OptionalExtension};
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What a copy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Movements.
    pub movements: i64,
    /// Number of the last entry.
    pub written: i64,
    /// Entries that still wait in the live state, and are not in it.
    pub missing: usize,
}

/// Copies the ledger to a file that nobody else can read. A copy that is there is replaced in one step; of anything else the name is not taken.
/// `now`: Unix milliseconds.
///
/// # Errors
/// When the ledger is not there, or the copy cannot be written; a copy that was there is as it was then.
pub fn backup(live: &Live, ledger: &Ledger, to: &Path, now: i64) -> Result<Saved, AccountsError> {
    ledger.is_there()?;
    may_replace(ledger, to)?;
    let failed = |error: std::io::Error| AccountsError::File {
        path: to.to_path_buf(),
        problem: error.to_string(),
    };
    let half = with(to, &format!(".new-{}", std::process::id()));
    let _ = fs::remove_file(&half);
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&half)
        .map_err(failed)
        .and_then(|_| copy(ledger, &half, now))
        .and_then(|()| {
            fs::File::open(&half)
                .and_then(|file| file.sync_all())
                .map_err(failed)?;
            point("backup: before the name");
            fs::rename(&half, to).map_err(failed)?;
            sync_directory(to).map_err(failed)?;
            point("backup: after the name");
            Ok(())
        });
    if made.is_err() {
        let _ = fs::remove_file(&half);
    }
    made?;
    let saved = Ledger::open_copy(to)?;
    let written = saved.written()?;
    Ok(Saved {
        movements: saved.movements()?,
        written,
        missing: live.journal(written, usize::MAX)?.len(),
    })
}

fn copy(ledger: &Ledger, half: &Path, now: i64) -> Result<(), AccountsError> {
    let store = |error| AccountsError::store(half, ledger.patience(), error);
    let mut copy = Connection::open_with_flags(half, FLAGS).map_err(store)?;
    let done = ledger.try_(|connection| {
        // All at once: it keeps nobody from writing, but where a full disk made it open the ledger alone. Who writes goes on in SQLite's log, and in
        // several steps it would begin anew with each of their writes.
        Backup::new(connection, &mut copy)?.step(-1)
    })?;
    match done {
        StepResult::Done => {}
        _ => {
            return Err(AccountsError::Locked {
                path: ledger.path.clone(),
                patience: ledger.patience().as_secs_f64(),
                holder: " by another process".to_string(),
            });
        }
    }
    (|| {
        // One file, without a log beside it.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        copy.execute(
            "INSERT INTO meta VALUES ('copied', ?1) ON CONFLICT DO UPDATE SET value = ?1",
            [now],
        )?;
        Ok(())
    })()
    .map_err(store)?;
    copy.close().map_err(|(_, error)| store(error))
}

/// A copy is not written over anything but a copy.
fn may_replace(ledger: &Ledger, to: &Path) -> Result<(), AccountsError> {
    let refused = |problem: &str| {
        Err(AccountsError::File {
            path: to.to_path_buf(),
            problem: problem.to_string(),
        })
    };
    match fs::symlink_metadata(to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return refused(&error.to_string()),
        Ok(found) if !found.is_file() => {
            return refused("exists and is not a file; name another one");
        }
        Ok(_) => {}
    }
    if fs::canonicalize(to).ok() == fs::canonicalize(&ledger.path).ok() {
        return refused("is the ledger itself; name another file");
    }
    match Ledger::open_copy(to).and_then(|copy| copy.identity()) {
        Ok(_) => Ok(()),
        Err(_) => refused(
            "exists and is not a copy of a ledger, so it is not replaced; name another file",
        ),
    }
}

impl Ledger {
    /// When it was copied, Unix milliseconds; none: it is no copy of `libra account backup`.
    pub(super) fn copied(&self) -> Result<Option<i64>, AccountsError> {
        self.try_(|c| {
            c.query_row("SELECT value FROM meta WHERE key = 'copied'", [], |row| {
                row.get(0)
            })
            .optional()
        })
    }
}
