//! A job is submitted: budget first, then the nodes, by [`libra_batch::admit`].

use super::problem::{NotTaken, Problem, Wait};
use super::select::{self, Asked, ChunkGroup, Plain};
use super::server::{Judged, Server, accept, accept_with, has_terms, refuse, refuse_as};
use super::{TERMS, number, text};
use libra_accounts::budget_gate::Denied;
use libra_accounts::payments::Payer;
use libra_batch::admit::{Nodes, admit};
use libra_batch::verdict::Verdict;
use libra_batch::words::{self, Manner, Written};
use libra_config::WithoutTerms;
use libra_core::book::held_quote::QuoteError;
use libra_core::book::{Admitted, BookError, Offer};
use libra_core::commitment::Commitment;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::{Request, Terms};
use libra_core::decision::refusal::Category;
use libra_units::{credits, duration, indices};
use libra_wording::terms::{PartialTerms, TermsError, deadline_as_duration};
use serde_json::{Value, json};

/// Most jobs that one refusal asks PBS about, see [`Server::queue`].
pub(super) const MOST_CHECKED: usize = 100;

/// What becomes of a submission that is taken, or of a question.
pub(super) enum Answer {
    /// The job is accepted, with these resources.
    Accepted {
        /// For the hook.
        answer: Value,
        /// Jobs of an array.
        jobs: u32,
    },
    /// It has no terms and goes on so.
    Passed(Value),
    /// The answer to a question, as one line: it is never queued.
    Answered(String),
    /// The hook is to look whether these jobs are still there, and to ask again.
    Check(Vec<String>),
}

/// A job that is not taken.
pub(super) struct NotAdmitted {
    pub verdict: NotTaken,
    /// What it asked for, and how many jobs, where a decision was asked.
    pub of: Option<Box<(Asked, u32)>>,
}

impl From<NotTaken> for NotAdmitted {
    fn from(verdict: NotTaken) -> NotAdmitted {
        NotAdmitted { verdict, of: None }
    }
}

impl From<Problem> for NotAdmitted {
    fn from(problem: Problem) -> NotAdmitted {
        NotTaken::from(problem).into()
    }
}

impl From<Denied> for NotAdmitted {
    fn from(denied: Denied) -> NotAdmitted {
        NotTaken::from(denied).into()
    }
}

impl From<QuoteError> for NotAdmitted {
    fn from(error: QuoteError) -> NotAdmitted {
        NotTaken::from(error).into()
    }
}

impl NotAdmitted {
    /// As the user is told.
    fn text(&self) -> String {
        let lines = match &self.of {
            None => vec![words::headed_reason(&self.verdict)],
            Some(of) => {
                let (asked, jobs) = of.as_ref();
                let write = |offer: &CounterOffer| write_offer(offer, asked);
                words::not_taken(&self.verdict, &manner(*jobs, &write))
            }
        };
        words::signed(&lines)
    }
}

/// Chunks are PBS's own word.
pub(super) fn manner<'a>(jobs: u32, write_offer: words::WriteOffer<'a>) -> Manner<'a> {
    Manner {
        jobs,
        pieces: None,
        write_offer,
    }
}

impl Server {
    /// Judges a submission. A refusal first asks the hook whether jobs that hold shares and do not run
    /// are still there (`"check": [ids]`): PBS deletes a waiting job without an event, and nobody may be
    /// refused for the sake of one that is gone.
    pub(super) fn queue(&mut self, job: &Value, now: f64) -> Value {
        let answer = match self.answer_quote(job, now) {
            Some(answer) => answer,
            None if !has_terms(job) => self.queue_without_terms(job),
            None => match self.submit(job, now) {
                // The job goes on as it came.
                Err(not) if not.verdict.is_let_in() => {
                    let mut answer = accept();
                    answer["log"] = json!([words::reason(&not.verdict)]);
                    Ok(Answer::Passed(answer))
                }
                answer => answer,
            },
        };
        self.judged = match &answer {
            Ok(Answer::Accepted { jobs, .. }) => Some(Judged::Accepted(*jobs)),
            Ok(Answer::Passed(_) | Answer::Answered(_) | Answer::Check(_)) => None,
            Err(not) => not.verdict.category().map(Judged::NotTaken),
        };
        match answer {
            Ok(Answer::Accepted { answer, .. } | Answer::Passed(answer)) => answer,
            Ok(Answer::Answered(line)) => refuse(line),
            Ok(Answer::Check(jobs)) => json!({"check": jobs}),
            Err(not) => {
                let category = not.verdict.category().unwrap_or(Category::Request);
                refuse_as(category, not.text())
            }
        }
    }

    fn submit(&mut self, job: &Value, now: f64) -> Result<Answer, NotAdmitted> {
        let found = self.find_nodes(job, false)?;
        let (request, count) = (&found.request, found.count);
        let payer = self.payer(job, request, now);
        let mut taking = Taking {
            server: self,
            found: &found,
            now,
        };
        let (payer, (admitted, pinned)) = match admit(payer, request, &mut taking) {
            Ok(taken) => taken,
            Err(verdict) => {
                return match self.to_be_checked(&verdict, job) {
                    Some(check) => Ok(check),
                    None => Err(NotAdmitted {
                        verdict,
                        of: Some(Box::new((found.asked, count))),
                    }),
                };
            }
        };
        let commitment = self.commit(request, count, &admitted, payer.as_ref(), now)?;
        let mut answer = self.accepted(&commitment, &found.asked, &admitted, pinned);
        answer["resources"]["walltime"] = walltime(&request.terms, job);
        Ok(Answer::Accepted {
            answer,
            jobs: commitment.count,
        })
    }

    /// What a job asks for, and which nodes it may have. `question`: it may be without a budget.
    ///
    /// # Errors
    /// What cannot be read, or cannot be had with a deadline.
    pub(super) fn find_nodes(&self, job: &Value, question: bool) -> Result<Found, Problem> {
        let mut terms = terms(job)?;
        let has_budget = terms.budget.is_some();
        if question {
            terms.budget.get_or_insert(f64::INFINITY);
        }
        let terms = terms.complete()?;
        let (asked, count) = read(job)?;
        let allowed = self.meeting(&asked.conditions);
        Ok(Found {
            request: Request {
                terms,
                shape: asked.shape,
            },
            has_budget,
            asked,
            count,
            allowed,
        })
    }

    /// What the hook is to do before a refusal for the nodes' sake; None if that is done.
    pub(super) fn to_be_checked<T>(
        &self,
        verdict: &Verdict<T, Problem>,
        job: &Value,
    ) -> Option<Answer> {
        let waiting: Vec<String> = (self.book.unstarted().take(MOST_CHECKED))
            .map(str::to_string)
            .collect();
        let due = verdict.is_for_nodes() && !waiting.is_empty() && job.get("checked").is_none();
        due.then_some(Answer::Check(waiting))
    }

    /// Admits a job, or all subjobs of an array. Also returns whether PBS is told the nodes; where not, it
    /// may choose among Libra's.
    pub(super) fn admit(
        &mut self,
        request: &Request,
        count: u32,
        allowed: Option<&[bool]>,
        now: f64,
    ) -> Result<(Admitted, bool), BookError> {
        if count == 1 {
            return Ok((self.book.admit_among(request, allowed, now)?, true));
        }
        self.book.admit_array(request, count, allowed, now)
    }

    /// Who pays for it: the user that submits, or the project or account that the job names.
    pub(super) fn payer(
        &self,
        job: &Value,
        request: &Request,
        now: f64,
    ) -> Result<Option<Payer>, Denied> {
        if !self.gate.is_on() {
            return Ok(None);
        }
        let user = text(job, "user").unwrap_or_default();
        let project = text(job, "account").or_else(|| text(job, "project"));
        self.gate.payer(user, project, request.terms.budget, now)
    }

    /// What was admitted is committed, and held for on the payer's account; where that fails it is out of the book again.
    pub(super) fn commit(
        &mut self,
        request: &Request,
        count: u32,
        admitted: &Admitted,
        payer: Option<&Payer>,
        now: f64,
    ) -> Result<Commitment, Denied> {
        let commitment = (self.book).commitment(
            request,
            count,
            admitted,
            payer.map(|payer| payer.name.as_str()),
            now,
        );
        if let Some(payer) = payer {
            if let Err(denied) = self.gate.hold(payer, &commitment, now) {
                self.book.release(admitted, count, now);
                return Err(denied);
            }
        }
        Ok(commitment)
    }

    pub(super) fn accepted(
        &self,
        commitment: &Commitment,
        asked: &Asked,
        admitted: &Admitted,
        pinned: bool,
    ) -> Value {
        let request = &commitment.request;
        let parts: Vec<ChunkGroup<'_>> = if pinned && commitment.count == 1 {
            (commitment.places.iter())
                .map(|place| ChunkGroup {
                    node: Some(&place.node),
                    chunks: place.chunks,
                    share: place.share,
                })
                .collect()
        } else {
            let first = &commitment.places[0];
            vec![ChunkGroup {
                node: pinned.then_some(first.node.as_str()),
                chunks: request.shape.chunks,
                share: commitment.share_on(""),
            }]
        };
        let mut resources = asked.resources(&parts, self.shares_add_up);
        resources.insert("libra_terms".to_string(), commitment.line().into());
        resources.insert("libra_price".to_string(), credits(admitted.price).into());
        let info = words::accepted(commitment, admitted.price, pinned);
        resources.insert("libra_info".to_string(), info.clone().into());
        let mut answer = accept_with(resources);
        answer["log"] = json!([info]);
        answer
    }

    fn queue_without_terms(&self, job: &Value) -> Result<Answer, NotAdmitted> {
        let plain = Plain {
            select: text(job, "select"),
            place: text(job, "place"),
            ncpus: text(job, "ncpus"),
            nodes: text(job, "nodes"),
            mem: text(job, "mem"),
        };
        let resources = match self.without_terms {
            WithoutTerms::Refuse => return Err(Problem::NoTerms.into()),
            WithoutTerms::BestEffort => plain.best_effort(),
            WithoutTerms::OtherNodes => plain.outside_libra_nodes(),
            WithoutTerms::LeaveAlone => plain.left_alone(),
        };
        let resources = resources.map_err(Problem::Asked)?;
        Ok(Answer::Passed(match resources.is_empty() {
            true => accept(),
            false => accept_with(resources),
        }))
    }
}

/// What a job asks for, and which nodes it may have.
pub(super) struct Found {
    pub request: Request,
    /// Where not, it is a question without one, judged as unlimited.
    pub has_budget: bool,
    pub asked: Asked,
    /// Jobs of an array.
    pub count: u32,
    /// None for all nodes.
    pub allowed: Option<Vec<bool>>,
}

impl Found {
    /// Jobs of an array that is judged as one.
    pub fn array(&self) -> Option<u32> {
        (self.count != 1).then_some(self.count)
    }
}

/// The nodes as a job finds them that is submitted.
struct Taking<'a> {
    server: &'a mut Server,
    found: &'a Found,
    now: f64,
}

impl Nodes for Taking<'_> {
    type Taken = (Admitted, bool);
    type Own = Problem;

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken> {
        self.server.book.advance(self.now);
        self.server.offer(self.found, request).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<(Admitted, bool), NotTaken> {
        self.server.has_node(self.found)?;
        let allowed = self.found.allowed.as_deref();
        let admitted = (self.server).admit(request, self.found.count, allowed, self.now);
        admitted.map_err(|error| self.server.not_taken(error))
    }
}

impl Server {
    /// What the nodes would give; nothing is reserved.
    pub(super) fn offer(&self, found: &Found, request: &Request) -> Result<Offer, NotTaken> {
        self.has_node(found)?;
        let allowed = found.allowed.as_deref();
        (self.book.quote(request, found.array(), allowed)).map_err(|error| self.not_taken(error))
    }

    /// What the book says of a job.
    pub(super) fn not_taken(&self, error: BookError) -> NotTaken {
        NotTaken::of_book(error, |node| self.node_name(node))
    }

    pub(super) fn has_node(&self, found: &Found) -> Result<(), Problem> {
        let none = (found.allowed.as_ref()).is_some_and(|allowed| !allowed.contains(&true));
        match none {
            true => Err(Problem::NoNode(found.asked.conditions.clone())),
            false => Ok(()),
        }
    }
}

/// What a job asks for beside its terms: shape, and jobs of an array.
fn read(job: &Value) -> Result<(Asked, u32), Problem> {
    let asked = select::parse(
        text(job, "select"),
        text(job, "place"),
        text(job, "ncpus"),
        text(job, "mem"),
        text(job, "nodes"),
    )?;
    waits(job)?;
    let count = match text(job, "array") {
        Some(indices) => indices::parse(indices).map_err(Problem::Array)?.len() as u32,
        None => 1,
    };
    Ok((asked, count))
}

/// A counter-offer as it is asked for; None if it cannot be.
pub(super) fn write_offer(offer: &CounterOffer, asked: &Asked) -> Option<Written> {
    match *offer {
        CounterOffer::Processors {
            chunks,
            processors_per_chunk,
            estimate,
            price,
        } => Some(Written {
            text: format!(
                "{} -W estimate={} (costs {})",
                asked.with_fewer(chunks, processors_per_chunk)?,
                duration::exact(estimate),
                credits(price)
            ),
            as_terms: chunks == 1 && asked.is_processors_alone(),
        }),
        _ => Some(Written::as_list(offer)),
    }
}

/// The terms of a job; its walltime stands in for a missing estimate.
fn terms(job: &Value) -> Result<PartialTerms, TermsError> {
    let mut terms = PartialTerms::default();
    for key in TERMS {
        if let Some(value) = text(&job["terms"], key) {
            terms.set(key, value, &deadline_as_duration)?;
        }
    }
    if terms.estimate.is_none() {
        terms.estimate = number(job, "walltime")
            .ok()
            .filter(|seconds| *seconds > 0.0);
    }
    Ok(terms)
}

/// How long PBS lets an accepted job run, in seconds.
///
/// A job shares its processor, so it takes longer than its estimate; one that goes on after its deadline
/// gets whole processors. Whoever needs another estimate more is stuck, unless the user asked for a longer walltime.
fn longest(terms: &Terms, job: &Value) -> f64 {
    let asked = number(job, "walltime").unwrap_or(0.0);
    (terms.deadline + terms.estimate).max(asked).ceil()
}

/// A job with a deadline starts at once; one that may not would hold a share for nothing.
fn waits(job: &Value) -> Result<(), Problem> {
    match job {
        _ if text(job, "hold").is_some() => Err(Problem::Waits(Wait::Held)),
        _ if text(job, "start").is_some() => Err(Problem::Waits(Wait::Later)),
        _ if text(job, "depend").is_some() => Err(Problem::Waits(Wait::Others)),
        _ => Ok(()),
    }
}

/// The same as PBS is to have it.
pub(super) fn walltime(terms: &Terms, job: &Value) -> Value {
    clock(longest(terms, job)).into()
}

/// Seconds as PBS writes a duration.
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}
