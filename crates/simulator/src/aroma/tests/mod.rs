//! Small cases, worked out by hand, and what holds for all.

mod classes;
mod displacing;
mod properties;
mod replanning;

use super::*;
use crate::{Fate, Outcome};
use libra_core::decision::job::Terms;
use libra_core::decision::node::NodeSpec;

const INF: f64 = f64::INFINITY;
const AT_ONCE: Class = Class::HighPriority { within: 5.0 };

/// What is told of a run, in order.
#[derive(Debug, Default)]
struct Told {
    /// Index, start, finish and hosts.
    ended: Vec<(usize, f64, f64, Vec<u32>)>,
    refused: Vec<(usize, f64, &'static str)>,
}

impl Observer for Told {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        match outcome.fate {
            Fate::Refused { at, reason } => self.refused.push((outcome.index, at, reason)),
            Fate::Ended {
                start,
                finish,
                nodes,
                ..
            } => self
                .ended
                .push((outcome.index, start, finish, nodes.to_vec())),
        }
    }
}

impl Told {
    /// Start and finish of a job.
    fn times(&self, index: usize) -> (f64, f64) {
        let ended = self.ended.iter().find(|ended| ended.0 == index);
        ended.map_or((f64::NAN, f64::NAN), |ended| {
            let round = |time: f64| (time * 1e4).round() / 1e4;
            (round(ended.1), round(ended.2))
        })
    }

    fn hosts(&self, index: usize) -> &[u32] {
        let ended = self.ended.iter().find(|ended| ended.0 == index);
        ended.map_or(&[], |ended| &ended.3)
    }
}

#[derive(Debug, Default)]
struct Displaced {
    /// Index, when that was, start.
    moved: Vec<(usize, f64, f64)>,
    stopped: Vec<(usize, f64, f64)>,
    /// Index, start as first planned.
    planned: Vec<(usize, Option<f64>)>,
}

impl MappingObserver for Displaced {
    fn searched(&mut self, index: usize, _class: Class, start: Option<f64>) {
        self.planned.push((index, start));
    }
    fn moved(&mut self, index: usize, at: f64, start: f64) {
        self.moved.push((index, at, start));
    }
    fn stopped(&mut self, index: usize, at: f64, goes_on: f64) {
        self.stopped.push((index, at, goes_on));
    }
}

/// A job that comes at `submit` and takes `work` seconds on each of its processors.
fn job(submit: f64, work: f64, processors: u32) -> Job {
    Job {
        number: 0,
        submit,
        run_time: work,
        terms: Terms::hard(work, INF, INF),
        processors,
        memory: 0,
        user: 0,
        queue: -1,
        logged_wait: -1.0,
        coupled: false,
    }
}

/// With a deadline, in seconds after its submission.
fn due(submit: f64, work: f64, processors: u32, deadline: f64) -> Job {
    let mut job = job(submit, work, processors);
    job.terms.deadline = deadline;
    job
}

fn run_on(machine: &Machine, jobs: &[(Class, Job)]) -> (Told, Displaced) {
    run_with(machine, jobs, 1)
}

fn run_with(machine: &Machine, jobs: &[(Class, Job)], most_displaced: usize) -> (Told, Displaced) {
    let (classes, jobs): (Vec<Class>, Vec<Job>) = jobs.iter().copied().unzip();
    let mut aroma = Aroma::new(|index, _| classes[index]);
    aroma.most_displaced = most_displaced;
    let (mut told, mut displaced) = (Told::default(), Displaced::default());
    aroma.run_observed(&jobs, machine, &mut told, &mut displaced);
    assert_eq!(told.ended.len() + told.refused.len(), jobs.len());
    (told, displaced)
}

fn run(hosts: usize, jobs: &[(Class, Job)]) -> (Told, Displaced) {
    run_on(&Machine::uniform(hosts, 1), jobs)
}

use Class::{BestEffort, Deadline, Dedicated};
