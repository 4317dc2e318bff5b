//! What is committed on which node, and how every job with terms stands, out of a book: the tables of the batch systems, in `libra pbs status` and
//! its kin and in `libra status`.
//!
//! [`schema`] is it as JSON, for hosts too; [`sort`] orders jobs, [`paint`] colours them, [`room`] is what a terminal has for them.

pub mod paint;
pub mod room;
pub mod schema;
pub mod sort;

use super::{Common, Done};
use libra_config::System;
use libra_core::book::{Book, JobRecord, Phase};
use libra_core::commitment::Commitment;
use libra_core::decision::job::Terms;
use libra_core::decision::share::DeadlineStatus;
use libra_plots::columns::{self, Flush};
use libra_terminal::answer;
use libra_units::{duration, fine_percent, processors};
use paint::Paint;
use room::Room;
use schema::{Job, Node, Status, rank};
use sort::Sort;
use std::collections::{BTreeSet, HashMap};

/// Cells of the bar of a node.
const BAR: usize = 20;

/// What `status` shows of a batch system.
#[derive(Debug, Clone)]
pub struct Report {
    nodes: Vec<Node>,
    jobs: Vec<Job>,
    problems: Vec<String>,
    /// What to say where there is no node.
    nothing: &'static str,
    /// When it was taken, Unix time.
    time: f64,
}

impl Report {
    /// The book as it stands. `state` says a node's state, `owner` whose a job is; `problems`: what could not be taken into it. `nothing` is
    /// said where there is no node.
    pub fn of(
        system: System,
        book: &Book,
        state: &dyn Fn(&str) -> String,
        owner: &dyn Fn(&str) -> Option<String>,
        problems: Vec<String>,
        nothing: &'static str,
    ) -> Report {
        let mut snapshot = book.snapshot();
        // They have nothing yet.
        snapshot.jobs.retain(|job| job.starts_by.is_none());
        // In one pass over the jobs: there may be many nodes.
        let mut on: HashMap<&str, usize> = HashMap::new();
        for job in &snapshot.jobs {
            let nodes: BTreeSet<&str> = job.places.iter().map(|p| p.node.as_str()).collect();
            for node in nodes {
                *on.entry(node).or_default() += 1;
            }
        }
        let nodes = (snapshot.nodes.iter())
            .map(|node| Node {
                system: system.name(),
                node: node.name.clone(),
                state: state(&node.name),
                committed: node.committed,
                processors: node.processors,
                jobs: on.get(node.name.as_str()).copied().unwrap_or(0),
                enforced: None,
                enforcement: None,
            })
            .collect();
        let now = snapshot.now;
        let jobs = (snapshot.jobs.iter()).filter_map(|job| job_of(system, book, job, now, owner));
        let mut report = Report {
            nodes,
            jobs: jobs.collect(),
            problems,
            nothing,
            time: now,
        };
        report.sort(Sort::Usual);
        report
    }

    /// Adds a job whose promise is deferred, which is in no book, or whose start is planned.
    pub fn add_deferred(
        &mut self,
        system: System,
        id: &str,
        commitment: &Commitment,
        owner: Option<String>,
    ) {
        // One that counts from its start is due so long from now, if it may start now.
        let commitment = commitment.counted_from(self.time);
        let terms = &commitment.request.terms;
        let seconds = deadline_of(terms);
        let left = commitment.submitted + seconds - self.time;
        let state = match commitment.starts_by {
            Some(_) => "planned",
            None => "deferred",
        };
        let nodes = match commitment.starts_by {
            Some(_) => commitment.places.iter().map(|p| p.node.clone()).collect(),
            None => Vec::new(),
        };
        self.jobs.push(Job {
            system: system.name(),
            id: id.to_string(),
            user: owner,
            state: state.to_string(),
            phase: state,
            nodes,
            starts_by: commitment.starts_by,
            slots: u32::try_from(commitment.request.shape.slots()).ok(),
            price: commitment.price,
            class: Some(terms.class.word()),
            submitted: commitment.submitted,
            deadline: commitment.submitted + seconds,
            estimate_seconds: terms.estimate,
            deadline_seconds: seconds,
            elapsed_seconds: self.time - commitment.submitted,
            left_seconds: left,
            slack_seconds: Some(left - terms.estimate),
            started: Some(false),
            ..Job::default()
        });
        self.sort(Sort::Usual);
    }

    /// Returns true if there is nothing to show: no node that is Libra's, and no job.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.jobs.is_empty() && self.problems.is_empty()
    }

    /// Those jobs alone that are named: by their ids, or by what stands before the first dot of them.
    pub fn retain(&mut self, ids: &[String]) {
        self.jobs
            .retain(|job| ids.iter().any(|id| is_named(job, id)));
    }

    /// Returns true if there is such a job.
    pub fn has(&self, id: &str) -> bool {
        self.jobs.iter().any(|job| is_named(job, id))
    }

    /// Sorts the jobs; as usual those in danger come first.
    pub fn sort(&mut self, by: Sort) {
        let slack = |job: &Job| job.slack_seconds.unwrap_or(f64::INFINITY);
        self.jobs.sort_by(|a, b| match by {
            Sort::Usual => slack(a).total_cmp(&slack(b)),
            Sort::Deadline => a.left_seconds.total_cmp(&b.left_seconds),
            Sort::State => rank(&a.state).cmp(&rank(&b.state)),
            Sort::Share => b.share.total_cmp(&a.share),
        });
    }

    /// Adds it to what is shown as JSON.
    pub fn add_to(self, status: &mut Status) {
        status.nodes.extend(self.nodes);
        status.jobs.extend(self.jobs);
        status.problems.extend(self.problems);
    }

    /// Prints it, by itself.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn print(self, args: &Common) -> Done {
        let text = match args.json {
            true => {
                let mut status = Status {
                    time: self.time,
                    ..Status::default()
                };
                self.add_to(&mut status);
                format!("{}\n", status.to_json()?)
            }
            false => self.text(&Room::unlimited(Paint::of_output())),
        };
        answer(&text, 0)
    }

    /// When it was taken, Unix time.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// Two tables.
    pub fn text(&self, room: &Room) -> String {
        if self.nodes.is_empty() {
            return format!("{}\n", room.fitted(self.nothing));
        }
        let mut rows = vec![
            ["NODE", "STATE", "COMMITTED", "", "JOBS"]
                .map(str::to_string)
                .to_vec(),
        ];
        for node in &self.nodes {
            rows.push(vec![
                node.node.clone(),
                node.state.clone(),
                format!(
                    "{} of {}",
                    processors(node.committed),
                    processors(node.processors)
                ),
                bar(node.committed / node.processors.max(f64::MIN_POSITIVE)),
                node.jobs.to_string(),
            ]);
        }
        let mut lines = columns::lines(&rows, |_| Flush::Left);
        lines = lines.iter().map(|line| room.fitted(line)).collect();
        lines.push(String::new());
        if self.jobs.is_empty() {
            lines.push("no jobs with terms".to_string());
        } else {
            let heading = [
                "JOB", "USER", "NODE", "SHARE", "USED", "LEFT", "SLACK", "STATE",
            ];
            let mut rows = vec![heading.map(str::to_string).to_vec()];
            for job in &self.jobs {
                rows.push(vec![
                    job.id.clone(),
                    job.user.clone().unwrap_or_else(|| "-".to_string()),
                    match job.nodes.is_empty() {
                        true => "-".to_string(),
                        false => job.nodes.join(" "),
                    },
                    fine_percent(job.share),
                    format!(
                        "{} of {}",
                        duration::show(job.used_seconds),
                        duration::show(job.estimate_seconds)
                    ),
                    signed(job.left_seconds),
                    signed(job.slack_seconds.unwrap_or(0.0)),
                    in_words(&job.state).to_string(),
                ]);
            }
            let shown = columns::lines(&rows, |_| Flush::Left);
            let states = self.jobs.iter().map(|job| job.state.as_str());
            lines.extend(shown.first().map(|line| room.fitted(line)));
            lines.extend((shown.iter().skip(1)).zip(states).map(|(line, state)| {
                let (line, words) = (room.fitted(line), in_words(state));
                match line.strip_suffix(words) {
                    Some(before) => format!("{before}{}", room.paint.state(state, words)),
                    None => line,
                }
            }));
        }
        lines.extend(self.problems.iter().map(|line| room.fitted(line)));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

/// By its whole id, or by what stands before the first dot of it.
fn is_named(job: &Job, id: &str) -> bool {
    job.id == id || job.id.split('.').next() == Some(id)
}

/// How a job is shown; None if it has no id yet.
fn job_of(
    system: System,
    book: &Book,
    job: &JobRecord,
    now: f64,
    owner: &dyn Fn(&str) -> Option<String>,
) -> Option<Job> {
    let id = job.id.clone()?;
    let places = book.places(&id).ok()?;
    let deadline_status = places.iter().map(|p| p.deadline_status).max_by_key(worse);
    let terms = &job.request.terms;
    let used = job
        .places
        .iter()
        .fold(f64::INFINITY, |least, p| p.cput.min(least));
    let deadline = deadline_of(terms);
    let left = job.submitted + deadline - now;
    let running = job.phase == Phase::Running;
    Some(Job {
        system: system.name(),
        user: owner(&id),
        nodes: job.places.iter().map(|p| p.node.clone()).collect(),
        state: match job.suspended {
            Some(_) if deadline_status != Some(DeadlineStatus::Late) => "suspended".to_string(),
            _ => how(job.phase, deadline_status).to_string(),
        },
        suspended: Some(job.suspended.is_some()),
        goes_on_by: job.suspended.map(|suspension| suspension.goes_on_by),
        phase: if running { "running" } else { "reserved" },
        deadline_status: deadline_status.map(schema::deadline_status),
        slots: u32::try_from(job.request.shape.slots()).ok(),
        share: job.places.iter().fold(0.0, |most, p| p.share.max(most)),
        price: job.price,
        submitted: job.submitted,
        class: Some(terms.class.word()),
        deadline: job.submitted + deadline,
        estimate_seconds: terms.estimate,
        used_seconds: used,
        deadline_seconds: deadline,
        elapsed_seconds: now - job.submitted,
        left_seconds: left,
        slack_seconds: Some(left - (terms.estimate - used).max(0.0)),
        started: Some(running),
        id,
        ..Job::default()
    })
}

/// Seconds from submission to deadline; infinite where there is none.
fn deadline_of(terms: &Terms) -> f64 {
    match terms.has_deadline() {
        true => terms.deadline,
        false => f64::INFINITY,
    }
}

/// A state as tables have it.
fn in_words(state: &str) -> &str {
    match state {
        "waiting" => "waits",
        "waiting_at_risk" => "waits, at risk",
        "at_risk" => "at risk",
        "on_track" => "on track",
        other => other,
    }
}

/// A job on several nodes is as bad as its worst part.
fn worse(deadline_status: &DeadlineStatus) -> u8 {
    match deadline_status {
        DeadlineStatus::OnTrack => 0,
        DeadlineStatus::AtRisk => 1,
        DeadlineStatus::Overrun => 2,
        DeadlineStatus::Late => 3,
    }
}

fn how(phase: Phase, deadline_status: Option<DeadlineStatus>) -> &'static str {
    match (phase, deadline_status) {
        (_, Some(DeadlineStatus::Late)) => "late",
        (Phase::Provisional | Phase::Bound, Some(DeadlineStatus::AtRisk)) => "waiting_at_risk",
        (Phase::Provisional | Phase::Bound, _) => "waiting",
        (Phase::Running, Some(DeadlineStatus::AtRisk)) => "at_risk",
        (Phase::Running, Some(DeadlineStatus::Overrun)) => "overrun",
        (Phase::Running, _) => "on_track",
    }
}

fn signed(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "-".to_string();
    }
    match seconds < 0.0 {
        true => format!("-{}", duration::show(-seconds)),
        false => duration::show(seconds),
    }
}

fn bar(part: f64) -> String {
    let filled = (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!(
        "[{}{}] {:>3.0} %",
        "#".repeat(filled),
        "-".repeat(BAR - filled),
        part * 100.0
    )
}
