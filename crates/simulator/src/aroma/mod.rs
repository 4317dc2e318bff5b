//! AROMA: four classes of service on shared processors (Pascal et al. 2004).
//!
//! A job is mapped when it comes: hosts and a start date, now or later, such that every promise to
//! it and to all jobs mapped before holds, by the processor times that users gave
//! (`terms.estimate`). Processes on a host share its processors round robin; the mapping search
//! runs that forward. Where there is no such mapping, a planned job of a lower class is moved, or a
//! running one stopped to go on later on the same hosts; or else the job is refused.
//!
//! What the paper leaves open, and what is done here:
//!
//! - Memory counts in the ranking alone; it refuses nothing.
//! - Hosts are ranked by finish times counted from now. Counted from the start of the calendar, the
//!   weight of memory would grow with the date.
//! - Tasks of one job may share a host, but dedicated ones have a processor each.
//! - A job of the high priority class may be moved within its limit, but is not stopped.
//! - A job that ends early, or was moved or stopped, leaves room: planned jobs move forward into it.
//! - A job that outlives its estimate is taken to need a quarter more than it has used, again and
//!   again. Planned jobs that it is in the way of move back. A deadline that cannot be kept then is
//!   broken, but by no later job.
//! - A job that is late by such an overrun is neither refused nor stopped.

mod displace;
mod host;
mod plan;
mod replan;
mod round_robin;
mod run;
mod search;

use super::{Machine, Observer, Scheduler};
use libra_workload::Job;
use std::fmt;

/// A class of service (section 3.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Class {
    /// 1: ends by the job's deadline, `terms.deadline` seconds after its submission.
    Deadline,
    /// 2: starts at once.
    HighPriority {
        /// At most so many seconds after its submission, ≥ 0.
        within: f64,
    },
    /// 3: each task is alone on its processor for as long as it runs. Never refused, unless it asks
    /// for more processors than there are.
    Dedicated,
    /// 4: best effort. Never refused.
    BestEffort,
}

impl Class {
    /// 1 to 4; 1 is the most important.
    pub fn rank(self) -> u8 {
        match self {
            Class::Deadline => 1,
            Class::HighPriority { .. } => 2,
            Class::Dedicated => 3,
            Class::BestEffort => 4,
        }
    }
}

/// Is told of mappings; times are seconds of the simulation.
pub trait MappingObserver {
    /// The search for a mapping of a job begins.
    fn searching(&mut self, _index: usize, _class: Class) {}
    /// The search has ended: with a start date, or with none and the job is refused.
    fn searched(&mut self, _index: usize, _class: Class, _start: Option<f64>) {}
    /// A planned job was moved for one of a higher class, and will now start at `start`.
    fn moved(&mut self, _index: usize, _at: f64, _start: f64) {}
    /// A running job was stopped for one of a higher class, and will go on at `goes_on`.
    fn stopped(&mut self, _index: usize, _at: f64, _goes_on: f64) {}
}

/// Nobody.
impl MappingObserver for () {}

/// Says the class of a job, from its index in the workload and the job.
pub type ClassOf<'a> = Box<dyn Fn(usize, &Job) -> Class + Send + 'a>;

/// The scheduler.
pub struct Aroma<'a> {
    /// The class of a job.
    pub class_of: ClassOf<'a>,
    /// Weight of the memory used in the ranking of hosts, ≥ 0: the paper's Mf, which gives no value.
    pub memory_weight: f64,
    /// How many jobs of lower classes may be moved, or may be stopped, for one new job, ≥ 1. The
    /// paper speaks of one.
    pub most_displaced: usize,
}

impl fmt::Debug for Aroma<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aroma")
            .field("memory_weight", &self.memory_weight)
            .field("most_displaced", &self.most_displaced)
            .finish_non_exhaustive()
    }
}

impl Default for Aroma<'_> {
    fn default() -> Self {
        Aroma::new(by_deadline)
    }
}

/// A job with a finite deadline is of the deadline class, any other best effort.
pub fn by_deadline(_index: usize, job: &Job) -> Class {
    match job.terms.deadline.is_finite() {
        true => Class::Deadline,
        false => Class::BestEffort,
    }
}

impl<'a> Aroma<'a> {
    /// With classes given by a function of the job's index and the job.
    pub fn new(class_of: impl Fn(usize, &Job) -> Class + Send + 'a) -> Aroma<'a> {
        Aroma {
            class_of: Box::new(class_of),
            memory_weight: 1.0,
            most_displaced: 1,
        }
    }

    /// All jobs of one class.
    pub fn all(class: Class) -> Aroma<'a> {
        Aroma::new(move |_, _| class)
    }

    /// Classes by queue (SWF field 15): the first entry with the job's queue decides; a job of
    /// another queue is best effort.
    pub fn by_queue(classes: Vec<(i32, Class)>) -> Aroma<'a> {
        Aroma::new(move |_, job| {
            let found = classes.iter().find(|(queue, _)| *queue == job.queue);
            found.map_or(Class::BestEffort, |(_, class)| *class)
        })
    }

    /// As [`Scheduler::run`], and tells of the mappings too.
    pub fn run_observed(
        &self,
        jobs: &[Job],
        machine: &Machine,
        observer: &mut dyn Observer,
        mappings: &mut dyn MappingObserver,
    ) {
        let mut simulation = run::Simulation::new(self, jobs, machine);
        while simulation.step(observer, mappings) {}
    }
}

impl Scheduler for Aroma<'_> {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        self.run_observed(jobs, machine, observer, &mut ());
    }
}

#[cfg(test)]
mod tests;
