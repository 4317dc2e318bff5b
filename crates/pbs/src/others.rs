//! Jobs that Libra has promised nothing to, and that run beside those with terms: what they use of what PBS counts.
//!
//! PBS starts them when it likes. What they use is not free for a promise, and what a promise holds for a job that waits is not theirs:
//! one that would take it is let run later ([`Server::run_other`]).
//!
//! They are known by their own events, `runjob` and `jobobit`, and by the records, as the jobs of the book are.

use super::resources::{Definitions, amount};
use super::server::{Server, accept, refuse};
use super::subjobs::{ids_among, is_subjob};
use super::{BadEvent, list, need, text};
use libra_core::book::{Book, OLDEST_RECORDS};
use libra_core::commitment::Commitment;
use libra_core::decision::consumable::{Consumable, Scope};
use libra_units::memory;
use libra_wording::refusal;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};

/// What one job uses on a node.
#[derive(Debug, Clone, Default, PartialEq)]
struct Use {
    /// Bytes.
    memory: u64,
    amounts: HashMap<Consumable, u64>,
}

impl Use {
    fn add(&mut self, other: &Use) {
        self.memory = self.memory.saturating_add(other.memory);
        for (what, amount) in &other.amounts {
            let sum = self.amounts.entry(*what).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    fn is_nothing(&self) -> bool {
        self.memory == 0 && self.amounts.is_empty()
    }

    fn list(&self) -> Vec<(Consumable, u64)> {
        self.amounts
            .iter()
            .map(|(what, amount)| (*what, *amount))
            .collect()
    }
}

/// One of these jobs.
#[derive(Debug, Clone, PartialEq)]
struct Other {
    /// By the names of the nodes.
    nodes: HashMap<String, Use>,
    in_all: Use,
    /// When it was heard of.
    since: f64,
}

/// All of them that use anything.
#[derive(Debug, Default)]
pub(super) struct Others {
    jobs: HashMap<String, Other>,
    by_node: HashMap<String, HashSet<String>>,
    /// Those that ended lately, oldest first: older records may still show them.
    ended: VecDeque<(String, f64)>,
}

impl Others {
    fn take(&mut self, id: &str, other: Other) -> Vec<String> {
        let mut touched = self.drop(id);
        if other.nodes.is_empty() && other.in_all.is_nothing() {
            return touched;
        }
        for node in other.nodes.keys() {
            self.by_node
                .entry(node.clone())
                .or_default()
                .insert(id.to_string());
            touched.push(node.clone());
        }
        self.jobs.insert(id.to_string(), other);
        touched
    }

    /// The nodes that it was on.
    fn drop(&mut self, id: &str) -> Vec<String> {
        let Some(other) = self.jobs.remove(id) else {
            return Vec::new();
        };
        for node in other.nodes.keys() {
            if let Some(jobs) = self.by_node.get_mut(node) {
                jobs.remove(id);
            }
        }
        other.nodes.into_keys().collect()
    }

    fn end(&mut self, id: &str, now: f64) -> Vec<String> {
        while (self.ended.front()).is_some_and(|(_, at)| now - at > OLDEST_RECORDS) {
            self.ended.pop_front();
        }
        self.ended.push_back((id.to_string(), now));
        self.drop(id)
    }

    fn on(&self, node: &str) -> Use {
        let mut sum = Use::default();
        for id in self.by_node.get(node).into_iter().flatten() {
            if let Some(part) = self.jobs.get(id).and_then(|other| other.nodes.get(node)) {
                sum.add(part);
            }
        }
        sum
    }

    fn in_all(&self) -> Use {
        let mut sum = Use::default();
        for other in self.jobs.values() {
            sum.add(&other.in_all);
        }
        sum
    }
}

/// What a job uses, by its `exec_vnode` and what it asks for in all.
fn read(job: &Value, definitions: &Definitions, since: f64) -> Other {
    let mut nodes: HashMap<String, Use> = HashMap::new();
    let vnodes = text(job, "exec_vnode").unwrap_or_default();
    for part in vnodes
        .split(['+', '(', ')'])
        .filter(|part| !part.is_empty())
    {
        let mut items = part.split(':');
        let node = items.next().unwrap_or_default();
        let mut uses = Use::default();
        for (key, value) in items.filter_map(|item| item.split_once('=')) {
            if key == "mem" {
                uses.memory = memory::parse(value).unwrap_or(0);
            } else if let Some(what) = definitions.consumable(key, Scope::Node) {
                uses.amounts
                    .insert(what, amount(what.unit(), value).unwrap_or(0));
            }
        }
        if !uses.is_nothing() {
            nodes.entry(node.to_string()).or_default().add(&uses);
        }
    }
    let (amounts, _) = definitions.amounts(&job["wide"], Scope::Cluster);
    Other {
        nodes,
        in_all: Use {
            memory: 0,
            amounts: amounts.into_iter().collect(),
        },
        since,
    }
}

impl Server {
    /// PBS is about to run a job that has no commitment.
    pub(super) fn run_other(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        let id = need(job, "id")?;
        let other = read(job, &self.front.definitions, now);
        // PBS's scheduler (23.06) tries a subjob that a hook does not let run again and again within one cycle.
        if self.has_records && !is_subjob(id) {
            let (limits, definitions) = (&self.front.limits, &self.front.definitions);
            if let Some(limit) = limits.hidden_limit(&self.admission.book, job, definitions) {
                return Ok(refuse(format!("libra: {limit}")));
            }
            if let Some(what) = self.promised(&other) {
                return Ok(refuse(format!(
                    "libra: {what}; this job runs when there is more"
                )));
            }
        }
        (self.front.limits).run(id, job, &self.front.definitions, now);
        let touched = self.others.take(id, other);
        self.show_others(&touched);
        Ok(accept())
    }

    /// Such a job has ended, or goes back into its queue.
    pub(super) fn end_other(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        let id = need(job, "id")?;
        self.front.limits.end(id);
        let touched = self.others.end(id, now);
        self.show_others(&touched);
        Ok(accept())
    }

    /// Compares with records that were taken then.
    pub(super) fn read_others(&mut self, event: &Value, taken: f64, now: f64) {
        let mut seen = HashSet::new();
        let late: HashSet<String> = (self.others.ended.iter())
            .filter(|(_, at)| *at >= taken)
            .map(|(id, _)| id.clone())
            .collect();
        for job in list(event, "others") {
            let Some(id) = text(job, "id").filter(|id| !late.contains(*id)) else {
                continue;
            };
            seen.insert(id.to_string());
            (self.front.limits).run(id, job, &self.front.definitions, taken);
            if !self.others.jobs.contains_key(id) {
                let other = read(job, &self.front.definitions, now);
                self.others.take(id, other);
            }
        }
        for job in list(event, "jobs") {
            let line = text(job, "commitment").and_then(|line| Commitment::parse(line).ok());
            let (Some(id), Some(commitment)) = (text(job, "id"), line) else {
                continue;
            };
            // Of an array that waits there is one record.
            for id in ids_among(id, text(job, "array")).unwrap_or_default() {
                if self.admission.book.contains(&id) {
                    self.note_owner(&id, job, &commitment.request.shape, taken);
                }
            }
        }
        self.front.limits.keep(&seen, &self.admission.book, taken);
        let gone: Vec<String> = (self.others.jobs.iter())
            .filter(|(id, other)| other.since < taken && !seen.contains(*id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.others.drop(&id);
        }
        let nodes = (0..self.admission.book.node_count())
            .map(|index| self.admission.book.node_name(index).to_string())
            .collect::<Vec<_>>();
        self.show_others(&nodes);
    }

    /// Tells the book what they use on these nodes, and in all.
    fn show_others(&mut self, nodes: &[String]) {
        let book = &mut self.admission.book;
        for node in nodes {
            let uses = self.others.on(node);
            // A node that is not Libra's is not in the book.
            let _ = book.set_taken(node, uses.memory, &uses.list());
        }
        book.set_cluster_taken(&self.others.in_all().list());
    }

    /// What of its needs is held for jobs with terms that have not begun.
    fn promised(&self, other: &Other) -> Option<String> {
        let book = &self.admission.book;
        let waits = |node: Option<&str>| {
            book.unstarted().any(|id| match node {
                None => true,
                Some(node) => (book.places(id))
                    .is_ok_and(|places| places.iter().any(|place| place.node == node)),
            })
        };
        for (node, uses) in &other.nodes {
            if let Some(what) = lacking(book, node, uses).filter(|_| waits(Some(node))) {
                return Some(format!(
                    "{what} of {node} is promised to a job with a deadline"
                ));
            }
        }
        let short = |(what, amount): (&Consumable, &u64)| {
            let free = book.free_in_all(*what)?;
            (free < *amount).then(|| what.name().to_string())
        };
        let what = other.in_all.amounts.iter().find_map(short)?;
        waits(None).then(|| format!("{what} is promised to a job with a deadline"))
    }
}

fn lacking(book: &Book, node: &str, uses: &Use) -> Option<String> {
    if book.free_memory_on(node)? < uses.memory {
        return Some("memory".to_string());
    }
    let short = |(what, needed): (&Consumable, &u64)| {
        let free = book.free_on(node, *what)?;
        (free < *needed).then(|| format!("{} {}", refusal::amount(*what, *needed), what.name()))
    };
    uses.amounts.iter().find_map(short)
}
