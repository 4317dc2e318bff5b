//! The processors in the order in which their last runs end, so that those that are left first are found without going through all of them.
//!
//! Changes are noted while the plan is tried and taken over when it is asked: what was put back costs nothing here.

use super::timeline::Timeline;
use std::cmp::Ordering;

/// Processors of a chunk: at most twice as many.
const CHUNK: usize = 64;

/// When the last run of a processor ends; minus infinity without any. Of equals the one with the lower number is first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct End {
    at: f64,
    processor: u32,
}

impl End {
    fn compare(&self, other: &End) -> Ordering {
        (self.at.total_cmp(&other.at)).then(self.processor.cmp(&other.processor))
    }
}

/// All processors, by their ends.
#[derive(Debug)]
pub(super) struct Ends {
    /// Ascending in each and from one to the next; none is empty. Many are read one after the other, and few change.
    chunks: Vec<Vec<End>>,
    /// As they stand there.
    at: Vec<f64>,
    /// Which of them may have changed, and whether a processor is one of these.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
    /// A bit for each processor, none set.
    found: Vec<u64>,
}

impl Ends {
    /// So many processors without runs.
    pub fn new(processors: usize) -> Ends {
        let at = f64::NEG_INFINITY;
        let all: Vec<End> = (0..processors as u32)
            .map(|processor| End { at, processor })
            .collect();
        Ends {
            chunks: all.chunks(CHUNK).map(<[End]>::to_vec).collect(),
            at: vec![at; processors],
            changed: Vec::new(),
            is_changed: vec![false; processors],
            found: vec![0; processors.div_ceil(64)],
        }
    }

    /// To be called when the runs of a processor become others.
    pub fn note(&mut self, processor: u32) {
        let is_changed = &mut self.is_changed[processor as usize];
        if !*is_changed {
            *is_changed = true;
            self.changed.push(processor);
        }
    }

    /// Takes over what was noted.
    fn take_over(&mut self, lines: &[Timeline]) {
        let mut changed = std::mem::take(&mut self.changed);
        for processor in changed.drain(..) {
            let index = processor as usize;
            self.is_changed[index] = false;
            let at = lines[index].end();
            let former = std::mem::replace(&mut self.at[index], at);
            if at != former {
                self.remove(End {
                    at: former,
                    processor,
                });
                self.insert(End { at, processor });
            }
        }
        self.changed = changed;
    }

    /// The chunk in which an end stands, or would.
    fn chunk_of(&self, end: &End) -> usize {
        let before = |chunk: &Vec<End>| chunk.last().is_some_and(|last| last.compare(end).is_lt());
        self.chunks.partition_point(before)
    }

    fn remove(&mut self, end: End) {
        let place = self.chunk_of(&end);
        let Some(chunk) = self.chunks.get_mut(place) else {
            return;
        };
        if let Ok(index) = chunk.binary_search_by(|other| other.compare(&end)) {
            chunk.remove(index);
        }
        if chunk.is_empty() {
            self.chunks.remove(place);
        }
    }

    fn insert(&mut self, end: End) {
        let place = self.chunk_of(&end).min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(place) else {
            self.chunks.push(vec![end]);
            return;
        };
        let index = chunk.partition_point(|other| other.compare(&end).is_lt());
        chunk.insert(index, end);
        if chunk.len() > 2 * CHUNK {
            let behind = chunk.split_off(CHUNK);
            self.chunks.insert(place + 1, behind);
        }
    }

    /// Finds so many that are left first, in the order of their numbers.
    pub fn first(&mut self, wanted: usize, lines: &[Timeline], processors: &mut Vec<u32>) {
        self.take_over(lines);
        for end in self.chunks.iter().flatten().take(wanted) {
            self.found[end.processor as usize / 64] |= 1 << (end.processor % 64);
        }
        for (index, word) in self.found.iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                processors.push(64 * index as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::{Entry, Priority, Run};
    use super::*;

    #[test]
    fn those_that_are_left_first_are_found_whatever_has_changed() {
        let count = 500;
        let mut lines = vec![Timeline::default(); count];
        let (mut ends, mut entries) = (Ends::new(count), 0);
        let mut random = 1u64;
        for round in 0..200 {
            for _ in 0..20 {
                random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
                let processor = (random >> 33) as usize % count;
                // Many ends are the same, and some lines become empty again.
                let end = 1.0 + (random >> 50) as f64 % 40.0;
                let former = lines[processor].after(0.0).first().map(|entry| entry.run);
                lines[processor].remove(0, former.as_slice(), &mut entries);
                if end < 35.0 {
                    let entry = Entry {
                        run: Run { start: 0.0, end },
                        priority: Priority::LAST,
                        job: 0,
                    };
                    lines[processor].insert(entry, 0.0, &mut entries);
                }
                ends.note(processor as u32);
            }
            let mut all: Vec<u32> = (0..count as u32).collect();
            all.sort_by(|&a, &b| {
                let end = |processor: u32| lines[processor as usize].end();
                end(a).total_cmp(&end(b)).then(a.cmp(&b))
            });
            let wanted = round * 7 % (count + 1);
            let mut expected = all[..wanted].to_vec();
            expected.sort_unstable();
            let mut found = Vec::new();
            ends.first(wanted, &lines, &mut found);
            assert_eq!(found, expected, "round {round}");
        }
    }
}
