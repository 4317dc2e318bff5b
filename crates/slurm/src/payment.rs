//! What is paid in Slurm: holds of jobs in the queue, charges of jobs that have ended.
//!
//! Beside the book, by the thread that reads the queue and with accounts of its own, so that no submission waits for it. All
//! of it can be done again: a hold is settled once.
//!
//! Slurm's controller does not know what a job used. It is taken to have used what its share gave it while it ran (suspended
//! time not counted): who is late after that has used more than its estimate, who is late because it did not run has not.

use super::array::JobCommitment;
use super::records::{Records, SlurmJob, State};
use libra_accounts::AccountsError;
use libra_accounts::payments::Payments;
use libra_accounts::settlement::{End, HowEnded};
use libra_core::commitment::Commitment;
use std::collections::HashSet;

/// Time between two comparisons of all holds with all jobs, in seconds.
const COMPARISONS: f64 = 30.0;

/// What is remembered from poll to poll.
pub struct Settler {
    payments: Payments,
    /// Holds whose jobs were named.
    named: HashSet<String>,
    compared: f64,
    /// What could not be settled, as it was said last.
    unsound: Option<String>,
}

impl Settler {
    /// Over these accounts.
    pub fn new(payments: Payments) -> Settler {
        Settler {
            payments,
            named: HashSet::new(),
            compared: 0.0,
            unsound: None,
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

    /// One poll's records. `dropped`: what is committed and has no job. Returns lines for the log.
    ///
    /// # Errors
    /// When the accounts cannot be read or written; the next round does it again.
    pub fn round(
        &mut self,
        records: &Records,
        dropped: &[Commitment],
        now: f64,
    ) -> Result<Vec<String>, AccountsError> {
        let payments = &mut self.payments;
        let mut log = Vec::new();
        let mut unsound = None;
        let mut running_again = HashSet::new();
        for commitment in dropped {
            payments.never_began(commitment, now)?;
        }
        let open: HashSet<String> = (payments.open_holds()?.into_iter())
            .map(|hold| hold.key)
            .collect();
        self.named.retain(|key| open.contains(key));
        let compare = now - self.compared >= COMPARISONS;
        let mut present = Vec::new();
        for job in &records.jobs {
            let Some(Ok(JobCommitment { commitment, tasks })) =
                JobCommitment::parse(&job.admin_comment)
            else {
                continue;
            };
            let key = payments.key(&commitment);
            let is_open = open.contains(&key);
            if is_open && !self.named.contains(&key) {
                let id = job.array.as_ref().map_or(job.id, |array| array.array);
                payments.named(&commitment, &id.to_string())?;
                self.named.insert(key);
            }
            // It had ended and been paid for when somebody requeued it.
            let again =
                (job.restarts > 0 && !is_open && commitment.count == 1).then_some(job.restarts);
            if job.state != State::Ended {
                if let Some(run) = again {
                    let key = payments.key_again(&commitment, run);
                    if !open.contains(&key) && payments.ensure_again(&commitment, run, now)? {
                        payments.named_again(&commitment, run, &job.id.to_string())?;
                        log.push(format!(
                            "job {}: runs once more and is paid for again",
                            job.id
                        ));
                    }
                    running_again.insert(key);
                } else if compare {
                    present.push(commitment);
                }
                continue;
            }
            if let Some(run) = again {
                if open.contains(&payments.key_again(&commitment, run)) {
                    // Its deadline is over: what counts is how long it ran.
                    let end = End {
                        how: job.how,
                        took: job.ran,
                        used: Some(job.ran * commitment.share_on("")),
                        waited: Some(0.0),
                        restarted: true,
                    };
                    if let Some(settled) = payments.ended_again(&commitment, run, &end, now)? {
                        log.push(format!("job {}: {settled}", job.id));
                    }
                }
                continue;
            }
            if !is_open {
                continue;
            }
            let end = end(job, &commitment, now);
            for (name, number) in job.parts(&JobCommitment {
                commitment: commitment.clone(),
                tasks,
            }) {
                match payments.ended(&commitment, number, &end, now) {
                    Ok(Some(settled)) => log.push(format!("job {name}: {settled}")),
                    Ok(None) => {}
                    // One that cannot be settled keeps no other from it.
                    Err(error @ AccountsError::Unsound(_)) => {
                        unsound.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if compare {
            self.compared = now;
            log.extend(payments.reconcile(present.iter(), running_again, records.taken, now)?);
        }
        // Said once, not with every poll.
        let unsound = unsound.map(|error| format!("accounts: {error}"));
        if unsound != self.unsound {
            log.extend(unsound.clone());
            self.unsound = unsound;
        }
        Ok(log)
    }
}

/// A job that was requeued: Slurm tells neither by whom nor what it had run before.
fn end(job: &SlurmJob, commitment: &Commitment, now: f64) -> End {
    let ended = match job.ended > commitment.submitted {
        true => job.ended.min(now),
        false => now,
    };
    let took = ended - commitment.submitted;
    let restarted = job.restarts > 0;
    let how = match job.how {
        HowEnded::NeverBegan if restarted => HowEnded::Cancelled,
        how => how,
    };
    let counted = how != HowEnded::NeverBegan && !restarted;
    End {
        how,
        took,
        used: counted.then(|| job.ran * commitment.share_on("")),
        waited: counted.then(|| (took - job.ran).max(0.0)),
        restarted,
    }
}
