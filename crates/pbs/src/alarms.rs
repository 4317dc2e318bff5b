//! What a planned job's start time is while it runs, for the sake of pbs_server's alarms.
//!
//! Of every start time that a waiting job was ever given pbs_server keeps an alarm, of those that were put forward since as well. One that goes off while
//! the job is ending puts it back into its queue, and it runs a second time, or pbs_server ends (`job_wait_over` and `svr_evaljobstate` of OpenPBS 23.06, which
//! leave only running jobs be). No alarm does anything to a job whose start time is yet to come. So one that has begun is given one behind its
//! deadline as soon as it runs, by a `qalter` that the `runjob` hook leaves behind. Taken back into its queue it is told to begin at once, by the
//! `jobobit` hook or the periodic one.

use super::{number, text};
use libra_core::commitment::Commitment;
use serde_json::{Value, json};

/// What one waited for that has begun.
pub(super) const BEFORE: &str = "it was planned";

/// Seconds behind its deadline that its start time lies while it runs.
const BEHIND_DEADLINE: f64 = 86_400.0;

/// PBS's substate of a job whose host has said that it runs (job.h).
const RUNNING: f64 = 42.0;

/// The start time that a job is given once it runs, Unix time.
pub(super) fn start_when_running(commitment: &Commitment) -> u64 {
    (commitment.submitted + commitment.request.terms.deadline + BEHIND_DEADLINE).ceil() as u64
}

/// Returns true if a job's record or event has that start time; its line may have been rounded since.
pub(super) fn starts_when_running(job: &Value, commitment: &Commitment) -> bool {
    let wanted = start_when_running(commitment) as f64;
    number(job, "start").is_ok_and(|start| (start - wanted).abs() <= 1.0)
}

/// Returns true if a job was let begin at or before its planned start, by its record.
pub(super) fn was_planned(job: &Value) -> bool {
    let before = text(job, "info").and_then(|info| info.strip_suffix(')')?.strip_suffix(BEFORE));
    before.is_some_and(|info| info.ends_with('('))
}

/// Returns true if it has run since, so that it is in its queue once more if it waits.
pub(super) fn has_run_as_planned(job: &Value) -> bool {
    was_planned(job) && number(job, "runs").is_ok_and(|runs| runs >= 1.0)
}

/// What may not be done to the start of one that has begun: it is behind its deadline while it runs, and only then.
pub(super) fn moves_start_when_running(job: &Value) -> Option<&'static str> {
    let commitment = Commitment::parse(text(job, "commitment")?).ok()?;
    number(job, "start").ok()?;
    let runs = text(job, "state") == Some("R");
    if starts_when_running(job, &commitment) {
        let is_started = runs && number(job, "substate").is_ok_and(|state| state == RUNNING);
        return (!is_started).then_some("it does not run yet");
    }
    let before = json!({"start": job["start_before"]});
    (runs && starts_when_running(&before, &commitment))
        .then_some("it runs, and its start time keeps PBS's alarms off")
}
