//! The admitting side: one book for one slurmctld, and the site's rules.
//!
//! Invariants:
//! - A submission is answered from memory alone, accounts included (their live state is memory, see [`libra_accounts`]); clocks, files and
//!   Slurm itself belong to the caller.
//! - Until Slurm's records have been read once nothing is judged, and the answer is [`Answer::NotReady`]: clients try again
//!   by themselves.
//! - An acceptance holds its share until a later poll of the queue either shows its job or does not.

use super::array::JobCommitment;
use super::problem::{Lack, NotTaken, Problem};
use super::records::{Partition, Rewrite};
use super::refusal::NotAdmitted;
use super::submission::{Asked, Submission};
use libra_accounts::budget_gate::{BudgetGate, Denied};
use libra_accounts::payments::Payer;
use libra_batch::admit::admit;
use libra_batch::words;
use libra_config::{Config, Reserve, WithoutTerms};
use libra_core::book::held_quote::HeldQuotes;
use libra_core::book::{Admitted, Book};
use libra_core::commitment::Commitment;
use libra_core::decision::job::{Request, Shape};
use std::collections::{HashMap, HashSet};

/// One slurmctld's book.
pub struct Controller {
    pub(super) book: Book,
    pub(super) without_terms: WithoutTerms,
    wanted: Vec<String>,
    /// Partitions that take jobs with terms.
    pub(super) shared: Vec<SharedPartition>,
    /// How many nodes the book had when `shared` was made, and which partitions were wanted.
    shared_for: (usize, Vec<String>),
    pub(super) partitions: Vec<Partition>,
    /// Nodes of Libra's partitions.
    pub(super) libra_nodes: HashSet<String>,
    /// What of each node is not committed.
    pub(super) reserve: Reserve,
    features: HashMap<String, Vec<String>>,
    pub(super) largest: u32,
    /// Numbers of the jobs, or arrays, that have a commitment.
    pub(super) committed_jobs: HashSet<u32>,
    /// The largest number of a job that was seen.
    pub(super) newest_job: u32,
    /// Acceptances of submissions that most likely were tests: token and when.
    pub(super) tests: Vec<(u64, f64)>,
    /// When the records that were read last were taken.
    pub(super) read: Option<f64>,
    /// When it was made, Unix time.
    pub(super) begun: f64,
    /// Nodes that were taken by the components so far of each user's last heterogeneous job.
    components: HashMap<u32, Vec<String>>,
    pub(super) gate: BudgetGate,
    /// Names of users, where the site has accounts; None for a number without a name.
    pub(super) users: HashMap<u32, Option<String>>,
    /// Numbers of users whose names somebody has to look up.
    pub(super) unknown_users: Vec<u32>,
    /// Acceptances that are paid for and have no job yet, by their first tokens.
    pub(super) unnamed: HashMap<u64, Commitment>,
    pub(super) quotes: HeldQuotes,
    /// What the caller is to write into slurmctld's records since the last poll.
    pub(super) rewrites: Vec<Rewrite>,
}

pub(super) struct SharedPartition {
    pub(super) name: String,
    default: bool,
    /// Seconds; infinite for no limit.
    pub(super) longest: f64,
    /// By the book's index.
    nodes: Vec<bool>,
    jobs_per_processor: u32,
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
    /// Held until its tasks are pinned.
    pub hold: bool,
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
            book: Book::new(libra_rules::admission(config), config.provisional_seconds()),
            without_terms: WithoutTerms::default(),
            wanted: Vec::new(),
            shared: Vec::new(),
            shared_for: (0, Vec::new()),
            partitions: Vec::new(),
            libra_nodes: HashSet::new(),
            reserve: config.node.reserve,
            features: HashMap::new(),
            largest: 1,
            committed_jobs: HashSet::new(),
            newest_job: 0,
            tests: Vec::new(),
            read: None,
            begun: now,
            components: HashMap::new(),
            gate: BudgetGate::off(),
            users: HashMap::new(),
            unknown_users: Vec::new(),
            unnamed: HashMap::new(),
            quotes: HeldQuotes::new(libra_rules::quote_limits(config)),
            rewrites: Vec::new(),
        };
        // Microseconds: no earlier book of this cluster has come so far.
        controller
            .book
            .tokens_from((now.clamp(0.0, 4e9) * 1e6) as u64);
        controller.configure(config);
        controller
    }

    /// Decides by these rules from now on; other partitions count from the next records on.
    pub fn configure(&mut self, config: &Config) {
        self.book.set_admission(libra_rules::admission(config));
        self.book.set_start_latency(config.slurm.start_delay.0);
        self.without_terms = config.slurm.without_terms;
        self.wanted = config.slurm.partitions.clone();
        self.reserve = config.node.reserve;
        self.quotes.configure(libra_rules::quote_limits(config));
        self.gate.configure(config.slurm.on_fault);
        // Every poll does it, so that no submission has to wait for it.
        self.book
            .refresh_waiting_every(3.0 * config.slurm.interval.0);
    }

    /// Name of a node by the book's index.
    pub(super) fn node_name(&self, index: usize) -> String {
        self.book.node_name(index).to_string()
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// When the records that were read last were taken, Unix time.
    pub fn read_at(&self) -> Option<f64> {
        self.read
    }

    /// Partitions whose processors jobs with terms share, as configured; none: all that Slurm shares.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// Takes partitions and nodes as Slurm has them; the book has its nodes already. What was there before is handed back.
    pub(super) fn set_partitions(
        &mut self,
        partitions: &mut Vec<Partition>,
        features: &mut HashMap<String, Vec<String>>,
        nodes: &[super::records::Node],
    ) {
        std::mem::swap(&mut self.features, features);
        self.largest = (nodes.iter())
            .filter(|node| self.libra_nodes.contains(&node.name))
            .map(|node| node.processors)
            .max()
            .unwrap_or(1);
        let made_for = (self.book.node_count(), self.wanted.clone());
        if self.partitions == *partitions && self.shared_for == made_for {
            return;
        }
        self.shared_for = made_for;
        std::mem::swap(&mut self.partitions, partitions);
        self.shared = Vec::new();
        for partition in self.partitions.iter().filter(|partition| partition.up) {
            if !partition.is_shared(&self.wanted) {
                continue;
            }
            let names: HashSet<&str> = partition.nodes.iter().map(String::as_str).collect();
            self.shared.push(SharedPartition {
                name: partition.name.clone(),
                default: partition.default,
                longest: partition
                    .longest
                    .map_or(f64::INFINITY, |minutes| f64::from(minutes) * 60.0),
                nodes: (0..self.book.node_count())
                    .map(|index| names.contains(self.book.node_name(index)))
                    .collect(),
                jobs_per_processor: partition.jobs_per_processor.max(1),
            });
        }
    }

    /// Budgets are taken from these accounts from now on.
    pub fn take_accounts(&mut self, gate: BudgetGate) {
        self.gate = gate;
    }

    /// Its accounts.
    pub fn gate(&self) -> &BudgetGate {
        &self.gate
    }

    /// Users whose names are wanted: looking one up may take long, so the caller does it and says so by [`Controller::take_users`].
    pub fn unknown_users(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.unknown_users)
    }

    /// Names of users; None for a number that has no name.
    pub fn take_users(&mut self, users: impl IntoIterator<Item = (u32, Option<String>)>) {
        // Names change rarely; whoever was not known is asked for anew.
        self.users.retain(|_, name| name.is_some());
        self.users.extend(users);
    }

    /// Judges a submission. `now`: Unix time.
    pub fn submit(&mut self, submission: &Submission, now: f64) -> Answer {
        // Only the rule that looks at nodes has to wait for them.
        let judges = submission.has_terms() || self.without_terms == WithoutTerms::OtherNodes;
        if self.read.is_none() && judges {
            return Answer::NotReady;
        }
        if matches!(submission.component, None | Some(0)) {
            self.components.remove(&submission.user);
        }
        if !submission.has_terms() {
            return self.submit_without_terms(submission);
        }
        if self.gate.is_on() && !self.users.contains_key(&submission.user) {
            self.unknown_users.push(submission.user);
            return Answer::NotReady;
        }
        if let Some(answer) = self.answer_quote(submission, now) {
            return answer;
        }
        match self.judge(submission, now) {
            Ok(accepted) => {
                if submission.component.is_some() {
                    let taken = self.components.entry(submission.user).or_default();
                    taken.extend(accepted.nodes.iter().cloned());
                }
                Answer::Accept(Box::new(accepted))
            }
            Err(not) if not.verdict.is_let_in() => {
                let why = words::reason(&not.verdict);
                log::error!("a job of user {}: {why}", submission.user);
                Answer::Pass
            }
            Err(not) => Answer::Refuse(Box::new(not)),
        }
    }

    fn judge(&mut self, submission: &Submission, now: f64) -> Result<Accepted, NotAdmitted> {
        let found = (self.find_nodes(submission, false, now)).map_err(NotTaken::from)?;
        let (request, jobs) = (&found.request, found.count());
        let payer = self.payer(submission, request, now);
        let mut taking = self.taking(&found, now);
        let (payer, (partition, admitted, pinned)) =
            admit(payer, request, &mut taking).map_err(|verdict| NotAdmitted { verdict, jobs })?;
        let commitment =
            (self.commit(request, jobs, &admitted, payer.as_ref(), now)).map_err(NotTaken::from)?;
        if submission.without_session {
            let tokens = admitted.token..admitted.token + u64::from(jobs);
            self.tests.extend(tokens.map(|token| (token, now)));
        }
        Ok(self.accepted(
            submission,
            &found.asked,
            commitment,
            partition,
            &admitted,
            pinned,
        ))
    }

    /// What was admitted is committed, and held for on the payer's account; where that fails it is out of the book again.
    pub(super) fn commit(
        &mut self,
        request: &Request,
        count: u32,
        admitted: &Admitted,
        payer: Option<&Payer>,
        now: f64,
    ) -> Result<Commitment, Denied> {
        let commitment = (self.book).commitment(
            request,
            count,
            admitted,
            payer.map(|payer| payer.name.as_str()),
            now,
        );
        if let Some(payer) = payer {
            if let Err(denied) = self.gate.hold(payer, &commitment, now) {
                self.book.release(admitted, count, now);
                return Err(denied);
            }
            self.unnamed.insert(commitment.token, commitment.clone());
        }
        Ok(commitment)
    }

    /// Who pays for it: the user that submits, or the project that is the job's account in Slurm.
    pub(super) fn payer(
        &self,
        submission: &Submission,
        request: &Request,
        now: f64,
    ) -> Result<Option<Payer>, Denied> {
        if !self.gate.is_on() {
            return Ok(None);
        }
        match self.users.get(&submission.user) {
            Some(Some(user)) => (self.gate).payer(
                user,
                submission.account.as_deref(),
                request.terms.budget,
                now,
            ),
            _ => Err(Denied::Account(format!(
                "user {} has no name on the host of slurmctld",
                submission.user
            ))),
        }
    }

    /// Partitions to be tried, by their index, in the user's order.
    pub(super) fn candidates(&self, submission: &Submission) -> Result<Vec<usize>, Problem> {
        if self.shared.is_empty() {
            return Err(Problem::NoPartition);
        }
        let Some(named) = &submission.partition else {
            let default = self.shared.iter().position(|partition| partition.default);
            return Ok(vec![default.unwrap_or(0)]);
        };
        let mut found: Vec<usize> = Vec::new();
        for name in named.split(',') {
            let known = self.shared.iter().position(|p| p.name == name.trim());
            // Each is tried once, however often it is named.
            found.extend(known.filter(|index| !found.contains(index)));
        }
        if found.is_empty() {
            return Err(Problem::OtherPartition {
                named: named.clone(),
                others: self.shared.iter().map(|p| p.name.clone()).collect(),
            });
        }
        Ok(found)
    }

    /// Which nodes may be taken.
    pub(super) fn allowed(
        &self,
        partition: usize,
        submission: &Submission,
        asked: &Asked,
        shape: &Shape,
    ) -> Result<Vec<bool>, Problem> {
        let partition = &self.shared[partition];
        let mut allowed = partition.nodes.clone();
        let mut keep = |keep: &dyn Fn(usize) -> bool, lacks: &dyn Fn() -> Lack| {
            for (index, allowed) in allowed.iter_mut().enumerate() {
                *allowed = *allowed && keep(index);
            }
            match allowed.contains(&true) {
                true => Ok(()),
                false => Err(Problem::NoNode {
                    partition: partition.name.clone(),
                    lacks: lacks(),
                }),
            }
        };
        let name = |index: usize| self.book.node_name(index);
        let required = &submission.required_nodes;
        if !required.is_empty() {
            if required.len() > shape.chunks as usize && asked.array.is_empty() {
                return Err(Problem::NodeList {
                    named: required.len(),
                    asked: shape.chunks,
                });
            }
            let names: HashSet<&str> = required.iter().map(String::as_str).collect();
            keep(&|index| names.contains(name(index)), &|| {
                Lack::Listed(required.clone())
            })?;
        }
        let excluded = &submission.excluded_nodes;
        if !excluded.is_empty() {
            let names: HashSet<&str> = excluded.iter().map(String::as_str).collect();
            keep(&|index| !names.contains(name(index)), &|| {
                Lack::Left(excluded.clone())
            })?;
        }
        if !asked.features.is_empty() {
            keep(
                &|index| {
                    (self.features.get(name(index)))
                        .is_some_and(|has| asked.features.iter().all(|f| has.contains(f)))
                },
                &|| Lack::Features(asked.features.clone()),
            )?;
        }
        // Slurm never starts a job two components of which share a processor.
        if let (Some(1..), Some(taken)) =
            (submission.component, self.components.get(&submission.user))
        {
            keep(
                &|index| !taken.iter().any(|node| node == name(index)),
                &|| Lack::OtherComponents,
            )?;
        }
        // Slurm gives a job no processor of a node twice.
        let wanted = u64::from(shape.processors_per_chunk);
        keep(
            // What is kept for the system is taken off all processors of a node, not one of them.
            &|index| wanted as f64 <= self.book.processors(index).ceil(),
            &|| Lack::Processors(wanted),
        )?;
        // Slurm itself lets only so many jobs on a processor; one more would wait.
        let most = f64::from(partition.jobs_per_processor);
        keep(
            &|index| {
                let processors = self.book.processors(index).ceil();
                (self.book.slots_on(index) + wanted) as f64 <= most * processors
            },
            &|| Lack::Room(partition.jobs_per_processor),
        )?;
        Ok(allowed)
    }

    pub(super) fn accepted(
        &self,
        submission: &Submission,
        asked: &Asked,
        commitment: Commitment,
        partition: usize,
        admitted: &Admitted,
        pinned: bool,
    ) -> Accepted {
        let request = commitment.request;
        let partition = &self.shared[partition];
        let terms = &request.terms;
        // It shares its processor, so it takes longer than its estimate; past its deadline it gets whole ones. Whoever
        // needs another estimate more is stuck, unless the user asked for a longer time.
        let asked_time = f64::from(submission.time_limit.unwrap_or(0)) * 60.0;
        let longest = (terms.deadline + terms.estimate)
            .max(asked_time)
            .min(partition.longest);
        let quote = words::accepted(&commitment, admitted.price, true);
        let job_commitment = JobCommitment {
            commitment,
            tasks: asked.array.clone(),
        };
        let nodes: Vec<String> = match pinned {
            true => (job_commitment.commitment.places.iter())
                .map(|place| place.node.clone())
                .collect(),
            false => Vec::new(),
        };
        Accepted {
            partition: partition.name.clone(),
            nodes,
            node_count: request.shape.chunks,
            tasks_per_node: (submission.tasks)
                .filter(|_| request.shape.scatter)
                .map(|tasks| tasks.max(1) / request.shape.chunks),
            count: job_commitment.commitment.count,
            hold: !pinned,
            admin_comment: job_commitment.comment(),
            commitment: job_commitment.line(),
            time_limit: (longest / 60.0).ceil().max(1.0) as u32,
            quote,
        }
    }
}
