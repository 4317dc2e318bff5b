//! A job is submitted: budget first, then the nodes, by [`libra_batch::admit`].

use super::select::{self, Asked, Part, Plain};
use super::server::{Server, accept, accept_with, has_terms, refuse};

use super::{BadEvent, TERMS, number, text};
use libra_accounts::desk::Denied;
use libra_accounts::payments::Payer;
use libra_batch::admit::{Nodes, NotTaken, admit};
use libra_batch::verdict;
use libra_config::WithoutTerms;
use libra_core::book::{Admitted, BookError, Offer};
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::{Request, Terms};
use libra_core::sold::Sold;
use libra_units::{credits, duration, in_one_line, indices};
use libra_wording::terms::{PartialTerms, TermsError, deadline_as_duration};
use serde_json::{Value, json};

/// Most jobs that one refusal asks PBS about, see [`Server::queue`].
pub(super) const MOST_CHECKED: usize = 100;

/// The job as it came, as where the library cannot be asked at all and the site admits jobs then.
fn unpromised(denied: &Denied) -> Value {
    let mut answer = accept();
    answer["log"] = json!([denied.text()]);
    answer
}

impl Server {
    /// Judges a submission. A refusal first asks the hook whether jobs that hold shares and do not run
    /// are still there (`"check": [ids]`): PBS deletes a waiting job without an event, and nobody may be
    /// refused for the sake of one that is gone.
    pub(super) fn queue(&mut self, job: &Value, now: f64) -> Result<Value, BadEvent> {
        if let Some(answer) = self.answer_quote(job, now) {
            return Ok(answer);
        }
        if !has_terms(job) {
            return Ok(self.queue_without_terms(job));
        }
        let found = match self.look(job, false) {
            Ok(found) => found,
            Err(problem) => return Ok(refuse(format!("libra: {problem}"))),
        };
        let (request, count) = (&found.request, found.count);
        let payer = self.payer(job, request, now);
        let mut taking = Taking {
            server: self,
            found: &found,
            now,
        };
        match admit(payer, request, &mut taking) {
            Ok((payer, (admitted, pinned))) => {
                let sold = match self.sell(request, count, &admitted, payer.as_ref(), now) {
                    Ok(sold) => sold,
                    Err(denied @ Denied::Unpromised(_)) => return Ok(unpromised(&denied)),
                    Err(denied) => return Ok(refuse(format!("libra: {}", denied.text()))),
                };
                let mut answer = self.accepted(&sold, &found.asked, &admitted, pinned);
                answer["resources"]["walltime"] = walltime(&request.terms, job);
                Ok(answer)
            }
            Err(NotTaken::Denied(denied @ Denied::Unpromised(_))) => Ok(unpromised(&denied)),
            Err(not) => Ok(match self.to_be_checked(&not, job) {
                Some(check) => check,
                None => refuse(self.refusal_text(&not, &found.asked, count)),
            }),
        }
    }

    /// What a job asks for, and which nodes it may have. `question`: it may be without a budget.
    ///
    /// # Errors
    /// For the user.
    pub(super) fn look(&self, job: &Value, question: bool) -> Result<Found, String> {
        let mut terms = terms(job).map_err(|error| error.to_string())?;
        let has_budget = terms.budget.is_some();
        if question {
            terms.budget.get_or_insert(f64::INFINITY);
        }
        let terms = terms.complete().map_err(|error| error.to_string())?;
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

    /// What the hook is to do before a refusal for the nodes' sake; none where that is done.
    pub(super) fn to_be_checked(&self, not: &NotTaken, job: &Value) -> Option<Value> {
        let waiting: Vec<&str> = self.book.unstarted().take(MOST_CHECKED).collect();
        let due = not.is_for_nodes() && !waiting.is_empty() && job.get("checked").is_none();
        due.then(|| json!({"check": waiting}))
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
        if !self.desk.is_on() {
            return Ok(None);
        }
        let user = text(job, "user").unwrap_or_default();
        let project = text(job, "account").or_else(|| text(job, "project"));
        self.desk.payer(user, project, request.terms.budget, now)
    }

    /// What was admitted is sold, and held for on the payer's account; where that fails it is out of the book again.
    pub(super) fn sell(
        &mut self,
        request: &Request,
        count: u32,
        admitted: &Admitted,
        payer: Option<&Payer>,
        now: f64,
    ) -> Result<Sold, Denied> {
        let sold = (self.book).sold(
            request,
            count,
            admitted,
            payer.map(|payer| payer.name.as_str()),
            now,
        );
        if let Some(payer) = payer {
            if let Err(denied) = self.desk.hold(payer, &sold, now) {
                self.book.take_off(admitted, count, now);
                return Err(denied);
            }
        }
        Ok(sold)
    }

    pub(super) fn accepted(
        &self,
        sold: &Sold,
        asked: &Asked,
        admitted: &Admitted,
        pinned: bool,
    ) -> Value {
        let request = &sold.request;
        let parts: Vec<Part<'_>> = if pinned && sold.count == 1 {
            (sold.places.iter())
                .map(|place| Part {
                    node: Some(&place.node),
                    chunks: place.chunks,
                    share: place.share,
                })
                .collect()
        } else {
            let first = &sold.places[0];
            vec![Part {
                node: pinned.then_some(first.node.as_str()),
                chunks: request.shape.chunks,
                share: sold.share_on(""),
            }]
        };
        let mut resources = asked.resources(&parts, self.shares_add_up);
        resources.insert("libra_terms".to_string(), sold.line().into());
        resources.insert("libra_price".to_string(), credits(admitted.price).into());
        let info = verdict::accepted(sold, admitted.price, pinned);
        resources.insert("libra_info".to_string(), info.clone().into());
        let mut answer = accept_with(resources);
        answer["log"] = json!([info]);
        answer
    }

    pub(super) fn refusal_text(&self, not: &NotTaken, asked: &Asked, count: u32) -> String {
        match not {
            NotTaken::Refused(refusal) => {
                let write = |offer: &CounterOffer| write_offer(offer, asked);
                verdict::refused(refusal, count, &|index| self.node_name(index), &write)
            }
            NotTaken::Denied(denied) => format!("libra: {}", denied.text()),
            NotTaken::Other { category, text } => format!("libra: refused ({category}): {text}"),
        }
    }

    fn queue_without_terms(&self, job: &Value) -> Value {
        let plain = Plain {
            select: text(job, "select"),
            place: text(job, "place"),
            ncpus: text(job, "ncpus"),
            nodes: text(job, "nodes"),
            mem: text(job, "mem"),
        };
        let resources = match self.without_terms {
            WithoutTerms::Refuse => {
                return refuse(
                    "libra: jobs on this cluster need a deadline, a budget and an estimate: \
                     qsub -W deadline=1h,budget=5000,estimate=30m",
                );
            }
            WithoutTerms::BestEffort => plain.best_effort(),
            WithoutTerms::OtherNodes => plain.kept_off(),
            WithoutTerms::LeaveAlone => plain.left_alone(),
        };
        match resources {
            Ok(resources) if resources.is_empty() => accept(),
            Ok(resources) => accept_with(resources),
            Err(problem) => refuse(format!("libra: {problem}")),
        }
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

    fn ask(&mut self, request: &Request) -> Result<(), NotTaken> {
        self.server.book.advance(self.now);
        self.server.offer(self.found, request).map(|_| ())
    }

    fn take(&mut self, request: &Request) -> Result<(Admitted, bool), NotTaken> {
        self.server.has_node(self.found)?;
        let allowed = self.found.allowed.as_deref();
        Ok((self.server).admit(request, self.found.count, allowed, self.now)?)
    }
}

impl Server {
    /// What the nodes would give; nothing is reserved.
    pub(super) fn offer(&self, found: &Found, request: &Request) -> Result<Offer, NotTaken> {
        self.has_node(found)?;
        let allowed = found.allowed.as_deref();
        Ok(self.book.quote(request, found.array(), allowed)?)
    }

    pub(super) fn has_node(&self, found: &Found) -> Result<(), NotTaken> {
        let none = (found.allowed.as_ref()).is_some_and(|allowed| !allowed.contains(&true));
        if !none {
            return Ok(());
        }
        let conditions: Vec<String> = (found.asked.conditions.iter())
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        Err(NotTaken::Other {
            category: "no-node",
            text: format!(
                "none of the nodes that jobs with a deadline run on has {}",
                in_one_line(&conditions.join(" and "))
            ),
        })
    }
}

/// What a job asks for beside its terms: shape, and jobs of an array.
fn read(job: &Value) -> Result<(Asked, u32), String> {
    let asked = select::parse(
        text(job, "select"),
        text(job, "place"),
        text(job, "ncpus"),
        text(job, "mem"),
        text(job, "nodes"),
    )
    .map_err(|error| error.to_string())?;
    waits(job)?;
    let count = match text(job, "array") {
        Some(indices) => indices::parse(indices)?.len() as u32,
        None => 1,
    };
    Ok((asked, count))
}

/// A counter-offer as it is asked for; none where it cannot be.
pub(super) fn write_offer(offer: &CounterOffer, asked: &Asked) -> Option<String> {
    match *offer {
        CounterOffer::Processors {
            chunks,
            processors_per_chunk,
            estimate,
            price,
        } => Some(format!(
            "{} -W estimate={} (costs {})",
            asked.with_fewer(chunks, processors_per_chunk)?,
            duration::exact(estimate),
            credits(price)
        )),
        _ => Some(offer.to_string()),
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
fn waits(job: &Value) -> Result<(), String> {
    let what = match job {
        _ if text(job, "hold").is_some() => "is held (-h)",
        _ if text(job, "start").is_some() => "is to start later (-a)",
        _ if text(job, "depend").is_some() => "waits for others (-W depend)",
        _ => return Ok(()),
    };
    Err(format!(
        "a job with a deadline starts at once, this one {what}; submit it when it can start"
    ))
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
