//! Starting a process inside its cgroup: it is there before its first instruction, so nothing it
//! does or starts can be outside.

use nix::fcntl::OFlag;
use nix::sys::signal::SigSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// What stopped a process from starting.
#[derive(Debug)]
pub enum SpawnError {
    /// It could not be put into its cgroup.
    Place(io::Error),
    /// The program could not be executed.
    Execute(io::Error),
}

/// Starts `command` inside the cgroups whose `cgroup.procs` are given open, with signal mask
/// `mask`.
///
/// # Errors
/// What stopped it; no process is left then.
pub fn spawn_inside(
    command: &mut Command,
    procs: Vec<File>,
    mask: SigSet,
) -> Result<Child, SpawnError> {
    // Tells the two kinds of failure apart: the child says here that it was placed.
    let (placed, tell) =
        nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(|errno| SpawnError::Place(errno.into()))?;
    let (mut placed, mut tell) = (File::from(placed), File::from(tell));
    let place = move || -> io::Result<()> {
        for mut file in &procs {
            // "0" is the writing process itself.
            file.write_all(b"0\n")?;
        }
        tell.write_all(b"1")?;
        mask.thread_set_mask()?;
        Ok(())
    };
    // SAFETY: between fork and exec only write(2) and sigprocmask(2) are called, on memory made before.
    let spawned = unsafe { command.pre_exec(place) }.spawn();
    // Drops the closure and with it our writing end, so that the read below ends.
    *command = Command::new("");
    spawned.map_err(|error| {
        let mut said = [0];
        match placed.read(&mut said) {
            Ok(1) => SpawnError::Execute(error),
            _ => SpawnError::Place(error),
        }
    })
}

/// Has `command` start in a session of its own, so that it outlives the terminal of who started it.
pub fn in_session_of_its_own(command: &mut Command) -> &mut Command {
    let leave = || nix::unistd::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec only setsid(2) is called.
    unsafe { command.pre_exec(leave) }
}

/// Takes SIGCHLD back to its default action.
///
/// # Errors
/// What the system said.
pub fn default_sigchld() -> nix::Result<()> {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is installed or replaced that anybody could be inside of.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(|_| ())
}
