//! What qmaster has on record, as its own commands write it: hosts and queues (`qhost -q -F libra_start -xml`), which jobs there are (`qstat -xml -u *`), and what
//! is in their contexts (`qstat -xml -j …`).
//!
//! A list of jobs has no contexts, and a job's details are long; but contexts do not change. So details are asked for once for each
//! job, and again when one of its tasks has started.

use super::CONTEXT;
use super::context;
use super::context::name_of;
use super::starts::{self, START, Starts};
use libra_core::book::{JobRecord, NodeRecord, Phase, SNAPSHOT_VERSION, Snapshot};
use libra_core::commitment::Commitment;
use libra_units::memory;
use libra_xml::{self as xml, Element, XmlError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A host with its queues.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// None if its execution daemon is not heard of.
    pub processors: Option<u32>,
    /// Bytes; None if it is not known.
    pub memory: Option<u64>,
    /// Its queue instances.
    pub queues: Vec<QueueInstance>,
    /// Jobs with deferred promises that may start on it.
    pub starts: Vec<starts::Start>,
}

/// A queue on a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueInstance {
    /// Name of the queue.
    pub queue: String,
    /// All its slots.
    pub slots: u64,
    /// Those that are used.
    pub used: u64,
    /// It starts jobs: it is neither disabled, nor suspended, nor in error, nor lost. An overloaded one counts as one that does.
    pub in_service: bool,
}

/// How a parallel environment gives out slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// `$pe_slots`, `$fill_up`, `$round_robin`: all slots of a job can be on one host.
    Anyhow,
    /// So many on each host.
    Each(u32),
}

/// A parallel environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// How it gives out slots.
    pub allocation: Allocation,
    /// Queue instances that have it, as `queue@host`.
    pub instances: BTreeSet<String>,
}

/// A job as the list has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// It is an array.
    pub is_array: bool,
    /// Tasks that run, or are about to; 1 for a job that is no array.
    pub running: BTreeSet<u32>,
    /// Tasks that wait.
    pub waiting: BTreeSet<u32>,
    /// Those of these that wait for more than their turn: they are held, or in an error.
    pub held: BTreeSet<u32>,
}

/// What is known of a job's commitment.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// User number of its owner.
    pub user: u32,
    /// What was committed; None if it has none; or why it is not believed.
    pub commitment: Option<Result<Commitment, context::NotIts>>,
    /// Numbers of its tasks, first and step.
    pub tasks: (u32, u32),
    /// When its tasks started, Unix time.
    pub started: BTreeMap<u32, f64>,
    /// What it asks for, of one whose promise is deferred.
    pub asked: Option<Box<Asked>>,
}

/// What a job asks for that waits in the queue, as qmaster has it now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// Name of its owner.
    pub owner: String,
    /// Its hard requests, `name=value`.
    pub requests: Vec<String>,
    /// Its hard queues: patterns.
    pub queues: Vec<String>,
    /// Its parallel environment, with its slots.
    pub environment: Option<(String, u32)>,
    /// Of an array: first, last, step.
    pub array: Option<(u32, u32, u32)>,
    /// When it may start at the earliest, Unix time; 0 at any time.
    pub begin: f64,
}

/// Reads `qhost -q -F libra_start -xml`.
///
/// # Errors
/// When it is not what qhost writes.
pub fn hosts(text: &str) -> Result<Vec<Host>, XmlError> {
    let root = xml::parse(text)?;
    let value = |element: &Element, kind: &str, name: &str| {
        (element.all(kind))
            .find(|value| value.attribute("name") == Some(name))
            .map(|value| value.text.clone())
            .unwrap_or_default()
    };
    let queue = |element: &Element| {
        let number = |name: &str| value(element, "queuevalue", name).parse().unwrap_or(0);
        // a and A (load), and c (ambiguous configuration) are none of these.
        let stops = |state: char| "dDsSEuoC".contains(state);
        QueueInstance {
            queue: element.attribute("name").unwrap_or_default().to_string(),
            slots: number("slots"),
            used: number("slots_used"),
            in_service: !value(element, "queuevalue", "state_string").contains(stops),
        }
    };
    let host = |element: &Element| Host {
        name: element.attribute("name").unwrap_or_default().to_string(),
        // The load is missing as well where the daemon is lost.
        processors: (value(element, "hostvalue", "load_avg") != "-")
            .then(|| value(element, "hostvalue", "num_proc").parse().ok())
            .flatten(),
        memory: memory::parse(&value(element, "hostvalue", "mem_total")).ok(),
        queues: element.all("queue").map(queue).collect(),
        starts: starts::read(&value(element, "resourcevalue", START)),
    };
    let all = root.all("host").map(host);
    Ok(all.filter(|host| host.name != "global").collect())
}

/// Reads `qstat -xml -u *`, by numbers of jobs.
///
/// # Errors
/// When it is not what qstat writes.
pub fn list(text: &str) -> Result<BTreeMap<u32, Listed>, XmlError> {
    let root = xml::parse(text)?;
    let mut jobs: BTreeMap<u32, Listed> = BTreeMap::new();
    for element in root.below("job_list") {
        let Some(number) = element.number_of("JB_job_number") else {
            continue;
        };
        let job = jobs.entry(number).or_default();
        let tasks = element.child("tasks").map(|tasks| tasks.text.as_str());
        job.is_array = tasks.is_some();
        let tasks = tasks.map_or_else(|| BTreeSet::from([1]), ranges);
        // Of one that is on its way back to the queue the state says so: Rq, Rr.
        let state = element.text_of("state");
        match state.contains(['q', 'w']) {
            true => {
                if state.contains(['h', 'E']) {
                    job.held.extend(&tasks);
                }
                job.waiting.extend(tasks);
            }
            false => job.running.extend(tasks),
        }
    }
    Ok(jobs)
}

/// Numbers of tasks as qstat lists them: `1,3-9:2`. Longer lists than an array may have are cut.
fn ranges(text: &str) -> BTreeSet<u32> {
    let mut tasks = BTreeSet::new();
    for part in text.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last), Ok(step)) = (
            first.parse::<u32>(),
            last.parse::<u32>(),
            step.parse::<usize>(),
        ) else {
            continue;
        };
        tasks.extend((first..=last).step_by(step.max(1)).take(1_000_000));
    }
    tasks
}

/// Reads `qstat -xml -j …`, by numbers of jobs. One that is gone is not among them.
///
/// # Errors
/// When it is not what qstat writes.
pub fn details(text: &str) -> Result<HashMap<u32, Detail>, XmlError> {
    let root = xml::parse(text)?;
    let mut jobs = HashMap::new();
    let elements = root.all("djob_info").flat_map(|info| info.all("element"));
    for element in elements {
        let Some(number) = element.number_of::<u32>("JB_job_number") else {
            continue;
        };
        let variables = element
            .all("JB_context")
            .flat_map(|all| all.all("context_list"));
        let own = variables
            .filter(|variable| variable.text_of("VA_variable") == CONTEXT)
            .map(|variable| context::read(number, variable.text_of("VA_value")))
            .next();
        let range = element
            .child("JB_ja_structure")
            .and_then(|all| all.child("task_id_range"));
        let of_range = |name: &str| range.and_then(|range| range.number_of(name)).unwrap_or(1);
        let task = |task: &Element| {
            Some((
                task.number_of("JAT_task_number")?,
                task.number_of("JAT_start_time")?,
            ))
        };
        let tasks = element
            .all("JB_ja_tasks")
            .flat_map(|all| all.children.iter());
        let is_deferred = matches!(&own, Some(Ok(commitment)) if commitment.deferred);
        jobs.insert(
            number,
            Detail {
                asked: is_deferred.then(|| Box::new(asked(element))),
                user: element.number_of("JB_uid").unwrap_or(u32::MAX),
                commitment: own,
                tasks: (of_range("RN_min"), of_range("RN_step")),
                started: tasks.filter_map(task).filter(|(_, at)| *at > 0.0).collect(),
            },
        );
    }
    Ok(jobs)
}

/// Of a job's details.
fn asked(element: &Element) -> Asked {
    let all = |list: &'static str, kind: &'static str| {
        element.all(list).flat_map(move |list| list.all(kind))
    };
    let request =
        |one: &Element| format!("{}={}", one.text_of("CE_name"), one.text_of("CE_stringval"));
    let environment = element.text_of("JB_pe");
    let slots = all("JB_pe_range", "ranges").find_map(|range| range.number_of("RN_max"));
    let tasks = all("JB_ja_structure", "task_id_range").next();
    let of_tasks = |name: &str| tasks.and_then(|range| range.number_of(name)).unwrap_or(1);
    Asked {
        owner: element.text_of("JB_owner").to_string(),
        requests: all("JB_hard_resource_list", "qstat_l_requests")
            .map(request)
            .collect(),
        queues: all("JB_hard_queue_list", "destin_ident_list")
            .map(|queue| queue.text_of("QR_name").to_string())
            .collect(),
        environment: (slots.filter(|_| !environment.is_empty()))
            .map(|slots| (environment.to_string(), slots)),
        array: Some((of_tasks("RN_min"), of_tasks("RN_max"), of_tasks("RN_step"))),
        begin: element.number_of("JB_execution_time").unwrap_or(0.0),
    }
}

/// All that was read in one round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    /// When the list was asked for, Unix time.
    pub taken: f64,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Jobs in the queue.
    pub jobs: BTreeMap<u32, Listed>,
    /// What is known of them.
    pub details: HashMap<u32, Detail>,
}

impl Records {
    /// Drops what is known of jobs that are gone, and of starts of tasks that wait again.
    pub fn forget(&mut self) {
        let jobs = &self.jobs;
        self.details.retain(|number, detail| {
            let Some(job) = jobs.get(number) else {
                return false;
            };
            (detail.started).retain(|task, _| !job.waiting.contains(task));
            true
        });
    }

    /// Jobs that may start, by the values of their hosts.
    pub fn starts(&self) -> Starts {
        let starts = |host: &Host| (host.name.clone(), host.starts.clone());
        self.hosts.iter().map(starts).collect()
    }

    /// What is committed to a job, or deferred: None if nothing is, or it is not believed.
    pub fn commitment(&self, number: u32) -> Option<Commitment> {
        let deferred = match &self.details.get(&number)?.commitment {
            Some(Ok(commitment)) if commitment.deferred => commitment,
            Some(Ok(commitment)) => return Some(commitment.clone()),
            _ => return None,
        };
        let confirmed = starts::committed(number, deferred, &self.starts());
        Some(confirmed.unwrap_or_else(|| deferred.clone()))
    }

    /// Jobs whose promises are deferred and that may start now, whatever their hosts say.
    pub fn may_start(&self) -> Vec<u32> {
        let may_start = |number: &u32, job: &Listed| {
            let asked = (self.details.get(number)).and_then(|detail| detail.asked.as_ref());
            job.held.is_empty()
                && job.running.is_empty()
                && asked.is_some_and(|asked| self.taken >= asked.begin)
        };
        (self.jobs.iter())
            .filter(|(number, job)| may_start(number, job))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Jobs of which details are to be asked for: those that are new, those that are committed and have started since, and those that wait with a
    /// deferred promise, of which it may be changed when they may start.
    pub fn wanted(&self) -> Vec<u32> {
        let is_wanted = |number: &u32, job: &Listed| match self.details.get(number) {
            None => true,
            Some(detail) => {
                let is_ours = matches!(detail.commitment, Some(Ok(_)));
                let has_started =
                    (job.running.iter()).any(|task| !detail.started.contains_key(task));
                let may_start =
                    detail.asked.is_some() && job.held.is_empty() && job.running.is_empty();
                is_ours && (has_started || may_start)
            }
        };
        (self.jobs.iter())
            .filter(|(number, job)| is_wanted(number, job))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Names of jobs and tasks that hold nothing of what was committed to them: their users, or an error, keep them from being started.
    pub fn resting(&self) -> Vec<String> {
        let mut resting = Vec::new();
        for (number, job) in (self.jobs.iter()).filter(|(_, job)| !job.held.is_empty()) {
            let is_committed = |commitment: Commitment| !commitment.deferred;
            if self.commitment(*number).is_some_and(is_committed) {
                let name = |task: &u32| name_of(*number, job.is_array.then_some(*task));
                resting.extend(job.held.iter().map(name));
            }
        }
        resting
    }

    /// As a snapshot of a book, and what of it is not believed. `reserved`: processors of each host that are not for jobs.
    pub fn snapshot(&self, reserved: &dyn Fn(f64) -> f64) -> (Snapshot, Vec<String>) {
        let mut problems = Vec::new();
        let mut jobs = Vec::new();
        for (number, job) in &self.jobs {
            match self
                .details
                .get(number)
                .map(|detail| (detail, &detail.commitment))
            {
                Some((detail, Some(Ok(_)))) => match self.commitment(*number) {
                    Some(commitment) if !commitment.deferred => {
                        jobs.extend(self.job_records(*number, job, detail, &commitment));
                    }
                    _ if !job.running.is_empty() => problems.push(format!(
                        "job {number} runs, and its promise was deferred: nothing is committed to it"
                    )),
                    _ => {}
                },
                Some((_, Some(Err(problem)))) => problems.push(format!("job {number}: {problem}")),
                _ => {}
            }
        }
        let node = |host: &Host| NodeRecord {
            name: host.name.clone(),
            processors: host
                .processors
                .map_or(0.0, |count| reserved(f64::from(count))),
            rating: 1.0,
            memory: host.memory,
            consumables: Vec::new(),
            available: host.processors.is_some()
                && host.queues.iter().any(|queue| queue.in_service),
            committed: 0.0,
        };
        let snapshot = Snapshot {
            consumables: Vec::new(),
            version: SNAPSHOT_VERSION,
            now: self.taken,
            // The size of one that is lost is not known, and stays what it was.
            nodes: (self.hosts.iter())
                .filter(|host| host.processors.is_some())
                .map(node)
                .collect(),
            jobs,
        };
        (snapshot, problems)
    }

    /// A running task counts as having run at the share committed to it since it started: qmaster measures nothing that would say it better.
    /// One that waits past its deadline holds nothing, and neither does one that is held.
    fn job_records(
        &self,
        number: u32,
        job: &Listed,
        detail: &Detail,
        commitment: &Commitment,
    ) -> Vec<JobRecord> {
        let lapsed = self.taken >= commitment.submitted + commitment.request.terms.deadline;
        let waiting = (job.waiting.iter()).filter(|task| !lapsed && !job.held.contains(task));
        let all = (job.running.iter().map(|task| (*task, true)))
            .chain(waiting.map(|task| (*task, false)));
        let mut seen = BTreeSet::new();
        let mut records = Vec::new();
        for (task, runs) in all {
            let (first, step) = detail.tasks;
            let index = match job.is_array {
                true => task.saturating_sub(first) / step.max(1),
                false => 0,
            };
            if index >= commitment.count || !seen.insert(task) {
                continue;
            }
            let ran = match (runs, detail.started.get(&task)) {
                (true, Some(started)) => (self.taken - started).max(0.0),
                _ => 0.0,
            };
            let name = name_of(number, job.is_array.then_some(task));
            let phase = if runs { Phase::Running } else { Phase::Bound };
            let mut record = JobRecord::committed(&name, index, commitment, phase);
            for place in &mut record.places {
                (place.cput, place.committed_share) = (ran * place.share, place.share);
            }
            records.push(record);
        }
        records
    }
}
