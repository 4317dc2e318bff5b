//! A job from its start to its end.

use crate::support::{Site, kill, runs, stderr, wait_for};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::Stdio;

#[test]
fn input_output_and_exit_code_are_the_jobs_own() {
    let site = Site::new("");
    let mut child = site
        .run(
            "deadline=60000,budget=unlimited,estimate=1000",
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
    assert!(
        text.contains("job 1 failed in time (exit code 7)"),
        "{text}"
    );

    use std::os::unix::process::ExitStatusExt;
    let killed = site
        .run(
            "deadline=60000,budget=unlimited,estimate=1000",
            "kill -KILL $$",
        )
        .output()
        .expect("libra");
    assert_eq!(killed.status.signal(), Some(9));
    // A real-time signal is known to the shell's number only.
    let killed = site
        .run(
            "deadline=60000,budget=unlimited,estimate=1000",
            "kill -34 $$",
        )
        .output()
        .expect("libra");
    assert_eq!(killed.status.code(), Some(128 + 34));

    for (program, code) in [("/nonexistent/program", 127), ("/etc/passwd", 126)] {
        let output = site
            .libra(&[
                "run",
                "-W",
                "deadline=60000,budget=9000,estimate=1000",
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
    let ready = site.path("ready");
    let script = format!(
        "trap 'echo got it; exit 5' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let child = site.start("deadline=60000,budget=unlimited,estimate=40000", &script);
    wait_for("the trap", || ready.exists());
    kill(child.id(), nix::sys::signal::Signal::SIGTERM);
    let output = child.wait_with_output().expect("libra");
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert_eq!(output.stdout, b"got it\n");
    site.assert_nothing_left();
}

#[test]
fn what_a_job_leaves_running_is_ended_with_it() {
    let site = Site::new("");
    let note = site.path("pid");
    let script = format!("setsid sleep 100000 & echo $! >{}; exit 0", note.display());
    let output = site
        .run("deadline=60000,budget=9000,estimate=1000", &script)
        // The job's leftover must not hold our pipes.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("libra");
    assert!(output.success());
    let pid = fs::read_to_string(&note).expect("a number");
    let job = site.job("1");
    // Killed it is in any case; a busy machine may be long in ending it.
    assert!(!runs(pid.trim()) || job["phase"] == "ending", "{pid} {job}");
    site.assert_nothing_left();
    assert!(!runs(pid.trim()), "process {pid} is still there");
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
            "deadline=60000,budget=9000,estimate=1000",
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
fn without_enforcement_what_the_job_has_started_is_cancelled_too() {
    let site = Site::new("");
    let text = fs::read_to_string(site.path("libra.toml")).expect("ours");
    let text = text.replace("[cgroup]", "[cgroup]\nversion = \"off\"");
    fs::write(site.path("libra.toml"), text).expect("ours");
    let note = site.path("child");
    let child = site.start(
        "deadline=6000,budget=unlimited,estimate=1",
        &format!("sleep 1000 & echo $! >{}; wait", note.display()),
    );
    let number = || fs::read_to_string(&note).unwrap_or_default();
    wait_for("it has a child", || number().ends_with('\n'));
    let cancelled = site.libra(&["cancel", "1"]).output().expect("libra");
    assert!(cancelled.status.success(), "{}", stderr(&cancelled));
    child.wait_with_output().expect("libra");
    wait_for("its child is gone", || !runs(number().trim()));
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
    let accepted = lines("deadline=2000,budget=1500,estimate=1000");
    assert_eq!(accepted[0]["event"], "accepted");
    assert_eq!(accepted[1]["event"], "ended");
    assert_eq!(accepted[1]["met"], true);
    let refused = lines("deadline=5,budget=15,estimate=10");
    assert_eq!(refused[0]["category"], "deadline");
    assert_eq!(refused[0]["counter_offers"][0]["deadline_seconds"], 10.5);
}

#[test]
fn cancel_ends_every_process_of_a_job_also_those_that_hide() {
    let site = Site::new("");
    let note = site.path("pids");
    let script = format!(
        "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo $$ >>{0}; sleep 100' & echo $$ >>{0}; wait; sleep 100",
        note.display()
    );
    let child = site.start("deadline=600000,budget=unlimited,estimate=60000", &script);
    wait_for("both processes", || {
        fs::read_to_string(&note).is_ok_and(|text| text.lines().count() == 2)
    });
    let output = site.libra(&["cancel", "1", "99"]).output().expect("libra");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(output.stdout, b"job 1 cancelled\n");
    assert!(stderr(&output).contains("no job 99"), "{}", stderr(&output));
    let run = child.wait_with_output().expect("libra");
    assert!(stderr(&run).contains("was cancelled"), "{}", stderr(&run));
    for pid in fs::read_to_string(&note).expect("two numbers").lines() {
        assert!(!runs(pid), "process {pid} is still there");
    }
    assert_eq!(site.job("1")["state"], "cancelled");
    site.assert_nothing_left();
}

#[test]
fn a_job_runs_also_where_nothing_can_be_said() {
    let site = Site::new("");
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("a device")
    };
    let status = site
        .run(
            "deadline=60000,budget=unlimited,estimate=1000",
            "echo ran >ran; exit 7",
        )
        .current_dir(site.path(""))
        .env("LIBRA_LOG", "debug")
        .stderr(full())
        .status()
        .expect("libra");
    assert_eq!(status.code(), Some(7));
    assert!(site.path("ran").exists());

    let refused = &["quote", "-W", "deadline=1,budget=1,estimate=5"];
    let said = site.libra(refused).stdout(full()).output().expect("libra");
    assert_eq!(said.status.code(), Some(125));
    assert!(
        stderr(&said).contains("cannot write to standard output"),
        "{}",
        stderr(&said)
    );

    let (reader, writer) = nix::unistd::pipe().expect("a pipe");
    drop(reader);
    let said = site.libra(refused).stdout(writer).output().expect("libra");
    assert_eq!((said.status.code(), stderr(&said).as_str()), (Some(3), ""));

    let child = site.start(
        "deadline=60000,budget=unlimited,estimate=1000",
        "sleep 1000",
    );
    let said = site
        .libra(&["cancel", "2"])
        .stdout(full())
        .output()
        .expect("libra");
    assert_eq!(said.status.code(), Some(125), "{}", stderr(&said));
    assert_eq!(site.job("2")["phase"], "ended");
    child.wait_with_output().expect("libra");
    site.assert_nothing_left();
}
