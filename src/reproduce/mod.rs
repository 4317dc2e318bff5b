//! The papers' experiments, run anew: their tables as plain data, and for each statement that a
//! paper draws from them whether it holds here.
//!
//! Pure: logs and clocks are handed in, and nothing is printed.

pub mod aroma;
