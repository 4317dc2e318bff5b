//! A job is judged and enters the book: one, one on some nodes only, or all jobs of an array.

use super::judge::Nodes;
use super::sums::work;
use super::{
    Admitted, Alarm, Allocation, Book, BookError, BookedJob, Phase, Unsound, check_seconds,
};
use crate::decision::job::Request;
use crate::decision::node::JobOnNode;
use crate::decision::placement::Placement;
use crate::decision::policy::Policy;
use crate::decision::share::DeadlineStatus;
use std::cmp::Reverse;

/// Why an array cannot be spread over nodes.
pub(super) const SCATTERED: BookError = BookError::Unsound(Unsound::ScatteredArray);

/// What is judged of an array: all its jobs as one chunk, on one node, and then all their chunks; None if it cannot be so.
pub(super) fn array_requests(
    each: &Request,
    count: u32,
) -> Result<[Option<Request>; 2], BookError> {
    let shape = &each.shape;
    let Some(chunks) = shape.chunks.checked_mul(count) else {
        return Err(BookError::Unsound(Unsound::LargeArray));
    };
    let mut all = *each;
    all.shape.chunks = chunks;
    all.shape.consumables = shape.consumables.times(1, count);
    let mut together = None;
    if let (Some(processors), Some(memory), false) = (
        chunks.checked_mul(shape.processors_per_chunk),
        shape.memory_per_chunk.checked_mul(u64::from(chunks)),
        shape.scatter,
    ) {
        let mut one = *each;
        one.shape.chunks = 1;
        one.shape.processors_per_chunk = processors;
        one.shape.memory_per_chunk = memory;
        one.shape.consumables = shape.consumables.times(chunks, count);
        together = one.check().is_ok().then_some(one);
    }
    let scattered = shape.chunks > 1 && shape.scatter;
    Ok([together, (!scattered).then_some(all)])
}

impl Book {
    /// Judges a request and, when it is accepted, reserves its shares under a new token.
    ///
    /// `now`: seconds on any clock that does not go back, the same for all calls.
    ///
    /// # Errors
    /// [`BookError::Refused`] with reason and counter-offers; nothing is reserved then.
    pub fn admit(&mut self, request: &Request, now: f64) -> Result<Admitted, BookError> {
        self.admit_among(request, None, now)
    }

    /// As [`Book::admit`], on some nodes only: `allowed` has for each node, by its index, how many slots this request may have
    /// there, all jobs of an array together. 0 closes the node, [`u32::MAX`] is no limit; a shorter list closes the rest.
    ///
    /// # Errors
    /// As [`Book::admit`]; the counter-offers hold for these nodes.
    pub fn admit_among(
        &mut self,
        request: &Request,
        allowed: Option<&[u32]>,
        now: f64,
    ) -> Result<Admitted, BookError> {
        self.admit_one(request, allowed, 0.0, now)
    }

    /// As [`Book::admit_among`] or, for so many jobs of an array, [`Book::admit_array`], for somebody who may come until then: it is to be held by
    /// [`Book::hold`]. He finds his processors whenever he comes, and is not in the way of those who are to begin behind him.
    ///
    /// # Errors
    /// As those.
    pub fn admit_until(
        &mut self,
        each: &Request,
        array: Option<u32>,
        allowed: Option<&[u32]>,
        until: f64,
        now: f64,
    ) -> Result<(Admitted, bool), BookError> {
        let later = (check_seconds("until", until)? - check_seconds("now", now)?).max(0.0);
        match array {
            None => Ok((self.admit_one(each, allowed, later, now)?, true)),
            Some(count) => self.admit_all(each, count, allowed, later, now),
        }
    }

    /// `later`: so many seconds it may begin later.
    fn admit_one(
        &mut self,
        request: &Request,
        allowed: Option<&[u32]>,
        later: f64,
        now: f64,
    ) -> Result<Admitted, BookError> {
        let (price, places) = self.judge_jobs(request, 1, allowed, later, now)?;
        let token = self.enter(request, price, &places, None);
        self.accept_delays_on(places.iter().map(|place| place.node).collect());
        Ok(Admitted {
            token,
            price,
            places,
        })
    }

    /// What a request would be accepted for, or that of so many jobs of an array together, and where; nothing is reserved.
    fn judge_jobs(
        &mut self,
        request: &Request,
        jobs: u32,
        allowed: Option<&[u32]>,
        later: f64,
        now: f64,
    ) -> Result<(f64, Vec<Placement>), BookError> {
        self.advance(check_seconds("now", now)?);
        let padded = self.padded(allowed);
        let room = self.room(request);
        let mut scratch = std::mem::take(&mut self.scratch);
        if scratch.len() < room {
            scratch.resize(room, Placement::EMPTY);
        }
        let nodes = Nodes::now(self, padded.as_deref()).later_by(later);
        let accepted = self.judge(nodes, request, jobs, &mut scratch);
        let offered = accepted.map(|accepted| (accepted.price, scratch[..accepted.nodes].to_vec()));
        self.scratch = scratch;
        offered
    }

    /// Admits all jobs of an array or none: on one node together where one has room for all (then the flag is
    /// true), else spread. `each` is the request of one job.
    ///
    /// All jobs of an array have one description in a batch system, so that a node can only be told for all of them.
    ///
    /// # Errors
    /// As [`Book::admit_among`], for all of them together; where each of them is scattered over nodes itself.
    pub fn admit_array(
        &mut self,
        each: &Request,
        count: u32,
        allowed: Option<&[u32]>,
        now: f64,
    ) -> Result<(Admitted, bool), BookError> {
        self.admit_all(each, count, allowed, 0.0, now)
    }

    fn admit_all(
        &mut self,
        each: &Request,
        count: u32,
        allowed: Option<&[u32]>,
        later: f64,
        now: f64,
    ) -> Result<(Admitted, bool), BookError> {
        let [together, all] = array_requests(each, count)?;
        if let Some(together) = together {
            let set = [&together, each];
            if let Ok(mut admitted) = self.admit_jobs(set, count, allowed, later, now) {
                for place in &mut admitted.places {
                    place.chunks = each.shape.chunks * count;
                }
                return Ok((admitted, true));
            }
        }
        let all = all.ok_or(SCATTERED)?;
        let set = [&all, each];
        Ok((self.admit_jobs(set, count, allowed, later, now)?, false))
    }

    /// Judges the jobs of an array together and, when all are accepted, reserves the shares of each under a
    /// token of its own. `together` is judged; it asks for the chunks of all of them, or for one chunk with
    /// the processors of all. Each of the `count` jobs is then `each`, and the tokens follow the first.
    ///
    /// # Errors
    /// As [`Book::admit_among`].
    pub fn admit_set(
        &mut self,
        together: &Request,
        each: &Request,
        count: u32,
        allowed: Option<&[u32]>,
        now: f64,
    ) -> Result<Admitted, BookError> {
        self.admit_jobs([together, each], count, allowed, 0.0, now)
    }

    fn admit_jobs(
        &mut self,
        [together, each]: [&Request; 2],
        count: u32,
        allowed: Option<&[u32]>,
        later: f64,
        now: f64,
    ) -> Result<Admitted, BookError> {
        let (price, mut places) = self.judge_jobs(together, count, allowed, later, now)?;
        let chunks = each.shape.chunks.max(1);
        if let ([only], true) = (&mut places[..], together.shape.chunks == 1) {
            only.chunks = chunks.saturating_mul(count);
        }
        let token = self.next_token;
        let mut rest = places.clone();
        // Those before it are used up.
        let mut first = 0;
        for _ in 0..count {
            let mut wanted = chunks;
            let mut own = Vec::new();
            while let Some(place) = rest.get_mut(first).filter(|_| wanted > 0) {
                work::step();
                let mut taken = *place;
                taken.chunks = place.chunks.min(wanted);
                place.chunks -= taken.chunks;
                wanted -= taken.chunks;
                if place.chunks == 0 {
                    first += 1;
                }
                own.push(taken);
            }
            self.enter(each, price / f64::from(count), &own, None);
        }
        self.accept_delays_on(places.iter().map(|place| place.node).collect());
        Ok(Admitted {
            token,
            price,
            places,
        })
    }

    /// A job enters the book, which may begin now or by a time. What it makes others wait for is the caller's to settle, see [`Book::accept_delays_on`].
    pub(super) fn enter(
        &mut self,
        request: &Request,
        price: f64,
        places: &[Placement],
        starts_by: Option<f64>,
    ) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        let now = self.now;
        let job = BookedJob {
            token,
            id: None,
            request: request.into(),
            margin: self.admission.admission.estimate_margin,
            price,
            submitted: now,
            phase: Phase::Provisional,
            slowest: None,
            changed: f64::INFINITY,
            held_until: None,
            starts_by: starts_by.map(Box::new),
            suspended: None,
            places: places
                .iter()
                .map(|place| Allocation {
                    node: place.node as u32,
                    chunks: place.chunks,
                    share: place.share,
                    committed_share: if self.reserve_committed_share {
                        place.share
                    } else {
                        0.0
                    },
                    deadline_status: DeadlineStatus::OnTrack,
                    cput: 0.0,
                    reported: now,
                    delay: 0.0,
                    counted: 0.0,
                    quoted: false,
                    before: None,
                    after: None,
                })
                .collect(),
        };
        self.insert(job);
        self.alarms.push(Reverse(Alarm {
            at: now + self.provisional,
            token,
        }));
        token
    }

    /// Jobs came to these nodes: sets the delays that were accepted with them, once on each node.
    pub(super) fn accept_delays_on(&mut self, mut nodes: Vec<usize>) {
        if self.admission.admission.policy.accepts_delays() {
            nodes.sort_unstable();
            nodes.dedup();
            nodes.into_iter().for_each(|node| self.accept_delays(node));
        }
    }

    /// Sets the delays that were accepted with the jobs that came to a node last.
    pub(super) fn accept_delays(&mut self, index: usize) {
        let now = self.now;
        let tenants: Vec<(usize, usize)> = (self.tenants(index))
            .filter(|&(key, _)| !self.job(key).has_whole())
            .collect();
        let mut jobs: Vec<JobOnNode> = tenants
            .iter()
            .map(|&(key, place)| self.on_node(self.job(key), &self.job(key).places[place]))
            .collect();
        let spec = (self.nodes[index].spec).without(self.nodes[index].whole);
        (self.admission.admission.policy).accept_delays(&spec, &mut jobs);
        for (&(key, place), on_node) in tenants.iter().zip(&jobs) {
            let job = self.job_mut(key);
            let part = &mut job.places[place];
            // Settled at the share it had, before it has another.
            (part.cput, part.reported) = (on_node.cput, now);
            part.share = on_node.held_share;
            if job.places[place].delay != on_node.delay {
                job.places[place].delay = on_node.delay;
                let alarm = Alarm {
                    at: job.submitted + job.request.terms.deadline + on_node.delay,
                    token: job.token,
                };
                self.alarms.push(Reverse(alarm));
            }
            self.retake(key, place);
        }
    }
}
