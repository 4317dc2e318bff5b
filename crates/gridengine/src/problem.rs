//! What Grid Engine's side itself has against a submission, as data; shown, each is a sentence for the user, with what to do.

use super::starts::START;
use libra_batch::verdict;
use libra_core::book::held_quote::NoOrder;
use libra_core::decision::refusal::Category;
use libra_units::cut;
use libra_wording::errors::no_order;
use libra_wording::terms::TermsError;
use std::fmt;

/// Why a submission is not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The terms.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// It sets Libra's own variable of its context.
    #[error(
        "the context variable 'libra' is Libra's own; leave it out of -ac, and submit a job anew rather than by qresub"
    )]
    Context,
    /// It asks for what is not judged here: this request or option.
    #[error(
        "a job with a deadline cannot ask for {}: Libra does not know when it will be free; leave it out, or submit the job without terms",
        cut(.0)
    )]
    Unjudged(String),
    /// A term among soft requests.
    #[error("{} is asked for as a soft request, which promises nothing; leave out -soft before it", cut(.0))]
    Soft(String),
    /// It waits for what Libra does not know.
    #[error("a job with a deadline cannot {0}")]
    Waits(Wait),
    /// A time of `-a` that is none.
    #[error("-a: '{}' is not a time", cut(.0))]
    Time(String),
    /// The cell has no complex for jobs that may not start yet.
    #[error(
        "a job with a deadline that may not start yet (-h, -a, -hold_jid) needs the complex {START}, which this cell does not have; tell the administrators to run 'libra gridengine install' once more, or submit it when it can start"
    )]
    NoStart,
    /// A list of tasks that is none; what was given.
    #[error("-t: '{}' is not a list of tasks", cut(.0))]
    Array(String),
    /// An array that runs only so many tasks at once.
    #[error("an array with a deadline starts all its tasks at once; leave out -tc")]
    LimitedArray,
    /// A parallel environment that qmaster does not have, or has not told of yet.
    #[error("parallel environment '{}' is not known; give one that 'qconf -spl' lists", cut(.0))]
    NoEnvironment(String),
    /// A range of slots.
    #[error("a job with a deadline asks for one number of slots, not for a range: -pe {} {most}", cut(.environment))]
    Range {
        /// The parallel environment.
        environment: String,
        /// The most slots that it asks for.
        most: u32,
    },
    /// Slots that do not go evenly on the hosts.
    #[error("parallel environment {} puts {each} slots on a host; ask for a multiple of {each}", cut(.environment))]
    Uneven {
        /// The parallel environment.
        environment: String,
        /// Slots on each host.
        each: u32,
    },
    /// An array of parallel jobs that need several hosts each.
    #[error(
        "an array of jobs with a deadline goes to one host; each of its tasks may need only that one"
    )]
    WideArray,
    /// No host is one for it; what all of them lack.
    #[error("none of the hosts that jobs with a deadline run on {0}")]
    NoHost(Lack),
    /// What it says about a quote is no order.
    #[error("quote: {}", no_order(.0))]
    Order(NoOrder),
    /// It has no terms, and the site wants them.
    #[error(
        "jobs on this cluster need a deadline, a budget and an estimate: qsub -l deadline=1:00:00,budget=5000,estimate=0:30:00"
    )]
    NoTerms,
}

/// What a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// `-hold_jid_ad`
    Tasks,
    /// `-ar`
    Reservation,
}

/// What hosts lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// `-l hostname=…`
    Named(String),
    /// A queue of `-q`, or of the site's configuration.
    Queue,
    /// The parallel environment.
    Environment(String),
    /// So many free slots in queues.
    Slots(u64),
    /// So many processors.
    Processors(u64),
}

impl From<NoOrder> for Problem {
    fn from(given: NoOrder) -> Problem {
        Problem::Order(given)
    }
}

impl verdict::Problem for Problem {
    fn category(&self) -> Category {
        match self {
            Problem::NoHost(Lack::Slots(_)) => Category::Share,
            Problem::NoHost(_) => Category::NoNode,
            Problem::NoTerms => Category::NoTerms,
            _ => Category::Request,
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wait::Tasks => {
                "wait for another array's tasks one by one (-hold_jid_ad); let it wait for all of them (-hold_jid)"
            }
            Wait::Reservation => {
                "wait for a reservation (-ar): Libra does not know when that will be; leave it out"
            }
        })
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Named(pattern) => write!(f, "is called {}", cut(pattern)),
            Lack::Queue => f.write_str("has one of its queues in service"),
            Lack::Environment(name) => write!(f, "has parallel environment {}", cut(name)),
            Lack::Slots(slots) => write!(f, "has {slots} free slots in its queues now"),
            Lack::Processors(count) => write!(f, "has {count} processors"),
        }
    }
}
