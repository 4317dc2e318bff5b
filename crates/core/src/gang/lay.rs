//! When a job can run on given processors, behind those that come before it.

use super::plan::Plan;
use super::rules::Suspend;
use super::timeline::{Priority, Run};

/// Least time that a job is planned for, seconds: what has hardly anything left still has to end.
const LEAST: f64 = 1e-6;
/// A job that is suspended again and again does no more runs than this, about: shorter gaps are left.
const MOST_RUNS: f64 = 16.0;

/// One that has begun and not ended, or will have: from when, until when, who.
type Stay = (f64, f64, u32);

impl Plan {
    /// Gives a job the earliest runs on these processors that end by `limit`, behind those that come before `view`: its own
    /// priority, or [`Priority::LAST`] to displace nobody. False if there are none; then it is as before.
    pub fn lay(&mut self, slot: u32, processors: &[u32], limit: f64, view: Priority) -> bool {
        let rate = self.machine.slowest(processors);
        let job = self.job(slot);
        let started = job.started;
        let need = ((job.work - job.done) / rate).max(LEAST);
        if self.now + need > limit {
            return false;
        }
        let mut busy = std::mem::take(&mut self.scratch.busy);
        let mut runs = std::mem::take(&mut self.scratch.runs);
        busy.clear();
        let mut looked_at = processors.len();
        for &processor in processors {
            let entries = self.lines[processor as usize].after(self.now).iter();
            // Runs that follow one another without a gap are one.
            let mut last: Option<Run> = None;
            for entry in entries.take_while(|entry| entry.run.start < limit) {
                looked_at += 1;
                if entry.priority >= view {
                    continue;
                }
                match &mut last {
                    Some(run) if run.end >= entry.run.start => run.end = entry.run.end,
                    _ => busy.extend(last.replace(entry.run)),
                }
            }
            busy.extend(last);
        }
        if processors.len() > 1 {
            // Stable, since it makes use of what is sorted already.
            busy.sort_by(|a, b| a.start.total_cmp(&b.start));
        }
        self.spend(looked_at);
        // Who runs uses what time it has until it has to give way; to go on for a moment is not worth it.
        let least = match self.job(slot).running {
            true => (self.now, need / MOST_RUNS),
            false => (f64::NEG_INFINITY, need / MOST_RUNS),
        };
        let mut from = self.now;
        let laid = loop {
            let end = match self.rules.suspend {
                Suspend::Memory => in_gaps(&busy, from, need, least, &mut runs),
                Suspend::Never => in_one_gap(&busy, from, need, &mut runs),
            };
            if end > limit {
                break false;
            }
            if started || !self.limited() {
                break true;
            }
            match self.crowded_until(slot, view, processors, runs[0].start, end) {
                None => break true,
                Some(until) => from = until,
            }
            self.spend(processors.len());
            if self.effort == 0 {
                break false;
            }
        };
        if laid {
            let job = self.job_mut(slot);
            job.rate = rate;
            job.processors.clear();
            job.processors.extend_from_slice(processors);
            job.runs.clear();
            job.runs.extend_from_slice(&runs);
        }
        self.scratch.busy = busy;
        self.scratch.runs = runs;
        laid
    }

    /// From when until when a job has begun and not ended.
    ///
    /// One that has begun and is yet to be laid is taken to end when it was to end before. If it then ends later,
    /// whoever relied on that has to give way ([`Plan::crowded_out`]).
    fn stay(&self, slot: u32) -> Stay {
        let job = self.job(slot);
        match job.started {
            true if job.runs.is_empty() => (f64::NEG_INFINITY, job.former_end, slot),
            true => (f64::NEG_INFINITY, job.end(), slot),
            false => (job.next_start(), job.end(), slot),
        }
    }

    /// When a processor has room for one more beside those that have begun on it.
    pub fn room_from(&self, processor: u32) -> f64 {
        let (Some(most), Some(residents)) = (
            self.rules.jobs_per_processor,
            self.residents.get(processor as usize),
        ) else {
            return self.now;
        };
        let too_many = (residents.len() + 1).saturating_sub(most as usize);
        if too_many == 0 {
            return self.now;
        }
        let mut ends: Vec<f64> = residents.iter().map(|&other| self.stay(other).1).collect();
        ends.sort_unstable_by(f64::total_cmp);
        ends[too_many - 1].max(self.now)
    }

    /// Adds those but `slot` that have begun on a processor or will have by `end`, before it in the order of
    /// priorities or whoever they are. Some are added again and again.
    fn stays(
        &self,
        slot: u32,
        before: Option<Priority>,
        processor: u32,
        end: f64,
        stays: &mut Vec<Stay>,
    ) {
        let residents = self.residents[processor as usize].iter();
        let entries = self.lines[processor as usize].after(self.now).iter();
        let planned = entries
            .take_while(|entry| entry.run.start < end)
            .filter(|entry| before.is_none_or(|before| entry.priority < before))
            .map(|entry| &entry.job)
            .filter(|other| !self.job(**other).started);
        let others = residents.chain(planned).filter(|other| **other != slot);
        stays.extend(others.map(|&other| self.stay(other)));
    }

    /// Processors that a job has on a node, and the memory that it holds there.
    fn memory_on(&self, slot: u32, processors: &[u32], node: usize) -> u64 {
        let node = &self.machine.nodes[node];
        let first = processors.partition_point(|&p| p < node.first);
        let behind = processors.partition_point(|&p| p < node.first + node.processors);
        let shape = &self.job(slot).demand.shape;
        let chunks = (behind - first) as u64 / u64::from(shape.processors_per_chunk.max(1));
        shape.memory_per_chunk.saturating_mul(chunks)
    }

    /// If a job that stays from `begin` to `end` would be one too many on some of its processors, or
    /// need memory that others hold: when the first of these is gone.
    fn crowded_until(
        &self,
        slot: u32,
        priority: Priority,
        processors: &[u32],
        begin: f64,
        end: f64,
    ) -> Option<f64> {
        let mut stays = Vec::new();
        if let Some(most) = self.rules.jobs_per_processor {
            for &processor in processors {
                stays.clear();
                self.stays(slot, Some(priority), processor, end, &mut stays);
                each_once(&mut stays);
                let full = |sum: u64| sum >= u64::from(most);
                if let Some(until) = over(&stays, begin, end, |_| 1, full) {
                    return Some(until);
                }
            }
        }
        self.for_each_counted_node(slot, processors, |node, own, memory| {
            stays.clear();
            self.stays_on_node(slot, Some(priority), node, end, &mut stays);
            let held = |other: u32| self.memory_on(other, &self.job(other).processors, node);
            let full = |sum: u64| sum.saturating_add(own) > memory;
            over(&stays, begin, end, held, full)
        })
    }

    /// Adds those that have not begun and could not any more beside this job, which has just been
    /// given its runs: those behind it, or if it has begun itself, whoever they are.
    pub fn crowded_out(&self, slot: u32, out: &mut Vec<u32>) {
        let job = self.job(slot);
        let (begin, end, _) = self.stay(slot);
        let gives_way = |other: &Stay| {
            let planned = self.job(other.2);
            !planned.started
                && (job.started || planned.priority > job.priority)
                && other.0 < end
                && other.1 > begin
        };
        let mut stays = Vec::new();
        if let Some(most) = self.rules.jobs_per_processor {
            for &processor in &job.processors {
                stays.clear();
                self.stays(slot, None, processor, end, &mut stays);
                each_once(&mut stays);
                let full = |sum: u64| sum >= u64::from(most);
                if over(&stays, begin, end, |_| 1, full).is_some() {
                    out.extend(stays.iter().filter(|stay| gives_way(stay)).map(|s| s.2));
                }
            }
        }
        self.for_each_counted_node(slot, &job.processors, |node, own, memory| {
            stays.clear();
            self.stays_on_node(slot, None, node, end, &mut stays);
            let held = |other: u32| self.memory_on(other, &self.job(other).processors, node);
            let full = |sum: u64| sum.saturating_add(own) > memory;
            if over(&stays, begin, end, held, full).is_some() {
                let others = stays.iter().filter(|stay| gives_way(stay));
                out.extend(others.map(|stay| stay.2));
            }
            None
        });
    }

    fn stays_on_node(
        &self,
        slot: u32,
        before: Option<Priority>,
        node: usize,
        end: f64,
        stays: &mut Vec<Stay>,
    ) {
        let node = &self.machine.nodes[node];
        for processor in node.first..node.first + node.processors {
            self.stays(slot, before, processor, end, stays);
        }
        each_once(stays);
        stays.retain(|stay| self.job(stay.2).demand.shape.memory_per_chunk > 0);
    }

    /// Asks about each node of these processors whose memory is counted: the node, what this job holds there, and
    /// what there is. Up to the first answer.
    fn for_each_counted_node(
        &self,
        slot: u32,
        processors: &[u32],
        mut ask: impl FnMut(usize, u64, u64) -> Option<f64>,
    ) -> Option<f64> {
        if self.job(slot).demand.shape.memory_per_chunk == 0 {
            return None;
        }
        let mut last = None;
        for &processor in processors {
            let node = self.machine.node_of[processor as usize] as usize;
            if last == Some(node) {
                continue;
            }
            last = Some(node);
            if let Some(memory) = self.machine.nodes[node].memory {
                let own = self.memory_on(slot, processors, node);
                if let Some(answer) = ask(node, own, memory) {
                    return Some(answer);
                }
            }
        }
        None
    }
}

fn each_once(stays: &mut Vec<Stay>) {
    stays.sort_unstable_by_key(|stay| stay.2);
    stays.dedup_by_key(|stay| stay.2);
}

/// If at some moment from `begin` to `end` the sum over those that stay is `full`: when the first of these is gone.
fn over(
    stays: &[Stay],
    begin: f64,
    end: f64,
    size: impl Fn(u32) -> u64,
    full: impl Fn(u64) -> bool,
) -> Option<f64> {
    let met = || stays.iter().filter(|stay| stay.0 < end && stay.1 > begin);
    for moment in std::iter::once(begin).chain(met().map(|stay| stay.0.max(begin))) {
        let there = || met().filter(|stay| stay.0 <= moment && stay.1 > moment);
        let sum = there().fold(0u64, |sum, stay| sum.saturating_add(size(stay.2)));
        if full(sum) {
            return Some(there().map(|stay| stay.1).fold(f64::INFINITY, f64::min));
        }
    }
    None
}

/// Runs of `need` seconds from `from` on in what `busy`, sorted by start, leaves. Yields the end. Gaps shorter than `least.1` are
/// left, but for one that is open at the time `least.0`.
fn in_gaps(busy: &[Run], from: f64, need: f64, least: (f64, f64), runs: &mut Vec<Run>) -> f64 {
    runs.clear();
    let (mut time, mut left) = (from, need);
    for run in busy {
        if run.start > time {
            if run.start - time >= left {
                break;
            }
            if run.start - time >= least.1 || time <= least.0 {
                left -= run.start - time;
                runs.push(Run {
                    start: time,
                    end: run.start,
                });
            }
        }
        time = time.max(run.end);
    }
    let end = time + left;
    runs.push(Run { start: time, end });
    end
}

/// The same in one run.
fn in_one_gap(busy: &[Run], from: f64, need: f64, runs: &mut Vec<Run>) -> f64 {
    runs.clear();
    let mut time = from;
    for run in busy {
        if run.start - time >= need {
            break;
        }
        time = time.max(run.end);
    }
    let end = time + need;
    runs.push(Run { start: time, end });
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: f64, end: f64) -> Run {
        Run { start, end }
    }

    #[test]
    fn gaps_are_filled_from_the_first_one_on() {
        let busy = [run(2.0, 4.0), run(3.0, 5.0), run(8.0, 9.0)];
        let mut runs = Vec::new();
        let least = (f64::NEG_INFINITY, 0.0);
        assert_eq!(in_gaps(&busy, 0.0, 4.0, least, &mut runs), 7.0);
        assert_eq!(runs, [run(0.0, 2.0), run(5.0, 7.0)]);
        assert_eq!(in_gaps(&busy, 0.0, 6.0, least, &mut runs), 10.0);
        assert_eq!(runs, [run(0.0, 2.0), run(5.0, 8.0), run(9.0, 10.0)]);
        assert_eq!(in_gaps(&busy, 2.5, 1.0, least, &mut runs), 6.0);
        // Two seconds before the first are not worth it, but to who runs then.
        assert_eq!(in_gaps(&busy, 0.0, 6.0, (-1.0, 2.5), &mut runs), 12.0);
        assert_eq!(runs, [run(5.0, 8.0), run(9.0, 12.0)]);
        assert_eq!(in_gaps(&busy, 0.0, 6.0, (0.0, 2.5), &mut runs), 10.0);
        assert_eq!(in_one_gap(&busy, 0.0, 3.0, &mut runs), 8.0);
        assert_eq!(in_one_gap(&busy, 0.0, 4.0, &mut runs), 13.0);
        assert_eq!(in_one_gap(&busy, 0.0, 2.0, &mut runs), 2.0);
    }

    #[test]
    fn who_has_to_leave_first_is_found_at_the_fullest_moment() {
        let stays = [(0.0, 4.0, 0), (3.0, 9.0, 1), (5.0, 7.0, 2)];
        let over = |begin, end, most| over(&stays, begin, end, |_| 1, |sum| sum >= most);
        assert_eq!(over(0.0, 10.0, 3), None);
        assert_eq!(over(0.0, 10.0, 2), Some(4.0));
        assert_eq!(over(4.0, 10.0, 2), Some(7.0));
        assert_eq!(over(7.0, 10.0, 2), None);
        assert_eq!(over(0.0, 3.0, 2), None);
    }
}
