//! From the journal into the ledger.
//!
//! First written down and on the disk, then taken out of the journal: killed in between, the same entries are written again
//! under the same numbers, which the ledger takes once. Any process may do it, several at a time as well.

use super::AccountsError;
use super::crash::point;
use super::ledger::Ledger;
use super::live::{Live, outdated};

/// Entries that are read at a time.
const AT_ONCE: usize = 2000;

/// Writes down what waits in the journal. Returns how many entries there were.
///
/// # Errors
/// When the ledger is not there any more or cannot be written, or the live state is not of this ledger any more ([`is_outdated`]).
/// Nothing is taken out of the journal then.
pub fn flush(live: &Live, ledger: &Ledger) -> Result<usize, AccountsError> {
    ledger.is_there()?;
    let mut entries = live.journal(0, AT_ONCE)?;
    if entries.is_empty() {
        return Ok(0);
    }
    // Others may write down meanwhile, so it is known before.
    let known = live.written()?;
    let (written, last) = ledger.exclusively(|| {
        if ledger.identity()? != live.generation {
            return Err(outdated(&live.path));
        }
        let written = ledger.written()?;
        if written < known {
            return Err(live.older(written, known));
        }
        let (mut written, mut last) = (0, 0);
        // All in one transaction, up to where a step of the live state ends: a power failure must not leave half a step in the
        // ledger.
        loop {
            ledger.write(&entries)?;
            written += entries.len();
            last = entries.last().map_or(last, |(id, _)| *id);
            if entries.len() < AT_ONCE {
                break;
            }
            entries = live.journal(last, AT_ONCE)?;
        }
        point("flush: before commit");
        Ok((written, last))
    })?;
    point("flush: after commit");
    // Into a file that was removed meanwhile nothing was written down.
    ledger.is_there()?;
    live.forget_journal(last)?;
    Ok(written)
}

/// Returns true if another live state was made of this ledger since, or the ledger was replaced by another one.
///
/// # Errors
/// When the ledger cannot be read.
pub fn is_outdated(live: &Live, ledger: &Ledger) -> Result<bool, AccountsError> {
    Ok(ledger.is_there().is_err() || ledger.identity()? != live.generation)
}
