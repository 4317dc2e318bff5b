//! The life of an accepted job: bound to an id, started, progressing, ended; or expired.

use super::{
    Alarm, Allocation, Book, BookError, BookedJob, Named, Phase, Unsound, check_name, check_seconds,
};
use std::cmp::Reverse;

/// Seconds between two checks of the jobs that wait to be started, unless set otherwise.
pub(super) const WAITING_REFRESH: f64 = 1.0;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ending {
    /// Finished by its deadline.
    pub met: bool,
    /// Seconds past the deadline, ≥ 0.
    pub delay: f64,
    /// Price as committed, credits.
    pub price: f64,
    /// Credits that the user pays back to be had: delay × penalty rate of a soft job, ≥ 0.
    pub penalty: f64,
}

impl Book {
    /// Gives a job that was admitted the id that the batch system found for it. From now on its
    /// reservation does not expire.
    ///
    /// # Errors
    /// When the token is unknown (its reservation may have expired) or the id is taken.
    pub fn bind(&mut self, token: u64, id: &str, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        check_name(Named::Job, id)?;
        let key = self.key_of_token(token)?;
        match self.find_id(id) {
            Some(holder) if holder == key => return Ok(()),
            Some(_) => return Err(BookError::IdTaken(id.to_string())),
            None => {}
        }
        if self.job(key).id.is_some() {
            self.unname_id(key);
        }
        let now = self.now;
        let job = self.job_mut(key);
        job.changed = now;
        job.id = Some(id.into());
        if job.phase == Phase::Provisional {
            job.phase = Phase::Bound;
        }
        self.name_id(key);
        Ok(())
    }

    /// The job runs from now on. A job started again (requeued) begins its estimate anew.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn started(&mut self, id: &str, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of(id)?;
        let key = self.begun(key);
        let key = self.no_longer_suspended(key);
        self.waiting.remove(&key);
        self.begin_anew(key, Phase::Running);
        Ok(())
    }

    /// The job does not run any more and will be started again; what it had done is lost.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn requeued(&mut self, id: &str, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of(id)?;
        let key = self.no_longer_suspended(key);
        self.waiting.insert(key);
        self.begin_anew(key, Phase::Bound);
        Ok(())
    }

    /// Two jobs of the same request change places: the subjobs of an array, which PBS starts in an order
    /// of its own.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn swap(&mut self, one: &str, other: &str) -> Result<(), BookError> {
        let (one, other) = (self.key_of(one)?, self.key_of(other)?);
        let (mut first, mut second) = (self.take_out(one), self.take_out(other));
        std::mem::swap(&mut first.places, &mut second.places);
        for job in [first, second] {
            let key = self.insert(job);
            self.refresh(key);
        }
        Ok(())
    }

    /// Whatever the job had done does not count any more.
    fn begin_anew(&mut self, key: usize, phase: Phase) {
        let now = self.now;
        let job = self.job_mut(key);
        job.phase = phase;
        job.changed = now;
        for place in job.places.iter_mut() {
            place.cput = 0.0;
            place.reported = now;
        }
        self.refresh(key);
    }

    /// The batch system runs the job elsewhere than it was planned: on these nodes, so many chunks on
    /// each. It counts there from now on, at the share committed to it.
    ///
    /// # Errors
    /// When there is no such job or node, or the chunks are not as many as the job has.
    pub fn moved(&mut self, id: &str, nodes: &[(String, u32)], now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of(id)?;
        let job = self.job(key);
        let chunks: u64 = nodes.iter().map(|(_, chunks)| u64::from(*chunks)).sum();
        if chunks != u64::from(job.request.shape.chunks) {
            return Err(BookError::Unsound(Unsound::Chunks));
        }
        let like = job.places[0];
        let mut places = Vec::with_capacity(nodes.len());
        for (name, chunks) in nodes {
            let node = self.node_index(name)?;
            places.push(Allocation {
                node: node as u32,
                chunks: *chunks,
                ..like
            });
        }
        let mut job = self.take_out(key);
        job.places = places.into();
        let key = self.insert(job);
        self.refresh(key);
        Ok(())
    }

    /// The job has used `cput` processor seconds per slot so far, on `node` or on all its nodes.
    ///
    /// # Errors
    /// When there is no such job, or it is not on that node.
    pub fn progress(
        &mut self,
        id: &str,
        node: Option<&str>,
        cput: f64,
        now: f64,
    ) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let cput = check_seconds("cput", cput)?;
        let key = self.key_of(id)?;
        let only = node.map(|name| self.node_index(name)).transpose()?;
        let key = self.begun(key);
        let now = self.now;
        let job = self.job_mut(key);
        let mut reported = false;
        for place in job.places.iter_mut() {
            if only.is_none_or(|index| index == place.node as usize) {
                place.cput = cput;
                place.reported = now;
                reported = true;
            }
        }
        if !reported {
            return Err(BookError::NotOnNode {
                id: id.to_string(),
                node: node.unwrap_or_default().to_string(),
            });
        }
        job.phase = Phase::Running;
        self.waiting.remove(&key);
        self.refresh(key);
        Ok(())
    }

    /// The job has ended; its shares are free.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn ended(&mut self, id: &str, now: f64) -> Result<Ending, BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of(id)?;
        let job = self.remove(key);
        let delay = (self.now - job.submitted - job.request.terms.deadline).max(0.0);
        Ok(Ending {
            met: delay == 0.0,
            delay,
            price: job.price,
            penalty: delay * job.request.terms.penalty_rate,
        })
    }

    /// Takes back a reservation or a job that will not run; its shares are free.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn cancel(&mut self, id: &str, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of(id)?;
        self.remove(key);
        Ok(())
    }

    /// Takes out a job that has an id, waits to be started, and of which nothing is known since `before`: it is held, or too late.
    /// Its shares are free. Returns whether there was such a job.
    pub fn release_waiting(&mut self, id: &str, before: f64, now: f64) -> bool {
        self.advance(now);
        let waits = |job: &BookedJob| job.phase == Phase::Bound && job.changed < before;
        match self.key_of(id) {
            Ok(key) if waits(self.job(key)) => {
                self.remove(key);
                true
            }
            _ => false,
        }
    }

    /// Ids of the jobs that wait to be started though their deadlines have passed.
    pub fn lapsed(&self, now: f64) -> Vec<String> {
        let lapsed = |job: &&BookedJob| job.submitted + job.request.terms.deadline <= now;
        (self.waiting.iter().map(|&key| self.job(key)))
            .filter(lapsed)
            .filter_map(|job| job.id.as_deref().map(str::to_string))
            .collect()
    }

    /// As [`Book::cancel`], for a job that has no id yet.
    ///
    /// # Errors
    /// When the token is unknown.
    pub fn cancel_token(&mut self, token: u64, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let key = self.key_of_token(token)?;
        self.remove(key);
        Ok(())
    }

    /// Takes back an acceptance, if it has no id yet. Returns whether there was one.
    pub fn drop_token(&mut self, token: u64) -> bool {
        let unnamed = |book: &Book, key: usize| book.job(key).phase == Phase::Provisional;
        match self.key_of_token(token) {
            Ok(key) if unnamed(self, key) => {
                self.remove(key);
                self.withdrawn += 1;
                true
            }
            _ => false,
        }
    }

    /// Takes back acceptances from before `submitted` that have no id yet, for a caller that looked for their jobs in the
    /// batch system and did not find them. Returns their tokens.
    pub fn drop_unnamed(&mut self, submitted: f64) -> Vec<u64> {
        let keys: Vec<usize> = (self.jobs.iter().enumerate())
            .filter_map(|(key, job)| Some((key, job.as_ref()?)))
            .filter(|(_, job)| job.phase == Phase::Provisional && job.held_until.is_none())
            .filter(|(_, job)| job.submitted < submitted)
            .map(|(key, _)| key)
            .collect();
        self.withdrawn += keys.len() as u64;
        keys.into_iter().map(|key| self.remove(key).token).collect()
    }

    /// Moves the book's time on: reservations that nobody bound expire, jobs past their deadline
    /// count a whole processor per slot. Every other call does this first.
    pub fn advance(&mut self, now: f64) {
        if now > self.now {
            self.now = now;
        }
        while let Some(&Reverse(Alarm { at, token })) = self.alarms.peek() {
            if at > self.now {
                break;
            }
            self.alarms.pop();
            let Some(key) = self.find_token(token) else {
                continue;
            };
            let job = self.job(key);
            let own = job.submitted + self.provisional;
            let expires = job.held_until.as_deref().copied().unwrap_or(own);
            if job.phase == Phase::Provisional && expires <= self.now {
                match job.held_until {
                    Some(_) => log::info!("the quote held under {token} expired"),
                    None => log::info!("reservation {token} expired without a job id"),
                }
                self.remove(key);
                self.withdrawn += 1;
            } else if job.submitted + job.request.terms.deadline <= self.now {
                self.refresh(key);
            }
        }
        if self.now - self.waiting_refreshed >= self.waiting_every {
            self.refresh_waiting(self.now);
        }
    }

    /// Takes the shares of jobs that wait to be started anew. Otherwise the first call that comes later than a second after the
    /// last time does it.
    pub fn refresh_waiting(&mut self, now: f64) {
        self.now = self.now.max(now);
        self.waiting_refreshed = self.now;
        let waiting: Vec<usize> = self.waiting.iter().copied().collect();
        waiting.into_iter().for_each(|key| self.refresh(key));
    }

    /// For a caller that has [`Book::refresh_waiting`] called regularly, when nobody is waiting for an answer: other calls do it
    /// only so many seconds after the last time, at least 1.
    pub fn refresh_waiting_every(&mut self, seconds: f64) {
        self.waiting_every = seconds.max(WAITING_REFRESH);
    }

    pub(super) fn remove(&mut self, key: usize) -> BookedJob {
        let job = self.take_out(key);
        if let Some(id) = &job.id {
            self.remember_left(id.to_string());
        }
        self.forget_alarms();
        job
    }

    /// Takes a job out of all lists and sums.
    pub(super) fn take_out(&mut self, key: usize) -> BookedJob {
        self.unname(key);
        (0..self.job(key).places.len()).for_each(|place| self.unsettle(key, place));
        self.vacant.push(key);
        self.waiting.remove(&key);
        self.planned.remove(&key);
        self.suspended.remove(&key);
        let job = self.jobs[key].take().expect("keys name jobs in the book");
        self.give_back(&job);
        job
    }

    /// Drops alarms of jobs that are gone, once they are the most: a job that ends long before its
    /// deadline would leave them behind until then.
    fn forget_alarms(&mut self) {
        let many = self.alarms.len() > 1024 && self.alarms.len() > 8 * self.by_token.len();
        self.gone += 1;
        // All of them are looked at, which is not to be done for each job that leaves.
        if many && self.alarms.len() <= 16 * self.gone {
            let mut alarms = std::mem::take(&mut self.alarms);
            alarms.retain(|Reverse(alarm)| {
                super::sums::work::step();
                self.has_token(alarm.token)
            });
            self.alarms = alarms;
            self.gone = 0;
        }
    }

    /// Takes the shares of a job anew.
    pub(super) fn refresh(&mut self, key: usize) {
        for place in 0..self.job(key).places.len() {
            self.retake(key, place);
        }
    }

    /// Takes a job's share on one of its nodes anew.
    pub(super) fn retake(&mut self, key: usize, index: usize) {
        let job = self.job(key);
        let on_node = self.on_node(job, &job.places[index]);
        let rating = self.nodes[job.places[index].node as usize].spec.rating;
        let need = self.admission.need(&on_node, rating);
        let now = self.now;
        let place = &mut self.job_mut(key).places[index];
        // The share changes now, so what was run at the old one is settled first.
        place.cput = on_node.cput;
        place.reported = now;
        place.share = need.share;
        place.deadline_status = need.deadline_status;
        self.recount(key, index);
    }

    pub(super) fn refresh_tenants(&mut self, node: usize) {
        let tenants: Vec<(usize, usize)> = self.tenants(node).collect();
        for (key, place) in tenants {
            self.rate(key);
            self.retake(key, place);
        }
    }
}
