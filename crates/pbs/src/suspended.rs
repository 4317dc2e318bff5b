//! Dedicated jobs that stand still for others with earlier deadlines (see [`libra_batch::server::suspended`]), by PBS's own suspension (`qsig -s suspend`): all
//! processes of a job on all its hosts, which the hooks of the hosts see to; its walltime stands still as well.
//!
//! The mark is the job's start time ([`super::alarms`]). PBS has no polls: an answer names jobs that the hook is to show (`look`), by whose
//! records the next step is taken (the event `jobs`), and what PBS is told (`orders`) the hook leaves behind, as the server answers nobody before. What is left behind asks
//! for something that is refused when it is done, which is an event again; so does the periodic hook, and for those that are due.
//!
//! Invariants:
//! - A suspended job keeps what PBS counts of it, its memory and its shares: the server's `restrict_res_to_release_on_suspend` names neither, or nobody is
//!   suspended. So who takes its processors has none of PBS's shares there, and nothing keeps PBS from resuming it.
//! - What a hook saw of a job is newer than records that were taken before.

use super::alarms::{start_when_gone_on, start_when_suspended};
use super::marks::{Seen, may_have_stood_still, run_state, seen};
use super::server::{Server, accept};
use super::{list, number, text};
use libra_batch::server::suspended::{OnRecord, Order, RunState};
use libra_core::book::{JobRecord, Suspension};
use libra_core::commitment::NodeCommitment;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Seconds: a shell that a hook leaves behind, and PBS's way to the hosts and back.
const ANSWERS_WITHIN: f64 = 10.0;

/// Whoever goes on within so many seconds is waited for by what suspends it, others by the periodic hook.
const SOON: f64 = 60.0;

impl Server {
    /// Jobs that the hook is to show, since something is to become of them.
    pub(super) fn jobs_to_show(&mut self, event: &Value, now: f64) -> Vec<String> {
        let book = &mut self.admission.book;
        if self.seen.is_empty() && book.suspended().next().is_none() {
            return Vec::new();
        }
        book.let_go_on(now);
        let poked = text(&event["job"], "id").filter(|_| event["event"] == "modifyjob");
        let book = &self.admission.book;
        let is_due = |id: &str| {
            let seen = self.seen.get(id);
            let stands_still = seen.is_some_and(|seen| seen.stands_still);
            let mark = seen.and_then(|seen| seen.mark);
            (self.admission).is_to_be_followed(id, mark, stands_still, now)
        };
        let mut ids: Vec<String> = (book.suspended())
            .chain(self.seen.keys().map(String::as_str))
            .filter(|id| Some(*id) == poked || is_due(id))
            .map(str::to_string)
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Jobs as they are now: what PBS is told of them.
    pub(super) fn look_at(&mut self, event: &Value, now: f64) -> Value {
        let jobs = list(event, "jobs");
        for job in jobs {
            let (Some(id), Some((seen, _))) = (text(job, "id"), seen(job, now)) else {
                continue;
            };
            let book = &mut self.admission.book;
            let state = run_state(job);
            if state.is_some_and(|state| state != RunState::Waits) {
                // It may have left the book meanwhile.
                let _ = book.note_stands_still(id, seen.stands_still, now);
            }
            // One that is over, or about to be, is nobody's to look at any more.
            match state.and(seen.mark) {
                Some(_) => drop(self.seen.insert(id.to_string(), seen)),
                None => drop(self.seen.remove(id)),
            }
        }
        for id in list(event, "gone").iter().filter_map(Value::as_str) {
            self.seen.remove(id);
        }
        self.admission.book.let_go_on(now);
        let (mut orders, mut log) = (Vec::new(), Vec::new());
        for job in jobs {
            self.follow_record(job, now, &mut orders, &mut log);
        }
        let mut answer = accept();
        answer["orders"] = orders.into();
        answer["log"] = log.into();
        answer
    }

    /// What is to become of one.
    fn follow_record(
        &mut self,
        job: &Value,
        now: f64,
        orders: &mut Vec<Value>,
        log: &mut Vec<Value>,
    ) {
        let (Some(id), Some((seen, commitment)), Some(state)) =
            (text(job, "id"), seen(job, now), run_state(job))
        else {
            return;
        };
        let record = OnRecord {
            id,
            state,
            mark: seen.mark,
            commitment: Some(&commitment),
            answers_within: ANSWERS_WITHIN,
            may_be_told: true,
        };
        let followed = self.admission.follow_suspension(&record, now);
        log.extend(followed.log.into_iter().map(Value::from));
        for order in followed.orders {
            orders.push(match order {
                // The hooks that see it taken back into its queue let it begin.
                Order::Mark { .. } if state == RunState::Waits => continue,
                Order::Mark { mark, text } => {
                    let start = match mark {
                        Some(mark) => start_when_suspended(&commitment, mark),
                        None => start_when_gone_on(&commitment),
                    };
                    json!({"order": "mark", "job": id, "start": start, "comment": text.map(|text| format!("libra: {text}"))})
                }
                Order::Suspend => {
                    let due = seen.mark.map(|mark| mark.by - now);
                    let due = due.filter(|due| *due <= SOON).map(|due| due.max(0.0).ceil());
                    json!({"order": "suspend", "job": id, "due": due})
                }
                Order::Resume => json!({"order": "resume", "job": id}),
            });
        }
    }

    /// Records that were taken then: who has a mark in them. What hooks have seen since counts more, and is written into the records.
    pub(super) fn note_marks(&mut self, jobs: &[Value], records: &mut [JobRecord], taken: f64) {
        // Most have no start time, and their lines need not be read for it.
        let jobs: Vec<&Value> = (jobs.iter())
            .filter(|job| number(job, "start").is_ok())
            .collect();
        let mut found: HashMap<String, Seen> = (jobs.iter())
            .filter_map(|job| Some((text(job, "id")?.to_string(), seen(job, taken)?.0)))
            .filter(|(_, seen)| seen.mark.is_some())
            .collect();
        for (id, seen) in self.seen.drain().filter(|(_, seen)| seen.at >= taken) {
            found.insert(id, seen);
        }
        // Of those that have stood still once the book itself knows better how long they ran.
        let stood_still: HashSet<&str> = (jobs.iter())
            .filter(|job| may_have_stood_still(job))
            .filter_map(|job| text(job, "id"))
            .filter(|id| self.admission.book.contains(id))
            .collect();
        for record in records {
            if record
                .id
                .as_deref()
                .is_some_and(|id| stood_still.contains(id))
            {
                record.places.iter_mut().for_each(|place| place.cput = 0.0);
            }
            let seen = record.id.as_ref().and_then(|id| found.get(id));
            if let (Some(seen), Some(id)) = (seen, record.id.as_deref()) {
                let by = seen.mark.map(|mark| mark.by);
                // The book's own time is exact.
                let by = self.admission.book.goes_on_by(id).or(by);
                record.suspended = by.map(|by| Suspension::new(by, seen.stands_still));
            }
        }
        self.seen = found;
        let (book, seen) = (&self.admission.book, &self.seen);
        let known: HashSet<String> = (book.suspended().map(str::to_string))
            .chain(seen.keys().cloned())
            .collect();
        self.admission.keep_told(|id| known.contains(id));
    }

    /// Whether PBS counts the shares of a job at these places: not where others stand still, whose shares it counts.
    pub(super) fn counts_shares(&self, places: &[NodeCommitment]) -> bool {
        let book = &self.admission.book;
        self.shares_add_up && !(places.iter()).any(|place| book.has_suspended(&place.node))
    }
}
