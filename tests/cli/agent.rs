//! The control loop, and what is left when somebody is killed.

use crate::support::{Site, kill, sleeps, stderr, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn a_killed_libra_run_leaves_a_job_that_the_next_one_finds_judges_and_cleans() {
    let site = Site::new("[node]\nprocessors = 1");
    let gate = site.gate();
    let mut child = site.start(
        "deadline=600000,budget=unlimited,estimate=300000",
        &format!("setsid bash -c '{0}' & {0}; wait", gate.until_open()),
    );
    kill(child.id(), nix::sys::signal::Signal::SIGKILL);
    child.wait().expect("it was killed");
    let job = site.job("1");
    assert_eq!(job["phase"], "running");
    assert_eq!(job["orphaned"], true);
    // Its share still counts.
    let other = site
        .libra(&[
            "quote",
            "-W",
            "deadline=600000,budget=unlimited,estimate=300000",
        ])
        .output()
        .expect("libra");
    assert_eq!(other.status.code(), Some(3), "1.05 of 1 processor");
    // It ends by itself, and the next one to come finds that out.
    gate.open();
    wait_for("its processes to end", || site.processes("1").is_empty());
    let next = site
        .run("deadline=600000,budget=unlimited,estimate=300000", "true")
        .output()
        .expect("libra");
    assert!(next.status.success(), "{}", stderr(&next));
    let job = site.job("1");
    assert_eq!(job["phase"], "ended");
    assert_eq!(job["conclusion"], "unknown", "nobody saw its end: {job}");
    assert_eq!(job["in_time"], true, "{job}");
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
    let gate = site.gate();
    let mut run = site.start(
        "deadline=60000,budget=unlimited,estimate=1000",
        &gate.until_open(),
    );
    for child in [&mut first, &mut run] {
        kill(child.id(), nix::sys::signal::Signal::SIGKILL);
        child.wait().expect("it was killed");
    }
    gate.open();
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
fn a_broken_file_in_the_registry_harms_nobody_and_is_left_alone() {
    let site = Site::new("");
    let jobs = site.path("registry/jobs");
    fs::create_dir_all(&jobs).expect("ours");
    fs::write(jobs.join("7.json"), "{\"version\":99}").expect("ours");
    let output = site
        .run("deadline=60000,budget=9000,estimate=1000", "true")
        .output()
        .expect("libra");
    assert!(output.status.success());
    assert!(stderr(&output).contains("7.json"), "{}", stderr(&output));
    assert!(jobs.join("7.json").exists());
}

#[test]
fn a_second_agent_says_that_it_waits_and_takes_over() {
    let site = Site::new("");
    let log = |name: &str| fs::File::create(site.path(name)).expect("a file");
    let said = |name: &str| fs::read_to_string(site.path(name)).unwrap_or_default();
    let agent = |name: &str| {
        let child = site.libra(&["agent"]).stderr(log(name)).spawn();
        child.expect("libra")
    };
    let once = |arguments: &[&str]| {
        let output = site.libra(arguments).output().expect("libra");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let led: Value = serde_json::from_str(&once(&["agent", "--once", "--json"])).expect("JSON");
    assert_eq!(
        (&led["led"], &led["jobs"]),
        (&Value::Bool(true), &Value::from(0))
    );
    assert_eq!(once(&["agent", "--once"]), "");
    let mut first = agent("first");
    wait_for("the first to lead", || {
        once(&["agent", "--once", "--json"]) == "{\"led\":false}\n"
    });
    assert!(once(&["agent", "--once"]).contains("nothing was done"));
    let mut second = agent("second");
    wait_for("the second to wait", || {
        said("second").contains("waiting to take over")
    });
    // It could say so again in each round.
    let before = sleeps(second.id());
    wait_for("some rounds more", || sleeps(second.id()) >= before + 10);
    kill(first.id(), nix::sys::signal::Signal::SIGTERM);
    first.wait().expect("it was ended");
    wait_for("the second to lead", || {
        said("second").contains("now runs the control loop")
    });
    kill(second.id(), nix::sys::signal::Signal::SIGTERM);
    second.wait().expect("it was ended");
    assert_eq!(
        said("second").matches("waiting").count(),
        1,
        "{}",
        said("second")
    );
}

/// As under the unit that is shipped, on a host where `/proc` shows everybody but one group his own processes alone: what the agent cannot see
/// has neither ended nor been killed.
#[test]
fn an_agent_that_sees_no_process_of_others_ends_none_and_lets_none_go() {
    let site = Site::new("");
    // hidepid=2 would be that of all mounts on a kernel before 5.8, which does not know the word.
    let blind = "mount -t proc -o hidepid=invisible,gid=65534 proc /proc && \
        exec setpriv --bounding-set=-all,+kill,+dac_override --inh-caps=-all --no-new-privs \"$@\"";
    let agent = site.libra(&["agent"]);
    let mut started = Command::new("unshare");
    started.args(["--mount", "sh", "-c", blind, "sh"]);
    started.arg(agent.get_program()).args(agent.get_args());
    let started = started.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut agent = started.expect("unshare, mount and setpriv");
    let mut said = BufReader::new(agent.stderr.take().expect("a pipe")).lines();
    let mut said = || said.next().expect("more").expect("text");
    let mut all = Vec::new();
    while !all
        .last()
        .is_some_and(|line: &String| line.contains("hidepid"))
    {
        all.push(said());
    }
    wait_for("it leads", || site.path("registry/leader").exists());
    let gate = site.gate();
    let mut run = site.start(
        "deadline=600000,budget=unlimited,estimate=1000",
        &gate.until_open(),
    );
    let share = site.job("1")["share"].clone();
    // It looks closer every 64 rounds.
    let before = sleeps(agent.id());
    wait_for("some rounds", || sleeps(agent.id()) >= before + 150);
    let job = site.job("1");
    assert_eq!(
        (&job["phase"], &job["share"]),
        (&"running".into(), &share),
        "{job}"
    );
    gate.open();
    let ended = run.wait().expect("it ends");
    assert!(ended.success(), "{ended}");
    kill(agent.id(), nix::sys::signal::Signal::SIGTERM);
    assert!(agent.wait().expect("it was ended").success());
    site.assert_nothing_left();
}
