//! Libra: admission control and CPU shares for jobs with an estimate, a deadline and a budget.
//!
//! ARCHITECTURE.md at the top of the tree is the map.

pub mod accounts;
pub mod admit;
pub mod cgroup;
pub mod config;
pub mod ffi;
pub mod host;
pub mod metrics;
pub mod pbs;
pub mod quote;
#[cfg(feature = "simulate")]
pub mod report;
#[cfg(feature = "simulate")]
pub mod reproduce;
pub mod rules;
#[cfg(feature = "simulate")]
pub mod simulate;
pub mod slurm;
pub mod verdict;
#[cfg(feature = "cli")]
pub mod web;
#[cfg(feature = "simulate")]
pub mod workload;
