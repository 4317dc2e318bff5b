//! Moving planned jobs and stopping running ones for a job of a higher class that finds no mapping
//! otherwise (AROMA 2004, section 3.1).
//!
//! Jobs of the lowest class go first, of these the last one submitted. Each that had to go comes
//! back to where it was if it is not in the way after all.
//!
//! Invariant: who gives way loses time, but nothing that was promised.

use super::plan::{Mapped, Plan, Removed};
use super::search::Demand;
use super::{Class, MappingObserver};

impl Plan {
    /// Jobs of classes below `rank` that may be moved, or if `running` stopped, for another: those
    /// of the lowest class first, of these the last one submitted.
    fn lower(&self, rank: u8, running: bool) -> Vec<usize> {
        let may_be_displaced = |job: &Mapped| {
            // What starts at once was promised to run, not to run for a moment.
            let promised_to_run = running && matches!(job.class, Class::HighPriority { .. });
            job.rank() > rank && job.running == running && !promised_to_run
        };
        let mut lower: Vec<(u8, usize)> = self
            .jobs
            .iter()
            .filter(|(_, job)| may_be_displaced(job))
            .map(|(index, job)| (job.rank(), *index))
            .collect();
        lower.sort_unstable_by(|a, b| b.cmp(a));
        lower.into_iter().map(|(_, index)| index).collect()
    }

    /// Maps a new job by moving planned jobs of lower classes, or if `running` by stopping running
    /// ones. Yields its start; None if that does not help, and then all is as it was.
    pub(super) fn displace(
        &mut self,
        new: &Removed,
        demand: &Demand,
        running: bool,
        observer: &mut dyn MappingObserver,
    ) -> Option<f64> {
        let lower = self.lower(new.job.rank(), running);
        for group in lower.chunks(self.most_displaced.max(1)) {
            let mut removed: Vec<Removed> = Vec::new();
            for index in group {
                removed.extend(self.remove(*index));
                let Some(mapping) = self.find(demand, f64::INFINITY) else {
                    continue;
                };
                self.place(new, &mapping);
                if self.map_again(&removed, observer) {
                    return Some(mapping.start);
                }
                self.remove(new.index);
            }
            for job in removed.iter().rev() {
                self.put_back(job);
            }
        }
        None
    }

    /// Maps jobs again that had to go for another: where they were, if they are not in its way
    /// after all, or as soon as can be. If one of them then cannot keep what it was promised, all
    /// stay out and the answer is no.
    fn map_again(&mut self, removed: &[Removed], observer: &mut dyn MappingObserver) -> bool {
        let mut order: Vec<&Removed> = removed.iter().collect();
        order.sort_by_key(|removed| (removed.job.rank(), removed.index));
        let mut placed: Vec<(&Removed, f64)> = Vec::new();
        for job in order {
            if self.still_fits(job) {
                self.put_back(job);
                placed.push((job, job.job.start));
                continue;
            }
            let demand = job.demand_no_worse();
            let Some(mapping) = self.find(&demand, f64::INFINITY) else {
                for (job, _) in placed {
                    self.remove(job.index);
                }
                return false;
            };
            self.place(job, &mapping);
            placed.push((job, mapping.start));
        }
        for (job, start) in placed {
            let now_at = self.jobs.get(&job.index);
            if job.job.running && now_at.is_some_and(|now_at| !now_at.running) {
                observer.stopped(job.index, self.now, start);
            } else if now_at.is_some_and(|now_at| *now_at != job.job) {
                observer.moved(job.index, self.now, start);
            }
        }
        true
    }
}
