//! The durable history: every movement of money, only ever added to. An SQLite file ([`file`]).
//!
//! Balances are not in it, they follow from the movements. Who writes is [`super::flush`]; everybody else reads.
//!
//! Invariants:
//! - One is made by [`Ledger::make`] alone, for `libra account init`. Where none is, or not this host's ([`super::identity`]),
//!   opening fails, so that nobody takes an empty place for accounts without money.
//! - An opened one that was removed or replaced meanwhile is noticed before anything is taken for written down.
//! - SQL that is written here is understood by whatever keeps a ledger.

mod file;
mod values;

use super::AccountsError;
use super::identity::{self, Identity};
use super::movement::Event;
use file::LedgerFile;
pub(super) use file::{FLAGS, only_for_owner, sync_directory, with};
use libra_units::money::Money;
use rusqlite::{Connection, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;
pub(super) use values::{Columns, EachRow, Value, ask};

/// Number of the account that deposits come from.
pub const BANK: i64 = 1;
/// Number of the account that charges go to.
pub const INCOME: i64 = 2;

/// How long one process waits for another's transaction where nobody waits for it: a slow disk may take seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Version of the tables.
const VERSION: i64 = 1;

/// Number of the last journal entry that is written down.
const WRITTEN: &str = "SELECT COALESCE((SELECT value FROM meta WHERE key = 'written'), 0)";

fn of_version(other: i64) -> String {
    format!(
        "is a ledger of version {other}, this program knows version {VERSION}; use the Libra that made it, or a later one"
    )
}

/// An opened ledger.
pub struct Ledger {
    store: LedgerFile,
    pub(super) path: PathBuf,
    patience: Duration,
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
        let identity = Identity::new(now).map_err(|error| AccountsError::File {
            path: path.to_path_buf(),
            problem: error.to_string(),
        })?;
        LedgerFile::make(path, identity)?;
        Ok(identity)
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

    fn open_as(path: &Path, patience: Duration, alone: bool) -> Result<Ledger, AccountsError> {
        let ledger = Ledger {
            store: LedgerFile::open(path, patience, alone)?,
            path: path.to_path_buf(),
            patience,
        };
        ledger.identity()?;
        Ok(ledger)
    }

    /// Opens a copy to read it.
    pub(super) fn open_copy(path: &Path) -> Result<Ledger, AccountsError> {
        Ok(Ledger {
            store: LedgerFile::open_copy(path)?,
            path: path.to_path_buf(),
            patience: PATIENCE,
        })
    }

    /// Returns true if no other process can open it: nobody keeps such a one.
    pub fn is_alone(&self) -> bool {
        self.store.alone
    }

    /// How long other processes are waited for.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// It is not this host's ledger as it should be.
    pub(super) fn lost(&self, problem: String) -> AccountsError {
        self.store.lost(problem)
    }

    /// Checks that the file that was opened is still the one of this name. What is written into a file that was removed is written nowhere.
    ///
    /// # Errors
    /// [`AccountsError::Ledger`] where it was removed or replaced.
    pub fn is_there(&self) -> Result<(), AccountsError> {
        self.store.is_there()
    }

    /// Something with the file itself.
    pub(super) fn try_<T>(
        &self,
        what: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        self.store.try_(what)
    }

    /// Has each row of an answer taken. Parameters are `?1`, `?2` and so on.
    pub(super) fn each(
        &self,
        statement: &str,
        parameters: &[Value],
        each: EachRow<'_>,
    ) -> Result<(), AccountsError> {
        self.store.each(statement, parameters, each)
    }

    /// All rows of an answer.
    fn all<T>(
        &self,
        statement: &str,
        parameters: &[Value],
        read: impl Fn(&Columns) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, AccountsError> {
        let mut rows = Vec::new();
        self.each(statement, parameters, &mut |row| {
            rows.push(read(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first row of an answer, where it has one.
    fn first<T>(
        &self,
        statement: &str,
        parameters: &[Value],
        read: impl Fn(&Columns) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, AccountsError> {
        Ok(self.all(statement, parameters, read)?.into_iter().next())
    }

    /// A number that is one row's only one.
    pub(super) fn number(&self, statement: &str) -> Result<i64, AccountsError> {
        self.first(statement, &[], |row| row.integer(0))?
            .ok_or_else(|| self.lost("has nothing of a ledger in it".to_string()))
    }

    /// In one transaction, in which nobody else writes: all of it is done, or nothing where it fails.
    pub(super) fn exclusively<T>(
        &self,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        (self.store).in_transaction(TransactionBehavior::Immediate, what)
    }

    /// All that is read meanwhile is as of one moment.
    pub(super) fn at_one_moment<T>(
        &self,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        (self.store).in_transaction(TransactionBehavior::Deferred, what)
    }

    /// Which ledger it is, in full.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn which(&self) -> Result<Identity, AccountsError> {
        let (number, _) = self.identity()?;
        let created = self.first(META, &["created".into()], |row| row.integer(0))?;
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
        let newest = self.first("SELECT MAX(at) FROM movement", &[], |row| {
            row.maybe_integer(0)
        })?;
        Ok(newest.flatten())
    }

    /// Which ledger this is, and how many live states were made of it.
    pub(super) fn identity(&self) -> Result<(i64, i64), AccountsError> {
        let get = |key: &str| {
            self.first(META, &[key.into()], |row| row.integer(0))?
                .ok_or_else(|| self.lost(format!("has nothing of a ledger in it ('{key}')")))
        };
        Ok((get("identity")?, get("generation")?))
    }

    /// One more live state is made of it: from now on no older one writes anything down any more.
    pub(super) fn next_generation(&self) -> Result<(), AccountsError> {
        self.store.next_generation()
    }

    /// It goes on with a live state of this generation.
    pub(super) fn set_generation(&self, generation: i64) -> Result<(), AccountsError> {
        self.try_(|c| {
            c.execute(
                "UPDATE meta SET value = ?1 WHERE key = 'generation'",
                [generation],
            )
        })
        .map(|_| ())
    }

    /// Writes journal entries down, in the order of their numbers; those that are there already are left out. Another process
    /// may have written them since they were read, and later ones about the same account as well. To be called by [`Ledger::exclusively`].
    pub(super) fn write(&self, entries: &[(i64, Event)]) -> Result<(), AccountsError> {
        self.store.write(entries)
    }

    /// Lets [`Ledger::copy`] read it from another connection.
    pub(super) fn attach(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.store.attach(connection)
    }

    /// Copies rows into a table of the live state: `insert` is the statement as far as the table's name, `select` says which, of tables in the schema `ledger`.
    pub(super) fn copy(
        &self,
        to: &Connection,
        insert: &str,
        select: &str,
        parameters: &[Value],
    ) -> rusqlite::Result<()> {
        self.store.copy(to, insert, select, parameters)
    }

    /// What is damaged about its file, a few things at most.
    pub(super) fn damage(&self, most: usize) -> Result<Vec<String>, AccountsError> {
        let said = self.all(&format!("PRAGMA integrity_check({most})"), &[], |row| {
            row.text(0)
        })?;
        Ok(said.into_iter().filter(|line| line != "ok").collect())
    }

    /// How many movements there are.
    pub(super) fn movements(&self) -> Result<i64, AccountsError> {
        self.number("SELECT COUNT(*) FROM movement")
    }

    /// Number of the last journal entry that is written down.
    pub(super) fn written(&self) -> Result<i64, AccountsError> {
        self.number(WRITTEN)
    }

    /// Movements of an account, by their times. `from` and `to`: Unix milliseconds, `to` not included.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn rows(&self, account: i64, from: i64, to: i64) -> Result<Vec<Row>, AccountsError> {
        let parameters = [account.into(), from.into(), to.into()];
        self.all(ROWS, &parameters, |row| {
            let amount = row.integer(7)?;
            let (mut free, mut held) = (0, 0);
            for (whose, side, amount) in [(3, 4, -amount), (5, 6, amount)] {
                if row.integer(whose)? == account {
                    match row.text(side)?.as_str() {
                        "held" => held += amount,
                        _ => free += amount,
                    }
                }
            }
            Ok(Row {
                id: row.integer(0)?,
                at: row.integer(1)?,
                kind: row.text(2)?,
                free: Money(free),
                held: Money(held),
                other: row.maybe_text(11)?,
                job: row.maybe_text(8)?,
                hold: row.maybe_text(12)?,
                part: u32::try_from(row.integer(13)?).unwrap_or(u32::MAX),
                validity: (row.maybe_integer(14)?, row.maybe_integer(15)?),
                by: row.text(9)?,
                note: row.text(10)?,
            })
        })
    }

    /// Free and held money of an account before a time, Unix milliseconds.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn before(&self, account: i64, at: i64) -> Result<(Money, Money), AccountsError> {
        let found = self.first(BEFORE, &[account.into(), at.into()], |row| {
            Ok((Money(row.integer(0)?), Money(row.integer(1)?)))
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Id of a hold's job, where it is known.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn job(&self, hold: &str) -> Result<Option<String>, AccountsError> {
        let of_hold = "SELECT id FROM job WHERE hold = ?1";
        self.first(of_hold, &[hold.into()], |row| row.text(0))
    }

    /// Number of an account.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn account(&self, name: &str) -> Result<Option<i64>, AccountsError> {
        let of_name = "SELECT id FROM account WHERE name = ?1";
        self.first(of_name, &[name.into()], |row| row.integer(0))
    }

    /// Free and held money of every account, by the movements alone: account, lot, free, held.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn balances(&self) -> Result<Vec<(i64, i64, Money, Money)>, AccountsError> {
        self.all(BALANCES, &[], |row| {
            let money = |column| row.integer(column).map(Money);
            Ok((row.integer(0)?, row.integer(1)?, money(2)?, money(3)?))
        })
    }
}

const META: &str = "SELECT value FROM meta WHERE key = ?1";

const ROWS: &str = "SELECT m.id, at, kind, payer, payer_side, payee, payee_side, amount, job.id, by, note, other.name, m.hold, part, begins, ends FROM movement m
    LEFT JOIN job ON job.hold = m.hold
    LEFT JOIN lot ON lot.id = m.lot
    LEFT JOIN account other ON other.id = CASE WHEN payer = ?1 THEN payee ELSE payer END AND other.id <> ?1
    WHERE m.id IN (SELECT id FROM movement WHERE payer = ?1 UNION SELECT id FROM movement WHERE payee = ?1)
    AND at >= ?2 AND at < ?3 ORDER BY at, m.id";

const BEFORE: &str = "SELECT COALESCE(SUM(CASE side WHEN 'free' THEN amount END), 0), COALESCE(SUM(CASE side WHEN 'held' THEN amount END), 0) FROM (
    SELECT payer_side AS side, -amount AS amount FROM movement WHERE payer = ?1 AND at < ?2
    UNION ALL SELECT payee_side, amount FROM movement WHERE payee = ?1 AND at < ?2) AS sides";

const BALANCES: &str = "SELECT account, lot, SUM(free), SUM(held) FROM (
    SELECT payer AS account, lot, CASE payer_side WHEN 'free' THEN -amount ELSE 0 END AS free, CASE payer_side WHEN 'held' THEN -amount ELSE 0 END AS held FROM movement
    UNION ALL SELECT payee, lot, CASE payee_side WHEN 'free' THEN amount ELSE 0 END, CASE payee_side WHEN 'held' THEN amount ELSE 0 END FROM movement) AS sides
    GROUP BY account, lot";
