//! Workloads: the real logs, where they are there.
#![cfg(feature = "cli")]

mod commands;
mod logs;
