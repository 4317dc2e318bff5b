//! What a site chooses of the gang rule, and what is asked and promised under it.

use crate::decision::job::{OutOfRange, Request, Shape};

/// Whether a job that runs may be suspended behind one that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Suspend {
    /// Where the memory of its nodes holds both.
    #[default]
    Memory,
    /// Never: who has started runs to its end.
    Never,
}

/// The gang rule as a site has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Who may be suspended.
    pub suspend: Suspend,
    /// Most jobs that have begun and not ended on one processor, running or suspended; None: as
    /// many as the memory of the node holds. At least 1.
    pub jobs_per_processor: Option<u32>,
    /// Part by which estimates are stretched for planning, 0 to 10.
    pub margin: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            suspend: Suspend::Memory,
            jobs_per_processor: None,
            margin: 0.0,
        }
    }
}

impl Rules {
    /// Most jobs of a rule.
    pub const MOST_JOBS: u32 = 65_536;

    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        if !(0.0..=10.0).contains(&self.margin) {
            return Err(OutOfRange {
                field: "estimate_margin",
                value: self.margin,
                expected: "a part of the estimate, from 0 to 10",
            });
        }
        match self.jobs_per_processor {
            Some(jobs) if !(1..=Rules::MOST_JOBS).contains(&jobs) => Err(OutOfRange {
                field: "jobs_per_processor",
                value: f64::from(jobs),
                expected: "jobs, from 1 to 65536",
            }),
            _ => Ok(()),
        }
    }
}

/// What is promised to a job that was accepted, in seconds of the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    /// When it will start as the plan stands. It may become sooner, and later up to `latest_start`.
    pub planned_start: f64,
    /// When it will have ended as the plan stands, if it needs what is planned for it.
    pub planned_end: f64,
    /// It starts by then: later, what is planned for it would not be done by `latest_end`.
    pub latest_start: f64,
    /// It ends by then: its deadline.
    pub latest_end: f64,
    /// Its estimate is longer than its deadline: kept only if it needs no more than the deadline.
    pub conditional: bool,
}

/// A job that the plan knows. Good until it has ended; then others get its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(super) u32);

/// One that was refused and waits for a promise. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// This job starts, on the processors that [`super::Gang::processors`] says.
    Start(JobId),
    /// This one is suspended, on all of its processors.
    Suspend(JobId),
    /// This one goes on where it was.
    Resume(JobId),
    /// What was refused can be promised now, and is.
    Promised(Ticket, JobId, Promise),
    /// What was refused can no longer be promised.
    Expired(Ticket),
}

/// What a job needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    pub shape: Shape,
    /// Seconds on a reference node as the user says.
    pub estimate: f64,
    /// Seconds from its submission.
    pub deadline: f64,
}

impl Demand {
    pub fn of(request: &Request) -> Demand {
        Demand {
            shape: request.shape,
            estimate: request.terms.estimate,
            deadline: request.terms.deadline,
        }
    }

    pub fn slots(&self) -> usize {
        self.shape.chunks as usize * self.shape.processors_per_chunk as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_named() {
        assert_eq!(Rules::default().check(), Ok(()));
        let check = |rules: Rules| rules.check().err().map(|error| error.field);
        for margin in [-0.1, 10.1, f64::NAN] {
            let rules = Rules {
                margin,
                ..Rules::default()
            };
            assert_eq!(check(rules), Some("estimate_margin"));
        }
        for jobs in [0, 65_537] {
            let rules = Rules {
                jobs_per_processor: Some(jobs),
                ..Rules::default()
            };
            assert_eq!(check(rules), Some("jobs_per_processor"));
        }
    }
}
