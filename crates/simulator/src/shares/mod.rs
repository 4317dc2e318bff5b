//! Processor sharing: jobs that are accepted start at once and share their nodes, as the live system
//! has it. The same decision core judges them, by any of its policies.
//!
//! Event-driven, node by node: shares are taken anew when a job comes to a node, when one of its jobs
//! ends there or passes its deadline; between two such events every rate is constant. (The
//! live agent takes them anew every second.) Nodes that are alike are worked out together, see [`groups`].
//!
//! The slots of a job make their own way, as in the papers: a part on a node ends when it has had its run
//! time there, and the job ends with its last part. Those of a coupled job ([`Job::coupled`]) wait for
//! each other instead, see [`coupled`]: they go on at the pace of the slowest and end together.
//!
//! Invariants, checked in debug builds: no node gives out more than its processors, and every part
//! ends with exactly its run time.

mod coupled;
mod ends;
mod groups;
mod node;
#[cfg(test)]
mod tests;

use super::{Fate, Machine, Observer, Outcome, Scheduler};
pub use coupled::Waiting;
use coupled::{Giving, Progress, Scratch};
use ends::Ending;
use groups::{Groups, Parts};
use libra_core::decision::admission::Admission;
use libra_core::decision::allotment::{Claim, Spare};
use libra_core::decision::job::{Request, Shape};
use libra_core::decision::node::{self as core_node, Cluster};
use libra_core::decision::placement::{self, Placement};
use libra_core::decision::policy::Policy;
use libra_core::decision::pricing::AnyPricing;
use libra_workload::Job;
use node::{Tenant, View};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The category of a job whose deadline no node could keep, even an empty one.
const HOPELESS: &str = "deadline";

/// Admission and sharing by one policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares<P> {
    /// The rules of admission.
    pub admission: Admission<P, AnyPricing>,
    /// Who gets the time that nobody needs.
    pub spare: Spare,
    /// What slots of coupled jobs do while they wait.
    pub waiting: Waiting,
}

/// Something that will happen by itself. The earliest first; of equals ends of coupled jobs, then the group with the first
/// node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    /// Bits of a time that is not negative: they stand in its order.
    at: u64,
    to: To,
    /// Counts the changes of whom it happens to: an event of an earlier state is void.
    version: u32,
}

/// To whom it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    /// A coupled job, by its place among the running ones: it ends.
    Job(u32),
    /// The nodes of a group: a part ends there, or a deadline passes. The first of them, and the group.
    Nodes(u32, u32),
}

/// A job that runs.
#[derive(Debug, Clone, Default)]
struct Running {
    index: usize,
    start: f64,
    price: f64,
    nodes: Vec<u32>,
    /// The groups of those on which it has not ended.
    groups: Vec<u32>,
    /// The last of the nodes on which it ended last, and when that was.
    last_end: (f64, u32),
    /// How far it is, where its parts go on together.
    progress: Option<Progress>,
    /// As that of a node.
    version: u32,
}

struct Simulation<'a, P> {
    rules: &'a Shares<P>,
    jobs: &'a [Job],
    groups: Groups,
    /// Rating of the fastest node.
    fastest: f64,
    events: BinaryHeap<Reverse<Event>>,
    running: Vec<Running>,
    vacant: Vec<u32>,
    observer: &'a mut dyn Observer,
    /// On nodes of one processor every slot of a job has a node of its own, as in the papers.
    scatter: bool,
    scratch: Vec<Placement>,
    claims: Vec<Claim>,
    given: Vec<f64>,
    ended: Vec<Tenant>,
    /// Jobs that have ended at this moment, with what they are told in the order of.
    ending: Vec<Ending>,
    /// Groups on whose nodes a part has ended at this moment.
    left: Vec<u32>,
    /// The parts of a job that is placed.
    parts: Parts,
    /// Who gets the time that coupled jobs leave.
    giving: Giving,
    /// Coupled jobs that run.
    coupled: usize,
    /// Groups on whose nodes something has changed at this moment.
    changed: Vec<u32>,
    pacing: Scratch,
}

/// The cluster at a moment, as the decision core sees it.
struct At<'a, P> {
    policy: &'a P,
    groups: &'a Groups,
    now: f64,
}

impl<P: Policy> Cluster for At<'_, P> {
    type Node<'b>
        = View<'b, P>
    where
        Self: 'b;

    fn len(&self) -> usize {
        self.groups.for_core().of.len()
    }

    #[inline(always)]
    fn node(&self, index: usize) -> Option<View<'_, P>> {
        self.any_of(self.groups.of(index))
    }

    #[inline(always)]
    fn groups(&self) -> Option<core_node::Groups<'_>> {
        Some(self.groups.for_core())
    }

    #[inline(always)]
    fn any_of(&self, group: usize) -> Option<View<'_, P>> {
        Some(View {
            policy: self.policy,
            front: &self.groups.fronts[group],
            node: &self.groups.nodes[group],
            now: self.now,
        })
    }
}

impl<P: Policy + Copy> Scheduler for Shares<P> {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        let mut simulation = Simulation {
            rules: self,
            jobs,
            groups: Groups::new(machine, jobs.iter().all(|job| !job.coupled)),
            fastest: (machine.nodes.iter()).fold(0.0, |most, node| node.rating.max(most)),
            events: BinaryHeap::new(),
            running: Vec::new(),
            vacant: Vec::new(),
            observer,
            scatter: machine.nodes.iter().all(|node| node.processors <= 1.0),
            scratch: Vec::new(),
            claims: Vec::new(),
            given: Vec::new(),
            ended: Vec::new(),
            ending: Vec::new(),
            left: Vec::new(),
            parts: Parts::default(),
            giving: Giving::of(self.admission.policy.shortage(), self.spare, self.waiting),
            coupled: 0,
            changed: Vec::new(),
            pacing: Scratch::default(),
        };
        for (index, job) in jobs.iter().enumerate() {
            simulation.events_until(job.submit);
            simulation.submit(index);
        }
        simulation.events_until(f64::INFINITY);
    }

    fn tells_work(&self) -> bool {
        true
    }
}

impl<P: Policy + Copy> Simulation<'_, P> {
    fn events_until(&mut self, until: f64) {
        let mut moment = f64::NEG_INFINITY;
        while let Some(&Reverse(event)) = self.events.peek() {
            let at = f64::from_bits(event.at);
            if at > moment {
                // Puts nodes together, of which something else may be expected then.
                self.moment_ends(moment);
                moment = at;
                continue;
            }
            if at > until {
                return;
            }
            self.events.pop();
            match event.to {
                To::Nodes(_, group)
                    if self.groups.nodes[group as usize].version == event.version =>
                {
                    let index = group as usize;
                    if self.leave(index, at) {
                        self.allot(index, at);
                    } else {
                        self.await_next(index);
                    }
                }
                To::Job(job) if self.running[job as usize].version == event.version => {
                    self.end_together(job, at);
                }
                _ => continue,
            }
            self.pace(at);
        }
        self.moment_ends(moment);
    }

    /// Takes leave of what has ended on the nodes of a group by `now`. Must their shares be taken anew?
    fn leave(&mut self, index: usize, now: f64) -> bool {
        let mut ended = std::mem::take(&mut self.ended);
        let anew = self.groups.nodes[index].leave(now, &mut ended);
        if !ended.is_empty() {
            self.left.push(index as u32);
        }
        for tenant in ended.drain(..) {
            self.part_ended(&tenant, index, now);
        }
        self.ended = ended;
        self.groups.fronts[index] = self.groups.nodes[index].front();
        anew
    }

    fn part_ended(&mut self, tenant: &Tenant, group: usize, now: f64) {
        let running = &mut self.running[tenant.running as usize];
        let last = self.groups.members(group).last().copied().unwrap_or(0);
        running.last_end = match running.last_end {
            (at, node) if at == now => (at, node.max(last)),
            _ => (now, last),
        };
        running.groups.retain(|other| *other != group as u32);
        if running.groups.is_empty() {
            self.ending.push(Ending {
                last_node: running.last_end.1,
                index: running.index,
                running: tenant.running,
            });
        }
    }

    /// Takes the shares of the nodes of a group anew.
    fn allot(&mut self, index: usize, now: f64) {
        let rules = self.rules;
        let node = &mut self.groups.nodes[index];
        node.allot(
            &rules.admission.policy,
            rules.spare,
            now,
            &mut self.claims,
            &mut self.given,
        );
        self.groups.fronts[index] = node.front();
        self.await_next(index);
    }

    /// The nodes of a group have changed.
    fn await_next(&mut self, index: usize) {
        self.changed.push(index as u32);
        self.expect(index);
    }

    /// What will happen next on the nodes of a group by itself; what was expected before is void.
    fn expect(&mut self, index: usize) {
        let first = self.groups.members(index).first().copied();
        let node = &mut self.groups.nodes[index];
        node.version = node.version.wrapping_add(1);
        if let Some(first) = first.filter(|_| node.next < f64::INFINITY) {
            self.events.push(Reverse(Event {
                at: node.next.to_bits(),
                to: To::Nodes(first, index as u32),
                version: node.version,
            }));
        }
    }

    fn submit(&mut self, index: usize) {
        let job = &self.jobs[index];
        let now = job.submit;
        let request = Request {
            terms: job.terms,
            shape: Shape {
                chunks: job.processors,
                processors_per_chunk: 1,
                memory_per_chunk: job.memory,
                scatter: self.scatter,
                ..Shape::default()
            },
        };
        let admission = self.rules.admission;
        let cluster = At {
            policy: &self.rules.admission.policy,
            groups: &self.groups,
            now,
        };
        let room = placement::room(&admission.policy, &request, cluster.len());
        if self.scratch.len() < room {
            self.scratch.resize(room, Placement::EMPTY);
        }
        let verdict = match request.check() {
            Ok(()) if admission.is_hopeless(&request, self.fastest) => Err(Some(HOPELESS)),
            Ok(()) => (admission.accepts(&cluster, &request, &mut self.scratch)).ok_or(None),
            Err(_) => Err(None),
        };
        let acceptance = match verdict {
            Ok(acceptance) => acceptance,
            Err(reason) => {
                let reason = reason
                    .unwrap_or_else(|| admission.reason(&cluster, &request).category().word());
                self.observer.outcome(&Outcome {
                    index,
                    job,
                    fate: Fate::Refused { at: now, reason },
                });
                return;
            }
        };
        let slab = self.vacant.pop().unwrap_or_else(|| {
            self.running.push(Running::default());
            (self.running.len() - 1) as u32
        });
        let running = &mut self.running[slab as usize];
        running.index = index;
        running.start = now;
        running.price = acceptance.price;
        running.last_end = (f64::NEG_INFINITY, 0);
        running.groups.clear();
        running.nodes.clear();
        let places = &self.scratch[..acceptance.nodes];
        (running.nodes).extend(places.iter().map(|place| place.node as u32));
        running.nodes.sort_unstable();
        // On one node all slots are given the same.
        let coupled = job.coupled && acceptance.nodes > 1;
        running.progress = coupled.then(|| Progress::new(job.run_time, now));
        self.coupled += usize::from(coupled);
        let terms = admission.planned_terms(&request.terms);
        let mut parts = std::mem::take(&mut self.parts);
        parts.find(&self.scratch[..acceptance.nodes], &self.groups);
        for part in parts.found() {
            let (group, new) = self.divide(part.group, &part.nodes);
            let rating = self.groups.nodes[group].spec.rating;
            self.running[slab as usize].groups.push(group as u32);
            self.join(
                group,
                Tenant {
                    running: slab,
                    slots: part.chunks,
                    terms,
                    submitted: now,
                    run_time: job.run_time / rating,
                    memory: job.memory,
                    committed_share: part.share,
                    since: now,
                    rate: part.share,
                    coupled,
                    ..Tenant::default()
                },
                new,
                now,
            );
        }
        self.parts = parts;
        self.pace(now);
    }

    /// A part of a job comes to each node of a group. `new`: nothing is expected of it yet.
    fn join(&mut self, index: usize, tenant: Tenant, new: bool, now: f64) {
        let rules = self.rules;
        let policy = &rules.admission.policy;
        let node = &mut self.groups.nodes[index];
        if rules.spare == Spare::Idle && node.can_just_add(&tenant, policy, now) {
            let before = node.next;
            node.just_add(tenant, now);
            self.groups.fronts[index] = node.front();
            if new || node.next != before {
                self.await_next(index);
            } else {
                self.changed.push(index as u32);
            }
            return;
        }
        node.add(tenant);
        if policy.accepts_delays() {
            node.accept_delays(policy, now);
        }
        self.allot(index, now);
    }
}
