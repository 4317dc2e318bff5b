//! Workloads: the real logs, where they are there.
#![cfg(feature = "simulate")]

mod logs;
