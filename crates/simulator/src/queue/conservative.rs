//! Conservative backfilling with admission by deadline: what a site would run that promises, without
//! suspending anybody (conservative backfilling: Mu'alem and Feitelson 2001).
//!
//! - Each job gets a reservation when it is submitted: the earliest time from which its processors are
//!   expected to be free for as long as it is planned to run (see [`planned`]), beside all
//!   reservations made before. If it would end after its deadline then, it is refused (`deadline`).
//! - Whenever something ends, reservations are made anew in the order of their starts. While everybody keeps
//!   to its plan, none moves back.
//! - A running job that has used what was planned is taken to need a tenth of that again, and again;
//!   reservations move back as far as they must. Nobody who was accepted is dropped.
//!
//! Processors are counted, whichever they are: where memory keeps a job off the free ones, it waits beyond its
//! reservation.

use super::expected::Expected;
use super::site::Site;
use super::{Discipline, drive, planned};
use crate::{Machine, Observer, Scheduler};
use libra_workload::Job;

/// A running job that has used what was planned is taken to need this part of it again.
const OVERRUN: f64 = 0.1;

/// Conservative backfilling with admission by deadline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conservative {
    /// Part by which estimates are stretched, ≥ 0.
    pub estimate_margin: f64,
}

impl Scheduler for Conservative {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        let book = Book {
            rules: *self,
            arrived: Vec::new(),
            reserved: Vec::new(),
            running: Vec::new(),
            profile: Profile::default(),
        };
        drive(book, jobs, machine, observer);
    }
}

/// A job that was accepted and waits.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    index: usize,
    /// From when on.
    start: f64,
}

/// A running job.
#[derive(Debug, Clone, Copy)]
struct Running {
    run: u32,
    start: f64,
    /// Seconds that it is planned to run.
    planned: f64,
    processors: u32,
}

impl Running {
    /// When it is expected to end: after now.
    fn end(&self, now: f64) -> f64 {
        let mut planned = self.planned;
        while self.start + planned <= now {
            planned += (planned * OVERRUN).max(now * 1e-12).max(1e-6);
        }
        self.start + planned
    }
}

struct Book {
    rules: Conservative,
    /// Submitted, and neither accepted nor refused.
    arrived: Vec<usize>,
    /// In the order of their starts.
    reserved: Vec<Reserved>,
    running: Vec<Running>,
    profile: Profile,
}

impl Discipline for Book {
    fn submitted(&mut self, index: usize, _site: &Site<'_>) {
        self.arrived.push(index);
    }

    fn ended(&mut self, expected: Expected) {
        self.running.retain(|running| running.run != expected.run);
    }

    fn pass(&mut self, site: &mut Site<'_>) {
        let now = site.now();
        (self.profile).begin(now, site.free(), &mut self.running);
        for place in 0..self.reserved.len() {
            let (processors, length) = self.needs(self.reserved[place].index, site);
            self.reserved[place].start = self.profile.reserve(processors, length, f64::INFINITY);
        }
        for index in std::mem::take(&mut self.arrived) {
            let (processors, length) = self.needs(index, site);
            let job = site.job(index);
            let latest = job.due() - length;
            // Two roundings of one time are forgiven, as where ends are compared with deadlines.
            let latest = latest + (job.due() * 1e-12).max(1e-6);
            let start = self.profile.reserve(processors, length, latest);
            if start > latest {
                site.refuse(index, "deadline");
            } else {
                self.reserved.push(Reserved { index, start });
            }
        }
        // Stable: of equals the one that was promised first.
        self.reserved.sort_by(|a, b| a.start.total_cmp(&b.start));
        self.start_due(site);
    }
}

impl Book {
    /// Processors of a job, and for how long.
    fn needs(&self, index: usize, site: &Site<'_>) -> (u32, f64) {
        let job = site.job(index);
        let length = planned(&job.terms, self.rules.estimate_margin) / site.best_rating(job);
        (job.processors, length)
    }

    /// Starts those whose time has come.
    fn start_due(&mut self, site: &mut Site<'_>) {
        let (now, margin) = (site.now(), self.rules.estimate_margin);
        let running = &mut self.running;
        self.reserved.retain(|reserved| {
            if reserved.start > now {
                return true;
            }
            let Some(placement) = site.place(reserved.index) else {
                return true;
            };
            let job = site.job(reserved.index);
            let planned = planned(&job.terms, margin) / placement.rating;
            let started = site.start(reserved.index, placement);
            running.push(Running {
                run: started.run,
                start: now,
                planned,
                processors: job.processors,
            });
            false
        });
    }
}

/// How many processors are expected to be free, from each of these times to the next.
#[derive(Debug, Default)]
struct Profile(Vec<(f64, u32)>);

impl Profile {
    /// What is free now, and as the running jobs end.
    fn begin(&mut self, now: f64, free: u32, running: &mut [Running]) {
        running.sort_by(|a, b| a.end(now).total_cmp(&b.end(now)).then(a.run.cmp(&b.run)));
        let steps = &mut self.0;
        steps.clear();
        steps.push((now, free));
        for running in running {
            let free = steps.last().map_or(0, |step| step.1) + running.processors;
            let end = running.end(now);
            match steps.last_mut() {
                Some(last) if last.0 == end => last.1 = free,
                _ => steps.push((end, free)),
            }
        }
    }

    /// Takes so many processors for so long from the earliest time on at which they are free, and says
    /// when that is; nothing is taken where it is after `latest`. In the end everything is free.
    fn reserve(&mut self, processors: u32, length: f64, latest: f64) -> f64 {
        let steps = &mut self.0;
        let mut first = 0;
        let mut step = 0;
        while step < steps.len() {
            if steps[step].1 < processors {
                first = step + 1;
            } else if steps
                .get(step + 1)
                .is_none_or(|next| next.0 >= steps[first].0 + length)
            {
                break;
            }
            step += 1;
        }
        let Some(&(start, _)) = steps.get(first) else {
            return f64::INFINITY;
        };
        if start > latest {
            return start;
        }
        let end = start + length;
        // At least the first one, also where the length is nothing or no number.
        let until = first + steps[first..].partition_point(|step| step.0 < end).max(1);
        let before = steps[until - 1].1;
        if steps.get(until).is_none_or(|step| step.0 > end) {
            steps.insert(until, (end, before));
        }
        for step in &mut steps[first..until] {
            step.1 -= processors;
        }
        start
    }
}
