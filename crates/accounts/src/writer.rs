//! A thread that writes the journal down, beside whoever admits.
//!
//! It has connections of its own and no lock in common with the decisions. It makes no live state: where another host's counts since, those who admit here
//! have to know of it first.

use super::AccountsError;
use super::flush::{flush, is_outdated};
use super::ledger::Ledger;
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
    /// What is wrong with the ledger itself, as the last round found it.
    lost: Arc<Mutex<Option<String>>>,
    thread: std::thread::Thread,
}

impl Writer {
    /// Starts it.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(live: PathBuf, ledger: PathBuf) -> std::io::Result<Writer> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let lost = Arc::new(Mutex::new(None));
        let found = Arc::clone(&lost);
        let begun = std::thread::Builder::new()
            .name("libra-ledger".to_string())
            .spawn(move || {
                let (mut open, mut problem, mut swept) = (None, None, None::<Instant>);
                while !stopped.load(Ordering::Relaxed) {
                    let round = std::panic::AssertUnwindSafe(|| {
                        round(&mut open, &live, &ledger, &mut swept)
                    });
                    let done = std::panic::catch_unwind(round);
                    *found.lock().unwrap_or_else(PoisonError::into_inner) = match &done {
                        Ok(Err(AccountsError::Ledger { problem, .. })) => Some(problem.clone()),
                        _ => None,
                    };
                    let said = match done {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) => Some(error.to_string()),
                        Err(_) => Some("a fault while writing".to_string()),
                    };
                    if said != problem {
                        match &said {
                            Some(error) => {
                                log::error!("accounts: nothing is written down: {error}; trying on")
                            }
                            None => log::info!("accounts: written down again"),
                        }
                        problem = said;
                    }
                    if problem.is_some() {
                        open = None;
                    }
                    std::thread::park_timeout(INTERVAL);
                }
            })?;
        Ok(Writer {
            stop,
            lost,
            thread: begun.thread().clone(),
        })
    }
}

impl Writer {
    /// What is wrong with the ledger itself (removed, replaced, empty), half a second ago or less. A disk that is full is nothing of the
    /// kind: what happens waits for it.
    pub fn lost(&self) -> Option<String> {
        (self.lost.lock().unwrap_or_else(PoisonError::into_inner)).clone()
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
    ledger: &std::path::Path,
    swept: &mut Option<Instant>,
) -> Result<(), AccountsError> {
    if open.is_none() {
        let opened = Live::open_present(live, ledger, super::ledger::PATIENCE)?;
        *open = Some((opened, Ledger::open(ledger)?));
    }
    let Some((live, ledger)) = open else {
        return Ok(());
    };
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
