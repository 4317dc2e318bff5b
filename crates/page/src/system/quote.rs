//! A price and a verdict, as `libra quote --json` prints them, or as a batch system's client says them in words. Pure.

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
    /// What would be accepted instead.
    pub offers: Vec<Offer>,
    /// Prices and verdicts over deadlines; empty where nobody has reckoned them.
    pub curve: Vec<Point>,
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
            "accepted" => true,
            "refused" => false,
            _ => return None,
        };
        let number = |value: &Value| value.as_f64().filter(|n| n.is_finite());
        let string = |key: &str| json[key].as_str().unwrap_or_default().to_string();
        let (text, why) = (string("text"), string("reason"));
        // The verdict stands above it, the counter-offers below.
        let text = match accepted {
            true if text.is_empty() => in_words(json),
            true => text.strip_prefix("accepted: ").unwrap_or(&text).to_string(),
            // A sentence; a word alone is its category.
            false if why.contains(' ') || text.is_empty() => why,
            false => text,
        };
        // The category has a key of its own since the first version.
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
            offers: offers.filter(|offer| *offer != Offer::default()).collect(),
            curve: curve
                .filter(|p| p.deadline > 0.0 && p.price >= 0.0)
                .collect(),
            warning: warnings.join("\n"),
        })
    }

    /// From what a batch system's client printed; none where Libra has said nothing in it.
    ///
    /// The lines are those of [`libra_batch::verdict`], with names of clients in front.
    pub fn from_words(said: &str) -> Option<Quote> {
        let mut quote = None;
        for line in said.lines() {
            let Some((_, line)) = line.split_once("libra: ") else {
                continue;
            };
            let line = line.trim();
            if let Some(text) = line.strip_prefix("accepted: ") {
                let price = text.split(" credits").next().and_then(|text| {
                    let mut words = text.rsplit(' ');
                    // "for 10.5 of 15 credits"
                    let _budget = words.next()?;
                    (words.next()? == "of").then(|| words.next()?.parse().ok())?
                });
                quote = Some(Quote {
                    accepted: true,
                    text: text.to_string(),
                    price,
                    ..Quote::default()
                });
            } else if let Some(text) = line.strip_prefix("refused") {
                let text = text.trim_start();
                let (reason, text) = match text.strip_prefix('(').and_then(|t| t.split_once("): "))
                {
                    Some((reason, text)) => (reason, text),
                    None => ("", text.trim_start_matches(": ")),
                };
                quote = Some(Quote {
                    text: text.to_string(),
                    reason: reason.to_string(),
                    ..Quote::default()
                });
            } else if let Some(quote) = &mut quote {
                let offer = line.strip_prefix("accepted now would be: ");
                let offer = offer.or_else(|| line.strip_prefix("or: "));
                quote.offers.extend(offer.map(offer_in_words));
            }
        }
        quote
    }
}

/// An offer of `libra quote --json`, or of a refusal of `libra run`.
fn offer_in_json(offer: &Value) -> Offer {
    let number = |key: &str| offer[key].as_f64().filter(|n| n.is_finite());
    // Whoever is asked says in words which tasks, nodes or array it is about.
    if let (Some(text), false) = (offer["text"].as_str(), offer["text"] == "") {
        let read = offer_in_words(text);
        let unread = !read.words.is_empty();
        let plain = number("processors").is_none() && number("jobs").is_none();
        if !(unread && plain) {
            return read;
        }
    }
    Offer {
        deadline: number("deadline_seconds").or_else(|| number("deadline")),
        budget: number("budget"),
        price: number("price"),
        ..Offer::default()
    }
}

/// `--sla-deadline=35 (costs 3.09)`, `budget=10.5`, `-c 2 --estimate=15 (costs 4)`, `processors=2,estimate=15 (costs 4)`.
///
/// The form asks for processors on one node, for one task. Of tasks (`-n 3`), nodes (`-N 2 -n 4`), chunks, memory and arrays it
/// can say nothing: another job would be submitted than was offered.
fn offer_in_words(text: &str) -> Offer {
    taken_by_form(text).unwrap_or_else(|| Offer::in_words(text))
}

/// What the form can say of it; none where that is not all.
fn taken_by_form(text: &str) -> Option<Offer> {
    let mut offer = Offer::default();
    let (values, price) = match text.split_once(" (") {
        Some((values, rest)) => {
            let number = rest.split([' ', ')']).find_map(|word| word.parse().ok());
            (values, number)
        }
        None => (text, None),
    };
    offer.price = price;
    let mut count = None;
    // One chunk of so many processors is what the form asks PBS for, one task of so many what it asks Slurm for.
    let rest = match (
        values.strip_prefix("-c "),
        values.strip_prefix("-l select=1:ncpus="),
    ) {
        (Some(rest), _) | (_, Some(rest)) => {
            let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            count = Some(first);
            rest.strip_prefix("-W ").unwrap_or(rest)
        }
        _ => values,
    };
    for pair in rest.split([' ', ',']).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.trim_start_matches('-').split_once('=')?;
        match key {
            "sla-deadline" | "deadline" => offer.deadline = Some(duration::parse(value).ok()?),
            "estimate" => offer.estimate = Some(duration::parse(value).ok()?),
            "budget" => offer.budget = Some(value.parse().ok()?),
            "processors" => count = Some(value),
            _ => return None,
        }
    }
    if let Some(count) = count {
        let count: u32 = count.parse().ok()?;
        // The same work on fewer processors needs longer on each.
        offer.estimate?;
        offer.processors = Some(f64::from(count));
    }
    Some(offer)
}

/// The terms of an accepted job.
fn in_words(json: &Value) -> String {
    let number = |key: &str| json[key].as_f64();
    let mut text = String::new();
    if let Some(share) = number("share") {
        text += &match number("slots") {
            Some(slots) if slots > 1.0 => {
                format!("{} of each of {slots} processors", percent(share))
            }
            _ => format!("{} of a processor", percent(share)),
        };
    }
    if let Some(node) = json["node"].as_str() {
        text += &format!(" on {node}");
    }
    if let Some(deadline) = number("deadline_seconds") {
        text += &format!(", finished in {} at the latest", duration::show(deadline));
    }
    if let Some(price) = number("price") {
        text += &format!(", for {} credits", credits(price));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_forms_of_a_refusal_in_json() {
        let run = json!({"verdict": "refused", "category": "budget", "reason": "it costs 10.5 credits",
            "counter_offers": [{"deadline_seconds": 35.0, "price": 10.1}, {"budget": 10.5, "price": 10.5},
                {"processors": 6, "chunks": 2, "processors_per_chunk": 3, "estimate": 7.5, "price": 4.0, "text": "chunks=2,processors=3,estimate=7.5 (costs 4)"},
                {"processors": 3, "chunks": 1, "processors_per_chunk": 3, "estimate": 7.5, "price": 4.0, "text": "processors=3,estimate=7.5 (costs 4)"}]});
        let quote = Quote::from_json(&run).expect("a quote");
        assert_eq!((quote.accepted, quote.reason.as_str()), (false, "budget"));
        let texts: Vec<String> = quote.offers.iter().map(Offer::text).collect();
        assert_eq!(
            texts,
            [
                "deadline 35 s (costs 10.1)",
                "budget 10.5",
                "chunks=2,processors=3,estimate=7.5 (costs 4)",
                "3 processors, estimate 7.5 s (costs 4)"
            ]
        );
        let in_form = |quote: &Quote| -> Vec<Option<(f64, f64)>> {
            (quote.offers.iter())
                .map(|offer| offer.processors.zip(offer.estimate))
                .collect()
        };
        assert_eq!(in_form(&quote), [None, None, None, Some((3.0, 7.5))]);
        let offer = |text: &str| json!({"processors": 5, "chunks": 1, "processors_per_chunk": 5, "estimate": 8.0, "price": 4.0, "text": text});
        let batch = json!({"verdict": "refused", "reason": "share", "counter_offers": [offer("-n 5 --estimate=8 (costs 4)"),
            offer("-c 5 --estimate=8 (costs 4)"), json!({"jobs": 5, "price": 4.0, "text": "an array of 5 jobs (costs 4)"}),
            offer("-l select=1:ncpus=5 -W estimate=8 (costs 4)"), offer("-l select=1:ncpus=5:mem=4b -W estimate=8 (costs 4)"),
            offer("-l ncpus=5 -W estimate=8 (costs 4)"), offer("-c 5 (costs 4)")]});
        let quote = Quote::from_json(&batch).expect("a quote");
        let both = Some((5.0, 8.0));
        // What would lose memory, tasks or work of the job has no button.
        assert_eq!(in_form(&quote), [None, both, None, both, None, None, None]);
        assert_eq!(quote.offers[2].text(), "an array of 5 jobs (costs 4)");
        let later = json!({"verdict": "refused", "reason": "budget", "text": "it costs 10.5 credits",
            "counter_offers": [{"deadline": 35.0, "budget": null, "processors": null, "price": 10.1, "text": "x"}],
            "curve": [{"deadline": 20.0, "price": 10.5, "accepted": false}, {"deadline": -1, "price": 1, "accepted": true},
                {"deadline": 35.0, "price": 10.1, "accepted": true}, {"deadline": "x"}]});
        let quote = Quote::from_json(&later).expect("a quote");
        assert_eq!(quote.text, "it costs 10.5 credits");
        assert_eq!(quote.offers[0].deadline, Some(35.0));
        assert_eq!(quote.curve.len(), 2);
        for nothing in [json!(null), json!({}), json!({"verdict": "x"}), json!([1])] {
            assert_eq!(Quote::from_json(&nothing), None);
        }
    }

    #[test]
    fn what_clients_say() {
        let said = "sbatch: error: libra: refused (budget): the job costs 10.63 credits and the budget is 5\n\
                    sbatch: error: libra: accepted now would be: --budget=10.63\n\
                    sbatch: error: libra:                   or: --sla-deadline=35 (costs 3.09)\n\
                    sbatch: error: libra:                   or: -N 2 -n 3 --estimate=6 (costs 3.09)\n\
                    sbatch: error: libra:                   or: -n 3 --estimate=6 (costs 5)\n\
                    sbatch: error: libra:                   or: -c 2 --estimate=6 (costs 4)\n\
                    sbatch: error: Batch job submission failed: Access/permission denied\n";
        let quote = Quote::from_words(said).expect("a refusal");
        assert_eq!(quote.reason, "budget");
        assert_eq!(quote.offers.len(), 5);
        assert_eq!(quote.offers[0].budget, Some(10.63));
        assert_eq!(quote.offers[1].deadline, Some(35.0));
        assert_eq!(quote.offers[1].price, Some(3.09));
        assert_eq!(
            quote.offers[2].text(),
            "-N 2 -n 3 --estimate=6 (costs 3.09)"
        );
        assert_eq!(
            (quote.offers[3].processors, quote.offers[4].processors),
            (None, Some(2.0))
        );
        let said = "sbatch: libra: accepted: 52.5 % of a processor on n2, finished in 2h00m at the latest, for 3600.50 of 9000 credits\n";
        let quote = Quote::from_words(said).expect("accepted");
        assert_eq!((quote.accepted, quote.price), (true, Some(3600.5)));
        assert_eq!(Quote::from_words("sbatch: error: Invalid account"), None);
    }
}
