//! The running jobs in order of the end that is expected of them by their estimate.
//!
//! A sorted list in blocks, each with the sum of its processors: on a large machine thousands of
//! jobs run at once, and neither a start nor the search for the time at which enough processors
//! come free may pass over all of them.

use std::cmp::Ordering;

/// A running job and its expected end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    /// When it ends if its estimate is right. In the past for a job that has outlived its estimate.
    pub end: f64,
    /// Which running job; no two at one time have the same.
    pub run: u32,
    /// Processors that come free.
    pub processors: u32,
}

impl Expected {
    fn order(&self, other: &Expected) -> Ordering {
        self.end
            .total_cmp(&other.end)
            .then(self.run.cmp(&other.run))
    }
}

/// Most entries of a block.
const BLOCK: usize = 256;

/// Neighbours in the order.
#[derive(Default)]
struct Block {
    /// Never empty, ascending.
    entries: Vec<Expected>,
    /// Their processors.
    processors: u64,
}

/// When enough processors are expected to be free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Relief {
    /// When, never before now.
    pub at: f64,
    /// Processors that come free until then, those of all jobs that end at that time included.
    pub processors: u64,
}

/// All running jobs.
#[derive(Default)]
pub(super) struct ExpectedEnds {
    blocks: Vec<Block>,
}

impl ExpectedEnds {
    /// The block in which an entry stands or would stand.
    fn block_of(&self, entry: &Expected) -> usize {
        self.blocks
            .partition_point(|block| {
                block
                    .entries
                    .last()
                    .is_some_and(|last| last.order(entry).is_lt())
            })
            .min(self.blocks.len().saturating_sub(1))
    }

    /// A job was started.
    pub fn insert(&mut self, entry: Expected) {
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let at = self.block_of(&entry);
        let block = &mut self.blocks[at];
        let place = block
            .entries
            .partition_point(|other| other.order(&entry).is_lt());
        block.entries.insert(place, entry);
        block.processors += u64::from(entry.processors);
        if block.entries.len() > BLOCK {
            let entries = block.entries.split_off(BLOCK / 2);
            let processors = entries.iter().map(|e| u64::from(e.processors)).sum();
            block.processors -= processors;
            self.blocks.insert(
                at + 1,
                Block {
                    entries,
                    processors,
                },
            );
        }
    }

    /// A job has ended.
    pub fn remove(&mut self, entry: &Expected) {
        let at = self.block_of(entry);
        let Some(block) = self.blocks.get_mut(at) else {
            return;
        };
        if let Ok(place) = block.entries.binary_search_by(|other| other.order(entry)) {
            let removed = block.entries.remove(place);
            block.processors -= u64::from(removed.processors);
        }
        if block.entries.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// All entries, the first expected end first.
    pub fn iter(&self) -> impl Iterator<Item = &Expected> {
        self.blocks.iter().flat_map(|block| block.entries.iter())
    }

    /// The first time at which this many processors have come free; None if all together are too
    /// few. Jobs that have outlived their estimate are expected to end now.
    pub fn relief(&self, wanted: u64, now: f64) -> Option<Relief> {
        let mut sum = 0;
        let mut at = None;
        'found: for block in &self.blocks {
            if at.is_none() && sum + block.processors < wanted {
                sum += block.processors;
                continue;
            }
            for entry in &block.entries {
                if at.is_some_and(|at| entry.end > at) {
                    break 'found;
                }
                sum += u64::from(entry.processors);
                if at.is_none() && sum >= wanted {
                    at = Some(entry.end.max(now));
                }
            }
        }
        at.map(|at| Relief {
            at,
            processors: sum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(entries: &[Expected], wanted: u64, now: f64) -> Option<Relief> {
        let mut times: Vec<f64> = entries.iter().map(|e| e.end.max(now)).collect();
        times.sort_by(f64::total_cmp);
        times.into_iter().find_map(|at| {
            let processors = entries
                .iter()
                .filter(|e| e.end <= at)
                .map(|e| u64::from(e.processors))
                .sum();
            (processors >= wanted).then_some(Relief { at, processors })
        })
    }

    #[test]
    fn jobs_that_outlived_their_estimate_are_expected_to_end_now() {
        let mut ends = ExpectedEnds::default();
        for (run, end, processors) in [(0, 10.0, 1), (1, 20.0, 2), (2, 30.0, 4), (3, 30.0, 8)] {
            ends.insert(Expected {
                end,
                run: run as u32,
                processors,
            });
        }
        let relief = |wanted, now| {
            ends.relief(wanted, now)
                .map(|relief| (relief.at, relief.processors))
        };
        assert_eq!(relief(1, 0.0), Some((10.0, 1)));
        // Both that end at 30 count: 1 + 2 + 4 + 8.
        assert_eq!(relief(4, 0.0), Some((30.0, 15)));
        // At 25 those of 10 and 20 are overdue and count together.
        assert_eq!(relief(1, 25.0), Some((25.0, 3)));
        assert_eq!(relief(16, 0.0), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn as_a_plain_list(
            steps in prop::collection::vec((0u32..40, 0u32..5, any::<bool>()), 1..900),
            wanted in 1u64..3000,
            now in 0.0..40.0f64,
        ) {
            let mut ends = ExpectedEnds::default();
            let mut plain: Vec<Expected> = Vec::new();
            for (run, &(end, processors, add)) in steps.iter().enumerate() {
                // Grows past one block, and shrinks again.
                if add || run % 3 != 0 || plain.is_empty() {
                    let entry = Expected { end: f64::from(end), run: run as u32, processors };
                    ends.insert(entry);
                    plain.push(entry);
                } else {
                    let gone = plain.swap_remove(end as usize % plain.len());
                    ends.remove(&gone);
                }
            }
            prop_assert_eq!(ends.iter().count(), plain.len());
            prop_assert!(ends.iter().is_sorted_by(|a, b| a.order(b).is_lt()));
            let zero = wanted.min(plain.iter().map(|e| u64::from(e.processors)).sum::<u64>().max(1));
            for wanted in [1, wanted, zero] {
                prop_assert_eq!(ends.relief(wanted, now), naive(&plain, wanted, now));
            }
            for entry in &plain {
                ends.remove(entry);
            }
            prop_assert!(ends.blocks.is_empty());
        }
    }
}
