//! The durable history: every movement of money, only ever added to. An SQLite file ([`file`]), or a database for a site that has one ([`database`]).
//!
//! Balances are not in it, they follow from the movements. Who writes is [`super::flush`]; everybody else reads.
//!
//! Invariants:
//! - One is made by [`Ledger::make`] alone, for `libra account init`. Where none is, or not this host's ([`super::identity`]),
//!   opening fails, so that nobody takes an empty place for accounts without money.
//! - An opened one that was removed or replaced meanwhile is noticed before anything is taken for written down.
//! - SQL that is written here is understood by whatever keeps a ledger.

mod database;
mod file;
mod lease;
mod location;
mod values;

use super::AccountsError;
use super::identity::{self, Identity};
use super::movement::Event;
pub(super) use database::LONG;
use database::LedgerDatabase;
use file::LedgerFile;
pub(super) use file::{FLAGS, only_for_owner, sync_directory, with};
pub use lease::Claim;
pub(super) use lease::{COUNTED, Holder};
use libra_units::money::Money;
pub use location::Location;
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
    store: Store,
    at: Location,
    pub(super) path: PathBuf,
    patience: Duration,
}

/// What keeps it.
enum Store {
    File(LedgerFile),
    Database(LedgerDatabase),
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
    pub fn make(at: impl Into<Location>, now: i64) -> Result<Identity, AccountsError> {
        let at = at.into();
        let identity = Identity::new(now).map_err(|error| AccountsError::File {
            path: at.path().to_path_buf(),
            problem: error.to_string(),
        })?;
        match at.database() {
            None => LedgerFile::make(at.path(), identity)?,
            Some(string) => LedgerDatabase::make(string, identity)?,
        }
        Ok(identity)
    }

    /// Returns true if there is something where a ledger would be made.
    ///
    /// # Errors
    /// When a database does not say.
    pub fn is_made(at: &Location) -> Result<bool, AccountsError> {
        match at.database() {
            None => Ok(std::fs::symlink_metadata(at.path()).is_ok()),
            Some(string) => LedgerDatabase::is_made(string),
        }
    }

    /// Opens the ledger.
    ///
    /// # Errors
    /// [`AccountsError::Ledger`], or [`AccountsError::Database`], where there is none, or not this host's; [`AccountsError::Unreachable`] where
    /// the database does not answer.
    pub fn open(at: impl Into<Location>) -> Result<Ledger, AccountsError> {
        Ledger::open_within(at, PATIENCE)
    }

    /// Opens the ledger, and waits for other processes no longer than `patience`, now and later.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_within(
        at: impl Into<Location>,
        patience: Duration,
    ) -> Result<Ledger, AccountsError> {
        let ledger = Ledger::open_for(&at.into(), patience)?;
        ledger.limit(None);
        Ok(ledger)
    }

    /// As [`Ledger::open_within`]; with a database all that is asked has `patience` together, until [`Ledger::limit`].
    pub(super) fn open_for(at: &Location, patience: Duration) -> Result<Ledger, AccountsError> {
        Ledger::open_any(at, patience)?.if_own()
    }

    /// With a database all that is asked from now on has so long together; none: each question has its own patience.
    pub(super) fn limit(&self, time: Option<Duration>) {
        if let Store::Database(database) = &self.store {
            database.limit(time);
        }
    }

    /// Opens the ledger, for who closes it soon, also where its disk has no room for what SQLite keeps beside it for those that have it open.
    /// It is then closed to all others meanwhile.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_briefly(
        at: impl Into<Location>,
        patience: Duration,
    ) -> Result<Ledger, AccountsError> {
        let at = &at.into();
        let without_room = match Ledger::open_within(at, patience) {
            Err(error) if error.is_without_room() => error,
            opened => return opened,
        };
        let alone = Ledger::open_as(at, patience, true).and_then(Ledger::if_own);
        match alone {
            // Others have it open, so what they share is there by now.
            Err(AccountsError::Locked { .. }) => Ledger::open_within(at, patience),
            Err(AccountsError::Store { .. } | AccountsError::File { .. }) => Err(without_room),
            opened => opened,
        }
    }

    fn if_own(self) -> Result<Ledger, AccountsError> {
        let (number, _) = self.identity()?;
        if let Some(own) = identity::noted(&self.path)?.filter(|own| own.number != number) {
            return Err(self.at.lost(format!(
                "is another ledger ({}) than this host's ({own})",
                self.which()?
            )));
        }
        Ok(self)
    }

    /// Opens a ledger, whichever it is.
    pub(super) fn open_any(at: &Location, patience: Duration) -> Result<Ledger, AccountsError> {
        Ledger::open_as(at, patience, false)
    }

    fn open_as(at: &Location, patience: Duration, alone: bool) -> Result<Ledger, AccountsError> {
        let store = match at.database() {
            None => Store::File(LedgerFile::open(at.path(), patience, alone)?),
            Some(string) => Store::Database(LedgerDatabase::open(string, patience)?),
        };
        let ledger = Ledger {
            store,
            at: at.clone(),
            path: at.path().to_path_buf(),
            patience,
        };
        ledger.identity()?;
        Ok(ledger)
    }

    /// Opens a copy to read it.
    pub(super) fn open_copy(path: &Path) -> Result<Ledger, AccountsError> {
        Ok(Ledger {
            store: Store::File(LedgerFile::open_copy(path)?),
            at: Location::from(path),
            path: path.to_path_buf(),
            patience: PATIENCE,
        })
    }

    /// Where it is.
    pub(super) fn location(&self) -> &Location {
        &self.at
    }

    /// Returns true if no other process can open it: nobody keeps such a one.
    pub fn is_alone(&self) -> bool {
        match &self.store {
            Store::File(file) => file.alone,
            Store::Database(_) => false,
        }
    }

    /// How long other processes are waited for.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// It is not this host's ledger as it should be.
    pub(super) fn lost(&self, problem: String) -> AccountsError {
        self.at.lost(problem)
    }

    /// Checks that the file that was opened is still the one of this name. What is written into a file that was removed is written nowhere. A
    /// database is asked by each transaction.
    ///
    /// # Errors
    /// [`AccountsError::Ledger`] where it was removed or replaced.
    pub fn is_there(&self) -> Result<(), AccountsError> {
        match &self.store {
            Store::File(file) => file.is_there(),
            Store::Database(_) => Ok(()),
        }
    }

    /// Something with the file itself.
    pub(super) fn try_<T>(
        &self,
        what: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        self.as_file()?.try_(what)
    }

    /// For what is done with files alone: copies.
    fn as_file(&self) -> Result<&LedgerFile, AccountsError> {
        match &self.store {
            Store::File(file) => Ok(file),
            Store::Database(database) => Err(database.lost("is no file".to_string())),
        }
    }

    /// Has each row of an answer taken. Parameters are `?1`, `?2` and so on.
    pub(super) fn each(
        &self,
        statement: &str,
        parameters: &[Value],
        each: EachRow<'_>,
    ) -> Result<(), AccountsError> {
        match &self.store {
            Store::File(file) => file.each(statement, parameters, each),
            Store::Database(database) => database.each(statement, parameters, each),
        }
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
            .ok_or_else(|| self.at.lost("has nothing of a ledger in it".to_string()))
    }

    /// In one transaction, in which nobody else writes: all of it is done, or nothing where it fails.
    pub(super) fn exclusively<T>(
        &self,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        match &self.store {
            Store::File(file) => file.in_transaction(TransactionBehavior::Immediate, what),
            Store::Database(database) => database.exclusively(what),
        }
    }

    /// All that is read meanwhile is as of one moment.
    pub(super) fn at_one_moment<T>(
        &self,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        match &self.store {
            Store::File(file) => file.in_transaction(TransactionBehavior::Deferred, what),
            Store::Database(database) => database.at_one_moment(what),
        }
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
                .ok_or_else(|| {
                    self.at
                        .lost(format!("has nothing of a ledger in it ('{key}')"))
                })
        };
        Ok((get("identity")?, get("generation")?))
    }

    /// One more live state is made of it: from now on no older one writes anything down any more. Returns its number. `claim`: of a database's lease.
    ///
    /// # Errors
    /// [`AccountsError::Leased`] where another host has that.
    pub(super) fn next_generation(
        &self,
        holder: &Holder,
        claim: Claim,
    ) -> Result<i64, AccountsError> {
        match &self.store {
            Store::File(file) => file.next_generation(),
            Store::Database(database) => database.next_generation(holder, claim),
        }
    }

    /// Renews the lease of a live state; a file has none, and needs none. Returns false if it is not to be had.
    pub(super) fn renew(
        &self,
        generation: (i64, i64),
        known: i64,
        holder: &Holder,
    ) -> Result<bool, AccountsError> {
        match &self.store {
            Store::File(_) => Ok(true),
            Store::Database(database) => database.renew(generation, known, holder),
        }
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
        match &self.store {
            Store::File(file) => file.write(entries),
            Store::Database(database) => database.write(entries),
        }
    }

    /// Returns true if this very entry is written down.
    pub(super) fn has(&self, id: i64, event: &Event) -> Result<bool, AccountsError> {
        let found = match event {
            Event::Movement(m) => self.first(
                "SELECT 1 FROM movement WHERE id = ?1 AND at = ?2 AND kind = ?3 AND payer = ?4 AND payee = ?5 AND lot = ?6 AND amount = ?7",
                &[
                    id.into(),
                    m.at.into(),
                    m.kind.name().into(),
                    m.from.0.into(),
                    m.to.0.into(),
                    m.lot.into(),
                    m.amount.0.into(),
                ],
                |row| row.integer(0),
            )?,
            other => {
                let what = serde_json::to_string(other).unwrap_or_default();
                let change = "SELECT 1 FROM change WHERE id = ?1 AND what = ?2";
                let parameters = [id.into(), what.as_str().into()];
                self.first(change, &parameters, |row| row.integer(0))?
            }
        };
        Ok(found.is_some())
    }

    /// Lets [`Ledger::copy`] read it from another connection.
    pub(super) fn attach(&self, connection: &Connection) -> rusqlite::Result<()> {
        match &self.store {
            Store::File(file) => file.attach(connection),
            Store::Database(_) => Ok(()),
        }
    }

    /// Copies rows into a table of the live state: `insert` is the statement as far as the table's name, `select` says which, of tables in the schema `ledger`.
    pub(super) fn copy(
        &self,
        to: &Connection,
        insert: &str,
        select: &str,
        parameters: &[Value],
    ) -> Result<(), AccountsError> {
        match &self.store {
            Store::File(file) => file
                .copy(to, insert, select, parameters)
                .map_err(|error| of_live(to, self.patience, error)),
            Store::Database(database) => database.copy(to, insert, select, parameters),
        }
    }

    /// What is damaged about its file, a few things at most. A database's server looks after its own files.
    pub(super) fn damage(&self, most: usize) -> Result<Vec<String>, AccountsError> {
        if let Store::Database(_) = &self.store {
            return Ok(Vec::new());
        }
        let check = format!("PRAGMA integrity_check({most})");
        let said = self.all(&check, &[], |row| row.text(0))?;
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

/// What SQLite said of the live state.
pub(super) fn of_live(
    to: &Connection,
    patience: Duration,
    error: rusqlite::Error,
) -> AccountsError {
    AccountsError::store(Path::new(to.path().unwrap_or_default()), patience, error)
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
