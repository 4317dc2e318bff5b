//! Jobs that stand still for others: one with whole processors whose deadline leaves it the time makes room for one with an earlier deadline that could not
//! be kept else, and goes on behind it on the same nodes (gang scheduling, Ousterhout 1982, in the order of deadlines).
//!
//! Invariants, beside those of [`super::planned`]:
//! - Who stands still is promised when it goes on at the latest, and is done by its deadline from then on if its estimate holds. It fits beside all
//!   others in that time like any planned job, so nobody accepted later breaks its promise.
//! - It makes room for earlier deadlines alone, keeps its nodes, and what is counted from acceptance to end (memory, the batch system's slots) stays
//!   counted: it fits beside whoever takes its processors.
//! - What cannot be given back is not taken away: a job that uses consumables (GPUs, licences) runs on. So does one that is promised full speed, one
//!   that has outlived its estimate, and one that the batch system cannot suspend.
//! - Until its batch system says that it stands still it has its processors, and whoever is to have them waits.
//! - It goes on as soon as it fits. When it is due it goes on by right: whoever is past all that was planned for does not count.

use super::assumed::{Assumed, Coming};
use super::judge::Nodes;
use super::planned::{GoesOn, MOST_STARTS, Planned, SLACK, processors};
use super::{Book, BookError, BookedJob, Offer, Phase, check_seconds};
use crate::decision::TOLERANCE;
use crate::decision::admission::affordable;
use crate::decision::class::Class;
use crate::decision::curve::with_deadline;
use crate::decision::job::{Request, SHORTEST};
use crate::decision::placement::Placement;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};

/// Jobs that are taken into account to stand still for one, those with the latest deadlines.
const MOST_CONSIDERED: usize = 64;

/// Placements that are tried for one job: each time one that could not go on in time is left alone.
const MOST_TRIED: usize = 16;

/// Of a job that stands still for others, or is to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Suspension {
    /// When it goes on at the latest, on the book's clock.
    pub goes_on_by: f64,
    /// Its batch system says that it stands still.
    pub stands_still: bool,
    /// Token of the one for which it does, as that was planned.
    #[serde(skip)]
    pub(super) comes: Option<u64>,
}

impl Suspension {
    /// As it is on record.
    pub fn new(goes_on_by: f64, stands_still: bool) -> Suspension {
        Suspension {
            goes_on_by,
            stands_still,
            comes: None,
        }
    }
}

impl BookedJob {
    /// When it begins or goes on at the latest, of one that has no processors now or is to have none.
    pub(super) fn later(&self) -> Option<f64> {
        let goes_on = self.suspended.as_deref().map(|job| job.goes_on_by);
        self.starts_by.as_deref().copied().or(goes_on)
    }

    /// It is to stand still, and runs.
    pub(super) fn is_halting(&self) -> bool {
        let suspension = self.suspended.as_deref();
        suspension.is_some_and(|suspension| !suspension.stands_still)
    }

    pub(super) fn stands_still(&self) -> bool {
        let suspension = self.suspended.as_deref();
        suspension.is_some_and(|suspension| suspension.stands_still)
    }

    fn due(&self) -> f64 {
        self.submitted + self.request.terms.deadline
    }
}

impl Book {
    /// A start that can be promised to a dedicated job for which [`Book::plan`] finds none, if others with later deadlines stand still meanwhile:
    /// as soon as they do. `may`: whether the batch system can suspend a job of this id. Nothing is reserved.
    pub fn plan_in_front(
        &self,
        request: &Request,
        allowed: Option<&[u32]>,
        may: &dyn Fn(&str) -> bool,
    ) -> Option<Planned> {
        if request.check().is_err() || request.terms.class != Class::Dedicated {
            return None;
        }
        let at = self.now + self.suspend_latency;
        let left = request.terms.deadline - self.suspend_latency;
        if left < SHORTEST {
            return None;
        }
        let allowed = self.padded(allowed);
        let allowed = allowed.as_deref();
        let mut considered = self.may_stand_still(request, allowed, may);
        let asked = self.begun_late(&with_deadline(request, left));
        for _ in 0..MOST_TRIED {
            if considered.is_empty() {
                return None;
            }
            let offer = self.offer_without(&considered, request, &asked, at, allowed)?;
            let planned = self.admission.admission.planned(request);
            let nodes = offer.places.iter().map(|place| place.node);
            let comes = Coming {
                request: &planned,
                places: &offer.places,
                from: at,
                until: at + self.length(&planned, self.slowest_of(nodes)),
            };
            match self.go_on_behind(&comes, &considered) {
                Ok(suspends) => {
                    return Some(Planned {
                        starts_by: at,
                        offer,
                        suspends,
                    });
                }
                Err(stuck) => considered.retain(|key| *key != stuck),
            }
        }
        None
    }

    /// As [`Book::plan_anew`], of one for which that finds no start, if others stand still for it: who made room for it runs again, was forgotten with the
    /// server that knew, or is due itself. Who is due and finds no room behind it goes on: neither waits for the other.
    pub fn plan_anew_in_front(
        &mut self,
        id: &str,
        allowed: Option<&[u32]>,
        may: &dyn Fn(&str) -> bool,
        now: f64,
    ) -> Option<Planned> {
        self.advance(now);
        let key = self.find_id(id)?;
        self.job(key).starts_by.as_ref()?;
        let allowed = self.with_own(key, allowed);
        // It is in its own way where it was planned.
        let mut job = self.take_out(key);
        let left = (job.request.terms).deadline_after(self.now - job.submitted);
        let mut request = with_deadline(&job.request.request(), left);
        // It costs what it was told.
        request.terms.budget = f64::INFINITY;
        let due = self.let_due_go_on();
        let planned = self.by_margin(job.margin, |book| {
            book.plan_in_front(&request, allowed.as_deref(), may)
        });
        if let Some(planned) = &planned {
            job.plan_at(planned);
        }
        let token = job.token;
        self.insert(job);
        for one in planned.iter().flat_map(|planned| &planned.suspends) {
            self.suspend(one, token);
        }
        let again = due.iter().filter_map(|id| self.find_id(id));
        for key in again.collect::<Vec<_>>() {
            self.note_still(key, Some(&Suspension::new(self.now, true)));
        }
        planned
    }

    /// Who stands still, is due, and would go on by right but for one that was taken out of the book: it is as if it did. Their ids.
    fn let_due_go_on(&mut self) -> Vec<String> {
        let is_due = |key: &usize| {
            let by = self.job(*key).later();
            self.job(*key).stands_still() && by.is_some_and(|by| by <= self.now + SLACK)
        };
        let keys: Vec<usize> = self.suspended.iter().copied().filter(is_due).collect();
        let mut due = Vec::new();
        for key in keys {
            let in_time = |other: usize, place: usize| self.is_before_going_on(other, place);
            if self.has_room_beside(key, &in_time) {
                let key = self.no_longer_suspended(key);
                due.extend(self.job(key).id.as_deref().map(str::to_string));
            }
        }
        due
    }

    /// Jobs that could stand still for this one, those with the latest deadlines first.
    fn may_stand_still(
        &self,
        request: &Request,
        allowed: Option<&[u32]>,
        may: &dyn Fn(&str) -> bool,
    ) -> Vec<usize> {
        let due = self.now + request.terms.deadline;
        let could = |key: &usize| {
            let job = self.job(*key);
            let counted = job.request.shape.consumables();
            job.phase == Phase::Running
                && job.suspended.is_none()
                && job.request.terms.class == Class::Dedicated
                && job.due() > due
                && counted.is_empty()
                && job
                    .places
                    .iter()
                    .all(|place| self.left(job, place) > self.latency_of_plans())
                && job.id.as_deref().is_some_and(may)
        };
        let open = |index: &usize| {
            self.nodes[*index].available && allowed.is_none_or(|allowed| allowed[*index] > 0)
        };
        let nodes = (0..self.nodes.len()).filter(open);
        // Each is judged once, however many nodes it has.
        let keys: BTreeSet<usize> = (nodes.flat_map(|index| self.tenants(index)))
            .map(|(key, _)| key)
            .collect();
        let mut found: Vec<usize> = keys.into_iter().filter(could).collect();
        found.sort_by(|a, b| self.by_due(*b, *a));
        found.truncate(MOST_CONSIDERED);
        found
    }

    fn by_due(&self, one: usize, other: usize) -> std::cmp::Ordering {
        let (a, b) = (self.job(one), self.job(other));
        a.due().total_cmp(&b.due()).then(a.token.cmp(&b.token))
    }

    /// What a job would get from `at` on if these were not there.
    fn offer_without(
        &self,
        out: &[usize],
        request: &Request,
        asked: &Request,
        at: f64,
        allowed: Option<&[u32]>,
    ) -> Option<Offer> {
        let never: Vec<(usize, f64)> = out.iter().map(|&key| (key, f64::INFINITY)).collect();
        let assumed = Assumed {
            go_on: &never,
            ..Assumed::default()
        };
        let nodes = Nodes::now(self, allowed).at(at, assumed);
        let mut places = vec![Placement::EMPTY; self.room(request)];
        let mut free = *asked;
        free.terms.budget = f64::INFINITY;
        let paces = self.paces(request, &nodes);
        let accepted = self.accepts_at(&paces, nodes, &free, &mut places)?;
        // It costs what its terms cost, whoever stands still for it.
        let price = self.admission.price_now(&nodes, &self.begun_late(request));
        if !affordable(price, request.terms.budget) {
            return None;
        }
        places.truncate(accepted.nodes);
        Some(Offer {
            price,
            places,
            pinned: true,
        })
    }

    /// Who of these has to stand still for the one that comes, and when each goes on.
    ///
    /// # Errors
    /// The key of one that would not go on in time.
    fn go_on_behind(&self, comes: &Coming<'_>, considered: &[usize]) -> Result<Vec<GoesOn>, usize> {
        let own: HashSet<usize> = comes.places.iter().map(|place| place.node).collect();
        let is_there = |key: &usize| {
            (self.job(*key).places.iter()).any(|place| own.contains(&(place.node as usize)))
        };
        let mut out: Vec<(usize, f64)> = (considered.iter().copied())
            .filter(is_there)
            .map(|key| (key, f64::INFINITY))
            .collect();
        out.sort_by(|(a, _), (b, _)| self.by_due(*a, *b));
        // Those with the earliest deadlines run on where that leaves enough.
        let mut index = 0;
        while index < out.len() {
            let runs_on = out.remove(index);
            if !self.comes_beside(comes, &out) {
                out.insert(index, runs_on);
                index += 1;
            }
        }
        for index in 0..out.len() {
            let key = out[index].0;
            out[index].1 = self.first_going_on(key, comes, &out).ok_or(key)?;
        }
        let named = |(key, by): (usize, f64)| {
            let id = self.job(key).id.as_deref().unwrap_or_default().to_string();
            GoesOn { id, by }
        };
        Ok(out.into_iter().map(named).collect())
    }

    /// Whether the one that comes fits at its places beside all but these.
    fn comes_beside(&self, comes: &Coming<'_>, out: &[(usize, f64)]) -> bool {
        let assumed = Assumed {
            go_on: out,
            ..Assumed::default()
        };
        let each = f64::from(comes.request.shape.processors_per_chunk);
        comes.places.iter().all(|place| {
            let spec = self.nodes[place.node].spec;
            let others = self.peak(place.node, comes.from, comes.until, &assumed);
            let own = f64::from(place.chunks) * each * place.share;
            others.by_slots + own <= spec.processors * (1.0 + TOLERANCE)
        })
    }

    /// When a job that stands still for the one that comes can go on at the earliest, in time for its deadline. The others that stand still do so
    /// until their times.
    fn first_going_on(&self, key: usize, comes: &Coming<'_>, out: &[(usize, f64)]) -> Option<f64> {
        let others: Vec<(usize, f64)> = (out.iter().copied())
            .filter(|(other, _)| *other != key)
            .collect();
        let assumed = Assumed {
            without: Some(key),
            go_on: &others,
            comes: Some(*comes),
        };
        let job = self.job(key);
        let ends = job.places.iter().flat_map(|place| {
            (self.tenants(place.node as usize))
                .filter(|(other, _)| *other != key)
                .map(|(other, place)| self.time_of(other, place, &assumed).1)
        });
        let latest = job.due() - self.takes(job);
        let mut moments: Vec<f64> = (ends.chain([comes.until]))
            .filter(|at| *at > comes.from && *at <= latest)
            .collect();
        moments.sort_by(f64::total_cmp);
        // A job ends on all of its nodes at one time, which is one moment.
        moments.dedup_by(|later, earlier| *later - *earlier < SLACK);
        moments.truncate(MOST_STARTS);
        (moments.into_iter()).find(|at| self.goes_on_at(key, *at, &assumed))
    }

    /// Whether a job fits at its own places from then on, until it is done.
    fn goes_on_at(&self, key: usize, at: f64, assumed: &Assumed<'_>) -> bool {
        let job = self.job(key);
        job.places.iter().all(|place| {
            let node = place.node as usize;
            let until = at + self.left(job, place);
            let others = self.peak(node, at, until, assumed).by_slots;
            let most = self.nodes[node].spec.processors * (1.0 + TOLERANCE);
            others + processors(job, place) <= most
        })
    }

    /// A job that runs is to stand still for the one of this token.
    pub(super) fn suspend(&mut self, one: &GoesOn, comes: u64) {
        let Some(key) = self.find_id(&one.id) else {
            return;
        };
        if self.job(key).phase != Phase::Running || self.job(key).suspended.is_some() {
            return;
        }
        self.settle_progress(key);
        let mut job = self.take_out(key);
        job.suspended = Some(Box::new(Suspension {
            comes: Some(comes),
            ..Suspension::new(one.by, false)
        }));
        self.insert(job);
    }

    /// A job that was to stand still for others keeps its processors: somebody else has suspended it.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn keeps_processors(&mut self, id: &str, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of(id)?;
        self.no_longer_suspended(key);
        Ok(())
    }

    /// Nothing of it is left.
    pub(super) fn no_longer_suspended(&mut self, key: usize) -> usize {
        if self.job(key).suspended.is_none() {
            return key;
        }
        self.settle_progress(key);
        let mut job = self.take_out(key);
        job.suspended = None;
        self.insert(job)
    }

    /// What its batch system says of one job that is to stand still for others: whether it does.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn note_stands_still(&mut self, id: &str, still: bool, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of(id)?;
        self.note_still(key, Some(&Suspension::new(self.now, still)));
        Ok(())
    }

    /// What its batch system says of a running job: whether it stands still.
    pub(super) fn note_still(&mut self, key: usize, record: Option<&Suspension>) {
        let still = record.is_some_and(|suspension| suspension.stands_still);
        if self.job(key).suspended.is_none() || self.job(key).stands_still() == still {
            return;
        }
        self.settle_progress(key);
        if let Some(suspension) = self.job_mut(key).suspended.as_deref_mut() {
            suspension.stands_still = still;
        }
    }

    /// What it has done until now is written down, before it runs or stands still from now on.
    fn settle_progress(&mut self, key: usize) {
        let now = self.now;
        let done: Vec<f64> = (self.job(key).places.iter())
            .map(|place| self.job(key).cput(place, now))
            .collect();
        for (place, done) in self.job_mut(key).places.iter_mut().zip(done) {
            (place.cput, place.reported) = (done, now);
        }
    }

    /// Whether a job has processors yet by what was planned when another one made room for it. One that has not begun, or was taken back into its queue, was
    /// to be done as if it had begun at once.
    fn is_before_going_on(&self, key: usize, place: usize) -> bool {
        let job = self.job(key);
        let waits = job.phase != Phase::Running && job.later().is_none() && job.has_whole();
        if !waits {
            return self.is_in_time(key, place);
        }
        let request = job.planned_request();
        let length = job.longest(&job.places[place], |place| {
            self.length(&request, self.nodes[place.node as usize].spec.rating)
        });
        job.submitted + length > self.now + SLACK
    }

    /// Whether one that is to stand still, and does not yet, may run then all the same; throughout where the one for which it would have no id yet: it may be a test.
    pub(super) fn runs_still(&self, job: &BookedJob, at: f64) -> bool {
        at <= self.now || at < self.now + self.suspend_latency - SLACK || !self.is_sure(job)
    }

    fn is_sure(&self, job: &BookedJob) -> bool {
        let comes = job
            .suspended
            .as_deref()
            .and_then(|suspension| suspension.comes);
        let comes = comes.and_then(|token| self.find_token(token));
        comes.is_none_or(|key| self.job(key).id.is_some())
    }

    /// Whether somebody stands still for others on a node, or is to; false for one that is not there.
    pub fn has_suspended(&self, node: &str) -> bool {
        let Some(index) = self.by_name.get(node) else {
            return false;
        };
        let is_there =
            |key: &usize| (self.job(*key).places.iter()).any(|place| place.node as usize == *index);
        self.suspended.iter().any(is_there)
    }

    /// Whether a job is to stand still that runs.
    pub(super) fn is_suspending(&self) -> bool {
        (self.suspended.iter()).any(|&key| self.job(key).is_halting())
    }

    /// When a job goes on at the latest, if it stands still for others or is to.
    pub fn goes_on_by(&self, id: &str) -> Option<f64> {
        let suspension = self.job(self.find_id(id)?).suspended.as_deref();
        suspension.map(|suspension| suspension.goes_on_by)
    }

    /// As [`Book::goes_on_by`], where it is to stand still by now: who has no id yet may be a test, for which nobody does.
    pub fn stands_still_until(&self, id: &str) -> Option<f64> {
        let job = self.job(self.find_id(id)?);
        let suspension = job.suspended.as_deref().filter(|_| self.is_sure(job))?;
        Some(suspension.goes_on_by)
    }

    /// By how many seconds a running job with whole processors would be late if it went on now and its estimate holds; None if it would not.
    pub fn would_be_late(&self, id: &str) -> Option<f64> {
        let job = self.job(self.find_id(id)?);
        if job.phase != Phase::Running || !job.has_whole() {
            return None;
        }
        let takes = self.takes(job) - self.latency_of_plans();
        let late = self.now + takes - job.due();
        (late > 0.0).then_some(late)
    }

    /// Ids of those that stand still for others, or are to.
    pub fn suspended(&self) -> impl Iterator<Item = &str> {
        (self.suspended.iter()).filter_map(|&key| self.job(key).id.as_deref())
    }

    /// How long a job has its processors from when it goes on, on the node where that is longest.
    fn takes(&self, job: &BookedJob) -> f64 {
        (job.places.iter()).fold(0.0, |most: f64, place| most.max(self.left(job, place)))
    }

    /// Lets those go on that stand still and fit now, or are due. Returns their ids.
    pub fn let_go_on(&mut self, now: f64) -> Vec<String> {
        self.advance(now);
        let mut keys: Vec<usize> = self.suspended.iter().copied().collect();
        keys.sort_by(|a, b| {
            let by = |key: &usize| self.job(*key).later().unwrap_or(0.0);
            by(a).total_cmp(&by(b)).then(self.by_due(*a, *b))
        });
        let mut gone = Vec::new();
        for key in keys {
            let due = self
                .job(key)
                .later()
                .is_some_and(|by| by <= self.now + SLACK);
            let fits = self.goes_on_at(key, self.now, &Assumed::without(key));
            let in_time = |other: usize, place: usize| self.is_before_going_on(other, place);
            if fits || due && self.has_room_beside(key, &in_time) {
                let key = self.no_longer_suspended(key);
                gone.push(self.job(key).id.as_deref().unwrap_or_default().to_string());
            }
        }
        gone
    }
}
