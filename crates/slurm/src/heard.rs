//! Whether a job's nodes have heard what they were told last: to let it stand still, or go on.
//!
//! slurmctld tells slurmd once, gives up after some ten seconds, and changes its own records whether that was heard or not. A job whose slurmd was down for a moment could stand
//! still for ever, and slurmctld would say that it runs. What it said last is on record with its time, and so is since when each slurmd is up: what one may not have heard that was
//! started since is to be said once more. After a minute in which all answer it was heard, and whatever becomes of a slurmd then is no matter.
//!
//! The clock of a node may differ from slurmctld's, so the times of slurmds are compared with what they were. Only where nothing was seen before, as after a restart of slurmctld,
//! with the time of the order itself.

use super::records::{Node, SlurmJob};
use std::collections::HashMap;

/// Seconds after an order from which on nodes that answer have heard it: slurmctld has given up by then on those that do not, and says so.
const CERTAIN: f64 = 60.0;

/// Seconds from the start of a slurmd until it hears what it is told, and what slurmctld was still trying to tell.
const HEARS_AFTER: f64 = 5.0;

/// What does not come true is tried so often.
const MOST_TRIED: u32 = 6;

/// Whether it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// As far as anybody can know.
    Yes,
    /// That is to be seen.
    Perhaps,
    /// By one of its nodes not, perhaps, which would hear it now.
    No,
}

/// What is known of one job's last order.
#[derive(Debug, Clone, Default)]
struct Order {
    /// When it was given, as Slurm has it, Unix time.
    changed: f64,
    /// Since when the slurmds of its nodes were up, Unix time, when they were seen last.
    slurmds: Vec<f64>,
    /// One of them was started since.
    missed: bool,
    heard: bool,
    /// Unix time of the poll that saw it first, or one of them started, or tried last.
    since: f64,
    tried: u32,
    /// When its record was to say nothing of it any more, Unix time.
    forgotten: f64,
}

/// What is known of orders that were given in the last minute, by the numbers of jobs.
#[derive(Debug, Default)]
pub(super) struct LastOrders(HashMap<u32, Order>);

impl LastOrders {
    /// Whether a job's nodes have heard what they were told last, by records that were taken then, Unix time.
    pub fn heard(&mut self, job: &SlurmJob, nodes: &HashMap<&str, &Node>, taken: f64) -> Heard {
        // It was never told anything.
        if job.changed == 0.0 {
            return Heard::Yes;
        }
        let its = || (job.nodes.iter()).filter_map(|name| nodes.get(name.as_str()));
        let slurmds: Vec<f64> = its().map(|node| node.up_since).collect();
        let order = self.0.entry(job.id).or_default();
        if order.changed != job.changed {
            *order = Order {
                changed: job.changed,
                missed: slurmds.iter().any(|up_since| *up_since >= job.changed),
                slurmds,
                since: taken,
                tried: order.tried,
                ..Order::default()
            };
        } else if !order.heard && order.slurmds != slurmds {
            (order.missed, order.slurmds, order.since) = (true, slurmds, taken);
        }
        if order.heard || order.tried >= MOST_TRIED {
            return Heard::Yes;
        }
        let answer = its().all(|node| node.answers);
        // A clock may have been set back since.
        let passed = (taken - order.since).abs();
        match order.missed {
            true if answer && passed >= HEARS_AFTER => Heard::No,
            false if answer && passed >= CERTAIN => {
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
