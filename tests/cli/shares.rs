//! Shares: held, summed, readjusted, set again.

use crate::support::{Site, burn, quiet, stderr, wait_for};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Instant;

#[test]
fn a_job_is_held_to_its_share_and_meets_its_deadline() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 1");
    let start = Instant::now();
    // A deadline of days: the job needs less than it said, and is held all the same.
    let output = site
        .run(
            "deadline=120000,budget=unlimited,estimate=45000",
            &burn(1.5),
        )
        .output()
        .expect("libra");
    let took = start.elapsed().as_secs_f64();
    assert!(output.status.success());
    // Unheld it would take 1.5 s, at 39.4 % of a processor 3.8 s. Every write of a quota gives a little more, so it may end earlier than that.
    assert!(took > 2.5, "took {took}: {}", stderr(&output));
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
    // Each needs 0.051 of 2 processors, and a little more every minute that it waits: 39 fit. They
    // wait until all have been judged.
    let gate = site.path("gate");
    let script = format!("while ! [ -e {} ]; do sleep 0.1; done", gate.display());
    let mut children: Vec<Child> = (0..50)
        .map(|_| {
            site.run(
                "deadline=10000000,budget=unlimited,estimate=510000",
                &script,
            )
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
fn a_job_that_waited_gets_a_larger_share_and_one_that_ran_ahead_a_smaller_one() {
    let _quiet = quiet();
    let site = Site::new("[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"");
    let gate = site.gate();
    // Much time, since a kernel in user mode counts as the job's what the machine does for others meanwhile.
    let terms = "deadline=600,budget=unlimited,estimate=120";
    let child = site.start(terms, &gate.until_open());
    let share = || site.job("1")["share"].as_f64().expect("a share");
    let first = share();
    assert!(first >= 0.199, "{first}");
    // The same work in less and less time.
    wait_for("a larger share", || share() > first + 0.003);
    gate.open();
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
    // What it needs stays as it is: nothing else is a reason to write its quota.
    let child = site.start(
        "deadline=600000,budget=unlimited,estimate=60000",
        "sleep 1000",
    );
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
