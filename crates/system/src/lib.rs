//! What the operating system and SQLite have that safe Rust has not: process descriptors, spawning, random bits, waiting. The one
//! home of unsafe code outside the C interface and Slurm's plugins; it knows nothing of jobs.

#![allow(unsafe_code)]

pub mod clock;
pub mod pidfd;
pub mod random;
pub mod spawn;
#[cfg(feature = "sqlite")]
pub mod sqlite;
