//! Planned starts of dedicated jobs, as pbs_server sees them.

use super::server::Server;
use super::tests::{ask, config, enter, node, server_with, submit, terms, text, with};
use libra_core::commitment::Commitment;
use serde_json::{Value, json};

fn one_node() -> Server {
    server_with(&config(""), &[node("n1", "1")])
}

pub(super) fn dedicated(estimate: &str, deadline: &str) -> Value {
    let mut job = terms(estimate, deadline, "99999");
    job["terms"]["class"] = "dedicated".into();
    job
}

pub(super) fn line(answer: &Value) -> Commitment {
    let line = answer["resources"]["libra_terms"].as_str();
    Commitment::parse(line.expect("a line")).expect("our own line")
}

/// One has the node from 1000 on, and runs.
fn busy() -> Server {
    let mut server = one_node();
    let line = enter(&mut server, "1.s", dedicated("100", "1000"), 1000.0);
    assert_eq!(
        start(&mut server, "1.s", &line, 1000.0)["verdict"],
        "accept"
    );
    server
}

fn start(server: &mut Server, id: &str, line: &str, now: f64) -> Value {
    let job = json!({"id": id, "state": "Q", "commitment": line, "exec_vnode": "(n1:ncpus=0)"});
    ask(server, json!({"event": "runjob", "job": job}), now)
}

pub(super) fn ends(server: &mut Server, id: &str, line: &str, now: f64) -> Value {
    let job = json!({"id": id, "state": "E", "commitment": line, "exit": 0, "exec_vnode": "(n1:ncpus=0)"});
    ask(server, json!({"event": "jobobit", "job": job}), now)
}

/// Submits one that is planned, at 1000; PBS's record of it while it waits.
fn planned(server: &mut Server, id: &str, job: Value) -> Value {
    let first = submit(server, job.clone(), 1000.0);
    // Others wait: they may be gone.
    let answer = match first.get("check") {
        Some(_) => submit(server, with(job, "checked", "yes"), 1000.0),
        None => first,
    };
    assert_eq!(answer["verdict"], "accept", "{answer}");
    let resources = &answer["resources"];
    let info = resources["libra_info"].as_str().expect("a text");
    assert!(info.starts_with("planned: a whole processor on "), "{info}");
    // It waits without a node and without a share.
    let select = resources["select"].as_str().expect("a select");
    assert!(select.contains(":libra_share=0:") && !select.contains("vnode="));
    let line = line(&answer);
    assert_eq!(answer["start"], line.starts_by.expect("a start").ceil());
    let named = json!({"id": id, "commitment": line.line(), "owner": "ann"});
    ask(
        server,
        json!({"event": "postqueuejob", "job": named}),
        1000.0,
    );
    json!({"id": id, "state": "W", "owner": "ann", "commitment": line.line(), "select": select,
        "place": resources["place"], "info": info, "start": answer["start"]})
}

/// PBS would run it.
pub(super) fn run(server: &mut Server, record: &Value, now: f64) -> Value {
    let job = with(
        with(record.clone(), "state", "Q"),
        "exec_vnode",
        "(n1:ncpus=0)",
    );
    ask(server, json!({"event": "runjob", "job": job}), now)
}

fn starts_by(record: &Value) -> f64 {
    let line = record["commitment"].as_str().expect("a line");
    Commitment::parse(line)
        .expect("ours")
        .starts_by
        .expect("a start")
}

#[test]
fn it_waits_for_its_start_time_and_begins_by_right() {
    let mut server = busy();
    let job = planned(&mut server, "2.s", dedicated("50", "300"));
    // The first's estimate, and what PBS may take to begin one.
    assert_eq!(starts_by(&job), 1105.0);
    // Somebody has PBS try it before.
    let early = run(&mut server, &job, 1010.0);
    assert!(text(&early).starts_with("libra: planned: "), "{early}");
    assert_eq!(early["start"], 1105);
    assert_eq!(early["resources"], Value::Null);
    // The first outlives its estimate. PBS counts its share, so this one has none there.
    let begun = run(&mut server, &job, 1105.0);
    assert!(text(&begun).contains("(it was planned); PBS starts it in a moment"));
    assert_eq!(begun["start"], 1107);
    let select = begun["resources"]["select"].as_str().expect("a select");
    assert!(
        select.contains("libra_share=0:") && select.ends_with("vnode=n1"),
        "{select}"
    );
    let line = line(&begun);
    assert!(!line.deferred && line.starts_by.is_none() && line.places[0].share == 1.0);
    assert_eq!(line.submitted + line.request.terms.deadline, 1300.0);
    // The node has not been made smaller: who gives way is known.
    assert_eq!(
        start(&mut server, "2.s", &line.line(), 1107.0)["verdict"],
        "accept"
    );
}

#[test]
fn it_is_woken_when_others_leave() {
    let mut server = busy();
    let first = enter(&mut one_node(), "1.s", dedicated("100", "1000"), 1000.0);
    let job = planned(&mut server, "2.s", dedicated("50", "300"));
    let second = planned(&mut server, "3.s", dedicated("100", "400"));
    assert_eq!(starts_by(&second), 1160.0);
    let answer = ends(&mut server, "1.s", &first, 1020.0);
    assert_eq!(
        answer["wake"],
        json!(["2.s"]),
        "the second's place is behind it"
    );
    // Its own share is counted by PBS, since nobody else has it.
    let begun = run(&mut server, &job, 1021.0);
    let select = begun["resources"]["select"].as_str().expect("a select");
    assert!(select.contains("libra_share=1:"), "{select}");
    let begun = line(&begun).line();
    assert_eq!(
        start(&mut server, "2.s", &begun, 1023.0)["verdict"],
        "accept"
    );
    let answer = ends(&mut server, "2.s", &begun, 1060.0);
    assert_eq!(answer["wake"], json!(["3.s"]));
    // Not again before PBS has tried it, unless that takes too long.
    let mut left = |now| ask(&mut server, json!({"event": "gone", "jobs": []}), now);
    assert_eq!(left(1061.0).get("wake"), None);
    assert_eq!(left(1071.0)["wake"], json!(["3.s"]));
}

#[test]
fn the_plan_is_read_from_records_and_a_held_one_has_no_place() {
    let mut server = busy();
    let running = enter(&mut one_node(), "1.s", dedicated("100", "1000"), 1000.0);
    let job = planned(&mut server, "2.s", dedicated("50", "300"));
    let first = json!({"id": "1.s", "state": "R", "commitment": running, "started": 1000.0,
        "exec_vnode": "(n1:libra_share=1)", "progress": "'{\"n1\": \"3@1050\"}'"});
    let records = |second: &Value| json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [first, second]});
    let mut again = Server::new(&config(""));
    ask(&mut again, records(&job), 1060.0);
    assert_eq!(again.book().starts_by("2.s"), Some(1105.0));
    // The first has its processor for its estimate, though it did not work.
    ask(&mut again, records(&job), 1095.0);
    let begun = run(&mut again, &job, 1105.0);
    assert!(text(&begun).contains("(it was planned)"), "{begun}");

    let held = with(with(job.clone(), "state", "H"), "held", "u");
    ask(&mut server, records(&held), 1030.0);
    assert!(!server.book().contains("2.s"));
    // Released before anybody has written that down: it does not come back into its place, and is asked for anew.
    ask(&mut server, records(&job), 1040.0);
    assert!(!server.book().contains("2.s"));
    let waits = run(&mut server, &job, 1105.0);
    assert!(
        text(&waits).starts_with("libra: refused (share): "),
        "{waits}"
    );
    let told = line(&waits);
    assert!(told.deferred && told.starts_by.is_none());
}

#[test]
fn its_start_is_not_its_users_to_alter() {
    let mut server = busy();
    let job = planned(&mut server, "2.s", dedicated("50", "300"));
    let alter = |server: &mut Server, by: &str, more: Value| {
        let mut altered =
            json!({"id": "2.s", "commitment": job["commitment"], "keys": [], "by": by});
        for (key, value) in more.as_object().expect("an object") {
            altered[key] = value.clone();
        }
        ask(
            server,
            json!({"event": "modifyjob", "job": altered}),
            1005.0,
        )
    };
    for start in [1010.0, 1250.0] {
        let refused = alter(&mut server, "ann", json!({"start": start}));
        assert!(
            text(&refused).starts_with("libra: its start is planned: it begins in 1m40s at the latest, and by itself as soon as it fits; "),
            "{refused}"
        );
        assert_eq!(
            alter(&mut server, "root", json!({"start": 1010.0}))["verdict"],
            "accept"
        );
    }
    let line = job["commitment"].as_str().expect("a line");
    let taken = line.replace(":starts-by=1105", "");
    let keys = json!(["libra_terms", "libra_info"]);
    for (by, keys, terms) in [
        ("ann", keys.clone(), taken.clone()),
        (
            "root",
            keys.clone(),
            taken.replace("estimate=50", "estimate=5"),
        ),
        ("root", keys.clone(), line.to_string()),
        ("root", json!(["libra_terms", "budget"]), taken.clone()),
    ] {
        let refused = alter(&mut server, by, json!({"keys": keys, "terms": terms}));
        assert!(
            text(&refused).contains("belongs to the commitment"),
            "{refused}"
        );
        assert!(server.book().contains("2.s"));
    }
    let accepted = alter(&mut server, "root", json!({"keys": keys, "terms": taken}));
    assert_eq!(accepted["verdict"], "accept");
    assert!(!server.book().contains("2.s"));
}

/// PBS's alarms for the start times that it had would have it run twice.
#[test]
fn once_it_runs_its_start_time_is_behind_its_deadline() {
    let mut server = busy();
    let job = planned(&mut server, "2.s", dedicated("50", "300"));
    let first = enter(&mut one_node(), "1.s", dedicated("100", "1000"), 1000.0);
    ends(&mut server, "1.s", &first, 1020.0);
    let begun = run(&mut server, &job, 1021.0);
    assert_eq!(begun.get("start_when_running"), None, "it does not run yet");
    let waits = json!({"id": "2.s", "state": "Q", "commitment": line(&begun).line(), "exec_vnode": "(n1:ncpus=0)",
        "info": begun["resources"]["libra_info"], "runs": 0});
    let answer = ask(
        &mut server,
        json!({"event": "runjob", "job": waits}),
        1023.0,
    );
    assert_eq!(answer["verdict"], "accept");
    let behind = answer["start_when_running"].as_f64().expect("a time");
    assert_eq!(behind, 1300.0 + 86_400.0);

    let mut alter = |state: &str, substate: i64, before: Value, start: f64| {
        let altered = json!({"id": "2.s", "commitment": waits["commitment"], "keys": [], "by": "root", "state": state,
            "substate": substate, "start_before": before, "start": start});
        let answer = ask(
            &mut server,
            json!({"event": "modifyjob", "job": altered}),
            1024.0,
        );
        answer["verdict"] == "accept"
    };
    for (state, substate) in [("Q", 10), ("W", 30), ("R", 41), ("E", 50)] {
        assert!(
            !alter(state, substate, Value::Null, behind),
            "it would wait for so long"
        );
    }
    assert!(alter("R", 42, Value::Null, behind));
    assert!(!alter("R", 42, json!(behind), 1025.0), "a new alarm");
    assert!(alter("W", 30, json!(behind), 1025.0));
}

/// Behind its deadline, then at once: it waits for nothing, though PBS says that it is eligible since just now.
#[test]
fn one_that_has_run_and_waits_again_keeps_its_share() {
    let mut server = busy();
    let job = planned(&mut server, "2.s", dedicated("50", "300"));
    let first = enter(&mut one_node(), "1.s", dedicated("100", "1000"), 1000.0);
    ends(&mut server, "1.s", &first, 1020.0);
    let begun = run(&mut server, &job, 1021.0);
    let line = line(&begun).line();
    assert_eq!(
        start(&mut server, "2.s", &line, 1023.0)["verdict"],
        "accept"
    );
    let back = json!({"id": "2.s", "state": "E", "substate": 60, "commitment": line, "exec_vnode": "(n1:ncpus=0)",
        "info": begun["resources"]["libra_info"], "runs": 1, "start": 1300 + 86_400});
    let mut requeue =
        |job: &Value| ask(&mut server, json!({"event": "jobobit", "job": job}), 1200.0);
    assert_eq!(requeue(&back)["again"], json!({"job": "2.s", "info": null}));
    let waited = with(back.clone(), "start", "1022");
    assert_eq!(requeue(&waited).get("again"), None);
    let waits = |state: &str, more: Value| {
        let mut job = with(back.clone(), "state", state);
        for (key, value) in more.as_object().expect("an object") {
            job[key] = value.clone();
        }
        json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [job], "taken": 1201.0})
    };
    let holds = |records: &Value| {
        let mut server = Server::new(&config(""));
        ask(&mut server, records.clone(), 1201.0);
        server.book().contains("2.s")
    };
    for records in [
        waits("W", json!({})),
        waits("W", json!({"start": 1202})),
        waits("Q", json!({"start": null, "eligible": 1202})),
    ] {
        ask(&mut server, records.clone(), 1201.0);
        assert!(server.book().contains("2.s"), "{records}");
        assert!(holds(&records), "after a restart as well: {records}");
    }
    // As any other: by its user's will, before it has run, or where its record says that it was held.
    for records in [
        waits("H", json!({"held": "u"})),
        waits("W", json!({"start": 1400})),
        waits("Q", json!({"start": null, "eligible": 1202, "runs": 0})),
        waits(
            "Q",
            json!({"start": null, "eligible": 1202, "info": "held: its share is given back"}),
        ),
    ] {
        assert!(!holds(&records), "{records}");
    }
}

#[test]
fn what_cannot_begin_any_more_is_given_back() {
    let mut server = busy();
    let job = planned(&mut server, "2.s", dedicated("50", "160"));
    let down = json!({"event": "modifyvnode", "node": "n1", "up": false});
    ask(&mut server, down, 1010.0);
    let waits = run(&mut server, &job, 1106.0);
    assert_eq!(
        (text(&waits).split(": ").nth(1), &waits["start"]),
        (Some("planned"), &json!(1111))
    );
    let lost = run(&mut server, &job, 1140.0);
    assert!(
        text(&lost).starts_with("libra: its planned promise is given back: "),
        "{lost}"
    );
    assert_eq!(
        (&lost["hold"], &lost["resources"]["libra_terms"]),
        (&json!(true), &json!("-"))
    );
    assert!(!server.book().contains("2.s"));
}

#[test]
fn nobody_is_planned_behind_one_that_may_be_gone() {
    let mut server = busy();
    planned(&mut server, "2.s", dedicated("50", "300"));
    let third = submit(&mut server, dedicated("50", "400"), 1000.0);
    assert_eq!(third["check"], json!(["2.s"]));
    ask(
        &mut server,
        json!({"event": "gone", "jobs": ["2.s"]}),
        1000.0,
    );
    let third = submit(
        &mut server,
        with(dedicated("50", "400"), "checked", "yes"),
        1000.0,
    );
    assert_eq!(line(&third).starts_by, Some(1105.0));
}

#[test]
fn what_is_no_job_of_its_own_is_not_planned() {
    let mut server = busy();
    for (job, reason) in [
        (
            with(dedicated("50", "300"), "array", "1-2"),
            "refused (share)",
        ),
        (dedicated("50", "120"), "refused (share)"),
    ] {
        assert!(text(&submit(&mut server, job, 1000.0)).contains(reason));
    }
    let mut immediate = dedicated("50", "300");
    immediate["terms"]["class"] = "immediate".into();
    assert!(text(&submit(&mut server, immediate, 1000.0)).contains("refused (share)"));
    // A quote says what the submission would be told.
    let asked = submit(
        &mut server,
        with(dedicated("50", "300"), "quote", "ask"),
        1000.0,
    );
    assert!(text(&asked).contains(
        "planned: a whole processor on n1, or elsewhere sooner: begins in 1m45s at the latest"
    ));
}
