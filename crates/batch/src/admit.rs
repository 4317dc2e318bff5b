//! The one path of admission, for questions and for submissions: who pays and how much of the budget that covers comes first, the
//! nodes second.
//!
//! Every admitting side goes through here, so that a quote says what a submission of the same terms in the same second is
//! answered. The two differ in one thing: whether what the nodes offer is taken.
//!
//! Invariants:
//! - What a refusal offers is covered by the account: no budget above what it has, no price either.
//! - An unlimited budget is what the account has.

use super::verdict::{NotTaken, Refused, Verdict};
use libra_accounts::budget_gate::{Denied, coverable};
use libra_accounts::payments::Payer;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::curve::{Judge, Judged, Point, with_deadline};
use libra_core::decision::job::Request;
use libra_core::decision::refusal::{Category, Reason, Refusal};

/// The nodes of one admitting side.
pub trait Nodes {
    /// What they give.
    type Taken;
    /// What the batch system itself has against a job.
    type Own;

    /// Checks that they would take this. Changes nothing.
    ///
    /// # Errors
    /// Why not.
    fn ask(&mut self, request: &Request) -> Result<(), NotTaken<Self::Own>>;

    /// Takes what they offer; a question takes nothing and tells.
    ///
    /// # Errors
    /// Why there is none.
    fn take(&mut self, request: &Request) -> Result<Self::Taken, NotTaken<Self::Own>>;
}

/// What was taken, and who pays for it; None if the site has no accounts.
pub type Paid<T> = (Option<Payer>, T);

/// The answer to a request. `payer`: what accounts say, see [`libra_accounts::budget_gate::BudgetGate::payer`].
///
/// # Errors
/// Why it is refused.
pub fn admit<N: Nodes>(
    payer: Result<Option<Payer>, Denied>,
    request: &Request,
    nodes: &mut N,
) -> Result<Paid<N::Taken>, NotTaken<N::Own>> {
    let payer = match payer {
        Ok(payer) => payer,
        Err(Denied::Funds { reason, available }) => {
            let budget = coverable(available);
            let counter_offers = match nodes.ask(&with_budget(request, budget)) {
                Ok(()) => vec![CounterOffer::Budget { budget }],
                Err(_) => Vec::new(),
            };
            let refusal = Refusal {
                // No node is in what accounts say.
                reason: reason.named(|node| node.to_string()),
                counter_offers,
            };
            return Err(Verdict::Refused(Refused::Decided(Box::new(refusal))));
        }
        Err(denied) => return Err(denied.into()),
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
        refused: Some(Category::Funds),
        ..judged
    };
    let Ok(payer) = payer else {
        return unpaid(judge(request));
    };
    match covered(payer, request).map(|covered| judge(&covered)) {
        None => judge(request),
        Some(judged) if judged.refused == Some(Category::Budget) => unpaid(judged),
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

/// A request of an unlimited budget with what its account has; None if that is the same.
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
fn within<P>(mut not: NotTaken<P>, available: Option<f64>) -> NotTaken<P> {
    if let (Verdict::Refused(Refused::Decided(refusal)), Some(available)) = (&mut not, available) {
        let most = coverable(available);
        // Prices of others are never above the budget that was judged, which is covered.
        refusal
            .counter_offers
            .retain(|offer| !matches!(*offer, CounterOffer::Budget { budget } if budget > most));
    }
    not
}

/// The same of a job whose budget was unlimited: what is missing is on the account.
fn unlimited<P>(mut not: NotTaken<P>, available: Option<f64>) -> NotTaken<P> {
    if let (Verdict::Refused(Refused::Decided(refusal)), Some(available)) = (&mut not, available) {
        if let Reason::Budget { price, .. } = refusal.reason {
            refusal.reason = Reason::Cover { price, available };
        }
        refusal
            .counter_offers
            .retain(|offer| !matches!(offer, CounterOffer::Budget { .. }));
    }
    not
}
