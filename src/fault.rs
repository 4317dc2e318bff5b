//! What a call answers when it fails: a code for programs and a sentence for people.

use super::header as c;
use libra_core::book::BookError;
use libra_core::decision::job::OutOfRange;
use libra_wording::errors;
use libra_wording::refusal::out_of_range;
use libra_wording::terms::TermsError;
use std::borrow::Cow;
use std::ffi::c_int;

/// A code `LIBRA_E_*` and a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    pub code: c_int,
    pub text: Cow<'static, str>,
}

impl Fault {
    pub fn new(code: c_int, text: impl Into<Cow<'static, str>>) -> Fault {
        Fault {
            code,
            text: text.into(),
        }
    }

    /// The same fault, said to be in this part of what was given.
    pub fn within(self, part: impl std::fmt::Display) -> Fault {
        Fault {
            code: self.code,
            text: format!("{part}: {}", self.text).into(),
        }
    }
}

impl From<OutOfRange> for Fault {
    fn from(error: OutOfRange) -> Fault {
        Fault::new(c::LIBRA_E_RANGE, out_of_range(&error))
    }
}

impl From<TermsError> for Fault {
    fn from(error: TermsError) -> Fault {
        let code = match error {
            TermsError::OutOfRange(_) => c::LIBRA_E_RANGE,
            _ => c::LIBRA_E_TERMS,
        };
        Fault::new(code, error.to_string())
    }
}

impl From<BookError> for Fault {
    fn from(error: BookError) -> Fault {
        let code = match error {
            BookError::UnknownJob(_) | BookError::UnknownToken(_) => c::LIBRA_E_UNKNOWN_JOB,
            BookError::Unsound(_) => c::LIBRA_E_SNAPSHOT,
            BookError::NotOnNode { .. } | BookError::UnknownNode(_) => c::LIBRA_E_UNKNOWN_NODE,
            BookError::IdTaken(_) | BookError::TokenTaken(_) => c::LIBRA_E_ID_TAKEN,
            BookError::Name { .. } => c::LIBRA_E_NAME,
            BookError::OutOfRange(_) | BookError::Time { .. } => c::LIBRA_E_RANGE,
            BookError::SnapshotVersion(_) | BookError::TooOld(_) => c::LIBRA_E_SNAPSHOT,
            // Callers answer a refusal before they come here.
            BookError::Refused(_) => c::LIBRA_E_INTERNAL,
        };
        Fault::new(code, errors::book(&error))
    }
}
