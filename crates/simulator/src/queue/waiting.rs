//! The waiting jobs of EASY, in order of submission, and the search for the next one that may be
//! started before its turn.
//!
//! Under overload 100,000 jobs wait, and each end of a job asks which of them fits into what has come
//! free. So the queue stands in blocks of 64 jobs below a binary tree, in which each node has the
//! least estimate among the jobs of its part that ask for at most 1, 2, 3 … processors: parts in
//! which nothing fits are passed over. A queue of one block needs no tree.
//!
//! Invariants: positions ascend with the index of the job; a removed job leaves a gap, whose
//! processors are [`GAP`], until the positions run out and all are laid out anew.

/// Jobs of a block.
const BLOCK: usize = 64;
/// Processors of a gap: more than are ever free.
const GAP: u32 = u32::MAX;
/// Groups of jobs by their processors: eight of one size each, then four for each doubling; the last
/// one has all beyond 8192.
const GROUPS: usize = 49;

/// What may be started: a job of at most `free` processors that either asks for at most `extra` of
/// them or has an estimate of at most `slack`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    /// Free processors, below 2^32 - 1.
    pub free: u32,
    /// Those of them that nobody needs later.
    pub extra: u32,
    /// Seconds for which all of them are free.
    pub slack: f64,
}

#[derive(Debug, Clone, Copy)]
struct JobDemand {
    estimate: f64,
    processors: u32,
}

impl JobDemand {
    const GONE: JobDemand = JobDemand {
        estimate: f64::INFINITY,
        processors: GAP,
    };

    fn fits(&self, gap: &Gap) -> bool {
        self.processors <= gap.free && (self.estimate <= gap.slack || self.processors <= gap.extra)
    }
}

/// What is known of a part of the queue.
#[derive(Debug, Clone, PartialEq)]
struct Summary {
    /// Fewest processors.
    processors: u32,
    /// At g: least estimate among the jobs of the groups up to g.
    estimate: [f64; GROUPS],
}

impl Summary {
    const EMPTY: Summary = Summary {
        processors: GAP,
        estimate: [f64::INFINITY; GROUPS],
    };

    fn add(&mut self, entry: &JobDemand) {
        self.processors = self.processors.min(entry.processors);
        for least in &mut self.estimate[group(entry.processors)..] {
            *least = least.min(entry.estimate);
        }
    }

    fn join(&self, other: &Summary) -> Summary {
        let mut both = self.clone();
        both.processors = both.processors.min(other.processors);
        for (least, other) in both.estimate.iter_mut().zip(&other.estimate) {
            *least = least.min(*other);
        }
        both
    }

    /// False only where nothing fits.
    fn may_fit(&self, gap: &Gap) -> bool {
        self.processors <= gap.free
            && (self.processors <= gap.extra || self.estimate[group(gap.free)] <= gap.slack)
    }
}

/// The group of jobs of so many processors.
fn group(processors: u32) -> usize {
    if processors <= 8 {
        return processors.saturating_sub(1) as usize;
    }
    // 9 and 10, 11 and 12, 13 and 14, 15 and 16, 17 to 20 …
    let below = processors - 1;
    let octave = below.ilog2();
    let quarter = (below >> (octave - 2)) & 3;
    ((8 + (octave - 3) * 4 + quarter) as usize).min(GROUPS - 1)
}

/// The queue.
pub(super) struct Waiting {
    entries: Vec<JobDemand>,
    /// The job at each position.
    indices: Vec<usize>,
    /// Position of the first job that waits, or the end.
    head: usize,
    /// Jobs that wait.
    len: usize,
    /// The tree: node n has the children 2 n and 2 n + 1, node 1 is all; the blocks are the last
    /// half. Two entries mean that there is one block.
    tree: Vec<Summary>,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting {
            entries: Vec::with_capacity(BLOCK),
            indices: Vec::with_capacity(BLOCK),
            head: 0,
            len: 0,
            tree: vec![Summary::EMPTY; 2],
        }
    }
}

impl Waiting {
    /// Blocks that there is room for.
    fn blocks(&self) -> usize {
        self.tree.len() / 2
    }

    /// Jobs that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Position of the first job.
    pub fn head(&self) -> Option<usize> {
        (self.len > 0).then_some(self.head)
    }

    /// The job at a position.
    pub fn job(&self, position: usize) -> usize {
        self.indices[position]
    }

    /// The first position of a job with this index or a greater one.
    pub fn position(&self, index: usize) -> usize {
        self.indices.partition_point(|&other| other < index)
    }

    /// Adds a job at the end. Its index is greater than all before. May change positions.
    pub fn push(&mut self, index: usize, processors: u32, estimate: f64) {
        if self.entries.len() == self.blocks() * BLOCK {
            self.lay_out_anew();
        }
        let entry = JobDemand {
            estimate,
            processors: processors.min(GAP - 1),
        };
        self.entries.push(entry);
        self.indices.push(index);
        self.len += 1;
        if self.blocks() > 1 {
            let mut node = self.blocks() + (self.entries.len() - 1) / BLOCK;
            while node > 0 {
                self.tree[node].add(&entry);
                node /= 2;
            }
        }
    }

    /// Removes the job at a position.
    pub fn remove(&mut self, position: usize) {
        self.entries[position] = JobDemand::GONE;
        self.len -= 1;
        if position == self.head {
            while self
                .entries
                .get(self.head)
                .is_some_and(|e| e.processors == GAP)
            {
                self.head += 1;
            }
        }
        if self.len == 0 {
            self.clear();
        } else if self.blocks() > 1 {
            let block = position / BLOCK;
            self.summarise(block);
            let mut node = (self.blocks() + block) / 2;
            while node > 0 {
                let both = self.tree[2 * node].join(&self.tree[2 * node + 1]);
                if both == self.tree[node] {
                    break;
                }
                self.tree[node] = both;
                node /= 2;
            }
        }
    }

    /// The first position from `from` on whose job fits.
    pub fn next(&self, from: usize, gap: &Gap) -> Option<usize> {
        let from = from.max(self.head);
        if from >= self.entries.len() {
            return None;
        }
        let found = self.search_block(from, gap);
        if found.is_some() || self.blocks() == 1 {
            return found;
        }
        let mut block = from / BLOCK;
        loop {
            block = self.next_block(block, gap)?;
            let found = self.search_block(block * BLOCK, gap);
            if found.is_some() {
                return found;
            }
        }
    }

    /// The same within the block of `from`.
    fn search_block(&self, from: usize, gap: &Gap) -> Option<usize> {
        let end = ((from / BLOCK + 1) * BLOCK).min(self.entries.len());
        self.entries
            .get(from..end)?
            .iter()
            .position(|entry| entry.fits(gap))
            .map(|offset| from + offset)
    }

    /// The first block behind this one in which something may fit.
    fn next_block(&self, block: usize, gap: &Gap) -> Option<usize> {
        let mut node = self.blocks() + block;
        loop {
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
            while self.tree[node].may_fit(gap) {
                if node >= self.blocks() {
                    return Some(node - self.blocks());
                }
                node *= 2;
            }
        }
    }

    fn summarise(&mut self, block: usize) {
        let end = ((block + 1) * BLOCK).min(self.entries.len());
        let mut summary = Summary::EMPTY;
        for entry in &self.entries[block * BLOCK..end] {
            if entry.processors != GAP {
                summary.add(entry);
            }
        }
        let node = self.blocks() + block;
        self.tree[node] = summary;
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.indices.clear();
        self.head = 0;
        self.tree.truncate(2);
        self.tree.fill(Summary::EMPTY);
    }

    /// Closes the gaps and makes room for as many jobs again as wait now.
    fn lay_out_anew(&mut self) {
        let mut kept = 0;
        for position in self.head..self.entries.len() {
            if self.entries[position].processors != GAP {
                self.entries[kept] = self.entries[position];
                self.indices[kept] = self.indices[position];
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        self.indices.truncate(kept);
        self.head = 0;
        let blocks = (2 * kept).div_ceil(BLOCK).next_power_of_two();
        self.tree.clear();
        self.tree.resize(2 * blocks, Summary::EMPTY);
        if blocks > 1 {
            for block in 0..kept.div_ceil(BLOCK) {
                self.summarise(block);
            }
            for node in (1..blocks).rev() {
                self.tree[node] = self.tree[2 * node].join(&self.tree[2 * node + 1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn groups_ascend_without_a_gap() {
        let mut last = 0;
        for processors in 1..=20_000 {
            let this = group(processors);
            assert!(this == last || this == last + 1, "{processors}");
            last = this;
        }
        assert_eq!(last, GROUPS - 1);
        assert_eq!(group(8192), GROUPS - 2);
        assert_eq!(group(u32::MAX), GROUPS - 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn finds_what_a_plain_search_finds(
            steps in prop::collection::vec((1u32..40, 1u32..50, 0usize..1000, 0u8..4), 1..1500),
            grow in 0u8..4,
        ) {
            let mut queue = Waiting::default();
            let mut plain: Vec<(usize, u32, f64)> = Vec::new();
            for (index, &(processors, estimate, at, what)) in steps.iter().enumerate() {
                if what >= grow || plain.is_empty() {
                    queue.push(index, processors, f64::from(estimate));
                    plain.push((index, processors, f64::from(estimate)));
                } else if what == 0 {
                    let (index, ..) = plain.remove(0);
                    prop_assert_eq!(queue.job(queue.head().unwrap()), index);
                    queue.remove(queue.head().unwrap());
                } else {
                    let at = at % plain.len();
                    let (index, ..) = plain.remove(at);
                    queue.remove(queue.position(index));
                }
                prop_assert_eq!(queue.len(), plain.len());
                prop_assert_eq!(queue.head().map(|head| queue.job(head)), plain.first().map(|p| p.0));
                let gap = Gap { free: processors, extra: estimate / 8, slack: (at % 60) as f64 };
                let from = at % (index + 1);
                let found = queue.next(queue.position(from), &gap).map(|p| queue.job(p));
                let expected = plain
                    .iter()
                    .find(|&&(index, processors, estimate)| {
                        index >= from
                            && processors <= gap.free
                            && (estimate <= gap.slack || processors <= gap.extra)
                    })
                    .map(|p| p.0);
                prop_assert_eq!(found, expected);
            }
        }
    }
}
