//! The durable history: every movement of money, in an SQLite file that is only ever added to.
//!
//! Balances are not in it, they follow from the movements. Who writes is [`super::flush`]; everybody else reads.
//!
//! Invariants:
//! - One is made by [`Ledger::make`] alone, for `libra account init`. Where none is, or not this host's ([`super::identity`]),
//!   opening fails, so that nobody takes an empty place for accounts without money.
//! - An opened one that was removed or replaced meanwhile is noticed before anything is taken for written down.

use super::AccountsError;
use super::crash::point;
use super::identity::{self, Identity};
use super::movement::{Event, Movement};
use libra_system::sqlite;
use libra_units::money::Money;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of the account that deposits come from.
pub const BANK: i64 = 1;
/// Number of the account that charges go to.
pub const INCOME: i64 = 2;

/// How long one process waits for another's transaction where nobody waits for it: a slow disk may take seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

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

/// Version of the tables.
const VERSION: i64 = 1;

/// An opened ledger.
pub struct Ledger {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    patience: Duration,
    /// Device and number of the file that was opened.
    file: (u64, u64),
    /// The most bytes that it was seen to have: it never gets smaller.
    largest: Cell<u64>,
    alone: bool,
}

/// A row of movement, as statements read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number; they grow with time.
    pub id: i64,
    /// When, Unix milliseconds.
    pub at: i64,
    /// `deposit`, `hold` and so on.
    pub kind: String,
    /// What it does to the free money of the account that was asked for.
    pub free: Money,
    /// What it does to its held money.
    pub held: Money,
    /// The other account, where there is one.
    pub other: Option<String>,
    /// The job, where it is about one.
    pub job: Option<String>,
    /// Which hold, where it is about one.
    pub hold: Option<String>,
    /// Which part of it.
    pub part: u32,
    /// Validity of the money, Unix seconds: first, and first after it.
    pub validity: (Option<i64>, Option<i64>),
    /// Who wanted it.
    pub by: String,
    /// What else there is to say.
    pub note: String,
}

impl Ledger {
    /// Makes a ledger where none is; its directory has to be there. Nobody sees half of one.
    ///
    /// # Errors
    /// When there is something of that name, or it cannot be written.
    pub fn make(path: &Path, now: i64) -> Result<Identity, AccountsError> {
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
        let identity = Identity::new(now).map_err(failed)?;
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
        made.map(|()| identity)
    }

    /// Opens the ledger.
    ///
    /// # Errors
    /// [`AccountsError::Ledger`] where there is none, or not this host's.
    pub fn open(path: &Path) -> Result<Ledger, AccountsError> {
        Ledger::open_within(path, PATIENCE)
    }

    /// Opens the ledger, and waits for other processes no longer than `patience`, now and later.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_within(path: &Path, patience: Duration) -> Result<Ledger, AccountsError> {
        Ledger::open_any(path, patience)?.if_own()
    }

    /// Opens the ledger, for who closes it soon, also where its disk has no room for what SQLite keeps beside it for those that have it open.
    /// It is then closed to all others meanwhile.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_briefly(path: &Path, patience: Duration) -> Result<Ledger, AccountsError> {
        let without_room = match Ledger::open_within(path, patience) {
            Err(error) if error.is_without_room() => error,
            opened => return opened,
        };
        let alone = Ledger::open_as(path, patience, true).and_then(Ledger::if_own);
        match alone {
            // Others have it open, so what they share is there by now.
            Err(AccountsError::Locked { .. }) => Ledger::open_within(path, patience),
            Err(AccountsError::Store { .. } | AccountsError::File { .. }) => Err(without_room),
            opened => opened,
        }
    }

    fn if_own(self) -> Result<Ledger, AccountsError> {
        let (number, _) = self.identity()?;
        if let Some(own) = identity::noted(&self.path)?.filter(|own| own.number != number) {
            return Err(self.lost(format!(
                "is another ledger ({}) than this host's ({own})",
                self.which()?
            )));
        }
        Ok(self)
    }

    /// Opens a ledger, whichever it is.
    pub(super) fn open_any(path: &Path, patience: Duration) -> Result<Ledger, AccountsError> {
        Ledger::open_as(path, patience, false)
    }

    /// `alone`: no other process has it open, and none can open it meanwhile.
    fn open_as(path: &Path, patience: Duration, alone: bool) -> Result<Ledger, AccountsError> {
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
        let ledger = Ledger {
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

    /// What was opened, whatever it is.
    pub(super) fn of(
        path: &Path,
        opened: rusqlite::Result<Connection>,
    ) -> Result<Ledger, AccountsError> {
        let store = |error| AccountsError::store(path, PATIENCE, error);
        let connection = opened.map_err(store)?;
        connection.busy_timeout(PATIENCE).map_err(store)?;
        let found = fs::metadata(path).map_err(|error| AccountsError::File {
            path: path.to_path_buf(),
            problem: error.to_string(),
        })?;
        Ok(Ledger {
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
                    problem: format!(
                        "is a ledger of version {other}, this program knows version {VERSION}; use the Libra that made it, or a later one"
                    ),
                });
            }
        }
        self.try_(|c| {
            c.pragma_update(None, "journal_mode", "WAL")?;
            // Written down means on the disk.
            c.pragma_update(None, "synchronous", "FULL")
        })?;
        self.identity().map(|_| ())
    }

    /// Returns true if no other process can open it: nobody keeps such a one.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// How long other processes are waited for.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    fn lost(&self, problem: String) -> AccountsError {
        AccountsError::Ledger {
            path: self.path.clone(),
            problem,
        }
    }

    /// Checks that the file that was opened is still the one of this name. What is written into a file that was removed is written nowhere.
    ///
    /// # Errors
    /// [`AccountsError::Ledger`] where it was removed or replaced.
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

    pub(super) fn try_<T>(
        &self,
        what: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        sqlite::within(self.patience, || what(&self.connection)).map_err(|error| self.said(error))
    }

    /// What SQLite said of it.
    pub(super) fn said(&self, error: rusqlite::Error) -> AccountsError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                self.lost(format!("is damaged or cut off ({error})"))
            }
            _ => AccountsError::store(&self.path, self.patience, error),
        }
    }

    /// Which ledger it is, in full.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn which(&self) -> Result<Identity, AccountsError> {
        let (number, _) = self.identity()?;
        let created = self.try_(|c| {
            c.query_row("SELECT value FROM meta WHERE key = 'created'", [], |row| {
                row.get(0)
            })
            .optional()
        })?;
        Ok(Identity { number, created })
    }

    /// Takes this ledger for the host's own where none is noted yet: it was made before ledgers were noted, or the note is lost. Returns
    /// whether it had to. For root, who may write beside the ledger's directory.
    ///
    /// # Errors
    /// When it cannot be noted.
    pub fn note_as_own(&self) -> Result<bool, AccountsError> {
        if identity::noted(&self.path)?.is_some() {
            return Ok(false);
        }
        identity::note(&self.path, self.which()?)?;
        Ok(true)
    }

    /// When the last movement was, Unix milliseconds; None if there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn newest(&self) -> Result<Option<i64>, AccountsError> {
        self.try_(|c| c.query_row("SELECT MAX(at) FROM movement", [], |row| row.get(0)))
    }

    /// Which ledger this is, and how many live states were made of it.
    pub(super) fn identity(&self) -> Result<(i64, i64), AccountsError> {
        self.try_(|c| {
            let get = |key| {
                c.prepare_cached("SELECT value FROM meta WHERE key = ?1")?
                    .query_row([key], |row| row.get(0))
            };
            Ok((get("identity")?, get("generation")?))
        })
    }

    /// Writes journal entries down, in the order of their numbers; those that are there already are left out. Another process
    /// may have written them since they were read, and later ones about the same account as well.
    pub(super) fn write(c: &Connection, entries: &[(i64, Event)]) -> rusqlite::Result<()> {
        let written = written(c)?;
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

    /// Number of the last journal entry that is written down.
    pub(super) fn written(&self) -> Result<i64, AccountsError> {
        self.try_(written)
    }

    /// Movements of an account, by their times. `from` and `to`: Unix milliseconds, `to` not included.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn rows(&self, account: i64, from: i64, to: i64) -> Result<Vec<Row>, AccountsError> {
        self.try_(|c| {
            let mut statement = c.prepare_cached(
                "SELECT m.id, at, kind, payer, payer_side, payee, payee_side, amount, job.id, by, note, other.name, m.hold, part, begins, ends FROM movement m
                 LEFT JOIN job ON job.hold = m.hold
                 LEFT JOIN lot ON lot.id = m.lot
                 LEFT JOIN account other ON other.id = CASE WHEN payer = ?1 THEN payee ELSE payer END AND other.id <> ?1
                 WHERE m.id IN (SELECT id FROM movement WHERE payer = ?1 UNION SELECT id FROM movement WHERE payee = ?1)
                 AND at >= ?2 AND at < ?3 ORDER BY at, m.id",
            )?;
            let rows = statement.query_map([account, from, to], |row| {
                let amount: i64 = row.get(7)?;
                let (mut free, mut held) = (0, 0);
                for (whose, side, amount) in [(3, 4, -amount), (5, 6, amount)] {
                    if row.get::<_, i64>(whose)? == account {
                        match row.get_ref(side)?.as_str()? {
                            "held" => held += amount,
                            _ => free += amount,
                        }
                    }
                }
                Ok(Row { id: row.get(0)?, at: row.get(1)?, kind: row.get(2)?, free: Money(free), held: Money(held), other: row.get(11)?, job: row.get(8)?, hold: row.get(12)?, part: row.get(13)?, validity: (row.get(14)?, row.get(15)?), by: row.get(9)?, note: row.get(10)? })
            })?;
            rows.collect()
        })
    }

    /// Free and held money of an account before a time, Unix milliseconds.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn before(&self, account: i64, at: i64) -> Result<(Money, Money), AccountsError> {
        self.try_(|c| {
            c.prepare_cached(
                "SELECT COALESCE(SUM(CASE side WHEN 'free' THEN amount END), 0), COALESCE(SUM(CASE side WHEN 'held' THEN amount END), 0) FROM (
                   SELECT payer_side AS side, -amount AS amount FROM movement WHERE payer = ?1 AND at < ?2
                   UNION ALL SELECT payee_side, amount FROM movement WHERE payee = ?1 AND at < ?2)",
            )?
            .query_row([account, at], |row| Ok((Money(row.get(0)?), Money(row.get(1)?))))
        })
    }

    /// Id of a hold's job, where it is known.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn job(&self, hold: &str) -> Result<Option<String>, AccountsError> {
        self.try_(|c| {
            c.prepare_cached("SELECT id FROM job WHERE hold = ?1")?
                .query_row([hold], |row| row.get(0))
                .optional()
        })
    }

    /// Number of an account.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn account(&self, name: &str) -> Result<Option<i64>, AccountsError> {
        self.try_(|c| {
            c.prepare_cached("SELECT id FROM account WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()
        })
    }

    /// Free and held money of every account, by the movements alone: account, lot, free, held.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn balances(&self) -> Result<Vec<(i64, i64, Money, Money)>, AccountsError> {
        self.try_(|c| {
            let mut statement = c.prepare(
                "SELECT account, lot, SUM(free), SUM(held) FROM (
                   SELECT payer AS account, lot, CASE payer_side WHEN 'free' THEN -amount ELSE 0 END AS free, CASE payer_side WHEN 'held' THEN -amount ELSE 0 END AS held FROM movement
                   UNION ALL SELECT payee, lot, CASE payee_side WHEN 'free' THEN amount ELSE 0 END, CASE payee_side WHEN 'held' THEN amount ELSE 0 END FROM movement)
                 GROUP BY account, lot",
            )?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, Money(row.get(2)?), Money(row.get(3)?))))?;
            rows.collect()
        })
    }
}

/// How files of SQLite are opened: never made by the way.
pub(super) const FLAGS: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// A file beside this one: its name with more behind it.
pub(super) fn with(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// Names on a disk are there after a power failure when their directory was written.
pub(super) fn sync_directory(path: &Path) -> std::io::Result<()> {
    fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
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

/// What root makes is for the one who owns the directory.
pub(super) fn only_for_owner(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    if nix::unistd::geteuid().is_root() {
        let home = fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
        std::os::unix::fs::lchown(path, Some(home.uid()), Some(home.gid()))?;
    }
    Ok(())
}

/// Number of the last journal entry that is written down.
pub(super) fn written(c: &Connection) -> rusqlite::Result<i64> {
    c.prepare_cached("SELECT COALESCE((SELECT value FROM meta WHERE key = 'written'), 0)")?
        .query_row([], |row| row.get(0))
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
