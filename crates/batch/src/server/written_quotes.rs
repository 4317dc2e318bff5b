//! Held quotes as text, so that they outlive the server: one object of JSON, `{"version": 1, "quotes": […]}`, each an object too, with what would be committed as the line that
//! travels with jobs.

use super::AdmissionServer;
use libra_core::book::held_quote_record::{self, HeldQuoteRecord, NotHeld};
use libra_core::commitment::Commitment;
use libra_wording::errors;
use serde_json::{Value, json};

/// The only version so far.
const VERSION: u64 = 1;

impl AdmissionServer {
    /// What is held, where it has changed since this was asked last: nothing in the place of none. `now`: Unix time.
    pub fn changed_quotes(&mut self, now: f64) -> Option<String> {
        self.quotes.forget_expired(now);
        if !self.quotes.take_changed() {
            return None;
        }
        let records = held_quote_record::records(&self.quotes, &self.book);
        Some(match records.is_empty() {
            true => String::new(),
            false => {
                let quotes: Vec<Value> = records.iter().map(written).collect();
                format!("{}\n", json!({"version": VERSION, "quotes": quotes}))
            }
        })
    }

    /// Holds what was held when this was written, for a book that was just made of the batch system's records. `now`: Unix time. Returns lines for the log: how
    /// many are held again, and of those that are not why.
    pub fn restore_quotes(&mut self, text: &str, now: f64) -> Vec<String> {
        let quotes = match read(text) {
            Ok(quotes) => quotes,
            Err(problem) => return vec![format!("held quotes are lost: {problem}")],
        };
        let (mut log, mut held) = (Vec::new(), 0);
        for quote in &quotes {
            let restored = match record(quote) {
                None => Err("a held quote is lost: what is written down of it is none".to_string()),
                Some(record) => {
                    let user = record.user.clone();
                    held_quote_record::restore(&mut self.quotes, &mut self.book, record, now)
                        .map_err(|not| {
                            format!("a quote of {user} is not held any more: {}", in_words(&not))
                        })
                }
            };
            match restored {
                Ok(is_held) => held += usize::from(is_held),
                Err(problem) => log.push(problem),
            }
        }
        if held > 0 {
            log.push(format!("{held} quotes are held as before"));
        }
        log
    }
}

fn read(text: &str) -> Result<Vec<Value>, String> {
    let mut whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let quotes = whole.get_mut("quotes").map(Value::take);
    match (whole["version"].as_u64(), quotes) {
        (Some(VERSION), Some(Value::Array(quotes))) => Ok(quotes),
        (Some(VERSION) | None, _) => Err("expected 'version' and a list of 'quotes'".to_string()),
        (Some(other), _) => Err(format!(
            "they are of version {other}, and this is {VERSION}"
        )),
    }
}

fn written(record: &HeldQuoteRecord) -> Value {
    json!({
        "number": record.number,
        "user": record.user,
        "array": record.array,
        "others": record.others,
        "until": record.until,
        "price": record.price,
        "pinned": record.pinned,
        "place": record.place,
        "commitment": record.commitment.line(),
    })
}

fn record(quote: &Value) -> Option<HeldQuoteRecord> {
    let text = |value: &Value| value.as_str().map(str::to_string);
    let others = quote["others"].as_array()?.iter();
    Some(HeldQuoteRecord {
        number: text(&quote["number"])?,
        user: text(&quote["user"])?,
        array: quote["array"].as_bool()?,
        others: others
            .map(|other| Some((text(&other[0])?, text(&other[1])?)))
            .collect::<Option<_>>()?,
        until: quote["until"].as_f64()?,
        price: quote["price"].as_f64()?,
        pinned: quote["pinned"].as_bool()?,
        place: text(&quote["place"])?,
        // To the book token 0 is none.
        commitment: (Commitment::parse(quote["commitment"].as_str()?).ok())
            .filter(|commitment| commitment.token > 0)?,
    })
}

fn in_words(not: &NotHeld) -> String {
    match not {
        NotHeld::Number => "its number is none".to_string(),
        NotHeld::Book(error) => errors::book(error),
    }
}
