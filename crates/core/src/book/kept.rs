//! Quotes that are kept for some minutes: what they were for, by their numbers.
//!
//! Invariants:
//! - A quote belongs to a user, and nobody else can use it or see whether it is there.
//! - A number cannot be guessed (80 random bits), and says by itself when its time is over: that can be told of one that is
//!   forgotten.
//! - It is used once, or given back, or expires; its share in the book goes with it.
//!
//! They are in memory alone, as the book is: a restart of the server loses them.

use super::{Book, BookError, Offer};
use crate::decision::job::{DeadlineType, Request};
use libra_units::{credits, cut, duration, memory};
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
    Ask,
    /// The same, and keep it for so many seconds.
    Hold(f64),
    /// Submit it as this quote has it.
    Use(String),
    /// Give this quote back.
    Drop(String),
}

impl Order {
    /// Reads `ask` or `1`, `hold:5m`, `drop:NUMBER` or a number.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Order, String> {
        let text = text.trim();
        if let Some(time) = text.strip_prefix("hold:") {
            let seconds = duration::parse(time).map_err(|error| error.to_string())?;
            return match seconds > 0.0 {
                true => Ok(Order::Hold(seconds)),
                false => Err("a quote is kept for more than 0 s".to_string()),
            };
        }
        if let Some(number) = text.strip_prefix("drop:") {
            return checked(number).map(Order::Drop);
        }
        match text {
            "ask" | "1" => Ok(Order::Ask),
            number => checked(number).map(Order::Use),
        }
    }
}

fn checked(number: &str) -> Result<String, String> {
    let number = number.trim().to_ascii_lowercase();
    match expiry(&number) {
        Some(_) => Ok(number),
        None => Err(format!(
            "'{}' is not the number of a quote; 'libra quote --hold 5m' gives one",
            cut(&number)
        )),
    }
}

/// A new number. `until`: Unix time. `bits`: random ones that nobody can guess.
pub fn new_number(until: f64, bits: u128) -> String {
    // Rounded down: what is not kept any more has expired by its number as well.
    let seconds = until.max(0.0).floor() as u64;
    let digits = |value: u128, count: usize| -> String {
        (0..count)
            .rev()
            .map(|place| char::from(DIGITS[(value >> (5 * place) & 31) as usize]))
            .collect()
    };
    format!(
        "{}-{}",
        digits(u128::from(seconds), TIME_DIGITS),
        digits(bits, SECRET_DIGITS)
    )
}

/// When the time of a number is over, Unix time; none where it is no number.
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
    /// Jobs of an array; none for a job that is none.
    pub array: Option<u32>,
    /// Whatever else must be the same: a name for people, and what it was.
    pub others: Vec<(&'static str, String)>,
}

/// A quote that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
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

/// Why a quote cannot be had or used; for the user.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotKept {
    /// Not of this user, or not any more.
    #[error(
        "there is no quote {0} of yours: it was used or given back, or the server was restarted; ask for a new one"
    )]
    Unknown(String),
    /// Its time is over.
    #[error("quote {number} expired {} ago; ask for a new one", duration::show(*.ago))]
    Expired {
        /// Its number.
        number: String,
        /// Seconds.
        ago: f64,
    },
    /// It was for something else.
    #[error("quote {number} is for another job: {}; it is still kept", .differences.join(", "))]
    Differs {
        /// Its number.
        number: String,
        /// What is not the same.
        differences: Vec<String>,
    },
    /// A node of its does not take jobs any more.
    #[error(
        "quote {number} is for node {node}, which takes no jobs now; try again, or ask for a new one"
    )]
    NodeGone {
        /// Its number.
        number: String,
        /// The node.
        node: String,
    },
    /// Longer than the site allows.
    #[error("a quote is kept for at most {} here; ask for that or less", duration::show(*.0))]
    TooLong(f64),
    /// The system has no random bits for its number.
    #[error(
        "the quote cannot be kept: no random number from /dev/urandom ({0}); tell the administrators"
    )]
    NoSecret(String),
    /// The site keeps none.
    #[error("no quotes are kept here (admission.longest-quote is 0)")]
    Never,
    /// More than the site allows.
    #[error(
        "{0} quotes of yours are kept already, the most that one user may have; use one, or give one back"
    )]
    TooMany(usize),
    /// The book cannot.
    #[error(transparent)]
    Book(#[from] BookError),
}

/// What a site allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Seconds that a quote is kept for at most; 0: none is kept.
    pub longest: f64,
    /// Quotes that one user may have at a time.
    pub most: usize,
}

impl Limits {
    /// May a user who has so many keep one more for so long?
    ///
    /// # Errors
    /// Which limit it is.
    pub fn check(&self, seconds: f64, has: usize) -> Result<(), NotKept> {
        match () {
            () if self.longest <= 0.0 || self.most == 0 => Err(NotKept::Never),
            () if seconds > self.longest => Err(NotKept::TooLong(self.longest)),
            () if has >= self.most => Err(NotKept::TooMany(self.most)),
            () => Ok(()),
        }
    }
}

/// All that are kept.
#[derive(Debug)]
pub struct KeptQuotes {
    limits: Limits,
    kept: HashMap<String, Kept>,
}

impl KeptQuotes {
    /// None yet.
    pub fn new(limits: Limits) -> KeptQuotes {
        KeptQuotes {
            limits,
            kept: HashMap::new(),
        }
    }

    /// Decides by these limits from now on.
    pub fn configure(&mut self, limits: Limits) {
        self.limits = limits;
    }

    fn forget_expired(&mut self, now: f64) {
        self.kept.retain(|_, kept| now < kept.until);
    }

    /// May this user keep one more for so long?
    ///
    /// # Errors
    /// Why not.
    pub fn check(&mut self, user: &str, seconds: f64, now: f64) -> Result<(), NotKept> {
        self.forget_expired(now);
        let has = self.kept.values().filter(|k| k.wanted.user == user).count();
        self.limits.check(seconds, has)
    }

    /// Keeps what the book has just accepted under these tokens. Its number, made of these random bits.
    ///
    /// # Errors
    /// When the book does not have it; nothing is kept then.
    pub fn keep(&mut self, book: &mut Book, kept: Kept, bits: u128) -> Result<String, NotKept> {
        let number = new_number(kept.until, bits);
        book.keep(kept.token, kept.wanted.array.unwrap_or(1), kept.until)?;
        self.kept.insert(number.clone(), kept);
        Ok(number)
    }

    /// The quote of this number, if it is this user's and its time is not over.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&mut self, number: &str, user: &str, now: f64) -> Result<&Kept, NotKept> {
        self.forget_expired(now);
        (self.kept.get(number))
            .filter(|kept| kept.wanted.user == user)
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
    ) -> Result<&Kept, NotKept> {
        let kept = self.find(number, &wanted.user, now)?;
        let differences = kept.wanted.differences(wanted);
        if !differences.is_empty() {
            return Err(NotKept::Differs {
                number: number.to_string(),
                differences,
            });
        }
        let gone = (kept.offer.places.iter()).find(|place| !book.is_available(place.node));
        match gone {
            Some(place) => Err(NotKept::NodeGone {
                number: number.to_string(),
                node: book.node_name(place.node).to_string(),
            }),
            None => Ok(kept),
        }
    }

    /// Uses it: its shares are those of a job that is submitted now.
    ///
    /// # Errors
    /// As [`KeptQuotes::usable`]; it is still kept then.
    pub fn redeem(
        &mut self,
        book: &mut Book,
        number: &str,
        wanted: &Wanted,
        now: f64,
    ) -> Result<Kept, NotKept> {
        let kept = self.usable(book, number, wanted, now)?.clone();
        book.redeem(kept.token, kept.wanted.array.unwrap_or(1), now)?;
        self.kept.remove(number);
        Ok(kept)
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
    ) -> Result<(), NotKept> {
        let kept = self.find(number, user, now)?;
        let (first, count) = (kept.token, kept.wanted.array.unwrap_or(1));
        for token in first..first.saturating_add(u64::from(count)) {
            // One that the book has let go is gone as well.
            let _ = book.cancel_token(token, now);
        }
        self.kept.remove(number);
        Ok(())
    }
}

/// Why there is no quote of this number.
pub fn missing(number: &str, now: f64) -> NotKept {
    match expiry(number) {
        Some(until) if until <= now => NotKept::Expired {
            number: number.to_string(),
            ago: now - until,
        },
        _ => NotKept::Unknown(number.to_string()),
    }
}

impl Wanted {
    /// In what another job differs, in words.
    pub fn differences(&self, other: &Wanted) -> Vec<String> {
        let mut found = differences(&self.request, &other.request);
        if self.array != other.array {
            let jobs = |array: Option<u32>| match array {
                None => "no array".to_string(),
                Some(count) => format!("an array of {count}"),
            };
            found.push(format!(
                "it is {} and the quote is for {}",
                jobs(other.array),
                jobs(self.array)
            ));
        }
        for (name, quoted) in &self.others {
            let asked = (other.others.iter())
                .find(|(known, _)| known == name)
                .map_or("", |(_, value)| value.as_str());
            if asked != quoted {
                let shown = |value: &str| match value {
                    "" => "none".to_string(),
                    value => cut(value),
                };
                found.push(difference(name, &shown(asked), &shown(quoted)));
            }
        }
        found
    }
}

fn difference(what: &str, asked: &str, quoted: &str) -> String {
    format!("its {what} is {asked} and the quote's {quoted}")
}

/// In what a request differs from a quoted one, in words.
pub fn differences(quoted: &Request, asked: &Request) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, old: f64, new: f64, show: &dyn Fn(f64) -> String| {
        // A value may have been written down in milliseconds on its way.
        let same = old == new || (old - new).abs() <= 1e-9 * old.abs().max(1.0);
        if !same {
            found.push(difference(what, &show(new), &show(old)));
        }
    };
    let (old, new) = (&quoted.terms, &asked.terms);
    compare("estimate", old.estimate, new.estimate, &duration::exact);
    compare(
        "deadline from submission",
        old.deadline,
        new.deadline,
        &duration::exact,
    );
    compare("budget", old.budget, new.budget, &credits);
    compare("penalty rate", old.penalty_rate, new.penalty_rate, &credits);
    let (old, new) = (&quoted.shape, &asked.shape);
    let count = |count: f64| count.to_string();
    let chunks = |shape: &crate::decision::job::Shape| f64::from(shape.chunks);
    compare(
        "number of chunks or nodes",
        chunks(old),
        chunks(new),
        &count,
    );
    compare(
        "number of processors in each",
        f64::from(old.processors_per_chunk),
        f64::from(new.processors_per_chunk),
        &count,
    );
    compare(
        "memory",
        old.memory_per_chunk as f64,
        new.memory_per_chunk as f64,
        &|bytes| memory::show(bytes as u64),
    );
    if quoted.terms.deadline_type != asked.terms.deadline_type {
        let word = |kind| match kind {
            DeadlineType::Hard => "hard",
            DeadlineType::Soft => "soft",
        };
        found.push(difference(
            "deadline type",
            word(asked.terms.deadline_type),
            word(quoted.terms.deadline_type),
        ));
    }
    if old.scatter != new.scatter {
        let word = |scatter| if scatter { "scattered" } else { "free" };
        found.push(difference(
            "placement",
            word(new.scatter),
            word(old.scatter),
        ));
    }
    found
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
