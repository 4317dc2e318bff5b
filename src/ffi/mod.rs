//! The one home of unsafe code.
#![allow(unsafe_code)]

pub mod spawn;
