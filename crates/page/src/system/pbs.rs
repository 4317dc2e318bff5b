//! OpenPBS, by `libra qsub`, which calls PBS's own, and by `qselect`, `qstat` and `qdel`.

use super::ask::{self, asks_batch_systems};
use super::command::{Call, Output, is_executable};
use super::own::{job_statuses, newest_first, settle};
use super::quote::{Promise, Quote};
use super::records::{Records, SubmissionRecord};
use super::{
    Detail, Extra, JobSummary, Kind, Problem, Sent, Site, Submission, Submitted, System,
    check_directory, ending, not_sent, perhaps, plain,
};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use libra_core::commitment::Commitment;
use libra_system::clock;
use libra_units::memory;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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
    extras: &[
        Extra::Project,
        Extra::Memory,
        Extra::Array,
        Extra::Environment,
        Extra::Mail,
    ],
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
    site: Site,
    records: Records,
    programs: PathBuf,
    quotes: bool,
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
            records: Records::new(&site, &KIND),
            programs: programs()?,
            ended: Mutex::new(BTreeMap::new()),
            quotes: asks_batch_systems(&site),
            site,
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
        attributes_of(&done)
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
        let found = attributes_of(&done)
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
        let known = self.records.all();
        let now = clock::unix_time();
        let mut jobs = BTreeMap::new();
        let mut status = BTreeMap::new();
        if !live.is_empty() {
            jobs = self.ask(None)?;
            jobs.retain(|id, _| live.contains(id));
            status = job_statuses(&self.site, "pbs")?;
        }
        // What has ended meanwhile is among them, and what this page has submitted.
        let mut ended = select(&["-x"])?;
        let ids = known.iter().map(|record| record.id.clone());
        ended.extend(ids.filter(|id| !id.is_empty()));
        ended.retain(|id| !jobs.contains_key(id));
        ended.sort_by_key(|id| std::cmp::Reverse(number(id)));
        ended.dedup();
        for id in ended.into_iter().take(MOST) {
            if let Some(attributes) = self.ask_ended(&id) {
                jobs.insert(id, attributes);
            }
        }
        let mut listed = Vec::new();
        for (id, attributes) in jobs {
            let mut job = job_of(&id, &attributes);
            let commitment = commitment(&attributes);
            let ended = ["obittime", "mtime"]
                .iter()
                .find_map(|key| time(&attributes[key]));
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
        &self.site
    }

    fn quotes(&self) -> bool {
        self.quotes
    }

    fn quote(&self, wanted: &Submission) -> Result<Quote, Problem> {
        if self.quotes {
            let (first, rest) = ask::head_and_rest(&wanted.script);
            let lines = [("-q", &wanted.queue), ("-J", &wanted.array)];
            let text = format!("{first}\n{}\n", with_lines(rest, &lines));
            return ask::of_batch(&self.site, &KIND, wanted, &text, |call| call);
        }
        Err(Problem::new(
            "PBS says what a job costs when it is submitted; one whose budget is too small is refused and costs nothing",
        ))
    }

    fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let directory = check_directory(&wanted.directory)?;
        let mut record = self.records.begin(wanted, clock::unix_time())?;
        let call = self.site.libra(&["qsub"]).args(options(wanted));
        let call = call.directory(directory).input(&wanted.script);
        let done = call.run_to_submit().inspect_err(|_| {
            self.records.drop(&record);
        })?;
        match Sent::of(&done) {
            Sent::Job(id) => record.id = id,
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
                return Ok(Submitted::Unknown(perhaps("qsub", &done)));
            }
        }
        if let Ok(jobs) = self.ask(Some(&record.id)) {
            let job = jobs.get(&record.id);
            record.output = job.and_then(output_of).unwrap_or_default();
            let commitment = job.and_then(commitment);
            record.said = commitment.map_or_else(String::new, |commitment| {
                Promise::of_committed(&commitment).text()
            });
        }
        if let Err(error) = self.records.write(&record) {
            log::warn!("job {}: {error}", record.id);
        }
        Ok(Submitted::Accepted(record.key))
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

    fn end(&self, ids: &[String]) -> Result<(), Problem> {
        let done = self.program("qdel").args(ids).run()?;
        match done.is_success() {
            true => Ok(()),
            false => Err(said(&done)),
        }
    }
}

/// What is committed to a job, by its attributes.
fn commitment(attributes: &Value) -> Option<Commitment> {
    let line = attributes["Resource_List"]["libra_terms"].as_str()?;
    Commitment::parse(line.trim_matches('\'')).ok()
}

/// What qstat printed.
fn attributes_of(done: &Output) -> Result<BTreeMap<String, Value>, Problem> {
    let json: Value = serde_json::from_str(&done.out).map_err(|_| said(done))?;
    let jobs = json["Jobs"].as_object().into_iter().flatten();
    Ok(jobs.map(|(id, job)| (id.clone(), job.clone())).collect())
}

/// Of `12.server` and `12[].server`: later jobs have larger ones.
fn number(id: &str) -> u64 {
    let digits = id.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
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
    let memory = memory::parse(&wanted.memory).map(|bytes| format!(":mem={bytes}b"));
    // As 'libra quote' asks: memory alone is that of one processor.
    if !wanted.processors.is_empty() || memory.is_ok() {
        let processors = match wanted.processors.as_str() {
            "" => "1",
            processors => processors,
        };
        let memory = memory.unwrap_or_default();
        option("-l", format!("select=1:ncpus={processors}{memory}"));
    }
    let tells = if wanted.mail.is_empty() { "" } else { "ae" };
    for (name, value) in [
        ("-q", wanted.queue.as_str()),
        ("-N", &wanted.name),
        ("-P", &wanted.project),
        ("-J", &wanted.array),
        ("-v", &wanted.environment),
        ("-M", &wanted.mail),
        ("-m", tells),
    ] {
        if !value.is_empty() {
            option(name, value.to_string());
        }
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

fn job_of(id: &str, attributes: &Value) -> JobSummary {
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
            Some(code) => ending::exit_code(code),
            None => String::new(),
        },
        ..JobSummary::default()
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

/// A script of PBS with options that a question has none for: lines behind all of the script's own, since the last
/// one counts, as the option does in a submission.
fn with_lines(script: &str, options: &[(&str, &String)]) -> String {
    let given = options.iter().filter(|(_, value)| !value.is_empty());
    let lines = given.map(|(name, value)| format!("#PBS {name} {value}\n"));
    let lines = lines.collect::<String>();
    if lines.is_empty() {
        return script.to_string();
    }
    let mut end = 0;
    let mut at = 0;
    let mut goes_on = false;
    for line in script.split_inclusive('\n') {
        at += line.len();
        let directive = line.starts_with("#PBS");
        // qsub reads none below the first line of the script proper.
        let comment = line.trim().is_empty() || line.starts_with(['#', ':']);
        if !directive && !goes_on && !comment {
            break;
        }
        if directive || goes_on {
            end = at;
        }
        goes_on = (directive || goes_on) && line.trim_end().ends_with('\\');
    }
    let (head, rest) = script.split_at(end);
    let line_end = if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{head}{line_end}{lines}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_queue(script: &str, queue: &str) -> String {
        with_lines(script, &[("-q", &queue.to_string())])
    }

    #[test]
    fn the_queue_of_the_form_wins_over_the_script() {
        let script =
            "#PBS -q other\n# text\n#PBS -W estimate=1,\\\ndeadline=2\n\necho\n#PBS -q none\n";
        let asked = "#PBS -q other\n# text\n#PBS -W estimate=1,\\\ndeadline=2\n#PBS -q typed\n\necho\n#PBS -q none\n";
        assert_eq!(with_queue(script, "typed"), asked);
        assert_eq!(with_queue("echo", "typed"), "#PBS -q typed\necho");
        assert_eq!(
            with_queue("#PBS -N x", "typed"),
            "#PBS -N x\n#PBS -q typed\n"
        );
        assert_eq!(with_queue(script, ""), script);
    }
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
        let more = Submission {
            memory: "2GiB".to_string(),
            array: "1-3".to_string(),
            environment: "A=1,B".to_string(),
            mail: "ann@x".to_string(),
            project: "p".to_string(),
            ..Submission::default()
        };
        let words = options(&more);
        assert_eq!(
            words[..12],
            [
                "-l",
                "select=1:ncpus=1:mem=2147483648b",
                "-P",
                "p",
                "-J",
                "1-3",
                "-v",
                "A=1,B",
                "-M",
                "ann@x",
                "-m",
                "ae"
            ]
        );
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
            ("n1 n2", "ended by SIGTERM: asked to end")
        );
        assert!(job.submitted.is_some_and(|at| at > 1.79e9));
        assert_eq!(output_of(&json), Some(PathBuf::from("/home/a b/x.o7")));
        assert_eq!(output_of(&json!({"Output_Path": "relative"})), None);
    }
}
