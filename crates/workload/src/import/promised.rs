//! What Libra promised a job, of its record, and what the job needed.
//!
//! A job with a share runs for as long as its deadline lets it, so its need is the processor time of its slots; one with whole processors needs
//! them for as long as it runs.

use super::{AccountingRecord, LeftOut};
use libra_core::commitment::Commitment;
use std::collections::BTreeMap;

/// What Libra keeps in front of the line that it writes into a job's admin comment (Slurm).
const PREFIX: &str = "libra:";
/// Field 11 of the format.
const COMPLETED: i8 = 1;

/// A promise and what became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promised {
    /// Seconds that it was to need of a processor of its own, without a margin.
    pub estimate: f64,
    /// Seconds that it did need; None if that was not measured.
    pub needed: Option<f64>,
}

impl Promised {
    /// Of the line of a commitment; None if it is none. `ran`: seconds that the job ran, less those in which it stood still. `used`: of the slots
    /// of such a number.
    pub(super) fn of_line(
        line: &str,
        ran: Option<f64>,
        used: impl FnOnce(f64) -> Option<f64>,
    ) -> Option<Promised> {
        let request = Commitment::parse(line).ok()?.request;
        let needed = match request.terms.class.is_whole() {
            true => ran,
            false => used(request.shape.slots() as f64),
        };
        Some(Promised {
            estimate: request.terms.estimate,
            // Where nobody measures there are zeros.
            needed: needed.filter(|seconds| *seconds > 0.0),
        })
    }

    /// Of an admin comment in Slurm, in which another plugin's words may stand in front.
    pub(super) fn of_comment(
        comment: &str,
        ran: Option<f64>,
        used: impl FnOnce(f64) -> Option<f64>,
    ) -> Option<Promised> {
        let own = comment.rsplit('|').next()?;
        Promised::of_line(own.strip_prefix(PREFIX)?, ran, used)
    }
}

/// Processor seconds of a slot on the host where they used most, of what hosts of PBS have measured: `{"host": "seconds@when@end…"}`. None if one
/// of them has not measured its end.
pub(super) fn most_used(progress: &str) -> Option<f64> {
    let hosts: BTreeMap<String, String> = serde_json::from_str(progress.trim_matches('\'')).ok()?;
    let used = |host: &String| {
        let mut parts = host.split('@');
        let seconds: f64 = parts.next()?.parse().ok()?;
        (parts.nth(1) == Some("end") && seconds.is_finite()).then_some(seconds)
    };
    let used: Vec<f64> = hosts.values().map(used).collect::<Option<_>>()?;
    used.into_iter().reduce(f64::max)
}

/// The jobs with a promise of which it is known what they needed, in the place of how long they ran and of their time limits.
pub(super) fn only(
    entries: Vec<AccountingRecord>,
    left_out: &mut LeftOut,
) -> Vec<AccountingRecord> {
    let mut only = Vec::new();
    for mut entry in entries {
        let Some(promised) = entry.promised else {
            left_out.without_promise += 1;
            continue;
        };
        // What one would have needed that did not come to its end nobody knows, but that it was more than it has used.
        let shows = |needed: &f64| entry.status == COMPLETED || *needed > promised.estimate;
        let Some(needed) = promised.needed.filter(shows) else {
            left_out.inconclusive += 1;
            continue;
        };
        entry.run_time = Some(needed);
        entry.requested_time = Some(promised.estimate);
        only.push(entry);
    }
    only
}
