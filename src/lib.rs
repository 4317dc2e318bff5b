//! Libra: admission control and CPU shares for jobs with an estimate, a deadline and a budget.
//!
//! ARCHITECTURE.md at the top of the tree is the map.

pub mod ffi;
pub mod pbs;
pub mod slurm;
#[cfg(feature = "cli")]
pub mod web;
