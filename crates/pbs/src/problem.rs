//! What PBS's side itself has against a job, as data; shown, each is a sentence for the user, with what to do.

use super::select::NotAsked;
use libra_batch::verdict;
use libra_core::book::held_quote::NoOrder;
use libra_core::decision::refusal::Category;
use libra_units::{duration, in_one_line};
use libra_wording::errors::no_order;
use libra_wording::terms::TermsError;

/// A verdict that is no acceptance, in PBS.
pub type NotTaken = verdict::NotTaken<Problem>;

/// Why a job is not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The terms.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// What it asks for beside them.
    #[error(transparent)]
    Asked(#[from] NotAsked),
    /// The indices of an array; what is wrong with them.
    #[error("{0}")]
    Array(String),
    /// Its deadline is over when it may start (`-a`); both in seconds from its submission.
    #[error(
        "it may start {} after its submission at the earliest (-a), and its deadline is {} after it; a deadline counts from the submission, give one of more than {}",
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
    /// No node meets its conditions: resource and value.
    #[error("none of the nodes that jobs with a deadline run on has {}", conditions(.0))]
    NoNode(Vec<(String, String)>),
    /// A limit of the server or of a queue stands in the way; which, and how far it is reached.
    #[error("{}", in_one_line(.0))]
    Limit(String),
    /// All nodes belong to other queues than its own, or none of its queue's is Libra's.
    #[error("none of the nodes that jobs with a deadline run on is for jobs of its queue")]
    NoNodeOfQueue,
    /// The places that PBS has found for it have no room; this node.
    #[error("{0} has no room for its chunks")]
    NoRoom(String),
    /// What it says about a quote is no order.
    #[error("{}", no_order(.0))]
    Order(NoOrder),
    /// It has no terms, and the site wants them.
    #[error(
        "jobs on this cluster need a deadline, a budget and an estimate: qsub -W deadline=1h,budget=5000,estimate=30m"
    )]
    NoTerms,
}

impl From<NoOrder> for Problem {
    fn from(given: NoOrder) -> Problem {
        Problem::Order(given)
    }
}

impl verdict::Problem for Problem {
    fn category(&self) -> Category {
        match self {
            Problem::NoNode(_) | Problem::NoNodeOfQueue => Category::NoNode,
            Problem::Limit(_) => Category::Limit,
            Problem::NoRoom(_) => Category::Share,
            Problem::StartsTooLate { .. } => Category::Deadline,
            Problem::NoTerms => Category::NoTerms,
            Problem::Terms(_) | Problem::Asked(_) | Problem::Array(_) | Problem::Order(_) => {
                Category::Request
            }
        }
    }
}

fn conditions(all: &[(String, String)]) -> String {
    let all: Vec<String> = (all.iter())
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    in_one_line(&all.join(" and "))
}
