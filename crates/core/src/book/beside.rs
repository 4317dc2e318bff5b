//! Jobs with shares beside jobs with whole processors, under a policy whose shares need not add up: one that works in the order of deadlines, say.
//!
//! There who waits falls behind its share and needs more later. That is fine as long as a node has for the shares what it had when they were accepted, or
//! more. Where somebody is to begin with whole processors later it will have less, and hosts, which put off what they can, know nothing of that. So there
//! the shares have to add up beside what is whole, at every moment from now until the last of them is done. Then each ends in time at its share, and in
//! the order of deadlines none ends later than that (the random clusters of the crate `libra-simulator`, module `classes`, compare).
//!
//! Where shares always add up nothing is looked at for that.

use super::Book;
use super::assumed::Assumed;
use super::planned::{InUse, SLACK};
use crate::decision::TOLERANCE;
use crate::decision::policy::Policy;

impl Book {
    /// Whether jobs with shares are taken where those fit beside each other. Else a policy looks at each of them.
    pub(super) fn shares_add_up(&self) -> bool {
        self.admission.admission.policy.goes_by_sums().is_some()
    }

    /// As [`Book::peak`], for a job that is to have whole processors then. The node is full for it if it would take something from shares that do not add
    /// up at another moment.
    pub(super) fn peak_beside_shares(
        &self,
        node: usize,
        from: f64,
        until: f64,
        assumed: &Assumed<'_>,
    ) -> InUse {
        let mut peak = self.peak(node, from, until, assumed);
        let processors = self.nodes[node].spec.processors;
        if self.shares_add_up() || peak.committed >= processors {
            return peak;
        }
        let last = self.last_share(node, assumed);
        // Nobody with a share is there any more when it begins.
        if last <= from.max(self.now) + SLACK {
            return peak;
        }
        let is_overfull = |at: f64| {
            (at < from || at >= until) && self.exceeds(node, self.in_use(node, at, assumed))
        };
        if is_overfull(self.now) || self.begins(node, self.now, last, assumed).any(is_overfull) {
            peak.committed = processors;
        }
        peak
    }

    /// What is in use on a node now, and how many processors a job may take that comes now with a share until then; more than the node has if only the
    /// policy is to say.
    pub(super) fn room_beside_whole(
        &self,
        node: usize,
        until: f64,
        assumed: &Assumed<'_>,
    ) -> (InUse, f64) {
        let at_once = self.in_use(node, self.now, assumed);
        let last = self.last_share(node, assumed).max(until);
        let rises: Vec<(f64, InUse)> = (self.begins(node, self.now, last, assumed))
            .map(|at| (at, self.in_use(node, at, assumed)))
            .collect();
        let mut room = f64::INFINITY;
        let most = at_once.whole * (1.0 + TOLERANCE);
        if rises.iter().any(|(_, there)| there.whole > most) {
            for (at, there) in [(self.now, at_once)].iter().chain(&rises) {
                let is_beside = *at < until - SLACK;
                match is_beside || self.exceeds(node, *there) {
                    true if is_beside => {
                        room = room.min(self.nodes[node].spec.processors - there.committed);
                    }
                    true => room = 0.0,
                    false => {}
                }
            }
        }
        (at_once, room.max(0.0))
    }

    /// When the last of the jobs with shares on a node is done, by what is promised.
    fn last_share(&self, node: usize, assumed: &Assumed<'_>) -> f64 {
        (self.tenants(node))
            .filter(|&(key, _)| Some(key) != assumed.without && !self.job(key).has_whole())
            .map(|(key, place)| self.time_of(key, place, assumed).1)
            .fold(f64::NEG_INFINITY, f64::max)
    }

    fn exceeds(&self, node: usize, there: InUse) -> bool {
        there.committed > self.nodes[node].spec.processors * (1.0 + TOLERANCE)
    }
}
