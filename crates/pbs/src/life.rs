//! An accepted job in PBS: it gets its id, starts, ends; and what may not be done to it.

use super::release::Claim;
use super::server::{Server, accept, internal, refuse};
use super::subjobs::{ids, is_subjob, subjob_of};
use super::{BadEvent, TERMS, exec_vnode, list, need, text};
use libra_core::book::{AllocationRecord, BookError, JobRecord, Phase};
use libra_core::decision::TOLERANCE;
use libra_core::sold::Sold;
use libra_metrics::Outcome;
use libra_units::{in_one_line, processors};
use libra_wording::errors;
use serde_json::{Value, json};

/// What may not be altered of a job that was sold something: its terms, and what was asked for.
const SOLD_WITH_IT: [&str; 9] = [
    "select", "place", "ncpus", "mem", "nodes", "walltime", "cput", "nodect", "mpiprocs",
];

impl Server {
    /// The job has its id now; an array one for each subjob.
    pub(super) fn name(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        let Some(line) = text(job, "sold") else {
            return Ok(accept());
        };
        let id = need(job, "id")?;
        // A subjob was named with its array; PBS makes it a job of its own just before it runs.
        if is_subjob(id) {
            return Ok(accept());
        }
        let sold = read(line)?;
        // It also comes when a job is moved to another queue: then all of this is known.
        for (subjob, id) in ids(id, &sold, text(job, "array"))?.into_iter().enumerate() {
            if self.book.contains(&id) {
                continue;
            }
            let token = sold.token + subjob as u64;
            if self.book.bind(token, &id, now).is_err() {
                // Its reservation expired, or the library was loaded anew in between.
                self.take_back(&id, subjob, &sold, Phase::Bound)?;
            }
        }
        self.gate.named(&sold, id);
        Ok(accept())
    }

    /// PBS is about to run the job.
    pub(super) fn run(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        let Some(line) = text(job, "sold") else {
            return Ok(accept());
        };
        let id = need(job, "id")?;
        let sold = read(line)?;
        let places = exec_vnode::parse(text(job, "exec_vnode").unwrap_or_default());
        let mut given = in_judged_chunks(&sold, &places);
        if !self.book.contains(id) {
            let subjob = subjob_of(id, &sold, text(job, "array"))?;
            match self.claim_of(id, job, &sold, now) {
                Claim::Stands => self.take_back(id, subjob, &sold, Phase::Bound)?,
                Claim::Held => return self.ask_anew(id, job, &sold, &given, now),
                Claim::Lapsed => {
                    if let Some(refused) = self.take_back_late(id, subjob, &sold, now)? {
                        return Ok(refused);
                    }
                }
            }
        }
        let mut planned: Vec<(String, u32)> = self.planned(id).map_err(internal)?;
        planned.sort();
        given.sort();
        let elsewhere = !given.is_empty() && planned != given;
        if elsewhere {
            if sold.count == 1 {
                return Ok(refuse(format!(
                    "libra: its share was sold on {}, not on {}; run it there, or delete it and submit it anew",
                    names(&planned),
                    names(&given)
                )));
            }
            self.follow(id, &planned, &given, now).map_err(internal)?;
        }
        if let Some(problem) = given.iter().find_map(|(node, _)| self.too_small_now(node)) {
            if elsewhere {
                // Promised to others, who will start there; this one finds another place.
                self.book.moved(id, &planned, now).map_err(internal)?;
                return Ok(refuse("libra: that place is promised to another job"));
            }
            return Ok(
                json!({"verdict": "refuse", "text": format!("libra: {problem}"), "hold": true}),
            );
        }
        self.book.started(id, now).map_err(internal)?;
        Ok(accept())
    }

    /// PBS places the subjobs of an array itself: this one takes the place of one that waits, or a new one.
    fn follow(
        &mut self,
        id: &str,
        planned: &[(String, u32)],
        given: &[(String, u32)],
        now: f64,
    ) -> Result<(), BookError> {
        let array = id.split('[').next().unwrap_or_default();
        let sibling = (self.book.unstarted())
            .filter(|other| *other != id && other.split('[').next() == Some(array))
            .find(|other| {
                let mut places = self.planned(other).unwrap_or_default();
                places.sort();
                places == given && places != planned
            })
            .map(str::to_string);
        match sibling {
            Some(sibling) => self.book.swap(id, &sibling),
            None => self.book.moved(id, given, now),
        }
    }

    /// Why a node cannot keep what was sold on it: it was made smaller since.
    fn too_small_now(&self, node: &str) -> Option<String> {
        if !self.shares_add_up {
            return None;
        }
        let (sold, has) = self.book.sold_on(node)?;
        (sold > has * (1.0 + 2.0 * TOLERANCE)).then(|| {
            format!(
                "{node} has {} processors to share now, {} were sold; release the job (qrls) when it has them again, or delete it",
                processors(has),
                processors(sold)
            )
        })
    }

    /// qalter: what was sold stays.
    pub(super) fn modify(&self, job: &Value) -> Value {
        let keys: Vec<&str> = list(job, "keys").iter().filter_map(Value::as_str).collect();
        let sold = text(job, "sold").is_some();
        // The periodic hook tells the owner of a held job so.
        if text(job, "by") == Some("root") && keys.iter().all(|key| *key == "libra_info") {
            return accept();
        }
        let fixed = |key: &&&str| {
            TERMS.contains(key) || key.starts_with("libra_") || (sold && SOLD_WITH_IT.contains(key))
        };
        match keys.iter().find(fixed) {
            None => accept(),
            Some(key) if sold => refuse(format!(
                "libra: {key} belongs to what was sold to this job and cannot be altered; delete the job and submit it anew"
            )),
            Some(key) => refuse(format!(
                "libra: {key} is given when a job is submitted; delete the job and submit it anew"
            )),
        }
    }

    /// qmove: a job's share is on this server.
    pub(super) fn relocate(&self, job: &Value) -> Value {
        let away = text(job, "destination").is_some_and(|to| to.contains('@'));
        if away && text(job, "sold").is_some() {
            return refuse(
                "libra: its share was sold on this server, it cannot move to another; delete it and submit it there",
            );
        }
        accept()
    }

    /// A node goes down, comes back, is taken offline.
    pub(super) fn change_node(&mut self, event: &Value) -> Result<Value, BadEvent> {
        let node = need(event, "node")?;
        let up = event["up"].as_bool().unwrap_or(false);
        // One that is not Libra's is not in the book.
        let _ = self.book.set_available(node, up);
        Ok(accept())
    }

    /// Jobs that PBS does not have any more.
    pub(super) fn gone(&mut self, event: &Value, now: f64) -> Value {
        for id in list(event, "jobs").iter().filter_map(Value::as_str) {
            // One that has left the book meanwhile is fine as well.
            if self.book.cancel(id, now).is_ok() {
                self.counts.end(Outcome::Cancelled);
            }
        }
        accept()
    }

    /// Where the book has a job.
    fn planned(&self, id: &str) -> Result<Vec<(String, u32)>, BookError> {
        let places = self.book.places(id)?;
        Ok(places
            .into_iter()
            .map(|place| (place.node.to_string(), place.chunks))
            .collect())
    }

    /// Puts a job back into the book that PBS has and the book has not.
    pub(super) fn take_back(
        &mut self,
        id: &str,
        subjob: usize,
        sold: &Sold,
        phase: Phase,
    ) -> Result<(), BadEvent> {
        let record = record(id, subjob, sold, phase, self.shares_add_up);
        self.book.restore(&record).map_err(internal)
    }
}

pub(super) fn read(line: &str) -> Result<Sold, BadEvent> {
    Sold::parse(line).map_err(|error| BadEvent(errors::not_sold(&error)))
}

fn names(places: &[(String, u32)]) -> String {
    let names: Vec<&str> = places.iter().map(|(name, _)| name.as_str()).collect();
    in_one_line(&names.join(" and "))
}

/// PBS counts the chunks that it sees; those of a packed job are one to a decision.
pub(super) fn in_judged_chunks(sold: &Sold, places: &[(String, u32)]) -> Vec<(String, u32)> {
    let seen: u32 = places.iter().map(|(_, chunks)| chunks).sum();
    match (seen == sold.request.shape.chunks, places) {
        (false, [(only, _)]) => vec![(only.clone(), sold.request.shape.chunks)],
        _ => places.to_vec(),
    }
}

/// A job's record from the line of what was sold to it.
pub(super) fn record(
    id: &str,
    subjob: usize,
    sold: &Sold,
    phase: Phase,
    shares_add_up: bool,
) -> JobRecord {
    JobRecord {
        id: Some(id.to_string()),
        // Subjobs are known by their ids; a waiting one and a running one may not say the same of their places.
        token: if sold.count > 1 { 0 } else { sold.token },
        request: sold.request,
        price: sold.price,
        submitted: sold.submitted,
        phase,
        places: sold
            .plan(u32::try_from(subjob).unwrap_or(0))
            .into_iter()
            .map(|place| AllocationRecord {
                node: place.node,
                chunks: place.chunks,
                share: place.share,
                sold: if shares_add_up { place.share } else { 0.0 },
                cput: 0.0,
                delay: 0.0,
            })
            .collect(),
    }
}
