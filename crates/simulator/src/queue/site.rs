//! The machine at work: what time it is, what runs where and until when. Disciplines act through it.
//!
//! Invariant: the running jobs are those that were started and have not ended; each holds its
//! processors from its start to its end.

use super::expected::Expected;
use super::free::{NodeFree, Placement, Processors};
use crate::{Fate, Machine, Observer, Outcome};
use libra_workload::Job;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A running job.
#[derive(Default)]
struct Run {
    index: usize,
    start: f64,
    expected: f64,
    placement: Placement,
}

/// When a running job ends. The greatest is the one that ends first; of several that end at one
/// time, the first of the workload.
struct End {
    finish: f64,
    index: usize,
    run: u32,
}

impl Ord for End {
    fn cmp(&self, other: &End) -> Ordering {
        other
            .finish
            .total_cmp(&self.finish)
            .then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &End) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for End {
    fn eq(&self, other: &End) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for End {}

/// The machine at work.
pub(super) struct Site<'a> {
    jobs: &'a [Job],
    observer: &'a mut dyn Observer,
    now: f64,
    processors: Processors,
    /// The ends of the running jobs.
    ends: BinaryHeap<End>,
    /// The running jobs, and places of ended ones.
    runs: Vec<Run>,
    /// The places of ended ones.
    vacant: Vec<u32>,
    /// Node list of an outcome, kept for its storage.
    nodes: Vec<u32>,
}

impl<'a> Site<'a> {
    /// An empty machine at time 0.
    pub fn new(jobs: &'a [Job], machine: &Machine, observer: &'a mut dyn Observer) -> Site<'a> {
        Site {
            jobs,
            observer,
            now: 0.0,
            processors: Processors::new(machine),
            ends: BinaryHeap::new(),
            runs: Vec::new(),
            vacant: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Goes on to the next end or to this next submission, whichever is first; never back. False
    /// where there is neither.
    pub fn advance(&mut self, submitted: Option<&Job>) -> bool {
        let next = match (self.ends.peek(), submitted) {
            (Some(end), Some(job)) => end.finish.min(job.submit),
            (Some(end), None) => end.finish,
            (None, Some(job)) => job.submit,
            (None, None) => return false,
        };
        self.now = self.now.max(next);
        true
    }

    /// Ends the next job that is due to end by now.
    pub fn end_one(&mut self) -> Option<Expected> {
        if self.ends.peek()?.finish > self.now {
            return None;
        }
        let end = self.ends.pop()?;
        self.vacant.push(end.run);
        let run = std::mem::take(&mut self.runs[end.run as usize]);
        let job = &self.jobs[end.index];
        self.processors
            .nodes_of(&run.placement.taken, &mut self.nodes);
        self.processors.give_back(run.placement, job.memory);
        self.observer.outcome(&Outcome {
            index: end.index,
            job,
            fate: Fate::Ended {
                start: run.start,
                finish: end.finish,
                price: 0.0,
                nodes: &self.nodes,
            },
        });
        Some(Expected {
            end: run.expected,
            run: end.run,
            processors: job.processors,
        })
    }

    /// The time, in seconds since the first job of the workload.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// A job of the workload.
    pub fn job(&self, index: usize) -> &'a Job {
        &self.jobs[index]
    }

    /// Free processors.
    pub fn free(&self) -> u32 {
        self.processors.free()
    }

    /// Rating of the fastest processor.
    pub fn fastest(&self) -> f64 {
        self.processors.best_rating(1)
    }

    /// Rating of the slowest processor that a job would get on the empty machine.
    pub fn best_rating(&self, job: &Job) -> f64 {
        self.processors.best_rating(job.processors)
    }

    /// Returns true if the memory that a job asks for matters here.
    pub fn counts(&self, memory: u64) -> bool {
        self.processors.counts(memory)
    }

    /// What each node has free now, in node order. Only where memory is counted.
    pub fn free_by_node(&self) -> Vec<NodeFree> {
        self.processors.by_node()
    }

    /// Shows the node of each processor of a placement.
    pub fn for_each_node(&self, placement: &Placement, show: impl FnMut(u32)) {
        self.processors.for_each_node(&placement.taken, show);
    }

    /// Shows the node of each processor of a running job, and the memory that it holds beside it.
    pub fn for_each_node_of(&self, run: u32, mut show: impl FnMut(u32, u64)) {
        let run = &self.runs[run as usize];
        let memory = self.jobs[run.index].memory;
        self.for_each_node(&run.placement, |node| show(node, memory));
    }

    /// Why a job would not fit on the empty machine, or None if it would.
    pub fn never_fits(&self, index: usize) -> Option<&'static str> {
        let job = &self.jobs[index];
        self.processors.never_fits(job.processors, job.memory)
    }

    /// Takes processors for a job, if enough are free. To be started or undone.
    pub fn place(&mut self, index: usize) -> Option<Placement> {
        let job = &self.jobs[index];
        self.processors.place(job.processors, job.memory)
    }

    /// Gives back what was taken for a job that is not started after all.
    pub fn undo(&mut self, index: usize, placement: Placement) {
        self.processors
            .give_back(placement, self.jobs[index].memory);
    }

    /// When a job that starts now would end by its estimate.
    pub fn expected_end(&self, job: &Job, placement: &Placement) -> f64 {
        self.now + job.terms.estimate / placement.rating
    }

    /// Starts a job now.
    pub fn start(&mut self, index: usize, placement: Placement) -> Expected {
        let job = &self.jobs[index];
        let expected = self.expected_end(job, &placement);
        let finish = self.now + job.run_time / placement.rating;
        let run = self.vacant.pop().unwrap_or_else(|| {
            self.runs.push(Run::default());
            (self.runs.len() - 1) as u32
        });
        self.runs[run as usize] = Run {
            index,
            start: self.now,
            expected,
            placement,
        };
        self.ends.push(End { finish, index, run });
        Expected {
            end: expected,
            run,
            processors: job.processors,
        }
    }

    /// Refuses a job now.
    pub fn refuse(&mut self, index: usize, reason: &'static str) {
        self.observer.outcome(&Outcome {
            index,
            job: &self.jobs[index],
            fate: Fate::Refused {
                at: self.now,
                reason,
            },
        });
    }
}
