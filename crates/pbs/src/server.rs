//! The admitting side: one book for one pbs_server, and the site's rules.
//!
//! Invariants:
//! - An event is answered from memory alone; files and clocks belong to the caller.
//! - Until the records of the server have been read once, no job with terms is judged: the answer is then
//!   `"wants": "records"`, and the hook shows them and asks again.
//! - A job that is in PBS with a line of the commitment is in the book, or will be after the next records.

use super::front_end::Front;
use super::marks::{STANDS_STILL_WITHIN, Seen};
use super::uses::Others;
use super::{BadEvent, LONGEST_TEXT, TERMS, need, number, text};
use libra_accounts::budget_gate::BudgetGate;
use libra_batch::server::AdmissionServer;
use libra_batch::words::within;
use libra_config::{Config, WithoutTerms};
use libra_core::book::{Book, BookError};
use libra_core::decision::job::Shape;
use libra_core::decision::refusal::Category;
use libra_metrics::Counts;
use libra_units::printable;
use libra_wording::errors;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Latest time of an event, Unix time: what is committed then can be read again.
const LATEST: f64 = 1e11;

/// Seconds that PBS may take to run a job that was let begin: the pause, and a cycle of its scheduler.
const BEGIN_LATENCY: f64 = 5.0;

/// What ends a refusal that is too long for qsub.
const MORE_OF_SUBMISSION: &str =
    "libra: ... (qsub has no room for more; 'libra quote' with the same job shows all of it)";

/// What ends another text that is too long for PBS's commands.
const MORE: &str = "libra: ... (there is no room for more)";

/// Events after which somebody may have left.
const FREEING: [&str; 7] = [
    "jobobit",
    "gone",
    "held",
    "records",
    "nodes",
    "modifyvnode",
    "jobs",
];

/// What is known of a planned job beside the book.
#[derive(Default)]
pub(super) struct Known {
    /// Until when PBS is waited for, which is to try it.
    pub(super) woken: f64,
    /// Where it may be; None if that is not known, or if it is everywhere.
    pub(super) nodes: Option<Vec<u32>>,
}

/// One pbs_server's book.
pub struct Server {
    pub(super) admission: AdmissionServer,
    pub(super) front: Front,
    pub(super) without_terms: WithoutTerms,
    /// Whether the nodes' `libra_share` are used up by what is committed. Only where shares that fit are the rule;
    /// the other policies commit more than a node has, knowing that not all of it is needed at once.
    pub(super) shares_add_up: bool,
    pub(super) has_records: bool,
    /// What happened since it was taken last; who asks counts submissions.
    pub counts: Counts,
    /// Jobs that gave their share back when they were held, and when that was noticed.
    pub(super) given_back: HashMap<String, f64>,
    /// Planned jobs, as far as something is known of them beside the book.
    pub(super) planned: HashMap<String, Known>,
    /// Token and nodes of the one that was accepted last, until it has its id.
    pub(super) planned_last: Option<(u64, Option<Vec<u32>>)>,
    /// Whether somebody may have left since it was asked which planned jobs fit.
    pub(super) has_left: bool,
    /// Jobs that have a mark, as they were seen last, see [`super::suspended`].
    pub(super) seen: HashMap<String, Seen>,
    /// Jobs without terms that use what is counted.
    pub(super) others: Others,
    /// What became of the submission that was answered last.
    pub(super) judged: Option<Judged>,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// So many jobs were accepted.
    Accepted(u32),
    /// It was not taken, for a reason of this kind.
    NotTaken(Category),
}

impl Server {
    /// Notes whom a job belongs to that something is promised to, by its record or its event.
    pub(super) fn note_owner(&mut self, id: &str, job: &Value, shape: &Shape, now: f64) {
        if text(job, "owner").or_else(|| text(job, "user")).is_some() {
            self.front.limits.promise(id, job, shape, now);
        }
    }

    /// Without nodes and jobs.
    pub fn new(config: &Config) -> Server {
        let mut server = Server {
            admission: AdmissionServer::new(
                Book::new(
                    libra_rules::batch_admission(config),
                    config.provisional_seconds(),
                ),
                libra_rules::quote_limits(config),
            ),
            front: Front::default(),
            without_terms: WithoutTerms::default(),
            shares_add_up: true,
            has_records: false,
            counts: Counts::EMPTY,
            given_back: HashMap::new(),
            planned: HashMap::new(),
            planned_last: None,
            has_left: false,
            seen: HashMap::new(),
            others: Others::default(),
            judged: None,
        };
        server.configure(config);
        server
    }

    /// Decides by these rules from now on.
    pub fn configure(&mut self, config: &Config) {
        self.admission.configure(
            libra_rules::batch_admission(config),
            libra_rules::quote_limits(config),
        );
        self.front.classes = libra_rules::batch_class_defaults(config);
        self.without_terms = config.pbs.without_terms;
        self.admission.gate.configure(config.pbs.on_fault);
        self.shares_add_up = config.admission.policy.shares_add_up();
        self.admission
            .book
            .reserve_committed_share(self.shares_add_up);
        self.admission.book.set_begin_latency(BEGIN_LATENCY);
        self.admission.book.set_suspend_latency(STANDS_STILL_WITHIN);
    }

    /// Budgets are taken from these accounts from now on.
    pub fn take_accounts(&mut self, gate: BudgetGate) {
        self.admission.gate = gate;
    }

    /// Its accounts.
    pub fn gate(&mut self) -> &mut BudgetGate {
        &mut self.admission.gate
    }

    /// Returns true if it has read PBS's records.
    pub fn has_records(&self) -> bool {
        self.has_records
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.admission.book
    }

    /// As [`AdmissionServer::changed_quotes`].
    pub fn changed_quotes(&mut self, now: f64) -> Option<String> {
        self.admission.changed_quotes(now)
    }

    /// As [`AdmissionServer::restore_quotes`], once the first records are read.
    pub fn restore_quotes(&mut self, text: &str, now: f64) -> Vec<String> {
        self.admission.restore_quotes(text, now)
    }

    /// As [`Book::take_withdrawn`].
    pub fn take_withdrawn(&mut self) -> u64 {
        self.admission.book.take_withdrawn()
    }

    /// What became of the submission that was answered since this was asked last; None if there was none, or only a question.
    pub fn take_judged(&mut self) -> Option<Judged> {
        self.judged.take()
    }

    /// Answers one event of a server hook.
    ///
    /// # Errors
    /// When the event cannot be understood; nothing has changed then.
    pub fn answer(&mut self, event: &Value) -> Result<Value, BadEvent> {
        let mut answer = self.respond(event)?;
        let kind = need(event, "event")?;
        self.has_left |= FREEING.contains(&kind);
        // Of what a file says nobody sees the answer, and the next event comes with it.
        if self.has_left && self.has_records && kind != "records" {
            self.has_left = false;
            let woken = self.wake(number(event, "now")?);
            if !woken.is_empty() {
                answer["wake"] = woken.into();
            }
        }
        // The hook that shows jobs is not asked for others; the one that judges a submission may be of a job that never comes.
        if self.has_records && !["records", "jobs", "queuejob"].contains(&kind) {
            let look = self.jobs_to_show(event, number(event, "now")?);
            if !look.is_empty() {
                answer["look"] = look.into();
            }
        }
        // Names of jobs and nodes are in these, as PBS has them.
        let log = answer.get_mut("log").and_then(Value::as_array_mut);
        for line in log.into_iter().flatten() {
            *line = clean(line.as_str().unwrap_or_default()).into();
        }
        if let Some(text) = answer.get_mut("text") {
            let lines = text.as_str().unwrap_or_default().split('\n');
            let lines = lines.map(clean).collect::<Vec<_>>().join("\n");
            let rest = match kind {
                "queuejob" => MORE_OF_SUBMISSION,
                _ => MORE,
            };
            *text = within(&lines, LONGEST_TEXT, rest).into();
        }
        Ok(answer)
    }

    fn respond(&mut self, event: &Value) -> Result<Value, BadEvent> {
        let now = number(event, "now")?;
        if !(0.0..=LATEST).contains(&now) {
            return Err(BadEvent(format!("'now' is {now}")));
        }
        let job = &event["job"];
        let kind = need(event, "event")?;
        match kind {
            "records" => return self.read_records(event, now),
            "nodes" => return Ok(self.nodes(event)),
            "gone" => return Ok(self.gone(event, now)),
            "held" => return Ok(self.held(event, now)),
            "jobs" => return Ok(self.look_at(event, now)),
            // Nothing is known of this job that the records will not say.
            "postqueuejob" if !self.has_records => return Ok(accept()),
            "modifyvnode" if !self.has_records => return Ok(accept()),
            "queuejob" | "runjob" | "jobobit" | "modifyjob"
                if self.concerns_book(job) && !self.has_records =>
            {
                return Ok(json!({"wants": "records"}));
            }
            "queuejob" if self.names_things(job) && !self.has_records => {
                return Ok(json!({"wants": "records"}));
            }
            _ => {}
        }
        self.release_lapsed(now);
        match kind {
            "queuejob" => Ok(self.queue(job, now)),
            "postqueuejob" => self.name(job, now),
            "runjob" if text(job, "commitment").is_none() => self.run_other(job, now),
            "jobobit" if text(job, "commitment").is_none() => self.end_other(job, now),
            "runjob" => self.run(job, now),
            "jobobit" => self.end(job, now),
            "modifyjob" => Ok(self.modify(job, now)),
            "movejob" => Ok(self.relocate(job)),
            "modifyvnode" => self.change_node(event),
            other => Err(BadEvent(format!("there is no event '{other}'"))),
        }
    }

    /// Returns true for a job without terms whose words only the records explain: names of nodes, and resources.
    fn names_things(&self, job: &Value) -> bool {
        let wide = job["wide"].as_object().is_some_and(|wide| !wide.is_empty());
        let is_moved = matches!(
            self.without_terms,
            WithoutTerms::BestEffort | WithoutTerms::OtherNodes
        );
        is_moved && (text(job, "nodes").is_some() || wide)
    }

    /// Returns true if it is about a job that has a commitment, or wants to be.
    fn concerns_book(&self, job: &Value) -> bool {
        text(job, "commitment").is_some() || has_terms(job) || is_asked(job)
    }
}

/// A line without what moves a cursor or ends it.
pub(super) fn clean(line: &str) -> String {
    printable(line, usize::MAX)
}

/// An answer that lets the event pass.
pub(super) fn accept() -> Value {
    json!({"verdict": "accept"})
}

/// An answer that lets the event pass, with a line for the log.
pub(super) fn accept_and_log(line: String) -> Value {
    json!({"verdict": "accept", "log": [line]})
}

/// An answer that does not, with a text for whoever asked.
pub(super) fn refuse(text: impl Into<String>) -> Value {
    json!({"verdict": "refuse", "text": text.into()})
}

/// The same of a submission that is not taken.
pub(super) fn refuse_as(category: Category, text: String) -> Value {
    json!({"verdict": "refuse", "category": category, "text": text})
}

/// An answer that lets the job pass with these resources set; null unsets one.
pub(super) fn accept_with(resources: Map<String, Value>) -> Value {
    json!({"verdict": "accept", "resources": resources})
}

/// Returns true if the job comes with any of the terms.
pub(super) fn has_terms(job: &Value) -> bool {
    TERMS.iter().any(|key| text(&job["terms"], key).is_some())
}

/// Returns true if the job says anything about a quote.
pub(super) fn is_asked(job: &Value) -> bool {
    text(job, "quote").is_some()
}

pub(super) fn internal(error: BookError) -> BadEvent {
    BadEvent(errors::book(&error))
}
