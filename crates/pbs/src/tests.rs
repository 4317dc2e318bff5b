//! The answers to events, as the hooks of a real PBS show them.

use super::server::Server;
use libra_config::Config;
use libra_core::commitment::Commitment;
use serde_json::{Value, json};

/// Hand-worked numbers know no margin.
pub(super) fn config(more: &str) -> Config {
    Config::from_toml(&format!("[admission]\nestimate-margin = '0%'\n{more}"))
        .expect("a configuration")
}

pub(super) fn node(name: &str, share: &str) -> Value {
    json!({"name": name, "share": share, "mem": "8gb", "up": true, "resources": {"host": name, "arch": "linux"}})
}

pub(super) fn server_with(config: &Config, nodes: &[Value]) -> Server {
    let mut server = Server::new(config);
    ask(
        &mut server,
        json!({"event": "records", "nodes": nodes, "jobs": []}),
        1000.0,
    );
    server
}

fn server() -> Server {
    server_with(&config(""), &[node("n1", "1"), node("n2", "2.0")])
}

pub(super) fn ask(server: &mut Server, mut event: Value, now: f64) -> Value {
    event["now"] = now.into();
    server
        .answer(&event)
        .unwrap_or_else(|error| panic!("{event}: {error}"))
}

pub(super) fn submit(server: &mut Server, job: Value, now: f64) -> Value {
    ask(server, json!({"event": "queuejob", "job": job}), now)
}

pub(super) fn terms(estimate: &str, deadline: &str, budget: &str) -> Value {
    json!({"terms": {"estimate": estimate, "deadline": deadline, "budget": budget}})
}

pub(super) fn with(mut job: Value, key: &str, value: &str) -> Value {
    job[key] = value.into();
    job
}

fn commitment(answer: &Value) -> String {
    answer["resources"]["libra_terms"]
        .as_str()
        .expect("it was accepted")
        .to_string()
}

/// Submits a job and gives it its id; returns what is committed.
pub(super) fn enter(server: &mut Server, id: &str, job: Value, now: f64) -> String {
    let answer = submit(server, job.clone(), now);
    let line = commitment(&answer);
    let named = json!({"event": "postqueuejob", "job": {"id": id, "commitment": line, "array": job["array"]}});
    ask(server, named, now);
    line
}

pub(super) fn text(answer: &Value) -> &str {
    assert_eq!(answer["verdict"], "refuse", "{answer}");
    answer["text"].as_str().expect("a text")
}

#[test]
fn a_job_gets_a_share_of_the_node_that_it_fits_best() {
    let mut server = server();
    let answer = submit(&mut server, terms("10", "20", "15"), 1000.0);
    let resources = &answer["resources"];
    // E / D = 0.5 on n1: of 1 processor that leaves 0.5, of n2's 2 it would leave 1.5.
    assert_eq!(
        resources["select"],
        "1:ncpus=0:mpiprocs=1:ompthreads=1:libra_share=0.5:vnode=n1"
    );
    assert_eq!(resources["libra_price"], "10.5");
    assert_eq!(
        resources["libra_info"],
        "accepted: 50 % of a processor on n1, finished in 20 s at the latest, for 10.5 of 15 credits"
    );
    // Deadline and estimate.
    assert_eq!(resources["walltime"], "00:00:30");
    let line = Commitment::parse(&commitment(&answer)).expect("our own line");
    assert_eq!(line.places[0].share, 0.5);
    assert_eq!(Commitment::parse(&line.line()), Ok(line));
}

#[test]
fn a_refusal_says_why_and_what_would_do() {
    let mut server = server();
    for (job, parts) in [
        (
            terms("10", "20", "9"),
            ["refused (budget)", "accepted now would be: budget=10.5"],
        ),
        (
            terms("30", "20", "99"),
            ["refused (deadline)", "accepted now would be: deadline=30"],
        ),
        (
            terms("abc", "20", "99"),
            ["estimate: 'abc' is not a duration", "HH:MM:SS"],
        ),
        (
            json!({"terms": {"deadline": "20"}}),
            ["estimate is missing", "estimate=…"],
        ),
        (
            with(terms("1", "9", "9"), "start", "1010"),
            [
                "refused (deadline)",
                "10 s after its submission at the earliest (-a)",
            ],
        ),
        (
            with(terms("1", "9", "9"), "place", "excl"),
            ["place=excl", "leave that out"],
        ),
        (
            with(terms("1", "9", "9"), "select", "1:ncpus=1+1:ncpus=2"),
            ["all alike", "a job for each kind"],
        ),
        (
            with(terms("1", "9", "9"), "select", "1:host=n9"),
            ["refused (no-node)", "host=n9"],
        ),
        (
            with(terms("1", "9", "9"), "nodes", "2:ppn=1"),
            ["old way", "-l select="],
        ),
        (
            with(terms("1", "9", "9"), "select", "1:ncpus=x"),
            ["ncpus is 'x'", "1 or more"],
        ),
    ] {
        let answer = submit(&mut server, job.clone(), 1000.0);
        for part in parts {
            assert!(text(&answer).contains(part), "{job}: {answer}");
        }
    }
    assert_eq!(server.book().job_count(), 0);
}

#[test]
fn walltime_stands_in_for_the_estimate() {
    let mut server = server();
    let mut job = json!({"terms": {"deadline": "100", "budget": "1000"}});
    job["walltime"] = 50.into();
    let answer = submit(&mut server, job, 1000.0);
    assert_eq!(
        Commitment::parse(&commitment(&answer))
            .expect("a line")
            .request
            .terms
            .estimate,
        50.0
    );
}

#[test]
fn a_longer_walltime_stays() {
    let mut server = server();
    // Deadline and estimate are 30 s.
    for (asked, given) in [(29, "00:00:30"), (3600, "01:00:00")] {
        let mut job = terms("10", "20", "15");
        job["walltime"] = asked.into();
        assert_eq!(
            submit(&mut server, job, 1000.0)["resources"]["walltime"],
            given
        );
    }
}

#[test]
fn without_terms_the_sites_rule_decides() {
    let job = json!({"terms": {}, "select": "2:ncpus=2:mem=1gb"});
    let old = json!({"terms": {}, "ncpus": "2", "mem": "1gb"});
    for (rule, select, plain) in [
        (
            "best-effort",
            "2:ncpus=0:libra_besteffort=2:mpiprocs=1:ompthreads=2:mem=1gb",
            json!({"ncpus": 0, "libra_besteffort": 2, "mpiprocs": 1, "ompthreads": 2}),
        ),
        (
            "other-nodes",
            "2:ncpus=2:mem=1gb:libra_node=False",
            json!({"libra_node": false}),
        ),
    ] {
        let config = config(&format!("[pbs]\nwithout-terms = '{rule}'"));
        let answer = submit(&mut Server::new(&config), job.clone(), 1.0);
        assert_eq!(answer["resources"], json!({"select": select}));
        let answer = submit(&mut Server::new(&config), old.clone(), 1.0);
        assert_eq!(answer["resources"], plain);
    }
    let refusing = config("[pbs]\nwithout-terms = 'refuse'");
    assert!(
        text(&submit(&mut Server::new(&refusing), job.clone(), 1.0)).contains("need a deadline")
    );
    let alone = config("[pbs]\nwithout-terms = 'leave-alone'");
    let answer = submit(&mut Server::new(&alone), job, 1.0);
    assert_eq!(answer, json!({"verdict": "accept"}));
    // What Libra alone writes is no way around it.
    for rule in ["best-effort", "other-nodes", "leave-alone"] {
        let config = config(&format!("[pbs]\nwithout-terms = '{rule}'"));
        let forged = json!({"terms": {}, "select": "1:ncpus=1:libra_share=0.1"});
        let answer = submit(&mut Server::new(&config), forged, 1.0);
        assert!(text(&answer).contains("libra_share is written by Libra"));
    }
}

#[test]
fn chunks_conditions_and_packing() {
    let mut server = server();
    let wide = with(
        terms("10", "20", "99"),
        "select",
        "2:ncpus=2:mem=1gb:arch=linux",
    );
    let answer = submit(&mut server, wide, 1000.0);
    // A chunk of two slots takes 1.0: one on n1, one on n2 leaves nothing on either, so best fit uses both.
    let select = answer["resources"]["select"].as_str().expect("accepted");
    assert_eq!(
        select,
        "1:ncpus=0:mpiprocs=1:ompthreads=2:libra_share=1:mem=1073741824b:arch=linux:vnode=n1+\
         1:ncpus=0:mpiprocs=1:ompthreads=2:libra_share=1:mem=1073741824b:arch=linux:vnode=n2"
    );
    let mut server = server_with(&config(""), &[node("n1", "1"), node("n2", "2.0")]);
    let packed = with(
        with(terms("10", "20", "99"), "select", "3:mpiprocs=1"),
        "place",
        "pack",
    );
    let answer = submit(&mut server, packed, 1000.0);
    assert_eq!(
        answer["resources"]["select"],
        "3:ncpus=0:mpiprocs=1:ompthreads=1:libra_share=0.5:vnode=n2"
    );
    assert_eq!(answer["resources"]["place"], "pack:shared");
    let there = with(terms("1", "20", "99"), "select", "1:host=n1");
    assert!(commitment(&submit(&mut server, there, 1000.0)).contains("at=n1*1*0.05"));
}

#[test]
fn a_share_is_held_from_the_answer_to_the_end() {
    let mut server = server_with(&config(""), &[node("n1", "1")]);
    let line = enter(&mut server, "1.s", terms("10", "20", "99"), 1000.0);
    let same = |server: &mut Server, now| {
        submit(server, with(terms("12", "20", "99"), "checked", "yes"), now)
    };
    assert!(text(&same(&mut server, 1000.0)).contains("refused (share)"));
    let run = json!({"event": "runjob", "job": {"id": "1.s", "commitment": line, "exec_vnode": "(n1:libra_share=0.5)"}});
    assert_eq!(ask(&mut server, run, 1000.5)["verdict"], "accept");
    let end = json!({"event": "jobobit", "job": {"id": "1.s", "commitment": line, "state": "E", "substate": 53, "exit": 0,
        "exec_vnode": "(n1:libra_share=0.5)", "started": 1000, "ran": 18, "progress": "'{\"n1\": \"9.5@1019@end\"}'"}});
    // Its processes ended in time; PBS says so two seconds later.
    let answer = ask(&mut server, end, 1021.0);
    let line = answer["log"][0].as_str().expect("a line");
    assert!(
        line.contains(
            "job 1.s met its deadline: ended after 19 s of 20 s, used 9.5 s of the estimated 10 s"
        ),
        "{line}"
    );
    assert_eq!(server.book().job_count(), 0);
    for (id, exit, at, says) in [
        ("2.s", 271, 1025.0, "was deleted: ended after 4 s"),
        ("3.s", 0, 1041.004, "missed its deadline by 4 ms"),
    ] {
        let line = enter(&mut server, id, terms("10", "20", "99"), 1021.0);
        let end = json!({"event": "jobobit", "job": {"id": id, "commitment": line, "state": "E", "exit": exit}});
        let answer = ask(&mut server, end, at);
        assert!(
            answer["log"][0].as_str().expect("a line").contains(says),
            "{answer}"
        );
    }
    commitment(&same(&mut server, 1042.0));
}

#[test]
fn a_waiting_job_that_was_deleted_is_in_nobodys_way() {
    let mut server = server_with(&config(""), &[node("n1", "1")]);
    enter(&mut server, "1.s", terms("10", "10.5", "99"), 1000.0);
    let job = terms("10", "10.5", "99");
    let answer = submit(&mut server, job.clone(), 1000.0);
    assert_eq!(answer, json!({"check": ["1.s"]}));
    ask(
        &mut server,
        json!({"event": "gone", "jobs": ["1.s"]}),
        1000.0,
    );
    commitment(&submit(&mut server, with(job, "checked", "yes"), 1000.0));
}

#[test]
fn after_a_restart_the_book_is_what_pbs_has() {
    let mut before = server();
    let first = enter(&mut before, "1.s", terms("10", "20", "99"), 1000.0);
    let second = enter(&mut before, "2.s", terms("30", "40", "99"), 1000.0);
    let mut server = Server::new(&config(""));
    let job = terms("10", "20", "99");
    assert_eq!(
        submit(&mut server, job.clone(), 1010.0),
        json!({"wants": "records"})
    );
    let jobs = json!([
        {"id": "1.s", "state": "R", "commitment": first, "exec_vnode": "(n1:libra_share=0.5)", "progress": "'{\"n1\": \"4@1009\"}'"},
        {"id": "2.s", "state": "Q", "commitment": second},
        {"id": "3.s", "state": "F", "commitment": second},
        {"id": "4.s", "state": "Q"},
        {"id": "5.s", "state": "Q", "commitment": "v=2"},
    ]);
    let nodes = [node("n1", "1"), node("n2", "2.0")];
    let answer = ask(
        &mut server,
        json!({"event": "records", "nodes": nodes, "jobs": jobs}),
        1010.0,
    );
    let log = answer["log"].to_string();
    assert!(
        log.contains("2 nodes, 2 jobs")
            && log.contains("job 5.s")
            && log.contains("another version"),
        "{log}"
    );
    // Job 1 has used 4 s by 1009 and 0.5 more by 1010, so 5.5 of 10 s are left for 10 s; what was committed to it
    // counts. Job 2 has not begun: 30 s of work in 30 s.
    let on = |name| server.book().committed(name).expect("a node");
    assert!((on("n1") - 0.55).abs() < 1e-9, "{}", on("n1"));
    assert!((on("n2") - 1.0).abs() < 1e-9, "{}", on("n2"));
    commitment(&submit(&mut server, job, 1010.0));
}

#[test]
fn an_array_is_committed_as_a_whole_and_runs_where_pbs_puts_it() {
    let mut server = server();
    let job = with(terms("10", "20", "99"), "array", "1-6");
    let line = enter(&mut server, "7[].s", job, 1000.0);
    // 6 × 0.5 are all of n1 and n2 together; the array has one select, so PBS chooses among Libra's nodes.
    assert_eq!(server.book().job_count(), 6);
    assert!(line.contains("count=6:"), "{line}");
    let run = |server: &mut Server, id: &str, node: &str| {
        let job = json!({"id": id, "commitment": line, "exec_vnode": format!("({node}:ncpus=0:libra_share=0.5)")});
        ask(server, json!({"event": "runjob", "job": job}), 1000.0)
    };
    for (id, node) in [
        ("7[1].s", "n2"),
        ("7[2].s", "n2"),
        ("7[3].s", "n2"),
        ("7[4].s", "n2"),
        ("7[5].s", "n1"),
        ("7[6].s", "n1"),
    ] {
        assert_eq!(run(&mut server, id, node)["verdict"], "accept", "{id}");
    }
    assert!((server.book().committed("n1").expect("n1") - 1.0).abs() < 1e-9);
    // One that fits on a single node is kept there.
    let mut server = server_with(&config(""), &[node("n1", "1"), node("n2", "2.0")]);
    let small = with(terms("10", "20", "99"), "array", "1-3");
    let small = with(small, "select", "1:ncpus=1");
    let answer = submit(&mut server, small, 1000.0);
    assert_eq!(
        answer["resources"]["select"],
        "1:ncpus=0:mpiprocs=1:ompthreads=1:libra_share=0.5:vnode=n2"
    );
    assert_eq!(answer["resources"]["libra_price"], "31.5");
}

#[test]
fn a_refused_array_is_offered_a_smaller_one() {
    let mut server = server();
    // 0.5 each: three processors hold six of them.
    let array = |server: &mut Server, indices| {
        submit(
            server,
            with(terms("10", "20", "99"), "array", indices),
            1000.0,
        )
    };
    let answer = array(&mut server, "1-8");
    assert!(
        text(&answer).contains("or: an array of 6 jobs (costs 63)"),
        "{answer}"
    );
    commitment(&array(&mut server, "1-6"));
}

#[test]
fn a_commitment_is_not_altered_or_moved_away() {
    let mut server = server();
    let mut modify = |commitment: Value, key: &str| {
        server.modify(&json!({"commitment": commitment, "keys": [key]}), 1000.0)
    };
    for key in ["deadline", "select", "walltime", "libra_terms"] {
        assert!(text(&modify("v=1".into(), key)).contains(key));
    }
    assert_eq!(modify("v=1".into(), "software")["verdict"], "accept");
    assert_eq!(modify(Value::Null, "select")["verdict"], "accept");
    assert!(text(&modify(Value::Null, "deadline")).contains("when a job is submitted"));
    let to = |destination: &str| {
        server.relocate(&json!({"commitment": "v=1", "destination": destination}))
    };
    assert_eq!(to("other-queue")["verdict"], "accept");
    assert!(text(&to("workq@elsewhere")).contains("on this server"));
}

#[test]
fn a_job_whose_node_changed_is_not_run_elsewhere_or_over_it() {
    let mut server = server();
    let line = enter(&mut server, "1.s", terms("10", "20", "99"), 1000.0);
    let run = |node: &str| {
        let job = json!({"id": "1.s", "commitment": line, "exec_vnode": node});
        json!({"event": "runjob", "job": job})
    };
    let answer = ask(&mut server, run("n2"), 1000.0);
    assert!(text(&answer).contains("committed on n1, not on n2") && answer.get("hold").is_none());
    ask(
        &mut server,
        json!({"event": "nodes", "nodes": [node("n1", "0.25")]}),
        1000.0,
    );
    let answer = ask(&mut server, run("(n1:libra_share=0.5)"), 1000.0);
    assert!(text(&answer).contains("n1 has 0.25 CPU to share now, but 0.5 are committed"));
    assert_eq!(answer["hold"], true);
    ask(
        &mut server,
        json!({"event": "modifyvnode", "node": "n2", "up": false}),
        1000.0,
    );
    let job = with(
        with(terms("15", "20", "99"), "select", "1:host=n2"),
        "checked",
        "yes",
    );
    assert!(text(&submit(&mut server, job, 1000.0)).contains("no-node"));
}

#[test]
fn a_requeued_job_keeps_its_share() {
    let mut server = server_with(&config(""), &[node("n1", "1")]);
    let line = enter(&mut server, "1.s", terms("10", "20", "99"), 1000.0);
    let job = |state: &str, substate: i64| json!({"id": "1.s", "commitment": line, "exec_vnode": "(n1:libra_share=0.5)", "state": state, "substate": substate});
    ask(
        &mut server,
        json!({"event": "runjob", "job": job("Q", 10)}),
        1000.0,
    );
    ask(
        &mut server,
        json!({"event": "jobobit", "job": job("E", 62)}),
        1004.0,
    );
    assert_eq!(server.book().job_count(), 1);
    // All of its 10 s in the 16 that are left.
    let committed = server.book().committed("n1").expect("n1");
    assert!((committed - 10.0 / 16.0).abs() < 1e-9, "{committed}");
}

#[test]
fn an_event_of_nothing_is_an_error_and_changes_nothing() {
    let mut server = server();
    for event in [
        json!({}),
        json!({"event": "queuejob"}),
        json!({"event": "flight", "now": 1.0}),
        json!({"event": "runjob", "now": 2000.0, "job": {"id": "1.s", "commitment": "v=7"}}),
        json!({"event": "postqueuejob", "now": 2000.0, "job": {"commitment": "v=1"}}),
        json!([1, 2]),
        json!(null),
    ] {
        assert!(server.answer(&event).is_err(), "{event}");
    }
    assert_eq!(server.book().job_count(), 0);
}
