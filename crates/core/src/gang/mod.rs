//! Coupled jobs: their processes wait for each other, so that a share of a processor here and there is
//! of no use to them. They run on whole processors of their own, all at a time; the field's term
//! is gang scheduling.
//!
//! - Jobs run in the order of their deadlines. A job stays on the processors on which it first ran, and
//!   where an earlier deadline needs one of them it is suspended as a whole, if the site allows
//!   that and memory holds both.
//! - A job is accepted if the same rule, played forward with what is planned for everybody (estimate and
//!   margin), ends nobody late. Several placements and priorities are tried.
//! - Who has had all that was planned is taken to need a tenth more, again and again. It may
//!   become late itself by that; others only where there is no other way.
//! - Who needs less makes room. The plan is then made anew, if nobody is late in the new one; so no
//!   promise is broken by a job that ends early.
//!
//! So with estimates that suffice nobody is ever late.
//!
//! Pure: `now` is a parameter, in seconds of whatever clock the caller has, and never goes back. What is to be done the caller
//! is told ([`Gang::act`]) and when to ask again ([`Gang::next_change`]).

mod admit;
mod earliest;
mod ends;
mod lay;
mod life;
mod machine;
mod moments;
mod offers;
mod placement;
#[cfg(test)]
mod plain;
mod plan;
mod rules;
#[cfg(test)]
mod tests;
mod timeline;
mod upcoming;

pub use offers::Offer;
pub use rules::{Change, JobId, Promise, Rules, Suspend, Ticket};
pub use timeline::Run;

use crate::decision::job::{OutOfRange, Request};
use crate::decision::node::NodeSpec;
use crate::decision::refusal::Category;
use machine::Machine;
use plan::Plan;
use rules::Demand;
use std::collections::BTreeMap;

/// Why a job was refused, with the evidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refused {
    /// A value is not one that can be judged.
    Invalid(OutOfRange),
    /// There is no node with a whole processor.
    NoNode,
    /// The empty machine has not room for all of its chunks.
    TooLarge {
        /// Chunks asked for.
        asked: u32,
        /// Chunks that there is room for.
        fit: u64,
    },
    /// No node has as much memory as one chunk asks for.
    Memory {
        /// Bytes that a chunk asks for.
        needed: u64,
        /// Bytes of the node that has most.
        most: u64,
    },
    /// In every plan somebody would end late.
    Late {
        /// Seconds from now after which it would have ended behind all that was promised.
        end: f64,
        /// Its deadline, seconds from now.
        deadline: f64,
    },
}

impl Refused {
    /// What kind of a reason it is.
    pub fn category(&self) -> Category {
        match self {
            Refused::Invalid(_) => Category::Invalid,
            Refused::NoNode => Category::NoNode,
            Refused::TooLarge { .. } => Category::Chunks,
            Refused::Memory { .. } => Category::Memory,
            Refused::Late { .. } => Category::Time,
        }
    }
}

/// A refused job that waits for a promise.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    demand: Demand,
    due: f64,
    /// From then on it is too late.
    latest: f64,
}

/// The gang rule over one machine, with all jobs that it knows.
#[derive(Debug)]
pub struct Gang {
    plan: Plan,
    /// Jobs that were submitted.
    submissions: u64,
    /// Something has changed since the plan was made anew.
    loose: bool,
    /// Somebody has left since those who wait were asked.
    left: bool,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Until then nothing happens by itself.
    next: f64,
}

impl Gang {
    /// Nobody on these nodes. A node's whole processors are used; one out of range has none.
    ///
    /// # Errors
    /// When a value of the rules is out of range.
    pub fn new(nodes: &[NodeSpec], rules: Rules) -> Result<Gang, OutOfRange> {
        rules.check()?;
        Ok(Gang {
            plan: Plan::new(Machine::new(nodes), rules),
            submissions: 0,
            loose: false,
            left: false,
            waiting: BTreeMap::new(),
            next: 0.0,
        })
    }

    /// Judges a job, and takes it in if it can be promised.
    ///
    /// # Errors
    /// Why it cannot; then nothing has changed.
    pub fn submit(&mut self, request: &Request, now: f64) -> Result<(JobId, Promise), Refused> {
        if now < self.next {
            self.plan.now = self.plan.now.max(now);
        } else {
            self.plan.advance(now);
        }
        let demand = self.check(request)?;
        let due = self.plan.now + demand.deadline;
        self.submissions += 1;
        match self.plan.admit(demand, due, self.submissions) {
            Some(slot) => {
                self.loose = true;
                self.next = self.plan.now;
                Ok((JobId(slot), self.promise(slot)))
            }
            None => Err(Refused::Late {
                end: self.end_behind_all(demand) - self.plan.now,
                deadline: demand.deadline,
            }),
        }
    }

    /// Whether a job could ever run here.
    fn check(&self, request: &Request) -> Result<Demand, Refused> {
        request.check().map_err(Refused::Invalid)?;
        let demand = Demand::of(request);
        let machine = &self.plan.machine;
        if machine.processors() == 0 {
            return Err(Refused::NoNode);
        }
        let asked = demand.shape.chunks;
        let fit = self.plan.room(&demand);
        if fit >= u64::from(asked) {
            return Ok(demand);
        }
        let without_memory = Demand {
            shape: crate::decision::job::Shape {
                memory_per_chunk: 0,
                ..demand.shape
            },
            ..demand
        };
        if fit == 0 && self.plan.room(&without_memory) > 0 {
            let most = machine.nodes.iter().filter_map(|node| node.memory).max();
            return Err(Refused::Memory {
                needed: demand.shape.memory_per_chunk,
                most: most.unwrap_or(0),
            });
        }
        Err(Refused::TooLarge { asked, fit })
    }

    /// When a job would have ended that takes what all others leave.
    fn end_behind_all(&mut self, demand: Demand) -> f64 {
        self.submissions += 1;
        self.plan.end_behind_all(demand, self.submissions)
    }

    fn promise(&self, slot: u32) -> Promise {
        let job = self.plan.job(slot);
        let estimated = job.demand.estimate * (1.0 + self.plan.rules.margin);
        Promise {
            planned_start: job.next_start(),
            planned_end: job.end(),
            latest_start: job.due - job.work / job.rate,
            latest_end: job.due,
            conditional: job.work < estimated,
        }
    }

    /// Lets a job that was refused wait until it can be promised: [`Gang::act`] tells. Its deadline counts from now.
    ///
    /// # Errors
    /// When it can never be promised on this machine.
    pub fn wait_for_promise(&mut self, request: &Request, now: f64) -> Result<Ticket, Refused> {
        self.plan.advance(now);
        let demand = self.check(request)?;
        self.submissions += 1;
        let ticket = Ticket(self.submissions);
        let due = self.plan.now + demand.deadline;
        let work = self.plan.planned_work(&demand, due);
        let waiting = Waiting {
            demand,
            due,
            latest: due - work / self.plan.machine.fastest(),
        };
        self.waiting.insert(ticket, waiting);
        Ok(ticket)
    }

    /// Lets nobody wait on this ticket any more.
    pub fn stop_waiting(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// A job has ended, or was cancelled. The others move up with the next [`Gang::act`].
    pub fn ended(&mut self, job: JobId) {
        self.plan.forget(job.0);
        self.loose = true;
        self.left = true;
    }

    /// Goes on to `now`, and makes the plan anew if somebody has left it. Costs a pass over all jobs that are known; who does
    /// without before he submits is judged by the plan as it was.
    pub fn tidy(&mut self, now: f64) {
        self.plan.advance(now);
        if self.loose {
            self.plan.tidy();
            self.loose = false;
        }
    }

    /// What is to be done now: first who is suspended, then who starts or goes on. To be asked after each change
    /// and at each [`Gang::next_change`]; what it says counts as done.
    pub fn act(&mut self, now: f64) -> Vec<Change> {
        self.tidy(now);
        let mut changes = Vec::new();
        self.ask_again(&mut changes);
        // Those who were promised may have pushed others aside.
        self.tidy(now);
        let (suspend, run) = self.plan.next_actions();
        for slot in suspend {
            self.plan.job_mut(slot).running = false;
            self.plan.note(slot);
            changes.push(Change::Suspend(JobId(slot)));
        }
        for slot in run {
            self.plan.job_mut(slot).running = true;
            self.plan.note(slot);
            if self.plan.job(slot).started {
                changes.push(Change::Resume(JobId(slot)));
            } else {
                self.plan.start(slot);
                changes.push(Change::Start(JobId(slot)));
            }
        }
        self.plan.take_over();
        self.next = self.next_change();
        changes
    }

    /// Promises what can be promised of what was refused, those first that are due first, and lets go of those for whom it
    /// is too late.
    fn ask_again(&mut self, changes: &mut Vec<Change>) {
        let now = self.plan.now;
        let mut order: Vec<(f64, Ticket)> = (self.waiting.iter())
            .map(|(ticket, waiting)| (waiting.due, *ticket))
            .collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (due, ticket) in order {
            let Waiting { demand, latest, .. } = self.waiting[&ticket];
            if self.left && now <= latest {
                self.submissions += 1;
                if let Some(slot) = self.plan.admit(demand, due, self.submissions) {
                    self.loose = true;
                    self.waiting.remove(&ticket);
                    changes.push(Change::Promised(ticket, JobId(slot), self.promise(slot)));
                    continue;
                }
            }
            if now >= latest {
                self.waiting.remove(&ticket);
                changes.push(Change::Expired(ticket));
            }
        }
        self.left = false;
    }

    /// When [`Gang::act`] is to be asked again if nothing happens before; infinity if there is nothing to wait for.
    pub fn next_change(&self) -> f64 {
        let now = self.plan.now;
        let expire = self.waiting.values().map(|waiting| waiting.latest.max(now));
        expire.fold(self.plan.next_moment(), f64::min)
    }

    /// The processors of a job, ascending: those that it has, or would have as the plan stands. They are numbered in the order of
    /// the nodes.
    pub fn processors(&self, job: JobId) -> &[u32] {
        &self.plan.job(job.0).processors
    }

    /// The node of a processor.
    pub fn node_of(&self, processor: u32) -> usize {
        self.plan.machine.node_of[processor as usize] as usize
    }

    /// When a job runs as the plan stands, from now on.
    pub fn planned(&self, job: JobId) -> &[Run] {
        &self.plan.job(job.0).runs
    }

    /// Jobs that are known: accepted, and not ended.
    pub fn len(&self) -> usize {
        self.plan.known.len()
    }

    /// True if no job is known.
    pub fn is_empty(&self) -> bool {
        self.plan.known.is_empty()
    }
}
