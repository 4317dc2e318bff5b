//! One host: the tasks that are mapped to it, what they have done, and what becomes of them.
//!
//! Invariants: tasks stand in this order: those that run, then the planned ones by start. Between
//! two changes the projected ends stay as they are; every change is followed by [`Host::refresh`].
//! What is planned with (`left`) and what is true (`truly_left`) shrink by the same amounts, so
//! that they stay equal where they were.

use super::round_robin::{Process, Projection, Rates, slack};
use libra_core::decision::node::NodeSpec;
use std::cmp::Ordering;
use std::ops::Range;

/// The tasks of one job on one host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Task {
    /// Index of the job in the workload.
    pub(super) job: usize,
    /// Start, planned processor time left, slots.
    pub(super) process: Process,
    /// Processor time that each slot will truly still take here, in seconds.
    pub(super) truly_left: f64,
    /// Processor time that each slot has had here, in seconds.
    pub(super) used: f64,
    /// By when they must have ended; infinite where nothing was promised.
    pub(super) due: f64,
    /// When they will end by what is planned with.
    pub(super) finish: f64,
    /// Memory of all the slots, in bytes.
    pub(super) memory: u64,
}

/// Why tasks cannot be put on a host at a date.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Obstacle {
    /// Not at this date; perhaps at a later one.
    Date,
    /// Not before this date.
    Until(f64),
    /// Not here, at this date or any later one.
    Never,
}

/// What has happened to one task when a host was settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Happened {
    /// It ended, when the plan said so.
    Ended(usize),
    /// It ended before its planned time was used up.
    EndedEarly(usize),
    /// It has used up its planned time and goes on.
    Overran,
}

/// Room for what-if questions.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    processes: Vec<Process>,
    projection: Projection,
}

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    /// Its processors, > 0 where it is used at all.
    pub(super) processors: f64,
    /// Its speed against a reference node.
    pub(super) rating: f64,
    /// Its memory in bytes, where it is counted.
    memory: Option<u64>,
    /// Memory of all tasks that are mapped to it, in bytes.
    memory_used: u64,
    /// Up to when its tasks were run.
    at: f64,
    pub(super) tasks: Vec<Task>,
    /// When the last of its tasks will end; 0 where it has none.
    pub(super) release: f64,
    /// When the next of its running tasks ends or uses up its planned time.
    pub(super) next: f64,
}

impl Host {
    pub(super) fn new(spec: &NodeSpec) -> Host {
        let sound = spec.check().is_ok() && spec.processors > 1e-9;
        Host {
            processors: if sound { spec.processors } else { 0.0 },
            rating: if sound { spec.rating } else { 1.0 },
            memory: (spec.memory != NodeSpec::MEMORY_UNLIMITED).then_some(spec.memory),
            memory_used: 0,
            at: 0.0,
            tasks: Vec::new(),
            release: 0.0,
            next: f64::INFINITY,
        }
    }

    /// Most dedicated tasks that it can run at a time.
    pub(super) fn dedicated_slots(&self) -> u64 {
        (self.processors + 1e-9) as u64
    }

    /// One processor: what is dedicated has the host to itself.
    pub(super) fn single(&self) -> bool {
        self.processors <= 1.0
    }

    /// The paper's memory criterion, Mu / Mt, with so many bytes more.
    pub(super) fn memory_ratio(&self, more: u64) -> f64 {
        self.memory.map_or(0.0, |memory| {
            self.memory_used.saturating_add(more) as f64 / memory.max(1) as f64
        })
    }

    fn rates(&self) -> Rates {
        let (mut dedicated, mut shared) = (0, 0);
        for task in self.running() {
            match task.process.dedicated {
                true => dedicated += u64::from(task.process.slots),
                false => shared += u64::from(task.process.slots),
            }
        }
        Rates::of(self.processors, dedicated, shared)
    }

    /// The tasks that run.
    pub(super) fn running(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().take_while(|task| task.process.running)
    }

    /// The tasks of one job.
    pub(super) fn task(&self, job: usize) -> Option<&Task> {
        self.tasks.iter().find(|task| task.job == job)
    }

    /// Runs the running tasks up to `now`. Nothing may start or end before.
    pub(super) fn advance(&mut self, now: f64) {
        let elapsed = now - self.at;
        if elapsed > 0.0 {
            let rates = self.rates();
            for task in &mut self.tasks {
                if !task.process.running {
                    break;
                }
                let done = elapsed * rates.rate(task.process.dedicated);
                task.process.left -= done;
                task.truly_left -= done;
                task.used += done;
            }
        }
        self.at = self.at.max(now);
    }

    /// Takes out what has ended by `now` and gives those that overran their planned time more of
    /// it. Says what happened, task by task.
    pub(super) fn settle(&mut self, now: f64, happened: &mut Vec<Happened>) {
        self.advance(now);
        let rates = self.rates();
        let memory_used = &mut self.memory_used;
        self.tasks.retain_mut(|task| {
            if !task.process.running {
                return true;
            }
            let nothing = slack(now) * rates.rate(task.process.dedicated);
            let planned_end = task.process.left <= nothing;
            if task.truly_left <= nothing {
                *memory_used = memory_used.saturating_sub(task.memory);
                happened.push(match planned_end {
                    true => Happened::Ended(task.job),
                    false => Happened::EndedEarly(task.job),
                });
                return false;
            }
            if planned_end {
                // The longer it has run, the longer it may go on; and each task is asked for only
                // so many times as its run time has powers of 5/4.
                task.process.left = (task.used / 4.0).max(1.0);
                happened.push(Happened::Overran);
            }
            true
        });
    }

    /// Takes everything anew that follows from the tasks.
    pub(super) fn refresh(&mut self, scratch: &mut Scratch) {
        scratch.processes.clear();
        scratch
            .processes
            .extend(self.tasks.iter().map(|task| task.process));
        let projection = &mut scratch.projection;
        projection.run(self.processors, self.at, &scratch.processes, |_| {
            f64::INFINITY
        });
        self.release = 0.0;
        for (task, finish) in self.tasks.iter_mut().zip(&projection.finish) {
            task.finish = *finish;
            self.release = self.release.max(*finish);
        }
        let rates = self.rates();
        self.next = self
            .running()
            .map(|task| {
                let left = task.process.left.min(task.truly_left).max(0.0);
                self.at + left / rates.rate(task.process.dedicated)
            })
            .fold(f64::INFINITY, f64::min);
    }

    /// Does something that is planned here no longer hold: is a dedicated task not alone, or one
    /// with a deadline late? Asked after [`Host::refresh`] for a host on which a task overran.
    pub(super) fn broken(&self, scratch: &mut Scratch) -> bool {
        scratch.processes.clear();
        scratch
            .processes
            .extend(self.tasks.iter().map(|task| task.process));
        let projection = &mut scratch.projection;
        projection.run(self.processors, self.at, &scratch.processes, |_| {
            f64::INFINITY
        });
        projection.conflict
            || self
                .tasks
                .iter()
                .any(|task| task.finish > task.due + slack(task.due))
    }

    /// Adds tasks in their place.
    pub(super) fn add(&mut self, task: Task) {
        let place = self.tasks.partition_point(|other| {
            (!other.process.running, other.process.start)
                <= (!task.process.running, task.process.start)
        });
        self.tasks.insert(place, task);
        self.memory_used = self.memory_used.saturating_add(task.memory);
    }

    /// Takes the tasks of a job out.
    pub(super) fn remove(&mut self, job: usize) -> Option<Task> {
        let place = self.tasks.iter().position(|task| task.job == job)?;
        let task = self.tasks.remove(place);
        self.memory_used = self.memory_used.saturating_sub(task.memory);
        Some(task)
    }

    /// Starts the planned tasks of a job.
    pub(super) fn begin(&mut self, job: usize, now: f64) {
        self.advance(now);
        if let Some(mut task) = self.remove(job) {
            task.process.running = true;
            task.process.start = now;
            self.add(task);
        }
    }

    /// With `new` mapped here as well, would every constraint hold, of `new` (to end by `due`) and
    /// of all that is mapped? If so, says when the last task of the host would then end.
    ///
    /// A promise that is already broken may not be broken further.
    pub(super) fn with(
        &self,
        new: &Process,
        due: f64,
        scratch: &mut Scratch,
    ) -> Result<f64, Obstacle> {
        if self.processors <= 0.0 {
            return Err(Obstacle::Never);
        }
        if new.dedicated && u64::from(new.slots) > self.dedicated_slots() {
            return Err(Obstacle::Never);
        }
        // How long it takes where it meets nobody.
        let alone = new.left * (f64::from(new.slots) / self.processors).max(1.0);
        let end = new.start + alone;
        if end > due {
            return Err(Obstacle::Never);
        }
        let near = slack(end);
        let meets =
            |task: &&Task| task.process.start < end - near && task.finish > new.start + near;
        let mut met = self.tasks.iter().filter(meets).peekable();
        if met.peek().is_none() {
            return Ok(self.release.max(end));
        }
        if !self.single() {
            return self.with_others(new, due, 0..self.tasks.len(), scratch);
        }
        // On one processor, what runs into a dedicated task would do so later as well.
        let until = met
            .filter(|task| new.dedicated || task.process.dedicated)
            .map(|task| task.finish)
            .fold(f64::NEG_INFINITY, f64::max);
        if until > f64::NEG_INFINITY {
            return Err(Obstacle::Until(until));
        }
        self.with_shared(new, due, scratch)
    }

    /// As [`Host::with`], for tasks that share a host of one processor.
    ///
    /// Such a host does as much work in whatever order. So until the next dedicated task starts
    /// all of `new` must find room in the time in which the host would have nothing to do; and
    /// tasks after that, or before the host last has nothing to do, are not touched by it.
    fn with_shared(&self, new: &Process, due: f64, scratch: &mut Scratch) -> Result<f64, Obstacle> {
        let needed = new.left * (f64::from(new.slots) / self.processors).max(1.0);
        let (mut idle, mut busy_until) = (0.0, self.at);
        let mut touched = 0..self.tasks.len();
        let mut promises = due < f64::INFINITY;
        let mut next_dedicated = None;
        for (index, task) in self.tasks.iter().enumerate() {
            let start = if task.process.running {
                self.at
            } else {
                task.process.start
            };
            if start >= busy_until {
                idle += (start - busy_until.max(new.start)).max(0.0);
                if busy_until <= new.start {
                    touched.start = index;
                }
            }
            if task.process.dedicated && task.finish > new.start {
                touched.end = index;
                next_dedicated = Some(task);
                break;
            }
            busy_until = busy_until.max(task.finish);
            promises |= task.due < f64::INFINITY && task.finish > new.start;
        }
        if let Some(task) = next_dedicated {
            if idle < needed - slack(task.process.start) {
                return Err(Obstacle::Until(task.finish));
            }
        }
        if promises {
            touched.start = touched.start.min(touched.end);
            let release = self.with_others(new, due, touched, scratch)?;
            return Ok(self.release.max(release));
        }
        Ok(match next_dedicated {
            Some(_) => self.release,
            None => self.release.max(new.start) + (needed - idle).max(0.0),
        })
    }

    /// As [`Host::with`], by running all that is `touched` forward.
    fn with_others(
        &self,
        new: &Process,
        due: f64,
        touched: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<f64, Obstacle> {
        let tasks = &self.tasks[touched];
        let place = tasks
            .partition_point(|other| other.process.running || other.process.start <= new.start);
        let processes = &mut scratch.processes;
        processes.clear();
        processes.extend(tasks[..place].iter().map(|task| task.process));
        processes.push(*new);
        processes.extend(tasks[place..].iter().map(|task| task.process));
        let projection = &mut scratch.projection;
        projection.run(self.processors, self.at, processes, |index| {
            let task = match index.cmp(&place) {
                Ordering::Less => &tasks[index],
                Ordering::Equal => return due,
                Ordering::Greater => &tasks[index - 1],
            };
            match task.due < f64::INFINITY {
                true => task.due.max(task.finish) + slack(task.due) / 4.0,
                false => f64::INFINITY,
            }
        });
        match projection.late {
            // A later start never ends it earlier.
            Some(late) if late == place => Err(Obstacle::Never),
            Some(_) => Err(Obstacle::Date),
            None if projection.conflict => Err(Obstacle::Date),
            None => Ok(projection.finish.iter().copied().fold(0.0, f64::max)),
        }
    }
}
