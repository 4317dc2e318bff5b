//! Running an accepted job from its start to its end.
//!
//! The job is in its cgroup before its first instruction. Its input, output and terminal are the
//! caller's own; signals sent to this process go on to it; when its first process ends, whatever
//! is left in the cgroup is killed.

use super::control::{ControlLoop, Round};
use super::ending::{Over, PATIENCE};
use super::entry::Exit;
use super::entry::{Entry, Phase, Process};
use super::submit::Accepted;
use super::{Host, HostError, used};
use libra_cgroup::Group;
use libra_core::decision::class::Class;
use libra_system::clock;
use libra_system::spawn::{SpawnError, default_sigchld, spawn_inside};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

/// Signals that go on to the job when somebody sends them to us.
const FORWARDED: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// Those of them that end a job which says nothing about them.
const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
];

/// Why a job did not start.
enum StartError {
    NotExecuted(io::Error),
    Host(HostError),
}

impl From<HostError> for StartError {
    fn from(error: HostError) -> StartError {
        StartError::Host(error)
    }
}

/// What became of a job.
#[derive(Debug)]
pub enum Outcome {
    /// It ran and ended.
    Ended(Box<Entry>, Exit),
    /// Its program could not be executed.
    NotExecuted(io::Error),
}

/// Signals held back for [`SignalFd`] while this lives; as they were, afterwards.
struct HeldBack {
    before: SigSet,
    fd: SignalFd,
}

impl HeldBack {
    fn new() -> nix::Result<HeldBack> {
        let mut set = SigSet::empty();
        for signal in FORWARDED {
            set.add(signal);
        }
        set.add(Signal::SIGCHLD);
        // A caller may have had it ignored, and then nobody would learn how the job ended.
        default_sigchld()?;
        let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(HeldBack { before, fd })
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // What could fail here could not be mended either.
        let _ = self.before.thread_set_mask();
    }
}

fn system(action: &'static str) -> impl Fn(nix::errno::Errno) -> HostError {
    move |errno| HostError::System {
        action,
        error: errno.into(),
    }
}

impl Host {
    /// Runs `command` as the accepted job and waits for its end.
    ///
    /// A registry that fails while the job runs or when it has ended is logged and changes nothing
    /// about the job.
    ///
    /// # Errors
    /// When the job could not be started or watched over; nothing of it runs on then.
    pub fn run(&self, accepted: Accepted, command: &[OsString]) -> Result<Outcome, HostError> {
        let Accepted {
            mut entry, group, ..
        } = accepted;
        let held_back = HeldBack::new().map_err(system("hold back signals"))?;
        let mut child = match self.start(&mut entry, group.as_ref(), command, held_back.before) {
            Ok(child) => child,
            Err(error) => {
                let released = self.release(&entry, group, PATIENCE);
                let lock = self.registry.lock()?;
                if released {
                    self.count(&lock, |counts| counts.end(libra_metrics::Outcome::Failed));
                    self.give_back_payment(&entry, clock::unix_time());
                    // It never ran, so there is nothing to report.
                    self.registry.remove(&entry.id)?;
                    self.remove_roots()?;
                } else {
                    let over = Over {
                        used: 0.0,
                        exit: None,
                        at: clock::since_boot(),
                    };
                    self.write_ending(&lock, entry, over, false)?;
                }
                return match error {
                    StartError::NotExecuted(error) => Ok(Outcome::NotExecuted(error)),
                    StartError::Host(error) => Err(error),
                };
            }
        };
        // After the start: the job keeps the limit that it was given.
        raise_file_limit();
        let watched = self.watch(&entry, group.as_ref(), &mut child, &held_back.fd);
        let at = clock::since_boot();
        if watched.is_err() {
            // Unwatched it would run on beyond what was promised.
            let _ = child.kill();
            let _ = child.wait();
        }
        let exit = watched.as_ref().map_or(Exit::default(), |status| Exit {
            code: status.code(),
            signal: status.signal(),
        });
        let over = Over {
            used: used(&entry, group.as_ref()),
            exit: Some(exit),
            at,
        };
        let released = self.release(&entry, group, PATIENCE);
        let written = self
            .registry
            .lock()
            .map_err(HostError::from)
            .and_then(|lock| self.write_ending(&lock, entry.clone(), over, released));
        let entry = written.unwrap_or_else(|error| {
            log::error!("job {}: its end is not in the registry: {error}", entry.id);
            entry
        });
        watched?;
        Ok(Outcome::Ended(Box::new(entry), exit))
    }

    /// Starts the job's first process and writes it down.
    fn start(
        &self,
        entry: &mut Entry,
        group: Option<&Group>,
        command: &[OsString],
        mask: SigSet,
    ) -> Result<Child, StartError> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(StartError::NotExecuted(io::ErrorKind::InvalidInput.into()));
        };
        let procs = match group {
            Some(group) => group.procs_files().map_err(HostError::from)?,
            None => Vec::new(),
        };
        let mut process = Command::new(program);
        process.args(arguments).env("LIBRA_JOB_ID", &entry.id);
        let mut child = spawn_inside(&mut process, procs, mask).map_err(|error| match error {
            SpawnError::Execute(error) => StartError::NotExecuted(error),
            SpawnError::Place(error) => StartError::Host(HostError::System {
                action: "put the job into its cgroup",
                error,
            }),
        })?;
        entry.phase = Phase::Running;
        entry.started = Some(clock::since_boot());
        entry.leader = Process::find(child.id() as i32);
        let written = self.registry.lock().and_then(|_lock| {
            // A cancel that came in between must not be undone.
            if let Ok(Some(written)) = self.registry.read(&entry.id) {
                entry.cancelled = written.cancelled;
            }
            self.registry.write(entry)
        });
        if let Err(error) = written {
            // It runs, and is held to its share; only others see less of it.
            log::error!(
                "job {}: its start is not in the registry: {error}",
                entry.id
            );
        }
        if entry.cancelled {
            let _ = child.kill();
        }
        Ok(child)
    }

    /// Waits for the end of the job's first process; meanwhile passes signals on and, where nobody
    /// else does, runs the control loop of the host.
    fn watch(
        &self,
        entry: &Entry,
        group: Option<&Group>,
        child: &mut Child,
        signals: &SignalFd,
    ) -> Result<ExitStatus, HostError> {
        let interval = self.config.agent.interval.0.min(3600.0);
        let mut next = clock::since_boot() + interval.min(0.1);
        let mut control: Option<ControlLoop<'_>> = None;
        loop {
            while let Some(signal) = signals.read_signal().map_err(system("read signals"))? {
                pass_on(entry, child, signal.ssi_signo as i32, signal.ssi_code);
                self.let_heed(entry, group, signal.ssi_signo as i32);
            }
            let ended = child.try_wait().map_err(|error| HostError::System {
                action: "wait for the job",
                error,
            })?;
            if let Some(status) = ended {
                return Ok(status);
            }
            let now = clock::since_boot();
            if now >= next {
                next = now + interval;
                // The next round may be luckier; the job runs on at the share it has.
                if let Err(error) = self.lead_a_round(&mut control) {
                    log::warn!("{error}");
                }
            }
            let pause = ((next - clock::since_boot()).max(0.0) * 1000.0).ceil() as u16;
            let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::from(pause.min(60_000))) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(system("wait for signals")(errno)),
            }
        }
    }
}

impl Host {
    /// A job that stands still heeds no signal: one that is to end it, whoever has sent it, lets it go on for good.
    fn let_heed(&self, entry: &Entry, group: Option<&Group>, number: i32) {
        let ends = Signal::try_from(number).is_ok_and(|signal| ENDING.contains(&signal));
        let (true, Class::BestEffort, Some(group)) = (ends, entry.class(), group) else {
            return;
        };
        let written =
            self.registry
                .lock()
                .and_then(|_lock| match self.registry.read(&entry.id)? {
                    Some(mut written) if written.is_same(entry) && !written.asked_to_end => {
                        written.asked_to_end = true;
                        self.registry.write(&written)
                    }
                    _ => Ok(()),
                });
        if let Err(error) = written {
            log::warn!("job {}: {error}", entry.id);
        }
        if let Err(error) = group.freeze(false) {
            log::warn!("job {}: {error}", entry.id);
        }
    }

    /// One round of the control loop, where this process leads or may lead. None if another does.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn lead_a_round<'a>(
        &'a self,
        control: &mut Option<ControlLoop<'a>>,
    ) -> Result<Option<Round>, HostError> {
        if control
            .as_ref()
            .is_some_and(|control| !control.still_leads())
        {
            *control = None;
        }
        if control.is_none() {
            *control = ControlLoop::try_lead(self)?;
        }
        control.as_mut().map(ControlLoop::round).transpose()
    }
}

fn pass_on(entry: &Entry, child: &Child, number: i32, code: i32) {
    let Ok(signal) = Signal::try_from(number) else {
        return;
    };
    // What the terminal sends, it sends to the whole foreground group: the job has it already.
    let from_a_process = code <= 0;
    if signal == Signal::SIGCHLD || !from_a_process {
        return;
    }
    if let Err(errno) = kill(Pid::from_raw(child.id() as i32), signal) {
        log::debug!("job {}: {signal} was not passed on: {errno}", entry.id);
    }
}

/// Lets this process open as many files as it may: the control loop keeps up to eight for each job.
pub fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(errno) = raised {
        log::warn!("the limit of open files stays as it is: {errno}");
    }
}

/// Keeps this process from dumping core when it ends by its job's signal.
///
/// # Errors
/// What the system said.
pub fn forbid_core_dump() -> nix::Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
}
