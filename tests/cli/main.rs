//! The command line on the real host: real cgroups, real processes, real time.
//!
//! Each test has its own registry and its own cgroup root and removes both. Run as root with a
//! writable cpu controller; without one the tests that need it fail and say so.

mod agent;
mod answers;
mod classes;
mod completions;
mod faults;
mod metrics;
mod overrun;
#[path = "../program.rs"]
mod program;
mod quotes;
mod run;
mod shares;
mod status;
mod support;
