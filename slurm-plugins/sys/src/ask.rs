//! A question to slurmctld from a node's hooks, asked by a process of its own.
//!
//! libslurm waits for slurmctld and for its authentication as long as it is configured to, a minute and more; where it was not
//! initialised, cannot load a plugin or finds no configuration it ends the process (`fatal`), and what ends a prolog with
//! anything but 0 drains the node: `slurmstepd spank prolog` of 23.11 and later initialises nothing. All that
//! stays in a child, which is given a time and then killed.
//!
//! Invariants: the answer comes in time or is none; the child never runs any code of the parent's after it, and is gone or
//! killed when [`job`] returns.

use crate::{queue, slurm};
use libra_slurm::claim::ControllerRecord;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

/// slurmctld that did not answer (it is just being restarted) is asked again so much later, and the later the longer it has been silent: a cluster of nodes asks.
const AGAIN: Duration = Duration::from_millis(500);

/// A job that was held and has just been let go is asked anew by slurmctld's plugin, with its next poll of the queue. So long it is waited for.
const UNDECIDED: Duration = Duration::from_secs(2);

/// Time that a killed child has to go; one that waits for a device is left behind.
const GONE: Duration = Duration::from_secs(1);

/// The longest answer: an admin comment is what Slurm lets into a message, and a line of ours at most some hundred kilobytes.
const LONGEST: u64 = 1 << 20;

/// What slurmctld has on record of a job; `here`: Slurm's name of this node. None if it does not say within `patience`.
pub fn job(number: u32, here: &str, patience: Duration) -> Option<ControllerRecord> {
    let until = Instant::now() + patience;
    let mut ends = [0; 2];
    // SAFETY: two places for two descriptors, which are ours from then on.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        log::error!(
            "slurmctld is not asked: {}",
            std::io::Error::last_os_error()
        );
        return None;
    }
    // SAFETY: just made, and in nobody else's hands.
    let (from, to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    let own = std::process::id();
    // SAFETY: the child only calls `child`, which never returns.
    match unsafe { libc::fork() } {
        -1 => {
            log::error!(
                "slurmctld is not asked: {}",
                std::io::Error::last_os_error()
            );
            None
        }
        0 => {
            drop(from);
            child(own, number, here, to, until)
        }
        pid => {
            drop(to);
            let answer = read(from, until);
            end(pid);
            if answer.is_none() {
                log::error!(
                    "slurmctld did not say what it has of job {number} within {} s",
                    patience.as_secs()
                );
            }
            answer
        }
    }
}

/// The child: asks until there is an answer. Whoever waits for it ends it, or its time is up.
fn child(asking: u32, number: u32, here: &str, mut to: File, until: Instant) -> ! {
    let began = Instant::now();
    let asked = catch_unwind(move || {
        // SAFETY: they take numbers; the child is to go with who asked, also where that is killed.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // It may have gone before that was said.
        if std::os::unix::process::parent_id() != asking {
            return;
        }
        // SAFETY: null is the site's own configuration. Doing it twice does nothing.
        unsafe { slurm::slurm_init(std::ptr::null()) };
        let mut undecided_since = None;
        while Instant::now() < until {
            let decided = |record: &ControllerRecord| {
                let undecided = matches!(record, ControllerRecord::Job(job) if job.is_undecided());
                // Not before it has answered at all: it judges with its own polls.
                let since = *undecided_since.get_or_insert_with(Instant::now);
                !undecided || since.elapsed() > UNDECIDED
            };
            if let Some(record) = queue::record(number, here).filter(decided) {
                let _ = to.write_all(record.to_text().as_bytes());
                return;
            }
            std::thread::sleep(AGAIN.max(began.elapsed() / 8));
        }
    });
    // SAFETY: it takes a number. Nothing of the parent's is run or flushed a second time.
    unsafe { libc::_exit(i32::from(asked.is_err())) }
}

/// Everything until the other end is closed, if that is in time.
fn read(mut from: File, until: Instant) -> Option<ControllerRecord> {
    let mut text = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut wanted = libc::pollfd {
            fd: from.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one descriptor, ours, and a place for what was seen of it.
        match unsafe { libc::poll(&raw mut wanted, 1, milliseconds) } {
            0 => return None,
            -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => continue,
            -1 => return None,
            _ => {}
        }
        let mut part = [0; 4096];
        match from.read(&mut part) {
            Ok(0) => return ControllerRecord::from_text(std::str::from_utf8(&text).ok()?),
            Ok(count) => text.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        if text.len() as u64 > LONGEST {
            return None;
        }
    }
}

/// Ends the child, and takes it off the list of processes.
fn end(pid: libc::pid_t) {
    let until = Instant::now() + GONE;
    // SAFETY: a child of ours that nobody else waits for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    loop {
        // SAFETY: as above; no status is wanted.
        let gone = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        if gone != 0 || Instant::now() > until {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
