//! What the verifier that keeps the book does every second, while qmaster waits for nothing of it: it reads qmaster's records into the book, finds what has
//! ended, and has it paid.

use super::GridEngineError;
use super::poll::{environments, poll};
use super::settings::{complexes, reporting, unfolded, value};
use libra_accounts::budget_gate::BudgetGate;
use libra_accounts::payments::Payments;
use libra_batch::quotes_file::QuotesFile;
use libra_config::{Config, System};
use libra_core::book::figures::{ClusterFigures, Holds};
use libra_gridengine::accounting::Follower;
use libra_gridengine::admission::Admission;
use libra_gridengine::commands::{Cell, CommandError};
use libra_gridengine::deferred::Round;
use libra_gridengine::ends::{Ended, Ends, Watched};
use libra_gridengine::payment::Settler;
use libra_gridengine::records::Records;
use libra_gridengine::starts::{self, START};
use libra_gridengine::watched_files::WatchedFiles;
use libra_metrics::Counts;
use libra_metrics::files::Files;
use libra_system::clock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One of qmaster's commands may take so long when records are read.
const COMMAND: Duration = Duration::from_secs(20);

/// What changes rarely is read so often: parallel environments, and when the accounting file is written.
const RARELY: Duration = Duration::from_secs(30);

/// Accounts that are out of order, or others than those on the disk, are opened again after so long.
const OPEN_AGAIN: Duration = Duration::from_secs(5);

/// What has ended is in the accounting file so many seconds after qmaster has written it down.
const WRITTEN: f64 = 5.0;

/// What submissions and the thread that follows share.
pub struct Shared {
    admission: Mutex<Admission>,
    /// Jobs that were accepted and that the thread does not watch yet.
    accepted: Mutex<Vec<(u32, Watched)>>,
    files: WatchedFiles,
    quotes: Mutex<QuotesFile>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock left whole values.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(config: &Config, files: WatchedFiles, quotes: QuotesFile) -> Shared {
        Shared {
            admission: Mutex::new(Admission::new(config, clock::unix_time())),
            accepted: Mutex::new(Vec::new()),
            files,
            quotes: Mutex::new(quotes),
        }
    }

    /// Judges with `judge`. What was accepted or is held is written down before anybody is told.
    pub fn judged<T>(&self, judge: impl FnOnce(&mut Admission) -> T) -> T {
        let begun = Instant::now();
        let (answer, accepted) = {
            let mut admission = locked(&self.admission);
            let answer = judge(&mut admission);
            admission.count(begun.elapsed());
            (answer, admission.take_accepted())
        };
        self.write_down(accepted);
        self.write_quotes();
        answer
    }

    /// One after the other, each what is held by then: the last one is the newest.
    fn write_quotes(&self) {
        let mut file = locked(&self.quotes);
        let changed = locked(&self.admission).changed_quotes(clock::unix_time());
        if let Some(line) = file.write(changed) {
            log::error!("{line}");
        }
    }

    /// What was held when the book was lost; None once its first records are read.
    fn held_before(&self) -> Option<String> {
        if locked(&self.admission).has_records() {
            return None;
        }
        let read = locked(&self.quotes).read();
        read.unwrap_or_else(|problem| {
            log::error!("{problem}");
            None
        })
    }

    /// What is committed is written down, and watched from now on.
    fn write_down(&self, accepted: Vec<(u32, Watched)>) {
        for (job, watched) in &accepted {
            if let Err(error) = self.files.write(*job, Some(watched)) {
                log::error!(
                    "job {job} is not written down, and known as long as it is queued: {error}"
                );
            }
        }
        locked(&self.accepted).extend(accepted);
    }
}

/// What the thread remembers from round to round.
struct Rounds<'a> {
    cell: &'a Cell,
    config: &'a Config,
    shared: &'a Shared,
    records: Records,
    ends: Ends,
    accounting: Follower,
    /// Seconds after which what has ended is in the accounting file.
    patience: f64,
    /// Ends that are not settled yet.
    ended: Vec<Ended>,
    counts: Counts,
    metrics: Files,
    accounts: Option<Settler>,
    opened: Option<Instant>,
    read_rarely: Option<Instant>,
    /// What was said last of each of them: records, the accounting file, accounts, what may start.
    said: [Option<String>; 4],
}

/// Follows qmaster's records for ever.
pub fn follow(cell: &Cell, config: &Config, shared: &Shared) {
    let mut ends = Ends::default();
    match shared.files.read() {
        Ok((found, problems)) => {
            for (job, watched) in found {
                ends.watch(job, watched);
            }
            for problem in problems {
                log::error!("{problem}");
            }
        }
        Err(error) => {
            log::error!("accepted jobs are only known as long as they are queued: {error}")
        }
    }
    let mut rounds = Rounds {
        cell,
        config,
        shared,
        records: Records::default(),
        ends,
        accounting: Follower::new(&cell.common().join("accounting")),
        patience: WRITTEN,
        ended: Vec::new(),
        counts: Counts::EMPTY,
        metrics: Files::new(System::GridEngine),
        accounts: None,
        opened: None,
        read_rarely: None,
        said: [None, None, None, None],
    };
    loop {
        rounds.round();
        thread::sleep(Duration::from_secs_f64(config.gridengine.interval.0));
    }
}

impl Rounds<'_> {
    fn round(&mut self) {
        self.follow_accounts();
        let polled = poll(self.cell, &mut self.records, COMMAND);
        let is_read = polled.is_ok();
        self.say(
            0,
            "qmaster's records cannot be read",
            polled.err().map(|error| error.to_string()),
        );
        if !is_read {
            return;
        }
        if self.read_rarely.is_none_or(|read| read.elapsed() >= RARELY) {
            self.read_rarely();
        }
        let held = self.shared.held_before();
        let asked = {
            let mut admission = locked(&self.shared.admission);
            let mut lines = admission.take(&self.records, clock::unix_time());
            if let Some(text) = held.filter(|_| admission.has_records()) {
                lines.extend(admission.restore_quotes(&text, clock::unix_time()));
            }
            lines.iter().for_each(|line| log::info!("{line}"));
            admission.ask_deferred(&self.records, &self.ends, clock::unix_time())
        };
        self.shared.write_quotes();
        self.start(asked);
        self.find_ends();
        self.settle();
        for (job, watched) in self.ends.take_changed() {
            if let Err(error) = self.shared.files.write(job, watched) {
                log::error!("job {job}: {error}");
            }
        }
        self.write_metrics();
    }

    /// Jobs whose promises were confirmed may start: written down first, then said to their hosts.
    fn start(&mut self, asked: Round) {
        for line in asked.log {
            log::info!("{line}");
        }
        let accepted = locked(&self.shared.admission).take_accepted();
        self.shared.write_down(accepted);
        for job in asked.given_back {
            self.ends.give_back(job);
        }
        let mut starts = asked.starts;
        let mut failed = None;
        for host in &mut self.records.hosts {
            let before = starts::write(&host.starts);
            host.starts
                .extend(starts.remove(&host.name).unwrap_or_default());
            let jobs = &self.records.jobs;
            host.starts.retain(|start| jobs.contains_key(&start.job));
            let value = starts::write(&host.starts);
            if value == before {
                continue;
            }
            // Hosts are read anew in each round: what they do not say is not confirmed.
            if let Err(error) = say_starts(self.cell, &host.name, value) {
                failed = Some(error.to_string());
            }
        }
        self.say(3, "hosts are not told what may start", failed);
    }

    /// Writes what was counted, where it is time to.
    fn write_metrics(&mut self) {
        let (config, now) = (&self.config.metrics, clock::unix_time());
        let mut said = Vec::new();
        said.extend(
            self.metrics
                .configure(&config.directory, config.interval.0, now),
        );
        if self.metrics.is_due(now) {
            let held = self.accounts.as_ref().and_then(Settler::held);
            let figures = {
                let mut admission = locked(&self.shared.admission);
                self.counts.add(&admission.take_counts());
                let holds = Holds::new(admission.gate().is_on(), held);
                ClusterFigures {
                    holds,
                    ..admission.book().figures(now)
                }
            };
            self.metrics.add(&std::mem::take(&mut self.counts), now);
            said.extend(self.metrics.write(&figures, now));
        }
        for line in said {
            log::info!("{line}");
        }
    }

    /// Says that something goes wrong, or works again, once.
    fn say(&mut self, which: usize, what: &str, problem: Option<String>) {
        if problem != self.said[which] {
            match &problem {
                Some(problem) => log::error!("{what}: {problem}; trying on"),
                None => log::info!("no longer: {what}"),
            }
            self.said[which] = problem;
        }
    }

    fn read_rarely(&mut self) {
        self.read_rarely = Some(Instant::now());
        let environments = environments(self.cell, COMMAND);
        let known = self
            .cell
            .run("qconf", &["-sc"], COMMAND)
            .unwrap_or_default();
        let can_defer = complexes(&known).iter().any(|(name, _)| *name == START);
        {
            let mut admission = locked(&self.shared.admission);
            admission.set_environments(environments);
            admission.set_can_defer(can_defer);
        }
        let conf = self
            .cell
            .run("qconf", &["-sconf"], COMMAND)
            .unwrap_or_default();
        let conf = unfolded(&conf);
        let reporting = reporting(value(&conf, "reporting_params").unwrap_or_default());
        self.patience = reporting.flush_time + WRITTEN;
    }

    /// What has ended since the last round.
    fn find_ends(&mut self) {
        for (job, watched) in locked(&self.shared.accepted).drain(..) {
            self.ends.watch(job, watched);
        }
        let since = self.ends.since();
        // Where nothing is watched nothing is read yet.
        let runs = match since.is_finite() {
            true => {
                let ends = &self.ends;
                (self.accounting).read(since, &|job| ends.jobs().contains_key(&job))
            }
            false => Ok(Vec::new()),
        };
        let (runs, problem) = match runs {
            Ok(runs) => (runs, self.accounting.take_problem()),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        if problem.is_some() || !since.is_finite() {
            self.say(1, "the accounting file cannot be read", problem);
        }
        let found = (self.ends).round(&self.records, runs, self.patience, &mut self.counts);
        for (ended, line) in found {
            log::info!("{line}");
            self.ended.push(ended);
        }
    }

    fn settle(&mut self) {
        if !locked(&self.shared.admission).gate().is_on() {
            for ended in self.ended.drain(..) {
                self.ends.settled(&ended);
            }
            return;
        }
        // While they cannot be opened, what has ended waits.
        let Some(settler) = &mut self.accounts else {
            return;
        };
        let (taken, now) = (self.records.taken, clock::unix_time());
        let problem = match settler.round(&mut self.ends, &mut self.ended, taken, now) {
            Ok(lines) => {
                for line in lines {
                    log::info!("{line}");
                }
                None
            }
            Err(error) => Some(error.to_string()),
        };
        self.say(2, "the accounts cannot be read", problem);
    }

    /// Opens accounts, and opens them again that are out of order or were made anew.
    fn follow_accounts(&mut self) {
        if self
            .opened
            .is_some_and(|opened| opened.elapsed() < OPEN_AGAIN)
        {
            return;
        }
        let is_broken = {
            let admission = locked(&self.shared.admission);
            if self.opened.is_some() && !admission.gate().is_on() {
                return;
            }
            admission.gate().is_broken()
        };
        self.opened = Some(Instant::now());
        // Submissions have accounts of their own, which were opened with these.
        if !is_broken && (self.accounts.as_ref()).is_some_and(|accounts| !accounts.is_stale()) {
            return;
        }
        let on_fault = self.config.gridengine.on_fault;
        let system = System::GridEngine.name();
        let mut gate = BudgetGate::open(self.config, system, on_fault, true);
        // It has found the live state, which its own thread makes.
        let mut payments = match gate.is_broken() {
            true => None,
            false => Payments::open(self.config, system, false).ok().flatten(),
        };
        // Another cell may have the same accounts, and does not know the jobs of this one.
        for payments in [gate.payments(), payments.as_mut()].into_iter().flatten() {
            payments.tell_apart(&self.cell.name);
        }
        self.accounts = payments.map(Settler::new);
        locked(&self.shared.admission).take_accounts(gate);
    }
}

/// Says to qmaster which jobs may start on a host.
fn say_starts(cell: &Cell, host: &str, value: Option<String>) -> Result<(), CommandError> {
    let pair = value.map(|value| format!("{START}={value}"));
    let (how, what) = match &pair {
        Some(pair) => ("-mattr", pair.as_str()),
        None => ("-dattr", START),
    };
    let words = [how, "exechost", "complex_values", what, host];
    cell.run("qconf", &words, COMMAND).map(drop)
}

/// The file of held quotes.
pub fn quotes(place: &std::path::Path) -> QuotesFile {
    QuotesFile::new(&place.join("quotes.json"))
}

/// The directory of what is known of accepted jobs.
pub fn files(place: &std::path::Path) -> Result<WatchedFiles, GridEngineError> {
    let directory = place.join("jobs");
    WatchedFiles::open(&directory).map_err(super::file_error(&directory))
}
