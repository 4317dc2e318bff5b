//! The book as text, and the book from text: after a restart of the server the batch system's own
//! job records say what is committed, and the book is built from them again.

use super::{
    Allocation, Book, BookError, BookedJob, Named, Phase, Suspension, Unsound, Untaken, check_name,
    check_seconds,
};
use crate::commitment::Commitment;
use crate::decision::consumable::Consumable;
use crate::decision::job::Request;
use crate::decision::node::NodeSpec;
use crate::decision::share::DeadlineStatus;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The only version of a snapshot so far.
pub const SNAPSHOT_VERSION: u32 = 1;

/// Largest token that is read: 2^53, which every reader of JSON keeps exact. Tokens count up from
/// the largest, and must not run out.
const LARGEST_TOKEN: u64 = 1 << 53;

/// A whole book.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Snapshot {
    /// 1.
    pub version: u32,
    /// The book's time, seconds.
    pub now: f64,
    /// Nodes.
    pub nodes: Vec<NodeRecord>,
    /// Jobs, reservations included.
    pub jobs: Vec<JobRecord>,
    /// What is counted once for all nodes, and how much there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumables: Vec<(Consumable, u64)>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NodeRecord {
    /// Name.
    pub name: String,
    /// Processors.
    pub processors: f64,
    /// Speed against a reference node.
    #[serde(default = "one")]
    pub rating: f64,
    /// Bytes; absent where memory is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// What else is counted on it, and how much it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumables: Vec<(Consumable, u64)>,
    /// Takes new jobs.
    #[serde(default = "yes")]
    pub available: bool,
    /// Processors committed; written for the reader, not read back.
    #[serde(default)]
    pub committed: f64,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobRecord {
    /// The batch system's id; absent for a reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Token; 0 or absent: a new one is given.
    #[serde(default)]
    pub token: u64,
    /// As committed.
    pub request: Request,
    /// With which its estimate was planned, see [`Commitment::margin`]; absent: that of new jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Credits.
    pub price: f64,
    /// On the book's clock, seconds.
    pub submitted: f64,
    /// How far it has come.
    pub phase: Phase,
    /// When it begins at the latest, on the book's clock; absent for a job that may begin at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_by: Option<f64>,
    /// Of one that stands still for others, or is to; absent for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// Where it is.
    pub places: Vec<AllocationRecord>,
}

impl JobRecord {
    /// A job, or one part of an array, that is on record with its commitment alone: nothing of it has run.
    pub fn committed(id: &str, part: u32, commitment: &Commitment, phase: Phase) -> JobRecord {
        JobRecord {
            id: Some(id.to_string()),
            token: commitment.token + u64::from(part),
            request: commitment.request,
            margin: commitment.margin,
            price: commitment.price,
            submitted: commitment.submitted,
            phase,
            starts_by: commitment.starts_by.filter(|_| commitment.deferred),
            suspended: None,
            places: (commitment.plan(part).into_iter())
                .map(|place| AllocationRecord {
                    node: place.node,
                    chunks: place.chunks,
                    share: place.share,
                    cput: 0.0,
                    committed_share: 0.0,
                    delay: 0.0,
                })
                .collect(),
        }
    }
}

/// A job's part on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AllocationRecord {
    /// Name of the node.
    pub node: String,
    /// Chunks there.
    pub chunks: u32,
    /// Share last held, per slot.
    pub share: f64,
    /// Processor seconds per slot so far.
    #[serde(default)]
    pub cput: f64,
    /// Share that counts at the least, per slot, see [`Book::reserve_committed_share`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub committed_share: f64,
    /// Seconds after its deadline that were accepted for it there (LibraSLA).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl Book {
    /// Everything in the book, in the order of its tokens.
    pub fn snapshot(&self) -> Snapshot {
        let mut jobs: Vec<&BookedJob> = self.jobs.iter().flatten().collect();
        jobs.sort_by_key(|job| job.token);
        Snapshot {
            version: SNAPSHOT_VERSION,
            now: self.now,
            consumables: self.stock.has(),
            nodes: self.node_records(),
            jobs: jobs
                .into_iter()
                .map(|job| JobRecord {
                    id: job.id.as_deref().map(str::to_string),
                    token: job.token,
                    request: job.request.request(),
                    margin: Some(job.margin),
                    price: job.price,
                    submitted: job.submitted,
                    phase: job.phase,
                    starts_by: job.starts_by.as_deref().copied(),
                    suspended: job.suspended.as_deref().copied(),
                    places: job
                        .places
                        .iter()
                        .map(|place| AllocationRecord {
                            node: self.node_name(place.node as usize).to_string(),
                            chunks: place.chunks,
                            share: place.share,
                            committed_share: place.committed_share,
                            cput: job.cput(place, self.now),
                            delay: place.delay,
                        })
                        .collect(),
                })
                .collect(),
        }
    }

    /// Replaces everything in the book by these nodes and jobs. A job on a node that is not
    /// declared brings that node with it, closed to new jobs: what is committed there still counts.
    ///
    /// Returns the records that could not be taken, each with its reason; the others are in.
    ///
    /// # Errors
    /// When the snapshot as a whole cannot be taken; the book is as it was then.
    pub fn rebuild(&mut self, snapshot: &Snapshot) -> Result<Vec<Untaken>, BookError> {
        if snapshot.version != SNAPSHOT_VERSION {
            return Err(BookError::SnapshotVersion(snapshot.version));
        }
        let mut book = Book::new(self.admission, self.provisional);
        book.reserve_committed_share = self.reserve_committed_share;
        book.start_latency = self.start_latency;
        book.begin_latency = self.begin_latency;
        book.suspend_latency = self.suspend_latency;
        book.waiting_every = self.waiting_every;
        book.left = self.left.clone();
        book.now = check_seconds("now", snapshot.now)?;
        // A token never names two jobs, not even across a rebuild.
        let tokens = snapshot.jobs.iter().map(|job| job.token);
        let last = tokens.filter(|token| *token <= LARGEST_TOKEN).max();
        book.next_token = self.next_token.max(last.unwrap_or(0) + 1);
        let mut problems = Vec::new();
        book.set_cluster_consumables(&snapshot.consumables);
        for node in &snapshot.nodes {
            if let Err(error) = book.declare(node) {
                problems.push(Untaken::node(&node.name, error));
            }
        }
        for job in &snapshot.jobs {
            if let Err(error) = book.restore(job) {
                problems.push(Untaken::job(job.id.as_deref(), error));
            }
        }
        *self = book;
        self.advance(snapshot.now);
        Ok(problems)
    }

    /// Puts in a job that was accepted before, without judging it again.
    ///
    /// # Errors
    /// When the record contradicts itself or the book.
    pub fn restore(&mut self, record: &JobRecord) -> Result<(), BookError> {
        record.request.check()?;
        check_seconds("submitted", record.submitted)?;
        if let Some(value) = record.margin.filter(|part| !(0.0..=10.0).contains(part)) {
            return Err(crate::decision::job::OutOfRange {
                field: "margin",
                value,
                expected: "0 to 10",
            }
            .into());
        }
        check_seconds("price", record.price)?;
        if let Some(latest) = record.starts_by {
            check_seconds("starts-by", latest)?;
        }
        if let Some(suspension) = &record.suspended {
            check_seconds("goes-on-by", suspension.goes_on_by)?;
        }
        if record.places.is_empty() {
            return Err(BookError::Unsound(Unsound::OnNoNode));
        }
        if record.id.is_none() && record.phase != Phase::Provisional {
            return Err(BookError::Unsound(Unsound::NoId));
        }
        if let Some(id) = &record.id {
            check_name(Named::Job, id)?;
            if self.contains(id) {
                return Err(BookError::IdTaken(id.clone()));
            }
        }
        if record.token > LARGEST_TOKEN {
            return Err(crate::decision::job::OutOfRange {
                field: "token",
                value: record.token as f64,
                expected: "a whole number up to 9007199254740992",
            }
            .into());
        }
        if self.has_token(record.token) {
            return Err(BookError::TokenTaken(record.token));
        }
        let mut chunks_on: HashMap<&str, u32> = HashMap::new();
        for place in &record.places {
            check_name(Named::Node, &place.node)?;
            check_seconds("cput", place.cput)?;
            check_seconds("delay", place.delay)?;
            if !(0.0..=1.0).contains(&place.share) || !(0.0..=1.0).contains(&place.committed_share)
            {
                return Err(crate::decision::job::OutOfRange {
                    field: "share",
                    value: place.share,
                    expected: "processors per slot, from 0 to 1",
                }
                .into());
            }
            let fits = (1..=record.request.shape.chunks).contains(&place.chunks);
            if !fits || chunks_on.insert(&place.node, place.chunks).is_some() {
                return Err(crate::decision::job::OutOfRange {
                    field: "chunks",
                    value: f64::from(place.chunks),
                    expected: "1 to the job's chunks, each node once",
                }
                .into());
            }
        }
        if chunks_on.values().map(|c| u64::from(*c)).sum::<u64>()
            != u64::from(record.request.shape.chunks)
        {
            return Err(BookError::Unsound(Unsound::Chunks));
        }
        let token = match record.token {
            0 => {
                self.next_token += 1;
                self.next_token - 1
            }
            // Nobody gets it a second time. One near the end of numbers is nobody's next.
            token if token < u64::MAX / 2 => {
                self.next_token = self.next_token.max(token + 1);
                token
            }
            token => token,
        };
        let mut places = Vec::with_capacity(record.places.len());
        for place in &record.places {
            if !self.by_name.contains_key(&place.node) {
                let nothing = NodeSpec {
                    processors: 0.0,
                    rating: 1.0,
                    memory: 0,
                };
                self.set_node(&place.node, nothing, false)?;
            }
            places.push(Allocation {
                node: self.node_index(&place.node)? as u32,
                chunks: place.chunks,
                share: place.share,
                committed_share: place.committed_share,
                deadline_status: DeadlineStatus::OnTrack,
                cput: place.cput,
                reported: self.now,
                delay: place.delay,
                counted: 0.0,
                quoted: false,
                before: None,
                after: None,
            });
        }
        let key = self.insert(BookedJob {
            slowest: None,
            token,
            id: record.id.as_deref().map(Box::from),
            request: (&record.request).into(),
            margin: (record.margin).unwrap_or(self.admission.admission.estimate_margin),
            price: record.price,
            submitted: record.submitted,
            phase: match (record.phase, &record.id) {
                (Phase::Provisional, Some(_)) => Phase::Bound,
                (phase, _) => phase,
            },
            changed: match record.id {
                Some(_) => self.now,
                None => f64::INFINITY,
            },
            held_until: None,
            starts_by: (record.starts_by)
                .filter(|_| record.phase != Phase::Running)
                .map(Box::new),
            suspended: (record.suspended)
                .filter(|_| record.phase == Phase::Running && record.request.terms.class.is_whole())
                .map(Box::new),
            places: places.into(),
        });
        self.alarms.push(std::cmp::Reverse(super::Alarm {
            at: record.submitted + self.provisional,
            token,
        }));
        if record.phase == Phase::Running {
            self.refresh(key);
        }
        Ok(())
    }
}
