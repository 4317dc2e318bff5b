//! A ledger in an SQLite file.
//!
//! An opened one that was removed or replaced meanwhile is noticed before anything is taken for written down.

use super::super::AccountsError;
use super::super::crash::point;
use super::super::identity::Identity;
use super::super::movement::{Event, Movement};
use super::values::{EachRow, Value, ask};
use super::{PATIENCE, VERSION, WRITTEN};
use libra_system::sqlite;
use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params, params_from_iter,
};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SCHEMA: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE account(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, overdraft INTEGER, closed INTEGER NOT NULL);
CREATE TABLE member(account INTEGER NOT NULL, user TEXT NOT NULL, PRIMARY KEY(account, user)) WITHOUT ROWID;
CREATE TABLE lot(id INTEGER PRIMARY KEY, begins INTEGER, ends INTEGER);
CREATE TABLE job(hold TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE movement(
  id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL,
  payer INTEGER NOT NULL, payer_side TEXT NOT NULL, payee INTEGER NOT NULL, payee_side TEXT NOT NULL,
  lot INTEGER NOT NULL, amount INTEGER NOT NULL CHECK(amount > 0),
  hold TEXT, part INTEGER NOT NULL, by TEXT NOT NULL, note TEXT NOT NULL);
CREATE INDEX movement_payer ON movement(payer, id);
CREATE INDEX movement_payee ON movement(payee, id);
-- What was changed about accounts, by whom.
CREATE TABLE change(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, by TEXT NOT NULL, what TEXT NOT NULL);
CREATE TRIGGER movement_stays BEFORE UPDATE ON movement BEGIN SELECT RAISE(ABORT, 'movements are never changed'); END;
CREATE TRIGGER movement_remains BEFORE DELETE ON movement BEGIN SELECT RAISE(ABORT, 'movements are never removed'); END;
INSERT INTO account VALUES (1, 'site:bank', NULL, 0), (2, 'site:income', NULL, 0);
";

/// How files of SQLite are opened: never made by the way.
pub(in super::super) const FLAGS: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// An opened file.
pub(super) struct LedgerFile {
    pub connection: Connection,
    path: PathBuf,
    patience: Duration,
    /// Device and number of the file that was opened.
    file: (u64, u64),
    /// The most bytes that it was seen to have: it never gets smaller.
    largest: Cell<u64>,
    /// No other process has it open, and none can open it meanwhile.
    pub alone: bool,
}

impl LedgerFile {
    /// Makes one where none is. Nobody sees half of it.
    pub fn make(path: &Path, identity: Identity) -> Result<(), AccountsError> {
        let failed = |error: std::io::Error| AccountsError::File {
            path: path.to_path_buf(),
            problem: error.to_string(),
        };
        let log = with(path, "-wal");
        if log.exists() {
            return Err(AccountsError::File {
                path: log,
                problem: "is the log of a ledger that is not there, and may have movements in it; bring the ledger back, or move it away"
                    .to_string(),
            });
        }
        let half = with(path, &format!(".new-{}", std::process::id()));
        let _ = fs::remove_file(&half);
        point("make: before the file");
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&half)
            .and_then(|_| only_for_owner(&half))
            .map_err(failed)
            .and_then(|()| {
                let connection = Connection::open_with_flags(&half, FLAGS);
                let store = |error| AccountsError::store(&half, PATIENCE, error);
                let connection = connection.map_err(store)?;
                connection
                    .pragma_update(None, "synchronous", "FULL")
                    .map_err(store)?;
                fill(&connection, identity).map_err(store)?;
                connection.close().map_err(|(_, error)| store(error))?;
                point("make: before the name");
                // Unlike a rename this replaces nothing.
                fs::hard_link(&half, path).map_err(failed)?;
                sync_directory(path).map_err(failed)?;
                point("make: after the name");
                Ok(())
            });
        let _ = fs::remove_file(&half);
        made
    }

    /// Opens one, whichever it is. `alone`: no other process has it open, and none can open it meanwhile.
    pub fn open(path: &Path, patience: Duration, alone: bool) -> Result<LedgerFile, AccountsError> {
        let lost = |problem: String| AccountsError::Ledger {
            path: path.to_path_buf(),
            problem,
        };
        let found = fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => lost("the ledger is not there".to_string()),
            _ => lost(error.to_string()),
        })?;
        if !found.is_file() || found.len() == 0 {
            let problem = match found.is_file() {
                true => "is empty, no ledger",
                false => "is not a file",
            };
            return Err(lost(problem.to_string()));
        }
        let store = |error| AccountsError::store(path, patience, error);
        let connection = sqlite::open(path, FLAGS).map_err(store)?;
        connection.set_prepared_statement_cache_capacity(32);
        let ledger = LedgerFile {
            connection,
            path: path.to_path_buf(),
            patience,
            file: (found.dev(), found.ino()),
            largest: Cell::new(found.len()),
            alone,
        };
        if alone {
            ledger.take_alone()?;
        }
        ledger.prepare()?;
        ledger.is_there()?;
        Ok(ledger)
    }

    /// Opens a copy to read it, whatever it is.
    pub fn open_copy(path: &Path) -> Result<LedgerFile, AccountsError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = |error| AccountsError::store(path, PATIENCE, error);
        let connection = Connection::open_with_flags(path, flags).map_err(store)?;
        connection.busy_timeout(PATIENCE).map_err(store)?;
        let found = fs::metadata(path).map_err(|error| AccountsError::File {
            path: path.to_path_buf(),
            problem: error.to_string(),
        })?;
        Ok(LedgerFile {
            connection,
            path: path.to_path_buf(),
            patience: PATIENCE,
            file: (found.dev(), found.ino()),
            largest: Cell::new(found.len()),
            alone: false,
        })
    }

    /// Before anything is read of it: SQLite keeps the index of its log in this process then, and no file for it.
    fn take_alone(&self) -> Result<(), AccountsError> {
        self.try_(|c| {
            c.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            // Where there is no room it would stop halfway; who opens it next does it.
            c.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        })
        .map(|_| ())
    }

    fn prepare(&self) -> Result<(), AccountsError> {
        self.try_(|c| c.busy_timeout(self.patience))?;
        let version: i64 =
            self.try_(|c| c.query_row("PRAGMA user_version", [], |row| row.get(0)))?;
        match version {
            VERSION => {}
            0 => return Err(self.lost("has nothing of a ledger in it".to_string())),
            other => {
                return Err(AccountsError::File {
                    path: self.path.clone(),
                    problem: super::of_version(other),
                });
            }
        }
        self.try_(|c| {
            c.pragma_update(None, "journal_mode", "WAL")?;
            // Written down means on the disk.
            c.pragma_update(None, "synchronous", "FULL")
        })
    }

    pub fn lost(&self, problem: String) -> AccountsError {
        AccountsError::Ledger {
            path: self.path.clone(),
            problem,
        }
    }

    /// Checks that the file that was opened is still the one of this name. What is written into a file that was removed is written nowhere.
    pub fn is_there(&self) -> Result<(), AccountsError> {
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.file => {
                let largest = self.largest.get().max(found.len());
                self.largest.set(largest);
                match found.len() < largest {
                    true => Err(self.lost(format!(
                        "was cut off: it has {} bytes and had {largest}",
                        found.len()
                    ))),
                    false => Ok(()),
                }
            }
            Ok(_) => Err(self.lost("was replaced by another file".to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.lost("the ledger is not there any more".to_string()))
            }
            Err(error) => Err(self.lost(error.to_string())),
        }
    }

    pub fn try_<T>(
        &self,
        what: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        sqlite::within(self.patience, || what(&self.connection)).map_err(|error| self.said(error))
    }

    /// What SQLite said of it.
    pub fn said(&self, error: rusqlite::Error) -> AccountsError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                self.lost(format!("is damaged or cut off ({error})"))
            }
            _ => AccountsError::store(&self.path, self.patience, error),
        }
    }

    /// See [`super::Ledger::each`].
    pub fn each(
        &self,
        statement: &str,
        parameters: &[Value],
        each: EachRow<'_>,
    ) -> Result<(), AccountsError> {
        self.try_(|c| ask(c, statement, parameters, each))
    }

    /// See [`super::Ledger::exclusively`].
    pub fn in_transaction<T>(
        &self,
        behavior: TransactionBehavior,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        // Undone where it is dropped, so that the connection is of use after a full disk.
        let transaction = Transaction::new_unchecked(&self.connection, behavior)
            .map_err(|error| self.said(error))?;
        let done = what()?;
        transaction.commit().map_err(|error| self.said(error))?;
        Ok(done)
    }

    /// One more live state was made of it: its number.
    pub fn next_generation(&self) -> Result<i64, AccountsError> {
        self.try_(|c| {
            c.query_row(
                "UPDATE meta SET value = value + 1 WHERE key = 'generation' RETURNING value",
                [],
                |row| row.get(0),
            )
        })
    }

    /// See [`super::Ledger::write`].
    pub fn write(&self, entries: &[(i64, Event)]) -> Result<(), AccountsError> {
        write(&self.connection, entries).map_err(|error| self.said(error))
    }

    /// See [`super::Ledger::attach`].
    pub fn attach(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute("ATTACH ?1 AS ledger", [self.path.to_string_lossy()])?;
        connection.busy_timeout(self.patience)
    }

    /// See [`super::Ledger::copy`].
    pub fn copy(
        &self,
        to: &Connection,
        insert: &str,
        select: &str,
        parameters: &[Value],
    ) -> rusqlite::Result<()> {
        to.execute(&format!("{insert} {select}"), params_from_iter(parameters))
            .map(|_| ())
    }
}

fn fill(c: &Connection, identity: Identity) -> rusqlite::Result<()> {
    c.execute_batch("BEGIN IMMEDIATE")?;
    c.execute_batch(SCHEMA)?;
    c.execute(
        "INSERT INTO meta VALUES ('identity', ?1), ('created', ?2), ('generation', 0)",
        params![identity.number, identity.created],
    )?;
    c.pragma_update(None, "user_version", VERSION)?;
    point("make: before commit");
    c.execute_batch("COMMIT")?;
    point("make: after commit");
    Ok(())
}

fn write(c: &Connection, entries: &[(i64, Event)]) -> rusqlite::Result<()> {
    let written: i64 = c.prepare_cached(WRITTEN)?.query_row([], |row| row.get(0))?;
    for (id, event) in entries.iter().filter(|(id, _)| *id > written) {
        match event {
            Event::Movement(m) => write_movement(c, *id, m)?,
            Event::Account {
                id: account,
                name,
                overdraft,
                closed,
                at,
                by,
            } => {
                c.prepare_cached("INSERT INTO account VALUES (?1, ?2, ?3, ?4) ON CONFLICT(id) DO UPDATE SET overdraft = ?3, closed = ?4")?
                    .execute(params![account, name, overdraft, closed])?;
                note_change(c, *id, *at, by, event)?;
            }
            Event::Member {
                account,
                user,
                may,
                at,
                by,
            } => {
                let statement = match may {
                    true => "INSERT OR IGNORE INTO member VALUES (?1, ?2)",
                    false => "DELETE FROM member WHERE account = ?1 AND user = ?2",
                };
                c.prepare_cached(statement)?
                    .execute(params![account, user])?;
                note_change(c, *id, *at, by, event)?;
            }
            Event::Lot {
                id: lot,
                begins,
                ends,
            } => {
                c.prepare_cached("INSERT OR IGNORE INTO lot VALUES (?1, ?2, ?3)")?
                    .execute(params![lot, begins, ends])?;
            }
            Event::Job { hold, id } => {
                c.prepare_cached("INSERT OR IGNORE INTO job VALUES (?1, ?2)")?
                    .execute(params![hold, id])?;
            }
        }
    }
    if let Some((last, _)) = entries.last() {
        c.prepare_cached("INSERT INTO meta VALUES ('written', ?1) ON CONFLICT DO UPDATE SET value = max(value, ?1)")?
            .execute([last])?;
    }
    Ok(())
}

fn write_movement(c: &Connection, id: i64, m: &Movement) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT INTO movement VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        id,
        m.at,
        m.kind.name(),
        m.from.0,
        m.from.1.name(),
        m.to.0,
        m.to.1.name(),
        m.lot,
        m.amount.0,
        m.hold,
        m.part,
        m.by,
        m.note
    ])?;
    Ok(())
}

fn note_change(c: &Connection, id: i64, at: i64, by: &str, event: &Event) -> rusqlite::Result<()> {
    let what = serde_json::to_string(event).unwrap_or_default();
    c.prepare_cached("INSERT INTO change VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, at, by, what])?;
    Ok(())
}

/// A file beside this one: its name with more behind it.
pub(in super::super) fn with(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// Names on a disk are there after a power failure when their directory was written.
pub(in super::super) fn sync_directory(path: &Path) -> std::io::Result<()> {
    fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// What root makes is for the one who owns the directory.
pub(in super::super) fn only_for_owner(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    if nix::unistd::geteuid().is_root() {
        let home = fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
        std::os::unix::fs::lchown(path, Some(home.uid()), Some(home.gid()))?;
    }
    Ok(())
}
