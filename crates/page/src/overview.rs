//! The whole site, to be read and not to be changed: all jobs with their promises, all nodes, and what became of promises by day.
//!
//! It is what `libra status --json` says to whoever runs the page, of every system that is here, and what the files of metrics have kept.

use super::history::History;
use super::site::{Cached, cached, time_of_day};
use super::system::job::JobSummary;
use super::system::own::{cluster_of_batch, job_of_host};
use super::system::{Cluster, Problem, Site};
use libra_core::decision::class::Class;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Jobs on a page.
pub const ROWS: usize = 100;

/// A job of somebody's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SiteJob {
    /// Who has admitted it.
    pub system: String,
    /// Its owner.
    pub user: String,
    /// Until when it is to end, seconds since 1970.
    pub until: Option<f64>,
    /// The rest.
    pub job: JobSummary,
}

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SiteStatus {
    /// When that was, seconds since 1970.
    pub at: f64,
    /// Jobs, those in danger first.
    pub jobs: Vec<SiteJob>,
    /// Nodes, by the system that admits to them.
    pub clusters: Vec<(String, Cluster)>,
    /// What could not be found out.
    pub problems: Vec<String>,
}

impl SiteStatus {
    /// From the JSON of `libra status`.
    pub fn from_json(json: &Value) -> SiteStatus {
        let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_string();
        let all = |key: &str| json[key].as_array().cloned().unwrap_or_default();
        let jobs = all("jobs").into_iter().map(|one| {
            let (_, _, mut job) = job_of_host(&one);
            let nodes = one["nodes"].as_array().into_iter().flatten();
            let nodes: Vec<&str> = nodes.filter_map(Value::as_str).collect();
            job.node = nodes.join(" ");
            job.submitted = one["submitted"].as_f64();
            SiteJob {
                system: text(&one, "system"),
                user: match one["user"].as_str() {
                    Some(user) => user.to_string(),
                    None => one["uid"]
                        .as_u64()
                        .map_or(String::new(), |uid| uid.to_string()),
                },
                until: one["deadline"].as_f64(),
                job,
            }
        });
        let mut systems: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for node in all("nodes") {
            systems.entry(text(&node, "system")).or_default().push(node);
        }
        let clusters = systems.into_iter().map(|(system, nodes)| {
            let cluster = cluster_of_batch(&serde_json::json!({ "nodes": nodes }));
            (system, cluster)
        });
        let problems = all("problems");
        let problems = problems
            .iter()
            .filter_map(|line| Some(line.as_str()?.to_string()));
        SiteStatus {
            at: json["time"].as_f64().unwrap_or(0.0),
            jobs: jobs.collect(),
            clusters: clusters.collect(),
            problems: problems.collect(),
        }
    }
}

/// Which jobs are to be seen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Find {
    /// Words, each of which a job has in its name, number, owner, nodes, state, class or system; capitals or not.
    pub search: String,
    /// The name of one of [`WHICH`]; all where it is none.
    pub which: String,
    /// Which hundred of them, from 0.
    pub page: usize,
}

/// Whether a job belongs to a choice.
type Belongs = fn(&JobSummary) -> bool;

/// Choices of jobs: a name for addresses, words, and which they are.
pub const WHICH: [(&str, &str, Belongs); 5] = [
    ("", "All", |_| true),
    ("danger", "In danger", JobSummary::in_danger),
    ("live", "Not ended", |job| job.live),
    ("ended", "Ended", |job| !job.live),
    ("late", "Late", JobSummary::is_late),
];

impl Find {
    /// Those of the jobs, in their order.
    pub fn of<'a>(&self, jobs: &'a [SiteJob]) -> Vec<&'a SiteJob> {
        let words = self.search.to_lowercase();
        let words: Vec<&str> = words.split_whitespace().collect();
        let which = WHICH.iter().find(|(name, ..)| *name == self.which);
        let belongs = which.map_or(WHICH[0].2, |(.., belongs)| *belongs);
        let found = jobs.iter().filter(|one| {
            let job = &one.job;
            let state = job.state_word();
            let class = job.class.map_or("", Class::word);
            let text = [
                &job.name,
                &job.id,
                &one.user,
                &job.node,
                state,
                class,
                &one.system,
            ];
            let text = text.join(" ").to_lowercase();
            belongs(job) && words.iter().all(|word| text.contains(word))
        });
        found.collect()
    }
}

/// What became of promises on a day.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Day {
    /// `2026-11-23`, in the zone of this host.
    pub date: String,
    /// Promises that were made.
    pub accepted: u64,
    /// Jobs that ended by their deadlines.
    pub met: u64,
    /// That ended later.
    pub late: u64,
    /// That failed in time.
    pub failed: u64,
    /// That were cancelled.
    pub cancelled: u64,
    /// Jobs that were refused.
    pub refused: u64,
}

/// Days in which something happened, the latest first. `time`: a time of day in the zone of this host, which begins with the day.
pub fn days(history: &History, time: fn(f64) -> String) -> Vec<Day> {
    let mut days: BTreeMap<String, Day> = BTreeMap::new();
    for hour in history.hours.iter().filter(|hour| !hour.is_empty()) {
        let date: String = time(hour.at).chars().take(10).collect();
        let day = days.entry(date.clone()).or_default();
        day.date = date;
        day.accepted += hour.accepted;
        day.met += hour.met;
        day.late += hour.late;
        day.failed += hour.failed;
        day.cancelled += hour.cancelled;
        day.refused += hour.refused.values().sum::<u64>();
    }
    days.into_values().rev().collect()
}

/// The site, as whoever runs the page sees it.
#[derive(Debug)]
pub struct Overview {
    /// This program and its configuration.
    site: Site,
    /// One system alone; None for all that are here.
    system: Option<&'static str>,
    /// The directory in which the site's metrics are.
    metrics: Option<PathBuf>,
    /// The name of this host.
    pub host: String,
    status: Cached<Arc<SiteStatus>>,
}

impl Overview {
    /// `system`: one alone. `metrics`: the directory in which the site's metrics are.
    pub fn new(site: Site, system: Option<&'static str>, metrics: Option<PathBuf>) -> Overview {
        Overview {
            site,
            system,
            metrics,
            host: super::system::records::host(),
            status: Mutex::new(None),
        }
    }

    /// How everything stands, as of a moment ago.
    ///
    /// # Errors
    /// `libra status` failed.
    pub fn status(&self) -> Result<Arc<SiteStatus>, Problem> {
        cached(&self.status, || {
            let mut words = vec!["status"];
            words.extend(self.system.iter().flat_map(|name| ["--system", name]));
            let json = self.site.json(&words)?;
            Ok(Arc::new(SiteStatus::from_json(&json)))
        })
    }

    /// What became of promises, by system; None if the site does not keep it.
    pub fn days(&self) -> Option<Vec<(&'static str, Vec<Day>)>> {
        let directory = self.metrics.as_deref()?;
        let names = super::system::KINDS.iter().map(|kind| kind.name);
        let names = names.filter(|name| self.system.is_none_or(|one| one == *name));
        let kept = names.filter_map(|name| {
            let history = History::read(&directory.join(format!("{name}.json")))?;
            Some((name, days(&history, time_of_day)))
        });
        Some(kept.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Hour;
    use serde_json::json;

    fn status() -> SiteStatus {
        SiteStatus::from_json(&json!({"time": 100.0, "problems": ["slurm: no answer"],
            "nodes": [{"system": "slurm", "node": "n1", "state": "idle", "processors": 4.0, "committed": 1.0, "jobs": 2},
                {"system": "local", "node": "login", "state": "up", "processors": 2.0, "committed": 0.0, "jobs": 0}],
            "jobs": [{"system": "slurm", "id": "7", "name": "fit", "user": "ann", "uid": 1000, "nodes": ["n1", "n2"], "state": "at_risk", "phase": "running",
                    "class": "dedicated", "share": 0.5, "price": 10.0, "submitted": 50.0, "deadline": 150.0, "deadline_seconds": 100.0, "elapsed_seconds": 50.0},
                {"system": "local", "id": "1", "command": "/bin/x", "uid": 1001, "nodes": ["login"], "state": "met", "phase": "ended", "conclusion": "finished",
                    "in_time": true, "share": 0.0, "price": 1.0, "deadline": null}]}))
    }

    #[test]
    fn all_systems_and_all_users_are_there() {
        let status = status();
        let [fit, other] = &status.jobs[..] else {
            panic!("{status:?}")
        };
        assert_eq!((fit.user.as_str(), fit.job.node.as_str()), ("ann", "n1 n2"));
        assert_eq!(fit.until, Some(150.0));
        assert!(fit.job.in_danger());
        assert_eq!(
            (fit.job.class, other.job.class),
            (Some(Class::Dedicated), None)
        );
        assert_eq!((other.user.as_str(), other.until), ("1001", None));
        let names: Vec<&str> = status.clusters.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["local", "slurm"]);
        assert_eq!(status.clusters[1].1.nodes[0].committed, 1.0);
        assert_eq!(status.problems, ["slurm: no answer"]);
        assert_eq!(
            SiteStatus::from_json(&json!(null)),
            SiteStatus::default(),
            "of nothing, nothing"
        );
    }

    #[test]
    fn jobs_are_found_by_words_and_by_how_they_stand() {
        let status = status();
        let found = |search: &str, which: &str| {
            let find = Find {
                search: search.to_string(),
                which: which.to_string(),
                page: 0,
            };
            let found = find.of(&status.jobs);
            found
                .iter()
                .map(|one| one.job.id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("", ""), ["7", "1"]);
        assert_eq!(found("ANN n2", ""), ["7"]);
        assert_eq!(found("ann login", ""), [""; 0]);
        assert_eq!(found("dedicated", ""), ["7"]);
        assert_eq!(found("immediate", ""), [""; 0]);
        assert_eq!(found("", "danger"), ["7"]);
        assert_eq!(found("", "ended"), ["1"]);
        assert_eq!(found("", "late"), [""; 0]);
        assert_eq!(found("", "no such choice"), ["7", "1"]);
    }

    #[test]
    fn hours_of_a_day_are_one_row() {
        let hour = |at, met, late| Hour {
            at,
            accepted: 1,
            met,
            late,
            refused: [("share".to_string(), 2), ("budget".to_string(), 1)].into(),
            ..Hour::default()
        };
        let history = History {
            hours: vec![hour(0.0, 1, 0), hour(10.0, 2, 1), hour(100.0, 0, 4)],
        };
        let days = days(&history, |at| format!("day-{:06} 12:00", at as u64 / 50));
        let rows: Vec<_> = days
            .iter()
            .map(|day| (&day.date[..], day.accepted, day.met, day.late, day.refused))
            .collect();
        assert_eq!(
            rows,
            [("day-000002", 1, 0, 4, 3), ("day-000000", 2, 3, 1, 6)]
        );
    }
}
