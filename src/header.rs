//! `include/libra.h` as Rust sees it, made from it by build.rs.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    clippy::all
)]

include!(concat!(env!("OUT_DIR"), "/header.rs"));
