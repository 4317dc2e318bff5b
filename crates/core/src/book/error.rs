//! Why the book cannot do what it was asked, and which of a batch system's records it cannot take: data, without a sentence.

use crate::decision::job::OutOfRange;
use crate::decision::refusal::Refusal;

/// Why the book cannot do what it was asked. Nothing was changed. Sentences are made of it by `libra_wording::errors`.
#[derive(Debug, Clone, PartialEq)]
pub enum BookError {
    /// The job was refused.
    Refused(Box<Refusal>),
    /// No job of that id: it has ended, was cancelled, or never was.
    UnknownJob(String),
    /// No job of that token: its reservation expired, or it has a name.
    UnknownToken(u64),
    /// No node of that name.
    UnknownNode(String),
    /// The job is not on that node.
    NotOnNode {
        /// The job.
        id: String,
        /// The node.
        node: String,
    },
    /// A record that contradicts itself.
    Unsound(Unsound),
    /// The id belongs to another job already.
    IdTaken(String),
    /// So does the token.
    TokenTaken(u64),
    /// A name that cannot be one.
    Name {
        /// Of what.
        what: Named,
        /// Its length.
        bytes: usize,
    },
    /// A value is out of range.
    OutOfRange(OutOfRange),
    /// A time or a processor time that is none.
    Time {
        /// Which.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// A snapshot of a version that is not known.
    SnapshotVersion(u32),
    /// Records that are older than [`super::OLDEST_RECORDS`], by so many seconds in all.
    TooOld(f64),
}

impl From<OutOfRange> for BookError {
    fn from(error: OutOfRange) -> BookError {
        BookError::OutOfRange(error)
    }
}

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A node.
    Node,
    /// A job, by its id.
    Job,
}

/// What contradicts itself in a record or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsound {
    /// A job on no node.
    OnNoNode,
    /// A job without an id that is no reservation.
    NoId,
    /// Its places have other chunks than it asked for.
    Chunks,
    /// An array of more processors than can be counted.
    LargeArray,
    /// An array whose jobs are scattered over nodes.
    ScatteredArray,
}

/// A record that could not be taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Untaken {
    /// Of what it is.
    pub of: Named,
    /// Its name; None for a job without an id.
    pub name: Option<String>,
    /// Why not.
    pub error: BookError,
}

impl Untaken {
    /// Of a node.
    pub fn node(name: &str, error: BookError) -> Untaken {
        Untaken {
            of: Named::Node,
            name: Some(name.to_string()),
            error,
        }
    }

    /// Of a job, by its id.
    pub fn job(id: Option<&str>, error: BookError) -> Untaken {
        Untaken {
            of: Named::Job,
            name: id.map(str::to_string),
            error,
        }
    }
}
