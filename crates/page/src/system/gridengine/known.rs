//! What this page knows of a job, and how it is shown. Pure.

use super::super::job::{JobSummary, Tone};
use super::super::own::{JobStatus, settle};
use super::super::records::{End, SubmissionRecord};
use super::accounting::CLOCKS;
use super::queue::{Details, Listed};
use std::collections::BTreeMap;

/// A job that this page has seen, or has submitted.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// What qstat said of it.
    pub details: Details,
    /// Nodes that it ran on, as far as that is known.
    pub node: String,
    /// Whether it had begun when it was seen last; None: it was not seen.
    pub begun: Option<bool>,
    /// When the list was asked for that had it last, Unix time.
    pub seen: f64,
    /// This page has deleted it.
    pub deleted: bool,
    /// When it was found gone, Unix time.
    pub gone: Option<f64>,
    /// When the accounting file was asked last, Unix time.
    pub asked: f64,
    /// How it has ended.
    pub end: Option<End>,
}

impl Known {
    /// How many tasks it is.
    pub fn tasks(&self) -> usize {
        let committed = self.details.commitment.as_ref();
        match self.details.tasks {
            Some((count, _)) => count,
            None => committed.map_or(1, |commitment| commitment.count as usize),
        }
    }

    /// Returns true if this is the record of its submission, and of no job that had its number before.
    pub fn is_of(&self, number: u32, record: &SubmissionRecord) -> bool {
        record.id == number.to_string()
            && (record.submitted - self.details.submitted).abs() <= CLOCKS
    }
}

/// How a job has ended of which the accounting file says nothing; None: it may still come. What was deleted while it waited has no record.
pub fn without_record(job: &Known, waited: bool) -> Option<End> {
    let (state, ending) = match (job.begun, job.deleted) {
        (Some(false), true) => ("cancelled", "deleted before it began"),
        _ if !waited => return None,
        (Some(false), false) => (
            "cancelled",
            "deleted before it began, as far as Grid Engine's accounting says",
        ),
        _ => ("ended", ""),
    };
    Some(End {
        at: None,
        state: state.to_string(),
        ending: ending.to_string(),
        node: String::new(),
    })
}

/// A job on the list.
pub fn live(
    number: u32,
    listed: &Listed,
    known: &Known,
    status: &BTreeMap<String, JobStatus>,
    now: f64,
) -> JobSummary {
    let mut job = JobSummary {
        state: listed.state().to_string(),
        live: true,
        ..summary(number, known)
    };
    let id = number.to_string();
    // Tasks of an array stand there by themselves; it is as well as the worst of them.
    let rank =
        |status: &JobStatus| match (Tone::of(&status.state), status.state.starts_with("waits")) {
            (Tone::Bad, _) => 3,
            (Tone::Warn, _) => 2,
            (_, false) => 1,
            (_, true) => 0,
        };
    let is_its = |name: &str| name.split('.').next() == Some(id.as_str());
    let worst = (status.iter().filter(|(name, _)| is_its(name))).max_by_key(|(_, s)| rank(s));
    settle(
        &mut job,
        known.details.commitment.as_ref(),
        worst.map(|(_, s)| s),
        None,
        now,
    );
    // An error is nothing that the book knows of, and nothing that passes.
    if listed.state() == "error" {
        job.state = "error".to_string();
    }
    of_all_tasks(&mut job, known);
    job
}

/// A job that is gone.
pub fn gone(number: u32, known: &Known, now: f64) -> JobSummary {
    let mut job = summary(number, known);
    match &known.end {
        Some(end) => {
            job.state.clone_from(&end.state);
            job.ending.clone_from(&end.ending);
            if !end.node.is_empty() {
                job.node.clone_from(&end.node);
            }
            settle(
                &mut job,
                known.details.commitment.as_ref(),
                None,
                end.at,
                now,
            );
        }
        None => {
            job.state = "ending".to_string();
            job.live = true;
            settle(&mut job, known.details.commitment.as_ref(), None, None, now);
        }
    }
    of_all_tasks(&mut job, known);
    job
}

fn summary(number: u32, known: &Known) -> JobSummary {
    JobSummary {
        key: number.to_string(),
        id: number.to_string(),
        name: known.details.name.clone(),
        node: known.node.clone(),
        submitted: Some(known.details.submitted),
        ..JobSummary::default()
    }
}

/// What is committed is said of one task; the list has them all in a row.
fn of_all_tasks(job: &mut JobSummary, known: &Known) {
    if let Some(commitment) = &known.details.commitment {
        let count = f64::from(commitment.count);
        job.price = job.price.map(|price| price * count);
        job.slots = job.slots.map(|slots| slots * count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_core::commitment::Commitment;

    fn ended(begun: Option<bool>, deleted: bool) -> Known {
        Known {
            begun,
            deleted,
            ..Known::default()
        }
    }

    #[test]
    fn without_a_record_it_is_waited_for_one() {
        let state = |job: Known, waited| without_record(&job, waited).map(|end| end.state);
        assert_eq!(state(ended(Some(true), true), false), None);
        assert_eq!(
            state(ended(Some(true), false), true).as_deref(),
            Some("ended")
        );
        assert_eq!(state(ended(None, false), true).as_deref(), Some("ended"));
        // What was deleted in the queue has none, ever.
        assert_eq!(
            state(ended(Some(false), true), false).as_deref(),
            Some("cancelled")
        );
        assert_eq!(state(ended(Some(false), false), false), None);
    }

    #[test]
    fn a_job_that_is_gone_is_ending_until_its_end_is_known() {
        let line = "v=1:token=17:submitted=1000:estimate=10:deadline=20:budget=50:type=hard:penalty=0:price=10.5:chunks=1:processors=1:memory=0:scatter=0:count=2:at=g1*2*0.525";
        let mut known = ended(Some(true), false);
        known.details.commitment = Commitment::parse(line).ok();
        let before = gone(7, &known, 1015.0);
        assert_eq!(
            (before.live, before.state.as_str(), before.elapsed),
            (true, "ending", Some(15.0))
        );
        known.end = Some(End {
            at: Some(1012.0),
            state: "completed".to_string(),
            ..End::default()
        });
        let after = gone(7, &known, 1e6);
        assert_eq!(
            (after.live, after.in_time, after.elapsed),
            (false, Some(true), Some(12.0))
        );
        assert_eq!(
            (after.price, after.slots),
            (Some(21.0), Some(2.0)),
            "of both tasks"
        );
    }

    #[test]
    fn an_array_is_as_well_as_its_worst_task() {
        let of = |state: &str| JobStatus {
            state: state.to_string(),
            ..JobStatus::default()
        };
        let status = [
            ("7.1", of("waits")),
            ("7.2", of("late")),
            ("7.3", of("on track")),
            ("71", of("late")),
        ];
        let mut status: BTreeMap<String, JobStatus> =
            status.map(|(id, of)| (id.to_string(), of)).into();
        let listed = Listed {
            letters: "r".to_string(),
            ..Listed::default()
        };
        let shown = |status: &BTreeMap<String, JobStatus>| {
            live(7, &listed, &Known::default(), status, 0.0).state
        };
        assert_eq!(shown(&status), "late");
        status.remove("7.2");
        assert_eq!(shown(&status), "on track");
        assert_eq!(shown(&BTreeMap::new()), "running");
    }
}
