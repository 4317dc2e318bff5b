//! Jobs with shares beside jobs with whole processors, under a policy whose shares need not add up: one that works in the order of deadlines, say.
//!
//! There who waits falls behind its share and needs more later. That is fine as long as a node has for the shares what it had when they were accepted, or
//! more. Where somebody is to begin with whole processors later it has less then, and hosts, which put off what they can, know nothing of it: also shares
//! that add up at every moment may be late, as the first of them are done ahead of their time, and then there are fewer slots than processors. What hosts
//! do keep is that each slot can end in time on a processor of its own. So beside whoever begins later each slot of those that have shares then has to
//! find a whole processor. (The random clusters of the crate `libra-simulator`, module `classes`, compare.)
//!
//! Where shares always add up nothing is looked at for that.

use super::Book;
use super::assumed::Assumed;
use super::in_use::InUse;
use super::planned::SLACK;
use crate::decision::policy::Policy;

impl Book {
    /// Whether jobs with shares are taken where those fit beside each other. Else a policy looks at each of them.
    pub(super) fn shares_add_up(&self) -> bool {
        self.admission.admission.policy.goes_by_sums().is_some()
    }

    /// What is in use on a node now, and how many slots of a job that comes now, with a share until then, find a whole processor whenever somebody begins;
    /// infinite where nobody does.
    pub(super) fn room_beside_whole(
        &self,
        node: usize,
        until: f64,
        assumed: &Assumed<'_>,
    ) -> (InUse, f64) {
        let processors = self.nodes[node].spec.processors;
        let room = (self.begins(node, self.now, until, assumed))
            .map(|at| (processors - self.in_use(node, at, assumed).by_slots).max(0.0))
            .fold(f64::INFINITY, f64::min);
        (self.in_use(node, self.now, assumed), room)
    }

    /// What counts of a node at a moment for a job that is to have whole processors then.
    pub(super) fn beside_shares(&self, at: f64, there: InUse) -> f64 {
        match self.shares_add_up() || at <= self.now + SLACK {
            true => there.committed,
            false => there.by_slots,
        }
    }
}
