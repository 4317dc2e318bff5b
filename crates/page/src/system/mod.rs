//! Where jobs go: this host, or a batch system. Each is a module with a [`Kind`] and a [`System`]; [`KINDS`] lists them.
//!
//! Everything is done by programs that the user could have typed, as that user: `libra`, `sbatch`, `qsub` and their kin.
//! Nothing here knows of HTTP or HTML. Every function may wait for a program.

pub mod ask;
mod client;
pub mod command;
pub mod ending;
mod executable;
pub mod files;
pub mod gridengine;
pub mod job;
pub mod local;
pub mod output;
pub mod own;
pub mod pbs;
pub mod profiles;
pub mod quote;
pub mod records;
pub mod search;
pub mod slurm;
pub mod story;
pub mod submission;
pub mod templates;

use command::{Call, Output};
use job::{Detail, JobSummary};
use libra_core::decision::class::Class;
use quote::Quote;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use story::Story;
use submission::{Extra, Submission, Submitted};

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
    /// Classes of service that a job may ask for.
    pub classes: &'static [Class],
    /// What a job may say besides.
    pub extras: &'static [Extra],
    /// GPUs may be asked for by type.
    pub gpu_types: bool,
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
pub static KINDS: [&Kind; 4] = [&local::KIND, &gridengine::KIND, &pbs::KIND, &slurm::KIND];

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
    /// The directory below which scripts are chosen: the user's home, where that is known.
    pub files: PathBuf,
    /// The directory of the site's templates, where it has some.
    pub templates: Option<PathBuf>,
    /// The classes of jobs of this host that name none: of one processor, and of several.
    pub classes: [Class; 2],
}

/// The classes of service of batch systems: best effort is a job without terms there.
pub const CLASSES_OF_BATCH: &[Class] = &[Class::Deadline, Class::Dedicated, Class::Immediate];

impl Site {
    /// The class of a job of this host that names none, of one processor or of several.
    pub fn class_of(&self, several: bool) -> Class {
        self.classes[usize::from(several)]
    }

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

    /// What else there is to tell of a job that [`System::job`] has found; what cannot be found out is left out.
    fn story(&self, detail: &Detail) -> Story {
        Story::of_record(self.site(), self.kind(), &detail.job.key)
    }

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
