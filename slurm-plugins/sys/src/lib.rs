//! Slurm's side of the plugins: the site's headers as Rust, and every unsafe step around them.
#![allow(unsafe_code)]

pub mod ask;
pub mod control;
pub mod job;
mod job_info;
pub mod listening;
pub mod log;
mod others;
pub mod queue;
pub mod reader;
pub mod spank;
pub mod text;

use std::ffi::{CStr, c_int};

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

/// Why Slurm could not be read or told something.
#[derive(Debug, Clone)]
pub struct CallFailed(pub String);

impl std::fmt::Display for CallFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn failed(what: &str) -> CallFailed {
    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: Slurm answers with a text that stays, for any number.
    let text = unsafe { slurm::slurm_strerror(number) };
    let text = match text.is_null() {
        true => format!("error {number}"),
        // SAFETY: it ends with a NUL.
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    };
    CallFailed(format!("{what}: {text}"))
}

/// Slurm's answer to a call that says since when; None: nothing has changed.
///
/// # Errors
/// When slurmctld does not answer.
fn changed<M>(code: c_int, message: *mut M, what: &str) -> Result<Option<*mut M>, CallFailed> {
    if code == 0 && !message.is_null() {
        return Ok(Some(message));
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    match code != 0 && error == Some(slurm::SLURM_NO_CHANGE_IN_DATA as i32) {
        true => Ok(None),
        false => Err(failed(what)),
    }
}

/// User number of this process.
pub fn this_user() -> u32 {
    unsafe extern "C" {
        fn geteuid() -> u32;
    }
    // SAFETY: it takes nothing and cannot fail.
    unsafe { geteuid() }
}
