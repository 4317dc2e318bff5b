//! What would be accepted instead of a refused request: the earliest deadline at this budget, the
//! smallest budget at this deadline, fewer processors.
//!
//! Invariant: every counter-offer, submitted as is against the same cluster, is accepted; each one
//! is judged before it is made. The search knows nothing about policies: it asks the same question
//! with other values. Amounts are rounded outward to figures that a person would type.

use super::job::{LARGEST_AMOUNT, LONGEST, Request};
use crate::text::{credits, duration};
use std::fmt;

/// One change that makes the request acceptable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CounterOffer {
    /// The earliest deadline at this budget, in steps of 0.1 s below 100 s and 1 s above.
    Deadline {
        /// Seconds after submission.
        deadline: f64,
        /// What the job costs then, credits.
        price: f64,
    },
    /// The smallest budget at this deadline, in steps of 0.01 credits.
    Budget {
        /// Credits.
        budget: f64,
    },
    /// As many chunks, or processors of the one chunk, as would fit, the rest unchanged.
    Processors {
        /// Chunks.
        chunks: u32,
        /// Processors in each.
        processors_per_chunk: u32,
        /// What the job costs then, credits.
        price: f64,
    },
}

impl CounterOffer {
    /// The request changed by this offer.
    pub fn apply(&self, request: &Request) -> Request {
        let mut changed = *request;
        match *self {
            CounterOffer::Deadline { deadline, .. } => changed.terms.deadline = deadline,
            CounterOffer::Budget { budget } => changed.terms.budget = budget,
            CounterOffer::Processors {
                chunks,
                processors_per_chunk,
                ..
            } => {
                changed.shape.chunks = chunks;
                changed.shape.processors_per_chunk = processors_per_chunk;
            }
        }
        changed
    }
}

impl fmt::Display for CounterOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CounterOffer::Deadline { deadline, price } => write!(
                f,
                "deadline={} (costs {})",
                duration::exact(deadline),
                credits(price)
            ),
            CounterOffer::Budget { budget } => write!(f, "budget={}", credits(budget)),
            CounterOffer::Processors {
                chunks: 1,
                processors_per_chunk,
                price,
            } => write!(
                f,
                "{processors_per_chunk} processor{} (costs {})",
                if processors_per_chunk == 1 { "" } else { "s" },
                credits(price)
            ),
            CounterOffer::Processors {
                chunks,
                processors_per_chunk,
                price,
            } => write!(
                f,
                "{chunks} chunks of {processors_per_chunk} (costs {})",
                credits(price)
            ),
        }
    }
}

/// The decision to be searched along: what would be accepted, and what things cost.
pub(super) struct Question<'a> {
    /// The price of a request that would be accepted; its values were checked.
    pub accepts: &'a dyn Fn(&Request) -> Option<f64>,
    /// What a request costs, accepted or not.
    pub price: &'a dyn Fn(&Request) -> f64,
}

/// All counter-offers to a request that was refused and whose values are in range.
pub(super) fn find(question: &Question<'_>, request: &Request) -> Vec<CounterOffer> {
    [
        question.earliest_deadline(request),
        question.smallest_budget(request),
        question.fewer_processors(request),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The smallest budget that a person would type for this price.
pub(crate) fn budget_for(price: f64) -> f64 {
    let budget = (price * 100.0).ceil() / 100.0;
    // Above 2^53 hundredths the rounding may fall short of the price; such a sum stands as it is.
    if budget < price { price } else { budget }
}

/// Deadlines up to this many seconds are offered in tenths of a second, longer ones in seconds.
const FINE_UNTIL: f64 = 100.0;

impl Question<'_> {
    /// The price of a request that would be accepted.
    fn accepts(&self, request: &Request) -> Option<f64> {
        request.check().ok()?;
        (self.accepts)(request)
    }

    fn earliest_deadline(&self, request: &Request) -> Option<CounterOffer> {
        let with = |deadline: f64| {
            let mut changed = *request;
            changed.terms.deadline = deadline;
            changed
        };
        // No deadline helps where the longest does not: price and shares only fall with it.
        self.accepts(&with(LONGEST))?;
        let mut refused = request.terms.deadline;
        let mut accepted = refused;
        loop {
            accepted = (accepted * 2.0).min(LONGEST);
            if self.accepts(&with(accepted)).is_some() {
                break;
            }
            if accepted >= LONGEST {
                return None;
            }
            refused = accepted;
        }
        // Bisect on the grid of deadlines that a person would type; it gets coarser at FINE_UNTIL, so
        // the two must lie on one side of that.
        if refused < FINE_UNTIL && FINE_UNTIL < accepted {
            match self.accepts(&with(FINE_UNTIL)) {
                Some(_) => accepted = FINE_UNTIL,
                None => refused = FINE_UNTIL,
            }
        }
        let step = if accepted <= FINE_UNTIL { 0.1 } else { 1.0 };
        let on_grid = |steps: f64| if step < 1.0 { steps / 10.0 } else { steps };
        let (mut low, mut high) = ((refused / step).floor(), (accepted / step).ceil());
        // None where the grid's end lies beyond the longest deadline.
        self.accepts(&with(on_grid(high)))?;
        while high - low > 1.0 {
            let middle = ((low + high) / 2.0).floor();
            if self.accepts(&with(on_grid(middle))).is_some() {
                high = middle;
            } else {
                low = middle;
            }
        }
        let deadline = on_grid(high);
        let price = self.accepts(&with(deadline))?;
        Some(CounterOffer::Deadline { deadline, price })
    }

    fn smallest_budget(&self, request: &Request) -> Option<CounterOffer> {
        let price = (self.price)(request);
        if price <= request.terms.budget {
            return None;
        }
        let budget = budget_for(price);
        if budget > LARGEST_AMOUNT {
            return None;
        }
        let mut changed = *request;
        changed.terms.budget = budget;
        self.accepts(&changed)
            .map(|_| CounterOffer::Budget { budget })
    }

    fn fewer_processors(&self, request: &Request) -> Option<CounterOffer> {
        let asked = request.shape;
        let by_chunks = asked.chunks > 1;
        let with = |count: u32| {
            let mut changed = *request;
            if by_chunks {
                changed.shape.chunks = count;
            } else {
                changed.shape.processors_per_chunk = count;
            }
            changed
        };
        let (mut fits, mut refused) = (
            0,
            if by_chunks {
                asked.chunks
            } else {
                asked.processors_per_chunk
            },
        );
        while refused - fits > 1 {
            let middle = fits + (refused - fits) / 2;
            if self.accepts(&with(middle)).is_some() {
                fits = middle;
            } else {
                refused = middle;
            }
        }
        if fits == 0 {
            return None;
        }
        let changed = with(fits);
        let price = self.accepts(&changed)?;
        Some(CounterOffer::Processors {
            chunks: changed.shape.chunks,
            processors_per_chunk: changed.shape.processors_per_chunk,
            price,
        })
    }
}
