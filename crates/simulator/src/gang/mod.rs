//! Coupled jobs on whole processors in the order of their deadlines, suspended behind earlier ones:
//! the rule of [`libra_core::gang`], which decides all of it. Here is the time that it is asked at, and the true run times.
//!
//! - A job's slots run together, at the pace of the slowest of its processors, and end together.
//! - At one time all ends come first, then what the plan does by itself, then submissions, then what starts,
//!   goes on and is suspended.
//! - A job that is suspended keeps its memory and its processors, and loses nothing that it has done.

#[cfg(test)]
mod tests;

use super::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_core::decision::job::{Request, Shape};
use libra_core::decision::pricing::{AnyPricing, Pricing};
use libra_core::gang::{Change, JobId, Rules, Ticket};
use libra_workload::Job;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// Ends that are so many seconds apart are one: a planned end and a true one are sums of other times.
const ROUNDING: f64 = 1e-6;

/// The category of a job that costs more than its budget.
const BUDGET: &str = "budget";
/// The category of a job that somebody would be late for.
const TIME: &str = "time";

/// The gang rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gang {
    /// The rule as a site has it.
    pub rules: Rules,
    /// What jobs cost.
    pub pricing: AnyPricing,
    /// Refused jobs wait, and are promised later where that becomes possible.
    pub wait_for_promise: bool,
}

/// When a running job truly ends. The greatest is the one that ends first; of several at one time, the first of the workload.
#[derive(Debug, PartialEq)]
struct End {
    finish: f64,
    index: usize,
    job: JobId,
    /// Counts the suspensions of the job: an end that was foreseen before is void.
    version: u32,
}

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &End) -> Ordering {
        (other.finish.total_cmp(&self.finish))
            .then(other.index.cmp(&self.index))
            .then(other.version.cmp(&self.version))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &End) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An accepted job.
#[derive(Debug)]
struct Accepted {
    index: usize,
    price: f64,
    /// When it first ran.
    start: f64,
    /// Since when it runs.
    since: f64,
    /// Seconds on a reference node that it has had before.
    done: f64,
    /// Rating of the slowest of its processors.
    rate: f64,
    version: u32,
}

struct Simulation<'a> {
    gang: libra_core::gang::Gang,
    jobs: &'a [Job],
    machine: &'a Machine,
    observer: &'a mut dyn Observer,
    pricing: AnyPricing,
    wait_for_promise: bool,
    now: f64,
    ends: BinaryHeap<End>,
    accepted: HashMap<JobId, Accepted>,
    /// Refused jobs that wait.
    waiting: HashMap<Ticket, usize>,
    nodes: Vec<u32>,
}

impl Scheduler for Gang {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        let Ok(gang) = libra_core::gang::Gang::new(&machine.nodes, self.rules) else {
            // Checked with the setting; without rules nobody is accepted.
            for (index, job) in jobs.iter().enumerate() {
                let (at, reason) = (job.submit, "invalid");
                let fate = Fate::Refused { at, reason };
                observer.outcome(&Outcome { index, job, fate });
            }
            return;
        };
        let mut simulation = Simulation {
            gang,
            jobs,
            machine,
            observer,
            pricing: self.pricing,
            wait_for_promise: self.wait_for_promise,
            now: 0.0,
            ends: BinaryHeap::new(),
            accepted: HashMap::new(),
            waiting: HashMap::new(),
            nodes: Vec::new(),
        };
        simulation.run();
    }
}

impl Simulation<'_> {
    fn run(&mut self) {
        let mut next = 0;
        loop {
            let submit = self.jobs.get(next).map_or(f64::INFINITY, |job| job.submit);
            let finish = self.ends.peek().map_or(f64::INFINITY, |end| end.finish);
            let time = self.gang.next_change().min(submit).min(finish);
            if time == f64::INFINITY {
                break;
            }
            self.now = self.now.max(time);
            self.end_jobs();
            self.gang.tidy(self.now);
            while let Some(job) = self.jobs.get(next).filter(|job| job.submit <= self.now) {
                self.submit(next, job);
                next += 1;
            }
            for change in self.gang.act(self.now) {
                self.carry_out(change);
            }
        }
    }

    /// Ends the jobs that have had their run time by now.
    fn end_jobs(&mut self) {
        while let Some(end) = self.ends.peek() {
            if end.finish > self.now + ROUNDING {
                break;
            }
            let Some(end) = self.ends.pop() else { break };
            let current = self.accepted.get(&end.job);
            if current.is_none_or(|job| job.version != end.version || job.index != end.index) {
                continue;
            }
            let Some(job) = self.accepted.remove(&end.job) else {
                continue;
            };
            self.nodes.clear();
            let processors = self.gang.processors(end.job).iter();
            self.nodes
                .extend(processors.map(|&p| self.gang.node_of(p) as u32));
            self.nodes.dedup();
            self.gang.ended(end.job);
            self.observer.outcome(&Outcome {
                index: end.index,
                job: &self.jobs[end.index],
                fate: Fate::Ended {
                    start: job.start,
                    finish: end.finish,
                    price: job.price,
                    nodes: &self.nodes,
                },
            });
        }
    }

    fn submit(&mut self, index: usize, job: &Job) {
        let request = Request {
            terms: job.terms,
            shape: Shape {
                chunks: job.processors,
                processors_per_chunk: 1,
                memory_per_chunk: job.memory,
                scatter: false,
                ..Shape::default()
            },
        };
        if self.pricing.least(&request) > job.terms.budget {
            return self.refuse(index, BUDGET);
        }
        match self.gang.submit(&request, self.now) {
            Ok((accepted, _)) => self.accept(index, accepted),
            Err(refused) => {
                let late = matches!(refused, libra_core::gang::Refused::Late { .. });
                if late && self.wait_for_promise {
                    if let Ok(ticket) = self.gang.wait_for_promise(&request, self.now) {
                        self.waiting.insert(ticket, index);
                        return;
                    }
                }
                self.refuse(index, refused.category().word());
            }
        }
    }

    fn accept(&mut self, index: usize, job: JobId) {
        let terms = self.jobs[index].terms;
        let request = Request {
            terms,
            shape: Shape {
                chunks: self.jobs[index].processors,
                ..Shape::default()
            },
        };
        let accepted = Accepted {
            index,
            price: self.pricing.least(&request),
            start: 0.0,
            since: 0.0,
            done: 0.0,
            rate: 1.0,
            version: 0,
        };
        self.accepted.insert(job, accepted);
    }

    fn refuse(&mut self, index: usize, reason: &'static str) {
        self.observer.outcome(&Outcome {
            index,
            job: &self.jobs[index],
            fate: Fate::Refused {
                at: self.now,
                reason,
            },
        });
    }

    fn carry_out(&mut self, change: Change) {
        let now = self.now;
        let (id, starts) = match change {
            Change::Suspend(id) => {
                if let Some(job) = self.accepted.get_mut(&id) {
                    job.done += (now - job.since) * job.rate;
                    job.version += 1;
                }
                return;
            }
            Change::Promised(ticket, id, _) => {
                if let Some(index) = self.waiting.remove(&ticket) {
                    self.observer.promised_later();
                    self.accept(index, id);
                }
                return;
            }
            Change::Expired(ticket) => {
                if let Some(index) = self.waiting.remove(&ticket) {
                    self.refuse(index, TIME);
                }
                return;
            }
            Change::Start(id) => (id, true),
            Change::Resume(id) => (id, false),
        };
        let ratings = (self.gang.processors(id).iter())
            .map(|&processor| self.machine.nodes[self.gang.node_of(processor)].rating);
        let rate = ratings.fold(f64::INFINITY, f64::min);
        let Some(job) = self.accepted.get_mut(&id) else {
            return;
        };
        job.since = now;
        if starts {
            job.start = now;
            job.rate = rate;
        }
        let left = self.jobs[job.index].run_time - job.done;
        self.ends.push(End {
            finish: now + left / job.rate,
            index: job.index,
            job: id,
            version: job.version,
        });
    }
}
