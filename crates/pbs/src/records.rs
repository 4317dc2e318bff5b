//! PBS's records of jobs and nodes, as its hooks and its commands show them, and the book made of them.
//!
//! A job: `{"id", "state", "substate", "commitment", "exec_vnode", "array", "remaining", "held", "eligible", "start", "owner", "progress", "exit", "started",
//! "ran"}` (`held`: kinds of hold; `eligible`: since when PBS could run it; `start`: before when it may not start; `started`: Unix time; `ran`: seconds, suspended ones not counted); only jobs that have a commitment matter, others may be left out. A node: `{"name", "share", "rating", "mem", "up", "resources"}`; one
//! without a share is not Libra's. `"definitions"`: types and flags of PBS's resources, as [`Definitions::read`] has them; `"server"`: its own
//! `resources_available`; `"others"`: running jobs without a commitment, `{"id", "exec_vnode", "wide", "asked"}`: in `wide` and `asked` what they ask for in all, without and with what has a place of its own;
//! both kinds of jobs with `"owner", "group", "project", "queue"`. `"site"` and `"queues"`: limits of the server and the queues ([`super::limits`]).
//!
//! `progress` is what the execution hosts measured last: `{"n1": "12.5@1700000000.1"}`, processor seconds per slot
//! and when, with `@end` behind it where the job had ended there, and behind that how many seconds it ran. It is JSON because PBS adds up the hosts' values of a job: numbers, or objects key by key. PBS's own `resources_used.cput` is whole seconds and up to two minutes old, so it is not used.

use super::front_end::NodeResources;
use super::life::{in_judged_chunks, record};
use super::marks::{keeps_memory, may_have_stood_still, suspension};
use super::release::{Claim, claim, is_unpaid};
use super::resources::Definitions;
use super::server::{Server, clean};
use super::subjobs::{ids, subjob_of};
use super::{BadEvent, exec_vnode, list, need, number, text};
use libra_core::book::{BookError, JobRecord, NodeRecord, Phase, Snapshot};
use libra_core::commitment::Commitment;
use libra_core::decision::consumable::Scope;
use libra_units::{indices, memory};
use libra_wording::errors;
use serde_json::{Value, json};
use std::collections::HashSet;

impl Server {
    /// Records that were taken at `taken` (of the event; else just now). The first ones make the book, later ones are
    /// compared with it.
    pub(super) fn read_records(&mut self, event: &Value, now: f64) -> Result<Value, BadEvent> {
        let taken = number(event, "taken").unwrap_or(now);
        let (mut snapshot, mut problems) = snapshot(event, taken, self.shares_add_up);
        self.take_resources(event);
        let bad = |error: BookError| BadEvent(errors::book(&error));
        let jobs = list(event, "jobs");
        let mut log = self.release(jobs, taken, now);
        self.forget_given_back(jobs, taken);
        self.note_held(jobs, taken);
        self.note_marks(jobs, &mut snapshot.jobs, taken);
        (snapshot.jobs).retain(|job| {
            let id = job.id.as_deref().unwrap_or_default();
            job.phase == Phase::Running || !self.given_back.contains_key(id)
        });
        if self.has_records {
            let differences = self.admission.book.reconcile(&snapshot, now).map_err(bad)?;
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
            problems.extend(differences.problems.iter().map(errors::untaken));
        } else {
            // Microseconds: no earlier book of this server has come so far, so that a subjob, which gets a new one, has none of a quote that was held.
            self.admission
                .book
                .tokens_from((now.clamp(0.0, 4e9) * 1e6) as u64);
            let untaken = self.admission.book.rebuild(&snapshot).map_err(bad)?;
            problems.extend(untaken.iter().map(errors::untaken));
            self.has_records = true;
            log.push(format!(
                "{} nodes, {} jobs with terms",
                self.admission.book.node_count(),
                self.admission.book.job_count()
            ));
        }
        self.read_others(event, taken, now);
        let not_taken: Vec<String> = (problems.iter())
            .map(|problem| clean(&format!("not taken: {problem}")))
            .collect();
        log.extend(not_taken.iter().cloned());
        let accounts = self.admission.gate.tried(|payments| {
            payments.refresh()?;
            // A held job has given its money back: that it is there is no reason to set it aside again.
            let commitment: Vec<Commitment> = (jobs.iter())
                .filter(|job| !matches!(text(job, "state"), Some("F" | "M" | "X")))
                .filter_map(|job| Some((job, Commitment::parse(text(job, "commitment")?).ok()?)))
                .filter(|(job, commitment)| !is_unpaid(job, commitment, taken))
                .map(|(_, commitment)| commitment)
                .collect();
            payments.reconcile(commitment.iter(), HashSet::new(), taken, now)
        });
        log.extend(accounts.unwrap_or_default());
        Ok(json!({"verdict": "accept", "log": log, "not_taken": not_taken}))
    }

    /// Jobs that gave their share back before `taken` and are not in the records of then are gone.
    fn forget_given_back(&mut self, jobs: &[Value], taken: f64) {
        let there: HashSet<&str> = jobs.iter().filter_map(|job| text(job, "id")).collect();
        let is_there = |id: &str| match id.split_once('[') {
            // Of an array that waits there is one record.
            Some((array, rest)) => {
                let server = rest.split_once(']').map_or("", |(_, server)| server);
                there.contains(id) || there.contains(format!("{array}[]{server}").as_str())
            }
            None => there.contains(id),
        };
        (self.given_back).retain(|id, noticed| *noticed >= taken || is_there(id));
    }

    /// Nodes were changed.
    pub(super) fn nodes(&mut self, event: &Value) -> Value {
        let nodes = list(event, "nodes");
        self.take_resources(event);
        let definitions = &self.front.definitions;
        let (in_all, mut problems) = definitions.amounts(&event["server"], Scope::Cluster);
        let mut records = Vec::new();
        for node in nodes {
            match node_record(node, definitions, &mut problems) {
                Ok(record) => records.extend(record),
                Err(problem) => problems.push(problem),
            }
        }
        self.admission.book.set_cluster_consumables(&in_all);
        problems.extend(
            self.admission
                .book
                .set_nodes(&records)
                .iter()
                .map(errors::untaken),
        );
        let log: Vec<String> = problems
            .iter()
            .map(|problem| format!("not taken: {problem}"))
            .collect();
        json!({"verdict": "accept", "log": log})
    }

    fn take_resources(&mut self, event: &Value) {
        if event["definitions"].is_object() {
            self.front.definitions = Definitions::read(&event["definitions"]);
        }
        self.front.limits.read(event, &self.front.definitions);
        if event["site"].is_object() {
            self.front.keeps_memory = keeps_memory(text(&event["site"], "released"));
        }
        if event["server"].is_object() {
            self.front.server = strings(&event["server"]);
        }
        for node in list(event, "nodes") {
            if let (Some(name), true) = (text(node, "name"), node["resources"].is_object()) {
                let resources = strings(&node["resources"]);
                self.front.resources.insert(name.to_string(), resources);
            }
        }
    }
}

/// The texts of an object.
fn strings(object: &Value) -> NodeResources {
    let all = object.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.to_ascii_lowercase(), value.as_str()?.to_string())))
        .collect()
}

/// The records as a snapshot of a book, and what could not be taken.
pub fn snapshot(event: &Value, taken: f64, shares_add_up: bool) -> (Snapshot, Vec<String>) {
    let definitions = Definitions::read(&event["definitions"]);
    let (consumables, mut problems) = definitions.amounts(&event["server"], Scope::Cluster);
    let mut snapshot = Snapshot {
        consumables,
        version: 1,
        now: taken,
        nodes: Vec::new(),
        jobs: Vec::new(),
    };
    for node in list(event, "nodes") {
        match node_record(node, &definitions, &mut problems) {
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
    // Names of jobs and nodes are in these, as PBS has them.
    for problem in &mut problems {
        *problem = clean(problem);
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
    let Some(line) = text(job, "commitment") else {
        return Ok(());
    };
    let id = need(job, "id")?;
    let state = text(job, "state").unwrap_or_default();
    // Finished, moved away, expired.
    if matches!(state, "F" | "M" | "X") {
        return Ok(());
    }
    let commitment = super::life::read(line)?;
    // It waits and holds nothing.
    if !matches!(
        claim(job, &commitment, taken),
        Claim::Stands | Claim::Planned
    ) {
        return Ok(());
    }
    let array = text(job, "array");
    if id.contains("[]") {
        let all = ids(id, &commitment, array)?;
        let waiting: HashSet<u32> = match text(job, "remaining") {
            None | Some("-") => HashSet::new(),
            Some(indices) => indices::parse(indices)
                .map_err(BadEvent)?
                .into_iter()
                .collect(),
        };
        for (subjob, id) in all.iter().enumerate() {
            let index = id
                .split(['[', ']'])
                .nth(1)
                .and_then(|index| index.parse().ok());
            if index.is_some_and(|index: u32| waiting.contains(&index)) {
                records.push(record(id, subjob, &commitment, Phase::Bound, shares_add_up));
            }
        }
        return Ok(());
    }
    let runs = matches!(state, "R" | "E" | "S" | "U");
    let phase = if runs { Phase::Running } else { Phase::Bound };
    let mut record = record(
        id,
        subjob_of(id, &commitment, array)?,
        &commitment,
        phase,
        shares_add_up,
    );
    record.suspended = runs.then(|| suspension(job, &commitment)).flatten();
    let given = exec_vnode::parse(text(job, "exec_vnode").unwrap_or_default());
    let given = in_judged_chunks(&commitment, &given);
    if runs && !given.is_empty() {
        let like = record.places[0].clone();
        record.places = (given.into_iter())
            .map(|(node, chunks)| libra_core::book::AllocationRecord {
                node,
                chunks,
                ..like.clone()
            })
            .collect();
    }
    // Who has whole processors has had them since it was started, whether it worked or not.
    let started = number(job, "started").ok().filter(|started| *started > 0.0);
    if let (true, Some(started)) = (runs && commitment.request.terms.class.is_whole(), started) {
        // How long one has run that has stood still only PBS counts, some time ago.
        let ran = match may_have_stood_still(job) {
            true => number(job, "ran").unwrap_or(0.0),
            false => taken - started,
        };
        for place in &mut record.places {
            place.cput = ran.max(0.0);
        }
        records.push(record);
        return Ok(());
    }
    for one in text(job, "progress").map(measured).unwrap_or_default() {
        for place in &mut record.places {
            if exec_vnode::is_on_host(&place.node, &one.host) {
                place.cput = (one.cput + place.share * (taken - one.at).max(0.0))
                    .min(commitment.request.terms.estimate.max(one.cput));
            }
        }
    }
    records.push(record);
    Ok(())
}

/// What one host measured of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub host: String,
    /// Processor seconds per slot.
    pub cput: f64,
    /// When, Unix time.
    pub at: f64,
    /// Whether the job had ended there by then. Else it ran on.
    pub last: bool,
    /// Seconds from its first process there to its end, where its host knows: PBS begins to count before prologues and files.
    pub ran: Option<f64>,
}

/// What stands behind a measurement after which there are no more; behind it the seconds that the job ran.
const LAST: &str = "end";

/// What the hosts measured. PBS puts quotes around it.
pub(super) fn measured(text: &str) -> Vec<Measured> {
    let measured: Value = serde_json::from_str(text.trim_matches('\'')).unwrap_or_default();
    let number = |text: &str| {
        text.parse::<f64>()
            .ok()
            .filter(|n| n.is_finite() && *n >= 0.0)
    };
    let read = |(host, value): (&String, &Value)| {
        let mut parts = value.as_str()?.split('@');
        Some(Measured {
            host: host.clone(),
            cput: number(parts.next()?)?,
            at: number(parts.next()?)?,
            last: parts.next() == Some(LAST),
            ran: parts.next().and_then(number),
        })
    };
    let hosts = measured.as_object().into_iter().flatten();
    hosts.filter_map(read).collect()
}

/// What a host measured of a job that goes on, as [`measured`] reads it: processor seconds per slot, and when (Unix time).
pub fn progress_line(host: &str, cput: f64, at: f64) -> String {
    json!({host: format!("{cput:.3}@{at:.3}")}).to_string()
}

/// The same of one that has ended there, `ran` seconds after its first process.
pub fn end_line(host: &str, cput: f64, at: f64, ran: Option<f64>) -> String {
    let ran = ran.map_or(String::new(), |ran| format!("@{ran:.3}"));
    json!({host: format!("{cput:.3}@{at:.3}@{LAST}{ran}")}).to_string()
}

fn node_record(
    node: &Value,
    definitions: &Definitions,
    problems: &mut Vec<String>,
) -> Result<Option<NodeRecord>, String> {
    let name = need(node, "name").map_err(|error| error.0)?;
    // Behind a parenthesis PBS begins a chunk, or reads no further.
    if !libra_core::commitment::is_node_name(name) || name.contains(['(', ')']) {
        return Err(format!(
            "node '{name}': it takes no jobs with terms, as a name with a blank, a quote, a parenthesis, ',', ':', '=', '*' or '+' cannot be written down with a job"
        ));
    }
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
    let (consumables, unread) = definitions.amounts(&node["resources"], Scope::Node);
    problems.extend(
        unread
            .iter()
            .map(|problem| format!("node '{name}': {problem}")),
    );
    Ok(Some(NodeRecord {
        name: name.to_string(),
        processors,
        rating: read("rating")?.unwrap_or(1.0),
        memory,
        consumables,
        available: node["up"].as_bool().unwrap_or(false),
        committed: 0.0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_measured_is_read_back() {
        let one = |line: &str| {
            let mut all = measured(&format!("'{line}'"));
            assert_eq!(all.len(), 1, "{line}");
            let one = all.remove(0);
            (one.host, one.cput, one.at, one.last, one.ran)
        };
        let n1 = || "n1".to_string();
        let goes_on = progress_line("n1", 9.5, 1059.25);
        assert_eq!(one(&goes_on), (n1(), 9.5, 1059.25, false, None));
        let ended = end_line("n1", 9.5, 1059.25, Some(12.125));
        assert_eq!(one(&ended), (n1(), 9.5, 1059.25, true, Some(12.125)));
        let unknown = end_line("n1", 9.5, 1059.25, None);
        assert_eq!(one(&unknown), (n1(), 9.5, 1059.25, true, None));
        // Users can write neither, but a host may be of an earlier Libra, or broken.
        for (line, expected) in [
            (r#"{"n1": "9.5@7@end@-1"}"#, 1),
            (r#"{"n1": "9.5@7@end@x"}"#, 1),
            (r#"{"n1": "9.5"}"#, 0),
            (r#"{"n1": "nan@7"}"#, 0),
            (r#"{"n1": 9.5}"#, 0),
            ("", 0),
        ] {
            let found = measured(line);
            assert_eq!(found.len(), expected, "{line}");
            assert!(found.iter().all(|one| one.ran.is_none()), "{line}");
        }
    }
}
