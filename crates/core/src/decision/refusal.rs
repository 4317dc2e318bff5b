//! Why a job was refused: a category, and the evidence in numbers. Sentences are made of it elsewhere (`libra_wording::refusal`).

use super::consumable::Consumable;
use super::counter_offer::CounterOffer;
use super::job::OutOfRange;
use super::policy::Obstacle;
use serde::{Serialize, Serializer};

/// A refusal and what would be accepted instead. `N` names nodes, as in [`Reason`].
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal<N = usize> {
    /// Why not.
    pub reason: Reason<N>,
    /// What would be accepted now, submitted as is; may be empty.
    pub counter_offers: Vec<CounterOffer>,
}

impl<N> Refusal<N> {
    /// The same with other names of its nodes.
    pub fn named<M>(self, name: impl FnOnce(N) -> M) -> Refusal<M> {
        Refusal {
            reason: self.reason.named(name),
            counter_offers: self.counter_offers,
        }
    }

    /// Counts the times in it from so many seconds earlier: what was judged was what is left then of a deadline of
    /// `asked` seconds.
    pub fn later_by(&mut self, seconds: f64, asked: f64) {
        if let Reason::Deadline { fastest, deadline } = &mut self.reason {
            *fastest += seconds;
            *deadline = asked;
        }
        for offer in &mut self.counter_offers {
            if let CounterOffer::Deadline { deadline, .. } = offer {
                // In the steps of counter-offers, upwards.
                *deadline = ((*deadline + seconds) * 10.0 - 1e-6).ceil() / 10.0;
            }
        }
    }
}

/// What kind of a reason it is, for programs: each has a word that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// A value is not one that can be judged.
    Invalid,
    /// It costs more than its budget.
    Budget,
    /// Its account has not enough, or there is none.
    Funds,
    /// Even whole processors would end it too late.
    Deadline,
    /// No node has enough processors left.
    Share,
    /// No node has enough memory left.
    Memory,
    /// Of something else that is counted there is not enough left.
    Resource,
    /// No node has enough time left before a deadline.
    Time,
    /// Somebody would be late on every node.
    Risk,
    /// Penalties would outweigh what it brings.
    Return,
    /// Not all of its chunks, nodes or jobs fit.
    Chunks,
    /// No node takes such jobs.
    NoNode,
    /// A limit of the batch system would keep it waiting. This one and those below are never said by a decision, but by who asks it.
    Limit,
    /// The partition does not take such jobs.
    Partition,
    /// It came without terms, and the site wants them.
    NoTerms,
    /// What it asks for is not understood, or cannot be had with a deadline.
    Request,
    /// Libra itself could not judge it.
    Fault,
}

impl Category {
    /// All of them, in their order.
    pub const ALL: [Category; 17] = [
        Category::Invalid,
        Category::Budget,
        Category::Funds,
        Category::Deadline,
        Category::Share,
        Category::Memory,
        Category::Resource,
        Category::Time,
        Category::Risk,
        Category::Return,
        Category::Chunks,
        Category::NoNode,
        Category::Limit,
        Category::Partition,
        Category::NoTerms,
        Category::Request,
        Category::Fault,
    ];

    /// Its word, which stays the same.
    pub fn word(self) -> &'static str {
        match self {
            Category::Invalid => "invalid",
            Category::Budget => "budget",
            Category::Funds => "funds",
            Category::Deadline => "deadline",
            Category::Share => "share",
            Category::Memory => "memory",
            Category::Resource => "resource",
            Category::Time => "time",
            Category::Risk => "risk",
            Category::Return => "return",
            Category::Chunks => "chunks",
            Category::NoNode => "no-node",
            Category::Limit => "limit",
            Category::Partition => "partition",
            Category::NoTerms => "no-terms",
            Category::Request => "request",
            Category::Fault => "fault",
        }
    }

    /// Returns true if a decision about nodes and their loads ends so: it may be another one when a job has left them.
    pub fn is_for_nodes(self) -> bool {
        match self {
            Category::Budget
            | Category::Deadline
            | Category::Share
            | Category::Memory
            | Category::Resource
            | Category::Time
            | Category::Risk
            | Category::Return
            | Category::Chunks
            | Category::NoNode
            | Category::Limit => true,
            Category::Invalid
            | Category::Funds
            | Category::Partition
            | Category::NoTerms
            | Category::Request
            | Category::Fault => false,
        }
    }

    /// Returns true if waiting does not help: the same job with the same deadline will be refused for as long as it waits. Its price rises with less
    /// time, and the time does not come back.
    pub fn is_for_good(self) -> bool {
        match self {
            Category::Budget | Category::Deadline => true,
            Category::Invalid
            | Category::Funds
            | Category::Share
            | Category::Memory
            | Category::Resource
            | Category::Time
            | Category::Risk
            | Category::Return
            | Category::Chunks
            | Category::NoNode
            | Category::Limit
            | Category::Partition
            | Category::NoTerms
            | Category::Request
            | Category::Fault => false,
        }
    }

    /// By its word.
    pub fn of_word(word: &str) -> Option<Category> {
        Category::ALL.into_iter().find(|known| known.word() == word)
    }
}

impl Serialize for Category {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}

/// Why, with the evidence in numbers; serialized, the evidence alone. `N` names a node: its index in the cluster that was judged, or
/// whatever tells it apart outside of that.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reason<N = usize> {
    /// A value is not one that can be judged.
    Invalid(OutOfRange),
    /// The job costs more than its budget.
    Budget {
        /// What it costs, credits.
        price: f64,
        /// What was offered, credits.
        budget: f64,
    },
    /// The account that pays has less than the budget. Said by who asks accounts, never by a decision over nodes.
    Funds {
        /// What was offered, credits.
        budget: f64,
        /// What the account has, credits.
        available: f64,
    },
    /// The account that pays has less than the job costs, and its budget is no limit. Said by who asks accounts, as the last one.
    Cover {
        /// What it costs, credits.
        price: f64,
        /// What the account has, credits.
        available: f64,
    },
    /// Even a processor of its own for every slot would end it after its deadline.
    Deadline {
        /// Seconds that the job takes on a whole processor of the fastest node, margin included.
        fastest: f64,
        /// The deadline, seconds.
        deadline: f64,
    },
    /// No node has enough processors left for one chunk.
    Share {
        /// Processors that a chunk needs on the node that came nearest.
        needed: f64,
        /// Processors that are free on it.
        free: f64,
        /// That node.
        node: N,
    },
    /// No node has enough memory left for one chunk.
    Memory {
        /// Bytes a chunk needs.
        needed: u64,
        /// Bytes free on the node with most.
        free: u64,
        /// That node.
        node: N,
    },
    /// No node has enough of a consumable left for one chunk, or the cluster for the job.
    Consumable {
        /// Of which.
        what: Consumable,
        /// What a chunk needs, in its unit; of one that is counted once for all nodes, the job.
        needed: u64,
        /// What is free on the node with most, or in all.
        free: u64,
        /// That node; None for what is counted once for all nodes.
        node: Option<N>,
    },
    /// Before some deadline no node has enough time left for one chunk and all that was promised.
    Time {
        /// Processor seconds that a chunk needs before it on the node that came nearest.
        needed: f64,
        /// Processor seconds that are free before it.
        free: f64,
        /// That node.
        node: N,
    },
    /// On every node somebody is late or would be.
    Risk {
        /// Seconds of delay on the node with the least.
        delay: f64,
        /// That node.
        node: N,
    },
    /// On every node the penalties to others would outweigh what the job brings.
    Return {
        /// Return of the node that came nearest, with the job.
        with: f64,
        /// Its return without.
        without: f64,
        /// That node.
        node: N,
    },
    /// Some chunks fit, but not all of them.
    Chunks {
        /// Chunks asked for.
        asked: u32,
        /// Chunks that fit.
        fit: u32,
    },
    /// There is no node that takes new jobs, or has a place for this one.
    NoNode,
}

impl<N> Reason<N> {
    /// What kind of a reason it is.
    pub fn category(&self) -> Category {
        match self {
            Reason::Invalid(_) => Category::Invalid,
            Reason::Budget { .. } => Category::Budget,
            Reason::Funds { .. } | Reason::Cover { .. } => Category::Funds,
            Reason::Deadline { .. } => Category::Deadline,
            Reason::Share { .. } => Category::Share,
            Reason::Memory { .. } => Category::Memory,
            Reason::Consumable { .. } => Category::Resource,
            Reason::Time { .. } => Category::Time,
            Reason::Risk { .. } => Category::Risk,
            Reason::Return { .. } => Category::Return,
            Reason::Chunks { .. } => Category::Chunks,
            Reason::NoNode => Category::NoNode,
        }
    }

    /// The same with another name of its node.
    pub fn named<M>(self, name: impl FnOnce(N) -> M) -> Reason<M> {
        match self {
            Reason::Invalid(error) => Reason::Invalid(error),
            Reason::Budget { price, budget } => Reason::Budget { price, budget },
            Reason::Funds { budget, available } => Reason::Funds { budget, available },
            Reason::Cover { price, available } => Reason::Cover { price, available },
            Reason::Deadline { fastest, deadline } => Reason::Deadline { fastest, deadline },
            Reason::Share { needed, free, node } => Reason::Share {
                needed,
                free,
                node: name(node),
            },
            Reason::Memory { needed, free, node } => Reason::Memory {
                needed,
                free,
                node: name(node),
            },
            Reason::Consumable {
                what,
                needed,
                free,
                node,
            } => Reason::Consumable {
                what,
                needed,
                free,
                node: node.map(name),
            },
            Reason::Time { needed, free, node } => Reason::Time {
                needed,
                free,
                node: name(node),
            },
            Reason::Risk { delay, node } => Reason::Risk {
                delay,
                node: name(node),
            },
            Reason::Return {
                with,
                without,
                node,
            } => Reason::Return {
                with,
                without,
                node: name(node),
            },
            Reason::Chunks { asked, fit } => Reason::Chunks { asked, fit },
            Reason::NoNode => Reason::NoNode,
        }
    }
}

impl Reason {
    /// The reason that one node gave. `deadline`: what was asked for, seconds.
    pub(crate) fn from_obstacle(obstacle: Obstacle, node: usize, deadline: f64) -> Reason {
        match obstacle {
            Obstacle::Slot { share } => Reason::Deadline {
                fastest: share * deadline,
                deadline,
            },
            Obstacle::Slots => Reason::NoNode,
            Obstacle::Share { needed, free } => Reason::Share { needed, free, node },
            Obstacle::Memory { needed, free } => Reason::Memory { needed, free, node },
            Obstacle::Consumable { what, needed, free } => Reason::Consumable {
                what,
                needed,
                free: free.unwrap_or(0),
                node: Some(node),
            },
            Obstacle::Time { needed, free } => Reason::Time { needed, free, node },
            Obstacle::Risk { delay } => Reason::Risk { delay, node },
            Obstacle::Return { with, without } => Reason::Return {
                with,
                without,
                node,
            },
        }
    }
}
