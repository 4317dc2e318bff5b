//! Slurm, by its own clients: `sbatch` submits, `squeue` and `scontrol` tell, `scancel` ends.

use super::ask::{self, asks_batch_systems};
use super::command::{Call, Output, in_path};
use super::own::{JobStatus, job_statuses, settle};
use super::quote::{Promise, Quote};
use super::records::{Records, SubmissionRecord};
use super::{
    Detail, Extra, JobSummary, Kind, Problem, Sent, Site, Submission, Submitted, System,
    check_directory, ending, not_sent, perhaps,
};
use libra_core::commitment::Commitment;
use libra_system::clock;
use libra_units::memory;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

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

/// Slurm, where there is `sbatch` and a configuration of it.
pub static KIND: Kind = Kind {
    name: "slurm",
    help: "Slurm, by sbatch",
    says: "jobs go to Slurm",
    queues: Some("Partition"),
    directive: Some("#SBATCH"),
    extras: &[
        Extra::Project,
        Extra::Memory,
        Extra::Array,
        Extra::Environment,
        Extra::Mail,
    ],
    // Its options know durations only.
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
    site: Site,
    records: Records,
    cluster: OnceLock<String>,
    quotes: bool,
}

impl Slurm {
    /// Slurm.
    pub fn new(site: Site) -> Slurm {
        Slurm {
            records: Records::new(&site, &KIND),
            cluster: OnceLock::new(),
            quotes: asks_batch_systems(&site),
            site,
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

    fn sbatch(&self, wanted: &Submission) -> Result<Call, Problem> {
        let directory = check_directory(&wanted.directory)?;
        let kind = if wanted.soft { "soft" } else { "" };
        let penalty = if wanted.soft { &wanted.penalty } else { "" };
        let one_task = if wanted.processors.is_empty() {
            ""
        } else {
            "1"
        };
        // Slurm's M are mebibytes, and what it has looked at is a number of them.
        let memory = memory::parse(&wanted.memory).map_or_else(
            |_| String::new(),
            |bytes| format!("{}M", bytes.div_ceil(1 << 20)),
        );
        let export = match wanted.environment.as_str() {
            "" => String::new(),
            // Besides what sbatch takes along anyway.
            variables => format!("ALL,{variables}"),
        };
        let mail = if wanted.mail.is_empty() {
            ""
        } else {
            "END,FAIL"
        };
        let options = [
            ("estimate", wanted.estimate.as_str()),
            ("sla-deadline", &wanted.deadline),
            ("budget", &wanted.budget),
            ("deadline-type", kind),
            ("penalty-rate", penalty),
            // On one node, as `libra quote` asks for them.
            ("ntasks", one_task),
            ("cpus-per-task", &wanted.processors),
            ("partition", &wanted.queue),
            ("job-name", &wanted.name),
            ("chdir", &wanted.directory),
            ("account", &wanted.project),
            ("mem", &memory),
            ("array", &wanted.array),
            ("export", &export),
            ("mail-user", &wanted.mail),
            ("mail-type", mail),
        ];
        let given = options.iter().filter(|(_, value)| !value.is_empty());
        let options = given.map(|(name, value)| format!("--{name}={value}"));
        Ok(Call::new("sbatch")
            .arg("--parsable")
            .args(options)
            .directory(directory)
            .input(&wanted.script))
    }

    /// A job's fields as `scontrol show job` prints them, each on a line or several on one; of an array, those of the first.
    fn fields(&self, id: &str) -> Result<BTreeMap<String, String>, Problem> {
        let id = match is_rest_of_array(id) {
            true => array_of(id),
            false => id,
        };
        let done = Call::new("scontrol").args(["show", "job", id]).run()?;
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

    /// The user's jobs, a line each, in [`COLUMNS`].
    fn squeue(&self) -> Result<Output, Problem> {
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

    fn all(&self) -> Result<Vec<(JobSummary, Option<SubmissionRecord>)>, Problem> {
        let done = self.squeue()?;
        let status = match done.out.trim().is_empty() {
            true => BTreeMap::new(),
            false => job_statuses(&self.site, "slurm")?,
        };
        let cluster = self.cluster()?;
        let mut known = self.records.all();
        known.retain(|record| record.cluster == cluster);
        let now = clock::unix_time();
        let mut listed = Vec::new();
        for line in done.out.lines() {
            let mut job = job_of_line(line, &status, now);
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
        super::own::newest_first(&mut listed);
        Ok(listed)
    }
}

impl System for Slurm {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn quote(&self, wanted: &Submission) -> Result<Quote, Problem> {
        // A job without a deadline is no question for Libra.
        if self.quotes && wanted.says_terms() {
            let (first, rest) = ask::head_and_rest(&wanted.script);
            let text = format!("{first}\n{rest}\n");
            // sbatch lets it override lines of a script, as an option does.
            return ask::of_batch(&self.site, &KIND, wanted, &text, |call| {
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
        let done = self.sbatch(&wanted)?.arg("--test-only").run()?;
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
        let cluster = self.cluster()?.to_string();
        let call = self.sbatch(wanted)?;
        let mut record = self.records.begin(wanted, clock::unix_time())?;
        record.cluster = cluster;
        let done = call.run_to_submit().inspect_err(|_| {
            self.records.drop(&record);
        })?;
        let id = match Sent::of(&done) {
            Sent::Job(id) => id,
            Sent::No => {
                self.records.drop(&record);
                // A client says why in words; asked, Libra says it in values.
                let asks = self.quotes && wanted.says_terms();
                return not_sent(asks.then(|| self.quote(wanted)), said(&done));
            }
            Sent::Perhaps => {
                if let Err(error) = self.records.write(&record) {
                    log::warn!("a submission without an answer: {error}");
                }
                return Ok(Submitted::Unknown(perhaps("sbatch", &done)));
            }
        };
        record.id.clone_from(&id);
        if let Ok(fields) = self.fields(&id) {
            let commitment = fields.get("AdminComment").and_then(|text| commitment(text));
            record.said = commitment.map_or_else(String::new, |commitment| {
                Promise::of_committed(&commitment).text()
            });
            record.output = fields.get("StdOut").map(PathBuf::from).unwrap_or_default();
        }
        // It is there, with a record or without.
        if let Err(error) = self.records.write(&record) {
            log::warn!("job {id}: {error}");
        }
        Ok(Submitted::Accepted(record.key))
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
            id => self.fields(id).unwrap_or_default(),
        };
        let field = |name: &str| {
            let value = fields.get(name).map(String::as_str);
            value
                .filter(|v| !matches!(*v, "" | "(null)" | "N/A" | "Unknown" | "None"))
                .unwrap_or_default()
        };
        let mut facts = Vec::new();
        let output = match field("StdOut") {
            _ if is_rest_of_array(&job.id) => None,
            "" => record.as_ref().map(|record| record.output.clone()),
            file => Some(PathBuf::from(file)),
        };
        let output = output.filter(|file| file.is_absolute());
        let shown = output.as_ref().map(|file| file.display().to_string());
        let reason = if job.live { field("Reason") } else { "" };
        for (name, value) in [
            ("Partition", field("Partition")),
            ("Why it waits", reason),
            ("Working directory", field("WorkDir")),
            ("Output file", shown.as_deref().unwrap_or_default()),
        ] {
            if !value.is_empty() {
                facts.push((name.to_string(), value.to_string()));
            }
        }
        if let (false, Some((code, signal))) = (job.live, field("ExitCode").split_once(':')) {
            job.ending = match signal {
                "0" => {
                    (code.parse()).map_or_else(|_| format!("exit code {code}"), ending::exit_code)
                }
                signal => (signal.parse())
                    .map_or_else(|_| format!("ended by signal {signal}"), ending::signal),
            };
        }
        Ok(Some(Detail {
            said: record
                .as_ref()
                .map(|record| record.said.clone())
                .unwrap_or_default(),
            ours: record.is_some_and(|record| record.key == job.key),
            no_output: match is_rest_of_array(&job.id) {
                true => "These jobs of an array have not begun. Each has a page of its own under Jobs once it has.",
                false => "Slurm does not say where its output is.",
            }
            .to_string(),
            output,
            facts,
            job,
        }))
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

fn is_live(state: &str) -> bool {
    !state.is_empty() && !FINAL.contains(&state)
}

/// `7` of `7`, `7_3` and `7_[4-9%2]`.
fn array_of(id: &str) -> &str {
    id.split('_').next().unwrap_or_default()
}

/// Those of an array that have not begun are one job to squeue: `7_[4-9%2]`, and another id each time one of them begins.
fn is_rest_of_array(id: &str) -> bool {
    id.contains('[')
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

/// What is committed to a job, by its admin comment.
fn commitment(comment: &str) -> Option<Commitment> {
    Commitment::parse(comment.strip_prefix("libra:")?).ok()
}

fn job_of_line(line: &str, status: &BTreeMap<String, JobStatus>, now: f64) -> JobSummary {
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
    use crate::system::Outcome;

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
