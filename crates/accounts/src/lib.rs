//! Accounts: where the money of a budget comes from. It knows the configuration and what is committed, and no batch
//! system.
//!
//! Two files, both SQLite, or one and a database of PostgreSQL. [`live`] is the present: what each account has, and what is held for jobs. It lies in
//! memory (a tmpfs), is shared by every process that admits or administers, and every change is one transaction there, in
//! microseconds and without a disk. [`ledger`] is the past: every movement of money as a row that is never changed. What
//! happened in the live state waits there in a journal until [`flush`] has written it down in the ledger.
//!
//! Invariants:
//! - Money moves from one pocket to another, so the sum over all accounts is zero at all times.
//! - Live state = ledger + journal. A process may be killed between any two instructions: SQLite makes each step whole or
//!   undone, and a journal entry that was written down twice has the same number, which the ledger takes once.
//! - No free balance goes below its floor (0, or what an overdraft allows); a charge is at most what was held, except by
//!   the rule for overruns ([`settlement`]), which stops at the floor as well.
//! - A power failure loses the live state: it is made anew of the ledger, and the batch system's own job records bring back holds that
//!   had not been written down ([`payments`]).

#[cfg(feature = "ledger")]
pub mod backup;
pub mod budget_gate;
#[cfg(feature = "ledger")]
pub mod check;
#[cfg(feature = "ledger")]
mod crash;
#[cfg(feature = "ledger")]
pub mod flush;
#[cfg(all(test, feature = "ledger"))]
mod histories;
#[cfg(feature = "ledger")]
pub mod identity;
#[cfg(feature = "ledger")]
pub mod ledger;
#[cfg(feature = "ledger")]
pub mod live;
#[cfg(feature = "ledger")]
mod lock;
#[cfg(feature = "ledger")]
pub mod lots;
#[cfg(feature = "ledger")]
pub mod movement;
pub mod names;
pub mod payments;
#[cfg(feature = "ledger")]
pub mod perform;
#[cfg(feature = "ledger")]
pub mod request;
#[cfg(feature = "ledger")]
pub mod restore;
pub mod settlement;
#[cfg(feature = "ledger")]
pub mod statement;
#[cfg(all(test, feature = "ledger"))]
mod tests;
#[cfg(feature = "ledger")]
pub mod writer;

use std::path::PathBuf;

/// Why something cannot be done with accounts. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// No account of that name.
    #[error("there is no account {0}; an administrator makes one with: libra account create {0}")]
    NoAccount(String),
    /// It was closed.
    #[error("account {0} is closed")]
    Closed(String),
    /// There is one already.
    #[error("there is an account {0} already")]
    Exists(String),
    /// A name that is none.
    #[error(
        "'{0}' is not an account; expected user:NAME or project:NAME, with letters, digits, '.', '_' and '-'"
    )]
    BadName(String),
    /// It has not enough.
    #[error("{account} has {available} credits available, {wanted} are needed")]
    Short {
        /// The account.
        account: String,
        /// What is there.
        available: libra_units::money::Money,
        /// What would be needed.
        wanted: libra_units::money::Money,
    },
    /// The user may not use the project's money.
    #[error(
        "{user} is not a member of {account}; an administrator can change that with: libra account create {account} --member {user}"
    )]
    NotMember {
        /// Who.
        user: String,
        /// Which account.
        account: String,
    },
    /// Not this user.
    #[error("{what} may not be done by {user}; {who} may")]
    NotAllowed {
        /// Who wanted it.
        user: String,
        /// What.
        what: String,
        /// Who may.
        who: String,
    },
    /// Something that contradicts itself.
    #[error("{0}")]
    Unsound(String),
    /// A file or a directory.
    #[error("{path}: {problem}")]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// No ledger where it should be, or not this host's.
    #[error(
        "{path}: {problem}; nothing is paid for and no budget is accepted until it is back, the live state is kept as it is: mount its disk, or bring back a copy with: libra account restore FILE"
    )]
    Ledger {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No ledger in the database, or not this host's.
    #[error(
        "the ledger in the database '{database}': {problem}; nothing is paid for and no budget is accepted until it is back, the live state is kept as it is: accounts.database in the configuration names it, a copy made with pg_dump is brought back with pg_restore"
    )]
    Database {
        /// The connection string.
        database: String,
        /// What is wrong.
        problem: String,
    },
    /// The database does not answer, or has not for so long that another host may admit by now.
    #[error(
        "the ledger in the database '{database}' cannot be reached: {problem}; see that its server runs and lets this host in, it is tried again"
    )]
    Unreachable {
        /// The connection string.
        database: String,
        /// What was said.
        problem: String,
    },
    /// Another host admits with the ledger.
    #[error("the ledger in the database '{database}' is host {host}'s: {}", lease_of_another(*seconds))]
    Leased {
        /// The connection string.
        database: String,
        /// Which host.
        host: String,
        /// How long at most, in seconds, where it is not renewed; 0: no longer.
        seconds: u64,
    },
    /// Another process does not give it back.
    #[error(
        "{path} is locked{holder}, waited {patience} s; 'fuser -v {path}' names who has it open"
    )]
    Locked {
        /// Which file.
        path: PathBuf,
        /// How long it was waited for, in seconds.
        patience: f64,
        /// Who has it, where that is known, with a space ahead.
        holder: String,
    },
    /// The configuration has accounts, and what was built has none.
    #[error(
        "this library or program was built without accounts; set accounts.mode = \"off\", or install one that was built with the feature 'accounts'"
    )]
    LeftOut,
    /// SQLite.
    #[cfg(feature = "ledger")]
    #[error("{path}: {error}{}", room(error))]
    Store {
        /// Which file.
        path: PathBuf,
        /// What it said.
        error: rusqlite::Error,
    },
}

impl AccountsError {
    /// Returns true if it is about the account rather than about files: something to tell the user.
    pub fn is_refusal(&self) -> bool {
        match self {
            AccountsError::File { .. }
            | AccountsError::Ledger { .. }
            | AccountsError::Database { .. }
            | AccountsError::Unreachable { .. }
            | AccountsError::Leased { .. }
            | AccountsError::Locked { .. }
            | AccountsError::LeftOut => false,
            #[cfg(feature = "ledger")]
            AccountsError::Store { .. } => false,
            _ => true,
        }
    }

    /// What is wrong with the ledger itself, where it is not there, not this host's or older than it was: nobody is admitted on money of
    /// which nobody could write down what becomes of it.
    pub fn lost_ledger(&self) -> Option<&str> {
        match self {
            AccountsError::Ledger { problem, .. } | AccountsError::Database { problem, .. } => {
                Some(problem)
            }
            _ => None,
        }
    }

    /// Returns true if it may be for want of room on a disk.
    #[cfg(feature = "ledger")]
    pub(crate) fn is_without_room(&self) -> bool {
        match self {
            AccountsError::Store { error, .. } => libra_system::sqlite::is_without_room(error),
            _ => false,
        }
    }

    /// What SQLite said of a file. One that others do not give back is said in words that help.
    #[cfg(feature = "ledger")]
    pub(crate) fn store(
        path: &std::path::Path,
        patience: std::time::Duration,
        error: rusqlite::Error,
    ) -> AccountsError {
        let path = path.to_path_buf();
        match error.sqlite_error_code() {
            Some(
                rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::FileLockingProtocolFailed,
            ) => AccountsError::Locked {
                path,
                patience: patience.as_secs_f64(),
                holder: " by another process".to_string(),
            },
            _ => AccountsError::Store { path, error },
        }
    }
}

/// What SQLite calls an input or output error, where it had no room.
#[cfg(feature = "ledger")]
fn room(error: &rusqlite::Error) -> &'static str {
    let is_full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
    match libra_system::sqlite::is_without_room(error) && !is_full {
        true => " (its disk may be full; see 'df')",
        false => "",
    }
}

/// What to do where another host has the lease.
fn lease_of_another(seconds: u64) -> String {
    match seconds {
        0 => "it was the last to admit with it, and does not at present; ask there, or let this host have the accounts with: libra account init --take-over".to_string(),
        _ => format!(
            "it admits with it, and may do so for {seconds} s more if it is not heard of again; ask there, or where it is to admit no more try again then"
        ),
    }
}

/// Unix time in milliseconds, for the edges.
pub fn unix_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
