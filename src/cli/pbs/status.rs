//! `libra pbs status`: what is committed on which node, and how every job with terms stands.
//!
//! PBS's own records, read as the hooks read them after a restart ([`libra::pbs::records`]): what is shown is
//! what the next admission would count with.

use super::PbsError;
use super::found::shown;
use super::server::Pbs;
use crate::cli::args::Args;
use crate::cli::show::percent;
use crate::cli::{Done, answer, load_config};
use libra::book::{Book, Phase};
use libra::decision::share::Standing;
use libra::host::clock;
use libra::pbs::server::Server;
use libra::text::{duration, processors};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Cells of the bar of a node.
const BAR: usize = 20;

pub fn status(args: &Args) -> Done {
    let pbs = Pbs::find()?;
    let (jobs, nodes) = (pbs.jobs_with_terms()?, pbs.nodes()?);
    let mut event = json!({"event": "records", "now": clock::unix_time()});
    event["nodes"] = nodes
        .iter()
        .map(|(name, node)| node_record(name, node))
        .collect();
    event["jobs"] = jobs.iter().map(|(id, job)| job_record(id, job)).collect();
    let mut server = Server::new(&load_config(args)?);
    let read = server.answer(&event).map_err(|error| PbsError::Command {
        command: "qstat -f -t -F json".to_string(),
        answer: error.to_string(),
    })?;
    let problems: Vec<&str> = (read["log"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .filter(|line| line.starts_with("not taken"))
        .collect();
    let report = Report::of(server.book(), &nodes, &jobs);
    let text = match args.json {
        true => format!("{}\n", report.json(&problems)),
        false => report.text(&problems),
    };
    answer(&text, 0)
}

/// A node as the hooks show it.
fn node_record(name: &str, node: &Value) -> Value {
    let available = &node["resources_available"];
    let text = |key: &str| available.get(key).map(shown);
    let state = node["state"].as_str().unwrap_or_default();
    json!({
        "name": name,
        "share": text("libra_share"),
        "rating": text("libra_rating"),
        "mem": text("mem"),
        "up": state.split(',').all(|word| word == "free"),
    })
}

/// A job as the hooks show it.
fn job_record(id: &str, job: &Value) -> Value {
    let text = |value: &Value| (!value.is_null()).then(|| shown(value));
    json!({
        "id": id,
        "state": job["job_state"],
        "sold": text(&job["Resource_List"]["libra_terms"]),
        "exec_vnode": job["exec_vnode"],
        "array": text(&job["array_indices_submitted"]),
        "remaining": text(&job["array_indices_remaining"]),
        "progress": text(&job["resources_used"]["libra_progress"]),
    })
}

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

struct Report {
    nodes: Vec<NodeLine>,
    jobs: Vec<JobLine>,
}

impl Report {
    fn of(book: &Book, nodes: &Map<String, Value>, jobs: &Map<String, Value>) -> Report {
        let snapshot = book.snapshot();
        let on = |name: &str| {
            let is_on = |job: &&libra::book::JobRecord| job.places.iter().any(|p| p.node == name);
            snapshot.jobs.iter().filter(is_on).count()
        };
        let nodes = (snapshot.nodes.iter())
            .map(|node| NodeLine {
                name: node.name.clone(),
                state: nodes
                    .get(&node.name)
                    .and_then(|node| node["state"].as_str())
                    .unwrap_or("gone")
                    .to_string(),
                committed: node.committed,
                processors: node.processors,
                jobs: on(&node.name),
            })
            .collect();
        let mut lines: Vec<JobLine> = (snapshot.jobs.iter())
            .filter_map(|job| {
                let id = job.id.clone()?;
                let standing = book
                    .places(&id)
                    .ok()?
                    .iter()
                    .map(|p| p.standing)
                    .max_by_key(worse);
                let terms = &job.request.terms;
                let used = job
                    .places
                    .iter()
                    .fold(f64::INFINITY, |least, p| p.cput.min(least));
                let left = job.submitted + terms.deadline - snapshot.now;
                let parent = id.split('[').next().unwrap_or_default();
                let of_pbs = jobs.get(&id).or_else(|| {
                    let parent = |known: &&String| known.split('[').next() == Some(parent);
                    jobs.keys().find(parent).and_then(|known| jobs.get(known))
                });
                let owner = of_pbs.and_then(|job| job["Job_Owner"].as_str());
                let names: Vec<&str> = job.places.iter().map(|p| p.node.as_str()).collect();
                Some(JobLine {
                    user: owner
                        .and_then(|o| o.split('@').next())
                        .unwrap_or("-")
                        .to_string(),
                    nodes: names.join(" "),
                    share: job.places.iter().fold(0.0, |most, p| p.share.max(most)),
                    used,
                    estimate: terms.estimate,
                    left,
                    slack: left - (terms.estimate - used).max(0.0),
                    state: state(job.phase, standing),
                    id,
                })
            })
            .collect();
        // Those in danger first.
        lines.sort_by(|a, b| a.slack.total_cmp(&b.slack));
        Report { nodes, jobs: lines }
    }

    fn text(&self, problems: &[&str]) -> String {
        if self.nodes.is_empty() {
            return "no node of this PBS server shares its processors; 'libra pbs install' declares them\n"
                .to_string();
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
        let mut text = aligned(&rows);
        text.push('\n');
        if self.jobs.is_empty() {
            text.push_str("no jobs with terms\n");
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
                    percent(job.share),
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
            text.push_str(&aligned(&rows));
        }
        for problem in problems {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{problem}");
        }
        text
    }

    fn json(&self, problems: &[&str]) -> Value {
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
fn worse(standing: &Standing) -> u8 {
    match standing {
        Standing::OnTrack => 0,
        Standing::AtRisk => 1,
        Standing::Overrun => 2,
        Standing::Late => 3,
    }
}

fn state(phase: Phase, standing: Option<Standing>) -> &'static str {
    match (phase, standing) {
        (_, Some(Standing::Late)) => "late",
        (Phase::Provisional | Phase::Bound, Some(Standing::AtRisk)) => "waits, at risk",
        (Phase::Provisional | Phase::Bound, _) => "waits",
        (Phase::Running, Some(Standing::AtRisk)) => "at risk",
        (Phase::Running, Some(Standing::Overrun)) => "overrun",
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

/// Columns as wide as their widest entry, two blanks between them.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = (row.iter().zip(&widths))
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pbs_says_becomes_two_tables() {
        let line = "v=1:token=1:submitted=1000:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
                    chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.5";
        let nodes = json!({
            "n1": {"state": "free", "resources_available": {"libra_share": 2, "mem": "8gb", "libra_node": "True"}},
            "n2": {"state": "down,offline", "resources_available": {"libra_share": "1.5"}},
            "n3": {"state": "free", "resources_available": {"ncpus": 2}},
        });
        let jobs = json!({"7.s": {
            "Job_Owner": "ann@x", "job_state": "R", "exec_vnode": "(n1:libra_share=0.5)",
            "Resource_List": {"libra_terms": line},
            "resources_used": {"libra_progress": "'{\"n1\": \"4@1010\"}'"},
        }});
        let (nodes, jobs) = (
            nodes.as_object().expect("nodes"),
            jobs.as_object().expect("jobs"),
        );
        let mut event = json!({"event": "records", "now": 1010.0});
        event["nodes"] = nodes
            .iter()
            .map(|(name, node)| node_record(name, node))
            .collect();
        event["jobs"] = jobs.iter().map(|(id, job)| job_record(id, job)).collect();
        let config = libra::config::Config::from_toml("[admission]\nestimate-margin = '0%'")
            .expect("a configuration");
        let mut server = Server::new(&config);
        server.answer(&event).expect("an answer");
        let report = Report::of(server.book(), nodes, jobs);
        // 6 of 10 s are left to do in 10 s: 60 %, and 4 s of slack.
        assert_eq!(
            report.text(&[]),
            "NODE  STATE         COMMITTED                                JOBS\n\
             n1    free          0.6 of 2   [######--------------]  30 %  1\n\
             n2    down,offline  0 of 1.5   [--------------------]   0 %  0\n\
             \n\
             JOB  USER  NODE  SHARE  USED         LEFT  SLACK  STATE\n\
             7.s  ann   n1    60 %   4 s of 10 s  10 s  4 s    on track\n"
        );
        assert_eq!(report.json(&[])["jobs"][0]["slack_seconds"], 4.0);
    }
}
