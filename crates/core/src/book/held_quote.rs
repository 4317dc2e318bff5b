//! Quotes that are held for some minutes: what they were for, by their numbers.
//!
//! Invariants:
//! - A quote belongs to a user, and nobody else can use it or see whether it is there.
//! - A number cannot be guessed (80 random bits), and says by itself when its time is over: that can be told of one that is
//!   forgotten.
//! - It is used once, or given back, or expires; its share in the book goes with it.
//!
//! They are in memory alone, as the book is; what outlives the server is in [`super::held_quote_record`].

use super::{Book, BookError, Offer};
use crate::decision::class::Class;
use crate::decision::consumable::Amounts;
use crate::decision::job::{DeadlineType, Request, Shape};
use libra_units::cut;
use libra_units::duration::{self, NotADuration};
use std::borrow::Cow;
use std::collections::HashMap;

/// Letters and digits that nobody takes for one another.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Of the time, 35 bits: until the year 3058.
const TIME_DIGITS: usize = 7;
/// Of the part that cannot be guessed.
const SECRET_DIGITS: usize = 16;

/// What is asked about a quote, as it comes with a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// What would it cost? The job is not queued.
    Question {
        /// Seconds that it is to be held; None: not at all.
        hold: Option<f64>,
        /// An answer that is too long for the batch system's command may come in parts; else it is shortened.
        in_parts: bool,
    },
    /// A part of an answer that came in parts.
    Part {
        /// From 1.
        number: usize,
        /// What the first part has named.
        key: String,
    },
    /// Submit it as this quote has it.
    Use(String),
    /// Give this quote back.
    Drop(String),
}

impl Order {
    /// Reads `ask` or `1`, `hold:5m`, `drop:NUMBER` or a number; and what programs ask that can join parts: `parts:ask`,
    /// `parts:hold:5m`, `part:2:KEY`.
    ///
    /// # Errors
    /// What was given instead.
    pub fn parse(text: &str) -> Result<Order, NoOrder> {
        let text = text.trim();
        let (in_parts, question) = match text.strip_prefix("parts:") {
            Some(question) => (true, question),
            None => (false, text),
        };
        if let Some(hold) = hold(question)? {
            return Ok(Order::Question { hold, in_parts });
        }
        if let Some(part) = text.strip_prefix("part:") {
            let read = part.split_once(':').and_then(|(number, key)| {
                let number = number.parse().ok().filter(|number| *number > 0)?;
                Some((number, checked(key).ok()?))
            });
            return match read {
                Some((number, key)) => Ok(Order::Part { number, key }),
                None => Err(NoOrder::Part(cut(part))),
            };
        }
        if let Some(number) = text.strip_prefix("drop:") {
            return checked(number).map(Order::Drop);
        }
        checked(text).map(Order::Use)
    }
}

/// How long the quote of a question is to be held; None if this is no question.
fn hold(text: &str) -> Result<Option<Option<f64>>, NoOrder> {
    if ["ask", "1"].contains(&text) {
        return Ok(Some(None));
    }
    let Some(time) = text.strip_prefix("hold:") else {
        return Ok(None);
    };
    match duration::parse(time).map_err(NoOrder::Time)? {
        seconds if seconds > 0.0 => Ok(Some(Some(seconds))),
        _ => Err(NoOrder::NoTime),
    }
}

/// Not an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoOrder {
    /// It is to be held for what is no time.
    Time(NotADuration),
    /// It is to be held for no time at all.
    NoTime,
    /// Not the number of a quote; shortened.
    Number(String),
    /// Not a part of an answer; shortened.
    Part(String),
}

fn checked(number: &str) -> Result<String, NoOrder> {
    let number = number.trim().to_ascii_lowercase();
    match expiry(&number) {
        Some(_) => Ok(number),
        None => Err(NoOrder::Number(cut(&number))),
    }
}

/// A new number. `until`: Unix time. `bits`: random ones that nobody can guess.
pub fn new_number(until: f64, bits: u128) -> String {
    // Rounded down: what is not held any more has expired by its number as well.
    let seconds = until.max(0.0).floor() as u64;
    let digits = |value: u128, count: usize| {
        (0..count)
            .rev()
            .map(move |place| char::from(DIGITS[(value >> (5 * place) & 31) as usize]))
    };
    digits(u128::from(seconds), TIME_DIGITS)
        .chain(['-'])
        .chain(digits(bits, SECRET_DIGITS))
        .collect()
}

/// When the time of a number is over, Unix time; None if it is no number.
pub fn expiry(number: &str) -> Option<f64> {
    let (time, secret) = number.split_once('-')?;
    let all = time.bytes().chain(secret.bytes());
    let plain = all.clone().all(|byte| DIGITS.contains(&byte));
    if !plain || time.len() != TIME_DIGITS || secret.len() != SECRET_DIGITS {
        return None;
    }
    let value = time.bytes().fold(0u64, |value, byte| {
        let digit = DIGITS.iter().position(|known| *known == byte);
        (value << 5) | digit.unwrap_or(0) as u64
    });
    Some(value as f64)
}

/// What a quote was for; a job that comes with it asks for the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Who asked.
    pub user: String,
    /// Of one job, of an array.
    pub request: Request,
    /// Jobs of an array; None for a job that is none.
    pub array: Option<u32>,
    /// Whatever else must be the same: a name for people, and what it was.
    pub others: Vec<(Cow<'static, str>, String)>,
}

/// A held quote.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldQuote {
    /// What for.
    pub wanted: Wanted,
    /// What was offered.
    pub offer: Offer,
    /// First token of its shares in the book.
    pub token: u64,
    /// Unix time.
    pub until: f64,
    /// For the caller: where it was offered.
    pub place: String,
}

/// Why a quote cannot be had or used.
#[derive(Debug, Clone, PartialEq)]
pub enum QuoteError {
    /// Not of this user, or not any more.
    Unknown(String),
    /// Its time is over.
    Expired {
        /// Its number.
        number: String,
        /// Seconds.
        ago: f64,
    },
    /// It was for something else, and is still held.
    Differs {
        /// Its number.
        number: String,
        /// What is not the same.
        differences: Vec<Difference>,
    },
    /// A node of its does not take jobs any more.
    NodeGone {
        /// Its number.
        number: String,
        /// The node.
        node: String,
    },
    /// Longer than the site allows: at most so many seconds.
    TooLong(f64),
    /// The system has no random bits for its number; what it said.
    NoSecret(String),
    /// The site holds none.
    Never,
    /// More than the site allows: so many are held already.
    TooMany(usize),
    /// The job may not start yet: nothing is held for it before.
    Deferred,
    /// There is no such part of an answer of this user's, or not any more.
    NoPart(usize),
    /// The book cannot.
    Book(BookError),
}

impl From<BookError> for QuoteError {
    fn from(error: BookError) -> QuoteError {
        QuoteError::Book(error)
    }
}

/// What a site allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Seconds that a quote is held for at most; 0: none is held.
    pub longest: f64,
    /// Quotes that one user may have at a time.
    pub most: usize,
}

impl Limits {
    /// Checks that a user who has so many may hold one more for so long.
    ///
    /// # Errors
    /// Which limit it is.
    pub fn check(&self, seconds: f64, has: usize) -> Result<(), QuoteError> {
        match () {
            () if self.longest <= 0.0 || self.most == 0 => Err(QuoteError::Never),
            () if seconds > self.longest => Err(QuoteError::TooLong(self.longest)),
            () if has >= self.most => Err(QuoteError::TooMany(self.most)),
            () => Ok(()),
        }
    }
}

/// All held quotes.
#[derive(Debug)]
pub struct HeldQuotes {
    limits: Limits,
    held: HashMap<String, HeldQuote>,
    /// Since somebody asked.
    changed: bool,
}

impl HeldQuotes {
    /// None yet.
    pub fn new(limits: Limits) -> HeldQuotes {
        HeldQuotes {
            limits,
            held: HashMap::new(),
            changed: false,
        }
    }

    /// All of them, by their numbers, those whose time is over among them until [`HeldQuotes::forget_expired`].
    pub fn all(&self) -> impl Iterator<Item = (&str, &HeldQuote)> {
        self.held
            .iter()
            .map(|(number, held)| (number.as_str(), held))
    }

    /// Returns true if there are others than when this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Decides by these limits from now on.
    pub fn configure(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Those whose time is over are nobody's any more.
    pub fn forget_expired(&mut self, now: f64) {
        let had = self.held.len();
        self.held.retain(|_, held| now < held.until);
        self.changed |= self.held.len() < had;
    }

    /// Checks that this user may hold one more for so long.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&mut self, user: &str, seconds: f64, now: f64) -> Result<(), QuoteError> {
        self.forget_expired(now);
        let has = self.held.values().filter(|k| k.wanted.user == user).count();
        self.limits.check(seconds, has)
    }

    /// Keeps what the book has just accepted under these tokens. Its number, made of these random bits.
    ///
    /// # Errors
    /// When the book does not have it; nothing is held then.
    pub fn hold(
        &mut self,
        book: &mut Book,
        held: HeldQuote,
        bits: u128,
    ) -> Result<String, QuoteError> {
        let number = new_number(held.until, bits);
        self.hold_as(book, &number, held)?;
        Ok(number)
    }

    /// As [`HeldQuotes::hold`], by the number that it has already.
    ///
    /// # Errors
    /// As [`HeldQuotes::hold`].
    pub fn hold_as(
        &mut self,
        book: &mut Book,
        number: &str,
        held: HeldQuote,
    ) -> Result<(), BookError> {
        book.hold(held.token, held.wanted.array.unwrap_or(1), held.until)?;
        self.held.insert(number.to_string(), held);
        self.changed = true;
        Ok(())
    }

    /// The quote of this number, if it is this user's and its time is not over.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&mut self, number: &str, user: &str, now: f64) -> Result<&HeldQuote, QuoteError> {
        self.forget_expired(now);
        (self.held.get(number))
            .filter(|held| held.wanted.user == user)
            .ok_or_else(|| missing(number, now))
    }

    /// The quote of this number, if it is for this job and its nodes are there.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn usable(
        &mut self,
        book: &Book,
        number: &str,
        wanted: &Wanted,
        now: f64,
    ) -> Result<&HeldQuote, QuoteError> {
        let held = self.find(number, &wanted.user, now)?;
        let differences = held.wanted.differences(wanted);
        if !differences.is_empty() {
            return Err(QuoteError::Differs {
                number: number.to_string(),
                differences,
            });
        }
        let gone = (held.offer.places.iter()).find(|place| !book.is_available(place.node));
        match gone {
            Some(place) => Err(QuoteError::NodeGone {
                number: number.to_string(),
                node: book.node_name(place.node).to_string(),
            }),
            None => Ok(held),
        }
    }

    /// Uses it: its shares are those of a job that is submitted now.
    ///
    /// # Errors
    /// As [`HeldQuotes::usable`]; it is still held then.
    pub fn redeem(
        &mut self,
        book: &mut Book,
        number: &str,
        wanted: &Wanted,
        now: f64,
    ) -> Result<HeldQuote, QuoteError> {
        let held = self.usable(book, number, wanted, now)?.clone();
        book.redeem(held.token, held.wanted.array.unwrap_or(1), now)?;
        self.held.remove(number);
        self.changed = true;
        Ok(held)
    }

    /// Gives it back.
    ///
    /// # Errors
    /// When there is none of this user's.
    pub fn give_back(
        &mut self,
        book: &mut Book,
        number: &str,
        user: &str,
        now: f64,
    ) -> Result<(), QuoteError> {
        let held = self.find(number, user, now)?;
        let (first, count) = (held.token, held.wanted.array.unwrap_or(1));
        for token in first..first.saturating_add(u64::from(count)) {
            // One that the book has let go is gone as well.
            let _ = book.cancel_token(token, now);
        }
        self.held.remove(number);
        self.changed = true;
        Ok(())
    }
}

/// Why there is no quote of this number.
pub fn missing(number: &str, now: f64) -> QuoteError {
    match expiry(number) {
        Some(until) if until <= now => QuoteError::Expired {
            number: number.to_string(),
            ago: now - until,
        },
        _ => QuoteError::Unknown(number.to_string()),
    }
}

/// Something that is not the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// As it is asked for.
    pub asked: Value,
    /// As it was quoted, of the same kind.
    pub quoted: Value,
}

/// A value that a quote has.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Seconds.
    Estimate(f64),
    /// Seconds from submission.
    Deadline(f64),
    /// Credits; infinite for no limit.
    Budget(f64),
    /// Credits a second.
    PenaltyRate(f64),
    /// Chunks, or nodes.
    Chunks(u32),
    /// Processors in each.
    Processors(u32),
    /// Bytes.
    Memory(u64),
    /// Hard or soft.
    DeadlineType(DeadlineType),
    /// What kind of a promise it is.
    Class(Class),
    /// Each chunk on a node of its own?
    Scatter(bool),
    /// Consumables, of each chunk and of the job.
    Consumables(Amounts),
    /// Jobs of an array; None for a job that is none.
    Array(Option<u32>),
    /// Of [`Wanted::others`]: what it is, and its value.
    Other(Cow<'static, str>, String),
}

impl Wanted {
    /// In what another job differs.
    pub fn differences(&self, other: &Wanted) -> Vec<Difference> {
        let mut found = differences(&self.request, &other.request);
        if self.array != other.array {
            found.push(Difference {
                asked: Value::Array(other.array),
                quoted: Value::Array(self.array),
            });
        }
        for (name, quoted) in &self.others {
            let asked = (other.others.iter())
                .find(|(known, _)| known == name)
                .map_or("", |(_, value)| value.as_str());
            if asked != quoted {
                found.push(Difference {
                    asked: Value::Other(name.clone(), asked.to_string()),
                    quoted: Value::Other(name.clone(), quoted.clone()),
                });
            }
        }
        found
    }
}

/// In what a request differs from a quoted one.
pub fn differences(quoted: &Request, asked: &Request) -> Vec<Difference> {
    values(quoted)
        .into_iter()
        .zip(values(asked))
        .filter(|(quoted, asked)| !quoted.is_like(asked))
        .map(|(quoted, asked)| Difference { asked, quoted })
        .collect()
}

/// What a request has, in the order in which it is told.
fn values(request: &Request) -> [Value; 11] {
    let Request { terms, shape } = request;
    let Shape {
        chunks,
        processors_per_chunk,
        memory_per_chunk,
        scatter,
        consumables,
    } = *shape;
    [
        Value::Estimate(terms.estimate),
        Value::Deadline(terms.deadline),
        Value::Budget(terms.budget),
        Value::PenaltyRate(terms.penalty_rate),
        Value::Chunks(chunks),
        Value::Processors(processors_per_chunk),
        Value::Memory(memory_per_chunk),
        Value::DeadlineType(terms.deadline_type),
        Value::Class(terms.class),
        Value::Scatter(scatter),
        Value::Consumables(consumables),
    ]
}

impl Value {
    /// A value may have been written down in milliseconds on its way.
    fn is_like(&self, other: &Value) -> bool {
        let near =
            |old: f64, new: f64| old == new || (old - new).abs() <= 1e-9 * old.abs().max(1.0);
        match (self, other) {
            (Value::Estimate(old), Value::Estimate(new))
            | (Value::Deadline(old), Value::Deadline(new))
            | (Value::Budget(old), Value::Budget(new))
            | (Value::PenaltyRate(old), Value::PenaltyRate(new)) => near(*old, *new),
            // Counted in floating point on their way, as bytes of gigabytes are.
            (Value::Memory(old), Value::Memory(new)) => near(*old as f64, *new as f64),
            (old, new) => old == new,
        }
    }
}

#[cfg(test)]
#[path = "held_quote_tests.rs"]
mod tests;
