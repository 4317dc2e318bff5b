//! Libra beside Grid Engine: a Job Submission Verifier that judges, records that keep its book, and the start of jobs on hosts.
//!
//! Grid Engine loads nothing of Libra's. qmaster starts a verifier for each of its worker threads and speaks to it over pipes ([`jsv`]); a job's
//! terms are requests of resources ([`submission`]), and what is committed travels in the job's context ([`context`]), which users cannot
//! change once a verifier is configured (`jsv_allowed_mod`), and which is bound to the job's number. What becomes of a job is
//! read from qstat ([`records`]) and from the cell's accounting file ([`accounting`], [`ends`]), and paid by accounts where the site has them
//! ([`payment`]). A job that may not start yet waits for a value of a host ([`starts`], `deferred`). On a host `shepherd_cmd` starts Libra in the place of each shepherd ([`shepherd`]).
//!
//! Invariants:
//! - No verifier asks qmaster anything while qmaster waits for it: submissions are answered from memory ([`admission`]).
//! - What qmaster's records say is the truth about everything but acceptances that are younger than they are.

pub mod accounting;
pub mod admission;
pub mod commands;
pub mod context;
pub mod deferred;
pub mod ends;
pub mod front_end;
pub mod jsv;
pub mod payment;
pub mod problem;
pub mod records;
pub mod shepherd;
pub mod starts;
pub mod submission;
#[cfg(test)]
mod tests;
pub mod watched_files;

/// What users request with `-l`, in the order in which it is described: the keys of [`libra_wording::terms`], each a complex of the same name.
pub const TERMS: [&str; 6] = libra_wording::terms::KEYS_WITH_CLASS;

/// The request of a job that is a question, or comes with a held quote: see [`libra_batch::quote`].
pub const QUOTE: &str = "quote";

/// Name of the variable of a job's context that has what is committed. No user may set it.
pub const CONTEXT: &str = "libra";
