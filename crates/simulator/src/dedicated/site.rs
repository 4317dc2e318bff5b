//! The machine at work: which job has which processors now, how fast it goes on, and when it truly ends.
//!
//! - A job that is within its estimate and the margin on it has its processors whole, and goes on at the pace of the slowest of them.
//! - One that has outlived that runs on beside whoever is promised its processors, as on the hosts of a batch system: where a node is short it has what
//!   the others leave, by the hosts' own rule ([`allot`]), and stands still where they leave nothing. It goes on at the pace of the slowest of its slots.
//! - A job that is suspended has no processors, and keeps what it has done.

use crate::{Fate, Machine, Observer, Outcome};
use libra_core::decision::TOLERANCE;
use libra_core::decision::allotment::{Claim, Shortage, Spare, allot};
use libra_core::decision::class::Class;
use libra_core::decision::job::DeadlineType;
use libra_core::decision::placement::Placement;
use libra_core::decision::service::has_outlived;
use libra_workload::Job;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// Ends that are so many seconds apart are one: a planned end and a true one are sums of other times.
const ROUNDING: f64 = 1e-6;

/// The book plans no more exactly, in seconds: who is to be done within them does not count.
const SLACK: f64 = 0.01;

/// What happens by itself. The greatest is the one that happens first; of several at one time, the first of the workload.
#[derive(Debug, PartialEq)]
struct Event {
    at: f64,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A job ends, unless its pace has changed since: counted by `version`.
    End { index: usize, version: u32 },
    /// Somebody on a node that is short outlives its estimate, or passes its deadline.
    Pace { node: u32 },
}

impl Eq for Event {}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        (other.at.total_cmp(&self.at)).then(other.what.cmp(&self.what))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a job has on a node.
#[derive(Debug, Clone, Copy)]
struct Held {
    node: u32,
    slots: f64,
    /// Of each of its processors there; 1 but where the node is short.
    part: f64,
}

/// A job that has begun.
#[derive(Debug)]
struct Begun {
    price: f64,
    /// When it began.
    start: f64,
    places: Vec<Held>,
    /// Of its slowest node: it has all of them as long as that one.
    rating: f64,
    /// It has processors: it is not suspended.
    runs: bool,
    /// Since when it goes on at this pace.
    since: f64,
    /// Seconds on a reference node that it does in a second.
    pace: f64,
    /// Of these, what it had done by then.
    done: f64,
    /// Seconds for which it had had its processors by then.
    ran: f64,
    version: u32,
}

#[derive(Debug, Default)]
struct Node {
    tenants: Vec<usize>,
    /// More processors are wanted than it has.
    short: bool,
}

pub(super) struct Site<'a> {
    pub jobs: &'a [Job],
    machine: &'a Machine,
    observer: &'a mut dyn Observer,
    /// Part by which estimates are stretched.
    margin: f64,
    nodes: Vec<Node>,
    begun: HashMap<usize, Begun>,
    /// Processors that nobody has.
    free: f64,
    events: BinaryHeap<Event>,
    /// Nodes that somebody has come to or left.
    changed: Vec<u32>,
}

impl<'a> Site<'a> {
    pub fn new(
        jobs: &'a [Job],
        machine: &'a Machine,
        margin: f64,
        observer: &'a mut dyn Observer,
    ) -> Site<'a> {
        Site {
            jobs,
            machine,
            observer,
            margin,
            nodes: (machine.nodes.iter()).map(|_| Node::default()).collect(),
            begun: HashMap::new(),
            free: machine.processors(),
            events: BinaryHeap::new(),
            changed: Vec::new(),
        }
    }

    /// When something happens next by itself, seconds of the simulation.
    pub fn next_event(&self) -> f64 {
        self.events.peek().map_or(f64::INFINITY, |event| event.at)
    }

    /// Processors that nobody has; below 0 where nodes are short.
    pub fn free(&self) -> f64 {
        self.free
    }

    /// Whether a job has begun, has not ended, and is not suspended.
    pub fn runs(&self, index: usize) -> bool {
        self.begun.get(&index).is_some_and(|job| job.runs)
    }

    pub fn refuse(&mut self, index: usize, at: f64, reason: &'static str) {
        let fate = Fate::Refused { at, reason };
        let job = &self.jobs[index];
        self.observer.outcome(&Outcome { index, job, fate });
    }

    /// A job begins on these nodes.
    pub fn begin(&mut self, index: usize, price: f64, places: &[Placement], now: f64) {
        let ratings = (places.iter()).map(|place| self.machine.nodes[place.node].rating);
        let rating = ratings.fold(f64::INFINITY, f64::min);
        let places = (places.iter()).map(|place| Held {
            node: place.node as u32,
            slots: f64::from(place.chunks),
            part: 1.0,
        });
        let job = Begun {
            price,
            start: now,
            places: places.collect(),
            rating,
            runs: false,
            since: now,
            pace: 0.0,
            done: 0.0,
            ran: 0.0,
            version: 0,
        };
        self.begun.insert(index, job);
        self.go_on(index, now);
    }

    /// A job that has begun has its processors from now on.
    pub fn go_on(&mut self, index: usize, now: f64) {
        let Some(job) = self.begun.get_mut(&index).filter(|job| !job.runs) else {
            return;
        };
        job.runs = true;
        job.since = now;
        for place in &mut job.places {
            place.part = 1.0;
            self.free -= place.slots;
            self.nodes[place.node as usize].tenants.push(index);
            self.changed.push(place.node);
        }
        self.set_pace(index, now);
    }

    /// It has none from now on.
    pub fn suspend(&mut self, index: usize, now: f64) {
        self.settle(index, now);
        let Some(job) = self.begun.get_mut(&index) else {
            return;
        };
        job.runs = false;
        job.pace = 0.0;
        job.version += 1;
        for place in &job.places {
            self.free += place.slots;
            let tenants = &mut self.nodes[place.node as usize].tenants;
            tenants.retain(|tenant| *tenant != index);
            self.changed.push(place.node);
        }
    }

    /// Ends the next job that is due to end by now, and returns its index.
    pub fn end_one(&mut self, now: f64) -> Option<usize> {
        while let Some(event) = self.events.peek() {
            let (at, what) = (event.at, event.what);
            let latest = match what {
                What::End { .. } => now + ROUNDING,
                What::Pace { .. } => now,
            };
            if at > latest {
                return None;
            }
            self.events.pop();
            match what {
                What::Pace { node } => self.changed.push(node),
                What::End { index, version } => {
                    let current = self.begun.get(&index);
                    if current.is_some_and(|job| job.version == version) {
                        self.end(index, at);
                        return Some(index);
                    }
                }
            }
        }
        None
    }

    fn end(&mut self, index: usize, finish: f64) {
        self.suspend(index, finish);
        let Some(begun) = self.begun.remove(&index) else {
            return;
        };
        let mut nodes: Vec<u32> = begun.places.iter().map(|place| place.node).collect();
        nodes.sort_unstable();
        self.observer.outcome(&Outcome {
            index,
            job: &self.jobs[index],
            fate: Fate::Ended {
                start: begun.start,
                finish,
                price: begun.price,
                nodes: &nodes,
            },
        });
    }

    /// All that happens at this moment has happened: nodes that are short now, or are no more, give out their processors anew.
    pub fn moment_ends(&mut self, now: f64) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        for node in changed.drain(..) {
            self.share_out(node, now);
        }
        self.changed = changed;
    }

    fn share_out(&mut self, at: u32, now: f64) {
        let node = &mut self.nodes[at as usize];
        let spec = &self.machine.nodes[at as usize];
        let begun = &self.begun;
        let slots_of = |index: &usize| slots(&begun[index], at);
        let wanted: f64 = node.tenants.iter().map(slots_of).sum();
        let is_short = wanted > spec.processors * (1.0 + TOLERANCE);
        if !is_short && !std::mem::replace(&mut node.short, is_short) {
            return;
        }
        node.short = is_short;
        let mut given = Vec::new();
        let mut next = f64::INFINITY;
        let mut in_time = 0.0;
        let claims: Vec<Claim> = (node.tenants.iter())
            .map(|index| {
                let (job, terms) = (&begun[index], &self.jobs[*index].terms);
                let planned = terms.estimate * (1.0 + self.margin);
                let ran = job.ran + (now - job.since);
                // Who ends just when it should has ended.
                let outlived = has_outlived(Class::Dedicated, ran + ROUNDING, planned, job.rating);
                let left = self.jobs[*index].due() - now;
                let is_past = left <= ROUNDING;
                match outlived {
                    false => {
                        let time = planned / job.rating - ran;
                        next = next.min(now + time);
                        in_time += if time > SLACK { slots_of(index) } else { 0.0 };
                    }
                    true if is_past => {}
                    true => next = next.min(now + left),
                }
                Claim {
                    need: slots_of(index),
                    committed_share: slots_of(index),
                    limit: slots_of(index),
                    remaining_deadline: left,
                    full_return: 0.0,
                    hard: terms.deadline_type == DeadlineType::Hard,
                    yields: outlived && is_past,
                    whole: true,
                    outlived,
                }
            })
            .collect();
        debug_assert!(
            in_time <= spec.processors * (1.0 + TOLERANCE),
            "node {at} is promised twice at {now}: {claims:?}"
        );
        let rule = (Shortage::CommittedFirst, Spare::Idle);
        allot(rule.0, rule.1, &claims, spec.processors, &mut given);
        if is_short && next < f64::INFINITY {
            let what = What::Pace { node: at };
            self.events.push(Event { at: next, what });
        }
        let tenants = node.tenants.clone();
        for ((index, given), claim) in tenants.into_iter().zip(given).zip(claims) {
            if let Some(job) = self.begun.get_mut(&index) {
                let here = job.places.iter_mut().filter(|place| place.node == at);
                here.for_each(|place| place.part = given / claim.need);
            }
            self.set_pace(index, now);
        }
    }

    /// It goes on at the pace of the slowest of its slots from now on.
    fn set_pace(&mut self, index: usize, now: f64) {
        self.settle(index, now);
        let Some(job) = self.begun.get_mut(&index) else {
            return;
        };
        let of = |place: &Held| self.machine.nodes[place.node as usize].rating * place.part;
        let pace = job.places.iter().map(of).fold(f64::INFINITY, f64::min);
        if pace == job.pace {
            return;
        }
        job.pace = pace;
        job.version += 1;
        let left = self.jobs[index].run_time - job.done;
        if pace > 0.0 {
            let version = job.version;
            self.events.push(Event {
                at: now + (left / pace).max(0.0),
                what: What::End { index, version },
            });
        }
    }

    /// What it has done until now is written down.
    fn settle(&mut self, index: usize, now: f64) {
        let Some(job) = self.begun.get_mut(&index).filter(|job| job.runs) else {
            return;
        };
        let (since, done) = (job.since, (now - job.since) * job.pace);
        job.ran += now - since;
        job.done += done;
        job.since = now;
        if done > 0.0 {
            let slots = f64::from(self.jobs[index].processors);
            self.observer.worked(since, now, done * slots);
        }
    }
}

/// Slots of a job on a node.
fn slots(job: &Begun, node: u32) -> f64 {
    let here = job.places.iter().filter(|place| place.node == node);
    here.map(|place| place.slots).sum()
}
