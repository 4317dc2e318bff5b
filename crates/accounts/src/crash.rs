//! Points at which a test kills the process on purpose, before and after everything that changes a file.
//!
//! In a release build a point is nothing. In a build with debug assertions, as tests have it, `LIBRA_CRASH_LOG` names a file that gets a
//! line for each point that is passed, and `LIBRA_CRASH_AT` is the number of the one, from 1 on, at which the process kills itself
//! (SIGKILL: nothing is tidied up). `tests/ledger/crashes.rs` kills once at each.

/// A point is passed.
#[cfg(debug_assertions)]
pub(crate) fn point(name: &str) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let (Some(log), at) = (
        std::env::var_os("LIBRA_CRASH_LOG"),
        std::env::var("LIBRA_CRASH_AT"),
    ) else {
        return;
    };
    let number = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    let line = format!("{name}\n");
    let opened = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log);
    let _ = opened.and_then(|mut log| log.write_all(line.as_bytes()));
    if at.is_ok_and(|at| at.parse() == Ok(number)) {
        let us = nix::unistd::Pid::this();
        let _ = nix::sys::signal::kill(us, nix::sys::signal::Signal::SIGKILL);
    }
}

/// A point is passed.
#[cfg(not(debug_assertions))]
pub(crate) fn point(_: &str) {}
