//! What happened and how it stands, in numbers for people who watch a site: counters, gauges, and a history by the hour. It knows the
//! book's figures, and nobody who counts.
//!
//! [`counts`] counts what becomes of submissions and jobs, [`histogram`] how long something took. A [`record`] keeps the
//! counts of one system over restarts, and hour by hour for the last two weeks; written down it is JSON, which the web page
//! reads. [`figures`] are gauges as plain numbers. [`page`] makes the text of it that Prometheus reads, of [`families`] alone,
//! so that what is exported is what is documented. All that is pure.
//!
//! [`files`] is the edge: the files that an admitting process writes, and others read.
//!
//! Invariants:
//! - What is counted has no names of jobs or users: the number of time series does not grow with them.
//! - Counting takes no memory and does no I/O; it is done inside job_submit.

pub mod counts;
pub mod families;
pub mod figures;
pub mod files;
pub mod histogram;
pub mod page;
pub mod record;
#[cfg(test)]
mod tests;

pub use counts::{Counts, Outcome, Rejection};
pub use figures::HostFigures;
pub use histogram::Histogram;
pub use page::{Format, Page};
pub use record::StoredCounts;
