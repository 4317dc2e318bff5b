//! Libra: admission control and CPU shares for jobs with an estimate, a deadline and a budget.
//!
//! ARCHITECTURE.md at the top of the tree is the map.

pub mod ffi;
pub mod pbs;
#[cfg(feature = "simulate")]
pub mod report;
#[cfg(feature = "simulate")]
pub mod reproduce;
#[cfg(feature = "simulate")]
pub mod simulate;
pub mod slurm;
#[cfg(feature = "cli")]
pub mod web;
#[cfg(feature = "simulate")]
pub mod workload;
