//! What PBS's side translates for [`libra_batch::front_end`]: a submission as the hooks show it, and a counter-offer as qsub takes it.

use super::limits::{Limits, Owner};
use super::nodes::Word;
use super::problem::Problem;
use super::reservations::Reservations;
use super::resources::{self, Definitions, Kind};
use super::select::{self, Asked, NotAsked};
use super::{TERMS, exec_vnode, number, text};
use libra_batch::front_end::{Deferred, Domain, Fewer, FrontEnd, JobSpecification, OnAccount};
use libra_batch::words::Written;
use libra_core::book::Book;
use libra_core::decision::class_defaults::{Basis, ClassDefaults};
use libra_core::decision::consumable::{Amounts, Consumable, MOST, Scope, TooMany};
use libra_core::decision::job::{Request, Terms};
use libra_units::{cut, indices};
use libra_wording::terms::{
    CLASS, Completed, PartialTerms, TermsError, deadline_as_duration, from_start,
};
use serde_json::Value;
use std::collections::HashMap;

/// A resource and the value that a node must have of it.
type Condition = (String, String);

/// Conditions of jobs can be met by these resources of a node, or of the server; names in small letters.
pub(super) type NodeResources = HashMap<String, String>;

/// What is known of PBS beside the book.
#[derive(Default)]
pub struct Front {
    /// By the names of the nodes.
    pub(super) resources: HashMap<String, NodeResources>,
    /// Types and flags.
    pub(super) definitions: Definitions,
    /// What the server itself has.
    pub(super) server: NodeResources,
    /// What the server and its queues allow.
    pub(super) limits: Limits,
    /// Classes of jobs that name none.
    pub(super) classes: ClassDefaults,
    /// Whether jobs that PBS suspends keep their memory, see [`super::suspended`].
    pub(super) keeps_memory: bool,
}

/// Dependencies for which a job waits; the others (`before…`, `runone`) are for others to wait.
const WAITING: [&str; 5] = ["after", "afterok", "afternotok", "afterany", "on"];

impl FrontEnd for Front {
    type Submission = Value;
    type Asked = Asked;
    type Problem = Problem;

    const LONGEST_ANSWER: usize = super::LONGEST_TEXT;
    const PINS_ALL: bool = false;

    fn specification(
        &self,
        book: &Book,
        job: &Value,
        question: bool,
        now: f64,
    ) -> Result<JobSpecification<Front>, Problem> {
        let mut terms = terms(job)?;
        let has_budget = terms.budget.is_some();
        if question {
            terms.budget.get_or_insert(f64::INFINITY);
        }
        let owner = Owner::of(job);
        // Where a routing queue sends it is not known: its class is that of the queue that it is submitted to.
        let queue = self.limits.queue_named(&owner);
        let read = self.read(job);
        let basis = Basis {
            queues: &[&queue],
            several: (read.as_ref()).is_ok_and(|(asked, _)| asked.shape.slots() > 1),
        };
        let Completed { terms, class_line } = terms.complete_in_batch(&self.classes, basis)?;
        let deferred = deferred(job, &terms, now)?;
        let (asked, count) = read?;
        let (amounts, must) = self.needs(&asked, job)?;
        let mut shape = asked.shape;
        shape.consumables = amounts;
        let conditions: Vec<String> = (asked.conditions.iter())
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let has_array = text(job, "array").unwrap_or_default();
        let longest = longest(&terms, job);
        let begins = now + deferred.map_or(0.0, |deferred| deferred.earliest);
        let mut reservations =
            Reservations::of(job, &queue, begins, longest).map_err(Problem::Limit)?;
        if deferred.is_some() {
            reservations = reservations.without_others();
        }
        let for_pbs = (longest, shape.chunks.saturating_mul(asked.parts.max(1)));
        let counted = deferred.is_none().then_some(book);
        let limit =
            (self.limits).in_the_way(counted, &self.definitions, &owner, &shape, count, for_pbs);
        if let Some(limit) = limit {
            return Err(Problem::Limit(limit));
        }
        Ok(JobSpecification {
            request: Request { terms, shape },
            class_line,
            has_budget,
            array: (count != 1).then_some(count),
            deferred,
            account: Ok(OnAccount {
                user: self.user(job),
                project: (text(job, "account").or_else(|| text(job, "project")))
                    .map(str::to_string),
            }),
            domain: Domain {
                name: String::new(),
                nodes: self.meeting(book, &must, &owner, &reservations),
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

    /// Behind jobs that are there alone: PBS deletes a waiting job without an event ([`super::server::Server::queue`]).
    fn may_be_planned(&self, job: &Value) -> bool {
        text(job, "checked").is_some()
    }

    /// A subjob's start time is its array's.
    fn may_be_suspended(&self, id: &str) -> bool {
        self.keeps_memory && !id.contains('[')
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
        let class =
            (fewer.class).map_or_else(String::new, |class| format!(",{CLASS}={}", class.word()));
        Some(Written {
            text: format!("{options} -W estimate={}{class}", fewer.estimate),
            as_terms: fewer.chunks == 1 && fewer.class.is_none() && asked.is_processors_alone(),
        })
    }

    fn write_quote(number: &str) -> String {
        format!("qsub -W quote={number}")
    }
}

/// What a job asks for with `-l`, beside what has a place of its own.
fn wide(job: &Value) -> impl Iterator<Item = (&String, &str)> {
    let all = job["wide"].as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key, value.as_str()?)))
}

impl Front {
    /// Returns true for a resource that PBS puts into chunks where a job has no `select`.
    fn is_of_chunks(&self, key: &str) -> bool {
        let known = self.definitions.get(key);
        known.is_some_and(|definition| definition.of_chunks)
            || ["mpiprocs", "ompthreads"].contains(&key)
    }

    /// Those that a job asks for with `-l`, beside what has a place of its own; names in small letters.
    pub(super) fn of_chunks(&self, job: &Value) -> Vec<String> {
        let names = wide(job).map(|(key, _)| key.to_ascii_lowercase());
        names.filter(|key| self.is_of_chunks(key)).collect()
    }

    /// What a word of `-l nodes=` is.
    pub(super) fn word(&self, word: &str) -> Word {
        let is_host = (self.resources.keys()).any(|name| name.eq_ignore_ascii_case(word));
        match self.definitions.get(word).map(|definition| definition.kind) {
            _ if is_host => Word::Host,
            Some(Kind::Truth) => Word::Property,
            _ => Word::Unknown,
        }
    }

    fn read(&self, job: &Value) -> Result<(Asked, u32), Problem> {
        let more: Vec<(String, String)> = wide(job)
            .filter(|(key, _)| self.is_of_chunks(key))
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect();
        let (mut asked, count) = read(job, &more)?;
        for (key, _) in &mut asked.conditions {
            *key = self.definitions.spelled(key).to_string();
        }
        Ok((asked, count))
    }

    /// What it asks for, by PBS's definitions: amounts that it uses up, and what its nodes must have.
    pub(super) fn needs<'a>(
        &self,
        asked: &'a Asked,
        job: &Value,
    ) -> Result<(Amounts, Vec<&'a Condition>), Problem> {
        let mut amounts: Vec<(Consumable, u64)> = Vec::new();
        let mut must = Vec::new();
        for condition in &asked.conditions {
            let (key, value) = condition;
            let Some(definition) = self.definitions.get(key) else {
                must.push(condition);
                continue;
            };
            self.check(key, definition.kind, value)?;
            let each = match definition.kind {
                Kind::Number(unit) => resources::asked(key, unit, value)?,
                _ => 0,
            };
            // PBS's chunks on one node are one chunk to a decision.
            let each = each.saturating_mul(u64::from(asked.parts.max(1)));
            match self.definitions.consumable(key, Scope::Node) {
                Some(what) => amounts.push((what, each)),
                None => must.push(condition),
            }
            let in_all = each.saturating_mul(u64::from(asked.shape.chunks));
            amounts.extend(self.in_all(key, in_all));
        }
        for (key, value) in wide(job).filter(|(key, _)| !asked.moved.contains(key)) {
            match self.definitions.get(key).map(|definition| definition.kind) {
                Some(Kind::Number(unit)) => {
                    amounts.extend(self.in_all(key, resources::asked(key, unit, value)?));
                }
                Some(kind) => {
                    self.check(key, kind, value)?;
                    self.server_has(key, kind, value)?;
                }
                None => {}
            }
        }
        match Amounts::of(&amounts) {
            Ok(amounts) => Ok((amounts, must)),
            Err(TooMany(count)) => Err(NotAsked::Text(format!(
                "it asks for {count} resources that are counted; a job with a deadline can ask for {MOST}"
            ))
            .into()),
        }
    }

    /// An amount of what the server has, where it says how much that is.
    fn in_all(&self, key: &str, amount: u64) -> Option<(Consumable, u64)> {
        let what = self.definitions.consumable(key, Scope::Cluster)?;
        let has = self.server.contains_key(&key.to_ascii_lowercase());
        has.then_some((what, amount))
    }

    /// A value that no resource of this type can have.
    fn check(&self, key: &str, kind: Kind, value: &str) -> Result<(), Problem> {
        let problem = match kind {
            Kind::Number(unit) => {
                return resources::asked(key, unit, value)
                    .map(|_| ())
                    .map_err(Into::into);
            }
            Kind::Truth if resources::truth(value).is_some() => return Ok(()),
            Kind::Truth => format!("{key} is '{}', expected True or False", cut(value)),
            Kind::Text if value.parse::<f64>().is_err() => return Ok(()),
            // Text may well be digits; then some node has them.
            Kind::Text => {
                let name = key.to_ascii_lowercase();
                let mut known: Vec<&str> = (self.resources.values())
                    .filter_map(|resources| resources.get(&name))
                    .flat_map(|has| has.split(','))
                    .collect();
                known.sort_unstable();
                known.dedup();
                if known.contains(&value) || name == "host" || name == "vnode" {
                    return Ok(());
                }
                let has = match known[..] {
                    [] => "no node has any".to_string(),
                    _ => format!("the nodes have {}", cut(&known.join(", "))),
                };
                format!(
                    "{key} is '{}', a number; it is text, compared for equality, and {has}",
                    cut(value)
                )
            }
        };
        Err(NotAsked::Text(problem).into())
    }

    /// What the server itself must have, where it has anything of that name.
    fn server_has(&self, key: &str, kind: Kind, value: &str) -> Result<(), Problem> {
        let name = key.to_ascii_lowercase();
        let has = self.server.contains_key(&name);
        match !has || meets("", Some(&self.server), Some(kind), key, value) {
            true => Ok(()),
            false => Err(NotAsked::Text(format!(
                "{key} is '{}', and this server has {}",
                cut(value),
                cut(&self.server[&name])
            ))
            .into()),
        }
    }

    /// Which nodes meet these conditions, by the book's index; None if there are no conditions.
    pub(super) fn meeting(
        &self,
        book: &Book,
        conditions: &[&(String, String)],
        owner: &Owner,
        reservations: &Reservations<'_>,
    ) -> Result<Option<Vec<u32>>, Problem> {
        if conditions.is_empty() && !self.limits.ties_nodes() && reservations.is_empty() {
            return Ok(None);
        }
        let meets = |index: usize| {
            let name = book.node_name(index);
            let resources = self.resources.get(name);
            self.limits.opens(owner, name)
                && (conditions.iter()).all(|(key, value)| {
                    let kind = self.definitions.get(key).map(|definition| definition.kind);
                    meets(name, resources, kind, key, value)
                })
        };
        // PBS lets as many jobs onto a node as have resources there.
        let mut any = false;
        let nodes: Vec<u32> = (0..book.node_count())
            .map(|index| {
                let meets = meets(index);
                any |= meets;
                match meets && reservations.open(book.node_name(index)) {
                    true => u32::MAX,
                    false => 0,
                }
            })
            .collect();
        match nodes.contains(&u32::MAX) {
            true => Ok(Some(nodes)),
            false if any => Err(Problem::Limit(reservations.in_the_way())),
            false if conditions.is_empty() => Err(Problem::NoNodeOfQueue),
            false => Err(Problem::NoNode(
                conditions.iter().map(|one| (*one).clone()).collect(),
            )),
        }
    }
}

fn meets(
    name: &str,
    resources: Option<&NodeResources>,
    kind: Option<Kind>,
    key: &str,
    value: &str,
) -> bool {
    let key = key.to_ascii_lowercase();
    let has = resources.and_then(|resources| resources.get(&key));
    match (key.as_str(), has) {
        // A number that nobody uses up; PBS takes one that is not set for 0.
        (_, has) if matches!(kind, Some(Kind::Number(_))) => is_enough(kind, has, value),
        (_, has) if kind == Some(Kind::Truth) => {
            let is = has.and_then(|has| resources::truth(has)).unwrap_or(false);
            resources::truth(value) == Some(is)
        }
        ("vnode", _) => name == value,
        ("host", None) => exec_vnode::is_on_host(name, value),
        // PBS's scheduler tells capitals from small letters, but in names of hosts.
        ("host", Some(has)) => has.split(',').any(|one| one.eq_ignore_ascii_case(value)),
        (_, Some(has)) => has.split(',').any(|one| one == value),
        // PBS takes a boolean that is not set for False.
        (_, None) => value.eq_ignore_ascii_case("false"),
    }
}

fn is_enough(kind: Option<Kind>, has: Option<&String>, wanted: &str) -> bool {
    let Some(Kind::Number(unit)) = kind else {
        return false;
    };
    let amount = |text: &str| resources::amount(unit, text).unwrap_or(0);
    has.map_or(0, |has| amount(has)) >= amount(wanted)
}

/// What a job asks for beside its terms: shape, and jobs of an array.
fn read(job: &Value, more: &[(String, String)]) -> Result<(Asked, u32), Problem> {
    let asked = select::parse(
        text(job, "select"),
        text(job, "place"),
        text(job, "ncpus"),
        text(job, "mem"),
        text(job, "nodes"),
        more,
    )?;
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
            let deadline = |text: &str| deadline_as_duration(from_start(text).0);
            terms.set(key, value, &deadline)?;
        }
    }
    if terms.estimate.is_none() {
        terms.estimate = number(job, "walltime")
            .ok()
            .filter(|seconds| *seconds > 0.0);
    }
    Ok(terms)
}

/// Whether a submission may not start yet.
///
/// # Errors
/// When its deadline is over by then.
fn deferred(job: &Value, terms: &Terms, now: f64) -> Result<Option<Deferred>, Problem> {
    let start = text(job, "start").map(|start| start.parse::<f64>().ok());
    // PBS starts at once what was to start before now. A time that cannot be read is some time.
    let later = start.is_some_and(|start| start.is_none_or(|start| start > now));
    let earliest = start.flatten().map_or(0.0, |start| (start - now).max(0.0));
    let from_start = text(&job["terms"], "deadline").is_some_and(|text| from_start(text).1);
    if !from_start && terms.deadline <= earliest {
        return Err(Problem::StartsTooLate {
            earliest,
            deadline: terms.deadline,
            estimate: terms.estimate,
        });
    }
    let depends = text(job, "depend").is_some_and(|depend| {
        depend.split(',').any(|one| {
            let kind = one.split(':').next().unwrap_or_default().trim();
            WAITING.contains(&kind)
        })
    });
    let waits = later || depends || text(job, "hold").is_some();
    Ok(waits.then_some(Deferred {
        earliest,
        from_start,
    }))
}

/// How long PBS lets an accepted job run, in seconds.
///
/// A job shares its processor, so it takes longer than its estimate; one that goes on after its deadline
/// gets whole processors. Whoever needs another estimate more is stuck, unless the user asked for a longer walltime.
pub(super) fn longest(terms: &Terms, job: &Value) -> f64 {
    let asked = number(job, "walltime").unwrap_or(0.0);
    (terms.expected_end() + terms.estimate).max(asked).ceil()
}
