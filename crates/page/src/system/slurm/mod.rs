//! Slurm, by its own clients: `sbatch` submits, `squeue` and `scontrol` tell, `scancel` ends.

mod queue;
mod submission;

use super::ask;
use super::client::{self, Client};
use super::command::{Call, Output, in_path};
use super::job::{Detail, JobSummary};
use super::own::{job_statuses, newest_first};
use super::quote::Quote;
use super::records::SubmissionRecord;
use super::story::{Story, Used};
use super::submission::{Extra, Submission, Submitted};
use super::{Kind, Problem, Site, System, ending};
use libra_system::clock;
use queue::{array_of, array_or, is_rest_of_array};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use submission::sbatch;

/// Slurm, where there is `sbatch` and a configuration of it.
pub static KIND: Kind = Kind {
    name: "slurm",
    help: "Slurm, by sbatch",
    says: "jobs go to Slurm",
    queues: Some("Partition"),
    directive: Some("#SBATCH"),
    classes: super::CLASSES_OF_BATCH,
    extras: &[
        Extra::Project,
        Extra::Memory,
        Extra::Gpus,
        Extra::Array,
        Extra::Environment,
        Extra::Mail,
    ],
    // Its options know durations only.
    gpu_types: true,
    clock_deadlines: false,
    begins_at_home: false,
    judges_without_terms: true,
    is_here: || {
        let conf = std::env::var_os("SLURM_CONF").map(PathBuf::from);
        let usual = CONFS.iter().map(PathBuf::from);
        in_path("sbatch") && conf.into_iter().chain(usual).any(|file| file.exists())
    },
    open: |site| Ok(Box::new(Slurm::new(site))),
};

const CONFS: [&str; 5] = [
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
];

/// Slurm.
#[derive(Debug)]
pub struct Slurm {
    client: Client,
    cluster: OnceLock<String>,
}

impl Slurm {
    /// Slurm.
    pub fn new(site: Site) -> Slurm {
        Slurm {
            client: Client::new(site, &KIND, "sbatch"),
            cluster: OnceLock::new(),
        }
    }

    /// The name of the cluster: several may share a home directory, and their jobs' numbers mean different jobs.
    fn cluster(&self) -> Result<&str, Problem> {
        if let Some(name) = self.cluster.get() {
            return Ok(name);
        }
        let done = Call::new("scontrol").args(["show", "config"]).run()?;
        let line = done
            .out
            .lines()
            .find(|line| line.starts_with("ClusterName"));
        match line.and_then(|line| line.split_once('=')) {
            Some((_, name)) => Ok(self.cluster.get_or_init(|| name.trim().to_string())),
            None => Err(said(&done)),
        }
    }

    fn all(&self) -> Result<Vec<(JobSummary, Option<SubmissionRecord>)>, Problem> {
        let done = queue::list()?;
        let status = match done.out.trim().is_empty() {
            true => BTreeMap::new(),
            false => job_statuses(&self.client.site, "slurm")?,
        };
        let cluster = self.cluster()?;
        let mut known = self.client.records.all();
        known.retain(|record| record.cluster == cluster);
        let now = clock::unix_time();
        let mut listed = Vec::new();
        for line in done.out.lines() {
            let mut job = queue::job_of_line(line, &status, now);
            let record = known
                .iter()
                .find(|record| record.id == job.id || record.id == array_of(&job.id));
            let record = record.cloned();
            let is = |record: &&SubmissionRecord| record.id == job.id || is_rest_of_array(&job.id);
            if let Some(record) = record.as_ref().filter(is) {
                job.key.clone_from(&record.key);
            }
            listed.push((job, record));
        }
        let forgotten = known.iter().filter(|record| {
            let is = |job: &JobSummary| array_of(&job.id) == record.id;
            !listed.iter().any(|(job, _)| is(job))
        });
        let forgotten: Vec<_> = forgotten
            .map(|record| (record.as_ended(), Some(record.clone())))
            .collect();
        listed.extend(forgotten);
        newest_first(&mut listed);
        Ok(listed)
    }
}

impl System for Slurm {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn site(&self) -> &Site {
        &self.client.site
    }

    fn quote(&self, wanted: &Submission) -> Result<Quote, Problem> {
        // A job without a deadline is no question for Libra.
        if self.client.quotes && wanted.says_terms() {
            let (first, rest) = ask::head_and_rest(&wanted.script);
            let text = format!("{first}\n{rest}\n");
            // sbatch lets it override lines of a script, as an option does.
            return ask::of_batch(&self.client.site, &KIND, wanted, &text, |call| {
                let typed = [
                    ("SBATCH_PARTITION", &wanted.queue),
                    ("SBATCH_ARRAY_INX", &wanted.array),
                ];
                let typed = typed.into_iter().filter(|(_, value)| !value.is_empty());
                typed.fold(call, |call, (name, value)| call.variable(name, value))
            });
        }
        let mut wanted = wanted.clone();
        if wanted.script.trim().is_empty() {
            wanted.script = "#!/bin/sh\n".to_string();
        } else if !wanted.script.starts_with("#!") {
            wanted.script.insert_str(0, "#!/bin/sh\n");
        }
        let done = sbatch(&wanted)?.arg("--test-only").run()?;
        match done.is_success() {
            // Of one with a deadline an older Libra has said something else.
            true if !wanted.says_terms() => Ok(Quote {
                accepted: true,
                text: "without a deadline: nothing is promised and nothing is charged".to_string(),
                ..Quote::default()
            }),
            _ => Err(said(&done)),
        }
    }

    fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let submission = (sbatch(wanted)?, self.cluster()?.to_string());
        self.client
            .submit(self, wanted, submission, said, |record| {
                if let Ok(fields) = queue::fields(&record.id) {
                    let comment = fields.get("AdminComment");
                    let commitment = comment.and_then(|text| queue::commitment(text));
                    record.said = client::promised(commitment.as_ref());
                    record.output = fields.get("StdOut").map(PathBuf::from).unwrap_or_default();
                }
            })
    }

    fn jobs(&self) -> Result<Vec<JobSummary>, Problem> {
        let done = self.all()?;
        Ok(done.into_iter().map(|(job, _)| job).collect())
    }

    fn job(&self, key: &str) -> Result<Option<Detail>, Problem> {
        let Some((mut job, record)) = find(key, self.all()?) else {
            return Ok(None);
        };
        // Forgotten by Slurm already, or never known to it: what is on record is all there is.
        let fields = match job.id.as_str() {
            "" => BTreeMap::new(),
            id => queue::fields(id).unwrap_or_default(),
        };
        let field = |name: &str| {
            let value = fields.get(name).map(String::as_str);
            value
                .filter(|v| !matches!(*v, "" | "(null)" | "N/A" | "Unknown" | "None"))
                .unwrap_or_default()
        };
        let output = match field("StdOut") {
            _ if is_rest_of_array(&job.id) => None,
            "" => record.as_ref().map(|record| record.output.clone()),
            file => Some(PathBuf::from(file)),
        };
        let output = output.filter(|file| file.is_absolute());
        let shown = output.as_ref().map(|file| file.display().to_string());
        let reason = if job.live { field("Reason") } else { "" };
        let facts = vec![
            ("Partition", field("Partition").to_string()),
            ("Why it waits", reason.to_string()),
            ("Working directory", field("WorkDir").to_string()),
            ("Output file", shown.unwrap_or_default()),
        ];
        if let (false, Some((code, signal))) = (job.live, field("ExitCode").split_once(':')) {
            job.ending = match signal {
                "0" => {
                    (code.parse()).map_or_else(|_| format!("exit code {code}"), ending::exit_code)
                }
                signal => (signal.parse())
                    .map_or_else(|_| format!("ended by signal {signal}"), ending::signal),
            };
        }
        let no_output = match is_rest_of_array(&job.id) {
            true => {
                "These jobs of an array have not begun. Each has a page of its own under Jobs once it has."
            }
            false => "Slurm does not say where its output is.",
        };
        let record = record.as_ref();
        Ok(Some(client::detail(job, record, facts, output, no_output)))
    }

    fn story(&self, detail: &Detail) -> Story {
        let mut story = Story::of_record(&self.client.site, &KIND, &detail.job.key);
        let id = detail.job.id.as_str();
        if id.is_empty() {
            return story;
        }
        if story.script.is_none() {
            // Of a job that was not submitted by this page; slurmctld keeps it as long as the job.
            let call = Call::new("scontrol").args(["write", "batch_script", array_or(id), "-"]);
            let written = call.run().ok().filter(Output::is_success);
            story.script = written.map(|done| done.out).filter(|text| !text.is_empty());
        }
        if !detail.job.live && !is_rest_of_array(id) {
            let fields = queue::fields(id).unwrap_or_default();
            let ran = fields.get("RunTime").and_then(|text| queue::seconds(text));
            // Whole seconds.
            story.used = ran.map(|ran| Used::AtMost(ran + 1.0));
        }
        story
    }

    fn end(&self, ids: &[String]) -> Result<(), Problem> {
        // scancel does not read all that squeue prints of the rest of an array.
        let (rest, whole): (Vec<&str>, Vec<&str>) = ids
            .iter()
            .map(String::as_str)
            .partition(|id| is_rest_of_array(id));
        let rest = rest.into_iter().map(array_of).collect::<Vec<_>>();
        let calls = [(&["--state=PENDING", "--"][..], rest), (&["--"], whole)];
        let mut problems = Vec::new();
        for (options, ids) in calls.into_iter().filter(|(_, ids)| !ids.is_empty()) {
            let done = Call::new("scancel").args(options).args(ids).run()?;
            if !done.is_success() || !done.err.trim().is_empty() {
                problems.push(said(&done).to_string());
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Problem::new(problems.join("\n"))),
        }
    }
}

/// A job of this key, or the first that it has become: squeue knows the array of a record by its parts alone.
fn find(
    key: &str,
    jobs: Vec<(JobSummary, Option<SubmissionRecord>)>,
) -> Option<(JobSummary, Option<SubmissionRecord>)> {
    let is_record =
        |record: &Option<SubmissionRecord>| record.as_ref().is_some_and(|r| r.key == key);
    let at = jobs.iter().position(|(job, _)| job.key == key);
    let at = at.or_else(|| jobs.iter().position(|(_, record)| is_record(record)))?;
    let (mut job, record) = jobs.into_iter().nth(at)?;
    // The page goes on to ask by it.
    job.key = key.to_string();
    Some((job, record))
}

/// What a client of Slurm complained of, without its name in front of every line.
fn said(done: &Output) -> Problem {
    let text = done.complaint();
    let lines = text.lines().map(|line| {
        let line = match line.split_once(": ") {
            Some((name, rest)) if name.len() < 10 && !name.contains(' ') => rest,
            _ => line,
        };
        line.strip_prefix("error: ")
            .unwrap_or(line)
            .trim_start_matches("libra: ")
    });
    let mut lines: Vec<&str> = lines.collect();
    // What Slurm adds to every refusal of a plugin's says less than the plugin.
    if lines.len() > 1 {
        lines.retain(|line| !line.ends_with(": Access/permission denied"));
    }
    Problem::new(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_found_by_its_record() {
        let job = |id: &str, key: &str| JobSummary {
            id: id.to_string(),
            key: key.to_string(),
            ..JobSummary::default()
        };
        let record = SubmissionRecord {
            key: "1-12345678".to_string(),
            id: "7".to_string(),
            ..SubmissionRecord::default()
        };
        let listed = |key: &str| {
            vec![
                (job("6", "6"), None),
                (job("7_1", "7_1"), Some(record.clone())),
                (job("7_[2-3%1]", key), Some(record.clone())),
            ]
        };
        let id = |key: &str, jobs| find(key, jobs).map(|(job, _)| job.id);
        assert_eq!(
            id("1-12345678", listed("1-12345678")),
            Some("7_[2-3%1]".to_string())
        );
        assert_eq!(id("1-12345678", listed("x")), Some("7_1".to_string()));
        assert_eq!(id("7_1", listed("x")), Some("7_1".to_string()));
        assert_eq!(id("8", listed("x")), None);
        let found = find("1-12345678", listed("x")).expect("the first");
        assert_eq!(found.0.key, "1-12345678", "its page asks by this key again");
    }

    #[test]
    fn complaints_lose_the_name_of_the_client() {
        let done = Output {
            err: "sbatch: error: libra: x: y\nsbatch: error: Batch job submission failed: Invalid partition\n".to_string(),
            ..Output::default()
        };
        assert_eq!(
            said(&done).to_string(),
            "x: y\nBatch job submission failed: Invalid partition"
        );
    }
}
