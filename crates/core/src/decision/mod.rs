//! The decision core: is this job accepted, where, at which share and price; and if not, why not,
//! and what would be accepted.
//!
//! Pure: plain data in, decision out. No clock (`now`, where it matters, is the caller's), no
//! input or output, no globals (but the names of [`consumable`]s). The command line, the C ABI, the book and the simulator all
//! decide here.
//!
//! The way of a job: [`job`] says what was asked, [`pricing`] what it costs, [`policy`] what each
//! [`node`] answers, [`placement`] which nodes take its chunks; [`admission`] puts the four in
//! order, and [`refusal`] and [`counter_offer`] speak to the user whose job was refused.
//! [`share`] is the formula everything rests on. [`service`] says what the classes of
//! service ([`class`]) promise, [`class_defaults`] which a job has that names none, [`suspension`] which jobs without one
//! stand still for those that have one.
//!
//! Units everywhere: seconds, processors (1.0 is one processor for one second per second),
//! credits, bytes, amounts of consumables.

pub mod admission;
pub mod allotment;
pub mod class;
pub mod class_defaults;
pub mod consumable;
pub mod counter_offer;
pub mod curve;
mod few;
pub mod job;
pub mod node;
pub mod node_index;
pub mod overrun;
pub mod placement;
pub mod policy;
pub mod pricing;
pub mod refusal;
pub mod service;
pub mod share;
pub mod suspension;

/// Relative tolerance of every comparison of a sum of shares with a capacity.
///
/// Shares are quotients; a node filled exactly (1/3 + 1/3 + 1/3) must count as full, not as over-full.
pub const TOLERANCE: f64 = 1e-9;
