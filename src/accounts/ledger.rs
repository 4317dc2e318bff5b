//! The durable history: every movement of money, in an SQLite file that is only ever added to.
//!
//! Balances are not in it, they follow from the movements. Who writes is [`super::flush`]; everybody else reads.

use super::AccountsError;
use super::money::Money;
use super::movement::{Event, Movement};
use rusqlite::{Connection, OptionalExtension, params};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Number of the account that deposits come from.
pub const BANK: i64 = 1;
/// Number of the account that charges go to.
pub const INCOME: i64 = 2;

/// How long one process waits for another's transaction.
pub(super) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

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
    /// Opens a ledger, and makes it where there is none; its directory has to be there.
    ///
    /// # Errors
    /// When it cannot be opened, or is of another version.
    pub fn open(path: &Path) -> Result<Ledger, AccountsError> {
        let fresh = !path.exists();
        let ledger = Ledger::with(path, Connection::open(path))?;
        ledger.try_(|c| {
            c.busy_timeout(PATIENCE)?;
            c.pragma_update(None, "journal_mode", "WAL")?;
            // Written down means on the disk.
            c.pragma_update(None, "synchronous", "FULL")
        })?;
        if fresh {
            only_for_owner(path).map_err(|error| AccountsError::File {
                path: path.to_path_buf(),
                problem: error.to_string(),
            })?;
        }
        ledger.prepare()?;
        Ok(ledger)
    }

    /// Opens one that is there, to read it.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn read(path: &Path) -> Result<Ledger, AccountsError> {
        let flags =
            rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let ledger = Ledger::with(path, Connection::open_with_flags(path, flags))?;
        ledger.try_(|c| c.busy_timeout(PATIENCE))?;
        Ok(ledger)
    }

    fn with(path: &Path, opened: rusqlite::Result<Connection>) -> Result<Ledger, AccountsError> {
        let store = |error| AccountsError::Store {
            path: path.to_path_buf(),
            error,
        };
        let connection = opened.map_err(store)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Ledger {
            connection,
            path: path.to_path_buf(),
        })
    }

    fn prepare(&self) -> Result<(), AccountsError> {
        let version: i64 =
            self.try_(|c| c.query_row("PRAGMA user_version", [], |row| row.get(0)))?;
        match version {
            VERSION => Ok(()),
            // Another process may be doing it as well.
            0 => self.try_(|c| {
                let identity = i64::from(std::process::id()) << 32 | now_nanos() & 0xffff_ffff;
                c.execute_batch("BEGIN IMMEDIATE")?;
                let done: i64 = c.query_row("PRAGMA user_version", [], |row| row.get(0))?;
                let made = match done {
                    0 => c
                        .execute_batch(SCHEMA)
                        .and_then(|()| {
                            c.execute(
                                "INSERT INTO meta VALUES ('identity', ?1), ('generation', 0)",
                                [identity],
                            )
                            .map(|_| ())
                        })
                        .and_then(|()| c.pragma_update(None, "user_version", VERSION)),
                    _ => Ok(()),
                };
                c.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
                made
            }),
            other => Err(AccountsError::File {
                path: self.path.clone(),
                problem: format!(
                    "is a ledger of version {other}, this program knows version {VERSION}; use the Libra that made it, or a later one"
                ),
            }),
        }
    }

    pub(super) fn try_<T>(
        &self,
        what: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        what(&self.connection).map_err(|error| AccountsError::Store {
            path: self.path.clone(),
            error,
        })
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

/// What root makes is for the one who owns the directory.
fn only_for_owner(path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    if nix::unistd::geteuid().is_root() {
        let home = std::fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
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

fn now_nanos() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i64)
}
