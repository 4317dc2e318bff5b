//! The plan: which job runs when and on which processors, and how it changes.
//!
//! Jobs are laid in the order of their priorities: each runs as early as its processors allow that
//! nobody before it uses. So a job that is added changes nothing for those before it, and of those
//! behind it only the ones that it gets in the way of, one after the other: those are taken out and
//! laid anew. A change is tried; where somebody ends late, all is put back as it was.
//!
//! Invariants: the runs on a processor do not overlap; where they are limited, no more jobs have begun
//! and not ended on a processor, nor more memory of a node is held, than there may be; a job that has
//! started stays on its processors.

use super::ends::Ends;
use super::machine::Machine;
use super::moments::{Mark, Upcoming};
use super::rules::{Demand, Rules, Suspend};
use super::timeline::{Early, Entry, Priority, Run, Survey, Timeline};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A planned end may be so many seconds past its deadline: sums of times are rounded.
pub(super) const ROUNDING: f64 = 5e-7;
/// To take a run out, and perhaps to put it back, costs as much as to look at so many.
const EFFORT_OF_MOVING: usize = 4;

/// A job as the plan knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    pub priority: Priority,
    pub due: f64,
    /// Seconds that are planned for it altogether, on a reference node.
    pub work: f64,
    /// Seconds of these that it has had by now.
    pub done: f64,
    pub demand: Demand,
    /// Rating of the slowest of its processors.
    pub rate: f64,
    /// Where it runs, or will as the plan stands; ascending.
    pub processors: Vec<u32>,
    /// When, ascending. What is past is counted in `done` and forgotten, at the latest when it is laid anew.
    pub runs: Vec<Run>,
    /// When it was to end before it was last taken out to be laid anew.
    pub former_end: f64,
    /// It has begun, and stays on its processors.
    pub started: bool,
    /// It runs at the moment, as was last told.
    pub running: bool,
    /// Its promise is broken or will be as the plan stands.
    pub late: bool,
    /// The last trial in which it was changed.
    touched: u64,
    /// The last search for those who are in somebody's way in which it was found.
    met: u64,
    /// Where it stands among those to whom something happens.
    pub mark: Mark,
}

impl Planned {
    pub fn new(demand: Demand, priority: Priority, due: f64, work: f64) -> Planned {
        Planned {
            priority,
            due,
            work,
            done: 0.0,
            demand,
            rate: 1.0,
            processors: Vec::new(),
            runs: Vec::new(),
            former_end: f64::INFINITY,
            started: false,
            running: false,
            late: false,
            touched: 0,
            met: 0,
            mark: Mark::default(),
        }
    }

    /// When it will have ended; never, while it is not laid.
    pub fn end(&self) -> f64 {
        self.runs.last().map_or(f64::INFINITY, |run| run.end)
    }

    /// What it costs to take it out.
    fn effort(&self) -> usize {
        EFFORT_OF_MOVING * self.processors.len() * self.runs.len()
    }

    /// When it will start, or go on.
    pub fn next_start(&self) -> f64 {
        self.runs.first().map_or(f64::INFINITY, |run| run.start)
    }
}

/// A job as it was before a trial.
#[derive(Debug)]
struct Before {
    slot: u32,
    priority: Priority,
    work: f64,
    rate: f64,
    late: bool,
    processors: Vec<u32>,
    runs: Vec<Run>,
}

/// Who may end late in a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Strict {
    /// Nobody whose promise is not broken yet.
    All,
    /// Only this one.
    But(u32),
    /// Whoever has to: time cannot be refused.
    Nobody,
}

/// Jobs to be laid, in order.
pub(super) type Dirty = BinaryHeap<Reverse<(Priority, u32)>>;

/// The plan.
#[derive(Debug)]
pub(super) struct Plan {
    pub rules: Rules,
    pub machine: Machine,
    pub now: f64,
    pub lines: Vec<Timeline>,
    /// The processors in the order in which they end.
    pub ends: Ends,
    /// Jobs by place; those that are known stand in `known`.
    pub jobs: Vec<Planned>,
    pub known: BTreeMap<Priority, u32>,
    vacant: Vec<u32>,
    /// To whom something happens next.
    pub upcoming: Upcoming,
    /// Who has begun and not ended on each processor; empty where nothing is limited.
    pub residents: Vec<Vec<u32>>,
    /// Runs on all processors.
    pub entries: usize,
    /// Runs and processors that may still be looked at in this trial.
    pub effort: usize,
    trial: u64,
    /// Counts searches for those who are in somebody's way.
    met: u64,
    before: Vec<Before>,
    /// Room for the search.
    pub scratch: Scratch,
    pub bounds: Bounds,
    /// Everything is looked at.
    #[cfg(test)]
    pub plain: bool,
}

/// How far is searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Runs and processors that are looked at for one of the orders of an admission besides the survey, at most about: so many can
    /// be pushed aside for one job, and so long may a decision take. Machines of some hundred processors do not come near it.
    pub effort: usize,
    /// Runs that are looked at in a survey, about.
    pub surveyed: usize,
    /// Runs and processors that are looked at when the plan is made anew, about.
    pub tidying: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            effort: 1 << 13,
            surveyed: 1 << 13,
            tidying: 500_000,
        }
    }
}

/// Room that is used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub busy: Vec<Run>,
    pub runs: Vec<Run>,
    pub others: Vec<u32>,
    pub surveys: Vec<Survey>,
    /// `surveys` is of these candidates.
    pub surveyed: bool,
    /// Somebody looks at the survey that a trial leaves.
    pub survey_is_kept: bool,
    pub early: Vec<Early>,
    pub candidates: Vec<u32>,
}

impl Plan {
    pub fn new(machine: Machine, rules: Rules) -> Plan {
        let processors = machine.processors();
        let limited = rules.jobs_per_processor.is_some() || machine.counts_memory();
        Plan {
            rules,
            now: 0.0,
            lines: vec![Timeline::default(); processors],
            ends: Ends::new(processors),
            jobs: Vec::new(),
            known: BTreeMap::new(),
            vacant: Vec::new(),
            upcoming: Upcoming::default(),
            residents: vec![Vec::new(); if limited { processors } else { 0 }],
            entries: 0,
            effort: usize::MAX,
            trial: 0,
            met: 0,
            before: Vec::new(),
            scratch: Scratch::default(),
            bounds: Bounds::default(),
            #[cfg(test)]
            plain: false,
            machine,
        }
    }

    /// Whether jobs are kept from processors by those that have begun there.
    pub fn limited(&self) -> bool {
        !self.residents.is_empty()
    }

    pub fn job(&self, slot: u32) -> &Planned {
        &self.jobs[slot as usize]
    }

    pub fn job_mut(&mut self, slot: u32) -> &mut Planned {
        &mut self.jobs[slot as usize]
    }

    /// Takes in a job, which is not laid yet.
    pub fn add(&mut self, job: Planned) -> u32 {
        let priority = job.priority;
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.jobs[slot as usize] = job;
                slot
            }
            None => {
                self.jobs.push(job);
                (self.jobs.len() - 1) as u32
            }
        };
        self.known.insert(priority, slot);
        slot
    }

    /// Lets go of a job.
    pub fn forget(&mut self, slot: u32) {
        self.take_out(slot);
        let job = &self.jobs[slot as usize];
        self.known.remove(&job.priority);
        if job.started && !self.residents.is_empty() {
            for &processor in &job.processors {
                self.residents[processor as usize].retain(|&other| other != slot);
            }
        }
        self.leave_out(slot);
        self.vacant.push(slot);
    }

    /// Begins a trial.
    pub fn begin(&mut self) {
        self.trial += 1;
        self.before.clear();
    }

    /// Puts everything back as it was when the trial began.
    pub fn put_back(&mut self) {
        let before = std::mem::take(&mut self.before);
        for old in &before {
            self.take_out(old.slot);
            self.jobs[old.slot as usize].runs.clear();
        }
        for old in before {
            let slot = old.slot;
            self.set_priority(slot, old.priority);
            let job = &mut self.jobs[slot as usize];
            job.work = old.work;
            job.rate = old.rate;
            job.late = old.late;
            job.processors = old.processors;
            job.runs = old.runs;
            self.insert(slot);
            self.note(slot);
        }
        self.trial += 1;
        self.before.clear();
    }

    /// To be called before a job is changed in a trial.
    fn touch(&mut self, slot: u32) {
        let job = &mut self.jobs[slot as usize];
        if job.touched == self.trial {
            return;
        }
        job.touched = self.trial;
        self.before.push(Before {
            slot,
            priority: job.priority,
            work: job.work,
            rate: job.rate,
            late: job.late,
            processors: job.processors.clone(),
            runs: job.runs.clone(),
        });
    }

    /// Counts what was looked at or moved in a trial.
    pub fn spend(&mut self, effort: usize) {
        if self.effort != usize::MAX {
            self.effort = self.effort.saturating_sub(effort);
        }
    }

    /// Takes the runs of a job out, to be put back if the trial fails.
    pub fn unlay(&mut self, slot: u32) {
        self.spend(self.job(slot).effort());
        self.take_out(slot);
        self.count(slot);
        self.touch(slot);
        self.note(slot);
        let job = &mut self.jobs[slot as usize];
        if !job.runs.is_empty() {
            job.former_end = job.end();
            job.runs.clear();
        }
    }

    /// Counts what a running job has had until now.
    pub fn count(&mut self, slot: u32) {
        let now = self.now;
        let job = &mut self.jobs[slot as usize];
        if !job.running || job.next_start() >= now {
            return;
        }
        let past = job.runs.iter().take_while(|run| run.end <= now).count();
        if past > 0 {
            // The lines hold what is yet to come, whatever was tried meanwhile.
            for &processor in &job.processors {
                self.lines[processor as usize].forget_until(now, &mut self.entries);
            }
        }
        let gone = job.runs.drain(..past);
        job.done += gone.map(|run| run.end - run.start).sum::<f64>() * job.rate;
        if let Some(run) = job.runs.first_mut().filter(|run| run.start < now) {
            job.done += (now - run.start) * job.rate;
            run.start = now;
        }
        self.note(slot);
    }

    fn take_out(&mut self, slot: u32) {
        let job = &self.jobs[slot as usize];
        for &processor in &job.processors {
            let line = &mut self.lines[processor as usize];
            line.remove(slot, &job.runs, &mut self.entries);
            self.ends.note(processor);
        }
    }

    /// Writes the runs of a job into the lines of its processors.
    fn insert(&mut self, slot: u32) {
        let job = &self.jobs[slot as usize];
        for &run in &job.runs {
            let entry = Entry {
                run,
                priority: job.priority,
                job: slot,
            };
            for &processor in &job.processors {
                let line = &mut self.lines[processor as usize];
                line.insert(entry, self.now, &mut self.entries);
                self.ends.note(processor);
            }
        }
    }

    /// Gives a job that is not laid another priority.
    pub fn set_priority(&mut self, slot: u32, priority: Priority) {
        let job = &mut self.jobs[slot as usize];
        if job.priority != priority {
            self.known.remove(&job.priority);
            job.priority = priority;
            self.known.insert(priority, slot);
        }
    }

    /// Says that a job has begun.
    pub fn start(&mut self, slot: u32) {
        let job = &mut self.jobs[slot as usize];
        job.started = true;
        if !self.residents.is_empty() {
            for &processor in &job.processors {
                self.residents[processor as usize].push(slot);
            }
        }
        if self.rules.suspend == Suspend::Never {
            // Nobody gets in its way any more.
            let priority = Priority {
                at: f64::NEG_INFINITY,
                number: job.priority.number,
            };
            self.take_out(slot);
            self.set_priority(slot, priority);
            self.insert(slot);
        }
    }

    /// Lays jobs anew that are not late in that order, each by the rule, and then those that they get in the way of. False
    /// where somebody who may not would end late; then the trial has failed.
    ///
    /// `search`: a job that has not started may go to other processors than those it was planned on.
    pub fn lay_anew(&mut self, slots: &[u32], strict: Strict, search: bool) -> bool {
        for &slot in slots {
            self.unlay(slot);
        }
        let mut displaced = Dirty::new();
        for &slot in slots {
            if self.job(slot).runs.is_empty() {
                if !self.lay_by_rule(slot, strict, search) {
                    return false;
                }
                self.place(slot, &mut displaced);
            }
        }
        self.settle(displaced, strict)
    }

    /// Lays jobs that were displaced: each so that it displaces nobody if that ends it in time, else by the
    /// rule, and then those that it displaces. False as above.
    pub fn settle(&mut self, mut displaced: Dirty, strict: Strict) -> bool {
        // Only where memory is short may jobs push each other to and fro.
        let mut rounds = 4 * self.known.len() + 64;
        while let Some(Reverse((_, slot))) = displaced.pop() {
            if !self.job(slot).runs.is_empty() {
                continue;
            }
            rounds = rounds.saturating_sub(1);
            if self.effort == 0 && strict != Strict::Nobody {
                return false;
            }
            if rounds == 0 && strict != Strict::Nobody {
                return false;
            }
            if rounds == 0 && !self.job(slot).started {
                let number = self.job(slot).priority.number;
                let at = f64::INFINITY;
                self.set_priority(slot, Priority { at, number });
            }
            let limit = self.limit(slot, strict);
            let processors = self.job(slot).processors.clone();
            if self.lay(slot, &processors, limit, Priority::LAST) {
                self.judge(slot);
            } else if !self.lay_by_rule(slot, strict, false) {
                return false;
            }
            if !self.place_within(slot, &mut displaced, strict) {
                return false;
            }
        }
        true
    }

    /// Inserts the runs that a job was given, and takes out those that it gets in the way of.
    pub fn place(&mut self, slot: u32, dirty: &mut Dirty) {
        let others = self.in_the_way(slot);
        for &other in &others {
            let priority = self.job(other).priority;
            self.unlay(other);
            dirty.push(Reverse((priority, other)));
        }
        self.scratch.others = others;
        self.insert(slot);
    }

    /// The same where those that are taken out are laid anew by [`Plan::settle`] alone. False where that is more than may be looked
    /// at: then the trial has failed, and nobody was taken out.
    pub fn place_within(&mut self, slot: u32, dirty: &mut Dirty, strict: Strict) -> bool {
        #[cfg(test)]
        if self.plain {
            return self.place_plainly(slot, dirty);
        }
        if self.effort == usize::MAX || strict == Strict::Nobody {
            self.place(slot, dirty);
            return true;
        }
        let others = self.in_the_way(slot);
        let moved = others.iter().map(|&other| self.job(other).effort());
        let fails = !others.is_empty() && moved.sum::<usize>() >= self.effort;
        for &other in &others {
            if fails {
                // What it has had is counted at the same moments whether trials fail sooner or later.
                self.count(other);
                continue;
            }
            let priority = self.job(other).priority;
            self.unlay(other);
            dirty.push(Reverse((priority, other)));
        }
        self.scratch.others = others;
        if fails {
            self.effort = 0;
            // It was never inserted.
            self.jobs[slot as usize].runs.clear();
            return false;
        }
        self.insert(slot);
        true
    }

    /// Who is laid where a job was given runs, and who has no room beside it; each once.
    fn in_the_way(&mut self, slot: u32) -> Vec<u32> {
        let mut others = std::mem::take(&mut self.scratch.others);
        others.clear();
        let job = &self.jobs[slot as usize];
        for &processor in &job.processors {
            let entries = self.lines[processor as usize].after(self.now);
            for run in &job.runs {
                let first = entries.partition_point(|entry| entry.run.end <= run.start);
                let met = entries[first..].iter();
                others.extend(
                    met.take_while(|entry| entry.run.start < run.end)
                        .map(|e| e.job),
                );
            }
        }
        if self.limited() {
            self.crowded_out(slot, &mut others);
        }
        self.met += 1;
        let met = self.met;
        others.retain(|&other| {
            let job = &mut self.jobs[other as usize];
            let first = job.met != met && !job.runs.is_empty();
            job.met = met;
            first
        });
        others
    }

    /// By when a job may end at the latest.
    fn limit(&self, slot: u32, strict: Strict) -> f64 {
        let job = self.job(slot);
        match strict {
            _ if job.late => f64::INFINITY,
            Strict::But(other) if other == slot => f64::INFINITY,
            _ => job.due + ROUNDING,
        }
    }

    /// Finds runs for a job behind those that come before it: where it is, where it was planned, or elsewhere.
    fn lay_by_rule(&mut self, slot: u32, strict: Strict, search: bool) -> bool {
        let limit = self.limit(slot, strict);
        let job = self.job(slot);
        let (started, priority, due, demand) = (job.started, job.priority, job.due, job.demand);
        let processors = job.processors.clone();
        let planned = (!processors.is_empty() && self.lay(slot, &processors, limit, priority))
            .then(|| (self.job(slot).end(), self.job(slot).runs.clone()));
        if !started && (search || planned.is_none()) {
            self.find_candidates(&demand);
            let elsewhere = if self.scratch.survey_is_kept {
                self.survey(priority, due);
                self.earliest(&demand)
            } else {
                self.earliest_for(&demand, priority, due)
            };
            let found = elsewhere.is_some_and(|elsewhere| {
                elsewhere != processors && self.lay(slot, &elsewhere, limit, priority)
            });
            let sooner = |(end, _): &(f64, Vec<Run>)| self.job(slot).end() < *end;
            if found && planned.as_ref().is_none_or(sooner) {
                self.judge(slot);
                return true;
            }
        }
        if let Some((_, runs)) = planned {
            let rate = self.machine.slowest(&processors);
            let job = self.job_mut(slot);
            job.processors = processors;
            job.runs = runs;
            job.rate = rate;
            self.judge(slot);
            return true;
        }
        if strict != Strict::Nobody {
            return false;
        }
        let laid = self.lay(slot, &processors, f64::INFINITY, priority);
        debug_assert!(laid, "without a limit there is always a time");
        self.judge(slot);
        laid
    }

    /// Writes down whether the promise is broken as the plan stands.
    fn judge(&mut self, slot: u32) {
        let job = self.job_mut(slot);
        job.late = job.end() > job.due + ROUNDING;
    }
}
