//! The control loop and what others kill: a batch system, the kernel where memory is short, a user.
//!
//! A job that is killed still has to give back its memory, and with little weight on a busy host it needs minutes for what takes seconds
//! otherwise. It gets the weight of a processor and no quota as soon as all of its processes are killed: nothing of its
//! program runs any more, so nobody gains by it. Its share stays reserved until its batch system ends it.

use super::{ControlLoop, Watched};

/// Rounds between two checks of who is killed. One who is, is checked in each.
const EVERY: u64 = 4;
/// Rounds between two searches for the places of Slurm's jobs.
const SCOPES: u64 = 32;

/// Returns true if it is this job's turn to be checked. Where a loop lasts for one round alone that is each one's.
pub(super) fn is_turn(rounds: u64, index: usize) -> bool {
    rounds == 1 || (rounds + index as u64) % EVERY == 0
}

impl Watched {
    /// Notices whether all of it is killed.
    pub(super) fn notice_killed(&mut self, is_turn: bool) {
        if !self.killed && !is_turn {
            return;
        }
        let killed = match self.group.as_ref().map(|group| group.is_killed()) {
            Some(Ok(killed)) => killed,
            Some(Err(error)) => {
                log::debug!("job {}: {error}", self.entry.id);
                false
            }
            None => false,
        };
        if killed && !self.killed {
            log::info!(
                "job {} is killed: nothing holds it while it ends",
                self.entry.id
            );
        }
        self.killed = killed;
    }

    /// Files of its group that somebody else has changed; they are written again. Whoever ends a job takes its limits off, so where nothing of
    /// its program runs any more that is no change of somebody's.
    pub(super) fn notice_drift(&mut self, id: &str) -> usize {
        let Some(group) = self.group.as_mut().filter(|_| !self.killed) else {
            return 0;
        };
        let drifts = match group.drift() {
            Ok(drifts) => drifts,
            Err(error) => {
                log::debug!("job {id}: {error}");
                return 0;
            }
        };
        if drifts.is_empty() {
            return 0;
        }
        self.given = f64::NAN;
        let is_empty = matches!(group.is_populated(), Ok(false));
        self.notice_killed(true);
        if is_empty || self.killed {
            return 0;
        }
        for drift in &drifts {
            log::warn!(
                "job {id}: somebody changed {}; set again",
                drift.path.display()
            );
        }
        drifts.len()
    }

    /// Takes off what would keep it from ending, on a host of so many processors.
    pub(super) fn let_end(&mut self, processors: f64) {
        self.resume();
        // Whoever comes into its group is held again, whatever was written last.
        self.given = f64::NAN;
        match self.group.as_mut().map(|group| group.let_end(processors)) {
            Some(Err(error)) if !error.is_gone() => log::warn!("job {}: {error}", self.entry.id),
            _ => {}
        }
    }
}

impl ControlLoop<'_> {
    /// The same for jobs that were promised nothing, of which the registry knows nothing.
    pub(super) fn help_killed(&mut self) {
        let Some(enforcer) = self.host.enforcer() else {
            return;
        };
        if self.rounds % SCOPES == 1 {
            self.killed.find_scopes(enforcer);
            enforcer.remove_empty_best_effort();
        }
        if !self.killed.is_any() && !is_turn(self.rounds, 0) {
            return;
        }
        let processors = self.host.machine.spec.processors;
        for name in self.killed.help(enforcer, processors) {
            log::info!("{name} is killed: nothing holds it while it ends");
        }
    }
}
