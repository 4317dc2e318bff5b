//! What Libra says of a form: the price and the share, or why not and what it would take instead.

use super::curve::{self, Asked};
use super::lines;
use crate::system::Submission;
use crate::system::quote::{Offer, Quote};
use libra_plots::markup::Escaped;
use libra_units::{credits, duration};

/// A part of a page. `real`: it was submitted, and is not only asked about.
pub fn part(quote: &Quote, asked: &Submission, real: bool) -> String {
    let mut part = String::new();
    if quote.accepted {
        let price = quote.price.map_or(String::new(), |price| {
            format!(
                "<p class=\"price\"><strong>{}</strong> credits</p>\n",
                Escaped(&credits(price))
            )
        });
        part += &format!(
            "<section class=\"verdict good\"><h2>It would be accepted</h2>\n{price}<p>{}</p>\n",
            Escaped(&sentence(&quote.text))
        );
    } else {
        let (heading, nothing) = match real {
            true => ("Refused", "Nothing was submitted and nothing is charged. "),
            false => ("It would be refused", ""),
        };
        let reason = match quote.reason.as_str() {
            "" => String::new(),
            reason => format!(" <span class=\"badge bad\">{}</span>", Escaped(reason)),
        };
        part += &format!(
            "<section class=\"verdict bad\"><h2>{heading}{reason}</h2>\n<p>{nothing}{}</p>\n{}",
            Escaped(&sentence(&quote.text)),
            offers(&quote.offers)
        );
    }
    if !quote.warning.is_empty() {
        part += &format!("<p class=\"small\">{}</p>\n", lines(&quote.warning));
    }
    part += "</section>\n";
    let asked = Asked {
        deadline: duration::parse(&asked.deadline).ok(),
        budget: asked
            .budget
            .parse()
            .ok()
            .filter(|budget: &f64| budget.is_finite()),
    };
    part + &curve::part(&quote.curve, &asked)
}

/// Buttons that take an offer: the form with these values, submitted. What the form cannot say has none.
fn offers(offers: &[Offer]) -> String {
    if offers.is_empty() {
        return "<p>No other deadline, budget or number of processors by itself would be accepted now.</p>\n".to_string();
    }
    let buttons: String = offers
        .iter()
        .map(|offer| match offer.words.as_str() {
            "" => format!(
                "<li><button type=\"submit\" name=\"take\" value=\"{}\">Submit with {}</button></li>\n",
                Escaped(&value(offer)),
                Escaped(&offer.text())
            ),
            words => format!("<li>{}</li>\n", Escaped(words)),
        })
        .collect();
    let unsaid = match offers.iter().any(|offer| !offer.words.is_empty()) {
        true => "<p class=\"small\">What has no button is for the script to say.</p>\n",
        false => "",
    };
    format!("<p>Accepted now would be:</p>\n<ul class=\"offers\">\n{buttons}</ul>\n{unsaid}")
}

/// An offer as [`crate::form::take`] reads it.
pub fn value(offer: &Offer) -> String {
    let budget = offer.budget.map(credits);
    // Never less than what is offered.
    let pairs = [
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

    #[test]
    fn a_button_submits_what_it_says_and_the_rest_is_for_reading() {
        let said = "sbatch: error: libra: refused (share): no node has room\n\
                    sbatch: error: libra: accepted now would be: -c 2 --estimate=15 (costs 4)\n\
                    sbatch: error: libra:                   or: -N 2 -n 4 (costs 5)\n\
                    sbatch: error: libra:                   or: an array of 5 jobs (costs 6)\n";
        let quote = Quote::from_words(said).expect("a refusal");
        let part = part(&quote, &Submission::default(), true);
        assert!(
            part.contains("value=\"processors=2 estimate=15\">Submit with 2 processors, estimate 15 s (costs 4)</button>"),
            "{part}"
        );
        assert_eq!(part.matches("<button").count(), 1, "{part}");
        assert!(part.contains("<li>-N 2 -n 4 (costs 5)</li>"), "{part}");
        assert!(part.contains("<li>an array of 5 jobs (costs 6)"), "{part}");
    }
}
