//! A thread that writes the journal down, beside whoever admits, and renews the lease of a ledger in a database.
//!
//! It has connections of its own and no lock in common with the decisions.
//!
//! Of a ledger in a file it makes no live state: where another host's counts since, those who admit here have to know of it first. With a database the
//! lease sees to that, so this thread does it for those who admit: a network may be slow, and pbs_server cannot wait for that.

use super::AccountsError;
use super::flush::{flush, is_outdated};
use super::ledger::{Claim, Ledger, Location, PATIENCE};
use super::live::{Act, Live};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two polls of the journal.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two searches for what has expired.
const SWEEPS: Duration = Duration::from_secs(60);

/// The running thread; it ends with this.
pub struct Writer {
    stop: Arc<AtomicBool>,
    /// What the last round failed of.
    problem: Arc<Mutex<Option<AccountsError>>>,
    thread: std::thread::Thread,
}

impl Writer {
    /// Starts it. `claim`: whose lease of a database it takes.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(live: PathBuf, ledger: Location, claim: Claim) -> std::io::Result<Writer> {
        let claim = ledger.database().map(|_| claim);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let failed = Arc::new(Mutex::new(None));
        let found = Arc::clone(&failed);
        let begun = std::thread::Builder::new()
            .name("libra-ledger".to_string())
            .spawn(move || {
                let mut claim = claim;
                let (mut open, mut problem, mut swept) = (None, None, None::<Instant>);
                while !stopped.load(Ordering::Relaxed) {
                    let round = std::panic::AssertUnwindSafe(|| {
                        round(&mut open, &live, &ledger, claim, &mut swept)
                    });
                    let done = std::panic::catch_unwind(round);
                    let said = match &done {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) => Some(error.to_string()),
                        Err(_) => Some("a fault while writing".to_string()),
                    };
                    *found.lock().unwrap_or_else(PoisonError::into_inner) =
                        done.ok().and_then(Result::err);
                    if said != problem {
                        match &said {
                            Some(error) => {
                                log::error!("accounts: nothing is written down: {error}; trying on")
                            }
                            None => log::info!("accounts: written down again"),
                        }
                        problem = said;
                    }
                    // Another host that takes it from this one is not kept from it: two would do so for ever.
                    if open.is_some() && claim == Some(Claim::Over) {
                        claim = Some(Claim::Expired);
                    }
                    if problem.is_some() {
                        open = None;
                    }
                    std::thread::park_timeout(INTERVAL);
                }
            })?;
        Ok(Writer {
            stop,
            problem: failed,
            thread: begun.thread().clone(),
        })
    }
}

impl Writer {
    /// What is wrong with the ledger itself (removed, replaced, empty), half a second ago or less. A disk that is full is nothing of the
    /// kind: what happens waits for it.
    pub fn lost(&self) -> Option<String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.as_ref()?.lost_ledger().map(str::to_string)
    }

    /// What the last round failed of, once.
    pub(super) fn take_problem(&self) -> Option<AccountsError> {
        (self.problem.lock().unwrap_or_else(PoisonError::into_inner)).take()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Not waited for: what is in the journal stays there, and the next one writes it down.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

fn round(
    open: &mut Option<(Live, Ledger)>,
    live: &std::path::Path,
    ledger: &Location,
    claim: Option<Claim>,
    swept: &mut Option<Instant>,
) -> Result<(), AccountsError> {
    if open.is_none() {
        let opened = match claim {
            Some(claim) => Live::open_within(live, ledger, (PATIENCE, PATIENCE), claim)?,
            None => Live::open_present(live, ledger, (PATIENCE, PATIENCE))?,
        };
        *open = Some((opened, Ledger::open(ledger)?));
    }
    let Some((live, ledger)) = open else {
        return Ok(());
    };
    live.renew(ledger)?;
    if swept.is_none_or(|swept| swept.elapsed() >= SWEEPS) {
        live.sweep(Act {
            at: super::unix_millis(),
            by: "libra",
            note: "",
        })?;
        *swept = Some(Instant::now());
    }
    flush(live, ledger)?;
    ledger.is_there()?;
    if is_outdated(live, ledger)? {
        *open = None;
    }
    Ok(())
}
