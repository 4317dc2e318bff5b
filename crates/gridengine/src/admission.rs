//! The admitting side: one book for one qmaster, however many verifiers it starts.

use super::context::{self, name_of};
use super::front_end::Front;
use super::jsv::Answer;
use super::problem::Problem;
use super::records::{Environment, Records};
use super::submission::Submission;
use super::{CONTEXT, TERMS};
use libra_batch::server::{self, AdmissionServer, Committed};
use libra_batch::words;
use libra_config::{Config, OnFault, Reserve, WithoutTerms};
use libra_core::book::{Book, OLDEST_RECORDS};
use libra_wording::errors;
use std::collections::{HashMap, HashSet};

/// Variable of a job's context that tells its owner what is committed.
const ACCEPTED: &str = "libra_accepted";

/// A job that was accepted so many seconds before the records were asked for may not be in them yet.
const UNLISTED: f64 = 2.0;

/// One cell's book.
pub struct Admission {
    server: AdmissionServer,
    front: Front,
    without_terms: WithoutTerms,
    on_fault: OnFault,
    reserve: Reserve,
    read: Option<f64>,
    /// What was said of records that are not believed.
    said: HashSet<String>,
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
        let mut book = Book::new(libra_rules::admission(config), config.provisional_seconds());
        // Microseconds: no earlier book of this cell has come so far.
        book.tokens_from((now.clamp(0.0, 4e9) * 1e6) as u64);
        book.set_start_latency(config.gridengine.start_delay.0);
        book.refresh_waiting_every(3.0 * config.gridengine.interval.0);
        Admission {
            server: AdmissionServer::new(book, libra_rules::quote_limits(config)),
            front: Front {
                queues: config.gridengine.queues.clone(),
                ..Front::default()
            },
            without_terms: config.gridengine.without_terms,
            on_fault: config.gridengine.on_fault,
            reserve: config.node.reserve,
            read: None,
            said: HashSet::new(),
        }
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.server.book
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
            return without_terms(submission, self.without_terms);
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
                let lines = not.lines(submission);
                // A rejection is one line.
                let lines: Vec<&str> = lines.iter().map(|line| line.trim_start()).collect();
                Answer::Reject(words::signed(&[lines.join("; ")]))
            }
        }
    }

    /// The queue was not read for too long.
    fn fault(&self, submission: &Submission) -> Answer {
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
        let (first, _, step) = submission.array.unwrap_or((1, 1, 1));
        for index in 0..commitment.count {
            let task = submission.array.map(|_| first + index * step);
            let name = name_of(submission.job, task);
            let token = commitment.token + u64::from(index);
            if let Err(error) = self.server.book.bind(token, &name, now) {
                // A number that is given anew while the records still have the job that had it before.
                for index in 0..commitment.count {
                    self.server
                        .book
                        .drop_token(commitment.token + u64::from(index));
                }
                log::error!("job {name}: {}", errors::book(&error));
                return not_ready();
            }
        }
        let text = committed.text::<Front>();
        log::info!("job {} of {}: {text}", submission.job, submission.user);
        let mut context = submission.context.clone();
        // A comma ends a variable.
        context.push(format!(
            "{ACCEPTED}={}",
            text.replace(',', ";").replace('=', " ")
        ));
        context.push(format!(
            "{CONTEXT}={}",
            context::write(submission.job, commitment)
        ));
        let hosts = commitment.places.iter().map(|place| place.node.as_str());
        let mut parameters = self.without_requests(submission);
        parameters.push(("q_hard", self.front.pin(hosts, submission)));
        parameters.push(("ac", context.join(",")));
        Answer::Correct(parameters)
    }
}

/// Complexes that a cell needs so that its users can give terms: name and, where users are to have a shorter one, its shortcut.
pub fn complexes() -> impl Iterator<Item = &'static str> {
    TERMS.into_iter().chain([super::QUOTE])
}
