//! What PBS's records say of jobs that stand still for others ([`super::suspended`]).

use super::alarms::{going_on, has_stood_still, is_resumed, is_suspended};
use super::text;
use libra_batch::server::suspended::{GoingOn, RunState};
use libra_core::book::Suspension;
use libra_core::commitment::Commitment;
use serde_json::Value;

/// So many seconds may pass until a job that is to stand still does: three hooks, what they leave behind, and PBS's way to the hosts and back.
pub(super) const STANDS_STILL_WITHIN: f64 = 10.0;

/// Resources that a suspended job must not release.
const KEPT: [&str; 2] = ["mem", "libra_share"];

/// What was seen of a job last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub(super) mark: Option<GoingOn>,
    pub(super) stands_still: bool,
    /// When, Unix time.
    pub(super) at: f64,
}

/// A job as a record shows it; None of one that has no commitment.
pub(super) fn seen(job: &Value, at: f64) -> Option<(Seen, Commitment)> {
    let commitment = Commitment::parse(text(job, "commitment")?).ok()?;
    let seen = Seen {
        mark: going_on(job, &commitment),
        stands_still: is_suspended(job),
        at,
    };
    Some((seen, commitment))
}

/// Whether jobs that PBS suspends keep their memory and their shares, by what the server's `restrict_res_to_release_on_suspend` names; None if it is not set, which is everything.
pub fn keeps_memory(released: Option<&str>) -> bool {
    released.is_some_and(|released| {
        let mut names = released.split(',').map(str::trim);
        !names.any(|name| KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept)))
    })
}

/// What a running job's record says of it that stands still for others, or is to.
pub(super) fn suspension(job: &Value, commitment: &Commitment) -> Option<Suspension> {
    let mark = going_on(job, commitment)?;
    Some(Suspension::new(mark.by, is_suspended(job)))
}

/// Whether it runs as one whose start time was altered while it ran: it may have stood still since it was started.
pub(super) fn may_have_stood_still(job: &Value) -> bool {
    let line = text(job, "commitment").and_then(|line| Commitment::parse(line).ok());
    line.is_some_and(|known| known.request.terms.class.is_whole() && has_stood_still(job, &known))
}

/// What a job does; None of one that is over, or about to be.
pub(super) fn run_state(job: &Value) -> Option<RunState> {
    match text(job, "state")? {
        "R" | "S" | "U" if is_suspended(job) => Some(RunState::StandsStill),
        "R" | "S" | "U" if is_resumed(job) => Some(RunState::GoesOn),
        "R" | "U" => Some(RunState::Runs),
        "Q" | "W" | "H" => Some(RunState::Waits),
        _ => None,
    }
}
