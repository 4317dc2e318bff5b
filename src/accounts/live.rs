//! The present state: what every account has and what is held, in an SQLite file in memory (tmpfs) that all processes share.
//!
//! Every change is one transaction together with its journal entries. Nothing here touches a disk, so nothing waits for one.
//! The file is made of the ledger where there is none (after a boot), or where it belongs to another ledger than the one that
//! is there now (restored from a backup).

use super::AccountsError;
use super::ledger::{BANK, INCOME, Ledger};
use super::lots::{FOR_EVER, Free, Overdraft, available, spend};
use super::money::Money;
use super::movement::{Event, Kind, Movement, Side};
use super::names::AccountName;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Holds that ended are remembered so long, in milliseconds, so that late records of their jobs do not open them again.
const REMEMBERED: i64 = 60 * 24 * 3600 * 1000;

const SCHEMA: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE account(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, overdraft INTEGER, closed INTEGER NOT NULL);
CREATE TABLE member(account INTEGER NOT NULL, user TEXT NOT NULL, PRIMARY KEY(account, user)) WITHOUT ROWID;
CREATE TABLE lot(id INTEGER PRIMARY KEY, begins INTEGER, ends INTEGER);
CREATE TABLE pocket(account INTEGER NOT NULL, lot INTEGER NOT NULL, free INTEGER NOT NULL, PRIMARY KEY(account, lot)) WITHOUT ROWID;
CREATE TABLE hold(key TEXT NOT NULL, lot INTEGER NOT NULL, account INTEGER NOT NULL, amount INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY(key, lot)) WITHOUT ROWID;
CREATE INDEX hold_account ON hold(account);
-- Every hold there was, and parts of it that are paid for; `at` is when it was closed, 0 while it is open.
CREATE TABLE known(key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE part(key TEXT NOT NULL, part INTEGER NOT NULL, PRIMARY KEY(key, part)) WITHOUT ROWID;
CREATE TABLE journal(id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL);
";

/// The opened live state.
pub struct Live {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    ledger: PathBuf,
    /// Of the ledger that it was made of.
    pub(super) generation: (i64, i64),
}

/// An account as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// How far it may go below zero.
    pub overdraft: Overdraft,
    /// No money moves any more.
    pub closed: bool,
    /// What is free and valid now.
    pub free: Vec<Free>,
    /// What is set aside.
    pub held: Money,
}

impl Account {
    /// What can still be spent; none where that is unlimited.
    pub fn available(&self) -> Option<Money> {
        available(&self.free, self.overdraft)
    }

    /// Free and held.
    pub fn balance(&self) -> Money {
        Money(self.free.iter().map(|free| free.amount.0).sum::<i64>() + self.held.0)
    }
}

/// Money that is set aside for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenHold {
    /// Its key.
    pub key: String,
    /// Number of its account.
    pub account: i64,
    /// How much is left of it.
    pub amount: Money,
    /// Since when, Unix milliseconds.
    pub at: i64,
}

/// Who does something, and when.
#[derive(Debug, Clone, Copy)]
pub struct Act<'a> {
    /// Unix milliseconds.
    pub at: i64,
    /// A user's name, or the part of Libra.
    pub by: &'a str,
    /// What else there is to say.
    pub note: &'a str,
}

/// How the money of a hold, or of a part of it, is given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payout {
    /// This part of what was held is settled now; none: all that is left.
    pub of: Option<Money>,
    /// To the site, at most `of`.
    pub charge: Money,
    /// To the site beyond it, as far as the account reaches.
    pub overrun: Money,
    /// From the site to the account.
    pub compensation: Money,
}

impl Live {
    /// Opens the live state in `directory`, or makes it of the ledger. `patience`: how long another process's transaction is waited for.
    ///
    /// # Errors
    /// When one of both cannot be opened or made.
    pub fn open(
        directory: &Path,
        ledger: &Path,
        patience: Duration,
    ) -> Result<Live, AccountsError> {
        own_directory(directory, ledger)?;
        let file = |error: std::io::Error| AccountsError::File {
            path: directory.to_path_buf(),
            problem: error.to_string(),
        };
        // One process makes it, the others wait.
        let lock = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(directory.join("lock"))
            .map_err(file)?;
        give_to_owner(&directory.join("lock"), ledger)?;
        let _lock = nix::fcntl::Flock::lock(lock, nix::fcntl::FlockArg::LockExclusive)
            .map_err(|(_, error)| file(error.into()))?;
        let path = directory.join("live.sqlite");
        let history = Ledger::open(ledger)?;
        if path.exists() {
            let live = Live::connect(&path, ledger, patience)?;
            if live.generation == history.identity()? {
                return Ok(live);
            }
            log::warn!(
                "accounts: {} is of another ledger than {}, made anew",
                path.display(),
                ledger.display()
            );
        }
        make(&path, &history)?;
        Live::connect(&path, ledger, patience)
    }

    fn connect(path: &Path, ledger: &Path, patience: Duration) -> Result<Live, AccountsError> {
        let store = |error| AccountsError::Store {
            path: path.to_path_buf(),
            error,
        };
        let connection = Connection::open(path).map_err(store)?;
        connection.set_prepared_statement_cache_capacity(64);
        let generation = (|| {
            connection.busy_timeout(patience)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // It is memory: what a power failure would leave half done is gone altogether.
            connection.pragma_update(None, "synchronous", "OFF")?;
            let get = |key| {
                connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
                    row.get(0)
                })
            };
            Ok((get("identity")?, get("generation")?))
        })()
        .map_err(store)?;
        Ok(Live {
            connection,
            path: path.to_path_buf(),
            ledger: ledger.to_path_buf(),
            generation,
        })
    }

    /// The ledger behind it.
    pub fn ledger_path(&self) -> &Path {
        &self.ledger
    }

    fn read<T>(
        &self,
        what: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        what(&self.connection).map_err(|error| AccountsError::Store {
            path: self.path.clone(),
            error,
        })
    }

    /// One change, whole or not at all.
    fn change<T>(
        &mut self,
        what: impl FnOnce(&Step<'_>) -> Result<T, Trouble>,
    ) -> Result<T, AccountsError> {
        let path = self.path.clone();
        let store = |error| AccountsError::Store {
            path: path.clone(),
            error,
        };
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(store)?;
        let done = what(&Step {
            transaction: &transaction,
        });
        match done {
            Ok(value) => {
                transaction.commit().map_err(store)?;
                Ok(value)
            }
            // The transaction is undone as it is dropped.
            Err(Trouble::Refused(error)) => Err(error),
            Err(Trouble::Store(error)) => Err(store(error)),
        }
    }

    /// An account by its name, as it is at `at` (Unix milliseconds).
    ///
    /// # Errors
    /// When there is none, or the file cannot be read.
    pub fn account(&self, name: &AccountName, at: i64) -> Result<Account, AccountsError> {
        let name = name.to_string();
        self.read(|c| find(c, &name, at))?
            .ok_or(AccountsError::NoAccount(name))
    }

    /// All accounts, the site's two included, by name.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn accounts(&self, at: i64) -> Result<Vec<Account>, AccountsError> {
        self.read(|c| {
            let names: Vec<String> = c
                .prepare("SELECT name FROM account ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            names
                .iter()
                .filter_map(|name| find(c, name, at).transpose())
                .collect()
        })
    }

    /// May this user use that project's money?
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_member(&self, account: i64, user: &str) -> Result<bool, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT 1 FROM member WHERE account = ?1 AND user = ?2")?
                .exists(params![account, user])
        })
    }

    /// Who may use a project's money.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn members(&self, account: i64) -> Result<Vec<String>, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT user FROM member WHERE account = ?1 ORDER BY user")?
                .query_map([account], |row| row.get(0))?
                .collect()
        })
    }

    /// Makes an account, or changes one that is there: its overdraft where one is given. A closed one is opened again.
    ///
    /// # Errors
    /// When it is one of the site's.
    pub fn set_account(
        &mut self,
        name: &AccountName,
        overdraft: Option<Overdraft>,
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        if name.is_site() {
            return Err(AccountsError::Unsound(format!(
                "{name} is the site's own and cannot be changed"
            )));
        }
        let name = name.to_string();
        self.change(|step| {
            let there = find(step.transaction, &name, act.at)?;
            let overdraft = overdraft
                .or(there.as_ref().map(|there| there.overdraft))
                .unwrap_or(Overdraft::To(Money::ZERO));
            let id = match &there {
                Some(there) => there.id,
                None => {
                    step.transaction
                        .query_row("SELECT MAX(id) + 1 FROM account", [], |row| row.get(0))?
                }
            };
            step.put_account(id, &name, overdraft, false, act)
        })
    }

    /// Lets somebody use a project's money, or not any more.
    ///
    /// # Errors
    /// When there is no such project.
    pub fn set_member(
        &mut self,
        project: &AccountName,
        user: &str,
        may: bool,
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        // A user's name has the form of an account's.
        AccountName::parse(&format!("user:{user}"))?;
        if !matches!(project, AccountName::Project(_)) {
            return Err(AccountsError::Unsound(format!(
                "{project} is not a project; only projects have members"
            )));
        }
        self.change(|step| {
            let account = step.open_account(project, act.at)?.id;
            let statement = match may {
                true => "INSERT OR IGNORE INTO member VALUES (?1, ?2)",
                false => "DELETE FROM member WHERE account = ?1 AND user = ?2",
            };
            step.transaction
                .execute(statement, params![account, user])?;
            step.note(&Event::Member {
                account,
                user: user.to_string(),
                may,
                at: act.at,
                by: act.by.to_string(),
            })
        })
    }

    /// Money from the bank. `validity`: first second and first second after it, Unix time.
    ///
    /// # Errors
    /// When there is no such account, it is closed, or the validity is over before it began.
    pub fn deposit(
        &mut self,
        to: &AccountName,
        amount: Money,
        validity: (Option<i64>, Option<i64>),
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        let (begins, ends) = validity;
        if ends.is_some_and(|ends| ends <= begins.unwrap_or(i64::MIN).max(act.at / 1000)) {
            return Err(AccountsError::Unsound(
                "the deposit would be over before it begins; give a later end".to_string(),
            ));
        }
        self.change(|step| {
            let account = step.open_account(to, act.at)?.id;
            let lot = match validity {
                (None, None) => FOR_EVER,
                _ => step.new_lot(begins, ends)?,
            };
            step.pay(
                Kind::Deposit,
                (BANK, Side::Free),
                (account, Side::Free),
                lot,
                amount,
                None,
                act,
            )
        })
    }

    /// Money from one account to another; it keeps its validity.
    ///
    /// # Errors
    /// When one of both is not there or closed, or the first has not enough.
    pub fn transfer(
        &mut self,
        from: &AccountName,
        to: &AccountName,
        amount: Money,
        act: Act<'_>,
    ) -> Result<(), AccountsError> {
        if from == to {
            return Err(AccountsError::Unsound(format!(
                "from {from} to itself nothing can be moved"
            )));
        }
        self.change(|step| {
            let (payer, payee) = (
                step.open_account(from, act.at)?,
                step.open_account(to, act.at)?,
            );
            for (lot, amount) in step.spend(&payer, amount)? {
                step.pay(
                    Kind::Transfer,
                    (payer.id, Side::Free),
                    (payee.id, Side::Free),
                    lot,
                    amount,
                    None,
                    act,
                )?;
            }
            Ok(())
        })
    }

    /// Closes an account; what is left of it goes back to the bank.
    ///
    /// # Errors
    /// When something is held for its jobs, or it owes something.
    pub fn close(&mut self, name: &AccountName, act: Act<'_>) -> Result<Money, AccountsError> {
        self.change(|step| {
            let account = step.open_account(name, act.at)?;
            if account.held > Money::ZERO {
                return Err(AccountsError::Unsound(format!(
                    "{name} has {} credits held for jobs; close it when they have ended",
                    account.held
                ))
                .into());
            }
            if name.is_site() || account.balance() < Money::ZERO {
                return Err(AccountsError::Unsound(format!(
                    "{name} has {} credits and cannot be closed",
                    account.balance()
                ))
                .into());
            }
            let pockets = step.pockets(account.id)?;
            for (lot, amount) in pockets.iter().filter(|(_, amount)| amount.0 > 0) {
                step.pay(
                    Kind::Closing,
                    (account.id, Side::Free),
                    (BANK, Side::Free),
                    *lot,
                    *amount,
                    None,
                    act,
                )?;
            }
            step.put_account(account.id, &account.name, account.overdraft, true, act)?;
            Ok(Money(pockets.iter().map(|(_, amount)| amount.0).sum()))
        })
    }

    /// Sets money aside for a job. A key is taken once and for all: the second time nothing happens, and false is returned.
    ///
    /// # Errors
    /// When there is no such account, it is closed, or has not enough.
    pub fn hold(
        &mut self,
        key: &str,
        account: i64,
        amount: Money,
        act: Act<'_>,
    ) -> Result<bool, AccountsError> {
        self.change(|step| {
            let c = step.transaction;
            if c.prepare_cached("INSERT OR IGNORE INTO known VALUES (?1, 0)")?
                .execute([key])?
                == 0
            {
                return Ok(false);
            }
            let account = step.by_number(account, act.at)?;
            let mut parts = step.spend(&account, amount)?;
            if parts.is_empty() {
                // It costs nothing, and may bring a compensation.
                parts.push((FOR_EVER, Money::ZERO));
            }
            for (lot, amount) in parts {
                c.prepare_cached("INSERT INTO hold VALUES (?1, ?2, ?3, ?4, ?5)")?
                    .execute(params![key, lot, account.id, amount.0, act.at])?;
                step.pay(
                    Kind::Hold,
                    (account.id, Side::Free),
                    (account.id, Side::Held),
                    lot,
                    amount,
                    Some((key, 0)),
                    act,
                )?;
            }
            Ok(true)
        })
    }

    /// A hold's job has this id. For statements only.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn name_job(&mut self, key: &str, id: &str) -> Result<(), AccountsError> {
        self.change(|step| {
            step.note(&Event::Job {
                hold: key.to_string(),
                id: id.to_string(),
            })
        })
    }

    /// Settles a hold, or one part of it (a subjob of an array): each part once, later calls return none. What was held and is
    /// not charged is free again.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn settle(
        &mut self,
        key: &str,
        part: u32,
        payout: Payout,
        act: Act<'_>,
    ) -> Result<Option<Payout>, AccountsError> {
        self.change(|step| {
            let c = step.transaction;
            let parts: Vec<(i64, i64, i64)> = c
                .prepare_cached("SELECT lot, account, amount FROM hold LEFT JOIN lot ON lot.id = lot WHERE key = ?1 ORDER BY ends IS NULL, ends, lot")?
                .query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<Result<_, _>>()?;
            let open = c.prepare_cached("SELECT 1 FROM known WHERE key = ?1 AND at = 0")?.exists([key])?;
            if !open || c.prepare_cached("INSERT OR IGNORE INTO part VALUES (?1, ?2)")?.execute(params![key, part])? == 0 {
                return Ok(None);
            }
            let held: i64 = parts.iter().map(|(_, _, amount)| amount).sum();
            let mut of = payout.of.map_or(held, |of| of.0.min(held));
            let mut charge = payout.charge.0.clamp(0, of);
            let mut done = Payout { of: Some(Money(of)), charge: Money(charge), overrun: Money::ZERO, compensation: payout.compensation };
            for (lot, account, amount) in &parts {
                let taken = amount.min(&of).to_owned();
                let charged = taken.min(charge);
                (of, charge) = (of - taken, charge - charged);
                step.take_held(key, *lot, Money(*amount), Money(taken))?;
                step.pay(Kind::Charge, (*account, Side::Held), (INCOME, Side::Free), *lot, Money(charged), Some((key, part)), act)?;
                step.pay(Kind::Release, (*account, Side::Held), (*account, Side::Free), *lot, Money(taken - charged), Some((key, part)), act)?;
            }
            if let Some((_, account, _)) = parts.first() {
                done.overrun = step.overrun(*account, payout.overrun, (key, part), act)?;
                step.pay(Kind::Compensation, (INCOME, Side::Free), (*account, Side::Free), FOR_EVER, payout.compensation, Some((key, part)), act)?;
            }
            if payout.of.is_none() || held == done.of.map_or(0, |of| of.0) {
                c.prepare_cached("UPDATE known SET at = ?2 WHERE key = ?1")?.execute(params![key, act.at])?;
                c.prepare_cached("DELETE FROM part WHERE key = ?1")?.execute([key])?;
            }
            Ok(Some(done))
        })
    }

    /// All open holds whose keys begin so, oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn holds(&self, prefix: &str) -> Result<Vec<OpenHold>, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT key, account, SUM(amount), MIN(at) FROM hold WHERE substr(key, 1, length(?1)) = ?1 GROUP BY key ORDER BY 4, 1")?
                .query_map([prefix], |row| Ok(OpenHold { key: row.get(0)?, account: row.get(1)?, amount: Money(row.get(2)?), at: row.get(3)? }))?
                .collect()
        })
    }

    /// Is this hold known, open or closed?
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn knows(&self, key: &str) -> Result<bool, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT 1 FROM known WHERE key = ?1")?
                .exists([key])
        })
    }

    /// What has expired goes back to the bank; what is long over is forgotten.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn sweep(&mut self, act: Act<'_>) -> Result<(), AccountsError> {
        let over = "SELECT account, lot, free FROM pocket JOIN lot ON lot.id = lot WHERE ends <= ?1 AND free > 0 AND account > 2";
        // Mostly there is nothing to do, and then nobody is kept from anything.
        if !self.read(|c| c.prepare_cached(over)?.exists([act.at / 1000]))?
            && !self.read(|c| {
                c.prepare_cached("SELECT 1 FROM known WHERE at > 0 AND at < ?1")?
                    .exists([act.at - REMEMBERED])
            })?
        {
            return Ok(());
        }
        self.change(|step| {
            let c = step.transaction;
            let expired: Vec<(i64, i64, i64)> = c
                .prepare_cached(over)?
                .query_map([act.at / 1000], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?
                .collect::<Result<_, _>>()?;
            for (account, lot, free) in expired {
                step.pay(
                    Kind::Expiry,
                    (account, Side::Free),
                    (BANK, Side::Free),
                    lot,
                    Money(free),
                    None,
                    act,
                )?;
            }
            c.execute(
                "DELETE FROM known WHERE at > 0 AND at < ?1",
                [act.at - REMEMBERED],
            )?;
            Ok(())
        })
    }

    /// Free and held money of every account and lot.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn balances(&self) -> Result<Vec<(i64, i64, Money, Money)>, AccountsError> {
        self.read(|c| {
            c.prepare(
                "SELECT account, lot, SUM(free), SUM(held) FROM (SELECT account, lot, free, 0 AS held FROM pocket
                 UNION ALL SELECT account, lot, 0, amount FROM hold) GROUP BY account, lot",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, Money(row.get(2)?), Money(row.get(3)?))))?
            .collect()
        })
    }

    /// The oldest journal entries that are not written down yet.
    pub(super) fn journal(&self, most: usize) -> Result<Vec<(i64, Event)>, AccountsError> {
        let rows: Vec<(i64, String)> = self.read(|c| {
            c.prepare_cached("SELECT id, event FROM journal ORDER BY id LIMIT ?1")?
                .query_map([most as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })?;
        let read = |(id, text): (i64, String)| {
            serde_json::from_str(&text)
                .map(|event| (id, event))
                .map_err(|error| AccountsError::File {
                    path: self.path.clone(),
                    problem: format!("journal entry {id}: {error}"),
                })
        };
        rows.into_iter().map(read).collect()
    }

    /// These are written down.
    pub(super) fn forget_journal(&self, to: i64) -> Result<(), AccountsError> {
        self.read(|c| {
            c.prepare_cached("DELETE FROM journal WHERE id <= ?1")?
                .execute([to])
                .map(|_| ())
        })
    }
}

/// Why a step is undone.
enum Trouble {
    Refused(AccountsError),
    Store(rusqlite::Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Store(error)
    }
}

impl From<AccountsError> for Trouble {
    fn from(error: AccountsError) -> Trouble {
        Trouble::Refused(error)
    }
}

/// Inside one transaction.
struct Step<'a> {
    transaction: &'a Transaction<'a>,
}

impl Step<'_> {
    fn note(&self, event: &Event) -> Result<(), Trouble> {
        let text = serde_json::to_string(event)
            .map_err(|error| AccountsError::Unsound(error.to_string()))?;
        self.transaction
            .prepare_cached("INSERT INTO journal(event) VALUES (?1)")?
            .execute([text])?;
        Ok(())
    }

    fn open_account(&self, name: &AccountName, at: i64) -> Result<Account, Trouble> {
        let name = name.to_string();
        let account = find(self.transaction, &name, at)?.ok_or(AccountsError::NoAccount(name))?;
        opened(account)
    }

    fn by_number(&self, id: i64, at: i64) -> Result<Account, Trouble> {
        let name: Option<String> = self
            .transaction
            .prepare_cached("SELECT name FROM account WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let name = name.ok_or_else(|| AccountsError::NoAccount(format!("number {id}")))?;
        let account = find(self.transaction, &name, at)?.ok_or(AccountsError::NoAccount(name))?;
        opened(account)
    }

    fn put_account(
        &self,
        id: i64,
        name: &str,
        overdraft: Overdraft,
        closed: bool,
        act: Act<'_>,
    ) -> Result<(), Trouble> {
        let overdraft = match overdraft {
            Overdraft::To(money) => Some(money.0),
            Overdraft::Unlimited => None,
        };
        self.transaction
            .prepare_cached("INSERT INTO account VALUES (?1, ?2, ?3, ?4) ON CONFLICT(id) DO UPDATE SET overdraft = ?3, closed = ?4")?
            .execute(params![id, name, overdraft, closed])?;
        self.note(&Event::Account {
            id,
            name: name.to_string(),
            overdraft,
            closed,
            at: act.at,
            by: act.by.to_string(),
        })
    }

    fn new_lot(&self, begins: Option<i64>, ends: Option<i64>) -> Result<i64, Trouble> {
        let id =
            self.transaction
                .query_row("SELECT COALESCE(MAX(id), 0) + 1 FROM lot", [], |row| {
                    row.get(0)
                })?;
        self.transaction.execute(
            "INSERT INTO lot VALUES (?1, ?2, ?3)",
            params![id, begins, ends],
        )?;
        self.note(&Event::Lot { id, begins, ends })?;
        Ok(id)
    }

    fn spend(&self, account: &Account, amount: Money) -> Result<Vec<(i64, Money)>, Trouble> {
        let short = || AccountsError::Short {
            account: account.name.clone(),
            available: account.available().unwrap_or_default(),
            wanted: amount,
        };
        Ok(spend(&account.free, account.overdraft, amount).ok_or_else(short)?)
    }

    /// Everything free of an account, whatever its validity.
    fn pockets(&self, account: i64) -> Result<Vec<(i64, Money)>, Trouble> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT lot, free FROM pocket WHERE account = ?1")?;
        let pockets = statement
            .query_map([account], |row| Ok((row.get(0)?, Money(row.get(1)?))))?
            .collect::<Result<_, _>>()?;
        Ok(pockets)
    }

    fn take_held(&self, key: &str, lot: i64, there: Money, taken: Money) -> Result<(), Trouble> {
        let c = self.transaction;
        match there.0 - taken.0 {
            0 => c
                .prepare_cached("DELETE FROM hold WHERE key = ?1 AND lot = ?2")?
                .execute(params![key, lot])?,
            left => c
                .prepare_cached("UPDATE hold SET amount = ?3 WHERE key = ?1 AND lot = ?2")?
                .execute(params![key, lot, left])?,
        };
        Ok(())
    }

    /// What a job costs beyond what was held: as far as the account reaches.
    fn overrun(
        &self,
        account: i64,
        wanted: Money,
        hold: (&str, u32),
        act: Act<'_>,
    ) -> Result<Money, Trouble> {
        if wanted <= Money::ZERO {
            return Ok(Money::ZERO);
        }
        let account = self.by_number(account, act.at)?;
        let taken = account
            .available()
            .map_or(wanted, |available| available.min(wanted));
        for (lot, amount) in self.spend(&account, taken)? {
            self.pay(
                Kind::Overrun,
                (account.id, Side::Free),
                (INCOME, Side::Free),
                lot,
                amount,
                Some(hold),
                act,
            )?;
        }
        Ok(taken)
    }

    /// The one way for money to move. What is held is in the table of holds; its rows are the caller's.
    #[allow(clippy::too_many_arguments)]
    fn pay(
        &self,
        kind: Kind,
        from: (i64, Side),
        to: (i64, Side),
        lot: i64,
        amount: Money,
        hold: Option<(&str, u32)>,
        act: Act<'_>,
    ) -> Result<(), Trouble> {
        if amount <= Money::ZERO {
            return Ok(());
        }
        for ((account, side), change) in [(from, -amount.0), (to, amount.0)] {
            if side == Side::Free {
                self.transaction
                    .prepare_cached("INSERT INTO pocket VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET free = free + ?3")?
                    .execute(params![account, lot, change])?;
            }
        }
        let movement = Movement {
            at: act.at,
            kind,
            from,
            to,
            lot,
            amount,
            hold: hold.map(|(key, _)| key.to_string()),
            part: hold.map_or(0, |(_, part)| part),
            by: act.by.to_string(),
            note: act.note.to_string(),
        };
        self.note(&Event::Movement(movement))
    }
}

fn opened(account: Account) -> Result<Account, Trouble> {
    match account.closed {
        true => Err(AccountsError::Closed(account.name).into()),
        false => Ok(account),
    }
}

fn find(c: &Connection, name: &str, at: i64) -> rusqlite::Result<Option<Account>> {
    let mut account = match c
        .prepare_cached("SELECT id, overdraft, closed FROM account WHERE name = ?1")?
        .query_row([name], |row| {
            let overdraft: Option<i64> = row.get(1)?;
            Ok(Account {
                id: row.get(0)?,
                name: name.to_string(),
                overdraft: overdraft
                    .map_or(Overdraft::Unlimited, |limit| Overdraft::To(Money(limit))),
                closed: row.get(2)?,
                free: Vec::new(),
                held: Money::ZERO,
            })
        })
        .optional()?
    {
        Some(account) => account,
        None => return Ok(None),
    };
    account.free = c
        .prepare_cached(
            "SELECT lot, free, ends FROM pocket LEFT JOIN lot ON lot.id = lot WHERE account = ?1 AND free <> 0
             AND (account <= 2 OR (begins IS NULL OR begins <= ?2) AND (ends IS NULL OR ends > ?2))",
        )?
        .query_map([account.id, at / 1000], |row| Ok(Free { lot: row.get(0)?, amount: Money(row.get(1)?), ends: row.get(2)? }))?
        .collect::<Result<_, _>>()?;
    account.held = Money(
        c.prepare_cached("SELECT COALESCE(SUM(amount), 0) FROM hold WHERE account = ?1")?
            .query_row([account.id], |row| row.get(0))?,
    );
    Ok(Some(account))
}

/// The directory is made where it is not there, and has to be of the ledger's owner alone: it is where everybody may write.
fn own_directory(directory: &Path, ledger: &Path) -> Result<(), AccountsError> {
    let file = |problem: String| AccountsError::File {
        path: directory.to_path_buf(),
        problem,
    };
    let home = ledger.parent().unwrap_or(Path::new("/"));
    let owner = match fs::metadata(ledger).or_else(|_| fs::metadata(home)) {
        Ok(found) => found.uid(),
        Err(error) => {
            return Err(AccountsError::File {
                path: ledger.to_path_buf(),
                problem: format!("{error}; make its directory with: libra account init"),
            });
        }
    };
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        // Root makes it for the one who owns the ledger.
        Ok(()) if nix::unistd::geteuid().is_root() => {
            std::os::unix::fs::chown(directory, Some(owner), None)
                .map_err(|error| file(error.to_string()))?
        }
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(file(format!(
                "{error}; accounts.live in the configuration names it"
            )));
        }
    }
    let found = fs::symlink_metadata(directory).map_err(|error| file(error.to_string()))?;
    if !found.is_dir() || found.uid() != owner || found.mode() & 0o022 != 0 {
        return Err(file(format!(
            "expected a directory of user {owner}, who owns the ledger, that nobody else can write to; remove it"
        )));
    }
    Ok(())
}

/// What root makes is for the one who owns the ledger.
fn give_to_owner(path: &Path, ledger: &Path) -> Result<(), AccountsError> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let owner =
        fs::metadata(ledger).or_else(|_| fs::metadata(ledger.parent().unwrap_or(Path::new("/"))));
    owner
        .and_then(|found| std::os::unix::fs::chown(path, Some(found.uid()), None))
        .map_err(|error| AccountsError::File {
            path: path.to_path_buf(),
            problem: error.to_string(),
        })
}

/// Makes the live state of what the ledger says.
fn make(path: &Path, ledger: &Ledger) -> Result<(), AccountsError> {
    let file = |error: std::io::Error| AccountsError::File {
        path: path.to_path_buf(),
        problem: error.to_string(),
    };
    for suffix in ["", "-wal", "-shm"] {
        let mut old = path.as_os_str().to_owned();
        old.push(suffix);
        match fs::remove_file(&old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(file(error)),
            _ => {}
        }
    }
    let half = path.with_extension("new");
    let _ = fs::remove_file(&half);
    let store = |error| AccountsError::Store {
        path: half.clone(),
        error,
    };
    // From now on no older live state writes anything down any more.
    let (identity, generation) = ledger
        .try_(|c| {
            c.query_row(
                "UPDATE meta SET value = value + 1 WHERE key = 'generation' RETURNING value",
                [],
                |row| row.get::<_, i64>(0),
            )
        })
        .and_then(|_| ledger.identity())?;
    let mut connection = Connection::open(&half).map_err(store)?;
    (|| {
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.execute_batch(SCHEMA)?;
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT INTO meta VALUES ('identity', ?1), ('generation', ?2)",
            [identity, generation],
        )?;
        // SQLite keeps count of what was there once.
        transaction.execute_batch("INSERT INTO journal VALUES (1, ''); DELETE FROM journal;")?;
        copy(&transaction, &ledger.connection)?;
        transaction.commit()
    })()
    .map_err(store)?;
    connection.close().map_err(|(_, error)| store(error))?;
    give_to_owner(&half, &ledger.path)?;
    fs::rename(&half, path).map_err(file)
}

fn copy(to: &Transaction<'_>, from: &Connection) -> rusqlite::Result<()> {
    let mut accounts = from.prepare("SELECT id, name, overdraft, closed FROM account")?;
    let mut rows = accounts.query([])?;
    while let Some(row) = rows.next()? {
        to.execute(
            "INSERT INTO account VALUES (?1, ?2, ?3, ?4)",
            params![
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, Option<i64>>(2)?,
                row.get::<_, bool>(3)?
            ],
        )?;
    }
    let mut members = from.prepare("SELECT account, user FROM member")?;
    let mut rows = members.query([])?;
    while let Some(row) = rows.next()? {
        to.execute(
            "INSERT INTO member VALUES (?1, ?2)",
            params![row.get::<_, i64>(0)?, row.get::<_, String>(1)?],
        )?;
    }
    let mut lots = from.prepare("SELECT id, begins, ends FROM lot")?;
    let mut rows = lots.query([])?;
    while let Some(row) = rows.next()? {
        to.execute(
            "INSERT INTO lot VALUES (?1, ?2, ?3)",
            params![
                row.get::<_, i64>(0)?,
                row.get::<_, Option<i64>>(1)?,
                row.get::<_, Option<i64>>(2)?
            ],
        )?;
    }
    let mut put_known =
        to.prepare("INSERT INTO known VALUES (?1, 1) ON CONFLICT DO UPDATE SET at = max(at, ?2)")?;
    let mut put_part = to.prepare("INSERT OR IGNORE INTO part VALUES (?1, ?2)")?;
    let mut put_pocket = to.prepare(
        "INSERT INTO pocket VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET free = free + ?3",
    )?;
    let mut put_hold = to.prepare("INSERT INTO hold VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET amount = amount + ?4")?;
    let mut movements = from.prepare("SELECT at, payer, payer_side, payee, payee_side, lot, amount, hold, part, kind FROM movement ORDER BY id")?;
    let mut rows = movements.query([])?;
    while let Some(row) = rows.next()? {
        let (at, lot, amount): (i64, i64, i64) = (row.get(0)?, row.get(5)?, row.get(6)?);
        let key: Option<String> = row.get(7)?;
        if let Some(key) = &key {
            put_known.execute(params![key, at])?;
            if row.get_ref(9)?.as_str()? != "hold" {
                put_part.execute(params![key, row.get::<_, u32>(8)?])?;
            }
        }
        for (whose, side, change) in [(1, 2, -amount), (3, 4, amount)] {
            let account: i64 = row.get(whose)?;
            match row.get_ref(side)?.as_str()? {
                "held" => put_hold.execute(params![key, lot, account, change, at])?,
                _ => put_pocket.execute(params![account, lot, change])?,
            };
        }
    }
    to.execute_batch(
        "DELETE FROM hold WHERE amount = 0;
         UPDATE known SET at = 0 WHERE key IN (SELECT key FROM hold);
         DELETE FROM part WHERE key NOT IN (SELECT key FROM hold);",
    )?;
    // Numbers go on where the ledger's end.
    let last: i64 = from.query_row("SELECT MAX(COALESCE((SELECT MAX(id) FROM movement), 0), COALESCE((SELECT MAX(id) FROM change), 0))", [], |row| row.get(0))?;
    to.execute(
        "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'journal'",
        [last],
    )?;
    Ok(())
}
