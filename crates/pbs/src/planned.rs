//! Dedicated jobs that did not fit when they were submitted, and have a planned start: see [`libra_batch::server`].
//!
//! Such a job waits in PBS as one with a start time (`-a`): its `Execution_Time` is its latest start, so PBS itself tries it when it is due, whoever
//! was down meanwhile. It has no node before and none of PBS's shares, as one whose promise is deferred ([`super::deferred`]). When it may begin sooner,
//! because others have ended, an answer says so (`wake`), and the hook sets its start to a moment from now. Either way PBS's scheduler finds it, and the `runjob` hook asks here.
//! Let begin, it has its nodes and its shares written into it, and runs with the next cycle. When it does not begin it goes back to its start time. While it runs
//! it has a start time behind its deadline, see [`super::alarms`].
//!
//! One that begins by right may find PBS's own shares of its nodes in use by who outlived its time: it is run without shares of its own there, since PBS would
//! wait for them.
//!
//! Its place is in the book and in the job's own record, nowhere else: whoever reads the records after a restart has the plan again. Whatever holds
//! such a job (its user, an administrator, a job that it is made to depend on) takes its place away: its promise is deferred from then on. The
//! book does so when it sees the record, and the periodic hook writes it down.

use super::alarms::BEFORE;
use super::deferred::{Waiting, lost, tell};
use super::life::{record, without_start};
use super::server::{Known, Server, internal, refuse};
use super::{BadEvent, number, text};
use libra_batch::server::NotBegun;
use libra_batch::words;
use libra_core::book::Phase;
use libra_core::commitment::Commitment;
use libra_units::duration;
use serde_json::{Value, json};

/// Seconds after which one is tried again that is due, and has to wait for others.
const AGAIN: f64 = 5.0;

/// The same of one that is overdue and has no other start.
const OVERDUE_AGAIN: f64 = 30.0;

/// Seconds within which PBS tries a job that it was told to try; then it is told once more.
const TRIES_WITHIN: f64 = 10.0;

/// Planned jobs that are looked at each time others have left, those that are due first.
const MOST_LOOKED_AT: usize = 8;

impl Server {
    /// Whether a job that PBS would run has its planned place still. One that was let begin, and PBS could not write that down, has it again.
    pub(super) fn keeps_place(
        &mut self,
        id: &str,
        commitment: &Commitment,
        now: f64,
    ) -> Result<bool, BadEvent> {
        let book = &mut self.admission.book;
        if commitment.starts_by.is_none() || !book.contains(id) {
            return Ok(false);
        }
        if book.starts_by(id).is_none() {
            book.cancel(id, now).map_err(internal)?;
            let planned = record(id, 0, commitment, Phase::Bound, self.shares_add_up);
            book.restore(&planned).map_err(internal)?;
        }
        Ok(true)
    }

    /// PBS would run a planned job that has its place.
    pub(super) fn begin(
        &mut self,
        id: &str,
        job: &Value,
        commitment: &Commitment,
        now: f64,
    ) -> Result<Value, BadEvent> {
        let judged = (self.front).as_waiting(&self.admission.book, job, commitment, now);
        let Waiting {
            specification,
            ever,
        } = match judged {
            Ok(judged) => judged,
            // Another problem than time is one that may go.
            Err(problem) if commitment.begins_by().is_some_and(|by| now < by) => {
                let text = format!("planned: {problem}");
                return Ok(waits(job, commitment, &text, AGAIN, now));
            }
            Err(problem) => {
                let _ = self.admission.book.cancel(id, now);
                self.admission.gate.never_began(commitment, now);
                return Ok(lost(id, "planned", &problem.to_string()));
            }
        };
        let nodes = ever.clone();
        (self.planned).insert(id.to_string(), Known { woken: 0.0, nodes });
        let owner = text(job, "owner").unwrap_or_default();
        let ever = ever.as_deref();
        let begun = (self.admission).begin(
            &self.front,
            id,
            commitment,
            &specification,
            ever,
            owner,
            now,
        );
        Ok(match begun {
            Ok(committed) => {
                self.planned.remove(id);
                return self.confirmed(id, job, &specification.asked, &committed, BEFORE, now);
            }
            Err(NotBegun::Waits) => {
                let latest = commitment.starts_by.unwrap_or(now);
                let text = words::planned(commitment, latest);
                waits(job, commitment, &text, AGAIN, now)
            }
            Err(NotBegun::PlannedAnew(anew)) => {
                let latest = anew.starts_by.unwrap_or(now);
                let text = format!(
                    "its planned start could not be had; {}",
                    words::planned(&anew, latest)
                );
                waits(job, &anew, &text, AGAIN, now)
            }
            Err(NotBegun::Overdue(within)) => {
                let text = format!(
                    "planned: its start is overdue, and it begins as soon as it fits; its deadline can be kept if it begins within {} of its submission",
                    duration::show(within.floor())
                );
                waits(job, commitment, &text, OVERDUE_AGAIN, now)
            }
            Err(NotBegun::GivenBack(verdict)) => {
                lost(id, "planned", &words::headed_reason(&verdict))
            }
        })
    }

    /// A planned job was accepted, which may be on these nodes; it has no id yet.
    pub(super) fn note_nodes(&mut self, commitment: &Commitment, nodes: Option<Vec<u32>>) {
        self.planned_last = Some((commitment.token, nodes));
    }

    /// It has its id now.
    pub(super) fn note_planned(&mut self, id: &str, commitment: &Commitment) {
        if let Some((_, nodes)) = self.planned_last.take_if(|last| last.0 == commitment.token) {
            self.planned
                .insert(id.to_string(), Known { woken: 0.0, nodes });
        }
    }

    /// Planned jobs that fit now, since others have left: PBS is to try them.
    pub(super) fn wake(&mut self, now: f64) -> Vec<String> {
        let book = &self.admission.book;
        (self.planned).retain(|id, _| book.starts_by(id).is_some());
        let fits = |id: &&str| {
            let known = self.planned.get(*id);
            known.is_none_or(|known| known.woken <= now)
                && book.could_begin(id, known.and_then(|known| known.nodes.as_deref()))
        };
        let woken: Vec<String> = (book.planned().into_iter().take(MOST_LOOKED_AT))
            .filter(fits)
            .map(str::to_string)
            .collect();
        for id in &woken {
            self.planned.entry(id.clone()).or_default().woken = now + TRIES_WITHIN;
        }
        woken
    }

    /// What may not be done to the start of a planned job (`qalter -a`).
    pub(super) fn moves_planned_start(&self, job: &Value, now: f64) -> Option<String> {
        number(job, "start").ok()?;
        let commitment = Commitment::parse(text(job, "commitment")?).ok()?;
        let latest = commitment.starts_by?;
        Some(format!(
            "its start is planned: it begins in {} at the latest, and by itself as soon as it fits; to let it begin later hold it (qhold), which gives its place away, or delete it and submit it anew",
            duration::show((latest - now).max(0.0))
        ))
    }

    /// The periodic hook writes down that a planned job has lost its place: its line has no start any more. Returns whether that is what is altered.
    pub(super) fn takes_place(&mut self, job: &Value, keys: &[&str], now: f64) -> bool {
        let known = text(job, "commitment").and_then(|line| Commitment::parse(line).ok());
        let (Some(known), Some(line)) = (known, text(job, "terms")) else {
            return false;
        };
        let ours = keys
            .iter()
            .all(|key| ["libra_terms", "libra_info"].contains(key));
        let deferred = without_start(&known);
        if !ours || known.starts_by.is_none() || deferred.line() != line.trim_matches(['\'', '"']) {
            return false;
        }
        if let Some(id) = text(job, "id") {
            let _ = self.admission.book.cancel(id, now);
            self.has_left = true;
        }
        true
    }
}

/// When PBS is to try a planned job, Unix time; PBS's times are whole seconds.
pub(super) fn start_for_pbs(commitment: &Commitment) -> Option<u64> {
    (commitment.starts_by).map(|latest| latest.ceil() as u64)
}

/// It goes back to its start time; once that is over it is tried again after `again` seconds.
fn waits(job: &Value, commitment: &Commitment, text: &str, again: f64, now: f64) -> Value {
    let mut answer = refuse(format!("libra: {text}"));
    let due = start_for_pbs(commitment).filter(|due| *due as f64 > now);
    answer["start"] = (due.unwrap_or((now + again).ceil() as u64)).into();
    tell(&mut answer, job, commitment, text);
    if answer["resources"].get("libra_terms").is_some() {
        let id = super::text(job, "id").unwrap_or_default();
        answer["log"] = json!([format!("job {id}: {text}")]);
    }
    answer
}
