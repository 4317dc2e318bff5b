//! What PBS does not start a job for though its nodes have room: limits of the server and its queues, and queues that are stopped.
//!
//! PBS counts what runs; here what is promised and has not begun counts as well, or two promises would be given for one place. Processors
//! count as they were asked for: to PBS a job that shares processors has none.

use super::resources::{Definitions, Kind, amount};
use super::text;
use libra_core::book::Book;
use libra_core::decision::consumable::{Scope, Unit};
use libra_core::decision::job::Shape;
use libra_units::{cut, memory};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The project of jobs that name none.
const NO_PROJECT: &str = "_pbs_project_default";

/// Limits of running jobs of the old style, and what they are in the new one.
const OLD_STYLE: [(&str, &str); 3] = [
    ("max_running", "o:PBS_ALL"),
    ("max_user_run", "u:PBS_GENERIC"),
    ("max_group_run", "g:PBS_GENERIC"),
];
const OLD_STYLE_RESOURCES: [(&str, &str); 2] = [
    ("max_user_res", "u:PBS_GENERIC"),
    ("max_group_res", "g:PBS_GENERIC"),
];

/// Who may have so much at a time: `[u:alice=2]`.
#[derive(Debug, Clone, PartialEq)]
struct Limit {
    /// As PBS shows it.
    shown: String,
    /// `u`, `g`, `p` or `o`.
    kind: char,
    /// Its name, `PBS_GENERIC` or `PBS_ALL`.
    name: String,
    most: f64,
}

/// Limits of one thing: jobs, or an amount of a resource.
#[derive(Debug, Clone, PartialEq)]
struct Limited {
    /// The attribute: `max_run`, `max_run_res.ncpus`.
    attribute: String,
    /// None for jobs.
    resource: Option<String>,
    limits: Vec<Limit>,
}

/// The server, or one of its queues.
#[derive(Debug, Clone, Default, PartialEq)]
struct ServerOrQueue {
    stopped: bool,
    disabled: bool,
    routes: bool,
    /// Queues of another server that it sends jobs to.
    away: Option<String>,
    limited: Vec<Limited>,
    most: HashMap<String, String>,
    least: HashMap<String, String>,
}

/// Who a job belongs to, and where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Owner {
    user: String,
    group: String,
    project: String,
    queue: String,
}

/// A job that runs, or that something is promised to.
#[derive(Debug, Clone, PartialEq)]
struct Holder {
    owner: Owner,
    uses: Uses,
    /// It counts as long as the book has it; others until they end.
    promised: bool,
    /// When it was heard of.
    since: f64,
}

/// What a job uses, by the names of resources, in small letters; memory and sizes in bytes.
type Uses = HashMap<String, f64>;

/// All limits, and who is counted.
#[derive(Debug, Default)]
pub(super) struct Limits {
    server: ServerOrQueue,
    queues: HashMap<String, ServerOrQueue>,
    default_queue: String,
    /// By the names of nodes that belong to a queue.
    queue_of: HashMap<String, String>,
    holders: HashMap<String, Holder>,
}

impl Owner {
    /// As an event shows it.
    pub(super) fn of(job: &Value) -> Owner {
        let word = |key: &str| text(job, key).unwrap_or_default().to_string();
        let user = text(job, "user").or_else(|| text(job, "owner"));
        Owner {
            user: user.unwrap_or_default().to_string(),
            group: word("group"),
            project: text(job, "project").unwrap_or(NO_PROJECT).to_string(),
            queue: word("queue")
                .split('@')
                .next()
                .unwrap_or_default()
                .to_string(),
        }
    }
}

impl Limit {
    /// Reads `[u:alice=2],[o:PBS_ALL=10]`.
    fn all(text: &str, number: impl Fn(&str) -> Option<f64>) -> Vec<Limit> {
        let one = |part: &str| {
            let part = part.trim().trim_start_matches('[').trim_end_matches(']');
            let (who, most) = part.rsplit_once('=')?;
            let (kind, name) = who.split_once(':')?;
            Some(Limit {
                shown: format!("[{part}]"),
                kind: kind.trim().chars().next()?,
                name: name.trim().trim_matches('"').to_string(),
                most: number(most.trim())?,
            })
        };
        text.split(',').filter_map(one).collect()
    }

    /// Of several, the one that counts for this owner: its own, else the one for everybody.
    fn of<'a>(all: &'a [Limit], kind: char, own: &str) -> Option<&'a Limit> {
        let named = |name: &str| {
            all.iter()
                .find(|limit| limit.kind == kind && limit.name == name)
        };
        named(own).or_else(|| named("PBS_GENERIC"))
    }
}

impl ServerOrQueue {
    /// `server`: the name of this server.
    fn read(place: &Value, server: &str, definitions: &Definitions) -> ServerOrQueue {
        let flag = |key: &str| place[key].as_bool().unwrap_or(false);
        let texts = |value: &Value| -> HashMap<String, String> {
            let all = value.as_object().into_iter().flatten();
            all.filter_map(|(key, value)| {
                Some((key.to_ascii_lowercase(), value.as_str()?.to_string()))
            })
            .collect()
        };
        let jobs = |text: &str| text.parse::<f64>().ok();
        let mut limited = Vec::new();
        let mut take = |attribute: String, resource: Option<&str>, limits: Vec<Limit>| {
            if !limits.is_empty() {
                let resource = resource.map(str::to_string);
                limited.push(Limited {
                    attribute,
                    resource,
                    limits,
                });
            }
        };
        if let Some(text) = text(place, "max_run") {
            take("max_run".to_string(), None, Limit::all(text, jobs));
        }
        for (attribute, who) in OLD_STYLE {
            if let Some(most) = text(place, attribute) {
                let mut limits = Limit::all(&format!("{who}={most}"), jobs);
                limits
                    .iter_mut()
                    .for_each(|limit| limit.shown = most.to_string());
                take(attribute.to_string(), None, limits);
            }
        }
        let resources = std::iter::once(("max_run_res", None))
            .chain(OLD_STYLE_RESOURCES.map(|(attribute, who)| (attribute, Some(who))));
        for (attribute, who) in resources {
            for (name, value) in texts(&place[attribute]) {
                let number = |text: &str| number(definitions, &name, text);
                let limits = match who {
                    None => Limit::all(&value, number),
                    Some(who) => Limit::all(&format!("{who}={value}"), number),
                };
                take(format!("{attribute}.{name}"), Some(&name), limits);
            }
        }
        ServerOrQueue {
            stopped: place["started"] == false,
            disabled: place["enabled"] == false,
            routes: flag("routes"),
            away: text(place, "destinations").and_then(|all| away(all, server)),
            limited,
            most: texts(&place["resources_max"]),
            least: texts(&place["resources_min"]),
        }
    }
}

/// Of a routing queue's destinations, those of other servers than this one.
fn away(destinations: &str, server: &str) -> Option<String> {
    let is_away = |one: &&str| {
        let at = one.rsplit_once('@');
        at.is_some_and(|(_, other)| !other.eq_ignore_ascii_case(server))
    };
    let all = destinations.split(',').map(str::trim).filter(is_away);
    let all: Vec<&str> = all.collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// A number of this resource; seconds of one that is a time.
fn number(definitions: &Definitions, name: &str, text: &str) -> Option<f64> {
    let by = |unit| amount(unit, text).ok().map(|some| some as f64);
    match (
        name,
        definitions.get(name).map(|definition| definition.kind),
    ) {
        ("mem", _) => by(Unit::Bytes),
        (_, Some(Kind::Number(Unit::Millionths))) => by(Unit::Millionths).map(|some| some / 1e6),
        (_, Some(Kind::Number(unit))) => by(unit),
        (_, Some(_)) => None,
        ("walltime" | "cput", None) => seconds(text),
        (_, None) => text.parse().ok(),
    }
}

/// `HH:MM:SS`, `MM:SS` or seconds.
fn seconds(text: &str) -> Option<f64> {
    let parts = text.split(':').map(|part| part.parse::<f64>().ok());
    parts
        .into_iter()
        .try_fold(0.0, |sum, part| Some(sum * 60.0 + part?))
}

/// What a job of this shape uses in all.
fn uses(shape: &Shape) -> Uses {
    let chunks = f64::from(shape.chunks);
    let mut uses = Uses::from([("ncpus".to_string(), shape.slots() as f64)]);
    if shape.memory_per_chunk > 0 {
        uses.insert("mem".to_string(), shape.memory_per_chunk as f64 * chunks);
    }
    for (what, amount) in shape.consumables.iter() {
        let parts = if what.unit() == Unit::Millionths {
            1e6
        } else {
            1.0
        };
        let times = if what.scope() == Scope::Node {
            chunks
        } else {
            1.0
        };
        uses.insert(what.name().to_string(), amount as f64 / parts * times);
    }
    uses
}

/// What a job that nothing is promised to uses: `asked`, as PBS has it.
fn uses_of_other(job: &Value, definitions: &Definitions) -> Uses {
    let mut uses = Uses::new();
    for (name, value) in job["asked"].as_object().into_iter().flatten() {
        let name = name.to_ascii_lowercase();
        let value = number(definitions, &name, value.as_str().unwrap_or_default());
        // Its processors have a name of their own where Libra has moved them.
        let name = if name == "libra_besteffort" {
            "ncpus".to_string()
        } else {
            name
        };
        *uses.entry(name).or_default() += value.unwrap_or(0.0);
    }
    uses
}

impl Limits {
    /// As an event shows them, where it does.
    pub(super) fn read(&mut self, event: &Value, definitions: &Definitions) {
        let site = &event["site"];
        if !site.is_object() {
            return;
        }
        let name = text(site, "name").unwrap_or_default();
        self.server = ServerOrQueue::read(site, name, definitions);
        self.default_queue = text(site, "default_queue").unwrap_or_default().to_string();
        let queues = event["queues"].as_object().into_iter().flatten();
        self.queues = queues
            .map(|(queue_name, queue)| {
                let read = ServerOrQueue::read(queue, name, definitions);
                (queue_name.clone(), read)
            })
            .collect();
        self.queue_of = (super::list(event, "nodes").iter())
            .filter_map(|node| {
                Some((
                    text(node, "name")?.to_string(),
                    text(node, "queue")?.to_string(),
                ))
            })
            .collect();
    }

    /// The name of the queue that it is for.
    pub(super) fn queue_named(&self, owner: &Owner) -> String {
        let named = Some(owner.queue.as_str()).filter(|name| !name.is_empty());
        named.unwrap_or(&self.default_queue).to_string()
    }

    /// Returns true if a job of this owner may be on that node: PBS keeps nodes of a queue for its jobs, and its jobs to them.
    pub(super) fn opens(&self, owner: &Owner, node: &str) -> bool {
        let queue = self.queue_named(owner);
        match self.queue_of.get(node) {
            Some(of) => *of == queue,
            // Where a routing queue sends it is not known.
            None => !self.queue_of.values().any(|of| *of == queue),
        }
    }

    /// Returns true if any node belongs to a queue.
    pub(super) fn ties_nodes(&self) -> bool {
        !self.queue_of.is_empty()
    }

    /// What keeps PBS from starting such jobs; None if nothing does. `book`: what is promised; None for jobs that may not start yet, which no
    /// others and no stopped queue are in the way of now. `walltime`, `nodect`: what PBS will know of them, seconds and chunks.
    pub(super) fn in_the_way(
        &self,
        book: Option<&Book>,
        definitions: &Definitions,
        owner: &Owner,
        shape: &Shape,
        jobs: u32,
        (walltime, nodect): (f64, u32),
    ) -> Option<String> {
        let name = self.queue_named(owner);
        let queue = self.queues.get(&name);
        let title = format!("queue {}", cut(&name));
        if let Some(queue) = queue {
            if let Some(away) = &queue.away {
                return Some(format!(
                    "{title}: it sends jobs to another server ({}), and a share is on this one; name a queue of this server (-q)",
                    cut(away)
                ));
            }
            if queue.disabled {
                return Some(format!("{title}: enabled is False"));
            }
            if queue.stopped && book.is_some() {
                return Some(format!(
                    "{title}: started is False, so nothing of it starts"
                ));
            }
        }
        let mut uses = uses(shape);
        let owner = Owner {
            queue: name.clone(),
            ..owner.clone()
        };
        for (place, title, queue) in self.places(queue, &title) {
            let limited = self.reached(book, place, &owner, &uses, jobs, queue);
            if let Some(limited) = limited {
                return Some(format!("{title}: {limited}"));
            }
        }
        uses.insert("walltime".to_string(), walltime);
        uses.insert("nodect".to_string(), f64::from(nodect));
        self.out_of_range(definitions, queue, &title, &uses)
    }

    /// The queue, unless it only sends jobs on, and the server.
    fn places<'a>(
        &'a self,
        queue: Option<&'a ServerOrQueue>,
        title: &'a str,
    ) -> impl Iterator<Item = (&'a ServerOrQueue, &'a str, bool)> {
        let queue = queue
            .filter(|queue| !queue.routes)
            .map(|queue| (queue, title, true));
        queue.into_iter().chain([(&self.server, "server", false)])
    }

    /// A limit of what runs that so many more jobs of this owner would exceed.
    fn reached(
        &self,
        book: Option<&Book>,
        place: &ServerOrQueue,
        owner: &Owner,
        uses: &Uses,
        jobs: u32,
        of_queue: bool,
    ) -> Option<String> {
        for limited in &place.limited {
            let each = match &limited.resource {
                None => 1.0,
                Some(resource) => uses.get(resource).copied().unwrap_or(0.0),
            };
            if each == 0.0 {
                continue;
            }
            let kinds = [
                ('u', &owner.user),
                ('g', &owner.group),
                ('p', &owner.project),
            ];
            let all = (limited.limits.iter())
                .find(|limit| limit.kind == 'o')
                .map(|limit| (limit, None));
            let own = kinds.into_iter().filter_map(|(kind, name)| {
                Some((Limit::of(&limited.limits, kind, name)?, Some((kind, name))))
            });
            for (limit, who) in all.into_iter().chain(own) {
                let counted = |holder: &Holder| {
                    (!of_queue || holder.owner.queue == owner.queue)
                        && match who {
                            None => true,
                            Some(('u', name)) => holder.owner.user == *name,
                            Some(('g', name)) => holder.owner.group == *name,
                            Some((_, name)) => holder.owner.project == *name,
                        }
                };
                let used: f64 = (self.holders.iter())
                    .filter(|(id, holder)| {
                        let there = |book: &Book| !holder.promised || book.contains(id);
                        counted(holder) && book.is_some_and(there)
                    })
                    .map(|(_, holder)| match &limited.resource {
                        None => 1.0,
                        Some(resource) => holder.uses.get(resource).copied().unwrap_or(0.0),
                    })
                    // The sum of none is -0.
                    .fold(0.0, |sum, one: f64| sum + one);
                if used + each * f64::from(jobs) > limit.most * (1.0 + 1e-9) {
                    let subject = who.map_or("all jobs", |(_, name)| name.as_str());
                    return Some(format!(
                        "{} {} is reached ({}: {} running or promised, {} more asked for)",
                        limited.attribute,
                        limit.shown,
                        cut(subject),
                        shown(limited.resource.as_deref(), used),
                        shown(limited.resource.as_deref(), each * f64::from(jobs)),
                    ));
                }
            }
        }
        None
    }

    /// A resource of which a job here must have more or less; what a queue says of one counts, and the server's word on the others.
    fn out_of_range(
        &self,
        definitions: &Definitions,
        queue: Option<&ServerOrQueue>,
        title: &str,
        uses: &Uses,
    ) -> Option<String> {
        let mut names: Vec<&String> = uses.keys().collect();
        names.sort();
        for name in names {
            let has = uses[name];
            let bound = |of: fn(&ServerOrQueue) -> &HashMap<String, String>| {
                let here = queue
                    .and_then(|queue| of(queue).get(name))
                    .map(|text| (title, text));
                let (title, text) =
                    here.or_else(|| Some(("server", of(&self.server).get(name)?)))?;
                Some((
                    title.to_string(),
                    text.clone(),
                    number(definitions, name, text)?,
                ))
            };
            let most = bound(|place| &place.most).filter(|(.., most)| has > *most);
            let least = bound(|place| &place.least).filter(|(.., least)| has < *least);
            for (attribute, found) in [("resources_max", most), ("resources_min", least)] {
                if let Some((title, text, _)) = found {
                    return Some(format!(
                        "{title}: {attribute}.{name} is {}, this job has {}",
                        cut(&text),
                        shown(Some(name), has)
                    ));
                }
            }
        }
        None
    }

    /// Of a job without terms: a limit of processors, which PBS does not see where they have another name.
    pub(super) fn hidden_limit(
        &self,
        book: &Book,
        job: &Value,
        definitions: &Definitions,
    ) -> Option<String> {
        let owner = Owner::of(job);
        let queue = self.queues.get(&self.queue_named(&owner));
        let mut uses = uses_of_other(job, definitions);
        uses.retain(|name, _| name == "ncpus");
        let title = format!("queue {}", self.queue_named(&owner));
        let only = |place: &ServerOrQueue| ServerOrQueue {
            limited: (place.limited.iter())
                .filter(|limited| limited.resource.is_some())
                .cloned()
                .collect(),
            ..ServerOrQueue::default()
        };
        (self.places(queue, &title)).find_map(|(place, title, of_queue)| {
            let limited = self.reached(Some(book), &only(place), &owner, &uses, 1, of_queue)?;
            Some(format!("{title}: {limited}"))
        })
    }

    /// The same of what one job may ask for at all.
    pub(super) fn hidden_range(
        &self,
        job: &Value,
        processors: u32,
        definitions: &Definitions,
    ) -> Option<String> {
        let name = self.queue_named(&Owner::of(job));
        let uses = Uses::from([("ncpus".to_string(), f64::from(processors))]);
        self.out_of_range(
            definitions,
            self.queues.get(&name),
            &format!("queue {}", cut(&name)),
            &uses,
        )
    }

    fn hold(&mut self, id: &str, mut owner: Owner, uses: Uses, promised: bool, since: f64) {
        owner.queue = self.queue_named(&owner);
        let holder = Holder {
            owner,
            uses,
            promised,
            since,
        };
        self.holders.insert(id.to_string(), holder);
    }

    /// Something is promised to this job.
    pub(super) fn promise(&mut self, id: &str, job: &Value, shape: &Shape, now: f64) {
        self.hold(id, Owner::of(job), uses(shape), true, now);
    }

    /// A job runs that nothing is promised to.
    pub(super) fn run(&mut self, id: &str, job: &Value, definitions: &Definitions, now: f64) {
        let uses = uses_of_other(job, definitions);
        self.hold(id, Owner::of(job), uses, false, now);
    }

    /// A job does not run any more.
    pub(super) fn end(&mut self, id: &str) {
        self.holders.remove(id);
    }

    /// Forgets those that are not among these ids and were heard of before.
    pub(super) fn keep(&mut self, seen: &HashSet<String>, book: &Book, taken: f64) {
        (self.holders).retain(|id, holder| {
            holder.since >= taken
                || match holder.promised {
                    true => book.contains(id),
                    false => seen.contains(id),
                }
        });
    }
}

fn shown(resource: Option<&str>, amount: f64) -> String {
    match resource {
        Some("mem" | "vmem") => memory::show(amount as u64),
        _ => amount.to_string(),
    }
}
