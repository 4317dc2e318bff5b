//! Libra inside Slurm: what its plugins ask, answered; plain Rust, without Slurm's own types. It knows the host and what
//! all admitting sides have in common, and nothing of PBS.
//!
//! [`controller`] decides inside slurmctld, over a [`libra_core::book::Book`]. [`node`] begins, joins and ends jobs on a
//! node, over the host's registry and cgroups, and believes only what [`claim`] finds on record. The plugins (`slurm-plugins/`) turn Slurm's structures into these
//! modules' and back, and decide nothing.
//!
//! Slurm's own records are the truth: every accepted job carries what is committed to it in its admin comment
//! ([`array`]), which users cannot change. The book is built from the records after a restart of slurmctld, and
//! compared with them every second or so ([`records`], [`poll`]): Slurm tells a plugin neither a job's number nor its end.

pub mod admin_comment;
pub mod array;
pub mod claim;
pub mod controller;
mod counted;
mod deferred;
mod front_end;
pub mod gres;
mod heard;
pub mod held;
pub mod node;
pub mod options;
pub mod orders;
pub mod others;
pub mod payment;
mod planned;
pub mod poll;
pub mod problem;
#[cfg(test)]
mod quote_tests;
pub mod records;
mod rules;
pub mod submission;
mod suspended;
mod test_only;
#[cfg(test)]
mod tests;
pub mod waiting;
mod words;

use libra_wording::terms::CLASS;
pub use rules::Change;

/// Name of the variable in a job's prolog environment that has what is committed. Slurm puts `SPANK_` before it on the node. There it
/// only tells that there is something to ask slurmctld for ([`claim`]).
pub const COMMITMENT_VARIABLE: &str = "LIBRA_COMMITMENT";

/// Option of a job that is a question, or comes with a held quote: see [`libra_batch::quote`].
pub const QUOTE_OPTION: &str = "sla-quote";

/// Users' options, in the order in which they are described: the option, and the key of [`libra_wording::terms`].
pub const OPTIONS: [(&str, &str); 6] = [
    ("estimate", "estimate"),
    ("sla-deadline", "deadline"),
    ("budget", "budget"),
    ("deadline-type", "deadline_type"),
    ("penalty-rate", "penalty_rate"),
    ("sla-class", CLASS),
];
