//! This host, by `libra run`: a process of its own, in a session of its own, which outlives the page and its terminal.

use super::ask;
use super::ending::missing_interpreter;
use super::job::{Detail, JobSummary, Outcome, Tone};
use super::quote::Quote;
use super::records::{self, Records, SubmissionRecord};
use super::submission::{Extra, Submission, Submitted};
use super::{Cluster, Kind, Problem, Site, System, check_directory, executable, own, plain};
use libra_core::decision::class::Class;
use libra_system::clock;
use libra_system::spawn::in_session_of_its_own;
use libra_units::duration;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What starts a script. It finds the script and the place for its output beside itself, so that no name needs quoting.
const START: &str = "#!/bin/sh\n\
    # Made by 'libra web': what the job prints goes into a file beside this one.\n\
    here=${0%/*}\n\
    exec </dev/null >>\"$here/output\" 2>&1\n\
    exec \"$here/script\"\n";

/// So long the page waits for a verdict, which may have to wait for other submissions on this host.
const PATIENCE: Duration = Duration::from_secs(30);
/// What `libra cancel` may take on a busy host: grace, and the time that killed processes take to end. A request has four minutes.
const PATIENCE_WITH_ENDS: Duration = Duration::from_secs(200);

/// The most that is read of what `libra run` said, in bytes.
const MOST_SAID: u64 = 64 << 10;

/// This host, by `libra run`.
pub static KIND: Kind = Kind {
    name: "local",
    help: "This host, by 'libra run'",
    says: "jobs run on this host",
    queues: None,
    directive: None,
    classes: &Class::ALL,
    extras: &[Extra::Project, Extra::Memory],
    gpu_types: false,
    clock_deadlines: true,
    begins_at_home: false,
    judges_without_terms: true,
    is_here: || true,
    open: |site| Ok(Box::new(Local::new(site))),
};

/// This host.
#[derive(Debug)]
pub struct Local {
    site: Site,
    records: Records,
    children: Mutex<Vec<Child>>,
}

/// What is asked how jobs stand: this host alone.
const STATUS: [&str; 3] = ["status", "--system", "local"];

/// What `libra run` said: each line of JSON.
fn said(directory: &Path) -> Vec<Value> {
    let mut text = String::new();
    if let Ok(file) = File::open(directory.join("said")) {
        let _ = file.take(MOST_SAID).read_to_string(&mut text);
    }
    // The last line may not be complete yet; then it is no JSON.
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(Value::is_object).collect()
}

impl Local {
    /// This host.
    pub fn new(site: Site) -> Local {
        Local {
            records: Records::new(&site, &KIND),
            children: Mutex::new(Vec::new()),
            site,
        }
    }

    fn start(
        &self,
        wanted: &Submission,
        workplace: &Path,
        record: &mut SubmissionRecord,
    ) -> Result<Submitted, Problem> {
        let directory = self.records.directory(&record.key);
        let start = directory.join("start");
        records::write(&start, START.as_bytes(), 0o700)?;
        for file in ["said", "output"] {
            records::write(&directory.join(file), b"", 0o600)?;
        }
        record.output = directory.join("output");
        // Written before it starts: whoever finds the job running finds out what it is.
        self.records.write(record)?;
        let problem = |what: &str, error: std::io::Error| Problem::new(format!("{what}: {error}"));
        let tell = fs::OpenOptions::new()
            .append(true)
            .open(directory.join("said"))
            .map_err(|error| problem("its record cannot be written", error))?;
        let both = tell
            .try_clone()
            .map_err(|error| problem("its record cannot be written", error))?;
        let mut command = Command::new(&self.site.libra);
        if let Some(file) = &self.site.config {
            command.arg("--config").arg(file);
        }
        command.args(["run", "--json"]);
        if !wanted.name.is_empty() {
            command.arg("--name").arg(&wanted.name);
        }
        command
            .args(wanted.libra_options())
            .arg("--")
            .arg(&start)
            .current_dir(workplace)
            .stdin(Stdio::null())
            .stdout(tell)
            .stderr(both);
        let mut child = executable::spawn(in_session_of_its_own(&mut command))
            .map_err(|error| problem("libra cannot be started", error))?;
        let end = Instant::now() + PATIENCE;
        loop {
            // Asked before what it said is read: when it has ended, all is said.
            let ended = child.try_wait().ok().flatten();
            for line in said(&directory) {
                let Some(quote) = Quote::from_json(&line) else {
                    continue;
                };
                if !quote.accepted {
                    let _ = child.wait();
                    return Ok(Submitted::Refused(Box::new(quote)));
                }
                record.id = line["job"].as_str().unwrap_or_default().to_string();
                record.said = quote.text;
                // It runs; a record without its id is still found by what runs.
                if let Err(error) = self.records.write(record) {
                    log::warn!("job {}: {error}", record.id);
                }
                self.children().push(child);
                return Ok(Submitted::Accepted(record.key.clone()));
            }
            if ended.is_some() {
                let text = fs::read_to_string(directory.join("said")).unwrap_or_default();
                let text = text.trim().trim_start_matches("libra: ");
                return Err(Problem::new(match text {
                    "" => "'libra run' ended and said nothing",
                    text => text,
                }));
            }
            if Instant::now() > end {
                // Ended now it may have been accepted already: it goes on, and is under Jobs when it is.
                self.children().push(child);
                return Ok(Submitted::Unknown(format!(
                    "It may still be submitted: 'libra run' has given no answer within {} s and goes on waiting for its turn on this \
                     host. Look under Jobs before you submit it again; two jobs are paid twice.",
                    PATIENCE.as_secs()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn children(&self) -> std::sync::MutexGuard<'_, Vec<Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs, with the records of those that this page has submitted.
    fn all(&self) -> Result<Vec<(JobSummary, Option<SubmissionRecord>)>, Problem> {
        let report = self.site.json(&STATUS)?;
        let user = u64::from(nix::unistd::getuid().as_raw());
        let here = records::host();
        let mut known = self.records.all();
        known.retain(|record| record.host == here);
        let start = |record: &SubmissionRecord| {
            let start = self.records.directory(&record.key).join("start");
            start.display().to_string()
        };
        let mut known: BTreeMap<String, SubmissionRecord> = (known.into_iter())
            .map(|record| (start(&record), record))
            .collect();
        let mut listed = Vec::new();
        for job in report["jobs"].as_array().into_iter().flatten() {
            let (owner, command, mut job) = own::job_of_host(job);
            if owner != user {
                continue;
            }
            let record = known.remove(&command);
            if let Some(record) = &record {
                job.key.clone_from(&record.key);
                job.name.clone_from(&record.wanted.name);
                job.submitted = Some(record.submitted);
            } else if let Some(elapsed) = job.elapsed.filter(|_| job.live) {
                job.submitted = Some(clock::unix_time() - elapsed);
            }
            listed.push((job, record));
        }
        // libra forgets jobs that have ended a while ago.
        for record in known.into_values() {
            if let Some(job) = self.ended(&record) {
                listed.push((job, Some(record)));
            }
        }
        own::newest_first(&mut listed);
        Ok(listed)
    }

    /// A job that is not there any more, as its record has it; None for one that never was.
    fn ended(&self, record: &SubmissionRecord) -> Option<JobSummary> {
        let lines = said(&self.records.directory(&record.key));
        let event = |name: &str| lines.iter().find(|line| line["event"] == name);
        let accepted = event("accepted")?;
        let mut job = JobSummary {
            key: record.key.clone(),
            id: accepted["job"].as_str().unwrap_or_default().to_string(),
            name: record.wanted.name.clone(),
            class: record.wanted.class(),
            state: "ended".to_string(),
            outcome: Some(Outcome::Unknown),
            node: accepted["node"].as_str().unwrap_or_default().to_string(),
            slots: accepted["slots"].as_f64(),
            price: accepted["price"].as_f64(),
            deadline: accepted["deadline_seconds"].as_f64(),
            estimate: accepted["estimate_seconds"].as_f64(),
            submitted: Some(record.submitted),
            ..JobSummary::default()
        };
        if let Some(ended) = event("ended") {
            let conclusion = ended["conclusion"].as_str().unwrap_or_default();
            job.outcome = Some(Outcome::of_conclusion(conclusion));
            job.in_time = ended["in_time"].as_bool();
            job.elapsed = ended["elapsed_seconds"].as_f64();
            let slots = job.slots.unwrap_or(1.0).max(1.0);
            job.used = ended["used_seconds"].as_f64().map(|used| used / slots);
            job.ending = own::exit_in_words(&ended["exit_code"], &ended["signal"]);
        }
        Some(job)
    }
}

impl System for Local {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn quote(&self, wanted: &Submission) -> Result<Quote, Problem> {
        ask::of_host(&self.site, wanted)
    }

    fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let workplace = check_directory(&wanted.directory)?;
        let mut record = self.records.begin(wanted, clock::unix_time())?;
        let begun = self.start(wanted, workplace, &mut record);
        match &begun {
            // Its script and what it says are there as long as it may need them.
            Ok(Submitted::Accepted(_) | Submitted::Unknown(_)) => {}
            _ => self.records.drop(&record),
        }
        begun
    }

    fn jobs(&self) -> Result<Vec<JobSummary>, Problem> {
        Ok(self.all()?.into_iter().map(|(job, _)| job).collect())
    }

    fn job(&self, key: &str) -> Result<Option<Detail>, Problem> {
        let found = self.all()?.into_iter().find(|(job, _)| job.key == key);
        Ok(found.map(|(mut job, record)| {
            // Of the two programs that this exit code may mean one can be looked for.
            let script = job.ending.starts_with("exit code 127");
            let script = script.then(|| self.records.again(key)).flatten();
            let missing = script.as_ref().and_then(|wanted| missing_interpreter(&wanted.script));
            if let Some(interpreter) = missing {
                job.ending = format!("exit code 127: the interpreter of the first line, {interpreter}, does not exist");
            }
            detail(job, record)
        }))
    }

    fn end(&self, ids: &[String]) -> Result<(), Problem> {
        let done = self.site.libra(&["cancel", "--"]).args(ids);
        let done = done.run_within(PATIENCE_WITH_ENDS)?;
        match done.is_success() {
            true => Ok(()),
            false => Err(Problem::new(plain(&done))),
        }
    }

    fn cluster(&self) -> Result<Cluster, Problem> {
        Ok(own::cluster_of_host(&self.site.json(&STATUS)?))
    }

    fn tick(&self) {
        self.children()
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

fn detail(job: JobSummary, record: Option<SubmissionRecord>) -> Detail {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push((name.to_string(), value));
        }
    };
    let Some(record) = record else {
        fact("Command", job.name.clone());
        return Detail {
            facts,
            no_output: "Its output is where it was started: it was not submitted by this page."
                .to_string(),
            job,
            ..Detail::default()
        };
    };
    fact("Budget", record.wanted.budget.clone());
    if record.wanted.soft {
        let rate = match record.wanted.penalty.as_str() {
            "" => "0",
            rate => rate,
        };
        fact(
            "Deadline type",
            format!("soft, {rate} credits back per second of delay"),
        );
    }
    fact("Working directory", record.wanted.directory.clone());
    fact("Output file", record.output.display().to_string());
    if job.tone() == Tone::Warn && job.state == "orphaned" {
        fact(
            "Note",
            "Its 'libra run' is gone; the control loop looks after it.".to_string(),
        );
    }
    if let (Some(took), false) = (job.elapsed, job.live) {
        fact("Ended after", duration::show(took));
    }
    Detail {
        said: record.said,
        output: Some(record.output),
        ours: true,
        facts,
        job,
        no_output: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_read_as_far_as_it_is_complete() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(said(directory.path()).is_empty());
        let text =
            "a log line\n{\"event\":\"accepted\",\"verdict\":\"accepted\"}\n7\n{\"event\":\"en";
        fs::write(directory.path().join("said"), text).expect("written");
        let lines = said(directory.path());
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["event"], "accepted");
    }
}
