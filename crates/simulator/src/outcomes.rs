//! What became of every job, as CSV: one line a job, in the order in which it became known.
//!
//! | column | |
//! |---|---|
//! | `job` | number in the log |
//! | `policy` | name of the policy |
//! | `submit` | seconds since the first job of the workload, as all times |
//! | `decision` | `accepted`, `refused`, or `conditional`: accepted with a deadline shorter than its estimate |
//! | `reason` | category of the refusal; empty for others |
//! | `start`, `finish` | when it first ran and when it ended; empty where it did not run |
//! | `deadline` | by when it had to be finished |
//! | `met` | `yes` or `no` |
//! | `utility` | see [`utility`]; empty where the budget is unlimited |
//! | `cost` | price as committed, credits; empty where it did not run |
//! | `nodes` | those it ran on, counted from 0, such as `0-3;7` |
//!
//! Lines are written as they come; nothing is kept.

use super::measures::utility;
use super::{Fate, Observer, Outcome};
use std::fmt;
use std::io::{self, Write};

/// The first line.
pub const HEADER: &str =
    "job,policy,submit,decision,reason,start,finish,deadline,met,utility,cost,nodes";

/// Writes the outcomes of runs, one policy after the other.
///
/// Writing may fail where an [`Observer`] cannot say so: nothing is written after the first error,
/// which [`Outcomes::finish`] returns. Buffer the writer: each job is one small write.
#[derive(Debug)]
pub struct Outcomes<W: Write> {
    to: W,
    policy: &'static str,
    failed: Option<io::Error>,
}

impl<W: Write> Outcomes<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(mut to: W) -> io::Result<Outcomes<W>> {
        writeln!(to, "{HEADER}")?;
        Ok(Outcomes {
            to,
            policy: "",
            failed: None,
        })
    }

    /// The outcomes that follow are this policy's.
    pub fn of(&mut self, policy: &'static str) -> &mut Outcomes<W> {
        self.policy = policy;
        self
    }

    /// Gives the writer back, flushed.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush().map(|()| self.to),
        }
    }

    fn line(&mut self, outcome: &Outcome<'_>) -> io::Result<()> {
        let job = outcome.job;
        let to = &mut self.to;
        write!(to, "{},{},{},", job.number, self.policy, job.submit)?;
        match outcome.fate {
            Fate::Refused { reason, .. } => write!(to, "refused,{reason},,,")?,
            Fate::Ended { start, finish, .. } => {
                let decision = match job.conditional() {
                    true => "conditional",
                    false => "accepted",
                };
                write!(to, "{decision},,{start},{finish},")?;
            }
        }
        let met = if outcome.met() { "yes" } else { "no" };
        write!(to, "{},{met},", job.due())?;
        if let Some(worth) = utility(outcome) {
            write!(to, "{worth}")?;
        }
        match outcome.fate {
            Fate::Refused { .. } => writeln!(to, ",,"),
            Fate::Ended { price, nodes, .. } => writeln!(to, ",{price},{}", Ranges(nodes)),
        }
    }
}

impl<W: Write> Observer for Outcomes<W> {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        if self.failed.is_none() {
            self.failed = self.line(outcome).err();
        }
    }
}

/// Ascending numbers, neighbours as a range: `0-3;7`.
#[derive(Debug, Clone, Copy)]
pub struct Ranges<'a>(pub &'a [u32]);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a.checked_add(1) == Some(*b));
        for (place, run) in runs.enumerate() {
            let separator = if place == 0 { "" } else { ";" };
            match *run {
                [first, .., last] => write!(f, "{separator}{first}-{last}")?,
                [only] => write!(f, "{separator}{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, job, refused};
    use super::*;

    #[test]
    fn ranges() {
        for (numbers, text) in [
            (&[][..], ""),
            (&[4], "4"),
            (&[0, 1], "0-1"),
            (&[0, 1, 2, 3, 7], "0-3;7"),
            (&[1, 3, 5, 6, u32::MAX], "1;3;5-6;4294967295"),
        ] {
            assert_eq!(Ranges(numbers).to_string(), text);
        }
    }

    #[test]
    fn a_line_for_each_job() {
        let mut unlimited = job(2.0, 10.5, 20.0);
        unlimited.terms.budget = f64::INFINITY;
        unlimited.terms.estimate = 30.0;
        let jobs = [job(0.0, 10.0, 20.0), job(1.5, 10.0, 10.0), unlimited];
        let mut outcomes = Outcomes::new(Vec::new()).expect("memory");
        outcomes.of("fifo").outcome(&ended(&jobs[0], 0.0, 10.0));
        outcomes.outcome(&refused(&jobs[1], "share"));
        outcomes.of("edf").outcome(&ended(&jobs[2], 12.0, 22.5));
        outcomes.outcome(&ended(&jobs[1], 10.0, 20.0));
        let text = String::from_utf8(outcomes.finish().expect("memory")).expect("text");
        let expected = "\
job,policy,submit,decision,reason,start,finish,deadline,met,utility,cost,nodes
1,fifo,0,accepted,,0,10,20,yes,100,3,0
1,fifo,1.5,refused,share,,,11.5,no,0,,
1,edf,2,conditional,,12,22.5,22,no,,3,0
1,edf,1.5,accepted,,10,20,11.5,no,0,3,0
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_full_disk_is_said_at_the_end() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if self.0 < bytes.len() {
                    return Err(io::Error::from(io::ErrorKind::StorageFull));
                }
                self.0 -= bytes.len();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut outcomes = Outcomes::new(Full(HEADER.len() + 10)).expect("room for the header");
        let job = job(0.0, 10.0, 20.0);
        outcomes.of("fifo").outcome(&ended(&job, 0.0, 10.0));
        let error = outcomes.finish().err().map(|error| error.kind());
        assert_eq!(error, Some(io::ErrorKind::StorageFull));
    }
}
