//! The book: which jobs hold which shares of which nodes, kept in memory and asked in microseconds.
//!
//! For callers that live as long as a batch server (a PBS hook's library, a Slurm plugin). On one
//! host the registry is the truth instead, see the crate `libra-host`.
//!
//! Invariants:
//! - A job is in the book from its acceptance to its end; a reservation counts like a running job.
//! - A node's committed sum is the sum over its jobs, exactly (see [`sums`]): no rounding piles up, and a job that comes, changes or
//!   leaves costs the same on a node with many jobs as on one with few.
//! - Between two reports a running job is taken to run at its share. Then the share it needs is a constant
//!   (see [`crate::decision::share`]) and the sums need no refreshing; only a deadline that passes
//!   and a reservation that expires change them by themselves, and both wait in `alarms`. A job that
//!   does not run yet needs more with every second; those in `waiting` are refreshed once a second (see
//!   [`Book::refresh_waiting_every`]).
//! - Under a policy that goes by sums, or ranks by them, nodes are kept in the order of theirs, so that an admission looks at the nodes that it uses
//!   (see [`crate::decision::node_index`]). Whoever changes what a node is, or whether it takes jobs, calls [`Book::reindex`].
//! - A job that has whole processors counts with them from its acceptance to its end, however far it has come
//!   (see [`crate::decision::service`]).
//! - A job that is to begin later, or stands still for others, counts with its processors in its time alone (see [`planned`], [`suspended`]).
//! - Where the batch system itself counts what is committed (see [`Book::reserve_committed_share`]), a job's part in the sum
//!   never falls below that: what this book accepts, the batch system has room for as well.
//! - `now` never goes back: an earlier one counts as the latest seen.

mod admit;
mod assumed;
mod beside;
mod booked_request;
#[cfg(test)]
mod class_tests;
mod commit;
mod error;
pub mod figures;
pub mod held_quote;
pub mod held_quote_record;
mod idle;
mod in_use;
#[cfg(test)]
mod index_tests;
mod judge;
mod keys;
mod life;
mod pace;
mod places;
mod planned;
#[cfg(test)]
mod planned_tests;
mod quote;
#[cfg(test)]
mod quote_tests;
mod reconcile;
#[cfg(test)]
mod reconcile_tests;
mod snapshot;
mod stock;
#[cfg(test)]
mod stock_tests;
mod sums;
#[cfg(test)]
mod sums_tests;
mod suspended;
#[cfg(test)]
mod suspended_tests;
#[cfg(test)]
mod tests;

use crate::decision::node::NodeSpec;
use crate::decision::node_index::NodeIndex;
use crate::decision::placement::Placement;
use crate::decision::service::ClassAdmission;
use crate::decision::share::DeadlineStatus;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use booked_request::BookedRequest;
pub use error::{BookError, Named, Unsound, Untaken};
use keys::Keys;
pub use life::Ending;
use places::Places;
pub use planned::{GoesOn, Planned};
pub use quote::{Offer, Questions};
pub use reconcile::{Differences, OLDEST_RECORDS};
use stock::Stock;
use sums::{Sums, Tenant, Tenants};
pub use suspended::Suspension;

pub use snapshot::{AllocationRecord, JobRecord, NodeRecord, SNAPSHOT_VERSION, Snapshot};

/// Longest name of a node and longest id of a job, in bytes.
pub const LONGEST_NAME: usize = 255;

/// How long an acceptance without an id holds its reservation, in seconds, unless set otherwise.
pub const DEFAULT_PROVISIONAL: f64 = 30.0;

/// All nodes and jobs.
pub struct Book {
    admission: ClassAdmission,
    provisional: f64,
    /// What a decision reads of each node, dense: it is scanned for every submission.
    nodes: Vec<Node>,
    /// The rest of each node, same index.
    details: Vec<NodeDetails>,
    /// Those that take new jobs, by what is committed on them; empty where the policy does not rank nodes by that.
    index: NodeIndex,
    by_name: HashMap<String, usize>,
    /// What is counted once for all nodes.
    stock: Stock,
    jobs: Vec<Option<BookedJob>>,
    vacant: Vec<usize>,
    by_token: Keys,
    by_id: Keys,
    hashing: RandomState,
    next_token: u64,
    alarms: BinaryHeap<Reverse<Alarm>>,
    /// Jobs that left the book since the alarms of those that are gone were dropped.
    gone: usize,
    /// Jobs that do not run yet: they make no progress, so what they need grows.
    waiting: BTreeSet<usize>,
    /// Jobs that are promised to begin later, see [`planned`].
    planned: BTreeSet<usize>,
    /// Jobs that stand still for others, or are to, see [`suspended`].
    suspended: BTreeSet<usize>,
    /// When their shares were last taken anew.
    waiting_refreshed: f64,
    /// Seconds after which that is done anew.
    waiting_every: f64,
    scratch: Vec<Placement>,
    reserve_committed_share: bool,
    start_latency: f64,
    begin_latency: f64,
    suspend_latency: f64,
    /// Ids of jobs that left the book and when, oldest first: older records may still show them.
    left: VecDeque<(String, f64)>,
    /// Acceptances that came to nothing, see [`Book::take_withdrawn`].
    withdrawn: u64,
    now: f64,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    spec: NodeSpec,
    committed: f64,
    memory_committed: u64,
    /// Processors that jobs have whole, of those committed.
    whole: f64,
    /// How many of its jobs are to begin or to go on later.
    planned: u32,
    available: bool,
}

#[derive(Debug, Clone, Default)]
struct NodeDetails {
    name: String,
    tenants: Tenants,
    sums: Sums,
    stock: Stock,
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Accepted; the batch system has not named it yet. Expires.
    Provisional,
    /// It has an id and waits to be started.
    Bound,
    /// It runs.
    Running,
}

#[derive(Debug, Clone)]
struct BookedJob {
    token: u64,
    id: Option<Box<str>>,
    /// As committed: the estimate without margin.
    request: BookedRequest,
    /// With which its estimate was planned, whatever that of new jobs is by now.
    margin: f64,
    price: f64,
    submitted: f64,
    phase: Phase,
    /// Which of its places is on its slowest node, where they have different ratings; see [`pace`].
    slowest: Option<u32>,
    /// When it last got its id, was started or was requeued: older records know nothing of that.
    changed: f64,
    /// Until when it is held for a job that is to come; None for a job that was submitted, as most are.
    held_until: Option<Box<f64>>,
    /// When it begins at the latest; None for a job that may begin at once, as most may. See [`planned`].
    starts_by: Option<Box<f64>>,
    /// It stands still for others, or is to; None for most. See [`suspended`].
    suspended: Option<Box<Suspension>>,
    places: Places,
}

#[derive(Debug, Clone, Copy)]
struct Allocation {
    node: u32,
    chunks: u32,
    share: f64,
    /// Share that counts at the least; 0 where the need alone counts.
    committed_share: f64,
    deadline_status: DeadlineStatus,
    /// Processor seconds per slot, as last reported.
    cput: f64,
    reported: f64,
    /// Seconds after its deadline that were accepted for it here.
    delay: f64,
    /// The share that the node's sums have of it, and whether they have it as held for a job to come; see [`sums`].
    counted: f64,
    quoted: bool,
    /// Who came to the node before and after it.
    before: Option<Tenant>,
    after: Option<Tenant>,
}

/// Something that will happen to a job by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Alarm {
    at: f64,
    token: u64,
}

impl Eq for Alarm {}
impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Alarm) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Alarm {
    fn cmp(&self, other: &Alarm) -> std::cmp::Ordering {
        self.at
            .total_cmp(&other.at)
            .then(self.token.cmp(&other.token))
    }
}

/// A job that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    /// Names the job until it has an id; never 0, never used twice.
    pub token: u64,
    /// Credits.
    pub price: f64,
    /// Where it goes, best first. Index as in [`Book::node_name`].
    pub places: Vec<Placement>,
}

/// How a job stands on one of its nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceView<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// Chunks there.
    pub chunks: u32,
    /// Share of each slot, in processors.
    pub share: f64,
    /// How it stands.
    pub deadline_status: DeadlineStatus,
}

impl Book {
    /// An empty book. `provisional`: seconds for which an acceptance holds without an id.
    pub fn new(admission: impl Into<ClassAdmission>, provisional: f64) -> Book {
        Book {
            admission: admission.into(),
            provisional,
            nodes: Vec::new(),
            details: Vec::new(),
            index: NodeIndex::default(),
            by_name: HashMap::new(),
            stock: Stock::default(),
            jobs: Vec::new(),
            vacant: Vec::new(),
            by_token: Keys::default(),
            by_id: Keys::default(),
            hashing: RandomState::new(),
            next_token: 1,
            alarms: BinaryHeap::new(),
            gone: 0,
            waiting: BTreeSet::new(),
            planned: BTreeSet::new(),
            suspended: BTreeSet::new(),
            waiting_refreshed: 0.0,
            waiting_every: life::WAITING_REFRESH,
            scratch: Vec::new(),
            reserve_committed_share: false,
            start_latency: 0.0,
            begin_latency: 0.0,
            suspend_latency: 0.0,
            left: VecDeque::new(),
            withdrawn: 0,
            now: 0.0,
        }
    }

    /// Declares a node or changes it. Jobs that are on it stay, even where they no longer fit.
    /// `available`: does it take new jobs?
    ///
    /// # Errors
    /// When the name or a value is out of range.
    pub fn set_node(
        &mut self,
        name: &str,
        spec: NodeSpec,
        available: bool,
    ) -> Result<(), BookError> {
        check_name(Named::Node, name)?;
        spec.check()?;
        match self.by_name.get(name) {
            Some(&index) => {
                let rated_anew = self.nodes[index].spec.rating != spec.rating;
                self.nodes[index].spec = spec;
                self.nodes[index].available = available;
                if rated_anew {
                    self.refresh_tenants(index);
                }
                self.reindex(index);
            }
            None => {
                self.by_name.insert(name.to_string(), self.nodes.len());
                self.nodes.push(Node {
                    spec,
                    committed: 0.0,
                    memory_committed: 0,
                    whole: 0.0,
                    planned: 0,
                    available,
                });
                self.details.push(NodeDetails {
                    name: name.to_string(),
                    tenants: Tenants::default(),
                    sums: Sums::default(),
                    stock: Stock::default(),
                });
                self.reindex(self.nodes.len() - 1);
            }
        }
        Ok(())
    }

    /// Opens or closes a node to new jobs.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn set_available(&mut self, name: &str, available: bool) -> Result<(), BookError> {
        let index = self.node_index(name)?;
        self.nodes[index].available = available;
        self.reindex(index);
        Ok(())
    }

    /// From now on the share committed to a job counts at the least, even when it needs less later: for
    /// a batch system that keeps its own sum of what is committed on each node and would not start a job
    /// that this book takes by its better knowledge.
    pub fn reserve_committed_share(&mut self, count: bool) {
        self.reserve_committed_share = count;
    }

    /// So many seconds the batch system may take to start what was accepted. A job is judged, and holds what it needs, as if
    /// it did nothing for so long; once it runs it needs what is left of it.
    pub fn set_start_latency(&mut self, seconds: f64) {
        self.start_latency = seconds.max(0.0);
    }

    /// So many seconds the batch system may take to let a job with whole processors begin whose time has come, where that is more. Nothing but plans
    /// takes it into account: whoever is planned behind it begins so much later.
    pub fn set_begin_latency(&mut self, seconds: f64) {
        self.begin_latency = seconds.max(0.0);
    }

    /// So many seconds it may take until a job that is to stand still does. Who takes its place begins no sooner.
    pub fn set_suspend_latency(&mut self, seconds: f64) {
        self.suspend_latency = seconds.max(0.0);
    }

    /// What [`Book::set_start_latency`] was told, in seconds.
    pub fn start_latency(&self) -> f64 {
        self.start_latency
    }

    /// Returns true if it has a job of this id.
    pub fn contains(&self, id: &str) -> bool {
        self.find_id(id).is_some()
    }

    /// Returns true if it has a job of this token, with or without an id.
    pub fn has_token(&self, token: u64) -> bool {
        self.find_token(token).is_some()
    }

    /// Tokens that are given from now on are at least this. Beginning with a number that no earlier book of this cluster
    /// came to keeps the batch system's records of then and reservations of now apart.
    pub fn tokens_from(&mut self, first: u64) {
        self.next_token = self.next_token.max(first);
    }

    /// Slots of the jobs on a node by its index, whatever their shares; 0 where there is no such node.
    pub fn slots_on(&self, index: usize) -> u64 {
        self.details.get(index).map_or(0, |node| node.sums.slots())
    }

    /// Those of [`Book::slots_on`] that quotes hold for jobs to come.
    pub fn quoted_slots_on(&self, index: usize) -> u64 {
        self.details.get(index).map_or(0, |node| node.sums.quoted())
    }

    /// Processors of a node by its index; 0 where there is no such node.
    pub fn processors(&self, index: usize) -> f64 {
        self.nodes
            .get(index)
            .map_or(0.0, |node| node.spec.processors)
    }

    /// Returns true if there are acceptances that have no id yet, and are not held for a job to come.
    pub fn has_provisional(&self) -> bool {
        let waits = |job: &BookedJob| job.phase == Phase::Provisional && job.held_until.is_none();
        self.by_token.len() > self.by_id.len()
            && self.waiting.iter().any(|&key| waits(self.job(key)))
    }

    /// Ids of the jobs that have one and do not run yet, in no order.
    pub fn unstarted(&self) -> impl Iterator<Item = &str> {
        self.waiting
            .iter()
            .filter_map(|&key| self.job(key).id.as_deref())
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of jobs, reservations included.
    pub fn job_count(&self) -> usize {
        self.by_token.len()
    }

    /// Name of a node by its index.
    pub fn node_name(&self, index: usize) -> &str {
        self.details
            .get(index)
            .map_or("", |details| details.name.as_str())
    }

    /// Processors committed on a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn committed(&self, name: &str) -> Result<f64, BookError> {
        Ok(self.nodes[self.node_index(name)?].committed)
    }

    /// Decides by other rules from now on. What is committed stays committed.
    pub fn set_admission(&mut self, admission: impl Into<ClassAdmission>) {
        self.admission = admission.into();
        self.index = NodeIndex::default();
        (0..self.nodes.len()).for_each(|index| self.reindex(index));
    }

    /// Another margin for what is judged from now on; None changes nothing. Returns what it was. Jobs that are in the book keep theirs.
    pub fn set_margin(&mut self, margin: Option<f64>) -> f64 {
        let of_new = &mut self.admission.admission.estimate_margin;
        let was = *of_new;
        *of_new = margin.unwrap_or(was);
        was
    }

    /// Does something by the margin with which it was promised.
    fn by_margin<T>(&mut self, margin: f64, act: impl FnOnce(&mut Book) -> T) -> T {
        let of_new = self.set_margin(Some(margin));
        let done = act(self);
        self.set_margin(Some(of_new));
        done
    }

    /// Processors that were committed on a node, and those it has. Committed is what its jobs were given at their
    /// acceptance, see [`Book::reserve_committed_share`], whatever they need now; who begins later has none yet.
    pub fn committed_shares(&self, name: &str) -> Option<(f64, f64)> {
        self.shares_of(name, |_, _| true)
    }

    fn shares_of(&self, name: &str, whose: impl Fn(usize, usize) -> bool) -> Option<(f64, f64)> {
        let index = *self.by_name.get(name)?;
        let committed_share = (self.tenants(index))
            .filter(|&(key, place)| self.job(key).later().is_none() && whose(key, place))
            .map(|(key, place)| {
                let job = self.job(key);
                let place = &job.places[place];
                job.slots_at(place) * place.committed_share
            })
            .sum();
        Some((committed_share, self.nodes[index].spec.processors))
    }

    /// The rules this book decides by.
    pub fn admission(&self) -> &ClassAdmission {
        &self.admission
    }

    /// Where a job runs, with its present shares.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn places(&self, id: &str) -> Result<Vec<PlaceView<'_>>, BookError> {
        let job = self.job(self.key_of(id)?);
        Ok(job
            .places
            .iter()
            .map(|place| PlaceView {
                node: self.node_name(place.node as usize),
                chunks: place.chunks,
                share: place.share,
                deadline_status: place.deadline_status,
            })
            .collect())
    }

    fn node_index(&self, name: &str) -> Result<usize, BookError> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| BookError::UnknownNode(name.chars().take(LONGEST_NAME).collect()))
    }

    fn key_of(&self, id: &str) -> Result<usize, BookError> {
        self.find_id(id)
            .ok_or_else(|| BookError::UnknownJob(id.chars().take(LONGEST_NAME).collect()))
    }

    fn key_of_token(&self, token: u64) -> Result<usize, BookError> {
        self.find_token(token).ok_or(BookError::UnknownToken(token))
    }

    fn find_id(&self, id: &str) -> Option<usize> {
        let is = |key: usize| self.job(key).id.as_deref() == Some(id);
        self.by_id.find(self.hashing.hash_one(id), is)
    }

    fn find_token(&self, token: u64) -> Option<usize> {
        let is = |key: usize| self.job(key).token == token;
        self.by_token.find(self.hashing.hash_one(token), is)
    }

    /// The job can be found by its token from now on, and by its id, if it has one.
    fn name(&mut self, key: usize) {
        let (jobs, hashing) = (&self.jobs, &self.hashing);
        let named = |key: usize| jobs[key].as_ref().expect("keys name jobs in the book");
        let by_token = |key: usize| hashing.hash_one(named(key).token);
        self.by_token.insert(by_token(key), key, by_token);
        if named(key).id.is_some() {
            self.name_id(key);
        }
    }

    fn name_id(&mut self, key: usize) {
        let (jobs, hashing) = (&self.jobs, &self.hashing);
        let id = |key: usize| jobs[key].as_ref().and_then(|job| job.id.as_deref());
        let by_id = |key: usize| hashing.hash_one(id(key).unwrap_or_default());
        self.by_id.insert(by_id(key), key, by_id);
    }

    /// It cannot be found any more; it is still there.
    fn unname(&mut self, key: usize) {
        let (jobs, hashing) = (&self.jobs, &self.hashing);
        let named = |key: usize| jobs[key].as_ref().expect("keys name jobs in the book");
        let by_token = |key: usize| hashing.hash_one(named(key).token);
        self.by_token.remove(by_token(key), key, by_token);
        if named(key).id.is_some() {
            self.unname_id(key);
        }
    }

    fn unname_id(&mut self, key: usize) {
        let (jobs, hashing) = (&self.jobs, &self.hashing);
        let id = |key: usize| jobs[key].as_ref().and_then(|job| job.id.as_deref());
        let by_id = |key: usize| hashing.hash_one(id(key).unwrap_or_default());
        self.by_id.remove(by_id(key), key, by_id);
    }

    /// A key from `by_id` or `by_token` always names a job.
    fn job(&self, key: usize) -> &BookedJob {
        self.jobs[key].as_ref().expect("keys name jobs in the book")
    }

    fn job_mut(&mut self, key: usize) -> &mut BookedJob {
        self.jobs[key].as_mut().expect("keys name jobs in the book")
    }
}

fn check_name(what: Named, name: &str) -> Result<(), BookError> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(BookError::Name {
            what,
            bytes: name.len(),
        });
    }
    Ok(())
}

fn check_seconds(what: &'static str, value: f64) -> Result<f64, BookError> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(BookError::Time { what, value })
    }
}
