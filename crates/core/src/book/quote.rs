//! What would become of a request now, with nothing reserved; and shares that are held for a while for whoever asked.
//!
//! Invariants:
//! - A quote is judged as [`Book::admit_among`] and [`Book::admit_array`] judge, against the book as it stands; one that is to be held, as
//!   [`Book::admit_until`], for the last moment at which it may be used.
//! - What is held counts like a job that has not begun, its deadline counted from whenever it will be submitted: it needs the same
//!   share all the time. Its time over, it is free by itself.

use super::admit::{SCATTERED, array_requests};
use super::judge::{Nodes, Shown};
use super::{Alarm, Book, BookError, Phase, check_seconds};
use crate::decision::admission::Acceptance;
use crate::decision::counter_offer::budget_needed;
use crate::decision::curve::Judged;
use crate::decision::job::Request;
use crate::decision::placement::Placement;
use crate::decision::refusal::Category;
use std::borrow::Cow;
use std::cmp::Reverse;

/// What a request would be accepted for.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// Credits; of all jobs of an array.
    pub price: f64,
    /// Where it would go, best first.
    pub places: Vec<Placement>,
    /// False for an array that would be spread over nodes.
    pub pinned: bool,
}

/// Questions to a book: what would become of a request, with nothing reserved. The book's time is the caller's to set, see [`Book::advance`].
#[derive(Clone, Copy)]
pub struct Questions<'a> {
    book: &'a Book,
    later: f64,
}

impl Questions<'_> {
    /// Judges a request as [`Book::admit_among`] does, or that of each of `count` jobs of an array as
    /// [`Book::admit_array`].
    ///
    /// # Errors
    /// As those.
    pub fn quote(
        self,
        each: &Request,
        array: Option<u32>,
        allowed: Option<&[u32]>,
    ) -> Result<Offer, BookError> {
        let allowed = self.book.padded(allowed);
        let Some(count) = array else {
            return self.quote_one(each, 1, allowed.as_deref(), true);
        };
        let [together, all] = array_requests(each, count)?;
        if let Some(together) = together {
            if let Ok(mut offer) = self.quote_one(&together, count, allowed.as_deref(), true) {
                for place in &mut offer.places {
                    place.chunks = each.shape.chunks * count;
                }
                return Ok(offer);
            }
        }
        self.quote_one(&all.ok_or(SCATTERED)?, count, allowed.as_deref(), false)
    }

    fn quote_one(
        self,
        request: &Request,
        jobs: u32,
        allowed: Option<&[u32]>,
        pinned: bool,
    ) -> Result<Offer, BookError> {
        let mut scratch = vec![Placement::EMPTY; self.book.room(request)];
        let nodes = self.nodes(allowed);
        let accepted = self.book.judge(nodes, request, jobs, &mut scratch)?;
        scratch.truncate(accepted.nodes);
        Ok(Offer {
            price: accepted.price,
            places: scratch,
            pinned,
        })
    }

    /// The same without evidence and counter-offers: for many deadlines.
    pub fn appraise(self, each: &Request, array: Option<u32>, allowed: Option<&[u32]>) -> Judged {
        let book = self.book;
        let allowed = book.padded(allowed);
        let nodes = self.nodes(allowed.as_deref());
        let judge = |request: &Request| {
            let request = book.begun_late(request);
            let judged = |pace| (book.admission).appraise(&nodes.no_slower_than(pace), &request);
            let mut paces = book.paces(&request, &nodes).into_iter();
            let first = judged(paces.next().flatten());
            let accepted = |judged: &Judged| judged.refused.is_none();
            match accepted(&first) {
                true => first,
                false => paces.map(judged).find(accepted).unwrap_or(first),
            }
        };
        let refused = Judged {
            price: 0.0,
            share: None,
            refused: Some(Category::Invalid),
        };
        let Some(count) = array else {
            return judge(each);
        };
        let Ok([together, all]) = array_requests(each, count) else {
            return refused;
        };
        let together = together.map(|together| judge(&together));
        match (together, all) {
            (Some(judged), _) if judged.refused.is_none() => judged,
            (_, Some(all)) => judge(&all),
            (Some(judged), None) => judged,
            (None, None) => refused,
        }
    }

    /// The smallest budget for which it would be accepted, whatever its own; None if no budget helps.
    pub fn budget_needed(
        self,
        each: &Request,
        array: Option<u32>,
        allowed: Option<&[u32]>,
    ) -> Option<f64> {
        let price = self.appraise(each, array, allowed).price;
        let accepts = |request: &Request| {
            let judged = self.appraise(request, array, allowed);
            judged.refused.is_none().then_some(judged.price)
        };
        let weighs = self.book.admission.weighs_budgets(each);
        budget_needed(&accepts, price, weighs, each)
    }

    fn nodes<'a>(&'a self, allowed: Option<&'a [u32]>) -> Nodes<'a> {
        Nodes::now(self.book, allowed).later_by(self.later)
    }
}

impl Book {
    /// Questions for whoever may begin until so many seconds later, see [`Book::admit_until`].
    pub fn questions(&self, later: f64) -> Questions<'_> {
        Questions { book: self, later }
    }

    /// See [`Questions::quote`].
    ///
    /// # Errors
    /// As there.
    pub fn quote(
        &self,
        each: &Request,
        array: Option<u32>,
        allowed: Option<&[u32]>,
    ) -> Result<Offer, BookError> {
        self.questions(0.0).quote(each, array, allowed)
    }

    /// See [`Questions::appraise`].
    pub fn appraise(&self, each: &Request, array: Option<u32>, allowed: Option<&[u32]>) -> Judged {
        self.questions(0.0).appraise(each, array, allowed)
    }

    /// What a request would be accepted for on these nodes, or that of so many jobs of an array together; where, the first places of `scratch` have then.
    pub(super) fn judge(
        &self,
        nodes: Nodes<'_>,
        request: &Request,
        jobs: u32,
        scratch: &mut [Placement],
    ) -> Result<Acceptance, BookError> {
        let judged = self.begun_late(request);
        let shown = Shown::default();
        let nodes = self.at_its_pace(nodes.remembering(&shown), &judged, scratch);
        (self.admission)
            .judge_jobs(&nodes, &judged, jobs, scratch)
            .map_err(|mut refusal| {
                if judged != *request {
                    refusal.later_by(self.start_latency, request.terms.deadline);
                }
                BookError::Refused(refusal)
            })
    }

    /// A list of as many places as there are nodes at the least.
    pub(super) fn padded<'a>(&self, allowed: Option<&'a [u32]>) -> Option<Cow<'a, [u32]>> {
        let allowed = allowed?;
        if allowed.len() >= self.nodes.len() {
            return Some(Cow::from(allowed));
        }
        let mut padded = allowed.to_vec();
        padded.resize(self.nodes.len(), 0);
        Some(Cow::from(padded))
    }

    /// Returns true if a node, by its index, takes new jobs.
    pub fn is_available(&self, index: usize) -> bool {
        self.nodes.get(index).is_some_and(|node| node.available)
    }

    /// Acceptances without an id, `count` of them from this token on, are held until then, whatever
    /// [`super::DEFAULT_PROVISIONAL`] or its setting say.
    ///
    /// # Errors
    /// When one of the tokens is unknown.
    pub fn hold(&mut self, token: u64, count: u32, until: f64) -> Result<(), BookError> {
        let until = check_seconds("until", until)?;
        let keys = self.keys_of_tokens(token, count)?;
        for (key, token) in keys.into_iter().zip(token..) {
            let job = self.job_mut(key);
            job.held_until = Some(Box::new(until));
            (0..job.places.len()).for_each(|place| self.recount(key, place));
            self.alarms.push(Reverse(Alarm { at: until, token }));
        }
        Ok(())
    }

    /// What was held is accepted as if it were submitted now, at its price and its places; it waits for its id like any other.
    ///
    /// # Errors
    /// When one of the tokens is unknown: its time is over, or it was taken back.
    pub fn redeem(&mut self, token: u64, count: u32, now: f64) -> Result<(), BookError> {
        self.advance(check_seconds("now", now)?);
        let now = self.now;
        let keys = self.keys_of_tokens(token, count)?;
        let mut nodes = Vec::new();
        for (key, token) in keys.into_iter().zip(token..) {
            let job = self.job_mut(key);
            job.held_until = None;
            job.submitted = now;
            let due = now + job.request.terms.deadline;
            let mut alarms = vec![due];
            for place in job.places.iter_mut() {
                place.reported = now;
                alarms.push(due + place.delay);
            }
            nodes.extend(job.places.iter().map(|place| place.node as usize));
            alarms.push(now + self.provisional);
            alarms.dedup();
            (self.alarms).extend(alarms.into_iter().map(|at| Reverse(Alarm { at, token })));
            self.refresh(key);
        }
        self.accept_delays_on(nodes);
        Ok(())
    }

    fn keys_of_tokens(&self, token: u64, count: u32) -> Result<Vec<usize>, BookError> {
        (token..token.saturating_add(u64::from(count)))
            .map(|token| {
                let key = self.key_of_token(token)?;
                match self.job(key).phase {
                    Phase::Provisional => Ok(key),
                    _ => Err(BookError::UnknownToken(token)),
                }
            })
            .collect()
    }
}
