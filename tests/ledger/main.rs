//! Accounts on real files, with processes that are really killed and disks that are really full.

mod commands;
mod copies;
mod crashes;
mod database;
mod disks;
mod kills;
mod locks;
mod lost;
mod network;
#[path = "../postgres.rs"]
mod postgres;
#[path = "../program.rs"]
mod program;
mod service;
mod site;
mod worker;

use libra_accounts::AccountsError;
use libra_accounts::check::check;
use libra_accounts::flush::flush;
use libra_accounts::ledger::{Ledger, Location};
use libra_accounts::live::Live;
use libra_accounts::unix_millis;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where ledger and live state of a test are.
struct LedgerPaths {
    ledger: PathBuf,
    live: PathBuf,
}

/// Beside the ledger: a connection string, where it is in a database.
const DATABASE: &str = "database";

impl LedgerPaths {
    fn below(directory: &Path) -> LedgerPaths {
        LedgerPaths {
            ledger: directory.join("ledger.sqlite"),
            live: directory.join("live"),
        }
    }

    /// What keeps the ledger.
    fn at(&self) -> Location {
        let string = std::fs::read_to_string(self.ledger.with_file_name(DATABASE));
        Location::in_database(&self.ledger, &string.unwrap_or_default())
    }

    /// An empty ledger.
    fn make(&self) {
        Ledger::make(self.at(), unix_millis()).expect("made");
    }

    fn open(&self) -> Live {
        answered(|| Live::open(&self.live, self.at(), Duration::from_secs(120)))
    }

    fn history(&self) -> Ledger {
        answered(|| Ledger::open(self.at()))
    }

    /// Everything written down, and nothing wrong.
    fn assert_sound(&self) {
        let (live, ledger) = (self.open(), self.history());
        answered(|| flush(&live, &ledger));
        let found = check(&live, &ledger, i64::MAX).expect("reads");
        assert_eq!((found.problems, found.waiting), (Vec::new(), 0));
        assert_eq!(found.notes, Vec::<String>::new());
    }
}

/// A database may just have been killed: it is asked until it answers.
fn answered<T>(mut ask: impl FnMut() -> Result<T, AccountsError>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(AccountsError::Unreachable { .. })
                if begun.elapsed() < Duration::from_secs(600) =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            answer => return answer.expect("an answer"),
        }
    }
}
