//! The free processors of the machine and the memory beside them.
//!
//! All processors stand in one row, in order of preference: fastest first, then in node order. One
//! bit each says whether it is free, so the first free ones are found and taken 64 at a time. Jobs
//! that ask for no memory, and machines that count none, need nothing else.
//!
//! Invariants: a bit is set exactly while no placement holds its processor; `free` is the number of
//! set bits; a node's memory is what it has, less what placements hold on it.

use crate::Machine;
use libra_core::decision::node::NodeSpec;

/// Processors of one job: 64 of the row at a time, those it has as bits.
pub(super) type Taken = Vec<(u32, u64)>;

/// Processors that a job holds.
#[derive(Debug, Default)]
pub(super) struct Placement {
    /// Which.
    pub taken: Taken,
    /// Rating of the slowest of them.
    pub rating: f64,
}

/// What one node could give to a job with memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NodeFree {
    /// Free processors.
    pub processors: u32,
    /// Free memory in bytes.
    pub memory: u64,
}

impl NodeFree {
    /// Slots of so much memory each that fit.
    pub fn slots(&self, memory: u64) -> u32 {
        match self.memory.checked_div(memory) {
            Some(by_memory) => self
                .processors
                .min(by_memory.min(u64::from(u32::MAX)) as u32),
            None => self.processors,
        }
    }
}

/// The processors of the machine.
pub(super) struct Processors {
    /// Bit b of word w: processor 64 w + b of the row is free.
    words: Vec<u64>,
    /// Bit b of word w: word 64 w + b of `words` is not 0.
    summary: Vec<u64>,
    /// Free processors.
    free: u32,
    /// All processors.
    all: u32,
    /// The node of each processor of the row.
    node_of: Vec<u32>,
    /// What each node is, in node order, with the processors that can be given out.
    nodes: Vec<(NodeFree, f64)>,
    /// Whether the row stands in node order.
    in_node_order: bool,
    /// Free memory of each node; empty where no node counts its memory.
    memory: Vec<u64>,
    /// Kinds of empty nodes and how many of each; empty where no node counts its memory.
    kinds: Vec<(NodeFree, u32)>,
    /// Rating of all nodes, where they have one.
    one_rating: Option<f64>,
    /// Storage of ended placements, to be used again.
    spare: Vec<Taken>,
}

impl Processors {
    /// All processors of the machine, all free.
    pub fn new(machine: &Machine) -> Processors {
        let nodes: Vec<(NodeFree, f64)> = machine
            .nodes
            .iter()
            .map(|node| (whole(node), node.rating))
            .collect();
        let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
        order.sort_by(|&a, &b| nodes[b as usize].1.total_cmp(&nodes[a as usize].1));
        let mut node_of = Vec::new();
        for &node in &order {
            let count = nodes[node as usize].0.processors as usize;
            node_of.resize(node_of.len() + count, node);
        }
        let all = node_of.len();
        let mut words = vec![u64::MAX; all.div_ceil(64)];
        if let (Some(last), true) = (words.last_mut(), all % 64 != 0) {
            *last = (1 << (all % 64)) - 1;
        }
        let mut summary = vec![u64::MAX; words.len().div_ceil(64)];
        if let (Some(last), true) = (summary.last_mut(), words.len() % 64 != 0) {
            *last = (1 << (words.len() % 64)) - 1;
        }
        let counts_memory = nodes
            .iter()
            .any(|(node, _)| node.memory != NodeSpec::MEMORY_UNLIMITED);
        let mut kinds: Vec<(NodeFree, u32)> = Vec::new();
        let mut memory = Vec::new();
        if counts_memory {
            memory = nodes.iter().map(|(node, _)| node.memory).collect();
            let mut sorted: Vec<NodeFree> = nodes.iter().map(|&(node, _)| node).collect();
            sorted.sort_by_key(|node| (node.memory, node.processors));
            for node in sorted {
                match kinds.last_mut() {
                    Some((kind, count)) if *kind == node => *count += 1,
                    _ => kinds.push((node, 1)),
                }
            }
        }
        let one_rating = match nodes.first() {
            Some(&(_, first)) if nodes.iter().all(|&(_, rating)| rating == first) => Some(first),
            _ => None,
        };
        Processors {
            words,
            summary,
            free: all as u32,
            all: all as u32,
            in_node_order: node_of.is_sorted(),
            node_of,
            nodes,
            memory,
            kinds,
            one_rating,
            spare: Vec::new(),
        }
    }

    /// Free processors.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Rating of the slowest of the fastest so many processors of the machine, free or not.
    pub fn best_rating(&self, processors: u32) -> f64 {
        self.one_rating.unwrap_or_else(|| {
            let last = (processors.clamp(1, self.all.max(1)) - 1) as usize;
            self.node_of
                .get(last)
                .map_or(1.0, |&node| self.nodes[node as usize].1)
        })
    }

    /// Returns true if the memory that a job asks for matters here.
    pub fn counts(&self, memory: u64) -> bool {
        memory > 0 && !self.memory.is_empty()
    }

    /// Why a job would not even fit on the empty machine.
    pub fn never_fits(&self, processors: u32, memory: u64) -> Option<&'static str> {
        if processors > self.all {
            return Some("processors");
        }
        if !self.counts(memory) {
            return None;
        }
        let slots: u64 = self
            .kinds
            .iter()
            .map(|(kind, count)| u64::from(kind.slots(memory)) * u64::from(*count))
            .sum();
        (slots < u64::from(processors)).then_some("memory")
    }

    /// Takes processors for a job, if enough are free.
    pub fn place(&mut self, processors: u32, memory: u64) -> Option<Placement> {
        if processors > self.free {
            return None;
        }
        let mut taken = self.spare.pop().unwrap_or_default();
        if self.counts(memory) {
            if !self.take_with_memory(processors, memory, &mut taken) {
                self.release(&mut taken, memory);
                self.spare.push(taken);
                return None;
            }
        } else {
            self.take(processors, &mut taken);
        }
        let rating = self.rating_of(&taken);
        Some(Placement { taken, rating })
    }

    /// Gives back what a job held.
    pub fn give_back(&mut self, mut placement: Placement, memory: u64) {
        self.release(&mut placement.taken, memory);
        self.spare.push(placement.taken);
    }

    /// The first free processors of the row; there are enough.
    fn take(&mut self, processors: u32, taken: &mut Taken) {
        let mut left = processors;
        for (s, summary) in self.summary.iter_mut().enumerate() {
            while *summary != 0 && left > 0 {
                let w = s * 64 + summary.trailing_zeros() as usize;
                let word = self.words[w];
                let here = word.count_ones();
                let mut rest = 0;
                if here > left {
                    rest = word;
                    for _ in 0..left {
                        rest &= rest - 1;
                    }
                    left = 0;
                } else {
                    *summary &= *summary - 1;
                    left -= here;
                }
                self.words[w] = rest;
                taken.push((w as u32, word ^ rest));
            }
            if left == 0 {
                break;
            }
        }
        self.free -= processors;
    }

    /// The first free processors of the row that have memory beside them. False where there are too
    /// few; what was taken by then stands in `taken`.
    fn take_with_memory(&mut self, processors: u32, memory: u64, taken: &mut Taken) -> bool {
        let mut left = processors;
        for w in 0..self.words.len() {
            let mut mask = 0;
            let mut rest = self.words[w];
            while rest != 0 && left > 0 {
                let bit = rest & rest.wrapping_neg();
                rest ^= bit;
                let node = self.node_of[w * 64 + bit.trailing_zeros() as usize] as usize;
                let free = &mut self.memory[node];
                if *free >= memory {
                    if *free != NodeSpec::MEMORY_UNLIMITED {
                        *free -= memory;
                    }
                    mask |= bit;
                    left -= 1;
                }
            }
            if mask != 0 {
                self.words[w] &= !mask;
                if self.words[w] == 0 {
                    self.summary[w / 64] &= !(1 << (w % 64));
                }
                self.free -= mask.count_ones();
                taken.push((w as u32, mask));
            }
            if left == 0 {
                return true;
            }
        }
        left == 0
    }

    fn release(&mut self, taken: &mut Taken, memory: u64) {
        let counts_memory = self.counts(memory);
        for &(w, mask) in taken.iter() {
            let w = w as usize;
            self.words[w] |= mask;
            self.summary[w / 64] |= 1 << (w % 64);
            self.free += mask.count_ones();
            if counts_memory {
                for processor in bits(w, mask) {
                    let free = &mut self.memory[self.node_of[processor] as usize];
                    if *free != NodeSpec::MEMORY_UNLIMITED {
                        *free += memory;
                    }
                }
            }
        }
        taken.clear();
    }

    /// Rating of the slowest processor.
    fn rating_of(&self, taken: &Taken) -> f64 {
        self.one_rating.unwrap_or_else(|| match taken.last() {
            // The row is sorted by rating, so the last is the slowest.
            Some(&(w, mask)) => {
                let last = w as usize * 64 + 63 - mask.leading_zeros() as usize;
                self.nodes[self.node_of[last] as usize].1
            }
            None => self.best_rating(1),
        })
    }

    /// Shows the node of each processor of a placement, in order of the row.
    pub fn for_each_node(&self, taken: &Taken, mut show: impl FnMut(u32)) {
        for &(w, mask) in taken {
            for processor in bits(w as usize, mask) {
                show(self.node_of[processor]);
            }
        }
    }

    /// Writes the nodes of a placement, ascending, each once.
    pub fn nodes_of(&self, taken: &Taken, nodes: &mut Vec<u32>) {
        nodes.clear();
        self.for_each_node(taken, |node| {
            if nodes.last() != Some(&node) {
                nodes.push(node);
            }
        });
        if !self.in_node_order {
            nodes.sort_unstable();
        }
    }

    /// What each node has free now, in node order. Only where memory is counted.
    pub fn by_node(&self) -> Vec<NodeFree> {
        let mut nodes: Vec<NodeFree> = self
            .memory
            .iter()
            .map(|&memory| NodeFree {
                processors: 0,
                memory,
            })
            .collect();
        for (w, &word) in self.words.iter().enumerate() {
            for processor in bits(w, word) {
                nodes[self.node_of[processor] as usize].processors += 1;
            }
        }
        nodes
    }
}

/// What a node can give out to slots of one processor.
fn whole(node: &NodeSpec) -> NodeFree {
    NodeFree {
        // Bounded by NodeSpec::check; whatever else stands there, the conversion saturates.
        processors: node.processors.min(NodeSpec::MOST_PROCESSORS).floor() as u32,
        memory: node.memory,
    }
}

/// The processors of the row that a word's bits stand for.
fn bits(word: usize, mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let bit = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(word * 64 + bit)
    })
}
