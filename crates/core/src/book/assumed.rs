//! A book that is otherwise than it is, for a question.

use crate::decision::job::Request;
use crate::decision::placement::Placement;

/// What a plan takes otherwise than the book has it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Assumed<'a> {
    /// This job is not there.
    pub without: Option<usize>,
    /// These stand still until then: their keys, and times on the book's clock.
    pub go_on: &'a [(usize, f64)],
    /// This one comes as well.
    pub comes: Option<Coming<'a>>,
}

impl Assumed<'_> {
    /// That a job is not there.
    pub(super) fn without(key: usize) -> Assumed<'static> {
        Assumed {
            without: Some(key),
            ..Assumed::default()
        }
    }
}

/// A job that is not in the book, in its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming<'a> {
    pub request: &'a Request,
    pub places: &'a [Placement],
    /// When it begins.
    pub from: f64,
    /// When it is done.
    pub until: f64,
}
