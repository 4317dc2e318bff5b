//! Workloads: the real logs, where they are there.

mod commands;
mod logs;
