//! The one home of unsafe code in this crate: the C interface ([`c`]).
//!
//! Slurm's plugins have a home of their own for it, `slurm-plugins/sys`.

#![allow(unsafe_code)]

// Its functions are visible to whoever loads a library that has them, so plugins leave them out.
#[cfg(feature = "c-interface")]
pub mod c;

#[cfg(feature = "c-interface")]
pub use c::*;
