//! Slurm's own records of jobs, nodes and partitions, as plain data, and the book made of them.
//!
//! Whoever reads Slurm fills these in: the plugin inside slurmctld through libslurm, the command line from what
//! `squeue` and `sinfo` print.

use super::admin_comment::AdminComment;
use super::array::{
    ArrayTasks, HELD, JobCommitment, PREFIX, beside, going_on_by, is_deferred, split,
};
use super::gres::{self, Gres};
use libra_accounts::settlement::HowEnded;
use libra_core::book::{AllocationRecord, JobRecord, NodeRecord, Phase, Snapshot, Suspension};
use libra_core::commitment::Commitment;
use libra_core::decision::consumable::Consumable;
use libra_units::indices;
use std::collections::HashMap;

/// Everything, as it was at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    /// When reading began, Unix time: whatever happened before is in it.
    pub taken: f64,
    /// Jobs; those without an admin comment may be left out.
    pub jobs: Vec<SlurmJob>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Partitions.
    pub partitions: Vec<Partition>,
    /// Jobs that have nodes and no commitment.
    pub others: Vec<OtherJob>,
    /// How memory is counted.
    pub memory: MemoryRule,
    /// Licences of the cluster, those that are kept for reservations left out.
    pub licenses: Vec<(String, u64)>,
    /// What others have in the admin comments of Libra's jobs, by their numbers and those of their arrays.
    pub beside: HashMap<u32, String>,
    /// Slurm's StateSaveLocation, which all hosts of control share; empty where it is not known.
    pub state: String,
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Waits: new, requeued, or held.
    Pending,
    /// Runs, or is suspended: it has its processors.
    Running,
    /// Does not run any more. Slurm shows it for some minutes (MinJobAge).
    Ended,
}

/// A job, a task of an array, or the tasks of an array that wait.
#[derive(Debug, Clone, PartialEq)]
pub struct SlurmJob {
    /// Slurm's number.
    pub id: u32,
    /// Of a task or a whole array.
    pub array: Option<ArrayTasks>,
    /// State.
    pub state: State,
    /// `libra:` and the commitment, for jobs that have one.
    pub admin_comment: AdminComment,
    /// Nodes that it has.
    pub nodes: Vec<String>,
    /// The user's comment, of jobs that have a commitment.
    pub comment: String,
    /// Priority 0.
    pub held: bool,
    /// It is held, or not to begin yet; the time at which Libra keeps it is no reason.
    pub waits: bool,
    /// Libra keeps it from starting by its begin time, see [`super::waiting`].
    pub kept: bool,
    /// What it waits for, of one that is pending and whose promise is deferred.
    pub deferred: Option<Box<WaitingFor>>,
    /// Whether it was told its nodes.
    pub pinned: bool,
    /// Unix time; 0 where it has not started.
    pub started: f64,
    /// Unix time; 0 or an estimate where it has not ended.
    pub ended: f64,
    /// Whether it was deleted, or ended by its time limit.
    pub cut_short: bool,
    /// Whether it ended with another exit status than 0.
    pub failed: bool,
    /// How it ended, where it has.
    pub how: HowEnded,
    /// How often it was requeued.
    pub restarts: u32,
    /// Seconds that it has run, suspended ones not counted; since its last start.
    pub ran: f64,
    /// Slurm has suspended it.
    pub suspended: bool,
    /// When Slurm suspended it or let it go on last, Unix time; 0 where it never did, or where that is not asked for.
    pub changed: f64,
    /// User number of its owner.
    pub user: u32,
    /// Whether it is a component of a heterogeneous job.
    pub component: bool,
}

/// What a job does of running.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Runs {
    /// It waits.
    NotYet,
    /// It runs.
    Now,
    /// Slurm has suspended it.
    Suspended,
    /// It ended then, Unix time.
    Until(f64),
}

/// How long a job has run since its last start, suspended time left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Seconds, until it was suspended or went on last, or to its end.
    before: f64,
    /// Since when it runs now, Unix time.
    since: Option<f64>,
}

impl Run {
    /// `started`: when it did, Unix time; `changed`: when it was suspended or went on last, 0 for never, and how many seconds it had run then.
    pub fn of(runs: Runs, started: f64, changed: (f64, f64)) -> Run {
        let (before, since) = match changed {
            (0.0, _) => (0.0, started),
            (at, before) => (before, at),
        };
        let (before, since) = match runs {
            Runs::NotYet => (0.0, None),
            Runs::Suspended => (changed.1, None),
            Runs::Now => (before, Some(since)),
            Runs::Until(ended) => (before + ended - since, None),
        };
        Run { before, since }
    }

    /// Seconds by `taken`, Unix time.
    pub fn seconds(self, taken: f64) -> f64 {
        (self.before + self.since.map_or(0.0, |since| taken - since)).max(0.0)
    }
}

/// What a job whose promise is deferred waits for, and where it may go: as Slurm has it now, since both may be changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitingFor {
    /// Unix time, from which on its user lets it start.
    pub begin: f64,
    /// Slurm will never let it start: what it depends on has ended otherwise.
    pub never: bool,
    /// Its partition.
    pub partition: String,
    /// Nodes that it lists.
    pub required_nodes: Vec<String>,
    /// Nodes that it leaves out.
    pub excluded_nodes: Vec<String>,
    /// Features that its nodes must have, as they were given.
    pub features: Option<String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Processors that jobs may have.
    pub processors: u32,
    /// Mebibytes that jobs may have.
    pub memory: u64,
    /// Whether it takes jobs: up, answering, not drained.
    pub up: bool,
    /// Whether it has not been heard of since slurmctld started.
    pub unknown: bool,
    /// Whether its slurmd answers.
    pub answers: bool,
    /// Since when its slurmd is up, Unix time by its own clock; 0 where that is not known or not asked for.
    pub up_since: f64,
    /// Features that are active.
    pub features: Vec<String>,
    /// Generic resources.
    pub gres: Vec<Gres>,
}

/// Memory, in mebibytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// On each node.
    PerNode(u64),
    /// For each processor.
    PerProcessor(u64),
    /// All that its node has: `--mem=0`.
    AllOfNode,
}

impl Memory {
    /// Bytes that a job of so many processors has on a node; None for all of them.
    pub fn bytes(self, processors: u32) -> Option<u64> {
        let mebibytes = match self {
            Memory::PerNode(memory) => memory,
            Memory::PerProcessor(memory) => memory.saturating_mul(u64::from(processors)),
            Memory::AllOfNode => return None,
        };
        Some(mebibytes.saturating_mul(1 << 20))
    }
}

/// How a job gets along with others on its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// As its partition says.
    ByPartition,
    /// Its user lets others share its processors, where its partition lets him.
    Asked,
    /// With jobs of its user alone.
    WithUser,
    /// With those of its group or topology.
    WithFew,
}

/// A job that has nodes, and nothing committed to it.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherJob {
    /// User number of its owner.
    pub user: u32,
    /// Its partition.
    pub partition: String,
    /// How it shares.
    pub sharing: Sharing,
    /// Nodes that it has, or has not left yet.
    pub nodes: Vec<String>,
    /// Processors that it has on each: of several nodes that differ, in the mean.
    pub processors: u32,
    /// Memory that it has on each.
    pub memory: Memory,
    /// Generic resources that it has on each, in their order; empty for a job without any.
    pub gres: Vec<Vec<Gres>>,
    /// Licences that it has.
    pub licenses: Vec<(String, u64)>,
}

/// How Slurm counts memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryRule {
    /// Jobs use it up.
    pub counted: bool,
    /// What a job has that names none, unless its partition says otherwise; None for all of its node.
    pub default: Option<Memory>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Name.
    pub name: String,
    /// Names of its nodes.
    pub nodes: Vec<String>,
    /// `OverSubscribe=FORCE`: jobs share processors whether they ask for it or not.
    pub shared: bool,
    /// Jobs that may share one processor.
    pub jobs_per_processor: u32,
    /// Minutes that a job may run; None for no limit.
    pub longest: Option<u32>,
    /// Whether it is taken where a user names none.
    pub default: bool,
    /// Takes and starts jobs.
    pub up: bool,
    /// `ExclusiveUser=YES`: a node has jobs of one user at a time.
    pub one_user: bool,
    /// What a job has that names no memory; None for what the cluster says.
    pub default_memory: Option<Memory>,
}

impl Partition {
    /// Returns true if jobs with terms share its processors. `wanted`: names of such partitions; none: those where Slurm shares them.
    pub fn is_shared(&self, wanted: &[String]) -> bool {
        match wanted.is_empty() {
            true => self.shared,
            false => wanted.contains(&self.name),
        }
    }
}

impl SlurmJob {
    /// The name that this job has in the book, and on its nodes: `12`, or `12_3` for task 3 of an array.
    pub fn name(&self) -> String {
        match &self.array {
            Some(ArrayTasks { array, tasks }) if tasks.len() == 1 => {
                format!("{array}_{}", tasks[0])
            }
            _ => self.id.to_string(),
        }
    }

    /// The jobs of the book that this record stands for, each with the number of its plan; one, or the waiting tasks
    /// of an array.
    pub fn parts(&self, commitment: &JobCommitment) -> Vec<(String, u32)> {
        match &self.array {
            None => vec![(self.id.to_string(), 0)],
            Some(ArrayTasks { array, tasks }) => (tasks.iter())
                .map(|task| (format!("{array}_{task}"), commitment.number_of(*task)))
                .collect(),
        }
    }
}

/// The records as a snapshot for [`libra_core::book::Book::rebuild`] and [`libra_core::book::Book::reconcile`], and what could not be
/// taken. `is_libra`: is this node in one of Libra's partitions?
///
/// A running job counts as having run at the share committed to it since it started: Slurm measures nothing that would say it
/// better at once.
pub fn snapshot(records: &Records, is_libra: &dyn Fn(&str) -> bool) -> (Snapshot, Vec<String>) {
    let mut problems = Vec::new();
    let mut snapshot = Snapshot {
        consumables: licenses(records),
        version: 1,
        now: records.taken,
        nodes: (records.nodes.iter())
            .filter(|node| is_libra(&node.name))
            .map(node_record)
            .collect(),
        jobs: Vec::new(),
    };
    for job in &records.jobs {
        if job.state == State::Ended {
            continue;
        }
        match job.admin_comment.commitment() {
            None => {}
            // It has no share before it is asked for anew, and a place where that is planned.
            Some(Ok(commitment)) if commitment.commitment.deferred => {
                let planned = commitment.commitment.starts_by.is_some();
                if planned && job.state == State::Pending {
                    (snapshot.jobs).extend(job_records(job, commitment, records.taken));
                }
            }
            // It waits and holds nothing.
            Some(Ok(commitment)) if rest(job, &commitment.commitment, records.taken).is_some() => {}
            Some(Ok(commitment)) => {
                snapshot
                    .jobs
                    .extend(job_records(job, commitment, records.taken))
            }
            Some(Err(error)) => problems.push(format!("job {}: {error}", job.name())),
        }
    }
    (snapshot, problems)
}

/// Licences, as the book counts them.
pub(super) fn licenses(records: &Records) -> Vec<(Consumable, u64)> {
    let all = records.licenses.iter();
    all.filter_map(|(name, count)| Some((gres::license(name)?, *count)))
        .collect()
}

/// The priority of a job that starts now: above those that Slurm gives (below 2^32 - 2^16), and below the numbers that have another meaning. Else a job
/// that waits, for memory or a node of its own, would hold up those behind it in the queue, although there is room for them.
pub const FIRST: u32 = u32::MAX - 15;

/// What slurmctld is to have on record of a job from now on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewrite {
    /// Its number, or that of its array.
    pub job: u32,
    /// Tasks of the array, ascending; none for a job that is no array.
    pub tasks: Vec<u32>,
    /// See [`super::array`].
    pub admin_comment: String,
    /// Its comment: what its owner is told.
    pub comment: String,
    /// It is held.
    pub hold: bool,
    /// It stays held, by whom it was.
    pub stays_held: bool,
    /// It runs, or stands still: nothing but its record changes.
    pub runs: bool,
    /// It is not held any more, whoever has held it.
    pub release: bool,
    /// The nodes that it is told; none for no change.
    pub nodes: Vec<String>,
    /// When it may begin, Unix time; None for no change.
    pub begin: Option<u64>,
}

impl Rewrite {
    /// Returns true if it is to start now, before all others.
    pub fn starts(&self) -> bool {
        let (_, comment) = split(&self.admin_comment);
        !(self.hold || self.stays_held || self.runs)
            && comment.starts_with(PREFIX)
            && !is_deferred(comment)
    }

    /// What others have in its admin comment stays there.
    pub(super) fn keep(&mut self, theirs: &HashMap<u32, String>) {
        if let Some(theirs) = theirs.get(&self.job) {
            self.admin_comment = beside(theirs, &self.admin_comment);
        }
    }

    /// The job, or tasks of an array, as Slurm wants it: `12`, `12_[1-3]`.
    pub fn name(&self) -> String {
        match self.tasks.is_empty() {
            true => self.job.to_string(),
            false => format!("{}_[{}]", self.job, indices::show(&self.tasks)),
        }
    }
}

/// What stands before Libra's words, where a job's comment has others.
const OURS: &str = " | libra: ";

/// The comment of a job, with what its owner is told in the place of what was said before.
pub(super) fn told(comment: &str, text: &str) -> String {
    let own = comment.split(OURS).next().unwrap_or_default().trim();
    match own.is_empty() || own.starts_with("libra:") {
        true => format!("libra: {text}"),
        false => format!("{own}{OURS}{text}"),
    }
}

/// Why a waiting job holds nothing of what was committed to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It is held.
    Held,
    /// It ran, was requeued, and is held: its owner may do that, and a reservation that nobody uses would cost nothing.
    HeldAgain,
    /// Its deadline has passed.
    Lapsed,
}

/// Returns true if it was requeued and is held: its owner may do that, and may let it go again.
pub(super) fn is_held_again(job: &SlurmJob) -> bool {
    job.held
        && job.restarts > 0
        && job.state == State::Pending
        && going_on_by(&job.admin_comment).is_none()
}

/// Tells whether it waits without what was committed to it, by its record of `at`.
pub fn rest(job: &SlurmJob, commitment: &Commitment, at: f64) -> Option<Rest> {
    // One whose promise is deferred has nothing to give back.
    if job.state != State::Pending || commitment.deferred {
        return None;
    }
    if job.waits && job.array.is_none() && commitment.count == 1 && job.restarts == 0 {
        return Some(Rest::Held);
    }
    if is_held_again(job) {
        return Some(Rest::HeldAgain);
    }
    (at >= commitment.submitted + commitment.request.terms.deadline).then_some(Rest::Lapsed)
}

/// A job that gave back what it had and waits no longer, or that runs although its promise is deferred; what was committed to it before.
pub(super) fn returned(job: &SlurmJob) -> Option<Commitment> {
    if job.state == State::Running && is_deferred(&job.admin_comment) {
        let committed = job.admin_comment.commitment()?.ok()?;
        return Some(committed.commitment.clone());
    }
    let line = job.admin_comment.strip_prefix(HELD)?;
    let waits = job.state == State::Ended || (job.state == State::Pending && job.waits);
    if waits {
        None
    } else {
        Commitment::parse(line).ok()
    }
}

/// Slurm's times are whole seconds, cut off: a job may have run so much less.
const SECONDS_CUT: f64 = 1.0;

fn job_records(job: &SlurmJob, commitment: &JobCommitment, taken: f64) -> Vec<JobRecord> {
    let runs = job.state == State::Running;
    let record = |(id, number): (String, u32)| {
        let request = commitment.commitment.request;
        let plan = commitment.commitment.plan(number);
        let mut places: Vec<AllocationRecord> = (plan.into_iter())
            .map(|place| AllocationRecord {
                node: place.node,
                chunks: place.chunks,
                share: place.share,
                committed_share: 0.0,
                cput: 0.0,
                delay: 0.0,
            })
            .collect();
        if let (true, Some(like), Some(nodes)) = (
            runs,
            places.first().cloned(),
            placed(&job.nodes, request.shape.chunks),
        ) {
            places = (nodes.into_iter())
                .map(|(node, chunks)| AllocationRecord {
                    node,
                    chunks,
                    ..like.clone()
                })
                .collect();
        }
        if runs && job.started > 0.0 {
            for place in &mut places {
                let ran = (taken - job.started).max(0.0);
                // Whole processors are in use for as long as it runs: how long it has outlived its estimate is to be seen.
                place.cput = match request.terms.class.is_whole() {
                    true => (job.ran - SECONDS_CUT).max(0.0),
                    false => (place.share * ran).min(request.terms.estimate),
                };
            }
        }
        JobRecord {
            id: Some(id),
            token: commitment.commitment.token + u64::from(number),
            request,
            margin: commitment.commitment.margin,
            price: commitment.commitment.price,
            submitted: commitment.commitment.submitted,
            phase: if runs { Phase::Running } else { Phase::Bound },
            starts_by: (commitment.commitment.starts_by).filter(|_| !runs),
            suspended: going_on_by(&job.admin_comment)
                .filter(|_| runs)
                .map(|mark| Suspension::new(mark.by, job.suspended)),
            places,
        }
    };
    job.parts(commitment).into_iter().map(record).collect()
}

/// Which nodes have how many chunks: all on one node, or one on each. None if Slurm's nodes are neither.
fn placed(nodes: &[String], chunks: u32) -> Option<Vec<(String, u32)>> {
    match nodes {
        [one] => Some(vec![(one.clone(), chunks)]),
        several if several.len() == chunks as usize => {
            Some(several.iter().map(|node| (node.clone(), 1)).collect())
        }
        _ => None,
    }
}

fn node_record(node: &Node) -> NodeRecord {
    NodeRecord {
        name: node.name.clone(),
        processors: f64::from(node.processors),
        rating: 1.0,
        memory: Some(node.memory << 20),
        consumables: gres::sums(&node.gres),
        available: node.up,
        committed: 0.0,
    }
}
