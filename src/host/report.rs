//! How the jobs of this host stand: plain data for `libra status`.

use super::entry::{Ending, Phase};
use super::{Host, HostError, clock};
use crate::decision::share::Standing;
use serde::Serialize;

/// One job.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct JobReport {
    /// Id.
    pub id: String,
    /// What runs.
    pub command: String,
    /// User number of the owner.
    pub user: u32,
    /// How far it has come.
    pub phase: Phase,
    /// How it stands; none when it has ended.
    pub standing: Option<Standing>,
    /// Slots.
    pub slots: u32,
    /// Share per slot now held, in processors.
    pub share: f64,
    /// Share per slot that it needs from now on, in processors.
    pub needed_share: f64,
    /// Seconds of the estimate, per slot.
    pub estimate_seconds: f64,
    /// Processor seconds used, per slot.
    pub used_seconds: f64,
    /// Seconds from submission to deadline.
    pub deadline_seconds: f64,
    /// Seconds since submission; of an ended job, when it ended.
    pub elapsed_seconds: f64,
    /// Seconds left until the deadline; negative when it has passed.
    pub left_seconds: f64,
    /// Credits.
    pub price: f64,
    /// Its share is held by a cgroup.
    pub enforced: bool,
    /// Whoever watched over it is gone; the control loop looks after it.
    pub orphaned: bool,
    /// It was started.
    pub started: bool,
    /// Seconds for which it is kept still, where it is a quote; its deadline counts from its submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_seconds: Option<f64>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// The host.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct HostReport {
    /// Host name.
    pub node: String,
    /// Processors that jobs may share.
    pub processors: f64,
    /// Processors committed.
    pub committed: f64,
    /// How shares are enforced.
    pub enforcement: String,
    /// Jobs, in order of submission.
    pub jobs: Vec<JobReport>,
}

impl Host {
    /// How everything stands now. Changes nothing.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn report(&self) -> Result<HostReport, HostError> {
        let now = clock::since_boot();
        let mut committed = 0.0;
        let mut jobs = Vec::new();
        for entry in self.registry.all()? {
            if entry.boot != self.boot || entry.is_expired_quote(now) {
                continue;
            }
            let terms = entry.request.terms;
            let slots = f64::from(entry.slots.max(1));
            let mut job = JobReport {
                id: entry.id.clone(),
                command: entry.command.clone(),
                user: entry.user,
                phase: entry.phase,
                standing: None,
                slots: entry.slots,
                share: 0.0,
                needed_share: 0.0,
                estimate_seconds: terms.estimate,
                used_seconds: 0.0,
                deadline_seconds: terms.deadline,
                elapsed_seconds: 0.0,
                left_seconds: 0.0,
                price: entry.price,
                enforced: entry.group.is_some(),
                orphaned: false,
                started: entry.started.is_some(),
                kept_seconds: (entry.quote.as_ref()).map(|quote| (quote.until - now).max(0.0)),
                ending: entry.ending.clone(),
            };
            let until = match &entry.ending {
                Some(ending) => {
                    job.used_seconds = ending.used / slots;
                    if entry.is_live() {
                        // It could not be ended; admission counts it as well.
                        committed += slots * self.standing(&entry, now).need.share;
                    }
                    ending.at
                }
                None => {
                    let standing = self.standing(&entry, now);
                    let share = standing.need.share;
                    committed += slots * share;
                    job.standing = Some(standing.need.standing);
                    job.used_seconds = standing.used / slots;
                    job.share = standing.held_share;
                    job.needed_share = share;
                    job.orphaned = entry.supervisor.is_some_and(|process| !process.is_alive());
                    match entry.quote {
                        Some(_) => entry.submitted,
                        None => now,
                    }
                }
            };
            job.elapsed_seconds = until - entry.submitted;
            job.left_seconds = entry.due() - until;
            jobs.push(job);
        }
        Ok(HostReport {
            node: self.machine.name.clone(),
            processors: self.machine.spec.processors,
            committed,
            enforcement: self.enforcement(),
            jobs,
        })
    }
}
