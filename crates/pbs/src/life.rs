//! An accepted job in PBS: it gets its id, starts, ends; and what may not be done to it.

use super::alarms::{
    has_run, is_suspended, loses_mark, moves_start_when_running, start_when_running, was_planned,
};
use super::release::Claim;
use super::server::{Server, accept, internal, refuse};
use super::subjobs::{ids, is_subjob, subjob_of};
use super::{BadEvent, TERMS, exec_vnode, list, need, number, text};
use libra_core::book::{BookError, JobRecord, Phase};
use libra_core::commitment::Commitment;
use libra_core::decision::TOLERANCE;
use libra_core::decision::consumable::Amounts;
use libra_metrics::Outcome;
use libra_units::{in_one_line, processors};
use libra_wording::errors;
use serde_json::{Value, json};

/// What may not be altered of a job that has a commitment: its terms, and what was asked for.
const COMMITTED_PROPERTIES: [&str; 9] = [
    "select", "place", "ncpus", "mem", "nodes", "walltime", "cput", "nodect", "mpiprocs",
];

impl Server {
    /// The job has its id now; an array one for each subjob.
    pub(super) fn name(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        let Some(line) = text(job, "commitment") else {
            return Ok(accept());
        };
        let id = need(job, "id")?;
        // A subjob was named with its array; PBS makes it a job of its own just before it runs.
        if is_subjob(id) {
            return Ok(accept());
        }
        let commitment = read(line)?;
        if commitment.deferred && commitment.starts_by.is_none() {
            self.admission.gate.named(&commitment, id);
            return Ok(accept());
        }
        // It also comes when a job is moved to another queue: then all of this is known.
        for (subjob, id) in ids(id, &commitment, text(job, "array"))?
            .into_iter()
            .enumerate()
        {
            match commitment.deferred {
                // Whoever begins later uses nothing yet.
                true => self.note_planned(&id, &commitment),
                false => (self.front.limits).promise(&id, job, &commitment.request.shape, now),
            }
            if self.admission.book.contains(&id) {
                continue;
            }
            let token = commitment.token + subjob as u64;
            if self.admission.book.bind(token, &id, now).is_err() {
                // Its reservation expired, or the library was loaded anew in between.
                self.take_back(&id, subjob, &commitment, Phase::Bound)?;
            }
        }
        self.admission.gate.named(&commitment, id);
        Ok(accept())
    }

    /// PBS is about to run the job.
    pub(super) fn run(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        let id = need(job, "id")?;
        let commitment = as_released(read(need(job, "commitment")?)?, job, now);
        if commitment.deferred && !is_subjob(id) {
            return match self.keeps_place(id, &commitment, now)? {
                true => self.begin(id, job, &commitment, now),
                false => self.confirm(id, job, &without_start(&commitment), now),
            };
        }
        let places = exec_vnode::parse(text(job, "exec_vnode").unwrap_or_default());
        let mut given = in_judged_chunks(&commitment, &places);
        self.note_owner(id, job, &commitment.request.shape, now);
        if !self.admission.book.contains(id) {
            let subjob = subjob_of(id, &commitment, text(job, "array"))?;
            match self.claim_of(id, job, &commitment, now) {
                Claim::Stands => self.take_back(id, subjob, &commitment, Phase::Bound)?,
                Claim::Held | Claim::Deferred | Claim::Planned => {
                    return self.ask_anew(id, job, &commitment, &given, now);
                }
                Claim::Lapsed => {
                    if let Some(refused) = self.take_back_late(id, subjob, &commitment, now)? {
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
            if commitment.count == 1 {
                return Ok(refuse(format!(
                    "libra: its share was committed on {}, not on {}; run it there, or delete it and submit it anew",
                    names(&planned),
                    names(&given)
                )));
            }
            self.follow(id, &planned, &given, now).map_err(internal)?;
        }
        if let Some(problem) = given.iter().find_map(|(node, _)| self.too_small_now(node)) {
            if elsewhere {
                // Promised to others, who will start there; this one finds another place.
                self.admission
                    .book
                    .moved(id, &planned, now)
                    .map_err(internal)?;
                return Ok(refuse("libra: that place is promised to another job"));
            }
            if !has_run(job, &commitment) {
                return Ok(
                    json!({"verdict": "refuse", "text": format!("libra: {problem}"), "hold": true}),
                );
            }
            // Others have had its processors since it stood still, or was taken back into its queue.
            let is_taken = |(node, _): &&(String, u32)| {
                let shares = self.admission.book.shares_with_begun(node, id);
                shares.is_some_and(|(committed, has)| committed > has * (1.0 + 2.0 * TOLERANCE))
            };
            if let Some((node, _)) = given.iter().find(is_taken) {
                return Ok(refuse(format!(
                    "libra: it was taken back into its queue, and others have its processors of {node} meanwhile; it begins anew when they have ended"
                )));
            }
        }
        self.admission.book.started(id, now).map_err(internal)?;
        let mut answer = accept();
        if was_planned(job) || has_run(job, &commitment) {
            answer["start_when_running"] = start_when_running(&commitment).into();
        }
        Ok(answer)
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
        let sibling = (self.admission.book.unstarted())
            .filter(|other| *other != id && other.split('[').next() == Some(array))
            .find(|other| {
                let mut places = self.planned(other).unwrap_or_default();
                places.sort();
                places == given && places != planned
            })
            .map(str::to_string);
        match sibling {
            Some(sibling) => self.admission.book.swap(id, &sibling),
            None => self.admission.book.moved(id, given, now),
        }
    }

    /// Why a node cannot keep what is committed on it: it was made smaller since.
    fn too_small_now(&self, node: &str) -> Option<String> {
        if !self.shares_add_up {
            return None;
        }
        let (committed, has) = self.admission.book.shares_in_time(node)?;
        (committed > has * (1.0 + 2.0 * TOLERANCE)).then(|| {
            format!(
                "{node} has {} CPU to share now, but {} are committed; release the job (qrls) when it has them again, or delete it",
                processors(has),
                processors(committed)
            )
        })
    }

    /// qalter: what is committed stays, a planned start too, and a deferred promise is not put off until it cannot be kept.
    pub(super) fn modify(&mut self, job: &Value, now: f64) -> Value {
        let by_root = text(job, "by") == Some("root");
        if let Some(problem) = moves_start_when_running(job, by_root) {
            return refuse(format!("libra: {problem}"));
        }
        if let (Some(id), true) = (text(job, "id"), loses_mark(job)) {
            // What is to stand still has its mark until it has gone on.
            if is_suspended(job) || self.admission.book.stands_still_until(id).is_some() {
                return refuse(
                    "libra: it stands still for others, or is to, and its start time says until when",
                );
            }
            self.seen.remove(id);
        }
        let planned = (self.moves_planned_start(job, now)).filter(|_| !by_root);
        if let Some(problem) = planned.or_else(|| self.put_off(job)) {
            return refuse(format!("libra: {problem}"));
        }
        let keys: Vec<&str> = list(job, "keys").iter().filter_map(Value::as_str).collect();
        let has_commitment = text(job, "commitment").is_some();
        // The periodic hook tells the owner of a held job so. Where the promise was given back since that hook began, its news say why.
        if by_root && has_commitment && keys.iter().all(|key| *key == "libra_info") {
            return accept();
        }
        if by_root && self.takes_place(job, &keys, now) {
            return accept();
        }
        let consumables = text(job, "commitment")
            .and_then(|line| Commitment::parse(line).ok())
            .map(|commitment| commitment.request.shape.consumables);
        let is_used = |key: &str| {
            (consumables.iter().flat_map(Amounts::iter))
                .any(|(what, _)| what.name().eq_ignore_ascii_case(key))
        };
        let fixed = |key: &&&str| {
            TERMS.contains(key)
                || key.starts_with("libra_")
                || (has_commitment && COMMITTED_PROPERTIES.contains(key))
                || is_used(key)
        };
        match keys.iter().find(fixed) {
            None => accept(),
            Some(key) if has_commitment => refuse(format!(
                "libra: {key} belongs to the commitment to this job and cannot be altered; delete the job and submit it anew"
            )),
            Some(key) => refuse(format!(
                "libra: {key} is given when a job is submitted; delete the job and submit it anew"
            )),
        }
    }

    /// qmove: a job's share is on this server.
    pub(super) fn relocate(&self, job: &Value) -> Value {
        let away = text(job, "destination").is_some_and(|to| to.contains('@'));
        if away && text(job, "commitment").is_some() {
            return refuse(
                "libra: its share was committed on this server, it cannot move to another; delete it and submit it there",
            );
        }
        accept()
    }

    /// A node goes down, comes back, is taken offline.
    pub(super) fn change_node(&mut self, event: &Value) -> Result<Value, BadEvent> {
        let node = need(event, "node")?;
        let up = event["up"].as_bool().unwrap_or(false);
        // One that is not Libra's is not in the book.
        let _ = self.admission.book.set_available(node, up);
        Ok(accept())
    }

    /// Jobs that PBS does not have any more.
    pub(super) fn gone(&mut self, event: &Value, now: f64) -> Value {
        for id in list(event, "jobs").iter().filter_map(Value::as_str) {
            // One that has left the book meanwhile is fine as well.
            if self.admission.book.cancel(id, now).is_ok() {
                self.counts.end(Outcome::Cancelled);
            }
        }
        accept()
    }

    /// Where the book has a job.
    fn planned(&self, id: &str) -> Result<Vec<(String, u32)>, BookError> {
        let places = self.admission.book.places(id)?;
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
        commitment: &Commitment,
        phase: Phase,
    ) -> Result<(), BadEvent> {
        let record = record(id, subjob, commitment, phase, self.shares_add_up);
        self.admission.book.restore(&record).map_err(internal)
    }
}

/// What PBS would run: a deferred deadline that counts from its start does so from when PBS found the job eligible to run.
fn as_released(commitment: Commitment, job: &Value, now: f64) -> Commitment {
    let eligible = number(job, "eligible").unwrap_or(now);
    commitment.counted_from(eligible.min(now))
}

pub(super) fn read(line: &str) -> Result<Commitment, BadEvent> {
    Commitment::parse(line).map_err(|error| BadEvent(errors::not_committed(&error)))
}

/// The same promise, deferred: no place is kept for it.
pub(super) fn without_start(commitment: &Commitment) -> Commitment {
    Commitment {
        starts_by: None,
        ..commitment.clone()
    }
}

fn names(places: &[(String, u32)]) -> String {
    let names: Vec<&str> = places.iter().map(|(name, _)| name.as_str()).collect();
    in_one_line(&names.join(" and "))
}

/// PBS counts the chunks that it sees; those of a packed job are one to a decision.
pub(super) fn in_judged_chunks(
    commitment: &Commitment,
    places: &[(String, u32)],
) -> Vec<(String, u32)> {
    let seen: u32 = places.iter().map(|(_, chunks)| chunks).sum();
    match (seen == commitment.request.shape.chunks, places) {
        (false, [(only, _)]) => vec![(only.clone(), commitment.request.shape.chunks)],
        _ => places.to_vec(),
    }
}

/// A job's record from the line of its commitment.
pub(super) fn record(
    id: &str,
    subjob: usize,
    commitment: &Commitment,
    phase: Phase,
    shares_add_up: bool,
) -> JobRecord {
    let part = u32::try_from(subjob).unwrap_or(0);
    let mut record = JobRecord::committed(id, part, commitment, phase);
    // Subjobs are known by their ids; a waiting one and a running one may not say the same of their places.
    if commitment.count > 1 {
        record.token = 0;
    }
    if shares_add_up {
        let places = record.places.iter_mut();
        places.for_each(|place| place.committed_share = place.share);
    }
    record
}
