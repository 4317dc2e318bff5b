//! Dedicated jobs that do not fit now: promised a start, and let begin. What such a promise is and rests on is in the book
//! ([`libra_core::book::Planned`]); who pays, and what its batch system is told, is here.
//!
//! A planned job is accepted like one that is deferred, and waits like one: its commitment says by when it begins
//! ([`Commitment::starts_by`]), and from that alone it is in the book again after a restart. Its price is what it was told, whenever it begins.
//!
//! A batch system that has planned jobs says so by [`FrontEnd::may_be_planned`], brings them into the book with what is on record of them
//! ([`libra_core::book::JobRecord::starts_by`]), and calls [`AdmissionServer::begin`] for them again and again: those that are due first, then others, who
//! may begin sooner. Whatever keeps one from beginning that is its user's own wish takes its place away: it is a deferred job then.

use super::{AdmissionServer, Committed, Reserved, pays};
use crate::front_end::{FrontEnd, JobSpecification};
use crate::verdict::{NotTaken, Refused, Verdict};
use libra_accounts::budget_gate::Denied;
use libra_core::book::{JobRecord, Phase, Planned};
use libra_core::commitment::{Commitment, NodeCommitment};
use libra_core::decision::curve::with_deadline;
use libra_core::decision::job::Request;

/// Seconds for which one that is due may wait for processors that its batch system gave away late, before another start is looked for.
const PATIENCE: f64 = 30.0;

/// Why a planned job does not begin.
#[derive(Debug, Clone, PartialEq)]
pub enum NotBegun<P> {
    /// It is not due, those before it were started late, or accounts are out of order at this moment.
    Waits,
    /// Its nodes are not there when it is due: it has another start, as its commitment says now.
    PlannedAnew(Box<Commitment>),
    /// So, and there is no other start yet. Its deadline can be kept if it begins within so many seconds of its submission; its place is kept.
    Overdue(f64),
    /// It cannot be kept any more. Nothing is held for it.
    GivenBack(NotTaken<P>),
}

impl AdmissionServer {
    /// The start that can be promised to a job that is told `not` now, and in which domain.
    pub(super) fn find_start<F: FrontEnd>(
        &self,
        front: &F,
        submission: &F::Submission,
        specification: &JobSpecification<F>,
        request: &Request,
        not: &NotTaken<F::Problem>,
    ) -> Option<(Planned, String)> {
        let alone = specification.array.is_none() && specification.deferred.is_none();
        if !(alone && not.is_for_nodes() && front.may_be_planned(submission)) {
            return None;
        }
        let in_any = |plan: &dyn Fn(Option<&[u32]>) -> Option<Planned>| {
            specification.domains().find_map(|domain| {
                let nodes = domain.nodes_for(request).ok()?;
                Some((plan(nodes)?, domain.name.clone()))
            })
        };
        // Nobody stands still for one that can be kept behind all others.
        in_any(&|nodes| self.book.plan(request, nodes)).or_else(|| {
            let may = |id: &str| front.may_be_suspended(id);
            match self.book.admission().rules.suspends {
                true => in_any(&|nodes| self.book.plan_in_front(request, nodes, &may)),
                false => None,
            }
        })
    }

    /// A start that was found just now is promised.
    pub(super) fn plan<F: FrontEnd>(
        &mut self,
        specification: &JobSpecification<F>,
        (start, domain): (Planned, String),
        now: f64,
    ) -> Result<Committed, NotTaken<F::Problem>> {
        let request = &specification.request;
        let payer = self.payer(specification, request, now)?;
        let name = payer.as_ref().map(|payer| payer.name.as_str());
        let admitted = self.book.promise(request, &start);
        let mut commitment = self.book.commitment(request, 1, &admitted, name, now);
        commitment.deferred = true;
        commitment.starts_by = Some(start.starts_by);
        if let Some(payer) = &payer {
            if let Err(denied) = self.gate.hold(payer, &commitment, now) {
                self.book.release(&admitted, 1, now);
                return Err(denied.into());
            }
        }
        Ok(Committed {
            commitment,
            domain,
            price: admitted.price,
            pinned: true,
        })
    }

    /// A planned job begins, if it can now or is due. `specification`: as its batch system has it now, its deadline is not looked at; `ever`: slots on
    /// each node that it may have at any time. It has another token then, and what was set aside for it pays for it.
    ///
    /// # Errors
    /// Why not.
    #[allow(clippy::too_many_arguments)]
    pub fn begin<F: FrontEnd>(
        &mut self,
        front: &F,
        id: &str,
        commitment: &Commitment,
        specification: &JobSpecification<F>,
        ever: Option<&[u32]>,
        owner: &str,
        now: f64,
    ) -> Result<Committed, NotBegun<F::Problem>> {
        self.book.advance(now);
        let left = (commitment.request.terms).deadline_after(now - commitment.submitted);
        if left <= 0.0 {
            return Err(self.give_up(id, commitment, now));
        }
        // No room on any node is no room but its own.
        let allowed = match &specification.domain.nodes {
            Ok(nodes) => nodes.as_deref(),
            Err(_) => Some(&[][..]),
        };
        let (user, project) = pays(commitment, owner);
        let budget = commitment.request.terms.budget;
        let payer = (self.gate).payer_with_hold(user, project, budget, commitment, now);
        let request = with_deadline(&commitment.request, left);
        // Whose account cannot be asked now waits, in its place.
        let has_payer = payer.is_ok();
        let mut begun = match has_payer {
            true => self.book.begin(id, &request, allowed, ever, now),
            false => None,
        };
        let is_late = now >= commitment.starts_by.unwrap_or(0.0) + PATIENCE;
        let mut anew = None;
        if begun.is_none() && is_late {
            anew = self.book.plan_anew(id, allowed, now);
            if anew.is_none() && self.book.admission().rules.suspends {
                let may = |id: &str| front.may_be_suspended(id);
                anew = self.book.plan_anew_in_front(id, allowed, &may, now);
                // Who makes room for it may stand still already.
                if anew.is_some() && has_payer {
                    begun = self.book.begin(id, &request, allowed, ever, now);
                }
            }
        }
        let anew = anew.map(|start| self.planned_anew(commitment, &start));
        if let (Ok(payer), Some(admitted)) = (payer, begun) {
            let reserved = Reserved {
                admitted,
                domain: specification.domain.name.clone(),
                pinned: true,
            };
            match self.commit(&request, 1, reserved, payer, Some(commitment), now) {
                Ok(committed) => return Ok(committed),
                // For a moment: it has its place again. Where a node of it has gone it is asked for as one that has none.
                Err(Denied::Fault(_) | Denied::Unpromised(_)) => {
                    let waits = anew.as_ref().unwrap_or(commitment);
                    let record = JobRecord::committed(id, 0, waits, Phase::Bound);
                    let _ = self.book.restore(&record);
                }
                Err(denied) => {
                    self.gate.never_began(commitment, now);
                    return Err(NotBegun::GivenBack(denied.into()));
                }
            }
        }
        if let Some(anew) = anew {
            return Err(NotBegun::PlannedAnew(Box::new(anew)));
        }
        if !is_late {
            return Err(NotBegun::Waits);
        }
        match self.latest_begin(commitment, None, ever) {
            Some(within) if commitment.submitted + within > now => Err(NotBegun::Overdue(within)),
            _ => Err(self.give_up(id, commitment, now)),
        }
    }

    fn planned_anew(&self, commitment: &Commitment, start: &Planned) -> Commitment {
        let mut anew = commitment.clone();
        anew.starts_by = Some(start.starts_by);
        anew.places = (start.offer.places.iter())
            .map(|place| NodeCommitment {
                node: self.book.node_name(place.node).to_string(),
                chunks: place.chunks,
                share: place.share,
            })
            .collect();
        anew
    }

    fn give_up<P>(&mut self, id: &str, commitment: &Commitment, now: f64) -> NotBegun<P> {
        // It may not be there any more.
        let _ = self.book.cancel(id, now);
        self.gate.never_began(commitment, now);
        NotBegun::GivenBack(Verdict::Refused(Refused::DeferredTooLong))
    }
}
