//! The answer to a question about price: a verdict, what it rests on, and the price over deadlines; for people, for programs, and
//! as one line through a batch system's own words.
//!
//! In a batch system the question is a submission that is never queued. Its refusal begins with [`line::MARK`] and has the answer as
//! JSON ([`line`]): PBS's qsub has room for a thousand bytes and Slurm shows a text line by line, so the line is short and is one. What is
//! too long for it comes in [`parts`] to programs that ask for them.

pub mod line;
pub mod parts;

use crate::verdict::{Problem, Verdict};
use crate::words::{self, Manner, Written};
use libra_core::book::held_quote::QuoteError;
use libra_core::decision::class::Class;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::curve::Point;
use libra_core::decision::job::{LONGEST, Request};
use libra_core::decision::refusal::Category;
use libra_system::random;
use libra_units::duration;
use serde_json::{Map, Value, json};

/// By what a held quote is used.
#[derive(Debug, Clone, PartialEq)]
pub struct QuoteHandle {
    /// Its number.
    pub number: String,
    /// Unix time.
    pub until: f64,
}

/// Random bits for the number of a quote that is held.
///
/// # Errors
/// When the system has none: a number that can be guessed is none.
pub fn secret() -> Result<u128, QuoteError> {
    random::bits().map_err(|error| QuoteError::NoSecret(error.to_string()))
}

/// An offer that a refused one could take instead.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherOffer {
    /// What changes, under its name in the answer: `deadline`, `budget`, `jobs`, or `processors`, `chunks` … and their
    /// `estimate`; and `as_terms`, see [`Written::as_terms`].
    pub values: Map<String, Value>,
    /// As it is to be submitted.
    pub text: String,
}

impl OtherOffer {
    /// As whoever is asked has written it.
    pub fn new(offer: &CounterOffer, written: Written) -> OtherOffer {
        // The names with units are those of the first version.
        let values = match *offer {
            CounterOffer::Deadline { deadline, price } => {
                json!({"deadline": deadline, "deadline_seconds": deadline, "price": price})
            }
            CounterOffer::Budget { budget } => json!({"budget": budget, "price": budget}),
            CounterOffer::Processors {
                chunks,
                processors_per_chunk,
                estimate,
                price,
            } => json!({
                "processors": u64::from(chunks) * u64::from(processors_per_chunk),
                "chunks": chunks,
                "processors_per_chunk": processors_per_chunk,
                "estimate": estimate,
                "estimate_seconds": estimate,
                "price": price,
            }),
            CounterOffer::Jobs { jobs, price, .. } => json!({"jobs": jobs, "price": price}),
            CounterOffer::Class { class, price } => json!({"class": class.word(), "price": price}),
        };
        let mut values = object(values);
        values.insert("as_terms".to_string(), written.as_terms.into());
        OtherOffer {
            values,
            text: written.text,
        }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Quote {
    /// Whether it would be accepted.
    pub accepted: bool,
    /// Of an accepted one: its deadline is shorter than its estimate, and kept only if it needs less than it says.
    pub conditional: bool,
    /// Credits; of a refused one, what it would cost if the budget were no matter.
    pub price: f64,
    /// Share of each slot, in processors.
    pub share: Option<f64>,
    /// Where it would go; several are joined by `+`, and `+...` stands for more than there is room for.
    pub node: Option<String>,
    /// Category of a refusal.
    pub category: Option<Category>,
    /// The numbers that it rests on, by their names; null where there are none.
    pub evidence: Value,
    /// Why it would be refused.
    pub reason: Option<String>,
    /// What a person reads.
    pub text: String,
    /// Seconds: estimate and deadline that were judged.
    pub estimate: f64,
    /// See there.
    pub deadline: f64,
    /// Credits; None for no limit, or where none was given.
    pub budget: Option<f64>,
    /// Credits: where no budget was given, the smallest one that would do.
    pub needs: Option<f64>,
    /// Slots of all chunks and jobs.
    pub slots: u64,
    /// Its class of service.
    pub class: Class,
    /// The line of the site's configuration that gave it: `class.several`; None if it named it, or nobody did.
    pub class_line: Option<String>,
    /// What would be accepted instead.
    pub offers: Vec<OtherOffer>,
    /// The price over deadlines.
    pub curve: Vec<Point>,
    /// Set if it is held.
    pub held: Option<QuoteHandle>,
}

impl Quote {
    /// Of a request that is to be judged.
    pub fn of(request: &Request) -> Quote {
        let terms = &request.terms;
        Quote {
            estimate: terms.estimate,
            deadline: terms.deadline,
            budget: terms.budget.is_finite().then_some(terms.budget),
            slots: request.shape.slots(),
            class: terms.class,
            ..Quote::default()
        }
    }

    /// Takes why it would not be taken.
    pub fn not_taken<T, P: Problem>(&mut self, not: &Verdict<T, P>, manner: &Manner<'_>) {
        self.category = not.category();
        self.evidence = not.evidence();
        self.reason = Some(words::reason(not));
        self.text = words::not_taken(not, manner).join("\n");
        if let Some(refusal) = not.refusal() {
            self.offers = (refusal.counter_offers.iter())
                .filter_map(|offer| Some(OtherOffer::new(offer, (manner.write_offer)(offer)?)))
                .collect();
        }
    }

    /// Where no budget was given: says with which it would be accepted so. `write`: a budget as it is asked for.
    pub fn say_needs(&mut self, write: &dyn Fn(f64) -> String) {
        if let Some(budget) = self.needs {
            let line = format!(
                "\nno budget was given: this is the answer with {}",
                write(budget)
            );
            self.text.push_str(&line);
        }
    }

    /// As `libra quote --json` prints it. `system`: who was asked.
    pub fn json(&self, system: &str) -> Value {
        let offers: Vec<Value> = (self.offers.iter())
            .map(|offer| {
                let mut offer_json = offer.values.clone();
                offer_json.insert("text".to_string(), offer.text.clone().into());
                offer_json.into()
            })
            .collect();
        let curve: Vec<Value> = (self.curve.iter())
            .map(|point| {
                json!({
                    "deadline": point.deadline,
                    "price": point.judged.price,
                    "accepted": point.judged.refused.is_none(),
                    "share": point.judged.share,
                    "reason": point.judged.refused,
                })
            })
            .collect();
        json!({
            "verdict": match (self.accepted, self.conditional) {
                (true, false) => "accepted",
                (true, true) => "conditional",
                (false, _) => "refused",
            },
            "system": system,
            "price": self.price,
            "share": self.share,
            "node": self.node,
            "slots": self.slots,
            "class": self.class.word(),
            "class_line": self.class_line,
            "budget": self.budget,
            "budget_needed": self.needs,
            "estimate_seconds": (self.estimate < LONGEST).then_some(self.estimate),
            "deadline_seconds": (self.deadline < LONGEST).then_some(self.deadline),
            "category": self.category,
            "reason": self.reason,
            "evidence": self.evidence,
            "text": self.text,
            "counter_offers": offers,
            "curve": curve,
            "quote": self.held.as_ref().map(|held| &held.number),
            "held_until": self.held.as_ref().map(|held| held.until),
        })
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// How a held quote is told of, a line. `use_it`: how a job says that it comes with it.
pub fn held_text(held: &QuoteHandle, now: f64, use_it: &str) -> String {
    format!(
        "held for {}: submit with {use_it}; the deadline counts from then",
        duration::show((held.until - now).max(0.0))
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use libra_core::decision::curve::Judged;

    /// An accepted one with a curve, an offer and a number.
    pub(crate) fn quote() -> Quote {
        let point = |deadline: f64, refused, share| Point {
            deadline,
            judged: Judged {
                price: 10.0 + 10.0 / deadline,
                share,
                refused,
            },
        };
        let mut curve = vec![point(9.97, Some(Category::Deadline), None)];
        curve.extend((0..32).map(|n| point(10.0 + f64::from(n) * 7.3, None, Some(0.512_345_678))));
        Quote {
            accepted: true,
            price: 10.500_000_1,
            share: Some(0.525),
            node: Some("n1".to_string()),
            text: "accepted: \"so\"\nand so".to_string(),
            estimate: 10.0,
            deadline: 20.0,
            budget: None,
            slots: 1,
            offers: vec![OtherOffer::new(
                &CounterOffer::Budget { budget: 10.5 },
                Written {
                    text: "budget=10.5".to_string(),
                    as_terms: true,
                },
            )],
            curve,
            held: Some(QuoteHandle {
                number: "a-b".to_string(),
                until: 1.7e9,
            }),
            ..Quote::default()
        }
    }

    #[test]
    fn for_programs_it_has_every_name() {
        let json = quote().json("slurm");
        for key in [
            "verdict", "system", "price", "share", "node", "reason", "text",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!(json["curve"][0]["accepted"], false);
        assert_eq!(json["counter_offers"][0]["text"], "budget=10.5");
        assert_eq!(json["quote"], "a-b");
        assert_eq!(json["held_until"], 1.7e9);
    }
}
