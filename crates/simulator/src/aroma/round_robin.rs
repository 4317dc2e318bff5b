//! Processors shared round robin, and what that makes of the tasks of one host: how fast each of
//! them runs, and when each will end (AROMA 2004, section 3.2, "The End of a Task").
//!
//! n processes on u processors run at min(1, u / n) each. A dedicated process has one processor
//! to itself; what is left is shared by the others.
//!
//! Invariants: a projection reads nothing but its arguments, and it always ends: every step ends
//! a task or starts one.

/// Two dates that are nearer to each other than this, in seconds, are one: the microsecond or the
/// last digits that [`libra_workload::Job::met_by`] forgives.
pub(super) fn slack(date: f64) -> f64 {
    (date.abs() * 1e-12).max(1e-6)
}

/// Least part of a processor that counts as one to run on.
const LEAST_PROCESSOR: f64 = 1e-9;

/// How fast processes run at one moment, in seconds of processor time per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    /// Each dedicated process.
    pub(super) dedicated: f64,
    /// Each other process.
    pub(super) shared: f64,
    /// Does every dedicated process have a processor to itself, and every other one a part of
    /// one that is left?
    pub(super) apart: bool,
}

impl Rates {
    /// Of so many dedicated and other processes on so many processors.
    pub(super) fn of(processors: f64, dedicated: u64, shared: u64) -> Rates {
        let needed = dedicated as f64;
        let rest = processors - needed;
        let mut rates = Rates {
            dedicated: 1.0,
            shared: 1.0,
            apart: true,
        };
        if rest < -LEAST_PROCESSOR {
            rates.dedicated = processors / needed;
            rates.apart = false;
        }
        if shared > 0 {
            rates.shared = (rest / shared as f64).clamp(0.0, 1.0);
            if rest <= LEAST_PROCESSOR {
                rates.shared = 0.0;
                rates.apart = false;
            }
        }
        rates
    }

    /// Of one process of the kind.
    pub(super) fn rate(&self, dedicated: bool) -> f64 {
        match dedicated {
            true => self.dedicated,
            false => self.shared,
        }
    }
}

/// The processes of one job on one host, which all run alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Process {
    /// When they start.
    pub(super) start: f64,
    /// Processor time that each of them still needs here, in seconds.
    pub(super) left: f64,
    /// How many they are.
    pub(super) slots: u32,
    /// Each alone on its processor.
    pub(super) dedicated: bool,
    /// Have they started?
    pub(super) running: bool,
}

/// A projection and the room it works in, kept so that nothing is allocated for each.
#[derive(Debug, Default)]
pub(super) struct Projection {
    left: Vec<f64>,
    active: Vec<usize>,
    /// When each process ends, in the order in which the processes were given.
    pub(super) finish: Vec<f64>,
    /// Whether a dedicated process had no processor to itself.
    pub(super) conflict: bool,
    /// The first process that ends after its limit; the projection was broken off there.
    pub(super) late: Option<usize>,
}

impl Projection {
    /// Runs `processes` from the date `at` to their ends. Those that run stand first, then the others in
    /// order of their starts. Breaks off where one, given by its place, ends after its limit.
    pub(super) fn run(
        &mut self,
        processors: f64,
        at: f64,
        processes: &[Process],
        limit: impl Fn(usize) -> f64,
    ) {
        self.finish.clear();
        self.finish.resize(processes.len(), f64::INFINITY);
        self.left.clear();
        self.left
            .extend(processes.iter().map(|process| process.left));
        self.active.clear();
        self.conflict = false;
        self.late = None;
        let start = |index: usize| {
            processes
                .get(index)
                .map_or(f64::INFINITY, |process| match process.running {
                    true => at,
                    false => process.start,
                })
        };
        let (mut now, mut next) = (at, 0);
        let (mut dedicated, mut shared) = (0u64, 0u64);
        loop {
            if self.active.is_empty() {
                // Tasks that meet nobody need no steps.
                while let Some(process) = processes.get(next) {
                    let end = start(next).max(now) + process.left;
                    if start(next + 1) < end - slack(end) || f64::from(process.slots) > processors {
                        break;
                    }
                    self.finish[next] = end;
                    if end > limit(next) {
                        self.late = Some(next);
                        return;
                    }
                    (now, next) = (end, next + 1);
                }
            }
            while next < processes.len() && start(next) <= now {
                self.active.push(next);
                match processes[next].dedicated {
                    true => dedicated += u64::from(processes[next].slots),
                    false => shared += u64::from(processes[next].slots),
                }
                next += 1;
            }
            let rates = Rates::of(processors, dedicated, shared);
            let mut first = None;
            let mut next_end = f64::INFINITY;
            for &index in &self.active {
                let end = now + self.left[index] / rates.rate(processes[index].dedicated);
                if end < next_end {
                    (first, next_end) = (Some(index), end);
                }
            }
            let until = next_end.min(start(next));
            if until == f64::INFINITY {
                return;
            }
            self.conflict |= !rates.apart && until - now > slack(until);
            let forced = first.filter(|_| next_end <= start(next));
            let (left, finish, late) = (&mut self.left, &mut self.finish, &mut self.late);
            self.active.retain(|&index| {
                let process = &processes[index];
                let rate = rates.rate(process.dedicated);
                left[index] -= (until - now) * rate;
                // A task that would end within the slack ends now, so that one date of several
                // tasks stays one.
                let ends = Some(index) == forced || left[index] < slack(until) * rate;
                if ends {
                    finish[index] = until;
                    if until > limit(index) {
                        *late = Some(index);
                    }
                    match process.dedicated {
                        true => dedicated -= u64::from(process.slots),
                        false => shared -= u64::from(process.slots),
                    }
                }
                !ends
            });
            if self.late.is_some() {
                return;
            }
            now = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(start: f64, left: f64, dedicated: bool) -> Process {
        Process {
            start,
            left,
            slots: 1,
            dedicated,
            running: false,
        }
    }

    fn project(processors: f64, processes: &[Process]) -> (Vec<f64>, bool) {
        let mut projection = Projection::default();
        projection.run(processors, 0.0, processes, |_| f64::INFINITY);
        (projection.finish, projection.conflict)
    }

    #[test]
    fn two_tasks_on_one_processor_run_at_half_speed() {
        // Both at 1/2 until the first has its 10 s, at 20; the other has 20 left then.
        let processes = [process(0.0, 10.0, false), process(0.0, 30.0, false)];
        assert_eq!(project(1.0, &processes), (vec![20.0, 40.0], false));
        // On two processors each has its own.
        assert_eq!(project(2.0, &processes), (vec![10.0, 30.0], false));
    }

    #[test]
    fn three_tasks_on_two_processors_run_at_two_thirds() {
        let processes = [process(0.0, 10.0, false); 3];
        assert_eq!(project(2.0, &processes).0, vec![15.0; 3]);
    }

    #[test]
    fn a_later_task_slows_the_earlier_one_from_its_start_on() {
        // The first has 6 of 10 left at 4; at 1/2 that ends at 16. The second has 10 - 6 left then.
        let processes = [process(0.0, 10.0, false), process(4.0, 10.0, false)];
        assert_eq!(project(1.0, &processes).0, vec![16.0, 20.0]);
    }

    #[test]
    fn slots_of_one_job_count_each() {
        let both = Process {
            slots: 2,
            ..process(0.0, 10.0, false)
        };
        assert_eq!(project(1.0, &[both]).0, vec![20.0]);
    }

    #[test]
    fn a_dedicated_task_keeps_a_processor_to_itself() {
        // On two processors the two others share the one that is left until 10.
        let processes = [
            process(0.0, 10.0, true),
            process(0.0, 10.0, false),
            process(0.0, 10.0, false),
        ];
        // 5 s of each are done at 10; then both have a processor.
        assert_eq!(project(2.0, &processes), (vec![10.0, 15.0, 15.0], false));
    }

    #[test]
    fn a_dedicated_task_that_meets_another_is_a_conflict() {
        let processes = [process(0.0, 10.0, false), process(5.0, 10.0, true)];
        let (finish, conflict) = project(1.0, &processes);
        assert!(conflict);
        assert_eq!(finish, vec![20.0, 15.0]);
        // One after the other is none, nor is an overlap of a rounding.
        let after = [process(0.0, 10.0, false), process(10.0 - 1e-9, 10.0, true)];
        assert!(!project(1.0, &after).1);
        // Two of them on one processor.
        let two = [process(0.0, 10.0, true), process(0.0, 10.0, true)];
        assert_eq!(project(1.0, &two), (vec![20.0, 20.0], true));
    }

    #[test]
    fn an_idle_host_waits_for_the_next_start() {
        let processes = [process(3.0, 1.0, false), process(7.0, 1.0, true)];
        assert_eq!(project(1.0, &processes), (vec![4.0, 8.0], false));
        assert_eq!(project(1.0, &[]), (vec![], false));
    }
}
