//! Jobs that may not start yet (`-W depend`, `-a`, `-h`): their promises are deferred, see [`libra_batch::server`].
//!
//! Such a job waits in PBS with the line of its commitment (`deferred=1`) and without a share and a node: PBS's scheduler would else wait for a
//! share that is free on that very node, and ask nobody. When it may start, PBS's scheduler finds it a place by all else that PBS counts, and the
//! `runjob` hook asks here. What is accepted is written into the job, its nodes with its shares; PBS lets a hook write them only into a job that it
//! does not let run. The next cycle of the scheduler runs it, and comes when the job is eligible again: its start (`-a`) is set to a moment from now,
//! since a cycle that is asked for by the hook itself (`scheduler_restart_cycle`) ends the present one in 23.06, and begins no other.
//!
//! PBS runs each subjob of an array by itself, and tries one that is not let run without an end. So an array waits with the share that
//! its jobs would have, and each subjob is asked for where PBS runs it, as those of an array that was held ([`super::release`]).

use super::front_end::{Front, longest};
use super::limits::Owner;
use super::problem::Problem;
use super::release::NOTHING;
use super::reservations::Reservations;
use super::select::{self, Asked, ChunkGroup, split_quoted};
use super::server::{Server, internal, refuse};
use super::{BadEvent, number, text};
use libra_batch::front_end::{Domain, JobSpecification};
use libra_batch::server::{Committed, NotConfirmed};
use libra_batch::words;
use libra_core::commitment::Commitment;
use libra_core::decision::TOLERANCE;
use libra_core::decision::job::Request;
use libra_units::{credits, duration};
use serde_json::{Map, Value, json};

/// Seconds until a job that was accepted is eligible again: more than the hook needs. PBS's times are whole seconds.
pub(super) const PAUSE: f64 = 2.0;

impl Server {
    /// PBS would run a job whose promise was deferred.
    pub(super) fn confirm(
        &mut self,
        id: &str,
        job: &Value,
        commitment: &Commitment,
        now: f64,
    ) -> Result<Value, BadEvent> {
        // It was accepted before, and PBS could not write that down.
        if self.admission.book.contains(id) {
            self.admission.book.cancel(id, now).map_err(internal)?;
        }
        let judged = match self
            .front
            .as_waiting(&self.admission.book, job, commitment, now)
        {
            Ok(judged) => judged,
            Err(problem) => return Ok(waits_on(job, commitment, &problem.to_string(), None)),
        };
        let Waiting {
            specification,
            ever,
        } = &judged;
        let owner = text(job, "owner").unwrap_or_default();
        let answer =
            (self.admission).confirm(commitment, specification, ever.as_deref(), owner, now);
        match answer {
            Ok(committed) => {
                let before = "its promise was deferred";
                self.confirmed(id, job, &specification.asked, &committed, before, now)
            }
            Err(NotConfirmed {
                verdict,
                begin_within,
            }) => {
                let why = words::headed_reason(&verdict);
                Ok(match begin_within {
                    Some(within) => waits_on(job, commitment, &why, Some(within)),
                    None => lost(id, "deferred", &why),
                })
            }
        }
    }

    /// It has its nodes and begins. `before`: what it waited for.
    pub(super) fn confirmed(
        &mut self,
        id: &str,
        job: &Value,
        asked: &Asked,
        committed: &Committed,
        before: &str,
        now: f64,
    ) -> Result<Value, BadEvent> {
        let commitment = &committed.commitment;
        let book = &mut self.admission.book;
        // One that was planned has its id.
        if !book.contains(id) {
            book.bind(commitment.token, id, now).map_err(internal)?;
        }
        let book = &self.admission.book;
        let has_room = |node: &str| {
            let shares = book.committed_shares(node);
            shares.is_none_or(|(committed, has)| committed <= has * (1.0 + 2.0 * TOLERANCE))
        };
        // Who begins by right may be there beside who outlived its time.
        let counted = self.counts_shares(&commitment.places)
            && (commitment.places.iter()).all(|place| has_room(&place.node));
        self.note_owner(id, job, &commitment.request.shape, now);
        self.given_back.remove(id);
        self.admission.gate.named(commitment, id);
        let parts: Vec<ChunkGroup<'_>> = (commitment.places.iter())
            .map(|place| ChunkGroup {
                node: Some(&place.node),
                chunks: place.chunks,
                share: place.share,
            })
            .collect();
        let mut resources = asked.resources(&parts, counted);
        let info = committed.text::<Front>();
        let told = format!("{info} ({before})");
        resources.insert("libra_terms".to_string(), commitment.line().into());
        resources.insert("libra_price".to_string(), credits(committed.price).into());
        resources.insert("libra_info".to_string(), told.clone().into());
        let mut answer = refuse(format!("libra: {told}; PBS starts it in a moment"));
        answer["resources"] = resources.into();
        answer["start"] = ((now + PAUSE).floor() as u64).into();
        answer["log"] = json!([format!("job {id}, {before}, {info}")]);
        Ok(answer)
    }
}

impl Server {
    /// Why a job may not be altered to start so late (`qalter -a`): its deferred promise could not be kept.
    pub(super) fn put_off(&self, job: &Value) -> Option<String> {
        let start = number(job, "start").ok()?;
        let commitment = Commitment::parse(text(job, "commitment")?).ok()?;
        if !commitment.deferred || commitment.from_start || commitment.count > 1 {
            return None;
        }
        let within = (self.admission.begins_within(&commitment)).or(commitment.begin_within)?;
        let after = start - commitment.submitted;
        (after > within).then(|| {
            format!(
                "its deadline can be kept if it begins within {} of its submission, and this start is {} after it; give an earlier one, or delete it and submit it anew",
                duration::show(within.floor()),
                duration::show(after.ceil())
            )
        })
    }
}

/// It is asked for again in every cycle of PBS's scheduler. `within`: seconds from its submission in which it has to begin, where that is known.
fn waits_on(job: &Value, commitment: &Commitment, why: &str, within: Option<f64>) -> Value {
    let by = match within {
        Some(within) => format!(
            "its deadline can be kept if it begins within {} of its submission",
            duration::show(within.floor())
        ),
        None => "it is asked for again while it waits".to_string(),
    };
    let mut answer = refuse(format!("libra: {why} (its promise was deferred; {by})"));
    let info = format!("deferred: it may start, and waits for room; {by}");
    // One whose planned place was taken away meanwhile has none from now on.
    tell(&mut answer, job, commitment, &info);
    answer
}

/// What a waiting job says of itself from now on, where that is something else. Each change is a line in PBS's accounting.
pub(super) fn tell(answer: &mut Value, job: &Value, commitment: &Commitment, info: &str) {
    if text(job, "info") != Some(info) {
        answer["resources"]["libra_info"] = info.into();
    }
    let known = text(job, "commitment").and_then(|line| Commitment::parse(line).ok());
    if known.is_some_and(|known| known.starts_by != commitment.starts_by) {
        answer["resources"]["libra_terms"] = commitment.line().into();
    }
}

/// It cannot be kept at any later time: held, it is not tried in every cycle, and nothing is promised to it any more.
/// `kind`: of promise, as its owner knows it.
pub(super) fn lost(id: &str, kind: &str, why: &str) -> Value {
    let info = format!(
        "its {kind} promise is given back: {why}; delete it and submit it anew, or have it released (qrls -h s) to run without a promise"
    );
    let mut answer = refuse(format!("libra: {info}"));
    answer["hold"] = true.into();
    answer["log"] = json!([format!("job {id}: {info}")]);
    answer["resources"] = json!({"libra_terms": NOTHING, "libra_price": "0", "libra_info": info});
    answer
}

/// A waiting job as it is judged when it may start.
pub(super) struct Waiting {
    pub(super) specification: JobSpecification<Front>,
    /// Where it may be at any time, whoever has reserved that now.
    pub(super) ever: Option<Vec<u32>>,
}

impl Front {
    /// Reads a job that PBS has, which the queuejob hook has written.
    pub(super) fn as_waiting(
        &self,
        book: &libra_core::book::Book,
        job: &Value,
        commitment: &Commitment,
        now: f64,
    ) -> Result<Waiting, Problem> {
        let asked = waiting_select(job, commitment)?;
        let shape = commitment.request.shape;
        let mut terms = commitment.request.terms;
        terms.deadline = (commitment.submitted + terms.deadline - now).max(1.0);
        let mut alone = job.clone();
        // All that is of its chunks stands in its select; what is of the whole job was judged when it came.
        alone["wide"] = Value::Object(Map::new());
        let (_, must) = self.needs(&asked, &alone)?;
        let owner = Owner::of(job);
        let queue = self.limits.queue_named(&owner);
        let longest = longest(&terms, job);
        let reservations = Reservations::of(job, &queue, now, longest).map_err(Problem::Limit)?;
        let for_pbs = (longest, shape.chunks.saturating_mul(asked.parts.max(1)));
        let limit =
            (self.limits).in_the_way(Some(book), &self.definitions, &owner, &shape, 1, for_pbs);
        if let Some(limit) = limit {
            return Err(Problem::Limit(limit));
        }
        let nodes = self.meeting(book, &must, &owner, &reservations);
        let ever = self.meeting(book, &must, &owner, &reservations.without_others())?;
        Ok(Waiting {
            ever,
            specification: JobSpecification {
                request: Request { terms, shape },
                class_line: None,
                has_budget: true,
                array: None,
                deferred: None,
                account: Err("its account was asked when it was submitted".to_string()),
                domain: Domain {
                    name: String::new(),
                    nodes,
                    limit: None,
                },
                alternatives: Vec::new(),
                conditions: Vec::new(),
                asked,
            },
        })
    }
}

/// What a job that waits was submitted with, from what was written: its processors are in its commitment, and its share is none.
fn waiting_select(job: &Value, commitment: &Commitment) -> Result<Asked, Problem> {
    let shape = &commitment.request.shape;
    let written = text(job, "select").unwrap_or("1");
    let mut items = split_quoted(written, ':');
    items.retain(|item| {
        let name = item.split('=').next().unwrap_or_default();
        name != "ncpus" && !name.starts_with("libra_")
    });
    let chunks: u32 = (items.first().and_then(|count| count.parse().ok())).unwrap_or(1);
    // Chunks that are packed are one to a decision, with the processors of all.
    let each =
        u64::from(shape.processors_per_chunk) * u64::from(shape.chunks) / u64::from(chunks.max(1));
    let select = format!("{}:ncpus={}", items.join(":"), each.max(1));
    Ok(select::parse(
        Some(&select),
        text(job, "place"),
        None,
        None,
        None,
        &[],
    )?)
}
