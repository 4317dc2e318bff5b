//! The admitting side: one book for one qmaster, however many verifiers it starts.

use super::context::{self, name_of};
use super::ends::{UNLISTED, Watched};
use super::front_end::Front;
use super::jsv::{self, Answer};
use super::problem::Problem;
use super::records::{Environment, Records};
use super::starts;
use super::submission::Submission;
use super::{CONTEXT, TERMS};
use libra_accounts::budget_gate::BudgetGate;
use libra_batch::server::{self, AdmissionServer, Committed};
use libra_batch::words;
use libra_config::{Config, OnFault, Reserve, WithoutTerms};
use libra_core::book::{Book, OLDEST_RECORDS};
use libra_core::commitment::Commitment;
use libra_core::decision::refusal::Category;
use libra_metrics::Counts;
use libra_wording::errors;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Variable of a job's context that tells its owner what is committed.
const ACCEPTED: &str = "libra_accepted";

/// One cell's book.
pub struct Admission {
    pub(super) server: AdmissionServer,
    pub(super) front: Front,
    without_terms: WithoutTerms,
    on_fault: OnFault,
    reserve: Reserve,
    read: Option<f64>,
    /// What was said of records that are not believed.
    said: HashSet<String>,
    /// Jobs that were accepted since somebody asked for them.
    pub(super) accepted: Vec<(u32, Watched)>,
    /// What became of the submission that was answered last.
    judged: Option<Judged>,
    /// What became of submissions since somebody asked.
    pub(super) counts: Counts,
    /// Jobs with deferred promises that may start and wait for room: when they were asked for last, and what was said.
    pub(super) asked: HashMap<u32, (f64, String)>,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// So many jobs were accepted.
    Accepted(u32),
    /// It was not taken, for a reason of this kind.
    NotTaken(Category),
}

/// What is answered while no records were read yet.
pub fn not_ready() -> Answer {
    Answer::TryAgain("libra: it reads the queue first; submit again in a few seconds".to_string())
}

/// The answer to a job without terms, which needs no book. `claims`: it says that something was committed to it.
pub fn without_terms(submission: &Submission, rule: WithoutTerms) -> Answer {
    let problem = match rule {
        _ if submission.claims => Problem::Context,
        WithoutTerms::Refuse => Problem::NoTerms,
        _ => return Answer::Accept,
    };
    Answer::Reject(format!("libra: {problem}"))
}

impl Admission {
    /// Without hosts and jobs. `now`: Unix time.
    pub fn new(config: &Config, now: f64) -> Admission {
        let mut book = Book::new(
            libra_rules::batch_admission(config),
            config.provisional_seconds(),
        );
        // Microseconds: no earlier book of this cell has come so far.
        book.tokens_from((now.clamp(0.0, 4e9) * 1e6) as u64);
        book.set_start_latency(config.gridengine.start_delay.0);
        book.refresh_waiting_every(3.0 * config.gridengine.interval.0);
        Admission {
            server: AdmissionServer::new(book, libra_rules::quote_limits(config)),
            front: Front {
                queues: config.gridengine.queues.clone(),
                classes: libra_rules::batch_class_defaults(config),
                ..Front::default()
            },
            without_terms: config.gridengine.without_terms,
            on_fault: config.gridengine.on_fault,
            reserve: config.node.reserve,
            read: None,
            said: HashSet::new(),
            accepted: Vec::new(),
            judged: None,
            counts: Counts::EMPTY,
            asked: HashMap::new(),
        }
    }

    /// Budgets are taken from these accounts from now on.
    pub fn take_accounts(&mut self, gate: BudgetGate) {
        self.server.gate = gate;
    }

    /// Its accounts.
    pub fn gate(&self) -> &BudgetGate {
        &self.server.gate
    }

    /// As [`AdmissionServer::changed_quotes`].
    pub fn changed_quotes(&mut self, now: f64) -> Option<String> {
        self.server.changed_quotes(now)
    }

    /// As [`AdmissionServer::restore_quotes`], once the first records are read.
    pub fn restore_quotes(&mut self, text: &str, now: f64) -> Vec<String> {
        self.server.restore_quotes(text, now)
    }

    /// Returns true if it has read qmaster's records.
    pub fn has_records(&self) -> bool {
        self.read.is_some()
    }

    /// Jobs that were accepted since this was asked last.
    pub fn take_accepted(&mut self) -> Vec<(u32, Watched)> {
        std::mem::take(&mut self.accepted)
    }

    /// Counts what became of the submission that was answered last; questions are none. `took`: how long that was.
    pub fn count(&mut self, took: Duration) {
        match self.judged.take() {
            Some(Judged::Accepted(jobs)) => self.counts.accept(u64::from(jobs), took),
            Some(Judged::NotTaken(category)) => self.counts.refuse(category, took),
            None => {}
        }
    }

    /// What became of submissions since this was asked last.
    pub fn take_counts(&mut self) -> Counts {
        let mut counts = std::mem::take(&mut self.counts);
        counts.withdrawn += self.server.book.take_withdrawn();
        counts
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.server.book
    }

    /// Says whether the cell has the complex [`starts::START`]: without it no job is accepted that may not start yet.
    pub fn set_can_defer(&mut self, can_defer: bool) {
        self.front.can_defer = can_defer;
    }

    /// Takes parallel environments as qmaster has them now.
    pub fn set_environments(&mut self, environments: HashMap<String, Environment>) {
        self.front.environments = environments;
    }

    /// Takes records; the first ones make the book, later ones are compared with it. Returns lines for the log.
    pub fn take(&mut self, records: &Records, now: f64) -> Vec<String> {
        self.front.hosts = (records.hosts.iter())
            .map(|host| (host.name.clone(), host.clone()))
            .collect();
        let (mut snapshot, problems) = records.snapshot(&|count| self.reserve.leaves(count));
        let mut log = Vec::new();
        let book = &mut self.server.book;
        // Nothing else tells this book of a job's start.
        for name in records.resting() {
            if book.cancel(&name, now).is_ok() {
                log.push(format!(
                    "job {name} is held: its share is free until it is released, and it has then what others were not promised meanwhile"
                ));
            }
        }
        let untaken = match self.read {
            None => {
                let untaken = book.rebuild(&snapshot);
                if untaken.is_ok() {
                    log.push(format!(
                        "{} hosts, {} jobs with terms",
                        book.node_count(),
                        book.job_count()
                    ));
                }
                untaken
            }
            Some(_) => {
                snapshot.now -= UNLISTED;
                book.reconcile(&snapshot, now).map(|differences| {
                    for (ids, what) in [
                        (differences.vanished, "gone"),
                        (differences.found, "not known before"),
                    ] {
                        if !ids.is_empty() {
                            log.push(format!("{what}: {}", ids.join(" ")));
                        }
                    }
                    differences.problems
                })
            }
        };
        let mut unsaid: Vec<String> = problems;
        match untaken {
            Ok(untaken) => {
                self.read = Some(records.taken);
                unsaid.extend(untaken.iter().map(errors::untaken));
            }
            Err(error) => unsaid.push(errors::book(&error)),
        }
        // Said once, not with every round.
        log.extend(
            (unsaid.iter())
                .filter(|line| !self.said.contains(*line))
                .map(|line| format!("not taken: {line}")),
        );
        self.said = unsaid.into_iter().collect();
        log
    }

    /// Judges a submission. `now`: Unix time.
    pub fn answer(&mut self, submission: &Submission, now: f64) -> Answer {
        if !submission.has_terms() {
            let answer = without_terms(submission, self.without_terms);
            if matches!(answer, Answer::Reject(_)) {
                let category = match submission.claims {
                    true => Category::Request,
                    false => Category::NoTerms,
                };
                self.judged = Some(Judged::NotTaken(category));
            }
            return answer;
        }
        match self.read {
            None => return not_ready(),
            Some(read) if now - read > OLDEST_RECORDS => return self.fault(submission),
            Some(_) => {}
        }
        match self.server.answer(&self.front, submission, now) {
            server::Answer::Accepted(accepted) | server::Answer::Redeemed(accepted) => {
                self.accepted(submission, &accepted.0, now)
            }
            server::Answer::Answered { line, .. } => Answer::Reject(line),
            server::Answer::NotTaken(not) => {
                self.judged = not.verdict.category().map(Judged::NotTaken);
                let lines = not.lines(submission);
                // A rejection is one line, and so is a variable.
                let lines: Vec<&str> = lines.iter().map(|line| line.trim_start()).collect();
                let line = lines.join("; ");
                match not.verdict.is_let_in() {
                    true => self.let_in(submission, &line),
                    false => Answer::Reject(words::signed(&[line])),
                }
            }
        }
    }

    /// Accounts are out of order, and it runs without a promise. Who submits it is told nothing by qsub, and finds why in its context.
    fn let_in(&self, submission: &Submission, line: &str) -> Answer {
        let mut parameters = self.without_requests(submission);
        let ours = vec![variable(ACCEPTED, line)];
        parameters.push(("ac", with_ours(ours, &submission.context)));
        Answer::Correct(parameters)
    }

    /// The queue was not read for too long.
    fn fault(&mut self, submission: &Submission) -> Answer {
        self.judged = Some(Judged::NotTaken(Category::Fault));
        match self.on_fault {
            OnFault::Refuse => Answer::TryAgain(
                "libra: qmaster did not tell it of its jobs for ten minutes, so it cannot judge; tell the administrators"
                    .to_string(),
            ),
            OnFault::Admit => Answer::Correct(self.without_requests(submission)),
        }
    }

    /// No host has a value of a term, so that a job that requests one would wait for ever.
    fn without_requests(&self, submission: &Submission) -> Vec<(&'static str, String)> {
        vec![("l_hard", submission.requests.join(","))]
    }

    fn accepted(&mut self, submission: &Submission, committed: &Committed, now: f64) -> Answer {
        let commitment = &committed.commitment;
        let tasks = submission.array.map(|(first, _, step)| (first, step));
        let text = committed.text::<Front>();
        let context = with_ours(
            vec![
                format!("{CONTEXT}={}", context::write(submission.job, commitment)),
                variable(ACCEPTED, &text),
            ],
            &submission.context,
        );
        let mut parameters = match commitment.deferred {
            true => {
                let own = vec![starts::request(submission.job)];
                vec![
                    ("l_hard", with_ours(own, &submission.requests)),
                    ("q_hard", self.front.queues(submission)),
                ]
            }
            false => {
                let hosts = commitment.places.iter().map(|place| place.node.as_str());
                let pinned = self.front.pin(hosts, submission);
                vec![
                    ("l_hard", submission.requests.join(",")),
                    ("q_hard", pinned),
                ]
            }
        };
        parameters.push(("ac", context));
        // Who pays is what qmaster has on record: so it sees what was judged.
        parameters.extend(submission.project.clone().map(|project| ("P", project)));
        if let Some(why) = jsv::too_long(&parameters) {
            // Nothing is kept of it.
            for token in commitment.token..commitment.token + u64::from(commitment.count) {
                self.server.book.drop_token(token);
            }
            self.server.gate.never_began(commitment, now);
            self.judged = Some(Judged::NotTaken(Category::Request));
            return Answer::Reject(why);
        }
        if !commitment.deferred && !self.bind(submission.job, tasks, commitment, now) {
            return not_ready();
        }
        log::info!("job {} of {}: {text}", submission.job, submission.user);
        let watched = Watched::new(commitment.clone(), tasks);
        self.accepted.push((submission.job, watched));
        self.judged = Some(Judged::Accepted(commitment.count));
        Answer::Correct(parameters)
    }

    /// Names what was reserved, in the book. `tasks`: first and step, of an array. Where that cannot be, nothing is reserved any more.
    pub(super) fn bind(
        &mut self,
        job: u32,
        tasks: Option<(u32, u32)>,
        commitment: &Commitment,
        now: f64,
    ) -> bool {
        let book = &mut self.server.book;
        let tokens = commitment.token..commitment.token + u64::from(commitment.count);
        for (index, token) in (0..commitment.count).zip(tokens.clone()) {
            let name = name_of(job, tasks.map(|(first, step)| first + index * step));
            if let Err(error) = book.bind(token, &name, now) {
                // A number that is given anew while the records still have the job that had it before.
                for token in tokens {
                    book.drop_token(token);
                }
                self.server.gate.never_began(commitment, now);
                log::error!("job {name}: {}", errors::book(&error));
                return false;
            }
        }
        true
    }
}

/// A list as qmaster reads it. Ours first: a quote that its user has left open takes all that comes behind it for one value.
fn with_ours(mut ours: Vec<String>, others: &[String]) -> String {
    ours.extend_from_slice(others);
    ours.join(",")
}

/// A variable of a context: a comma would end it, and what is between quotes is one.
fn variable(name: &str, text: &str) -> String {
    let plain = text.replace(',', ";").replace('=', " ");
    format!("{name}={}", plain.replace(['\'', '"'], "\u{2019}"))
}

/// Complexes that a cell needs so that its users can give terms, and their jobs can wait.
pub fn complexes() -> impl Iterator<Item = &'static str> {
    TERMS.into_iter().chain([super::QUOTE, starts::START])
}
