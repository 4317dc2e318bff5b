//! What becomes of the plan as time goes on: jobs have had what was planned for them, need more, or less.

use super::plan::{Dirty, Plan, ROUNDING, Strict};
use super::rules::Suspend;
use super::timeline::Priority;

/// Least time that is added to a plan that was too short, seconds.
const LEAST_EXTENSION: f64 = 1.0;
/// Fewest jobs that are laid anew then.
const LEAST_WINDOW: usize = 16;

impl Plan {
    /// Goes on to `now`. Who runs has had the time until then; who has had all that was planned is taken to need a tenth more.
    pub fn advance(&mut self, now: f64) {
        self.now = self.now.max(now);
        let now = self.now;
        let (mut used_up, mut gone_on, mut missed) = (Vec::new(), Vec::new(), Vec::new());
        for slot in self.overtaken() {
            let job = &self.jobs[slot as usize];
            match (job.runs.first(), job.runs.last()) {
                (Some(first), _) if !job.running && first.start < now => missed.push(slot),
                (_, Some(last)) if last.end <= now => used_up.push(slot),
                (Some(first), _) if first.end <= now => gone_on.push(slot),
                _ => {}
            }
        }
        for &slot in used_up.iter().chain(&gone_on) {
            self.count(slot);
        }
        if !missed.is_empty() {
            // Their time has passed unused.
            self.begin();
            if !self.lay_anew(&missed, Strict::All, true) {
                self.put_back();
                self.begin();
                self.lay_anew(&missed, Strict::Nobody, true);
            }
        }
        for slot in used_up {
            self.extend(slot);
        }
        self.take_over();
    }

    /// Plans more time for a job that has had all of it. First so that nobody is late; then so that it
    /// is late itself, since it needs more than it said; only then others.
    fn extend(&mut self, slot: u32) {
        let job = self.job(slot);
        let own = job.priority;
        let work = job.done + (job.done / 10.0).max(LEAST_EXTENSION);
        let other = |at| Priority {
            at,
            number: own.number,
        };
        let tries = [
            (own, Strict::All),
            (other(f64::NEG_INFINITY), Strict::All),
            (own, Strict::But(slot)),
            (other(f64::INFINITY), Strict::But(slot)),
            (own, Strict::Nobody),
        ];
        for (priority, strict) in tries {
            // Who is never suspended keeps its place.
            if self.rules.suspend == Suspend::Never && priority != own {
                continue;
            }
            self.begin();
            self.unlay(slot);
            self.set_priority(slot, priority);
            self.job_mut(slot).work = work;
            if self.lay_anew(&[slot], strict, false) {
                return;
            }
            self.put_back();
        }
    }

    /// Makes the plan anew, as the rule has it, now that somebody needs less than was planned or others were
    /// pushed aside. Where somebody would be late in the new plan the old one stays, and each job that could run now and does not is tried alone.
    pub fn tidy(&mut self) {
        self.begin();
        self.effort = self.bounds.tidying;
        let all: Vec<u32> = self.known.values().copied().take(self.window()).collect();
        if !self.lay_anew(&all, Strict::All, true) {
            self.put_back();
            for slot in all {
                if self.job(slot).next_start() > self.now && self.effort > 0 {
                    self.pull(slot);
                }
            }
        }
        self.effort = usize::MAX;
        self.take_over();
    }

    /// So many jobs are laid anew at a time, the first in their order: all, but on large machines with many jobs.
    fn window(&self) -> usize {
        let each = self.candidates_wanted(1) + self.candidates_wanted(1) * self.depth();
        (self.bounds.tidying / each.max(1)).max(LEAST_WINDOW)
    }

    /// Lets a job run from now on, if that makes nobody late.
    fn pull(&mut self, slot: u32) {
        let job = self.job(slot);
        let (priority, due, demand) = (job.priority, job.due, job.demand);
        let processors = match job.started {
            true => job.processors.clone(),
            false => {
                self.find_candidates(&demand);
                match self.earliest_for(&demand, priority, due) {
                    Some(processors) => processors,
                    None => return,
                }
            }
        };
        let now = self.now;
        let taken = |&p: &u32| {
            let entry = self.lines[p as usize].after(now).first();
            entry.is_some_and(|entry| entry.run.start <= now && entry.priority < priority)
        };
        if processors.iter().any(taken) {
            return;
        }
        self.begin();
        self.unlay(slot);
        if self.lay(slot, &processors, f64::INFINITY, priority)
            && self.job(slot).next_start() <= now
        {
            let mut dirty = Dirty::new();
            let placed = self.place_within(slot, &mut dirty, Strict::All);
            if placed && self.settle(dirty, Strict::All) && self.kept(slot) {
                return;
            }
        } else {
            self.job_mut(slot).runs.clear();
        }
        self.put_back();
    }

    fn kept(&self, slot: u32) -> bool {
        let job = self.job(slot);
        job.late || job.end() <= job.due + ROUNDING
    }
}
