//! Why a job was refused: a category, the evidence in numbers, and a text for the user.

use super::counter_offer::CounterOffer;
use super::job::OutOfRange;
use super::policy::Obstacle;
use libra_units::{credits, duration, memory, processors_apart};
use std::fmt;

/// A refusal and what would be accepted instead.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Why not.
    pub reason: Reason,
    /// What would be accepted now, submitted as is; may be empty.
    pub counter_offers: Vec<CounterOffer>,
}

impl Refusal {
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

/// Category and evidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
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
        node: usize,
    },
    /// No node has enough memory left for one chunk.
    Memory {
        /// Bytes a chunk needs.
        needed: u64,
        /// Bytes free on the node with most.
        free: u64,
        /// That node.
        node: usize,
    },
    /// Before some deadline no node has enough time left for one chunk and all that was promised.
    Time {
        /// Processor seconds that a chunk needs before it on the node that came nearest.
        needed: f64,
        /// Processor seconds that are free before it.
        free: f64,
        /// That node.
        node: usize,
    },
    /// On every node somebody is late or would be.
    Risk {
        /// Seconds of delay on the node with the least.
        delay: f64,
        /// That node.
        node: usize,
    },
    /// On every node the penalties to others would outweigh what the job brings.
    Return {
        /// Return of the node that came nearest, with the job.
        with: f64,
        /// Its return without.
        without: f64,
        /// That node.
        node: usize,
    },
    /// Some chunks fit, but not all of them.
    Chunks {
        /// Chunks asked for.
        asked: u32,
        /// Chunks that fit.
        fit: u32,
    },
    /// There is no node that takes new jobs.
    NoNode,
}

impl Reason {
    /// A word for machines, stable: `invalid`, `budget`, `funds`, `deadline`, `share`, `memory`, `time`,
    /// `risk`, `return`, `chunks`, `no-node`.
    pub fn category(&self) -> &'static str {
        match self {
            Reason::Invalid(_) => "invalid",
            Reason::Budget { .. } => "budget",
            Reason::Funds { .. } | Reason::Cover { .. } => "funds",
            Reason::Deadline { .. } => "deadline",
            Reason::Share { .. } => "share",
            Reason::Memory { .. } => "memory",
            Reason::Time { .. } => "time",
            Reason::Risk { .. } => "risk",
            Reason::Return { .. } => "return",
            Reason::Chunks { .. } => "chunks",
            Reason::NoNode => "no-node",
        }
    }

    /// The reason that one node gave. `deadline`: what was asked for, seconds.
    pub(crate) fn from_obstacle(obstacle: Obstacle, node: usize, deadline: f64) -> Reason {
        match obstacle {
            Obstacle::Slot { share } => Reason::Deadline {
                fastest: share * deadline,
                deadline,
            },
            Obstacle::Share { needed, free } => Reason::Share { needed, free, node },
            Obstacle::Memory { needed, free } => Reason::Memory { needed, free, node },
            Obstacle::Time { needed, free } => Reason::Time { needed, free, node },
            Obstacle::Risk { delay } => Reason::Risk { delay, node },
            Obstacle::Return { with, without } => Reason::Return {
                with,
                without,
                node,
            },
        }
    }

    /// The text for the user; `name` gives the name of a node.
    pub fn text(&self, name: impl Fn(usize) -> String) -> String {
        match *self {
            Reason::Invalid(error) => error.to_string(),
            Reason::Budget { price, budget } => format!(
                "the job costs {} credits and the budget is {}",
                credits(price),
                credits(budget)
            ),
            Reason::Funds { budget, available } => format!(
                "the budget is {} credits and the account has {} available",
                credits(budget),
                credits(available)
            ),
            Reason::Cover { price, available } => format!(
                "the job costs {} credits and the account has {} available",
                credits(price),
                credits(available)
            ),
            Reason::Deadline { fastest, deadline } => format!(
                "a processor of its own would need {} and the deadline is {}",
                duration::show(fastest),
                duration::show(deadline)
            ),
            Reason::Share { needed, free, node } => {
                let (needed, free) = processors_apart(needed, free);
                format!(
                    "it needs {needed} processors until its deadline and {}, the node that comes nearest, has {free} left",
                    name(node)
                )
            }
            Reason::Memory { needed, free, node } => format!(
                "it needs {} of memory and {}, the node that comes nearest, has {} left",
                memory::show(needed),
                name(node),
                memory::show(free)
            ),
            Reason::Time { needed, free, node } => format!(
                "beside what was promised to others it needs {} of processor time and {}, the node that comes nearest, has {} left before its deadline",
                duration::show(needed),
                name(node),
                duration::show(free)
            ),
            Reason::Risk { delay, node } => format!(
                "somebody would be late on every node; on {}, the one that comes nearest, by {} or more",
                name(node),
                duration::show(delay)
            ),
            Reason::Return { node, .. } => format!(
                "on every node the penalties to others would outweigh its budget; {} comes nearest",
                name(node)
            ),
            Reason::Chunks { asked, fit } => {
                format!("it asks for {asked} chunks and {fit} of them would fit now")
            }
            Reason::NoNode => "no node takes new jobs now".to_string(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|node| format!("node {node}")))
    }
}
