//! Processes that are stopped (SIGSTOP) while they have a lock: nobody waits for them without an end, and who submits is told.

use crate::site::Site;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names a lock to a holder: its kind, a colon, and the file.
const HOLD: &str = "LIBRA_TEST_HOLD";

/// Nothing takes longer here, however busy the machine is; without limits it would be for ever.
const LIMIT: Duration = Duration::from_secs(600);

/// As a holder: takes the lock and stops itself. As a test: takes each kind and gives it back.
#[test]
fn holds() {
    if let Ok(what) = std::env::var(HOLD) {
        let (kind, path) = what.split_once(':').expect("a kind and a file");
        let held = hold(kind, Path::new(path));
        raise(Signal::SIGSTOP).expect("stopped");
        drop(held);
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    drop(hold("flock", &directory.path().join("lock")));
    for kind in ["write", "read"] {
        drop(hold(kind, &directory.path().join("file")));
    }
}

fn hold(kind: &str, path: &Path) -> Box<dyn std::any::Any> {
    if kind == "flock" {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        let lock = Flock::lock(file.expect("opens"), FlockArg::LockExclusive);
        return Box::new(lock.expect("locked"));
    }
    let connection = rusqlite::Connection::open(path).expect("opens");
    let begin = match kind {
        "write" => "BEGIN IMMEDIATE",
        _ => "BEGIN; SELECT COUNT(*) FROM sqlite_master",
    };
    connection.execute_batch(begin).expect("begun");
    Box::new(connection)
}

/// A process that has a lock and is stopped, until it is dropped.
struct Stopped(Child);

impl Stopped {
    fn start(kind: &str, path: &Path) -> Stopped {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "locks::holds", "--nocapture"])
            .env(HOLD, format!("{kind}:{}", path.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let pid = Pid::from_raw(child.id() as i32);
        let status = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("waits");
        assert!(matches!(status, WaitStatus::Stopped(..)), "{status:?}");
        Stopped(child)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn site() -> Site {
    let site = Site::new();
    site.done(&["init"]);
    site.done(&["create", "root"]);
    site.done(&["deposit", "root", "1000000"]);
    site
}

fn live(site: &Site) -> PathBuf {
    let entries = std::fs::read_dir(site.path("live"))
        .expect("reads")
        .flatten();
    let mut paths = entries.map(|entry| entry.path());
    let found = paths.find(|path| path.extension().is_some_and(|e| e == "sqlite"));
    found.expect("a live state")
}

const JOB: [&str; 4] = [
    "-W",
    "deadline=60000,budget=10000,estimate=1000",
    "--",
    "true",
];

/// Five jobs at once, and one after them: exit codes and what was said.
fn submit(site: &Site) -> Vec<(i32, String)> {
    let begun = Instant::now();
    let mut answers: Vec<(i32, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5).map(|_| scope.spawn(|| site.run(&JOB))).collect();
        let answers = threads
            .into_iter()
            .map(|thread| thread.join().expect("an answer"));
        answers.map(|(code, _, err)| (code, err)).collect()
    });
    let (code, _, err) = site.run(&JOB);
    answers.push((code, err));
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    answers
}

/// All are admitted, the stopped one or not. A job waits for a tenth of a second at most, and on a busy machine another one's transaction may
/// take as long: who was told so comes again. Whoever is kept out by one that is stopped would be so each time.
fn assert_admitted(site: &Site, what: &str) {
    let begun = Instant::now();
    loop {
        let answers = submit(site);
        let Some((code, err)) = answers.iter().find(|(code, _)| *code != 0) else {
            return;
        };
        let busy = *code == 3 && err.contains("is locked");
        assert!(busy && begun.elapsed() < LIMIT, "{what}: {code} {err}");
    }
}

#[test]
fn who_makes_the_live_state_and_is_stopped_is_named() {
    let site = site();
    let lock = site.path("live/lock");
    let stopped = Stopped::start("flock", &lock);
    for (code, err) in submit(&site) {
        assert_eq!(code, 3, "{err}");
        assert!(
            err.contains("accounting unavailable") && err.contains("/live/lock is locked"),
            "{err}"
        );
    }
    let begun = Instant::now();
    let (code, _, err) = site.root(&["balance"]);
    assert_eq!((code, err.contains("is locked")), (125, true), "{err}");
    assert!(begun.elapsed() < LIMIT);
    drop(stopped);
    // One of ours writes down who it is.
    let text = format!("{} {}\n", std::process::id(), libra_accounts::unix_millis());
    std::fs::write(&lock, text).expect("as it does");
    let stopped = Stopped::start("flock", &lock);
    let (_, _, err) = site.run(&JOB);
    let us = format!("is locked by process {} (", std::process::id());
    assert!(err.contains(&us), "{err}");
    drop(stopped);
    assert_admitted(&site, "nobody is stopped");
}

#[test]
fn who_changes_the_live_state_and_is_stopped_keeps_jobs_out_for_a_moment_each() {
    let site = site();
    let stopped = Stopped::start("write", &live(&site));
    for (code, err) in submit(&site) {
        assert_eq!(code, 3, "{err}");
        assert!(
            err.contains("accounting unavailable") && err.contains("is locked by another process"),
            "{err}"
        );
    }
    drop(stopped);
    assert_admitted(&site, "nobody is stopped");
    assert!(site.done(&["check"]).starts_with("ok"));
}

#[test]
fn who_writes_down_or_reads_and_is_stopped_keeps_nobody_out() {
    let site = site();
    let ledger = site.path("accounts/ledger.sqlite");
    for (kind, path) in [
        ("write", ledger.clone()),
        ("read", ledger),
        ("read", live(&site)),
    ] {
        let stopped = Stopped::start(kind, &path);
        assert_admitted(&site, &format!("{kind} {}", path.display()));
        drop(stopped);
    }
    assert!(site.done(&["check"]).starts_with("ok"));
    assert!(site.json(&["balance", "root"])[0]["held"] == 0);
}
