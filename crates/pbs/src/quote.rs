//! A submission that is a question about price, or comes with a held quote: resource `libra_quote`.
//!
//! A question is never queued: its refusal is the answer, see [`libra_batch::quote`]. It looks at the same nodes as a submission, by the
//! same code, and first has the hook look for waiting jobs that are gone. What is held is in memory alone.

use super::problem::{NotTaken, Problem};
use super::queue::{Answer, Found, NotAdmitted, manner, walltime, write_offer};
use super::server::Server;
use super::text;
use libra_batch::admit::{Nodes, admit, paid_curve};
use libra_batch::quote::{Quote, QuoteHandle, dropped_line, held_text, secret};
use libra_batch::verdict::{Problem as _, Verdict};
use libra_batch::words;
use libra_core::book::held_quote::{HeldQuote, Order, Wanted};
use libra_core::book::{Admitted, Offer};
use libra_core::decision::curve::{Judged, curve};
use libra_core::decision::job::Request;
use libra_units::credits;
use serde_json::Value;

/// Longest answer, in bytes: PBS cuts a refusal at 3171.
const LONGEST_LINE: usize = 3100;

fn user(job: &Value) -> String {
    text(job, "user").unwrap_or_default().to_string()
}

fn wanted(found: &Found, job: &Value) -> Wanted {
    let conditions = found.asked.conditions.iter();
    let conditions: Vec<String> = conditions
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let has_array = text(job, "array").unwrap_or_default();
    Wanted {
        user: user(job),
        request: found.request,
        array: found.array(),
        others: vec![
            ("condition", conditions.join(",")),
            ("list of array indices", has_array.to_string()),
        ],
    }
}

/// An offer as if it were admitted.
fn offered(offer: &Offer) -> Admitted {
    Admitted {
        token: 0,
        price: offer.price,
        places: offer.places.clone(),
    }
}

/// The nodes as a question finds them: it takes nothing.
struct Asking<'a> {
    server: &'a Server,
    found: &'a Found,
}

impl Nodes for Asking<'_> {
    type Taken = Offer;
    type Own = Problem;

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken> {
        self.take(request).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<Offer, NotTaken> {
        self.server.offer(self.found, request)
    }
}

impl Server {
    /// The answer to a submission that says something about a quote; None if it does not.
    pub(super) fn answer_quote(
        &mut self,
        job: &Value,
        now: f64,
    ) -> Option<Result<Answer, NotAdmitted>> {
        let order = text(job, "quote")?;
        Some(match Order::parse(order) {
            Err(error) => Err(Problem::Order(error).into()),
            Ok(Order::Ask) => self.question(job, None, now),
            Ok(Order::Hold(seconds)) => self.question(job, Some(seconds), now),
            Ok(Order::Use(number)) => self.with_quote(job, &number, now),
            Ok(Order::Drop(number)) => {
                (self
                    .quotes
                    .give_back(&mut self.book, &number, &user(job), now))
                .map(|()| Answer::Answered(dropped_line(&number)))
                .map_err(NotAdmitted::from)
            }
        })
    }

    fn question(
        &mut self,
        job: &Value,
        hold: Option<f64>,
        now: f64,
    ) -> Result<Answer, NotAdmitted> {
        self.book.advance(now);
        // What is held is held for a budget, with which it comes.
        let mut found = self.find_nodes(job, hold.is_none())?;
        if let Some(seconds) = hold {
            self.quotes.check(&user(job), seconds, now)?;
        }
        let asked = found.request;
        let judge = |request: &Request| {
            let judged = (self.book).appraise(request, found.array(), found.allowed.as_deref());
            match self.has_node(&found) {
                Err(problem) => Judged {
                    refused: Some(problem.category()),
                    share: None,
                    ..judged
                },
                Ok(()) => judged,
            }
        };
        let mut quote = Quote {
            price: judge(&asked).price,
            slots: asked.shape.slots() * u64::from(found.count),
            ..Quote::of(&asked)
        };
        let asked_curve = curve(&asked, &judge);
        let who = self.payer(job, &asked, now);
        quote.curve = paid_curve(&who, &asked, asked_curve, &judge);
        if !found.has_budget {
            let allowed = found.allowed.as_deref();
            quote.needs = self.book.budget_needed(&asked, found.array(), allowed);
            found.request.terms.budget = quote.needs.unwrap_or(f64::INFINITY);
        }
        let found = found;
        let payer = self.payer(job, &found.request, now);
        let mut asking = Asking {
            server: self,
            found: &found,
        };
        let mut answer = admit(payer, &found.request, &mut asking);
        if let Ok((Some(payer), offer)) = &answer {
            let commitment =
                self.book
                    .commitment(&found.request, found.count, &offered(offer), None, now);
            if let Err(denied) = self.gate.covers(payer, &commitment) {
                answer = Err(denied.into());
            }
        }
        let verdict: Verdict<_, Problem> = answer.map(|(_, offer)| offer).into();
        match verdict.on_budget(quote.needs) {
            Verdict::Accepted(offer) | Verdict::Conditional { offer, .. } => {
                self.offered(job, &found, offer, hold, now, &mut quote)?;
            }
            not => {
                if let Some(check) = self.to_be_checked(&not, job) {
                    return Ok(check);
                }
                let write = |offer: &_| write_offer(offer, &found.asked);
                quote.not_taken(&not, &manner(found.count, &write));
            }
        }
        Ok(Answer::Answered(quote.line_within(LONGEST_LINE)))
    }

    /// What was offered goes into the quote, and is held where that was asked for.
    fn offered(
        &mut self,
        job: &Value,
        found: &Found,
        offer: Offer,
        hold: Option<f64>,
        now: f64,
        quote: &mut Quote,
    ) -> Result<(), NotTaken> {
        let admitted = offered(&offer);
        let request = &found.request;
        let commitment = self
            .book
            .commitment(request, found.count, &admitted, None, now);
        quote.accepted = true;
        quote.price = admitted.price;
        quote.text = words::accepted(&commitment, admitted.price, offer.pinned);
        let shares = admitted.places.iter().map(|place| place.share);
        quote.share = Some(shares.fold(0.0, f64::max));
        let mut nodes: Vec<String> = (admitted.places.iter())
            .map(|place| self.node_name(place.node))
            .collect();
        nodes.dedup();
        quote.node = Some(nodes.join("+"));
        quote.say_needs(&|budget| format!("budget={}", credits(budget)));
        let Some(seconds) = hold else {
            return Ok(());
        };
        let allowed = found.allowed.as_deref();
        let (admitted, pinned) = (self.admit(request, found.count, allowed, now))
            .map_err(|error| self.not_taken(error))?;
        let until = now + seconds;
        let held = HeldQuote {
            wanted: wanted(found, job),
            offer: Offer {
                price: admitted.price,
                places: admitted.places,
                pinned,
            },
            token: admitted.token,
            until,
            place: String::new(),
        };
        let number = secret().and_then(|bits| self.quotes.hold(&mut self.book, held, bits))?;
        let use_it = format!("qsub -W quote={number}");
        let held = QuoteHandle { number, until };
        quote.text += &format!("\n{}", held_text(&held, now, &use_it));
        quote.held = Some(held);
        Ok(())
    }

    /// A job that comes with a quote.
    fn with_quote(&mut self, job: &Value, number: &str, now: f64) -> Result<Answer, NotAdmitted> {
        self.book.advance(now);
        let found = self.find_nodes(job, false)?;
        let wanted = wanted(&found, job);
        let payer = self.payer(job, &found.request, now)?;
        let usable = self.quotes.usable(&self.book, number, &wanted, now)?;
        if let Some(payer) = &payer {
            // It is not used up for a hold that fails.
            let commitment = (self.book).commitment(
                &found.request,
                found.count,
                &offered(&usable.offer),
                None,
                now,
            );
            self.gate.covers(payer, &commitment)?;
        }
        let held = (self.quotes).redeem(&mut self.book, number, &wanted, now)?;
        let admitted = Admitted {
            token: held.token,
            price: held.offer.price,
            places: held.offer.places,
        };
        let (request, asked) = (&found.request, &found.asked);
        let pinned = held.offer.pinned;
        let commitment = self.commit(request, found.count, &admitted, payer.as_ref(), now)?;
        let mut answer = self.accepted(&commitment, asked, &admitted, pinned);
        answer["resources"]["walltime"] = walltime(&request.terms, job);
        // It is used up: nothing of it stays with the job.
        answer["resources"][super::QUOTE] = Value::Null;
        Ok(Answer::Accepted {
            answer,
            jobs: commitment.count,
        })
    }
}
