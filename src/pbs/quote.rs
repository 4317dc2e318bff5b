//! A submission that is a question about price, or comes with a kept quote: resource `libra_quote`.
//!
//! A question is never queued: its refusal is the answer, see [`crate::quote`]. It looks at the same nodes as a submission, by the
//! same code, and first has the hook look for waiting jobs that are gone. What is kept is in memory alone.

use super::queue::{MOST_CHECKED, no_node, read, walltime, write_offer};
use super::select::Asked;
use super::server::{Server, refuse};
use super::text;
use crate::accounts::desk::Denied;
use crate::book::kept::{Kept, Order, Wanted};
use crate::book::{Admitted, BookError, Offer};
use crate::decision::curve::{Judged, curve};
use crate::decision::job::Request;
use crate::quote::{KeptAs, Quote, dropped_line, kept_text, plain};
use serde_json::{Value, json};

/// Longest answer, in bytes: PBS cuts a refusal at 3171.
const LONGEST_LINE: usize = 3100;

/// Does the job say anything about a quote?
pub(super) fn is_asked(job: &Value) -> bool {
    text(job, "quote").is_some()
}

fn user(job: &Value) -> String {
    text(job, "user").unwrap_or_default().to_string()
}

/// What a job asks for.
struct Job {
    request: Request,
    asked: Asked,
    count: u32,
    allowed: Option<Vec<bool>>,
}

impl Job {
    /// Jobs of an array that is judged as one.
    fn array(&self) -> Option<u32> {
        (self.count != 1).then_some(self.count)
    }

    fn wanted(&self, job: &Value) -> Wanted {
        let conditions = self.asked.conditions.iter();
        let conditions: Vec<String> = conditions
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let has_array = text(job, "array").unwrap_or_default();
        Wanted {
            user: user(job),
            request: self.request,
            array: self.array(),
            others: vec![
                ("condition", conditions.join(",")),
                ("list of array indices", has_array.to_string()),
            ],
        }
    }
}

impl Server {
    /// The answer to a submission that says something about a quote; none where it does not.
    pub(super) fn answer_quote(&mut self, job: &Value, now: f64) -> Option<Value> {
        let order = text(job, "quote")?;
        let answer = match Order::parse(order) {
            Err(problem) => Err(problem),
            Ok(Order::Ask) => self.question(job, None, now),
            Ok(Order::Hold(seconds)) => self.question(job, Some(seconds), now),
            Ok(Order::Use(number)) => self.with_quote(job, &number, now),
            Ok(Order::Drop(number)) => {
                (self
                    .quotes
                    .give_back(&mut self.book, &number, &user(job), now))
                .map(|()| refuse(dropped_line(&number)))
                .map_err(|error| error.to_string())
            }
        };
        Some(answer.unwrap_or_else(|problem| refuse(format!("libra: {problem}"))))
    }

    fn job(&self, job: &Value) -> Result<Job, String> {
        let (terms, asked, count) = read(job)?;
        let allowed = self.meeting(&asked.conditions);
        Ok(Job {
            request: Request {
                terms,
                shape: asked.shape,
            },
            asked,
            count,
            allowed,
        })
    }

    fn question(&mut self, job: &Value, hold: Option<f64>, now: f64) -> Result<Value, String> {
        self.book.advance(now);
        let found = self.job(job)?;
        if let Some(seconds) = hold {
            (self.quotes.check(&user(job), seconds, now)).map_err(|error| error.to_string())?;
        }
        let none = (found.allowed.as_ref()).is_some_and(|allowed| !allowed.contains(&true));
        let allowed = found.allowed.as_deref();
        let judge = |request: &Request| {
            let judged = self.book.appraise(request, found.array(), allowed);
            match none {
                true => Judged {
                    refused: Some("no-node"),
                    share: None,
                    ..judged
                },
                false => judged,
            }
        };
        let Request { terms, shape } = &found.request;
        let mut quote = Quote {
            price: judge(&found.request).price,
            estimate: terms.estimate,
            deadline: terms.deadline,
            budget: terms.budget.is_finite().then_some(terms.budget),
            slots: shape.slots() * u64::from(found.count),
            curve: curve(&found.request, &judge),
            ..Quote::default()
        };
        if none {
            quote.category = Some("no-node".to_string());
            quote.text = plain(&no_node(&found.asked));
            quote.reason = Some(quote.text.clone());
            return Ok(refuse(quote.line_within(LONGEST_LINE)));
        }
        match self.book.quote(&found.request, found.array(), allowed) {
            Ok(offer) => match self.payer(job, &found.request, now) {
                Ok(_) => self.offered(job, &found, offer, hold, now, &mut quote)?,
                Err(denied) => quote.denied(&denied),
            },
            Err(BookError::Refused(refusal)) => {
                let waiting: Vec<&str> = self.book.unstarted().take(MOST_CHECKED).collect();
                if !waiting.is_empty() && job.get("checked").is_none() {
                    return Ok(json!({"check": waiting}));
                }
                let name = |index: usize| self.node_name(index);
                let write = |offer: &_| write_offer(offer, &found.asked);
                quote.refused(&refusal, &name, &write);
                quote.text = plain(&self.refusal_text(&refusal, &found.asked, found.count));
            }
            Err(error) => return Err(error.to_string()),
        }
        Ok(refuse(quote.line_within(LONGEST_LINE)))
    }

    /// What was offered goes into the quote, and is kept where that was asked for.
    fn offered(
        &mut self,
        job: &Value,
        found: &Job,
        offer: Offer,
        hold: Option<f64>,
        now: f64,
        quote: &mut Quote,
    ) -> Result<(), String> {
        let admitted = Admitted {
            token: 0,
            price: offer.price,
            places: offer.places,
        };
        let (request, asked) = (&found.request, &found.asked);
        let sold = self.book.sold(request, found.count, &admitted, None, now);
        let answer = self.accepted(&sold, asked, &admitted, offer.pinned);
        let info = &answer["resources"]["libra_info"];
        quote.accepted = true;
        quote.price = admitted.price;
        quote.text = info.as_str().unwrap_or_default().to_string();
        let shares = admitted.places.iter().map(|place| place.share);
        quote.share = Some(shares.fold(0.0, f64::max));
        let mut nodes: Vec<String> = (admitted.places.iter())
            .map(|place| self.node_name(place.node))
            .collect();
        nodes.dedup();
        quote.node = Some(nodes.join("+"));
        let Some(seconds) = hold else {
            return Ok(());
        };
        let allowed = found.allowed.as_deref();
        let (admitted, pinned) =
            (self.admit(request, found.count, allowed, now)).map_err(|error| error.to_string())?;
        let until = now + seconds;
        let kept = Kept {
            wanted: found.wanted(job),
            offer: Offer {
                price: admitted.price,
                places: admitted.places,
                pinned,
            },
            token: admitted.token,
            until,
            place: String::new(),
        };
        let number = (self.quotes.keep(&mut self.book, kept)).map_err(|error| error.to_string())?;
        let use_it = format!("qsub -W quote={number}");
        let kept = KeptAs { number, until };
        quote.text += &format!("\n{}", kept_text(&kept, now, &use_it));
        quote.kept = Some(kept);
        Ok(())
    }

    /// A job that comes with a quote.
    fn with_quote(&mut self, job: &Value, number: &str, now: f64) -> Result<Value, String> {
        self.book.advance(now);
        let found = self.job(job)?;
        let wanted = found.wanted(job);
        let denied = |denied: Denied| denied.text();
        let payer = self.payer(job, &found.request, now).map_err(denied)?;
        let kept = (self.quotes.redeem(&mut self.book, number, &wanted, now))
            .map_err(|error| error.to_string())?;
        let admitted = Admitted {
            token: kept.token,
            price: kept.offer.price,
            places: kept.offer.places,
        };
        let (request, asked) = (&found.request, &found.asked);
        let pinned = kept.offer.pinned;
        let sold = self
            .sell(request, found.count, &admitted, payer.as_ref(), now)
            .map_err(denied)?;
        let mut answer = self.accepted(&sold, asked, &admitted, pinned);
        answer["resources"]["walltime"] = walltime(&request.terms, job);
        // It is used up: nothing of it stays with the job.
        answer["resources"][super::QUOTE] = Value::Null;
        Ok(answer)
    }
}
