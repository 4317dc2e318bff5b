//! The admitting side: one book for one slurmctld, and the site's rules.
//!
//! Invariants:
//! - A submission is answered from memory alone; clocks, files and Slurm itself belong to the caller.
//! - Until Slurm's records have been read once nothing is judged, and the answer is [`Answer::NotReady`]: clients try again
//!   by themselves.
//! - An acceptance holds its share until a later look at the queue either shows its job or does not.

use super::array::SoldJob;
use super::records::Partition;
use super::submission::{Asked, NotJudged, Submission};
use crate::book::{Admitted, Book, BookError};
use crate::config::{Config, WithoutTerms};
use crate::decision::counter_offer::CounterOffer;
use crate::decision::job::{Request, Shape};
use crate::decision::refusal::Reason;
use crate::sold::{Sold, SoldPlace};
use crate::text::{credits, duration};
use crate::verdict;
use std::collections::{HashMap, HashSet};

/// One slurmctld's book.
pub struct Controller {
    pub(super) book: Book,
    without_terms: WithoutTerms,
    wanted: Vec<String>,
    /// Partitions that take jobs with terms.
    shared: Vec<SharedPartition>,
    /// How many nodes the book had when `shared` was made, and which partitions were wanted.
    shared_for: (usize, Vec<String>),
    pub(super) partitions: Vec<Partition>,
    /// Nodes of Libra's partitions.
    pub(super) libra_nodes: HashSet<String>,
    features: HashMap<String, Vec<String>>,
    largest: u32,
    /// Numbers of the jobs, or arrays, that were sold something.
    pub(super) sold_jobs: HashSet<u32>,
    /// The largest number of a job that was seen.
    pub(super) newest_job: u32,
    /// Acceptances of submissions that most likely were tests: token and when.
    pub(super) tests: Vec<(u64, f64)>,
    /// When the records that were read last were taken.
    pub(super) read: Option<f64>,
    /// When it was made, Unix time.
    pub(super) begun: f64,
    /// Nodes that were taken by the components so far of each user's last heterogeneous job.
    components: HashMap<u32, Vec<String>>,
}

struct SharedPartition {
    name: String,
    default: bool,
    /// Seconds; infinite for no limit.
    longest: f64,
    /// By the book's index.
    nodes: Vec<bool>,
    jobs_per_processor: u32,
}

/// What becomes of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It goes on as it is: it has no terms.
    Pass,
    /// It has no terms and goes on, but not on these nodes.
    PassWithout(Vec<String>),
    /// It is accepted; the job is to be changed so.
    Accept(Box<Accepted>),
    /// It is refused, for this reason.
    Refuse(String),
    /// Slurm's records were not read yet.
    NotReady,
}

/// An accepted job.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The partition it goes to.
    pub partition: String,
    /// The nodes it is pinned to; empty for an array that is pinned task by task.
    pub nodes: Vec<String>,
    /// Nodes that it asks for.
    pub node_count: u32,
    /// Tasks on each of them, where it said how many tasks.
    pub tasks_per_node: Option<u32>,
    /// Held until its tasks are pinned.
    pub hold: bool,
    /// Admin comment.
    pub admin_comment: String,
    /// The line of what was sold, for the nodes.
    pub sold: String,
    /// Minutes that Slurm lets it run.
    pub time_limit: u32,
    /// For the user.
    pub quote: String,
}

/// A change of a job that somebody asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// Number of the job or array as it was given: `12`, `12_3`, `12_[1-3]`, `12+1`.
    pub job: String,
    /// Is it Slurm's administrator?
    pub by_administrator: bool,
    /// What of it that was sold with the job: `TimeLimit`, `NodeList` and such; empty for a change of anything else.
    pub sold_with_it: Vec<&'static str>,
    /// The new admin comment.
    pub admin_comment: Option<String>,
    /// The new comment.
    pub comment: Option<String>,
}

impl Controller {
    /// Without nodes and jobs. `now`: Unix time.
    pub fn new(config: &Config, now: f64) -> Controller {
        let mut controller = Controller {
            book: Book::new(config.admission(), config.provisional_seconds()),
            without_terms: WithoutTerms::default(),
            wanted: Vec::new(),
            shared: Vec::new(),
            shared_for: (0, Vec::new()),
            partitions: Vec::new(),
            libra_nodes: HashSet::new(),
            features: HashMap::new(),
            largest: 1,
            sold_jobs: HashSet::new(),
            newest_job: 0,
            tests: Vec::new(),
            read: None,
            begun: now,
            components: HashMap::new(),
        };
        // Microseconds: no earlier book of this cluster has come so far.
        controller
            .book
            .tokens_from((now.clamp(0.0, 4e9) * 1e6) as u64);
        controller.configure(config);
        controller
    }

    /// Decides by these rules from now on; other partitions count from the next records on.
    pub fn configure(&mut self, config: &Config) {
        self.book.set_admission(config.admission());
        self.book.starts_within(config.slurm.start_delay.0);
        self.without_terms = config.slurm.without_terms;
        self.wanted = config.slurm.partitions.clone();
        // Every look does it, so that no submission has to wait for it.
        self.book
            .refresh_waiting_every(3.0 * config.slurm.interval.0);
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// When the records that were read last were taken, Unix time.
    pub fn read_at(&self) -> Option<f64> {
        self.read
    }

    /// Partitions whose processors jobs with terms share, as configured; none: all that Slurm shares.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// Takes partitions and nodes as Slurm has them; the book has its nodes already. What was there before is handed back.
    pub(super) fn set_partitions(
        &mut self,
        partitions: &mut Vec<Partition>,
        features: &mut HashMap<String, Vec<String>>,
        nodes: &[super::records::Node],
    ) {
        std::mem::swap(&mut self.features, features);
        self.largest = (nodes.iter())
            .filter(|node| self.libra_nodes.contains(&node.name))
            .map(|node| node.processors)
            .max()
            .unwrap_or(1);
        let made_for = (self.book.node_count(), self.wanted.clone());
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
                nodes: (0..self.book.node_count())
                    .map(|index| names.contains(self.book.node_name(index)))
                    .collect(),
                jobs_per_processor: partition.jobs_per_processor.max(1),
            });
        }
    }

    /// Judges a submission. `now`: Unix time.
    pub fn submit(&mut self, submission: &Submission, now: f64) -> Answer {
        // Only the rule that looks at nodes has to wait for them.
        let looks = submission.has_terms() || self.without_terms == WithoutTerms::OtherNodes;
        if self.read.is_none() && looks {
            return Answer::NotReady;
        }
        if matches!(submission.component, None | Some(0)) {
            self.components.remove(&submission.user);
        }
        if !submission.has_terms() {
            return self.submit_without_terms(submission);
        }
        let judged = submission
            .read(now)
            .and_then(|asked| Ok((asked, submission.shape(self.largest)?)))
            .and_then(|(asked, shape)| self.judge(submission, &asked, shape, now));
        match judged {
            Ok(accepted) => {
                if submission.component.is_some() {
                    let taken = self.components.entry(submission.user).or_default();
                    taken.extend(accepted.nodes.iter().cloned());
                }
                Answer::Accept(Box::new(accepted))
            }
            Err(problem) => {
                let text = in_few_words(problem.to_string());
                match text.starts_with("libra:") {
                    true => Answer::Refuse(text),
                    false => Answer::Refuse(format!("libra: {text}")),
                }
            }
        }
    }

    fn judge(
        &mut self,
        submission: &Submission,
        asked: &Asked,
        shape: Shape,
        now: f64,
    ) -> Result<Accepted, NotJudged> {
        let request = Request {
            terms: asked.terms,
            shape,
        };
        let count = u32::try_from(asked.array.len()).unwrap_or(u32::MAX).max(1);
        let mut refusal = None;
        for partition in self.candidates(submission)? {
            if asked.terms.deadline > self.shared[partition].longest {
                refusal.get_or_insert(NotJudged::Other(format!(
                    "partition {} ends jobs after {} and the deadline is {}; give a deadline of at most that",
                    self.shared[partition].name,
                    duration::show(self.shared[partition].longest),
                    duration::show(asked.terms.deadline)
                )));
                continue;
            }
            let allowed = match self.allowed(partition, submission, asked, &shape) {
                Ok(allowed) => allowed,
                Err(problem) => {
                    refusal.get_or_insert(problem);
                    continue;
                }
            };
            let admitted = match asked.array.len() {
                0 => (self.book.admit_among(&request, Some(&allowed), now))
                    .map(|admitted| (admitted, true)),
                _ => self.book.admit_array(&request, count, Some(&allowed), now),
            };
            match admitted {
                Ok((admitted, pinned)) => {
                    if submission.without_session {
                        let tokens = admitted.token..admitted.token + u64::from(count);
                        self.tests.extend(tokens.map(|token| (token, now)));
                    }
                    return Ok(self.accepted(
                        submission, asked, &request, partition, &admitted, pinned, now,
                    ));
                }
                Err(error) => {
                    let text = self.refusal_text(&error, submission, &request, count);
                    refusal.get_or_insert(NotJudged::Other(text));
                }
            }
        }
        Err(refusal.unwrap_or_else(|| NotJudged::Other("there is no partition for it".to_string())))
    }

    /// Partitions to be tried, by their index, in the user's order.
    fn candidates(&self, submission: &Submission) -> Result<Vec<usize>, NotJudged> {
        if self.shared.is_empty() {
            return Err(NotJudged::Other(
                "no partition of this cluster lets jobs share processors (OverSubscribe=FORCE), so none takes jobs with a deadline; tell the administrators"
                    .to_string(),
            ));
        }
        let Some(named) = &submission.partition else {
            let default = self.shared.iter().position(|partition| partition.default);
            return Ok(vec![default.unwrap_or(0)]);
        };
        let found: Vec<usize> = (named.split(','))
            .filter_map(|name| self.shared.iter().position(|p| p.name == name.trim()))
            .collect();
        if found.is_empty() {
            let names: Vec<&str> = self.shared.iter().map(|p| p.name.as_str()).collect();
            return Err(NotJudged::Other(format!(
                "partition {named} takes no jobs with a deadline; submit to {}",
                names.join(" or ")
            )));
        }
        Ok(found)
    }

    /// Which nodes may be taken.
    fn allowed(
        &self,
        partition: usize,
        submission: &Submission,
        asked: &Asked,
        shape: &Shape,
    ) -> Result<Vec<bool>, NotJudged> {
        let partition = &self.shared[partition];
        let mut allowed = partition.nodes.clone();
        let mut keep = |keep: &dyn Fn(usize) -> bool, what: &dyn Fn() -> String| {
            for (index, allowed) in allowed.iter_mut().enumerate() {
                *allowed = *allowed && keep(index);
            }
            match allowed.contains(&true) {
                true => Ok(()),
                false => Err(NotJudged::Other(format!(
                    "refused (no-node): none of the nodes of partition {} {}",
                    partition.name,
                    what()
                ))),
            }
        };
        let name = |index: usize| self.book.node_name(index);
        let required = &submission.required_nodes;
        if !required.is_empty() {
            if required.len() > shape.chunks as usize && asked.array.is_empty() {
                return Err(NotJudged::Other(format!(
                    "--nodelist names {} nodes for a job of {}; name as many, or leave the choice to Libra",
                    required.len(),
                    shape.chunks
                )));
            }
            keep(
                &|index| required.iter().any(|node| node == name(index)),
                &|| format!("is one of {}", required.join(",")),
            )?;
        }
        let excluded = &submission.excluded_nodes;
        if !excluded.is_empty() {
            keep(
                &|index| !excluded.iter().any(|node| node == name(index)),
                &|| format!("is left by --exclude={}", excluded.join(",")),
            )?;
        }
        if !asked.features.is_empty() {
            keep(
                &|index| {
                    (self.features.get(name(index)))
                        .is_some_and(|has| asked.features.iter().all(|f| has.contains(f)))
                },
                &|| format!("has {}", asked.features.join(" and ")),
            )?;
        }
        // Slurm never starts a job two components of which share a processor.
        if let (Some(1..), Some(taken)) =
            (submission.component, self.components.get(&submission.user))
        {
            keep(
                &|index| !taken.iter().any(|node| node == name(index)),
                &|| "is free of the other components of this job".to_string(),
            )?;
        }
        // Slurm gives a job no processor of a node twice.
        let wanted = u64::from(shape.processors_per_chunk);
        keep(
            &|index| wanted as f64 <= self.book.processors(index),
            &|| format!("has {wanted} processors"),
        )?;
        // Slurm itself lets only so many jobs on a processor; one more would wait.
        let most = f64::from(partition.jobs_per_processor);
        keep(
            &|index| {
                let processors = self.book.processors(index);
                (self.book.slots_on(index) + wanted) as f64 <= most * processors
            },
            &|| {
                format!(
                    "has room for another job: at most {} may share a processor (OverSubscribe=FORCE:{})",
                    partition.jobs_per_processor, partition.jobs_per_processor
                )
            },
        )?;
        Ok(allowed)
    }

    #[allow(clippy::too_many_arguments)]
    fn accepted(
        &self,
        submission: &Submission,
        asked: &Asked,
        request: &Request,
        partition: usize,
        admitted: &Admitted,
        pinned: bool,
        now: f64,
    ) -> Accepted {
        let count = u32::try_from(asked.array.len()).unwrap_or(u32::MAX).max(1);
        let sold = Sold {
            token: admitted.token,
            submitted: now,
            request: *request,
            price: admitted.price / f64::from(count),
            count,
            places: (admitted.places.iter())
                .map(|place| SoldPlace {
                    node: self.book.node_name(place.node).to_string(),
                    chunks: place.chunks,
                    share: place.share,
                })
                .collect(),
        };
        let partition = &self.shared[partition];
        let terms = &request.terms;
        // It shares its processor, so it takes longer than its estimate; past its deadline it gets whole ones. Whoever
        // needs another estimate more is stuck, unless the user asked for a longer time.
        let asked_time = f64::from(submission.time_limit.unwrap_or(0)) * 60.0;
        let longest = (terms.deadline + terms.estimate)
            .max(asked_time)
            .min(partition.longest);
        let quote = verdict::accepted(&sold, admitted.price, true);
        let sold_job = SoldJob {
            sold,
            tasks: asked.array.clone(),
        };
        let nodes: Vec<String> = match pinned {
            true => (sold_job.sold.places.iter())
                .map(|place| place.node.clone())
                .collect(),
            false => Vec::new(),
        };
        Accepted {
            partition: partition.name.clone(),
            nodes,
            node_count: request.shape.chunks,
            tasks_per_node: (submission.tasks)
                .filter(|_| request.shape.scatter)
                .map(|tasks| tasks.max(1) / request.shape.chunks),
            hold: !pinned,
            admin_comment: sold_job.comment(),
            sold: sold_job.line(),
            time_limit: (longest / 60.0).ceil().max(1.0) as u32,
            quote: format!("libra: {quote}"),
        }
    }

    fn refusal_text(
        &self,
        error: &BookError,
        submission: &Submission,
        request: &Request,
        count: u32,
    ) -> String {
        let BookError::Refused(refusal) = error else {
            return error.to_string();
        };
        let write = |offer: &CounterOffer| write_offer(offer, submission, request, count);
        let name = |index: usize| self.book.node_name(index).to_string();
        let text = verdict::refused(refusal, count, &name, &write);
        // Slurm's users know nodes and jobs; chunks are PBS's word.
        let Reason::Chunks { asked, fit } = refusal.reason else {
            return text;
        };
        let what = if count > 1 { "jobs" } else { "nodes" };
        text.replacen(
            &format!(
                "refused ({}): {}",
                refusal.reason.category(),
                refusal.reason.text(name)
            ),
            &format!(
                "refused ({what}): it asks for {asked} {what} and there is room for {fit} now"
            ),
            1,
        )
    }

    fn submit_without_terms(&self, submission: &Submission) -> Answer {
        match self.without_terms {
            WithoutTerms::BestEffort | WithoutTerms::LeaveAlone => Answer::Pass,
            WithoutTerms::Refuse => Answer::Refuse(
                "libra: jobs on this cluster need a deadline, a budget and an estimate: \
                 sbatch --sla-deadline=1h --budget=5000 --estimate=30m"
                    .to_string(),
            ),
            WithoutTerms::OtherNodes => self.keep_off(submission),
        }
    }

    /// Jobs without terms on other nodes than Libra's.
    fn keep_off(&self, submission: &Submission) -> Answer {
        let goes_to: Vec<&Partition> = match &submission.partition {
            Some(names) => (names.split(','))
                .filter_map(|name| self.partitions.iter().find(|p| p.name == name.trim()))
                .collect(),
            None => self.partitions.iter().filter(|p| p.default).collect(),
        };
        // One that Slurm does not know it refuses itself.
        if goes_to.is_empty() {
            return Answer::Pass;
        }
        let (mut off, mut others) = (Vec::new(), false);
        for node in goes_to.iter().flat_map(|partition| &partition.nodes) {
            match self.libra_nodes.contains(node) {
                true => off.push(node.clone()),
                false => others = true,
            }
        }
        if off.is_empty() {
            return Answer::Pass;
        }
        if others {
            off.sort();
            off.dedup();
            return Answer::PassWithout(off);
        }
        let free: Vec<&str> = (self.partitions.iter())
            .filter(|p| p.nodes.iter().any(|node| !self.libra_nodes.contains(node)))
            .map(|p| p.name.as_str())
            .collect();
        let elsewhere = match free.is_empty() {
            true => String::new(),
            false => format!(", or submit to {}", free.join(" or ")),
        };
        Answer::Refuse(format!(
            "libra: the nodes of partition {} are for jobs with a deadline: \
             sbatch --sla-deadline=1h --budget=5000 --estimate=30m{elsewhere}",
            goes_to[0].name
        ))
    }

    /// May this change be made?
    ///
    /// # Errors
    /// Why not, for whoever asked.
    pub fn change(&self, change: &Change) -> Result<(), String> {
        let number: u32 = change
            .job
            .split(['_', '+'])
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(0);
        // What was just accepted has no number here yet.
        let unknown =
            number > self.newest_job && (self.book.has_provisional() || self.read.is_none());
        let sold = self.sold_jobs.contains(&number);
        let begins = |text: &Option<String>| {
            text.as_ref()
                .is_some_and(|text| text.trim().starts_with(super::array::PREFIX))
        };
        if sold && change.admin_comment.is_some() {
            return Err(format!(
                "libra: the admin comment of job {} says what was sold to it; use its comment (Comment=…) instead",
                change.job
            ));
        }
        if unknown && change.admin_comment.is_some() {
            return Err(format!(
                "libra: job {} was only just submitted; try again in some seconds",
                change.job
            ));
        }
        if begins(&change.admin_comment) {
            return Err(
                "libra: an admin comment that begins with 'libra:' is Libra's own".to_string(),
            );
        }
        if change.by_administrator {
            return Ok(());
        }
        if begins(&change.comment) {
            return Err(
                "libra: the terms are given when a job is submitted; cancel it and submit it anew"
                    .to_string(),
            );
        }
        let Some(what) = change.sold_with_it.first() else {
            return Ok(());
        };
        if sold {
            return Err(format!(
                "libra: {what} belongs to what was sold to job {}; cancel it and submit it anew",
                change.job
            ));
        }
        if unknown {
            return Err(format!(
                "libra: job {} was only just submitted; try again in some seconds",
                change.job
            ));
        }
        Ok(())
    }
}

/// Longest text that a user is told, in bytes: what was asked for may be in it.
const LONGEST_TEXT: usize = 2000;

fn in_few_words(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rfind(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

/// A counter-offer as options of sbatch.
fn write_offer(
    offer: &CounterOffer,
    submission: &Submission,
    request: &Request,
    count: u32,
) -> Option<String> {
    match *offer {
        CounterOffer::Deadline { deadline, price } => Some(format!(
            "--sla-deadline={} (costs {})",
            duration::exact(deadline),
            credits(price)
        )),
        CounterOffer::Budget { budget } => Some(format!("--budget={}", credits(budget))),
        CounterOffer::Processors { .. } if count > 1 => {
            let (jobs, price) = verdict::jobs_left(offer, &request.shape)?;
            let what = if jobs == 1 { "job" } else { "jobs" };
            Some(format!(
                "an array of {jobs} {what} (costs {})",
                credits(price)
            ))
        }
        CounterOffer::Processors {
            chunks,
            processors_per_chunk,
            price,
        } => {
            let each = submission.processors_per_task.unwrap_or(1).max(1);
            // Fewer nodes than --nodelist names are not accepted.
            if processors_per_chunk % each != 0 || submission.required_nodes.len() > chunks as usize
            {
                return None;
            }
            let tasks = chunks.checked_mul(processors_per_chunk / each)?;
            let nodes = match (chunks, submission.least_nodes) {
                (1, None | Some(..=1)) => String::new(),
                (nodes, _) => format!("-N {nodes} "),
            };
            Some(format!("{nodes}-n {tasks} (costs {})", credits(price)))
        }
    }
}
