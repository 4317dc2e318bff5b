//! A price and a verdict, as `libra quote --json` and `libra run --json` print them. Pure.
//!
//! Sentences in it are for reading: what is known is known by values.

use libra_core::commitment::Commitment;
use libra_core::decision::class::Class;
use libra_units::{credits, duration, percent};
use serde_json::Value;

/// A price and a verdict.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Quote {
    /// It would be accepted.
    pub accepted: bool,
    /// What a person reads: the terms, or the reason.
    pub text: String,
    /// The category of a refusal; empty where it is not said.
    pub reason: String,
    /// Credits.
    pub price: Option<f64>,
    /// No budget was given, and so much is enough, in credits. None if one was given.
    pub budget_needed: Option<f64>,
    /// What would be accepted instead.
    pub offers: Vec<Offer>,
    /// Prices and verdicts over deadlines; empty where nobody has reckoned them.
    pub curve: Vec<Point>,
    /// Its class of service, where it is said.
    pub class: Option<Class>,
    /// The line of the site's configuration that gave it; empty where it named it, or nobody did.
    pub class_line: String,
    /// What else should be known.
    pub warning: String,
}

/// Values with which it would be accepted; what is none stays as it was asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Offer {
    /// Seconds.
    pub deadline: Option<f64>,
    /// Credits.
    pub budget: Option<f64>,
    /// Processors.
    pub processors: Option<f64>,
    /// Seconds on each of them.
    pub estimate: Option<f64>,
    /// Another class of service.
    pub class: Option<Class>,
    /// What it costs, in credits.
    pub price: Option<f64>,
    /// What the form cannot say, in the words of whoever was asked; with these it is for reading, and the rest is empty.
    pub words: String,
}

/// The price at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// Seconds.
    pub deadline: f64,
    /// Credits.
    pub price: f64,
    /// It would be accepted with that deadline.
    pub accepted: bool,
}

impl Offer {
    /// One for reading alone.
    fn in_words(text: &str) -> Offer {
        Offer {
            words: text.to_string(),
            ..Offer::default()
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        if !self.words.is_empty() {
            return self.words.clone();
        }
        let mut parts = Vec::new();
        if let Some(class) = self.class {
            parts.push(format!("class {}", class.word()));
        }
        if let Some(deadline) = self.deadline {
            parts.push(format!("deadline {}", duration::show(deadline)));
        }
        if let Some(processors) = self.processors {
            let ending = if processors == 1.0 { "" } else { "s" };
            parts.push(format!("{processors} processor{ending}"));
        }
        if let Some(estimate) = self.estimate {
            parts.push(format!("estimate {}", duration::show(estimate)));
        }
        if let Some(budget) = self.budget {
            parts.push(format!("budget {}", credits(budget)));
        }
        let costs = match (self.price, self.budget) {
            (Some(price), None) => format!(" (costs {})", credits(price)),
            _ => String::new(),
        };
        format!("{}{costs}", parts.join(", "))
    }
}

impl Quote {
    /// From the JSON of `libra quote`, or of a refusal of `libra run`. None: it is neither.
    pub fn from_json(json: &Value) -> Option<Quote> {
        let accepted = match json["verdict"].as_str()? {
            "accepted" | "conditional" => true,
            "refused" => false,
            _ => return None,
        };
        let number = |value: &Value| value.as_f64().filter(|n| n.is_finite());
        let string = |key: &str| json[key].as_str().unwrap_or_default().to_string();
        // The verdict stands above it, the counter-offers below.
        let text = match accepted {
            true => Promise::of_json(json).text(),
            false => string("reason"),
        };
        let reason = string("category");
        let offers = json["counter_offers"].as_array().into_iter().flatten();
        let offers = offers.map(offer_in_json);
        let curve = json["curve"].as_array().into_iter().flatten();
        let curve = curve.filter_map(|point| {
            Some(Point {
                deadline: number(&point["deadline"])?,
                price: number(&point["price"])?,
                accepted: point["accepted"] == true,
            })
        });
        let notes = json["notes"].as_array().into_iter().flatten();
        let mut warnings: Vec<String> = notes
            .filter_map(|note| Some(note.as_str()?.to_string()))
            .collect();
        if let Some(why) = json["unenforced"].as_str() {
            warnings.push(format!(
                "Its share would not be enforced on this host: {why}"
            ));
        }
        Some(Quote {
            accepted,
            text,
            reason,
            price: number(&json["price"]),
            budget_needed: number(&json["budget_needed"]),
            offers: offers.filter(|offer| *offer != Offer::default()).collect(),
            curve: curve
                .filter(|p| p.deadline > 0.0 && p.price >= 0.0)
                .collect(),
            class: json["class"].as_str().and_then(Class::of_word),
            class_line: string("class_line"),
            warning: warnings.join("\n"),
        })
    }
}

/// An offer of `libra quote --json`, or of a refusal of `libra run`.
///
/// The form asks for processors on one node, for one task. Of tasks, nodes, chunks, memory and arrays it can say nothing: another job
/// would be submitted than was offered. Whoever is asked says so.
fn offer_in_json(offer: &Value) -> Offer {
    let number = |key: &str| offer[key].as_f64().filter(|n| n.is_finite());
    // Nothing but the class is another one.
    let class = offer["class"].as_str().and_then(Class::of_word);
    match class.is_some() || offer["as_terms"] == true {
        true => Offer {
            class,
            deadline: number("deadline"),
            budget: number("budget"),
            processors: number("processors"),
            estimate: number("estimate"),
            price: number("price"),
            words: String::new(),
        },
        false => Offer::in_words(offer["text"].as_str().unwrap_or_default()),
    }
}

/// What an accepted job gets, as far as it is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Promise {
    /// It holds nothing before it may start: neither share nor nodes are known.
    deferred: bool,
    /// Its deadline counts from when it may start.
    from_start: bool,
    /// Of each slot, in processors.
    share: Option<f64>,
    slots: Option<f64>,
    nodes: Vec<String>,
    /// Seconds from submission, or from when it may start.
    deadline: Option<f64>,
    /// It is kept only if the job needs less than this estimate, in seconds.
    condition: Option<f64>,
    /// Credits.
    price: Option<f64>,
    /// Credits; infinite for no limit. None: none was given.
    budget: Option<f64>,
}

impl Promise {
    fn of_json(json: &Value) -> Promise {
        let number = |key: &str| json[key].as_f64();
        Promise {
            deferred: false,
            from_start: false,
            share: number("share"),
            slots: number("slots"),
            nodes: (json["node"].as_str().into_iter())
                .flat_map(|nodes| nodes.split('+').map(str::to_string))
                .collect(),
            deadline: number("deadline_seconds"),
            condition: number("estimate_seconds").filter(|_| json["verdict"] == "conditional"),
            price: number("price"),
            budget: number("budget"),
        }
    }

    /// What is committed to a job.
    pub fn of_committed(commitment: &Commitment) -> Promise {
        let terms = &commitment.request.terms;
        let jobs = f64::from(commitment.count);
        let mut nodes: Vec<String> = (commitment.places.iter())
            .map(|place| place.node.clone())
            .collect();
        nodes.dedup();
        let deferred = commitment.deferred;
        if deferred {
            nodes.clear();
        }
        Promise {
            deferred,
            from_start: deferred && commitment.from_start,
            share: (!deferred).then(|| commitment.share_on("")),
            slots: Some(commitment.request.shape.slots() as f64 * jobs),
            nodes,
            deadline: terms.has_deadline().then_some(terms.deadline),
            condition: commitment.conditional.then_some(terms.estimate),
            price: Some(commitment.price * jobs),
            budget: Some(terms.budget),
        }
    }

    /// In a sentence.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(share) = self.share {
            text += &match self.slots {
                Some(slots) if slots > 1.0 => {
                    format!("{} of each of {slots} processors", percent(share))
                }
                _ => format!("{} of a processor", percent(share)),
            };
        }
        match &self.nodes[..] {
            [] => {}
            few if few.len() <= 4 => text += &format!(" on {}", few.join(" and ")),
            many => text += &format!(" on {} and {} other nodes", many[0], many.len() - 1),
        }
        if let Some(deadline) = self.deadline {
            let before = match (self.deferred, text.is_empty()) {
                (true, _) => "deferred: ",
                (false, true) => "",
                (false, false) => ", ",
            };
            text += &format!(
                "{before}finished in {}{} at the latest",
                duration::show(deadline),
                match self.from_start {
                    true => " from when it may start",
                    false => "",
                }
            );
        }
        if let Some(estimate) = self.condition {
            text += &format!(
                " if it needs less than its estimate of {}",
                duration::show(estimate)
            );
        }
        match (self.price, self.budget) {
            (Some(price), Some(budget)) if budget.is_finite() => {
                text += &format!(", for {} of {} credits", credits(price), credits(budget));
            }
            (Some(price), _) => text += &format!(", for {} credits", credits(price)),
            _ => {}
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_button_takes_what_the_form_can_say() {
        let processors = |chunks: u32, each: u32, as_terms: bool, text: &str| {
            json!({"processors": chunks * each, "chunks": chunks, "processors_per_chunk": each, "estimate": 7.5, "price": 4.0,
                "as_terms": as_terms, "text": text})
        };
        let refused = json!({"verdict": "refused", "category": "budget", "reason": "it costs 10.5 credits",
            "counter_offers": [
                {"deadline": 35.0, "deadline_seconds": 35.0, "price": 10.1, "as_terms": true, "text": "deadline=35 (costs 10.1)"},
                {"budget": 10.5, "price": 10.5, "as_terms": true, "text": "--budget=10.5"},
                processors(2, 3, false, "-N 2 -n 6 --estimate=7.5 (costs 4)"),
                processors(1, 3, true, "-c 3 --estimate=7.5 (costs 4)"),
                {"jobs": 5, "price": 4.0, "as_terms": false, "text": "an array of 5 jobs (costs 4)"},
                {"class": "deadline", "price": 4.0, "as_terms": false, "text": "class=deadline (costs 4)"}],
            "curve": [{"deadline": 20.0, "price": 10.5, "accepted": false}, {"deadline": -1, "price": 1, "accepted": true},
                {"deadline": 35.0, "price": 10.1, "accepted": true}, {"deadline": "x"}]});
        let quote = Quote::from_json(&refused).expect("a quote");
        assert_eq!((quote.accepted, quote.reason.as_str()), (false, "budget"));
        assert_eq!(quote.text, "it costs 10.5 credits");
        assert_eq!(quote.curve.len(), 2);
        let texts: Vec<String> = quote.offers.iter().map(Offer::text).collect();
        assert_eq!(
            texts,
            [
                "deadline 35 s (costs 10.1)",
                "budget 10.5",
                "-N 2 -n 6 --estimate=7.5 (costs 4)",
                "3 processors, estimate 7.5 s (costs 4)",
                "an array of 5 jobs (costs 4)",
                "class deadline (costs 4)"
            ]
        );
        // What would lose memory, tasks or work of the job has no button.
        let for_reading: Vec<bool> = (quote.offers.iter())
            .map(|offer| !offer.words.is_empty())
            .collect();
        assert_eq!(for_reading, [false, false, true, false, true, false]);
        for nothing in [json!(null), json!({}), json!({"verdict": "x"}), json!([1])] {
            assert_eq!(Quote::from_json(&nothing), None);
        }
    }

    #[test]
    fn a_promise_is_told_by_its_values() {
        let json = json!({"verdict": "accepted", "share": 0.525, "slots": 1, "node": "n2", "price": 10.5, "budget": null,
            "budget_needed": 10.5, "deadline_seconds": 20.0, "text": "accepted: another sentence"});
        let quote = Quote::from_json(&json).expect("a quote");
        assert_eq!(
            quote.text,
            "52.5 % of a processor on n2, finished in 20 s at the latest, for 10.5 credits"
        );
        assert_eq!(quote.budget_needed, Some(10.5));
        let commitment = "v=1:token=1:submitted=1000:estimate=10:deadline=20:budget=inf:type=hard:penalty=0:price=10.5:\
                    chunks=1:processors=1:memory=0:scatter=0:count=2:at=n1*1*0.525+n2*1*0.5";
        let deferred = commitment.replace(":at=", ":deferred=1:at=");
        let deferred = Commitment::parse(&deferred).expect("a line");
        assert_eq!(
            Promise::of_committed(&deferred).text(),
            "deferred: finished in 20 s at the latest, for 21 credits"
        );
        let commitment = Commitment::parse(commitment).expect("a line");
        assert_eq!(
            Promise::of_committed(&commitment).text(),
            "52.5 % of each of 2 processors on n1 and n2, finished in 20 s at the latest, for 21 credits"
        );
    }
}
