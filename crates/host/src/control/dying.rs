//! The control loop and what others kill: a batch system, the kernel where memory is short, a user.
//!
//! A job that is killed still has to give back its memory, and with little weight on a busy host it needs minutes for what takes seconds
//! otherwise. It gets the weight of a processor and no quota as soon as all of its processes are killed: nothing of its
//! program runs any more, so nobody gains by it. Its share stays reserved until its batch system ends it.

use super::{ControlLoop, Watched};

/// Rounds between two checks of who is killed, or more where there are many jobs. One who is killed is checked in each.
const EVERY: u64 = 4;
/// In a round it is the turn of at most so many jobs to be looked at closely: each costs as much as all that every job needs in a round. Those that
/// are killed, or changed by somebody else, are looked at besides.
const AT_ONCE: usize = 16;
/// Of so many checks of a job one asks for all of its processes, whoever was alive before.
const THOROUGH: u64 = 16;
/// Rounds between two searches for the places of Slurm's jobs.
const SCOPES: u64 = 32;

/// Rounds between two checks of the same job, where there are so many.
pub(super) fn between(least: u64, jobs: usize) -> u64 {
    least.max(jobs.div_ceil(AT_ONCE) as u64)
}

/// Whether it is this one's turn, of so many jobs, to be checked for having been killed, and then whether thoroughly. Where a loop lasts for one round
/// alone that is each one's.
pub(super) fn turn(rounds: u64, index: usize, jobs: usize) -> Option<Depth> {
    let (turn, between) = (rounds + index as u64, between(EVERY, jobs));
    if rounds != 1 && turn % between != 0 {
        return None;
    }
    let is_thorough = rounds == 1 || (turn / between) % THOROUGH == 0;
    Some(if is_thorough { Depth::All } else { Depth::One })
}

/// How closely a job is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Depth {
    /// As long as the process that was alive the last time is, no other one is asked.
    One,
    /// All of its processes.
    All,
}

impl Watched {
    /// Notices whether all of it is killed.
    pub(super) fn notice_killed(&mut self, turn: Option<Depth>) {
        let depth = match turn {
            None if !self.killed => return,
            None => Depth::One,
            Some(depth) => depth,
        };
        let group = self.group.as_mut();
        let killed = match group.map(|group| group.is_killed(depth == Depth::All)) {
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
        self.notice_killed(Some(Depth::All));
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
        if !self.killed.is_any() && turn(self.rounds, 0, 0).is_none() {
            return;
        }
        let processors = self.host.machine.spec.processors;
        for name in self.killed.help(enforcer, processors) {
            log::info!("{name} is killed: nothing holds it while it ends");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_its_turns_and_no_round_has_too_many() {
        for jobs in [1, 5, 63, 64, 65, 200, 1000] {
            let period = between(EVERY, jobs);
            assert!(jobs > 64 || period == EVERY, "{jobs} {period}");
            let rounds = 2..2 + period * THOROUGH;
            let mut thorough = vec![0; jobs];
            for round in rounds.clone() {
                let turns = (0..jobs).filter_map(|index| Some((index, turn(round, index, jobs)?)));
                let turns: Vec<(usize, Depth)> = turns.collect();
                assert!(turns.len() <= AT_ONCE, "{jobs}: {}", turns.len());
                for (index, depth) in turns {
                    thorough[index] += usize::from(depth == Depth::All);
                }
            }
            for index in 0..jobs {
                let turns = rounds
                    .clone()
                    .filter(|round| turn(*round, index, jobs).is_some());
                assert_eq!(turns.count() as u64, THOROUGH, "{index} of {jobs}");
            }
            assert!(
                thorough.iter().all(|times| *times == 1),
                "{jobs}: {thorough:?}"
            );
            assert!((0..jobs).all(|index| turn(1, index, jobs) == Some(Depth::All)));
        }
    }
}
