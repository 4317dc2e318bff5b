//! Jobs that may not start yet (`-h`, `-a`, `-hold_jid`): their promises are deferred, see [`libra_batch::server`].
//!
//! Such a job waits as qmaster lets it wait, and for one thing more: a value that none of its hosts has ([`super::starts`]). Each round asks for those
//! that wait for nothing else: one that is accepted has its share in the book, is written down, and gets its hosts' values last of all, so that whatever
//! starts it has it confirmed. Without room it is asked for again with the next rounds. What cannot be kept any more holds nothing and is not asked for
//! again; it waits until its owner deletes it.
//!
//! An array is asked for as a whole, when none of its tasks is held.

use super::admission::Admission;
use super::ends::{Ends, Watched};
use super::front_end::Front;
use super::problem::Problem;
use super::records::Records;
use super::starts::{self, Starts};
use super::submission::Submission;
use libra_batch::server::{Committed, NotConfirmed};
use libra_batch::verdict::{NotTaken, Refused, Verdict};
use libra_batch::words;
use libra_core::commitment::Commitment;
use libra_metrics::Outcome;
use libra_units::duration;

/// Jobs that a round asks for at most: submissions wait meanwhile. Those that were not asked for longest are the next ones.
const MOST_ASKED: usize = 8;

/// What came of a round.
#[derive(Debug, Default)]
pub struct Round {
    /// Starts that hosts are to have, beside those that they have.
    pub starts: Starts,
    /// Jobs whose promises cannot be kept any more.
    pub given_back: Vec<u32>,
    /// Lines for the log.
    pub log: Vec<String>,
}

impl Admission {
    /// Asks for jobs with deferred promises that may start. `ends`: those that were given back are over there.
    pub fn ask_deferred(&mut self, records: &Records, ends: &Ends, now: f64) -> Round {
        let mut round = Round::default();
        let mut wanted: Vec<(u32, Commitment, Submission)> = Vec::new();
        for job in records.may_start() {
            let is_array = records.jobs.get(&job).is_some_and(|listed| listed.is_array);
            let asked = (records.details.get(&job)).and_then(|detail| detail.asked.as_deref());
            let commitment = records.commitment(job).filter(|found| found.deferred);
            let (Some(asked), Some(commitment)) = (asked, commitment) else {
                continue;
            };
            // Of one whose hosts were not told, nothing is in the book after a while: it is asked for again.
            let is_confirmed = |watched: &Watched| {
                let token = watched.commitment.token;
                let is_in_book = token != commitment.token && self.server.book.has_token(token);
                is_in_book || watched.is_over()
            };
            if ends.jobs().get(&job).is_some_and(is_confirmed) {
                continue;
            }
            let mut submission = Submission::of_record(job, asked);
            submission.array = submission.array.filter(|_| is_array);
            wanted.push((job, commitment, submission));
        }
        (self.asked).retain(|known, _| wanted.iter().any(|(job, ..)| job == known));
        let last = |job: u32| self.asked.get(&job).map_or(0.0, |(at, _)| *at);
        wanted.sort_by(|(a, ..), (b, ..)| last(*a).total_cmp(&last(*b)).then(a.cmp(b)));
        for (job, commitment, submission) in wanted.into_iter().take(MOST_ASKED) {
            self.ask_for(job, &commitment, &submission, now, &mut round);
        }
        round
    }

    fn ask_for(
        &mut self,
        job: u32,
        commitment: &Commitment,
        submission: &Submission,
        now: f64,
        round: &mut Round,
    ) {
        let text = match self.confirm(commitment, submission, now) {
            Ok(committed) => {
                self.asked.remove(&job);
                return self.confirmed(job, submission, &committed, now, round);
            }
            Err(NotConfirmed {
                verdict,
                begin_within: Some(within),
            }) => format!(
                "job {job}: {}: it may start, and waits for room; its deadline can be kept if it begins within {} of its submission",
                words::headed_reason(&verdict),
                duration::show(within.floor())
            ),
            Err(NotConfirmed { verdict, .. }) => {
                self.asked.remove(&job);
                (self.counts).end_many(Outcome::Cancelled, u64::from(commitment.count));
                round.given_back.push(job);
                round.log.push(format!(
                    "job {job}: its deferred promise is given back: {}",
                    words::headed_reason(&verdict)
                ));
                return;
            }
        };
        let (at, said) = self.asked.entry(job).or_default();
        *at = now;
        // Said once, not with every round.
        if *said != text {
            round.log.push(text.clone());
            *said = text;
        }
    }

    fn confirm(
        &mut self,
        commitment: &Commitment,
        submission: &Submission,
        now: f64,
    ) -> Result<Committed, NotConfirmed<Problem>> {
        let due = commitment.submitted + commitment.request.terms.deadline;
        match (self.front).as_waiting(&self.server.book, submission, commitment) {
            Ok((specification, ever)) => (self.server).confirm::<Front>(
                commitment,
                &specification,
                Some(&ever),
                &submission.user,
                now,
            ),
            // Another problem than time is one that may go.
            Err(problem) if now < due => Err(NotConfirmed {
                verdict: NotTaken::from(problem),
                begin_within: Some(commitment.request.terms.deadline),
            }),
            Err(_) => {
                self.server.gate.never_began(commitment, now);
                Err(NotConfirmed {
                    verdict: Verdict::Refused(Refused::DeferredTooLong),
                    begin_within: None,
                })
            }
        }
    }

    fn confirmed(
        &mut self,
        job: u32,
        submission: &Submission,
        committed: &Committed,
        now: f64,
        round: &mut Round,
    ) {
        let commitment = &committed.commitment;
        let tasks = submission.array.map(|(first, _, step)| (first, step));
        if !self.bind(job, tasks, commitment, now) {
            return;
        }
        round.log.push(format!(
            "job {job} of {}: {} (its promise was deferred)",
            submission.user,
            committed.text::<Front>()
        ));
        for (host, more) in starts::of(job, commitment) {
            round.starts.entry(host).or_default().extend(more);
        }
        let watched = Watched::new(commitment.clone(), tasks);
        self.accepted.push((job, watched));
    }
}
