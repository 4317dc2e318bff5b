//! The answer to a question about price: a verdict, what it rests on, and the price over deadlines; for people, for programs, and
//! as one line through a batch system's own words.
//!
//! In a batch system the question is a submission that is never queued. Its refusal begins with [`MARK`] and has the answer as
//! JSON: PBS cuts such a text at 3171 bytes and Slurm shows it line by line, so the line is short and is one.

use crate::verdict::{Problem, Verdict};
use crate::words::{self, Manner, Written};
use libra_core::book::held_quote::QuoteError;
use libra_core::decision::class::Class;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::curve::{Judged, Point};
use libra_core::decision::job::{LONGEST, Request};
use libra_core::decision::refusal::Category;
use libra_system::random;
use libra_units::duration;
use serde_json::{Map, Value, json};

/// What the refusal of a question begins with.
pub const MARK: &str = "libra-quote: ";

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

    /// As one line, for [`Quote::find`]; where it would be longer than so many bytes, with some of its nodes, with fewer points,
    /// and then without offers.
    pub fn line_within(&self, longest: usize) -> String {
        let mut shorter = self.clone();
        if let Some(nodes) = shorter.node.as_mut().filter(|n| n.len() > longest / 4) {
            let end = nodes.match_indices('+').map(|(at, _)| at);
            let end = end.take_while(|at| *at <= longest / 4).last();
            nodes.truncate(end.unwrap_or(0));
            nodes.push_str("+...");
        }
        loop {
            let line = shorter.line();
            if line.len() <= longest || (shorter.curve.len() < 2 && shorter.offers.is_empty()) {
                return line;
            }
            if shorter.curve.len() < 2 {
                shorter.offers.clear();
                continue;
            }
            let mut place = 0;
            let asked = shorter.deadline;
            shorter.curve.retain(|point| {
                place += 1;
                place % 2 == 0 || point.deadline == asked
            });
            if shorter.curve.len() == 2 {
                shorter.curve.clear();
            }
        }
    }

    /// As one line, for [`Quote::find`].
    pub fn line(&self) -> String {
        let offers: Vec<Value> = (self.offers.iter())
            .map(|offer| json!([offer.values, offer.text]))
            .collect();
        // The last of a point: its share where it is accepted, else why not.
        let curve: Vec<Value> = (self.curve.iter())
            .map(|point| {
                let last = match (point.judged.refused, point.judged.share) {
                    (Some(category), _) => json!(category),
                    (None, share) => json!(share.map(short)),
                };
                json!([point.deadline, short(point.judged.price), last])
            })
            .collect();
        let answer = json!({
            "v": 1,
            "accepted": self.accepted,
            "conditional": self.conditional,
            "price": self.price,
            "share": self.share,
            "node": self.node,
            "category": self.category,
            "reason": self.reason,
            "evidence": self.evidence,
            "text": self.text,
            "asked": [self.estimate, self.deadline, self.budget, self.slots, self.needs],
            "class": self.class.word(),
            "class_line": self.class_line,
            "offers": offers,
            "curve": curve,
            "held": self.held.as_ref().map(|held| json!([held.number, held.until])),
        });
        format!("{MARK}{answer}")
    }

    /// The answer in what a batch system's command has printed; None if there is none in it.
    pub fn find(said: &str) -> Option<Quote> {
        read(&marked(said)?)
    }
}

/// What is answered when a quote was given back.
pub fn dropped_line(number: &str) -> String {
    format!("{MARK}{}", json!({"v": 1, "dropped": number}))
}

/// The number of a quote that was given back, in what a batch system's command has printed.
pub fn find_dropped(said: &str) -> Option<String> {
    Some(marked(said)?["dropped"].as_str()?.to_string())
}

/// The object after the mark; what follows it is not ours.
fn marked(said: &str) -> Option<Value> {
    let after = &said[said.find(MARK)? + MARK.len()..];
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
    values.next()?.ok()
}

/// To six figures: nobody can tell, and the line is half as long.
fn short(value: f64) -> f64 {
    match format!("{value:.5e}").parse() {
        Ok(short) => short,
        Err(_) => value,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// By its word; of a Libra that knows more of them, a request that is not taken.
fn category(word: &str) -> Category {
    Category::of_word(word).unwrap_or(Category::Request)
}

fn read(answer: &Value) -> Option<Quote> {
    let text = |key: &str| answer[key].as_str().map(str::to_string);
    let list = |key: &str| answer[key].as_array().map_or(&[][..], Vec::as_slice);
    if answer["v"] != 1 {
        return None;
    }
    let asked = list("asked");
    let held = list("held");
    Some(Quote {
        accepted: answer["accepted"].as_bool()?,
        conditional: answer["conditional"] == true,
        price: answer["price"].as_f64()?,
        share: answer["share"].as_f64(),
        node: text("node"),
        category: answer["category"].as_str().map(category),
        evidence: answer["evidence"].clone(),
        reason: text("reason"),
        text: text("text")?,
        estimate: asked.first()?.as_f64()?,
        deadline: asked.get(1)?.as_f64()?,
        budget: asked.get(2)?.as_f64(),
        slots: asked.get(3)?.as_u64()?,
        needs: asked.get(4).and_then(Value::as_f64),
        // A server of an older Libra says none.
        class: (answer["class"].as_str())
            .and_then(Class::of_word)
            .unwrap_or_default(),
        class_line: text("class_line"),
        offers: (list("offers").iter())
            .filter_map(|offer| {
                Some(OtherOffer {
                    values: object(offer[0].clone()),
                    text: offer[1].as_str()?.to_string(),
                })
            })
            .collect(),
        curve: (list("curve").iter())
            .filter_map(|point| {
                let refused = point[2].as_str().map(category);
                Some(Point {
                    deadline: point[0].as_f64()?,
                    judged: Judged {
                        price: point[1].as_f64()?,
                        share: point[2].as_f64(),
                        refused,
                    },
                })
            })
            .collect(),
        held: match held {
            [number, until] => Some(QuoteHandle {
                number: number.as_str()?.to_string(),
                until: until.as_f64()?,
            }),
            _ => None,
        },
    })
}

/// How a held quote is told of, a line. `use_it`: how a job says that it comes with it.
pub fn held_text(held: &QuoteHandle, now: f64, use_it: &str) -> String {
    format!(
        "held for {}: submit with {use_it}; the deadline counts from then",
        duration::show((held.until - now).max(0.0))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quote() -> Quote {
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
    fn an_answer_comes_back_through_other_words() {
        let quote = quote();
        let line = quote.line();
        assert!(!line.contains('\n') && line.len() < 2000, "{}", line.len());
        let found = Quote::find(&format!("qsub: {line}\nqsub: more {{")).expect("in it");
        assert_eq!(found.curve.len(), quote.curve.len());
        assert!((found.curve[1].judged.price - quote.curve[1].judged.price).abs() < 1e-4);
        assert_eq!(found.curve[0].judged.refused, Some(Category::Deadline));
        let without = |mut quote: Quote| {
            quote.curve.clear();
            quote
        };
        assert_eq!(without(found), without(quote));
    }

    #[test]
    fn a_line_is_as_short_as_it_must_be() {
        let mut quote = quote();
        for longest in [3000, 1500, 1000, 600] {
            let line = quote.line_within(longest);
            assert!(line.len() <= longest, "{} {line}", line.len());
            assert!(Quote::find(&line).is_some());
        }
        let nodes: Vec<String> = (0..500).map(|node| format!("node-{node}")).collect();
        quote.node = Some(nodes.join("+"));
        let line = quote.line_within(3000);
        assert!(line.len() <= 3000, "{}", line.len());
        let found = Quote::find(&line).expect("an answer");
        let node = found.node.unwrap_or_default();
        assert!(
            node.starts_with("node-0+node-1+") && node.ends_with("+..."),
            "{node}"
        );
        assert_eq!(found.curve.len(), quote.curve.len());
        quote.deadline = quote.curve[7].deadline;
        let found = Quote::find(&quote.line_within(1000)).expect("an answer");
        assert!(found.curve.iter().any(|p| p.deadline == quote.deadline));
        assert_eq!(find_dropped(&quote.line()), None);
        let line = format!("qsub: {}", dropped_line("a-b"));
        assert_eq!(find_dropped(&line).as_deref(), Some("a-b"));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for said in [
            "",
            "qsub: unknown resource libra_quote",
            "libra-quote: ",
            "libra-quote: {\"v\":2}",
        ] {
            assert_eq!(Quote::find(said), None, "{said}");
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
