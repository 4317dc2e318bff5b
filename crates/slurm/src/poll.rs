//! A poll of Slurm's own records: acceptances find their jobs, and what started, moved, was requeued or ended is noticed.
//!
//! The records are taken as the truth about everything but acceptances that are younger than they are.

use super::array::{HELD, JobCommitment, is_ours};
use super::controller::Controller;
use super::counted::Known;
use super::orders::{Order, is_marked, is_possible};
use super::others::{NodeTaken, licenses_taken, taken};
use super::records::{
    MemoryRule, Partition, Records, Rest, Rewrite, SlurmJob, State, is_held_again, licenses, rest,
    returned, snapshot,
};
use super::waiting::{Waits, unopened};
use libra_accounts::settlement::HowEnded;
use libra_batch::words;
use libra_core::book::{BookError, Phase, Snapshot, Untaken};
use libra_core::commitment::Commitment;
use libra_core::decision::consumable::Consumable;
use libra_metrics::{Counts, Outcome};
use libra_units::{credits, duration, indices};
use libra_wording::errors;
use std::collections::{HashMap, HashSet};

/// An acceptance whose job is not in records that were taken so many seconds later has none: another plugin or Slurm itself
/// refused it, or it was only a test. Less is no proof: of many submissions that come at once slurmctld lets one after the other
/// become a job, and its own schedulers may be in between.
const UNNAMED: f64 = 5.0;

/// Slurm's times are whole seconds, and a job may be written down a moment after its end.
const SECONDS_CUT: f64 = 2.0;

/// So many seconds after a start nodes that have not answered are taken to be down.
const NODES_ANSWER: f64 = 10.0;

/// Tasks of an array that are to be told their node and let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// As Slurm wants it: `12_[1-3]`.
    pub tasks: String,
    /// The node.
    pub node: String,
}

/// The result of a poll.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Poll {
    /// Lines for the log.
    pub log: Vec<String>,
    /// Tasks to be told their nodes.
    pub pins: Vec<Pin>,
    /// Jobs of which slurmctld is to have something else on record.
    pub rewrites: Vec<Rewrite>,
    /// Jobs that are to stand still or to go on, once their records are rewritten.
    pub orders: Vec<Order>,
    /// What is committed and has no job, or whose job gave it back: what is held for it is free again.
    pub dropped: Vec<Commitment>,
    /// Another poll is wanted at once: a job is to be seen.
    pub again: bool,
    /// What it has found to have happened.
    pub counts: Counts,
}

/// Records, with all that can be made of them without the book: who shares the book with others keeps it to himself only
/// while they are taken.
pub struct Prepared<'a> {
    records: &'a Records,
    snapshot: Snapshot,
    problems: Vec<String>,
    /// Whether a node of Libra's has not been heard of yet.
    unknown: bool,
    libra_nodes: HashSet<String>,
    partitions: Vec<Partition>,
    features: HashMap<String, Vec<String>>,
    taken: HashMap<String, NodeTaken>,
    gres: Known,
    licenses_taken: Vec<(Consumable, u64)>,
    committed_jobs: HashSet<u32>,
    held_jobs: HashSet<u32>,
    newest_job: u32,
    arrays_wait: bool,
    pins: Vec<Pin>,
    ended: Vec<Ended<'a>>,
    /// Waiting jobs that hold nothing.
    resting: Vec<(&'a SlurmJob, &'a JobCommitment, Rest)>,
    /// Jobs that wait with a deferred promise.
    waits: Vec<Waits>,
    /// Jobs that are confirmed, and that slurmctld was not told yet that they may begin.
    unopened: Vec<Rewrite>,
    /// Numbers of those of which [`is_marked`] says so.
    marked: HashSet<u32>,
    /// Jobs that may be made to stand still for others.
    suspendable: HashSet<String>,
    /// Jobs that were held and are not any more, and what was committed to them before.
    returned: Vec<(&'a SlurmJob, Commitment)>,
}

fn told(records: &[Untaken]) -> Vec<String> {
    records.iter().map(errors::untaken).collect()
}

/// A job that has a commitment and has ended.
struct Ended<'a> {
    job: &'a SlurmJob,
    name: String,
    commitment: &'a JobCommitment,
    /// The jobs of the book that it is, each with the number of its plan.
    parts: Vec<(String, u32)>,
}

impl Ended<'_> {
    fn new(job: &SlurmJob) -> Option<Ended<'_>> {
        if job.state != State::Ended {
            return None;
        }
        let commitment = job.admin_comment.commitment()?.ok()?;
        Some(Ended {
            job,
            name: job.name(),
            parts: job.parts(commitment),
            commitment,
        })
    }
}

impl<'a> Prepared<'a> {
    /// `wanted`: partitions whose processors jobs with terms share; none: those with `OverSubscribe=FORCE`.
    pub fn new(records: &'a Records, wanted: &[String]) -> Prepared<'a> {
        let libra_nodes: HashSet<String> = (records.partitions.iter())
            .filter(|partition| partition.is_shared(wanted))
            .flat_map(|partition| partition.nodes.iter().cloned())
            .collect();
        let (mut committed_jobs, mut newest_job, mut arrays_wait) = (HashSet::new(), 0, false);
        for job in &records.jobs {
            let array = job.array.as_ref().map(|array| array.array);
            newest_job = newest_job.max(job.id).max(array.unwrap_or(0));
            if job.state != State::Ended && is_ours(&job.admin_comment) {
                committed_jobs.insert(job.id);
                committed_jobs.extend(array);
                arrays_wait |= array.is_some() && job.state == State::Pending;
            }
        }
        let (snapshot, problems) = snapshot(records, &|name| libra_nodes.contains(name));
        let taken = taken(records, &|name| libra_nodes.contains(name));
        Prepared {
            records,
            snapshot,
            problems,
            unknown: (records.nodes.iter())
                .any(|node| node.unknown && libra_nodes.contains(&node.name)),
            partitions: records.partitions.clone(),
            features: (records.nodes.iter())
                .filter(|node| !node.features.is_empty())
                .map(|node| (node.name.clone(), node.features.clone()))
                .collect(),
            taken,
            gres: Known::new(
                (records.nodes.iter())
                    .filter(|node| libra_nodes.contains(&node.name))
                    .map(|node| (node.name.as_str(), node.gres.as_slice())),
                licenses(records),
            ),
            licenses_taken: licenses_taken(records),
            libra_nodes,
            committed_jobs,
            held_jobs: (records.jobs.iter())
                .filter(|job| job.admin_comment.starts_with(HELD) || is_held_again(job))
                .map(|job| job.id)
                .collect(),
            newest_job,
            arrays_wait,
            pins: pins(records),
            ended: records.jobs.iter().filter_map(Ended::new).collect(),
            resting: (records.jobs.iter())
                .filter_map(|job| {
                    let commitment = job.admin_comment.commitment()?.ok()?;
                    let rest = rest(job, &commitment.commitment, records.taken)?;
                    Some((job, commitment, rest))
                })
                .collect(),
            waits: Waits::of(records),
            unopened: (records.jobs.iter())
                .filter_map(|job| unopened(job, records.taken))
                .collect(),
            marked: (records.jobs.iter())
                .filter(|job| is_marked(job))
                .map(|job| job.id)
                .collect(),
            suspendable: (records.jobs.iter())
                .filter(|job| is_possible(job, records.taken))
                .map(SlurmJob::name)
                .collect(),
            returned: (records.jobs.iter())
                .filter_map(|job| Some((job, returned(job)?)))
                .collect(),
        }
    }
}

/// Returns true if there is a job of what is committed, or there was one a short time ago.
fn has_job(commitment: &Commitment, snapshot: &Snapshot, ended: &[Ended<'_>]) -> bool {
    let tokens = commitment.token..commitment.token.saturating_add(u64::from(commitment.count));
    (snapshot.jobs.iter()).any(|job| tokens.contains(&job.token))
        || (ended.iter()).any(|ended| ended.commitment.commitment.token == commitment.token)
}

impl Controller {
    /// Takes records of jobs, nodes and partitions. The first ones make the book, later ones are compared with it.
    ///
    /// # Errors
    /// When the records are too old or contradict themselves; the book is as it was then.
    pub fn poll(&mut self, records: &Records, now: f64) -> Result<Poll, BookError> {
        let mut prepared = Prepared::new(records, self.wanted());
        self.take(&mut prepared, now)
    }

    /// As [`Controller::poll`]. What was taken before is in `prepared` then, to be dropped by the caller when it likes.
    ///
    /// # Errors
    /// As [`Controller::poll`].
    pub fn take(&mut self, prepared: &mut Prepared<'_>, now: f64) -> Result<Poll, BookError> {
        let records = prepared.records;
        let mut poll = Poll::default();
        std::mem::swap(&mut self.front.libra_nodes, &mut prepared.libra_nodes);
        let first = self.read.is_none();
        // Before the nodes have answered after a start of slurmctld every job would be refused.
        if first && now - self.begun < NODES_ANSWER && prepared.unknown {
            return Ok(poll);
        }
        for node in &mut prepared.snapshot.nodes {
            node.processors = self.reserve.leaves(node.processors);
        }
        self.let_rest(&prepared.resting, records.taken, now, &mut poll);
        let problems = match first {
            true => {
                let untaken = self.admission.book.rebuild(&prepared.snapshot)?;
                if let Some(text) = self.written_quotes.take() {
                    poll.log.extend(self.admission.restore_quotes(&text, now));
                }
                told(&untaken)
            }
            false => {
                let snapshot = &mut prepared.snapshot;
                self.name_accepted(snapshot, now, &mut poll);
                self.end(&prepared.ended, records, now, &mut poll);
                self.follow(snapshot, now, &mut poll);
                let differences = self.admission.book.reconcile(snapshot, now)?;
                let book = &mut self.admission.book;
                let mut dropped =
                    (self.test_only).searched(records.taken, now, |token| book.drop_token(token));
                let of_tests = dropped.len();
                dropped.extend(self.admission.book.drop_unnamed(records.taken - UNNAMED));
                let commitment: Vec<Commitment> = (dropped.iter())
                    .filter_map(|token| self.unnamed.remove(token))
                    .collect();
                // Of an array the first token stands for all: the task whose token it was may have gone without a record.
                poll.dropped.extend(
                    commitment
                        .into_iter()
                        .filter(|commitment| !has_job(commitment, snapshot, &prepared.ended)),
                );
                dropped.drain(..of_tests);
                if !dropped.is_empty() {
                    let dropped = dropped.len();
                    poll.log
                        .push(format!("{dropped} acceptances have no job, taken back"));
                }
                poll.counts
                    .vanish(differences.vanished.len(), differences.waited);
                poll.log
                    .extend((differences.vanished.iter()).map(|id| format!("job {id} is gone")));
                poll.log.extend(
                    differences
                        .found
                        .iter()
                        .map(|id| format!("job {id} was found")),
                );
                told(&differences.problems)
            }
        }
        .into_iter()
        .chain(std::mem::take(&mut prepared.problems));
        poll.log
            .extend(problems.map(|problem| format!("not taken: {problem}")));
        self.front.set_partitions(
            &mut prepared.partitions,
            &mut prepared.features,
            &records.nodes,
            &self.admission.book,
        );
        std::mem::swap(&mut self.front.gres, &mut prepared.gres);
        std::mem::swap(&mut self.front.suspendable, &mut prepared.suspendable);
        self.take_others(&mut prepared.taken, records.memory);
        (self.admission.book).set_cluster_taken(&prepared.licenses_taken);
        std::mem::swap(&mut self.committed_jobs, &mut prepared.committed_jobs);
        std::mem::swap(&mut self.held_jobs, &mut prepared.held_jobs);
        self.newest_job = self.newest_job.max(prepared.newest_job);
        self.arrays_wait = prepared.arrays_wait;
        self.admission.book.refresh_waiting(now);
        self.find_deferred(records, UNNAMED, &mut poll);
        poll.rewrites.append(&mut prepared.unopened);
        self.ask_anew(&prepared.returned, now, &mut poll);
        self.ask_deferred(&prepared.waits, now, &mut poll);
        self.give_up_unpaid(&records.jobs, now, &mut poll);
        self.let_stand_still(records, &prepared.marked, now, &mut poll);
        let rewrites = poll.rewrites.iter_mut();
        rewrites.for_each(|rewrite| rewrite.keep(&records.beside));
        self.rewrites.clone_from(&poll.rewrites);
        poll.pins = std::mem::take(&mut prepared.pins);
        poll.counts.withdrawn += self.admission.book.take_withdrawn();
        if first {
            poll.log.push(format!(
                "{} nodes, {} jobs with terms",
                self.admission.book.node_count(),
                self.admission.book.job_count()
            ));
        }
        self.read = Some(records.taken);
        Ok(poll)
    }

    /// What jobs without a promise hold from now on. What was before is handed back.
    fn take_others(&mut self, taken: &mut HashMap<String, NodeTaken>, memory: MemoryRule) {
        self.front.memory = memory;
        std::mem::swap(&mut self.front.taken, taken);
        let (now, before) = (&self.front.taken, taken);
        let nothing = NodeTaken::default();
        let held =
            |all: &HashMap<String, NodeTaken>, node: &str| -> (u64, Vec<(Consumable, u64)>) {
                let taken = all.get(node).unwrap_or(&nothing);
                (taken.memory, taken.gres.clone())
            };
        for node in now.keys().chain(before.keys()) {
            let (memory, gres) = held(now, node);
            if (memory, &gres) != (held(before, node).0, &held(before, node).1) {
                // A node that the book does not have is nobody's.
                let _ = (self.admission.book).set_taken(node, memory, &gres);
            }
        }
    }

    /// Acceptances get the numbers of their jobs.
    fn name_accepted(&mut self, snapshot: &Snapshot, now: f64, poll: &mut Poll) {
        for job in &snapshot.jobs {
            let Some(id) = &job.id else { continue };
            if job.token != 0
                && !self.admission.book.contains(id)
                && self.admission.book.bind(job.token, id, now).is_ok()
            {
                self.unnamed.remove(&job.token);
                if let Some(latest) = job.starts_by {
                    poll.log.push(format!(
                        "job {id}: planned for {} credits, begins in {} at the latest",
                        credits(job.price),
                        duration::show((latest - now).max(0.0)),
                    ));
                    continue;
                }
                poll.log.push(format!(
                    "job {id}: {} of a processor for {} credits, {}",
                    libra_units::percent(job.places.first().map_or(0.0, |place| place.share)),
                    credits(job.price),
                    words::due(&job.request.terms, now - job.submitted),
                ));
            }
        }
    }

    /// Jobs that have ended leave the book, and their deadlines are judged.
    fn end(&mut self, all: &[Ended<'_>], records: &Records, now: f64, poll: &mut Poll) {
        // Slurm shows them for minutes, and the poll before has seen to those that had ended then.
        let seen = self.read.unwrap_or(0.0) - SECONDS_CUT;
        let is_new = |ended: &&Ended<'_>| !(0.0 < ended.job.ended && ended.job.ended < seen);
        for ended in all.iter().filter(is_new) {
            let never_began = self.name_ended(ended, records, now);
            let Ended { job, name, .. } = ended;
            // One that began all the same, and was confirmed since, is judged like any other.
            let ran = job.how != HowEnded::NeverBegan && !job.cut_short;
            let is_confirmed = ran && self.admission.book.contains(name);
            if ended.commitment.commitment.deferred && !is_confirmed {
                self.end_deferred(job, ended.commitment, now, poll);
                continue;
            }
            poll.counts.end_many(Outcome::Cancelled, never_began as u64);
            if never_began > 0 {
                poll.log.push(format!(
                    "job {name} was ended before it was done: {never_began} of its tasks never began"
                ));
            }
            if !self.admission.book.contains(name) {
                continue;
            }
            let commitment = &ended.commitment.commitment;
            let ended = if job.ended > commitment.submitted {
                job.ended.min(now)
            } else {
                now
            };
            let took = ended - commitment.submitted;
            // Slurm's times are whole seconds, cut off.
            let result = match (job.cut_short, job.failed) {
                (true, _) => "was ended before it was done".to_string(),
                // A task that its node refused looks the same as a program that did not succeed.
                (false, true) => words::failed(commitment, took),
                (false, false) => words::met_or_missed(commitment, took),
            };
            let terms = &commitment.request.terms;
            let outcome = Outcome::of(took, terms.deadline, job.cut_short)
                .but_failed(job.failed)
                .if_promised(terms.promises_end());
            (poll.counts).end(outcome.if_conditional(commitment.conditional));
            // It is in the book, so this cannot fail.
            let _ = self.admission.book.ended(name, now);
            poll.log.push(format!(
                "job {name} {result}: ended after {} of {}, price {}{}",
                duration::show(took),
                duration::show(terms.expected_end()),
                credits(commitment.price),
                words::paid_back(commitment, took),
            ));
        }
    }

    /// A job that came and went between two polls has its share still under the token alone. Returns how many tasks of an
    /// array were taken back that never began.
    fn name_ended(&mut self, ended: &Ended<'_>, records: &Records, now: f64) -> usize {
        let Ended {
            job, commitment, ..
        } = ended;
        let token = commitment.commitment.token;
        let array = match &job.array {
            Some(array) if array.tasks.is_empty() => array.array,
            _ => {
                for (name, number) in &ended.parts {
                    if !self.admission.book.contains(name) {
                        // Its own share may be gone already.
                        let _ = self
                            .admission
                            .book
                            .bind(token + u64::from(*number), name, now);
                    }
                }
                return 0;
            }
        };
        // Mostly it is long gone, and the tokens with it.
        let mut tokens = token..token.saturating_add(u64::from(commitment.commitment.count));
        if !tokens.any(|token| self.admission.book.has_token(token)) {
            return 0;
        }
        // An array of which tasks were cancelled before they had records of their own; Slurm does not say any more which.
        let own: HashSet<u32> = (records.jobs.iter())
            .filter_map(|other| other.array.as_ref())
            .filter(|other| other.array == array)
            .flat_map(|other| other.tasks.iter().copied())
            .collect();
        let mut taken_back = 0;
        for task in commitment.tasks.iter().filter(|task| !own.contains(task)) {
            let number = u64::from(commitment.number_of(*task));
            if !self.admission.book.contains(&format!("{array}_{task}"))
                && self
                    .admission
                    .book
                    .cancel_token(token + number, now)
                    .is_ok()
            {
                taken_back += 1;
            }
        }
        taken_back
    }

    /// Jobs that Slurm runs elsewhere than planned count there. Of jobs with shares what the book knows of their progress is as good as what
    /// the records would say, so that is taken out of them. Of whole processors the records know how long a job stood still.
    fn follow(&mut self, snapshot: &mut Snapshot, now: f64, poll: &mut Poll) {
        for job in &mut snapshot.jobs {
            let Some(id) = job
                .id
                .as_ref()
                .filter(|id| self.admission.book.contains(id))
            else {
                continue;
            };
            if !job.request.terms.class.is_whole() {
                job.places.iter_mut().for_each(|place| place.cput = 0.0);
            }
            if job.phase != Phase::Running {
                continue;
            }
            let Ok(planned) = self.admission.book.places(id) else {
                continue;
            };
            let same = planned.len() == job.places.len()
                && (planned.iter()).all(|p| {
                    (job.places.iter())
                        .any(|given| p.node == given.node && p.chunks == given.chunks)
                });
            if same {
                continue;
            }
            let given: Vec<(String, u32)> = (job.places.iter())
                .map(|place| (place.node.clone(), place.chunks))
                .collect();
            match self.admission.book.moved(id, &given, now) {
                Ok(()) => poll.log.push(format!(
                    "job {id} runs on {}, not where it was planned",
                    (given
                        .iter()
                        .map(|(node, _)| node.as_str())
                        .collect::<Vec<_>>())
                    .join(" and ")
                )),
                Err(error) => poll.log.push(format!(
                    "job {id} runs elsewhere than planned: {}",
                    errors::book(&error)
                )),
            }
        }
    }
}

/// Waiting tasks of arrays that were planned for several nodes and not told them yet.
fn pins(records: &Records) -> Vec<Pin> {
    let mut pins = Vec::new();
    for job in &records.jobs {
        let SlurmJob {
            array: Some(array),
            state: State::Pending,
            held: true,
            pinned: false,
            ..
        } = job
        else {
            continue;
        };
        let Some(Ok(commitment)) = job.admin_comment.commitment() else {
            continue;
        };
        // One whose promise is deferred is held by its user.
        if commitment.commitment.deferred {
            continue;
        }
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for &task in &array.tasks {
            let plan = commitment.commitment.plan(commitment.number_of(task));
            let Some(place) = plan.first() else { continue };
            match groups.iter_mut().find(|(node, _)| *node == place.node) {
                Some((_, tasks)) => tasks.push(task),
                None => groups.push((place.node.clone(), vec![task])),
            }
        }
        pins.extend(groups.into_iter().map(|(node, tasks)| Pin {
            tasks: format!("{}_[{}]", array.array, indices::show(&tasks)),
            node,
        }));
    }
    pins
}
