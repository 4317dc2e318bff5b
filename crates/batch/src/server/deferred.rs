//! Jobs that may not start yet: for others' sake, before a time, or until somebody lets them.
//!
//! Such a job is judged twice. When it is submitted, by the cluster with nothing promised ([`Book::idle`]): what can never be kept is refused at
//! once, with offers. What could be kept is accepted: its promise is *deferred*. It holds no share and no node, so nobody is refused for its sake;
//! its budget is covered and its price set aside, as of any accepted job. When it may start it is asked for anew, for what is left of its
//! deadline, on the cluster as it is then: it is accepted and has a share, or waits on, or cannot be kept any more.
//!
//! A batch system that has such jobs says so in [`JobSpecification::deferred`], lets a job that comes back with a deferred commitment wait without a
//! share, and calls [`AdmissionServer::confirm`] when it would start it.

use super::nodes::Asking;
use super::{AdmissionServer, Committed, pays};
use crate::admit::admit;
use crate::front_end::{Deferred, FrontEnd, JobSpecification};
use crate::verdict::{NotTaken, Refused, Verdict};
use libra_core::book::Book;
use libra_core::commitment::Commitment;
use libra_core::decision::curve::with_deadline;

/// In so many steps the last moment is looked for at which a job could begin: to a hundredth of a per cent of its deadline.
const STEPS: u32 = 14;

/// Why a deferred promise is not confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct NotConfirmed<P> {
    /// The answer.
    pub verdict: NotTaken<P>,
    /// Seconds from its submission by which it has to begin at the latest, if nothing else is promised then; None if it can never be kept
    /// any more.
    pub begin_within: Option<f64>,
}

impl AdmissionServer {
    /// A submission that may not start yet.
    pub(super) fn defer<F: FrontEnd>(
        &mut self,
        specification: &JobSpecification<F>,
        deferred: Deferred,
        now: f64,
    ) -> Result<Committed, NotTaken<F::Problem>> {
        self.book.advance(now);
        let idle = self.idle(deferred.passes());
        let (request, jobs) = (&specification.request, specification.jobs());
        let payer = self.payer(specification, request, now);
        let mut asking = Asking {
            server: self,
            book: idle.questions(0.0),
            specification,
        };
        let (payer, (offer, domain)) = admit(payer, request, &mut asking)?;
        let pinned = offer.pinned;
        let admitted = self.book.named_offer(offer, jobs);
        let name = payer.as_ref().map(|payer| payer.name.as_str());
        let mut commitment = idle.commitment(request, jobs, &admitted, name, now);
        commitment.deferred = true;
        commitment.from_start = deferred.from_start;
        let nodes = (specification.domains())
            .find(|one| one.name == domain)
            .and_then(|one| one.nodes.as_ref().ok()?.as_deref());
        commitment.begin_within = self.latest_begin(&commitment, specification.array, nodes);
        if let Some(payer) = &payer {
            self.gate.hold(payer, &commitment, now)?;
        }
        Ok(Committed {
            commitment,
            domain,
            price: admitted.price,
            pinned,
        })
    }

    /// A job whose promise was deferred may start now: it is judged by what is left of its deadline, on the cluster as it is. `specification`: the
    /// job as its batch system has it now; its deadline is not looked at. Accepted, it has a share under a token of its own.
    ///
    /// What was set aside for it pays for it, and stays set aside where it waits on; what cannot be kept any more holds nothing afterwards.
    /// `ever`: slots on each node that it may have at any time, whoever has them now, see [`Book::admit_among`].
    ///
    /// # Errors
    /// Why not, and by when it has to begin.
    pub fn confirm<F: FrontEnd>(
        &mut self,
        commitment: &Commitment,
        specification: &JobSpecification<F>,
        ever: Option<&[u32]>,
        owner: &str,
        now: f64,
    ) -> Result<Committed, NotConfirmed<F::Problem>> {
        self.book.advance(now);
        let left = (commitment.request.terms).deadline_after(now - commitment.submitted);
        let verdict = match left > 0.0 {
            false => Verdict::Refused(Refused::DeferredTooLong),
            true => {
                // What was promised is planned as it was promised.
                let of_new = self.book.set_margin(commitment.margin);
                let confirmed = self.confirm_in(left, commitment, specification, owner, now);
                self.book.set_margin(Some(of_new));
                match confirmed {
                    Ok(committed) => return Ok(committed),
                    Err(verdict) => verdict,
                }
            }
        };
        let latest = self.latest_begin(commitment, specification.array, ever);
        let begin_within = latest.filter(|within| commitment.submitted + within > now);
        if begin_within.is_none() {
            self.gate.never_began(commitment, now);
        }
        Err(NotConfirmed {
            verdict,
            begin_within,
        })
    }

    fn confirm_in<F: FrontEnd>(
        &mut self,
        left: f64,
        commitment: &Commitment,
        specification: &JobSpecification<F>,
        owner: &str,
        now: f64,
    ) -> Result<Committed, NotTaken<F::Problem>> {
        let (user, project) = pays(commitment, owner);
        let budget = commitment.request.terms.budget;
        let payer = (self.gate).payer_with_hold(user, project, budget, commitment, now);
        let request = &with_deadline(&commitment.request, left);
        let mut taking = super::Taking {
            server: self,
            specification,
            now,
        };
        let (payer, reserved) = admit(payer, request, &mut taking)?;
        let jobs = specification.jobs();
        Ok(self.commit(request, jobs, reserved, payer, Some(commitment), now)?)
    }

    /// The cluster with nothing promised, for a job that may start so many seconds after its submission: its batch system takes as long as ever to
    /// start it then.
    pub(super) fn idle(&self, earliest: f64) -> Book {
        self.book.idle(self.book.start_latency() + earliest)
    }

    /// The same of a deferred job that is one, on any node.
    pub fn begins_within(&self, commitment: &Commitment) -> Option<f64> {
        self.latest_begin(commitment, None, None)
    }

    /// Seconds from its submission by which such a job has to begin, with nothing else promised; None if it cannot be kept even if it begins
    /// with its submission. The same at whatever time it is asked.
    pub(super) fn latest_begin(
        &self,
        commitment: &Commitment,
        array: Option<u32>,
        ever: Option<&[u32]>,
    ) -> Option<f64> {
        // A node that is down for a while is no reason to give a promise back.
        let mut idle = self.book.idle_and_whole(self.book.start_latency());
        idle.set_margin(commitment.margin);
        let whole = commitment.request.terms.deadline;
        let fits = |deadline: f64| {
            let request = with_deadline(&commitment.request, deadline);
            idle.appraise(&request, array, ever).refused.is_none()
        };
        if !fits(whole) {
            return None;
        }
        let (mut short, mut long) = (0.0, whole);
        for _ in 0..STEPS {
            let between = (short + long) / 2.0;
            match fits(between) {
                true => long = between,
                false => short = between,
            }
        }
        Some(whole - long)
    }
}
