//! Grid Engine, by its own clients: `qsub` submits, `qstat` and `qacct` tell, `qdel` ends.
//!
//! Grid Engine forgets a job with its end; how it ended comes into the cell's accounting file some seconds later. Until then a job that has
//! gone from the queue is still "ending".

mod accounting;
mod cell;
mod known;
mod queue;
mod script;
mod submission;

use super::ask;
use super::client::{self, Client};
use super::command::Output;
use super::job::{Detail, JobSummary};
use super::own::{job_statuses, newest_first};
use super::quote::Quote;
use super::records::{End, SubmissionRecord};
use super::submission::{Extra, Submission, Submitted};
use super::{Kind, Problem, Site, System};
use cell::{Cell, said};
use known::{Known, gone, live, without_record};
use libra_core::commitment::Commitment;
use libra_system::clock;
use queue::{Details, Listed};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use submission::{instead, qsub};

/// So long the accounting file may take to say how a job has ended, in seconds: qmaster writes it every 15 unless told otherwise.
const ACCOUNTING: f64 = 60.0;

/// qacct reads a file from its beginning: of a job it is asked again after so many seconds.
const ASKED_AGAIN: f64 = 3.0;

/// The most jobs that have ended which are asked about: the latest.
const MOST: usize = 40;

/// So many jobs that have ended are remembered.
const REMEMBERED: usize = 200;

/// So many jobs are asked about by one qstat.
const AT_ONCE: usize = 200;

/// Grid Engine, where the environment names a cell or Debian has one.
pub static KIND: Kind = Kind {
    name: "gridengine",
    help: "Grid Engine, by qsub",
    says: "jobs go to Grid Engine",
    queues: Some("Queue"),
    directive: Some(script::PREFIX),
    classes: super::CLASSES_OF_BATCH,
    extras: &[
        Extra::Project,
        Extra::Array,
        Extra::Environment,
        Extra::Mail,
    ],
    // Its requests know durations only.
    gpu_types: false,
    clock_deadlines: false,
    begins_at_home: false,
    // qmaster asks its verifier about nothing but submissions.
    judges_without_terms: false,
    is_here: || {
        let cell = Cell::of_environment();
        cell.common().join("act_qmaster").is_file() && cell.program("qsub").is_ok()
    },
    open: |site| Ok(Box::new(GridEngine::new(site)?)),
};

/// Grid Engine.
#[derive(Debug)]
pub struct GridEngine {
    client: Client,
    cell: Cell,
    user: String,
    known: Mutex<BTreeMap<u32, Known>>,
}

/// A job, its number, and the record of its submission.
type Row = (JobSummary, (u32, Option<SubmissionRecord>));

impl GridEngine {
    /// Grid Engine.
    ///
    /// # Errors
    /// The user has no name.
    pub fn new(site: Site) -> Result<GridEngine, Problem> {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid());
        let user = user.ok().flatten().map(|user| user.name);
        Ok(GridEngine {
            client: Client::new(site, &KIND, "qsub"),
            cell: Cell::of_environment(),
            user: user.ok_or_else(|| Problem::new("your user has no name here"))?,
            known: Mutex::new(BTreeMap::new()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn qstat(&self, arguments: &[&str]) -> Result<Output, Problem> {
        let done = self
            .cell
            .program("qstat")?
            .arg("-xml")
            .args(arguments)
            .run()?;
        match done.is_success() {
            true => Ok(done),
            false => Err(said(&done)),
        }
    }

    fn details(&self, numbers: &[u32]) -> Result<BTreeMap<u32, Details>, Problem> {
        let mut found = BTreeMap::new();
        for numbers in numbers.chunks(AT_ONCE) {
            let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let done = self.qstat(&["-j", &list.join(",")])?;
            found.extend(queue::details(&done.out).map_err(unread)?);
        }
        Ok(found)
    }

    /// All of the user's jobs that are known.
    fn all(&self) -> Result<Vec<Row>, Problem> {
        // Before the list: what is submitted meanwhile would be missing there.
        let mut recorded = self.client.records.all();
        let cell = self.cell.in_records();
        recorded.retain(|record| record.cluster == cell);
        let asked = clock::unix_time();
        let listed = self.qstat(&["-u", &self.user])?;
        let listed = queue::list(&listed.out).map_err(unread)?;
        let status = match listed.is_empty() {
            true => BTreeMap::new(),
            false => job_statuses(&self.client.site, KIND.name)?,
        };
        self.learn(&listed, asked)?;
        self.remember(&recorded);
        let now = clock::unix_time();
        self.look_for_ends(&listed, asked, now);
        let mut known = self.lock();
        let mut rows = Vec::new();
        for record in recorded.iter().filter(|record| record.id.is_empty()) {
            rows.push((record.as_ended(), (0, Some(record.clone()))));
        }
        for (number, job) in known.iter_mut() {
            let record = recorded.iter().find(|record| job.is_of(*number, record));
            let mut shown = match listed.get(number) {
                Some(listed) => live(*number, listed, job, &status, now),
                // Others ask as well: it has come since this list was made.
                None if job.seen > asked => continue,
                None => gone(*number, job, now),
            };
            if let Some(record) = record {
                shown.key.clone_from(&record.key);
            }
            rows.push((shown, (*number, record.cloned())));
        }
        drop(known);
        self.keep_ends(&rows);
        self.forget();
        newest_first(&mut rows);
        Ok(rows)
    }

    /// What the list says, and details of those that are new in it.
    fn learn(&self, listed: &BTreeMap<u32, Listed>, asked: f64) -> Result<(), Problem> {
        let is_new = |known: &BTreeMap<u32, Known>, number: &u32| {
            // One that was gone is another one: numbers begin again.
            known
                .get(number)
                .is_none_or(|job| job.begun.is_none() || job.gone.is_some())
        };
        let wanted: Vec<u32> = {
            let known = self.lock();
            listed
                .keys()
                .filter(|number| is_new(&known, number))
                .copied()
                .collect()
        };
        let found = self.details(&wanted)?;
        let mut known = self.lock();
        for (number, details) in found {
            let job = Known {
                details,
                ..Known::default()
            };
            known.insert(number, job);
        }
        for (number, listed) in listed {
            // One that has ended meanwhile has no details, and is not on the next list.
            let Some(job) = known.get_mut(number) else {
                continue;
            };
            job.begun = Some(listed.has_begun());
            job.seen = asked.max(job.seen);
            if !listed.hosts.is_empty() {
                job.node = listed.hosts.iter().cloned().collect::<Vec<_>>().join(" ");
            }
        }
        Ok(())
    }

    /// What was submitted by a page before this one.
    fn remember(&self, recorded: &[SubmissionRecord]) {
        let mut known = self.lock();
        for record in recorded {
            let Ok(number) = record.id.parse() else {
                continue;
            };
            known.entry(number).or_insert_with(|| Known {
                details: Details {
                    submitted: record.submitted,
                    name: record.wanted.name.clone(),
                    commitment: Commitment::parse(&record.committed).ok(),
                    ..Details::default()
                },
                end: record.end.clone(),
                gone: record.end.is_some().then_some(record.submitted),
                ..Known::default()
            });
        }
    }

    /// Asks the accounting file about those that are gone.
    fn look_for_ends(&self, listed: &BTreeMap<u32, Listed>, asked: f64, now: f64) {
        let wanted: Vec<(u32, Known)> = {
            let mut known = self.lock();
            let gone =
                |number: &u32, job: &Known| !listed.contains_key(number) && job.seen <= asked;
            for (_, job) in known.iter_mut().filter(|(number, job)| gone(number, job)) {
                job.gone.get_or_insert(now);
            }
            let open = known.iter_mut().rev().filter(|(number, job)| {
                gone(number, job) && job.end.is_none() && now - job.asked >= ASKED_AGAIN
            });
            let open = open.take(MOST).map(|(number, job)| {
                job.asked = now;
                (*number, job.clone())
            });
            open.collect()
        };
        for (number, job) in wanted {
            let waited = now - job.gone.unwrap_or(now) > ACCOUNTING;
            let end = self.end_in_accounting(number, &job, waited);
            let end = end.or_else(|| without_record(&job, waited));
            if let (Some(end), Some(job)) = (end, self.lock().get_mut(&number)) {
                job.end = Some(end);
            }
        }
    }

    /// What the accounting file says. `waited`: what is not there yet of an array will not come.
    fn end_in_accounting(&self, number: u32, job: &Known, waited: bool) -> Option<End> {
        let qacct = self.cell.program("qacct").ok()?;
        let done = qacct
            .args(["-j", &number.to_string()])
            .variable("LC_ALL", "C")
            .run();
        let done = done
            .inspect_err(|error| log::warn!("job {number}: {error}"))
            .ok()?;
        let tasks = match waited {
            true => 1,
            false => job.tasks(),
        };
        accounting::end_of(&done.out, job.details.submitted, tasks)
    }

    /// Of those that have ended, and are on no record, the latest are remembered.
    fn forget(&self) {
        let mut known = self.lock();
        let ended = known.iter().filter(|(_, job)| job.end.is_some());
        let ended: Vec<u32> = ended.map(|(number, _)| *number).rev().collect();
        for number in ended.into_iter().skip(REMEMBERED) {
            known.remove(&number);
        }
    }

    /// Writes down how jobs of this page's have ended: nobody has to ask again.
    fn keep_ends(&self, rows: &[Row]) {
        for (_, (number, record)) in rows {
            let Some(record) = record.as_ref().filter(|record| record.end.is_none()) else {
                continue;
            };
            let end = self.lock().get(number).and_then(|job| job.end.clone());
            let Some(end) = end else {
                continue;
            };
            let record = SubmissionRecord {
                end: Some(end),
                ..record.clone()
            };
            if let Err(error) = self.client.records.write(&record) {
                log::warn!("job {number}: {error}");
            }
        }
    }
}

fn unread(error: libra_xml::XmlError) -> Problem {
    Problem::new(format!("qstat cannot be read: {error}"))
}

impl System for GridEngine {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn site(&self) -> &Site {
        &self.client.site
    }

    fn quotes(&self) -> bool {
        self.client.quotes
    }

    fn quote(&self, wanted: &Submission) -> Result<Quote, Problem> {
        if !self.client.quotes {
            return Err(Problem::new(
                "Grid Engine says what a job costs when it is submitted; one whose budget is too small is refused and costs nothing",
            ));
        }
        let given = instead(wanted)?;
        let (first, rest) = ask::head_and_rest(&wanted.script);
        let text = script::with(&format!("{first}\n{rest}\n"), &given);
        // What asks is told nothing beside the script but terms.
        let terms = Submission {
            processors: String::new(),
            ..wanted.clone()
        };
        ask::of_batch(&self.client.site, &KIND, &terms, &text, |call| call)
    }

    fn submit(&self, wanted: &Submission) -> Result<Submitted, Problem> {
        let submission = (qsub(&self.cell, wanted)?, self.cell.in_records());
        self.client
            .submit(self, wanted, submission, said, |record| {
                // Of an array, its tasks follow: 7.1-3:1.
                record.id = record.id.split('.').next().unwrap_or_default().to_string();
                let number = record.id.parse().unwrap_or(0);
                let asked = self.details(&[number]).ok();
                let Some(details) = asked.and_then(|mut all| all.remove(&number)) else {
                    return;
                };
                let output = details.output(number, &self.user, &self.client.site.home);
                record.output = output.unwrap_or_default();
                record.said = client::promised(details.commitment.as_ref());
                let commitment = details.commitment.map(|commitment| commitment.line());
                record.committed = commitment.unwrap_or_default();
            })
    }

    fn jobs(&self) -> Result<Vec<JobSummary>, Problem> {
        Ok(self.all()?.into_iter().map(|(job, _)| job).collect())
    }

    fn job(&self, key: &str) -> Result<Option<Detail>, Problem> {
        let found = self.all()?.into_iter().find(|(job, _)| job.key == key);
        let Some((job, (number, record))) = found else {
            return Ok(None);
        };
        let known = self.lock().get(&number).cloned().unwrap_or_default();
        let mut facts = vec![("Queue", known.details.queues.join(" "))];
        if job.live && job.state != "ending" {
            // What changes is asked for anew.
            let listed = self.qstat(&["-u", &self.user])?;
            let listed = queue::list(&listed.out).map_err(unread)?.remove(&number);
            let listed = listed.unwrap_or_default();
            if !listed.queues.is_empty() {
                facts[0].1 = listed.queues.into_iter().collect::<Vec<_>>().join(" ");
            }
            if known.details.tasks.is_some() {
                let waiting = match listed.waiting.as_str() {
                    "" => String::new(),
                    tasks => format!(", {tasks} wait"),
                };
                facts.push(("Tasks", format!("{} have begun{waiting}", listed.begun)));
            }
            let fresh = self.details(&[number])?.remove(&number).unwrap_or_default();
            facts.push(("Why it waits", fresh.messages.join("\n")));
        }
        let directory = known.details.directory.as_ref();
        facts.push((
            "Working directory",
            directory.map_or_else(String::new, |path| path.display().to_string()),
        ));
        let of_record = record.as_ref().map(|record| record.output.clone());
        let output = of_record.filter(|file| file.is_absolute()).or_else(|| {
            let seen = known.details.submitted > 0.0 && known.begun.is_some();
            seen.then(|| {
                known
                    .details
                    .output(number, &self.user, &self.client.site.home)
            })?
        });
        let shown = output.as_ref().map(|file| file.display().to_string());
        let name = match known.details.tasks {
            Some(_) => "Output file of the first task",
            None => "Output file",
        };
        facts.push((name, shown.unwrap_or_default()));
        let no_output = "Grid Engine does not say where its output is.";
        Ok(Some(client::detail(
            job,
            record.as_ref(),
            facts,
            output,
            no_output,
        )))
    }

    fn end(&self, ids: &[String]) -> Result<(), Problem> {
        let done = self.cell.program("qdel")?.args(ids).run()?;
        let mut known = self.lock();
        for number in ids.iter().filter_map(|id| id.parse::<u32>().ok()) {
            let is_refused = done.out.contains(&format!("denied: job \"{number}\""));
            if let Some(job) = known.get_mut(&number).filter(|_| !is_refused) {
                job.deleted = true;
            }
        }
        drop(known);
        match done.is_success() {
            true => Ok(()),
            false => Err(said(&done)),
        }
    }
}
