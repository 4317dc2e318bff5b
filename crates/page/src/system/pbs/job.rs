//! A job as `qstat -f -F json` has it. Pure.

use super::super::command::Output;
use super::super::job::JobSummary;
use super::super::{Problem, ending};
use super::said;
use libra_core::commitment::Commitment;
use libra_system::clock::local_time;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is committed to a job, by its attributes.
pub fn commitment(attributes: &Value) -> Option<Commitment> {
    let line = attributes["Resource_List"]["libra_terms"].as_str()?;
    Commitment::parse(line.trim_matches('\'')).ok()
}

/// What its hosts have measured of a job: processor seconds of each slot, where it is the most. `{"n1": "12.5@1700000000.1"}`
pub fn used(attributes: &Value) -> Option<f64> {
    let progress = &attributes["resources_used"]["libra_progress"];
    let read = match progress {
        Value::String(text) => serde_json::from_str(text.trim_matches('\'')).ok()?,
        other => other.clone(),
    };
    let hosts = read.as_object()?.values().filter_map(Value::as_str);
    let used = hosts.filter_map(|text| text.split('@').next()?.parse::<f64>().ok());
    used.filter(|used| used.is_finite()).reduce(f64::max)
}

/// What qstat printed.
pub fn attributes_of(done: &Output) -> Result<BTreeMap<String, Value>, Problem> {
    let json: Value = serde_json::from_str(&done.out).map_err(|_| said(done))?;
    let jobs = json["Jobs"].as_object().into_iter().flatten();
    Ok(jobs.map(|(id, job)| (id.clone(), job.clone())).collect())
}

/// Of `12.server` and `12[].server`: later jobs have larger ones.
pub fn number(id: &str) -> u64 {
    let digits = id.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Its attributes for reading.
pub fn job_of(id: &str, attributes: &Value) -> JobSummary {
    let text = |key: &str| attributes[key].as_str().unwrap_or_default();
    let letter = text("job_state");
    let live = !matches!(letter, "F" | "X" | "M");
    let state = match letter {
        "Q" | "W" | "T" => "waits",
        "R" => "running",
        "H" => "held",
        "E" => "ending",
        "S" | "U" => "suspended",
        "B" => "array begun",
        // Ended by qdel, in the words of PBS's own states.
        _ if attributes["substate"] == 91 => "cancelled",
        // Ended by a limit of PBS, or by an operator without its host.
        _ if matches!(attributes["Exit_status"].as_i64(), Some(265 | 271)) => "cancelled",
        _ if attributes["Exit_status"] == 0 => "completed",
        _ if attributes["Exit_status"].is_i64() => "failed",
        _ => "ended",
    };
    let nodes = text("exec_host")
        .split('+')
        .map(|node| node.split('/').next().unwrap_or_default());
    let mut nodes: Vec<&str> = nodes.collect();
    nodes.dedup();
    JobSummary {
        key: id.to_string(),
        id: id.to_string(),
        name: text("Job_Name").to_string(),
        state: state.to_string(),
        live,
        node: nodes.join(" "),
        submitted: time(&attributes["ctime"]),
        ending: match attributes["Exit_status"].as_i64().filter(|_| !live) {
            Some(signal) if signal > 256 => ending::signal(signal - 256),
            // PBS's own: 'exceeded resource walltime'.
            Some(-29) => "PBS ended it, since it ran for longer than its walltime".to_string(),
            Some(code) => ending::exit_code(code),
            None => String::new(),
        },
        ..JobSummary::default()
    }
}

/// `server:/home/ann/job.o7`, as a path. A directory stands for the file that PBS makes in it.
pub fn output_of(attributes: &Value) -> Option<PathBuf> {
    let path = attributes["Output_Path"].as_str()?;
    let path = path
        .split_once(":/")
        .map_or(path, |(_, rest)| &path[path.len() - rest.len() - 1..]);
    let path = Path::new(path);
    path.is_absolute().then(|| path.to_path_buf())
}

/// A date, or a number.
pub fn time(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| local_time(value.as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_hosts_have_measured() {
        let of = |progress: Value| used(&json!({"resources_used": {"libra_progress": progress}}));
        assert_eq!(
            of(json!("'{\"n1\": \"4@1010\", \"n2\": \"5.5@1011@end@6\"}'")),
            Some(5.5)
        );
        assert_eq!(of(json!({"n1": "4@1010"})), Some(4.0));
        for odd in [
            json!(null),
            json!("x"),
            json!({"n1": "x@1"}),
            json!({"n1": 4}),
            json!({"n1": "inf@1"}),
        ] {
            assert_eq!(of(odd), None);
        }
    }

    #[test]
    fn a_job_of_qstat() {
        let json = json!({"Job_Name": "x", "job_state": "F", "exec_host": "n1/0*2+n1/1+n2/0", "Exit_status": 271,
            "ctime": "Sat Nov 21 12:00:00 2026", "Output_Path": "host:/home/a b/x.o7"});
        let job = job_of("7.s", &json);
        assert_eq!(
            (job.node.as_str(), job.ending.as_str()),
            ("n1 n2", "ended by signal 15, SIGTERM: asked to end")
        );
        let late = json!({"Job_Name": "x", "job_state": "F", "Exit_status": -29});
        let said = "PBS ended it, since it ran for longer than its walltime";
        assert_eq!(job_of("8.s", &late).ending, said);
        assert!(job.submitted.is_some_and(|at| at > 1.79e9));
        assert_eq!(output_of(&json), Some(PathBuf::from("/home/a b/x.o7")));
        assert_eq!(output_of(&json!({"Output_Path": "relative"})), None);
    }
}
