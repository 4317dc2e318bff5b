//! Jobs that wait longer than their commitments allow: their shares go back, and are asked for anew.
//!
//! An accepted job starts at once, unless somebody holds it (qhold, `qalter -a`), or PBS does not start it (a stopped queue, a limit of
//! running jobs). Meanwhile its share would lie idle.
//!
//! - A held job gives its share back, and what was set aside of its account's money. When it is released and PBS is about to run it,
//!   admission is asked anew: by the time that is left until its deadline, at today's price.
//!   One that cannot be accepted any more, for its budget or its deadline, is held.
//! - One that PBS keeps waiting keeps its share until its deadline. From then on it holds nothing, and runs when there is room.
//!
//! That a job was held is read from PBS's own record, so that it is known after a restart as well: a job becomes eligible to run (its `etime`)
//! when it is submitted, and when it is released (but see [`Server::note_held`]).

use super::alarms::{has_run, starts_as_running};
use super::front_end::Front;
use super::problem::{NotTaken, Problem};
use super::server::{Server, accept_with, internal, refuse};
use super::subjobs::{ids, ids_among, is_subjob};
use super::{BadEvent, list, number, text};
use libra_batch::verdict::{Refused, Verdict};
use libra_batch::words;
use libra_core::book::{BookError, Phase};
use libra_core::commitment::{Commitment, NodeCommitment};
use libra_core::decision::TOLERANCE;
use libra_core::decision::refusal::Category;
use libra_units::credits;
use serde_json::{Map, Value, json};

/// A job that became eligible to run so many seconds after its commitment was held in between. A reservation without an id
/// lasts as long by default.
const AT_ONCE: f64 = 30.0;

/// A job that is to start no later than this after its commitment, in seconds, is not held: it pauses for [`super::deferred::PAUSE`], and for as
/// long as the server took to write that down.
const AT_MOST_PAUSED: f64 = AT_ONCE;

/// In the place of the commitment: there is none. The hooks take it for no line.
pub(super) const NOTHING: &str = "-";

/// What a waiting job has of what was committed to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// All of it.
    Stands,
    /// Nothing: it is held or was.
    Held,
    /// Nothing yet: it may not start, see [`super::deferred`].
    Deferred,
    /// Its place from its planned start on, see [`super::planned`].
    Planned,
    /// Nothing: its deadline has passed.
    Lapsed,
}

/// What a job's record of `at` says of its claim.
pub(super) fn claim(job: &Value, commitment: &Commitment, at: f64) -> Claim {
    let state = text(job, "state").unwrap_or_default();
    if matches!(state, "R" | "E" | "S" | "U") {
        return Claim::Stands;
    }
    if commitment.deferred {
        let is_kept = commitment.starts_by.is_some() && !is_held(job);
        return if is_kept {
            Claim::Planned
        } else {
            Claim::Deferred
        };
    }
    // One that was accepted just now for a deferred promise waits a moment for PBS's scheduler.
    let resumes = |start| start <= commitment.submitted + AT_MOST_PAUSED;
    // So does one that has run and was taken back into its queue, behind its deadline first; its `etime` is new then.
    let again = has_run(job, commitment);
    let begins = |start| resumes(start) || again && start <= at + AT_MOST_PAUSED;
    let starts =
        number(job, "start").is_ok_and(begins) || again && starts_as_running(job, commitment);
    let later = state == "W" && !starts;
    let held = is_held(job) || later;
    let late = !again
        && number(job, "eligible").is_ok_and(|eligible| eligible > commitment.submitted + AT_ONCE);
    if held || late {
        Claim::Held
    } else if at >= commitment.submitted + commitment.request.terms.deadline {
        Claim::Lapsed
    } else {
        Claim::Stands
    }
}

fn is_held(job: &Value) -> bool {
    text(job, "state") == Some("H") || text(job, "held").is_some()
}

/// Returns true if its money is to go back as well. Not that of an array of which some job has begun: it is paid for by one hold.
pub(super) fn is_unpaid(job: &Value, commitment: &Commitment, at: f64) -> bool {
    if commitment.deferred && commitment.begins_by().is_some_and(|by| at > by) {
        return true;
    }
    let begun = match text(job, "remaining") {
        Some(indices) if commitment.count > 1 => libra_units::indices::parse(indices)
            .map_or(true, |left| left.len() < commitment.count as usize),
        _ => text(job, "state") == Some("B"),
    };
    !begun && claim(job, commitment, at) == Claim::Held
}

impl Server {
    /// Jobs that were found held: what they had is free.
    pub(super) fn held(&mut self, event: &Value, now: f64) -> Value {
        let log = self.release(list(event, "jobs"), now, now);
        json!({"verdict": "accept", "log": log})
    }

    /// Takes back what waiting jobs do not hold any more, by their records of `taken`. Returns lines for the log.
    pub(super) fn release(&mut self, jobs: &[Value], taken: f64, now: f64) -> Vec<String> {
        let mut log = Vec::new();
        for job in jobs {
            let (Some(id), Some(line)) = (text(job, "id"), text(job, "commitment")) else {
                continue;
            };
            let Ok(commitment) = Commitment::parse(line) else {
                continue;
            };
            let claim = claim(job, &commitment, taken);
            let loses_place = claim == Claim::Deferred && commitment.starts_by.is_some();
            if !(loses_place || matches!(claim, Claim::Held | Claim::Lapsed)) {
                continue;
            }
            let ids = self::ids(id, &commitment, text(job, "array")).unwrap_or_default();
            let mut released = 0;
            for id in ids {
                if self.admission.book.release_waiting(&id, taken, now) {
                    released += 1;
                    if claim != Claim::Lapsed {
                        self.given_back.insert(id, now);
                    }
                }
            }
            if released == 0 {
                continue;
            }
            if is_unpaid(job, &commitment, taken) {
                self.admission.gate.never_began(&commitment, now);
            }
            log.push(match claim {
                Claim::Held => format!(
                    "job {id} is held: its share is free, and is asked for anew when it is released"
                ),
                Claim::Deferred => format!("job {id} is held: its planned place is free"),
                _ => lapsed(id),
            });
        }
        log
    }

    /// Notes which jobs are held and hold nothing: what they had they have given back, to the server that was there before as well. When they are
    /// released PBS's own record may not show it: one that was held while it ran, and came back into its queue since, keeps its first `etime`.
    pub(super) fn note_held(&mut self, jobs: &[Value], taken: f64) {
        for job in jobs {
            let (Some(id), Some(Ok(commitment))) = (
                text(job, "id"),
                text(job, "commitment").map(Commitment::parse),
            ) else {
                continue;
            };
            if claim(job, &commitment, taken) != Claim::Held {
                continue;
            }
            // Those subjobs that have begun are jobs of their own.
            for id in ids_among(id, text(job, "remaining")).unwrap_or_default() {
                if !self.admission.book.contains(&id) {
                    self.given_back.entry(id).or_insert(taken);
                }
            }
        }
    }

    /// Takes back what jobs hold that wait past their deadlines.
    pub(super) fn release_lapsed(&mut self, now: f64) {
        self.admission.book.advance(now);
        for id in self.admission.book.lapsed(now) {
            if self.admission.book.release_waiting(&id, f64::INFINITY, now) {
                log::info!("{}", lapsed(&id));
            }
        }
    }

    /// What a job that is not in the book has of what was committed to it.
    pub(super) fn claim_of(
        &self,
        id: &str,
        job: &Value,
        commitment: &Commitment,
        now: f64,
    ) -> Claim {
        match self.given_back.contains_key(id) {
            true => Claim::Held,
            false => claim(job, commitment, now),
        }
    }

    /// A job past its deadline that nothing is kept for is about to run: is there room? Then it is in the book again.
    pub(super) fn take_back_late(
        &mut self,
        id: &str,
        subjob: usize,
        commitment: &Commitment,
        now: f64,
    ) -> Result<Option<Value>, BadEvent> {
        self.take_back(id, subjob, commitment, Phase::Bound)?;
        match self.overfull(id).map_err(internal)? {
            None => Ok(None),
            Some(node) => {
                self.admission.book.cancel(id, now).map_err(internal)?;
                Ok(Some(not_run(
                    id,
                    format!(
                        "its deadline passed while it waited, and its share of {node} is promised to others; \
                         it runs when there is room, or delete it and submit it anew"
                    ),
                )))
            }
        }
    }

    /// A job that was held is about to run at these places: judged as if it was submitted now.
    pub(super) fn ask_anew(
        &mut self,
        id: &str,
        job: &Value,
        commitment: &Commitment,
        given: &[(String, u32)],
        now: f64,
    ) -> Result<Value, BadEvent> {
        // An array is paid for by one hold; where that is still there it pays for this one too.
        let pays = commitment.count > 1 && self.is_paid(commitment);
        let payer = match pays {
            true => Ok(None),
            false => {
                let owner = text(job, "owner").unwrap_or_default();
                self.admission.payer_anew(commitment, owner, now)
            }
        };
        let paid = payer.as_ref().is_ok_and(Option::is_some);
        let planned;
        let given = match given {
            [] => {
                planned = (commitment.plan(0).into_iter())
                    .map(|place| (place.node, place.chunks))
                    .collect::<Vec<_>>();
                &planned
            }
            given => given,
        };
        let nodes: Vec<&str> = given.iter().map(|(node, _)| node.as_str()).collect();
        let mut committed = match self.admission.admit_anew(commitment, &nodes, payer, now) {
            Ok(committed) => committed,
            Err(not @ Verdict::Refused(Refused::HeldTooLong)) => {
                let why = words::headed_reason::<_, Problem>(&not);
                let text = format!("{why}; delete it and submit it anew");
                return Ok(hopeless(not_run(id, text)));
            }
            Err(not) => {
                let answer = refuse_anew(id, &not);
                return Ok(match not.category().is_some_and(Category::is_for_good) {
                    true => hopeless(answer),
                    false => answer,
                });
            }
        };
        let anew = &mut committed.commitment;
        self.admission
            .book
            .bind(anew.token, id, now)
            .map_err(internal)?;
        let mut chosen: Vec<(String, u32)> = (anew.places.iter())
            .map(|place| (place.node.clone(), place.chunks))
            .collect();
        let mut wanted = given.to_vec();
        chosen.sort();
        wanted.sort();
        if chosen != wanted {
            self.admission
                .book
                .moved(id, given, now)
                .map_err(internal)?;
            let share = anew.share_on("");
            anew.places = (given.iter())
                .map(|(node, chunks)| NodeCommitment {
                    node: node.clone(),
                    chunks: *chunks,
                    share,
                })
                .collect();
        }
        if let Some(node) = self.overfull(id).map_err(internal)? {
            self.admission.book.cancel(id, now).map_err(internal)?;
            if paid {
                self.admission.gate.never_began(anew, now);
            }
            return Ok(refuse_anew(id, &Problem::NoRoom(node).into()));
        }
        self.admission.book.started(id, now).map_err(internal)?;
        self.given_back.remove(id);
        self.admission.gate.named(anew, id);
        let mut resources = Map::new();
        let why = match commitment.deferred {
            true => "its promise was deferred",
            false => "asked anew after a hold",
        };
        if !pays || (commitment.deferred && commitment.payer.is_none()) {
            resources.insert("libra_terms".to_string(), anew.line().into());
            resources.insert("libra_price".to_string(), credits(anew.price).into());
        } else if text(job, "commitment") != Some(&commitment.line()) {
            // Its array's, whose deadline counts from a start that is known now.
            resources.insert("libra_terms".to_string(), commitment.line().into());
        }
        let info = committed.text::<Front>();
        let told = format!("{info} ({why})");
        resources.insert("libra_info".to_string(), told.into());
        let mut answer = accept_with(resources);
        answer["log"] = json!([format!("job {id}, {why}, {info}")]);
        Ok(answer)
    }

    /// A node of the job's that has committed more than it has.
    fn overfull(&self, id: &str) -> Result<Option<String>, BookError> {
        let places = self.admission.book.places(id)?;
        let over = |node: &str| -> Result<bool, BookError> {
            if !self.shares_add_up {
                return Ok(false);
            }
            let committed = self.admission.book.committed(node)?;
            let has = self
                .admission
                .book
                .shares_in_time(node)
                .map_or(0.0, |(_, has)| has);
            Ok(committed > has * (1.0 + 2.0 * TOLERANCE))
        };
        for place in places {
            let lacks = self.admission.book.overdrawn(place.node).is_some();
            if lacks || over(place.node)? {
                return Ok(Some(place.node.to_string()));
            }
        }
        Ok(None)
    }

    /// Returns true if something is set aside for it.
    fn is_paid(&mut self, commitment: &Commitment) -> bool {
        if commitment.payer.is_none() {
            return true;
        }
        let held = self.admission.gate.tried(|payments| {
            let key = payments.key(commitment);
            Ok(payments.open_holds()?.iter().any(|hold| hold.key == key))
        });
        held.unwrap_or(false)
    }
}

fn lapsed(id: &str) -> String {
    format!("job {id} waits past its deadline: its share is free, it runs when there is room")
}

/// PBS tries a job that was not let run again at every cycle of its scheduler. It cannot be changed any more, so nothing is offered.
fn refuse_anew(id: &str, not: &NotTaken) -> Value {
    let text = words::headed_reason(not);
    let text = match is_subjob(id) {
        true => text,
        false => format!(
            "{text} (asked anew after a hold, and again while it waits; or delete it and submit it anew)"
        ),
    };
    not_run(id, text)
}

/// It will not be accepted at any later time: held, it is not tried again in every cycle of PBS's scheduler.
fn hopeless(mut answer: Value) -> Value {
    if answer["verdict"] == "refuse" {
        answer["hold"] = true.into();
    }
    answer
}

/// A job that gets no share now waits on. But PBS's scheduler (23.06) tries a subjob that a hook does not let run again and again within one cycle, without an
/// end, and nothing else is started meanwhile: so a subjob runs without a promise, like a job without terms, and costs nothing.
fn not_run(id: &str, text: String) -> Value {
    if !is_subjob(id) {
        return refuse(words::signed(&[text]));
    }
    let info = format!("runs without a promise: {text}");
    let mut answer = json!({"verdict": "accept", "log": [format!("job {id} {info}")]});
    answer["resources"] = json!({"libra_terms": NOTHING, "libra_price": "0", "libra_info": info});
    answer
}
