//! Gauges as plain numbers, and the page made of them and of what was counted.

use super::families::*;
use super::{Counts, Histogram, Outcome, Page, Rejection};
use libra_config::System;
use libra_core::book::figures::{ClusterFigures, Holds};
use libra_core::decision::class::Class;
use libra_core::decision::refusal::Category;

/// Most bytes of lines about single nodes; a file for all nodes of a large cluster would be megabytes.
const MOST_ABOUT_NODES: usize = 40 * 1024;

/// How things stand on one host, and what its control loop has done since it began.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostFigures {
    /// Processors that jobs may share.
    pub processors: f64,
    /// Whether the kernel holds jobs to their shares.
    pub enforced: bool,
    /// What is known of the jobs; None while another process runs the control loop.
    pub jobs: Option<HostJobs>,
    /// Limits that somebody else had changed.
    pub drifts: u64,
    /// Shares changed.
    pub adjusted: u64,
    /// Rounds, and how long they took.
    pub rounds: Histogram,
    /// Rounds that could not be done.
    pub failed: u64,
    /// Seconds in which jobs could have run and had used up their shares, summed over processors.
    pub throttled: f64,
    /// When the control loop has said all this, Unix time; None before its first round.
    pub taken: Option<f64>,
}

/// The jobs on a host.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostJobs {
    /// Accepted and not started: all, and those of `libra run`.
    pub waiting: JobCount,
    /// Running.
    pub running: JobCount,
    /// Over, with processes that do not go.
    pub ending: JobCount,
    /// Their deadline has passed.
    pub late: JobCount,
    /// As committed, or better.
    pub on_track: u64,
    /// Even whole processors would end them late.
    pub at_risk: u64,
    /// They have used their estimates and run on.
    pub overrun: u64,
    /// Those of each class of service, in the order of [`Class::ALL`].
    pub classes: [u64; Class::ALL.len()],
    /// Those of best effort that stand still.
    pub suspended: u64,
    /// Processors that they need from now on.
    pub committed: f64,
}

/// Jobs of a host, and how many of them are of `libra run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCount {
    /// All of them.
    pub all: u64,
    /// Those of `libra run`.
    pub local: u64,
}

impl JobCount {
    /// Counts one.
    pub fn add(&mut self, local: bool) {
        self.all += 1;
        self.local += u64::from(local);
    }
}

/// What a system has counted.
pub fn show_counts(page: &mut Page, counted_by: System, counts: &Counts) {
    let system = ("system", counted_by.name());
    page.put(
        BUILD,
        &[system, ("version", env!("CARGO_PKG_VERSION"))],
        1.0,
    );
    page.count(ACCEPTED, &[system], counts.accepted);
    page.count(WITHDRAWN, &[system], counts.withdrawn);
    for outcome in Outcome::ALL {
        let labels = [system, ("outcome", outcome.word())];
        page.count(ENDED, &labels, counts.ended(outcome));
    }
    // All of them from the beginning, so that the first refusal of its kind is seen as a rise.
    for reason in Category::ALL {
        let labels = [system, ("reason", reason.word())];
        page.count(REFUSED, &labels, counts.refused(reason));
    }
    page.histogram(DECISION, &[system], &counts.decisions);
    if counted_by == System::Local {
        for rejection in Rejection::ALL {
            let labels = [("reason", rejection.word())];
            page.count(HOST_REJECTED, &labels, counts.rejected(rejection));
        }
        page.count(HOST_JOBS_UNENFORCED, &[], counts.unenforced);
    }
}

/// How things stand where a system admits. `now`: Unix time.
pub fn show_cluster(page: &mut Page, admits: System, figures: &ClusterFigures, now: f64) {
    let system = ("system", admits.name());
    for (state, jobs) in [
        ("provisional", figures.provisional),
        ("waiting", figures.waiting),
        ("running", figures.running),
        ("suspended", figures.suspended),
    ] {
        page.count(JOBS, &[system, ("state", state)], jobs);
    }
    page.count(JOBS_LATE, &[system], figures.late);
    page.count(NODES, &[system, ("available", "yes")], figures.open);
    page.count(NODES, &[system, ("available", "no")], figures.closed);
    page.put(PROCESSORS, &[system], figures.processors);
    page.put(COMMITTED, &[system], figures.committed);
    let mut listed = 0;
    let mut room = MOST_ABOUT_NODES;
    for node in &figures.nodes {
        // Twice its name, at its longest when all of it is escaped, beside two names of metrics.
        let needed = 2 * (2 * node.name.len() + 100);
        if needed > room {
            break;
        }
        room -= needed;
        listed += 1;
        let labels = [system, ("node", node.name.as_str())];
        page.put(NODE_PROCESSORS, &labels, node.processors);
        page.put(NODE_COMMITTED, &labels, node.committed);
    }
    page.count(
        NODES_UNLISTED,
        &[system],
        (figures.open + figures.closed).saturating_sub(listed),
    );
    show_holds(page, admits, figures.holds);
    show_written(page, admits, now);
}

fn show_written(page: &mut Page, system: System, now: f64) {
    let labels = [("system", system.name())];
    page.put(WRITTEN, &labels, (now * 1000.0).round() / 1000.0);
}

fn show_holds(page: &mut Page, system: System, holds: Holds) {
    let labels = [("system", system.name())];
    if holds != Holds::Off {
        let reachable = u64::from(holds != Holds::Unreachable);
        page.count(ACCOUNTS_REACHABLE, &labels, reachable);
    }
    if let Holds::Open { number, credits } = holds {
        page.count(HOLDS, &labels, number);
        page.put(HELD, &labels, credits);
    }
}

/// How things stand on a host.
pub fn show_host(page: &mut Page, figures: &HostFigures) {
    if let Some(jobs) = &figures.jobs {
        let local = ("system", System::Local.name());
        for (state, part) in [
            ("waiting", jobs.waiting),
            ("running", jobs.running),
            ("ending", jobs.ending),
        ] {
            page.count(JOBS, &[local, ("state", state)], part.local);
            page.count(HOST_JOBS, &[("state", state)], part.all);
        }
        page.count(JOBS_LATE, &[local], jobs.late.local);
        for (status, count) in [
            ("on-track", jobs.on_track),
            ("at-risk", jobs.at_risk),
            ("overrun", jobs.overrun),
            ("late", jobs.late.all),
        ] {
            page.count(HOST_DEADLINE_STATUS, &[("deadline_status", status)], count);
        }
        for (class, count) in Class::ALL.into_iter().zip(jobs.classes) {
            page.count(HOST_CLASS, &[("class", class.word())], count);
        }
        page.count(HOST_SUSPENDED, &[], jobs.suspended);
        page.put(HOST_COMMITTED, &[], jobs.committed);
    }
    page.put(HOST_PROCESSORS, &[], figures.processors);
    page.put(HOST_THROTTLED, &[], figures.throttled);
    page.count(HOST_DRIFTS, &[], figures.drifts);
    page.count(HOST_ADJUSTED, &[], figures.adjusted);
    page.histogram(HOST_ROUND, &[], &figures.rounds);
    page.count(HOST_FAILED, &[], figures.failed);
    page.count(HOST_LEADS, &[], u64::from(figures.jobs.is_some()));
    page.count(HOST_ENFORCED, &[], u64::from(figures.enforced));
    if let Some(taken) = figures.taken {
        show_written(page, System::Local, taken);
    }
}
