//! What is mapped: every accepted job that has not ended, where and when.
//!
//! Invariants: a job's tasks stand on the hosts that its mapping names and nowhere else; after
//! every call all constraints hold by what is planned with, but those that an overrun broke.

use super::host::{Host, Task};
use super::round_robin::Process;
use super::search::{Demand, Fixed, Mapping, Search};
use super::{Class, MappingObserver};
use crate::Machine;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A date that can be sorted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Date(pub(super) f64);

impl Eq for Date {}
impl Ord for Date {
    fn cmp(&self, other: &Date) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl PartialOrd for Date {
    fn partial_cmp(&self, other: &Date) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A job that was accepted and has not ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mapped {
    pub(super) class: Class,
    /// By when it must have ended; infinite where nothing was promised.
    pub(super) due: f64,
    /// Latest start; infinite where nothing was promised.
    pub(super) latest: f64,
    /// Its tasks.
    pub(super) slots: u32,
    /// Processor time of each that is planned with, on a reference node, in seconds.
    pub(super) work: f64,
    /// What each will truly take there.
    pub(super) run_time: f64,
    /// Memory of each, in bytes.
    pub(super) memory: u64,
    /// Whether it runs now.
    pub(super) running: bool,
    /// When it will start or go on; or when it last did.
    pub(super) start: f64,
    /// When it first ran.
    pub(super) first_start: Option<f64>,
    /// Its hosts, ascending.
    pub(super) hosts: Vec<u32>,
    /// Of these, hosts on which it has not ended.
    pub(super) open: usize,
}

impl Mapped {
    pub(super) fn rank(&self) -> u8 {
        self.class.rank()
    }

    fn demand(&self, tasks: &[(usize, Task)]) -> Demand {
        // What has run goes on where it was.
        let fixed = match self.first_start {
            None => Vec::new(),
            Some(_) => tasks
                .iter()
                .map(|(host, task)| Fixed {
                    host: *host,
                    slots: task.process.slots,
                    left: task.process.left,
                })
                .collect(),
        };
        Demand {
            slots: self.slots,
            work: self.work,
            dedicated: self.class == Class::Dedicated,
            due: self.due,
            latest: self.latest,
            memory: self.memory,
            fixed,
        }
    }
}

/// A job that was taken out of the plan, as it was.
#[derive(Debug, Clone)]
pub(super) struct Removed {
    pub(super) index: usize,
    pub(super) job: Mapped,
    /// Hosts and tasks, as far as they have not ended.
    pub(super) tasks: Vec<(usize, Task)>,
}

/// What is mapped.
pub(super) struct Plan {
    pub(super) hosts: Vec<Host>,
    /// By index in the workload, so in order of submission.
    pub(super) jobs: BTreeMap<usize, Mapped>,
    /// The starts that are still to come.
    pub(super) starts: BTreeSet<(Date, usize)>,
    pub(super) search: Search,
    memory_weight: f64,
    pub(super) most_displaced: usize,
    pub(super) now: f64,
    /// Where and when something went away that had been planned.
    pub(super) freed: Vec<(usize, f64)>,
}

impl Plan {
    pub(super) fn new(machine: &Machine, memory_weight: f64, most_displaced: usize) -> Plan {
        Plan {
            hosts: machine.nodes.iter().map(Host::new).collect(),
            jobs: BTreeMap::new(),
            starts: BTreeSet::new(),
            search: Search::default(),
            memory_weight,
            most_displaced,
            now: 0.0,
            freed: Vec::new(),
        }
    }

    /// Something that was to run on this host from now on does so no longer.
    pub(super) fn free(&mut self, host: usize) {
        self.freed.push((host, self.now));
    }

    /// The first mapping that keeps every constraint and starts before `before`.
    pub(super) fn find(&mut self, demand: &Demand, before: f64) -> Option<Mapping> {
        let (now, weight) = (self.now, self.memory_weight);
        self.search.first(&self.hosts, now, demand, before, weight)
    }

    /// Maps a new job; None if no mapping keeps every constraint. `job` comes without a start
    /// and hosts.
    pub(super) fn map(
        &mut self,
        index: usize,
        job: Mapped,
        observer: &mut dyn MappingObserver,
    ) -> Option<f64> {
        let new = Removed {
            index,
            job,
            tasks: Vec::new(),
        };
        let demand = new.job.demand(&[]);
        let mapping = self.find(&demand, f64::INFINITY);
        if let Some(mapping) = mapping {
            self.place(&new, &mapping);
            return Some(mapping.start);
        }
        self.displace(&new, &demand, false, observer)
            .or_else(|| self.displace(&new, &demand, true, observer))
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, index: usize) -> Option<Removed> {
        let job = self.jobs.remove(&index)?;
        self.starts.remove(&(Date(job.start), index));
        let mut tasks = Vec::with_capacity(job.open);
        for &host in &job.hosts {
            let host = host as usize;
            self.hosts[host].advance(self.now);
            if let Some(task) = self.hosts[host].remove(index) {
                self.hosts[host].refresh(&mut self.search.scratch);
                tasks.push((host, task));
            }
        }
        Some(Removed { index, job, tasks })
    }

    /// Puts a job back as it was.
    pub(super) fn put_back(&mut self, removed: &Removed) {
        for (host, task) in &removed.tasks {
            self.hosts[*host].advance(self.now);
            self.hosts[*host].add(*task);
            self.hosts[*host].refresh(&mut self.search.scratch);
        }
        if !removed.job.running {
            self.starts.insert((Date(removed.job.start), removed.index));
        }
        self.jobs.insert(removed.index, removed.job.clone());
    }

    /// Returns true if it could be put back as it was, with every constraint kept.
    pub(super) fn still_fits(&mut self, removed: &Removed) -> bool {
        let now = self.now;
        let due = removed.job.due;
        let (hosts, scratch) = (&self.hosts, &mut self.search.scratch);
        removed.tasks.iter().all(|(host, task)| {
            let process = Process {
                start: task.process.start.max(now),
                running: false,
                ..task.process
            };
            hosts[*host].with(&process, due, scratch).is_ok()
        })
    }

    /// Puts a new job, or one that was taken out, to where `mapping` says.
    pub(super) fn place(&mut self, removed: &Removed, mapping: &Mapping) {
        let mut job = removed.job.clone();
        let date = job.start.max(self.now);
        self.freed
            .extend(removed.tasks.iter().map(|(host, _)| (*host, date)));
        job.start = mapping.start;
        job.running = false;
        if job.first_start.is_none() {
            job.hosts = mapping.places.iter().map(|place| place.0 as u32).collect();
            job.open = job.hosts.len();
        }
        for &(host, slots) in &mapping.places {
            let rating = self.hosts[host].rating;
            let before = removed.tasks.iter().find(|(on, _)| *on == host);
            let task = match (job.first_start, before) {
                (Some(_), Some((_, before))) => Task {
                    process: Process {
                        start: mapping.start,
                        running: false,
                        ..before.process
                    },
                    ..*before
                },
                _ => Task {
                    job: removed.index,
                    process: Process {
                        start: mapping.start,
                        left: job.work / rating,
                        slots,
                        dedicated: job.class == Class::Dedicated,
                        running: false,
                    },
                    truly_left: job.run_time / rating,
                    used: 0.0,
                    due: job.due,
                    finish: f64::INFINITY,
                    memory: job.memory.saturating_mul(u64::from(slots)),
                },
            };
            self.hosts[host].advance(self.now);
            self.hosts[host].add(task);
            self.hosts[host].refresh(&mut self.search.scratch);
        }
        self.starts.insert((Date(job.start), removed.index));
        self.jobs.insert(removed.index, job);
    }

    /// Starts a planned job, or lets a stopped one go on.
    pub(super) fn begin(&mut self, index: usize) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&index) else {
            return;
        };
        self.starts.remove(&(Date(job.start), index));
        job.running = true;
        job.start = now;
        job.first_start.get_or_insert(now);
        for &host in &job.hosts {
            let host = &mut self.hosts[host as usize];
            host.begin(index, now);
            host.refresh(&mut self.search.scratch);
        }
    }
}

impl Removed {
    pub(super) fn demand(&self) -> Demand {
        self.job.demand(&self.tasks)
    }

    /// As [`Removed::demand`], but a promise that is broken already need only not be broken further.
    pub(super) fn demand_no_worse(&self) -> Demand {
        let ends = self.tasks.iter().map(|(_, task)| task.finish);
        let mut demand = self.demand();
        demand.due = ends.fold(demand.due, f64::max);
        demand.latest = demand.latest.max(self.job.start);
        demand
    }
}
