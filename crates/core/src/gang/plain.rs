//! The rule as it reads, without anything that is kept to look at less: every job that is known and every run are looked at, and a trial that
//! cannot succeed is played to its end. [`Both`] asks the two side by side, and they have to say the same.

use super::plan::{Bounds, Dirty, Plan};
use super::rules::{Change, JobId, Promise, Rules};
use super::timeline::{Priority, Run};
use super::{Gang, Refused};
use crate::decision::job::Request;
use crate::decision::node::NodeSpec;

impl Plan {
    pub fn overtaken_plainly(&self) -> Vec<u32> {
        let known = self.known.values().copied();
        let overtaken = known.filter(|&slot| {
            let job = self.job(slot);
            let first = job.runs.first().expect("it is laid");
            first.end <= self.now || (!job.running && first.start < self.now)
        });
        overtaken.collect()
    }

    pub fn next_actions_plainly(&self) -> (Vec<u32>, Vec<u32>) {
        let of = |running: bool, due: bool| {
            let known = self.known.values().copied();
            let these = known.filter(|&slot| {
                let job = self.job(slot);
                job.running == running && (job.next_start() <= self.now) == due
            });
            these.collect()
        };
        (of(true, false), of(false, true))
    }

    pub fn next_moment_plainly(&self) -> f64 {
        let times = self.known.values().map(|&slot| {
            let run = self.job(slot).runs.first().expect("it is laid");
            if run.start <= self.now {
                run.end
            } else {
                run.start
            }
        });
        times.fold(f64::INFINITY, f64::min)
    }

    pub fn left_first_plainly(&self, wanted: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.lines.len() as u32).collect();
        let end = |processor: u32| self.lines[processor as usize].end();
        all.sort_by(|&a, &b| end(a).total_cmp(&end(b)));
        all.truncate(wanted);
        all.sort_unstable();
        all
    }

    pub fn place_plainly(&mut self, slot: u32, dirty: &mut Dirty) -> bool {
        self.place(slot, dirty);
        true
    }

    pub fn earliest_plainly(
        &mut self,
        demand: &super::rules::Demand,
        view: Priority,
        due: f64,
    ) -> Option<Vec<u32>> {
        // What it leaves for others has to be as it was.
        let surveyed = self.scratch.surveyed;
        self.survey(view, due);
        self.scratch.surveyed = surveyed;
        self.earliest(demand)
    }
}

/// The rule and the plain rule. Whatever is asked, both answer, and the same.
pub(super) struct Both {
    fast: Gang,
    plain: Gang,
}

impl Both {
    pub fn new(nodes: &[NodeSpec], rules: Rules, bounds: Bounds) -> Both {
        let gang = |plain| {
            let mut gang = Gang::new(nodes, rules).expect("values in range");
            gang.plan.bounds = bounds;
            gang.plan.plain = plain;
            gang
        };
        Both {
            fast: gang(false),
            plain: gang(true),
        }
    }

    fn ask<T: PartialEq>(&mut self, ask: impl Fn(&mut Gang) -> T) -> T {
        let (fast, plain) = (ask(&mut self.fast), ask(&mut self.plain));
        assert!(fast == plain, "the two answer differently");
        let state = |gang: &Gang| -> Vec<(f64, Vec<u32>, Vec<Run>, bool)> {
            let known = gang.plan.known.iter();
            let jobs = known.map(|(priority, &slot)| {
                let job = gang.plan.job(slot);
                let (processors, runs) = (job.processors.clone(), job.runs.clone());
                (priority.at, processors, runs, job.late)
            });
            jobs.collect()
        };
        assert_eq!(state(&self.fast), state(&self.plain));
        assert_eq!(self.fast.plan.entries, self.plain.plan.entries);
        fast
    }

    pub fn submit(&mut self, request: &Request, now: f64) -> Result<(JobId, Promise), Refused> {
        self.ask(|gang| gang.submit(request, now))
    }

    pub fn quote(&mut self, request: &Request, now: f64) -> Result<Promise, Refused> {
        self.ask(|gang| gang.quote(request, now))
    }

    pub fn ended(&mut self, job: JobId) {
        self.ask(|gang| gang.ended(job));
    }

    pub fn tidy(&mut self, now: f64) {
        self.ask(|gang| gang.tidy(now));
    }

    pub fn act(&mut self, now: f64) -> Vec<Change> {
        self.ask(|gang| gang.act(now))
    }

    pub fn next_change(&self) -> f64 {
        let (fast, plain) = (self.fast.next_change(), self.plain.next_change());
        assert_eq!(fast, plain);
        fast
    }
}

impl std::ops::Deref for Both {
    type Target = Gang;

    fn deref(&self) -> &Gang {
        &self.fast
    }
}
