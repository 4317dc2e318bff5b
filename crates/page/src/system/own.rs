//! What `libra status` and its like say in JSON, as jobs and nodes. Pure, but for the calls themselves.

use super::job::{JobSummary, Outcome};
use super::{Cluster, Node, Problem, Site, ending};
use libra_core::commitment::Commitment;
use libra_core::decision::class::Class;
use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes of a batch system, from `libra slurm status --json` or `libra pbs status --json`.
///
/// # Errors
/// It failed.
pub fn batch_cluster(site: &Site, system: &str) -> Result<Cluster, Problem> {
    Ok(cluster_of_batch(&site.json(&[system, "status"])?))
}

/// Nodes, from the JSON of `libra slurm status` or `libra pbs status`.
pub fn cluster_of_batch(json: &Value) -> Cluster {
    let nodes = json["nodes"].as_array().into_iter().flatten();
    let nodes = nodes.map(|node| Node {
        name: text(node, "node"),
        state: text(node, "state"),
        committed: node["committed"].as_f64().unwrap_or(0.0),
        processors: node["processors"].as_f64().unwrap_or(0.0),
        jobs: node["jobs"].as_u64().unwrap_or(0),
    });
    let problems = json["problems"].as_array().into_iter().flatten();
    let problems = problems.filter_map(|line| Some(line.as_str()?.to_string()));
    Cluster {
        nodes: nodes.collect(),
        note: String::new(),
        problems: problems.collect(),
    }
}

/// This host as a cluster, from the JSON of `libra status`.
pub fn cluster_of_host(json: &Value) -> Cluster {
    let jobs = json["jobs"].as_array().into_iter().flatten();
    let live = jobs.filter(|job| job["phase"] != "ended").count();
    let host = &json["nodes"][0];
    let enforcement = text(host, "enforcement");
    Cluster {
        nodes: vec![Node {
            name: text(host, "node"),
            state: String::new(),
            committed: host["committed"].as_f64().unwrap_or(0.0),
            processors: host["processors"].as_f64().unwrap_or(0.0),
            jobs: live as u64,
        }],
        note: match (enforcement.as_str(), host["enforced"] == true) {
            ("", _) => String::new(),
            (how, false) => format!("Shares are {how}."),
            (how, true) => format!("Shares are held by {how}."),
        },
        problems: Vec::new(),
    }
}

/// A job of this host, from the JSON of `libra status`: the user number of its owner, its command, and the rest.
pub fn job_of_host(job: &Value) -> (u64, String, JobSummary) {
    let number = |key: &str| job[key].as_f64();
    let command = text(job, "command");
    let live = !matches!(job["phase"].as_str(), Some("ended"));
    let made = JobSummary {
        key: text(job, "id"),
        id: text(job, "id"),
        name: match job["name"].as_str() {
            Some(name) => name.to_string(),
            None => command.chars().take(60).collect(),
        },
        class: job["class"].as_str().and_then(Class::of_word),
        state: state_in_words(job),
        live,
        outcome: (!live).then(|| Outcome::of_conclusion(&text(job, "conclusion"))),
        in_time: job["in_time"].as_bool().filter(|_| !live),
        node: job["nodes"][0].as_str().unwrap_or_default().to_string(),
        share: if live { number("share") } else { None },
        slots: number("slots"),
        price: number("price"),
        elapsed: number("elapsed_seconds"),
        deadline: number("deadline_seconds"),
        used: number("used_seconds"),
        estimate: number("estimate_seconds"),
        submitted: None,
        ending: exit_in_words(&job["exit_code"], &job["signal"]),
    };
    (job["uid"].as_u64().unwrap_or(u64::MAX), command, made)
}

/// A state as people read it.
fn state_in_words(job: &Value) -> String {
    match job["state"].as_str() {
        Some("waiting") => "waits".to_string(),
        Some("waiting_at_risk") => "waits, at risk".to_string(),
        state => state.unwrap_or_default().replace('_', " "),
    }
}

/// `exit code 0`, `ended by signal 15, SIGTERM: asked to end`; empty where neither is known.
pub fn exit_in_words(code: &Value, signal: &Value) -> String {
    match (code.as_i64(), signal.as_i64()) {
        (Some(code), _) => ending::exit_code(code),
        (_, Some(signal)) => ending::signal(signal),
        _ => String::new(),
    }
}

/// How a job of a batch system stands, as the book has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobStatus {
    /// In words.
    pub state: String,
    /// Share per slot, in processors.
    pub share: Option<f64>,
    /// Processor seconds used, per slot.
    pub used: Option<f64>,
    /// Its nodes.
    pub nodes: String,
}

/// How all jobs with terms stand, by id, from `libra slurm status --json` or `libra pbs status --json`.
///
/// # Errors
/// It failed.
pub fn job_statuses(site: &Site, system: &str) -> Result<BTreeMap<String, JobStatus>, Problem> {
    let json = site.json(&[system, "status"])?;
    let jobs = json["jobs"].as_array().into_iter().flatten();
    let jobs = jobs.map(|job| {
        let nodes = job["nodes"].as_array().into_iter().flatten();
        let nodes: Vec<&str> = nodes.filter_map(Value::as_str).collect();
        let status = JobStatus {
            state: state_in_words(job),
            share: job["share"].as_f64(),
            used: job["used_seconds"].as_f64(),
            nodes: nodes.join(" "),
        };
        (text(job, "id"), status)
    });
    Ok(jobs.collect())
}

/// Adds to a job what is committed to it and how it stands. `ended`: when it did, Unix time; None while it has not.
pub fn settle(
    job: &mut JobSummary,
    commitment: Option<&Commitment>,
    status: Option<&JobStatus>,
    ended: Option<f64>,
    now: f64,
) {
    if let Some(commitment) = commitment {
        let terms = &commitment.request.terms;
        let took = ended.unwrap_or(now) - commitment.submitted;
        job.class = Some(terms.class);
        job.price = Some(commitment.price);
        job.deadline = terms.has_deadline().then_some(terms.deadline);
        job.estimate = Some(terms.estimate);
        job.slots = Some(commitment.request.shape.slots() as f64);
        job.submitted = Some(commitment.submitted);
        job.elapsed = (job.live || ended.is_some()).then_some(took.max(0.0));
        let promised = ended.filter(|_| terms.promises_end());
        job.in_time = promised.map(|_| took <= terms.deadline);
    } else if job.live {
        job.elapsed = job.submitted.map(|at| (now - at).max(0.0));
    }
    if !job.live {
        let outcome = match job.state.as_str() {
            "completed" => Outcome::Finished,
            state if state.starts_with("cancelled") => Outcome::Cancelled,
            "ended" => Outcome::Unknown,
            _ => Outcome::Failed,
        };
        // What is more than that it failed: a limit, a node that broke.
        if outcome == Outcome::Failed && job.state != "failed" && job.ending.is_empty() {
            job.ending = ending::state(&job.state);
        }
        job.outcome = Some(outcome);
    }
    if let Some(status) = status.filter(|_| job.live) {
        job.state.clone_from(&status.state);
        job.share = status.share;
        job.used = status.used;
        if job.node.is_empty() {
            job.node.clone_from(&status.nodes);
        }
    }
}

/// Jobs that have not ended first, and the latest of each kind first.
pub fn newest_first<T>(jobs: &mut [(JobSummary, T)]) {
    jobs.sort_by(|(a, _), (b, _)| {
        let when = |job: &JobSummary| job.submitted.unwrap_or(0.0);
        b.live.cmp(&a.live).then(when(b).total_cmp(&when(a)))
    });
}

fn text(json: &Value, key: &str) -> String {
    json[key].as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_of_this_host() {
        let json = json!({"id": "3", "name": null, "command": "/bin/x", "uid": 7, "nodes": ["n1"], "phase": "running", "slots": 2,
            "share": 0.5, "price": 10.5, "elapsed_seconds": 4.0, "deadline_seconds": 20.0, "used_seconds": 1.0,
            "estimate_seconds": 10.0, "started": true, "orphaned": false, "state": "at_risk"});
        let (user, command, job) = job_of_host(&json);
        assert_eq!((user, command.as_str()), (7, "/bin/x"));
        assert_eq!((job.name.as_str(), job.node.as_str()), ("/bin/x", "n1"));
        assert_eq!((job.state.as_str(), job.live), ("at risk", true));
        assert_eq!(job.class, None, "of an older program");
        let mut named = json.clone();
        named["class"] = "dedicated".into();
        assert_eq!(job_of_host(&named).2.class, Some(Class::Dedicated));
        named["name"] = "fit".into();
        assert_eq!(job_of_host(&named).2.name, "fit");
        let mut ended = json.clone();
        ended["phase"] = "ended".into();
        ended["state"] = "failed".into();
        ended["conclusion"] = "failed".into();
        ended["in_time"] = true.into();
        ended["exit_code"] = 3.into();
        let (_, _, job) = job_of_host(&ended);
        assert_eq!(
            (job.outcome, job.in_time, job.ending.as_str()),
            (Some(Outcome::Failed), Some(true), "exit code 3")
        );
        assert!(!job.live);
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        assert_eq!(cluster_of_batch(&json!(null)), Cluster::default());
        let (user, _, job) = job_of_host(&json!({}));
        assert_eq!((user, job.deadline), (u64::MAX, None));
    }
}
