//! `libra status`: what it says of jobs, for people at a terminal and for programs.

use crate::program;
use crate::support::{Site, stderr, wait_for};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Seconds since 1970.
fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("a clock").as_secs_f64()
}

/// Every key of an object and of those in it.
fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => (object.iter())
            .flat_map(|(key, value)| [vec![key.clone()], keys(value)].concat())
            .collect(),
        Value::Array(values) => values.iter().flat_map(keys).collect(),
        _ => Vec::new(),
    }
}

/// A program on a terminal of 80 columns and 24 lines, made by script(1).
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn of(command: &str, no_color: &str) -> Terminal {
        let mut child = Command::new("script")
            .args([
                "-qfec",
                &format!("stty cols 80 rows 24; {command}"),
                "/dev/null",
            ])
            .env("TERM", "xterm")
            .env("NO_COLOR", no_color)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("script, of util-linux");
        let keys = child.stdin.take().expect("its input");
        let mut out = child.stdout.take().expect("its output");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut some) {
                all.lock()
                    .expect("a reader")
                    .extend_from_slice(&some[..count]);
            }
        });
        Terminal { child, keys, shown }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("a reader")).into_owned()
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).expect("a terminal");
        self.keys.flush().expect("a terminal");
    }

    fn wait_for(&self, text: &str) {
        wait_for(&format!("{text:?} on the terminal"), || {
            self.shown().contains(text)
        });
    }
}

#[test]
fn keys_sort_and_end_what_is_watched() {
    let site = Site::new("");
    let gate = site.gate();
    let mut child = site
        .libra(&["run", "--name", "fit of March"])
        .args([
            "-W",
            "deadline=600000,budget=unlimited,estimate=60000",
            "--",
            "sh",
            "-c",
            &gate.until_open(),
        ])
        .stderr(Stdio::null())
        .spawn()
        .expect("libra");
    wait_for("the job to run", || {
        site.jobs().iter().any(|job| job["phase"] == "running")
    });
    let watch = format!(
        "{} --config {} status --system local --watch --interval 200ms; echo its end: $?; stty -a",
        env!("CARGO_BIN_EXE_libra"),
        site.path("libra.toml").display()
    );
    let mut terminal = Terminal::of(&watch, "");
    terminal.wait_for("fit of March");
    terminal.wait_for("q quit   sort by: u [usual]");
    terminal.wait_for("\u{1b}[32mon track");
    terminal.press("d");
    terminal.wait_for("d [deadline]");
    terminal.press("x");
    terminal.press("h");
    terminal.wait_for("h [share]");
    terminal.press("q");
    terminal.wait_for("its end: 0");
    // As it was before: lines with an echo.
    terminal.wait_for(" icanon");
    terminal.wait_for(" echo ");
    assert!(terminal.child.wait().expect("script").success());

    // Who wants no colours gets none.
    let mut plain = Terminal::of(&watch, "1");
    plain.wait_for("fit of March");
    plain.press("q");
    plain.wait_for("its end: 0");
    assert!(!plain.shown().contains("\u{1b}[3"), "{}", plain.shown());
    assert!(plain.child.wait().expect("script").success());
    gate.open();
    assert!(child.wait().expect("libra").success());
    // What is no terminal gets none either.
    let output = site
        .libra(&["status", "--system", "local"])
        .output()
        .expect("libra");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("fit of March") && !said.contains('\u{1b}'),
        "{said}"
    );
}

#[test]
fn programs_read_unix_times_and_a_state() {
    let site = Site::new("");
    let begun = now();
    let output = site
        .libra(&[
            "run",
            "--json",
            "--name",
            "one",
            "-W",
            "deadline=600000,budget=9,estimate=1",
            "--",
            "true",
        ])
        .output()
        .expect("libra");
    let said = stderr(&output);
    let lines: Vec<Value> = (said.lines())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let [accepted, ended] = lines.as_slice() else {
        panic!("{said}");
    };
    let report = site.report();
    let job = site.job("1");
    assert_eq!(ended["state"], "met", "{ended}");
    for (what, times) in [("accepted", accepted), ("ended", ended), ("shown", &job)] {
        assert_eq!(times["name"], "one", "{what}");
        let submitted = times["submitted"].as_f64().expect("a time");
        let deadline = times["deadline"].as_f64().expect("a time");
        assert!(
            begun - 1.0 < submitted && submitted < now() + 1.0,
            "{what}: {times}"
        );
        assert!(
            (deadline - submitted - 600_000.0).abs() < 1e-3,
            "{what}: {times}"
        );
    }
    for times in [ended, &job] {
        let ended = times["ended"].as_f64().expect("a time");
        assert!(
            times["submitted"].as_f64() <= Some(ended) && ended < now() + 1.0,
            "{times}"
        );
    }
    assert_eq!(
        (&job["system"], &job["state"], &job["user"]),
        (&"local".into(), &"met".into(), &"root".into())
    );
    assert_eq!(report["nodes"][0]["system"], "local", "{report}");
    assert_eq!(report["problems"], serde_json::json!([]), "{report}");
    let plain = |key: &String| {
        key.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    for value in [accepted, ended, &report] {
        assert!(keys(value).iter().all(plain), "{value}");
    }
}

#[test]
fn what_is_not_there_has_an_exit_code_of_its_own() {
    let site = Site::new("");
    let output = site
        .libra(&["status", "--system", "local", "999"])
        .output()
        .expect("libra");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("no job 999"),
        "{}",
        stderr(&output)
    );
    for (words, part) in [
        (&["status", "--system", "lsf"][..], "lsf"),
        (&["status", "--sort", "age"], "age"),
        (
            &[
                "run",
                "--name",
                "",
                "-W",
                "deadline=9,budget=9,estimate=1",
                "--",
                "true",
            ],
            "empty",
        ),
        (
            &[
                "run",
                "--name",
                "a\nb",
                "-W",
                "deadline=9,budget=9,estimate=1",
                "--",
                "true",
            ],
            "one line",
        ),
    ] {
        let output = site.libra(words).output().expect("libra");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            stderr(&output).contains(part),
            "{words:?}: {}",
            stderr(&output)
        );
    }
    // A batch system that is named and is not there is an error; one that nobody has named is none.
    let without = |words: &[&str]| {
        let mut command = site.libra(words);
        command.env("PBS_CONF_FILE", site.path("nowhere"));
        command.output().expect("libra")
    };
    let named = without(&["status", "--system", "pbs"]);
    assert_eq!(named.status.code(), Some(125), "{}", stderr(&named));
    assert!(
        stderr(&named).contains("PBS_CONF_FILE"),
        "{}",
        stderr(&named)
    );
    let own = without(&["status", "--json"]);
    assert!(own.status.success(), "{}", stderr(&own));
    // A PBS whose server does not answer costs a line, and the host is shown.
    std::fs::create_dir_all(site.path("pbs/bin")).expect("a directory");
    let qstat = "#!/bin/sh\necho qstat: cannot connect to server >&2\nexit 1\n";
    program::write(&site.path("pbs/bin/qstat"), qstat.as_bytes());
    let exec = site.path("pbs");
    std::fs::write(
        site.path("pbs.conf"),
        format!("PBS_EXEC={0}\nPBS_HOME={0}\n", exec.display()),
    )
    .expect("a file");
    let mut command = site.libra(&["status", "--json"]);
    let output = command
        .env("PBS_CONF_FILE", site.path("pbs.conf"))
        .output()
        .expect("libra");
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // The machine may have a Slurm that does not answer either.
    let problems = report["problems"].as_array().expect("problems");
    let mut said = problems.iter().filter_map(Value::as_str);
    assert!(
        said.any(|line| line.starts_with("pbs: ") && line.contains("cannot connect")),
        "{problems:?}"
    );
    assert_eq!(report["nodes"][0]["system"], "local");
}
