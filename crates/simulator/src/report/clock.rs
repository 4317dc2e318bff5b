//! What a log says of the time of day.

/// What is known of the time of day of submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The log says it.
    Log,
    /// Nothing: hours count from the first job.
    FirstJob,
    /// Submissions were moved: they have none.
    Moved,
}
