//! The C ABI of `include/libra.h`: what batch systems load. Pointers become values here and answers become codes; what is asked is
//! answered by the crates below, of which the command line is none.
//!
//! [`pointers`] does the pointer work.
//!
//! Every entry goes through [`enter`]: it catches panics, keeps the error text and refuses calls
//! from inside the log callback. A call validates all that it was given before it does anything, and
//! writes only when it has succeeded.
//!
//! The signatures here and those of the header are compared by the compiler, see [`signatures`].
//! The header documents the functions; the comments here do not repeat it.

#![allow(unsafe_code)]

pub mod header;

mod answer;
mod book;
mod fault;
mod host;
mod log;
mod panic;
mod pbs;
mod pointers;
mod signatures;
mod stateless;
mod strings;

pub use book::{
    libra_book_admit, libra_book_advance, libra_book_allocations, libra_book_bind,
    libra_book_cancel, libra_book_cancel_token, libra_book_close, libra_book_committed,
    libra_book_ended, libra_book_modify, libra_book_node_name, libra_book_open,
    libra_book_progress, libra_book_rebuild, libra_book_set_available, libra_book_set_node,
    libra_book_snapshot, libra_book_started,
};
pub use host::{
    libra_host_adjust, libra_host_attach, libra_host_begin, libra_host_close, libra_host_describe,
    libra_host_end, libra_host_open, libra_host_usage,
};
pub use log::libra_set_log;
pub use pbs::libra_pbs_event;
pub use stateless::{accept_reject_all_nodes, libra_parse_terms, req_budget};
pub use strings::{libra_code_text, libra_last_error, libra_string_free, libra_version};

use fault::Fault;
use std::ffi::c_int;

/// The boundary: runs the work of one call and turns whatever comes of it into a code.
fn enter(work: impl FnOnce() -> Result<c_int, Fault>) -> c_int {
    strings::clear_last_error();
    let result = if log::inside_callback() {
        Err(Fault::new(
            header::LIBRA_E_REENTRANT,
            "the library was called from its own log callback",
        ))
    } else {
        panic::contain(work)
    };
    result.unwrap_or_else(|fault| {
        strings::set_last_error(&fault.text);
        fault.code
    })
}

#[cfg(test)]
mod tests;
