//! What is committed to a Slurm job, in its admin comment, with the tasks of an array.
//!
//! `libra:` and the line of [`libra_core::commitment`]; an array has `:tasks=1-3,7` behind it, so that every task finds its own part of
//! the plan when others have left the array already.
//!
//! What another plugin has put into the admin comment stays there, and stands first: `its own words|libra:…` ([`split`]).

use libra_batch::server::suspended::GoingOn;
use libra_core::commitment::{Commitment, CommitmentError};
use libra_units::indices;
use libra_wording::errors;

/// What the admin comment of a job with a commitment begins with.
pub const PREFIX: &str = "libra:";

/// That of one that gave it back when it was held ([`super::held`]); what was committed to it before stands behind it.
pub const HELD: &str = "libra-held:";

/// That of one whose promise was given back for good, which runs without one if it runs; what was committed to it before stands behind it.
pub const NOTHING: &str = "libra-nothing:";

/// Returns true if this admin comment is Libra's own.
pub fn is_ours(comment: &str) -> bool {
    [PREFIX, HELD, NOTHING]
        .iter()
        .any(|prefix| comment.starts_with(prefix))
}

/// Between what others have in an admin comment and Libra's own: without blanks, so that what `scontrol` prints of it is one word.
const BESIDE: &str = "|";

/// What others have in an admin comment, and Libra's own; either may be empty.
pub fn split(comment: &str) -> (&str, &str) {
    if is_ours(comment) {
        return ("", comment);
    }
    match comment.rsplit_once(BESIDE) {
        Some((theirs, ours)) if is_ours(ours) => (theirs, ours),
        _ => (comment, ""),
    }
}

/// What others have in the admin comment of a job that comes, without what would be taken for Libra's own.
pub fn only_theirs(mut comment: &str) -> &str {
    loop {
        match split(comment) {
            (theirs, "") => return theirs,
            (theirs, _) => comment = theirs,
        }
    }
}

/// An admin comment of both.
pub fn beside(theirs: &str, ours: &str) -> String {
    match theirs.is_empty() {
        true => ours.to_string(),
        false => format!("{theirs}{BESIDE}{ours}"),
    }
}

/// In a line: its promise is deferred, see [`super::waiting`].
const DEFERRED: &str = ":deferred=1:";

/// Returns true if this admin comment is of a deferred promise, without reading all of it.
pub fn is_deferred(comment: &str) -> bool {
    comment.starts_with(PREFIX) && comment.contains(DEFERRED)
}

/// The token that a job's environment names, where it is not the one on record: the first that it had.
pub fn first_token(comment: &str) -> Option<u64> {
    let (_, was) = comment.rsplit_once(":was=")?;
    was.split(':').next()?.parse().ok()
}

/// In such a line, behind all that is committed.
const GOES_ON_BY: &str = ":goes-on-by=";

/// Behind that.
const LATE: &str = ":late=1";

/// Behind all that is committed to one that has gone on, until its nodes certainly know.
const WENT_ON: &str = ":went-on=1";

/// What an admin comment says of when its job goes on; None for one that nobody lets stand still.
pub fn going_on_by(comment: &str) -> Option<GoingOn> {
    let (_, mark) = comment.rsplit_once(GOES_ON_BY)?;
    let by: f64 = mark.split(':').next()?.parse().ok()?;
    (by.is_finite() && by >= 0.0).then_some(GoingOn {
        by,
        late: mark.ends_with(LATE),
    })
}

/// What is committed in an admin comment of Libra's, and nothing of whether its job goes on.
fn unmarked(comment: &str) -> &str {
    let bare = (comment.rsplit_once(GOES_ON_BY)).map_or(comment, |(bare, _)| bare);
    bare.strip_suffix(WENT_ON).unwrap_or(bare)
}

/// An admin comment of a job that has gone on, and whose nodes may not have heard so.
pub fn gone_on(comment: &str) -> String {
    format!("{}{WENT_ON}", unmarked(comment))
}

/// Whether one says that.
pub fn has_gone_on(comment: &str) -> bool {
    comment.ends_with(WENT_ON)
}

/// An admin comment of Libra's, with when its job goes on or with nothing about that.
pub fn going_on(comment: &str, mark: Option<GoingOn>) -> String {
    let bare = unmarked(comment);
    match mark {
        None => bare.to_string(),
        Some(GoingOn { by, late }) => {
            format!("{bare}{GOES_ON_BY}{by}{}", if late { LATE } else { "" })
        }
    }
}

/// Tasks of an array that one record stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayTasks {
    /// Number of the array.
    pub array: u32,
    /// Indices, ascending: one, or all that wait.
    pub tasks: Vec<u32>,
}

/// Why a line does not say what is committed to a job.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotCommitted {
    /// What is committed.
    #[error("{}", errors::not_committed(.0))]
    Commitment(CommitmentError),
    /// The tasks of an array.
    #[error("{}", errors::unreadable(.0))]
    Tasks(String),
    /// The tasks do not ascend.
    #[error("{}", errors::unreadable("its tasks do not ascend"))]
    Order,
}

/// What is committed, and to which tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct JobCommitment {
    /// What is committed.
    pub commitment: Commitment,
    /// Indices of an array, ascending; empty for a job that is none.
    pub tasks: Vec<u32>,
}

impl JobCommitment {
    /// As one line, for the nodes.
    pub fn line(&self) -> String {
        self.with_tasks(self.commitment.line())
    }

    /// The text for the admin comment of a job that had another commitment before, under the token `was`: its environment names that one.
    pub fn comment_after(&self, was: u64) -> String {
        let line = self.with_tasks(format!("{}:was={was}", self.commitment.line()));
        format!("{PREFIX}{line}")
    }

    fn with_tasks(&self, line: String) -> String {
        match self.tasks.is_empty() {
            true => line,
            false => format!("{line}:tasks={}", indices::show(&self.tasks)),
        }
    }

    /// The text for the admin comment.
    pub fn comment(&self) -> String {
        format!("{PREFIX}{}", self.line())
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is missing in it or cannot be read.
    pub fn parse_line(line: &str) -> Result<JobCommitment, NotCommitted> {
        let tasks = line
            .rsplit(':')
            .next()
            .and_then(|last| last.strip_prefix("tasks="));
        let tasks = match tasks {
            None => Vec::new(),
            Some(tasks) => indices::parse(tasks).map_err(NotCommitted::Tasks)?,
        };
        if !tasks.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(NotCommitted::Order);
        }
        let commitment = Commitment::parse(line).map_err(NotCommitted::Commitment)?;
        Ok(JobCommitment { commitment, tasks })
    }

    /// Reads an admin comment; None if it is not about a commitment.
    pub fn parse(comment: &str) -> Option<Result<JobCommitment, NotCommitted>> {
        comment.strip_prefix(PREFIX).map(JobCommitment::parse_line)
    }

    /// Which part of the plan is a task's, counted from 0.
    pub fn number_of(&self, task: u32) -> u32 {
        let found = self.tasks.binary_search(&task).unwrap_or(0);
        u32::try_from(found).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_stands_in_the_line() {
        let line = "v=1:token=17:submitted=1:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
                    chunks=1:processors=1:memory=0:scatter=0:count=3:deferred=1:at=n1*3*0.525:tasks=1-3";
        assert!(is_deferred(&format!("{PREFIX}{line}")) && !is_deferred(line));
        let mut job = JobCommitment::parse_line(line).expect("read");
        job.commitment.deferred = false;
        let comment = job.comment_after(9);
        assert!(comment.ends_with(":was=9:tasks=1-3") && !is_deferred(&comment));
        assert_eq!(first_token(&comment), Some(9));
        assert_eq!(JobCommitment::parse(&comment), Some(Ok(job)));
    }

    #[test]
    fn when_it_goes_on_stands_behind_it_and_is_taken_out_again() {
        let line = "v=1:token=17:submitted=1:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
                    chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*1";
        for was in ["", ":was=9"] {
            let bare = format!("{PREFIX}{line}{was}");
            for late in [false, true] {
                let mark = Some(GoingOn {
                    by: 1700000000.25,
                    late,
                });
                let marked = going_on(&bare, mark);
                assert_eq!(going_on_by(&marked), mark);
                assert_eq!(going_on(&marked, mark), marked);
                assert_eq!(going_on(&marked, None), bare);
                assert_eq!(JobCommitment::parse(&marked), JobCommitment::parse(&bare));
                assert_eq!(first_token(&marked), first_token(&bare));
                let gone = gone_on(&marked);
                assert!(has_gone_on(&gone) && !has_gone_on(&marked));
                assert_eq!(gone_on(&gone), gone);
                assert_eq!(going_on_by(&gone), None);
                assert_eq!(going_on(&gone, mark), marked);
                assert_eq!(going_on(&gone, None), bare);
                assert_eq!(JobCommitment::parse(&gone), JobCommitment::parse(&bare));
                assert_eq!(first_token(&gone), first_token(&bare));
            }
            assert_eq!(going_on_by(&bare), None);
            assert_eq!(going_on_by(&format!("{bare}:goes-on-by=NaN")), None);
        }
    }

    #[test]
    fn what_others_have_in_it_stands_before_it() {
        for theirs in ["", "quota=5", "a | b", "libraries: c", "JS1:x|y|"] {
            for ours in ["libra:v=1:at=n1*1*0.5", "libra-held:x", "libra-nothing:x"] {
                let both = beside(theirs, ours);
                assert_eq!(split(&both), (theirs, ours), "{both}");
                assert_eq!(only_theirs(&both), theirs, "{both}");
            }
            assert_eq!((split(theirs), only_theirs(theirs)), ((theirs, ""), theirs));
        }
        // Nobody is given a promise by what a plugin has copied from a user.
        assert_eq!(only_theirs("x|libra:v=1|libra:v=2"), "x");
        assert_eq!(only_theirs("libra:v=1|libra:v=2"), "");
        assert_eq!(split("x|libra:v=1|y"), ("x|libra:v=1|y", ""));
    }

    #[test]
    fn tasks_ascend() {
        let of = |tasks: &str| {
            format!(
                "libra:v=1:token=17:submitted=1:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
                 chunks=1:processors=1:memory=0:scatter=0:count=3:at=n1*3*0.525:tasks={tasks}"
            )
        };
        let job = JobCommitment::parse(&of("1-2,7"))
            .expect("ours")
            .expect("read");
        assert_eq!([1, 2, 7].map(|task| job.number_of(task)), [0, 1, 2]);
        // A task would find the part of another.
        for tasks in ["7,1-2", "1,1,2", ""] {
            let read = JobCommitment::parse(&of(tasks)).expect("ours");
            assert!(read.is_err(), "{tasks}");
        }
    }
}
