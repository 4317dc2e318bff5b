//! The admitting side of a batch system: one book, the accounts and the held quotes, the same for every system.
//!
//! A front end reads what its users submit into a [`JobSpecification`], and writes what comes back in its system's own way
//! ([`FrontEnd`]). Between the two nothing differs from one system to the next, so that a quote, a submission and a held quote are
//! answered by one path.
//!
//! Invariants:
//! - All of it is answered from memory, accounts included (their live state is memory, see [`libra_accounts`]); clocks, files and the batch
//!   system itself belong to the caller.
//! - What is committed is held for on the payer's account; where that fails it is out of the book again.
//! - A question reserves nothing, unless it asks for a quote that is held.
//! - A dedicated job that does not fit now may be promised a start (`planned`), if need be in front of others, which stand still for it ([`suspended`]).
//! - A job that may not start yet ([`crate::front_end::Deferred`]) has no share: its promise is deferred until it is asked for anew (`deferred`).

mod deferred;
#[cfg(test)]
mod deferred_tests;
mod nodes;
#[cfg(test)]
mod payment_tests;
mod planned;
mod quotes;
pub mod suspended;
mod written_quotes;

use crate::admit::admit;
use crate::front_end::{FrontEnd, JobSpecification, OnAccount};
use crate::quote::parts::StoredAnswers;
use crate::verdict::{NotTaken, Refused, Verdict};
use crate::words;
pub use deferred::NotConfirmed;
use libra_accounts::budget_gate::{BudgetGate, Denied};
use libra_accounts::payments::Payer;
use libra_core::book::held_quote::{HeldQuotes, Limits, Order};
use libra_core::book::{Admitted, Book, BookError, Offer};
use libra_core::commitment::Commitment;
use libra_core::decision::class::Class;
use libra_core::decision::job::Request;
use libra_core::decision::service::{ClassAdmission, ClassError};
use nodes::Taking;
pub use planned::NotBegun;
use std::collections::HashMap;

/// What was committed to a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The line that travels with it.
    pub commitment: Commitment,
    /// Where it goes.
    pub domain: String,
    /// Credits, for all jobs of an array.
    pub price: f64,
    /// It runs on just these nodes; else its array may be placed otherwise on nodes like them.
    pub pinned: bool,
}

impl Committed {
    /// As the user is told.
    pub fn text<F: FrontEnd>(&self) -> String {
        match (self.commitment.deferred, self.commitment.starts_by) {
            (true, Some(latest)) => words::planned(&self.commitment, latest),
            (true, None) => words::deferred(&self.commitment, self.price),
            (false, _) => words::accepted(&self.commitment, self.price, self.pinned || F::PINS_ALL),
        }
    }
}

/// The answer to a submission.
pub enum Answer<F: FrontEnd> {
    /// It is accepted.
    Accepted(Box<(Committed, JobSpecification<F>)>),
    /// It came with a quote, which is used up by it.
    Redeemed(Box<(Committed, JobSpecification<F>)>),
    /// It was a question, which is never queued.
    Answered {
        /// For [`Quote::find`].
        line: String,
        /// It would be refused for the nodes' sake: another answer is possible when a job has left them.
        for_nodes: bool,
    },
    /// It is not taken.
    NotTaken(NotAdmitted<F>),
}

/// A submission that is not taken.
pub struct NotAdmitted<F: FrontEnd> {
    /// Why.
    pub verdict: NotTaken<F::Problem>,
    /// What it was read as, where it was judged.
    pub specification: Option<Box<JobSpecification<F>>>,
}

impl<F: FrontEnd> NotAdmitted<F> {
    fn unread(verdict: impl Into<NotTaken<F::Problem>>) -> NotAdmitted<F> {
        NotAdmitted {
            verdict: verdict.into(),
            specification: None,
        }
    }

    fn read(verdict: NotTaken<F::Problem>, specification: JobSpecification<F>) -> NotAdmitted<F> {
        NotAdmitted {
            verdict,
            specification: Some(Box::new(specification)),
        }
    }

    /// Jobs of the array that it is; 1 where it is none, or was not judged.
    pub fn jobs(&self) -> u32 {
        (self.specification.as_ref()).map_or(1, |specification| specification.jobs())
    }

    /// As the user is told, who submitted this: why, and what would be accepted.
    pub fn lines(&self, submission: &F::Submission) -> Vec<String> {
        match &self.specification {
            None => vec![words::headed_reason(&self.verdict)],
            Some(specification) => specification
                .with_manner(submission, |manner| words::not_taken(&self.verdict, manner)),
        }
    }
}

/// What the nodes give to a job.
struct Reserved {
    admitted: Admitted,
    domain: String,
    pinned: bool,
}

/// One batch server's admitting side.
pub struct AdmissionServer {
    /// What is committed.
    pub book: Book,
    /// Who pays.
    pub gate: BudgetGate,
    quotes: HeldQuotes,
    /// Of which the first part was given.
    answers: StoredAnswers,
    /// What its batch system was told of jobs that stand still for others, and has not obeyed yet.
    told: HashMap<String, Vec<suspended::Given>>,
}

impl AdmissionServer {
    /// Over a book without nodes and jobs, without accounts.
    pub fn new(book: Book, limits: Limits) -> AdmissionServer {
        AdmissionServer {
            book,
            gate: BudgetGate::off(),
            quotes: HeldQuotes::new(limits),
            answers: StoredAnswers::default(),
            told: HashMap::new(),
        }
    }

    /// Decides by these rules from now on.
    pub fn configure(&mut self, admission: impl Into<ClassAdmission>, limits: Limits) {
        self.book.set_admission(admission);
        self.quotes.configure(limits);
    }

    /// Judges a submission, or answers what it asks about a quote. `now`: Unix time.
    pub fn answer<F: FrontEnd>(
        &mut self,
        front: &F,
        submission: &F::Submission,
        now: f64,
    ) -> Answer<F> {
        let answer = match front.order(submission).map(Order::parse) {
            None => self.submit(front, submission, now),
            Some(Err(error)) => Err(NotAdmitted::unread(F::Problem::from(error))),
            Some(Ok(order)) => match front.may_ask(submission) {
                Err(problem) => Err(NotAdmitted::unread(problem)),
                Ok(()) => self.follow(front, submission, &order, now),
            },
        };
        answer.unwrap_or_else(Answer::NotTaken)
    }

    fn submit<F: FrontEnd>(
        &mut self,
        front: &F,
        submission: &F::Submission,
        now: f64,
    ) -> Result<Answer<F>, NotAdmitted<F>> {
        let specification = (front.specification(&self.book, submission, false, now))
            .map_err(NotAdmitted::unread)?;
        let checked = self.check_class(&specification).map_err(NotTaken::from);
        let answer = checked.and_then(|()| match specification.deferred {
            Some(deferred) => self.defer(&specification, deferred, now),
            None => self.admit(&specification, now).or_else(|not| {
                let request = &specification.request;
                match self.find_start(front, submission, &specification, request, &not) {
                    Some(start) => self.plan(&specification, start, now),
                    None => Err(not),
                }
            }),
        });
        match answer {
            Ok(committed) => Ok(Answer::Accepted(Box::new((committed, specification)))),
            Err(verdict) => Err(NotAdmitted::read(verdict, specification)),
        }
    }

    /// Checks that a job is of a class that is offered here, with all that it needs, and that it may start where it has to.
    fn check_class<F: FrontEnd>(
        &self,
        specification: &JobSpecification<F>,
    ) -> Result<(), ClassError> {
        let request = &specification.request;
        self.book.admission().rules.check(request)?;
        match (request.terms.class, specification.deferred) {
            (class @ Class::Immediate, Some(_)) => Err(ClassError::Waits(class)),
            _ => Ok(()),
        }
    }

    fn admit<F: FrontEnd>(
        &mut self,
        specification: &JobSpecification<F>,
        now: f64,
    ) -> Result<Committed, NotTaken<F::Problem>> {
        let payer = self.payer(specification, &specification.request, now);
        let mut taking = Taking {
            server: self,
            specification,
            now,
        };
        let (payer, reserved) = admit(payer, &specification.request, &mut taking)?;
        Ok(self.commit(
            &specification.request,
            specification.jobs(),
            reserved,
            payer,
            None,
            now,
        )?)
    }

    /// A job that gave its share back is to have one again, on these nodes: judged as if it was submitted now, by the time that is left until its
    /// deadline, at today's price.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn admit_anew<P>(
        &mut self,
        commitment: &Commitment,
        nodes: &[&str],
        payer: Result<Option<Payer>, Denied>,
        now: f64,
    ) -> Result<Committed, NotTaken<P>> {
        let mut request = commitment.request;
        request.terms.deadline = request.terms.deadline_after(now - commitment.submitted);
        if request.terms.deadline <= 0.0 {
            return Err(Verdict::Refused(Refused::HeldTooLong));
        }
        let payer = payer?;
        let allowed: Vec<u32> = (0..self.book.node_count())
            .map(|index| match nodes.contains(&self.book.node_name(index)) {
                true => u32::MAX,
                false => 0,
            })
            .collect();
        let admitted = (self.book.admit_among(&request, Some(&allowed), now))
            .map_err(|error| self.of_book(error))?;
        let reserved = Reserved {
            admitted,
            domain: String::new(),
            pinned: true,
        };
        Ok(self.commit(&request, 1, reserved, payer, None, now)?)
    }

    /// Who pays for a job that gave its share back: the account that did, if it still may. `owner`: name of its user, which is asked for
    /// only where no user's account has paid.
    ///
    /// # Errors
    /// Why nobody.
    pub fn payer_anew(
        &self,
        commitment: &Commitment,
        owner: &str,
        now: f64,
    ) -> Result<Option<Payer>, Denied> {
        if !self.gate.is_on() {
            return Ok(None);
        }
        let (user, project) = pays(commitment, owner);
        (self.gate).payer(user, project, commitment.request.terms.budget, now)
    }

    /// Who pays for a request: the user that submits it, or the project that it names.
    fn payer<F: FrontEnd>(
        &self,
        specification: &JobSpecification<F>,
        request: &Request,
        now: f64,
    ) -> Result<Option<Payer>, Denied> {
        if !self.gate.is_on() {
            return Ok(None);
        }
        match &specification.account {
            Err(problem) => Err(Denied::Account(problem.clone())),
            Ok(OnAccount { user, project }) => {
                (self.gate).payer(user, project.as_deref(), request.terms.budget, now)
            }
        }
    }

    /// What was reserved is committed, and held for on the payer's account: in place of what is held for `before`, if that is given. Where that is
    /// denied, what was reserved is free again and what is held for `before` stays.
    fn commit(
        &mut self,
        request: &Request,
        jobs: u32,
        reserved: Reserved,
        payer: Option<Payer>,
        before: Option<&Commitment>,
        now: f64,
    ) -> Result<Committed, Denied> {
        let admitted = &reserved.admitted;
        let name = payer.as_ref().map(|payer| payer.name.as_str());
        let commitment = (self.book).commitment(request, jobs, admitted, name, now);
        if let Some(payer) = &payer {
            let held = match before {
                Some(before) => (self.gate).hold_instead(payer, before, &commitment, now),
                None => self.gate.hold(payer, &commitment, now),
            };
            if let Err(denied) = held {
                self.book.release(admitted, jobs, now);
                return Err(denied);
            }
        }
        Ok(Committed {
            commitment,
            domain: reserved.domain,
            price: admitted.price,
            pinned: reserved.pinned,
        })
    }

    /// What would be committed by an offer.
    fn commitment(&self, request: &Request, jobs: u32, offer: &Offer, now: f64) -> Commitment {
        let admitted = Admitted {
            token: 0,
            price: offer.price,
            places: offer.places.clone(),
        };
        self.book.commitment(request, jobs, &admitted, None, now)
    }

    /// Reserves for a job, or for all of an array, on these nodes.
    fn reserve<F: FrontEnd>(
        &mut self,
        specification: &JobSpecification<F>,
        request: &Request,
        nodes: Option<&[u32]>,
        now: f64,
    ) -> Result<(Admitted, bool), BookError> {
        match specification.array {
            None => Ok((self.book.admit_among(request, nodes, now)?, true)),
            Some(jobs) => self.book.admit_array(request, jobs, nodes, now),
        }
    }

    fn of_book<P>(&self, error: BookError) -> NotTaken<P> {
        NotTaken::of_book(error, |node| self.book.node_name(node).to_string())
    }
}

/// User and project that pay for it once more; `owner` where no user's account has.
fn pays<'a>(commitment: &'a Commitment, owner: &'a str) -> (&'a str, Option<&'a str>) {
    match paid_by(commitment) {
        Some(("project", project)) => (owner, Some(project)),
        Some((_, user)) => (user, None),
        None => (owner, None),
    }
}

/// Kind and name of the account that paid for it.
pub fn paid_by(commitment: &Commitment) -> Option<(&str, &str)> {
    commitment.payer.as_deref()?.split_once(':')
}
