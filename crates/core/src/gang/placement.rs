//! Which processors a job could be bound to.

use super::machine::Machine;
use super::plan::Plan;
use super::rules::Demand;
use super::timeline::{Priority, Survey};

/// By what processors are chosen: least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// So that the job starts as early as can be: what the rule does when nobody is bound before it runs.
    Earliest,
    /// Least work before its deadline of those who come before it.
    Before,
    /// Least work before its deadline of anybody.
    All,
    /// Left first by the last of those who come before.
    Last,
}

impl Measure {
    pub const ALL: [Measure; 4] = [
        Measure::Earliest,
        Measure::Before,
        Measure::All,
        Measure::Last,
    ];
}

impl Plan {
    /// Runs on a processor, on average.
    pub fn depth(&self) -> usize {
        1 + self.entries / self.lines.len().max(1)
    }

    /// Processors that a survey looks at: all, but on large machines with many jobs.
    pub fn candidates_wanted(&self, slots: usize) -> usize {
        let wanted = (self.bounds.surveyed / self.depth()).max(4 * slots);
        wanted.min(self.lines.len())
    }

    /// Finds the processors that surveys for a job look at, ascending: on large machines only those that are left first.
    pub fn find_candidates(&mut self, demand: &Demand) {
        let wanted = self.candidates_wanted(demand.slots());
        let all = self.lines.len();
        let candidates = &mut self.scratch.candidates;
        candidates.clear();
        // Chunks of several processors are looked for on whole nodes.
        if wanted < all && by_single_processors(&self.machine, demand) {
            #[cfg(test)]
            if self.plain {
                self.scratch.candidates = self.left_first_plainly(wanted);
                return;
            }
            self.ends.first(wanted, &self.lines, candidates);
        } else {
            candidates.extend(0..all as u32);
        }
    }

    /// Looks at the candidates as a job of this priority that is due then sees them.
    pub fn survey(&mut self, view: Priority, due: f64) {
        let now = self.now;
        let until = if due > now { due } else { f64::INFINITY };
        let candidates = std::mem::take(&mut self.scratch.candidates);
        let mut surveys = std::mem::take(&mut self.scratch.surveys);
        surveys.clear();
        surveys.extend(candidates.iter().map(|&processor| {
            let from = self.room_from(processor);
            let mut survey = Survey {
                processor,
                first: from,
                last: from,
                ..Survey::default()
            };
            let entries = self.lines[processor as usize].after(now).iter();
            for entry in entries.take_while(|entry| entry.run.start < until) {
                let (start, end) = (entry.run.start.max(now), entry.run.end);
                let before_due = (end.min(until) - start).max(0.0);
                survey.all += before_due;
                if entry.priority < view {
                    survey.before += before_due;
                    if start <= survey.first {
                        survey.first = survey.first.max(end);
                    }
                    survey.last = survey.last.max(end);
                }
            }
            survey
        }));
        self.scratch.surveys = surveys;
        self.scratch.surveyed = true;
        self.scratch.candidates = candidates;
    }

    /// The processors that are best by a measure, of the last survey. None if there are not enough.
    pub fn best(&self, measure: Measure, demand: &Demand) -> Option<Vec<u32>> {
        match measure {
            Measure::Earliest => self.earliest(demand),
            Measure::Before => self.choose(demand, |s| (s.before, s.all)),
            Measure::All => self.choose(demand, |s| (s.all, s.before)),
            Measure::Last => self.choose(demand, |s| (s.last, s.all)),
        }
    }

    /// Those on which a job can start first, of several the least used.
    pub fn earliest(&self, demand: &Demand) -> Option<Vec<u32>> {
        let slots = demand.slots();
        if by_single_processors(&self.machine, demand) {
            // Those that nobody uses are the best there are.
            let unused = (self.scratch.surveys.iter())
                .filter(|survey| survey.first <= self.now && survey.all == 0.0)
                .map(|survey| survey.processor)
                .take(slots);
            let unused: Vec<u32> = unused.collect();
            if unused.len() == slots {
                return Some(unused);
            }
        }
        let first = self.choose(demand, |survey| (survey.first, survey.all))?;
        if first.len() == 1 {
            return Some(first);
        }
        let surveys = &self.scratch.surveys;
        let firsts = first.iter().map(|&processor| {
            let place = surveys.partition_point(|survey| survey.processor < processor);
            surveys[place].first
        });
        let start = firsts.fold(self.now, f64::max);
        self.choose(demand, |survey| (survey.first.max(start), survey.all))
    }

    fn choose(&self, demand: &Demand, value: impl Fn(&Survey) -> (f64, f64)) -> Option<Vec<u32>> {
        type Valued = (f64, f64, u32);
        let slots = demand.slots();
        if slots > self.scratch.surveys.len() {
            return None;
        }
        let mut valued: Vec<Valued> = (self.scratch.surveys.iter())
            .map(|survey| {
                let (first, second) = value(survey);
                (first, second, survey.processor)
            })
            .collect();
        let compare = |a: &Valued, b: &Valued| {
            (a.0.total_cmp(&b.0))
                .then(a.1.total_cmp(&b.1))
                .then(a.2.cmp(&b.2))
        };
        if by_single_processors(&self.machine, demand) {
            if slots < valued.len() {
                valued.select_nth_unstable_by(slots, compare);
                valued.truncate(slots);
            }
            let mut all: Vec<u32> = valued.into_iter().map(|valued| valued.2).collect();
            all.sort_unstable();
            return Some(all);
        }
        // The best processors of a node make its best chunk, and so on; a chunk is as good as its worst processor.
        let shape = &demand.shape;
        let each = shape.processors_per_chunk as usize;
        let mut chunks: Vec<&[Valued]> = Vec::new();
        for here in valued.chunk_by_mut(|a, b| {
            self.machine.node_of[a.2 as usize] == self.machine.node_of[b.2 as usize]
        }) {
            here.sort_unstable_by(compare);
            let node = self.machine.node(here[0].2);
            let by_memory = match (node.memory, shape.memory_per_chunk) {
                (Some(memory), chunk) if chunk > 0 => memory / chunk,
                _ => u64::MAX,
            };
            let most = by_memory.min(if shape.scatter { 1 } else { u64::MAX });
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            chunks.extend(here.chunks_exact(each).take(most));
        }
        if chunks.len() < shape.chunks as usize {
            return None;
        }
        chunks.sort_unstable_by(|a, b| compare(&a[each - 1], &b[each - 1]));
        chunks.truncate(shape.chunks as usize);
        let mut all: Vec<u32> = chunks.concat().into_iter().map(|valued| valued.2).collect();
        all.sort_unstable();
        Some(all)
    }

    /// Chunks of this shape that the empty machine has room for.
    pub fn room(&self, demand: &Demand) -> u64 {
        let shape = &demand.shape;
        let each = shape.processors_per_chunk.max(1);
        let of_node = |node: &super::machine::Node| {
            let by_processors = u64::from(node.processors / each);
            let by_memory = match (node.memory, shape.memory_per_chunk) {
                (Some(memory), chunk) if chunk > 0 => memory / chunk,
                _ => u64::MAX,
            };
            let most = if shape.scatter { 1 } else { u64::MAX };
            by_processors.min(by_memory).min(most)
        };
        self.machine.nodes.iter().map(of_node).sum()
    }
}

/// Whether each of a job's processors may be on any node.
pub(super) fn by_single_processors(machine: &Machine, demand: &Demand) -> bool {
    let shape = &demand.shape;
    shape.processors_per_chunk == 1
        && !shape.scatter
        && (shape.memory_per_chunk == 0 || !machine.counts_memory())
}
