//! What a planned job's start time is while it runs, for the sake of pbs_server's alarms, and that of one that stands still for others, which is its mark.
//!
//! Of every start time that a waiting job was ever given pbs_server keeps an alarm, of those that were put forward since as well. One that goes off while
//! the job is ending puts it back into its queue, and it runs a second time, or pbs_server ends (`job_wait_over` and `svr_evaljobstate` of OpenPBS 23.06, which
//! leave only running jobs be). No alarm does anything to a job whose start time is yet to come. So one that has begun is given one behind its
//! deadline as soon as it runs, by a `qalter` that the `runjob` hook leaves behind. Taken back into its queue it is told to begin at once, by the
//! `jobobit` hook or the periodic one, and says that it was.
//!
//! Of a running job PBS lets nothing else be altered that it keeps and nobody else writes. So the start time of one that is to stand still for others
//! ([`super::suspended`]) says when it goes on at the latest: a day behind the other one, and as far behind that as it goes on after its submission. When it has gone on it is half a day
//! behind the other one, whether the job was planned or not: how long it has run nobody knows by its start alone.

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

/// The same of one that has gone on, behind that.
const GONE_ON: f64 = BEHIND_DEADLINE / 2.0;

/// PBS's substates of a job whose host has said that it runs, that was suspended, and that its scheduler is to resume (job.h).
const RUNNING: f64 = 42.0;
const SUSPENDED: f64 = 43.0;
const RESUMED: f64 = 45.0;

/// The start time that a job is given once it runs, Unix time.
pub(super) fn start_when_running(commitment: &Commitment) -> u64 {
    (commitment.submitted + commitment.request.terms.deadline + BEHIND_DEADLINE).ceil() as u64
}

/// That of one that has stood still for others, and has gone on.
pub(super) fn start_when_gone_on(commitment: &Commitment) -> u64 {
    start_when_running(commitment) + GONE_ON as u64
}

/// Returns true if a job's record or event has one of these start times; its line may have been rounded since.
fn starts_when_running(job: &Value, commitment: &Commitment) -> bool {
    let wanted = start_when_running(commitment) as f64;
    let is = |wanted: f64| number(job, "start").is_ok_and(|start| (start - wanted).abs() <= 1.0);
    is(wanted) || is(wanted + GONE_ON)
}

/// Returns true if it may have stood still since it was started.
pub(super) fn has_stood_still(job: &Value, commitment: &Commitment) -> bool {
    let after = |start: f64| start - start_when_running(commitment) as f64;
    starts_as_running(job, commitment) && number(job, "start").is_ok_and(|at| after(at) > 2.0)
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

/// Returns true if PBS has suspended it, and will not resume it by itself.
pub(super) fn is_suspended(job: &Value) -> bool {
    let substate = number(job, "substate").unwrap_or(0.0);
    substate == SUSPENDED || text(job, "state") == Some("S") && !is_resumed(job)
}

/// Returns true if PBS's scheduler is to resume it, which it does in its next cycle or later.
pub(super) fn is_resumed(job: &Value) -> bool {
    number(job, "substate").is_ok_and(|substate| substate == RESUMED)
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
    // It may have any start time while it waits.
    if commitment.deferred {
        return None;
    }
    let (first, count) = marks(commitment);
    let after = number(job, "start").ok()? - first;
    (0.0..2.0 * count).contains(&after).then(|| GoingOn {
        by: commitment.submitted + after % count,
        late: after >= count,
    })
}

/// Returns true if an event takes a job's mark away.
pub(super) fn loses_mark(job: &Value) -> bool {
    let line = text(job, "commitment").and_then(|line| Commitment::parse(line).ok());
    let before = json!({"start": job["start_before"]});
    let has_start = number(job, "start").is_ok();
    let loses = |known: Commitment| {
        going_on(&before, &known).is_some() && has_start && going_on(job, &known).is_none()
    };
    line.is_some_and(loses)
}

/// What may not be done to the start of one that runs: it is behind its deadline only then, and stays so. `by_root`: it is altered by root, as Libra does.
pub(super) fn moves_start_when_running(job: &Value, by_root: bool) -> Option<&'static str> {
    let commitment = Commitment::parse(text(job, "commitment")?).ok()?;
    number(job, "start").ok()?;
    let runs = text(job, "state") == Some("R");
    let before = json!({"start": job["start_before"]});
    let is_mark = |job: &Value| going_on(job, &commitment).is_some();
    if starts_as_running(job, &commitment) {
        let substate = number(job, "substate").unwrap_or(0.0);
        if !(runs && [RUNNING, SUSPENDED, RESUMED].contains(&substate)) {
            return Some("it does not run yet");
        }
        let marked = is_mark(job) || is_mark(&before);
        return (marked && !by_root)
            .then_some("its start time says whether it stands still for others, and is Libra's");
    }
    (runs && starts_as_running(&before, &commitment))
        .then_some("it runs, and its start time keeps PBS's alarms off")
}
