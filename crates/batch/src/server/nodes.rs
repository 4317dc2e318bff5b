//! The book's nodes, as a submission and as a question find them: the domains in their order.

use super::{AdmissionServer, Reserved};
use crate::admit::Nodes;
use crate::front_end::{Domain, FrontEnd, JobSpecification};
use crate::verdict::{self, NotTaken};
use libra_core::book::{Offer, Questions};
use libra_core::decision::curve::Judged;
use libra_core::decision::job::Request;

impl AdmissionServer {
    /// What the nodes of this book would give, and where. It is the server's own, or that with nothing promised.
    pub(super) fn offer<F: FrontEnd>(
        &self,
        book: Questions<'_>,
        specification: &JobSpecification<F>,
        request: &Request,
    ) -> Result<(Offer, String), NotTaken<F::Problem>> {
        specification.first_domain(request, |domain, nodes| {
            let offer = book.quote(request, specification.array, nodes);
            let offer = offer.map_err(|error| self.of_book(error))?;
            Ok((offer, domain.to_string()))
        })
    }

    /// What would become of a request: by the first domain that takes it, else by the first one.
    pub(super) fn appraise<F: FrontEnd>(
        &self,
        book: Questions<'_>,
        specification: &JobSpecification<F>,
        request: &Request,
    ) -> Judged {
        let on = |domain: &Domain<F::Problem>| {
            let nodes = domain.nodes.as_ref().map_or(None, |nodes| nodes.as_deref());
            let mut judged = book.appraise(request, specification.array, nodes);
            if let Err(problem) = domain.nodes_for(request) {
                judged.refused = Some(verdict::Problem::category(&problem));
            }
            if judged.refused.is_some() {
                judged.share = None;
            }
            judged
        };
        let first = on(&specification.domain);
        if first.refused.is_none() {
            return first;
        }
        (specification.alternatives.iter())
            .map(on)
            .find(|judged| judged.refused.is_none())
            .unwrap_or(first)
    }

    /// The smallest budget that would do on the first domain that takes it for any.
    pub(super) fn budget_needed<F: FrontEnd>(
        &self,
        book: Questions<'_>,
        specification: &JobSpecification<F>,
    ) -> Option<f64> {
        let request = &specification.request;
        specification.domains().find_map(|domain| {
            let nodes = domain.nodes_for(request).ok()?;
            book.budget_needed(request, specification.array, nodes)
        })
    }
}

/// The nodes as a job finds them that is submitted.
pub(super) struct Taking<'a, F: FrontEnd> {
    pub server: &'a mut AdmissionServer,
    pub specification: &'a JobSpecification<F>,
    pub now: f64,
}

impl<F: FrontEnd> Nodes for Taking<'_, F> {
    type Taken = Reserved;
    type Own = F::Problem;

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken<F::Problem>> {
        self.server.book.advance(self.now);
        let server = &*self.server;
        let book = server.book.questions(0.0);
        (server.offer(book, self.specification, request)).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<Reserved, NotTaken<F::Problem>> {
        let (server, specification, now) = (&mut *self.server, self.specification, self.now);
        specification.first_domain(request, |domain, nodes| {
            let taken = server.reserve(specification, request, nodes, now);
            let (admitted, pinned) = taken.map_err(|error| server.of_book(error))?;
            Ok(Reserved {
                admitted,
                domain: domain.to_string(),
                pinned,
            })
        })
    }
}

/// The nodes as a question finds them: it takes nothing.
pub(super) struct Asking<'a, F: FrontEnd> {
    pub server: &'a AdmissionServer,
    /// By which it is judged.
    pub book: Questions<'a>,
    pub specification: &'a JobSpecification<F>,
}

impl<F: FrontEnd> Nodes for Asking<'_, F> {
    type Taken = (Offer, String);
    type Own = F::Problem;

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken<F::Problem>> {
        self.take(request).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<(Offer, String), NotTaken<F::Problem>> {
        self.server.offer(self.book, self.specification, request)
    }
}
