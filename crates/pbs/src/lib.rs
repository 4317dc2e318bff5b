//! Libra inside OpenPBS: what its hooks ask, answered. It knows the host and what all admitting
//! sides have in common, and nothing of Slurm.
//!
//! The hooks (`pbs-hooks/`) are thin: they show this module an event as JSON and do what the answer
//! says. [`server`] answers inside pbs_server, over a [`libra_core::book::Book`]; [`hosts`] answers on execution hosts,
//! over the host's registry and cgroups. Both are reached through one C function, `libra_pbs_event`
//! of the library.
//!
//! PBS's own job records are the truth: every accepted job carries a line of the commitment
//! ([`libra_core::commitment`]) in its resource `libra_terms`. After a restart of pbs_server the book is built from those
//! lines, and now and then it is compared with them ([`records`]).
//!
//! What PBS writes is read in one place each: [`select`] (what a job asks for, [`plain`] without terms and [`nodes`] in the oldest way), [`exec_vnode`] (where it
//! runs), [`records`] (jobs and nodes).

mod alarms;
#[cfg(test)]
mod class_tests;
mod deferred;
#[cfg(test)]
mod deferred_tests;
mod ending;
pub mod exec_vnode;
mod front_end;
pub mod hosts;
mod life;
mod limits;
#[cfg(test)]
mod limits_tests;
pub mod marks;
pub mod nodes;
mod others;
#[cfg(test)]
mod others_tests;
pub mod plain;
mod planned;
#[cfg(test)]
mod planned_tests;
pub mod problem;
pub mod process;
mod queue;
#[cfg(test)]
mod quote_tests;
pub mod records;
mod release;
#[cfg(test)]
mod release_tests;
mod reservations;
pub mod resources;
pub mod select;
#[cfg(test)]
mod select_tests;
pub mod server;
mod subjobs;
mod suspended;
#[cfg(test)]
mod suspended_tests;
#[cfg(test)]
mod tests;
mod uses;

use serde_json::Value;

/// Resources that users set, in the order in which they are described.
pub const TERMS: [&str; 6] = libra_wording::terms::KEYS_WITH_CLASS;

/// Resource of a job that is a question, or comes with a held quote: see [`libra_batch::quote`].
pub const QUOTE: &str = "libra_quote";

/// Longest text for a user of PBS's commands, in bytes.
///
/// qsub writes `qsub: TEXT` and a line break into a field of 1024 bytes (`retmsg`, of `MAXPATHLEN`) and looks at no length; behind it are
/// pointers, by which its process in the background dies of anything much longer. The other commands print a text of any length, and
/// pbs_server cuts what a hook says at 3171.
pub const LONGEST_TEXT: usize = 1000;

/// An event that cannot be understood: a fault of a hook, not of a user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event cannot be read: {}", libra_units::in_one_line(.0))]
pub struct BadEvent(pub String);

/// A text of the event, if it is there and not empty.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value
        .get(key)
        .and_then(Value::as_str)
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// A text of the event that must be there.
pub(crate) fn need<'a>(value: &'a Value, key: &str) -> Result<&'a str, BadEvent> {
    text(value, key).ok_or_else(|| BadEvent(format!("'{key}' is missing or not text")))
}

/// A time or another number of the event that must be there.
pub(crate) fn number(value: &Value, key: &str) -> Result<f64, BadEvent> {
    value
        .get(key)
        .and_then(Value::as_f64)
        .filter(|number| number.is_finite())
        .ok_or_else(|| BadEvent(format!("'{key}' is missing or not a number")))
}

/// A list of the event; none is an empty one.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
