//! The page that `libra simulate --report` writes.
//!
//! Pure: numbers in, text out; the same numbers give the same bytes.

mod clock;
mod detail;
mod gains;
pub mod grid;
pub mod page;
mod parts;
pub mod run;
pub mod sweep;
#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use gains::SiteRules;
pub use grid::Promises;
pub use page::{Report, Results};
pub use run::PolicyRun;
pub use sweep::Sweep;
