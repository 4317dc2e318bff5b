//! What is committed on which node, and how every job with terms stands: the tables of `libra pbs status` and
//! `libra slurm status`, out of a book.

use libra_core::book::{Book, Phase};
use libra_core::decision::share::DeadlineStatus;
use libra_plots::columns::{self, Flush};
use libra_units::{duration, fine_percent, processors};
use serde_json::{Value, json};

/// Cells of the bar of a node.
const BAR: usize = 20;

struct NodeLine {
    name: String,
    state: String,
    committed: f64,
    processors: f64,
    jobs: usize,
}

struct JobLine {
    id: String,
    user: String,
    nodes: String,
    share: f64,
    used: f64,
    estimate: f64,
    /// Until the deadline, seconds; negative after it.
    left: f64,
    /// For so long it could stand still and, on processors of its own from then on, still end in time.
    slack: f64,
    state: &'static str,
}

/// What `status` of a batch system shows.
pub struct Report {
    nodes: Vec<NodeLine>,
    jobs: Vec<JobLine>,
}

impl Report {
    /// The book as it stands. `state` says a node's state, `owner` whose a job is.
    pub fn of(
        book: &Book,
        state: &dyn Fn(&str) -> String,
        owner: &dyn Fn(&str) -> Option<String>,
    ) -> Report {
        let snapshot = book.snapshot();
        let on = |name: &str| {
            let is_on =
                |job: &&libra_core::book::JobRecord| job.places.iter().any(|p| p.node == name);
            snapshot.jobs.iter().filter(is_on).count()
        };
        let nodes = (snapshot.nodes.iter())
            .map(|node| NodeLine {
                name: node.name.clone(),
                state: state(&node.name),
                committed: node.committed,
                processors: node.processors,
                jobs: on(&node.name),
            })
            .collect();
        let mut lines: Vec<JobLine> = (snapshot.jobs.iter())
            .filter_map(|job| {
                let id = job.id.clone()?;
                let deadline_status = book
                    .places(&id)
                    .ok()?
                    .iter()
                    .map(|p| p.deadline_status)
                    .max_by_key(worse);
                let terms = &job.request.terms;
                let used = job
                    .places
                    .iter()
                    .fold(f64::INFINITY, |least, p| p.cput.min(least));
                let left = job.submitted + terms.deadline - snapshot.now;
                let names: Vec<&str> = job.places.iter().map(|p| p.node.as_str()).collect();
                Some(JobLine {
                    user: owner(&id).unwrap_or_else(|| "-".to_string()),
                    nodes: names.join(" "),
                    share: job.places.iter().fold(0.0, |most, p| p.share.max(most)),
                    used,
                    estimate: terms.estimate,
                    left,
                    slack: left - (terms.estimate - used).max(0.0),
                    state: how(job.phase, deadline_status),
                    id,
                })
            })
            .collect();
        // Those in danger first.
        lines.sort_by(|a, b| a.slack.total_cmp(&b.slack));
        Report { nodes, jobs: lines }
    }

    /// Two tables; `nothing` is said where there is no node.
    pub fn text(&self, problems: &[&str], nothing: &str) -> String {
        if self.nodes.is_empty() {
            return format!("{nothing}\n");
        }
        let mut rows = vec![
            ["NODE", "STATE", "COMMITTED", "", "JOBS"]
                .map(str::to_string)
                .to_vec(),
        ];
        for node in &self.nodes {
            rows.push(vec![
                node.name.clone(),
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
                    job.user.clone(),
                    job.nodes.clone(),
                    fine_percent(job.share),
                    format!(
                        "{} of {}",
                        duration::show(job.used),
                        duration::show(job.estimate)
                    ),
                    signed(job.left),
                    signed(job.slack),
                    job.state.to_string(),
                ]);
            }
            lines.extend(columns::lines(&rows, |_| Flush::Left));
        }
        lines.extend(problems.iter().map(|problem| problem.to_string()));
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// The same for programs.
    pub fn json(&self, problems: &[&str]) -> Value {
        let nodes: Vec<Value> = (self.nodes.iter())
            .map(|node| {
                json!({
                    "node": node.name,
                    "state": node.state,
                    "committed": node.committed,
                    "processors": node.processors,
                    "jobs": node.jobs,
                })
            })
            .collect();
        let jobs: Vec<Value> = (self.jobs.iter())
            .map(|job| {
                json!({
                    "job": job.id,
                    "user": job.user,
                    "nodes": job.nodes.split(' ').collect::<Vec<_>>(),
                    "share": job.share,
                    "used_seconds": job.used,
                    "estimate_seconds": job.estimate,
                    "left_seconds": job.left,
                    "slack_seconds": job.slack,
                    "state": job.state,
                })
            })
            .collect();
        json!({"nodes": nodes, "jobs": jobs, "problems": problems})
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
        (Phase::Provisional | Phase::Bound, Some(DeadlineStatus::AtRisk)) => "waits, at risk",
        (Phase::Provisional | Phase::Bound, _) => "waits",
        (Phase::Running, Some(DeadlineStatus::AtRisk)) => "at risk",
        (Phase::Running, Some(DeadlineStatus::Overrun)) => "overrun",
        (Phase::Running, _) => "on track",
    }
}

fn signed(seconds: f64) -> String {
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
