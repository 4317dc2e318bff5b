//! What jobs that Libra has promised nothing to use of what PBS counts, by node and in all.

use super::resources::{Definitions, amount};
use super::text;
use libra_core::book::OLDEST_RECORDS;
use libra_core::decision::consumable::{Consumable, Scope};
use libra_units::memory;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};

/// What one job uses on a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Use {
    /// Bytes.
    pub(super) memory: u64,
    pub(super) amounts: HashMap<Consumable, u64>,
}

impl Use {
    pub(super) fn add(&mut self, other: &Use) {
        self.memory = self.memory.saturating_add(other.memory);
        for (what, amount) in &other.amounts {
            let sum = self.amounts.entry(*what).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.memory == 0 && self.amounts.is_empty()
    }

    pub(super) fn list(&self) -> Vec<(Consumable, u64)> {
        self.amounts
            .iter()
            .map(|(what, amount)| (*what, *amount))
            .collect()
    }
}

/// One of these jobs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Other {
    /// By the names of the nodes.
    pub(super) nodes: HashMap<String, Use>,
    pub(super) in_all: Use,
    /// When it was heard of.
    pub(super) since: f64,
}

/// All of them that use anything.
#[derive(Debug, Default)]
pub(super) struct Others {
    pub(super) jobs: HashMap<String, Other>,
    by_node: HashMap<String, HashSet<String>>,
    /// Those that ended lately, oldest first: older records may still show them.
    pub(super) ended: VecDeque<(String, f64)>,
}

impl Others {
    pub(super) fn take(&mut self, id: &str, other: Other) -> Vec<String> {
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
    pub(super) fn drop(&mut self, id: &str) -> Vec<String> {
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

    pub(super) fn end(&mut self, id: &str, now: f64) -> Vec<String> {
        while (self.ended.front()).is_some_and(|(_, at)| now - at > OLDEST_RECORDS) {
            self.ended.pop_front();
        }
        self.ended.push_back((id.to_string(), now));
        self.drop(id)
    }

    pub(super) fn on(&self, node: &str) -> Use {
        let mut sum = Use::default();
        for id in self.by_node.get(node).into_iter().flatten() {
            if let Some(part) = self.jobs.get(id).and_then(|other| other.nodes.get(node)) {
                sum.add(part);
            }
        }
        sum
    }

    pub(super) fn in_all(&self) -> Use {
        let mut sum = Use::default();
        for other in self.jobs.values() {
            sum.add(&other.in_all);
        }
        sum
    }
}

/// What a job uses, by its `exec_vnode` and what it asks for in all.
pub(super) fn read(job: &Value, definitions: &Definitions, since: f64) -> Other {
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
