//! Dedicated jobs that stand still for others, as pbs_server sees them.

use super::alarms::{BACK, going_on, start_when_suspended};
use super::marks::keeps_memory;
use super::planned_tests::{dedicated, ends, line, run};
use super::server::Server;
use super::tests::{ask, config, enter, node, server_with, submit, text, with};
use libra_batch::server::suspended::GoingOn;
use libra_core::commitment::Commitment;
use serde_json::{Value, json};

const MEMORY: &str = "[class]\nsuspend = 'memory'\n";

/// One node, whose suspended jobs keep what PBS counts but for `released`.
fn site(released: Option<&str>) -> Server {
    let mut server = server_with(&config(MEMORY), &[node("n1", "1")]);
    let nodes =
        json!({"event": "nodes", "nodes": [node("n1", "1")], "site": {"released": released}});
    ask(&mut server, nodes, 1000.0);
    server
}

/// PBS's record of a job that runs.
fn runs(server: &mut Server, id: &str, job: Value, now: f64) -> Value {
    let commitment = enter(server, id, job, now);
    begins(server, id, &commitment, now)
}

fn begins(server: &mut Server, id: &str, commitment: &str, now: f64) -> Value {
    let record = json!({"id": id, "state": "R", "substate": 42, "commitment": commitment, "exec_vnode": "(n1:ncpus=0)",
        "runs": 1, "started": now});
    let answer = ask(
        server,
        json!({"event": "runjob", "job": with(record.clone(), "state", "Q")}),
        now,
    );
    assert_eq!(answer["verdict"], "accept", "{answer}");
    record
}

/// The other one, which is accepted to begin in a moment: its record while it waits, and who is to be looked at.
fn comes(server: &mut Server, now: f64) -> (Value, Value) {
    comes_by(server, "80", now)
}

fn comes_by(server: &mut Server, deadline: &str, now: f64) -> (Value, Value) {
    let answer = submit(server, dedicated("50", deadline), now);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    let line = line(&answer);
    assert_eq!(line.starts_by, Some(now + 10.0));
    let record = json!({"id": "2.s", "state": "W", "owner": "ann", "commitment": line.line(), "select": answer["resources"]["select"],
        "place": answer["resources"]["place"], "info": answer["resources"]["libra_info"], "start": answer["start"]});
    let named = ask(server, json!({"event": "postqueuejob", "job": record}), now);
    (record, named["look"].clone())
}

/// One more, for which the first one is looked at.
fn another_comes(server: &mut Server, now: f64) {
    let answer = submit(server, dedicated("50", "80"), now);
    let named =
        json!({"id": "3.s", "state": "W", "owner": "ann", "commitment": line(&answer).line()});
    let look = ask(server, json!({"event": "postqueuejob", "job": named}), now);
    assert_eq!(look["look"], json!(["1.s"]));
}

/// A job is shown; what PBS is told of it.
fn shown(server: &mut Server, record: &Value, now: f64) -> Value {
    let answer = ask(
        server,
        json!({"event": "jobs", "jobs": [record], "gone": []}),
        now,
    );
    let mut orders = answer["orders"].clone();
    if let Some(woken) = answer.get("wake") {
        orders
            .as_array_mut()
            .expect("a list")
            .push(json!({"wake": woken}));
    }
    orders
}

/// An event that is about this job and changes nothing; who is to be looked at.
fn poked(server: &mut Server, record: &Value, now: f64) -> Value {
    let job = json!({"id": record["id"], "commitment": record["commitment"], "keys": ["ncpus"], "by": "root", "state": record["state"]});
    let answer = ask(server, json!({"event": "modifyjob", "job": job}), now);
    assert_eq!(answer["verdict"], "refuse");
    answer["look"].clone()
}

fn order(orders: &Value) -> &str {
    assert_eq!(orders.as_array().map(Vec::len), Some(1), "{orders}");
    orders[0]["order"].as_str().expect("an order")
}

/// One stands still since 1011, and another one runs since 1012 for 50 seconds; their records.
fn one_stands_still() -> (Server, Value, Value) {
    let mut server = site(Some("ncpus"));
    let mut first = runs(&mut server, "1.s", dedicated("100", "1000"), 1000.0);
    let (other, _) = comes(&mut server, 1010.0);
    first["start"] = shown(&mut server, &first, 1010.1)[0]["start"].clone();
    assert_eq!(order(&shown(&mut server, &first, 1010.2)), "suspend");
    first["substate"] = 43.into();
    assert_eq!(
        shown(&mut server, &first, 1011.0),
        json!([{"wake": ["2.s"]}])
    );
    let begun = run(&mut server, &other, 1011.5);
    assert!(text(&begun).contains("(it was planned)"), "{begun}");
    // PBS counts the shares of the one that stands still.
    let select = begun["resources"]["select"].as_str().expect("a select");
    assert!(select.contains("libra_share=0:"), "{select}");
    let other = begins(&mut server, "2.s", &line(&begun).line(), 1012.0);
    (server, first, other)
}

#[test]
fn one_with_time_stands_still_and_goes_on() {
    let mut server = site(Some("ncpus"));
    let mut first = runs(&mut server, "1.s", dedicated("100", "1000"), 1000.0);
    let (_, look) = comes(&mut server, 1010.0);
    assert_eq!(look, json!(["1.s"]));
    // It is marked first, so that whoever reads the records knows it.
    let told = shown(&mut server, &first, 1010.1);
    assert_eq!(order(&told), "mark");
    assert_eq!(
        told[0]["comment"],
        "libra: suspended for a job with an earlier deadline: it goes on in 65 s at the latest, and its own deadline holds, 16m40s after its submission"
    );
    first["start"] = told[0]["start"].clone();
    let commitment =
        Commitment::parse(first["commitment"].as_str().expect("a line")).expect("ours");
    assert_eq!(
        going_on(&first, &commitment),
        Some(GoingOn {
            by: 1075.0,
            late: false
        })
    );
    let told = shown(&mut server, &first, 1010.2);
    assert_eq!((order(&told), &told[0]["due"]), ("suspend", &Value::Null));
    assert_eq!(
        shown(&mut server, &first, 1010.3),
        json!([]),
        "it is told already"
    );

    let (mut server, mut first, other) = one_stands_still();
    assert_eq!(poked(&mut server, &first, 1020.0), json!(["1.s"]));
    assert_eq!(shown(&mut server, &first, 1020.0), json!([]));
    let end = ends(
        &mut server,
        "2.s",
        other["commitment"].as_str().expect("a line"),
        1040.0,
    );
    assert_eq!(end["look"], json!(["1.s"]));
    assert_eq!(order(&shown(&mut server, &first, 1040.0)), "resume");
    // The mark goes when it runs, and its start time keeps alarms off.
    first["substate"] = 42.into();
    let told = shown(&mut server, &first, 1041.0);
    assert_eq!(
        (order(&told), &told[0]["start"]),
        ("mark", &json!(2000 + 129_600))
    );
    assert!(
        told[0]["comment"]
            .as_str()
            .is_some_and(|text| text.contains("goes on; its own deadline holds"))
    );
    first["start"] = told[0]["start"].clone();
    assert_eq!(shown(&mut server, &first, 1042.0), json!([]));
    assert_eq!(poked(&mut server, &first, 1043.0), Value::Null);
}

#[test]
fn it_goes_on_by_right_when_it_is_due() {
    let (mut server, first, _) = one_stands_still();
    assert_eq!(poked(&mut server, &first, 1074.0), json!(["1.s"]));
    assert_eq!(shown(&mut server, &first, 1074.0), json!([]));
    // The other one has outlived its estimate.
    assert_eq!(poked(&mut server, &first, 1075.5), json!(["1.s"]));
    assert_eq!(order(&shown(&mut server, &first, 1075.5)), "resume");
}

#[test]
fn whoever_reads_the_records_knows_it() {
    let (mut server, first, other) = one_stands_still();
    let records = json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [first, other], "site": {"released": "ncpus"}, "taken": 1030.0});
    for server in [&mut server, &mut Server::new(&config(MEMORY))] {
        ask(server, records.clone(), 1030.0);
        assert_eq!(server.book().goes_on_by("1.s"), Some(1075.0));
        let end = ends(
            server,
            "2.s",
            other["commitment"].as_str().expect("a line"),
            1040.0,
        );
        assert_eq!(end["look"], json!(["1.s"]));
        assert_eq!(order(&shown(server, &first, 1040.0)), "resume");
        // It has run for ten seconds, and stood still for thirty.
        assert!(server.book().would_be_late("1.s").is_none());
    }
    // Records that are older than what was seen say nothing.
    let (mut server, first, other) = one_stands_still();
    let mut before = first.clone();
    (before["start"], before["substate"]) = (Value::Null, 42.into());
    let records = json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [before, other], "taken": 1009.0});
    ask(&mut server, records, 1013.0);
    assert_eq!(server.book().goes_on_by("1.s"), Some(1075.0));
    assert_eq!(shown(&mut server, &first, 1013.0), json!([]));
}

#[test]
fn nobody_is_suspended_who_would_lose_his_memory_or_whose_site_does_not_want_it() {
    for (released, kept) in [
        (None, false),
        (Some("ncpus"), true),
        (Some("ncpus, mem"), false),
        (Some("Libra_Share"), false),
        (Some("ngpus,vmem"), true),
    ] {
        assert_eq!(keeps_memory(released), kept, "{released:?}");
        let mut server = site(released);
        runs(&mut server, "1.s", dedicated("100", "1000"), 1000.0);
        let answer = submit(&mut server, dedicated("50", "80"), 1010.0);
        assert_eq!(answer["verdict"] == "accept", kept, "{answer}");
    }
    let mut never = server_with(&config(""), &[node("n1", "1")]);
    ask(
        &mut never,
        json!({"event": "nodes", "nodes": [], "site": {"released": "ncpus"}}),
        1000.0,
    );
    runs(&mut never, "1.s", dedicated("100", "1000"), 1000.0);
    assert_eq!(
        submit(&mut never, dedicated("50", "80"), 1010.0)["verdict"],
        "refuse"
    );
}

#[test]
fn what_somebody_else_suspended_keeps_its_processors() {
    let mut server = site(Some("ncpus"));
    let mut first = runs(&mut server, "1.s", dedicated("100", "1000"), 1000.0);
    first["substate"] = 45.into();
    comes(&mut server, 1010.0);
    let answer = ask(
        &mut server,
        json!({"event": "jobs", "jobs": [first]}),
        1010.1,
    );
    assert_eq!(answer["orders"], json!([]));
    assert!(
        answer["log"]
            .to_string()
            .contains("was suspended by somebody else"),
        "{answer}"
    );
    assert_eq!(server.book().goes_on_by("1.s"), None);
}

#[test]
fn one_that_is_taken_back_into_its_queue_waits_for_those_that_have_begun() {
    let (mut server, first, other) = one_stands_still();
    let requeued = |record: &Value| {
        with(
            with(record.clone(), "state", "E"),
            "commitment",
            record["commitment"].as_str().expect("a line"),
        )
    };
    let mut job = requeued(&first);
    (job["substate"], job["info"]) = (60.into(), "accepted: so".into());
    let answer = ask(&mut server, json!({"event": "jobobit", "job": job}), 1020.0);
    let info = format!("accepted: so ({BACK})");
    assert_eq!(answer["again"], json!({"job": "1.s", "info": info}));
    let mut waits = with(first.clone(), "state", "Q");
    (waits["start"], waits["substate"]) = (Value::Null, 10.into());
    (waits["info"], waits["eligible"]) = (info.into(), 1021.into());
    // After a restart as well: that it is eligible since just now does not mean that it was held.
    let records = json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [waits, other], "taken": 1021.0});
    let mut again = Server::new(&config(MEMORY));
    ask(&mut again, records, 1021.0);
    assert!(again.book().contains("1.s"));
    let tried = ask(
        &mut server,
        json!({"event": "runjob", "job": waits}),
        1021.0,
    );
    assert!(
        text(&tried).contains("others have its processors of n1 meanwhile"),
        "{tried}"
    );
    assert_eq!(tried.get("hold"), None);
    ends(
        &mut server,
        "2.s",
        other["commitment"].as_str().expect("a line"),
        1040.0,
    );
    let tried = ask(
        &mut server,
        json!({"event": "runjob", "job": waits}),
        1041.0,
    );
    assert_eq!(tried["verdict"], "accept", "{tried}");
    // Its start time is over, which an alarm of PBS's may not find.
    assert_eq!(tried["start_when_running"], 2000 + 86_400);
}

/// PBS answers when its hosts have: a mark stays for as long, and who is suspended then goes on.
#[test]
fn one_that_is_suspended_late_goes_on() {
    let ordered = || {
        let mut server = site(Some("ncpus"));
        let mut first = runs(&mut server, "1.s", dedicated("100", "1000"), 1000.0);
        let (other, _) = comes_by(&mut server, "140", 1010.0);
        first["start"] = shown(&mut server, &first, 1010.1)[0]["start"].clone();
        assert_eq!(order(&shown(&mut server, &first, 1010.2)), "suspend");
        (server, first, other)
    };
    // Nobody comes any more.
    let (mut server, mut first, _) = ordered();
    ask(
        &mut server,
        json!({"event": "gone", "jobs": ["2.s"]}),
        1012.0,
    );
    assert_eq!(shown(&mut server, &first, 1012.0), json!([]));
    assert_eq!(shown(&mut server, &first, 1500.0), json!([]));
    first["substate"] = 43.into();
    assert_eq!(order(&shown(&mut server, &first, 1501.0)), "resume");
    first["substate"] = 42.into();
    assert_eq!(order(&shown(&mut server, &first, 1502.0)), "mark");
    // It is not suspended in time, and keeps its processors.
    let (mut server, mut first, other) = ordered();
    for (at, told) in [(1019.0, 0), (1021.0, 1), (1042.0, 1)] {
        let orders = shown(&mut server, &first, at);
        assert_eq!(
            orders.as_array().map(Vec::len),
            Some(told),
            "{at}: {orders}"
        );
    }
    // A part of it may stand still.
    assert_eq!(order(&shown(&mut server, &first, 1083.0)), "resume");
    assert_eq!(server.book().goes_on_by("1.s"), None);
    // The other one is planned anew, and all begins once more.
    let anew = run(&mut server, &other, 1084.0);
    assert!(
        text(&anew).contains("its planned start could not be had"),
        "{anew}"
    );
    assert_eq!(anew["look"], json!(["1.s"]));
    let told = shown(&mut server, &first, 1084.0);
    assert_eq!(order(&told), "mark");
    first["start"] = told[0]["start"].clone();
    assert_eq!(order(&shown(&mut server, &first, 1084.2)), "suspend");
    ask(
        &mut server,
        json!({"event": "gone", "jobs": ["2.s"]}),
        1085.0,
    );
    first["substate"] = 43.into();
    assert_eq!(order(&shown(&mut server, &first, 1100.0)), "resume");
    // In the end it is not obeyed any more.
    let (mut server, first, _) = ordered();
    ask(
        &mut server,
        json!({"event": "gone", "jobs": ["2.s"]}),
        1012.0,
    );
    shown(&mut server, &first, 1012.0);
    assert_eq!(order(&shown(&mut server, &first, 1700.0)), "mark");
}

/// It cannot be stopped before it has gone on, so nobody begins before that.
#[test]
fn one_that_pbs_is_about_to_resume_does_not_stand_still() {
    let (mut server, mut first, other) = one_stands_still();
    ends(
        &mut server,
        "2.s",
        other["commitment"].as_str().expect("a line"),
        1040.0,
    );
    assert_eq!(order(&shown(&mut server, &first, 1040.0)), "resume");
    first["substate"] = 45.into();
    assert_eq!(shown(&mut server, &first, 1040.5), json!([]));
    another_comes(&mut server, 1041.0);
    let told = shown(&mut server, &first, 1041.1);
    assert_eq!(order(&told), "mark");
    first["start"] = told[0]["start"].clone();
    assert_eq!(
        shown(&mut server, &first, 1041.2),
        json!([]),
        "nobody is woken"
    );
    first["substate"] = 42.into();
    assert_eq!(order(&shown(&mut server, &first, 1042.0)), "suspend");
    first["substate"] = 43.into();
    assert_eq!(
        shown(&mut server, &first, 1043.0),
        json!([{"wake": ["3.s"]}])
    );
}

/// It does not wait until the one before would be told again.
#[test]
fn another_mark_is_another_order() {
    let (mut server, mut first, other) = one_stands_still();
    ends(
        &mut server,
        "2.s",
        other["commitment"].as_str().expect("a line"),
        1040.0,
    );
    assert_eq!(order(&shown(&mut server, &first, 1040.0)), "resume");
    first["substate"] = 42.into();
    let none = shown(&mut server, &first, 1041.0);
    assert_eq!(order(&none), "mark");
    another_comes(&mut server, 1042.0);
    let told = shown(&mut server, &first, 1042.1);
    assert_eq!(order(&told), "mark");
    assert_ne!(told[0]["start"], none[0]["start"]);
}

#[test]
fn a_server_that_knows_nothing_asks_for_records_when_it_is_poked() {
    let (_, first, _) = one_stands_still();
    let mut anew = Server::new(&config(MEMORY));
    let poke = json!({"event": "modifyjob", "job": {"id": "1.s", "commitment": first["commitment"], "keys": ["ncpus"], "by": "root"}});
    assert_eq!(ask(&mut anew, poke, 1080.0)["wants"], "records");
    let records = json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [first], "site": {"released": "ncpus"}});
    ask(&mut anew, records, 1080.0);
    assert_eq!(poked(&mut anew, &first, 1080.0), json!(["1.s"]));
    assert_eq!(order(&shown(&mut anew, &first, 1080.0)), "resume");
}

#[test]
fn nobody_looks_at_one_that_has_ended() {
    let (mut server, mut first, other) = one_stands_still();
    let end = ends(
        &mut server,
        "1.s",
        first["commitment"].as_str().expect("a line"),
        1030.0,
    );
    assert_eq!(end.get("look"), None);
    first["state"] = "E".into();
    assert_eq!(shown(&mut server, &first, 1030.0), json!([]));
    let end = ends(
        &mut server,
        "2.s",
        other["commitment"].as_str().expect("a line"),
        1031.0,
    );
    assert_eq!(end.get("look"), None);
}

#[test]
fn nobody_else_writes_a_mark() {
    let (mut server, first, _) = one_stands_still();
    let commitment =
        Commitment::parse(first["commitment"].as_str().expect("a line")).expect("ours");
    let mark = start_when_suspended(
        &commitment,
        GoingOn {
            by: 1500.0,
            late: true,
        },
    );
    let mut alter = |by: &str, start: u64, substate: i64, before: &Value| {
        let job = json!({"id": "1.s", "commitment": first["commitment"], "keys": [], "by": by, "state": "R", "substate": substate,
            "start": start, "start_before": before});
        ask(
            &mut server,
            json!({"event": "modifyjob", "job": job}),
            1030.0,
        )["verdict"]
            == "accept"
    };
    assert!(alter("root", mark, 43, &first["start"]));
    assert!(!alter("ann", mark, 43, &first["start"]));
    assert!(!alter("ann", mark, 42, &Value::Null));
    assert!(
        !alter("root", mark, 41, &Value::Null),
        "it does not run yet"
    );
    assert!(
        !alter("root", 1500, 43, &first["start"]),
        "the mark would be lost"
    );
    let marked = json!({"start": mark});
    assert_eq!(
        going_on(&marked, &commitment),
        Some(GoingOn {
            by: 1500.0,
            late: true
        })
    );
}

/// Where each hook takes half a minute a job of twenty seconds is overdue, and the first one's time to stand still past, before PBS has done the first thing.
#[test]
fn a_slow_site_makes_room_for_a_short_job() {
    let mut server = site(Some("ncpus"));
    let mut first = runs(&mut server, "1.s", dedicated("3600", "864000"), 1000.0);
    let answer = submit(&mut server, dedicated("20", "1800"), 1010.0);
    let planned = line(&answer);
    let mut other = json!({"id": "2.s", "state": "W", "owner": "ann", "commitment": planned.line(), "select": answer["resources"]["select"],
        "place": answer["resources"]["place"], "info": answer["resources"]["libra_info"], "start": answer["start"]});
    ask(
        &mut server,
        json!({"event": "postqueuejob", "job": other}),
        1010.0,
    );
    let (mut now, mut said) = (1010.0, Vec::new());
    while now < 1500.0 {
        now += 30.0;
        let orders = shown(&mut server, &first, now);
        for told in orders.as_array().expect("a list") {
            said.push(format!("{now} {told}"));
            match told["order"].as_str() {
                Some("mark") => first["start"] = told["start"].clone(),
                Some("suspend") => first["substate"] = 43.into(),
                Some("resume") => first["substate"] = 42.into(),
                _ => {}
            }
        }
        now += 15.0;
        let begun = run(&mut server, &other, now);
        said.push(format!("{now} {}", text(&begun)));
        if text(&begun).contains("(it was planned)") {
            return;
        }
        if let Some(line) = begun["resources"]["libra_terms"].as_str() {
            other["commitment"] = line.into();
        }
    }
    panic!("it never began: {said:#?}");
}
