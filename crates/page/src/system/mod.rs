//! Where jobs go: this host, or a batch system. Each is a module with a [`Kind`] and a [`System`]; [`KINDS`] lists them.
//!
//! Everything is done by programs that the user could have typed, as that user: `libra`, `sbatch`, `qsub` and their kin.
//! Nothing here knows of HTTP or HTML. Every function may wait for a program.

pub mod ask;
pub mod command;
pub mod ending;
pub mod local;
pub mod output;
pub mod own;
pub mod pbs;
pub mod quote;
pub mod records;
pub mod slurm;
pub mod templates;

use command::{Call, Output};
use quote::Quote;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// What went wrong, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

impl Problem {
    /// What went wrong, and what would help.
    pub fn new(text: impl Into<String>) -> Problem {
        Problem(text.into())
    }
}

/// What a job may say besides, where its system takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// Who pays.
    Project,
    /// Memory that its node must have left.
    Memory,
    /// Indices of an array.
    Array,
    /// Variables of its environment.
    Environment,
    /// Who is told of its end by mail.
    Mail,
}

/// A kind of system, before it is used.
#[derive(Debug)]
pub struct Kind {
    /// Its name in options, files and JSON.
    pub name: &'static str,
    /// For the help: what it is, and by what jobs get there.
    pub help: &'static str,
    /// Where jobs go, in words.
    pub says: &'static str,
    /// What jobs are put into there; None if there is nothing of the kind.
    pub queues: Option<&'static str>,
    /// What lines of a script begin with that have options in them; None if all is said in the form.
    pub directive: Option<&'static str>,
    /// What a job may say besides.
    pub extras: &'static [Extra],
    /// A deadline may be a time of day.
    pub clock_deadlines: bool,
    /// Scripts begin in the user's home, wherever their output goes.
    pub begins_at_home: bool,
    /// It tells what becomes of a job without terms.
    pub judges_without_terms: bool,
    /// Whether it is on this machine.
    pub is_here: fn() -> bool,
    /// Makes it ready for use.
    pub open: fn(Site) -> Result<Box<dyn System>, Problem>,
}

/// All kinds. Where several are on one machine the last one is meant.
pub static KINDS: [&Kind; 3] = [&local::KIND, &pbs::KIND, &slurm::KIND];

impl Kind {
    /// The kind of this machine's system.
    pub fn found() -> &'static Kind {
        let here = KINDS.iter().rev().find(|kind| (kind.is_here)());
        here.unwrap_or(&&local::KIND)
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<&'static Kind> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }
}

/// What a user wants run, as it was typed. Made by [`crate::form`], which has looked at every field: none has control
/// characters, and none begins with a dash.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
    /// Text of the script. Kept in a file of its own.
    #[serde(skip)]
    pub script: String,
    /// Name of the job.
    pub name: String,
    /// `1h30m`
    pub estimate: String,
    /// `2h`, `@17:30`
    pub deadline: String,
    /// `9000`, `unlimited`
    pub budget: String,
    /// The deadline is soft.
    pub soft: bool,
    /// Credits per second of delay.
    pub penalty: String,
    /// On one node. A number; empty: as the script says, which is one where it says nothing.
    pub processors: String,
    /// Queue or partition, or empty.
    pub queue: String,
    /// Absolute path.
    pub directory: String,
    /// The project or account that pays; empty: the user.
    pub project: String,
    /// Memory that its node must have left: `4GiB`.
    pub memory: String,
    /// Indices of an array: `1-10`, `0-20:5`.
    pub array: String,
    /// Variables of its environment: `NAME=value,NAME`.
    pub environment: String,
    /// Who is told by mail when it ends: an address.
    pub mail: String,
}

impl Submission {
    /// Returns true if the form or a directive of the script says anything of a deadline and what it may cost. Else it is a job of a batch
    /// system that Libra has nothing to do with.
    pub fn says_terms(&self) -> bool {
        let typed = [&self.estimate, &self.deadline, &self.budget];
        let in_script = |line: &str| {
            let directives = KINDS.iter().filter_map(|kind| kind.directive);
            let has_options = directives
                .into_iter()
                .any(|directive| line.starts_with(directive));
            has_options
                && ["estimate", "deadline", "budget"]
                    .iter()
                    .any(|key| line.contains(key))
        };
        typed.iter().any(|value| !value.is_empty()) || self.script.lines().any(in_script)
    }

    /// What was typed of these.
    pub fn extra(&self, extra: Extra) -> &str {
        match extra {
            Extra::Project => &self.project,
            Extra::Memory => &self.memory,
            Extra::Array => &self.array,
            Extra::Environment => &self.environment,
            Extra::Mail => &self.mail,
        }
    }

    /// The options of `libra run` and `libra quote` for its terms, its memory and who pays. As `--name=value`, so that no value is an option.
    pub fn terms(&self) -> Vec<String> {
        let kind = if self.soft { "soft" } else { "" };
        let penalty = if self.soft { &self.penalty } else { "" };
        let options = [
            ("estimate", self.estimate.as_str()),
            ("deadline", &self.deadline),
            ("budget", &self.budget),
            ("deadline-type", kind),
            ("penalty-rate", penalty),
            ("processors", &self.processors),
            ("memory", &self.memory),
            ("project", &self.project),
        ];
        let given = options.iter().filter(|(_, value)| !value.is_empty());
        given
            .map(|(name, value)| format!("--{name}={value}"))
            .collect()
    }
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// It is there, under this key.
    Accepted(String),
    /// It is not.
    Refused(Box<Quote>),
    /// Nobody can tell whether it is there; what was said.
    Unknown(String),
}

/// What a batch system's client has left behind that was to submit a job.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    /// The job's id: it is there, whatever else went wrong. A client that waits for its job ends as the job does.
    Job(String),
    /// It is not there.
    No,
    /// Nobody can tell: the client was ended, or has lost its server, and has printed no id.
    Perhaps,
}

impl Sent {
    /// From what `sbatch --parsable` or `qsub` printed.
    fn of(done: &Output) -> Sent {
        let id = done.out.split([';', '\r', '\n']).next().unwrap_or_default();
        if id.starts_with(|c: char| c.is_ascii_digit()) && !id.contains(' ') {
            return Sent::Job(id.to_string());
        }
        // The words of Slurm's own clients.
        let said = done.err.to_lowercase();
        let lost = done.late || done.code.is_none() || said.contains("timed out");
        match lost {
            true => Sent::Perhaps,
            false => Sent::No,
        }
    }
}

/// A submission that is not there: what Libra says of it when it is asked, if that is why. `said`: what the client said.
fn not_sent(asked: Option<Result<Quote, Problem>>, said: Problem) -> Result<Submitted, Problem> {
    match asked {
        Some(Ok(quote)) if !quote.accepted => Ok(Submitted::Refused(Box::new(quote))),
        _ => Err(said),
    }
}

/// What is said where nobody knows.
fn perhaps(client: &str, done: &Output) -> String {
    let why = match done.late {
        true => format!("{client} did not answer in time and was ended"),
        false => format!("{client} broke off: {}", done.complaint()),
    };
    format!(
        "It may have been submitted: {why}. Look under Jobs before you submit it again; two jobs are paid twice."
    )
}

/// How things are with a job, for the colour of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As promised.
    Good,
    /// The promise is in danger.
    Warn,
    /// The promise is broken.
    Bad,
    /// Neither.
    #[default]
    Quiet,
}

impl Tone {
    /// The tone of a state of a job that has not ended, as `libra status` and its like call it.
    pub fn of(state: &str) -> Tone {
        match state {
            "on track" | "running" => Tone::Good,
            "at risk" | "waits, at risk" | "overrun" | "orphaned" => Tone::Warn,
            "late" => Tone::Bad,
            _ => Tone::Quiet,
        }
    }
}

/// How a job has ended; whether in time is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was to do: exit code 0.
    Finished,
    /// It did not.
    Failed,
    /// Libra or its batch system ended it.
    Stopped,
    /// Somebody ended it.
    Cancelled,
    /// It has ended, and nobody knows how.
    Unknown,
}

impl Outcome {
    /// Of the `conclusion` of `libra status --json` and `libra run --json`.
    pub fn of_conclusion(conclusion: &str) -> Outcome {
        match conclusion {
            "finished" => Outcome::Finished,
            "failed" => Outcome::Failed,
            "stopped" => Outcome::Stopped,
            "cancelled" => Outcome::Cancelled,
            _ => Outcome::Unknown,
        }
    }

    /// For reading.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Finished => "finished",
            Outcome::Failed => "failed",
            Outcome::Stopped => "stopped",
            Outcome::Cancelled => "cancelled",
            Outcome::Unknown => "ended",
        }
    }
}

/// A job of the user. Seconds and credits; what is not known is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobSummary {
    /// What it is called in addresses of pages.
    pub key: String,
    /// Its id in its system.
    pub id: String,
    /// Its name.
    pub name: String,
    /// How it stands, in a word or two of its system.
    pub state: String,
    /// It has not ended.
    pub live: bool,
    /// How it has ended; None while it has not, and where nobody knows whether it was ever there.
    pub outcome: Option<Outcome>,
    /// It has ended before its deadline; None while it has not ended, or where nobody knows.
    pub in_time: Option<bool>,
    /// Its nodes.
    pub node: String,
    /// Share per slot, in processors.
    pub share: Option<f64>,
    /// Slots.
    pub slots: Option<f64>,
    /// Price in credits.
    pub price: Option<f64>,
    /// Since submission; of an ended job, until its end.
    pub elapsed: Option<f64>,
    /// From submission to deadline.
    pub deadline: Option<f64>,
    /// Processor seconds used, per slot.
    pub used: Option<f64>,
    /// Processor seconds of the estimate, per slot.
    pub estimate: Option<f64>,
    /// When it was submitted, seconds since 1970.
    pub submitted: Option<f64>,
    /// How it ended, in words; empty while it has not, or where nobody knows.
    pub ending: String,
}

impl JobSummary {
    /// The colour of its state.
    pub fn tone(&self) -> Tone {
        match self.outcome {
            None => Tone::of(&self.state),
            Some(Outcome::Failed | Outcome::Stopped) => Tone::Bad,
            Some(_) if self.is_late() => Tone::Bad,
            Some(Outcome::Finished) => Tone::Good,
            Some(Outcome::Cancelled | Outcome::Unknown) => Tone::Quiet,
        }
    }

    /// Its state for reading: of one that has ended, how.
    pub fn state_word(&self) -> &str {
        match self.outcome {
            Some(outcome) => outcome.word(),
            None => &self.state,
        }
    }

    /// Returns true if it has not ended and has not begun.
    pub fn waits(&self) -> bool {
        let begins = [
            "waits", "pending", "held", "starting", "quoted", "requeue", "queued", "config",
        ];
        self.live && begins.iter().any(|word| self.state.starts_with(word))
    }

    /// Returns true if it has not ended, and its deadline is in danger or has passed.
    pub fn in_danger(&self) -> bool {
        self.live && matches!(self.tone(), Tone::Warn | Tone::Bad)
    }

    /// Returns true if its deadline has passed before its end. One that somebody cancelled is late only if it was by then.
    pub fn is_late(&self) -> bool {
        self.in_time == Some(false) || self.live && self.state == "late"
    }
}

/// All that the page of a job tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    /// The job.
    pub job: JobSummary,
    /// More, as name and value.
    pub facts: Vec<(String, String)>,
    /// What was said when it was submitted.
    pub said: String,
    /// Where its output is; None if nobody knows.
    pub output: Option<PathBuf>,
    /// Why there is no output to show, where there is none.
    pub no_output: String,
    /// It was submitted by this page, and can be again.
    pub ours: bool,
}

/// A node. Processors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// In words of its system; empty where it has none.
    pub state: String,
    /// What is committed.
    pub committed: f64,
    /// What there is to commit.
    pub processors: f64,
    /// Jobs with terms on it.
    pub jobs: u64,
}

/// The cluster, or this host as one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// How shares are kept, where that is known.
    pub note: String,
    /// What could not be taken into account.
    pub problems: Vec<String>,
}

/// What all systems are made of: the own executable, its configuration, and where records of submissions are kept.
#[derive(Debug, Clone)]
pub struct Site {
    /// This program.
    pub libra: PathBuf,
    /// The configuration that was named; none: it is found as always.
    pub config: Option<PathBuf>,
    /// The directory of the page's own files.
    pub state: PathBuf,
    /// The user's home directory, or where the page was started.
    pub home: PathBuf,
    /// The directory of the site's templates, where it has some.
    pub templates: Option<PathBuf>,
}

impl Site {
    /// `libra WORDS`, with the configuration of this one.
    pub fn libra(&self, words: &[&str]) -> Call {
        let call = Call::new(&self.libra);
        let call = match &self.config {
            Some(file) => call.arg("--config").arg(file),
            None => call,
        };
        call.args(words)
    }

    /// The one JSON value that `libra WORDS --json` prints.
    ///
    /// # Errors
    /// It failed, or printed something else.
    pub fn json(&self, words: &[&str]) -> Result<Value, Problem> {
        let done = self.libra(words).arg("--json").run()?;
        if !done.is_success() {
            return Err(Problem::new(plain(&done)));
        }
        serde_json::from_str(&done.out).map_err(|error| {
            Problem::new(format!(
                "'libra {}' printed no JSON: {error}",
                words.join(" ")
            ))
        })
    }
}

/// What a program of Libra complained of, without its own name in front.
pub fn plain(done: &Output) -> String {
    let said = done.complaint();
    let lines = said
        .lines()
        .map(|line| line.strip_prefix("libra: ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// A system, ready for use. Every function may wait for a program.
pub trait System: Debug + Send + Sync {
    /// Its kind.
    fn kind(&self) -> &'static Kind;

    /// What it is made of.
    fn site(&self) -> &Site;

    /// Returns true if it can be asked what a job would cost.
    fn quotes(&self) -> bool {
        true
    }

    /// What it would cost, and whether it would be accepted. Changes nothing.
    ///
    /// # Errors
    /// It could not be asked, or a value is none.
    fn quote(&self, wanted: &Submission) -> Result<Quote, Problem>;

    /// Submits it.
    ///
    /// # Errors
    /// Nothing was submitted, and not because Libra refused it.
    fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem>;

    /// The user's jobs, the latest first.
    ///
    /// # Errors
    /// The system does not say.
    fn jobs(&self) -> Result<Vec<JobSummary>, Problem>;

    /// One of the user's jobs; None if there is none of that key.
    ///
    /// # Errors
    /// The system does not say.
    fn job(&self, key: &str) -> Result<Option<Detail>, Problem>;

    /// Ends live jobs of the user's, by their ids; some hundred at the most.
    ///
    /// # Errors
    /// One of them does not end. The others do.
    fn end(&self, ids: &[String]) -> Result<(), Problem>;

    /// All nodes.
    ///
    /// # Errors
    /// The system does not say.
    fn cluster(&self) -> Result<Cluster, Problem> {
        own::batch_cluster(self.site(), self.kind().name)
    }

    /// To be called now and then: children that have ended are looked after.
    fn tick(&self) {}
}

/// So many jobs are ended by one program.
const ENDED_AT_ONCE: usize = 200;

/// Ends jobs of the user's, by their keys.
///
/// # Errors
/// There is none of that key, the only one has ended already, or one does not end: of each, why. The others end.
pub fn cancel(system: &dyn System, keys: &[String]) -> Result<(), Problem> {
    let listed = system.jobs()?;
    let listed: BTreeMap<&str, &JobSummary> =
        listed.iter().map(|job| (job.key.as_str(), job)).collect();
    let mut ids = Vec::new();
    let mut problems = Vec::new();
    for key in keys {
        let found = match listed.get(key.as_str()) {
            Some(job) => Some((*job).clone()),
            // Once its parts have begun, an array is not on the list by the key of its record.
            None => system.job(key)?.map(|detail| detail.job),
        };
        match found {
            None => problems.push("there is no such job of yours".to_string()),
            // Others of several may have ended while somebody was thinking.
            Some(job) if !job.live && keys.len() > 1 => {}
            Some(job) if !job.live => problems.push(format!("job {} has ended already", job.id)),
            Some(job) => ids.push(job.id),
        }
    }
    for ids in ids.chunks(ENDED_AT_ONCE) {
        problems.extend(system.end(ids).err().map(|error| error.to_string()));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Problem::new(problems.join("\n"))),
    }
}

/// A submission of this page, with its script, to be changed and submitted again.
pub fn again(system: &dyn System, key: &str) -> Option<Submission> {
    records::Records::new(system.site(), system.kind()).again(key)
}

/// Tells whether this may be the working directory of a job.
///
/// # Errors
/// Why not.
pub fn check_directory(directory: &str) -> Result<&Path, Problem> {
    let path = Path::new(directory);
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err(Problem::new(format!(
            "{directory} is not a directory; name the directory in which the job is to work"
        ))),
        Err(error) => Err(Problem::new(format!(
            "{directory} cannot be used as working directory: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_in_the_form_or_in_the_script() {
        let says = |estimate: &str, script: &str| {
            let wanted = Submission {
                estimate: estimate.to_string(),
                script: script.to_string(),
                ..Submission::default()
            };
            wanted.says_terms()
        };
        assert!(
            says("10", "") && says("", "#PBS -W estimate=1") && says("", "a\n#SBATCH --budget=1")
        );
        assert!(!says("", "") && !says("", "#PBS -N x\necho a deadline"));
    }

    #[test]
    fn an_id_is_a_job_and_silence_is_not_none() {
        let done = |out: &str, err: &str, code, late| Output {
            out: out.to_string(),
            err: err.to_string(),
            code,
            late,
        };
        let job = |id: &str| Sent::Job(id.to_string());
        assert_eq!(
            Sent::of(&done("7;cluster\r\n", "", Some(0), false)),
            job("7")
        );
        assert_eq!(Sent::of(&done("7\r\n", "", None, true)), job("7"));
        // With --wait, the exit status is the job's.
        assert_eq!(
            Sent::of(&done("12[].s\n", "", Some(3), false)),
            job("12[].s")
        );
        assert_eq!(Sent::of(&done("", "", None, true)), Sent::Perhaps);
        let lost =
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
        assert_eq!(Sent::of(&done("", lost, Some(1), false)), Sent::Perhaps);
        assert_eq!(
            Sent::of(&done("", "invalid partition", Some(1), false)),
            Sent::No
        );
    }
}
