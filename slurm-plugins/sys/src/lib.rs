//! Slurm's side of the plugins: the site's headers as Rust, and every unsafe step around them.
#![allow(unsafe_code)]

pub mod ask;
pub mod job;
pub mod listening;
pub mod log;
mod others;
pub mod queue;
pub mod spank;
pub mod text;

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    missing_docs,
    clippy::all
)]
pub mod slurm {
    //! What bindgen made of slurm.h and spank.h.
    include!(concat!(env!("OUT_DIR"), "/slurm.rs"));
}

/// User number of this process.
pub fn this_user() -> u32 {
    unsafe extern "C" {
        fn geteuid() -> u32;
    }
    // SAFETY: it takes nothing and cannot fail.
    unsafe { geteuid() }
}
