//! Jobs that run on past their estimate and their deadline.

use crate::support::{Site, stderr, wait_for};
use std::process::Child;

/// A site of one processor with this rule, and a job of 0.2 s on it that runs on for ever; when its deadline has passed.
fn overrun(rule: &str) -> (Site, Child) {
    let whole = "[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"";
    let site = Site::with_agent(whole, rule);
    let child = site.start(
        "deadline=1,budget=unlimited,estimate=0.2",
        "while :; do :; done",
    );
    wait_for("the deadline to pass", || {
        site.job("1")["deadline_status"] == "late" || site.job("1")["phase"] == "ended"
    });
    (site, child)
}

fn cancel(site: &Site, id: &str, child: Child) {
    let cancelled = site.libra(&["cancel", id]).output().expect("libra");
    assert!(cancelled.status.success(), "{}", stderr(&cancelled));
    child.wait_with_output().expect("libra");
}

fn share(site: &Site, id: &str) -> f64 {
    site.job(id)["share"].as_f64().expect("a share")
}

#[test]
fn one_that_yields_holds_nothing_that_others_could_have() {
    let (site, child) = overrun("");
    wait_for("nothing to be committed", || {
        site.report()["committed"] == 0.0
    });
    assert_eq!(site.job("1")["needed_share"], 0.0);
    // Alone it has all.
    wait_for("all that is left", || share(&site, "1") > 0.95);
    let other = site.start(
        "deadline=1000000,budget=unlimited,estimate=900000",
        "sleep 600",
    );
    wait_for("what the other one leaves", || {
        share(&site, "1") < 0.15 && share(&site, "2") > 0.85
    });
    cancel(&site, "2", other);
    cancel(&site, "1", child);
    site.assert_nothing_left();
}

#[test]
fn one_that_keeps_its_share_is_counted() {
    let (site, child) = overrun("past-deadline = \"keeps-share\"");
    let refused = site
        .run("deadline=1000000,budget=unlimited,estimate=900000", "true")
        .output()
        .expect("libra");
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    cancel(&site, "1", child);
    site.assert_nothing_left();
}

#[test]
fn one_that_goes_on_for_too_long_is_ended_and_told_why() {
    let (site, child) = overrun("past-deadline = \"ended-after 4x\"");
    let output = child.wait_with_output().expect("libra");
    let said = stderr(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("agent.past-deadline"), "{said}");
    let job = site.job("1");
    assert_eq!(job["state"], "stopped", "{job}");
    assert_eq!(job["conclusion"], "stopped", "{job}");
    assert_eq!(job["reason"], "overrun", "{job}");
    assert!(
        job["used_seconds"].as_f64().expect("a time") >= 0.8,
        "{job}"
    );
    site.assert_nothing_left();
}

#[test]
fn one_that_ignores_the_signal_is_killed() {
    let whole = "[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"";
    let site = Site::with_agent(whole, "past-deadline = \"ended-after 1x\"");
    // Of its estimate a slow machine needs some until the shell has come to its trap.
    let mut estimates = [2, 20, 100].into_iter().zip(["1", "2", "3"]);
    let signal = estimates.find_map(|(estimate, id)| {
        let deadline = 2 * estimate;
        let terms = format!("deadline={deadline},budget=unlimited,estimate={estimate}");
        let script = "trap '' TERM; echo it is set; while :; do :; done";
        let output = site.run(&terms, script).output().expect("libra");
        let said = stderr(&output);
        assert!(said.contains("agent.past-deadline"), "{said}");
        (output.stdout == b"it is set\n").then(|| site.job(id)["signal"].clone())
    });
    assert_eq!(signal.expect("time for a trap"), 9);
    site.assert_nothing_left();
}
