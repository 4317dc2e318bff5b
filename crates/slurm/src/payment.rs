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
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

/// Time between two comparisons of all holds with all jobs, in seconds.
const COMPARISONS: f64 = 30.0;

/// What is remembered from poll to poll.
pub struct Settler {
    payments: Payments,
    /// Holds whose jobs were named.
    named: HashSet<String>,
    compared: f64,
    runs: Runs,
    /// Jobs that run once more, and whose accounts do not cover it.
    unpaid: HashSet<u32>,
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
            runs: Runs::default(),
            unpaid: HashSet::new(),
            unsettled: None,
        }
    }

    /// Returns true if these accounts are no longer those on the disk. See [`Payments::is_stale`].
    pub fn is_stale(&self) -> bool {
        self.payments.is_stale()
    }

    /// Writes down what waits in this host's memory.
    ///
    /// # Errors
    /// When the ledger cannot be written, or another host has made its own state of it since.
    pub fn write_down(&self) -> Result<(), AccountsError> {
        self.payments.flush()
    }

    /// Jobs that run once more after they were paid for, and that nobody pays for now: they are to have no promise.
    pub fn take_unpaid(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.unpaid)
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
        let mut round = Round {
            open: (self.payments.open_holds()?.into_iter())
                .map(|hold| hold.key)
                .collect(),
            now,
            compare: now - self.compared >= COMPARISONS,
            present: Vec::new(),
            running_again: HashSet::new(),
            log: Vec::new(),
        };
        let mut unsettled = None;
        let mut tried = |result: Result<(), AccountsError>, what: &dyn Fn() -> String| match result
        {
            // What is about one job or one account keeps no other job from being settled.
            Err(error) if error.is_refusal() => {
                unsettled.get_or_insert_with(|| format!("accounts: {}: {error}", what()));
                Ok(())
            }
            other => other,
        };
        for commitment in dropped {
            let done = self.payments.never_began(commitment, now);
            tried(done, &|| format!("commitment {}", commitment.token))?;
        }
        self.named.retain(|key| round.open.contains(key));
        self.runs.forget_others(records);
        for job in &records.jobs {
            let Some(Ok(commitment)) = job.admin_comment.commitment() else {
                continue;
            };
            self.runs.saw(job);
            let done = self.job(job, commitment, &mut round);
            tried(done, &|| format!("job {}", job.id))?;
        }
        let Round {
            present,
            running_again,
            mut log,
            ..
        } = round;
        if round.compare {
            self.compared = now;
            let found = self
                .payments
                .reconcile(present.iter(), running_again, records.taken, now);
            log.extend(found?);
        }
        // Said once, not with every poll.
        if unsettled != self.unsettled {
            log.extend(unsettled.clone());
            self.unsettled = unsettled;
        }
        Ok(log)
    }

    /// One job, or the tasks of an array that wait.
    fn job(
        &mut self,
        job: &SlurmJob,
        known: &JobCommitment,
        round: &mut Round,
    ) -> Result<(), AccountsError> {
        let parts = job.parts(known);
        let commitment = &known.commitment;
        let payments = &mut self.payments;
        let key = payments.key(commitment);
        let is_open = round.open.contains(&key);
        if is_open && !self.named.contains(&key) {
            let id = job.array.as_ref().map_or(job.id, |array| array.array);
            payments.named(commitment, &id.to_string())?;
            self.named.insert(key);
        }
        if job.state != State::Ended && is_open && round.compare {
            round.present.push(commitment.clone());
        }
        // It had ended and been paid for when somebody requeued it.
        if let (1.., [(name, number)]) = (job.restarts, &parts[..]) {
            if !is_open || payments.is_settled(commitment, *number)? {
                return self.runs_again(job, name, commitment, *number, round);
            }
        }
        if job.state != State::Ended {
            if !is_open && round.compare {
                round.present.push(commitment.clone());
            }
            return Ok(());
        }
        if !is_open {
            return Ok(());
        }
        let end = end(
            job,
            commitment,
            self.runs.ran(job, 0..=job.restarts),
            round.now,
        );
        for (name, number) in parts {
            if let Some(settled) = payments.ended(commitment, number, &end, round.now)? {
                round.log.push(format!("job {name}: {settled}"));
            }
        }
        Ok(())
    }

    /// One that was settled and runs once more: each run has a hold of its own, and is settled when it ends, or the next one begins.
    fn runs_again(
        &mut self,
        job: &SlurmJob,
        name: &str,
        commitment: &Commitment,
        number: u32,
        round: &mut Round,
    ) -> Result<(), AccountsError> {
        let payments = &mut self.payments;
        let over = match job.state {
            State::Ended => job.restarts,
            _ => job.restarts - 1,
        };
        for run in 1..=over {
            if !round
                .open
                .contains(&payments.key_again(commitment, number, run))
            {
                continue;
            }
            let ran = self.runs.ran(job, run..=run);
            // Its deadline is over: what counts is how long it ran.
            let end = End {
                how: match job.how {
                    _ if run < job.restarts => HowEnded::Cancelled,
                    HowEnded::NeverBegan if ran > 0.0 => HowEnded::Cancelled,
                    how => how,
                },
                took: ran,
                used: Some(ran * commitment.share_on("")),
                waited: Some(0.0),
                restarted: true,
            };
            let settled = payments.ended_again(commitment, number, run, &end, round.now)?;
            if let Some(settled) = settled {
                round.log.push(format!("job {name}: {settled}"));
            }
        }
        if job.state == State::Ended {
            return Ok(());
        }
        let key = payments.key_again(commitment, number, job.restarts);
        if !round.open.contains(&key) {
            match payments.cover_again(commitment, number, job.restarts, round.now) {
                Ok(true) => {
                    payments.named_again(commitment, number, job.restarts, name)?;
                    (round.log).push(format!("job {name}: runs once more and is paid for again"));
                }
                Ok(false) => {}
                Err(error) if error.is_refusal() => {
                    self.unpaid.insert(job.id);
                }
                Err(error) => return Err(error),
            }
        }
        round.running_again.insert(key);
        Ok(())
    }
}

/// What one round has found.
struct Round {
    /// Keys of holds.
    open: HashSet<String>,
    now: f64,
    /// Whether all holds are compared with all jobs this time.
    compare: bool,
    present: Vec<Commitment>,
    /// Keys of the holds of jobs that run once more.
    running_again: HashSet<String>,
    log: Vec<String>,
}

/// How long each job ran, by its runs and as polls have seen it: Slurm knows the last run alone, and a user may requeue a job as often as he
/// likes. What ran before slurmctld began anew is not known.
#[derive(Default)]
struct Runs(HashMap<u32, BTreeMap<u32, f64>>);

impl Runs {
    fn saw(&mut self, job: &SlurmJob) {
        if job.ran > 0.0 {
            let runs = self.0.entry(job.id).or_default();
            let ran = runs.entry(job.restarts).or_default();
            *ran = ran.max(job.ran);
        }
    }

    /// Seconds that it ran in these runs.
    fn ran(&self, job: &SlurmJob, runs: RangeInclusive<u32>) -> f64 {
        let known = self.0.get(&job.id);
        known.map_or(0.0, |known| known.range(runs).map(|(_, ran)| ran).sum())
    }

    fn forget_others(&mut self, records: &Records) {
        if !self.0.is_empty() {
            let there: HashSet<u32> = records.jobs.iter().map(|job| job.id).collect();
            self.0.retain(|job, _| there.contains(job));
        }
    }
}

/// How it ended. `ran`: seconds in all its runs. Of a job that was requeued Slurm does not tell by whom, so nobody knows for whom it waited. Components of a
/// heterogeneous job are begun by backfilling alone, at its own interval: what they waited is no delay of the site's.
fn end(job: &SlurmJob, commitment: &Commitment, ran: f64, now: f64) -> End {
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
    let began = how != HowEnded::NeverBegan;
    End {
        how,
        took,
        used: (began && (ran > 0.0 || !restarted)).then(|| ran * commitment.share_on("")),
        waited: (began && !restarted && !job.component).then(|| (took - ran).max(0.0)),
        restarted,
    }
}
