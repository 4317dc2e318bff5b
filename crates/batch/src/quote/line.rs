//! An answer as one line through a batch system's own words: written, shortened where it must be, and found again.

use super::{OtherOffer, Quote, QuoteHandle, object};
use crate::words;
use libra_core::decision::class::Class;
use libra_core::decision::curve::{Judged, Point};
use libra_core::decision::refusal::Category;
use libra_units::printable;
use serde_json::{Value, json};

/// What the refusal of a question begins with.
pub const MARK: &str = "libra-quote: ";

/// What ends the text of an answer that was cut.
const REST: &str = "... ('libra quote' shows all of it)";

/// Bytes of a text that is never too long.
const SHORT: usize = 64;

impl Quote {
    /// As one line, for [`Quote::find`]; where it would be longer than so many bytes, with some of its nodes, with fewer points, then with
    /// fewer offers, and at last with a shorter text and without the numbers that it rests on. What was decided, what was asked and the number
    /// of a held quote are always in it: they need some 600 bytes.
    pub fn line_within(&self, longest: usize) -> String {
        let mut shorter = self.clone();
        shorter.cut_nodes(longest / 4);
        loop {
            let line = shorter.line();
            if line.len() <= longest || !shorter.shorten(line.len() - longest) {
                return line;
            }
        }
    }

    /// Names some of its nodes, in so many bytes.
    fn cut_nodes(&mut self, longest: usize) {
        if let Some(nodes) = self.node.as_mut().filter(|nodes| nodes.len() > longest) {
            let end = nodes.match_indices('+').map(|(at, _)| at);
            let end = end.take_while(|at| *at <= longest).last();
            nodes.truncate(end.unwrap_or(0));
            nodes.push_str("+...");
        }
    }

    /// Leaves out what is needed least, of a line that is `over` bytes too long. Returns false if nothing more can be left out.
    fn shorten(&mut self, over: usize) -> bool {
        let long_reason = |reason: &&mut String| reason.len() > SHORT;
        if self.curve.len() >= 2 {
            let (mut place, before, asked) = (0, self.curve.len(), self.deadline);
            self.curve.retain(|point| {
                place += 1;
                place % 2 == 0 || point.deadline == asked
            });
            if self.curve.len() == 2 || self.curve.len() == before {
                self.curve.clear();
            }
        } else if !self.offers.is_empty() {
            self.offers.pop();
        } else if !self.evidence.is_null() {
            self.evidence = Value::Null;
        } else if let Some(reason) = self.reason.as_mut().filter(long_reason) {
            reason.truncate(words::whole_characters(reason, SHORT));
        } else if self.text.len() > SHORT {
            let room = self.text.len().saturating_sub(over);
            self.text = words::within(&self.text, room.max(SHORT), REST);
        } else if self.node.as_ref().is_some_and(|node| node.len() > SHORT) {
            self.cut_nodes(0);
        } else {
            return false;
        }
        true
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
        // Whoever hands it on makes no other characters of it.
        printable(&format!("{MARK}{answer}"), usize::MAX)
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
    Some(marked_and_rest(said)?.0)
}

/// The object after the mark, and what follows it.
pub(super) fn marked_and_rest(said: &str) -> Option<(Value, &str)> {
    let after = &said[said.find(MARK)? + MARK.len()..];
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, &after[values.byte_offset()..]))
}

/// To six figures: nobody can tell, and the line is half as long.
fn short(value: f64) -> f64 {
    match format!("{value:.5e}").parse() {
        Ok(short) => short,
        Err(_) => value,
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

#[cfg(test)]
mod tests {
    use super::super::tests::quote;
    use super::*;

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
    fn the_number_of_a_held_quote_is_never_too_much() {
        for letter in ["x", "\"", "€", "\u{1f40e}", "\u{7f}", "\u{9b}", "\n"] {
            let long = |count| letter.repeat(count);
            let mut quote = quote();
            quote.text = long(2000);
            quote.reason = Some(long(2000));
            quote.node = Some(vec![long(100); 100].join("+"));
            quote.class_line = Some("class.queues.long".to_string());
            quote.evidence = json!({"node": long(2000)});
            let offer = quote.offers[0].clone();
            quote.offers = vec![offer; 7];
            for point in &mut quote.curve {
                point.judged.price = 123_456.789e12;
            }
            for longest in [1000, 800] {
                let line = quote.line_within(longest);
                assert!(line.len() <= longest, "{letter} {} {line}", line.len());
                let found = Quote::find(&line).expect("an answer");
                assert_eq!(found.held, quote.held);
                assert_eq!(found.price, quote.price);
            }
        }
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
}
