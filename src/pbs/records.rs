//! PBS's records of jobs and nodes, as its hooks and its commands show them, and the book made of them.
//!
//! A job: `{"id", "state", "substate", "sold", "exec_vnode", "array", "progress", "exit", "ran"}` (`ran`: seconds,
//! suspended ones not counted); only jobs that were sold something matter, others may be left out. A node: `{"name", "share", "rating", "mem", "up", "resources"}`; one
//! without a share is not Libra's.
//!
//! `progress` is what the execution hosts measured last: `{"n1": "12.5@1700000000.1"}`, processor seconds per slot
//! and when. It is JSON because PBS adds up the hosts' values of a job: numbers, or objects key by key. PBS's own `resources_used.cput` is whole seconds and up to two minutes old, so it is not used.

use super::life::{ids, in_judged_chunks, record, subjob_of};
use super::server::Server;
use super::{BadEvent, exec_vnode, list, need, number, text};
use crate::book::{BookError, JobRecord, NodeRecord, Phase, Snapshot};
use crate::sold::Sold;
use crate::text::{indices, memory};
use serde_json::{Value, json};
use std::collections::HashSet;

impl Server {
    /// Records that were taken at `taken` (of the event; else just now). The first ones make the book, later ones are
    /// compared with it.
    pub(super) fn read_records(&mut self, event: &Value, now: f64) -> Result<Value, BadEvent> {
        let taken = number(event, "taken").unwrap_or(now);
        let (snapshot, mut problems) = snapshot(event, taken, self.shares_add_up);
        self.take_resources(list(event, "nodes"));
        let bad = |error: BookError| BadEvent(error.to_string());
        let mut log = Vec::new();
        if self.has_records {
            let differences = self.book.reconcile(&snapshot, now).map_err(bad)?;
            self.counts
                .vanish(differences.vanished.len(), differences.waited);
            if !differences.vanished.is_empty() {
                log.push(format!(
                    "gone without an end: {}",
                    differences.vanished.join(" ")
                ));
            }
            if !differences.found.is_empty() {
                log.push(format!("not known before: {}", differences.found.join(" ")));
            }
            problems.extend(differences.problems);
        } else {
            problems.extend(self.book.rebuild(&snapshot).map_err(bad)?);
            self.has_records = true;
            log.push(format!(
                "{} nodes, {} jobs with terms",
                self.book.node_count(),
                self.book.job_count()
            ));
        }
        log.extend(
            problems
                .into_iter()
                .map(|problem| format!("not taken: {problem}")),
        );
        let accounts = self.desk.tried(|payments| {
            payments.refresh()?;
            let sold: Vec<Sold> = (list(event, "jobs").iter())
                .filter(|job| !matches!(text(job, "state"), Some("F" | "M" | "X")))
                .filter_map(|job| Sold::parse(text(job, "sold")?).ok())
                .collect();
            payments.reconcile(sold.iter(), HashSet::new(), taken, now)
        });
        log.extend(accounts.unwrap_or_default());
        Ok(json!({"verdict": "accept", "log": log}))
    }

    /// Nodes were changed.
    pub(super) fn nodes(&mut self, event: &Value) -> Value {
        let nodes = list(event, "nodes");
        self.take_resources(nodes);
        let mut problems = Vec::new();
        let mut records = Vec::new();
        for node in nodes {
            match node_record(node) {
                Ok(record) => records.extend(record),
                Err(problem) => problems.push(problem),
            }
        }
        problems.extend(self.book.set_nodes(&records));
        let log: Vec<String> = problems
            .iter()
            .map(|problem| format!("not taken: {problem}"))
            .collect();
        json!({"verdict": "accept", "log": log})
    }

    fn take_resources(&mut self, nodes: &[Value]) {
        for node in nodes {
            let (Some(name), Some(resources)) = (text(node, "name"), node["resources"].as_object())
            else {
                continue;
            };
            let resources = (resources.iter())
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())))
                .collect();
            self.resources.insert(name.to_string(), resources);
        }
    }
}

/// The records as a snapshot of a book, and what could not be taken.
pub fn snapshot(event: &Value, taken: f64, shares_add_up: bool) -> (Snapshot, Vec<String>) {
    let mut problems = Vec::new();
    let mut snapshot = Snapshot {
        version: 1,
        now: taken,
        nodes: Vec::new(),
        jobs: Vec::new(),
    };
    for node in list(event, "nodes") {
        match node_record(node) {
            Ok(Some(node)) => snapshot.nodes.push(node),
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    let jobs = list(event, "jobs");
    // Subjobs that run have a record of their own; their array's record says which wait.
    for job in jobs {
        if let Err(problem) = job_records(job, taken, shares_add_up, &mut snapshot.jobs) {
            let id = text(job, "id").unwrap_or("without id");
            problems.push(format!("job {id}: {problem}"));
        }
    }
    let mut seen = std::collections::HashSet::new();
    // A running record beats a waiting one.
    (snapshot.jobs).sort_by_key(|job| job.phase != Phase::Running);
    snapshot.jobs.retain(|job| seen.insert(job.id.clone()));
    (snapshot, problems)
}

fn job_records(
    job: &Value,
    taken: f64,
    shares_add_up: bool,
    records: &mut Vec<JobRecord>,
) -> Result<(), BadEvent> {
    let Some(line) = text(job, "sold") else {
        return Ok(());
    };
    let id = need(job, "id")?;
    let state = text(job, "state").unwrap_or_default();
    // Finished, moved away, expired.
    if matches!(state, "F" | "M" | "X") {
        return Ok(());
    }
    let sold = Sold::parse(line).map_err(|error| BadEvent(error.to_string()))?;
    let array = text(job, "array");
    if id.contains("[]") {
        let all = ids(id, &sold, array)?;
        let waiting = match text(job, "remaining") {
            None | Some("-") => Vec::new(),
            Some(indices) => indices::parse(indices).map_err(BadEvent)?,
        };
        for (subjob, id) in all.iter().enumerate() {
            let index = id
                .split(['[', ']'])
                .nth(1)
                .and_then(|index| index.parse().ok());
            if index.is_some_and(|index: u32| waiting.contains(&index)) {
                records.push(record(id, subjob, &sold, Phase::Bound, shares_add_up));
            }
        }
        return Ok(());
    }
    let runs = matches!(state, "R" | "E" | "S" | "U");
    let phase = if runs { Phase::Running } else { Phase::Bound };
    let mut record = record(
        id,
        subjob_of(id, &sold, array)?,
        &sold,
        phase,
        shares_add_up,
    );
    let given = exec_vnode::parse(text(job, "exec_vnode").unwrap_or_default());
    let given = in_judged_chunks(&sold, &given);
    if runs && !given.is_empty() {
        let like = record.places[0].clone();
        record.places = (given.into_iter())
            .map(|(node, chunks)| crate::book::PlaceRecord {
                node,
                chunks,
                ..like.clone()
            })
            .collect();
    }
    for (host, cput, at) in text(job, "progress").map(progress).unwrap_or_default() {
        for place in &mut record.places {
            if exec_vnode::is_on_host(&place.node, &host) {
                place.cput = (cput + place.share * (taken - at).max(0.0))
                    .min(sold.request.terms.estimate.max(cput));
            }
        }
    }
    records.push(record);
    Ok(())
}

/// What the hosts measured: host, processor seconds per slot, when. PBS puts quotes around it.
pub(super) fn progress(text: &str) -> Vec<(String, f64, f64)> {
    let measured: Value = serde_json::from_str(text.trim_matches('\'')).unwrap_or_default();
    let number = |text: &str| {
        text.parse::<f64>()
            .ok()
            .filter(|n| n.is_finite() && *n >= 0.0)
    };
    let read = |(host, value): (&String, &Value)| {
        let (cput, at) = value.as_str()?.split_once('@')?;
        Some((host.clone(), number(cput)?, number(at)?))
    };
    let hosts = measured.as_object().into_iter().flatten();
    hosts.filter_map(read).collect()
}

/// What a host measured, as [`snapshot`] reads it.
pub fn progress_line(host: &str, cput: f64, at: f64) -> String {
    json!({host: format!("{cput:.3}@{at:.3}")}).to_string()
}

fn node_record(node: &Value) -> Result<Option<NodeRecord>, String> {
    let name = need(node, "name").map_err(|error| error.0)?;
    let read = |key: &str| match text(node, key) {
        None => Ok(None),
        Some(text) => (text.parse::<f64>().ok())
            .filter(|number| number.is_finite())
            .map(Some)
            .ok_or_else(|| format!("node '{name}': {key} is '{text}', expected a number")),
    };
    let Some(processors) = read("share")?.filter(|share| *share > 0.0) else {
        return Ok(None);
    };
    let memory = match text(node, "mem") {
        None => None,
        Some(text) => {
            Some(memory::parse(text).map_err(|error| format!("node '{name}': mem: {error}"))?)
        }
    };
    Ok(Some(NodeRecord {
        name: name.to_string(),
        processors,
        rating: read("rating")?.unwrap_or(1.0),
        memory,
        available: node["up"].as_bool().unwrap_or(false),
        committed: 0.0,
    }))
}
