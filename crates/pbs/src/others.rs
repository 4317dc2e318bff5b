//! Jobs that Libra has promised nothing to, and that run beside those with terms: what they use of what PBS counts.
//!
//! PBS starts them when it likes. What they use is not free for a promise, and what a promise holds for a job that waits is not theirs:
//! one that would take it is let run later ([`Server::run_other`]).
//!
//! They are known by their own events, `runjob` and `jobobit`, and by the records, as the jobs of the book are.

use super::server::{Server, accept, refuse};
use super::subjobs::{ids_among, is_subjob};
use super::uses::{Other, Use, read};
use super::{BadEvent, list, need, text};
use libra_core::book::Book;
use libra_core::commitment::Commitment;
use libra_core::decision::consumable::Consumable;
use libra_wording::refusal;
use serde_json::Value;
use std::collections::HashSet;

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
                let book = &self.admission.book;
                if book.contains(&id) && book.starts_by(&id).is_none() {
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
