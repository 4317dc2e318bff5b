//! What Slurm's side itself has against a submission, as data; shown, each is a sentence for the user, with what to do.

use super::{OPTIONS, QUOTE_OPTION};
use libra_batch::verdict;
use libra_core::book::held_quote::NoOrder;
use libra_core::decision::consumable::Consumable;
use libra_core::decision::refusal::Category;
use libra_units::{credits, cut, duration, in_one_line};
use libra_wording::errors::{class_as, class_by, disagreement, no_order};
use libra_wording::terms::TermsError;
use std::fmt;

/// A verdict that is no acceptance, in Slurm.
pub type NotTaken = verdict::NotTaken<Problem>;

/// Why a submission is not taken, or cannot be judged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The terms, as options.
    #[error("{}", in_options(.0))]
    Terms(TermsError),
    /// The terms in the comment.
    #[error("--comment: {0}")]
    Comment(TermsError),
    /// Slurm's own deadline was so many seconds ago.
    #[error("--deadline was {} ago", duration::show(*.0))]
    Past(f64),
    /// It asks for what is not judged here: this option.
    #[error(
        "a job with a deadline cannot ask for {0}: Libra does not know when it will be free; leave it out, or submit the job without terms"
    )]
    Unjudged(&'static str),
    /// A GRES that cannot be promised, or cannot be read; what was given.
    #[error(
        "'{}' cannot be promised: a job with a deadline can have whole generic resources that are counted, --gres=NAME:TYPE:COUNT; no shares of GPUs (shard, mps), and nothing that is not used up (no_consume)",
        cut(.0)
    )]
    Gres(String),
    /// No node has any of it; its name, as the book has it.
    #[error("no node for jobs with a deadline has {} that is counted (--gres, --gpus)", cut(.0))]
    NoGres(String),
    /// It is asked for in two ways.
    #[error("{} is asked for twice: say once how many, with --gres, --gpus or --gpus-per-task", cut(.0))]
    GresTwice(String),
    /// So many do not go on so many nodes.
    #[error("{count} {} cannot be spread evenly over {nodes} nodes; ask for a multiple, or say how many each node is to have: --gres, --gpus-per-node", cut(.name))]
    UnevenGres {
        /// Its name.
        name: String,
        /// How many.
        count: u64,
        /// Nodes.
        nodes: u32,
    },
    /// It asks for GPUs for each task, and does not say how many tasks there are.
    #[error("--gpus-per-task: a job with a deadline says as well how many tasks it has (-n)")]
    GresOfTasks,
    /// More sorts of counted resources than one job can have.
    #[error(
        "it asks for {count} sorts of generic resources, their types and licences; a job with a deadline can ask for {most}"
    )]
    TooManyGres {
        /// How many.
        count: usize,
        /// How many it may.
        most: usize,
    },
    /// Licences that cannot be read, or that are alternatives; what was given.
    #[error("--licenses={}: a job with a deadline names each of its licences once, NAME:COUNT,NAME:COUNT", cut(.0))]
    Licenses(String),
    /// The cluster itself has none of this name.
    #[error("this cluster has no licences {} of its own (Licenses in slurm.conf); those of a licence server cannot be promised", cut(.0))]
    NoLicense(String),
    /// There are not so many.
    #[error(
        "it asks for {asked} licences {name}; the cluster has {has} for jobs without a reservation"
    )]
    FewLicenses {
        /// Their name.
        name: String,
        /// How many it asks for.
        asked: u64,
        /// How many there are.
        has: u64,
    },
    /// It wants its nodes for itself.
    #[error(
        "a job with a deadline has no node for itself (--exclusive): leave it out, or ask for whole processors with --sla-class=dedicated and as many of them as a node has (-c)"
    )]
    Exclusive,
    /// It names no memory, and would have all of its node.
    #[error(
        "a job with a deadline cannot have all memory of a node, as it has {}; say how much it needs: --mem=…",
        match *.0 { true => "with --mem=0", false => "where it names none and partition and cluster have no default" }
    )]
    WholeMemory(bool),
    /// A component of a heterogeneous job that may not start at once.
    #[error(
        "a heterogeneous job with a deadline starts at once, this one {0}; submit it when it can start"
    )]
    Waits(Wait),
    /// An array whose tasks wait one by one.
    #[error(
        "--dependency={}: the tasks of an array with a deadline are promised together, and aftercorr lets them start one by one; write afterok",
        cut(.0)
    )]
    TaskByTask(String),
    /// Its deadline is over when it may start; both in seconds from its submission.
    #[error(
        "it may start {} after its submission at the earliest (--begin), and its deadline is {} after it; a deadline counts from the submission, give one of more than {}",
        duration::show(*.earliest), duration::show(*.deadline), duration::show(.earliest + .estimate)
    )]
    StartsTooLate {
        /// When it may start.
        earliest: f64,
        /// Its deadline.
        deadline: f64,
        /// Its estimate, seconds.
        estimate: f64,
    },
    /// It is to start later than Libra keeps jobs; seconds from now.
    #[error(
        "it may start in {} at the earliest (--begin, StartTime); a job with a deadline can wait for at most {} days",
        duration::show(*.0),
        MOST_DAYS
    )]
    StartsInYears(f64),
    /// So many tasks do not go on so many nodes.
    #[error(
        "{tasks} tasks cannot be spread evenly over {nodes} nodes; ask for a multiple of {nodes} tasks (-n), or for other nodes (-N)"
    )]
    Uneven {
        /// Tasks.
        tasks: u32,
        /// Nodes.
        nodes: u32,
    },
    /// More processors than can be counted.
    #[error("it asks for too many processors")]
    TooManyProcessors,
    /// An array that runs only so many tasks at once.
    #[error("{}", limited_array(.array, *.tasks, *.at_once, *.estimate))]
    LimitedArray {
        /// What was given.
        array: String,
        /// Its tasks.
        tasks: u32,
        /// How many of them may run at a time.
        at_once: u32,
        /// Of each, seconds.
        estimate: f64,
    },
    /// Its limit is no number; what was given.
    #[error("--array={}: expected a number of tasks behind '%', or none", cut(.0))]
    ArrayLimit(String),
    /// No list of tasks; what is wrong with it.
    #[error("{0}")]
    Array(String),
    /// Features that are not simply all needed; what was given.
    #[error(
        "--constraint={}: a job with a deadline can only name features that all its nodes have, at most {MOST_FEATURES}: a&b",
        cut(.0)
    )]
    Features(String),
    /// No partition shares processors.
    #[error(
        "no partition of this cluster lets jobs share processors (OverSubscribe=FORCE), so none takes jobs with a deadline; tell the administrators"
    )]
    NoPartition,
    /// The partitions that it names take no jobs with terms, these do.
    #[error(
        "partition {} takes no jobs with a deadline; submit to {}",
        cut(.named),
        .others.join(" or ")
    )]
    OtherPartition {
        /// What it names.
        named: String,
        /// Those that take such jobs.
        others: Vec<String>,
    },
    /// The partition ends jobs before its deadline, or, of a job without one, its estimate is over.
    #[error(
        "partition {partition} ends jobs after {} and the {term} is {}; give {} of at most that",
        duration::show(*.longest),
        duration::show(*.seconds),
        match *term { "estimate" => "an estimate", _ => "a deadline" }
    )]
    ShortPartition {
        /// Its name.
        partition: String,
        /// Seconds.
        longest: f64,
        /// `deadline` or `estimate`.
        term: &'static str,
        /// Seconds.
        seconds: f64,
    },
    /// It lists more nodes than it asks for.
    #[error(
        "--nodelist names {named} nodes for a job of {asked}; name as many, or leave the choice to Libra"
    )]
    NodeList {
        /// Nodes that it lists.
        named: usize,
        /// Nodes that it asks for.
        asked: u32,
    },
    /// No node of a partition is one for it.
    #[error("none of the nodes of partition {partition} {lacks}")]
    NoNode {
        /// The partition.
        partition: String,
        /// What all of them lack.
        lacks: Lack,
    },
    /// What it says about a quote is no order.
    #[error("--{QUOTE_OPTION}: {}", no_order(.0))]
    Order(NoOrder),
    /// A quote for a component of a heterogeneous job.
    #[error(
        "a heterogeneous job has a price for each component; ask for them one by one, without a quote"
    )]
    Heterogeneous,
    /// The partition of its quote takes no jobs now.
    #[error(
        "quote {number} is for partition {partition}, which takes no jobs now; ask for a new one"
    )]
    QuoteElsewhere {
        /// Its number.
        number: String,
        /// The partition.
        partition: String,
    },
    /// A test must not use up a quote.
    #[error(
        "quote {number} stands, for {} credits; a test and what comes without a session of the user's cannot use it: submit the job with sbatch, srun or salloc",
        credits(*.price)
    )]
    QuoteInTest {
        /// Its number.
        number: String,
        /// Credits.
        price: f64,
    },
    /// Its user's tests hold what they are promised for a moment, and the last was so short a time ago; seconds.
    #[error(
        "your last test (--test-only) kept others from what it asked for until it was found to be one; test again in {}, or ask for a quote (libra quote), which holds nothing",
        duration::show(.0.ceil())
    )]
    Tested(f64),
    /// It has no terms, and the site wants them.
    #[error(
        "jobs on this cluster need a deadline, a budget and an estimate: sbatch --sla-deadline=1h --budget=5000 --estimate=30m"
    )]
    NoTerms,
    /// It has no terms, and the nodes of its partition are for jobs that have; others are in these.
    #[error(
        "the nodes of partition {partition} are for jobs with a deadline: sbatch --sla-deadline=1h --budget=5000 --estimate=30m{}",
        or_submit_to(.others)
    )]
    NoTermsHere {
        /// The partition.
        partition: String,
        /// Partitions with other nodes.
        others: Vec<String>,
    },
    /// There is a configuration, and nobody can read it.
    #[error(
        "its configuration cannot be read, so nothing is judged; tell the administrators, the log of slurmctld says more"
    )]
    NoRules,
    /// Slurm's own records could not be read for too long.
    #[error(
        "the queue could not be read for ten minutes, so nothing can be promised; tell the administrators, the log of slurmctld says more"
    )]
    OldRecords,
    /// A fault of the plugin's own.
    #[error(
        "could not judge this job ({0}); tell the administrators, the log of slurmctld says more"
    )]
    Own(&'static str),
}

/// Days from its submission in which a job with a deadline may start: what is later is Libra's own time, see [`super::waiting`].
pub const MOST_DAYS: f64 = 1500.0;

/// Most features that a job names: each is looked for on every node.
pub const MOST_FEATURES: usize = 64;

/// Why a job does not start at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// `--hold`
    Held,
    /// `--begin`
    Later,
    /// `--dependency`
    Others,
}

/// Why a node takes no job of a partition with `FORCE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClosedBy {
    /// A job of this partition, which shares with nobody.
    Partition(String),
    /// A job that only shares with others of this user.
    User(u32),
}

/// What all nodes of a partition lack.
#[derive(Debug, Clone, PartialEq)]
pub enum Lack {
    /// To be one of those that are listed.
    Listed(Vec<String>),
    /// To be left by `--exclude`.
    Left(Vec<String>),
    /// These features.
    Features(Vec<String>),
    /// So many of a generic resource, whoever has them now.
    Gres {
        /// Which.
        what: Consumable,
        /// How many.
        needed: u64,
    },
    /// To have one type alone of it.
    OneType(Consumable),
    /// To be without the other components of the job.
    OtherComponents,
    /// So many processors.
    Processors(u64),
    /// To be free of jobs that keep it for themselves.
    Open(ClosedBy),
    /// Room: so many jobs may share a processor.
    Room(u32),
    /// Room for another held quote.
    QuoteRoom,
}

impl From<NoOrder> for Problem {
    fn from(given: NoOrder) -> Problem {
        Problem::Order(given)
    }
}

impl verdict::Problem for Problem {
    fn category(&self) -> Category {
        match self {
            Problem::NoNode { .. } | Problem::NodeList { .. } => Category::NoNode,
            Problem::NoGres(_) | Problem::NoLicense(_) | Problem::FewLicenses { .. } => {
                Category::Resource
            }
            Problem::StartsTooLate { .. } => Category::Deadline,
            Problem::ShortPartition { .. } => Category::Partition,
            Problem::NoTerms | Problem::NoTermsHere { .. } => Category::NoTerms,
            Problem::NoRules | Problem::OldRecords | Problem::Own(_) => Category::Fault,
            _ => Category::Request,
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wait::Held => "is held (--hold)",
            Wait::Later => "is to start later (--begin)",
            Wait::Others => "waits for others (--dependency)",
        })
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[String], between: &str| in_one_line(&all.join(between));
        match self {
            Lack::Listed(nodes) => write!(f, "is one of {}", list(nodes, ",")),
            Lack::Left(nodes) => write!(f, "is left by --exclude={}", list(nodes, ",")),
            Lack::Features(features) => write!(f, "has {}", list(features, " and ")),
            Lack::Gres { what, needed } => write!(f, "has {needed} {}", what.name()),
            Lack::OneType(what) => write!(
                f,
                "has {0} of one type alone, and Slurm chooses the type when the job starts: say which type, --gres={0}:TYPE:COUNT",
                what.name()
            ),
            Lack::OtherComponents => f.write_str("is free of the other components of this job"),
            Lack::Processors(count) => write!(f, "has {count} processors"),
            Lack::Open(ClosedBy::Partition(partition)) => write!(
                f,
                "is free of jobs that share no processors, such as those of partition {partition}"
            ),
            Lack::Open(ClosedBy::User(_)) => {
                f.write_str("is free of another user's jobs that share with nobody else")
            }
            Lack::QuoteRoom => f.write_str(
                "has room for another held quote: all of them together take at most half of its places",
            ),
            Lack::Room(most) => write!(
                f,
                "has room for another job: at most {most} may share a processor (OverSubscribe=FORCE:{most})"
            ),
        }
    }
}

/// What it would have to be: the tasks that run one after another are the work of one.
fn limited_array(array: &str, tasks: u32, at_once: u32, estimate: f64) -> String {
    let rounds = tasks.div_ceil(at_once.max(1));
    let last = at_once.saturating_sub(1);
    let estimate = duration::exact(estimate * f64::from(rounds));
    format!(
        "an array with a deadline starts all its {tasks} tasks at once, and --array={} lets {at_once} run at a time; leave out %{at_once}, or submit {at_once} tasks \
         that each do the work of {rounds}, one after another: --array=0-{last} --estimate={estimate}",
        cut(array)
    )
}

fn or_submit_to(partitions: &[String]) -> String {
    match partitions.is_empty() {
        true => String::new(),
        false => format!(", or submit to {}", partitions.join(" or ")),
    }
}

/// The words of an error about terms, with the options' names.
fn in_options(error: &TermsError) -> String {
    let option = |key: &str| {
        (OPTIONS.iter())
            .find(|(_, known)| *known == key)
            .map_or(key, |(option, _)| *option)
            .to_string()
    };
    match error {
        TermsError::Missing("estimate") => {
            "the estimate is missing; give it as --estimate=…, or as --time in minutes".to_string()
        }
        TermsError::Missing(key) => {
            let option = option(key);
            format!("the {key} is missing; give it as --{option}=…")
        }
        TermsError::Twice(key) => format!(
            "{key} is given twice, as --{} and in --comment",
            option(key)
        ),
        TermsError::Value { key, problem } => format!("--{}: {problem}", option(key)),
        TermsError::Class(error) => class_as(error, &|key| format!("--{}=…", option(key))),
        TermsError::Disagreement(between) => {
            disagreement(between, &|key| format!("--{}=…", option(key)))
        }
        TermsError::InGivenClass { error, class, line } => {
            format!("{} ({})", in_options(error), class_by(*class, line))
        }
        other => other.to_string(),
    }
}
