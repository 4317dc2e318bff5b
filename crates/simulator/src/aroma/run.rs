//! The course of events: jobs come, start and end, and the plan is taken anew where what happens
//! is not what was planned.
//!
//! A job that ends before its planned time makes room: planned jobs move forward into it. One that
//! uses up its planned time and goes on is taken to need a quarter more than it has used, again and
//! again; planned jobs that it is in the way of move back, those of the lowest classes first.
//!
//! Invariants: time never goes back; at one date tasks end first, then jobs start, then jobs come.

use super::host::Happened;
use super::plan::{Mapped, Plan};
use super::round_robin::slack;
use super::{Aroma, Class, MappingObserver};
use crate::{Fate, Machine, Observer, Outcome};
use libra_core::decision::job::{LONGEST, SHORTEST};
use libra_workload::Job;

/// A simulation on its way.
pub(super) struct Simulation<'a> {
    aroma: &'a Aroma<'a>,
    jobs: &'a [Job],
    /// Jobs up to this one have come.
    next: usize,
    pub(super) plan: Plan,
    happened: Vec<Happened>,
    /// Dedicated tasks that the machine can run at a time.
    dedicated_slots: u64,
    /// Rating of the fastest host; 0 where there is none.
    fastest: f64,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(aroma: &'a Aroma<'a>, jobs: &'a [Job], machine: &Machine) -> Simulation<'a> {
        let plan = Plan::new(machine, aroma.memory_weight, aroma.most_displaced);
        let used = || plan.hosts.iter().filter(|host| host.processors > 0.0);
        Simulation {
            aroma,
            jobs,
            next: 0,
            happened: Vec::new(),
            dedicated_slots: used().map(|host| host.dedicated_slots()).sum(),
            fastest: used().map(|host| host.rating).fold(0.0, f64::max),
            plan,
        }
    }

    /// Goes on to the next date at which something happens; false where nothing ever will.
    pub(super) fn step(
        &mut self,
        observer: &mut dyn Observer,
        mappings: &mut dyn MappingObserver,
    ) -> bool {
        let host_events = self.plan.hosts.iter().map(|host| host.next);
        let next_end = host_events.fold(f64::INFINITY, f64::min);
        let next_start = self.plan.starts.first().map_or(f64::INFINITY, |s| s.0.0);
        let next_job = self.jobs.get(self.next).map(|job| job.submit);
        let date = next_end
            .min(next_start)
            .min(next_job.unwrap_or(f64::INFINITY));
        if date == f64::INFINITY && next_job.is_none() {
            return false;
        }
        if date.is_finite() {
            self.plan.now = self.plan.now.max(date);
        }
        let now = self.plan.now;
        if next_end <= now + slack(now) {
            self.settle(observer);
        }
        while let Some(&(start, index)) = self.plan.starts.first() {
            if start.0 > now + slack(now) {
                break;
            }
            self.plan.begin(index);
        }
        // A submit time that is no number counts as come.
        if next_job.is_some_and(|submit| submit <= now || !submit.is_finite()) {
            self.submit(observer, mappings);
        }
        true
    }

    /// Tasks end, or turn out to take longer than was planned.
    fn settle(&mut self, observer: &mut dyn Observer) {
        let now = self.plan.now;
        let (mut early, mut overran) = (Vec::new(), Vec::new());
        for index in 0..self.plan.hosts.len() {
            let host = &mut self.plan.hosts[index];
            if host.next > now + slack(now) {
                continue;
            }
            self.happened.clear();
            host.settle(now, &mut self.happened);
            host.refresh(&mut self.plan.search.scratch);
            for happened in &self.happened {
                let job = match *happened {
                    Happened::Overran => {
                        overran.push(index);
                        continue;
                    }
                    Happened::EndedEarly(job) => {
                        early.push(index);
                        job
                    }
                    Happened::Ended(job) => job,
                };
                let Some(mapped) = self.plan.jobs.get_mut(&job) else {
                    continue;
                };
                mapped.open -= 1;
                if mapped.open == 0 {
                    observer.outcome(&Outcome {
                        index: job,
                        job: &self.jobs[job],
                        fate: Fate::Ended {
                            start: mapped.first_start.unwrap_or(mapped.start),
                            finish: now,
                            price: 0.0,
                            nodes: &mapped.hosts,
                        },
                    });
                    self.plan.jobs.remove(&job);
                }
            }
        }
        if !overran.is_empty() {
            self.plan.repair(&overran);
        }
        for host in early {
            self.plan.free(host);
        }
        self.plan.move_forward();
    }

    /// The next job comes.
    fn submit(&mut self, observer: &mut dyn Observer, mappings: &mut dyn MappingObserver) {
        let index = self.next;
        self.next += 1;
        let job = &self.jobs[index];
        let class = (self.aroma.class_of)(index, job);
        mappings.searching(index, class);
        let answer = match self.hopeless(job, class) {
            Some(reason) => Err(reason),
            None => {
                let mapped = self.mapped(job, class);
                let start = self.plan.map(index, mapped, mappings);
                // Jobs that had to go for it have left room elsewhere.
                self.plan.move_forward();
                start.ok_or("share")
            }
        };
        mappings.searched(index, class, answer.ok());
        if let Err(reason) = answer {
            let fate = Fate::Refused {
                at: self.plan.now,
                reason,
            };
            observer.outcome(&Outcome { index, job, fate });
        }
    }

    /// Why the job can never be mapped, whatever else is.
    fn hopeless(&self, job: &Job, class: Class) -> Option<&'static str> {
        let times = SHORTEST..=LONGEST;
        let sound = times.contains(&job.terms.estimate)
            && job.run_time > 0.0
            && job.run_time <= LONGEST
            && job.submit.is_finite()
            && job.processors > 0;
        if !sound {
            return Some("invalid");
        }
        if self.fastest <= 0.0 {
            return Some("no-node");
        }
        match class {
            Class::Deadline if job.terms.deadline.is_nan() => Some("invalid"),
            Class::Deadline => {
                let too_short = job.terms.estimate / self.fastest > job.terms.deadline;
                too_short.then_some("deadline")
            }
            Class::HighPriority { within } => {
                (within.is_nan() || within < 0.0).then_some("invalid")
            }
            Class::Dedicated => {
                (u64::from(job.processors) > self.dedicated_slots).then_some("chunks")
            }
            Class::BestEffort => None,
        }
    }

    fn mapped(&self, job: &Job, class: Class) -> Mapped {
        Mapped {
            class,
            due: match class {
                Class::Deadline => job.due(),
                _ => f64::INFINITY,
            },
            latest: match class {
                Class::HighPriority { within } => job.submit + within,
                _ => f64::INFINITY,
            },
            slots: job.processors,
            work: job.terms.estimate,
            run_time: job.run_time,
            memory: job.memory,
            running: false,
            start: self.plan.now,
            first_start: None,
            hosts: Vec::new(),
            open: 0,
        }
    }
}
