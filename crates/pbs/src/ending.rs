//! A job ends: when, how, and was its deadline met?
//!
//! Invariants:
//! - An end is what a host's end event says (its measurement is marked as the last one), else when PBS itself tells of it.
//!   A measurement that was taken while the job ran is never taken for its end, however late it was.
//! - A job whose record has no exit status was not seen to end by anybody: it was taken away, and has met nothing.

use super::alarms::{info_when_back, starts_as_running};
use super::life::read;
use super::records::{Measured, measured};
use super::server::{Server, accept, accept_and_log};
use super::subjobs::subjob_of;
use super::{BadEvent, exec_vnode, need, number, text};
use libra_accounts::settlement::{End, HowEnded};
use libra_batch::words;
use libra_core::commitment::Commitment;
use libra_metrics::Outcome;
use libra_units::{credits, duration};
use serde_json::{Value, json};

/// PBS's substates of a job that is being taken back into its queue (job.h: RERUN to RERUN3).
const RERUN: std::ops::RangeInclusive<i64> = 60..=63;

/// Exit status of jobs that PBS itself has ended: on qdel (SIGTERM, SIGKILL; the second pair where a shell tells of its child),
/// and after their walltime or another limit.
const CUT_SHORT: [i64; 10] = [271, 265, 143, 137, -29, -28, -27, -26, -25, -24];

/// What PBS's times are exact to, in seconds: start and walltime of a job are whole ones.
const GRAIN: f64 = 2.0;

impl Server {
    /// The job has ended, or goes back into its queue.
    pub(super) fn end(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        let Some(line) = text(job, "commitment") else {
            return Ok(accept());
        };
        let id = need(job, "id")?;
        // The parent of an array holds nothing itself.
        if id.contains("[]") {
            return Ok(accept());
        }
        let substate = job.get("substate").and_then(Value::as_i64).unwrap_or(0);
        if RERUN.contains(&substate) || text(job, "state") == Some("Q") {
            let _ = self.admission.book.requeued(id, now);
            return Ok(again(id, job, line));
        }
        let commitment = read(line)?;
        self.seen.remove(id);
        let known = self.admission.book.ended(id, now).is_ok();
        if !known && commitment.payer.is_none() {
            return Ok(accept());
        }
        let measured = text(job, "progress").map(measured).unwrap_or_default();
        let terms = &commitment.request.terms;
        let took = ended_at(job, &commitment, &measured, now) - commitment.submitted;
        let exit = job.get("exit").and_then(Value::as_i64);
        let cut_short = exit.is_none_or(|exit| CUT_SHORT.contains(&exit));
        let failed = exit.is_some_and(|exit| exit != 0);
        let outcome = Outcome::of(took, terms.deadline, cut_short)
            .but_failed(failed)
            .if_promised(terms.promises_end());
        (self.counts).end(outcome.if_conditional(commitment.conditional));
        let used = measured.iter().fold(0.0f64, |most, one| most.max(one.cput));
        let verdict = match exit {
            // Of qdel -Wforce, and of whatever else takes a job away without asking its host.
            None => "was deleted by force (nobody saw it end)".to_string(),
            // PBS ends jobs by these, on qdel and when their walltime is over.
            Some(271 | 265) => "was deleted".to_string(),
            Some(143 | 137) => "was ended by a signal".to_string(),
            Some(-29) => "was ended after its walltime".to_string(),
            Some(-28..=-24) => "was ended by a limit of PBS".to_string(),
            Some(..0) => "was not run to its end by its host".to_string(),
            Some(0) => words::met_or_missed(&commitment, took),
            Some(exit) => format!("{} (exit status {exit})", words::failed(&commitment, took)),
        };
        let subjob = subjob_of(id, &commitment, text(job, "array"))?;
        // PBS does not count what a job was suspended, and its host not what went before its first process: whatever the site did with it.
        let seen = seen_to_end(job, &measured).and_then(|seen| seen.ran);
        let ran = number(job, "ran")
            .ok()
            .map(|ran| seen.map_or(ran, |seen| seen.min(ran)));
        // Its owner decides how long his files take.
        let staged = job.get("staged").and_then(Value::as_bool) == Some(true);
        let end = End {
            how: how_ended(exit, text(job, "exec_vnode").is_some()),
            took,
            used: (!measured.is_empty()).then_some(used),
            waited: (ran.filter(|_| !staged)).map(|ran| (took - ran).max(0.0)),
            restarted: false,
        };
        let part = u32::try_from(subjob).unwrap_or(0);
        let settled = self.admission.gate.ended(&commitment, part, &end, now);
        if !known && settled.is_none() {
            return Ok(accept());
        }
        let paid = match settled {
            Some(settled) => format!("; {settled}"),
            None => words::paid_back(&commitment, took),
        };
        // What was measured while it ran is less than what it used.
        let least = match measured.iter().all(|one| one.last) {
            true => "",
            false => "at least ",
        };
        Ok(accept_and_log(format!(
            "job {id} {verdict}: ended after {} of {}, used {least}{} of the estimated {}, price {}{paid}",
            duration::show(took),
            duration::show(terms.expected_end()),
            duration::show(used),
            duration::show(terms.estimate),
            credits(commitment.price),
        )))
    }
}

/// A job goes back into its queue: the start time that it was given while it ran does not keep it there.
fn again(id: &str, job: &Value, line: &str) -> Value {
    let mut answer = accept();
    let known = Commitment::parse(line).ok();
    if known.is_some_and(|known| starts_as_running(job, &known)) {
        answer["again"] = json!({"job": id, "info": info_when_back(job)});
    }
    answer
}

/// What its first host measured, where that has seen its end.
fn seen_to_end<'a>(job: &Value, measured: &'a [Measured]) -> Option<&'a Measured> {
    let places = exec_vnode::parse(text(job, "exec_vnode")?);
    let (first, _) = places.first()?;
    (measured.iter()).find(|one| one.last && exec_vnode::is_on_host(first, &one.host))
}

/// When it ended. Its first host has run the job's script and so saw its end, a moment before PBS tells of it, which collects its files
/// first; where that host does not say, or says what PBS's own record contradicts, it is now.
fn ended_at(job: &Value, commitment: &Commitment, measured: &[Measured], now: f64) -> f64 {
    let seen = seen_to_end(job, measured).map_or(now, |one| one.at);
    // Of an earlier run of this job, or by a clock that goes wrong.
    let started = number(job, "started").unwrap_or(commitment.submitted);
    let ran = number(job, "ran").unwrap_or(0.0);
    match seen >= commitment.submitted.max(started + ran - GRAIN) {
        true => seen.min(now),
        false => now,
    }
}

/// Of PBS's exit status (Exit_status in pbs_job_attributes(7B)); None if there is none.
fn how_ended(exit: Option<i64>, began: bool) -> HowEnded {
    match exit {
        // Walltime; processor time, memory and processors where the site's hosts hold jobs to them.
        Some(-29..=-24) => HowEnded::TimeLimit,
        // Deleted: as PBS says it, and as the shell does that was ended with its job.
        None | Some(271 | 265 | 143 | 137) if began => HowEnded::Cancelled,
        None | Some(271 | 265) => HowEnded::NeverBegan,
        // Its host could not start it, or gave it back.
        Some(..0) => HowEnded::NodeFailure,
        Some(_) => HowEnded::Itself,
    }
}
