//! Jobs that wait: what they hold, and what is asked anew; and what is believed of ends.

use super::tests::{ask, config, enter, node, server_with, submit, terms, text, with};
use libra_core::commitment::Commitment;
use serde_json::{Value, json};

fn one_node() -> super::server::Server {
    server_with(&config(""), &[node("n1", "1")])
}

/// A job's record as PBS has it.
fn record(id: &str, line: &str, state: &str, held: Option<&str>, eligible: Option<f64>) -> Value {
    json!({"id": id, "state": state, "commitment": line, "held": held, "eligible": eligible})
}

fn records(jobs: &[Value]) -> Value {
    json!({"event": "records", "nodes": [node("n1", "1")], "jobs": jobs})
}

fn run(id: &str, line: &str, eligible: f64) -> Value {
    json!({"event": "runjob", "job": {"id": id, "commitment": line, "state": "Q", "eligible": eligible,
        "exec_vnode": "(n1:libra_share=0.5)"}})
}

fn committed(server: &super::server::Server) -> f64 {
    server.book().committed("n1").expect("n1")
}

#[test]
fn a_held_job_gives_its_share_back_and_asks_anew() {
    let mut server = one_node();
    let line = enter(&mut server, "1.s", terms("10", "100", "99"), 1000.0);
    assert!((committed(&server) - 0.1).abs() < 1e-9);
    let answer = ask(
        &mut server,
        records(&[record("1.s", &line, "H", Some("u"), None)]),
        1010.0,
    );
    assert!(
        answer["log"].to_string().contains("1.s is held"),
        "{answer}"
    );
    assert_eq!(server.book().job_count(), 0);
    // Released it holds nothing until PBS is about to run it, whatever the records say.
    ask(
        &mut server,
        records(&[record("1.s", &line, "Q", None, Some(1020.0))]),
        1021.0,
    );
    assert_eq!(server.book().job_count(), 0);
    // 10 s of work in the 50 s that are left, at the price of those.
    let answer = ask(&mut server, run("1.s", &line, 1020.0), 1050.0);
    let anew = Commitment::parse(
        answer["resources"]["libra_terms"]
            .as_str()
            .expect("committed anew"),
    );
    let anew = anew.expect("our own line");
    assert_eq!(
        (anew.submitted, anew.request.terms.deadline),
        (1050.0, 50.0)
    );
    assert!((anew.share_on("n1") - 0.2).abs() < 1e-9, "{answer}");
    assert_eq!(answer["resources"]["libra_price"], "10.2");
    assert!((committed(&server) - 0.2).abs() < 1e-9);
    // It is known by its new line.
    let known = json!({"id": "1.s", "state": "R", "commitment": anew.line(), "exec_vnode": "(n1:libra_share=0.5)", "eligible": 1020.0});
    ask(&mut server, records(&[known]), 1080.0);
    assert_eq!(server.book().job_count(), 1);
}

#[test]
fn a_released_job_that_cannot_be_had_any_more_is_told_why() {
    let mut server = one_node();
    let line = enter(&mut server, "1.s", terms("10", "20", "10.6"), 1000.0);
    let held = json!({"event": "held", "jobs": [record("1.s", &line, "H", Some("u"), None)]});
    ask(&mut server, held, 1001.0);
    // Somebody else has it now.
    enter(&mut server, "2.s", terms("10", "12", "99"), 1001.0);
    let answer = ask(&mut server, run("1.s", &line, 1002.0), 1002.0);
    assert!(
        text(&answer).starts_with("libra: refused (share): "),
        "{answer}"
    );
    assert!(text(&answer).contains("asked anew after a hold"));
    ask(
        &mut server,
        json!({"event": "gone", "jobs": ["2.s"]}),
        1003.0,
    );
    // What is left of its time costs 10 + 10 / 14 by now.
    let answer = ask(&mut server, run("1.s", &line, 1002.0), 1006.0);
    assert!(
        text(&answer).starts_with("libra: refused (budget): "),
        "{answer}"
    );
    // Neither will ever be otherwise.
    assert_eq!(answer["hold"], true);
    let answer = ask(&mut server, run("1.s", &line, 1002.0), 1020.0);
    assert!(text(&answer).contains("held past its deadline"), "{answer}");
    assert_eq!(answer["hold"], true);
    assert_eq!(server.book().job_count(), 0);
}

#[test]
fn a_restarted_server_knows_by_the_records_who_was_held() {
    let line = enter(&mut one_node(), "1.s", terms("10", "100", "99"), 1000.0);
    let asked = |state: &str, held: Option<&str>, eligible: Option<f64>| {
        let mut server = one_node();
        ask(
            &mut server,
            records(&[record("1.s", &line, state, held, eligible)]),
            1050.0,
        );
        server.book().job_count()
    };
    assert_eq!(asked("Q", None, Some(1000.0)), 1);
    assert_eq!(asked("Q", None, Some(1045.0)), 0);
    assert_eq!(asked("H", Some("u"), None), 0);
    assert_eq!(asked("W", None, None), 0);
    // What runs has its share, however it came to run.
    assert_eq!(asked("R", None, Some(1045.0)), 1);
}

/// PBS keeps the time from which it could run first, and not the time of its release.
#[test]
fn a_restarted_server_asks_anew_a_job_that_was_held_while_it_ran() {
    let line = enter(&mut one_node(), "1.s", terms("10", "100", "99"), 1000.0);
    let mut server = one_node();
    let held = record("1.s", &line, "H", Some("u"), Some(1000.0));
    ask(&mut server, records(&[held]), 1050.0);
    assert_eq!(server.book().job_count(), 0);
    let answer = ask(&mut server, run("1.s", &line, 1000.0), 1060.0);
    let anew = Commitment::parse(
        answer["resources"]["libra_terms"]
            .as_str()
            .expect("committed anew"),
    );
    assert_eq!(anew.expect("our own line").request.terms.deadline, 40.0);
    assert!((committed(&server) - 0.25).abs() < 1e-9);
}

/// Of an array that is held, what has begun goes on as it was committed.
#[test]
fn a_restarted_server_takes_what_has_begun_of_a_held_array_for_committed() {
    let array = with(terms("10", "100", "99"), "array", "1-2");
    let line = enter(&mut one_node(), "1[].s", array, 1000.0);
    let held = json!({"id": "1[].s", "state": "H", "commitment": line, "held": "u", "array": "1-2", "remaining": "2"});
    let mut server = one_node();
    ask(&mut server, records(&[held]), 1050.0);
    let committed_anew = |server: &mut super::server::Server, id: &str| {
        let event = json!({"event": "runjob", "job": {"id": id, "commitment": line, "state": "Q", "eligible": 1000.0,
            "array": "1-2", "exec_vnode": "(n1:libra_share=0.1)"}});
        ask(server, event, 1060.0)
            .to_string()
            .contains("asked anew")
    };
    assert!(!committed_anew(&mut server, "1[1].s"));
    assert!(committed_anew(&mut server, "1[2].s"));
}

#[test]
fn a_waiting_job_past_its_deadline_holds_nothing_and_runs_when_there_is_room() {
    let mut server = one_node();
    let line = enter(&mut server, "1.s", terms("10", "20", "99"), 1000.0);
    let all = submit(&mut server, terms("10", "10.5", "99"), 1021.0);
    assert_eq!(all["verdict"], "accept", "{all}");
    let answer = ask(&mut server, run("1.s", &line, 1000.0), 1022.0);
    assert!(
        text(&answer).contains("its deadline passed while it waited"),
        "{answer}"
    );
    // A minute later the other, which never got an id, has left.
    let answer = ask(&mut server, run("1.s", &line, 1000.0), 1082.0);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(server.book().job_count(), 1);
    let waits = [record("1.s", &line, "Q", None, Some(1000.0))];
    assert_eq!(
        {
            let mut server = one_node();
            ask(&mut server, records(&waits), 1050.0);
            server.book().job_count()
        },
        0
    );
}

#[test]
fn a_held_array_gives_back_what_does_not_run() {
    let mut server = one_node();
    let job = with(terms("10", "100", "99"), "array", "1-4");
    let line = enter(&mut server, "7[].s", job, 1000.0);
    assert_eq!(server.book().job_count(), 4);
    ask(&mut server, run("7[1].s", &line, 1000.0), 1001.0);
    let mut held = record("7[].s", &line, "B", Some("u"), None);
    held["array"] = "1-4".into();
    held["remaining"] = "2-4".into();
    let runs = json!({"id": "7[1].s", "state": "R", "commitment": line, "exec_vnode": "(n1:libra_share=0.1)", "array": "1-4"});
    ask(&mut server, records(&[held, runs]), 1010.0);
    assert_eq!(server.book().job_count(), 1);
    let answer = ask(&mut server, run("7[3].s", &line, 1020.0), 1060.0);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    // No accounts: the line of the array goes on.
    assert!(answer["resources"].get("libra_terms").is_none(), "{answer}");
    assert!(
        (committed(&server) - (0.25 + 0.1)).abs() < 0.02,
        "{}",
        committed(&server)
    );
}

#[test]
fn a_subjob_that_gets_no_share_runs_without_a_promise() {
    let mut server = one_node();
    let job = with(terms("10", "100", "99"), "array", "1-2");
    let line = enter(&mut server, "7[].s", job, 1000.0);
    let mut held = record("7[].s", &line, "H", Some("u"), None);
    held["array"] = "1-2".into();
    held["remaining"] = "1-2".into();
    ask(
        &mut server,
        json!({"event": "held", "jobs": [held]}),
        1001.0,
    );
    enter(&mut server, "8.s", terms("95", "100", "999"), 1001.0);
    // A refusal would keep PBS's scheduler busy for ever.
    let answer = ask(&mut server, run("7[1].s", &line, 1002.0), 1002.0);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(answer["resources"]["libra_terms"], "-");
    let info = answer["resources"]["libra_info"].as_str().expect("a text");
    assert!(
        info.starts_with("runs without a promise: refused (share): "),
        "{info}"
    );
    assert_eq!(server.book().job_count(), 1);
}

#[test]
fn no_end_is_told_that_nobody_saw() {
    let end = |progress: &str, exit: Option<i64>| {
        let mut server = one_node();
        let line = enter(&mut server, "1.s", terms("10", "60", "99"), 1000.0);
        ask(&mut server, run("1.s", &line, 1000.0), 1000.0);
        let end = json!({"event": "jobobit", "job": {"id": "1.s", "commitment": line, "state": "E", "substate": 53, "exit": exit,
            "exec_vnode": "(n1:libra_share=0.5)", "started": 1000, "ran": 58, "progress": progress}});
        let answer = ask(&mut server, end, 1061.0);
        answer["log"][0].as_str().expect("a line").to_string()
    };
    // The host saw its end.
    let said = end("'{\"n1\": \"9.5@1059@end\"}'", Some(0));
    assert!(
        said.contains("met its deadline: ended after 59 s of") && said.contains("used 9.5 s"),
        "{said}"
    );
    // It measured it a while before, and not at its end: that is no end.
    let said = end("'{\"n1\": \"9.5@1014\"}'", Some(0));
    assert!(
        said.contains("missed its deadline by 1 s") && said.contains("used at least 9.5 s"),
        "{said}"
    );
    // An end of another run, or of a clock that goes wrong.
    let said = end("'{\"n1\": \"9.5@1014@end\"}'", Some(0));
    assert!(said.contains("missed its deadline by 1 s"), "{said}");
    assert!(end("", Some(0)).contains("missed its deadline by 1 s"));
    // Taken away by force: no exit status.
    let said = end("'{\"n1\": \"9.5@1014\"}'", None);
    assert!(said.contains("was deleted by force"), "{said}");
}

#[test]
fn plain_jobs_are_as_without_libra() {
    let plain = |rule: &str, job: Value| {
        let config = config(&format!("[pbs]\nwithout-terms = '{rule}'"));
        let mut server = server_with(&config, &[node("n1", "1")]);
        submit(&mut server, job, 1000.0)
    };
    let nodes = json!({"terms": {}, "nodes": "2:ppn=3+1"});
    let answer = plain("best-effort", nodes.clone());
    assert_eq!(
        answer["resources"]["select"],
        "2:ncpus=0:libra_besteffort=3:ompthreads=3:mpiprocs=3+1:ncpus=0:libra_besteffort=1:mpiprocs=1:ompthreads=1"
    );
    assert_eq!(answer["resources"]["place"], "scatter");
    // A place goes with it, and what the user says of processes and threads stays.
    let named = json!({"terms": {}, "nodes": "N1:ppn=2#shared", "mem": "1gb"});
    let answer = plain("best-effort", named);
    assert_eq!(
        answer["resources"],
        json!({"place": "free", "select": "1:ncpus=0:libra_besteffort=2:ompthreads=2:host=N1:mem=1048576KB:mpiprocs=2"})
    );
    let answer = plain(
        "best-effort",
        json!({"terms": {}, "ncpus": "4", "wide": {"mpiprocs": "2"}}),
    );
    assert_eq!(
        answer["resources"],
        json!({"ncpus": 0, "libra_besteffort": 4, "ompthreads": 4})
    );
    let answer = plain("best-effort", json!({"terms": {}, "select": "2:ncpus=0"}));
    assert_eq!(answer["resources"], json!({"select": "2:ncpus=0"}));
    let answer = plain("other-nodes", nodes);
    assert_eq!(
        answer["resources"]["select"],
        "2:ncpus=3:mpiprocs=3:libra_node=False+1:ncpus=1:libra_node=False"
    );
    for job in [
        json!({"terms": {}, "nodes": "n1:bigmem:ppn=2"}),
        json!({"terms": {}, "nodes": "nowhere"}),
        // PBS refuses these in its own words.
        json!({"terms": {}, "nodes": "1:ppn=2", "place": "pack"}),
        json!({"terms": {}, "place": "pack"}),
        json!({"terms": {}, "ncpus": "2", "place": "pack"}),
        json!({"terms": {}, "nodes": "1:ppn=2", "wide": {"vmem": "1gb"}}),
        json!({"terms": {}, "select": "1:ncpus=x"}),
        json!({"terms": {}, "select": "x"}),
        json!({"terms": {}, "select": "1:ncpus"}),
        json!({"terms": {}, "select": "1:ncpus=1:ncpus=2"}),
        json!({"terms": {}, "ncpus": "x"}),
        json!({"terms": {}, "select": "1", "ncpus": "2"}),
        // It has none.
        json!({"terms": {}, "ncpus": "0"}),
        json!({"terms": {}, "select": "1:ncpus=1", "place": "excl"}),
        json!({"terms": {}, "place": "scatter:exclhost"}),
    ] {
        assert_eq!(
            plain("best-effort", job.clone()),
            json!({"verdict": "accept"}),
            "{job}"
        );
    }
}
