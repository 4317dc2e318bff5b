//! What is committed to a job, as a variable of its context.
//!
//! `libra=13:v=1:token=…`: the job's number, then the line of [`libra_core::commitment`]. A user cannot change the context of a job that is queued
//! (qmaster's `jsv_allowed_mod` is without `ac`), nor submit one with this variable (the verifier refuses it). `qresub` copies
//! contexts: the number tells a copy from the job that it was copied from.

use libra_core::commitment::{Commitment, CommitmentError};
use libra_wording::errors::not_committed;

/// Why a value is none of this job's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotIts {
    /// It begins with no number.
    #[error("its context has no number of a job before what is committed")]
    NoNumber,
    /// It was written for another job, of this number.
    #[error("its context is that of job {0}")]
    OtherJob(u32),
    /// No commitment.
    #[error("{}", not_committed(.0))]
    Commitment(CommitmentError),
}

/// A job, or a task of an array, as book and hosts call it: `13`, `13.2`.
pub fn name_of(job: u32, task: Option<u32>) -> String {
    match task {
        Some(task) => format!("{job}.{task}"),
        None => job.to_string(),
    }
}

/// The value of the variable.
pub fn write(job: u32, commitment: &Commitment) -> String {
    format!("{job}:{}", commitment.line())
}

/// Reads a value that job `job` has.
///
/// # Errors
/// Why nothing is committed to it by that.
pub fn read(job: u32, value: &str) -> Result<Commitment, NotIts> {
    let (number, line) = value.split_once(':').ok_or(NotIts::NoNumber)?;
    match number.parse::<u32>() {
        Ok(number) if number == job => Commitment::parse(line).map_err(NotIts::Commitment),
        Ok(number) => Err(NotIts::OtherJob(number)),
        Err(_) => Err(NotIts::NoNumber),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "v=1:token=17:submitted=1700000000.25:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
         chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.525";

    #[test]
    fn a_copy_is_told_from_its_job() {
        let commitment = Commitment::parse(LINE).expect("ours");
        let value = write(13, &commitment);
        assert_eq!(read(13, &value), Ok(commitment));
        assert_eq!(read(14, &value), Err(NotIts::OtherJob(13)));
        assert_eq!(read(13, LINE), Err(NotIts::NoNumber));
        assert_eq!(read(13, "libra"), Err(NotIts::NoNumber));
        assert!(matches!(read(13, "13:nothing"), Err(NotIts::Commitment(_))));
    }
}
