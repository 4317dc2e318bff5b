//! What the operating system, SQLite and PostgreSQL have that safe Rust has not: process descriptors, spawning, random bits, waiting, connections. The one
//! home of unsafe code outside the C interface and Slurm's plugins; it knows nothing of jobs.

#![allow(unsafe_code)]

pub mod clock;
pub mod file;
pub mod pidfd;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod random;
pub mod spawn;
#[cfg(feature = "sqlite")]
pub mod sqlite;
