//! What keeps a ledger, and where.

use super::super::AccountsError;
use libra_config::AccountsConfig;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a ledger is: in a file, or in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    path: PathBuf,
    /// A connection string of libpq's; empty: the file.
    database: String,
}

impl Location {
    /// As the configuration says.
    pub fn of(accounts: &AccountsConfig) -> Location {
        Location {
            path: accounts.ledger.clone(),
            database: accounts.database.clone(),
        }
    }

    /// In a database. Beside `path` is what a host has of its own: who the owner is, and which ledger is the host's.
    pub fn in_database(path: &Path, string: &str) -> Location {
        Location {
            path: path.to_path_buf(),
            database: string.to_string(),
        }
    }

    /// The ledger's file; with a database no such file is there, and its directory says who the owner is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The connection string, where it is in a database.
    pub fn database(&self) -> Option<&str> {
        (!self.database.is_empty()).then_some(self.database.as_str())
    }

    /// It is not this host's ledger as it should be.
    pub(in super::super) fn lost(&self, problem: String) -> AccountsError {
        match self.database() {
            Some(database) => AccountsError::Database {
                database: database.to_string(),
                problem,
            },
            None => AccountsError::Ledger {
                path: self.path.clone(),
                problem,
            },
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.database() {
            Some(database) => write!(f, "the database '{database}'"),
            None => self.path.display().fmt(f),
        }
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Location {
        Location::in_database(path, "")
    }
}

impl From<&PathBuf> for Location {
    fn from(path: &PathBuf) -> Location {
        Location::from(path.as_path())
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Location {
        location.clone()
    }
}

impl From<&AccountsConfig> for Location {
    fn from(accounts: &AccountsConfig) -> Location {
        Location::of(accounts)
    }
}
