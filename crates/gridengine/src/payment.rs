//! What is paid in Grid Engine: holds of jobs that are watched, charges of jobs that have ended.
//!
//! Beside the book and with accounts of its own, so that no submission waits for it. All of it can be done again: a hold is settled once.

use super::ends::{Ended, Ends};
use libra_accounts::AccountsError;
use libra_accounts::payments::Payments;
use std::collections::HashSet;

/// Time between two comparisons of all holds with all jobs, in seconds.
const COMPARISONS: f64 = 30.0;

/// What is remembered from round to round.
pub struct Settler {
    payments: Payments,
    /// Tokens of jobs whose holds were named.
    named: HashSet<u64>,
    compared: f64,
    /// What could not be settled, as it was said last.
    unsettled: Option<String>,
}

impl Settler {
    /// Over these accounts.
    pub fn new(payments: Payments) -> Settler {
        Settler {
            payments,
            named: HashSet::new(),
            compared: 0.0,
            unsettled: None,
        }
    }

    /// Returns true if these accounts are no longer those on the disk. See [`Payments::is_stale`].
    pub fn is_stale(&self) -> bool {
        self.payments.is_stale()
    }

    /// Open holds and their sum in credits, for the metrics; None if they cannot be read.
    pub fn held(&self) -> Option<(u64, f64)> {
        self.payments.held().ok()
    }

    /// Settles what has ended: that is taken out of `ended`, and what could not be settled stays in it. Holds without a job, as qmaster's records of
    /// `taken` have them, are free again. Returns lines for the log.
    ///
    /// # Errors
    /// When the accounts cannot be read or written; the next round does it again.
    pub fn round(
        &mut self,
        ends: &mut Ends,
        ended: &mut Vec<Ended>,
        taken: f64,
        now: f64,
    ) -> Result<Vec<String>, AccountsError> {
        let mut log = Vec::new();
        for (job, watched) in ends.jobs().iter().filter(|(_, watched)| !watched.is_over()) {
            if self.named.insert(watched.commitment.token) {
                self.payments.named(&watched.commitment, &job.to_string())?;
            }
        }
        let mut unsettled = None;
        let mut left = Vec::new();
        let mut failed = None;
        for one in ended.drain(..) {
            if failed.is_some() {
                left.push(one);
                continue;
            }
            match (self.payments).ended(&one.commitment, one.part, &one.end, now) {
                Ok(settled) => {
                    log.extend(settled.map(|settled| format!("job {}: {settled}", one.name)));
                    ends.settled(&one);
                }
                // What is about one account keeps no other job from being settled.
                Err(error) if error.is_refusal() => {
                    unsettled.get_or_insert_with(|| format!("accounts: job {}: {error}", one.name));
                    left.push(one);
                }
                Err(error) => {
                    failed = Some(error);
                    left.push(one);
                }
            }
        }
        *ended = left;
        // Said once, not with every round.
        if unsettled != self.unsettled {
            log.extend(unsettled.clone());
            self.unsettled = unsettled;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let tokens =
            |named: &u64| (ends.jobs().values()).any(|watched| watched.commitment.token == *named);
        if now - self.compared >= COMPARISONS {
            self.named.retain(tokens);
            self.compared = now;
            let present = (ends.jobs().values())
                .filter(|watched| !watched.is_over())
                .map(|watched| &watched.commitment);
            let found = (self.payments).reconcile(present, HashSet::new(), taken, now);
            log.extend(found?);
        }
        Ok(log)
    }
}
