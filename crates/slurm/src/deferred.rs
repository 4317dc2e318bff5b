//! Jobs that may not start yet (`--dependency`, `--begin`, `--hold`): their promises are deferred, see [`libra_batch::server`].
//!
//! Such a job waits as Slurm lets it wait, and for one thing more: its begin time, which Libra sets [`KEPT`](super::waiting::KEPT) later than its user has asked for. Slurm
//! starts nothing before its begin time, whatever its scheduler does meanwhile and whoever is not there when its other conditions are met, a restart of
//! slurmctld included. When it was to begin is so in the job's own record, and a user who changes that changes nothing else ([`super::rules`]). What
//! it is held for and depends on is Slurm's alone; a dependency is shown first (`Dependency`), a hold before all (`JobHeldUser`).
//!
//! A poll that finds a job that waits for nothing else asks for it anew: accepted, its record gets its commitment and its nodes, and last of all a begin
//! time of now, in one update; so whoever starts it has it confirmed. Without room it is asked again with the next polls. What cannot be kept any more is held,
//! with a record that it has no promise, and may begin; released by an administrator it runs without one. A dependency that will never be met Slurm
//! itself keeps from starting for good: its promise is given back, and it stays as it is.
//!
//! An array is asked for as a whole, when all its tasks that are left may start.

use super::array::{JobCommitment, NOTHING, is_deferred};
use super::controller::Controller;
use super::front_end::{Front, Room};
use super::poll::Poll;
use super::problem::{NotTaken, Problem};
use super::records::{Records, Rewrite, SlurmJob};
use super::submission::{Asked, Submission, features};
use super::waiting::{Waits, begin_for_slurm, groups};
use libra_batch::front_end::{Domain, JobSpecification};
use libra_batch::server::{Committed, NotConfirmed};
use libra_batch::verdict::{Refused, Verdict};
use libra_batch::words;
use libra_core::decision::job::Request;
use libra_metrics::Outcome;
use libra_units::{credits, duration, percent};

/// Jobs that a poll asks for at most: submissions wait meanwhile. Those that are due by a plan come first, then those that were not asked for longest.
const MOST_ASKED: usize = 8;

impl Controller {
    /// Acceptances that are deferred and whose jobs have been seen are waited for no more; what has none holds nothing.
    pub(super) fn find_deferred(&mut self, records: &Records, unnamed: f64, poll: &mut Poll) {
        if self.unseen.is_empty() {
            return;
        }
        let seen: Vec<u64> = (records.jobs.iter())
            .filter(|job| is_deferred(&job.admin_comment))
            .filter_map(|job| job.admin_comment.commitment()?.ok())
            .map(|known| known.commitment.token)
            .collect();
        self.unseen.retain(|commitment| {
            if seen.contains(&commitment.token) {
                return false;
            }
            let young = commitment.submitted >= records.taken - unnamed;
            if !young {
                poll.dropped.push(commitment.clone());
            }
            young
        });
        // Until it was seen its user may not change when it is asked for.
        poll.again = !self.unseen.is_empty();
    }

    /// A job that ended with a deferred promise on record: told once, however long Slurm shows it. Either it was not confirmed, or it was over
    /// before slurmctld could write that down.
    pub(super) fn end_deferred(
        &mut self,
        job: &SlurmJob,
        known: &JobCommitment,
        now: f64,
        poll: &mut Poll,
    ) {
        let waited = self.deferred_jobs.remove(&job.id).is_some();
        let token = known.commitment.token;
        let mut booked = 0;
        for (name, _) in job.parts(known) {
            booked += u64::from(self.admission.book.cancel(&name, now).is_ok());
        }
        let (jobs, why) = if waited || self.unseen.iter().any(|unseen| unseen.token == token) {
            let tasks = job.array.as_ref().map_or(1, |array| array.tasks.len());
            (tasks as u64, "its promise was deferred")
        } else {
            (booked, "it was over when its promise was confirmed")
        };
        if jobs == 0 {
            return;
        }
        poll.counts.end_many(Outcome::Cancelled, jobs);
        let name = job.name();
        poll.log
            .push(format!("job {name} was ended before it was done: {why}"));
    }

    /// Asks for jobs that may start, and gives back what cannot be kept.
    pub(super) fn ask_deferred(&mut self, waits: &[Waits], now: f64, poll: &mut Poll) {
        self.deferred_jobs = (waits.iter())
            .flat_map(|job| job.numbers().map(|number| (number, job.due())))
            .collect();
        for job in waits.iter().filter(|job| job.not_kept) {
            let text = "Slurm has taken its begin time away, and has it again";
            poll.log.push(format!("job {}: {text}", job.name()));
            poll.rewrites.push(Rewrite {
                comment: job.comment.clone(),
                begin: Some(begin_for_slurm(now)),
                ..job.rewrite(job.known.comment(), text)
            });
        }
        for job in waits.iter().filter(|job| job.wants_no_place()) {
            self.take_place(job, now, poll);
        }
        let waits = waits.iter().filter(|job| !job.wants_no_place());
        let wanted =
            |job: &&Waits| !job.not_kept && (job.waiting.never || !job.not_yet || now >= job.due());
        let mut wanted: Vec<&Waits> = waits.filter(wanted).collect();
        let asked = |job: &Waits| self.asked.get(&job.id).copied().unwrap_or(0.0);
        let due = |job: &Waits| job.commitment().starts_by.is_some_and(|by| by <= now);
        wanted.sort_by(|a, b| {
            let by_turn = asked(a).total_cmp(&asked(b)).then(a.id.cmp(&b.id));
            due(b).cmp(&due(a)).then(by_turn)
        });
        let known: Vec<u32> = wanted.iter().map(|job| job.id).collect();
        self.asked.retain(|id, _| known.contains(id));
        for job in wanted.into_iter().take(MOST_ASKED) {
            if self.has_begun(job, now) {
                continue;
            }
            self.asked.insert(job.id, now);
            self.ask_for(job, now, poll);
        }
    }

    fn ask_for(&mut self, job: &Waits, now: f64, poll: &mut Poll) {
        if job.waiting.never {
            self.admission.gate.never_began(job.commitment(), now);
            let text = "its deferred promise is given back: what it depends on has not ended so that it can ever start; cancel it and submit it anew";
            self.give_back(job, text, false, now, poll);
            return;
        }
        let Some(owner) = self.owner(job.commitment(), job.user) else {
            return;
        };
        if job.commitment().starts_by.is_some() {
            return self.begin(job, &owner, now, poll);
        }
        match self.confirm(job, &owner, now) {
            Ok((committed, known)) => {
                self.confirmed(
                    job,
                    &committed,
                    &known,
                    "its promise was deferred",
                    now,
                    poll,
                );
            }
            Err(NotConfirmed {
                verdict,
                begin_within,
            }) => {
                let why = words::headed_reason(&verdict);
                match begin_within {
                    Some(within) => {
                        let text = format!(
                            "deferred: it may start, and waits for room; its deadline can be kept if it begins within {} of its submission",
                            duration::show(within.floor())
                        );
                        let rewrite = job.rewrite(job.known.comment(), &text);
                        // Each change of a record is work for slurmctld.
                        if rewrite.comment != job.comment {
                            poll.log.push(format!("job {}: {why} ({text})", job.name()));
                            poll.rewrites.push(rewrite);
                        }
                    }
                    None => {
                        let text = format!(
                            "its deferred promise is given back: {why}; cancel it and submit it anew, or have it released (scontrol release, by an administrator) to run without a promise"
                        );
                        self.give_back(job, &text, true, now, poll);
                    }
                }
            }
        }
    }

    /// Nobody changes any more when it is asked for.
    fn forget(&mut self, job: &Waits) {
        for number in job.numbers() {
            self.deferred_jobs.remove(&number);
        }
    }

    /// `hold`: it could start otherwise.
    pub(super) fn give_back(
        &mut self,
        job: &Waits,
        text: &str,
        hold: bool,
        now: f64,
        poll: &mut Poll,
    ) {
        self.forget(job);
        let _ = self.admission.book.cancel(&job.name(), now);
        poll.log.push(format!("job {}: {text}", job.name()));
        poll.dropped.push(job.commitment().clone());
        let jobs = job.tasks.len().max(1);
        poll.counts.end_many(Outcome::Cancelled, jobs as u64);
        poll.rewrites.push(Rewrite {
            hold,
            begin: hold.then_some(now as u64),
            ..job.rewrite(format!("{NOTHING}{}", job.known.line()), text)
        });
    }

    fn confirm(
        &mut self,
        job: &Waits,
        owner: &str,
        now: f64,
    ) -> Result<(Committed, JobCommitment), NotConfirmed<Problem>> {
        let commitment = job.commitment();
        // Another problem than time is one that may go.
        let judged = match self.front.as_waiting(&self.admission.book, job, now) {
            Ok(judged) => judged,
            Err(problem) if now < job.due() => {
                return Err(NotConfirmed {
                    verdict: NotTaken::from(problem),
                    begin_within: Some(commitment.request.terms.deadline),
                });
            }
            Err(_) => {
                self.admission.gate.never_began(commitment, now);
                return Err(NotConfirmed {
                    verdict: Verdict::Refused(Refused::DeferredTooLong),
                    begin_within: None,
                });
            }
        };
        let (specification, ever) = judged;
        let committed =
            (self.admission).confirm(commitment, &specification, Some(&ever), owner, now)?;
        let known = JobCommitment {
            commitment: committed.commitment.clone(),
            tasks: job.tasks.clone(),
        };
        Ok((committed, known))
    }

    pub(super) fn confirmed(
        &mut self,
        job: &Waits,
        committed: &Committed,
        known: &JobCommitment,
        before: &str,
        now: f64,
        poll: &mut Poll,
    ) {
        self.forget(job);
        let commitment = &known.commitment;
        let names: Vec<String> = match job.tasks.is_empty() {
            true => vec![job.name()],
            false => (job.tasks.iter())
                .map(|task| format!("{}_{task}", job.id))
                .collect(),
        };
        for (token, name) in (commitment.token..).zip(&names) {
            // The tokens were given just now, and the names are not in the book: a poll has taken out what is not on record.
            let _ = self.admission.book.bind(token, name, now);
            poll.log.push(format!(
                "job {name}: {} of a processor for {} credits, due in {} ({before})",
                percent(commitment.share_on("")),
                credits(commitment.price),
                duration::show(commitment.request.terms.deadline),
            ));
        }
        self.admission.gate.named(commitment, &job.name());
        let text = format!("{} ({before})", committed.text::<Front>());
        let comment = known.comment_after(job.commitment().token);
        for (nodes, tasks) in groups(known) {
            poll.rewrites.push(Rewrite {
                tasks,
                nodes,
                begin: Some(now as u64),
                ..job.rewrite(comment.clone(), &text)
            });
        }
    }
}

impl Front {
    /// A job that Slurm has, as it is judged now, and where it may be at any time, whoever is there now.
    pub(super) fn as_waiting(
        &self,
        book: &libra_core::book::Book,
        job: &Waits,
        now: f64,
    ) -> Result<(JobSpecification<Front>, Vec<u32>), Problem> {
        let Request { mut terms, shape } = job.commitment().request;
        terms.deadline = (job.due() - now).max(1.0);
        let waiting = &job.waiting;
        let submission = Submission {
            partition: Some(waiting.partition.clone()),
            required_nodes: waiting.required_nodes.clone(),
            excluded_nodes: waiting.excluded_nodes.clone(),
            features: waiting.features.clone(),
            ..Submission::default()
        };
        let asked = Asked {
            terms,
            array: job.tasks.clone(),
            features: (waiting.features.as_deref()).map_or(Ok(Vec::new()), features)?,
        };
        let candidates = self.candidates(&submission)?;
        let partition = &self.shared[*candidates.first().ok_or(Problem::NoPartition)?];
        let on = |room| self.allowed(book, partition, &submission, &asked, &shape, room);
        let (nodes, ever) = (on(Room::Now), on(Room::Ever)?);
        let specification = JobSpecification {
            request: Request { terms, shape },
            class_line: None,
            has_budget: true,
            array: (!job.tasks.is_empty())
                .then(|| u32::try_from(job.tasks.len()).unwrap_or(u32::MAX)),
            deferred: None,
            account: Err("its account was asked when it was submitted".to_string()),
            domain: Domain {
                name: partition.name.clone(),
                nodes: nodes.map(Some),
                limit: None,
            },
            alternatives: Vec::new(),
            conditions: Vec::new(),
            asked,
        };
        Ok((specification, ever))
    }
}
