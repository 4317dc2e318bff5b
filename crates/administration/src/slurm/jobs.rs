//! What Slurm's clients print, as [`libra_slurm::records`]: jobs from `squeue --json`, or `scontrol -o show job` where there is
//! no JSON; nodes and partitions from `scontrol -o show`, whose words have been the same for ten years. Pure.

use super::conf::words;
use super::hostlist;
use libra_slurm::array::{ArrayTasks, split};
use libra_slurm::gres::Gres;
use libra_slurm::records::{Node, Partition, Run, Runs, SlurmJob, State};
use libra_units::indices;
use serde_json::Value;

/// A job, and the name of its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Owned {
    pub job: SlurmJob,
    pub user: String,
    pub run: Run,
}

impl Owned {
    /// Its record as of `taken`, Unix time.
    pub fn at(self, taken: f64) -> SlurmJob {
        SlurmJob {
            ran: self.run.seconds(taken),
            ..self.job
        }
    }
}

/// Jobs from `squeue --json`.
///
/// # Errors
/// It is no JSON, has no jobs, or says that they could not be read.
pub fn from_json(text: &str) -> Result<Vec<Owned>, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    // With the controller down squeue ends well, with no jobs, and says so only here.
    if let Some(error) = json["errors"].as_array().and_then(|errors| errors.first()) {
        let words = ["description", "error"].map(|key| error[key].as_str());
        let words: Vec<&str> = words.into_iter().flatten().collect();
        return Err(format!(
            "{}; slurmctld may be down (scontrol ping)",
            words.join(": ")
        ));
    }
    let jobs = json["jobs"].as_array().ok_or("there are no 'jobs' in it")?;
    jobs.iter().map(job_of_json).collect()
}

/// Returns true if `squeue --json` says that it could not tell all.
pub fn says_errors(text: &str) -> bool {
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    json["errors"]
        .as_array()
        .is_some_and(|errors| !errors.is_empty())
}

/// A number: as itself, or since 23.02 as `{"set": true, "infinite": false, "number": 7}`.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Object(fields) => {
            let on = |key: &str| fields.get(key).and_then(Value::as_bool);
            (on("set") != Some(false) && on("infinite") != Some(true))
                .then(|| fields.get("number")?.as_f64())
                .flatten()
        }
        other => other.as_f64(),
    }
}

fn job_of_json(job: &Value) -> Result<Owned, String> {
    let id = number(&job["job_id"]).ok_or("a job has no 'job_id'")? as u32;
    let text = |key: &str| job[key].as_str().unwrap_or_default();
    // A word, or since 23.02 a list with flags behind it.
    let state = match &job["job_state"] {
        Value::Array(list)
            if list
                .iter()
                .any(|flag| flag == "REQUEUED" || flag == "REQUEUE_HOLD") =>
        {
            "PENDING"
        }
        Value::Array(list) => list.first().and_then(Value::as_str).unwrap_or_default(),
        word => word.as_str().unwrap_or_default(),
    };
    let array = number(&job["array_job_id"]).unwrap_or(0.0) as u32;
    let task = number(&job["array_task_id"]).map(|task| (task as u32).to_string());
    let tasks = task.unwrap_or_else(|| text("array_task_string").to_string());
    Ok(Owned {
        job: SlurmJob {
            id,
            array: tasks_of(array, &tasks).map_err(|why| format!("job {id}: {why}"))?,
            state: state_of(state),
            admin_comment: split(text("admin_comment")).1.into(),
            nodes: hostlist::names(text("nodes")).map_err(|why| format!("job {id}: {why}"))?,
            comment: String::new(),
            held: number(&job["priority"]) == Some(0.0),
            waits: false,
            kept: false,
            deferred: None,
            pinned: !text("required_nodes").is_empty(),
            started: number(&job["start_time"]).unwrap_or(0.0),
            ended: number(&job["end_time"]).unwrap_or(0.0),
            cut_short: cut_short(state),
            failed: state == "FAILED",
            // Nothing is paid by what is only shown.
            how: libra_accounts::settlement::HowEnded::Itself,
            restarts: 0,
            ran: 0.0,
            suspended: state == SUSPENDED,
            changed: 0.0,
            component: false,
            user: number(&job["user_id"]).unwrap_or(0.0) as u32,
        },
        user: text("user_name").to_string(),
        run: run_of(state, &|key| match key {
            Time::Start => number(&job["start_time"]),
            Time::End => number(&job["end_time"]),
            Time::Suspended => number(&job["suspend_time"]),
            Time::BeforeThat => number(&job["pre_sus_time"]),
        }),
    })
}

/// Of a job that Slurm has suspended.
const SUSPENDED: &str = "SUSPENDED";

/// Times of a job that say how long it has run.
#[derive(Debug, Clone, Copy)]
enum Time {
    Start,
    End,
    /// When it was suspended or went on last.
    Suspended,
    /// Seconds that it had run then.
    BeforeThat,
}

fn run_of(state: &str, time: &dyn Fn(Time) -> Option<f64>) -> Run {
    let time = |which| time(which).unwrap_or(0.0);
    let runs = match state {
        "PENDING" => Runs::NotYet,
        "RUNNING" => Runs::Now,
        SUSPENDED => Runs::Suspended,
        _ => Runs::Until(time(Time::End)),
    };
    let changed = (time(Time::Suspended), time(Time::BeforeThat));
    Run::of(runs, time(Time::Start), changed)
}

fn state_of(word: &str) -> State {
    match word {
        "PENDING" => State::Pending,
        "RUNNING" | SUSPENDED => State::Running,
        _ => State::Ended,
    }
}

fn cut_short(word: &str) -> bool {
    matches!(word, "CANCELLED" | "TIMEOUT" | "DEADLINE" | "PREEMPTED")
}

/// The tasks of a record: one, or `2-5%1` of those that wait.
fn tasks_of(array: u32, tasks: &str) -> Result<Option<ArrayTasks>, String> {
    let tasks = tasks.split('%').next().unwrap_or_default();
    if array == 0 || tasks.is_empty() {
        return Ok(None);
    }
    let tasks = indices::parse(tasks)?;
    Ok(Some(ArrayTasks { array, tasks }))
}

/// `Key=value Key=value …`; a value may have blanks.
fn fields(line: &str) -> Vec<(&str, String)> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for word in line.split(' ') {
        let key = word.split_once('=').filter(|(key, _)| {
            let mut letters = key.chars();
            letters.next().is_some_and(|c| c.is_ascii_uppercase())
                && letters.all(|c| c.is_ascii_alphanumeric() || ":/_".contains(c))
        });
        match (key, fields.last_mut()) {
            (Some((key, value)), _) => fields.push((key, value.to_string())),
            (None, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            (None, None) => {}
        }
    }
    for (_, value) in &mut fields {
        value.truncate(value.trim_end().len());
    }
    fields
}

/// The value of a key: the first, and none for Slurm's words for none.
fn get<'a>(fields: &'a [(&str, String)], key: &str) -> Option<&'a str> {
    let found = fields.iter().find(|(k, _)| *k == key);
    let value = found.map(|(_, value)| value.as_str());
    value.filter(|value| !matches!(*value, "(null)" | "N/A" | "" | "Unknown" | "None"))
}

/// Jobs from `scontrol -d -o show job`, with times as Unix seconds (SLURM_TIME_FORMAT=%s).
///
/// A user's own text (names, comments) can imitate a field here, so JSON is asked for first.
///
/// # Errors
/// A job's tasks or nodes cannot be read.
pub fn from_text(text: &str) -> Result<Vec<Owned>, String> {
    let lines = text.lines().filter(|line| line.starts_with("JobId="));
    lines.map(job_of_text).collect()
}

fn job_of_text(line: &str) -> Result<Owned, String> {
    let all = fields(line);
    let get = |key: &str| get(&all, key);
    let number = |key: &str| get(key).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    let id = number("JobId") as u32;
    let state = get("JobState").unwrap_or_default();
    let owner = get("UserId").unwrap_or_default();
    let (user, uid) = owner.split_once('(').unwrap_or((owner, ""));
    // Slurm writes it right behind WorkDir; a user's comment comes later.
    let work = all.iter().position(|(key, _)| *key == "WorkDir");
    let comment = work.and_then(|at| all.get(at + 1));
    let comment = comment.filter(|(key, _)| *key == "AdminComment");
    let tasks = get("ArrayTaskId").unwrap_or_default();
    Ok(Owned {
        job: SlurmJob {
            id,
            array: tasks_of(number("ArrayJobId") as u32, tasks)
                .map_err(|why| format!("job {id}: {why}"))?,
            state: state_of(state),
            admin_comment: comment
                .map(|(_, value)| split(value).1.into())
                .unwrap_or_default(),
            nodes: hostlist::names(get("NodeList").unwrap_or_default())
                .map_err(|why| format!("job {id}: {why}"))?,
            comment: String::new(),
            held: get("Priority") == Some("0"),
            waits: false,
            kept: false,
            deferred: None,
            pinned: get("ReqNodeList").is_some(),
            started: number("StartTime"),
            ended: number("EndTime"),
            cut_short: cut_short(state),
            failed: state == "FAILED",
            // Nothing is paid by what is only shown.
            how: libra_accounts::settlement::HowEnded::Itself,
            restarts: 0,
            ran: 0.0,
            suspended: state == SUSPENDED,
            changed: 0.0,
            component: false,
            user: uid.trim_end_matches(')').parse().unwrap_or(0),
        },
        user: user.to_string(),
        run: run_of(state, &|key| {
            Some(number(match key {
                Time::Start => "StartTime",
                Time::End => "EndTime",
                Time::Suspended => "SuspendTime",
                Time::BeforeThat => "SecsPreSuspend",
            }))
        }),
    })
}

/// A node, and its state in Slurm's words.
pub type Named = (Node, String);

/// Nodes from `scontrol -o show node`.
pub fn nodes(text: &str) -> Vec<Named> {
    let lines = text.lines().filter(|line| line.starts_with("NodeName="));
    lines
        .map(|line| {
            let all = fields(line);
            let get = |key: &str| get(&all, key);
            let number = |key: &str| get(key).and_then(|n| n.parse::<u64>().ok());
            let state = get("State").unwrap_or("UNKNOWN");
            let processors = number("CPUEfctv").or(number("CPUTot")).unwrap_or(0);
            let memory = number("RealMemory").unwrap_or(0);
            let node = Node {
                name: get("NodeName").unwrap_or_default().to_string(),
                processors: u32::try_from(processors).unwrap_or(u32::MAX),
                memory: memory.saturating_sub(number("MemSpecLimit").unwrap_or(0)),
                up: is_up(state),
                unknown: state.starts_with("UNKNOWN"),
                answers: is_up(state),
                up_since: 0.0,
                features: words(
                    get("ActiveFeatures")
                        .or(get("AvailableFeatures"))
                        .unwrap_or_default(),
                )
                .into_iter()
                .map(str::to_string)
                .collect(),
                gres: Gres::list(
                    get("Gres")
                        .filter(|gres| *gres != "(null)")
                        .unwrap_or_default(),
                ),
            };
            (node, state.to_lowercase())
        })
        .collect()
}

/// `IDLE`, `MIXED+DRAIN`, `DOWN*`: does it take jobs?
fn is_up(state: &str) -> bool {
    let mut words = state.split('+');
    let base = words.next().unwrap_or_default();
    let takes = matches!(base, "IDLE" | "MIXED" | "ALLOCATED" | "COMPLETING");
    takes && words.all(|flag| matches!(flag, "COMPLETING" | "CLOUD" | "PLANNED" | "DYNAMIC_NORM"))
}

/// Partitions from `scontrol -o show partition`.
pub fn partitions(text: &str) -> Vec<Partition> {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("PartitionName="));
    lines
        .map(|line| {
            let all = fields(line);
            let get = |key: &str| get(&all, key);
            let forced = get("OverSubscribe").and_then(force);
            Partition {
                name: get("PartitionName").unwrap_or_default().to_string(),
                nodes: hostlist::names(get("Nodes").unwrap_or_default()).unwrap_or_default(),
                shared: forced.is_some(),
                jobs_per_processor: forced.unwrap_or(1),
                longest: get("MaxTime").and_then(minutes),
                default: get("Default") == Some("YES"),
                up: get("State") == Some("UP"),
                one_user: false,
                default_memory: None,
            }
        })
        .collect()
}

/// Jobs for one processor with `FORCE` or `FORCE:20`; None for other words. Slurm's own number is 4.
pub fn force(word: &str) -> Option<u32> {
    let (kind, count) = word.split_once(':').unwrap_or((word, "4"));
    kind.eq_ignore_ascii_case("force")
        .then(|| count.parse().ok())?
}

/// `1-02:30:00` or `90:00`, in minutes; None for no limit.
fn minutes(text: &str) -> Option<u32> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut parts = rest.split(':').rev().map(str::parse::<u32>);
    let (seconds, minutes) = (parts.next()?.ok()?, parts.next().unwrap_or(Ok(0)).ok()?);
    let hours = parts.next().unwrap_or(Ok(0)).ok()?;
    let whole = days.parse::<u32>().ok()? * 1440 + hours * 60 + minutes;
    Some(whole + u32::from(seconds > 0))
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
