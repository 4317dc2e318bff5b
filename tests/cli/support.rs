//! A host of its own for each test, and what the tests do with it.

use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tests that need a quiet processor run one after the other.
static QUIET: Mutex<()> = Mutex::new(());
/// This host alone: the machine may have batch systems too.
const STATUS: [&str; 4] = ["status", "--json", "--system", "local"];
/// Costs nothing where what is waited for comes; a busy machine may be ten times slower, and a kernel in user mode again.
pub const PATIENCE: Duration = Duration::from_secs(300);
static SITES: AtomicU32 = AtomicU32::new(0);

pub fn quiet() -> MutexGuard<'static, ()> {
    QUIET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A host of its own for one test.
pub struct Site {
    directory: tempfile::TempDir,
    root: String,
}

impl Site {
    pub fn new(more: &str) -> Site {
        Site::with_agent(more, "")
    }

    /// With these lines in `[agent]` as well.
    pub fn with_agent(more: &str, agent: &str) -> Site {
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let root = format!("libra-cli-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().expect("a temporary directory");
        let site = Site { directory, root };
        let registry = site.path("registry");
        let text = format!(
            "{more}\n[cgroup]\nroot = \"{}\"\n[registry]\ndirectory = \"{}\"\n[agent]\ninterval = \"100ms\"\ngrace = \"1s\"\n{agent}\n",
            site.root,
            registry.display()
        );
        fs::write(site.path("libra.toml"), text).expect("a configuration");
        let check = site.libra(&["config", "check"]).output().expect("libra");
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(check.status.success(), "{check:?}");
        assert!(
            !said.contains("NOT enforced"),
            "these tests need root and a writable cpu controller: {said}"
        );
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn libra(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_libra"));
        command
            .arg("--config")
            .arg(self.path("libra.toml"))
            .args(arguments)
            .env_remove("LIBRA_LOG")
            .stdin(Stdio::null());
        command
    }

    /// `libra run` with these terms and this bash script.
    pub fn run(&self, terms: &str, script: &str) -> Command {
        self.libra(&["run", "-W", terms, "--", "bash", "-c", script])
    }

    pub fn start(&self, terms: &str, script: &str) -> Child {
        let before = self.jobs().len();
        let child = self
            .run(terms, script)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("libra");
        wait_for("the job to start", || {
            let jobs = self.jobs();
            jobs.len() > before && jobs.iter().all(|job| job["phase"] != "reserved")
        });
        child
    }

    pub fn report(&self) -> Value {
        let output = self.libra(&STATUS).output().expect("libra");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
    }

    pub fn jobs(&self) -> Vec<Value> {
        self.report()["jobs"].as_array().expect("jobs").clone()
    }

    pub fn job(&self, id: &str) -> Value {
        let jobs = self.jobs();
        let found = jobs.iter().find(|job| job["id"] == id);
        found
            .unwrap_or_else(|| panic!("no job {id}: {jobs:?}"))
            .clone()
    }

    /// Stops the process that leads the control loop, at a moment at which it does not have the registry's lock too: whoever is stopped with
    /// that keeps everybody out for as long as they are patient.
    pub fn stop_leader(&self, leader: &Child) {
        let pid = leader.id();
        wait_for("it to be written down as the leader", || {
            fs::read_to_string(self.path("registry/leader"))
                .is_ok_and(|text| text.trim() == pid.to_string())
        });
        let _lock = locked(&self.path("registry/lock"));
        kill(pid, nix::sys::signal::Signal::SIGSTOP);
        wait_for("all its threads to be stopped", || is_stopped(pid));
    }

    /// Something that a job's script can wait for.
    pub fn gate(&self) -> Gate {
        let path = self.path("gate");
        let _lock = locked(&path);
        Gate { path, _lock }
    }

    /// Numbers of the processes in a job's cgroups.
    pub fn processes(&self, id: &str) -> Vec<String> {
        let files = (self.cgroups().into_iter()).map(|g| g.join(format!("job-{id}/cgroup.procs")));
        let texts = files.filter_map(|file| fs::read_to_string(file).ok());
        texts
            .flat_map(|text| text.lines().map(String::from).collect::<Vec<_>>())
            .collect()
    }

    pub fn cgroups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for mount in fs::read_dir("/sys/fs/cgroup")
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = mount.path().join(&self.root);
            if path.exists() {
                found.push(path);
            }
        }
        let unified = Path::new("/sys/fs/cgroup").join(&self.root);
        found.extend(unified.exists().then_some(unified));
        // Where controllers share a hierarchy, each has a link to it.
        let real = |path: PathBuf| fs::canonicalize(path).ok();
        let mut found: Vec<PathBuf> = found.into_iter().filter_map(real).collect();
        found.sort();
        found.dedup();
        found
    }

    /// No job is left, or is soon; the directory above them may be, where what was made is no longer on record.
    pub fn assert_nothing_left_but_roots(&self) {
        for root in self.cgroups() {
            let jobs = fs::read_dir(&root).into_iter().flatten().flatten();
            for job in jobs.map(|entry| entry.path()).filter(|path| path.is_dir()) {
                // What a busy machine has not ended some seconds after SIGKILL `libra run` leaves to whoever comes next, and there is no record to come by.
                let inside = fs::read_to_string(job.join("cgroup.procs")).unwrap_or_default();
                assert!(!inside.is_empty(), "{} is left, empty", job.display());
                wait_for("its processes to end", || fs::remove_dir(&job).is_ok());
            }
            fs::remove_dir(&root).expect("an empty directory");
        }
    }

    /// Nothing is left, or is soon: a job is written down as ended before the directories above it are removed. What a busy machine has
    /// not ended some seconds after SIGKILL `libra run` leaves to whoever comes next, and says so: that is a round of an agent here.
    pub fn assert_nothing_left(&self) {
        wait_for("no directory of this site to be left", || {
            let none = self.cgroups().is_empty();
            if !none && self.jobs().iter().any(|job| job["phase"] == "ending") {
                let round = self.libra(&["agent", "--once"]).output();
                let round = round.expect("libra");
                assert!(round.status.success(), "{}", stderr(&round));
            }
            none
        });
    }
}

/// Shut until it is opened: what a job waits for where a time would be too short on one machine and too long on another. A lock, since
/// who asks again and again works, in user-mode Linux as much as it may.
pub struct Gate {
    path: PathBuf,
    _lock: Flock<fs::File>,
}

impl Gate {
    pub fn open(self) {}

    /// A command of a shell that ends when the gate is opened.
    pub fn until_open(&self) -> String {
        format!("flock -s {} true", self.path.display())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A test that failed must not leave its jobs behind either.
        let output = self.libra(&STATUS).output();
        let jobs = output
            .ok()
            .and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
        for job in jobs.iter().filter_map(|r| r["jobs"].as_array()).flatten() {
            if job["phase"] != "ended" {
                let id = job["id"].as_str().unwrap_or_default();
                let _ = self.libra(&["cancel", id]).output();
            }
        }
    }
}

/// This file's lock, for as long as it is kept.
fn locked(path: &Path) -> Flock<fs::File> {
    let file = (fs::OpenOptions::new().create(true).append(true).open(path)).expect("a file");
    let lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno);
    lock.expect("a lock")
}

/// A bash loop that uses so many seconds of processor time.
pub fn burn(seconds: f64) -> String {
    format!(
        "while read -r -a s </proc/$BASHPID/stat; (( s[13]+s[14] < {} )); do :; done",
        (seconds * 100.0).round()
    )
}

pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < PATIENCE,
            "after {PATIENCE:?} still not: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns true if this process runs. One that has ended and that its parent has not asked about does not.
pub fn runs(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns true if every thread of this process is stopped by a signal.
fn is_stopped(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task"))
        .expect("a process of ours")
        .all(|thread| {
            thread
                .and_then(|thread| fs::read_to_string(thread.path().join("stat")))
                .is_ok_and(|stat| stat.contains(") T "))
        })
}

/// So often this process has gone to sleep by itself: once in each round of a loop that waits, so that rounds which leave nothing else behind
/// can be counted.
pub fn sleeps(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process of ours");
    let line = (status.lines()).find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let number = line.and_then(|line| line.trim().parse().ok());
    number.expect("a number")
}

pub fn kill(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(pid as i32);
    nix::sys::signal::kill(pid, signal).expect("a process of ours");
}
