//! What `libra status --json` prints: one shape for this host and for every batch system. docs/json.md has a row for each key, which a
//! test sees to.

use libra_core::decision::share::DeadlineStatus;
use serde::Serialize;

/// How everything stands.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// When that was, Unix time.
    pub time: f64,
    /// Processors of this host that jobs may share; None if the host was not asked.
    pub processors: Option<f64>,
    /// Processors of this host that are committed.
    pub committed: Option<f64>,
    /// Nodes, those of one system after those of another.
    pub nodes: Vec<Node>,
    /// Jobs, in the order of the table.
    pub jobs: Vec<Job>,
    /// What could not be found out, in words.
    pub problems: Vec<String>,
}

impl Status {
    /// As one line.
    ///
    /// # Errors
    /// When a number is none.
    pub fn to_json(&self) -> std::io::Result<String> {
        serde_json::to_string(self).map_err(std::io::Error::other)
    }
}

/// A node, as one who admits sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Node {
    /// Who admits: `local`, `pbs`, `slurm`, `gridengine`.
    pub system: &'static str,
    /// Its name.
    pub node: String,
    /// As the batch system calls it; `up` of this host.
    pub state: String,
    /// Processors that jobs may share.
    pub processors: f64,
    /// Processors that accepted jobs need.
    pub committed: f64,
    /// Jobs with terms on it that have not ended.
    pub jobs: usize,
    /// The kernel holds jobs to their shares; None of a batch system's, which only the host itself knows.
    pub enforced: Option<bool>,
    /// How, or why not, in words.
    pub enforcement: Option<String>,
}

/// A job with terms. None, `null` in JSON, is what is not known, or means nothing for it yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Job {
    /// Who has admitted it, as of a node.
    pub system: &'static str,
    /// By which its system knows it.
    pub id: String,
    /// What its user calls it.
    pub name: Option<String>,
    /// What runs; for others than its owner the program alone.
    pub command: Option<String>,
    /// Its owner.
    pub user: Option<String>,
    /// The owner's number.
    pub uid: Option<u32>,
    /// Where it runs or is to run.
    pub nodes: Vec<String>,
    /// Its class of service: `deadline`, `dedicated`, `immediate`, `best-effort`.
    pub class: Option<&'static str>,
    /// It stands still, because others leave it nothing or for one with an earlier deadline; of what has not ended.
    pub suspended: Option<bool>,
    /// How it stands or how it ended, one of [`STATES`].
    pub state: String,
    /// `reserved`: accepted and not started; `deferred`: so, and without a share before it may start; `planned`: so, and its place is kept; `running`; `ending`: over, with processes that do not go; `ended`.
    pub phase: &'static str,
    /// `on_track`, `at_risk`, `overrun`, `late`; of what has not ended.
    pub deadline_status: Option<&'static str>,
    /// Processors, each at the share.
    pub slots: Option<u32>,
    /// Share of each processor that it holds.
    pub share: f64,
    /// Share that it needs from now on.
    pub needed_share: Option<f64>,
    /// Credits.
    pub price: f64,
    /// Unix time.
    pub submitted: f64,
    /// Unix time; `null`, as the times of it below, where it has none.
    pub deadline: f64,
    /// Unix time.
    pub ended: Option<f64>,
    /// Of a quote that is held: until when, Unix time.
    pub held_until: Option<f64>,
    /// Of a job whose start is planned: when it begins at the latest, Unix time.
    pub starts_by: Option<f64>,
    /// Of a job that stands still for one with an earlier deadline: when it goes on at the latest, Unix time.
    pub goes_on_by: Option<f64>,
    /// Run time on a processor of its own.
    pub estimate_seconds: f64,
    /// Processor time that it has used, of each processor.
    pub used_seconds: f64,
    /// From submission to deadline.
    pub deadline_seconds: f64,
    /// Since submission, or until its end.
    pub elapsed_seconds: f64,
    /// Until the deadline, or from its end to it; negative where that has passed.
    pub left_seconds: f64,
    /// For so long it could stand still and, on processors of its own from then on, still end in time.
    pub slack_seconds: Option<f64>,
    /// `finished`, `failed`, `cancelled`, `stopped`, `unknown`; whenever that was.
    pub conclusion: Option<&'static str>,
    /// It ended by its deadline, however.
    pub in_time: Option<bool>,
    /// Why the control loop ended it: `overrun`.
    pub reason: Option<&'static str>,
    /// Exit code, where it is known and no signal ended it.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Its share is held by a control group.
    pub enforced: Option<bool>,
    /// Its `libra run` is gone; the control loop looks after it.
    pub orphaned: Option<bool>,
    /// It has begun.
    pub started: Option<bool>,
}

/// All states of a job, those in danger first; in tables with spaces.
pub const STATES: [&str; 20] = [
    "late",
    "at_risk",
    "waiting_at_risk",
    "overrun",
    "orphaned",
    "suspended",
    "on_track",
    "running",
    "waiting",
    "planned",
    "deferred",
    "starting",
    "quoted",
    "missed",
    "stopped",
    "failed",
    "cancelled",
    "ended",
    "finished",
    "met",
];

/// How far from danger, as a place in [`STATES`].
pub fn rank(state: &str) -> usize {
    let known = STATES.iter().position(|one| *one == state);
    known.unwrap_or(STATES.len())
}

/// How a job stands against its deadline, as JSON has it.
pub fn deadline_status(status: DeadlineStatus) -> &'static str {
    match status {
        DeadlineStatus::OnTrack => "on_track",
        DeadlineStatus::AtRisk => "at_risk",
        DeadlineStatus::Overrun => "overrun",
        DeadlineStatus::Late => "late",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Keys of the table below a heading of docs/json.md.
    fn documented(heading: &str) -> Vec<String> {
        let guide = include_str!("../../../../docs/json.md");
        let (_, below) = (guide.split_once(&format!("\n### {heading}\n"))).expect("a heading");
        let section = below.split("\n#").next().unwrap_or_default();
        let keys = (section.lines()).filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        keys.map(str::to_string).collect()
    }

    fn keys(value: &impl Serialize) -> Vec<String> {
        let value = serde_json::to_value(value).expect("JSON");
        let object = value.as_object().expect("an object");
        object.keys().cloned().collect()
    }

    #[test]
    fn documentation_has_every_key_and_no_other() {
        for (heading, mut found) in [
            ("Status", keys(&Status::default())),
            ("Nodes", keys(&Node::default())),
            ("Jobs", keys(&Job::default())),
            ("States", STATES.map(str::to_string).to_vec()),
        ] {
            let mut documented = documented(heading);
            documented.sort();
            found.sort();
            assert_eq!(documented, found, "docs/json.md, {heading}");
        }
    }

    #[test]
    fn keys_are_snake_case_and_are_there_without_a_value() {
        let job = serde_json::to_value(Job::default()).expect("JSON");
        let keys = job.as_object().expect("an object").keys();
        for key in keys.chain(keys_of_others().iter()) {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(key.chars().all(plain), "{key}");
        }
        assert_eq!(job["exit_code"], Value::Null);
        assert!(STATES.iter().all(|state| rank(state) < STATES.len()));
    }

    fn keys_of_others() -> Vec<String> {
        [keys(&Status::default()), keys(&Node::default())].concat()
    }
}
