//! What would be promised instead of a job that was refused. Each offer was judged before it is made.

use super::rules::Promise;
use super::{Gang, Refused};
use crate::decision::job::{LONGEST, Request};

/// One change that makes a job acceptable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offer {
    /// An earliest deadline, seconds from now, in steps of 0.1 s below 100 s and 1 s above.
    Deadline(f64),
    /// Fewer chunks, and the whole work on them. Whether it can be spread so only its user knows.
    Processors {
        /// Chunks.
        chunks: u32,
        /// Seconds on each processor.
        estimate: f64,
    },
}

impl Offer {
    /// The request changed by this offer.
    pub fn apply(&self, request: &Request) -> Request {
        let mut changed = *request;
        match *self {
            Offer::Deadline(deadline) => changed.terms.deadline = deadline,
            Offer::Processors { chunks, estimate } => {
                changed.shape.chunks = chunks;
                changed.terms.estimate = estimate;
            }
        }
        changed
    }
}

/// Upwards, to a figure that a person would type.
fn rounded(seconds: f64) -> f64 {
    let steps = if seconds < 100.0 { 10.0 } else { 1.0 };
    // What is such a figure but for rounding stays it.
    (seconds * steps - 1e-6).ceil() / steps
}

impl Gang {
    /// What a submission of this job would be answered now. Nothing changes.
    ///
    /// # Errors
    /// As [`Gang::submit`].
    pub fn quote(&mut self, request: &Request, now: f64) -> Result<Promise, Refused> {
        let (loose, next) = (self.loose, self.next);
        let (job, promise) = self.submit(request, now)?;
        self.plan.put_back();
        self.plan.forget(job.0);
        self.plan.take_over();
        (self.loose, self.next) = (loose, next);
        Ok(promise)
    }

    /// What would be promised instead of a job that is refused: the earliest deadline that is found, and fewer processors at this
    /// deadline. Empty where there is nothing, or it would be accepted as it is.
    pub fn counter_offers(&mut self, request: &Request, now: f64) -> Vec<Offer> {
        let Err(Refused::Late { end, deadline }) = self.quote(request, now) else {
            return Vec::new();
        };
        let mut offers = Vec::new();
        offers.extend(self.earliest_deadline(request, now, deadline, end));
        offers.extend(self.fewer_processors(request, now));
        offers
    }

    /// Between one that is refused and one after all that was promised.
    fn earliest_deadline(
        &mut self,
        request: &Request,
        now: f64,
        refused: f64,
        behind_all: f64,
    ) -> Option<Offer> {
        let mut keeps = |deadline: f64| {
            let offer = Offer::Deadline(deadline);
            self.quote(&offer.apply(request), now).is_ok()
        };
        let (mut low, mut high) = (refused, rounded(behind_all));
        if !(high <= LONGEST && high > low && keeps(high)) {
            return None;
        }
        while high - low > rounded(low * 0.01).max(0.1) {
            let middle = rounded((low + high) / 2.0);
            if middle >= high {
                break;
            }
            match keeps(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(Offer::Deadline(high))
    }

    fn fewer_processors(&mut self, request: &Request, now: f64) -> Option<Offer> {
        let asked = request.shape.chunks;
        let mut chunks = asked;
        while chunks > 1 {
            // A quarter less each time, at least one.
            chunks -= (chunks / 4).max(1);
            let estimate = request.terms.estimate * f64::from(asked) / f64::from(chunks);
            let offer = Offer::Processors {
                chunks,
                estimate: rounded(estimate),
            };
            let changed = offer.apply(request);
            // On fewer processors it may take longer than there is time; that would be no promise.
            let fits = changed.terms.estimate <= changed.terms.deadline;
            if fits && self.quote(&changed, now).is_ok() {
                return Some(offer);
            }
        }
        None
    }
}
