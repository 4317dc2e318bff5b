//! Held quotes as they are written down, for a server that is started anew, or another one that takes over.
//!
//! Its book is then made of the batch system's own records, which know nothing of quotes: what they hold is put in beside it, judged by nobody, as
//! what was promised before. A quote that was used is not held twice: its job has its token.

use super::held_quote::{HeldQuote, HeldQuotes, Wanted, expiry};
use super::{Admitted, Book, BookError, JobRecord, Offer, Phase};
use crate::commitment::Commitment;
use crate::decision::placement::Placement;
use std::borrow::Cow;

/// A held quote.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldQuoteRecord {
    /// Its number, by which its user alone may use it: who can read this may not be anybody.
    pub number: String,
    /// Who asked.
    pub user: String,
    /// It is for an array, of as many jobs as are held for.
    pub array: bool,
    /// Whatever else must be the same: a name for people, and what it was.
    pub others: Vec<(String, String)>,
    /// Unix time.
    pub until: f64,
    /// Credits, of all jobs of an array.
    pub price: f64,
    /// It runs on just these nodes.
    pub pinned: bool,
    /// Where it was offered: a partition, or nothing.
    pub place: String,
    /// What would be committed to its job.
    pub commitment: Commitment,
}

/// Why a record is not held any more.
#[derive(Debug, Clone, PartialEq)]
pub enum NotHeld {
    /// Its number is none.
    Number,
    /// The book cannot: a job has its token, most of the time the one that it was used for.
    Book(BookError),
}

/// All quotes that the book still has, in the order of their numbers.
pub fn records(quotes: &HeldQuotes, book: &Book) -> Vec<HeldQuoteRecord> {
    let mut records: Vec<HeldQuoteRecord> = (quotes.all())
        .filter_map(|(number, held)| record(number, held, book))
        .collect();
    records.sort_by(|a, b| a.number.cmp(&b.number));
    records
}

fn record(number: &str, held: &HeldQuote, book: &Book) -> Option<HeldQuoteRecord> {
    let submitted = book.job(book.key_of_token(held.token).ok()?).submitted;
    let (wanted, offer) = (&held.wanted, &held.offer);
    let admitted = Admitted {
        token: held.token,
        price: offer.price,
        places: offer.places.clone(),
    };
    let count = wanted.array.unwrap_or(1);
    Some(HeldQuoteRecord {
        number: number.to_string(),
        user: wanted.user.clone(),
        array: wanted.array.is_some(),
        others: (wanted.others.iter())
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
        until: held.until,
        price: offer.price,
        pinned: offer.pinned,
        place: held.place.clone(),
        commitment: book.commitment(&wanted.request, count, &admitted, None, submitted),
    })
}

/// Holds it again. Returns whether its time is not over.
///
/// # Errors
/// Why not; nothing is held for it then.
pub fn restore(
    quotes: &mut HeldQuotes,
    book: &mut Book,
    record: HeldQuoteRecord,
    now: f64,
) -> Result<bool, NotHeld> {
    let by_number = expiry(&record.number).ok_or(NotHeld::Number)?;
    // The number says it to whole seconds, and nobody is held for longer than it says.
    let until = record.until.min(by_number + 1.0);
    if until <= now {
        return Ok(false);
    }
    let commitment = &record.commitment;
    let (token, count) = (commitment.token, commitment.count);
    for part in 0..count {
        let mut job = JobRecord::committed("", part, commitment, Phase::Provisional);
        job.id = None;
        if book.reserve_committed_share {
            let places = job.places.iter_mut();
            places.for_each(|place| place.committed_share = place.share);
        }
        if let Err(error) = book.restore(&job) {
            release(book, token, part, now);
            return Err(NotHeld::Book(error));
        }
    }
    let places = (commitment.places.iter())
        .map(|at| {
            let node = book.node_index(&at.node)?;
            Ok(Placement::given(node, at.chunks, at.share))
        })
        .collect::<Result<_, BookError>>();
    let held = places.and_then(|places| {
        let held = HeldQuote {
            wanted: Wanted {
                user: record.user,
                request: commitment.request,
                array: record.array.then_some(count),
                others: (record.others.into_iter())
                    .map(|(name, value)| (Cow::Owned(name), value))
                    .collect(),
            },
            offer: Offer {
                price: record.price,
                places,
                pinned: record.pinned,
            },
            token,
            until,
            place: record.place,
        };
        quotes.hold_as(book, &record.number, held)
    });
    held.map(|()| true).map_err(|error| {
        release(book, token, count, now);
        NotHeld::Book(error)
    })
}

/// None of its jobs is known before they were put in.
fn release(book: &mut Book, token: u64, count: u32, now: f64) {
    for token in token..token + u64::from(count) {
        let _ = book.cancel_token(token, now);
    }
}

#[cfg(test)]
#[path = "held_quote_record_tests.rs"]
mod tests;
