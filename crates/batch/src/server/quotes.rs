//! Questions about price, and quotes that are held, used and given back.

use super::{AdmissionServer, Answer, Committed, Reserved};
use crate::admit::{admit, paid_curve};
use crate::front_end::{FrontEnd, JobSpecification};
use crate::quote::line::dropped_line;
use crate::quote::parts::LONGEST_WHOLE;
use crate::quote::{Quote, QuoteHandle, held_text, secret};
use crate::server::NotAdmitted;
use crate::server::nodes::Asking;
use crate::verdict::{NotTaken, Verdict};
use libra_core::book::held_quote::{HeldQuote, Order, QuoteError};
use libra_core::book::{Admitted, Offer};
use libra_core::commitment::Commitment;
use libra_core::decision::curve::curve;
use libra_core::decision::job::Request;
use libra_core::decision::service::check_held;
use libra_units::credits;
use libra_wording::errors::{class_by, class_key};

impl AdmissionServer {
    pub(super) fn follow<F: FrontEnd>(
        &mut self,
        front: &F,
        submission: &F::Submission,
        order: &Order,
        now: f64,
    ) -> Result<Answer<F>, NotAdmitted<F>> {
        match order {
            Order::Question { hold, in_parts } => {
                let (quote, for_nodes) = self.question(front, submission, *hold, now)?;
                let line = match in_parts {
                    true => self.in_parts::<F>(&quote, &front.user(submission), now),
                    false => quote.line_within(F::LONGEST_ANSWER),
                };
                Ok(Answer::Answered { line, for_nodes })
            }
            Order::Part { number, key } => {
                let user = front.user(submission);
                let line =
                    (self.answers.part(key, *number, &user, now)).map_err(NotAdmitted::unread)?;
                Ok(Answer::Answered {
                    line,
                    for_nodes: false,
                })
            }
            Order::Use(number) => {
                self.book.advance(now);
                let read = front.specification(&self.book, submission, false, now);
                let specification = read.map_err(NotAdmitted::unread)?;
                if let Err(verdict) = self.check_redeemed(&specification) {
                    return Err(NotAdmitted::read(verdict, specification));
                }
                (self.redeem(front, submission, specification, number, now))
                    .map_err(NotAdmitted::unread)
            }
            Order::Drop(number) => {
                let user = front.user(submission);
                (self.quotes)
                    .give_back(&mut self.book, number, &user, now)
                    .map_err(NotAdmitted::unread)?;
                Ok(Answer::Answered {
                    line: dropped_line(number),
                    for_nodes: false,
                })
            }
        }
    }

    /// A line for who can join parts: the answer, or the first part of it, of which the others are kept.
    fn in_parts<F: FrontEnd>(&mut self, quote: &Quote, user: &str, now: f64) -> String {
        let whole = quote.line_within(LONGEST_WHOLE.max(F::LONGEST_ANSWER));
        if whole.len() <= F::LONGEST_ANSWER {
            return whole;
        }
        match secret() {
            Ok(bits) => {
                let number = quote.held.as_ref().map(|held| held.number.as_str());
                (self.answers).keep(&whole, F::LONGEST_ANSWER, user, number, (now, bits))
            }
            Err(_) => quote.line_within(F::LONGEST_ANSWER),
        }
    }

    /// A question about price. `hold`: seconds that the quote is to be held. Also whether another answer is possible when a job has left its
    /// nodes.
    fn question<F: FrontEnd>(
        &mut self,
        front: &F,
        submission: &F::Submission,
        hold: Option<f64>,
        now: f64,
    ) -> Result<(Quote, bool), NotAdmitted<F>> {
        self.book.advance(now);
        // What is held is held for a budget, with which it comes.
        let read = front.specification(&self.book, submission, hold.is_none(), now);
        let specification = read.map_err(NotAdmitted::unread)?;
        let user = front.user(submission);
        match self.check_question(&specification, &user, hold, now) {
            Ok(()) => (self.quote(front, submission, specification, hold, now))
                .map_err(NotAdmitted::unread),
            Err(verdict) => Err(NotAdmitted::read(verdict, specification)),
        }
    }

    /// Checks that this can be asked.
    fn check_question<F: FrontEnd>(
        &mut self,
        specification: &JobSpecification<F>,
        user: &str,
        hold: Option<f64>,
        now: f64,
    ) -> Result<(), NotTaken<F::Problem>> {
        self.check_class(specification)?;
        let Some(seconds) = hold else {
            return Ok(());
        };
        self.check_redeemed(specification)?;
        Ok(self.quotes.check(user, seconds, now)?)
    }

    /// Checks that a quote of such a job can be held, and so be used.
    fn check_redeemed<F: FrontEnd>(
        &self,
        specification: &JobSpecification<F>,
    ) -> Result<(), NotTaken<F::Problem>> {
        check_held(&specification.request)?;
        match specification.deferred {
            Some(_) => Err(QuoteError::Deferred.into()),
            None => Ok(()),
        }
    }

    fn quote<F: FrontEnd>(
        &mut self,
        front: &F,
        submission: &F::Submission,
        mut specification: JobSpecification<F>,
        hold: Option<f64>,
        now: f64,
    ) -> Result<(Quote, bool), NotTaken<F::Problem>> {
        let asked = specification.request;
        let idle = (specification.deferred).map(|deferred| self.idle(deferred.passes()));
        let book = idle.as_ref().unwrap_or(&self.book);
        let book = book.questions(hold.unwrap_or(0.0));
        let judge = |request: &Request| self.appraise(book, &specification, request);
        let payer = self.payer(&specification, &asked, now);
        let mut quote = Quote {
            price: judge(&asked).price,
            slots: asked.shape.slots() * u64::from(specification.jobs()),
            class_line: specification.class_line.as_ref().map(class_key),
            curve: paid_curve(&payer, &asked, curve(&asked, &judge), &judge),
            ..Quote::of(&asked)
        };
        if !specification.has_budget {
            quote.needs = self.budget_needed(book, &specification);
            specification.request.terms.budget = quote.needs.unwrap_or(f64::INFINITY);
        }
        let (specification, request) = (&specification, &specification.request);
        let payer = self.payer(specification, request, now);
        let mut answer = admit(
            payer,
            request,
            &mut Asking {
                server: self,
                book,
                specification,
            },
        );
        let mut starts_by = None;
        if let (None, Err(not)) = (hold, &answer) {
            if let Some((start, domain)) =
                self.find_start(front, submission, specification, request, not)
            {
                starts_by = Some(start.starts_by);
                let payer = self.payer(specification, request, now);
                answer = payer.map_or_else(
                    |denied| Err(denied.into()),
                    |payer| Ok((payer, (start.offer, domain))),
                );
            }
        }
        if let Ok((Some(payer), (offer, _))) = &answer {
            let commitment = self.commitment(request, specification.jobs(), offer, now);
            if let Err(denied) = self.gate.covers(payer, &commitment) {
                answer = Err(denied.into());
            }
        }
        let verdict: Verdict<_, F::Problem> = answer.map(|(_, taken)| taken).into();
        let verdict = verdict.on_budget(quote.needs);
        let for_nodes = verdict.is_for_nodes();
        match verdict {
            Verdict::Accepted((offer, domain))
            | Verdict::WithBudget {
                offer: (offer, domain),
                ..
            } => {
                self.say_offered(specification, offer, (&domain, starts_by), now, &mut quote);
                if let Some(seconds) = hold {
                    let user = front.user(submission);
                    let held = self.hold(specification, user, &domain, now + seconds, now)?;
                    let use_it = F::write_quote(&held.number);
                    quote.text += &format!("\n{}", held_text(&held, now, &use_it));
                    quote.held = Some(held);
                }
            }
            not => specification.with_manner(submission, |manner| quote.not_taken(&not, manner)),
        }
        Ok((quote, for_nodes))
    }

    /// What was offered goes into the quote.
    fn say_offered<F: FrontEnd>(
        &self,
        specification: &JobSpecification<F>,
        offer: Offer,
        (domain, starts_by): (&str, Option<f64>),
        now: f64,
        quote: &mut Quote,
    ) {
        quote.accepted = true;
        quote.price = offer.price;
        let shares = offer.places.iter().map(|place| place.share);
        let deferred = specification.deferred.is_some() || starts_by.is_some();
        quote.share = (!deferred).then(|| shares.fold(0.0, f64::max));
        let mut nodes: Vec<&str> = (offer.places.iter())
            .map(|place| self.book.node_name(place.node))
            .collect();
        nodes.dedup();
        // Share and nodes are not known before it may start.
        quote.node = (!deferred).then(|| nodes.join("+"));
        let commitment = self.commitment(&specification.request, specification.jobs(), &offer, now);
        let committed = Committed {
            commitment: Commitment {
                deferred,
                from_start: (specification.deferred).is_some_and(|deferred| deferred.from_start),
                starts_by,
                ..commitment
            },
            domain: domain.to_string(),
            price: offer.price,
            pinned: offer.pinned,
        };
        quote.conditional = committed.commitment.conditional;
        quote.text = committed.text::<F>();
        if let Some(line) = &specification.class_line {
            let by = class_by(specification.request.terms.class, line);
            quote.text += &format!("\n{by}");
        }
        quote.say_needs(&|budget| F::write_term("budget", &credits(budget)));
    }

    /// Admits what was just judged, and holds it.
    fn hold<F: FrontEnd>(
        &mut self,
        specification: &JobSpecification<F>,
        user: String,
        domain: &str,
        until: f64,
        now: f64,
    ) -> Result<QuoteHandle, NotTaken<F::Problem>> {
        let nodes = (specification.domains())
            .find(|known| known.name == domain)
            .and_then(|known| known.nodes.as_ref().ok()?.as_deref());
        let bits = secret()?;
        let (request, array) = (&specification.request, specification.array);
        let admitted = self.book.admit_until(request, array, nodes, until, now);
        let (admitted, pinned) = admitted.map_err(|error| self.of_book(error))?;
        let held = HeldQuote {
            wanted: specification.wanted(user),
            offer: Offer {
                price: admitted.price,
                places: admitted.places,
                pinned,
            },
            token: admitted.token,
            until,
            place: domain.to_string(),
        };
        let number = self.quotes.hold(&mut self.book, held, bits)?;
        Ok(QuoteHandle { number, until })
    }

    /// A job that comes with a quote.
    fn redeem<F: FrontEnd>(
        &mut self,
        front: &F,
        submission: &F::Submission,
        specification: JobSpecification<F>,
        number: &str,
        now: f64,
    ) -> Result<Answer<F>, NotTaken<F::Problem>> {
        let wanted = specification.wanted(front.user(submission));
        let held = (self.quotes.usable(&self.book, number, &wanted, now)?).clone();
        let (request, jobs) = (&specification.request, specification.jobs());
        let payer = self.payer(&specification, request, now)?;
        if let Some(payer) = &payer {
            // It is not used up for a hold that fails.
            let commitment = self.commitment(request, jobs, &held.offer, now);
            self.gate.covers(payer, &commitment)?;
        }
        front.may_redeem(submission, number, &held)?;
        self.quotes.redeem(&mut self.book, number, &wanted, now)?;
        let reserved = Reserved {
            admitted: Admitted {
                token: held.token,
                price: held.offer.price,
                places: held.offer.places,
            },
            domain: held.place,
            pinned: held.offer.pinned,
        };
        let committed = self.commit(request, jobs, reserved, payer, None, now)?;
        Ok(Answer::Redeemed(Box::new((committed, specification))))
    }
}
