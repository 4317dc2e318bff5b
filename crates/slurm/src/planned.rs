//! Dedicated jobs that did not fit when they were submitted, and have a planned start: see [`libra_batch::server`].
//!
//! Such a job waits in Slurm like one whose promise is deferred ([`super::deferred`]): its begin time is one of Libra's, so that nothing but a poll
//! lets it begin (squeue: `BeginTime`), and its comment says by when it does. Each poll asks whether it can: sooner than planned on any nodes, by
//! right on its own when it is due. Then its record gets its commitment, its nodes and a begin time of now, in one update.
//!
//! Its place is in the book and in the job's own record, nowhere else: whoever reads the records after a restart has the plan again.
//! A user who holds it, lets it wait for another job or gives it a later begin time gives its place away: its promise is deferred from then on.

use super::array::JobCommitment;
use super::controller::Controller;
use super::poll::Poll;
use super::waiting::Waits;
use libra_batch::server::NotBegun;
use libra_batch::words;
use libra_core::book::{JobRecord, Phase};
use libra_core::commitment::Commitment;
use libra_units::duration;
use libra_wording::errors;

/// What slurmctld does not have on record after so many seconds it has not taken.
const NOT_TAKEN: f64 = 30.0;

impl Controller {
    /// Asks whether a planned job can begin.
    pub(super) fn begin(&mut self, job: &Waits, owner: &str, now: f64, poll: &mut Poll) {
        let commitment = job.commitment();
        let judged = match self.front.as_waiting(&self.admission.book, job, now) {
            Ok(judged) => judged,
            // Another problem than time is one that may go.
            Err(_) if now < job.due() => return,
            Err(problem) => {
                self.admission.gate.never_began(commitment, now);
                return self.not_kept(job, &problem.to_string(), now, poll);
            }
        };
        let (specification, ever) = judged;
        let name = job.name();
        let begun = (self.admission).begin(
            &self.front,
            &name,
            commitment,
            &specification,
            Some(&ever),
            owner,
            now,
        );
        match begun {
            Ok(committed) => {
                let known = JobCommitment {
                    commitment: committed.commitment.clone(),
                    tasks: Vec::new(),
                };
                self.confirmed(job, &committed, &known, "it was planned", now, poll);
            }
            Err(NotBegun::Waits) => {
                let latest = commitment.starts_by.unwrap_or(now);
                self.say(job, commitment, &words::planned(commitment, latest), poll);
            }
            Err(NotBegun::PlannedAnew(anew)) => {
                let latest = anew.starts_by.unwrap_or(now);
                let text = format!(
                    "its planned start could not be had; {}",
                    words::planned(&anew, latest)
                );
                self.say(job, &anew, &text, poll);
            }
            Err(NotBegun::Overdue(within)) => {
                let text = format!(
                    "planned: its start is overdue, and it begins as soon as it fits; its deadline can be kept if it begins within {} of its submission",
                    duration::show(within.floor())
                );
                self.say(job, commitment, &text, poll);
            }
            Err(NotBegun::GivenBack(verdict)) => {
                let why = words::headed_reason(&verdict);
                self.not_kept(job, &why, now, poll);
            }
        }
    }

    /// A planned job that was let begin a moment ago, and whose record does not say so. Where slurmctld did not take what it was told, the job is
    /// planned again, as its record has it.
    pub(super) fn has_begun(&mut self, job: &Waits, now: f64) -> bool {
        let name = job.name();
        let book = &mut self.admission.book;
        let planned = job.commitment().starts_by.is_some();
        if !planned || !book.contains(&name) || book.starts_by(&name).is_some() {
            return false;
        }
        let asked = self.asked.get(&job.id).copied().unwrap_or(0.0);
        if now - asked > NOT_TAKEN && book.cancel(&name, now).is_ok() {
            // Who has kept its processors keeps its place.
            if let Err(error) = book.restore(&JobRecord::committed(
                &name,
                0,
                job.commitment(),
                Phase::Bound,
            )) {
                log::warn!("job {name}: {}", errors::book(&error));
            }
        }
        true
    }

    fn not_kept(&mut self, job: &Waits, why: &str, now: f64, poll: &mut Poll) {
        let text = format!(
            "its planned promise is given back: {why}; cancel it and submit it anew, or have it released (scontrol release, by an administrator) to run without a promise"
        );
        self.give_back(job, &text, true, now, poll);
    }

    /// Its user keeps it from beginning: nobody is to be refused for its sake.
    pub(super) fn take_place(&mut self, job: &Waits, now: f64, poll: &mut Poll) {
        let _ = self.admission.book.cancel(&job.name(), now);
        let deferred = Commitment {
            starts_by: None,
            ..job.commitment().clone()
        };
        let text = "deferred: it may not start yet, so its place is not kept any more; it is asked for anew when it may";
        self.say(job, &deferred, text, poll);
    }

    /// What is on record of it from now on, and what its owner is told. Each change of a record is work for slurmctld.
    fn say(&self, job: &Waits, commitment: &Commitment, text: &str, poll: &mut Poll) {
        let known = JobCommitment {
            commitment: commitment.clone(),
            tasks: Vec::new(),
        };
        let rewrite = job.rewrite(known.comment(), text);
        if rewrite.comment != job.comment || *commitment != *job.commitment() {
            poll.log.push(format!("job {}: {text}", job.name()));
            poll.rewrites.push(rewrite);
        }
    }
}
