//! The command line on the real host: real cgroups, real processes, real time.
//!
//! Each test has its own registry and its own cgroup root and removes both. Run as root with a
//! writable cpu controller; without one the tests that need it fail and say so.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tests that need a quiet processor run one after the other.
static QUIET: Mutex<()> = Mutex::new(());
static SITES: AtomicU32 = AtomicU32::new(0);

fn quiet() -> MutexGuard<'static, ()> {
    QUIET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A host of its own for one test.
struct Site {
    directory: tempfile::TempDir,
    root: String,
}

impl Site {
    fn new(more: &str) -> Site {
        let number = SITES.fetch_add(1, Ordering::Relaxed);
        let root = format!("libra-cli-{}-{number}", std::process::id());
        let directory = tempfile::tempdir().expect("a temporary directory");
        let site = Site { directory, root };
        let registry = site.path("registry");
        let text = format!(
            "{more}\n[cgroup]\nroot = \"{}\"\n[registry]\ndirectory = \"{}\"\n[agent]\ninterval = \"100ms\"\ngrace = \"1s\"\n",
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

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn libra(&self, arguments: &[&str]) -> Command {
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
    fn run(&self, terms: &str, script: &str) -> Command {
        self.libra(&["run", "-W", terms, "--", "bash", "-c", script])
    }

    fn start(&self, terms: &str, script: &str) -> Child {
        let before = self.jobs().len();
        let child = self
            .run(terms, script)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("libra");
        wait_for("the job to start", || {
            let jobs = self.jobs();
            jobs.len() > before && jobs.last().is_some_and(|job| job["phase"] != "reserved")
        });
        child
    }

    fn report(&self) -> Value {
        let output = self.libra(&["status", "--json"]).output().expect("libra");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
    }

    fn jobs(&self) -> Vec<Value> {
        self.report()["jobs"].as_array().expect("jobs").clone()
    }

    fn job(&self, id: &str) -> Value {
        let jobs = self.jobs();
        let found = jobs.iter().find(|job| job["id"] == id);
        found
            .unwrap_or_else(|| panic!("no job {id}: {jobs:?}"))
            .clone()
    }

    fn cgroups(&self) -> Vec<PathBuf> {
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
        found
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.cgroups(), Vec::<PathBuf>::new());
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A test that failed must not leave its jobs behind either.
        let output = self.libra(&["status", "--json"]).output();
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

/// A bash loop that uses so many seconds of processor time.
fn burn(seconds: f64) -> String {
    format!(
        "while read -r -a s </proc/$BASHPID/stat; (( s[13]+s[14] < {} )); do :; done",
        (seconds * 100.0).round()
    )
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "waited for {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Does this process run? One that has ended and that its parent has not asked about does not.
fn runs(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
}

fn kill(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(pid as i32);
    nix::sys::signal::kill(pid, signal).expect("a process of ours");
}

#[test]
fn a_quote_says_price_share_and_verdict_or_what_would_be_accepted() {
    let site = Site::new("[node]\nprocessors = 1");
    let quote = |terms: &str| {
        let output = site.libra(&["quote", "-W", terms]).output().expect("libra");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = quote("deadline=20,budget=15,estimate=10");
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("52.5 % of a processor") && text.contains("10.5 of 15"),
        "{text}"
    );

    let (code, text) = quote("deadline=20,budget=10,estimate=10");
    assert_eq!(code, Some(3));
    assert!(
        text.contains("refused (budget)") && text.contains("budget=10.5"),
        "{text}"
    );

    let (code, text) = quote("deadline=8,budget=15,estimate=10");
    assert_eq!(code, Some(3));
    assert!(
        text.contains("refused (deadline)") && text.contains("deadline=10.5"),
        "{text}"
    );

    let output = site
        .libra(&[
            "quote",
            "--json",
            "--estimate=10",
            "--deadline=1m",
            "--budget=unlimited",
        ])
        .output()
        .expect("libra");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["verdict"], "accepted");
    assert_eq!(json["budget"], Value::Null);
    assert!((json["share"].as_f64().expect("share") - 0.175).abs() < 1e-12);
}

#[test]
fn wrong_arguments_and_configurations_are_named() {
    let site = Site::new("");
    for (arguments, part) in [
        (
            &["quote", "-W", "deadline=20,estimate=10"][..],
            "budget is missing",
        ),
        (&["quote", "-W", "colour=blue"], "no 'colour'"),
        (
            &["quote", "-W", "deadline=1:30,budget=1,estimate=1"],
            "HH:MM:SS",
        ),
        (
            &["quote", "-W", "deadline=1,budget=1,estimate=1", "-p", "0"],
            "processors_per_chunk is 0",
        ),
        (
            &[
                "quote",
                "-W",
                "deadline=1,budget=1,estimate=1",
                "--memory",
                "much",
            ],
            "--memory",
        ),
        (&["run", "-W", "deadline=1,budget=1,estimate=1"], "COMMAND"),
    ] {
        let output = site.libra(arguments).output().expect("libra");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).contains(part),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    let bad = site.path("bad.toml");
    fs::write(&bad, "[pricing]\nalpah = 2\n").expect("a file");
    let output = site
        .libra(&["config", "check", &bad.display().to_string()])
        .output()
        .expect("libra");
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.contains("bad.toml") && text.contains("line 2") && text.contains("alpah"),
        "{text}"
    );
}

#[test]
fn input_output_and_exit_code_are_the_jobs_own() {
    let site = Site::new("");
    let mut child = site
        .run(
            "deadline=60,budget=unlimited,estimate=1",
            "cat; echo $LIBRA_JOB_ID >&2; exit 7",
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("libra");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"through\n").expect("a reader");
    drop(input);
    let output = child.wait_with_output().expect("libra");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"through\n");
    let text = stderr(&output);
    assert!(
        text.contains("job 1 accepted") && text.contains("\n1\n"),
        "{text}"
    );
    assert!(text.contains("job 1 met its deadline"), "{text}");

    use std::os::unix::process::ExitStatusExt;
    let killed = site
        .run("deadline=60,budget=unlimited,estimate=1", "kill -KILL $$")
        .output()
        .expect("libra");
    assert_eq!(killed.status.signal(), Some(9));

    for (program, code) in [("/nonexistent/program", 127), ("/etc/passwd", 126)] {
        let output = site
            .libra(&[
                "run",
                "-W",
                "deadline=60,budget=9,estimate=1",
                "--",
                program,
            ])
            .output()
            .expect("libra");
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
    site.assert_nothing_left();
}

#[test]
fn a_signal_goes_on_to_the_job() {
    let site = Site::new("");
    let child = site.start(
        "deadline=60,budget=unlimited,estimate=1",
        "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done",
    );
    std::thread::sleep(Duration::from_millis(300));
    kill(child.id(), nix::sys::signal::Signal::SIGTERM);
    let output = child.wait_with_output().expect("libra");
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(output.stdout, b"ready\ngot it\n");
    site.assert_nothing_left();
}

#[test]
fn a_job_is_held_to_its_share_and_meets_its_deadline() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 1");
    let start = Instant::now();
    let output = site
        .run("deadline=4,budget=9,estimate=1.5", &burn(1.5))
        .output()
        .expect("libra");
    let took = start.elapsed().as_secs_f64();
    assert!(output.status.success());
    // At 39.4 % of a processor 1.5 s take 3.8 s: not more than the deadline, not much less.
    assert!(
        (3.0..4.0).contains(&took),
        "took {took}: {}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("met its deadline"),
        "{}",
        stderr(&output)
    );
    site.assert_nothing_left();
}

#[test]
fn fifty_at_once_never_commit_more_than_the_node_has() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 2\n[admission]\nestimate-margin = \"0%\"");
    // Each needs 0.051 of 2 processors, and a little more every second that it waits: 39 fit. They
    // wait until all have been judged.
    let gate = site.path("gate");
    let script = format!("while ! [ -e {} ]; do sleep 0.1; done", gate.display());
    let mut children: Vec<Child> = (0..50)
        .map(|_| {
            site.run("deadline=100000,budget=unlimited,estimate=5100", &script)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("libra")
        })
        .collect();
    let mut refused = 0;
    wait_for("fifty verdicts", || {
        refused = children
            .iter_mut()
            .filter_map(|child| child.try_wait().ok().flatten())
            .filter(|status| status.code() == Some(3))
            .count();
        let running = site
            .jobs()
            .iter()
            .filter(|job| job["phase"] == "running")
            .count();
        running + refused == 50
    });
    let report = site.report();
    let committed = report["committed"].as_f64().expect("a sum");
    assert!(committed <= 2.0, "{committed} of 2 processors");
    assert_eq!(refused, 11);
    fs::write(&gate, "").expect("a file");
    let met = children
        .into_iter()
        .filter_map(|mut child| child.wait().ok())
        .filter(std::process::ExitStatus::success)
        .count();
    assert_eq!(met, 39);
    site.assert_nothing_left();
}

#[test]
fn a_killed_libra_run_leaves_a_job_that_the_next_one_finds_judges_and_cleans() {
    let site = Site::new("[node]\nprocessors = 1");
    let mut child = site.start(
        "deadline=60,budget=unlimited,estimate=30",
        "setsid bash -c 'sleep 1.5' & sleep 1.5; wait",
    );
    kill(child.id(), nix::sys::signal::Signal::SIGKILL);
    child.wait().expect("it was killed");
    let job = site.job("1");
    assert_eq!(job["phase"], "running");
    assert_eq!(job["orphaned"], true);
    // Its share still counts.
    let other = site
        .libra(&["quote", "-W", "deadline=60,budget=unlimited,estimate=30"])
        .output()
        .expect("libra");
    assert_eq!(other.status.code(), Some(3), "1.05 of 1 processor");
    // It ends by itself, and the next one to come finds that out.
    std::thread::sleep(Duration::from_millis(1800));
    let next = site
        .run("deadline=60,budget=unlimited,estimate=30", "true")
        .output()
        .expect("libra");
    assert!(next.status.success(), "{}", stderr(&next));
    let job = site.job("1");
    assert_eq!(job["phase"], "ended");
    assert_eq!(job["ending"]["found"], true);
    assert_eq!(job["ending"]["met"], true);
    site.assert_nothing_left();
}

#[test]
fn the_agent_takes_over_from_a_killed_agent_and_ends_what_was_left() {
    let site = Site::new("");
    let agent = || {
        let child = site.libra(&["agent"]).stderr(Stdio::piped()).spawn();
        child.expect("libra")
    };
    let mut first = agent();
    let mut run = site.start("deadline=60,budget=unlimited,estimate=1", "sleep 2");
    for child in [&mut first, &mut run] {
        kill(child.id(), nix::sys::signal::Signal::SIGKILL);
        child.wait().expect("it was killed");
    }
    let second = agent();
    wait_for("the agent to end the job", || {
        site.job("1")["phase"] == "ended"
    });
    site.assert_nothing_left();
    kill(second.id(), nix::sys::signal::Signal::SIGTERM);
    let output = second.wait_with_output().expect("libra");
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("job 1 is over"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_job_that_waited_gets_a_larger_share_and_one_that_ran_ahead_a_smaller_one() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"");
    let script = format!("sleep 2; {}", burn(1.0));
    let child = site.start("deadline=6,budget=unlimited,estimate=1.2", &script);
    let share = || site.job("1")["share"].as_f64().expect("a share");
    assert!((share() - 0.2).abs() < 0.02, "{}", share());
    // After 2 s without any work, 1.2 s are to be done in 4 s.
    wait_for("a larger share", || share() > 0.26);
    let output = child.wait_with_output().expect("libra");
    assert!(
        stderr(&output).contains("met its deadline"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn somebody_elses_change_to_a_cgroup_is_undone() {
    let site = Site::new("");
    let child = site.start("deadline=60,budget=unlimited,estimate=6", "sleep 30");
    let groups = site.cgroups();
    let file = groups
        .iter()
        .flat_map(|root| {
            [
                root.join("job-1/cpu.cfs_quota_us"),
                root.join("job-1/cpu.max"),
            ]
        })
        .find(|path| path.exists())
        .expect("a file with the quota");
    let before = fs::read_to_string(&file).expect("readable");
    fs::write(
        &file,
        if file.ends_with("cpu.max") {
            "max 100000"
        } else {
            "-1"
        },
    )
    .expect("root");
    let number = |text: &str| {
        text.split_whitespace()
            .next()
            .and_then(|n| n.parse::<i64>().ok())
    };
    wait_for("the quota to be set again", || {
        let now = fs::read_to_string(&file).expect("readable");
        number(&now)
            .zip(number(&before))
            .is_some_and(|(now, before)| (now - before).abs() < before / 10)
    });
    let cancelled = site.libra(&["cancel", "1"]).output().expect("libra");
    assert!(cancelled.status.success(), "{}", stderr(&cancelled));
    child.wait_with_output().expect("libra");
    site.assert_nothing_left();
}

#[test]
fn cancel_ends_every_process_of_a_job_also_those_that_hide() {
    let site = Site::new("");
    let note = site.path("pids");
    let script = format!(
        "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo $$ >>{0}; sleep 100' & echo $$ >>{0}; wait; sleep 100",
        note.display()
    );
    let child = site.start("deadline=600,budget=unlimited,estimate=60", &script);
    wait_for("both processes", || {
        fs::read_to_string(&note).is_ok_and(|text| text.lines().count() == 2)
    });
    let output = site.libra(&["cancel", "1", "99"]).output().expect("libra");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(output.stdout, b"job 1 cancelled\n");
    assert!(stderr(&output).contains("no job 99"), "{}", stderr(&output));
    let run = child.wait_with_output().expect("libra");
    assert!(stderr(&run).contains("was cancelled"), "{}", stderr(&run));
    for pid in fs::read_to_string(&note).expect("two numbers").lines() {
        assert!(!runs(pid), "process {pid} is still there");
    }
    assert_eq!(site.job("1")["ending"]["cancelled"], true);
    site.assert_nothing_left();
}

#[test]
fn what_a_job_leaves_running_is_ended_with_it() {
    let site = Site::new("");
    let note = site.path("pid");
    let script = format!("setsid sleep 100 & echo $! >{}; exit 0", note.display());
    let output = site
        .run("deadline=60,budget=9,estimate=1", &script)
        // The job's leftover must not hold our pipes.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("libra");
    assert!(output.success());
    let pid = fs::read_to_string(&note).expect("a number");
    assert!(!runs(pid.trim()), "process {pid} is still there");
    site.assert_nothing_left();
}

#[test]
fn without_enforcement_the_job_runs_and_it_is_said_loudly() {
    let site = Site::new("");
    let text = fs::read_to_string(site.path("libra.toml")).expect("ours");
    let text = text.replace("[cgroup]", "[cgroup]\nversion = \"off\"");
    fs::write(site.path("libra.toml"), text).expect("ours");
    let output = site
        .libra(&[
            "run",
            "-q",
            "-W",
            "deadline=60,budget=9,estimate=1",
            "--",
            "echo",
            "ran",
        ])
        .output()
        .expect("libra");
    assert_eq!(output.stdout, b"ran\n");
    assert!(
        stderr(&output).contains("NOT enforced"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_broken_file_in_the_registry_harms_nobody_and_is_left_alone() {
    let site = Site::new("");
    let jobs = site.path("registry/jobs");
    fs::create_dir_all(&jobs).expect("ours");
    fs::write(jobs.join("7.json"), "{\"version\":99}").expect("ours");
    let output = site
        .run("deadline=60,budget=9,estimate=1", "true")
        .output()
        .expect("libra");
    assert!(output.status.success());
    assert!(stderr(&output).contains("7.json"), "{}", stderr(&output));
    assert!(jobs.join("7.json").exists());
}

#[test]
fn refusals_and_endings_are_lines_of_json_on_request() {
    let site = Site::new("[node]\nprocessors = 1");
    let lines = |terms: &str| -> Vec<Value> {
        let output = site
            .libra(&["run", "--json", "-W", terms, "--", "true"])
            .output()
            .expect("libra");
        stderr(&output)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    };
    let accepted = lines("deadline=20,budget=15,estimate=10");
    assert_eq!(accepted[0]["event"], "accepted");
    assert_eq!(accepted[1]["event"], "ended");
    assert_eq!(accepted[1]["met"], true);
    let refused = lines("deadline=5,budget=15,estimate=10");
    assert_eq!(refused[0]["category"], "deadline");
    assert_eq!(refused[0]["counter_offers"][0]["deadline_seconds"], 10.5);
}

#[test]
fn help_pages_and_completions_come_from_one_source() {
    let site = Site::new("");
    let directory = site.path("generated");
    for what in ["man", "completions"] {
        let output = site
            .libra(&["generate", what, &directory.display().to_string()])
            .output()
            .expect("libra");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let page = fs::read_to_string(directory.join("libra-run.1")).expect("a man page");
    assert!(page.contains("deadline"), "{page}");
    for name in [
        "libra.1",
        "libra-quote.1",
        "libra-agent.1",
        "libra.bash",
        "_libra",
        "libra.fish",
    ] {
        assert!(directory.join(name).exists(), "{name}");
    }
}
