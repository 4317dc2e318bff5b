//! The book of this slurmctld, and the thread that keeps it true.
//!
//! The thread asks slurmctld for its jobs, nodes and partitions, as squeue does, and never holds the book's lock while it
//! asks: slurmctld may be waiting for that lock in a submission.
//!
//! Invariant: a slurmctld that stands by for another one has no book and no accounts, and writes nothing: the one in control does.

use crate::{submission_metrics, times};
use ::log::Level;
use libra_accounts::budget_gate::BudgetGate;
use libra_accounts::names::{user_name, user_number};
use libra_accounts::payments::Payments;
use libra_batch::quotes_file::QuotesFile;
use libra_config::{Config, MetricsConfig, OnFault, last, learned};
use libra_core::book::OLDEST_RECORDS;
use libra_core::book::figures::{ClusterFigures, Holds};
use libra_core::commitment::Commitment;
use libra_slurm::controller::{Answer, Controller, QUOTES_FILE};
use libra_slurm::orders::Order;
use libra_slurm::payment::Settler;
use libra_slurm::poll::{Pin, Prepared};
use libra_slurm::problem::{NotTaken, Problem};
use libra_slurm::records::Records;
use libra_slurm::records::Rewrite;
use libra_slurm::submission::Submission;
use libra_slurm_sys::control::{self, Control};
use libra_slurm_sys::job::{JobDescriptor, version};
use libra_slurm_sys::reader::Reader;
use libra_slurm_sys::{listening, log, queue};
use libra_wording::errors;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Where the configuration is, unless slurmctld's environment says otherwise (`LIBRA_CONFIG`).
const CONFIG: &str = "/etc/libra/libra.toml";

/// Until the queue was read for the first time, it is asked so often.
const FIRST: Duration = Duration::from_millis(100);

/// After a poll that was asked for the next one is at the earliest so much later.
const AT_ONCE: Duration = Duration::from_millis(100);

/// A poll takes at most this part of the time: where it takes long, it is done more rarely.
const SHARE_OF_TIME: u32 = 20;

/// A poll that took longer counts as this long.
const LONGEST_POLL: Duration = Duration::from_millis(100);

/// Accounts that are out of order, or others than those on the disk, are opened again after so long.
const OPEN_AGAIN: Duration = Duration::from_secs(5);

/// A configuration that is gone is complained about so often.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What submissions and the thread share.
struct State {
    controller: Option<Controller>,
    on_fault: OnFault,
    /// There is a configuration, and it cannot be taken: nobody knows the site's rules, not even the one for faults.
    no_rules: bool,
    poll_wanted: bool,
    /// The thread alters jobs, which comes back to this plugin as a change by slurmctld's own user.
    alters: bool,
    /// Which thread is the one to go on: counts up whenever one starts or is to stop.
    generation: u64,
}

static STATE: Mutex<State> = Mutex::new(State {
    controller: None,
    on_fault: OnFault::Refuse,
    no_rules: false,
    poll_wanted: false,
    alters: false,
    generation: 0,
});
static WAKE: Condvar = Condvar::new();

/// What there is of it is behind [`STATE`].
pub struct SyncThread;

fn state() -> MutexGuard<'static, State> {
    // A panic under the lock left whole values: the book is changed by single steps that each hold.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds of Unix time.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_micros() as f64 / 1e6)
}

/// How the book stands; None while nothing is judged, as in a slurmctld that only stands by.
fn figures() -> Option<ClusterFigures> {
    let state = state();
    let controller = state.controller.as_ref()?;
    controller.read_at()?;
    let mut figures = controller.book().figures(now());
    figures.holds = Holds::new(controller.gate().is_on(), None);
    Some(figures)
}

fn refuse(problem: Problem) -> Answer {
    Answer::Refuse(Box::new(NotTaken::from(problem).into()))
}

impl SyncThread {
    /// Starts the thread. A book of before is not taken over: between two starts nobody told it anything.
    pub fn start() {
        let generation = {
            let mut state = state();
            state.controller = None;
            state.generation += 1;
            state.generation
        };
        let begun = std::thread::Builder::new()
            .name("libra".to_string())
            .spawn(move || {
                let mut rounds = Rounds {
                    generation,
                    ..Rounds::default()
                };
                // A panic ends one round, not the thread.
                while state().generation == generation {
                    let round = std::panic::AssertUnwindSafe(|| rounds.round());
                    if std::panic::catch_unwind(round).is_err() {
                        log::write(Level::Error, "fault while reading the queue; going on");
                        rounds.wait(Duration::from_secs(1));
                    }
                }
            });
        match begun {
            Ok(_) => log::write(
                Level::Info,
                &format!(
                    "version {}, for Slurm {}",
                    env!("CARGO_PKG_VERSION"),
                    version()
                ),
            ),
            Err(error) => log::write(
                Level::Error,
                &format!("no thread: {error}; no job with terms will be judged"),
            ),
        }
    }

    /// Tells the thread to end. It is not waited for: it may be asking slurmctld something, which answers only after this.
    /// Its code stays loaded.
    pub fn stop() {
        let mut state = state();
        state.generation += 1;
        WAKE.notify_all();
        drop(state);
        times::report();
        submission_metrics::end(now(), figures);
    }

    /// Answers a submission.
    pub fn submit(submission: &Submission) -> Answer {
        control::is_asked();
        let mut state = state();
        if cfg!(feature = "test-faults")
            && submission.options.iter().any(|(_, value)| value == "666")
        {
            panic!("a test asked for it");
        }
        let now = now();
        let state = &mut *state;
        let Some(controller) = &mut state.controller else {
            return match (submission.has_terms(), state.no_rules) {
                (false, _) => Answer::Pass,
                (true, false) => Answer::NotReady,
                (true, true) => refuse(Problem::NoRules),
            };
        };
        let old = controller
            .read_at()
            .is_some_and(|read| now - read > OLDEST_RECORDS);
        let answer = match (old && submission.has_terms(), state.on_fault) {
            // A question is never queued.
            (true, on_fault) if on_fault == OnFault::Refuse || submission.quote().is_some() => {
                refuse(Problem::OldRecords)
            }
            (true, _) => Answer::Pass,
            (false, _) => controller.submit(submission, now),
        };
        if matches!(answer, Answer::NotReady) {
            // Somebody's name is to be polled up.
            state.poll_wanted = true;
            WAKE.notify_all();
        }
        if submission.quote().is_some() {
            // One that is held, used or given back is written down.
            state.poll_wanted = true;
            WAKE.notify_all();
        }
        // An array waits for its nodes, and what a test holds is missed by others.
        // One that waits with a deferred promise is its user's to release as soon as it was seen.
        if matches!(&answer, Answer::Accept(accepted) if accepted.hold || accepted.begin.is_some() || submission.without_session)
        {
            state.poll_wanted = true;
            WAKE.notify_all();
        }
        if matches!(answer, Answer::Refuse(_) | Answer::Answered(_))
            && controller.book().job_count() > 0
        {
            // What has ended since the last poll is to be noticed before the next try.
            state.poll_wanted = true;
            WAKE.notify_all();
        }
        answer
    }

    /// Checks that this change may be made.
    pub fn change(job: &mut JobDescriptor<'_>, user: u32) -> Result<(), String> {
        // SlurmUser is who slurmctld runs as.
        let administrator = user == 0 || user == libra_slurm_sys::this_user();
        let change = job.change(administrator);
        let mut state = state();
        let Some(controller) = &state.controller else {
            return Ok(());
        };
        let answer = controller.change(&change, now());
        if let Ok(Some(begin)) = answer {
            job.begin_at(begin);
        }
        let lets = |what: &&str| matches!(*what, "Priority" | "StartTime" | "Dependency");
        let is_own = state.alters && user == libra_slurm_sys::this_user();
        if answer.is_ok() && !is_own && change.committed_properties.iter().any(lets) {
            // What waited may start: it is asked anew, at best before it starts.
            state.poll_wanted = true;
            WAKE.notify_all();
        }
        if let Err(reason) = &answer {
            ::log::info!("user {user}: {reason}");
        }
        answer.map(|_| ())
    }

    /// The site's rule for faults.
    pub fn on_fault() -> OnFault {
        state().on_fault
    }
}

/// What a poll finds to be done.
#[derive(Default)]
struct Orders {
    pins: Vec<Pin>,
    rewrites: Vec<Rewrite>,
    orders: Vec<Order>,
    again: bool,
}

/// What the thread remembers from round to round.
#[derive(Default)]
struct Rounds {
    config: Option<(PathBuf, [last::Stamp; 2])>,
    config_problem: Option<String>,
    /// The configuration is gone or cannot be taken, and when that was said last.
    config_gone: Option<(String, Instant)>,
    interval: Duration,
    /// The last problem that was written to the log: one line for each, not one for each round.
    problem: Option<String>,
    /// slurmctld has begun to serve, and may be asked.
    serves: bool,
    control: Control,
    /// As the last round found it; None before the first.
    in_control: Option<bool>,
    /// As configured.
    partitions: Vec<String>,
    report_interval: Duration,
    metrics: MetricsConfig,
    reported: Option<Instant>,
    generation: u64,
    /// As read last.
    rules: Config,
    accounts: Option<Settler>,
    /// When accounts were last opened, tried, or found to be those on the disk.
    opened: Option<Instant>,
    accounts_problem: Option<String>,
    reader: Reader,
    quotes: Option<QuotesFile>,
}

impl Rounds {
    /// Waits, unless somebody asks for a poll or the end comes.
    fn wait(&self, time: Duration) {
        let awaited = WAKE.wait_timeout_while(state(), time, |state| {
            !state.poll_wanted && state.generation == self.generation
        });
        drop(awaited);
    }

    fn round(&mut self) {
        let in_control = self.control.is_ours();
        if self.in_control != Some(in_control) {
            self.change_over(in_control);
        }
        self.follow_config();
        if !in_control {
            return std::thread::sleep(FIRST);
        }
        self.say_config_gone();
        // Who asks for a poll from here on may have changed what this one has looked at already.
        state().poll_wanted = false;
        self.follow_accounts();
        self.serves = self.serves || listening::is_listening();
        if !self.serves {
            return std::thread::sleep(FIRST);
        }
        let begun = Instant::now();
        let Orders {
            pins,
            rewrites,
            orders,
            again,
        } = match self.poll() {
            Ok(found) => {
                if self.problem.take().is_some() {
                    log::write(Level::Info, "the queue is read again");
                }
                found
            }
            Err(problem) => {
                if self.problem.as_ref() != Some(&problem) {
                    log::write(
                        Level::Error,
                        &format!("the queue cannot be read: {problem}; trying on"),
                    );
                    self.problem = Some(problem);
                }
                Default::default()
            }
        };
        self.write_quotes();
        // The first answer of a slurmctld that is just starting takes a second, which says nothing of its cost.
        let took = begun.elapsed().min(LONGEST_POLL);
        let moved = !pins.is_empty() || again;
        state().alters = true;
        for rewrite in &rewrites {
            if let Err(error) = queue::rewrite(rewrite) {
                log::write(Level::Error, &error.to_string());
            }
        }
        for order in &orders {
            let done = match *order {
                Order::Suspend(job) => queue::suspend(job),
                Order::Resume(job) => queue::resume(job),
            };
            if let Err(error) = done {
                log::write(Level::Error, &error.to_string());
            }
        }
        for pin in &pins {
            if let Err(error) = queue::pin(pin) {
                log::write(Level::Error, &error.to_string());
            }
        }
        let ready = {
            let mut state = state();
            state.alters = false;
            state.poll_wanted |= moved;
            state
                .controller
                .as_ref()
                .is_some_and(|controller| controller.read_at().is_some())
        };
        if self.reported.get_or_insert(begun).elapsed() >= self.report_interval {
            self.reported = Some(begun);
            times::report();
        }
        let accounts = &self.accounts;
        let figures = || {
            let mut figures = figures()?;
            let has_accounts = figures.holds != Holds::Off;
            figures.holds = Holds::new(has_accounts, accounts.as_ref().and_then(Settler::held));
            Some(figures)
        };
        for line in submission_metrics::write(&self.metrics, now(), figures) {
            log::write(Level::Info, &line);
        }
        if !ready {
            return self.wait(FIRST);
        }
        // Not at once again, whoever asks: a poll costs slurmctld something.
        std::thread::sleep(AT_ONCE.max(took * SHARE_OF_TIME / 10));
        self.wait(self.interval.max(took * SHARE_OF_TIME));
    }

    /// Begins anew: only the one in control has a book and accounts, and nobody told it anything of the time before.
    fn change_over(&mut self, in_control: bool) {
        // What waits in this host's memory is written down before another host makes its own of the ledger.
        if let Some(Err(error)) = self.accounts.as_ref().map(Settler::write_down) {
            log::write(
                Level::Error,
                &format!("accounts: not written down: {error}"),
            );
        }
        state().controller = None;
        if !in_control && control::is_backup() {
            log::write(
                Level::Info,
                "another slurmctld is in control; this one judges nothing and pays nothing",
            );
        }
        *self = Rounds {
            generation: self.generation,
            control: std::mem::take(&mut self.control),
            in_control: Some(in_control),
            ..Rounds::default()
        };
    }

    fn poll(&mut self) -> Result<Orders, String> {
        let mut reader = std::mem::take(&mut self.reader);
        let polled = match reader.read(now()) {
            // They are of the one that is in control since.
            Ok(_) if !self.control.is_ours() => return Ok(Default::default()),
            Ok(records) => self.take(records),
            Err(error) => Err(error.to_string()),
        };
        self.reader = reader;
        polled
    }

    /// What follows of these records.
    fn take(&mut self, records: &Records) -> Result<Orders, String> {
        let mut prepared = Prepared::new(records, &self.partitions);
        let held = self.find_quotes(&records.state);
        let polled = {
            let mut state = state();
            let Some(controller) = &mut state.controller else {
                return Ok(Default::default());
            };
            let begun = Instant::now();
            controller.take_written_quotes(held);
            let polled = controller.take(&mut prepared, now());
            times::poll(begun);
            polled
        };
        let poll = polled.map_err(|error| errors::book(&error))?;
        let unpaid = self.settle(records, &poll.dropped);
        submission_metrics::add(&poll.counts);
        for line in &poll.log {
            log::write(Level::Info, line);
        }
        Ok(Orders {
            pins: poll.pins,
            rewrites: poll.rewrites,
            orders: poll.orders,
            again: poll.again || unpaid,
        })
    }

    /// What was written down of held quotes before this slurmctld had a book; None once it has one.
    fn find_quotes(&mut self, state_directory: &str) -> Option<String> {
        if self.quotes.is_none() && !state_directory.is_empty() {
            self.quotes = Some(QuotesFile::new(
                &Path::new(state_directory).join(QUOTES_FILE),
            ));
        }
        let has_book =
            (state().controller.as_ref()).is_some_and(|controller| controller.read_at().is_some());
        let read = self.quotes.as_ref().filter(|_| !has_book)?.read();
        read.unwrap_or_else(|problem| {
            log::write(Level::Error, &problem);
            None
        })
    }

    /// Writes down what has changed of them, whether or not the queue could be read. Not under the lock: a disk may take its time.
    fn write_quotes(&mut self) {
        let Some(file) = &mut self.quotes else {
            return;
        };
        let changed =
            (state().controller.as_mut()).and_then(|controller| controller.changed_quotes(now()));
        if let Some(line) = file.write(changed) {
            log::write(Level::Error, &line);
        }
    }

    /// Charges what has ended. The book is not kept meanwhile. Returns true if there are jobs that nobody pays for.
    fn settle(&mut self, records: &Records, dropped: &[Commitment]) -> bool {
        let Some(settler) = &mut self.accounts else {
            return false;
        };
        let problem = match settler.round(records, dropped, now()) {
            Ok(lines) => {
                for line in lines {
                    log::write(Level::Info, &line);
                }
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let unpaid = settler.take_unpaid();
        let any = !unpaid.is_empty();
        if let Some(controller) = &mut state().controller {
            controller.take_unpaid(unpaid);
        }
        if problem != self.accounts_problem {
            if let Some(problem) = &problem {
                log::write(Level::Error, &format!("accounts: {problem}; trying on"));
            }
            self.accounts_problem = problem;
        }
        any
    }

    /// Opens accounts again that are out of order or were made anew, and looks up the names of users who are waiting for it.
    fn follow_accounts(&mut self) {
        let (on, broken, wanted) = {
            let mut state = state();
            let Some(controller) = &mut state.controller else {
                return;
            };
            let gate = controller.gate();
            (gate.is_on(), gate.is_broken(), controller.unknown_users())
        };
        let polled = self.opened.map(|opened| opened.elapsed());
        if on && polled.is_none_or(|ago| ago >= OPEN_AGAIN) {
            // Submissions have accounts of their own, which were opened with these.
            let stale = self.accounts.as_ref().is_none_or(Settler::is_stale);
            match broken || stale {
                true => self.open_accounts(),
                false => self.opened = Some(Instant::now()),
            }
        }
        if !wanted.is_empty() {
            let named: Vec<_> = wanted
                .into_iter()
                .map(|user| (user, user_name(user)))
                .collect();
            if let Some(controller) = &mut state().controller {
                controller.take_users(named);
            }
        }
    }

    fn open_accounts(&mut self) {
        self.opened = Some(Instant::now());
        let gate = BudgetGate::open(&self.rules, "slurm", self.rules.slurm.on_fault, true);
        // It has found the live state, which its own thread makes.
        let payments = match gate.is_broken() {
            true => None,
            false => Payments::open(&self.rules, "slurm", false).ok().flatten(),
        };
        // Those who will most likely ask: nobody waits for a name meanwhile.
        let users = payments.as_ref().and_then(|payments| payments.users().ok());
        let known: Vec<_> = (users.into_iter().flatten())
            .filter_map(|name| Some((user_number(&name)?, Some(name))))
            .collect();
        self.accounts = payments.map(Settler::new);
        if let Some(controller) = &mut state().controller {
            controller.take_users(known);
            controller.take_accounts(gate);
        }
    }

    /// Why other rules count than those of the file, to be said at once and every minute; none: they do.
    fn complain(&mut self, text: Option<String>) {
        if self.config_gone.as_ref().map(|gone| &gone.0) != text.as_ref() {
            let said = Instant::now().checked_sub(SAY_AGAIN);
            self.config_gone = text.map(|text| (text, said.unwrap_or_else(Instant::now)));
        }
    }

    /// Says every minute that the configuration is gone or cannot be taken.
    fn say_config_gone(&mut self) {
        if let Some((text, said)) = &mut self.config_gone {
            if said.elapsed() >= SAY_AGAIN {
                *said = Instant::now();
                log::write(Level::Error, text);
            }
        }
    }

    /// Takes a changed configuration; one that cannot be taken is no reason to stop deciding by the last.
    fn follow_config(&mut self) {
        let path =
            std::env::var_os("LIBRA_CONFIG").map_or_else(|| PathBuf::from(CONFIG), PathBuf::from);
        let now_there = Some((path.clone(), last::stamps(&path)));
        // What could not be read may be readable now, without having changed.
        let was_taken = self.config_problem.is_none() && self.config_gone.is_none();
        if self.config == now_there && was_taken {
            return;
        }
        let first = self.config.is_none();
        self.config = now_there;
        let has_rules = state().controller.is_some();
        // Its copy may be older than what it had: it is root's processes that keep one, and this one is mostly SlurmUser's.
        let read = match has_rules {
            true => last::read_anew(&path).map(|config| (config, None)),
            false => last::read(&path)
                .map(|found| (found.config, found.gone))
                .map_err(|error| error.to_string()),
        };
        let config = match read {
            Ok((config, gone)) => {
                self.complain(gone);
                config
            }
            Err(text) if has_rules => return self.complain(Some(text)),
            Err(error) => {
                state().no_rules = true;
                let problem = format!("no job with terms is judged: {error}");
                if self.config_problem.as_ref() != Some(&problem) {
                    log::write(Level::Error, &problem);
                    self.config_problem = Some(problem);
                }
                return;
            }
        };
        self.config_problem = None;
        self.interval = Duration::from_secs_f64(config.slurm.interval.0);
        self.partitions = config.slurm.partitions.clone();
        self.metrics = config.metrics.clone();
        self.report_interval = Duration::from_secs_f64(config.slurm.report_interval.0);
        {
            let mut state = state();
            match &mut state.controller {
                Some(controller) => controller.configure(&config),
                none => *none = Some(Controller::new(&config, now())),
            }
            state.on_fault = config.slurm.on_fault;
            state.no_rules = false;
        }
        let anew = first || BudgetGate::is_changed(&self.rules, &config) || self.opened.is_none();
        let margin = learned::changed(&self.rules, &config);
        self.rules = config;
        if anew && self.in_control == Some(true) {
            self.open_accounts();
        }
        if !first {
            log::write(
                Level::Info,
                &format!("{} was read anew{margin}", path.display()),
            );
        }
    }
}
