//! What a planned job's start time is while it runs, for the sake of pbs_server's alarms, and that of one that stands still for others, which is its mark.
//!
//! Of every start time that a waiting job was ever given pbs_server keeps an alarm, of those that were put forward since as well. One that goes off while
//! the job is ending puts it back into its queue, and it runs a second time, or pbs_server ends (`job_wait_over` and `svr_evaljobstate` of OpenPBS 23.06, which
//! leave only running jobs be). No alarm does anything to a job whose start time is yet to come. So one that has begun is given one behind its
//! deadline as soon as it runs, by a `qalter` that the `runjob` hook leaves behind. Taken back into its queue it is told to begin at once, by the
//! `jobobit` hook or the periodic one, and says that it was.
//!
//! Of a running job PBS lets nothing else be altered that it keeps and nobody else writes. So the start time of one that is to stand still for others
//! ([`super::suspended`]) says when it goes on at the latest: a day behind the other one, and as far behind that as it goes on after its submission. When it has gone on it is the
//! other one, whether the job was planned or not.

use super::{number, text};
use libra_batch::server::suspended::GoingOn;
use libra_core::commitment::Commitment;
use serde_json::{Value, json};

/// What one waited for that has begun.
pub(super) const BEFORE: &str = "it was planned";

/// What one says of itself that was not planned and is in its queue once more.
pub(super) const BACK: &str = "it was taken back into its queue";

/// Seconds behind its deadline that its start time lies while it runs.
const BEHIND_DEADLINE: f64 = 86_400.0;

/// PBS's substates of a job whose host has said that it runs, that was suspended, and that its scheduler is to resume (job.h).
const RUNNING: f64 = 42.0;
const SUSPENDED: [f64; 2] = [43.0, 45.0];

/// The start time that a job is given once it runs, or has gone on, Unix time.
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
    says(job, BEFORE)
}

/// Whether what it says of itself ends so.
fn says(job: &Value, what: &str) -> bool {
    let before = text(job, "info").and_then(|info| info.strip_suffix(')')?.strip_suffix(what));
    before.is_some_and(|info| info.ends_with('('))
}

/// What it says of itself when it is taken back into its queue; None for what it says already.
pub(super) fn info_when_back(job: &Value) -> Option<String> {
    let known = was_planned(job) || says(job, BACK);
    let info = text(job, "info").filter(|_| !known)?;
    Some(format!("{info} ({BACK})"))
}

/// Returns true if a job's start time is one that it can only have been given while it ran.
pub(super) fn starts_as_running(job: &Value, commitment: &Commitment) -> bool {
    starts_when_running(job, commitment) || going_on(job, commitment).is_some()
}

/// Returns true if it has run since it was let begin, or stood still, so that it is in its queue once more if it waits.
pub(super) fn has_run(job: &Value, commitment: &Commitment) -> bool {
    let ours = was_planned(job) || says(job, BACK) || starts_as_running(job, commitment);
    ours && number(job, "runs").is_ok_and(|runs| runs >= 1.0)
}

/// Returns true if PBS has suspended it.
pub(super) fn is_suspended(job: &Value) -> bool {
    let substate = number(job, "substate").unwrap_or(0.0);
    text(job, "state") == Some("S") || SUSPENDED.contains(&substate)
}

/// The first start time that is a mark, and how many of them there are: as many behind them say that the job will be late.
fn marks(commitment: &Commitment) -> (f64, f64) {
    let deadline = commitment.request.terms.deadline.ceil();
    (
        start_when_running(commitment) as f64 + BEHIND_DEADLINE,
        deadline + 1.0,
    )
}

/// The start time of a job that is to stand still for others, Unix time. Whole seconds: never later than the mark says.
pub(super) fn start_when_suspended(commitment: &Commitment, mark: GoingOn) -> u64 {
    let (first, count) = marks(commitment);
    let after = (mark.by - commitment.submitted)
        .floor()
        .clamp(0.0, count - 1.0);
    (first + after + if mark.late { count } else { 0.0 }) as u64
}

/// Its mark, by its record or event; None if there is none.
pub(super) fn going_on(job: &Value, commitment: &Commitment) -> Option<GoingOn> {
    let (first, count) = marks(commitment);
    let after = number(job, "start").ok()? - first;
    (0.0..2.0 * count).contains(&after).then(|| GoingOn {
        by: commitment.submitted + after % count,
        late: after >= count,
    })
}

/// Returns true if an event is of a job that has gone on, and has no mark from now on.
pub(super) fn loses_mark(job: &Value) -> bool {
    let line = text(job, "commitment").and_then(|line| Commitment::parse(line).ok());
    line.is_some_and(|commitment| starts_when_running(job, &commitment))
}

/// What may not be done to the start of one that runs: it is behind its deadline only then, and stays so. `by_root`: it is altered by root, as Libra does.
pub(super) fn moves_start_when_running(job: &Value, by_root: bool) -> Option<&'static str> {
    let commitment = Commitment::parse(text(job, "commitment")?).ok()?;
    number(job, "start").ok()?;
    let runs = text(job, "state") == Some("R");
    if starts_as_running(job, &commitment) {
        let substate = number(job, "substate").unwrap_or(0.0);
        let is_started = runs && (substate == RUNNING || SUSPENDED.contains(&substate));
        if !is_started {
            return Some("it does not run yet");
        }
        let is_mark = going_on(job, &commitment).is_some();
        return (is_mark && !by_root)
            .then_some("such a start says that it stands still for others; give an earlier one");
    }
    let before = json!({"start": job["start_before"]});
    (runs && starts_as_running(&before, &commitment))
        .then_some("it runs, and its start time keeps PBS's alarms off")
}
