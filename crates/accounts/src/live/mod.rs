//! The present state: what every account has and what is held, in an SQLite file in memory (tmpfs) that all processes share.
//!
//! Every change is one transaction together with its journal entries. Nothing here touches a disk, so nothing waits for one.
//! The file is made of the ledger where there is none, after a boot. One that is there is never given up for a ledger that is
//! empty, another one or an older one: it may be the only place that knows the present.
//!
//! Here: opening and reading. [`place`]: whose directory and file it is, and which live states are there. [`administer`]: accounts,
//! members, deposits, transfers. [`holds`]: money of jobs. [`lease`]: until when this host may admit. [`step`]: what happens inside a
//! transaction. [`make`]: how the file is made of the ledger. [`restore`]: what it knows and a copy of the ledger does not.

mod administer;
mod holds;
mod lease;
mod make;
pub(super) mod place;
mod restore;
mod step;

use super::AccountsError;
use super::crash::point;
use super::ledger::{Claim, FLAGS, LONG, Ledger, Location, with};
use super::lock;
use super::lots::{Free, Overdraft, available};
use super::movement::Event;
use super::names::AccountName;
use super::payments::OpenHold;
use libra_system::sqlite;
use libra_units::money::Money;
use make::make;
use place::{Present, give_to_owner, own_directory, own_file, place, present};
pub use place::{make_directory, surviving};
pub use restore::Brought;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use step::{Step, Trouble, find};

/// SQLite's log may grow to so many pages of 4 KiB before a submission moves them into the file itself, which takes milliseconds.
const LOG_PAGES: i64 = 8192;

/// Pages of 4 KiB that it may have: 256 MiB of a memory that others use as well. Enough for some 700,000 jobs that have ended and as many
/// movements that wait for a full disk.
const MOST_PAGES: i64 = 65_536;

/// SQLite's log is emptied when it has its pages in the file, unless somebody reads at that time. Beyond so many bytes somebody does that
/// for ever, a process that was stopped say, and nothing more is written: the memory is not ours alone.
const LARGEST_LOG: u64 = 256 << 20;

/// Time between two tries to begin a step.
const POLL: Duration = Duration::from_micros(200);

/// Rows that one step removes at most where many are to go: a submission waits for its end.
const AT_ONCE: i64 = 1000;

/// The opened live state.
pub struct Live {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    ledger: Location,
    /// Another process's step is waited for so long.
    patience: Duration,
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
    /// What can still be spent; None if that is unlimited.
    pub fn available(&self) -> Option<Money> {
        available(&self.free, self.overdraft)
    }

    /// Free and held.
    pub fn balance(&self) -> Money {
        Money::clamped(
            self.free
                .iter()
                .map(|free| i128::from(free.amount.0))
                .sum::<i128>()
                + i128::from(self.held.0),
        )
    }
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

impl Payout {
    /// All that is left of a hold is free again.
    pub const NOTHING: Payout = Payout {
        of: None,
        charge: Money::ZERO,
        overrun: Money::ZERO,
        compensation: Money::ZERO,
    };
}

impl Live {
    /// Opens the live state in `directory`, or makes it of the ledger. `patience`: how long other processes are waited for.
    ///
    /// # Errors
    /// When one of both cannot be opened or made, or they do not belong together.
    pub fn open(
        directory: &Path,
        ledger: impl Into<Location>,
        patience: Duration,
    ) -> Result<Live, AccountsError> {
        Live::open_within(directory, ledger, (patience, patience), Claim::Own)
    }

    /// As [`Live::open`]. `opening`: how long other processes are waited for now, `patience`: later, at each step. `claim`: whose lease of a
    /// database is taken.
    ///
    /// # Errors
    /// As [`Live::open`]; [`AccountsError::Leased`] as long as the lease is another host's: tried again with [`Claim::Over`] it is had, in ten
    /// seconds at most.
    pub fn open_within(
        directory: &Path,
        ledger: impl Into<Location>,
        (opening, patience): (Duration, Duration),
        claim: Claim,
    ) -> Result<Live, AccountsError> {
        Live::open_or_move(
            directory,
            &ledger.into(),
            (opening, patience),
            claim,
            place::before(directory),
        )
    }

    /// `old`: where a live state may be that earlier versions made.
    pub(super) fn open_or_move(
        directory: &Path,
        ledger: &Location,
        (opening, patience): (Duration, Duration),
        claim: Claim,
        old: Option<&Path>,
    ) -> Result<Live, AccountsError> {
        // Without a ledger nothing is made, and nothing is asked of the live state.
        let history = Ledger::open_briefly(ledger, opening)?;
        history.limit(Some(opening));
        let directory = &own_directory(directory, ledger.path())?;
        // One process makes it, the others wait.
        let _lock = lock::take(&directory.join(place::LOCK), opening)?;
        give_to_owner(&directory.join(place::LOCK), ledger.path())?;
        history.limit(Some(opening));
        let (path, over) = match present(directory, &history)? {
            Present::This(path) => (path, Vec::new()),
            Present::None { over } => {
                history.limit(Some(LONG));
                if let Some(old) = old {
                    place::write_down_old(old, &history, opening)?;
                }
                (make(directory, &history, claim)?, over)
            }
        };
        for over in over {
            over.remove(&history);
        }
        Live::belonging(&path, &history, patience)
    }

    /// As [`Live::open_within`], of the live state that is there, and all within `opening`: none is made. For who follows those that admit, as making one says that all others of
    /// this ledger count no more, those in other hosts' memory too.
    ///
    /// # Errors
    /// As [`Live::open`], and when there is none of this ledger: it was removed, or another host has made its own since.
    pub fn open_present(
        directory: &Path,
        ledger: impl Into<Location>,
        (opening, patience): (Duration, Duration),
    ) -> Result<Live, AccountsError> {
        let ledger = &ledger.into();
        let began = Instant::now();
        let history = match ledger.database() {
            Some(_) => Ledger::open_for(ledger, opening)?,
            None => Ledger::open_briefly(ledger, opening)?,
        };
        let directory = &own_directory(directory, ledger.path())?;
        let left = opening.saturating_sub(began.elapsed());
        let _lock = lock::take(&directory.join(place::LOCK), left)?;
        let found = match ledger.database() {
            // What older ones have is looked at by who makes one: it may be much.
            Some(_) => match place(directory, history.identity()?) {
                path if path.exists() => Present::This(path),
                _ => Present::None { over: Vec::new() },
            },
            None => present(directory, &history)?,
        };
        match found {
            Present::This(path) => Live::belonging(&path, &history, patience),
            Present::None { .. } => Err(AccountsError::File {
                path: directory.clone(),
                problem: "the live state of this ledger is not here any more: it was removed, or another host has made its own since"
                    .to_string(),
            }),
        }
    }

    /// The live state there, where it is not later than the ledger.
    fn belonging(path: &Path, history: &Ledger, patience: Duration) -> Result<Live, AccountsError> {
        own_file(path, &history.path)?;
        let live = Live::connect(path, history.location(), patience)?;
        // In this order: others may write down meanwhile.
        let known = live.written()?;
        let written = history.written()?;
        if known > written {
            return Err(live.older(written, known));
        }
        live.renew_if_old(history)?;
        Ok(live)
    }

    /// Its ledger ends before what it knows to be written down.
    pub(super) fn older(&self, written: i64, known: i64) -> AccountsError {
        self.ledger.lost(format!(
            "is older than the live state: it ends with entry {written}, the live state knows that {known} were written down (an old copy?)"
        ))
    }

    pub(super) fn connect(
        path: &Path,
        ledger: &Location,
        patience: Duration,
    ) -> Result<Live, AccountsError> {
        let store = |error| AccountsError::store(path, patience, error);
        // Its directory is spelt out: no link leads there or away.
        let flags = FLAGS.union(rusqlite::OpenFlags::SQLITE_OPEN_NOFOLLOW);
        let connection = sqlite::open(path, flags).map_err(store)?;
        connection.set_prepared_statement_cache_capacity(64);
        let generation = sqlite::within(patience, || {
            connection.busy_timeout(patience)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // It is memory: what a power failure would leave half done is gone altogether.
            connection.pragma_update(None, "synchronous", "OFF")?;
            // Whoever writes down tidies up as well (forget_journal), so that hardly any submission has to.
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
            connection.pragma_update(None, "max_page_count", MOST_PAGES)?;
            let get = |key| {
                connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
                    row.get(0)
                })
            };
            Ok((get("identity")?, get("generation")?))
        })
        .map_err(store)?;
        Ok(Live {
            connection,
            path: path.to_path_buf(),
            ledger: ledger.clone(),
            patience,
            generation,
        })
    }

    /// Returns true if its file is still there. Where it was removed, another one is made.
    pub fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// The ledger behind it.
    pub fn ledger(&self) -> &Location {
        &self.ledger
    }

    fn read<T>(
        &self,
        what: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, AccountsError> {
        sqlite::within(self.patience, || what(&self.connection))
            .map_err(|error| AccountsError::store(&self.path, self.patience, error))
    }

    /// Begins to write. Another process's step takes some ten microseconds, so it is looked for often: SQLite's own waiting soon
    /// sleeps for a tenth of a second at a time.
    fn begin(&self) -> rusqlite::Result<Transaction<'_>> {
        let began = Instant::now();
        self.connection.busy_timeout(Duration::ZERO)?;
        let begun = loop {
            match Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate) {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && began.elapsed() < self.patience =>
                {
                    std::thread::sleep(POLL);
                }
                other => break other,
            }
        };
        self.connection.busy_timeout(self.patience)?;
        begun
    }

    /// One change, whole or not at all.
    fn change<T>(
        &mut self,
        what: impl FnOnce(&Step<'_>) -> Result<T, Trouble>,
    ) -> Result<T, AccountsError> {
        sqlite::within(self.patience, || self.try_change(what))
    }

    fn try_change<T>(
        &self,
        what: impl FnOnce(&Step<'_>) -> Result<T, Trouble>,
    ) -> Result<T, AccountsError> {
        let store = |error| AccountsError::store(&self.path, self.patience, error);
        self.log_is_bounded()?;
        let transaction = self.begin().map_err(store)?;
        let done = what(&Step {
            transaction: &transaction,
            ledger: &self.ledger,
        });
        match done {
            Ok(value) => {
                point("live: before commit");
                transaction.commit().map_err(store)?;
                point("live: after commit");
                Ok(value)
            }
            // The transaction is undone as it is dropped.
            Err(Trouble::Refused(error)) => Err(error),
            Err(Trouble::Store(error)) => Err(store(error)),
        }
    }

    fn log_is_bounded(&self) -> Result<(), AccountsError> {
        let log = with(&self.path, "-wal");
        let size = fs::metadata(&log).map_or(0, |found| found.len());
        if size <= LARGEST_LOG {
            return Ok(());
        }
        // Where nobody reads any more it is emptied now.
        let emptied = self.read(|c| {
            c.busy_timeout(Duration::ZERO)?;
            let busy = c.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                row.get::<_, i64>(0)
            });
            c.busy_timeout(self.patience)?;
            Ok(busy? == 0)
        })?;
        match emptied {
            true => Ok(()),
            false => Err(AccountsError::Locked {
                path: log,
                patience: 0.0,
                holder: format!(
                    " by a process that reads and does not end, and has grown to {} MiB meanwhile",
                    size >> 20
                ),
            }),
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

    /// Returns true if this user may use that project's money.
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

    /// Deposits of an account that begin later: amount, first second, first second after it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn later(
        &self,
        account: i64,
        at: i64,
    ) -> Result<Vec<(Money, i64, Option<i64>)>, AccountsError> {
        self.read(|c| {
            c.prepare_cached(
                "SELECT free, begins, ends FROM pocket JOIN lot ON lot.id = lot WHERE account = ?1 AND begins > ?2 AND free > 0 ORDER BY begins",
            )?
            .query_map([account, at / 1000], |row| Ok((Money(row.get(0)?), row.get(1)?, row.get(2)?)))?
            .collect()
        })
    }

    /// Projects that a user is a member of, by name.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn projects_of(&self, user: &str) -> Result<Vec<String>, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT name FROM member JOIN account ON account.id = member.account WHERE user = ?1 ORDER BY name")?
                .query_map([user], |row| row.get(0))?
                .collect()
        })
    }

    /// Holds that no record belongs to, and why.
    pub(super) fn stray_holds(&self) -> Result<Vec<(String, &'static str)>, AccountsError> {
        self.read(|c| {
            let mut stray = Vec::new();
            for (statement, why) in [
                ("SELECT DISTINCT key FROM hold WHERE key NOT IN (SELECT key FROM known WHERE at = 0)", "is not known as open"),
                ("SELECT DISTINCT key FROM hold WHERE account NOT IN (SELECT id FROM account)", "is of an account that is not there"),
            ] {
                let keys: Vec<String> = c.prepare(statement)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                stray.extend(keys.into_iter().map(|key| (key, why)));
            }
            Ok(stray)
        })
    }

    /// Open holds of an account, oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn holds_of(&self, account: i64) -> Result<Vec<OpenHold>, AccountsError> {
        self.read(|c| {
            c.prepare_cached("SELECT key, SUM(amount), MIN(at) FROM hold WHERE account = ?1 GROUP BY key ORDER BY 3, 1")?
                .query_map([account], |row| Ok(OpenHold { key: row.get(0)?, account, amount: Money(row.get(1)?), at: row.get(2)? }))?
                .collect()
        })
    }

    /// The oldest journal entries behind this number that are not written down yet.
    pub(super) fn journal(
        &self,
        after: i64,
        most: usize,
    ) -> Result<Vec<(i64, Event)>, AccountsError> {
        let rows: Vec<(i64, String)> = self.read(|c| {
            c.prepare_cached("SELECT id, event FROM journal WHERE id > ?1 ORDER BY id LIMIT ?2")?
                .query_map([after, i64::try_from(most).unwrap_or(i64::MAX)], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
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

    /// These are written down. In several steps, so that nobody waits long.
    pub(super) fn forget_journal(&self, to: i64) -> Result<(), AccountsError> {
        self.read(|c| {
            loop {
                let transaction = self.begin()?;
                transaction
                    .prepare_cached("UPDATE meta SET value = max(value, ?1) WHERE key = 'written'")?
                    .execute([to])?;
                transaction
                    .prepare_cached("DELETE FROM journal WHERE id <= min(?1, (SELECT MIN(id) FROM journal) + ?2)")?
                    .execute([to, AT_ONCE])?;
                point("flush: before the journal forgets");
                let more = transaction
                    .prepare_cached("SELECT 1 FROM journal WHERE id <= ?1")?
                    .exists([to])?;
                transaction.commit()?;
                point("flush: after the journal forgot");
                if !more {
                    break;
                }
            }
            // As far as it goes without making anybody wait.
            c.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        })
    }

    /// Number of the last journal entry that was written down.
    pub(super) fn written(&self) -> Result<i64, AccountsError> {
        self.read(|c| {
            c.query_row("SELECT value FROM meta WHERE key = 'written'", [], |row| {
                row.get(0)
            })
        })
    }
}

/// Said of a live state when another one was made.
pub(super) fn outdated(path: &Path) -> AccountsError {
    AccountsError::File {
        path: path.to_path_buf(),
        problem:
            "another live state was made of the ledger since; this one is not written down any more"
                .to_string(),
    }
}
