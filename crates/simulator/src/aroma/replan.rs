//! What is planned is taken anew where things come otherwise than planned.
//!
//! Invariants: a planned job moves back only where an overrun is in its way, and forward only to an
//! earlier start; neither breaks a promise that was not broken before.

use super::plan::{Mapped, Plan, Removed};
use super::round_robin::slack;

impl Plan {
    /// The planned jobs, those of the highest class first, of these the first one submitted.
    fn planned(&self) -> Vec<usize> {
        let mut planned: Vec<(u8, usize)> = self
            .jobs
            .iter()
            .filter(|(_, job)| !job.running)
            .map(|(index, job)| (job.rank(), *index))
            .collect();
        planned.sort_unstable();
        planned.into_iter().map(|(_, index)| index).collect()
    }

    /// Planned jobs on hosts where a constraint no longer holds get another mapping. One whose
    /// promise cannot be kept any more gets the earliest that there is.
    pub(super) fn repair(&mut self, hosts: &[usize]) {
        let mut broken = vec![false; self.hosts.len()];
        for &host in hosts {
            broken[host] = self.hosts[host].broken(&mut self.search.scratch);
        }
        let hit = |job: &Mapped| job.hosts.iter().any(|host| broken[*host as usize]);
        let mut planned = self.planned();
        planned.retain(|index| self.jobs.get(index).is_some_and(hit));
        let removed: Vec<Removed> = planned.into_iter().filter_map(|i| self.remove(i)).collect();
        for job in removed {
            if self.still_fits(&job) {
                self.put_back(&job);
                continue;
            }
            let mut demand = job.demand();
            let mapping = self.find(&demand, f64::INFINITY).or_else(|| {
                (demand.due, demand.latest) = (f64::INFINITY, f64::INFINITY);
                self.find(&demand, f64::INFINITY)
            });
            match mapping {
                Some(mapping) => self.place(&job, &mapping),
                None => self.put_back(&job),
            }
        }
    }

    /// Where something went away planned jobs move forward, one after the other, each only if it
    /// starts earlier than before, so that every promise holds all the way.
    pub(super) fn move_forward(&mut self) {
        // Each round looks at what the one before has freed; starts only ever get earlier.
        while !self.freed.is_empty() {
            let round = std::mem::take(&mut self.freed);
            for index in self.planned() {
                let useful = |job: &Mapped| {
                    let mut freed = round.iter().chain(&self.freed);
                    freed.any(|(host, date)| self.useful(index, job, *host, *date))
                };
                if !self.jobs.get(&index).is_some_and(useful) {
                    continue;
                }
                let Some(removed) = self.remove(index) else {
                    continue;
                };
                let start = removed.job.start;
                let demand = removed.demand_no_worse();
                match self.find(&demand, start - slack(start)) {
                    Some(mapping) => self.place(&removed, &mapping),
                    None => self.put_back(&removed),
                }
            }
        }
    }

    /// Might a task of a planned job use what was freed on a host at a date? Only what lies between
    /// two dedicated tasks has changed, and there it would have to fit in.
    fn useful(&self, index: usize, job: &Mapped, host: usize, date: f64) -> bool {
        let host = &self.hosts[host];
        if !host.single() {
            return true;
        }
        let (mut from, mut to) = (self.now, f64::INFINITY);
        for task in &host.tasks {
            if task.process.dedicated && task.job != index {
                match task.process.start > date - slack(date) {
                    true => to = to.min(task.process.start),
                    false => from = from.max(task.finish),
                }
            }
        }
        let work = match job.first_start {
            None => job.work / host.rating,
            Some(_) => host
                .task(index)
                .map_or(f64::INFINITY, |task| task.process.left),
        };
        from < job.start && from + work <= to + slack(to)
    }
}
