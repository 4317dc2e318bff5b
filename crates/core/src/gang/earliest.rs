//! Where a job can start first. Mostly nothing else is asked of the processors, and then not all of their runs need to be looked at.

use super::placement::by_single_processors;
use super::plan::Plan;
use super::rules::Demand;
use super::timeline::{Early, Priority};

impl Plan {
    /// Those of the candidates on which a job of this priority that is due then can start first, of several the least used: the same
    /// as [`Plan::survey`] and [`Plan::earliest`] find, which look at all runs. None if there are not enough.
    pub fn earliest_for(&mut self, demand: &Demand, view: Priority, due: f64) -> Option<Vec<u32>> {
        if !by_single_processors(&self.machine, demand) {
            self.survey(view, due);
            return self.earliest(demand);
        }
        #[cfg(test)]
        if self.plain {
            return self.earliest_plainly(demand, view, due);
        }
        let until = if due > self.now { due } else { f64::INFINITY };
        let slots = demand.slots();
        let mut early = std::mem::take(&mut self.scratch.early);
        let found = self.find_early(slots, view, until, &mut early);
        self.scratch.early = early;
        found
    }

    fn find_early(
        &self,
        slots: usize,
        view: Priority,
        until: f64,
        early: &mut Vec<Early>,
    ) -> Option<Vec<u32>> {
        early.clear();
        let mut unused = Vec::new();
        for &processor in &self.scratch.candidates {
            let first = self.first_for(processor, view, until);
            if first <= self.now && self.is_unused(processor, until) {
                // Those that nobody uses are the best there are.
                unused.push(processor);
                if unused.len() == slots {
                    return Some(unused);
                }
            }
            early.push(Early {
                processor,
                first,
                all: 0.0,
            });
        }
        if slots == 0 || slots > early.len() {
            return None;
        }
        // They all wait for the one that is free last of the first ones.
        let by_first = |a: &Early, b: &Early| a.first.total_cmp(&b.first);
        let (_, last, _) = early.select_nth_unstable_by(slots - 1, by_first);
        let start = last.first.max(self.now);
        early.retain(|early| early.first <= start);
        if early.len() > slots {
            for early in early.iter_mut() {
                early.all = self.used_until(early.processor, until);
            }
            early.select_nth_unstable_by(slots - 1, |a, b| {
                (a.all.total_cmp(&b.all)).then(a.processor.cmp(&b.processor))
            });
            early.truncate(slots);
        }
        let mut found: Vec<u32> = early.iter().map(|early| early.processor).collect();
        found.sort_unstable();
        Some(found)
    }

    /// When nobody who comes before `view` uses a processor for the first time.
    fn first_for(&self, processor: u32, view: Priority, until: f64) -> f64 {
        let mut first = self.room_from(processor);
        for entry in self.lines[processor as usize].after(self.now) {
            if entry.run.start >= until || entry.run.start > first {
                break;
            }
            if entry.priority < view {
                first = first.max(entry.run.end);
            }
        }
        first
    }

    fn is_unused(&self, processor: u32, until: f64) -> bool {
        let entries = self.lines[processor as usize].after(self.now).iter();
        let mut runs = entries.take_while(|entry| entry.run.start < until);
        // A run of no length, of one that has hardly anything left, uses nothing.
        runs.all(|entry| entry.run.end.min(until) <= entry.run.start.max(self.now))
    }

    /// Seconds until then that anybody uses a processor.
    fn used_until(&self, processor: u32, until: f64) -> f64 {
        let entries = self.lines[processor as usize].after(self.now).iter();
        let runs = entries.take_while(|entry| entry.run.start < until);
        runs.fold(0.0, |sum, entry| {
            let start = entry.run.start.max(self.now);
            sum + (entry.run.end.min(until) - start).max(0.0)
        })
    }
}
