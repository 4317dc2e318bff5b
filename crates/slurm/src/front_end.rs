//! What Slurm's side translates for [`libra_batch::front_end`]: a submission with the partitions and nodes that it may have, and a
//! counter-offer as sbatch takes it.

use super::QUOTE_OPTION;
use super::counted::Known;
use super::gres::untyped;
use super::others::NodeTaken;
use super::problem::{ClosedBy, Lack, Problem};
use super::records::{Memory, MemoryRule, Partition};
use super::submission::{Asked, Submission};
use super::words::{option, write_processors};
use libra_batch::front_end::{Domain, Fewer, FrontEnd, JobSpecification, OnAccount, TimeLimit};
use libra_batch::words::Written;
use libra_core::book::Book;
use libra_core::book::held_quote::{HeldQuote, Order};
use libra_core::decision::class_defaults::ClassDefaults;
use libra_core::decision::consumable::{Amounts, Scope};
use libra_core::decision::job::{Request, Shape};
use libra_units::indices;
use std::collections::{HashMap, HashSet};

/// What is known of Slurm beside the book.
pub struct Front {
    /// Partitions whose processors jobs with terms share, as configured; none: all that Slurm shares.
    pub(super) wanted: Vec<String>,
    /// Partitions that take jobs with terms.
    pub(super) shared: Vec<SharedPartition>,
    /// How many nodes the book had when `shared` was made, and which partitions were wanted.
    shared_for: (usize, Vec<String>),
    pub(super) partitions: Vec<Partition>,
    /// Nodes of Libra's partitions.
    pub(super) libra_nodes: HashSet<String>,
    features: HashMap<String, Vec<String>>,
    pub(super) largest: u32,
    /// Generic resources and licences.
    pub(super) gres: Known,
    /// What jobs without a promise hold of nodes.
    pub(super) taken: HashMap<String, NodeTaken>,
    /// How memory is counted.
    pub(super) memory: MemoryRule,
    /// Nodes that were taken by the components so far of each user's last heterogeneous job.
    pub(super) components: HashMap<u32, Vec<String>>,
    /// Names of users, where the site has accounts; None for a number without a name.
    pub(super) users: HashMap<u32, Option<String>>,
    /// Classes of jobs that name none.
    pub(super) classes: ClassDefaults,
    /// Jobs that may be made to stand still for others.
    pub(super) suspendable: HashSet<String>,
}

/// Which places of a node count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Those that nobody has now.
    Now,
    /// All, whoever has them now.
    Ever,
}

pub(super) struct SharedPartition {
    pub(super) name: String,
    default: bool,
    /// Seconds; infinite for no limit.
    pub(super) longest: f64,
    /// By the book's index.
    nodes: Vec<bool>,
    jobs_per_processor: u32,
    default_memory: Option<Memory>,
}

impl FrontEnd for Front {
    type Submission = Submission;
    type Asked = Asked;
    type Problem = Problem;

    /// Slurm's clients print a line of any length, logs are for people.
    const LONGEST_ANSWER: usize = 8000;
    const PINS_ALL: bool = true;

    fn specification(
        &self,
        book: &Book,
        submission: &Submission,
        question: bool,
        now: f64,
    ) -> Result<JobSpecification<Front>, Problem> {
        let candidates = self.candidates(submission);
        let partitions: Vec<&str> = (candidates.iter().flatten())
            .map(|&index| self.shared[index].name.as_str())
            .collect();
        let (asked, class_line, has_budget) = match question {
            true => submission.read_question(&self.classes, &partitions, now)?,
            false => {
                let (asked, class_line) = submission.read(&self.classes, &partitions, now)?;
                (asked, class_line, true)
            }
        };
        let mut shape = submission.shape(self.largest)?;
        let deferred = submission.deferred(&asked, now)?;
        let room = match deferred {
            None => Room::Now,
            Some(_) => Room::Ever,
        };
        let candidates = candidates?;
        self.give_memory(submission, &candidates, &mut shape)?;
        shape.consumables = self.gres.amounts(submission, &shape)?;
        let mut domains = (candidates.into_iter())
            .map(|partition| self.domain(book, partition, submission, &asked, &shape, room));
        let domain = domains.next().ok_or(Problem::NoPartition)?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Ok(JobSpecification {
            request: Request {
                terms: asked.terms,
                shape,
            },
            class_line,
            has_budget,
            array: match asked.array.len() {
                0 => None,
                count => Some(u32::try_from(count).unwrap_or(u32::MAX)),
            },
            deferred,
            account: match self.users.get(&submission.user) {
                Some(Some(user)) => Ok(OnAccount {
                    user: user.clone(),
                    project: submission.account.clone(),
                }),
                _ => Err(format!(
                    "user {} has no name on the host of slurmctld",
                    submission.user
                )),
            },
            domain,
            alternatives: domains.collect(),
            conditions: vec![
                ("partition", text(&submission.partition)),
                ("list of array tasks", indices::show(&asked.array)),
                ("nodelist", submission.required_nodes.join(",")),
                (
                    "list of excluded nodes",
                    submission.excluded_nodes.join(","),
                ),
                ("constraint", text(&submission.features)),
            ],
            asked,
        })
    }

    fn order<'a>(&self, submission: &'a Submission) -> Option<&'a str> {
        submission.quote()
    }

    fn user(&self, submission: &Submission) -> String {
        submission.user.to_string()
    }

    fn may_ask(&self, submission: &Submission) -> Result<(), Problem> {
        match submission.component {
            Some(_) => Err(Problem::Heterogeneous),
            None => Ok(()),
        }
    }

    /// Parts of one job begin together, and tasks of an array are many jobs.
    fn may_be_planned(&self, submission: &Submission) -> bool {
        submission.component.is_none()
    }

    fn may_be_suspended(&self, id: &str) -> bool {
        self.suspendable.contains(id)
    }

    fn may_redeem(
        &self,
        submission: &Submission,
        number: &str,
        held: &HeldQuote,
    ) -> Result<(), Problem> {
        let number = number.to_string();
        if self.shared(&held.place).is_none() {
            let partition = held.place.clone();
            return Err(Problem::QuoteElsewhere { number, partition });
        }
        // It may be a test, which must not use it up, or may only say so, and then be queued.
        match submission.without_session {
            true => Err(Problem::QuoteInTest {
                number,
                price: held.offer.price,
            }),
            false => Ok(()),
        }
    }

    /// Slurm's users know nodes and jobs; chunks are PBS's word.
    fn pieces(jobs: u32) -> Option<&'static str> {
        Some(if jobs > 1 { "jobs" } else { "nodes" })
    }

    fn write_term(key: &str, value: &str) -> String {
        option(key, value)
    }

    fn write_processors(submission: &Submission, _asked: &Asked, fewer: &Fewer) -> Option<Written> {
        write_processors(submission, fewer)
    }

    fn write_quote(number: &str) -> String {
        format!("sbatch --{QUOTE_OPTION}={number}")
    }
}

/// Keeps the nodes that a condition holds for; without any, this is what all lack.
type Keep<'a> = dyn FnMut(&dyn Fn(usize) -> bool, &dyn Fn() -> Lack) -> Result<(), Problem> + 'a;

impl Front {
    /// Of a Slurm of which nothing was read yet.
    pub(super) fn new() -> Front {
        Front {
            wanted: Vec::new(),
            shared: Vec::new(),
            shared_for: (0, Vec::new()),
            partitions: Vec::new(),
            libra_nodes: HashSet::new(),
            features: HashMap::new(),
            largest: 1,
            gres: Known::default(),
            taken: HashMap::new(),
            memory: MemoryRule::default(),
            components: HashMap::new(),
            users: HashMap::new(),
            classes: ClassDefaults::default(),
            suspendable: HashSet::new(),
        }
    }

    /// The partition of this name, if jobs with terms may go there.
    pub(super) fn shared(&self, name: &str) -> Option<&SharedPartition> {
        self.shared.iter().find(|partition| partition.name == name)
    }

    /// Takes partitions and nodes as Slurm has them; the book has its nodes already. What was there before is handed back.
    pub(super) fn set_partitions(
        &mut self,
        partitions: &mut Vec<Partition>,
        features: &mut HashMap<String, Vec<String>>,
        nodes: &[super::records::Node],
        book: &Book,
    ) {
        std::mem::swap(&mut self.features, features);
        self.largest = (nodes.iter())
            .filter(|node| self.libra_nodes.contains(&node.name))
            .map(|node| node.processors)
            .max()
            .unwrap_or(1);
        let made_for = (book.node_count(), self.wanted.clone());
        if self.partitions == *partitions && self.shared_for == made_for {
            return;
        }
        self.shared_for = made_for;
        std::mem::swap(&mut self.partitions, partitions);
        self.shared = Vec::new();
        for partition in self.partitions.iter().filter(|partition| partition.up) {
            if !partition.is_shared(&self.wanted) {
                continue;
            }
            let names: HashSet<&str> = partition.nodes.iter().map(String::as_str).collect();
            self.shared.push(SharedPartition {
                name: partition.name.clone(),
                default: partition.default,
                longest: partition
                    .longest
                    .map_or(f64::INFINITY, |minutes| f64::from(minutes) * 60.0),
                nodes: (0..book.node_count())
                    .map(|index| names.contains(book.node_name(index)))
                    .collect(),
                jobs_per_processor: partition.jobs_per_processor.max(1),
                default_memory: partition.default_memory,
            });
        }
    }

    /// Partitions to be tried, by their index, in the user's order.
    pub(super) fn candidates(&self, submission: &Submission) -> Result<Vec<usize>, Problem> {
        if self.shared.is_empty() {
            return Err(Problem::NoPartition);
        }
        let Some(named) = &submission.partition else {
            let default = self.shared.iter().position(|partition| partition.default);
            return Ok(vec![default.unwrap_or(0)]);
        };
        let mut found: Vec<usize> = Vec::new();
        for name in named.split(',') {
            let known = self.shared.iter().position(|p| p.name == name.trim());
            // Each is tried once, however often it is named.
            found.extend(known.filter(|index| !found.contains(index)));
        }
        if found.is_empty() {
            return Err(Problem::OtherPartition {
                named: named.clone(),
                others: self.shared.iter().map(|p| p.name.clone()).collect(),
            });
        }
        Ok(found)
    }

    /// What a job has that names no memory, as Slurm will give it: where it may go to several partitions, the most.
    fn give_memory(
        &self,
        submission: &Submission,
        candidates: &[usize],
        shape: &mut Shape,
    ) -> Result<(), Problem> {
        let named = match submission.memory {
            _ if !self.memory.counted => return Ok(()),
            Some(Memory::AllOfNode) => return Err(Problem::WholeMemory(true)),
            Some(_) => return Ok(()),
            None => candidates
                .iter()
                .map(|&index| self.shared[index].default_memory),
        };
        for default in named {
            let bytes = default
                .or(self.memory.default)
                .and_then(|memory| memory.bytes(shape.processors_per_chunk))
                .ok_or(Problem::WholeMemory(false))?;
            shape.memory_per_chunk = shape.memory_per_chunk.max(bytes);
        }
        Ok(())
    }

    fn domain(
        &self,
        book: &Book,
        partition: usize,
        submission: &Submission,
        asked: &Asked,
        shape: &Shape,
        room: Room,
    ) -> Domain<Problem> {
        let partition = &self.shared[partition];
        let nodes = self.allowed(book, partition, submission, asked, shape, room);
        Domain {
            name: partition.name.clone(),
            nodes: nodes.map(Some),
            limit: Some(TimeLimit {
                longest: partition.longest,
                problem: |partition, longest, terms| Problem::ShortPartition {
                    partition: partition.to_string(),
                    longest,
                    term: match terms.lacks_deadline() {
                        true => "estimate",
                        false => "deadline",
                    },
                    seconds: terms.expected_end(),
                },
            }),
        }
    }

    /// Keeps nodes that have such generic resources at all, whoever has them now; of those of which no type is named, alike ones.
    fn keep_gres<'a>(
        &self,
        amounts: &Amounts,
        name: &dyn Fn(usize) -> &'a str,
        keep: &mut Keep<'_>,
    ) -> Result<(), Problem> {
        let of = |index: usize| self.gres.nodes.get(name(index));
        for (what, needed) in amounts.counted(Scope::Node) {
            keep(
                &|index| of(index).is_some_and(|node| node.amount(what) >= needed),
                &|| Lack::Gres { what, needed },
            )?;
        }
        for what in untyped(amounts) {
            keep(
                &|index| of(index).is_some_and(|node| !node.mixed.contains(&what)),
                &|| Lack::OneType(what),
            )?;
        }
        Ok(())
    }

    /// How many slots of each node may be taken.
    pub(super) fn allowed(
        &self,
        book: &Book,
        partition: &SharedPartition,
        submission: &Submission,
        asked: &Asked,
        shape: &Shape,
        room: Room,
    ) -> Result<Vec<u32>, Problem> {
        let mut allowed = partition.nodes.clone();
        let mut keep = |keep: &dyn Fn(usize) -> bool, lacks: &dyn Fn() -> Lack| {
            for (index, allowed) in allowed.iter_mut().enumerate() {
                *allowed = *allowed && keep(index);
            }
            match allowed.contains(&true) {
                true => Ok(()),
                false => Err(Problem::NoNode {
                    partition: partition.name.clone(),
                    lacks: lacks(),
                }),
            }
        };
        let name = |index: usize| book.node_name(index);
        let required = &submission.required_nodes;
        if !required.is_empty() {
            if required.len() > shape.chunks as usize && asked.array.is_empty() {
                return Err(Problem::NodeList {
                    named: required.len(),
                    asked: shape.chunks,
                });
            }
            let names: HashSet<&str> = required.iter().map(String::as_str).collect();
            keep(&|index| names.contains(name(index)), &|| {
                Lack::Listed(required.clone())
            })?;
        }
        let excluded = &submission.excluded_nodes;
        if !excluded.is_empty() {
            let names: HashSet<&str> = excluded.iter().map(String::as_str).collect();
            keep(&|index| !names.contains(name(index)), &|| {
                Lack::Left(excluded.clone())
            })?;
        }
        if !asked.features.is_empty() {
            keep(
                &|index| {
                    (self.features.get(name(index)))
                        .is_some_and(|has| asked.features.iter().all(|f| has.contains(f)))
                },
                &|| Lack::Features(asked.features.clone()),
            )?;
        }
        // Slurm never starts a job two components of which share a processor.
        if let (Some(1..), Some(taken)) =
            (submission.component, self.components.get(&submission.user))
        {
            keep(
                &|index| !taken.iter().any(|node| node == name(index)),
                &|| Lack::OtherComponents,
            )?;
        }
        // Slurm gives a job no processor of a node twice.
        let wanted = u64::from(shape.processors_per_chunk);
        keep(
            // What is kept for the system is taken off all processors of a node, not one of them.
            &|index| wanted as f64 <= book.processors(index).ceil(),
            &|| Lack::Processors(wanted),
        )?;
        self.keep_gres(&shape.consumables, &name, &mut keep)?;
        let taken = |index: usize| match room {
            Room::Now => self.taken.get(name(index)),
            Room::Ever => None,
        };
        let closed =
            |index: usize| -> Option<&ClosedBy> { taken(index)?.closed_to(submission.user) };
        if !self.taken.is_empty() {
            let mut of_partition = partition.nodes.iter().enumerate().filter(|(_, is)| **is);
            let by = of_partition.find_map(|(index, _)| closed(index));
            if let Some(by) = by {
                keep(&|index| closed(index).is_none(), &|| Lack::Open(by.clone()))?;
            }
        }
        // Slurm itself lets only so many jobs on a processor; one more would wait.
        let per_processor = partition.jobs_per_processor;
        let open = |index: usize| match room {
            Room::Now => {
                let others = taken(index).map_or(0, |taken| taken.places_of(&partition.name));
                open_slots(book, index, per_processor, others, shape)
            }
            Room::Ever => whole_jobs(book, index, places(book, index, per_processor), shape),
        };
        keep(&|index| open(index) > 0, &|| Lack::Room(per_processor))?;
        let holds = matches!(
            submission.quote().map(Order::parse),
            Some(Ok(Order::Question { hold: Some(_), .. }))
        );
        let quotable = |index: usize| quotable_slots(book, index, per_processor, shape);
        if holds {
            keep(&|index| quotable(index) > 0, &|| Lack::QuoteRoom)?;
        }
        Ok((allowed.into_iter().enumerate())
            .map(|(index, allowed)| match (allowed, holds) {
                (false, _) => 0,
                (true, false) => open(index),
                (true, true) => open(index).min(quotable(index)),
            })
            .collect())
    }
}

/// Held quotes take at most this part of a node's places, all together: the rest is for jobs, which pay.
const QUOTED_PART: u64 = 2;

/// Slots of a node that Slurm still gives to jobs of this shape.
fn open_slots(
    book: &Book,
    index: usize,
    jobs_per_processor: u32,
    others: u64,
    shape: &Shape,
) -> u32 {
    let taken = book.slots_on(index).saturating_add(others);
    let free = places(book, index, jobs_per_processor).saturating_sub(taken);
    whole_jobs(book, index, free, shape)
}

/// Slots of a node that quotes may still hold for jobs of this shape.
fn quotable_slots(book: &Book, index: usize, jobs_per_processor: u32, shape: &Shape) -> u32 {
    let most = places(book, index, jobs_per_processor).div_ceil(QUOTED_PART);
    let free = most.saturating_sub(book.quoted_slots_on(index));
    whole_jobs(book, index, free, shape)
}

/// Places of a node: slots that Slurm gives out there.
fn places(book: &Book, index: usize, jobs_per_processor: u32) -> u64 {
    // What is kept for the system is taken off all processors of a node, not one of them.
    book.processors(index).ceil() as u64 * u64::from(jobs_per_processor)
}

/// Of so many slots those that jobs of this shape can have. Slurm fills a node's processors as often as jobs may share one, and each time
/// with whole jobs: what such a row has left is lost to jobs that are wider.
fn whole_jobs(book: &Book, index: usize, slots: u64, shape: &Shape) -> u32 {
    let wide = u64::from(shape.processors_per_chunk).max(1);
    let processors = book.processors(index).ceil() as u64;
    let in_a_row = processors / wide;
    let jobs = (slots.saturating_mul(in_a_row)).checked_div(processors);
    // The largest number stands for no limit, and is none that is reached.
    u32::try_from(jobs.unwrap_or(0).saturating_mul(wide)).unwrap_or(u32::MAX)
}
