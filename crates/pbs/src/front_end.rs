//! What PBS's side translates for [`libra_batch::front_end`]: a submission as the hooks show it, and a counter-offer as qsub takes it.

use super::problem::{Problem, Wait};
use super::select::{self, Asked};
use super::{TERMS, exec_vnode, number, text};
use libra_batch::front_end::{Domain, Fewer, FrontEnd, JobSpecification, OnAccount};
use libra_batch::words::Written;
use libra_core::book::Book;
use libra_core::decision::job::Request;
use libra_units::indices;
use libra_wording::terms::{PartialTerms, TermsError, deadline_as_duration};
use serde_json::Value;
use std::collections::HashMap;

/// Conditions of jobs can be met by these resources of a node.
pub(super) type NodeResources = HashMap<String, String>;

/// What is known of PBS beside the book.
#[derive(Default)]
pub struct Front {
    /// By the names of the nodes.
    pub(super) resources: HashMap<String, NodeResources>,
}

impl FrontEnd for Front {
    type Submission = Value;
    type Asked = Asked;
    type Problem = Problem;

    /// PBS cuts a refusal at 3171.
    const LONGEST_ANSWER: usize = 3100;
    const PINS_ALL: bool = false;

    fn specification(
        &self,
        book: &Book,
        job: &Value,
        question: bool,
        _now: f64,
    ) -> Result<JobSpecification<Front>, Problem> {
        let mut terms = terms(job)?;
        let has_budget = terms.budget.is_some();
        if question {
            terms.budget.get_or_insert(f64::INFINITY);
        }
        let terms = terms.complete()?;
        let (asked, count) = read(job)?;
        let conditions: Vec<String> = (asked.conditions.iter())
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let has_array = text(job, "array").unwrap_or_default();
        Ok(JobSpecification {
            request: Request {
                terms,
                shape: asked.shape,
            },
            has_budget,
            array: (count != 1).then_some(count),
            account: Ok(OnAccount {
                user: self.user(job),
                project: (text(job, "account").or_else(|| text(job, "project")))
                    .map(str::to_string),
            }),
            domain: Domain {
                name: String::new(),
                nodes: self.meeting(book, &asked.conditions),
                limit: None,
            },
            alternatives: Vec::new(),
            conditions: vec![
                ("condition", conditions.join(",")),
                ("list of array indices", has_array.to_string()),
            ],
            asked,
        })
    }

    fn order<'a>(&self, job: &'a Value) -> Option<&'a str> {
        text(job, "quote")
    }

    fn user(&self, job: &Value) -> String {
        text(job, "user").unwrap_or_default().to_string()
    }

    /// Chunks are PBS's own word.
    fn pieces(_jobs: u32) -> Option<&'static str> {
        None
    }

    fn write_processors(_job: &Value, asked: &Asked, fewer: &Fewer) -> Option<Written> {
        let options = asked.with_fewer(fewer.chunks, fewer.processors_per_chunk)?;
        Some(Written {
            text: format!("{options} -W estimate={}", fewer.estimate),
            as_terms: fewer.chunks == 1 && asked.is_processors_alone(),
        })
    }

    fn write_quote(number: &str) -> String {
        format!("qsub -W quote={number}")
    }
}

impl Front {
    /// Which nodes meet these conditions, by the book's index; None if there are no conditions.
    fn meeting(
        &self,
        book: &Book,
        conditions: &[(String, String)],
    ) -> Result<Option<Vec<u32>>, Problem> {
        if conditions.is_empty() {
            return Ok(None);
        }
        let meets = |index: usize| {
            let name = book.node_name(index);
            let resources = self.resources.get(name);
            (conditions.iter()).all(|(key, value)| meets(name, resources, key, value))
        };
        // PBS lets as many jobs onto a node as have resources there.
        let nodes: Vec<u32> = (0..book.node_count())
            .map(|index| if meets(index) { u32::MAX } else { 0 })
            .collect();
        match nodes.contains(&u32::MAX) {
            true => Ok(Some(nodes)),
            false => Err(Problem::NoNode(conditions.to_vec())),
        }
    }
}

fn meets(name: &str, resources: Option<&NodeResources>, key: &str, value: &str) -> bool {
    let has = resources.and_then(|resources| resources.get(key));
    match (key, has) {
        ("vnode", _) => name == value,
        ("host", None) => exec_vnode::is_on_host(name, value),
        (_, Some(has)) => has.split(',').any(|one| one.eq_ignore_ascii_case(value)),
        // PBS takes a boolean that is not set for False.
        (_, None) => value.eq_ignore_ascii_case("false"),
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

/// A job with a deadline starts at once; one that may not would hold a share for nothing.
fn waits(job: &Value) -> Result<(), Problem> {
    match job {
        _ if text(job, "hold").is_some() => Err(Problem::Waits(Wait::Held)),
        _ if text(job, "start").is_some() => Err(Problem::Waits(Wait::Later)),
        _ if text(job, "depend").is_some() => Err(Problem::Waits(Wait::Others)),
        _ => Ok(()),
    }
}
