//! What Grid Engine's side translates for [`libra_batch::front_end`]: a submission with the hosts that it may have, and a counter-offer as qsub
//! takes it.

use super::problem::{Lack, Problem};
use super::records::{Environment, Host, QueueInstance};
use super::submission::Submission;
use super::{QUOTE, jsv};
use libra_batch::front_end::{Domain, Fewer, FrontEnd, JobSpecification, OnAccount};
use libra_batch::words::Written;
use libra_core::book::Book;
use libra_core::commitment::Commitment;
use libra_core::decision::class_defaults::{Basis, ClassDefaults};
use libra_core::decision::job::{Request, Shape};
use libra_wording::terms::{CLASS, Completed};
use std::collections::HashMap;

/// What is known of the cell beside the book.
#[derive(Debug, Default)]
pub struct Front {
    /// Queues that jobs with terms go to, as configured; none: all.
    pub(super) queues: Vec<String>,
    /// Hosts, by their names.
    pub(super) hosts: HashMap<String, Host>,
    /// Parallel environments, by their names.
    pub(super) environments: HashMap<String, Environment>,
    /// The cell has the complex that jobs wait for which may not start yet.
    pub(super) can_defer: bool,
    /// Classes of jobs that name none.
    pub(super) classes: ClassDefaults,
}

/// Which room on hosts is meant.
#[derive(Clone, Copy, PartialEq)]
enum Room {
    /// What is free now, on hosts that are in service.
    Now,
    /// What there can be at any time.
    Ever,
}

/// Where a job may go: the first domain, and what is tried after it.
type Places = (Domain<Problem>, Vec<Domain<Problem>>);

impl FrontEnd for Front {
    type Submission = Submission;
    type Asked = ();
    type Problem = Problem;

    const LONGEST_ANSWER: usize = jsv::LONGEST_MESSAGE;
    const PINS_ALL: bool = true;

    fn specification(
        &self,
        book: &Book,
        submission: &Submission,
        question: bool,
        now: f64,
    ) -> Result<JobSpecification<Front>, Problem> {
        submission.check()?;
        let mut terms = submission.terms()?;
        let has_budget = terms.budget.is_some();
        if question {
            terms.budget.get_or_insert(f64::INFINITY);
        }
        let queues = self.queues_for(submission);
        let mut basis = Basis {
            queues: &queues,
            several: submission.slots() > 1,
        };
        // Who asks for no queue in particular need not be asked for a class: no queue's line is for that job then.
        if submission.queues.is_empty() && self.classes.class_of(None, basis).is_err() {
            basis.queues = &[];
        }
        let Completed { terms, class_line } = terms.complete_in_batch(&self.classes, basis)?;
        let shape = self.shape(submission)?;
        let array = submission.count()?;
        if array.is_some() && shape.chunks > 1 {
            return Err(Problem::WideArray);
        }
        let deferred = submission.deferred(now);
        if deferred.is_some() && !self.can_defer {
            return Err(Problem::NoStart);
        }
        // What has to wait is judged by what there can be.
        let room = if deferred.is_some() {
            Room::Ever
        } else {
            Room::Now
        };
        let (domain, alternatives) = self.places(book, submission, &shape, array, room)?;
        Ok(JobSpecification {
            request: Request { terms, shape },
            class_line,
            has_budget,
            array,
            deferred,
            account: Ok(OnAccount {
                user: submission.user.clone(),
                project: submission.project.clone(),
            }),
            domain,
            alternatives,
            conditions: vec![
                ("list of requests", submission.requests.join(",")),
                ("list of queues", submission.queues.join(",")),
            ],
            asked: (),
        })
    }

    fn order<'a>(&self, submission: &'a Submission) -> Option<&'a str> {
        submission.quote.as_deref()
    }

    fn user(&self, submission: &Submission) -> String {
        submission.user.clone()
    }

    fn pieces(jobs: u32) -> Option<&'static str> {
        Some(if jobs > 1 { "tasks" } else { "hosts" })
    }

    fn write_term(key: &str, value: &str) -> String {
        format!("-l {key}={value}")
    }

    fn write_processors(submission: &Submission, _asked: &(), fewer: &Fewer) -> Option<Written> {
        let (name, ..) = submission.environment.as_ref()?;
        let slots = fewer.chunks.checked_mul(fewer.processors_per_chunk)?;
        let estimate = Front::write_term("estimate", &fewer.estimate);
        let class =
            (fewer.class).map_or_else(String::new, |class| format!(",{CLASS}={}", class.word()));
        Some(Written {
            text: format!("-pe {name} {slots} {estimate}{class}"),
            as_terms: fewer.chunks == 1 && class.is_empty(),
        })
    }

    fn write_quote(number: &str) -> String {
        format!("qsub -l {QUOTE}={number}")
    }
}

fn domain(name: &str, nodes: Result<Vec<bool>, Problem>) -> Domain<Problem> {
    Domain {
        name: name.to_string(),
        nodes: nodes.map(|nodes| Some(nodes.into_iter().map(slots).collect())),
        limit: None,
    }
}

/// Grid Engine lets as many jobs onto a host as its slots allow.
fn slots(allowed: bool) -> u32 {
    if allowed { u32::MAX } else { 0 }
}

impl Front {
    fn shape(&self, submission: &Submission) -> Result<Shape, Problem> {
        let environment =
            (submission.environment.as_ref()).and_then(|(name, ..)| self.environments.get(name));
        submission.shape(environment.map(|environment| environment.allocation))
    }

    fn places(
        &self,
        book: &Book,
        submission: &Submission,
        shape: &Shape,
        array: Option<u32>,
        room: Room,
    ) -> Result<Places, Problem> {
        Ok(match (array, self.allowed(book, submission, shape, room)) {
            // qmaster gives each task any of the hosts that the array may have, so that all of them go to one.
            (Some(_), Ok(nodes)) => {
                let mut single = (0..nodes.len()).filter(|index| nodes[*index]).map(|index| {
                    let mut only = vec![false; nodes.len()];
                    only[index] = true;
                    domain(book.node_name(index), Ok(only))
                });
                let first = single.next().ok_or(Problem::NoHost(Lack::Queue))?;
                (first, single.collect())
            }
            (_, nodes) => (domain("", nodes), Vec::new()),
        })
    }

    /// A job with a deferred promise as it is judged now, and slots on each host that it may have at any time.
    ///
    /// # Errors
    /// Why it can go nowhere, or nowhere now.
    pub(super) fn as_waiting(
        &self,
        book: &Book,
        submission: &Submission,
        commitment: &Commitment,
    ) -> Result<(JobSpecification<Front>, Vec<u32>), Problem> {
        let shape = self.shape(submission)?;
        let array = submission.array.map(|_| commitment.count);
        let (domain, alternatives) = self.places(book, submission, &shape, array, Room::Now)?;
        let mut ever = self.allowed(book, submission, &shape, Room::Ever)?;
        if array.is_some() {
            // An array is on one host: the largest says most of when it could begin.
            let size = |index: &usize| book.processors(*index);
            let hosts = (0..ever.len()).filter(|index| ever[*index]);
            let largest = hosts.max_by(|a, b| size(a).total_cmp(&size(b)));
            ever = (0..ever.len())
                .map(|index| Some(index) == largest)
                .collect();
        }
        let specification = JobSpecification {
            request: commitment.request,
            class_line: None,
            has_budget: true,
            array,
            deferred: None,
            account: Err("its account was asked when it was submitted".to_string()),
            domain,
            alternatives,
            conditions: Vec::new(),
            asked: (),
        };
        Ok((specification, ever.into_iter().map(slots).collect()))
    }

    /// Which hosts may be taken, by the book's index.
    fn allowed(
        &self,
        book: &Book,
        submission: &Submission,
        shape: &Shape,
        room: Room,
    ) -> Result<Vec<bool>, Problem> {
        let mut allowed = vec![true; book.node_count()];
        let mut keep = |keep: &dyn Fn(usize, &Host) -> bool, lack: Lack| {
            for (index, allowed) in allowed.iter_mut().enumerate() {
                let host = self.hosts.get(book.node_name(index));
                *allowed = *allowed && host.is_some_and(|host| keep(index, host));
            }
            match allowed.contains(&true) {
                true => Ok(()),
                false => Err(Problem::NoHost(lack)),
            }
        };
        if let Some(group) = submission.queues.iter().find(|queue| queue.contains("@@")) {
            return Err(Problem::Unjudged(format!("-q {group}")));
        }
        if let Some(pattern) = submission.hosts() {
            keep(
                &|_, host| matches(pattern, &host.name),
                Lack::Named(pattern.to_string()),
            )?;
        }
        let has = |host: &Host, submission: &Submission| {
            self.instances(host, submission, room).next().is_some()
        };
        if let Some((name, ..)) = &submission.environment {
            let mut without = submission.clone();
            without.environment = None;
            keep(&|_, host| has(host, &without), Lack::Queue)?;
            keep(
                &|_, host| has(host, submission),
                Lack::Environment(name.clone()),
            )?;
        } else {
            keep(&|_, host| has(host, submission), Lack::Queue)?;
        }
        let wanted = u64::from(shape.processors_per_chunk);
        keep(
            // What is kept for the system is taken off all processors of a host, not one of them.
            &|index, _| wanted as f64 <= book.processors(index).ceil(),
            Lack::Processors(wanted),
        )?;
        // qmaster itself lets only so many slots of a queue be used; one more would wait.
        let slots = wanted * submission.count()?.map_or(1, u64::from);
        keep(
            &|index, host| {
                let (all, used) = (self.instances(host, submission, room))
                    .fold((0, 0), |(all, used), one| {
                        (all + one.slots, used + one.used)
                    });
                let used = match room {
                    Room::Now => used.max(book.slots_on(index)),
                    Room::Ever => 0,
                };
                used + slots <= all
            },
            Lack::Slots(slots),
        )?;
        Ok(allowed)
    }

    /// Names of the queues that a job may go to, where any of them has a class of its own.
    fn queues_for<'a>(&'a self, submission: &'a Submission) -> Vec<&'a str> {
        if self.classes.queues.is_empty() {
            return Vec::new();
        }
        let of = |host| self.instances(host, submission, Room::Ever);
        let mut names: Vec<&str> = (self.hosts.values().flat_map(of))
            .map(|instance| instance.queue.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Queues of a host that may start this job.
    fn instances<'a>(
        &'a self,
        host: &'a Host,
        submission: &'a Submission,
        room: Room,
    ) -> impl Iterator<Item = &'a QueueInstance> {
        let is_wanted = move |instance: &&QueueInstance| {
            let full = format!("{}@{}", instance.queue, host.name);
            let has_environment = (submission.environment.as_ref()).is_none_or(|(name, ..)| {
                (self.environments.get(name))
                    .is_some_and(|environment| environment.instances.contains(&full))
            });
            let is_asked = submission.queues.is_empty()
                || (submission.queues.iter()).any(|pattern| match pattern.contains('@') {
                    true => matches(pattern, &full),
                    false => matches(pattern, &instance.queue),
                });
            let is_libras = self.queues.is_empty() || self.queues.contains(&instance.queue);
            (room == Room::Ever || instance.in_service) && is_libras && is_asked && has_environment
        };
        host.queues.iter().filter(is_wanted)
    }

    /// `-q` that leaves a job no other place than these hosts.
    pub(super) fn pin<'a>(
        &self,
        hosts: impl Iterator<Item = &'a str>,
        submission: &Submission,
    ) -> String {
        let mut instances = Vec::new();
        for host in hosts.filter_map(|name| self.hosts.get(name)) {
            for instance in self.instances(host, submission, Room::Now) {
                let full = format!("{}@{}", instance.queue, host.name);
                if !instances.contains(&full) {
                    instances.push(full);
                }
            }
        }
        instances.join(",")
    }

    /// `-q` of a job that may not start yet, and whose host nobody knows: its own, kept to the queues for jobs with terms.
    pub(super) fn queues(&self, submission: &Submission) -> String {
        if self.queues.is_empty() {
            return submission.queues.join(",");
        }
        if submission.queues.is_empty() {
            return self.queues.join(",");
        }
        let mut names: Vec<&String> = self.hosts.keys().collect();
        names.sort_unstable();
        let of = |name: &'_ &String| {
            let host = &self.hosts[*name];
            (self.instances(host, submission, Room::Ever))
                .map(|instance| format!("{}@{}", instance.queue, host.name))
                .collect::<Vec<_>>()
        };
        names.iter().flat_map(of).collect::<Vec<_>>().join(",")
    }
}

/// Tells whether a name is one of those that a pattern means: `*`, `?`, and alternatives with `|`.
fn matches(pattern: &str, name: &str) -> bool {
    let (name, pattern) = (name.as_bytes(), pattern.split('|'));
    pattern
        .map(str::as_bytes)
        .any(|pattern| is_like(pattern, name))
}

fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    // The last '*' and what of the name it has taken: enough to go back to, and no more than their product of steps.
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(c) if *c == b'?' || *c == name[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    at = place + 1;
                    from = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_grid_engine() {
        for (pattern, name, is) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*.q@n?", "main.q@n1", true),
            ("*.q@n?", "main.q@n12", false),
            ("*a*b", "xaabab", true),
            ("*a*b", "xaabac", false),
            ("n1|n2", "n2", true),
            ("", "n", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
        assert!(!matches(&"*a".repeat(40), &"a".repeat(30)));
    }
}
