//! The list of terms that users give with `-W`: `deadline=20,budget=15,estimate=10`.
//!
//! The same list on qsub's and on Libra's own command line, so it is read in one place.

use libra_core::decision::job::{DeadlineType, OutOfRange, Terms};
use libra_units::{cut, duration};

/// The keys, as users write them.
pub const KEYS: [&str; 5] = [
    "estimate",
    "deadline",
    "budget",
    "deadline_type",
    "penalty_rate",
];

/// The key that a text names: in any case, with `-` for `_` if one likes.
pub fn key(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase().replace('-', "_");
    KEYS.into_iter().find(|known| *known == lower)
}

/// Terms of which some may not have been given yet.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PartialTerms {
    /// Seconds.
    pub estimate: Option<f64>,
    /// Seconds after submission.
    pub deadline: Option<f64>,
    /// Credits; infinite for `unlimited`.
    pub budget: Option<f64>,
    /// Hard or soft.
    pub deadline_type: Option<DeadlineType>,
    /// Credits per second of delay.
    pub penalty_rate: Option<f64>,
}

/// What is wrong with a list of terms.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TermsError {
    /// Not of the form key=value.
    #[error(
        "'{0}' is not of the form key=value; the keys are estimate, deadline, budget, deadline_type, penalty_rate"
    )]
    Form(String),
    /// Not one of the keys.
    #[error(
        "there is no '{0}'; the keys are estimate, deadline, budget, deadline_type, penalty_rate"
    )]
    UnknownKey(String),
    /// Given twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// A value that cannot be read.
    #[error("{key}: {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// A value is needed and was not given.
    #[error("{0} is missing; give it as {0}=…")]
    Missing(&'static str),
    /// A value is out of range.
    #[error("{}", super::refusal::out_of_range(.0))]
    OutOfRange(OutOfRange),
}

impl From<OutOfRange> for TermsError {
    fn from(error: OutOfRange) -> TermsError {
        TermsError::OutOfRange(error)
    }
}

/// Reads the part of a value that only the caller can: a deadline given as a clock time.
pub type ReadDeadline<'a> = &'a dyn Fn(&str) -> Result<f64, String>;

/// Reads a deadline that is a duration.
///
/// # Errors
/// When it is not one.
pub fn deadline_as_duration(text: &str) -> Result<f64, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// Reads a list of terms. Nothing is required here, see [`PartialTerms::complete`].
///
/// # Errors
/// The first entry that cannot be taken.
pub fn parse(text: &str, deadline: ReadDeadline<'_>) -> Result<PartialTerms, TermsError> {
    let mut terms = PartialTerms::default();
    for entry in text.split(',') {
        let entry = entry.trim();
        let (key, value) = entry
            .split_once('=')
            .ok_or_else(|| TermsError::Form(cut(entry)))?;
        terms.set(key.trim(), value.trim(), deadline)?;
    }
    Ok(terms)
}

impl PartialTerms {
    /// Takes one key and its value.
    ///
    /// # Errors
    /// When the key is unknown, already given, or the value cannot be read.
    pub fn set(
        &mut self,
        key: &str,
        value: &str,
        deadline: ReadDeadline<'_>,
    ) -> Result<(), TermsError> {
        let Some(key) = self::key(key) else {
            return Err(TermsError::UnknownKey(cut(key)));
        };
        let problem = |problem: String| TermsError::Value { key, problem };
        match key {
            "estimate" => {
                let seconds = duration::parse(value).map_err(|e| problem(e.to_string()))?;
                once(key, &mut self.estimate, seconds)
            }
            "deadline" => once(key, &mut self.deadline, deadline(value).map_err(problem)?),
            "budget" => {
                let amount = if value.eq_ignore_ascii_case("unlimited") {
                    f64::INFINITY
                } else {
                    amount(value).map_err(problem)?
                };
                once(key, &mut self.budget, amount)
            }
            "deadline_type" => {
                let kind = match value.to_ascii_lowercase().as_str() {
                    "hard" => DeadlineType::Hard,
                    "soft" => DeadlineType::Soft,
                    _ => {
                        let given = cut(value);
                        return Err(problem(format!("'{given}' is neither 'hard' nor 'soft'")));
                    }
                };
                once(key, &mut self.deadline_type, kind)
            }
            _ => once(key, &mut self.penalty_rate, amount(value).map_err(problem)?),
        }
    }

    /// These terms, with those of `other` where these say nothing.
    pub fn or(self, other: PartialTerms) -> PartialTerms {
        PartialTerms {
            estimate: self.estimate.or(other.estimate),
            deadline: self.deadline.or(other.deadline),
            budget: self.budget.or(other.budget),
            deadline_type: self.deadline_type.or(other.deadline_type),
            penalty_rate: self.penalty_rate.or(other.penalty_rate),
        }
    }

    /// Terms that can be judged.
    ///
    /// # Errors
    /// What is missing or out of range.
    pub fn complete(self) -> Result<Terms, TermsError> {
        let terms = Terms {
            estimate: self.estimate.ok_or(TermsError::Missing("estimate"))?,
            deadline: self.deadline.ok_or(TermsError::Missing("deadline"))?,
            budget: self.budget.ok_or(TermsError::Missing("budget"))?,
            deadline_type: self.deadline_type.unwrap_or_default(),
            penalty_rate: self.penalty_rate.unwrap_or(0.0),
        };
        terms.check()?;
        Ok(terms)
    }
}

fn once<T>(key: &'static str, place: &mut Option<T>, value: T) -> Result<(), TermsError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(TermsError::Twice(key)),
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| format!("'{}' is not a number of credits", cut(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PartialTerms, TermsError> {
        parse(text, &deadline_as_duration)
    }

    #[test]
    fn the_papers_own_line() {
        let terms = read("deadline=20,budget=15,estimate=10")
            .and_then(PartialTerms::complete)
            .expect("the line of section 4.2");
        assert_eq!(terms, Terms::hard(10.0, 20.0, 15.0));
    }

    #[test]
    fn every_key_and_every_form() {
        let terms = read("Deadline = 1h30m , budget=unlimited,estimate=00:10:00,deadline-type=SOFT,penalty_rate=0.5")
            .and_then(PartialTerms::complete)
            .expect("all keys");
        assert_eq!(terms.deadline, 5400.0);
        assert_eq!(terms.budget, f64::INFINITY);
        assert_eq!(terms.estimate, 600.0);
        assert_eq!(terms.deadline_type, DeadlineType::Soft);
        assert_eq!(terms.penalty_rate, 0.5);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("", "key=value"),
            ("deadline", "key=value"),
            ("deadline=20,", "key=value"),
            ("colour=blue", "there is no 'colour'"),
            ("budget=1,budget=2", "twice"),
            ("budget=-1", "number of credits"),
            ("budget=nan", "number of credits"),
            ("deadline=soon", "HH:MM:SS"),
            ("deadline_type=maybe", "neither"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [
            ("deadline=20,budget=15", "estimate is missing"),
            ("deadline=20,budget=15,estimate=0", "estimate is 0"),
        ] {
            let error = read(text)
                .and_then(PartialTerms::complete)
                .expect_err(text)
                .to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
