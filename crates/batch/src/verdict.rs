//! The answer to a job that is submitted, or asked about, as data: what it gets, or why not, with the evidence.
//!
//! Everybody who is told takes it from here: metrics its category, hooks and programs its JSON, people the sentences that
//! [`super::words`] makes of it where it leaves. Nobody reads a sentence back.

use libra_accounts::budget_gate::Denied;
use libra_core::book::BookError;
use libra_core::book::held_quote::QuoteError;
use libra_core::decision::refusal::{Category, Reason, Refusal};
use libra_core::decision::service::ClassError;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fmt::{Debug, Display};

/// An answer. `T`: what an accepted job gets. `P`: what a batch system itself has against a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<T, P> {
    /// It is taken.
    Accepted(T),
    /// A question without a budget: it would be taken with this one.
    WithBudget {
        /// Credits.
        budget: f64,
        /// What it would get.
        offer: T,
    },
    /// It is not taken.
    Refused(Refused<P>),
    /// Libra could not judge it.
    NotJudged(Fault<P>),
}

/// A verdict that is no acceptance.
pub type NotTaken<P> = Verdict<Infallible, P>;

/// Why a job is not taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Refused<P> {
    /// By a decision: nodes or money do not suffice. With what would be accepted.
    Decided(Box<Refusal<String>>),
    /// Found when all else was decided: the account has less than it costs. Nothing is offered.
    Uncovered(Reason<String>),
    /// There is no account, or not for this user; what accounts say.
    Account(String),
    /// A quote cannot be had, or used for it.
    Quote(QuoteError),
    /// Its class of service cannot be had.
    Class(ClassError),
    /// It was held until its deadline was over.
    HeldTooLong,
    /// Its promise was deferred, and its deadline was over before it could start.
    DeferredTooLong,
    /// The book cannot take it as it is.
    Book(BookError),
    /// The batch system's own reason.
    Own(P),
}

/// Why a job cannot be judged.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault<P> {
    /// Accounts are out of order; what is wrong.
    Accounts {
        /// What they say.
        problem: String,
        /// The site lets jobs in then, without a promise.
        let_in: bool,
    },
    /// The batch system's own fault.
    Own(P),
}

/// What a batch system itself has against a job; shown, it is a sentence for the user.
pub trait Problem: Debug + Display {
    /// What kind of a reason it is.
    fn category(&self) -> Category;
}

/// One host alone has nothing of its own against a job.
impl Problem for Infallible {
    fn category(&self) -> Category {
        match *self {}
    }
}

impl<T, P> Verdict<T, P> {
    /// Returns true if it is taken, as far as it was said what it may cost.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Verdict::Accepted(_) | Verdict::WithBudget { .. })
    }

    /// Of a question: what it is where no budget was given, and it would need this one.
    pub fn on_budget(self, budget: Option<f64>) -> Verdict<T, P> {
        match (self, budget) {
            (Verdict::Accepted(offer), Some(budget)) => Verdict::WithBudget { budget, offer },
            (verdict, _) => verdict,
        }
    }

    /// The refusal of a decision, if it is one.
    pub fn refusal(&self) -> Option<&Refusal<String>> {
        match self {
            Verdict::Refused(Refused::Decided(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// Returns true if the nodes are the reason: it may be another answer when a job has left them.
    pub fn is_for_nodes(&self) -> bool {
        (self.refusal()).is_some_and(|refusal| refusal.reason.category().is_for_nodes())
    }
}

impl<T, P: Problem> Verdict<T, P> {
    /// What kind of a reason it is not taken for; None if it is.
    pub fn category(&self) -> Option<Category> {
        match self {
            Verdict::Accepted(_) | Verdict::WithBudget { .. } => None,
            Verdict::NotJudged(_) => Some(Category::Fault),
            Verdict::Refused(refused) => Some(match refused {
                Refused::Decided(refusal) => refusal.reason.category(),
                Refused::Uncovered(reason) => reason.category(),
                Refused::Account(_) => Category::Funds,
                Refused::Quote(_) | Refused::Class(_) => Category::Request,
                Refused::HeldTooLong | Refused::DeferredTooLong => Category::Deadline,
                Refused::Book(_) => Category::Invalid,
                Refused::Own(problem) => problem.category(),
            }),
        }
    }

    /// The numbers that a refusal rests on, by their names: `{"needed": 0.5, "free": 0.25, "node": "n1"}`; null where there are none.
    pub fn evidence(&self) -> Value {
        match self {
            Verdict::Refused(Refused::Decided(refusal)) => json!(refusal.reason),
            Verdict::Refused(Refused::Uncovered(reason)) => json!(reason),
            _ => Value::Null,
        }
    }
}

impl<P> NotTaken<P> {
    /// As any verdict.
    pub fn widen<T>(self) -> Verdict<T, P> {
        match self {
            Verdict::Accepted(never) | Verdict::WithBudget { offer: never, .. } => match never {},
            Verdict::Refused(refused) => Verdict::Refused(refused),
            Verdict::NotJudged(fault) => Verdict::NotJudged(fault),
        }
    }

    /// What the book says. `name`: of a node, by its index.
    pub fn of_book(error: BookError, name: impl Fn(usize) -> String) -> NotTaken<P> {
        Verdict::Refused(match error {
            BookError::Refused(refusal) => Refused::Decided(Box::new(refusal.named(name))),
            error => Refused::Book(error),
        })
    }

    /// Accounts are out of order, and the site lets jobs in then.
    pub fn is_let_in(&self) -> bool {
        matches!(
            self,
            Verdict::NotJudged(Fault::Accounts { let_in: true, .. })
        )
    }
}

impl<T, P> From<Result<T, NotTaken<P>>> for Verdict<T, P> {
    fn from(answer: Result<T, NotTaken<P>>) -> Verdict<T, P> {
        match answer {
            Ok(taken) => Verdict::Accepted(taken),
            Err(not) => not.widen(),
        }
    }
}

impl<P> From<P> for NotTaken<P>
where
    P: Problem,
{
    fn from(problem: P) -> NotTaken<P> {
        match problem.category() {
            Category::Fault => Verdict::NotJudged(Fault::Own(problem)),
            _ => Verdict::Refused(Refused::Own(problem)),
        }
    }
}

/// What accounts say when all else was decided.
impl<P> From<Denied> for NotTaken<P> {
    fn from(denied: Denied) -> NotTaken<P> {
        let fault = |problem, let_in| Verdict::NotJudged(Fault::Accounts { problem, let_in });
        match denied {
            // No node is in what accounts say.
            Denied::Funds { reason, .. } => {
                Verdict::Refused(Refused::Uncovered(reason.named(|node| node.to_string())))
            }
            Denied::Account(problem) => Verdict::Refused(Refused::Account(problem)),
            Denied::Fault(problem) => fault(problem, false),
            Denied::Unpromised(problem) => fault(problem, true),
        }
    }
}

impl<P> From<ClassError> for NotTaken<P> {
    fn from(error: ClassError) -> NotTaken<P> {
        Verdict::Refused(Refused::Class(error))
    }
}

impl<P> From<QuoteError> for NotTaken<P> {
    fn from(error: QuoteError) -> NotTaken<P> {
        Verdict::Refused(Refused::Quote(error))
    }
}
