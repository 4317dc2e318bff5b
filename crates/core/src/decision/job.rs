//! What a user asks for: the terms (estimate, deadline, budget, …) and the shape (chunks of
//! processors).
//!
//! Invariant: a [`Request`] that passed [`Request::check`] has only finite, positive times and
//! counts within the limits below, so that no later arithmetic can overflow or yield NaN.

use super::TOLERANCE;
use super::class::Class;
use super::consumable::Amounts;
use serde::{Deserialize, Serialize};

/// Longest estimate or deadline that is taken, in seconds (about 317 years).
pub const LONGEST: f64 = 1e10;
/// Shortest estimate or deadline that is taken, in seconds.
pub const SHORTEST: f64 = 1e-3;
/// Largest finite budget or penalty rate that is taken, in credits.
pub const LARGEST_AMOUNT: f64 = 1e15;
/// Most chunks of one job.
pub const MOST_CHUNKS: u32 = 65_536;
/// Most processors in one chunk.
pub const MOST_PROCESSORS: u32 = 65_536;

/// Whether a late result is worth anything. (LibraSLA 2005, section 3)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineType {
    /// A late result is useless.
    #[default]
    Hard,
    /// A late result is compensated: the penalty rate for each second of delay.
    Soft,
}

/// The terms of one job: what is promised to whom.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Terms {
    /// Run time in seconds of one slot on a processor of its own of a reference node (rating 1.0).
    pub estimate: f64,
    /// Seconds after submission by which the job must be finished.
    pub deadline: f64,
    /// Most that the user will pay, in credits; infinite where the user said `unlimited`.
    #[serde(with = "budget_or_unlimited")]
    pub budget: f64,
    /// Hard or soft.
    #[serde(default)]
    pub deadline_type: DeadlineType,
    /// Credits paid back per second of delay of a soft job.
    #[serde(default)]
    pub penalty_rate: f64,
    /// What kind of a promise it is.
    #[serde(default, skip_serializing_if = "Class::is_default")]
    pub class: Class,
}

impl Terms {
    /// Hard terms without a penalty.
    pub fn hard(estimate: f64, deadline: f64, budget: f64) -> Terms {
        Terms {
            estimate,
            deadline,
            budget,
            deadline_type: DeadlineType::Hard,
            penalty_rate: 0.0,
            class: Class::Deadline,
        }
    }

    /// Returns true if there is a deadline: the longest that is taken stands for none, of classes that need none.
    pub fn has_deadline(&self) -> bool {
        self.deadline < LONGEST
    }

    /// Returns true if it is promised to end by a deadline.
    pub fn promises_end(&self) -> bool {
        self.class != Class::BestEffort && self.has_deadline()
    }

    /// Returns true if its class needs no deadline and it has none: of others the longest that is taken is one.
    pub fn lacks_deadline(&self) -> bool {
        !self.has_deadline() && !self.class.needs().contains(&"deadline")
    }

    /// Seconds until its deadline, so many after its submission; not positive once it has passed. Without a deadline there is none then either.
    pub fn deadline_after(&self, elapsed: f64) -> f64 {
        match self.lacks_deadline() {
            true => self.deadline,
            false => self.deadline - elapsed,
        }
    }

    /// Seconds after its submission by which it is to be over: its deadline, or where it has none its estimate, since it runs at full speed.
    pub fn expected_end(&self) -> f64 {
        match self.lacks_deadline() {
            true => self.estimate,
            false => self.deadline,
        }
    }

    /// Returns true if there is an estimate: the longest that is taken stands for none, of classes that need none.
    pub fn has_estimate(&self) -> bool {
        self.estimate < LONGEST
    }

    /// Returns true if a promise of these terms is one under a condition: the deadline is shorter than the estimate on a node of this
    /// rating, so the job ends in time only if it needs less than it says.
    pub fn are_conditional(&self, rating: f64) -> bool {
        // What is promised nothing is under no condition.
        let promised = self.class != Class::BestEffort;
        promised && self.estimate > self.deadline * rating * (1.0 + TOLERANCE)
    }

    /// What the job brings if it ends `delay` seconds late, credits: the budget less the penalty,
    /// unbounded below (LibraSLA 2005, formula 1).
    pub fn utility(&self, delay: f64) -> f64 {
        self.budget - delay.max(0.0) * self.penalty_rate
    }

    /// Return with that delay: utility / estimate / deadline (LibraSLA 2005, formula 5).
    pub fn return_with_delay(&self, delay: f64) -> f64 {
        self.utility(delay) / self.estimate / self.deadline
    }

    /// Return without delay; ranks the jobs of a node.
    pub fn full_return(&self) -> f64 {
        self.return_with_delay(0.0)
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first field that is out of range, with its value and what was expected.
    pub fn check(&self) -> Result<(), OutOfRange> {
        for (field, value) in [("estimate", self.estimate), ("deadline", self.deadline)] {
            if !(SHORTEST..=LONGEST).contains(&value) {
                return Err(OutOfRange {
                    field,
                    value,
                    expected: "seconds, from 0.001 to 10000000000",
                });
            }
        }
        let unlimited = self.budget == f64::INFINITY;
        if !unlimited && !(0.0..=LARGEST_AMOUNT).contains(&self.budget) {
            return Err(OutOfRange {
                field: "budget",
                value: self.budget,
                expected: "credits, from 0 to 1e15, or the word 'unlimited'",
            });
        }
        if !(0.0..=LARGEST_AMOUNT).contains(&self.penalty_rate) {
            return Err(OutOfRange {
                field: "penalty_rate",
                value: self.penalty_rate,
                expected: "credits per second of delay, from 0 to 1e15",
            });
        }
        Ok(())
    }
}

/// The shape of one job: `chunks` chunks of `processors_per_chunk` slots each, as PBS and Slurm
/// ask for them. A chunk sits on one node; a slot is one processor's worth of the job and can
/// never use more than 1.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Shape {
    /// Number of chunks, 1 to 65,536.
    pub chunks: u32,
    /// Slots in each chunk, 1 to 65,536.
    pub processors_per_chunk: u32,
    /// Memory of each chunk in bytes; 0 asks for none.
    #[serde(default)]
    pub memory_per_chunk: u64,
    /// No two chunks on one node.
    #[serde(default)]
    pub scatter: bool,
    /// What else each chunk uses up on its node, and the job of what the whole cluster has.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub consumables: Amounts,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            chunks: 1,
            processors_per_chunk: 1,
            memory_per_chunk: 0,
            scatter: false,
            consumables: Amounts::NONE,
        }
    }
}

impl Shape {
    /// All slots of the job: the papers' numproc.
    pub fn slots(&self) -> u64 {
        u64::from(self.chunks) * u64::from(self.processors_per_chunk)
    }

    /// Checks both counts against their ranges.
    ///
    /// # Errors
    /// The first count that is out of range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        for (field, value, most) in [
            ("chunks", self.chunks, MOST_CHUNKS),
            (
                "processors_per_chunk",
                self.processors_per_chunk,
                MOST_PROCESSORS,
            ),
        ] {
            if value == 0 || value > most {
                return Err(OutOfRange {
                    field,
                    value: f64::from(value),
                    expected: "a whole number from 1 to 65536",
                });
            }
        }
        Ok(())
    }
}

/// One submission: its terms and its shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Request {
    /// What is promised.
    pub terms: Terms,
    /// What it is promised for.
    #[serde(default)]
    pub shape: Shape,
}

impl Request {
    /// A job of one slot.
    pub fn single(terms: Terms) -> Request {
        Request {
            terms,
            shape: Shape::default(),
        }
    }

    /// Checks terms and shape.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.terms.check()?;
        self.shape.check()
    }
}

/// A value outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OutOfRange {
    /// The field, as users write it.
    pub field: &'static str,
    /// What was given.
    pub value: f64,
    /// Unit and range.
    pub expected: &'static str,
}

/// JSON has no infinity, and a number that stands for 'no limit' is misread sooner or later.
mod budget_or_unlimited {
    use serde::de::{Deserializer, Error, Unexpected, Visitor};
    use serde::ser::Serializer;
    use std::fmt;

    pub fn serialize<S: Serializer>(budget: &f64, to: S) -> Result<S::Ok, S::Error> {
        if *budget == f64::INFINITY {
            to.serialize_str("unlimited")
        } else {
            to.serialize_f64(*budget)
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        struct Budget;
        impl Visitor<'_> for Budget {
            type Value = f64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("credits or 'unlimited'")
            }
            fn visit_i64<E: Error>(self, credits: i64) -> Result<f64, E> {
                Ok(credits as f64)
            }
            fn visit_u64<E: Error>(self, credits: u64) -> Result<f64, E> {
                Ok(credits as f64)
            }
            fn visit_f64<E: Error>(self, credits: f64) -> Result<f64, E> {
                Ok(credits)
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<f64, E> {
                match word {
                    "unlimited" => Ok(f64::INFINITY),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }
        }
        from.deserialize_any(Budget)
    }
}
