//! The admitting side: one book for one slurmctld, and the site's rules.
//!
//! Invariants:
//! - A submission is answered from memory alone, accounts included (their live state is memory, see [`libra_accounts`]); clocks, files and
//!   Slurm itself belong to the caller.
//! - Until Slurm's records have been read once nothing is judged, and the answer is [`Answer::NotReady`]: clients try again
//!   by themselves.
//! - An acceptance holds its share until a later poll of the queue either shows its job or does not.

use super::array::JobCommitment;
use super::counted::spread;
use super::front_end::Front;
use super::heard::LastOrders;
use super::orders::STANDS_STILL_WITHIN;
use super::problem::{NotTaken, Problem};
use super::records::Rewrite;
use super::submission::{Asked, Submission};
use super::test_only::TestOnly;
use super::waiting::begin_for_slurm;
use super::words::in_few_words;
use libra_accounts::budget_gate::BudgetGate;
use libra_batch::server::{self, AdmissionServer, Committed};
use libra_batch::words;
use libra_config::{Config, Reserve, WithoutTerms};
use libra_core::book::Book;
use libra_core::commitment::Commitment;
use std::collections::{HashMap, HashSet};

/// Held quotes, in StateSaveLocation beside what slurmctld itself keeps there: the host of control that comes next has it too.
pub const QUOTES_FILE: &str = "libra.quotes";

/// One slurmctld's book.
pub struct Controller {
    pub(super) admission: AdmissionServer,
    pub(super) front: Front,
    pub(super) without_terms: WithoutTerms,
    /// What of each node is not committed.
    pub(super) reserve: Reserve,
    /// Numbers of the jobs, or arrays, that have a commitment.
    pub(super) committed_jobs: HashSet<u32>,
    /// The largest number of a job that was seen.
    pub(super) newest_job: u32,
    /// Whether tasks of a committed array wait, which have no numbers of their own yet.
    pub(super) arrays_wait: bool,
    /// Acceptances of submissions that most likely were tests.
    pub(super) test_only: TestOnly,
    /// When the records that were read last were taken.
    pub(super) read: Option<f64>,
    /// What was held before it, until there are records.
    pub(super) written_quotes: Option<String>,
    /// When it was made, Unix time.
    pub(super) begun: f64,
    /// Numbers of users whose names somebody has to look up.
    pub(super) unknown_users: Vec<u32>,
    /// Acceptances that are paid for and have no job yet, by their first tokens.
    pub(super) unnamed: HashMap<u64, Commitment>,
    /// Acceptances whose promises are deferred, and whose jobs were not seen yet.
    pub(super) unseen: Vec<Commitment>,
    /// Jobs and arrays that wait with a deferred promise, and when they are due, Unix time.
    pub(super) deferred_jobs: HashMap<u32, f64>,
    /// Jobs that were held and gave back what they had.
    pub(super) held_jobs: HashSet<u32>,
    /// Jobs that run once more and that nobody pays for.
    pub(super) unpaid: HashSet<u32>,
    /// When which of those that are deferred were asked for last.
    pub(super) asked: HashMap<u32, f64>,
    /// What the caller is to write into slurmctld's records since the last poll.
    pub(super) rewrites: Vec<Rewrite>,
    /// Whether jobs' nodes have heard what they were told last.
    pub(super) last_orders: LastOrders,
}

/// What becomes of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It goes on as it is: it has no terms.
    Pass,
    /// It has no terms and goes on, but not on these nodes.
    PassWithout(Vec<String>),
    /// It is accepted; the job is to be changed so.
    Accept(Box<Accepted>),
    /// It is not taken, for this reason.
    Refuse(Box<NotAdmitted>),
    /// It was a question, which is never queued; the answer, as one line for [`libra_batch::quote::Quote::find`].
    Answered(String),
    /// Slurm's records were not read yet.
    NotReady,
}

/// A submission that is not taken.
#[derive(Debug, Clone, PartialEq)]
pub struct NotAdmitted {
    /// Why.
    pub verdict: NotTaken,
    /// As the user is told.
    pub text: String,
}

impl From<NotTaken> for NotAdmitted {
    fn from(verdict: NotTaken) -> NotAdmitted {
        let lines = [words::headed_reason(&verdict)];
        NotAdmitted {
            verdict,
            text: in_few_words(words::signed(&lines)),
        }
    }
}

/// An accepted job.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The partition it goes to.
    pub partition: String,
    /// The nodes it is pinned to; empty for an array that is pinned task by task.
    pub nodes: Vec<String>,
    /// Nodes that it asks for.
    pub node_count: u32,
    /// Tasks on each of them, where it said how many tasks.
    pub tasks_per_node: Option<u32>,
    /// Jobs: those of an array, else 1.
    pub count: u32,
    /// What it asks for of generic resources on each node, in the place of how many in all; None for no change.
    pub gres: Option<String>,
    /// Held until its tasks are pinned.
    pub hold: bool,
    /// Its begin time, Unix time, where Libra keeps it from starting ([`super::waiting`]).
    pub begin: Option<u64>,
    /// Admin comment.
    pub admin_comment: String,
    /// The line of the commitment, for the nodes.
    pub commitment: String,
    /// Minutes that Slurm lets it run.
    pub time_limit: u32,
    /// What is committed, in a sentence for the user.
    pub quote: String,
}

impl Controller {
    /// Without nodes and jobs. `now`: Unix time.
    pub fn new(config: &Config, now: f64) -> Controller {
        let mut controller = Controller {
            admission: AdmissionServer::new(
                Book::new(
                    libra_rules::batch_admission(config),
                    config.provisional_seconds(),
                ),
                libra_rules::quote_limits(config),
            ),
            front: Front::new(),
            without_terms: WithoutTerms::default(),
            reserve: config.node.reserve,
            committed_jobs: HashSet::new(),
            newest_job: 0,
            arrays_wait: false,
            test_only: TestOnly::default(),
            read: None,
            written_quotes: None,
            begun: now,
            unknown_users: Vec::new(),
            unnamed: HashMap::new(),
            unseen: Vec::new(),
            deferred_jobs: HashMap::new(),
            held_jobs: HashSet::new(),
            unpaid: HashSet::new(),
            asked: HashMap::new(),
            rewrites: Vec::new(),
            last_orders: LastOrders::default(),
        };
        // Microseconds: no earlier book of this cluster has come so far.
        controller
            .admission
            .book
            .tokens_from((now.clamp(0.0, 4e9) * 1e6) as u64);
        controller.configure(config);
        controller
    }

    /// Decides by these rules from now on; other partitions count from the next records on.
    pub fn configure(&mut self, config: &Config) {
        self.admission.configure(
            libra_rules::batch_admission(config),
            libra_rules::quote_limits(config),
        );
        self.admission
            .book
            .set_start_latency(config.slurm.start_delay.0);
        self.admission.book.set_suspend_latency(STANDS_STILL_WITHIN);
        self.without_terms = config.slurm.without_terms;
        self.front.wanted = config.slurm.partitions.clone();
        self.front.classes = libra_rules::batch_class_defaults(config);
        self.reserve = config.node.reserve;
        self.admission.gate.configure(config.slurm.on_fault);
        // Every poll does it, so that no submission has to wait for it.
        self.admission
            .book
            .refresh_waiting_every(3.0 * config.slurm.interval.0);
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.admission.book
    }

    /// When the records that were read last were taken, Unix time.
    pub fn read_at(&self) -> Option<f64> {
        self.read
    }

    /// Partitions whose processors jobs with terms share, as configured; none: all that Slurm shares.
    pub fn wanted(&self) -> &[String] {
        &self.front.wanted
    }

    /// Budgets are taken from these accounts from now on.
    pub fn take_accounts(&mut self, gate: BudgetGate) {
        self.admission.gate = gate;
    }

    /// Its accounts.
    pub fn gate(&self) -> &BudgetGate {
        &self.admission.gate
    }

    /// As [`AdmissionServer::changed_quotes`].
    pub fn changed_quotes(&mut self, now: f64) -> Option<String> {
        self.admission.changed_quotes(now)
    }

    /// Quotes that were held before this book, as they were written down: its first records put them in, before anybody asks for what they hold.
    pub fn take_written_quotes(&mut self, text: Option<String>) {
        self.written_quotes = text;
    }

    /// Users whose names are wanted: looking one up may take long, so the caller does it and says so by [`Controller::take_users`].
    pub fn unknown_users(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.unknown_users)
    }

    /// Names of users; None for a number that has no name.
    pub fn take_users(&mut self, users: impl IntoIterator<Item = (u32, Option<String>)>) {
        // Names change rarely; whoever was not known is asked for anew.
        self.front.users.retain(|_, name| name.is_some());
        self.front.users.extend(users);
    }

    /// Judges a submission. `now`: Unix time.
    pub fn submit(&mut self, submission: &Submission, now: f64) -> Answer {
        // Only the rule that looks at nodes has to wait for them.
        let judges = submission.has_terms() || self.without_terms == WithoutTerms::OtherNodes;
        if self.read.is_none() && judges {
            return Answer::NotReady;
        }
        if matches!(submission.component, None | Some(0)) {
            self.front.components.remove(&submission.user);
        }
        if !submission.has_terms() {
            return self.submit_without_terms(submission);
        }
        if self.admission.gate.is_on() && !self.front.users.contains_key(&submission.user) {
            self.unknown_users.push(submission.user);
            return Answer::NotReady;
        }
        // A question holds nothing.
        if submission.without_session && submission.quote().is_none() {
            if let Some(pause) = self.test_only.pause(submission.user, now) {
                return Answer::Refuse(Box::new(NotTaken::from(Problem::Tested(pause)).into()));
            }
        }
        match self.admission.answer(&self.front, submission, now) {
            server::Answer::Accepted(accepted) => {
                let (committed, specification) = *accepted;
                let first = committed.commitment.token;
                let deferred = committed.commitment.deferred;
                let planned = committed.commitment.starts_by.is_some();
                let mut accepted = self.accepted(submission, &specification.asked, committed);
                if deferred {
                    let begin = submission.begin.unwrap_or(0.0).max(now);
                    accepted.begin = Some(begin_for_slurm(begin));
                }
                // What holds no share keeps nobody from anything.
                if submission.without_session && (planned || !deferred) {
                    let tokens = first..first + u64::from(accepted.count);
                    self.test_only.accepted(tokens, submission.user, now);
                }
                if submission.component.is_some() {
                    let taken = self.front.components.entry(submission.user).or_default();
                    taken.extend(accepted.nodes.iter().cloned());
                }
                Answer::Accept(Box::new(accepted))
            }
            server::Answer::Redeemed(redeemed) => {
                let (committed, specification) = *redeemed;
                let accepted = self.accepted(submission, &specification.asked, committed);
                Answer::Accept(Box::new(accepted))
            }
            server::Answer::Answered { line, .. } => Answer::Answered(line),
            server::Answer::NotTaken(not)
                if not.verdict.is_let_in() && submission.quote().is_none() =>
            {
                let why = words::reason(&not.verdict);
                log::error!("a job of user {}: {why}", submission.user);
                Answer::Pass
            }
            server::Answer::NotTaken(not) => {
                let lines = not.lines(submission);
                Answer::Refuse(Box::new(NotAdmitted {
                    verdict: not.verdict,
                    text: in_few_words(words::signed(&lines)),
                }))
            }
        }
    }

    /// As Slurm is to have it.
    fn accepted(
        &mut self,
        submission: &Submission,
        asked: &Asked,
        committed: Committed,
    ) -> Accepted {
        let quote = committed.text::<Front>();
        let (commitment, pinned) = (committed.commitment, committed.pinned);
        let deferred = commitment.deferred;
        if deferred {
            self.unseen.push(commitment.clone());
        } else if commitment.payer.is_some() {
            self.unnamed.insert(commitment.token, commitment.clone());
        }
        let request = commitment.request;
        let terms = &request.terms;
        // It shares its processor, so it takes longer than its estimate; past its deadline it gets whole ones. Whoever
        // needs another estimate more is stuck, unless the user asked for a longer time.
        let asked_time = f64::from(submission.time_limit.unwrap_or(0)) * 60.0;
        let partition = self.front.shared(&committed.domain);
        let longest = (terms.expected_end() + terms.estimate)
            .max(asked_time)
            .min(partition.map_or(f64::INFINITY, |partition| partition.longest));
        let job_commitment = JobCommitment {
            commitment,
            tasks: asked.array.clone(),
        };
        let nodes: Vec<String> = match pinned && !deferred {
            true => (job_commitment.commitment.places.iter())
                .map(|place| place.node.clone())
                .collect(),
            false => Vec::new(),
        };
        Accepted {
            partition: committed.domain,
            nodes,
            node_count: request.shape.chunks,
            tasks_per_node: (submission.tasks)
                .filter(|_| request.shape.scatter)
                .map(|tasks| tasks.max(1) / request.shape.chunks),
            count: job_commitment.commitment.count,
            gres: spread(&submission.gres, request.shape.chunks),
            hold: !pinned && !deferred,
            begin: None,
            admin_comment: job_commitment.comment(),
            commitment: job_commitment.line(),
            time_limit: (longest / 60.0).ceil().max(1.0) as u32,
            quote,
        }
    }
}
