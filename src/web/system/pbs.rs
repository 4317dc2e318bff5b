//! OpenPBS, by `libra qsub`, which calls PBS's own, and by `qselect`, `qstat` and `qdel`.

use super::ask::{ask, asks_batch_systems};
use super::command::{Call, Output};
use super::own::{newest_first, settle, standings};
use super::quote::Quote;
use super::records::{Record, Records};
use super::{Detail, Job, Kind, Problem, Site, Submission, Submitted, check_directory, plain};
use crate::host::clock;
use crate::sold::Sold;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most jobs that are asked about.
const MOST: usize = 200;

/// Jobs that were submitted so recently are asked about by name too, in seconds.
const YOUNG: f64 = 86_400.0;

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

/// OpenPBS.
#[derive(Debug)]
pub struct Pbs {
    site: Site,
    records: Records,
    programs: PathBuf,
    quotes: bool,
}

impl Pbs {
    /// OpenPBS.
    ///
    /// # Errors
    /// There is none here.
    pub fn new(site: Site) -> Result<Pbs, Problem> {
        Ok(Pbs {
            records: Records::new(&site, Kind::Pbs),
            programs: programs()?,
            quotes: asks_batch_systems(&site),
            site,
        })
    }

    /// What it is made of.
    pub fn site(&self) -> &Site {
        &self.site
    }

    fn program(&self, name: &str) -> Call {
        Call::new(self.programs.join(name))
    }

    /// Can it be asked what a job would cost?
    pub fn quotes(&self) -> bool {
        self.quotes
    }

    /// What it would cost.
    ///
    /// # Errors
    /// PBS does not say.
    pub fn quote(&self, wanted: &Submission) -> Result<Quote, Problem> {
        if self.quotes {
            return ask(&self.site, Kind::Pbs, wanted);
        }
        Err(Problem::new(
            "PBS says what a job costs when it is submitted; one whose budget is too small is refused and costs nothing",
        ))
    }

    /// Submits it.
    ///
    /// # Errors
    /// PBS says something else than that it was refused.
    pub fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let directory = check_directory(&wanted.directory)?;
        let mut record = self.records.begin(wanted, clock::unix_time())?;
        let call = self.site.libra(&["qsub"]).args(options(wanted));
        let done = match call.directory(directory).input(&wanted.script).run() {
            Ok(done) if done.is_success() => done,
            other => {
                self.records.drop(&record);
                let done = other?;
                return match Quote::from_words(&done.err) {
                    Some(quote) if !quote.accepted => Ok(Submitted::Refused(Box::new(quote))),
                    _ => Err(said(&done)),
                };
            }
        };
        record.id = done.out.trim().to_string();
        record.said = Quote::from_words(&done.err)
            .map(|quote| quote.text)
            .unwrap_or_default();
        if let Ok(jobs) = self.ask(&[&record.id]) {
            record.output = jobs.get(&record.id).and_then(output_of).unwrap_or_default();
        }
        if let Err(error) = self.records.write(&record) {
            log::warn!("job {}: {error}", record.id);
        }
        Ok(Submitted::Accepted(record.key))
    }

    /// Attributes of these jobs, ended ones too.
    fn ask(&self, ids: &[&str]) -> Result<BTreeMap<String, Value>, Problem> {
        let done = self
            .program("qstat")
            .args(["-x", "-f", "-F", "json"])
            .args(ids)
            .run()?;
        let json: Value = serde_json::from_str(&done.out).map_err(|_| said(&done))?;
        let jobs = json["Jobs"].as_object().into_iter().flatten();
        Ok(jobs.map(|(id, job)| (id.clone(), job.clone())).collect())
    }

    /// The user's jobs.
    ///
    /// # Errors
    /// PBS does not say.
    pub fn jobs(&self) -> Result<Vec<Job>, Problem> {
        let all = self.all()?;
        Ok(all.into_iter().map(|(job, _, _)| job).collect())
    }

    fn all(&self) -> Result<Vec<(Job, Option<Record>, Value)>, Problem> {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid())
            .ok()
            .flatten();
        let user = user
            .map(|user| user.name)
            .ok_or_else(|| Problem::new("your user has no name here"))?;
        let done = self
            .program("qselect")
            .arg("-x")
            .arg("-u")
            .arg(&user)
            .run()?;
        if !done.is_success() {
            return Err(said(&done));
        }
        let known = self.records.all();
        let now = clock::unix_time();
        let mut ids: Vec<&str> = done.out.split_whitespace().collect();
        ids.drain(..ids.len().saturating_sub(MOST));
        // One that is just ending is not among those that qselect finds.
        let young = known.iter().filter(|record| now - record.submitted < YOUNG);
        let young: Vec<&str> = young
            .map(|record| record.id.as_str())
            .filter(|id| !ids.contains(id))
            .collect();
        ids.extend(young);
        let (jobs, standing) = match ids.is_empty() {
            true => (BTreeMap::new(), BTreeMap::new()),
            false => (self.ask(&ids)?, standings(&self.site, "pbs")?),
        };
        let mut listed = Vec::new();
        for (id, attributes) in jobs {
            let mut job = job_of(&id, &attributes);
            let sold = &attributes["Resource_List"]["libra_terms"];
            let sold = sold
                .as_str()
                .and_then(|line| Sold::parse(line.trim_matches('\'')).ok());
            let ended = ["obittime", "mtime"]
                .iter()
                .find_map(|key| time(&attributes[key]));
            let ended = ended.filter(|_| !job.live);
            settle(&mut job, sold.as_ref(), standing.get(&id), ended, now);
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

    /// One of the user's jobs.
    ///
    /// # Errors
    /// PBS does not say.
    pub fn job(&self, key: &str) -> Result<Option<Detail>, Problem> {
        let found = self.all()?.into_iter().find(|(job, _, _)| job.key == key);
        let Some((job, record, attributes)) = found else {
            return Ok(None);
        };
        let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_string();
        let output = output_of(&attributes).or_else(|| {
            let file = record.as_ref().map(|record| record.output.clone());
            file.filter(|file| file.is_absolute())
        });
        let shown = output.as_ref().map(|file| file.display().to_string());
        let mut facts = Vec::new();
        for (name, value) in [
            ("Queue", text("queue")),
            ("Comment", text("comment")),
            (
                "Submitted in",
                attributes["Variable_List"]["PBS_O_WORKDIR"]
                    .as_str()
                    .unwrap_or_default()
                    .to_string(),
            ),
            ("Output file", shown.unwrap_or_default()),
        ] {
            if !value.is_empty() {
                facts.push((name.to_string(), value));
            }
        }
        Ok(Some(Detail {
            said: record
                .as_ref()
                .map(|record| record.said.clone())
                .unwrap_or_default(),
            ours: record.is_some(),
            no_output: "PBS does not say where its output is.".to_string(),
            output,
            facts,
            job,
        }))
    }

    /// Ends a job.
    ///
    /// # Errors
    /// It does not end.
    pub fn cancel(&self, id: &str) -> Result<(), Problem> {
        let done = self.program("qdel").arg(id).run()?;
        match done.is_success() {
            true => Ok(()),
            false => Err(said(&done)),
        }
    }
}

/// The options of qsub. Every value stands behind its option, and none begins with a dash.
fn options(wanted: &Submission) -> Vec<String> {
    let mut options = Vec::new();
    let mut option = |name: &str, value: String| {
        options.push(name.to_string());
        options.push(value);
    };
    let soft = |value: &str| {
        if wanted.soft {
            value.to_string()
        } else {
            String::new()
        }
    };
    let terms = [
        ("estimate", wanted.estimate.clone()),
        ("deadline", wanted.deadline.clone()),
        ("budget", wanted.budget.clone()),
        ("deadline_type", soft("soft")),
        ("penalty_rate", soft(&wanted.penalty)),
    ];
    let given = terms.iter().filter(|(_, value)| !value.is_empty());
    let list: Vec<String> = given.map(|(key, value)| format!("{key}={value}")).collect();
    if !list.is_empty() {
        option("-W", list.join(","));
    }
    if !wanted.processors.is_empty() && wanted.processors != "1" {
        option("-l", format!("select=1:ncpus={}", wanted.processors));
    }
    if !wanted.queue.is_empty() {
        option("-q", wanted.queue.clone());
    }
    if !wanted.name.is_empty() {
        option("-N", wanted.name.clone());
    }
    // Both outputs in one file that is written where it belongs while the job runs, unless the script wants it otherwise.
    let says = |letter: char| {
        let lines = wanted
            .script
            .lines()
            .filter(|line| line.starts_with("#PBS"));
        lines
            .flat_map(str::split_whitespace)
            .any(|word| word.starts_with(&format!("-{letter}")))
    };
    if !"joek".chars().any(says) {
        option("-j", "oe".to_string());
        option("-k", "doe".to_string());
    }
    options
}

fn job_of(id: &str, attributes: &Value) -> Job {
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
        _ if attributes["Exit_status"] == 0 => "completed",
        _ => "ended",
    };
    let nodes = text("exec_host")
        .split('+')
        .map(|node| node.split('/').next().unwrap_or_default());
    let mut nodes: Vec<&str> = nodes.collect();
    nodes.dedup();
    Job {
        key: id.to_string(),
        id: id.to_string(),
        name: text("Job_Name").to_string(),
        state: state.to_string(),
        live,
        node: nodes.join(" "),
        submitted: time(&attributes["ctime"]),
        ending: match attributes["Exit_status"].as_i64().filter(|_| !live) {
            Some(signal) if signal > 256 => format!("ended by signal {}", signal - 256),
            Some(code) => format!("exit code {code}"),
            None => String::new(),
        },
        ..Job::default()
    }
}

/// `server:/home/ann/job.o7`, as a path. A directory stands for the file that PBS makes in it.
fn output_of(attributes: &Value) -> Option<PathBuf> {
    let path = attributes["Output_Path"].as_str()?;
    let path = path
        .split_once(":/")
        .map_or(path, |(_, rest)| &path[path.len() - rest.len() - 1..]);
    let path = Path::new(path);
    path.is_absolute().then(|| path.to_path_buf())
}

/// `Sat Nov 21 12:00:00 2026`, in this host's zone; or a number.
fn time(value: &Value) -> Option<f64> {
    if let Some(number) = value.as_f64() {
        return Some(number);
    }
    let read = DateTime::strptime("%a %b %d %H:%M:%S %Y", value.as_str()?).ok()?;
    let at = read.to_zoned(TimeZone::system()).ok()?;
    Some(at.timestamp().as_second() as f64)
}

fn said(done: &Output) -> Problem {
    let text = plain(done);
    let lines = text.lines().map(|line| {
        let line = line.strip_prefix("qsub: ").unwrap_or(line);
        line.strip_prefix("libra: ").unwrap_or(line)
    });
    Problem::new(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_of_qsub() {
        let wanted = Submission {
            script: "#!/bin/sh\n".to_string(),
            estimate: "10".to_string(),
            deadline: "20".to_string(),
            budget: "15".to_string(),
            processors: "2".to_string(),
            ..Submission::default()
        };
        let words = [
            "-W",
            "estimate=10,deadline=20,budget=15",
            "-l",
            "select=1:ncpus=2",
            "-j",
            "oe",
            "-k",
            "doe",
        ];
        assert_eq!(options(&wanted), words);
        let own = Submission {
            script: "#!/bin/sh\n#PBS -o /x\n".to_string(),
            ..Submission::default()
        };
        assert_eq!(options(&own), Vec::<String>::new());
    }

    #[test]
    fn a_job_of_qstat() {
        let json = json!({"Job_Name": "x", "job_state": "F", "exec_host": "n1/0*2+n1/1+n2/0", "Exit_status": 271,
            "ctime": "Sat Nov 21 12:00:00 2026", "Output_Path": "host:/home/a b/x.o7"});
        let job = job_of("7.s", &json);
        assert_eq!(
            (job.node.as_str(), job.ending.as_str()),
            ("n1 n2", "ended by signal 15")
        );
        assert!(job.submitted.is_some_and(|at| at > 1.79e9));
        assert_eq!(output_of(&json), Some(PathBuf::from("/home/a b/x.o7")));
        assert_eq!(output_of(&json!({"Output_Path": "relative"})), None);
    }
}
