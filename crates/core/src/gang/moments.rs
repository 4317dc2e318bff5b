//! When something happens to jobs by itself, in order: what [`super::upcoming`] keeps.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// When something happens to a job by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    /// The end of the run that it has; of a job that does not run, the start of the next.
    pub at: f64,
    /// It does not run.
    pub waits: bool,
    pub slot: u32,
}

impl Eq for Moment {}

impl Ord for Moment {
    fn cmp(&self, other: &Moment) -> Ordering {
        (self.at.total_cmp(&other.at))
            .then(self.waits.cmp(&other.waits))
            .then(self.slot.cmp(&other.slot))
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Moment) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is written down of a job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Mark {
    /// Where it stands in [`Upcoming`].
    pub moment: Option<Moment>,
    /// It stands among those that have changed.
    pub changed: bool,
    /// It stands among those that run and may have to stop.
    pub stops: bool,
}

/// All jobs that are known, by their moments.
#[derive(Debug, Default)]
pub(super) struct Upcoming {
    pub moments: BTreeSet<Moment>,
    /// Whose moments may be others by now.
    pub changed: Vec<u32>,
    /// Who runs and is planned to run later only, and perhaps some more.
    pub stops: Vec<u32>,
}
