//! How the host stands, in numbers, from what the control loop knows anyway.

use super::control::ControlLoop;
use super::entry::Phase;
use libra_core::decision::class::Class;
use libra_core::decision::share::DeadlineStatus;
use libra_metrics::figures::HostJobs;

impl ControlLoop<'_> {
    /// The jobs as of the last round.
    pub fn jobs(&self) -> HostJobs {
        let mut jobs = HostJobs::default();
        for watched in self.watched.values() {
            let entry = &watched.entry;
            let local = entry.begun.is_none();
            match entry.phase {
                Phase::Reserved => jobs.waiting.add(local),
                Phase::Running => jobs.running.add(local),
                Phase::Ending => jobs.ending.add(local),
                Phase::Ended => continue,
            }
            let class = entry.class();
            let of_class =
                (Class::ALL.iter().zip(&mut jobs.classes)).find(|(one, _)| **one == class);
            if let Some((_, count)) = of_class {
                *count += 1;
            }
            let still = watched.suspended.or(entry.suspended);
            jobs.suspended += u64::from(still.is_some());
            // Nothing is promised that it could be late for.
            if class == Class::BestEffort {
                continue;
            }
            match watched.deadline_status {
                DeadlineStatus::OnTrack => jobs.on_track += 1,
                DeadlineStatus::AtRisk => jobs.at_risk += 1,
                DeadlineStatus::Overrun => jobs.overrun += 1,
                DeadlineStatus::Late => jobs.late.add(local),
            }
            jobs.committed += watched.needed * f64::from(entry.slots);
        }
        jobs
    }

    /// From now on rounds also ask the kernel how long jobs were kept from running: a read for each job.
    pub fn measure_throttling(&mut self) {
        self.measures_throttling = true;
    }

    /// Seconds in which jobs could have run and had used up their shares, summed over processors, since this began to be
    /// measured; without what a job waited between the last round and its end.
    pub fn throttled(&self) -> f64 {
        self.throttled
    }
}
