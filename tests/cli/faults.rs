//! Faults: somebody is stopped or killed, the registry goes away, a process does not die.

use super::support::{Site, kill, quiet, stderr, wait_for};
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_stopped_leader_is_stood_in_for() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"");
    // The first `libra run` leads; the second one's job waits, so that it will need more.
    let leader = site.start(
        "deadline=600000,budget=unlimited,estimate=1000",
        "sleep 1000",
    );
    wait_for("it to lead", || {
        let agent = site.libra(&["agent", "--once", "--json"]).output();
        agent.expect("libra").stdout == b"{\"led\":false}\n"
    });
    site.stop_leader(&leader);
    let waiting = site.start("deadline=100,budget=unlimited,estimate=20", "sleep 1000");
    wait_for("a larger share", || {
        site.job("2")["share"]
            .as_f64()
            .is_some_and(|share| share > 0.205)
    });
    // Cancelling the job of a stopped one works too, and says the truth.
    for id in ["1", "2"] {
        let output = site.libra(&["cancel", id]).output().expect("libra");
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(site.job(id)["phase"], "ended");
    }
    kill(leader.id(), Signal::SIGCONT);
    for run in [leader, waiting] {
        run.wait_with_output().expect("libra");
    }
    site.assert_nothing_left();
}

#[test]
fn what_a_killed_libra_run_leaves_running_ends_with_its_first_process() {
    let site = Site::new("");
    let gate = site.gate();
    let mut run = site.start(
        "deadline=60000,budget=unlimited,estimate=1000",
        &format!("setsid sleep 1000 & {}", gate.until_open()),
    );
    kill(run.id(), Signal::SIGKILL);
    run.wait().expect("it was killed");
    gate.open();
    wait_for("the agent to end it", || {
        let agent = site.libra(&["agent", "--once"]).output().expect("libra");
        assert!(agent.status.success(), "{}", stderr(&agent));
        site.job("1")["phase"] == "ended"
    });
    site.assert_nothing_left();
}

#[test]
fn a_registry_that_vanishes_costs_no_job_its_exit_code_or_its_processes() {
    let site = Site::new("");
    let gate = site.gate();
    let run = site.start(
        "deadline=60000,budget=unlimited,estimate=1000",
        &format!("setsid sleep 1000 & {}; exit 7", gate.until_open()),
    );
    // At once: files are written to it all the time.
    fs::rename(site.path("registry"), site.path("gone")).expect("ours");
    wait_for("it to be removed", || {
        fs::remove_dir_all(site.path("gone")).is_ok()
    });
    gate.open();
    let output = run.wait_with_output().expect("libra");
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    site.assert_nothing_left_but_roots();
}

#[test]
fn killed_between_making_a_cgroup_and_writing_it_down() {
    let site = Site::new("");
    // Such an entry, and such a cgroup, as that moment leaves them.
    let mut run = site.start(
        "deadline=60000,budget=unlimited,estimate=1000",
        "sleep 1000",
    );
    let file = site.path("registry/jobs/1.json");
    let mut entry: serde_json::Value =
        serde_json::from_slice(&fs::read(&file).expect("the entry")).expect("JSON");
    for group in site.cgroups() {
        for pid in fs::read_to_string(group.join("job-1/cgroup.procs"))
            .unwrap_or_default()
            .lines()
        {
            kill(pid.parse().expect("a number"), Signal::SIGSTOP);
        }
    }
    kill(run.id(), Signal::SIGKILL);
    run.wait().expect("it was killed");
    for (key, value) in [
        ("group", serde_json::Value::Null),
        ("leader", serde_json::Value::Null),
    ] {
        entry[key] = value;
    }
    entry["making-group"] = true.into();
    entry["phase"] = "reserved".into();
    entry["started"] = serde_json::Value::Null;
    fs::write(&file, entry.to_string()).expect("ours");
    for group in site.cgroups() {
        for pid in fs::read_to_string(group.join("job-1/cgroup.procs"))
            .unwrap_or_default()
            .lines()
        {
            kill(pid.parse().expect("a number"), Signal::SIGKILL);
        }
    }
    // Nothing was placed in it at that moment.
    wait_for("an empty cgroup", || {
        site.cgroups().iter().all(|group| {
            fs::read_to_string(group.join("job-1/cgroup.procs")).is_ok_and(|text| text.is_empty())
        })
    });
    let next = site
        .run("deadline=60000,budget=unlimited,estimate=1000", "true")
        .output()
        .expect("libra");
    assert!(next.status.success(), "{}", stderr(&next));
    site.assert_nothing_left();
}

#[test]
fn ten_thousand_arguments_are_no_way_around_admission() {
    let site = Site::new("[node]\nprocessors = 1");
    let mut long = site.libra(&["run", "-W", "deadline=60,budget=9e9,estimate=50"]);
    long.args(["-W", "budget=unlimited"]);
    // 1.2 MB of arguments, as `cat *.dat` may have.
    long.args(["--", "sh", "-c", "sleep 1"])
        .args((0..10_000).map(|i| format!("{i:0>120}")));
    let refused = long.output().expect("libra");
    // The list with 9e9 cannot be read; it is said so, not half taken.
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let gate = site.gate();
    let mut long = site.libra(&[
        "run",
        "-W",
        "deadline=600000,budget=unlimited,estimate=500000",
    ]);
    long.args(["--", "sh", "-c", &gate.until_open()])
        .args((0..10_000).map(|i| format!("{i:0>120}")));
    let child = long
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("libra");
    wait_for("the job", || site.jobs().len() == 1);
    let second = site
        .run("deadline=600000,budget=unlimited,estimate=500000", "true")
        .output()
        .expect("libra");
    assert_eq!(second.status.code(), Some(3), "{}", stderr(&second));
    gate.open();
    child.wait_with_output().expect("libra");
}

#[test]
fn a_registry_that_others_can_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new("");
    let jobs = site.path("registry/jobs");
    fs::create_dir_all(&jobs).expect("ours");
    fs::set_permissions(&jobs, fs::Permissions::from_mode(0o777)).expect("ours");
    let output = site
        .run("deadline=60000,budget=unlimited,estimate=1000", "true")
        .output()
        .expect("libra");
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("chmod 755"), "{}", stderr(&output));
    fs::set_permissions(&jobs, fs::Permissions::from_mode(0o755)).expect("ours");
    assert!(Path::new(&jobs).exists());
}

#[test]
fn a_libra_that_may_open_few_files_ends_nobodys_job() {
    let site = Site::new("");
    let child = site.start(
        "deadline=60000,budget=unlimited,estimate=1000",
        "sleep 1000",
    );
    for files in [8, 9, 10, 11, 12] {
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -n {files}; exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_libra"))
            .arg("--config")
            .arg(site.path("libra.toml"))
            .args([
                "run",
                "-W",
                "deadline=60000,budget=unlimited,estimate=1000",
                "--",
                "true",
            ])
            .output()
            .expect("sh");
        let job = site.job("1");
        assert_eq!(
            job["phase"],
            "running",
            "{files} files: {}",
            stderr(&output)
        );
    }
    let output = site.libra(&["cancel", "1"]).output().expect("libra");
    assert!(output.status.success(), "{}", stderr(&output));
    child.wait_with_output().expect("libra");
    wait_for("the cgroups to go", || {
        site.libra(&["agent", "--once"]).output().expect("libra");
        site.cgroups().is_empty()
    });
}
