//! Files that are written here to be executed, beside programs that are started here.
//!
//! What is forked has all open files until its own exec, and a file that anybody has open for writing cannot be executed (ETXTBSY): a script that is
//! written while another thread starts a program might fail to start, for as long as that program's exec takes. So one waits for the other.

use std::io;
use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

static FORKS: RwLock<()> = RwLock::new(());

/// Until it is dropped nothing is started: to be kept from before such a file is opened until it is closed.
pub(super) fn nothing_starts() -> RwLockWriteGuard<'static, ()> {
    FORKS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program, while no file is written that is to be executed. It has come to its exec when this returns.
///
/// # Errors
/// As [`Command::spawn`].
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _forks = FORKS.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::super::records;
    use super::*;

    #[test]
    fn what_is_written_beside_forks_starts() {
        let directory = tempfile::tempdir().expect("a directory");
        let at_once = |thread: usize| {
            for round in 0..50 {
                let script = directory.path().join(format!("{thread}-{round}"));
                records::write(&script, b"#!/bin/sh\nexit 0\n", 0o700).expect("written");
                let started = spawn(&mut Command::new(&script));
                let status = started.expect("it starts").wait().expect("a child");
                assert!(status.success(), "{status}");
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || at_once(thread));
            }
        });
    }
}
