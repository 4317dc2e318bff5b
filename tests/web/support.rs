//! A `libra web` of its own for each test.

use crate::client::{Browser, PATIENCE, Page};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static SITES: AtomicU32 = AtomicU32::new(0);

const MARK: &str = "deadline=60000,budget=unlimited,estimate=1000";

/// A host of its own with a page.
pub struct Site {
    pub directory: tempfile::TempDir,
    web: Child,
    page: Page,
    /// The name of its cgroup.
    root: String,
}

impl Deref for Site {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl Site {
    pub fn new() -> Site {
        Site::with(&[])
    }

    pub fn with(options: &[&str]) -> Site {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let root = format!("libra-webtest-{}-{number}", std::process::id());
        let text = format!(
            "[cgroup]\nroot = \"{root}\"\n[registry]\ndirectory = \"{}\"\n[agent]\ninterval = \"100ms\"\ngrace = \"1s\"\n",
            directory.path().join("registry").display()
        );
        fs::write(directory.path().join("libra.toml"), text).expect("a configuration");
        fs::create_dir(directory.path().join("work")).expect("a directory");
        let (web, url) = start(&directory, options);
        let page = Page {
            url,
            work: directory.path().join("work"),
        };
        Site {
            directory,
            web,
            page,
            root,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn libra(&self, words: &[&str]) -> Command {
        command(&self.directory, words)
    }

    pub fn jobs(&self) -> Vec<Value> {
        let done = self
            .libra(&["status", "--json", "--system", "local"])
            .output()
            .expect("libra");
        let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        report["jobs"].as_array().expect("jobs").clone()
    }

    /// Waits until the page has asked anew which jobs there are: what it shows may be as old as seconds. A job that began after all that
    /// happened before is on its list.
    pub fn wait_until_asked_anew(&self, browser: &Browser<'_>) {
        let name = format!("mark-{}", SITES.fetch_add(1, Ordering::Relaxed));
        let words = ["run", "-q", "--name", &name, "-W", MARK, "--", "true"];
        let done = self.libra(&words).output().expect("libra");
        assert!(done.status.success(), "{done:?}");
        wait_until("the page has asked anew", || {
            browser.get("jobs").body.contains(&name)
        });
    }

    /// Waits for its end by itself; the exit code.
    pub fn ended(&mut self, patience: Duration) -> Option<i32> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(status) = self.web.try_wait().expect("a child") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// The most memory that it has had so far, in KiB.
    pub fn memory(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.web.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.expect("a number")
    }

    pub fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.web.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("our child");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for job in self.jobs() {
            if job["phase"] != "ended" {
                let id = job["id"].as_str().unwrap_or_default().to_string();
                let _ = self.libra(&["cancel", &id]).output();
            }
        }
        let _ = self.web.kill();
        let _ = self.web.wait();
        // Who ran the last job removes its cgroup after the end is written down, and not without the registry, which goes next.
        let end = Instant::now() + PATIENCE;
        let is_there = |mount: &str| Path::new(mount).join(&self.root).exists();
        while ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"]
            .into_iter()
            .any(is_there)
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn command(directory: &tempfile::TempDir, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_libra"));
    command
        .arg("--config")
        .arg(directory.path().join("libra.toml"))
        .args(words)
        .current_dir(directory.path().join("work"))
        .env("HOME", directory.path().join("home"))
        .env_remove("XDG_STATE_HOME")
        .env_remove("LIBRA_LOG")
        .stdin(Stdio::null());
    command
}

fn start(directory: &tempfile::TempDir, options: &[&str]) -> (Child, String) {
    let mut web = command(directory, &["--json", "web", "--system", "local"])
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .expect("libra web");
    let mut line = String::new();
    let out = web.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let json: Value = serde_json::from_str(&line).expect("JSON");
    (web, json["url"].as_str().expect("an address").to_string())
}
