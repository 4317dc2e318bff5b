//! The machine that is planned for: its processors in the order of nodes.

use crate::decision::node::NodeSpec;

/// One node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Node {
    pub rating: f64,
    /// Bytes; None if memory is not counted.
    pub memory: Option<u64>,
    /// Its first processor.
    pub first: u32,
    /// Whole processors.
    pub processors: u32,
}

/// All of them.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub nodes: Vec<Node>,
    /// The node of each processor.
    pub node_of: Vec<u32>,
    /// Rating of all nodes, where they have one.
    one_rating: Option<f64>,
}

impl Machine {
    /// What is not in range has no processors.
    pub fn new(specs: &[NodeSpec]) -> Machine {
        let mut nodes = Vec::with_capacity(specs.len());
        let mut node_of = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            let sound = spec.check().is_ok();
            let processors = if sound { spec.processors.floor() } else { 0.0 };
            nodes.push(Node {
                rating: if sound { spec.rating } else { 1.0 },
                memory: (spec.memory != NodeSpec::MEMORY_UNLIMITED).then_some(spec.memory),
                first: node_of.len() as u32,
                processors: processors as u32,
            });
            node_of.resize(node_of.len() + processors as usize, index as u32);
        }
        let first = nodes.first().map(|node: &Node| node.rating);
        Machine {
            one_rating: first.filter(|first| nodes.iter().all(|node| node.rating == *first)),
            nodes,
            node_of,
        }
    }

    pub fn processors(&self) -> usize {
        self.node_of.len()
    }

    pub fn counts_memory(&self) -> bool {
        self.nodes.iter().any(|node| node.memory.is_some())
    }

    pub fn node(&self, processor: u32) -> &Node {
        &self.nodes[self.node_of[processor as usize] as usize]
    }

    /// Rating of the slowest of these processors: the others wait for it.
    pub fn slowest(&self, processors: &[u32]) -> f64 {
        self.one_rating.unwrap_or_else(|| {
            let ratings = processors.iter().map(|&p| self.node(p).rating);
            ratings.fold(f64::INFINITY, f64::min)
        })
    }

    /// Rating of the fastest node that has a processor.
    pub fn fastest(&self) -> f64 {
        let nodes = self.nodes.iter().filter(|node| node.processors > 0);
        nodes.map(|node| node.rating).fold(0.0, f64::max)
    }
}
