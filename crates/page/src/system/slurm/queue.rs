//! What `squeue` and `scontrol` say of jobs. Pure, but for the calls themselves.

use super::super::Problem;
use super::super::command::{Call, Output};
use super::super::job::JobSummary;
use super::super::own::{JobStatus, settle};
use super::said;
use libra_core::commitment::Commitment;
use std::collections::BTreeMap;

/// Columns that are asked for, and how wide they are: with these no value can be taken for another's.
const COLUMNS: [(&str, usize); 7] = [
    ("JobArrayID", 60),
    ("State", 24),
    ("SubmitTime", 24),
    ("EndTime", 24),
    ("NodeList", 200),
    (COMMENT[0], 1000),
    ("Name", 200),
];

/// The administrator's comment, which has what is committed: its name in squeue's options, by version.
const COMMENT: [&str; 2] = ["admin_comment", "AdminComment"];

/// The user's jobs, a line each, in [`COLUMNS`].
pub fn list() -> Result<Output, Problem> {
    let ask = |comment: &str| {
        let columns = COLUMNS
            .iter()
            .map(|(name, width)| match *name == COMMENT[0] {
                true => format!("{comment}:{width}"),
                false => format!("{name}:{width}"),
            });
        Call::new("squeue")
            .args(["--noheader", "--states=all"])
            .arg(format!("--user={}", nix::unistd::getuid()))
            .arg(format!(
                "--Format={}",
                columns.collect::<Vec<_>>().join(",")
            ))
            .variable("SLURM_TIME_FORMAT", "%s")
            .run()
    };
    for comment in COMMENT {
        let done = ask(comment)?;
        if !done.is_success() {
            return Err(said(&done));
        }
        // Leaves out a column that it does not know, and goes on.
        if !done.err.contains("Invalid job format") {
            return Ok(done);
        }
    }
    Err(Problem::new(
        "this squeue does not show the administrator's comment, in which Libra's terms are",
    ))
}

/// A job's fields as `scontrol show job` prints them, each on a line or several on one; of an array, those of the first.
pub fn fields(id: &str) -> Result<BTreeMap<String, String>, Problem> {
    let call = Call::new("scontrol").args(["show", "job", array_or(id)]);
    let done = call.run()?;
    if !done.is_success() {
        return Err(said(&done));
    }
    let mut fields = BTreeMap::new();
    let first = done.out.split("\n\n").next().unwrap_or_default();
    for line in first.lines() {
        let line = line.trim();
        // Paths and names have a line of their own, blanks and all.
        let whole = [
            "StdOut=",
            "StdErr=",
            "WorkDir=",
            "Command=",
            "AdminComment=",
            "Comment=",
        ];
        let words: Vec<&str> = match whole.iter().any(|key| line.starts_with(key)) {
            true => vec![line],
            false => line.split(' ').collect(),
        };
        for (key, value) in words.iter().filter_map(|word| word.split_once('=')) {
            fields
                .entry(key.to_string())
                .or_insert_with(|| value.to_string());
        }
    }
    Ok(fields)
}

/// States that a job does not leave by itself; requeued jobs, held ones and whatever else there is will go on.
const FINAL: [&str; 10] = [
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
];

pub fn is_live(state: &str) -> bool {
    !state.is_empty() && !FINAL.contains(&state)
}

/// `7` of `7`, `7_3` and `7_[4-9%2]`.
pub fn array_of(id: &str) -> &str {
    id.split('_').next().unwrap_or_default()
}

/// Those of an array that have not begun are one job to squeue: `7_[4-9%2]`, and another id each time one of them begins.
pub fn is_rest_of_array(id: &str) -> bool {
    id.contains('[')
}

/// What Slurm's commands take for it: the array, for those of it that have not begun.
pub fn array_or(id: &str) -> &str {
    match is_rest_of_array(id) {
        true => array_of(id),
        false => id,
    }
}

/// `00:01:30`, `1-02:03:04`, in seconds.
pub fn seconds(text: &str) -> Option<f64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let mut sum = days.parse::<u32>().ok().map(f64::from)? * 24.0;
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = <[&str; 3]>::try_from(parts).ok()?;
    sum += hours.parse::<u32>().ok().map(f64::from)?;
    sum = sum * 60.0 + minutes.parse::<u32>().ok().map(f64::from)?;
    Some(sum * 60.0 + seconds.parse::<u32>().ok().map(f64::from)?)
}

/// What is committed to a job, by its admin comment.
pub fn commitment(comment: &str) -> Option<Commitment> {
    // What another plugin has in it stands before it.
    let beside = || Some(comment.rsplit_once("|libra:")?.1);
    Commitment::parse(comment.strip_prefix("libra:").or_else(beside)?).ok()
}

pub fn job_of_line(line: &str, status: &BTreeMap<String, JobStatus>, now: f64) -> JobSummary {
    let mut rest: Vec<char> = line.chars().collect();
    let mut values = Vec::new();
    for (_, width) in COLUMNS {
        let after = rest.split_off(width.min(rest.len()));
        values.push(rest.into_iter().collect::<String>().trim().to_string());
        rest = after;
    }
    let [id, state, submitted, ended, nodes, comment, name] =
        <[String; 7]>::try_from(values).unwrap_or_default();
    let live = is_live(&state);
    let mut job = JobSummary {
        key: id.clone(),
        name,
        state: state.to_lowercase(),
        live,
        node: nodes,
        submitted: submitted.parse().ok(),
        ..JobSummary::default()
    };
    let commitment = commitment(&comment);
    let ended = ended.parse().ok().filter(|_| !live);
    settle(&mut job, commitment.as_ref(), status.get(&id), ended, now);
    job.id = id;
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::job::Outcome;

    #[test]
    fn a_line_of_squeue_is_read_by_its_columns() {
        let commitment = "libra:v=1:token=1:submitted=1000:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
                    chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.525";
        let values = [
            "7",
            "COMPLETED",
            "1000",
            "1015",
            "n1",
            commitment,
            "a name UserId=root",
        ];
        let line: String = COLUMNS
            .iter()
            .zip(values)
            .map(|((_, width), value)| format!("{value:<width$}"))
            .collect();
        let job = job_of_line(&line, &BTreeMap::new(), 2000.0);
        assert_eq!(job.name, "a name UserId=root");
        assert_eq!(
            (job.id.as_str(), job.outcome, job.in_time),
            ("7", Some(Outcome::Finished), Some(true))
        );
        assert_eq!(
            (job.price, job.elapsed, job.deadline),
            (Some(10.5), Some(15.0), Some(20.0))
        );
        assert!(!job.live);
        let odd = job_of_line("", &BTreeMap::new(), 0.0);
        assert_eq!(odd.id, "");
    }

    #[test]
    fn run_times_are_read() {
        assert_eq!(seconds("00:01:30"), Some(90.0));
        assert_eq!(seconds("1-02:03:04"), Some(93_784.0));
        for odd in ["", "INVALID", "1:2", "-1:00:00", "1:2:3:4", "1-"] {
            assert_eq!(seconds(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_has_not_ended_for_good_is_live() {
        for state in [
            "PENDING",
            "REQUEUE_HOLD",
            "SPECIAL_EXIT",
            "RESV_DEL_HOLD",
            "REQUEUE_FED",
            "COMPLETING",
        ] {
            assert!(is_live(state), "{state}");
        }
        for state in ["COMPLETED", "CANCELLED", "DEADLINE", "OUT_OF_MEMORY", ""] {
            assert!(!is_live(state), "{state}");
        }
    }
}
