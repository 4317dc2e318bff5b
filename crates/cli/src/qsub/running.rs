//! Running the real qsub: in place of this process where there is nothing to add, else below it.

use super::find::Real;
use super::verdict;
use crate::run::pass_through;
use crate::{Done, Failure, exit};
use libra_host::HostError;
use libra_host::entry::Exit;
use libra_system::spawn::{SpawnError, default_sigchld, spawn_inside};
use libra_terminal::say;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};

/// Set for a qsub that PATH alone names, to the process that calls it: should that be a copy of
/// this program, it notices.
const CALLER: &str = "LIBRA_QSUB_CALLER";

/// Signals that go on to qsub.
const FORWARDED: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Checks that this very program called itself.
///
/// # Errors
/// That it did.
pub fn not_in_a_circle() -> Result<(), Failure> {
    let Ok(caller) = std::env::var(CALLER) else {
        return Ok(());
    };
    let us = [nix::unistd::getpid(), nix::unistd::getppid()];
    if us.iter().any(|pid| pid.to_string() == caller) {
        return Err(Failure::Usage(
            "the only qsub in PATH is Libra's own; set PBS_EXEC in the file that PBS_CONF_FILE \
             names, or in /etc/pbs.conf"
                .to_string(),
        ));
    }
    Ok(())
}

/// A call of the real qsub.
pub struct Call {
    pub real: Real,
    pub arguments: Vec<Vec<u8>>,
    /// What it reads, where that is not what this process has.
    pub input: Option<File>,
}

impl Call {
    fn command(self) -> (Command, Real) {
        let mut command = Command::new(&self.real.path);
        command
            // Its messages carry the name by which it was called.
            .arg0("qsub")
            .args(self.arguments.iter().map(|word| OsStr::from_bytes(word)));
        if let Some(input) = self.input {
            command.stdin(Stdio::from(input));
        }
        if self.real.by_path_alone {
            command.env(CALLER, std::process::id().to_string());
        }
        (command, self.real)
    }

    /// Becomes the real qsub.
    pub fn replace(self) -> Done {
        let (mut command, real) = self.command();
        let error = command.exec();
        Ok(not_executed(&real, &error))
    }

    /// Runs the real qsub, passes on what it prints, and says what Libra decided as soon as there
    /// is a job. `at` is the server that the job went to, where the user named one.
    pub fn watch(self, at: Option<&[u8]>) -> Done {
        let before = hold_back();
        let (mut command, real) = self.command();
        command.stdout(Stdio::piped());
        let (mask, signals) = match before {
            Ok(held) => held,
            Err(errno) => return Err(system("hold back signals")(errno.into())),
        };
        let mut child = match spawn_inside(&mut command, Vec::new(), mask) {
            Ok(child) => child,
            Err(SpawnError::Execute(error) | SpawnError::Place(error)) => {
                return Ok(not_executed(&real, &error));
            }
        };
        let watched = watch(&mut child, &signals, &mut |job| {
            let info = verdict::ask(&real.path, job, at, mask);
            if let Some(info) = info {
                say(format_args!("libra: {info}"));
            }
        });
        let _ = mask.thread_set_mask();
        watched.map(pass_through).map_err(system("wait for qsub"))
    }
}

fn system(action: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| HostError::System { action, error }.into()
}

fn not_executed(real: &Real, error: &io::Error) -> ExitCode {
    say(format_args!("libra: {}: {error}", real.path.display()));
    ExitCode::from(exit::NOT_EXECUTABLE)
}

/// Holds the signals back that are to be passed on; also the mask from before.
fn hold_back() -> nix::Result<(SigSet, SignalFd)> {
    let mut set = SigSet::empty();
    for signal in FORWARDED {
        set.add(signal);
    }
    set.add(Signal::SIGCHLD);
    default_sigchld()?;
    let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    Ok((before, signals))
}

/// Passes on output and signals until qsub has ended.
fn watch(child: &mut Child, signals: &SignalFd, job: &mut dyn FnMut(&str)) -> io::Result<Exit> {
    let mut output = child.stdout.take();
    let mut first_line = Some(Vec::new());
    loop {
        while let Some(signal) = signals.read_signal()? {
            pass_on(child, signal.ssi_signo as i32, signal.ssi_code);
        }
        // Somebody else may have inherited its output; whoever has ended says no more.
        let ended = child.try_wait()?;
        let waiting = ended.is_none();
        let Some(out) = &mut output else {
            if let Some(status) = ended {
                return Ok(Exit {
                    code: status.code(),
                    signal: status.signal(),
                });
            }
            poll_once(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], true)?;
            continue;
        };
        let mut fds = [
            PollFd::new(out.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        poll_once(&mut fds, waiting)?;
        let ready = fds[0].revents().is_some_and(|events| !events.is_empty());
        if !ready {
            if !waiting {
                output = None;
            }
            continue;
        }
        let mut buffer = [0; 4096];
        let length = match out.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        if length == 0 {
            output = None;
            continue;
        }
        let text = &buffer[..length];
        // Who should read it may have gone; the job is there all the same.
        let mut stdout = io::stdout();
        let _ = stdout.write_all(text).and_then(|()| stdout.flush());
        if let Some(line) = &mut first_line {
            line.extend_from_slice(text);
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                if let Some(id) = verdict::job_id(&line[..end]) {
                    job(id);
                }
                first_line = None;
            }
        }
    }
}

fn poll_once(fds: &mut [PollFd<'_>], wait: bool) -> io::Result<()> {
    let timeout = if wait {
        PollTimeout::NONE
    } else {
        PollTimeout::ZERO
    };
    match poll(fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn pass_on(child: &Child, number: i32, code: i32) {
    let Ok(signal) = Signal::try_from(number) else {
        return;
    };
    // What the terminal sends, it sends to qsub as well.
    let from_a_process = code <= 0;
    if signal != Signal::SIGCHLD && from_a_process {
        let _ = kill(Pid::from_raw(child.id() as i32), signal);
    }
}
