//! Jobs that have whole processors and are promised to begin later: by a time, on nodes that are kept for them.
//!
//! What such a promise rests on is when those who have the processors now, or are to have them before, are done:
//!
//! | who | has its processors |
//! | --- | --- |
//! | a job with a share | until its deadline: afterwards nothing is promised to it |
//! | a job with whole processors | for its estimate, on the slowest of its nodes (see [`super::pace`]), the site's margin and the time that the batch system may take to start it |
//! | a planned one | for as long, from when it begins at the latest |
//! | one that a quote is held for | as if it began when the hold ends |
//!
//! Invariants:
//! - A job that is accepted fits beside all others at every moment of its own time, so nobody accepted later breaks a promise, and whatever ends
//!   before a planned job begins may be accepted in front of it. Where a policy takes shares that do not add up, see [`super::beside`].
//! - Processors are counted in their time. Memory, the batch system's own slots and consumables are counted from acceptance to end: whoever
//!   outlives its estimate gives up its processors, and keeps its memory.
//! - A planned job begins as soon as it fits, wherever. When it is due it begins by right: whoever is past all that is said above does not count.
//!   A job that outlived its time keeps what it has against all who come later.
//! - A planned job that is overdue counts as one that begins now.
//! - One that stands still for another is planned like it, from when it goes on (see [`super::suspended`]).

use super::assumed::Assumed;
use super::in_use::InUse;
use super::judge::Nodes;
use super::{Admitted, Allocation, Book, BookedJob, Offer, Phase};
use crate::decision::TOLERANCE;
use crate::decision::admission::affordable;
use crate::decision::class::Class;
use crate::decision::curve::with_deadline;
use crate::decision::job::{Request, SHORTEST};
use crate::decision::placement::Placement;

/// Who is done within so many seconds after a moment does not count there: sums of times are no more exact.
pub(super) const SLACK: f64 = 0.01;

/// Starts that are tried for one job; of more moments at which somebody is done, so many, evenly: for each, all nodes are asked.
pub(super) const MOST_STARTS: usize = 64;

/// A start that can be promised.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// When it begins at the latest.
    pub starts_by: f64,
    /// Where, and for how much.
    pub offer: Offer,
    /// Who has to stand still for it first, mostly nobody.
    pub suspends: Vec<GoesOn>,
}

/// A job that is to stand still, and when it goes on at the latest, on the book's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct GoesOn {
    /// Its id.
    pub id: String,
    /// Seconds.
    pub by: f64,
}

impl Book {
    /// The earliest start that can be promised to a dedicated job that does not fit now, on nodes as for [`Book::admit_among`]. Nothing is
    /// reserved. None if none ends it by its deadline within its budget.
    pub fn plan(&self, request: &Request, allowed: Option<&[u32]>) -> Option<Planned> {
        self.plan_for(request, self.now, allowed, None)
    }

    /// The request of a job that was submitted then, and is in the book `without` or is not.
    fn plan_for(
        &self,
        request: &Request,
        submitted: f64,
        allowed: Option<&[u32]>,
        without: Option<usize>,
    ) -> Option<Planned> {
        if request.check().is_err() || request.terms.class != Class::Dedicated {
            return None;
        }
        let allowed = self.padded(allowed);
        let mut scratch = vec![Placement::EMPTY; self.room(request)];
        let assumed = Assumed {
            without,
            ..Assumed::default()
        };
        let paces = self.paces(request, &Nodes::now(self, allowed.as_deref()));
        for at in self.moments(request, submitted, allowed.as_deref(), without) {
            let left = request.terms.deadline - (at - submitted);
            if left < SHORTEST {
                break;
            }
            let nodes = Nodes::now(self, allowed.as_deref()).at(at, assumed);
            let mut asked = self.begun_late(&with_deadline(request, left));
            asked.terms.budget = f64::INFINITY;
            let Some(accepted) = self.accepts_at(&paces, nodes, &asked, &mut scratch) else {
                continue;
            };
            // It costs what its terms cost, whenever it begins.
            let price = (self.admission).price_now(&nodes, &self.begun_late(request));
            if !affordable(price, request.terms.budget) {
                return None;
            }
            scratch.truncate(accepted.nodes);
            return Some(Planned {
                starts_by: at,
                offer: Offer {
                    price,
                    places: scratch,
                    pinned: true,
                },
                suspends: Vec::new(),
            });
        }
        None
    }

    /// When somebody is done with processors of these nodes, in order, as far as the job could end in time from then on.
    fn moments(
        &self,
        request: &Request,
        submitted: f64,
        allowed: Option<&[u32]>,
        without: Option<usize>,
    ) -> Vec<f64> {
        let open = |index: &usize| {
            self.nodes[*index].available && allowed.is_none_or(|allowed| allowed[*index] > 0)
        };
        let nodes: Vec<usize> = (0..self.nodes.len()).filter(open).collect();
        let fastest = (nodes.iter()).fold(0.0, |fastest: f64, &index| {
            fastest.max(self.nodes[index].spec.rating)
        });
        let latest = submitted + request.terms.deadline - request.terms.estimate / fastest;
        let mut moments: Vec<f64> = (nodes.iter())
            .flat_map(|&index| self.tenants(index))
            .filter(|(key, _)| Some(*key) != without)
            .map(|(key, place)| self.time_of(key, place, &Assumed::default()).1)
            .chain(
                self.is_suspending()
                    .then_some(self.now + self.suspend_latency),
            )
            .filter(|until| *until > self.now && *until <= latest)
            .collect();
        moments.sort_by(f64::total_cmp);
        moments.dedup_by(|later, earlier| *later - *earlier < SLACK);
        match moments.len() {
            0..=MOST_STARTS => moments,
            // The last one among them: it has the most room.
            many => (1..=MOST_STARTS)
                .map(|step| moments[step * many / MOST_STARTS - 1])
                .collect(),
        }
    }

    /// A start that was found just now is promised, under a new token.
    pub fn promise(&mut self, request: &Request, planned: &Planned) -> Admitted {
        let Offer { price, places, .. } = &planned.offer;
        let token = self.enter(request, *price, places, Some(planned.starts_by));
        for one in &planned.suspends {
            self.suspend(one, token);
        }
        Admitted {
            token,
            price: *price,
            places: places.clone(),
        }
    }

    /// When a job of this id begins at the latest, if it is a planned one.
    pub fn starts_by(&self, id: &str) -> Option<f64> {
        self.job(self.find_id(id)?).starts_by.as_deref().copied()
    }

    /// A planned job begins now, for `request`: its own with what is left of its deadline. On nodes as for [`Book::admit_among`], where it fits
    /// beside all others; else, when it is due, by right where it was planned, as far as it may be there `ever`, whoever is there now. It is in
    /// the book under another token then. None if it waits on.
    pub fn begin(
        &mut self,
        id: &str,
        request: &Request,
        allowed: Option<&[u32]>,
        ever: Option<&[u32]>,
        now: f64,
    ) -> Option<Admitted> {
        self.advance(now);
        let key = self.find_id(id)?;
        self.by_margin(self.job(key).margin, |book| {
            book.begin_as_promised(key, id, request, allowed, ever)
        })
    }

    fn begin_as_promised(
        &mut self,
        key: usize,
        id: &str,
        request: &Request,
        allowed: Option<&[u32]>,
        ever: Option<&[u32]>,
    ) -> Option<Admitted> {
        let starts_by = self.job(key).starts_by.as_deref().copied()?;
        let places = match self.fits_now(key, request, allowed) {
            Some(places) => places,
            None if starts_by <= self.now && self.has_right(key, ever) => {
                (self.job(key).places.iter())
                    .map(|place| Placement::given(place.node as usize, place.chunks, place.share))
                    .collect()
            }
            None => return None,
        };
        let price = self.take_out(key).price;
        let token = self.enter(request, price, &places, None);
        // Its time began when it was due, so that nobody behind it begins later for the moment in which it was let begin.
        let late = self.now - starts_by;
        if (0.0..=self.latency_of_plans()).contains(&late) {
            if let Some(key) = self.find_token(token) {
                let job = self.job_mut(key);
                job.submitted -= late;
                job.request.terms.deadline += late;
            }
        }
        // It is there, and nobody has its id.
        let _ = self.bind(token, id, self.now);
        Some(Admitted {
            token,
            price,
            places,
        })
    }

    fn fits_now(
        &self,
        key: usize,
        request: &Request,
        allowed: Option<&[u32]>,
    ) -> Option<Vec<Placement>> {
        let allowed = self.with_own(key, allowed);
        let nodes = Nodes::now(self, allowed.as_deref()).at(self.now, Assumed::without(key));
        let mut scratch = vec![Placement::EMPTY; self.room(request)];
        let mut asked = *request;
        asked.terms.budget = f64::INFINITY;
        let paces = self.paces(request, &nodes);
        let accepted = self.accepts_at(&paces, nodes, &asked, &mut scratch)?;
        scratch.truncate(accepted.nodes);
        Some(scratch)
    }

    /// The slots that it may have: those that are open, and its own.
    pub(super) fn with_own(&self, key: usize, allowed: Option<&[u32]>) -> Option<Vec<u32>> {
        let mut allowed = self.padded(allowed)?.into_owned();
        let job = self.job(key);
        for place in job.places.iter() {
            let own = (place.chunks).saturating_mul(job.request.shape.processors_per_chunk);
            let open = &mut allowed[place.node as usize];
            *open = open.saturating_add(own);
        }
        Some(allowed)
    }

    /// Whether the nodes of a planned job that is due are there, and have its processors beside all who are still in their time.
    fn has_right(&self, key: usize, ever: Option<&[u32]>) -> bool {
        let are_there = self.job(key).places.iter().all(|place| {
            let index = place.node as usize;
            let node = &self.nodes[index];
            let may = |ever: &[u32]| ever.get(index).is_some_and(|slots| *slots > 0);
            node.available && ever.is_none_or(may) && node.memory_committed <= node.spec.memory
        });
        are_there && self.has_room_beside(key, &|other, place| self.is_in_time(other, place))
    }

    /// Whether a job's processors are free beside all of whom this says that they are still in their time: of the place of a job, by its key.
    pub(super) fn has_room_beside(
        &self,
        key: usize,
        is_in_time: &dyn Fn(usize, usize) -> bool,
    ) -> bool {
        let job = self.job(key);
        // Under the other policies jobs with shares were taken for what is left beside whole processors, however their shares add up.
        let by_sums = self.shares_add_up();
        job.places.iter().all(|place| {
            let index = place.node as usize;
            let others: f64 = (self.tenants(index))
                .filter(|&(other, at)| other != key && is_in_time(other, at))
                .filter(|&(other, _)| by_sums || self.job(other).has_whole())
                .map(|(other, at)| processors(self.job(other), &self.job(other).places[at]))
                .sum();
            let most = self.nodes[index].spec.processors * (1.0 + TOLERANCE);
            others + processors(job, place) <= most
        })
    }

    /// Whether a job has processors now by what was promised to it: it has begun, and its time is not over.
    pub(super) fn is_in_time(&self, key: usize, place: usize) -> bool {
        let job = self.job(key);
        let (from, until) = self.own_time(job, &job.places[place]);
        job.is_halting() || from <= self.now && until > self.now + SLACK
    }

    /// As [`Book::committed_shares`], without those who have outlived their time and give way to whoever is due.
    pub fn shares_in_time(&self, name: &str) -> Option<(f64, f64)> {
        self.shares_of(name, |key, place| self.is_in_time(key, place))
    }

    /// The same of those that have begun and of this job: in its queue once more, it waits until that is no more than the node has.
    pub fn shares_with_begun(&self, name: &str, id: &str) -> Option<(f64, f64)> {
        let own = self.find_id(id);
        let counts = |key, place| {
            Some(key) == own || self.job(key).phase == Phase::Running && self.is_in_time(key, place)
        };
        self.shares_of(name, counts)
    }

    /// Whether a planned job fits now, as [`Book::begin`] would have it; not whether it may begin by right.
    pub fn could_begin(&self, id: &str, allowed: Option<&[u32]>) -> bool {
        let Some(key) = self
            .find_id(id)
            .filter(|&key| self.job(key).starts_by.is_some())
        else {
            return false;
        };
        let job = self.job(key);
        let left = (job.request.terms).deadline_after(self.now - job.submitted);
        let mut request = with_deadline(&job.request.request(), left);
        // It is judged by the margin of now, and was promised by its own.
        let margin = self.admission.admission.estimate_margin;
        request.terms.estimate *= (1.0 + job.margin) / (1.0 + margin);
        left >= SHORTEST && self.fits_now(key, &request, allowed).is_some()
    }

    /// A planned job that is overdue gets another start, if there is one that ends it in time.
    pub fn plan_anew(&mut self, id: &str, allowed: Option<&[u32]>, now: f64) -> Option<Planned> {
        self.advance(now);
        let key = self.find_id(id)?;
        let job = self.job(key);
        job.starts_by.as_ref()?;
        let (request, allowed) = (job.request.request(), self.with_own(key, allowed));
        let (submitted, margin) = (job.submitted, job.margin);
        let planned = self.by_margin(margin, |book| {
            book.plan_for(&request, submitted, allowed.as_deref(), Some(key))
        })?;
        let mut job = self.take_out(key);
        job.plan_at(&planned);
        self.insert(job);
        Some(planned)
    }

    /// A planned job runs, whoever has let it begin: it has its processors from now on.
    pub(super) fn begun(&mut self, key: usize) -> usize {
        if self.job(key).starts_by.is_none() {
            return key;
        }
        let mut job = self.take_out(key);
        job.starts_by = None;
        self.insert(job)
    }

    /// How long a request has processors on a node of this rating. Its estimate is as planned.
    pub(super) fn length(&self, request: &Request, rating: f64) -> f64 {
        let terms = &request.terms;
        let runs = match terms.class.is_whole() {
            true => terms.estimate / rating,
            false => terms.deadline,
        };
        self.latency_of_plans() + runs
    }

    pub(super) fn latency_of_plans(&self) -> f64 {
        self.start_latency.max(self.begin_latency)
    }

    /// From when until when a job has processors at one of its places.
    fn own_time(&self, job: &BookedJob, place: &Allocation) -> (f64, f64) {
        let request = job.planned_request();
        let terms = &request.terms;
        let rating = |place: &Allocation| self.nodes[place.node as usize].spec.rating;
        if let Some(starts_by) = job.starts_by.as_deref() {
            let from = starts_by.max(self.now);
            let length = |place: &Allocation| self.length(&request, rating(place));
            return (from, from + job.longest(place, length));
        }
        if let Some(suspension) = job.suspended.as_deref() {
            let from = suspension.goes_on_by.max(self.now);
            return (from, from + self.left(job, place));
        }
        let until = match (job.held_until.as_deref(), terms.class.is_whole()) {
            (Some(held), false) => held + terms.deadline + place.delay,
            (Some(held), true) => {
                let length = |place: &Allocation| self.length(&request, rating(place));
                held + job.longest(place, length)
            }
            (None, false) => job.submitted + terms.deadline + place.delay,
            (None, true) => job.longest(place, |place| {
                let length = terms.estimate / rating(place);
                let at_latest = job.submitted + self.length(&request, rating(place));
                // The batch system may have taken longer to start it.
                at_latest.max(match job.phase {
                    Phase::Running => place.reported + length - place.cput,
                    Phase::Provisional | Phase::Bound => self.now + length,
                })
            }),
        };
        (f64::NEG_INFINITY, until)
    }

    /// How long a job with whole processors that has begun has them once it goes on.
    pub(super) fn left(&self, job: &BookedJob, place: &Allocation) -> f64 {
        let request = job.planned_request();
        let left = job.longest(place, |place| {
            let rating = self.nodes[place.node as usize].spec.rating;
            request.terms.estimate / rating - job.cput(place, self.now)
        });
        self.latency_of_plans() + left.max(0.0)
    }

    /// The same as who comes now has to take it: nobody knows when one is done that should be.
    pub(super) fn time_of(&self, key: usize, place: usize, assumed: &Assumed<'_>) -> (f64, f64) {
        let job = self.job(key);
        let place = &job.places[place];
        let goes_on = assumed.go_on.iter().find(|(other, _)| *other == key);
        let (from, until) = match goes_on {
            Some((_, at)) => (*at, at + self.left(job, place)),
            None => self.own_time(job, place),
        };
        match until <= self.now {
            true => (from, f64::INFINITY),
            false => (from, until),
        }
    }

    /// The most that is in use on a node at any moment from `from` to `until`; `by_slots` is what counts for a job with whole processors, see
    /// [`Book::beside_shares`].
    pub(super) fn peak(&self, node: usize, from: f64, until: f64, assumed: &Assumed<'_>) -> InUse {
        let from = from.max(self.now);
        // It grows only where somebody begins.
        std::iter::once(from)
            .chain(self.begins(node, from, until, assumed))
            .map(|at| (at, self.in_use(node, at, assumed)))
            .fold(InUse::default(), |most, (at, there)| InUse {
                committed: most.committed.max(there.committed),
                whole: most.whole.max(there.whole),
                by_slots: most.by_slots.max(self.beside_shares(at, there)),
            })
    }

    /// When somebody begins on a node or goes on there, after `from` and before `until`.
    pub(super) fn begins<'a>(
        &'a self,
        node: usize,
        from: f64,
        until: f64,
        assumed: &'a Assumed<'_>,
    ) -> impl Iterator<Item = f64> + 'a {
        let starts = (self.tenants(node)).filter_map(move |(key, place)| {
            let later = self.job(key).later().is_some()
                || assumed.go_on.iter().any(|(other, _)| *other == key);
            let there = later && Some(key) != assumed.without;
            there.then(|| self.time_of(key, place, assumed).0)
        });
        starts
            .chain(assumed.comes.map(|comes| comes.from))
            .filter(move |begins| from < *begins && *begins < until - SLACK)
    }

    /// What is in use on a node at a moment, by what is promised.
    pub(super) fn in_use(&self, node: usize, at: f64, assumed: &Assumed<'_>) -> InUse {
        let mut sum = InUse::default();
        let mut add = |processors: f64, slots: f64, whole: bool| {
            sum.committed += processors;
            sum.whole += if whole { processors } else { 0.0 };
            sum.by_slots += slots;
        };
        for (key, place) in self.tenants(node) {
            if Some(key) == assumed.without {
                continue;
            }
            let job = self.job(key);
            let (from, until) = self.time_of(key, place, assumed);
            // Whoever is there now counts now.
            let there = at <= self.now || until > at + SLACK;
            let runs_still = job.is_halting() && self.runs_still(job, at);
            if runs_still || from <= at && there {
                let place = &job.places[place];
                add(processors(job, place), job.slots_at(place), job.has_whole());
            }
        }
        if let Some(comes) = &assumed.comes {
            if comes.from <= at && comes.until > at + SLACK {
                let here = comes.places.iter().filter(|place| place.node == node);
                let each = f64::from(comes.request.shape.processors_per_chunk);
                let whole = comes.request.terms.class.is_whole();
                here.for_each(|place| {
                    let slots = f64::from(place.chunks) * each;
                    add(slots * place.share, slots, whole);
                });
            }
        }
        sum
    }

    /// Ids of planned jobs, those that begin first before others.
    pub fn planned(&self) -> Vec<&str> {
        let mut planned: Vec<&BookedJob> = self.planned.iter().map(|&key| self.job(key)).collect();
        planned.sort_by(|a, b| {
            let start = |job: &BookedJob| job.starts_by.as_deref().copied().unwrap_or(0.0);
            start(a).total_cmp(&start(b)).then(a.token.cmp(&b.token))
        });
        (planned.into_iter())
            .filter_map(|job| job.id.as_deref())
            .collect()
    }
}

impl BookedJob {
    /// It is planned there from now on.
    pub(super) fn plan_at(&mut self, planned: &Planned) {
        let like = self.places[0];
        self.starts_by = Some(Box::new(planned.starts_by));
        self.places = (planned.offer.places.iter())
            .map(|place| Allocation {
                node: place.node as u32,
                chunks: place.chunks,
                ..like
            })
            .collect();
    }
}

/// Processors of a job at one of its places.
pub(super) fn processors(job: &BookedJob, place: &Allocation) -> f64 {
    job.slots_at(place) * place.counted_share()
}
