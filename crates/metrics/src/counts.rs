//! What became of submissions and of jobs, counted.

use super::Histogram;
use libra_core::decision::refusal::Category;
use serde_json::{Map, Value};
use std::time::Duration;

/// How a job ended that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Finished by its deadline.
    Met,
    /// Finished, of a job that no deadline was promised to.
    Finished,
    /// After it, whatever ended it.
    Late,
    /// The same of a promise under a condition: the deadline was shorter than the estimate.
    ConditionalLate,
    /// Before its deadline, with an exit code other than 0 or by a signal, or it could not be executed.
    Failed,
    /// Before its deadline and before it was done: somebody or something ended it, or it never started.
    Cancelled,
    /// It is gone, and nobody says how: its host or the batch system's records went with it.
    Unknown,
}

impl Outcome {
    /// All of them, in their order.
    pub const ALL: [Outcome; 7] = [
        Outcome::Met,
        Outcome::Finished,
        Outcome::Late,
        Outcome::ConditionalLate,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::Unknown,
    ];

    /// Of a job that took so many seconds since its submission, of a deadline of so many. `cut_short`: was it ended before it
    /// was done?
    pub fn of(took: f64, deadline: f64, cut_short: bool) -> Outcome {
        match (took > deadline, cut_short) {
            (true, _) => Outcome::Late,
            (false, true) => Outcome::Cancelled,
            (false, false) => Outcome::Met,
        }
    }

    /// The same of a job that may have failed by itself: what ended in time is not met then.
    pub fn but_failed(self, failed: bool) -> Outcome {
        match self {
            Outcome::Met if failed => Outcome::Failed,
            other => other,
        }
    }

    /// The same of a job that may have been promised no deadline: it meets none.
    pub fn if_promised(self, promised: bool) -> Outcome {
        match self {
            Outcome::Met if !promised => Outcome::Finished,
            other => other,
        }
    }

    /// The same of a job whose promise may have been under a condition ([`libra_core::decision::job::Terms::are_conditional`]).
    pub fn if_conditional(self, conditional: bool) -> Outcome {
        match self {
            Outcome::Late if conditional => Outcome::ConditionalLate,
            other => other,
        }
    }

    /// Its word in metrics and history.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Finished => "finished",
            Outcome::Late => "late",
            Outcome::ConditionalLate => "conditional-late",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Unknown => "unknown",
        }
    }
}

/// Why a host did not take a job's claim to a share for a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The batch system's own record of the job does not have it.
    Unrecorded,
    /// The host has not that many processors, beside what it promised to others.
    Capacity,
}

impl Rejection {
    /// All of them, in their order.
    pub const ALL: [Rejection; 2] = [Rejection::Unrecorded, Rejection::Capacity];

    /// Its word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Rejection::Unrecorded => "unrecorded",
            Rejection::Capacity => "capacity",
        }
    }
}

/// Counters: they only rise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Jobs accepted, each job of an array for itself.
    pub accepted: u64,
    /// Of these, jobs that the batch system then did not have: tests, and submissions that others refused.
    pub withdrawn: u64,
    refused: [u64; Category::ALL.len()],
    ended: [u64; Outcome::ALL.len()],
    rejected: [u64; Rejection::ALL.len()],
    /// Jobs that run on a host which was to hold them to a share, and does not.
    pub unenforced: u64,
    /// How long verdicts took, accepted and refused.
    pub decisions: Histogram,
}

impl Counts {
    /// Nothing counted.
    pub const EMPTY: Counts = Counts {
        accepted: 0,
        withdrawn: 0,
        refused: [0; Category::ALL.len()],
        ended: [0; Outcome::ALL.len()],
        rejected: [0; Rejection::ALL.len()],
        unenforced: 0,
        decisions: Histogram::EMPTY,
    };

    /// A submission of so many jobs was accepted.
    pub fn accept(&mut self, jobs: u64, took: Duration) {
        self.accepted = self.accepted.saturating_add(jobs);
        self.decisions.observe(took);
    }

    /// A submission was refused.
    pub fn refuse(&mut self, reason: Category, took: Duration) {
        let count = &mut self.refused[reason as usize];
        *count = count.saturating_add(1);
        self.decisions.observe(took);
    }

    /// So many submissions were refused, and nobody knows how long that took.
    pub fn refuse_many(&mut self, reason: Category, submissions: u64) {
        let count = &mut self.refused[reason as usize];
        *count = count.saturating_add(submissions);
    }

    /// A job has ended.
    pub fn end(&mut self, outcome: Outcome) {
        self.end_many(outcome, 1);
    }

    /// So many jobs have ended.
    pub fn end_many(&mut self, outcome: Outcome, jobs: u64) {
        let count = &mut self.ended[outcome as usize];
        *count = count.saturating_add(jobs);
    }

    /// So many jobs are not in the batch system any more, and it did not say how they ended. Those of them that had not run yet
    /// were deleted.
    pub fn vanish(&mut self, jobs: usize, waited: usize) {
        self.end_many(Outcome::Cancelled, waited as u64);
        self.end_many(Outcome::Unknown, jobs.saturating_sub(waited) as u64);
    }

    /// A job's claim to a share was not believed.
    pub fn reject(&mut self, rejection: Rejection) {
        let count = &mut self.rejected[rejection as usize];
        *count = count.saturating_add(1);
    }

    /// Claims that were not believed for this reason.
    pub fn rejected(&self, rejection: Rejection) -> u64 {
        self.rejected[rejection as usize]
    }

    /// Submissions that were refused for this reason.
    pub fn refused(&self, reason: Category) -> u64 {
        self.refused[reason as usize]
    }

    /// Jobs that ended so.
    pub fn ended(&self, outcome: Outcome) -> u64 {
        self.ended[outcome as usize]
    }

    /// Returns true if anything was counted.
    pub fn is_empty(&self) -> bool {
        *self == Counts::EMPTY
    }

    /// Adds what others have counted.
    pub fn add(&mut self, other: &Counts) {
        self.accepted = self.accepted.saturating_add(other.accepted);
        self.withdrawn = self.withdrawn.saturating_add(other.withdrawn);
        for (count, more) in self.refused.iter_mut().zip(other.refused) {
            *count = count.saturating_add(more);
        }
        for (count, more) in self.ended.iter_mut().zip(other.ended) {
            *count = count.saturating_add(more);
        }
        for (count, more) in self.rejected.iter_mut().zip(other.rejected) {
            *count = count.saturating_add(more);
        }
        self.unenforced = self.unenforced.saturating_add(other.unenforced);
        self.decisions.add(&other.decisions);
    }

    /// `{"accepted": 5, "met": 3, "refused": {"share": 2}}`: what is 0 is left out, and times are.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut json = Map::new();
        let mut put = |word: &str, count: u64| {
            if count > 0 {
                json.insert(word.to_string(), count.into());
            }
        };
        put("accepted", self.accepted);
        put("withdrawn", self.withdrawn);
        put("unenforced", self.unenforced);
        for outcome in Outcome::ALL {
            put(outcome.word(), self.ended(outcome));
        }
        let refused: Map<String, Value> = (Category::ALL.into_iter())
            .filter(|&reason| self.refused(reason) > 0)
            .map(|reason| (reason.word().to_string(), self.refused(reason).into()))
            .collect();
        if !refused.is_empty() {
            json.insert("refused".to_string(), refused.into());
        }
        let rejected: Map<String, Value> = (Rejection::ALL.into_iter())
            .filter(|&rejection| self.rejected(rejection) > 0)
            .map(|rejection| {
                (
                    rejection.word().to_string(),
                    self.rejected(rejection).into(),
                )
            })
            .collect();
        if !rejected.is_empty() {
            json.insert("claims-rejected".to_string(), rejected.into());
        }
        json
    }

    /// From [`Counts::to_json`]; what is not there or no number is 0.
    pub fn from_json(value: &Value) -> Counts {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let mut counts = Counts {
            accepted: number(&value["accepted"]),
            withdrawn: number(&value["withdrawn"]),
            unenforced: number(&value["unenforced"]),
            ..Counts::EMPTY
        };
        for outcome in Outcome::ALL {
            counts.ended[outcome as usize] = number(&value[outcome.word()]);
        }
        for reason in Category::ALL {
            counts.refused[reason as usize] = number(&value["refused"][reason.word()]);
        }
        for rejection in Rejection::ALL {
            let count = &value["claims-rejected"][rejection.word()];
            counts.rejected[rejection as usize] = number(count);
        }
        counts
    }
}
