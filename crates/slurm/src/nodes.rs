//! Where a submission may go, and who takes it: the partitions in their order, as [`libra_batch::admit`] asks them.

use super::controller::Controller;
use super::problem::{NotTaken, Problem};
use super::submission::{Asked, Submission};
use libra_batch::admit::Nodes;
use libra_core::book::{Admitted, BookError, Offer};
use libra_core::decision::job::Request;

/// What a submission asks for, and where it may go: partition, and which nodes or why none.
pub(super) struct Where {
    pub asked: Asked,
    pub request: Request,
    /// Where not, it is a question without one, judged as unlimited.
    pub has_budget: bool,
    pub array: Option<u32>,
    pub places: Vec<(usize, Result<Vec<bool>, Problem>)>,
}

impl Where {
    /// Jobs.
    pub fn count(&self) -> u32 {
        self.array.unwrap_or(1)
    }
}

/// The nodes as a job finds them that is submitted.
pub(super) struct Taking<'a> {
    pub controller: &'a mut Controller,
    pub found: &'a Where,
    pub now: f64,
}

impl Nodes for Taking<'_> {
    type Taken = (usize, Admitted, bool);
    type Own = Problem;

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken> {
        self.controller.book.advance(self.now);
        self.controller.offer(self.found, request).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<(usize, Admitted, bool), NotTaken> {
        let (found, now) = (self.found, self.now);
        let admitted = (self.controller).first_partition(found, request, |controller, allowed| {
            let book = &mut controller.book;
            match found.array {
                None => Ok((book.admit_among(request, Some(allowed), now)?, true)),
                Some(count) => book.admit_array(request, count, Some(allowed), now),
            }
        });
        admitted.map(|(partition, (admitted, pinned))| (partition, admitted, pinned))
    }
}

impl Controller {
    /// The nodes, for a job that is submitted.
    pub(super) fn taking<'a>(&'a mut self, found: &'a Where, now: f64) -> Taking<'a> {
        Taking {
            controller: self,
            found,
            now,
        }
    }

    /// Partitions and nodes that a submission may have. `question`: it may be without a budget.
    pub(super) fn find_nodes(
        &self,
        submission: &Submission,
        question: bool,
        now: f64,
    ) -> Result<Where, Problem> {
        let (asked, has_budget) = match question {
            true => submission.read_question(now)?,
            false => (submission.read(now)?, true),
        };
        let shape = submission.shape(self.largest)?;
        let candidates = self.candidates(submission)?;
        Ok(Where {
            request: Request {
                terms: asked.terms,
                shape,
            },
            has_budget,
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

    /// Why a partition does not take a request, whatever runs on its nodes.
    pub(super) fn closed(
        &self,
        (partition, allowed): &(usize, Result<Vec<bool>, Problem>),
        request: &Request,
    ) -> Result<(), Problem> {
        let partition = &self.shared[*partition];
        if request.terms.deadline > partition.longest {
            return Err(Problem::ShortPartition {
                partition: partition.name.clone(),
                longest: partition.longest,
                deadline: request.terms.deadline,
            });
        }
        match allowed {
            Ok(_) => Ok(()),
            Err(problem) => Err(problem.clone()),
        }
    }

    /// The first of its partitions that takes a request, else what the first one says.
    pub(super) fn first_partition<T>(
        &mut self,
        found: &Where,
        request: &Request,
        mut what: impl FnMut(&mut Controller, &[bool]) -> Result<T, BookError>,
    ) -> Result<(usize, T), NotTaken> {
        let mut first = None;
        for place in &found.places {
            let taken = match (self.closed(place, request), &place.1) {
                (Ok(()), Ok(allowed)) => what(self, allowed)
                    .map_err(|error| NotTaken::of_book(error, |node| self.node_name(node))),
                (Err(problem), _) => Err(problem.into()),
                // What is not allowed is closed.
                (Ok(()), Err(_)) => continue,
            };
            match taken {
                Ok(taken) => return Ok((place.0, taken)),
                Err(not) => first = first.or(Some(not)),
            }
        }
        Err(first.unwrap_or_else(|| Problem::PartitionGone.into()))
    }

    /// What the nodes would give; nothing is reserved.
    pub(super) fn offer(
        &mut self,
        found: &Where,
        request: &Request,
    ) -> Result<(usize, Offer), NotTaken> {
        self.first_partition(found, request, |controller, allowed| {
            controller.book.quote(request, found.array, Some(allowed))
        })
    }
}
