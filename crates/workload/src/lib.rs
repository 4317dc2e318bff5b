//! Workloads: the jobs that a simulation is fed with, from real logs or from a model. It knows terms, and no scheduler.
//!
//! A log says when a job came, how long it ran and what its user asked for; it says nothing of
//! deadlines and budgets. Those are drawn by a workload model, the papers' or another, or given by the site.

pub mod coupled;
pub mod deadlines;
pub mod gridengine;
pub mod import;
pub mod lublin;
pub mod margin;
mod random;
pub mod read;
pub mod sla;
pub mod swf;
pub mod synthetic;
pub mod terms;
pub mod uniform;
pub mod write;

use libra_core::decision::job::Terms;

/// One job as a simulation sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// Its number in the log (SWF field 1).
    pub number: u64,
    /// When it was submitted, in seconds since the first job of the workload.
    pub submit: f64,
    /// How long each of its slots runs on a processor of its own of a reference node, in seconds,
    /// > 0. Drives the execution; no policy may see it.
    pub run_time: f64,
    /// What its user asks for.
    pub terms: Terms,
    /// Slots: chunks of one processor each, ≥ 1.
    pub processors: u32,
    /// Memory of each slot in bytes; 0 asks for none.
    pub memory: u64,
    /// Its user (SWF field 12); 0 where the log does not say.
    pub user: u32,
    /// Its queue (SWF field 15); -1 where the log does not say.
    pub queue: i32,
    /// How long it waited in the log, in seconds (SWF field 3); negative where the log does not say.
    pub logged_wait: f64,
    /// Its slots wait for each other: each goes on at the pace of the slowest, as the processes of most
    /// parallel programs do. Otherwise each makes its own way.
    pub coupled: bool,
}

impl Job {
    /// When it must be finished, in seconds since the first job of the workload.
    pub fn due(&self) -> f64 {
        self.submit + self.terms.deadline
    }

    /// Returns true if a promise to it is kept only if it needs less than it says: its deadline is shorter than
    /// its estimate.
    pub fn conditional(&self) -> bool {
        self.terms.estimate > self.terms.deadline
    }

    /// Returns true if an end at `finish` keeps the deadline. Rounding in sums of times is forgiven: a
    /// microsecond, or the last digits of a long simulation.
    pub fn met_by(&self, finish: f64) -> bool {
        let due = self.due();
        finish <= due + (due * 1e-12).max(1e-6)
    }
}
