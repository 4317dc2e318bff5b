//! OpenPBS, by `libra qsub`, which calls PBS's own, and by `qselect`, `qstat` and `qdel`.

mod job;
mod submission;

use super::ask;
use super::client::{self, Client};
use super::command::{Call, Output, is_executable};
use super::job::{Detail, JobSummary};
use super::own::{job_statuses, newest_first, settle};
use super::quote::Quote;
use super::records::SubmissionRecord;
use super::story::{Story, Used};
use super::submission::{Extra, Submission, Submitted};
use super::{Kind, Problem, Site, System, check_directory, plain};
use libra_system::clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use submission::{options, with_lines};

/// The most jobs that have ended which are asked about: the latest.
const MOST: usize = 40;

/// The directory of PBS's own programs.
///
/// # Errors
/// There is no configuration of PBS, or it does not say.
pub fn programs() -> Result<PathBuf, Problem> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = variable("PBS_EXEC") {
        return Ok(PathBuf::from(directory).join("bin"));
    }
    let file =
        variable("PBS_CONF_FILE").map_or_else(|| PathBuf::from("/etc/pbs.conf"), PathBuf::from);
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Problem::new(format!(
            "{}: {error}; PBS_CONF_FILE names the configuration of PBS",
            file.display()
        ))
    })?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("PBS_EXEC="));
    let directory = line.map(|value| PathBuf::from(value.trim().trim_matches('"')));
    let directory =
        directory.ok_or_else(|| Problem::new(format!("{}: it has no PBS_EXEC", file.display())))?;
    Ok(directory.join("bin"))
}

/// OpenPBS, where its configuration names a `qsub`.
pub static KIND: Kind = Kind {
    name: "pbs",
    help: "PBS, by 'libra qsub'",
    says: "jobs go to PBS",
    queues: Some("Queue"),
    directive: Some("#PBS"),
    classes: super::CLASSES_OF_BATCH,
    extras: &[
        Extra::Project,
        Extra::Memory,
        Extra::Gpus,
        Extra::Array,
        Extra::Environment,
        Extra::Mail,
    ],
    gpu_types: false,
    clock_deadlines: true,
    begins_at_home: true,
    // It is asked nothing of such a job, and would miss an estimate.
    judges_without_terms: false,
    is_here: || programs().is_ok_and(|directory| is_executable(&directory.join("qsub"))),
    open: |site| Ok(Box::new(Pbs::new(site)?)),
};

/// OpenPBS.
#[derive(Debug)]
pub struct Pbs {
    client: Client,
    programs: PathBuf,
    /// Jobs that have ended, and that PBS has forgotten.
    ended: Mutex<BTreeMap<String, Option<Value>>>,
}

impl Pbs {
    /// OpenPBS.
    ///
    /// # Errors
    /// There is none here.
    pub fn new(site: Site) -> Result<Pbs, Problem> {
        Ok(Pbs {
            client: Client::new(site, &KIND, "qsub"),
            programs: programs()?,
            ended: Mutex::new(BTreeMap::new()),
        })
    }

    fn program(&self, name: &str) -> Call {
        Call::new(self.programs.join(name))
    }

    /// Attributes of one job, or of all that have not ended, anybody's: of several ids qstat prints the first alone in JSON (23.06).
    fn ask(&self, id: Option<&str>) -> Result<BTreeMap<String, Value>, Problem> {
        let done = self
            .program("qstat")
            .args(["-f", "-F", "json"])
            .args(id)
            .run()?;
        job::attributes_of(&done)
    }

    /// Attributes of a job that has ended; None if PBS has forgotten it. Asked for once, since nothing changes
    /// any more.
    fn ask_ended(&self, id: &str) -> Option<Value> {
        let lock = || self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(id) {
            return known.clone();
        }
        let done = self
            .program("qstat")
            .args(["-x", "-f", "-F", "json", id])
            .run()
            .ok()?;
        let found = job::attributes_of(&done)
            .ok()
            .and_then(|mut jobs| jobs.remove(id));
        let is_over = found.as_ref().is_some_and(|job| job["job_state"] == "F");
        let forgotten = done.err.contains("Unknown Job Id");
        if is_over || forgotten {
            lock().insert(id.to_string(), found.clone());
        }
        found
    }

    fn all(&self) -> Result<Vec<(JobSummary, Option<SubmissionRecord>, Value)>, Problem> {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid())
            .ok()
            .flatten();
        let user = user
            .map(|user| user.name)
            .ok_or_else(|| Problem::new("your user has no name here"))?;
        let select = |more: &[&str]| -> Result<Vec<String>, Problem> {
            let done = self
                .program("qselect")
                .args(more)
                .arg("-u")
                .arg(&user)
                .run()?;
            match done.is_success() {
                true => Ok(done.out.split_whitespace().map(str::to_string).collect()),
                false => Err(said(&done)),
            }
        };
        let live = select(&[])?;
        let known = self.client.records.all();
        let now = clock::unix_time();
        let mut jobs = BTreeMap::new();
        let mut status = BTreeMap::new();
        if !live.is_empty() {
            jobs = self.ask(None)?;
            jobs.retain(|id, _| live.contains(id));
            status = job_statuses(&self.client.site, "pbs")?;
        }
        // What has ended meanwhile is among them, and what this page has submitted.
        let mut ended = select(&["-x"])?;
        let ids = known.iter().map(|record| record.id.clone());
        ended.extend(ids.filter(|id| !id.is_empty()));
        ended.retain(|id| !jobs.contains_key(id));
        ended.sort_by_key(|id| std::cmp::Reverse(job::number(id)));
        ended.dedup();
        for id in ended.into_iter().take(MOST) {
            if let Some(attributes) = self.ask_ended(&id) {
                jobs.insert(id, attributes);
            }
        }
        let mut listed = Vec::new();
        for (id, attributes) in jobs {
            let mut job = job::job_of(&id, &attributes);
            let commitment = job::commitment(&attributes);
            let ended = ["obittime", "mtime"]
                .iter()
                .find_map(|key| job::time(&attributes[key]));
            let ended = ended.filter(|_| !job.live);
            settle(&mut job, commitment.as_ref(), status.get(&id), ended, now);
            let record = known.iter().find(|record| record.id == id).cloned();
            if let Some(record) = &record {
                job.key.clone_from(&record.key);
            }
            listed.push((job, (record, attributes)));
        }
        let forgotten = known
            .iter()
            .filter(|record| !listed.iter().any(|(job, _)| job.id == record.id));
        let forgotten: Vec<_> = forgotten
            .map(|record| (record.as_ended(), (Some(record.clone()), Value::Null)))
            .collect();
        listed.extend(forgotten);
        newest_first(&mut listed);
        Ok(listed
            .into_iter()
            .map(|(job, (record, attributes))| (job, record, attributes))
            .collect())
    }
}

impl System for Pbs {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn site(&self) -> &Site {
        &self.client.site
    }

    fn quotes(&self) -> bool {
        self.client.quotes
    }

    fn quote(&self, wanted: &Submission) -> Result<Quote, Problem> {
        if self.client.quotes {
            let (first, rest) = ask::head_and_rest(&wanted.script);
            let lines = [("-q", &wanted.queue), ("-J", &wanted.array)];
            let text = format!("{first}\n{}\n", with_lines(rest, &lines));
            return ask::of_batch(&self.client.site, &KIND, wanted, &text, |call| call);
        }
        Err(Problem::new(
            "PBS says what a job costs when it is submitted; one whose budget is too small is refused and costs nothing",
        ))
    }

    fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let directory = check_directory(&wanted.directory)?;
        let call = self.client.site.libra(&["qsub"]).args(options(wanted));
        let call = call.directory(directory).input(&wanted.script);
        let submission = (call, String::new());
        self.client
            .submit(self, wanted, submission, said, |record| {
                if let Ok(jobs) = self.ask(Some(&record.id)) {
                    let job = jobs.get(&record.id);
                    record.output = job.and_then(job::output_of).unwrap_or_default();
                    record.said = client::promised(job.and_then(job::commitment).as_ref());
                }
            })
    }

    fn jobs(&self) -> Result<Vec<JobSummary>, Problem> {
        let all = self.all()?;
        Ok(all.into_iter().map(|(job, _, _)| job).collect())
    }

    fn job(&self, key: &str) -> Result<Option<Detail>, Problem> {
        let found = self.all()?.into_iter().find(|(job, _, _)| job.key == key);
        let Some((job, record, attributes)) = found else {
            return Ok(None);
        };
        let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_string();
        let output = job::output_of(&attributes).or_else(|| {
            let file = record.as_ref().map(|record| record.output.clone());
            file.filter(|file| file.is_absolute())
        });
        let shown = output.as_ref().map(|file| file.display().to_string());
        let submitted_in = attributes["Variable_List"]["PBS_O_WORKDIR"].as_str();
        let facts = vec![
            ("Queue", text("queue")),
            ("Comment", text("comment")),
            ("Submitted in", submitted_in.unwrap_or_default().to_string()),
            ("Output file", shown.unwrap_or_default()),
        ];
        let no_output = "PBS does not say where its output is.";
        let record = record.as_ref();
        Ok(Some(client::detail(job, record, facts, output, no_output)))
    }

    fn story(&self, detail: &Detail) -> Story {
        let mut story = Story::of_record(&self.client.site, &KIND, &detail.job.key);
        let id = &detail.job.id;
        if id.is_empty() {
            return story;
        }
        let found = match detail.job.live {
            true => (self.ask(Some(id)).ok()).and_then(|mut jobs| jobs.remove(id)),
            false => self.ask_ended(id),
        };
        let attributes = found.unwrap_or_default();
        let variables = attributes["Variable_List"].as_object();
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let variables: Vec<(String, String)> = (variables.into_iter().flatten())
            .map(|(name, value)| (name.clone(), text(value)))
            .collect();
        if !variables.is_empty() {
            (story.environment, story.is_whole) = (variables, true);
        }
        if !detail.job.live {
            story.used = job::used(&attributes).map(Used::Measured);
        }
        story
    }

    fn end(&self, ids: &[String]) -> Result<(), Problem> {
        let done = self.program("qdel").args(ids).run()?;
        match done.is_success() {
            true => Ok(()),
            false => Err(said(&done)),
        }
    }
}

fn said(done: &Output) -> Problem {
    let text = plain(done);
    let lines = text.lines().map(|line| {
        let line = line.strip_prefix("qsub: ").unwrap_or(line);
        line.strip_prefix("libra: ").unwrap_or(line)
    });
    Problem::new(lines.collect::<Vec<_>>().join("\n"))
}
