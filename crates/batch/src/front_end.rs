//! What a batch system's own side brings: its submissions, read into one form, and its users' ways to write.

use crate::verdict::{self, NotTaken};
use crate::words::{Manner, Written};
use libra_core::book::Book;
use libra_core::book::held_quote::{HeldQuote, NoOrder, Wanted};
use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::ClassLine;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::{Request, Terms};
use libra_units::{credits, duration};
use libra_wording::{refusal, terms};
use std::borrow::Cow;

/// What a batch system's own side translates. It is shown the book and changes nothing in it.
pub trait FrontEnd: Sized {
    /// A job as the system's users submit it.
    type Submission: ?Sized;
    /// What it asks for beside terms and shape.
    type Asked;
    /// What the system has against a job itself.
    type Problem: verdict::Problem + Clone + From<NoOrder>;

    /// Longest answer to a question in bytes, of one line, 600 at least. What is longer comes in parts to who asks so.
    const LONGEST_ANSWER: usize;
    /// Every job is pinned to its nodes, those of an array when they have their numbers.
    const PINS_ALL: bool;

    /// Reads a submission. `question`: it may be without a budget.
    ///
    /// # Errors
    /// What cannot be read, or cannot be had together with a deadline.
    fn specification(
        &self,
        book: &Book,
        submission: &Self::Submission,
        question: bool,
        now: f64,
    ) -> Result<JobSpecification<Self>, Self::Problem>;

    /// What it says about a quote; None if it says nothing.
    fn order<'a>(&self, submission: &'a Self::Submission) -> Option<&'a str>;

    /// Who submits it, as the owner of quotes is known.
    fn user(&self, submission: &Self::Submission) -> String;

    /// Whether a dedicated job that cannot begin now may be promised a start. Where it may, the system calls
    /// [`crate::server::AdmissionServer::begin`] for what waits so.
    fn may_be_planned(&self, _submission: &Self::Submission) -> bool {
        false
    }

    /// Whether a running job of this id can be suspended and let go on. Where one can, the system does so as [`Book::stands_still_until`] and
    /// [`Book::let_go_on`] say.
    fn may_be_suspended(&self, _id: &str) -> bool {
        false
    }

    /// Checks that it may have a price of its own.
    ///
    /// # Errors
    /// Why not.
    fn may_ask(&self, _submission: &Self::Submission) -> Result<(), Self::Problem> {
        Ok(())
    }

    /// Checks that it may use up this quote.
    ///
    /// # Errors
    /// Why not; the quote is still held then.
    fn may_redeem(
        &self,
        _submission: &Self::Submission,
        _number: &str,
        _held: &HeldQuote,
    ) -> Result<(), Self::Problem> {
        Ok(())
    }

    /// What users call what does not fit in whole; None for chunks. `jobs`: of an array, else 1.
    fn pieces(jobs: u32) -> Option<&'static str>;

    /// A term as it is asked for: `--sla-deadline=634`, `-l deadline=634`. `key`: one of [`libra_wording::terms::KEYS`],
    /// or [`libra_wording::terms::CLASS`].
    fn write_term(key: &str, value: &str) -> String {
        format!("{key}={value}")
    }

    /// The same job in so many chunks of so many processors each, with this estimate; None if it cannot be asked for so. Without the price.
    fn write_processors(
        _submission: &Self::Submission,
        _asked: &Self::Asked,
        fewer: &Fewer,
    ) -> Option<Written> {
        Some(fewer.as_list())
    }

    /// A command that uses this quote.
    fn write_quote(number: &str) -> String;
}

/// Chunks and processors that are offered in the place of those that were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Fewer {
    /// Chunks.
    pub chunks: u32,
    /// Processors in each.
    pub processors_per_chunk: u32,
    /// Seconds on each processor, as they are typed.
    pub estimate: String,
    /// The class that the job has to name to be of the same one: it got its own for having several processors.
    pub class: Option<Class>,
}

impl Fewer {
    /// What an offer says of processors; None if it says nothing of them. `class`: of the job, and the line that gave it.
    pub fn of(offer: &CounterOffer, class: Class, class_line: Option<&ClassLine>) -> Option<Fewer> {
        let CounterOffer::Processors {
            chunks,
            processors_per_chunk,
            estimate,
            ..
        } = *offer
        else {
            return None;
        };
        let is_one = chunks == 1 && processors_per_chunk == 1;
        Some(Fewer {
            chunks,
            processors_per_chunk,
            estimate: duration::exact(estimate),
            class: (is_one && class_line == Some(&ClassLine::Several)).then_some(class),
        })
    }

    /// As a list of terms.
    pub fn as_list(&self) -> Written {
        let list = refusal::processors(self.chunks, self.processors_per_chunk, &self.estimate);
        Written {
            text: match self.class {
                Some(class) => format!("{list},{}={}", terms::CLASS, class.word()),
                None => list,
            },
            as_terms: self.chunks == 1 && self.class.is_none(),
        }
    }
}

/// A counter-offer as a system's users ask for it, with what it costs; None if they cannot.
fn write_offer<F: FrontEnd>(
    submission: &F::Submission,
    specification: &JobSpecification<F>,
    offer: &CounterOffer,
) -> Option<Written> {
    let term = |key, value: &str| Written {
        text: F::write_term(key, value),
        as_terms: true,
    };
    let mut written = match *offer {
        CounterOffer::Deadline { deadline, .. } => {
            let from_start = (specification.deferred).is_some_and(|deferred| deferred.from_start);
            let counted = if from_start { terms::FROM_START } else { "" };
            term("deadline", &(duration::exact(deadline) + counted))
        }
        CounterOffer::Budget { budget } => term("budget", &credits(budget)),
        CounterOffer::Processors { .. } => {
            let class = specification.request.terms.class;
            let fewer = Fewer::of(offer, class, specification.class_line.as_ref())?;
            F::write_processors(submission, &specification.asked, &fewer)?
        }
        CounterOffer::Class { class, .. } => Written {
            as_terms: false,
            ..term(terms::CLASS, class.word())
        },
        // With its price.
        CounterOffer::Jobs { .. } => return Some(Written::as_list(offer)),
    };
    if let Some(price) = offer.price() {
        written.add_price(price);
    }
    Some(written)
}

/// A job as it is judged.
pub struct JobSpecification<F: FrontEnd> {
    /// Terms and shape, of one job of an array.
    pub request: Request,
    /// What gave it its class; None if it named it, or nobody did.
    pub class_line: Option<ClassLine>,
    /// Where not, it is a question without one, and that of the request is infinite.
    pub has_budget: bool,
    /// Jobs of an array that is judged as one; None for a job that is none.
    pub array: Option<u32>,
    /// It may not start yet: it is judged by the cluster with nothing promised, and holds nothing until it is asked for anew.
    pub deferred: Option<Deferred>,
    /// Who pays where the site has accounts; else why nobody can.
    pub account: Result<OnAccount, String>,
    /// Where it may go first of all.
    pub domain: Domain<F::Problem>,
    /// Where it may go where that does not take it, in the order in which they are tried.
    pub alternatives: Vec<Domain<F::Problem>>,
    /// What a job must have in common with its quote, beside its request: a name for people, and what it is.
    pub conditions: Vec<(&'static str, String)>,
    /// What else it asks for.
    pub asked: F::Asked,
}

/// When a job may start that may not yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deferred {
    /// Seconds from its submission to its earliest start; 0 where nobody knows.
    pub earliest: f64,
    /// Whether its deadline counts from that start, and not from its submission.
    pub from_start: bool,
}

impl Deferred {
    /// Seconds of its deadline that pass before it may start.
    pub(crate) fn passes(&self) -> f64 {
        match self.from_start {
            true => 0.0,
            false => self.earliest,
        }
    }
}

/// Who pays for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnAccount {
    /// Name of the user.
    pub user: String,
    /// Project that it names.
    pub project: Option<String>,
}

/// A part of a cluster that jobs are sent to: a partition, or all nodes.
#[derive(Debug, Clone)]
pub struct Domain<P> {
    /// Its name; empty where there is only one.
    pub name: String,
    /// Slots that it may have on each node of the book there, see [`Book::admit_among`], None for all; or why none.
    pub nodes: Result<Option<Vec<u32>>, P>,
    /// How long jobs may run there.
    pub limit: Option<TimeLimit<P>>,
}

/// How long jobs may run in a part of a cluster.
#[derive(Debug, Clone)]
pub struct TimeLimit<P> {
    /// Seconds.
    pub longest: f64,
    /// Why a job is not taken that is to be over later: of this domain, these seconds, its terms.
    pub problem: fn(&str, f64, &Terms) -> P,
}

impl<F: FrontEnd> JobSpecification<F> {
    /// Jobs: those of an array, else 1.
    pub fn jobs(&self) -> u32 {
        self.array.unwrap_or(1)
    }

    pub(crate) fn domains(&self) -> impl Iterator<Item = &Domain<F::Problem>> {
        std::iter::once(&self.domain).chain(&self.alternatives)
    }

    pub(crate) fn wanted(&self, user: String) -> Wanted {
        Wanted {
            user,
            request: self.request,
            array: self.array,
            others: (self.conditions.iter())
                .map(|(name, value)| (Cow::from(*name), value.clone()))
                .collect(),
        }
    }

    pub(crate) fn with_manner<T>(
        &self,
        submission: &F::Submission,
        what: impl FnOnce(&Manner<'_>) -> T,
    ) -> T {
        let write = |offer: &CounterOffer| write_offer::<F>(submission, self, offer);
        what(&Manner {
            jobs: self.jobs(),
            pieces: F::pieces(self.jobs()),
            class_line: (self.class_line.as_ref()).map(|line| (self.request.terms.class, line)),
            write_offer: &write,
        })
    }

    /// What the first domain answers that takes a request, else what the first one has against it.
    pub(crate) fn first_domain<T>(
        &self,
        request: &Request,
        mut what: impl FnMut(&str, Option<&[u32]>) -> Result<T, NotTaken<F::Problem>>,
    ) -> Result<T, NotTaken<F::Problem>> {
        let mut on = |domain: &Domain<F::Problem>| {
            let nodes = domain.nodes_for(request)?;
            what(&domain.name, nodes)
        };
        let first = match on(&self.domain) {
            Ok(taken) => return Ok(taken),
            Err(not) => not,
        };
        (self.alternatives.iter())
            .find_map(|domain| on(domain).ok())
            .ok_or(first)
    }
}

impl<P: Clone> Domain<P> {
    /// The nodes that a request may have, None for all; or why none, whatever runs there.
    pub(crate) fn nodes_for(&self, request: &Request) -> Result<Option<&[u32]>, P> {
        let terms = &request.terms;
        match (&self.limit, &self.nodes) {
            (Some(limit), _) if terms.expected_end() > limit.longest => {
                Err((limit.problem)(&self.name, limit.longest, terms))
            }
            (_, Ok(nodes)) => Ok(nodes.as_deref()),
            (_, Err(problem)) => Err(problem.clone()),
        }
    }
}
