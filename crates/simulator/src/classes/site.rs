//! The machine at work: which job has which processors now, how fast it goes on, and when it truly ends.
//!
//! - A job with whole processors that is within its estimate and the margin on it has them, and goes on at the pace of the slowest of them.
//! - One that has outlived that runs on beside whoever is promised its processors, as on the hosts of a batch system: where a node is short it has what
//!   the others leave, by the hosts' own rule ([`allot`]), and stands still where they leave nothing. It goes on at the pace of the slowest of its slots.
//! - Jobs with shares are given time by the same rule, out of what whole processors leave. Their slots make their own way, and the job ends with the last of
//!   them. Shares are taken anew when somebody comes to a node or leaves it, and when a deadline passes there; between two such moments they stay as they are.
//! - A job that is suspended has no processors, and keeps what it has done.

use crate::{Fate, Machine, Observer, Outcome};
use libra_core::decision::TOLERANCE;
use libra_core::decision::allotment::{Claim, Shortage, Spare, allot};
use libra_core::decision::class::Class;
use libra_core::decision::job::{DeadlineType, Terms};
use libra_core::decision::node::{JobOnNode, NodeSpec};
use libra_core::decision::overrun::PastDeadline;
use libra_core::decision::placement::Placement;
use libra_core::decision::policy::{AnyPolicy, Policy};
use libra_core::decision::service::{Hold, entitlement, has_outlived};
use libra_core::decision::share::{DeadlineStatus, grace};
use libra_workload::Job;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

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
    /// A job is done on one of its nodes or more, unless its pace has changed since: counted by `version`.
    Done { index: usize, version: u32 },
    /// Somebody on a node outlives its estimate, or passes its deadline, and others are to get more or less for it; unless its processors have been
    /// given out anew since.
    Pace { node: u32, version: u32 },
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
    slots: u32,
    /// Of each slot, as committed; 1 of whole processors.
    committed_share: f64,
    /// Processors that each slot has.
    given: f64,
    /// Seconds on a reference node that each slot does in a second.
    pace: f64,
    /// Of these, what each had done by the time that the job has noted.
    done: f64,
    /// Its slots here have done all.
    is_over: bool,
    /// They have something else than the share that they need.
    is_astray: bool,
}

/// A job that has begun.
#[derive(Debug)]
struct Begun {
    price: f64,
    /// When it began.
    start: f64,
    places: Vec<Held>,
    /// It has whole processors; else it is given shares.
    is_whole: bool,
    /// Of its slowest node: one with whole processors has all of them as long as that one.
    rating: f64,
    /// It has processors: it is not suspended.
    runs: bool,
    /// Since when it goes on as its places say.
    since: f64,
    /// Seconds for which it had had its processors by then.
    ran: f64,
    version: u32,
}

#[derive(Debug, Default)]
struct Node {
    tenants: Vec<usize>,
    /// Somebody has other than whole processors: with shares, or as more are wanted than it has.
    is_shared_out: bool,
    /// How often they have been given out.
    version: u32,
}

/// How those with shares are given time.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharesRule {
    /// Says what each needs and who gives way.
    pub policy: AnyPolicy,
    /// Who gets the time that nobody needs.
    pub spare: Spare,
    /// Part by which estimates are stretched.
    pub margin: f64,
}

pub(super) struct Site<'a> {
    pub jobs: &'a [Job],
    machine: &'a Machine,
    observer: &'a mut dyn Observer,
    rule: SharesRule,
    nodes: Vec<Node>,
    begun: HashMap<usize, Begun>,
    /// Processors that nobody has whole.
    free: f64,
    events: BinaryHeap<Event>,
    /// Nodes that somebody has come to or left, or on which something else is due.
    changed: Vec<u32>,
    /// Jobs with shares that are given something else than they need, or were since that was told last.
    astray: BTreeSet<usize>,
}

impl<'a> Site<'a> {
    pub fn new(
        jobs: &'a [Job],
        machine: &'a Machine,
        rule: SharesRule,
        observer: &'a mut dyn Observer,
    ) -> Site<'a> {
        Site {
            jobs,
            machine,
            observer,
            rule,
            nodes: (machine.nodes.iter()).map(|_| Node::default()).collect(),
            begun: HashMap::new(),
            free: machine.processors(),
            events: BinaryHeap::new(),
            changed: Vec::new(),
            astray: BTreeSet::new(),
        }
    }

    /// When something happens next by itself, seconds of the simulation.
    pub fn next_event(&self) -> f64 {
        self.events.peek().map_or(f64::INFINITY, |event| event.at)
    }

    /// Processors that nobody has whole; below 0 where nodes are short.
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

    /// A job begins on these nodes, with whole processors or with shares.
    pub fn begin(
        &mut self,
        index: usize,
        is_whole: bool,
        price: f64,
        places: &[Placement],
        now: f64,
    ) {
        let ratings = (places.iter()).map(|place| self.machine.nodes[place.node].rating);
        let rating = ratings.fold(f64::INFINITY, f64::min);
        let places = (places.iter()).map(|place| Held {
            node: place.node as u32,
            slots: place.chunks,
            committed_share: if is_whole { 1.0 } else { place.share },
            given: 0.0,
            pace: 0.0,
            done: 0.0,
            is_over: false,
            is_astray: false,
        });
        let job = Begun {
            price,
            start: now,
            places: places.collect(),
            is_whole,
            rating,
            runs: false,
            since: now,
            ran: 0.0,
            version: 0,
        };
        let before = self.begun.insert(index, job);
        debug_assert!(before.is_none(), "job {index} begins twice: {before:?}");
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
            place.given = place.committed_share;
            self.free -= place.whole_processors(job.is_whole);
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
        job.version += 1;
        for place in job.places.iter_mut().filter(|place| !place.is_over) {
            place.pace = 0.0;
            self.free += place.whole_processors(job.is_whole);
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
                What::Done { .. } => now + ROUNDING,
                What::Pace { .. } => now,
            };
            if at > latest {
                return None;
            }
            self.events.pop();
            match what {
                What::Pace { node, version } => {
                    if self.nodes[node as usize].version == version {
                        self.changed.push(node);
                    }
                }
                What::Done { index, version } => {
                    let current = self.begun.get(&index);
                    let is_due = current.is_some_and(|job| job.version == version);
                    if is_due && self.is_done(index, at) {
                        self.end(index, at);
                        return Some(index);
                    }
                }
            }
        }
        None
    }

    /// Takes leave of what a job has done all of. Returns whether that is everything.
    fn is_done(&mut self, index: usize, now: f64) -> bool {
        self.settle(index, now);
        let run_time = self.jobs[index].run_time;
        let Some(job) = self.begun.get_mut(&index) else {
            return false;
        };
        let is_done = |place: &Held| place.done + place.pace * ROUNDING >= run_time;
        if job.places.iter().all(|p| p.is_over || is_done(p)) {
            return true;
        }
        for place in job.places.iter_mut().filter(|p| !p.is_over && is_done(p)) {
            (place.is_over, place.pace) = (true, 0.0);
            let tenants = &mut self.nodes[place.node as usize].tenants;
            tenants.retain(|tenant| *tenant != index);
            self.changed.push(place.node);
        }
        self.expect(index);
        false
    }

    fn end(&mut self, index: usize, finish: f64) {
        self.suspend(index, finish);
        self.astray.remove(&index);
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

    /// Tells of the jobs that have been given something else than the share they need how many processor seconds each of their slots has had: of each
    /// job its index, node and seconds. The others are where that share has brought them.
    pub fn tell_progress(&mut self, now: f64, mut tell: impl FnMut(usize, u32, f64)) {
        for index in self.astray.clone() {
            self.settle(index, now);
            let Some(job) = self.begun.get(&index) else {
                continue;
            };
            for place in &job.places {
                let rating = self.machine.nodes[place.node as usize].rating;
                tell(index, place.node, place.done / rating);
            }
        }
        let begun = &self.begun;
        let is_still = |job: &Begun| job.places.iter().any(|p| p.is_astray && !p.is_over);
        (self.astray).retain(|index| begun.get(index).is_some_and(is_still));
    }

    /// All that happens at this moment has happened: nodes with shares, and those that are short now or are no more, give out their processors anew.
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
        let spec = self.machine.nodes[at as usize];
        let tenants = self.nodes[at as usize].tenants.clone();
        let (mut wanted, mut shares) = (0.0, false);
        for index in &tenants {
            let job = &self.begun[index];
            wanted += if job.is_whole { slots(job, at) } else { 0.0 };
            shares |= !job.is_whole;
        }
        let is_short = wanted > spec.processors * (1.0 + TOLERANCE);
        let node = &mut self.nodes[at as usize];
        let is_shared_out = is_short || shares;
        let was_shared_out = std::mem::replace(&mut node.is_shared_out, is_shared_out);
        node.version += 1;
        let version = node.version;
        if !is_shared_out && !was_shared_out {
            return;
        }
        let mut next = f64::INFINITY;
        let mut promised = 0.0;
        let mut claims: Vec<Claimed> = Vec::with_capacity(tenants.len());
        for &index in &tenants {
            self.settle(index, now);
            let claimed = match self.begun[&index].is_whole {
                true => self.whole(index, at, now),
                false => self.with_share(index, at, &spec, now),
            };
            next = next.min(claimed.until);
            promised += claimed.promised;
            claims.push(claimed);
        }
        debug_assert!(
            promised <= spec.processors * (1.0 + 2.0 * TOLERANCE),
            "node {at} is promised twice at {now}"
        );
        let mut given = Vec::new();
        let shortage = match shares {
            true => self.rule.policy.shortage(),
            false => Shortage::CommittedFirst,
        };
        let bare: Vec<Claim> = claims.iter().map(|claimed| claimed.claim).collect();
        let (spare, capacity) = (self.rule.spare, spec.processors);
        allot(shortage, spare, &bare, capacity, &mut given);
        for ((index, given), claimed) in tenants.into_iter().zip(given).zip(claims) {
            let Claimed { claim, planned, .. } = claimed;
            if let Some(job) = self.begun.get_mut(&index) {
                let off = (given - claim.need).abs() > TOLERANCE * claim.limit;
                for place in job.places.iter_mut().filter(|place| place.node == at) {
                    place.given = given / claim.limit;
                    place.is_astray = !job.is_whole && off;
                    if place.is_astray {
                        self.astray.insert(index);
                    }
                    if claim.remaining_deadline <= 0.0 && !claim.whole && !claim.yields {
                        // It is late, and has what is left when it has used its estimate.
                        let pace = place.given * spec.rating;
                        next = next.min(now + ((planned - place.done) / pace).max(ROUNDING));
                    }
                }
            }
            self.set_pace(index, now);
        }
        if is_shared_out && next < f64::INFINITY {
            let what = What::Pace { node: at, version };
            self.events.push(Event { at: next, what });
        }
    }

    /// The claim of a job with whole processors. Settled.
    fn whole(&self, index: usize, at: u32, now: f64) -> Claimed {
        let (job, terms) = (&self.begun[&index], &self.jobs[index].terms);
        let slots = slots(job, at);
        let planned = terms.estimate * (1.0 + self.rule.margin);
        // Who ends just when it should has ended.
        let outlived = has_outlived(Class::Dedicated, job.ran + ROUNDING, planned, job.rating);
        let left = self.jobs[index].due() - now;
        let is_past = left <= ROUNDING;
        let in_time = planned / job.rating - job.ran;
        Claimed {
            until: match (outlived, is_past) {
                (false, _) => now + in_time,
                (true, false) => now + left,
                (true, true) => f64::INFINITY,
            },
            promised: match !outlived && in_time > SLACK {
                true => slots,
                false => 0.0,
            },
            planned,
            claim: Claim {
                need: slots,
                committed_share: slots,
                limit: slots,
                remaining_deadline: left,
                full_return: 0.0,
                hard: terms.deadline_type == DeadlineType::Hard,
                yields: outlived && is_past,
                whole: true,
                outlived,
            },
        }
    }

    /// The claim of a job with shares. Settled.
    fn with_share(&self, index: usize, at: u32, spec: &NodeSpec, now: f64) -> Claimed {
        let (begun, job) = (&self.begun[&index], &self.jobs[index]);
        let policy = &self.rule.policy;
        let here = begun.places.iter().find(|place| place.node == at);
        let (committed_share, given, done) = here.map_or((0.0, 0.0, 0.0), |place| {
            (place.committed_share, place.given, place.done)
        });
        let slots = slots(begun, at);
        let planned = job.terms.estimate * (1.0 + self.rule.margin);
        let on_node = JobOnNode {
            terms: Terms {
                estimate: planned,
                ..job.terms
            },
            slots: slots as u32,
            cput: done / spec.rating,
            walltime: now - job.submit,
            held_share: given,
            memory: job.memory.saturating_mul(slots as u64),
            delay: 0.0,
        };
        let need = policy.need(&on_node, spec.rating);
        // As above.
        let used = JobOnNode {
            cput: on_node.cput + ROUNDING,
            ..on_node
        };
        let entitled = entitlement(&used, need, PastDeadline::default(), spec.rating);
        let yields = entitled.hold == Hold::WhatIsLeft;
        let late_from = job.due() + 2.0 * grace(job.terms.deadline);
        let until = match now < late_from {
            true => late_from,
            false => f64::INFINITY,
        };
        let on_track = !yields && need.deadline_status == DeadlineStatus::OnTrack;
        Claimed {
            until,
            // Under the other policies shares may add up to more, and all end in time.
            promised: match on_track && policy.goes_by_sums().is_some() {
                true => slots * need.share,
                false => 0.0,
            },
            planned,
            claim: Claim {
                yields,
                ..Claim::new(&on_node, entitled.need, committed_share)
            },
        }
    }

    /// It goes on as its places have it from now on: with whole processors at the pace of the slowest of its slots.
    fn set_pace(&mut self, index: usize, now: f64) {
        self.settle(index, now);
        let Some(job) = self.begun.get_mut(&index) else {
            return;
        };
        let of = |place: &Held| self.machine.nodes[place.node as usize].rating * place.given;
        let slowest = job.places.iter().map(of).fold(f64::INFINITY, f64::min);
        let mut is_changed = false;
        for place in job.places.iter_mut().filter(|place| !place.is_over) {
            let pace = if job.is_whole { slowest } else { of(place) };
            is_changed |= pace != place.pace;
            place.pace = pace;
        }
        if is_changed {
            self.expect(index);
        }
    }

    /// When a job is done next on one of its nodes; what was expected before is void.
    fn expect(&mut self, index: usize) {
        let Some(job) = self.begun.get_mut(&index) else {
            return;
        };
        job.version += 1;
        let (run_time, since, version) = (self.jobs[index].run_time, job.since, job.version);
        let at = (job.places.iter())
            .filter(|place| !place.is_over && place.pace > 0.0)
            .map(|place| since + ((run_time - place.done) / place.pace).max(0.0))
            .fold(f64::INFINITY, f64::min);
        if at < f64::INFINITY {
            let what = What::Done { index, version };
            self.events.push(Event { at, what });
        }
    }

    /// What it has done until now is written down.
    fn settle(&mut self, index: usize, now: f64) {
        let Some(job) = self.begun.get_mut(&index).filter(|job| job.runs) else {
            return;
        };
        let (since, mut work) = (job.since, 0.0);
        for place in &mut job.places {
            let done = (now - since) * place.pace;
            place.done += done;
            debug_assert!(place.done <= self.jobs[index].run_time + 1e-6, "{place:?}");
            work += done * f64::from(place.slots);
        }
        job.ran += now - since;
        job.since = now;
        if work > 0.0 {
            self.observer.worked(since, now, work);
        }
    }
}

/// What a job claims of a node.
struct Claimed {
    claim: Claim,
    /// Its estimate as planned, seconds on a reference node.
    planned: f64,
    /// When it claims something else by itself.
    until: f64,
    /// Processors that were promised to it for this moment.
    promised: f64,
}

impl Held {
    fn whole_processors(&self, is_whole: bool) -> f64 {
        if is_whole { f64::from(self.slots) } else { 0.0 }
    }
}

/// Slots of a job on a node.
fn slots(job: &Begun, node: u32) -> f64 {
    let here = job.places.iter().filter(|place| place.node == node);
    here.map(|place| f64::from(place.slots)).sum()
}
