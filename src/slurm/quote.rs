//! A submission that is a question about price, or comes with a kept quote.
//!
//! A question is never queued: its refusal is the answer, see [`crate::quote`]. It looks at the same partitions and nodes as a
//! submission, by the same code. What is kept is in memory alone.

use super::QUOTE_OPTION;
use super::controller::{Answer, Controller};
use super::submission::{Asked, NotJudged, Submission};
use super::words::{in_few_words, write_offer};
use crate::accounts::desk::Denied;
use crate::book::kept::{Kept, NotKept, Order, Wanted};
use crate::book::{Admitted, BookError, Offer};
use crate::decision::curve::{Judged, curve};
use crate::decision::job::Request;
use crate::quote::{KeptAs, Quote, dropped_line, kept_text, plain};
use crate::text::{credits, duration, indices};

/// Longest answer, in bytes: Slurm's clients print a line of any length, logs are for people.
const LONGEST_LINE: usize = 8000;

impl From<NotKept> for NotJudged {
    fn from(error: NotKept) -> NotJudged {
        NotJudged::Other(error.to_string())
    }
}

/// What a submission asks for, and where it may go: partition, and which nodes or why none.
struct Where {
    asked: Asked,
    request: Request,
    array: Option<u32>,
    places: Vec<(usize, Result<Vec<bool>, NotJudged>)>,
}

impl Controller {
    /// The answer to a submission that says something about a quote; none where it does not.
    pub(super) fn answer_quote(&mut self, submission: &Submission, now: f64) -> Option<Answer> {
        let order = submission.quote()?;
        let answer = match Order::parse(order) {
            Err(problem) => Err(NotJudged::Other(format!("--{QUOTE_OPTION}: {problem}"))),
            Ok(_) if submission.component.is_some() => Err(NotJudged::Other(
                "a heterogeneous job has a price for each component; ask for them one by one, without a quote".to_string(),
            )),
            Ok(Order::Ask) => self.question(submission, None, now),
            Ok(Order::Hold(seconds)) => self.question(submission, Some(seconds), now),
            Ok(Order::Use(number)) => self.with_quote(submission, &number, now),
            Ok(Order::Drop(number)) => {
                let user = submission.user.to_string();
                (self.quotes.give_back(&mut self.book, &number, &user, now))
                    .map(|()| Answer::Refuse(dropped_line(&number)))
                    .map_err(NotJudged::from)
            }
        };
        Some(
            answer.unwrap_or_else(|problem| {
                Answer::Refuse(in_few_words(format!("libra: {problem}")))
            }),
        )
    }

    fn look_where(&self, submission: &Submission, now: f64) -> Result<Where, NotJudged> {
        let asked = submission.read(now)?;
        let shape = submission.shape(self.largest)?;
        let candidates = self.candidates(submission)?;
        Ok(Where {
            request: Request {
                terms: asked.terms,
                shape,
            },
            array: match asked.array.len() {
                0 => None,
                count => Some(u32::try_from(count).unwrap_or(u32::MAX)),
            },
            places: (candidates.into_iter())
                .map(|partition| {
                    let allowed = self.allowed(partition, submission, &asked, &shape);
                    (partition, allowed)
                })
                .collect(),
            asked,
        })
    }

    fn question(
        &mut self,
        submission: &Submission,
        hold: Option<f64>,
        now: f64,
    ) -> Result<Answer, NotJudged> {
        self.book.advance(now);
        let found = self.look_where(submission, now)?;
        let user = submission.user.to_string();
        if let Some(seconds) = hold {
            self.quotes.check(&user, seconds, now)?;
        }
        let Request { terms, shape } = &found.request;
        let count = found.array.unwrap_or(1);
        let mut quote = Quote {
            price: self.appraise(&found, &found.request).price,
            estimate: terms.estimate,
            deadline: terms.deadline,
            budget: terms.budget.is_finite().then_some(terms.budget),
            slots: shape.slots() * u64::from(count),
            curve: curve(&found.request, &|request| self.appraise(&found, request)),
            ..Quote::default()
        };
        let offered = self.verdict(submission, &found, &mut quote);
        let payer = self.payer(submission, &found.request, now);
        if let (Some(_), Err(denied)) = (&offered, &payer) {
            quote.denied(denied);
        } else if let Some((partition, offer)) = offered {
            let admitted = Admitted {
                token: 0,
                price: offer.price,
                places: offer.places.clone(),
            };
            let (asked, request) = (&found.asked, &found.request);
            let sold = self.book.sold(request, count, &admitted, None, now);
            let accepted =
                self.accepted(submission, asked, sold, partition, &admitted, offer.pinned);
            quote.accepted = true;
            quote.price = offer.price;
            let shares = offer.places.iter().map(|place| place.share);
            quote.share = Some(shares.fold(0.0, f64::max));
            let mut nodes: Vec<&str> = (offer.places.iter())
                .map(|place| self.book.node_name(place.node))
                .collect();
            nodes.dedup();
            quote.node = Some(nodes.join("+"));
            quote.text = plain(&accepted.quote);
            if let Some(seconds) = hold {
                let kept = self.keep(submission, found, partition, now + seconds, now)?;
                let use_it = format!("sbatch --{QUOTE_OPTION}={}", kept.number);
                quote.text += &format!("\n{}", kept_text(&kept, now, &use_it));
                quote.kept = Some(kept);
            }
        }
        Ok(Answer::Refuse(quote.line_within(LONGEST_LINE)))
    }

    /// What would become of a request: the first partition that takes it, else what the first one says.
    fn appraise(&self, found: &Where, request: &Request) -> Judged {
        let mut first = None;
        for (partition, allowed) in &found.places {
            let partition = &self.shared[*partition];
            let mut judged = (self.book).appraise(request, found.array, allowed.as_deref().ok());
            if request.terms.deadline > partition.longest {
                judged.refused = Some("partition");
            } else if allowed.is_err() {
                judged.refused = Some("no-node");
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
            refused: Some("partition"),
        })
    }

    /// Partition and offer; of a refusal what is said goes into the quote.
    fn verdict(
        &self,
        submission: &Submission,
        found: &Where,
        quote: &mut Quote,
    ) -> Option<(usize, Offer)> {
        let request = &found.request;
        let count = found.array.unwrap_or(1);
        // What the first partition says that does not take it.
        let mut first = None;
        for (partition, allowed) in &found.places {
            let shared = &self.shared[*partition];
            let said = match allowed {
                _ if request.terms.deadline > shared.longest => Err((
                    "partition",
                    format!(
                        "partition {} ends jobs after {} and the deadline is {}",
                        shared.name,
                        duration::show(shared.longest),
                        duration::show(request.terms.deadline)
                    ),
                )),
                Err(problem) => Err(("no-node", problem.to_string())),
                Ok(allowed) => match self.book.quote(request, found.array, Some(allowed)) {
                    Ok(offer) => return Some((*partition, offer)),
                    Err(BookError::Refused(refusal)) => Ok(refusal),
                    Err(error) => Err(("invalid", error.to_string())),
                },
            };
            first.get_or_insert(said);
        }
        match first? {
            Err((category, reason)) => {
                quote.category = Some(category.to_string());
                quote.text = format!("refused ({category}): {reason}");
                quote.reason = Some(reason);
            }
            Ok(refusal) => {
                let name = |index: usize| self.book.node_name(index).to_string();
                let write = |offer: &_| write_offer(offer, submission);
                quote.refused(&refusal, &name, &write);
                let error = BookError::Refused(refusal);
                quote.text = plain(&self.refusal_text(&error, submission, count));
            }
        }
        None
    }

    /// Admits what was just judged, and keeps it.
    fn keep(
        &mut self,
        submission: &Submission,
        found: Where,
        partition: usize,
        until: f64,
        now: f64,
    ) -> Result<KeptAs, NotJudged> {
        let allowed = (found.places.iter())
            .find(|(known, _)| *known == partition)
            .and_then(|(_, allowed)| allowed.as_deref().ok());
        let admitted = match found.array {
            None => (self.book.admit_among(&found.request, allowed, now)).map(|a| (a, true)),
            Some(count) => (self.book).admit_array(&found.request, count, allowed, now),
        };
        let (admitted, pinned) = admitted.map_err(|error| NotJudged::Other(error.to_string()))?;
        let kept = Kept {
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
        let number = self.quotes.keep(&mut self.book, kept)?;
        Ok(KeptAs { number, until })
    }

    /// A job that comes with a quote.
    fn with_quote(
        &mut self,
        submission: &Submission,
        number: &str,
        now: f64,
    ) -> Result<Answer, NotJudged> {
        self.book.advance(now);
        let found = self.look_where(submission, now)?;
        let wanted = wanted(submission, &found);
        let kept = (self.quotes.usable(&self.book, number, &wanted, now)?).clone();
        let partition = (self.shared.iter())
            .position(|partition| partition.name == kept.place)
            .ok_or_else(|| {
                NotJudged::Other(format!(
                    "quote {number} is for partition {}, which takes no jobs now; ask for a new one",
                    kept.place
                ))
            })?;
        let denied = |denied: Denied| NotJudged::Other(denied.text());
        let payer = (self.payer(submission, &found.request, now)).map_err(denied)?;
        // It may be a test, which must not use it up, or may only say so, and then be queued.
        if submission.without_session {
            return Err(NotJudged::Other(format!(
                "quote {number} stands, for {} credits; a test and what comes without a session of the user's cannot use it: submit the job with sbatch, srun or salloc",
                credits(kept.offer.price)
            )));
        }
        self.quotes.redeem(&mut self.book, number, &wanted, now)?;
        let admitted = Admitted {
            token: kept.token,
            price: kept.offer.price,
            places: kept.offer.places,
        };
        let count = found.array.unwrap_or(1);
        let sold = self
            .sell(&found.request, count, &admitted, payer.as_ref(), now)
            .map_err(denied)?;
        let accepted = self.accepted(
            submission,
            &found.asked,
            sold,
            partition,
            &admitted,
            kept.offer.pinned,
        );
        Ok(Answer::Accept(Box::new(accepted)))
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
