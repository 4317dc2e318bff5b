//! A job is submitted: [`libra_batch::server`] judges it, and its answer becomes PBS's resources.

use super::front_end::{Front, longest};
use super::nodes;
use super::plain::Plain;
use super::planned::start_for_pbs;
use super::problem::{NotTaken, Problem};
use super::select::{Asked, ChunkGroup};
use super::server::{Judged, Server, accept, accept_with, has_terms, is_asked, refuse, refuse_as};
use super::text;
use libra_batch::server::{self, Committed, NotAdmitted};
use libra_batch::words;
use libra_config::WithoutTerms;
use libra_core::decision::job::Terms;
use libra_core::decision::refusal::Category;
use libra_units::credits;
use serde_json::{Value, json};

/// Most jobs that one refusal asks PBS about, see [`Server::queue`].
pub(super) const MOST_CHECKED: usize = 100;

impl Server {
    /// Judges a submission. A refusal first asks the hook whether jobs that hold shares and do not run
    /// are still there (`"check": [ids]`): PBS deletes a waiting job without an event, and nobody may be
    /// refused for the sake of one that is gone.
    pub(super) fn queue(&mut self, job: &Value, now: f64) -> Value {
        self.judged = None;
        if !is_asked(job) && !has_terms(job) {
            return match self.queue_without_terms(job) {
                Ok(answer) => answer,
                Err(problem) => {
                    self.not_taken(&problem.into(), |not| vec![words::headed_reason(not)])
                }
            };
        }
        let checked;
        let job = match self.admission.book.unstarted().next() {
            Some(_) => job,
            None => {
                checked = with_nothing_to_check(job);
                &checked
            }
        };
        match self.admission.answer(&self.front, job, now) {
            server::Answer::Accepted(accepted) => {
                let (committed, specification) = *accepted;
                if committed.commitment.starts_by.is_some() {
                    let nodes = specification.domain.nodes.clone().unwrap_or_default();
                    self.note_nodes(&committed.commitment, nodes);
                }
                self.accepted(&committed, &specification.asked, job)
            }
            server::Answer::Redeemed(redeemed) => {
                let (committed, specification) = *redeemed;
                let mut answer = self.accepted(&committed, &specification.asked, job);
                // It is used up: nothing of it stays with the job.
                answer["resources"][super::QUOTE] = Value::Null;
                answer
            }
            server::Answer::Answered { line, for_nodes } => {
                match self.to_be_checked(for_nodes, job) {
                    Some(check) => check,
                    None => refuse(line),
                }
            }
            server::Answer::NotTaken(not) => self.not_admitted(&not, job),
        }
    }

    fn not_admitted(&mut self, not: &NotAdmitted<Front>, job: &Value) -> Value {
        if let Some(check) = self.to_be_checked(not.verdict.is_for_nodes(), job) {
            return check;
        }
        // The job goes on as it came.
        if not.verdict.is_let_in() && !is_asked(job) {
            let mut answer = accept();
            answer["log"] = json!([words::reason(&not.verdict)]);
            return answer;
        }
        self.not_taken(&not.verdict, |_| not.lines(job))
    }

    fn not_taken(&mut self, not: &NotTaken, lines: impl FnOnce(&NotTaken) -> Vec<String>) -> Value {
        let category = not.category().unwrap_or(Category::Request);
        self.judged = Some(Judged::NotTaken(category));
        refuse_as(category, words::signed(&lines(not)))
    }

    /// What the hook is to do before a refusal for the nodes' sake; None if that is done.
    fn to_be_checked(&self, for_nodes: bool, job: &Value) -> Option<Value> {
        let waiting: Vec<&str> = (self.admission.book.unstarted().take(MOST_CHECKED)).collect();
        let due = for_nodes && !waiting.is_empty() && job.get("checked").is_none();
        due.then(|| json!({"check": waiting}))
    }

    fn accepted(&mut self, committed: &Committed, asked: &Asked, job: &Value) -> Value {
        let (commitment, pinned) = (&committed.commitment, committed.pinned);
        let request = &commitment.request;
        self.judged = Some(Judged::Accepted(commitment.count));
        let pinned = pinned && !commitment.deferred;
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
        let holds_share = !commitment.deferred || commitment.count > 1;
        let mut resources = asked.resources(
            &parts,
            self.counts_shares(&commitment.places) && holds_share,
        );
        resources.insert("libra_terms".to_string(), commitment.line().into());
        resources.insert("libra_price".to_string(), credits(committed.price).into());
        let info = committed.text::<Front>();
        resources.insert("libra_info".to_string(), info.clone().into());
        let mut answer = accept_with(resources);
        answer["log"] = json!([info]);
        answer["moved"] = json!(asked.moved);
        if let Some(start) = start_for_pbs(commitment) {
            answer["start"] = start.into();
        }
        answer["resources"]["walltime"] = walltime(&request.terms, job);
        answer
    }

    /// Processors of a job without terms that its queue or the server does not allow one job.
    fn hidden_range(&self, plain: &Plain<'_>, job: &Value) -> Option<String> {
        let processors = plain.processors()?;
        (self.front.limits).hidden_range(job, processors, &self.front.definitions)
    }

    fn queue_without_terms(&self, job: &Value) -> Result<Value, Problem> {
        let [select, place, ncpus, nodes, mem] =
            ["select", "place", "ncpus", "nodes", "mem"].map(|key| text(job, key));
        let word = |word: &str| self.front.word(word);
        let converted = nodes.and_then(|nodes| nodes::convert(nodes, ncpus, mem, &word));
        let plain = Plain {
            select,
            place,
            ncpus,
            nodes,
            converted: converted.as_ref(),
            mem,
            others: &self.front.of_chunks(job),
        };
        let resources = match self.without_terms {
            WithoutTerms::Refuse => return Err(Problem::NoTerms),
            // PBS sees none of its processors any more.
            WithoutTerms::BestEffort if self.hidden_range(&plain, job).is_some() => {
                return Err(Problem::Limit(
                    self.hidden_range(&plain, job).unwrap_or_default(),
                ));
            }
            WithoutTerms::BestEffort => plain.best_effort(),
            WithoutTerms::OtherNodes => plain.outside_libra_nodes(),
            WithoutTerms::LeaveAlone => plain.left_alone(),
        };
        let resources = resources.map_err(Problem::Asked)?;
        Ok(match resources.is_empty() {
            true => accept(),
            false => accept_with(resources),
        })
    }
}

/// A submission of which nothing is asked before it is refused, or promised a start behind others.
fn with_nothing_to_check(job: &Value) -> Value {
    let mut job = job.clone();
    job["checked"] = "yes".into();
    job
}

/// The same as PBS is to have it.
fn walltime(terms: &Terms, job: &Value) -> Value {
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
