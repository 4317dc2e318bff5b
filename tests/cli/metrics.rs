//! The agent's metrics, over HTTP: what is served is what was done.

use crate::support::{PATIENCE, Site, kill, runs, wait_for};
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// An agent that serves on a port of its own.
struct Agent {
    process: Child,
    address: String,
}

impl Agent {
    fn start(site: &Site) -> Agent {
        let mut process = site
            .libra(&["-v", "agent", "--metrics", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("libra");
        let mut said = BufReader::new(process.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("metrics at ") {
            line.clear();
            assert!(said.read_line(&mut line).expect("text") > 0, "it ended");
        }
        // What it says later must find a reader.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let after = line.split("http://").nth(1).expect("an address");
        let address = after.split('/').next().expect("a port").to_string();
        Agent { process, address }
    }

    fn get(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        write!(stream, "{head}\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// {sample with its labels: value}
    fn metrics(&self) -> HashMap<String, f64> {
        let answer = self.get("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\n# EOF\n"), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1).expect("a body");
        (body.lines().filter(|line| !line.starts_with('#')))
            .map(|line| line.rsplit_once(' ').expect("a value"))
            .map(|(sample, value)| (sample.to_string(), value.parse().expect("a number")))
            .collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        kill(self.process.id(), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

/// Seconds for which the kernel has held a job back, by either version's file.
fn throttled(site: &Site, id: &str) -> f64 {
    let texts = (site.cgroups().into_iter())
        .filter_map(|root| fs::read_to_string(root.join(format!("job-{id}/cpu.stat"))).ok());
    let all: String = texts.collect();
    let of = |key: &str, unit: f64| {
        let line = all.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|value| value.trim().parse::<f64>().ok())
            .map(|value| value / unit)
    };
    (of("throttled_time ", 1e9).or(of("throttled_usec ", 1e6))).unwrap_or(0.0)
}

#[test]
fn what_is_served_is_what_was_done() {
    let site = Site::new("[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"");
    let agent = Agent::start(&site);
    let run = |terms: &str, script: &str| site.run(terms, script).output().expect("libra");
    // In time, and held back: it uses what it gets of a processor until the kernel has stopped it for a while. It is held to little, so that it
    // comes to that on a busy machine too.
    let gate = site.gate();
    let greedy = format!("while :; do :; done & {}; kill $!", gate.until_open());
    let held = site.start("deadline=2000000,budget=999999,estimate=100000", &greedy);
    let served = || agent.metrics()["libra_host_throttled_seconds_total"];
    wait_for("the kernel to hold it back", || served() > 0.1);
    let (served, counted) = (served(), throttled(&site, "1"));
    assert!(
        served <= counted + 0.001,
        "{served}, and the kernel says {counted}"
    );
    gate.open();
    held.wait_with_output().expect("libra");
    run("deadline=0.2,budget=99,estimate=0.1", "sleep 0.6");
    run("deadline=20,budget=5,estimate=10", "true");
    run("deadline=20,budget=99,estimate=30", "true");
    let mut job = site.start(
        "deadline=600000,budget=999999,estimate=300000",
        "sleep 1000",
    );
    run("deadline=20,budget=99,estimate=15", "true");
    // Not the last round that saw the job before.
    wait_for("a round", || {
        let metrics = agent.metrics();
        metrics["libra_host_jobs{state=\"running\"}"] == 1.0
            && metrics["libra_jobs_late{system=\"local\"}"] == 0.0
    });
    let metrics = agent.metrics();
    let local = |name: &str, more: &str| metrics[&format!("{name}{{system=\"local\"{more}}}")];
    assert_eq!(local("libra_jobs_accepted_total", ""), 3.0);
    assert_eq!(local("libra_jobs_ended_total", ",outcome=\"met\""), 1.0);
    assert_eq!(local("libra_jobs_ended_total", ",outcome=\"late\""), 1.0);
    assert_eq!(
        local("libra_jobs_ended_total", ",outcome=\"cancelled\""),
        0.0
    );
    for (reason, count) in [
        ("budget", 1.0),
        ("deadline", 1.0),
        ("share", 1.0),
        ("chunks", 0.0),
    ] {
        let labels = format!(",reason=\"{reason}\"");
        assert_eq!(
            local("libra_submissions_refused_total", &labels),
            count,
            "{reason}"
        );
    }
    assert_eq!(local("libra_decision_seconds_count", ""), 6.0);
    assert_eq!(local("libra_decision_seconds_bucket", ",le=\"+Inf\""), 6.0);
    assert_eq!(local("libra_jobs", ",state=\"running\""), 1.0);
    assert_eq!(local("libra_jobs_late", ""), 0.0);
    assert_eq!(metrics["libra_host_processors"], 1.0);
    assert!((metrics["libra_host_committed_processors"] - 0.5).abs() < 0.1);
    assert!(
        metrics["libra_host_throttled_seconds_total"] > 0.1,
        "{metrics:?}"
    );
    assert_eq!(metrics["libra_host_drifts_total"], 0.0);
    assert_eq!(metrics["libra_host_leads"], 1.0);
    // Somebody writes into its cgroup.
    for root in site.cgroups() {
        for (file, text) in [("cpu.cfs_quota_us", "99000"), ("cpu.max", "99000 100000")] {
            let path = root.join("job-3").join(file);
            if path.exists() {
                fs::write(path, text).expect("ours");
            }
        }
    }
    wait_for("it to be seen", || {
        agent.metrics()["libra_host_drifts_total"] == 1.0
    });
    assert!(
        site.libra(&["cancel", "3"])
            .status()
            .expect("libra")
            .success()
    );
    job.wait().expect("it was cancelled");
    let ended = "libra_jobs_ended_total{system=\"local\",outcome=\"cancelled\"}";
    assert_eq!(agent.metrics()[ended], 1.0);
    // In time, and not done: by its exit code, by a signal, because there is no such program.
    for script in ["exit 3", "kill -9 $$"] {
        run("deadline=200000,budget=99999,estimate=10000", script);
    }
    let terms = "deadline=200000,budget=99999,estimate=10000";
    let absent = site
        .libra(&["run", "-W", terms, "--", "/nonexistent"])
        .output();
    assert_eq!(absent.expect("libra").status.code(), Some(127));
    let outcome = |word: &str| {
        agent.metrics()[&format!("libra_jobs_ended_total{{system=\"local\",outcome=\"{word}\"}}")]
    };
    assert_eq!((outcome("failed"), outcome("met")), (3.0, 1.0));
    drop(agent);
    site.assert_nothing_left();
}

#[test]
fn nothing_but_metrics_and_nobody_in_the_way() {
    let site = Site::new("");
    let agent = Agent::start(&site);
    for head in [
        "GET / HTTP/1.1",
        "GET /etc/passwd HTTP/1.1",
        "POST /metrics HTTP/1.1",
    ] {
        let answer = agent.get(head);
        assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
    }
    // Whoever says nothing is sent away, and the rounds go on meanwhile.
    let rounds = |agent: &Agent| agent.metrics()["libra_host_round_seconds_count"];
    let before = rounds(&agent);
    let silent: Vec<TcpStream> = (0..16)
        .map(|_| TcpStream::connect(&agent.address).expect("it listens"))
        .collect();
    for _ in 0..20 {
        assert!(rounds(&agent) >= before, "the oldest gives way");
    }
    wait_for("the silent to be sent away", || {
        silent.iter().all(|mut stream| {
            let none = stream.set_read_timeout(Some(Duration::from_millis(1)));
            none.is_ok() && matches!(stream.read(&mut [0]), Ok(0))
        })
    });
    wait_for("more rounds", || rounds(&agent) > before + 5.0);
    assert!(runs(&agent.process.id().to_string()));
}

#[test]
fn a_bad_address_is_an_error_of_arguments() {
    let site = Site::new("");
    let agent = site.libra(&["agent", "--metrics", "9464"]).output();
    let output = agent.expect("libra");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("127.0.0.1:9464"), "{said}");
}

#[test]
fn counts_survive_whoever_counts_and_a_damaged_file_harms_nobody() {
    let site = Site::new("");
    let accepted = || {
        let text = fs::read(site.path("registry/counts.json")).expect("the file");
        let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        json["totals"]["accepted"].clone()
    };
    let run = || {
        let output = site
            .run("deadline=60000,budget=9900,estimate=1000", "true")
            .output();
        let output = output.expect("libra");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let runs: Vec<Child> = (0..8)
        .map(|_| {
            site.run("deadline=600000,budget=9900,estimate=1000", "true")
                .stderr(Stdio::null())
                .spawn()
                .expect("libra")
        })
        .collect();
    for mut run in runs {
        run.wait().expect("it ended");
    }
    assert_eq!(accepted(), 8);
    fs::write(site.path("registry/counts.json"), "{\"version\":").expect("ours");
    let said = run();
    assert!(
        said.contains("counts.json") && said.contains("from 0 on"),
        "{said}"
    );
    assert!(!run().contains("counts.json"));
    assert_eq!(accepted(), 2);
    site.assert_nothing_left();
}
