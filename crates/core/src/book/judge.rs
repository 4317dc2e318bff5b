//! The book as a decision sees it, and a job judged anew under other terms.

use super::assumed::Assumed;
use super::in_use::InUse;
use super::{Alarm, Allocation, Book, BookError, BookedJob, Node, Phase, check_seconds};
use crate::decision::TOLERANCE;
use crate::decision::admission::affordable;
use crate::decision::consumable::{Amounts, Consumable};
use crate::decision::job::{LONGEST, Request, SHORTEST, Terms};
use crate::decision::node::{Cluster, JobOnNode, NodeSpec, NodeView};
use crate::decision::node_index::Search;
use crate::decision::placement;
use crate::decision::policy::{Obstacle, Policy};
use crate::decision::pricing;
use crate::decision::refusal::{Reason, Refusal};
use crate::decision::share::DeadlineStatus;
use std::cell::{Cell, OnceCell};
use std::cmp::Reverse;

/// The book as a decision sees it, of a job that begins now or later.
#[derive(Clone, Copy)]
pub(super) struct Nodes<'a> {
    book: &'a Book,
    /// With a list, the nodes for as many slots as it has for each.
    allowed: Option<&'a [u32]>,
    /// When it would begin; now, if that has passed.
    at: f64,
    assumed: Assumed<'a>,
    /// Slower nodes than this rating are closed, and the others had as long as one of it; see [`super::pace`].
    slowest: Option<f64>,
    /// The job may begin so many seconds later.
    later: f64,
    shown: Option<&'a Shown>,
}

/// The jobs of each node as they were when they were first looked at, for one decision that asks many times: they are spread over the book's memory,
/// and here in one place. That takes 88 bytes for each job as long as the decision.
#[derive(Default)]
pub(super) struct Shown {
    /// Many questions follow.
    is_wanted: Cell<bool>,
    nodes: OnceCell<Box<[JobsOfNode]>>,
}

type JobsOfNode = OnceCell<Box<[JobOnNode]>>;

impl<'a> Nodes<'a> {
    /// For a job that begins now.
    pub(super) fn now(book: &'a Book, allowed: Option<&'a [u32]>) -> Nodes<'a> {
        Nodes {
            book,
            allowed,
            at: book.now,
            assumed: Assumed::default(),
            slowest: None,
            later: 0.0,
            shown: None,
        }
    }

    /// For a job that may begin until so many seconds later.
    pub(super) fn later_by(self, later: f64) -> Nodes<'a> {
        Nodes { later, ..self }
    }

    /// For a decision that ends before anything of the book changes.
    pub(super) fn remembering(self, shown: &'a Shown) -> Nodes<'a> {
        Nodes {
            shown: Some(shown),
            ..self
        }
    }

    /// For a job that is in the book, or is not, and begins at this time.
    pub(super) fn at(self, at: f64, assumed: Assumed<'a>) -> Nodes<'a> {
        Nodes {
            at,
            assumed,
            ..self
        }
    }

    /// For a job whose slowest node has this rating.
    pub(super) fn no_slower_than(self, slowest: Option<f64>) -> Nodes<'a> {
        Nodes { slowest, ..self }
    }

    /// The rating of a node that is open.
    pub(super) fn rating(&self, index: usize) -> Option<f64> {
        self.node(index).map(|node| node.node.spec.rating)
    }
}

/// One node of the book.
pub(super) struct BookNode<'a> {
    book: &'a Book,
    index: usize,
    node: &'a Node,
    open_slots: u32,
    committed: f64,
    whole: f64,
    slots_beside_whole: f64,
    memory_committed: u64,
    without: Option<usize>,
    shown: Option<&'a Shown>,
}

impl Cluster for Nodes<'_> {
    type Node<'a>
        = BookNode<'a>
    where
        Self: 'a;

    fn len(&self) -> usize {
        self.book.nodes.len()
    }

    #[inline(always)]
    fn node(&self, index: usize) -> Option<BookNode<'_>> {
        let node = &self.book.nodes[index];
        let open_slots = self.allowed.map_or(u32::MAX, |allowed| allowed[index]);
        let is_slow = (self.slowest).is_some_and(|slowest| node.spec.rating < slowest);
        (node.available && open_slots > 0 && !is_slow).then_some(BookNode {
            book: self.book,
            index,
            node,
            open_slots,
            committed: node.committed,
            whole: node.whole,
            slots_beside_whole: f64::INFINITY,
            memory_committed: node.memory_committed,
            without: None,
            shown: self.shown,
        })
    }

    #[inline(always)]
    fn node_for(&self, index: usize, request: &Request) -> Option<BookNode<'_>> {
        let node = self.node(index)?;
        match self.is_plain() && node.node.planned == 0 {
            true => Some(node),
            false => Some(self.in_its_time(node, request)),
        }
    }

    fn index(&self) -> Option<Search<'_>> {
        // Under a policy that asks each node nobody is in it.
        (self.book.admission.admission.policy).ranks_by_sums()?;
        // It has the sums of now.
        let nodes = &self.book.index;
        (self.is_plain() && nodes.is_worthwhile()).then_some(Search {
            nodes,
            all: self.allowed.is_none() && self.slowest.is_none(),
        })
    }

    fn expect_questions(&self) {
        if let Some(shown) = self.shown {
            shown.is_wanted.set(true);
        }
    }

    fn free_of(&self, what: Consumable) -> Option<u64> {
        let free = self.book.free_in_all(what)?;
        let own = (self.assumed.without).map_or(0, |key| self.book.job(key).amount_of(what, 1));
        Some(free.saturating_add(own))
    }
}

impl Nodes<'_> {
    fn is_plain(&self) -> bool {
        let Assumed { without, go_on, .. } = self.assumed;
        self.at <= self.book.now && without.is_none() && go_on.is_empty()
    }

    /// A node with the most that is committed there at any time while this would run.
    fn in_its_time<'b>(&'b self, node: BookNode<'b>, request: &Request) -> BookNode<'b> {
        let book = self.book;
        let length = book.length(request, self.slowest.unwrap_or(node.node.spec.rating));
        let (from, until) = (self.at, self.at + self.later + length);
        let is_whole = request.terms.class.is_whole();
        let (peak, slots_beside_whole) = match is_whole || book.shares_add_up() {
            true => {
                let peak = book.peak(node.index, from, until, &self.assumed);
                let committed = if is_whole {
                    peak.by_slots
                } else {
                    peak.committed
                };
                (InUse { committed, ..peak }, f64::INFINITY)
            }
            false => book.room_beside_whole(node.index, until, &self.assumed),
        };
        let own = (self.assumed.without).map_or(0, |key| {
            let job = book.job(key);
            let here = job.places.iter().filter(|p| p.node as usize == node.index);
            here.map(|place| job.memory_at(place)).sum()
        });
        BookNode {
            committed: peak.committed,
            whole: peak.whole,
            slots_beside_whole,
            memory_committed: node.memory_committed.saturating_sub(own),
            without: self.assumed.without,
            ..node
        }
    }
}

impl NodeView for BookNode<'_> {
    #[inline(always)]
    fn spec(&self) -> NodeSpec {
        self.node.spec
    }

    #[inline(always)]
    fn committed(&self) -> f64 {
        self.committed
    }

    #[inline(always)]
    fn memory_committed(&self) -> u64 {
        self.memory_committed
    }

    #[inline(always)]
    fn open_slots(&self) -> u32 {
        self.open_slots
    }

    fn free_of(&self, what: Consumable) -> Option<u64> {
        let free = self.book.details[self.index].stock.free(what)?;
        let own = (self.without).map_or(0, |key| {
            let job = self.book.job(key);
            let here = (job.places.iter()).filter(|place| place.node as usize == self.index);
            here.map(|place| job.amount_of(what, place.chunks)).sum()
        });
        Some(free.saturating_add(own))
    }

    fn whole(&self) -> f64 {
        self.whole
    }

    fn slots_beside_whole(&self) -> f64 {
        self.slots_beside_whole
    }

    fn for_each_job(&self, mut show: impl FnMut(&JobOnNode)) {
        let Some(shown) = self.shown.filter(|shown| shown.is_wanted.get()) else {
            return self.look_at_jobs(|job| show(&job));
        };
        let none = || self.book.nodes.iter().map(|_| OnceCell::new()).collect();
        let look = || {
            let mut jobs = Vec::with_capacity(16);
            self.look_at_jobs(|job| jobs.push(job));
            Box::from(jobs.as_slice())
        };
        let jobs = shown.nodes.get_or_init(none)[self.index].get_or_init(look);
        jobs.iter().for_each(show);
    }
}

impl BookNode<'_> {
    /// Its jobs that have shares.
    #[inline(always)]
    fn look_at_jobs(&self, mut take: impl FnMut(JobOnNode)) {
        for (key, place) in self.book.tenants(self.index) {
            let job = self.book.job(key);
            if !job.has_whole() {
                take(self.book.on_node(job, &job.places[place]));
            }
        }
    }
}

/// A node of the book without one of its jobs.
struct Others<'a> {
    node: BookNode<'a>,
    without: usize,
}

impl NodeView for Others<'_> {
    fn spec(&self) -> NodeSpec {
        self.node.spec()
    }

    fn committed(&self) -> f64 {
        self.node.committed()
    }

    fn memory_committed(&self) -> u64 {
        self.node.memory_committed()
    }

    fn whole(&self) -> f64 {
        self.node.whole()
    }

    fn slots_beside_whole(&self) -> f64 {
        self.node.slots_beside_whole()
    }

    fn for_each_job(&self, mut show: impl FnMut(&JobOnNode)) {
        let book = self.node.book;
        for (key, place) in book.tenants(self.node.index) {
            let job = book.job(key);
            if key != self.without && !job.has_whole() {
                show(&book.on_node(job, &job.places[place]));
            }
        }
    }
}

impl Others<'_> {
    /// With the delays that would be accepted with this job, do the shares of all fit? A policy judges
    /// what is left of a job, whose return differs from that of the whole, and so may who yields.
    fn can_yield_to<P: Policy>(&self, job: &JobOnNode, policy: &P) -> bool {
        let spec = self.spec().without(self.whole());
        let mut jobs = Vec::new();
        self.for_each_job(|other| jobs.push(*other));
        jobs.push(*job);
        policy.accept_delays(&spec, &mut jobs);
        let needs: f64 = (jobs.iter())
            .map(|job| f64::from(job.slots) * policy.need(job, spec.rating).share)
            .sum();
        needs <= spec.processors * (1.0 + 2.0 * TOLERANCE)
    }
}

impl BookedJob {
    /// Its terms with the estimate that they were planned with.
    #[inline(always)]
    pub(super) fn planned_terms(&self) -> Terms {
        Terms {
            estimate: self.request.terms.estimate * (1.0 + self.margin),
            ..self.request.terms
        }
    }

    /// Its request with that estimate.
    pub(super) fn planned_request(&self) -> Request {
        Request {
            terms: self.planned_terms(),
            ..self.request.request()
        }
    }

    /// Returns true if it has whole processors.
    pub(super) fn has_whole(&self) -> bool {
        self.request.terms.class.is_whole()
    }

    /// How much of a consumable it uses up in so many chunks; of one that is counted once for all nodes, in all.
    fn amount_of(&self, what: Consumable, chunks: u32) -> u64 {
        let amounts = self.request.shape.consumables().counted(what.scope());
        let of = amounts.filter(|(other, _)| *other == what);
        of.map(|(_, amount)| amount.saturating_mul(u64::from(chunks)))
            .sum()
    }

    /// Its slots at one of its places: up to 2^32, one more than a u32 holds.
    pub(super) fn slots_at(&self, place: &Allocation) -> f64 {
        f64::from(place.chunks) * f64::from(self.request.shape.processors_per_chunk)
    }

    /// The memory that is kept for it there, in bytes.
    pub(super) fn memory_at(&self, place: &Allocation) -> u64 {
        let each = self.request.shape.memory_per_chunk;
        each.saturating_mul(u64::from(place.chunks))
    }

    /// Processor seconds per slot by `now`, the job running at its share since it last reported.
    pub(super) fn cput(&self, place: &Allocation, now: f64) -> f64 {
        match self.phase {
            Phase::Running if self.stands_still() => place.cput,
            Phase::Running => place.cput + place.share * (now - place.reported).max(0.0),
            Phase::Provisional | Phase::Bound => place.cput,
        }
    }
}

impl Book {
    /// Room that the places of this request may need.
    pub(super) fn room(&self, request: &Request) -> usize {
        // It is enough for classes with whole processors, for which no nodes are compared.
        let policy = &self.admission.admission.policy;
        placement::room(policy, request, self.nodes.len())
    }

    /// Puts a job into the book and its shares into the nodes' sums.
    pub(super) fn insert(&mut self, job: BookedJob) -> usize {
        let key = self.vacant.pop().unwrap_or_else(|| {
            // Not twice as many: they are most of a book's memory.
            if self.jobs.len() == self.jobs.capacity() {
                self.jobs.reserve_exact(self.jobs.len() / 16 + 64);
            }
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        let due = job.submitted + job.request.terms.deadline;
        self.alarms.push(Reverse(Alarm {
            at: due,
            token: job.token,
        }));
        for place in job.places.iter().filter(|place| place.delay > 0.0) {
            self.alarms.push(Reverse(Alarm {
                at: due + place.delay,
                token: job.token,
            }));
        }
        if job.phase != Phase::Running {
            self.waiting.insert(key);
        }
        if job.starts_by.is_some() {
            self.planned.insert(key);
        }
        if job.suspended.is_some() {
            self.suspended.insert(key);
        }
        let places = job.places.len();
        self.jobs[key] = Some(job);
        self.rate(key);
        self.name(key);
        self.draw(key);
        (0..places).for_each(|place| self.settle(key, place));
        key
    }

    /// What a request would cost now if its budget were no matter, credits.
    pub fn price_now(&self, request: &Request) -> f64 {
        self.admission
            .price_now(&Nodes::now(self, None), &self.begun_late(request))
    }

    /// A request as it is judged: with the time that passes before it starts taken off its deadline.
    pub(super) fn begun_late(&self, request: &Request) -> Request {
        let mut judged = *request;
        let terms = &request.terms;
        if self.start_latency > 0.0 && !terms.lacks_deadline() && terms.check().is_ok() {
            // A deadline below this cannot be met anyway, and prices divide by it.
            let least = (terms.estimate / 10.0).clamp(SHORTEST, terms.deadline);
            judged.terms.deadline = (terms.deadline - self.start_latency).max(least);
        }
        judged
    }

    /// What a job would cost under these terms, on the nodes where it is.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn price_with(&self, id: &str, terms: &Terms) -> Result<f64, BookError> {
        Ok(self.price_of(self.job(self.key_of(id)?), terms))
    }

    fn price_of(&self, job: &BookedJob, terms: &Terms) -> f64 {
        let request = Request {
            terms: *terms,
            ..job.request.request()
        };
        let places = job.places.iter().map(|place| {
            let node = &self.nodes[place.node as usize];
            let slots = job.slots_at(place);
            let taken = slots * place.counted_share();
            pricing::PricedNode {
                slots,
                processors: node.spec.processors,
                free: (node.spec.processors - node.committed + taken).max(taken),
            }
        });
        self.admission.price_at(&request, places)
    }

    /// Changes the terms of a job, where its own nodes can keep the new ones: where each of them
    /// would take what is left of the job as a new one. Its class stays.
    ///
    /// # Errors
    /// [`BookError::Refused`] when the new terms cost more than the new budget or need more than
    /// the job's nodes have; the old terms stand then.
    pub fn modify(&mut self, id: &str, terms: &Terms, now: f64) -> Result<f64, BookError> {
        self.advance(check_seconds("now", now)?);
        terms.check()?;
        let key = self.key_of(id)?;
        let mut job = self.job(key).clone();
        let terms = &Terms {
            class: job.request.terms.class,
            ..*terms
        };
        job.request.terms = *terms;
        let refuse = |reason| {
            Err(BookError::Refused(Box::new(Refusal {
                reason,
                counter_offers: Vec::new(),
            })))
        };
        let price = self.price_of(&job, terms);
        if !affordable(price, terms.budget) {
            return refuse(Reason::Budget {
                price,
                budget: terms.budget,
            });
        }
        let old = self.job(key);
        let mut places = job.places.clone();
        let policy = &self.admission.admission.policy;
        for (place, before) in places.iter_mut().zip(old.places.iter()) {
            let node = &self.nodes[place.node as usize];
            // What was accepted for the old terms is no part of the new ones.
            place.delay = 0.0;
            let on_node = JobOnNode {
                delay: 0.0,
                ..self.on_node(&job, before)
            };
            let need = self.admission.need(&on_node, node.spec.rating);
            let left = terms.deadline_after(on_node.walltime);
            let work = (on_node.terms.estimate / node.spec.rating - on_node.cput).max(0.0);
            let too_late = Reason::Deadline {
                fastest: on_node.walltime + work,
                deadline: terms.deadline,
            };
            if need.deadline_status == DeadlineStatus::Late || left <= 0.0 {
                return refuse(too_late);
            }
            let mut rest = job.request.request();
            rest.terms.deadline = left.clamp(SHORTEST, LONGEST);
            let work = match need.deadline_status {
                // More than a processor can do: the policy says whether it takes such jobs.
                DeadlineStatus::AtRisk => work,
                _ => need.share * left,
            };
            rest.terms.estimate = (work * node.spec.rating).max(SHORTEST);
            rest.shape.chunks = place.chunks;
            rest.shape.scatter = false;
            // It has them already, whatever its terms.
            rest.shape.consumables = Amounts::NONE;
            let slots = job.slots_at(place);
            let index = place.node as usize;
            let others = Nodes::now(self, None).at(self.now, Assumed::without(key));
            let others = Others {
                node: others.in_its_time(
                    BookNode {
                        book: self,
                        index,
                        node,
                        open_slots: u32::MAX,
                        committed: node.committed,
                        whole: node.whole,
                        slots_beside_whole: f64::INFINITY,
                        memory_committed: node.memory_committed,
                        without: None,
                        shown: None,
                    },
                    &rest,
                ),
                without: key,
            };
            let full = Reason::Share {
                needed: slots * need.share,
                free: (node.spec.processors - others.committed()).max(0.0),
                node: place.node as usize,
            };
            match self.admission.offer(&others, &rest) {
                Err(Obstacle::Slot { .. }) => return refuse(too_late),
                Err(obstacle) => {
                    return refuse(Reason::from_obstacle(
                        obstacle,
                        place.node as usize,
                        terms.deadline,
                    ));
                }
                Ok(offer) if offer.chunks < place.chunks => return refuse(full),
                Ok(_) => {}
            }
            let divides = policy.accepts_delays() && !job.has_whole();
            if divides && !others.can_yield_to(&on_node, policy) {
                return refuse(full);
            }
            place.share = need.share;
            place.committed_share = if self.reserve_committed_share {
                need.share
            } else {
                0.0
            };
            place.deadline_status = need.deadline_status;
            place.cput = on_node.cput;
            place.reported = self.now;
        }
        job.places = places;
        job.price = price;
        self.alarms.push(Reverse(Alarm {
            at: job.submitted + terms.deadline,
            token: job.token,
        }));
        let nodes: Vec<usize> = job.places.iter().map(|place| place.node as usize).collect();
        *self.job_mut(key) = job;
        for (place, node) in nodes.into_iter().enumerate() {
            self.recount(key, place);
            if self.admission.admission.policy.accepts_delays() {
                self.accept_delays(node);
            }
        }
        Ok(price)
    }

    /// How a job stands now on one of its nodes, as a policy sees it.
    pub(super) fn on_node(&self, job: &BookedJob, place: &Allocation) -> JobOnNode {
        JobOnNode {
            terms: job.planned_terms(),
            slots: place
                .chunks
                .saturating_mul(job.request.shape.processors_per_chunk),
            cput: job.cput(place, self.now),
            walltime: match job.phase {
                // Its deadline begins when it is submitted.
                _ if job.held_until.is_some() => self.start_latency,
                Phase::Running => self.now - job.submitted,
                Phase::Provisional | Phase::Bound => {
                    (self.now - job.submitted).max(self.start_latency)
                }
            },
            held_share: place.share,
            memory: job.memory_at(place),
            delay: place.delay,
        }
    }
}
