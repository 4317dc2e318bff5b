//! A process held by a file descriptor: what is sent to it cannot reach a later one of the same number.

use nix::sys::signal::Signal;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A process, or what was one: its number may be given away meanwhile, this is still the same.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// The process that has this number now.
    ///
    /// # Errors
    /// ESRCH where there is none, ENOSYS before Linux 5.3, EMFILE and the like.
    pub fn open(pid: i32) -> io::Result<PidFd> {
        // SAFETY: pidfd_open(2) takes two integers and touches no memory of ours.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has opened this descriptor for us this moment, close-on-exec, and nobody else has it.
        Ok(PidFd(unsafe { OwnedFd::from_raw_fd(opened as RawFd) }))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// ESRCH where it has ended.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        let (fd, number) = (self.0.as_raw_fd(), signal as i32);
        // SAFETY: the descriptor is open while self is; a null siginfo makes the kernel fill in that of kill(2).
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                libc::c_long::from(fd),
                libc::c_long::from(number),
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        match sent {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_reaches_the_process_and_never_another() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let process = PidFd::open(child.id() as i32).expect("it runs");
        process.send(Signal::SIGKILL).expect("it is ours");
        assert!(!child.wait().expect("it ended").success());
        let error = process.send(Signal::SIGKILL).expect_err("it is gone");
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
