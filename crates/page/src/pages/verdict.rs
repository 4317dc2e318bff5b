//! What Libra says of a form: the price and the share, or why not and what it would take instead.

use super::curve::{self, Asked};
use super::lines;
use crate::system::quote::{Offer, Quote};
use crate::system::submission::Submission;
use libra_plots::markup::Escaped;
use libra_units::{credits, duration};
use maud::{Markup, html};

/// A part of a page. `real`: it was submitted, and is not only asked about.
pub fn part(quote: &Quote, asked: &Submission, real: bool) -> Markup {
    let (tone, heading, nothing) = match (quote.accepted, real) {
        (true, _) => ("good", "It would be accepted", ""),
        (false, true) => (
            "bad",
            "Refused",
            "Nothing was submitted and nothing is charged. ",
        ),
        (false, false) => ("bad", "It would be refused", ""),
    };
    let class = (quote.class.or(asked.class())).filter(|class| !class.is_default());
    let asked = Asked {
        deadline: duration::parse(&asked.deadline).ok(),
        budget: asked
            .budget
            .parse()
            .ok()
            .filter(|budget: &f64| budget.is_finite()),
    };
    html! {
        section.verdict.(tone) {
            h2 {
                (heading)
                @if let Some(class) = class {
                    " " span.badge { (class.word()) }
                }
                @if !quote.accepted && !quote.reason.is_empty() {
                    " " span.badge.bad { (Escaped(&quote.reason)) }
                }
            }
            @if let Some(price) = quote.price.filter(|_| quote.accepted) {
                p.price { "costs " strong { (credits(price)) } " credits" }
            }
            @if let Some(budget) = quote.budget_needed {
                p {
                    "No budget was given; " (credits(budget)) " is enough. "
                    button type="submit" name="fill" value={ "budget=" (credits(budget)) } formnovalidate { "Take it as budget" }
                }
            }
            p { (nothing) (Escaped(sentence(&quote.text))) }
            @if !quote.class_line.is_empty() {
                p.small { "It names no class, and has its own by " code { (Escaped(&quote.class_line)) } " of the site's configuration." }
            }
            @if !quote.accepted { (offers(&quote.offers)) }
            @if !quote.warning.is_empty() {
                p.small { (lines(&quote.warning)) }
            }
        }
        @if let Some(curve) = curve::part(&quote.curve, &asked) { (curve) }
    }
}

/// Buttons that take an offer: the form with these values, submitted. What the form cannot say has none.
fn offers(offers: &[Offer]) -> Markup {
    if offers.is_empty() {
        return html! {
            p { "Changing the class, the deadline, the budget or the number of processors alone would not be enough now." }
        };
    }
    html! {
        p { "Accepted now would be:" }
        ul.offers {
            @for offer in offers {
                li {
                    @if offer.words.is_empty() {
                        button type="submit" name="take" value=(Escaped(value(offer))) {
                            "Submit with " (Escaped(offer.text()))
                        }
                    } @else {
                        (Escaped(&offer.words))
                    }
                }
            }
        }
        @if offers.iter().any(|offer| !offer.words.is_empty()) {
            p.small { "What has no button is for the script to say." }
        }
    }
}

/// An offer as [`crate::form::take`] reads it.
pub fn value(offer: &Offer) -> String {
    let budget = offer.budget.map(credits);
    // Never less than what is offered.
    let pairs = [
        ("class", offer.class.map(|class| class.word().to_string())),
        ("deadline", offer.deadline.map(duration::exact)),
        ("budget", budget),
        (
            "processors",
            offer.processors.map(|count| format!("{count}")),
        ),
        ("estimate", offer.estimate.map(duration::exact)),
    ];
    let pairs = pairs
        .into_iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value?)));
    pairs.collect::<Vec<_>>().join(" ")
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let mut letters = text.chars();
    let Some(first) = letters.next() else {
        return String::new();
    };
    let stop = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{}{}{stop}", first.to_uppercase(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_button_submits_what_it_says_and_the_rest_is_for_reading() {
        let said = json!({"verdict": "refused", "category": "share", "reason": "no node has room", "counter_offers": [
            {"processors": 2, "estimate": 15.0, "price": 4.0, "as_terms": true, "text": "-c 2 --estimate=15 (costs 4)"},
            {"processors": 4, "estimate": 15.0, "price": 5.0, "as_terms": false, "text": "-N 2 -n 4 (costs 5)"},
            {"jobs": 5, "price": 6.0, "as_terms": false, "text": "an array of 5 jobs (costs 6)"}]});
        let quote = Quote::from_json(&said).expect("a refusal");
        let part = part(&quote, &Submission::default(), true).into_string();
        assert!(
            part.contains("value=\"processors=2 estimate=15\">Submit with 2 processors, estimate 15 s (costs 4)</button>"),
            "{part}"
        );
        assert_eq!(part.matches("<button").count(), 1, "{part}");
        assert!(part.contains("<li>-N 2 -n 4 (costs 5)</li>"), "{part}");
        assert!(part.contains("<li>an array of 5 jobs (costs 6)"), "{part}");
    }
}
