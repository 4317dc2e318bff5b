//! Whether a job can be promised: the rule played forward with it, on several processors and with
//! several priorities, until in one of these plans nobody ends late.

use super::placement::Measure;
use super::plan::{Dirty, Plan, Planned, ROUNDING, Strict};
use super::rules::Demand;
use super::timeline::Priority;

/// A place among the jobs that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// By its deadline, but for now in what all others leave: nobody has to be moved. When the plan is made anew
    /// the job takes its place.
    Gaps,
    /// By its deadline: the rule.
    Deadline,
    /// By the moment at which it has to start.
    LatestStart,
    /// Before all others, but for those that have started where nobody is suspended.
    First,
}

impl Order {
    const ALL: [Order; 4] = [
        Order::Gaps,
        Order::Deadline,
        Order::LatestStart,
        Order::First,
    ];

    fn at(self, due: f64, work: f64) -> f64 {
        match self {
            Order::Gaps | Order::Deadline => due,
            Order::LatestStart => due - work,
            Order::First => f64::MIN,
        }
    }
}

impl Plan {
    /// Takes a job into the plan that can be kept by `due`, if there is a way; else nothing changes. `number`: of its
    /// submission, as no other job has it.
    pub fn admit(&mut self, demand: Demand, due: f64, number: u64) -> Option<u32> {
        let work = self.planned_work(&demand, due);
        let priority = |order: Order| Priority {
            at: order.at(due, work),
            number,
        };
        let first = priority(Order::Deadline);
        let slot = self.add(Planned::new(demand, first, due, work));
        self.find_candidates(&demand);
        for order in Order::ALL {
            let mut tried: Vec<Vec<u32>> = Vec::new();
            let priority = priority(order);
            self.set_priority(slot, priority);
            let view = match order {
                Order::Gaps => Priority::LAST,
                _ => priority,
            };
            self.effort = self.bounds.effort;
            self.scratch.surveyed = false;
            for measure in Measure::ALL {
                // A trial that looked elsewhere for somebody leaves its survey for the next measure.
                self.scratch.survey_is_kept = measure != Measure::Last;
                let processors = if measure == Measure::Earliest {
                    self.earliest_for(&demand, view, due)
                } else {
                    if !self.scratch.surveyed {
                        self.survey(view, due);
                    }
                    self.best(measure, &demand)
                };
                let Some(processors) = processors.filter(|found| !tried.contains(found)) else {
                    continue;
                };
                self.begin();
                self.unlay(slot);
                let found = self.try_on(slot, &processors, view);
                if found {
                    self.effort = usize::MAX;
                    self.scratch.survey_is_kept = false;
                    self.take_over();
                    return Some(slot);
                }
                self.put_back();
                tried.push(processors);
            }
        }
        self.effort = usize::MAX;
        self.scratch.survey_is_kept = false;
        self.forget(slot);
        self.take_over();
        None
    }

    /// What is planned for a job, in seconds on a reference node: its estimate and the margin, but no more than
    /// there is time for.
    pub fn planned_work(&self, demand: &Demand, due: f64) -> f64 {
        let estimated = demand.estimate * (1.0 + self.rules.margin);
        estimated.min((due - self.now) * self.machine.fastest())
    }

    fn try_on(&mut self, slot: u32, processors: &[u32], view: Priority) -> bool {
        let limit = self.job(slot).due + ROUNDING;
        if !self.lay(slot, processors, limit, view) {
            return false;
        }
        let mut dirty = Dirty::new();
        self.place_within(slot, &mut dirty, Strict::All) && self.settle(dirty, Strict::All)
    }

    /// When a job would have ended in what all others leave, whatever its deadline; infinity if that was not found.
    pub fn end_behind_all(&mut self, demand: Demand, number: u64) -> f64 {
        let at = f64::INFINITY;
        let priority = Priority { at, number };
        let work = demand.estimate * (1.0 + self.rules.margin);
        let slot = self.add(Planned::new(demand, priority, f64::INFINITY, work));
        self.find_candidates(&demand);
        self.survey(priority, f64::INFINITY);
        self.effort = self.bounds.effort;
        let ends = [Measure::Earliest, Measure::Last].map(|measure| {
            let processors = self.best(measure, &demand)?;
            self.lay(slot, &processors, f64::INFINITY, priority)
                .then(|| self.job(slot).end())
        });
        self.effort = usize::MAX;
        // It was laid and never inserted.
        self.job_mut(slot).runs.clear();
        self.forget(slot);
        ends.into_iter().flatten().fold(f64::INFINITY, f64::min)
    }
}
