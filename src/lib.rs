//! Libra: admission control and CPU shares for jobs with an estimate, a deadline and a budget.
pub mod cgroup;
