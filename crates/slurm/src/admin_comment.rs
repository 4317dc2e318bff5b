//! The admin comment of a job as it is on record, and what it says: read once, however often a poll asks for it, and not again as long as the job's
//! record stays.

use super::array::{JobCommitment, NotCommitted};
use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;

/// What Libra has in a job's admin comment; empty for nothing. Another text is another one: it is never changed in place.
#[derive(Clone, Default)]
pub struct AdminComment {
    text: String,
    said: OnceCell<Option<Result<JobCommitment, NotCommitted>>>,
}

impl AdminComment {
    /// What is committed by it, see [`JobCommitment::parse`].
    pub fn commitment(&self) -> Option<Result<&JobCommitment, &NotCommitted>> {
        let said = self.said.get_or_init(|| JobCommitment::parse(&self.text));
        said.as_ref().map(Result::as_ref)
    }
}

impl From<String> for AdminComment {
    fn from(text: String) -> AdminComment {
        AdminComment {
            text,
            said: OnceCell::new(),
        }
    }
}

impl From<&str> for AdminComment {
    fn from(text: &str) -> AdminComment {
        text.to_string().into()
    }
}

impl Deref for AdminComment {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for AdminComment {
    fn eq(&self, other: &AdminComment) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for AdminComment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
