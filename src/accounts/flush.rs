//! From the journal into the ledger.
//!
//! First written down and on the disk, then taken out of the journal: killed in between, the same entries are written again
//! under the same numbers, which the ledger takes once. Any process may do it, several at a time as well.

use super::AccountsError;
use super::ledger::Ledger;
use super::live::Live;

/// Entries in one transaction of the ledger.
const AT_ONCE: usize = 2000;

/// Writes down what waits in the journal. Returns how many entries there were.
///
/// # Errors
/// When the ledger cannot be written, or the live state is not of this ledger any more ([`is_outdated`]).
pub fn flush(live: &Live, ledger: &Ledger) -> Result<usize, AccountsError> {
    let mut written = 0;
    loop {
        let entries = live.journal(AT_ONCE)?;
        let Some((last, _)) = entries.last() else {
            return Ok(written);
        };
        ledger.try_(|c| c.execute_batch("BEGIN IMMEDIATE"))?;
        let done = match ledger.identity() {
            Ok(identity) if identity == live.generation => ledger.try_(|_| ledger.write(&entries)),
            Ok(_) => Err(outdated(live)),
            Err(error) => Err(error),
        };
        ledger.try_(|c| c.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }))?;
        done?;
        live.forget_journal(*last)?;
        written += entries.len();
    }
}

/// Was another live state made of this ledger since?
///
/// # Errors
/// When the ledger cannot be read.
pub fn is_outdated(live: &Live, ledger: &Ledger) -> Result<bool, AccountsError> {
    Ok(ledger.identity()? != live.generation)
}

fn outdated(live: &Live) -> AccountsError {
    AccountsError::File {
        path: live.path.clone(),
        problem:
            "another live state was made of the ledger since; this one is not written down any more"
                .to_string(),
    }
}
