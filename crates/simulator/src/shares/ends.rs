//! What is done when all that happens at a moment has happened: jobs that have ended are told, and nodes that have become alike
//! are put together.
//!
//! Jobs that end at the same moment are told as if each node were looked at by itself, in the order of their indices: by the
//! last node on which the job ended, then by submission.

use super::Simulation;
use crate::{Fate, Outcome};
use libra_core::decision::policy::Policy;

/// A job that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ending {
    /// The last node on which it ended.
    pub last_node: u32,
    /// Its index in the workload.
    pub index: usize,
    /// Its place among the running ones.
    pub running: u32,
}

impl<P: Policy + Copy> Simulation<'_, P> {
    /// All that happens at this moment has happened.
    pub(super) fn moment_ends(&mut self, now: f64) {
        self.tell_ended(now);
        let together = self.groups.are_together();
        while let Some(group) = self.left.pop() {
            if together {
                self.unite_if_alike(group as usize, now);
            }
        }
    }

    /// Tells of the jobs that have ended.
    pub(super) fn tell_ended(&mut self, now: f64) {
        self.ending.sort_unstable();
        let mut ending = std::mem::take(&mut self.ending);
        for ended in ending.drain(..) {
            self.job_ended(ended.running, now);
        }
        self.ending = ending;
    }

    /// A job has ended on all of its nodes.
    pub(super) fn job_ended(&mut self, slab: u32, now: f64) {
        let running = &mut self.running[slab as usize];
        running.version = running.version.wrapping_add(1);
        let index = running.index;
        let job = &self.jobs[index];
        self.observer.outcome(&Outcome {
            index,
            job,
            fate: Fate::Ended {
                start: running.start,
                finish: now,
                price: running.price,
                nodes: &running.nodes,
            },
        });
        self.vacant.push(slab);
    }

    /// A part has left the nodes of a group: if another group is like it now, they are one.
    fn unite_if_alike(&mut self, group: usize, now: f64) {
        if self.groups.members(group).is_empty() {
            return;
        }
        let node = &self.groups.nodes[group];
        let other = match node.tenants.last() {
            None => {
                self.groups.nodes[group].become_idle();
                self.groups.fronts[group] = self.groups.nodes[group].front();
                self.groups.idle_like(group)
            }
            Some(_) if !node.is_steady() => None,
            Some(last) => {
                let others = self.running[last.running as usize].groups.iter();
                (others.map(|other| *other as usize))
                    .find(|other| self.groups.are_alike(group, *other))
            }
        };
        let Some(other) = other else {
            return;
        };
        let (from, into) = match self.groups.size(group) <= self.groups.size(other) {
            true => (group, other),
            false => (other, group),
        };
        self.tell_work(from, now);
        self.tell_work(into, now);
        for tenant in &self.groups.nodes[from].tenants {
            let groups = &mut self.running[tenant.running as usize].groups;
            groups.retain(|group| *group != from as u32);
        }
        self.groups.unite(from, into);
        self.expect(into);
    }

    /// Some nodes of a group become one of their own, unless they are all of it. Which group they are then, and whether nothing is
    /// expected of it yet.
    pub(super) fn divide(&mut self, group: usize, nodes: &[u32]) -> (usize, bool) {
        let Some(new) = self.groups.divide(group, nodes) else {
            return (group, false);
        };
        for tenant in &self.groups.nodes[new].tenants {
            self.running[tenant.running as usize]
                .groups
                .push(new as u32);
        }
        // Its first node may be another one.
        self.expect(group);
        (new, true)
    }
}
