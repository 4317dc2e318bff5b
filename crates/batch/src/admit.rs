//! The one path of admission, for questions and for submissions: who pays and how much of the budget that covers comes first, the
//! nodes second.
//!
//! Every admitting side goes through here, so that a quote says what a submission of the same terms in the same second is
//! answered. The two differ in one thing: whether what the nodes offer is taken.
//!
//! Invariants:
//! - What a refusal offers is covered by the account: no budget above what it has, no price either.
//! - An unlimited budget is what the account has.

use libra_accounts::desk::{Denied, coverable};
use libra_accounts::payments::Payer;
use libra_core::book::BookError;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::curve::{Judge, Judged, Point, with_deadline};
use libra_core::decision::job::Request;
use libra_core::decision::refusal::{Reason, Refusal};

/// Why a job is not taken.
#[derive(Debug, Clone, PartialEq)]
pub enum NotTaken {
    /// The nodes or the money do not suffice; with what would be accepted.
    Refused(Box<Refusal>),
    /// Nobody pays: no account, or accounts are out of order.
    Denied(Denied),
    /// There is nothing to judge: no such partition, no node that meets the conditions.
    Other {
        /// A word for machines, as [`Reason::category`].
        category: &'static str,
        /// For the user.
        text: String,
    },
}

impl NotTaken {
    /// A word for machines.
    pub fn category(&self) -> &'static str {
        match self {
            NotTaken::Refused(refusal) => refusal.reason.category(),
            NotTaken::Denied(Denied::Fault(_) | Denied::Unpromised(_)) => "fault",
            NotTaken::Denied(_) => "funds",
            NotTaken::Other { category, .. } => category,
        }
    }

    /// Was it for the nodes' sake? Then it may be another answer when somebody has left them.
    pub fn is_for_nodes(&self) -> bool {
        matches!(self, NotTaken::Refused(refusal) if refusal.reason.category() != "funds")
    }
}

impl From<BookError> for NotTaken {
    fn from(error: BookError) -> NotTaken {
        match error {
            BookError::Refused(refusal) => NotTaken::Refused(refusal),
            error => NotTaken::Other {
                category: "invalid",
                text: error.to_string(),
            },
        }
    }
}

/// The nodes of one admitting side.
pub trait Nodes {
    /// What they give.
    type Taken;

    /// Would they take this? Changes nothing.
    ///
    /// # Errors
    /// Why not.
    fn ask(&mut self, request: &Request) -> Result<(), NotTaken>;

    /// Takes what they offer; a question takes nothing and tells.
    ///
    /// # Errors
    /// Why there is none.
    fn take(&mut self, request: &Request) -> Result<Self::Taken, NotTaken>;
}

/// The answer to a request. `payer`: what accounts say, see [`libra_accounts::desk::Desk::payer`].
///
/// # Errors
/// Why it is refused.
pub fn admit<N: Nodes>(
    payer: Result<Option<Payer>, Denied>,
    request: &Request,
    nodes: &mut N,
) -> Result<(Option<Payer>, N::Taken), NotTaken> {
    let payer = match payer {
        Ok(payer) => payer,
        Err(Denied::Funds { reason, available }) => {
            let budget = coverable(available);
            let counter_offers = match nodes.ask(&with_budget(request, budget)) {
                Ok(()) => vec![CounterOffer::Budget { budget }],
                Err(_) => Vec::new(),
            };
            return Err(NotTaken::Refused(Box::new(Refusal {
                reason,
                counter_offers,
            })));
        }
        Err(denied) => return Err(NotTaken::Denied(denied)),
    };
    let available = available(&payer);
    if let Some(covered) = covered(&payer, request) {
        // A policy may weigh budgets, and prices follow deadlines: only what the account covers is judged.
        nodes
            .ask(&covered)
            .map_err(|not| unlimited(not, available))?;
    }
    match nodes.take(request) {
        Ok(taken) => Ok((payer, taken)),
        Err(not) => Err(within(not, available)),
    }
}

/// What would become of a request, in few words; of one at other deadlines, as [`admit`] would answer. `judge`: the nodes alone.
pub fn appraise(
    payer: &Result<Option<Payer>, Denied>,
    request: &Request,
    judge: Judge<'_>,
) -> Judged {
    let unpaid = |judged: Judged| Judged {
        share: None,
        refused: Some("funds"),
        ..judged
    };
    let Ok(payer) = payer else {
        return unpaid(judge(request));
    };
    match covered(payer, request).map(|covered| judge(&covered)) {
        None => judge(request),
        Some(judged) if judged.refused == Some("budget") => unpaid(judged),
        Some(judged) => judged,
    }
}

/// A curve of the nodes alone, with what accounts say.
pub fn paid_curve(
    payer: &Result<Option<Payer>, Denied>,
    request: &Request,
    points: Vec<Point>,
    judge: Judge<'_>,
) -> Vec<Point> {
    if let Ok(paid) = payer {
        if covered(paid, request).is_none() {
            return points;
        }
    }
    let again = |point: Point| Point {
        judged: appraise(payer, &with_deadline(request, point.deadline), judge),
        ..point
    };
    points.into_iter().map(again).collect()
}

fn available(payer: &Option<Payer>) -> Option<f64> {
    Some(payer.as_ref()?.available?.credits())
}

/// A request of an unlimited budget with what its account has; none where that is the same.
fn covered(payer: &Option<Payer>, request: &Request) -> Option<Request> {
    let available = available(payer).filter(|_| request.terms.budget == f64::INFINITY)?;
    Some(with_budget(request, coverable(available)))
}

fn with_budget(request: &Request, budget: f64) -> Request {
    let mut changed = *request;
    changed.terms.budget = budget.max(0.0);
    changed
}

/// A refusal without the offers that the account does not cover.
fn within(mut not: NotTaken, available: Option<f64>) -> NotTaken {
    if let (NotTaken::Refused(refusal), Some(available)) = (&mut not, available) {
        let most = coverable(available);
        // Prices of others are never above the budget that was judged, which is covered.
        refusal
            .counter_offers
            .retain(|offer| !matches!(*offer, CounterOffer::Budget { budget } if budget > most));
    }
    not
}

/// The same of a job whose budget was unlimited: what is missing is on the account.
fn unlimited(mut not: NotTaken, available: Option<f64>) -> NotTaken {
    if let (NotTaken::Refused(refusal), Some(available)) = (&mut not, available) {
        if let Reason::Budget { price, .. } = refusal.reason {
            refusal.reason = Reason::Cover { price, available };
        }
        refusal
            .counter_offers
            .retain(|offer| !matches!(offer, CounterOffer::Budget { .. }));
    }
    not
}
