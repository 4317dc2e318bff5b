//! Whether a job's nodes have heard what they were told last: to let it stand still, or go on.
//!
//! slurmctld tells slurmd once, gives up after a while (45 s were enough with Slurm 22.05), and changes its own records whether that was heard or not. A job whose slurmd was down, or cut off, for a moment
//! could stand still for ever, and slurmctld would say that it runs. What it said last is on record with its time, and so is whether each slurmd answers and since when it is up:
//! what one may not have heard that did not answer since, or was started since, is to be said once more. After two minutes in which all answered it was heard, and whatever becomes
//! of a slurmd then is no matter.
//!
//! The clock of a node may differ from slurmctld's, so since when slurmds are up is compared with what that was. Only where nothing was seen before, as after a restart of slurmctld,
//! with the time of the order itself.

use super::array::has_gone_on;
use super::records::{Node, SlurmJob};
use std::collections::HashMap;

/// Seconds after an order from which on nodes that have answered since have heard it: slurmctld has given up by then on those that do not, and says so.
pub(super) const CERTAIN: f64 = 120.0;

/// Seconds from the moment in which a slurmd answers again until it hears what it is told, and has heard what slurmctld was still trying to tell.
const HEARS_AFTER: f64 = 5.0;

/// What does not come true is tried so often: a mark, and an order, are two.
const MOST_TRIED: u32 = 12;

/// Whether it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// As far as anybody can know.
    Yes,
    /// That is to be seen.
    Perhaps,
    /// By one of its nodes not, perhaps, which would hear it now.
    No,
    /// As that, and it was tried often enough.
    GivenUp,
}

/// What is known of one job's last order.
#[derive(Debug, Clone, Default)]
struct Order {
    /// When it was given, as Slurm has it, Unix time; 0 for a job that was never told anything.
    changed: f64,
    /// Since when the slurmds of its nodes are up, Unix time; 0 where that was not seen yet.
    slurmds: Vec<f64>,
    /// One of them did not answer since, or was started.
    missed: bool,
    heard: bool,
    /// Unix time of the poll that saw it first, or saw it missed last, or in which it was tried again last.
    since: f64,
    tried: u32,
    /// When its record was to say nothing of it any more, Unix time.
    forgotten: f64,
}

impl Order {
    /// Takes what its slurmds say now. Returns true if one was started since they were seen last; `could_be_lost`: whether one that was started then, and was not seen before, may
    /// not have heard the order.
    fn see(&mut self, slurmds: &[f64], could_be_lost: impl Fn(f64) -> bool) -> bool {
        if self.slurmds.len() != slurmds.len() {
            self.slurmds = vec![0.0; slurmds.len()];
        }
        let mut started = false;
        for (known, seen) in self.slurmds.iter_mut().zip(slurmds) {
            if *seen != 0.0 {
                started |= match *known == 0.0 {
                    true => could_be_lost(*seen),
                    false => known != seen,
                };
                *known = *seen;
            }
        }
        started
    }
}

/// What is known of the last orders to jobs of which one is on record, by their numbers.
#[derive(Debug, Default)]
pub(super) struct LastOrders(HashMap<u32, Order>);

impl LastOrders {
    /// Whether a job's nodes have heard what they were told last, by records that were taken then, Unix time.
    pub fn heard(&mut self, job: &SlurmJob, nodes: &HashMap<&str, &Node>, taken: f64) -> Heard {
        let its = || (job.nodes.iter()).filter_map(|name| nodes.get(name.as_str()));
        let slurmds: Vec<f64> = its().map(|node| node.up_since).collect();
        let answer = its().all(|node| node.answers);
        // After a restart of slurmctld nobody has been heard of yet.
        let is_silent = its().any(|node| !node.answers && node.up_since != 0.0);
        let order = self.0.entry(job.id).or_default();
        // Slurm's times are whole seconds, cut off. Whose record says that it is not known is not known later either.
        let lost_until = match has_gone_on(&job.admin_comment) {
            true => f64::INFINITY,
            false => job.changed + CERTAIN,
        };
        let started = order.see(&slurmds, |at| (job.changed..lost_until).contains(&at));
        if order.changed != job.changed {
            (order.changed, order.since) = (job.changed, taken);
            (order.heard, order.missed) = (false, false);
        }
        // It was never told anything.
        if job.changed == 0.0 {
            return Heard::Yes;
        }
        if !order.heard && (started || is_silent) {
            (order.missed, order.since) = (true, taken);
        }
        // A clock may have been set back since.
        let passed = (taken - order.since).abs();
        match order.missed {
            _ if order.heard => Heard::Yes,
            true if order.tried >= MOST_TRIED => Heard::GivenUp,
            true if answer && passed >= HEARS_AFTER => Heard::No,
            false if passed >= CERTAIN => {
                (order.heard, order.tried) = (true, 0);
                Heard::Yes
            }
            _ => Heard::Perhaps,
        }
    }

    /// Something is done about it now.
    pub fn tried(&mut self, job: u32, taken: f64) {
        let order = self.0.entry(job).or_default();
        (order.since, order.tried) = (taken, order.tried + 1);
    }

    /// Whether the record of a job whose nodes know is to say nothing about that any more: what is not written is tried again after a minute.
    pub fn is_to_be_forgotten(&mut self, job: u32, taken: f64) -> bool {
        let order = self.0.entry(job).or_default();
        let is_due = (taken - order.forgotten).abs() >= CERTAIN;
        if is_due {
            order.forgotten = taken;
        }
        is_due
    }

    /// What is known of others than these is not kept.
    pub fn keep(&mut self, is_known: impl Fn(u32) -> bool) {
        self.0.retain(|job, _| is_known(*job));
    }
}
