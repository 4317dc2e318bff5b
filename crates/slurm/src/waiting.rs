//! What waits with a deferred promise, in Slurm's records, and the time at which Libra keeps it: see [`super::deferred`]. Pure.

use super::array::{JobCommitment, is_deferred};
use super::records::{Records, Rewrite, SlurmJob, State, WaitingFor, told};
use libra_core::commitment::Commitment;
use std::collections::HashMap;

/// Seconds by which the begin time that Slurm has of a job is later than the one that its user has asked for: ten years. The sum stays below 2^31
/// until 2028, and time is wider everywhere.
pub const KEPT: u64 = 3650 * 86400;

/// A begin time that is further away than this is one of Libra's: seconds. Users' own are nearer ([`super::problem::MOST_DAYS`]).
const OWN: f64 = 1800.0 * 86400.0;

/// The begin time that Slurm is told for the one that a user asks for.
pub fn begin_for_slurm(begin: f64) -> u64 {
    begin.max(0.0) as u64 + KEPT
}

/// When a job was to begin by its user, if it is kept, by its begin time in a record of `taken`.
pub fn asked_begin(begin: f64, taken: f64) -> Option<f64> {
    (begin > taken + OWN).then_some(begin - KEPT as f64)
}

/// A job, or what is left of an array, that waits with a deferred promise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waits {
    /// Its number, or that of its array.
    pub(super) id: u32,
    /// The same, and those of tasks that have records of their own.
    ids: Vec<u32>,
    /// As it is on record, with all tasks that an array was submitted with.
    pub(super) known: JobCommitment,
    /// What is left of an array, ascending.
    pub(super) tasks: Vec<u32>,
    pub(super) waiting: WaitingFor,
    /// Some of it is held, depends on others, or is to begin later.
    pub(super) not_yet: bool,
    /// Slurm has taken its begin time away: it does so where the account or the QOS of a job is not valid for a while.
    pub(super) not_kept: bool,
    pub(super) comment: String,
    pub(super) user: u32,
}

impl Waits {
    /// Those in the records, one for each array.
    pub(super) fn of(records: &Records) -> Vec<Waits> {
        let mut found: Vec<Waits> = Vec::new();
        let mut arrays: HashMap<u32, usize> = HashMap::new();
        for job in &records.jobs {
            let (Some(waiting), State::Pending) = (&job.deferred, job.state) else {
                continue;
            };
            let Some(Ok(known)) = job.admin_comment.commitment() else {
                continue;
            };
            let one = Waits {
                id: job.array.as_ref().map_or(job.id, |array| array.array),
                ids: vec![job.id],
                known: known.clone(),
                tasks: (job.array.as_ref()).map_or_else(Vec::new, |array| array.tasks.clone()),
                // One that came while the records were read, and may begin at once, is younger than they are.
                not_yet: job.waits
                    || records.taken < waiting.begin
                        && waiting.begin > known.commitment.submitted + 1.0,
                not_kept: !job.kept,
                waiting: (**waiting).clone(),
                comment: job.comment.clone(),
                user: job.user,
            };
            // Tasks that somebody changed have records of their own.
            match arrays.get(&one.id).filter(|_| !one.tasks.is_empty()) {
                Some(&at) => found[at].and(one),
                None => {
                    arrays.insert(one.id, found.len());
                    found.push(one);
                }
            }
        }
        found
    }

    fn and(&mut self, other: Waits) {
        self.tasks.extend(other.tasks);
        self.tasks.sort_unstable();
        self.ids.extend(other.ids);
        self.not_yet |= other.not_yet;
        self.not_kept |= other.not_kept;
        self.waiting.never |= other.waiting.never;
    }

    /// Its name in the log.
    pub(super) fn name(&self) -> String {
        self.id.to_string()
    }

    pub(super) fn commitment(&self) -> &Commitment {
        &self.known.commitment
    }

    /// Its place is kept, and its user keeps it from beginning.
    pub(super) fn wants_no_place(&self) -> bool {
        self.commitment().starts_by.is_some() && self.not_yet && !self.waiting.never
    }

    pub(super) fn due(&self) -> f64 {
        self.commitment().submitted + self.commitment().request.terms.deadline
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.ids.iter().copied().chain([self.id])
    }

    pub(super) fn rewrite(&self, admin_comment: String, text: &str) -> Rewrite {
        Rewrite {
            job: self.id,
            tasks: self.tasks.clone(),
            admin_comment,
            comment: told(&self.comment, text),
            ..Rewrite::default()
        }
    }
}

/// The nodes that are told to what: all of a job, or each task of an array its own. Tasks that have one node in common are told together.
pub(super) fn groups(known: &JobCommitment) -> Vec<(Vec<String>, Vec<u32>)> {
    let commitment = &known.commitment;
    if known.tasks.is_empty() {
        let nodes = commitment.places.iter().map(|place| place.node.clone());
        return vec![(nodes.collect(), Vec::new())];
    }
    let mut groups: Vec<(Vec<String>, Vec<u32>)> = Vec::new();
    for &task in &known.tasks {
        let plan = commitment.plan(known.number_of(task));
        let nodes: Vec<String> = plan.into_iter().map(|place| place.node).collect();
        match groups.iter_mut().find(|(of, _)| *of == nodes) {
            Some((_, tasks)) => tasks.push(task),
            None => groups.push((nodes, vec![task])),
        }
    }
    groups
}

/// One whose record is that of a confirmed job, and whose begin time is not: slurmctld took only a part of what it was told.
pub(super) fn unopened(job: &SlurmJob, taken: f64) -> Option<Rewrite> {
    if job.state != State::Pending || !job.kept || is_deferred(&job.admin_comment) {
        return None;
    }
    let known = job.admin_comment.commitment()?.ok()?;
    let (nodes, _) = groups(known).into_iter().next()?;
    let array = job.array.as_ref();
    Some(Rewrite {
        job: array.map_or(job.id, |array| array.array),
        tasks: array.map_or_else(Vec::new, |array| array.tasks.clone()),
        admin_comment: job.admin_comment.to_string(),
        comment: job.comment.clone(),
        nodes: match array {
            None => nodes,
            // It has them: Slurm takes nodes before the record.
            Some(_) => Vec::new(),
        },
        begin: Some(taken as u64),
        ..Rewrite::default()
    })
}
