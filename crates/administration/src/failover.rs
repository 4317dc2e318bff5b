//! Where a second server can take over: what of the accounts both must see, and what each has of its own.

use crate::findings::Findings;
use libra_config::database::is_on_this_host;
use libra_config::{AccountsConfig, AccountsMode};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `shared`: where the batch system keeps what both servers see; `name`: what it calls that.
pub fn accounts(findings: &mut Findings, accounts: &AccountsConfig, shared: &Path, name: &str) {
    if accounts.mode == AccountsMode::Off {
        return;
    }
    if !shared.exists() && accounts.database.is_empty() {
        findings.warning(format!(
            "failover: {name}, {}, is not there, so it is not known whether the ledger is where both servers see it",
            shared.display()
        ));
        return;
    }
    let disk = |path: &Path| {
        let there = path.ancestors().find(|path| path.exists())?;
        fs::metadata(there).ok().map(|found| found.dev())
    };
    let common = disk(shared);
    if !accounts.database.is_empty() {
        database(findings, &accounts.database);
    } else if disk(&accounts.ledger) == common {
        findings.ok(format!(
            "failover: the ledger of the accounts is on the disk of {name}"
        ));
    } else {
        findings.problem(format!(
            "failover: the ledger {} is not on the disk of {name}, so who takes over would have none: give accounts.ledger a place on the disk of {}",
            accounts.ledger.display(),
            shared.display()
        ));
    }
    if shared.exists() && disk(&accounts.live) == common {
        findings.warning(format!(
            "failover: accounts.live, {}, is on the disk of {name}; it is the memory of one host, and each server has its own: give it a place below /run",
            accounts.live.display()
        ));
    }
}

/// Both servers reach it; what is one host's is what leads to it there.
fn database(findings: &mut Findings, database: &str) {
    match is_on_this_host(database) {
        false => findings.ok(format!(
            "failover: the ledger of the accounts is in the database '{database}', which both servers use"
        )),
        true => findings.warning(format!(
            "failover: the ledger of the accounts is in the database '{database}', which leads to a server of each host's own: name one that both \
             servers reach with host= in accounts.database"
        )),
    }
}
