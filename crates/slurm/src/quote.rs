//! A submission that is a question about price, or comes with a held quote.
//!
//! A question is never queued: its refusal is the answer, see [`libra_batch::quote`]. It looks at the same partitions and nodes as a
//! submission, by the same code. What is held is in memory alone.

use super::QUOTE_OPTION;
use super::controller::{Answer, Controller};
use super::nodes::Where;
use super::problem::{NotTaken, Problem};
use super::refusal::manner;
use super::submission::Submission;
use super::words::write_offer;
use libra_batch::admit::{Nodes, admit, paid_curve};
use libra_batch::quote::{Quote, QuoteHandle, dropped_line, held_text, secret};
use libra_batch::verdict::{Problem as _, Verdict};
use libra_core::book::held_quote::{HeldQuote, Order, Wanted};
use libra_core::book::{Admitted, Offer};
use libra_core::commitment::Commitment;
use libra_core::decision::curve::{Judged, curve};
use libra_core::decision::job::Request;
use libra_core::decision::refusal::Category;
use libra_units::{credits, indices};

/// Longest answer, in bytes: Slurm's clients print a line of any length, logs are for people.
const LONGEST_LINE: usize = 8000;

/// The nodes as a question finds them: it takes nothing.
struct Asking<'a> {
    controller: &'a mut Controller,
    found: &'a Where,
}

impl Nodes for Asking<'_> {
    type Taken = (usize, Offer);
    type Own = Problem;

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken> {
        self.take(request).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<(usize, Offer), NotTaken> {
        self.controller.offer(self.found, request)
    }
}

impl Controller {
    /// The answer to a submission that says something about a quote; None if it does not.
    pub(super) fn answer_quote(&mut self, submission: &Submission, now: f64) -> Option<Answer> {
        let order = submission.quote()?;
        let answer = match Order::parse(order) {
            Err(error) => Err(Problem::Order(error).into()),
            Ok(_) if submission.component.is_some() => Err(Problem::Heterogeneous.into()),
            Ok(Order::Ask) => self.question(submission, None, now),
            Ok(Order::Hold(seconds)) => self.question(submission, Some(seconds), now),
            Ok(Order::Use(number)) => self.with_quote(submission, &number, now),
            Ok(Order::Drop(number)) => {
                let user = submission.user.to_string();
                (self.quotes.give_back(&mut self.book, &number, &user, now))
                    .map(|()| Answer::Answered(dropped_line(&number)))
                    .map_err(NotTaken::from)
            }
        };
        Some(answer.unwrap_or_else(|not| Answer::Refuse(Box::new(not.into()))))
    }

    fn question(
        &mut self,
        submission: &Submission,
        hold: Option<f64>,
        now: f64,
    ) -> Result<Answer, NotTaken> {
        self.book.advance(now);
        // What is held is held for a budget, with which it comes.
        let mut found = self.find_nodes(submission, hold.is_none(), now)?;
        let user = submission.user.to_string();
        if let Some(seconds) = hold {
            self.quotes.check(&user, seconds, now)?;
        }
        let (asked, count) = (found.request, found.count());
        let judge = |request: &Request| self.appraise(&found, request);
        let who = self.payer(submission, &asked, now);
        let mut quote = Quote {
            price: judge(&asked).price,
            slots: asked.shape.slots() * u64::from(count),
            curve: paid_curve(&who, &asked, curve(&asked, &judge), &judge),
            ..Quote::of(&asked)
        };
        if !found.has_budget {
            quote.needs = self.budget_needed(&found, &asked);
            found.request.terms.budget = quote.needs.unwrap_or(f64::INFINITY);
        }
        let found = found;
        let payer = self.payer(submission, &found.request, now);
        let mut asking = Asking {
            controller: self,
            found: &found,
        };
        let mut answer = admit(payer, &found.request, &mut asking);
        if let Ok((Some(payer), (_, offer))) = &answer {
            let commitment = self.commitment(&found, offer, now);
            if let Err(denied) = self.gate.covers(payer, &commitment) {
                answer = Err(denied.into());
            }
        }
        let verdict: Verdict<_, Problem> = answer.map(|(_, offer)| offer).into();
        match verdict.on_budget(quote.needs) {
            Verdict::Accepted((partition, offer))
            | Verdict::Conditional {
                offer: (partition, offer),
                ..
            } => {
                self.offered(submission, &found, (partition, &offer), now, &mut quote);
                if let Some(seconds) = hold {
                    let held = self.hold(submission, found, partition, now + seconds, now)?;
                    let use_it = format!("sbatch --{QUOTE_OPTION}={}", held.number);
                    quote.text += &format!("\n{}", held_text(&held, now, &use_it));
                    quote.held = Some(held);
                }
            }
            not => {
                let write = |offer: &_| write_offer(offer, submission);
                quote.not_taken(&not, &manner(count, &write));
            }
        }
        Ok(Answer::Answered(quote.line_within(LONGEST_LINE)))
    }

    fn commitment(&self, found: &Where, offer: &Offer, now: f64) -> Commitment {
        let admitted = offered(offer);
        (self.book).commitment(&found.request, found.count(), &admitted, None, now)
    }

    /// What was offered goes into the quote.
    fn offered(
        &self,
        submission: &Submission,
        found: &Where,
        (partition, offer): (usize, &Offer),
        now: f64,
        quote: &mut Quote,
    ) {
        let commitment = self.commitment(found, offer, now);
        let accepted = self.accepted(
            submission,
            &found.asked,
            commitment,
            partition,
            &offered(offer),
            offer.pinned,
        );
        quote.accepted = true;
        quote.price = offer.price;
        let shares = offer.places.iter().map(|place| place.share);
        quote.share = Some(shares.fold(0.0, f64::max));
        let mut nodes: Vec<&str> = (offer.places.iter())
            .map(|place| self.book.node_name(place.node))
            .collect();
        nodes.dedup();
        quote.node = Some(nodes.join("+"));
        quote.text = accepted.quote;
        quote.say_needs(&|budget| format!("--budget={}", credits(budget)));
    }

    /// The smallest budget that would do on the first partition that takes it for any.
    fn budget_needed(&self, found: &Where, request: &Request) -> Option<f64> {
        (found.places.iter()).find_map(|place| {
            self.closed(place, request).ok()?;
            let allowed = place.1.as_deref().ok();
            self.book.budget_needed(request, found.array, allowed)
        })
    }

    /// What would become of a request: the first partition that takes it, else what the first one says.
    fn appraise(&self, found: &Where, request: &Request) -> Judged {
        let mut first = None;
        for place in &found.places {
            let allowed = place.1.as_deref().ok();
            let mut judged = self.book.appraise(request, found.array, allowed);
            if let Err(problem) = self.closed(place, request) {
                judged.refused = Some(problem.category());
            }
            if judged.refused.is_none() {
                return judged;
            }
            judged.share = None;
            first.get_or_insert(judged);
        }
        first.unwrap_or(Judged {
            price: 0.0,
            share: None,
            refused: Some(Category::Partition),
        })
    }

    /// Admits what was just judged, and keeps it.
    fn hold(
        &mut self,
        submission: &Submission,
        found: Where,
        partition: usize,
        until: f64,
        now: f64,
    ) -> Result<QuoteHandle, NotTaken> {
        let allowed = (found.places.iter())
            .find(|(known, _)| *known == partition)
            .and_then(|(_, allowed)| allowed.as_deref().ok());
        let admitted = match found.array {
            None => (self.book.admit_among(&found.request, allowed, now)).map(|a| (a, true)),
            Some(count) => (self.book).admit_array(&found.request, count, allowed, now),
        };
        let (admitted, pinned) =
            admitted.map_err(|error| NotTaken::of_book(error, |node| self.node_name(node)))?;
        let held = HeldQuote {
            wanted: wanted(submission, &found),
            offer: Offer {
                price: admitted.price,
                places: admitted.places,
                pinned,
            },
            token: admitted.token,
            until,
            place: self.shared[partition].name.clone(),
        };
        let number = self.quotes.hold(&mut self.book, held, secret()?)?;
        Ok(QuoteHandle { number, until })
    }

    /// A job that comes with a quote.
    fn with_quote(
        &mut self,
        submission: &Submission,
        number: &str,
        now: f64,
    ) -> Result<Answer, NotTaken> {
        self.book.advance(now);
        let found = self.find_nodes(submission, false, now)?;
        let wanted = wanted(submission, &found);
        let held = (self.quotes.usable(&self.book, number, &wanted, now)?).clone();
        let partition = (self.shared.iter())
            .position(|partition| partition.name == held.place)
            .ok_or_else(|| Problem::QuoteElsewhere {
                number: number.to_string(),
                partition: held.place.clone(),
            })?;
        let payer = self.payer(submission, &found.request, now)?;
        if let Some(payer) = &payer {
            // It is not used up for a hold that fails.
            let commitment = self.commitment(&found, &held.offer, now);
            self.gate.covers(payer, &commitment)?;
        }
        // It may be a test, which must not use it up, or may only say so, and then be queued.
        if submission.without_session {
            return Err(Problem::QuoteInTest {
                number: number.to_string(),
                price: held.offer.price,
            }
            .into());
        }
        self.quotes.redeem(&mut self.book, number, &wanted, now)?;
        let admitted = Admitted {
            token: held.token,
            price: held.offer.price,
            places: held.offer.places,
        };
        let count = found.array.unwrap_or(1);
        let commitment = self.commit(&found.request, count, &admitted, payer.as_ref(), now)?;
        let accepted = self.accepted(
            submission,
            &found.asked,
            commitment,
            partition,
            &admitted,
            held.offer.pinned,
        );
        Ok(Answer::Accept(Box::new(accepted)))
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

fn wanted(submission: &Submission, found: &Where) -> Wanted {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Wanted {
        user: submission.user.to_string(),
        request: found.request,
        array: found.array,
        others: vec![
            ("partition", text(&submission.partition)),
            ("list of array tasks", indices::show(&found.asked.array)),
            ("nodelist", submission.required_nodes.join(",")),
            (
                "list of excluded nodes",
                submission.excluded_nodes.join(","),
            ),
            ("constraint", text(&submission.features)),
        ],
    }
}
