//! What a job that begins may take beside what others here were promised.
//!
//! The admitting side has seen to it that all promises fit. This is the second check, on the host itself, for whatever a line of
//! what is committed says: a record that somebody has changed, a replay, a host with fewer processors than the batch system
//! believes, a job whose end the host has not heard of yet.
//!
//! Invariants:
//! - A claim that this host could not keep even if it were empty is no promise.
//! - Where shares are promised ([`Shortage::CommittedFirst`]), the shares promised on this host never exceed its processors: who
//!   begins later is promised what is left, and gets more as soon as there is more. The other rules for a shortage promise
//!   no shares: they take from all, or by the deadlines, and are left to do so.
//!
//! What was promised is the share that was committed, or what the job still needs where that is less: a job that has run ahead
//! leaves room, which the admitting side may have committed. One that is late or past its estimate was promised nothing more. Whole processors
//! stay promised for as long as the job has asked for; afterwards it keeps them until somebody begins who was promised them.

use super::entry::Entry;
use super::{Host, HostError};
use libra_core::decision::TOLERANCE;
use libra_core::decision::allotment::Shortage;
use libra_core::decision::policy::Policy;
use libra_core::decision::service::{self, Hold};
use libra_core::decision::share::DeadlineStatus;
use libra_system::clock;

/// The admitting side rounds shares and sums them up in its own order, so a host that is exactly full may be over it by this part.
const ROUNDING: f64 = 1e-6 + TOLERANCE;

impl Entry {
    /// Returns true if it was promised all of each of its processors when it began, and not what was left of them.
    pub(super) fn has_whole_share(&self) -> bool {
        self.share >= 1.0 - ROUNDING
    }

    /// Processors that were committed to it, over all slots.
    fn committed(&self) -> f64 {
        self.share * f64::from(self.slots)
    }

    /// Whether it has had whole processors for as long as it asked for, on a host of this rating.
    pub(super) fn has_outlived(&self, now: f64, rating: f64) -> bool {
        let still = self.stood_still + self.suspended.map_or(0.0, |since| now - since);
        let since = self.begun.or(self.started).unwrap_or(now) + still;
        let estimate = self.request.terms.estimate * (1.0 + self.estimate_margin);
        service::has_outlived(self.class(), now - since, estimate, rating)
    }
}

impl Host {
    /// The share per slot that a job may be promised here, at most that which was committed to it. The registry's lock is held.
    ///
    /// # Errors
    /// [`HostError::NoRoom`] where this host has not that many processors at all; or when the registry fails.
    pub(super) fn promisable(&self, id: &str, share: f64, slots: u32) -> Result<f64, HostError> {
        let processors = self.machine.spec.processors;
        let slots = f64::from(slots.max(1));
        let asked = share * slots;
        // Of those that are kept for the system the batch system may not know.
        let most = processors.max(self.machine.online.len() as f64);
        if asked > most * (1.0 + ROUNDING) {
            return Err(HostError::NoRoom {
                id: id.to_string(),
                asked,
                processors: most,
            });
        }
        if libra_rules::admission(&self.config).policy.shortage() != Shortage::CommittedFirst {
            return Ok(share);
        }
        let now = clock::since_boot();
        let others = (self.registry.all()?.into_iter())
            .filter(|entry| entry.id != id && entry.is_live() && entry.boot == self.boot)
            .filter(|entry| !entry.is_expired_quote(now));
        let others: Vec<Entry> = others.collect();
        // Nobody is promised more than was committed. What is promised of it asks the kernel, and the lock is held meanwhile: so no more jobs are
        // looked at than it takes to find room.
        let mut taken: f64 = others.iter().map(Entry::committed).sum();
        let mut unseen = others.iter();
        while asked > (processors - taken).max(0.0) + processors * ROUNDING {
            let Some(entry) = unseen.next() else {
                return Ok((processors - taken).max(0.0) / slots);
            };
            taken -= entry.committed() - self.promised(entry, now);
        }
        Ok(share)
    }

    /// Processors that a job is promised from now on.
    fn promised(&self, entry: &Entry, now: f64) -> f64 {
        // Its processors are another one's meanwhile.
        if entry.suspended.is_some() {
            return 0.0;
        }
        let progress = self.progress(entry, now);
        let need = progress.need;
        if progress.hold == Hold::Whole {
            if entry.has_outlived(now, self.machine.spec.rating) {
                return 0.0;
            }
            return entry.committed();
        }
        match need.deadline_status {
            DeadlineStatus::Late | DeadlineStatus::Overrun => 0.0,
            DeadlineStatus::OnTrack | DeadlineStatus::AtRisk => {
                need.share.min(entry.share) * f64::from(entry.slots)
            }
        }
    }
}
