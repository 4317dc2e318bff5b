//! What a job claims to be committed to it, held against slurmctld's own record of it.
//!
//! A prolog is told what is committed by its environment, and users can write into that: by libslurm's own call at the submission,
//! and with every step that they start themselves. So the environment only says that there is something to ask for. What counts
//! is the admin comment of this very job, which slurmctld lets nobody but Slurm's administrators write, and which names neither a
//! job nor a user because it is found by them.

use super::array::{HELD, NOTHING, PREFIX, first_token, going_on, is_deferred};
use std::time::Duration;

/// What slurmctld has on record of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerRecord {
    /// There is no such job.
    Unknown,
    /// A job.
    Job(JobRecord),
}

/// A job of slurmctld's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// User number of its owner.
    pub user: u32,
    /// Nodes that it has, 0 where it waits.
    pub nodes: u32,
    /// How many of them come before the one that asks.
    pub before: u32,
    /// It has the node that asks, and is not over but for its epilogs.
    pub is_here: bool,
    /// It is about to run, or runs, or is suspended: neither waiting nor over.
    pub is_running: bool,
    /// Slurm has suspended it.
    pub is_suspended: bool,
    /// Its admin comment, empty for none.
    pub admin_comment: String,
}

impl JobRecord {
    /// Returns true if it was held, or its promise was deferred, and it is asked anew just now.
    pub fn is_undecided(&self) -> bool {
        let comment = &self.admin_comment;
        self.is_running && (comment.starts_with(HELD) || is_deferred(comment))
    }
}

impl ControllerRecord {
    /// Returns true if slurmctld has this job on the node that asked.
    pub fn is_here(&self) -> bool {
        matches!(self, ControllerRecord::Job(job) if job.is_here)
    }

    /// As text, for the way from one process to another.
    pub fn to_text(&self) -> String {
        match self {
            ControllerRecord::Unknown => "unknown\n".to_string(),
            ControllerRecord::Job(job) => format!(
                "job {} {} {} {} {} {}\n{}",
                job.user,
                job.nodes,
                job.before,
                u8::from(job.is_here),
                u8::from(job.is_running),
                u8::from(job.is_suspended),
                job.admin_comment
            ),
        }
    }

    /// From [`ControllerRecord::to_text`]; None for anything else.
    pub fn from_text(text: &str) -> Option<ControllerRecord> {
        let (head, comment) = text.split_once('\n')?;
        let words: Vec<&str> = head.split(' ').collect();
        match words[..] {
            ["unknown"] => Some(ControllerRecord::Unknown),
            [
                "job",
                user,
                nodes,
                before,
                is_here,
                is_running,
                is_suspended,
            ] => Some(ControllerRecord::Job(JobRecord {
                user: user.parse().ok()?,
                nodes: nodes.parse().ok()?,
                before: before.parse().ok()?,
                is_here: is_here == "1",
                is_running: is_running == "1",
                is_suspended: is_suspended == "1",
                admin_comment: comment.to_string(),
            })),
            _ => None,
        }
    }
}

/// Asks slurmctld for a job by its number, for no longer than so; None if it does not answer in time.
pub type Ask<'a> = &'a dyn Fn(u32, Duration) -> Option<ControllerRecord>;

/// The same by those whose time is settled.
pub type Records<'a> = &'a dyn Fn(u32) -> Option<ControllerRecord>;

/// What was committed to a job, by its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// See [`libra_core::commitment`].
    pub line: String,
    /// Nodes that the job has, at least 1.
    pub nodes: u32,
    /// How many of them come before this one.
    pub before: u32,
    /// Something else was claimed: what to say of it.
    pub other: Option<String>,
}

/// What becomes of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It was committed to this job.
    Commitment(Committed),
    /// Nothing was: why it is not believed.
    Unrecorded(String),
    /// It gave back its commitment, or has none yet, and has no share now: why.
    GivenBack(String),
    /// The job is over already.
    Over,
    /// Nobody can say.
    Unknown(String),
}

/// Looks a claim up. `name`: Slurm's number of the job; `claimed`: the line that its environment has, if there is one to compare.
pub fn look_up(name: &str, user: u32, claimed: Option<&str>, ask: Records<'_>) -> Claim {
    let record = match name.parse().map(ask) {
        Err(_) => return Claim::Unknown(format!("'{name}' is not the number of a job")),
        Ok(None) => {
            return Claim::Unknown(
                "slurmctld did not say in time what is committed to it; see that it answers this node ('scontrol ping')"
                    .to_string(),
            );
        }
        Ok(Some(ControllerRecord::Unknown)) => {
            return Claim::Unrecorded("slurmctld knows no such job".to_string());
        }
        Ok(Some(ControllerRecord::Job(record))) => record,
    };
    if record.user == user && (record.is_undecided() || record.admin_comment.starts_with(NOTHING)) {
        return Claim::GivenBack(
            "its promise was given back, and it has no share since".to_string(),
        );
    }
    // When it is to go on says nothing of what is committed.
    let comment = going_on(&record.admin_comment, None);
    let Some(line) = comment.strip_prefix(PREFIX) else {
        return Claim::Unrecorded(
            "slurmctld has no record that anything was committed to it".to_string(),
        );
    };
    if record.user != user {
        return Claim::Unrecorded(format!(
            "it is a job of user {user} here and of user {} in slurmctld's records",
            record.user
        ));
    }
    if !record.is_running {
        return Claim::Over;
    }
    Claim::Commitment(Committed {
        line: line.to_string(),
        nodes: record.nodes.max(1),
        before: record.before,
        other: (claimed.is_some_and(|claimed| !is_of(claimed, line))).then(|| {
            "its environment says something else than slurmctld's records, which count".to_string()
        }),
    })
}

/// Returns true if this line is the one on record, or the one committed to this job before it was held.
fn is_of(claimed: &str, line: &str) -> bool {
    let token = |pair: &str| pair.strip_prefix("token=")?.parse().ok();
    claimed == line
        || first_token(line)
            .is_some_and(|was| claimed.split(':').any(|pair| token(pair) == Some(was)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(comment: &str) -> JobRecord {
        JobRecord {
            user: 1000,
            nodes: 2,
            before: 1,
            is_here: true,
            is_running: true,
            is_suspended: false,
            admin_comment: comment.to_string(),
        }
    }

    #[test]
    fn only_the_record_of_this_job_counts() {
        let with = |record: JobRecord| move |_: u32| Some(ControllerRecord::Job(record.clone()));
        let commitment =
            |line: &str, other: bool| match look_up("12", 1000, Some("x"), &with(record(line))) {
                Claim::Commitment(Committed {
                    line,
                    nodes: 2,
                    before: 1,
                    other: said,
                }) => said.is_some() == other && line == "x",
                _ => false,
            };
        assert!(commitment("libra:x", false));
        let Claim::Commitment(Committed { line, other, .. }) =
            look_up("12", 1000, Some("forged"), &with(record("libra:x")))
        else {
            panic!("the record counts");
        };
        assert_eq!((line.as_str(), other.is_some()), ("x", true));
        for (user, record) in [
            (1000, record("")),
            (1000, record("a comment of the administrator's")),
            (1000, record(" libra:x")),
            (1001, record("libra:x")),
            (0, record("libra:x")),
        ] {
            let claim = look_up("12", user, Some("x"), &with(record));
            assert!(matches!(claim, Claim::Unrecorded(_)), "{claim:?}");
        }
        let over = JobRecord {
            is_running: false,
            ..record("libra:x")
        };
        assert_eq!(look_up("12", 1000, Some("x"), &with(over)), Claim::Over);
        let unknown = look_up("12", 1000, Some("x"), &|_| Some(ControllerRecord::Unknown));
        assert!(matches!(unknown, Claim::Unrecorded(_)));
        let silent = look_up("12", 1000, Some("x"), &|_| None);
        assert!(matches!(silent, Claim::Unknown(_)));
        let no_number = look_up("12_3", 1000, Some("x"), &with(record("libra:x")));
        assert!(matches!(no_number, Claim::Unknown(_)));
    }

    #[test]
    fn a_commitment_of_before_a_hold_is_no_forgery_and_no_promise() {
        let with = |record: JobRecord| move |_: u32| Some(ControllerRecord::Job(record.clone()));
        let anew = "libra:v=1:token=9:at=n1*1*0.5:was=4";
        let task = "libra:v=1:token=9:at=n1*2*0.5:was=4:tasks=1-2";
        for (anew, claimed, forged) in [
            (anew, "v=1:token=4:at=n1*1*0.4", false),
            (anew, "v=1:token=5:at=n1*1*0.4", true),
            (task, "v=1:token=4:at=n1*2*0.4:tasks=1-2", false),
        ] {
            let claim = look_up("12", 1000, Some(claimed), &with(record(anew)));
            let Claim::Commitment(Committed { other, .. }) = claim else {
                panic!("{claim:?}");
            };
            assert_eq!(other.is_some(), forged, "{claimed}");
        }
        for comment in [
            "libra-held:v=1:token=4",
            "libra-nothing:v=1:token=4",
            "libra:v=1:token=4:deferred=1:at=n1*1*0.4",
        ] {
            let claim = look_up("12", 1000, Some("v=1:token=4"), &with(record(comment)));
            assert!(matches!(claim, Claim::GivenBack(_)), "{claim:?}");
            assert_eq!(
                record(comment).is_undecided(),
                !comment.starts_with("libra-nothing")
            );
            let others = look_up("12", 1001, Some("v=1:token=4"), &with(record(comment)));
            assert!(matches!(others, Claim::Unrecorded(_)), "{others:?}");
        }
    }

    #[test]
    fn a_record_survives_its_way() {
        let suspended = JobRecord {
            is_suspended: true,
            ..record("libra:x")
        };
        for record in [
            ControllerRecord::Unknown,
            ControllerRecord::Job(suspended),
            ControllerRecord::Job(record("")),
            ControllerRecord::Job(record("libra:v=1:a=b\nmore é")),
        ] {
            assert_eq!(ControllerRecord::from_text(&record.to_text()), Some(record));
        }
        for text in ["", "job", "job 1 2 3\n", "job x 1 1 1\n", "no\n", "unknown"] {
            assert_eq!(ControllerRecord::from_text(text), None, "{text}");
        }
    }
}
