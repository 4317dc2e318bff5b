//! Enforcement on the real kernel: the same binary on cgroup v1 (as root) and, by `tests/uml/run`, inside
//! user-mode Linux on cgroup v2.
//!
//! Every test takes one lock, because they measure processor time. Where there are no control groups the
//! tests say so and pass, except in CI (`CI` set) without `LIBRA_TEST_NO_CGROUP=1`.

mod ceiling;
#[path = "../held_in_its_end.rs"]
mod held_in_its_end;
mod killed;
mod measured;
mod processes;
#[path = "../program.rs"]
mod program;
mod roots;
mod without_terms;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libra_cgroup::{
    Enforcement, Enforcer, Error, Group, GroupRecord, Limits, Settings, Signal, Spare, Version,
    open,
};

const PATIENCE: Duration = Duration::from_secs(300);

/// How far a measured share may be from its target.
const TOLERANCE: f64 = 0.02;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An enforcer with a root of its own; everything goes away with it, also after a panic.
struct Stage {
    enforcer: Enforcer,
    settings: Settings,
    records: Mutex<Vec<GroupRecord>>,
    children: Mutex<Vec<Child>>,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// `None` where this host has no control groups for us, which is said in one line.
    fn set(spare: Spare) -> Option<Self> {
        Self::set_below(spare, None)
    }

    /// With a ceiling over all jobs together.
    fn set_below(spare: Spare, ceiling: Option<f64>) -> Option<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Some(format!("libra-test-{}", std::process::id()));
        let settings = Settings {
            spare,
            root,
            ceiling,
            ..Settings::default()
        };
        match open(&settings) {
            Enforcement::Active(enforcer) => Some(Self {
                enforcer,
                settings,
                records: Mutex::default(),
                children: Mutex::default(),
                _turn: turn,
            }),
            Enforcement::None { reason } => {
                eprintln!("not run: enforcement is not tested here: {reason}");
                let excused = std::env::var("LIBRA_TEST_NO_CGROUP").is_ok_and(|v| v == "1");
                assert!(
                    excused || std::env::var_os("CI").is_none(),
                    "set LIBRA_TEST_NO_CGROUP=1 to accept that"
                );
                None
            }
        }
    }

    fn version(&self) -> Version {
        self.enforcer.version()
    }

    fn group(&self, name: &str, processors: f64) -> Group {
        let group = self.enforcer.create(name, &limits(processors)).unwrap();
        self.records.lock().unwrap().push(group.record());
        group
    }

    fn sh(&self, script: &str) -> i32 {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        self.children.lock().unwrap().push(child);
        pid
    }

    /// A job of one busy loop.
    fn busy(&self, name: &str, processors: f64) -> Group {
        let group = self.group(name, processors);
        assert!(group.place(self.sh("while :; do :; done")).unwrap());
        group
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for record in self
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            if let Err(e) = self.enforcer.discard(record, PATIENCE) {
                eprintln!("left behind: {e}");
            }
        }
        for child in self
            .children
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter_mut()
        {
            let _ = child.kill();
            let _ = child.wait();
        }
        if !matches!(
            self.enforcer
                .remove_root_if_empty(&self.enforcer.made_root()),
            Ok(true)
        ) {
            eprintln!("the root of this test is left behind");
        }
    }
}

fn capacity() -> f64 {
    std::thread::available_parallelism().unwrap().get() as f64
}

/// On the last processor, with everybody else of the test: contention is what is tested.
fn limits(processors: f64) -> Limits {
    Limits {
        pinned: Some(vec![capacity() as u32 - 1]),
        ..Limits::new(processors, capacity())
    }
}

/// Processors each group really used over an interval.
fn rates(groups: &[&Group], interval: Duration) -> Vec<f64> {
    let sample = || -> Vec<(Instant, f64)> {
        groups
            .iter()
            .map(|g| (Instant::now(), g.usage().unwrap().seconds))
            .collect()
    };
    let before = sample();
    sleep(interval);
    let after = sample();
    before
        .iter()
        .zip(&after)
        .map(|(b, a)| (a.1 - b.1) / (a.0 - b.0).as_secs_f64())
        .collect()
}

/// The largest relative error; prints what was measured.
fn error(what: &str, rates: &[f64], targets: &[f64]) -> f64 {
    let worst = rates
        .iter()
        .zip(targets)
        .map(|(r, t)| (r / t - 1.0).abs())
        .fold(0.0, f64::max);
    println!(
        "{what}: targets {targets:?}, received {rates:.4?}, worst error {:.2} %",
        worst * 100.0
    );
    worst
}

/// Until one measurement is good, each longer: the machine may be shared with others. What is wrong by itself is wrong in each.
fn within_tolerance(measure: impl Fn(Duration) -> f64) {
    let (start, mut interval) = (Instant::now(), 3);
    let mut errors = Vec::new();
    loop {
        errors.push(measure(Duration::from_secs(interval)));
        if errors.last().is_some_and(|error| *error <= TOLERANCE) {
            return;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "errors {errors:.4?}, none below {TOLERANCE}"
        );
        interval = (interval * 3).min(30);
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.unwrap().contains(") T ")
}

/// True inside user-mode Linux, where the whole control group tree is ours to rearrange.
fn tree_is_ours() -> bool {
    std::env::var("LIBRA_TEST_UML").is_ok_and(|v| v == "1")
}
