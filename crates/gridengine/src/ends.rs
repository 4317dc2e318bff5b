//! How accepted jobs end: what is gone from qmaster's queue, and what its accounting file says of it.
//!
//! A list of the queue says that a job is gone and not how; the accounting file says how, some seconds later, and nothing of what was committed.
//! So each accepted job is watched from its acceptance on. One that was deleted while it waited has no record: when the file has had its time, that
//! is what it was.
//!
//! Who makes his own job wait (`qhold`, or files that cannot be opened, which put it into state E) shall not be paid for its delay: of a job that was
//! seen so nobody knows how long it waited for others. The same holds for one that was taken back into the queue.

use super::accounting::Run;
use super::context::name_of;
use super::records::{Listed, Records};
use libra_accounts::settlement::{End, HowEnded};
use libra_batch::words;
use libra_core::commitment::Commitment;
use libra_metrics::{Counts, Outcome};
use libra_units::{credits, duration};
use std::collections::{BTreeMap, BTreeSet};

/// A job that was accepted so many seconds before the list was asked for is in it, or has left the queue.
pub const UNLISTED: f64 = 2.0;

/// A job that was seen running has a record in the end: it is waited for so many seconds longer than for that of others.
const RAN: f64 = 60.0;

/// Exit status of a task that was ended by SIGKILL or SIGTERM.
const KILLED: [i32; 2] = [137, 143];

/// An accepted job that is not settled yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// What was committed.
    pub commitment: Commitment,
    /// Of an array: number of its first task, and the step.
    pub tasks: Option<(u32, u32)>,
    /// It waited for something that its user may have caused.
    pub held: bool,
    /// Numbers of its tasks, from 0, whose ends are settled.
    pub settled: BTreeSet<u32>,
    /// How far it was seen to come.
    pub seen: Seen,
    parts: BTreeMap<u32, TaskHistory>,
}

/// How far a job was seen to come, whoever looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// It was accepted.
    Accepted,
    /// It was in the queue.
    Listed,
    /// It, or one of its tasks, ran.
    Running,
}

/// One task, as far as it was seen.
#[derive(Debug, Clone, PartialEq, Default)]
struct TaskHistory {
    /// Its end was told.
    is_over: bool,
    /// What the file has of it, oldest first.
    runs: Vec<Run>,
    /// It runs since then, and was last seen to.
    running: Option<(f64, f64)>,
    /// Seconds that it ran in earlier runs.
    before: f64,
    /// It was taken back into the queue.
    restarted: bool,
    /// It is gone since.
    gone: Option<f64>,
}

impl TaskHistory {
    /// Seconds that it ran in earlier runs. A host may take its time to find out that it cannot begin a task, which the queue shows as running meanwhile: its
    /// record says that it never ran.
    fn ran_before(&self) -> f64 {
        let last = self.runs.iter().rposition(|run| !run.is_taken_back);
        let mut earlier = (self.runs.iter().enumerate())
            .filter(|(at, _)| Some(*at) != last)
            .map(|(_, run)| run)
            .peekable();
        let has_run = match earlier.peek() {
            Some(_) => earlier.any(has_begun),
            // What has no record at all may have run.
            None => last.is_none_or(|at| has_begun(&self.runs[at])),
        };
        if has_run { self.before } else { 0.0 }
    }
}

/// The end of a job, or of one task of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Number of the job.
    pub job: u32,
    /// As the log calls it.
    pub name: String,
    /// Number of its task, from 0.
    pub part: u32,
    /// What was committed.
    pub commitment: Commitment,
    /// How it ended.
    pub end: End,
}

impl Watched {
    /// A job that was accepted just now.
    pub fn new(commitment: Commitment, tasks: Option<(u32, u32)>) -> Watched {
        Watched {
            commitment,
            tasks,
            held: false,
            settled: BTreeSet::new(),
            seen: Seen::Accepted,
            parts: BTreeMap::new(),
        }
    }

    /// Number of the task that is this part of it; None for a job that is no array.
    fn task_of(&self, part: u32) -> Option<u32> {
        let (first, step) = self.tasks?;
        Some(first.saturating_add(part.saturating_mul(step.max(1))))
    }

    fn part_of(&self, task: Option<u32>) -> Option<u32> {
        let part = match (self.tasks, task) {
            (None, _) => 0,
            (Some(_), None) => return None,
            (Some((first, step)), Some(task)) => task.checked_sub(first)? / step.max(1),
        };
        (part < self.commitment.count).then_some(part)
    }

    /// All of it is settled.
    pub fn is_over(&self) -> bool {
        (0..self.commitment.count).all(|part| self.settled.contains(&part))
    }
}

/// All jobs that are watched.
#[derive(Debug, Default)]
pub struct Ends {
    jobs: BTreeMap<u32, Watched>,
    /// Those of which something is to be remembered.
    changed: BTreeSet<u32>,
}

impl Ends {
    /// Watches a job from now on, unless it is watched. Another one that had the same number before is gone.
    pub fn watch(&mut self, job: u32, watched: Watched) {
        let token = |watched: &Watched| watched.commitment.token;
        if self.jobs.get(&job).map(token) != Some(token(&watched)) {
            self.jobs.insert(job, watched);
        }
    }

    /// The jobs that are watched, by their numbers.
    pub fn jobs(&self) -> &BTreeMap<u32, Watched> {
        &self.jobs
    }

    /// Unix time before which nothing has ended that is watched.
    pub fn since(&self) -> f64 {
        let submitted = self
            .jobs
            .values()
            .map(|watched| watched.commitment.submitted);
        submitted.fold(f64::INFINITY, f64::min)
    }

    /// Jobs that are to be written down anew, with what is known of them; None for those that are settled.
    pub fn take_changed(&mut self) -> Vec<(u32, Option<&Watched>)> {
        let changed = std::mem::take(&mut self.changed);
        (changed.into_iter())
            .map(|job| (job, self.jobs.get(&job)))
            .collect()
    }

    /// What was told of this end is settled.
    pub fn settled(&mut self, ended: &Ended) {
        let Some(watched) = self.jobs.get_mut(&ended.job) else {
            return;
        };
        if watched.commitment.token == ended.commitment.token {
            watched.settled.insert(ended.part);
            self.changed.insert(ended.job);
            if watched.is_over() {
                self.jobs.remove(&ended.job);
            }
        }
    }

    /// The deferred promise of a job is given back, and what was held for it: it stays in the queue, and nothing of it is settled any more.
    pub fn give_back(&mut self, job: u32) {
        if let Some(watched) = self.jobs.get_mut(&job) {
            watched.settled = (0..watched.commitment.count).collect();
            self.changed.insert(job);
        }
    }

    /// Takes the queue as it was, and what has come to the accounting file since the last time. `patience`: seconds after which what has ended is in
    /// the file. Returns the ends that were found, each once, with a line for the log; they are counted.
    pub fn round(
        &mut self,
        records: &Records,
        runs: Vec<Run>,
        patience: f64,
        counts: &mut Counts,
    ) -> Vec<(Ended, String)> {
        self.watch_found(records);
        for run in runs {
            let Some(watched) = self.jobs.get_mut(&run.job) else {
                continue;
            };
            // A number that another job had before.
            let is_older = run.ended > 0 && (run.ended as f64) < watched.commitment.submitted - 1.0;
            if let (Some(part), false) = (watched.part_of(run.task), is_older) {
                let part = watched.parts.entry(part).or_default();
                part.restarted |= run.is_taken_back;
                part.runs.push(run);
            }
        }
        let is_over =
            |job: &u32, watched: &Watched| watched.is_over() && !records.jobs.contains_key(job);
        self.changed.extend(
            (self.jobs.iter())
                .filter(|(job, watched)| is_over(job, watched))
                .map(|(job, _)| *job),
        );
        self.jobs.retain(|job, watched| !is_over(job, watched));
        let mut found = Vec::new();
        for (job, watched) in &mut self.jobs {
            if records.taken < watched.commitment.submitted + UNLISTED {
                continue;
            }
            if let Some(listed) = records.jobs.get(job) {
                let seen = match listed.running.is_empty() {
                    true => Seen::Listed,
                    false => Seen::Running,
                };
                let held = !listed.held.is_empty();
                if seen > watched.seen || (held && !watched.held) {
                    watched.seen = watched.seen.max(seen);
                    watched.held |= held;
                    self.changed.insert(*job);
                }
            }
            for number in 0..watched.commitment.count {
                if watched.settled.contains(&number) {
                    continue;
                }
                let task = watched.task_of(number);
                let is_in_queue = records.jobs.get(job).is_some_and(|listed| {
                    let started = records.details.get(job).map(|detail| &detail.started);
                    let key = task.unwrap_or(1);
                    let started = started.and_then(|started| started.get(&key).copied());
                    let part = watched.parts.entry(number).or_default();
                    part.see(listed, key, started, records.taken)
                });
                let may_have_run = watched.is_unknown(number);
                let part = watched.parts.entry(number).or_default();
                if is_in_queue || part.is_over {
                    continue;
                }
                let gone = *part.gone.get_or_insert(records.taken);
                let patience = patience + if may_have_run { RAN } else { 0.0 };
                let last = part.runs.iter().rfind(|run| !run.is_taken_back).copied();
                if last.is_none() && records.taken - gone < patience {
                    continue;
                }
                part.is_over = true;
                let name = name_of(*job, task);
                let end = watched.end(number, last, gone);
                let line = watched.told(&name, &end, last, counts);
                let ended = Ended {
                    job: *job,
                    name,
                    part: number,
                    commitment: watched.commitment.clone(),
                    end,
                };
                found.push((ended, line));
            }
        }
        found
    }

    /// Jobs of the queue that nobody watches: what was written down of them is lost, or there was nothing yet.
    fn watch_found(&mut self, records: &Records) {
        for (number, detail) in &records.details {
            let (Some(listed), Some(commitment)) =
                (records.jobs.get(number), records.commitment(*number))
            else {
                continue;
            };
            let is_known = (self.jobs.get(number)).is_some_and(|watched| {
                let known = &watched.commitment;
                // What was confirmed is written down before its hosts say so.
                let is_confirmed = commitment.deferred && known.submitted >= commitment.submitted;
                known.token == commitment.token || is_confirmed
            });
            if !is_known {
                let tasks = listed.is_array.then_some(detail.tasks);
                let watched = Watched::new(commitment, tasks);
                self.jobs.insert(*number, watched);
                self.changed.insert(*number);
            }
        }
    }
}

impl TaskHistory {
    /// Takes a list of the queue; returns whether it is in it.
    fn see(&mut self, listed: &Listed, task: u32, started: Option<f64>, taken: f64) -> bool {
        if listed.running.contains(&task) {
            let started = started.unwrap_or(taken);
            let (since, seen) = self.running.unwrap_or((started, taken));
            // Starts are whole seconds, and are asked for a moment after the task was seen.
            if started > seen + 1.0 {
                self.before += (seen - since).max(0.0);
                self.restarted = true;
                self.running = Some((started, taken));
            } else {
                self.running = Some((started.min(since), taken));
            }
        } else if listed.waiting.contains(&task) {
            if let Some((since, seen)) = self.running.take() {
                self.before += (seen - since).max(0.0);
                self.restarted = true;
            }
        } else {
            return false;
        }
        self.gone = None;
        true
    }
}

/// A program ran, and has asked by its exit code 100 to be left in an error state (sge_status(5)).
const ASKED_FOR_ERROR: u32 = 30;

/// Whether a run came as far as its program (sge_status(5)).
fn has_begun(run: &Run) -> bool {
    run.failed == ASKED_FOR_ERROR || !matches!(run.failed, 1..=11 | 26..=36)
}

/// Of Grid Engine's record of the last run.
fn how_ended(run: &Run) -> HowEnded {
    match run.failed {
        // qmaster's own end of a job that ran for longer than h_rt.
        37 => HowEnded::TimeLimit,
        0 | 12..=17 | 100 if run.is_over_limit => HowEnded::TimeLimit,
        0 if run.is_measured => HowEnded::Itself,
        0 if run.started > 0 => HowEnded::Cancelled,
        0 => HowEnded::NeverBegan,
        17 | 100 if KILLED.contains(&run.exit) => HowEnded::Cancelled,
        12..=17 | ASKED_FOR_ERROR | 100 => HowEnded::Itself,
        // Its files, its shell, its directory.
        26..=36 => HowEnded::NeverBegan,
        _ => HowEnded::NodeFailure,
    }
}

impl Watched {
    /// Nobody can say whether a task without a record has run: it was seen to, or somebody else looked who has seen another one or this one.
    fn is_unknown(&self, part: u32) -> bool {
        let ran = |part: &TaskHistory| part.running.is_some();
        self.parts.get(&part).is_some_and(ran)
            || (self.seen == Seen::Running && !self.parts.values().any(ran))
    }

    /// How a task ended. `last`: what the file has of its last run. `gone`: since when it is not in the queue.
    fn end(&self, part: u32, last: Option<Run>, gone: f64) -> End {
        let submitted = self.commitment.submitted;
        let history = self.parts.get(&part).cloned().unwrap_or_default();
        let before = history.ran_before();
        let TaskHistory {
            running, restarted, ..
        } = history;
        let share = self.commitment.share_on("");
        let ended = match last {
            Some(run) if run.ended as f64 > submitted => run.ended as f64,
            _ => gone,
        };
        let how = match last {
            Some(run) => how_ended(&run),
            None if self.is_unknown(part) => HowEnded::Cancelled,
            None => HowEnded::NeverBegan,
        };
        let how = match how {
            HowEnded::NeverBegan if before > 0.0 => HowEnded::Cancelled,
            how => how,
        };
        let ran = match (last, running) {
            (Some(run), _) => run.ran(),
            (None, Some((since, seen))) => (seen - since).max(0.0),
            (None, None) => 0.0,
        };
        let took = (ended - submitted).max(0.0);
        let is_known = how != HowEnded::NeverBegan && !restarted && !self.held;
        End {
            how,
            took,
            used: last
                .filter(|run| run.is_measured)
                .map(|run| run.cpu + before * share),
            waited: is_known.then(|| (took - ran).max(0.0)),
            restarted,
        }
    }

    /// The line of the log about an end, which is counted.
    fn told(&self, name: &str, end: &End, last: Option<Run>, counts: &mut Counts) -> String {
        let terms = &self.commitment.request.terms;
        if self.seen == Seen::Accepted && last.is_none() {
            counts.withdrawn += 1;
            return format!("job {name} was accepted, and qmaster did not queue it");
        }
        let exit = last.map_or(0, |run| run.exit);
        let (cut_short, verdict) = match end.how {
            HowEnded::NeverBegan => (true, "never began".to_string()),
            HowEnded::Cancelled if last.is_none() => (
                true,
                "is gone, and the accounting file does not say how".to_string(),
            ),
            HowEnded::Cancelled => (true, "was deleted or killed".to_string()),
            HowEnded::TimeLimit => (true, "was ended by a limit".to_string()),
            HowEnded::NodeFailure => (
                false,
                format!(
                    "was not run to its end by its host (failed {})",
                    last.map_or(0, |run| run.failed)
                ),
            ),
            HowEnded::Itself if exit == 0 => {
                (false, words::met_or_missed(&self.commitment, end.took))
            }
            HowEnded::Itself => (
                false,
                format!(
                    "{} (exit status {exit})",
                    words::failed(&self.commitment, end.took)
                ),
            ),
        };
        let outcome = match (end.how, last) {
            (HowEnded::Cancelled, None) => Outcome::Unknown,
            (how, _) => Outcome::of(end.took, terms.deadline, cut_short)
                .but_failed(exit != 0 || how == HowEnded::NodeFailure)
                .if_promised(terms.promises_end()),
        };
        counts.end(outcome);
        let used = (end.used).map_or_else(String::new, |used| {
            format!(
                ", used {} of the estimated {}",
                duration::show(used),
                duration::show(terms.estimate)
            )
        });
        let paid_back = match (&self.commitment.payer, end.how) {
            (None, HowEnded::Itself) => words::paid_back(&self.commitment, end.took),
            _ => String::new(),
        };
        format!(
            "job {name} {verdict}: ended after {} of {}{used}, price {}{paid_back}",
            duration::show(end.took),
            duration::show(terms.expected_end()),
            credits(self.commitment.price),
        )
    }
}

#[cfg(test)]
#[path = "ends_tests.rs"]
mod tests;
