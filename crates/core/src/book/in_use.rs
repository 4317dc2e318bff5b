//! What is in use on a node at a moment, as plans count it.

/// What is in use on a node, in processors.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct InUse {
    pub committed: f64,
    /// Of these, whole.
    pub whole: f64,
    /// The same if each slot of a job with a share had a whole one.
    pub by_slots: f64,
}
