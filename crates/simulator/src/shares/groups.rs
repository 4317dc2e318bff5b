//! Nodes that are alike: the same kind of node, with the same parts of the same jobs at the same rates. What happens to one of them happens to
//! all at the same moment, so it is worked out once: the end of a job's equal parts is one event, and one node answers a submission for all.
//!
//! A job that is placed on some nodes of a group divides it; when a job has left, nodes that have become alike are put together again.
//! Where jobs are coupled each node stays by itself: their paces are taken anew after each node of a moment, and what comes of the
//! states between, in the last digits, would be another.
//!
//! Invariants: every node is in one group, whose members stand in ascending order; a group without members is vacant. Nodes of a
//! group are the same to the last bit, but for when what they had done was last told.

use super::node::{Front, Node};
use crate::Machine;
use libra_core::decision::node;
use libra_core::decision::placement::Placement;

/// All nodes, by what is on them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// What a node of each group is.
    pub nodes: Vec<Node>,
    /// The front of each group, same index.
    pub fronts: Vec<Front>,
    members: Vec<Vec<u32>>,
    /// The group of each node.
    of: Vec<u32>,
    vacant: Vec<u32>,
    together: bool,
}

impl Groups {
    /// Nodes on which nothing is, those of a kind together, or each by itself for good.
    pub fn new(machine: &Machine, together: bool) -> Groups {
        let mut groups = Groups {
            together,
            ..Groups::default()
        };
        for (index, spec) in machine.nodes.iter().enumerate() {
            let mut kinds = groups.nodes.iter().take(if together { index } else { 0 });
            let kind = kinds.position(|node| node.spec == *spec);
            let group = kind.unwrap_or_else(|| {
                groups.nodes.push(Node::new(*spec));
                groups.fronts.push(Node::new(*spec).front());
                groups.members.push(Vec::new());
                groups.nodes.len() - 1
            });
            groups.members[group].push(index as u32);
            groups.of.push(group as u32);
        }
        groups
    }

    /// As the decision core asks for them.
    pub fn for_core(&self) -> node::Groups<'_> {
        node::Groups {
            members: &self.members,
            of: &self.of,
        }
    }

    /// The nodes of a group.
    pub fn members(&self, group: usize) -> &[u32] {
        &self.members[group]
    }

    /// The groups in the order of their first nodes.
    pub fn in_order(&self) -> impl Iterator<Item = usize> + use<> {
        let groups = self.members.iter().enumerate();
        let mut firsts: Vec<(u32, usize)> = groups
            .filter_map(|(group, members)| Some((*members.first()?, group)))
            .collect();
        firsts.sort_unstable();
        firsts.into_iter().map(|(_, group)| group)
    }

    /// How many nodes a group has.
    pub fn size(&self, group: usize) -> f64 {
        self.members[group].len() as f64
    }

    /// The group that a node is in.
    pub fn of(&self, node: usize) -> usize {
        self.of[node] as usize
    }

    /// Some nodes of a group, in ascending order, become one of their own; None if they are all of it.
    pub fn divide(&mut self, group: usize, nodes: &[u32]) -> Option<usize> {
        let members = &mut self.members[group];
        if nodes.len() == members.len() {
            return None;
        }
        if members.starts_with(nodes) {
            members.drain(..nodes.len());
        } else {
            let mut taken = nodes.iter().peekable();
            members.retain(|node| taken.next_if_eq(&node).is_none());
        }
        let new = self.vacant.pop().map_or(self.nodes.len(), |g| g as usize);
        if new == self.nodes.len() {
            self.nodes.push(Node::new(self.nodes[group].spec));
            self.fronts.push(self.fronts[group]);
            self.members.push(Vec::new());
        }
        self.members[new].extend_from_slice(nodes);
        for node in nodes {
            self.of[*node as usize] = new as u32;
        }
        let spec = self.nodes[group].spec;
        let mut node = std::mem::replace(&mut self.nodes[new], Node::new(spec));
        node.become_as(&self.nodes[group]);
        self.nodes[new] = node;
        self.fronts[new] = self.fronts[group];
        Some(new)
    }

    /// The nodes of a group, which is vacant then, are those of another one like it.
    pub fn unite(&mut self, from: usize, into: usize) {
        let mut more = std::mem::take(&mut self.members[from]);
        for node in &more {
            self.of[*node as usize] = into as u32;
        }
        let members = &mut self.members[into];
        match members.last() < more.first() {
            true => members.append(&mut more),
            false => {
                members.append(&mut more);
                // Two ascending runs: found and merged in one pass.
                members.sort();
            }
        }
        self.members[from] = more;
        let node = &mut self.nodes[from];
        node.tenants.clear();
        node.version = node.version.wrapping_add(1);
        self.vacant.push(from as u32);
    }

    /// Returns true if nodes that become alike are to be put together.
    pub fn are_together(&self) -> bool {
        self.together
    }

    /// Returns true if on the nodes of one group runs what runs on those of the other.
    pub fn are_alike(&self, one: usize, other: usize) -> bool {
        one != other
            && !self.members[other].is_empty()
            && self.fronts[one].is_like(&self.fronts[other])
            && self.nodes[one].is_like(&self.nodes[other])
    }

    /// A group on whose nodes nothing runs, like this one.
    pub fn idle_like(&self, group: usize) -> Option<usize> {
        (0..self.nodes.len()).find(|other| self.are_alike(group, *other))
    }
}

/// A job's parts that are alike, before they come to their nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Placed {
    /// The group of their nodes.
    pub group: usize,
    /// Chunks on each.
    pub chunks: u32,
    /// Share of each slot.
    pub share: f64,
    /// The nodes, ascending.
    pub nodes: Vec<u32>,
}

/// The parts of a job. Storage that is used again.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: Vec<Placed>,
    found: usize,
}

impl Parts {
    /// Puts the places of a job together, in the order in which they were taken.
    pub fn find(&mut self, places: &[Placement], groups: &Groups) {
        self.found = 0;
        let mut last = 0;
        for place in places {
            let group = groups.of(place.node);
            let same = |part: &Placed| part.group == group && part.chunks == place.chunks;
            let found = &self.parts[..self.found];
            if !found.get(last).is_some_and(same) {
                last = found.iter().position(same).unwrap_or(self.found);
            }
            if last == self.found {
                self.found += 1;
                if self.parts.len() < self.found {
                    self.parts.push(Placed::default());
                }
                let part = &mut self.parts[last];
                (part.group, part.chunks, part.share) = (group, place.chunks, place.share);
                part.nodes.clear();
            }
            self.parts[last].nodes.push(place.node as u32);
        }
        debug_assert!(self.found().iter().all(|part| part.nodes.is_sorted()));
    }

    /// Those that were found.
    pub fn found(&self) -> &[Placed] {
        &self.parts[..self.found]
    }
}
