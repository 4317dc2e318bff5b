//! To whom something happens next as time goes on: so that neither a decision nor the question what is to be done
//! now looks at all jobs that are known.
//!
//! Changes are noted while the plan is tried and taken over when it is asked: what was put back costs nothing here.

use super::moments::Moment;
use super::plan::{Plan, Planned};

fn moment(job: &Planned, slot: u32) -> Option<Moment> {
    let first = job.runs.first()?;
    Some(Moment {
        at: if job.running { first.end } else { first.start },
        waits: !job.running,
        slot,
    })
}

impl Plan {
    /// To be called when a job's runs become others, or whether it runs.
    pub fn note(&mut self, slot: u32) {
        let mark = &mut self.jobs[slot as usize].mark;
        if !mark.changed {
            mark.changed = true;
            self.upcoming.changed.push(slot);
        }
    }

    /// Leaves out a job that is forgotten.
    pub fn leave_out(&mut self, slot: u32) {
        let job = &mut self.jobs[slot as usize];
        job.runs.clear();
        job.running = false;
        if let Some(moment) = job.mark.moment.take() {
            self.upcoming.moments.remove(&moment);
        }
    }

    /// Takes over what was noted. Before anything is asked here.
    pub fn take_over(&mut self) {
        let mut changed = std::mem::take(&mut self.upcoming.changed);
        for slot in changed.drain(..) {
            let job = &mut self.jobs[slot as usize];
            job.mark.changed = false;
            let moment = moment(job, slot);
            if moment != job.mark.moment {
                let former = std::mem::replace(&mut job.mark.moment, moment);
                if let Some(former) = former {
                    self.upcoming.moments.remove(&former);
                }
                self.upcoming.moments.extend(moment);
            }
            if job.running && !job.mark.stops && job.next_start() > self.now {
                job.mark.stops = true;
                self.upcoming.stops.push(slot);
            }
        }
        self.upcoming.changed = changed;
    }

    /// Whose run has ended by now, or should have begun before and has not; in the order of priorities.
    pub fn overtaken(&mut self) -> Vec<u32> {
        #[cfg(test)]
        if self.plain {
            return self.overtaken_plainly();
        }
        self.take_over();
        let until = Moment {
            at: self.now,
            waits: true,
            slot: u32::MAX,
        };
        let moments = self.upcoming.moments.range(..=until);
        // Who is to start now has missed nothing, but for a run of no length, of one that has hardly anything left.
        let over = |slot: u32| {
            let run = self.job(slot).runs.first();
            run.is_some_and(|run| run.start < self.now || run.end <= self.now)
        };
        let overtaken = moments.filter(|moment| !moment.waits || over(moment.slot));
        let slots = overtaken.map(|moment| moment.slot).collect();
        self.in_order(slots)
    }

    /// Who is to stand still now and runs, and who is to run now and does not; each in the order of priorities.
    pub fn next_actions(&mut self) -> (Vec<u32>, Vec<u32>) {
        #[cfg(test)]
        if self.plain {
            return self.next_actions_plainly();
        }
        self.take_over();
        let now = self.now;
        let mut stops = std::mem::take(&mut self.upcoming.stops);
        stops.retain(|&slot| {
            let job = self.job_mut(slot);
            job.mark.stops = false;
            job.running && job.next_start() > now
        });
        let until = Moment {
            at: now,
            waits: true,
            slot: u32::MAX,
        };
        let moments = self.upcoming.moments.range(..=until);
        let run = moments.map(|moment| moment.slot);
        let run = run.filter(|&slot| !self.job(slot).running && self.job(slot).next_start() <= now);
        let run = run.collect();
        (self.in_order(stops), self.in_order(run))
    }

    /// When something happens by itself; infinity if nothing does. Asked when all was taken over.
    pub fn next_moment(&self) -> f64 {
        #[cfg(test)]
        if self.plain {
            return self.next_moment_plainly();
        }
        debug_assert!(self.upcoming.changed.is_empty(), "all was taken over");
        let now = self.now;
        let time = |slot: u32| match self.job(slot).runs.first() {
            Some(run) if run.start <= now => run.end,
            Some(run) => run.start,
            None => f64::INFINITY,
        };
        let mut next = f64::INFINITY;
        for moment in &self.upcoming.moments {
            next = next.min(time(moment.slot));
            if moment.at > now {
                break;
            }
        }
        let stops = self.upcoming.stops.iter().map(|&slot| time(slot));
        stops.fold(next, f64::min)
    }

    fn in_order(&self, mut slots: Vec<u32>) -> Vec<u32> {
        slots.sort_unstable_by_key(|&slot| self.job(slot).priority);
        slots
    }
}
