//! Accounts on real files, with processes that are really killed and disks that are really full.

mod commands;
mod copies;
mod crashes;
mod disks;
mod kills;
mod locks;
mod lost;
mod network;
#[path = "../program.rs"]
mod program;
mod service;
mod site;
mod worker;

use libra_accounts::check::check;
use libra_accounts::flush::flush;
use libra_accounts::ledger::Ledger;
use libra_accounts::live::Live;
use libra_accounts::unix_millis;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where ledger and live state of a test are.
struct LedgerPaths {
    ledger: PathBuf,
    live: PathBuf,
}

impl LedgerPaths {
    fn below(directory: &Path) -> LedgerPaths {
        LedgerPaths {
            ledger: directory.join("ledger.sqlite"),
            live: directory.join("live"),
        }
    }

    /// An empty ledger.
    fn make(&self) {
        Ledger::make(&self.ledger, unix_millis()).expect("made");
    }

    fn open(&self) -> Live {
        Live::open(&self.live, &self.ledger, Duration::from_secs(120)).expect("opens")
    }

    fn history(&self) -> Ledger {
        Ledger::open(&self.ledger).expect("opens")
    }

    /// Everything written down, and nothing wrong.
    fn assert_sound(&self) {
        let (live, ledger) = (self.open(), self.history());
        flush(&live, &ledger).expect("writes");
        let found = check(&live, &ledger, i64::MAX).expect("reads");
        assert_eq!((found.problems, found.waiting), (Vec::new(), 0));
        assert_eq!(found.notes, Vec::<String>::new());
    }
}
