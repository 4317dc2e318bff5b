//! Jobs whose slots wait for each other.
//!
//! A coupled job goes on at the pace of its slowest part: the least of what its nodes give a slot, times
//! their rating. On the other nodes its slots do not need the rest of what they are given. It is lost where
//! they wait actively ([`Waiting::Spin`]) and under policies that let unneeded time lie ([`Spare::Idle`]). Others
//! give it to those who can use it: in their order each job is made faster until one of its nodes has
//! nothing left or no slot of it can use more, a coupled one on all of its nodes at once. So nobody gets
//! less than its nodes decided, and nobody is given time that it would wait in. That is the most that
//! nodes can make of it, as if their kernels took turns in step.
//!
//! What nodes decide themselves is left as it is: they know nothing of one another, live as well.
//!
//! Invariant: no node's parts together run at more than its processors.

use super::{Event, Simulation, To};
use libra_core::decision::allotment::{Shortage, Spare};
use libra_core::decision::policy::Policy;
use std::cmp::Reverse;

/// What a slot of a coupled job does while it waits for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// It sleeps, and leaves its time to others where the policy gives spare time out.
    #[default]
    Block,
    /// It asks again and again, as MPI libraries often do, and uses up what it is given.
    Spin,
}

impl Waiting {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Block => "block",
            Waiting::Spin => "spin",
        }
    }
}

/// Who gets the time that coupled jobs leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Giving {
    /// Nobody.
    Nobody,
    /// The earliest deadline first, late jobs last.
    DeadlineOrder,
    /// The highest return first.
    HighestReturn,
    /// All, in proportion to what they need.
    Shared,
}

impl Giving {
    /// As the policy and the configuration have it.
    pub fn of(shortage: Shortage, spare: Spare, waiting: Waiting) -> Giving {
        match (waiting, shortage, spare) {
            (Waiting::Spin, ..) => Giving::Nobody,
            (_, Shortage::DeadlineOrder, _) => Giving::DeadlineOrder,
            (_, _, Spare::Idle) => Giving::Nobody,
            (_, _, Spare::HighestReturn) => Giving::HighestReturn,
            (_, _, Spare::Shared) => Giving::Shared,
        }
    }
}

/// How far a coupled job is, in seconds of each slot on a reference node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Progress {
    run_time: f64,
    /// By `since`.
    done: f64,
    since: f64,
    /// Seconds a second.
    pace: f64,
}

impl Progress {
    /// Nothing is done yet.
    pub fn new(run_time: f64, now: f64) -> Progress {
        Progress {
            run_time,
            done: 0.0,
            since: now,
            pace: 0.0,
        }
    }

    fn done_by(&self, now: f64) -> f64 {
        self.done + self.pace * (now - self.since)
    }

    /// From now on at this pace. When it ends then.
    fn go_on(&mut self, pace: f64, now: f64) -> f64 {
        self.done = self.done_by(now);
        self.since = now;
        self.pace = pace;
        match pace > 0.0 {
            true => now + (self.run_time - self.done).max(0.0) / pace,
            false => f64::INFINITY,
        }
    }
}

/// What can be made faster: a coupled job, or a part of another.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// The running job.
    running: u32,
    /// The group of the part; None: all of a coupled job.
    group: Option<u32>,
    /// Late jobs come after all others.
    late: bool,
    /// Then the least first.
    key: f64,
    /// By how much faster in proportion to others; seconds a second.
    weight: f64,
}

/// Storage that is used again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Pace of each running job that is coupled.
    paces: Vec<f64>,
    /// Processors of each node that nobody uses.
    left: Vec<f64>,
    candidates: Vec<Candidate>,
    jobs: Vec<u32>,
}

/// Less than this part of a processor is nothing.
const NOTHING: f64 = 1e-9;

impl<P: Policy + Copy> Simulation<'_, P> {
    /// A coupled job has ended on all of its nodes.
    pub(super) fn end_together(&mut self, slab: u32, now: f64) {
        let running = &mut self.running[slab as usize];
        let Some(progress) = running.progress.take() else {
            return;
        };
        debug_assert!(
            (progress.done_by(now) - progress.run_time).abs() <= 1e-6 * progress.run_time.max(1.0),
            "{progress:?}"
        );
        let groups = std::mem::take(&mut running.groups);
        self.coupled -= 1;
        for &group in &groups {
            let index = group as usize;
            if self.groups.nodes[index].remove(slab) {
                self.allot(index, now);
            } else {
                self.groups.fronts[index] = self.groups.nodes[index].front();
                self.await_next(index);
            }
        }
        self.left.extend_from_slice(&groups);
        self.tell_ended(now);
        self.job_ended(slab, now);
    }

    /// Takes the paces of coupled jobs anew after something has changed, and tells what was done until then.
    pub(super) fn pace(&mut self, now: f64) {
        if self.coupled > 0 && !self.changed.is_empty() {
            match self.giving {
                Giving::Nobody => self.pace_where_changed(now),
                _ => self.pace_all(now),
            }
        }
        let mut changed = std::mem::take(&mut self.changed);
        for index in changed.drain(..) {
            self.tell_work(index as usize, now);
        }
        self.changed = changed;
    }

    /// Tells what was done on the nodes of a group until now.
    pub(super) fn tell_work(&mut self, index: usize, now: f64) {
        let (from, work) = self.groups.nodes[index].worked_by(now);
        if work > 0.0 {
            let work = work * self.groups.size(index);
            self.observer.worked(from, now, work);
        }
    }

    /// Only jobs on nodes that have changed can go on differently.
    fn pace_where_changed(&mut self, now: f64) {
        let mut jobs = std::mem::take(&mut self.pacing.jobs);
        jobs.clear();
        for &group in &self.changed {
            let tenants = self.groups.nodes[group as usize].tenants.iter();
            jobs.extend(tenants.filter(|t| t.coupled).map(|t| t.running));
        }
        jobs.sort_unstable();
        jobs.dedup();
        for &slab in &jobs {
            let groups = std::mem::take(&mut self.running[slab as usize].groups);
            let parts = groups.iter().filter_map(|&group| {
                let node = &self.groups.nodes[group as usize];
                let part = &node.tenants[node.part_of(slab)?];
                Some(part.granted * node.spec.rating)
            });
            let pace = parts.fold(f64::INFINITY, f64::min);
            self.go_on(slab, pace, now);
            for &index in &groups {
                let node = &mut self.groups.nodes[index as usize];
                let Some(place) = node.part_of(slab) else {
                    continue;
                };
                let part = &mut node.tenants[place];
                let rate = (pace / node.spec.rating).min(part.granted);
                let waits = rate < part.granted * (1.0 - NOTHING);
                if part.rate != rate {
                    part.run_at(rate, now);
                    self.changed.push(index);
                }
                if waits {
                    node.unsteady();
                    self.groups.fronts[index as usize] = node.front();
                }
            }
            self.running[slab as usize].groups = groups;
        }
        self.pacing.jobs = jobs;
    }

    /// A coupled job goes on at this pace.
    fn go_on(&mut self, slab: u32, pace: f64, now: f64) {
        let running = &mut self.running[slab as usize];
        let Some(progress) = running.progress.as_mut().filter(|p| p.pace != pace) else {
            return;
        };
        let ends = progress.go_on(pace, now);
        running.version = running.version.wrapping_add(1);
        if ends < f64::INFINITY {
            self.events.push(Reverse(Event {
                at: ends.to_bits(),
                to: To::Job(slab),
                version: running.version,
            }));
        }
    }

    /// All jobs: whoever waits leaves time to others, who may be anywhere.
    fn pace_all(&mut self, now: f64) {
        let mut scratch = std::mem::take(&mut self.pacing);
        self.as_granted(&mut scratch);
        self.find_candidates(&mut scratch, now);
        match self.giving {
            Giving::Shared => self.give_in_proportion(&mut scratch),
            _ => self.give_in_order(&mut scratch),
        }
        self.settle(&scratch, now);
        self.pacing = scratch;
    }

    /// The paces by what the nodes give, and what that leaves of each node.
    fn as_granted(&mut self, scratch: &mut Scratch) {
        let Scratch { paces, left, .. } = scratch;
        paces.clear();
        paces.resize(self.running.len(), f64::INFINITY);
        for node in &self.groups.nodes {
            for part in node.tenants.iter().filter(|part| part.coupled) {
                let pace = &mut paces[part.running as usize];
                *pace = pace.min(part.granted * node.spec.rating);
            }
        }
        left.clear();
        for node in &mut self.groups.nodes {
            let mut used = 0.0;
            for part in &mut node.tenants {
                part.target = match part.coupled {
                    true => (paces[part.running as usize] / node.spec.rating).min(part.granted),
                    false => part.granted,
                };
                used += f64::from(part.slots) * part.target;
            }
            left.push((node.spec.processors - used).max(0.0));
        }
    }

    /// Who could use what is left.
    fn find_candidates(&self, scratch: &mut Scratch, now: f64) {
        let mut candidates = std::mem::take(&mut scratch.candidates);
        candidates.clear();
        for index in self.groups.in_order() {
            let node = &self.groups.nodes[index];
            if !has_more(scratch.left[index], node.spec.processors) {
                continue;
            }
            for part in &node.tenants {
                // A coupled job once, by its first node: where that has nothing left, the job gets nothing.
                let first = self.running[part.running as usize].nodes.first();
                if part.coupled && first.map(|node| self.groups.of(*node as usize)) != Some(index) {
                    continue;
                }
                let candidate = Candidate {
                    running: part.running,
                    group: (!part.coupled).then_some(index as u32),
                    late: part.passed,
                    key: match self.giving {
                        Giving::HighestReturn => -part.terms.full_return(),
                        _ => part.submitted + part.terms.deadline,
                    },
                    weight: match self.giving {
                        Giving::Shared => {
                            let policy = &self.rules.admission.policy;
                            let need = policy.need(&part.on_node(now), node.spec.rating);
                            need.share * node.spec.rating
                        }
                        _ => 1.0,
                    },
                };
                if self.most(&candidate, &scratch.left) > NOTHING {
                    candidates.push(candidate);
                }
            }
        }
        scratch.candidates = candidates;
    }

    /// By how much it could be made faster, in seconds a second.
    fn most(&self, candidate: &Candidate, left: &[f64]) -> f64 {
        let mut most = f64::INFINITY;
        for &index in self.groups_of(candidate) {
            let node = &self.groups.nodes[index as usize];
            let left = left[index as usize];
            let part = node.part_of(candidate.running);
            let Some(part) = part.filter(|_| has_more(left, node.spec.processors)) else {
                return 0.0;
            };
            let part = &node.tenants[part];
            let more = (left / f64::from(part.slots)).min(1.0 - part.target);
            most = most.min(more * node.spec.rating);
        }
        most
    }

    fn groups_of<'b>(&'b self, candidate: &'b Candidate) -> &'b [u32] {
        match &candidate.group {
            Some(group) => std::slice::from_ref(group),
            None => &self.running[candidate.running as usize].groups,
        }
    }

    /// Makes it faster by so much, in seconds a second.
    fn speed_up(&mut self, candidate: &Candidate, by: f64, scratch: &mut Scratch) {
        if candidate.group.is_none() {
            scratch.paces[candidate.running as usize] += by;
        }
        let groups = match &candidate.group {
            Some(group) => std::slice::from_ref(group),
            None => &self.running[candidate.running as usize].groups[..],
        };
        for &index in groups {
            let node = &mut self.groups.nodes[index as usize];
            let more = by / node.spec.rating;
            if let Some(part) = node.part_of(candidate.running) {
                let part = &mut node.tenants[part];
                part.target = (part.target + more).min(1.0);
                let left = &mut scratch.left[index as usize];
                *left = (*left - f64::from(part.slots) * more).max(0.0);
            }
        }
    }

    /// One after the other, each as much as it can use.
    fn give_in_order(&mut self, scratch: &mut Scratch) {
        let mut candidates = std::mem::take(&mut scratch.candidates);
        candidates.sort_by(|a, b| {
            (a.late.cmp(&b.late))
                .then(a.key.total_cmp(&b.key))
                .then(a.running.cmp(&b.running))
                .then(a.group.cmp(&b.group))
        });
        for candidate in &candidates {
            let most = self.most(candidate, &scratch.left);
            if most > NOTHING {
                self.speed_up(candidate, most, scratch);
            }
        }
        scratch.candidates = candidates;
    }

    /// All at once, in proportion to their weights, until a node has nothing left; then those that can still
    /// be made faster, and so on. Each round settles a node or a candidate.
    fn give_in_proportion(&mut self, scratch: &mut Scratch) {
        let mut candidates = std::mem::take(&mut scratch.candidates);
        let mut load = vec![0.0; self.groups.nodes.len()];
        loop {
            candidates.retain(|candidate| {
                candidate.weight > 0.0 && self.most(candidate, &scratch.left) > NOTHING
            });
            if candidates.is_empty() {
                break;
            }
            load.fill(0.0);
            let mut level = f64::INFINITY;
            for candidate in &candidates {
                for &index in self.groups_of(candidate) {
                    let node = &self.groups.nodes[index as usize];
                    let Some(part) = node.part_of(candidate.running) else {
                        continue;
                    };
                    let part = &node.tenants[part];
                    let more = candidate.weight / node.spec.rating;
                    load[index as usize] += f64::from(part.slots) * more;
                    level = level.min((1.0 - part.target) / more);
                }
            }
            for (left, load) in scratch.left.iter().zip(&load) {
                if *load > 0.0 {
                    level = level.min(left / load);
                }
            }
            for candidate in &candidates {
                self.speed_up(candidate, candidate.weight * level, scratch);
            }
        }
        scratch.candidates = candidates;
    }

    /// Everybody runs as was found.
    fn settle(&mut self, scratch: &Scratch, now: f64) {
        for index in 0..self.groups.nodes.len() {
            let node = &mut self.groups.nodes[index];
            let (mut waits, mut sooner, mut changed, mut used) = (false, false, false, 0.0);
            for part in &mut node.tenants {
                used += f64::from(part.slots) * part.target;
                waits |= part.target < part.granted * (1.0 - NOTHING);
                if part.rate != part.target {
                    part.run_at(part.target, now);
                    changed = true;
                    sooner |= !part.coupled;
                }
            }
            debug_assert!(used <= node.spec.processors * (1.0 + 1e-6), "{used}");
            if waits {
                node.unsteady();
                self.groups.fronts[index] = node.front();
            }
            if sooner {
                node.expect();
                self.await_next(index);
            } else if changed {
                self.changed.push(index as u32);
            }
        }
        for (slab, &pace) in scratch.paces.iter().enumerate() {
            if pace < f64::INFINITY {
                self.go_on(slab as u32, pace, now);
            }
        }
    }
}

/// Is there something left of a node of so many processors?
fn has_more(left: f64, processors: f64) -> bool {
    left > NOTHING * processors
}
