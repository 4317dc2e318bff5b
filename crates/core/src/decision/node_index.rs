//! Nodes in the order of what is committed on them, so that a decision looks at the nodes that it uses and not at all of them.
//!
//! Nodes whose sums do not say what is committed while a job would run stand apart: these are asked one by one, whatever their order.
//!
//! For policies that go by sums, see [`Policy::goes_by_sums`](super::policy::Policy::goes_by_sums), and those that rank by them, see
//! [`Policy::ranks_by_sums`](super::policy::Policy::ranks_by_sums). Whoever keeps an index tells it of each change of a node.
//!
//! Invariants:
//! - Nodes of one rating and one number of processors are of one kind. What a policy that goes by sums answers for one of a kind, or the rank that one
//!   which ranks by them gives it, depends on what is committed there and on its free memory alone.
//! - The nodes of a kind stand fullest first; of equally full ones, in the order of their indices.
//! - A kind is a list of blocks of at most [`LONGEST_BLOCK`] nodes. A change looks for the block by halving and moves nodes inside of it;
//!   what a block has of memory stands beside it, so that a search passes it over.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

/// Most nodes of a block. Of larger ones more is moved for each change, of smaller ones more are passed over by a search that memory decides.
const LONGEST_BLOCK: usize = 128;

/// Blocks of fewer nodes together are made one.
const SHORT_BLOCKS: usize = LONGEST_BLOCK / 2;

/// The nodes that take new jobs, by what is committed on them.
#[derive(Debug, Clone, Default)]
pub struct NodeIndex {
    kinds: Vec<Kind>,
    /// By the bits of rating and processors.
    by_spec: HashMap<(u64, u64), u32>,
    /// Kinds that no node is of.
    vacant: Vec<u32>,
    /// By the node's index; None for one that takes no new jobs, or stands apart.
    nodes: Vec<Option<Key>>,
    /// Nodes of all kinds.
    count: usize,
    /// Rating and processors of nodes that are of no kind here.
    apart: BTreeMap<u32, (f64, f64)>,
}

/// An index, as a decision uses it.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The nodes.
    pub nodes: &'a NodeIndex,
    /// True if the cluster has all nodes of the index, with as many places as fit there. Otherwise, and where the policy does not go by sums, each node that
    /// is found is asked for.
    pub all: bool,
}

/// Where a node stands in the index.
#[derive(Debug, Clone, Copy)]
struct Key {
    kind: u32,
    committed: f64,
}

/// A node in the index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    /// Processors.
    pub committed: f64,
    /// Free bytes.
    pub memory: u64,
    /// Its index.
    pub node: u32,
}

impl Entry {
    fn order(&self, other: &Entry) -> Ordering {
        (other.committed.total_cmp(&self.committed)).then(self.node.cmp(&other.node))
    }
}

/// Nodes of one rating and one number of processors.
#[derive(Debug, Clone, Default)]
pub(super) struct Kind {
    pub rating: f64,
    pub processors: f64,
    /// None of them is empty.
    pub blocks: Vec<Block>,
    count: usize,
}

/// Some nodes that follow one another.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub entries: Vec<Entry>,
    /// The last of them, here so that looking for a block reads no other memory.
    pub last: Entry,
    /// Most free memory of one of them, in bytes.
    pub memory: u64,
    /// Least index of one of them, and of one of those with the most memory.
    first: u32,
    pub roomiest: u32,
}

/// A place in a kind: a block and an entry of it. The end is the block after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub block: usize,
    pub entry: usize,
}

impl Block {
    fn new(entries: Vec<Entry>) -> Block {
        let mut block = Block {
            last: entries[0],
            entries,
            memory: 0,
            first: 0,
            roomiest: 0,
        };
        block.sum_up();
        block
    }

    /// What stands beside a block, taken anew.
    fn sum_up(&mut self) {
        (self.memory, self.first, self.roomiest) = (0, u32::MAX, u32::MAX);
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            self.count_in(&entry);
        }
    }

    /// An entry came.
    fn count_in(&mut self, entry: &Entry) {
        self.last = self.entries[self.entries.len() - 1];
        self.first = self.first.min(entry.node);
        if entry.memory > self.memory {
            (self.memory, self.roomiest) = (entry.memory, entry.node);
        } else if entry.memory == self.memory {
            self.roomiest = self.roomiest.min(entry.node);
        }
    }

    fn position(&self, entry: &Entry) -> usize {
        (self.entries).partition_point(|other| other.order(entry).is_lt())
    }
}

impl Kind {
    /// The block that an entry is in or would go to.
    fn block_of(&self, entry: &Entry) -> usize {
        let after = |block: &Block| block.last.order(entry).is_lt();
        self.blocks.partition_point(after)
    }

    fn insert(&mut self, entry: Entry) {
        self.count += 1;
        let index = self
            .block_of(&entry)
            .min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(index) else {
            let mut entries = Vec::with_capacity(LONGEST_BLOCK);
            entries.push(entry);
            self.blocks.push(Block::new(entries));
            return;
        };
        block.entries.insert(block.position(&entry), entry);
        block.count_in(&entry);
        if block.entries.len() >= LONGEST_BLOCK {
            let mut rest = Vec::with_capacity(LONGEST_BLOCK);
            rest.extend(block.entries.drain(LONGEST_BLOCK / 2..));
            block.sum_up();
            self.blocks.insert(index + 1, Block::new(rest));
        }
    }

    fn remove(&mut self, entry: &Entry) {
        self.count -= 1;
        let index = self.block_of(entry);
        let block = &mut self.blocks[index];
        block.entries.remove(block.position(entry));
        let length = block.entries.len();
        if length == 0 {
            self.blocks.remove(index);
            return;
        }
        if block.first == entry.node || block.roomiest == entry.node {
            block.sum_up();
        } else {
            block.last = block.entries[length - 1];
        }
        // Many changes would leave a list of next to empty blocks behind.
        let next = (self.blocks.get(index + 1)).map_or(LONGEST_BLOCK, |next| next.entries.len());
        if length + next <= SHORT_BLOCKS {
            let next = self.blocks.remove(index + 1);
            self.blocks[index].entries.extend(next.entries);
            self.blocks[index].sum_up();
        }
    }

    /// An entry of the same node changes. Where the order stays, nothing is moved.
    fn change(&mut self, from: &Entry, to: Entry) {
        let index = self.block_of(from);
        let block = &mut self.blocks[index];
        let at = block.position(from);
        let after = at == 0 || block.entries[at - 1].order(&to).is_lt();
        let before = (block.entries.get(at + 1)).is_some_and(|next| to.order(next).is_lt());
        if after && before && (at > 0 || index == 0) {
            let memory = std::mem::replace(&mut block.entries[at], to).memory;
            if memory != to.memory {
                block.sum_up();
            }
        } else {
            self.remove(from);
            self.insert(to);
        }
    }

    /// The first entry of which it is not true; of all entries before it, it is.
    pub fn partition_point(&self, before: impl Fn(&Entry) -> bool) -> At {
        let block = self.blocks.partition_point(|block| before(&block.last));
        let entry =
            (self.blocks.get(block)).map_or(0, |block| block.entries.partition_point(&before));
        At { block, entry }
    }

    /// The place after this one.
    pub fn next(&self, at: At) -> At {
        match at.entry + 1 < self.blocks[at.block].entries.len() {
            true => At {
                entry: at.entry + 1,
                ..at
            },
            false => At {
                block: at.block + 1,
                entry: 0,
            },
        }
    }

    /// The place before this one; None before the first.
    pub fn previous(&self, at: At) -> Option<At> {
        if at.entry > 0 {
            return Some(At {
                entry: at.entry - 1,
                ..at
            });
        }
        let block = at.block.checked_sub(1)?;
        Some(At {
            block,
            entry: self.blocks[block].entries.len() - 1,
        })
    }

    pub fn end(&self) -> At {
        At {
            block: self.blocks.len(),
            entry: 0,
        }
    }

    /// The least index of the nodes from one place to before another.
    pub fn first_between(&self, start: At, end: At) -> u32 {
        let mut first = u32::MAX;
        let mut at = start;
        while at < end {
            let block = &self.blocks[at.block];
            let last = match at.block == end.block {
                true => end.entry,
                false => block.entries.len(),
            };
            let least = match at.entry == 0 && last == block.entries.len() {
                true => block.first,
                false => (block.entries[at.entry..last].iter())
                    .fold(u32::MAX, |least, entry| least.min(entry.node)),
            };
            first = first.min(least);
            at = At {
                block: at.block + 1,
                entry: 0,
            };
        }
        first
    }
}

impl NodeIndex {
    /// A node takes new jobs, or what it is, or what is committed on it, changed.
    ///
    /// `rating`, `processors` and what is `committed` of them as policies see them; `memory`: free bytes.
    pub fn set(
        &mut self,
        index: usize,
        (rating, processors): (f64, f64),
        committed: f64,
        memory: u64,
    ) {
        self.apart.remove(&(index as u32));
        let entry = Entry {
            committed,
            memory,
            node: index as u32,
        };
        if let Some(Some(key)) = self.nodes.get(index).copied() {
            let kind = &mut self.kinds[key.kind as usize];
            let as_it_was = Entry {
                committed: key.committed,
                ..entry
            };
            let same = |one: f64, other: f64| one.to_bits() == other.to_bits();
            if same(kind.rating, rating) && same(kind.processors, processors) {
                kind.change(&as_it_was, entry);
                self.nodes[index] = Some(Key { committed, ..key });
                return;
            }
            self.remove(index);
        }
        let kind = self.kind_of(rating, processors);
        self.kinds[kind as usize].insert(entry);
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, None);
        }
        self.nodes[index] = Some(Key { kind, committed });
        self.count += 1;
    }

    /// A node of this rating and so many processors takes new jobs, and its sums do not say what is committed there while one would run.
    pub fn set_apart(&mut self, index: usize, spec: (f64, f64)) {
        self.remove(index);
        self.apart.insert(index as u32, spec);
    }

    /// A node takes no new jobs any more.
    pub fn remove(&mut self, index: usize) {
        self.apart.remove(&(index as u32));
        let Some(key) = self.nodes.get_mut(index).and_then(Option::take) else {
            return;
        };
        let kind = &mut self.kinds[key.kind as usize];
        kind.remove(&Entry {
            committed: key.committed,
            memory: 0,
            node: index as u32,
        });
        self.count -= 1;
        if kind.count == 0 {
            let spec = (kind.rating.to_bits(), kind.processors.to_bits());
            self.by_spec.remove(&spec);
            self.vacant.push(key.kind);
        }
    }

    fn kind_of(&mut self, rating: f64, processors: f64) -> u32 {
        let (kinds, vacant) = (&mut self.kinds, &mut self.vacant);
        let bits = (rating.to_bits(), processors.to_bits());
        *self.by_spec.entry(bits).or_insert_with(|| {
            let kind = Kind {
                rating,
                processors,
                ..Kind::default()
            };
            match vacant.pop() {
                Some(place) => {
                    kinds[place as usize] = kind;
                    place
                }
                None => {
                    kinds.push(kind);
                    kinds.len() as u32 - 1
                }
            }
        })
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().filter(|kind| kind.count > 0)
    }

    /// Nodes that are of no kind here, ascending.
    pub(super) fn apart(&self) -> impl Iterator<Item = usize> + '_ {
        self.apart.keys().map(|index| *index as usize)
    }

    /// Processors of the largest node, of all together, and the rating of the slowest; None if a sum of them depends on the order.
    pub(super) fn processors(&self) -> Option<(f64, f64, f64)> {
        // Sums of whole parts of this size are exact.
        const PARTS: f64 = 1024.0;
        let mut all = (0.0f64, 0.0, f64::INFINITY);
        let of_kind = |kind: &Kind| (kind.rating, kind.processors, kind.count as f64);
        let apart = self.apart.values();
        let apart = apart.map(|(rating, processors)| (*rating, *processors, 1.0));
        for (rating, processors, nodes) in self.kinds().map(of_kind).chain(apart) {
            if (processors * PARTS).fract() != 0.0 {
                return None;
            }
            all.0 = all.0.max(processors);
            all.1 += processors * nodes;
            all.2 = all.2.min(rating);
        }
        Some(all)
    }

    /// Returns true if looking here is quicker than looking at all nodes: not where next to each node is of a kind of its own.
    pub fn is_worthwhile(&self) -> bool {
        let kinds = self.by_spec.len();
        kinds <= 16 || kinds * 16 <= self.count
    }
}
