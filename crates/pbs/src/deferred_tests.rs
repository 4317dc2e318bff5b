//! Jobs that may not start yet: judged by an empty cluster first, and by the cluster as it is when they may.

use super::server::Server;
use super::tests::{ask, config, enter, node, server_with, submit, terms, text, with};
use libra_core::commitment::Commitment;
use serde_json::{Value, json};

fn one_node() -> Server {
    server_with(&config(""), &[node("n1", "1")])
}

fn waiting(estimate: &str, deadline: &str, budget: &str) -> Value {
    with(terms(estimate, deadline, budget), "depend", "afterok:1.s@s")
}

fn committed(server: &Server) -> f64 {
    server.book().committed("n1").expect("n1")
}

/// PBS's record of such a job, when its scheduler would run it.
fn released(id: &str, answer: &Value) -> Value {
    let resources = &answer["resources"];
    json!({"id": id, "state": "Q", "owner": "ann", "commitment": resources["libra_terms"], "select": resources["select"],
        "place": resources["place"], "info": resources["libra_info"], "exec_vnode": "(n1:ncpus=0)"})
}

fn run(server: &mut Server, job: &Value, now: f64) -> Value {
    ask(server, json!({"event": "runjob", "job": job}), now)
}

/// Submits one that waits, and gives it its id; PBS's record of it when it may run.
fn defer(server: &mut Server, id: &str, job: Value, now: f64) -> Value {
    let answer = submit(server, job, now);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    let line = &answer["resources"]["libra_terms"];
    ask(
        server,
        json!({"event": "postqueuejob", "job": {"id": id, "commitment": line}}),
        now,
    );
    released(id, &answer)
}

fn line(answer: &Value) -> Commitment {
    let line = answer["resources"]["libra_terms"].as_str().expect("a line");
    Commitment::parse(line).expect("our own line")
}

#[test]
fn a_deferred_job_holds_nothing_and_needs_no_room_now() {
    let mut server = one_node();
    enter(&mut server, "1.s", terms("90", "100", "999"), 1000.0);
    for (key, value) in [
        ("depend", "afterok:1.s@s"),
        ("depend", "beforeok:7.s@s,afterany:1.s@s"),
        ("depend", "on:2"),
        ("start", "1010"),
        ("hold", "u"),
    ] {
        let answer = submit(
            &mut server,
            with(terms("50", "100", "999"), key, value),
            1000.0,
        );
        assert_eq!(answer["verdict"], "accept", "{key}={value}: {answer}");
        let resources = &answer["resources"];
        assert!(line(&answer).deferred);
        assert_eq!(
            resources["select"],
            "1:ncpus=0:mpiprocs=1:ompthreads=1:libra_share=0:libra_node=True"
        );
        let info = resources["libra_info"].as_str().expect("a text");
        assert!(
            info.starts_with("deferred: finished in 1m40s at the latest, for "),
            "{info}"
        );
    }
    assert!((committed(&server) - 0.9).abs() < 1e-9);
    assert_eq!(server.book().job_count(), 1);
}

/// Others wait for such a job, or it starts at once.
#[test]
fn a_job_that_waits_for_nothing_is_judged_as_ever() {
    for (key, value) in [
        ("depend", "before:1.s@s"),
        ("depend", "runone:1.s@s"),
        ("start", "999"),
    ] {
        let mut server = one_node();
        let job = with(terms("50", "100", "999"), key, value);
        let answer = submit(&mut server, job, 1000.0);
        assert!(!line(&answer).deferred, "{answer}");
        assert!((committed(&server) - 0.5).abs() < 1e-9);
    }
}

#[test]
fn what_can_never_be_kept_is_refused_at_once() {
    let mut server = one_node();
    let answer = submit(&mut server, waiting("50", "40", "999"), 1000.0);
    assert!(
        text(&answer).starts_with("libra: refused (deadline): "),
        "{answer}"
    );
    assert!(
        text(&answer).contains("accepted now would be: deadline=50"),
        "{answer}"
    );
    let answer = submit(&mut server, waiting("50", "100", "20"), 1000.0);
    assert!(
        text(&answer).starts_with("libra: refused (budget): "),
        "{answer}"
    );
    // It may begin after 60 of its 100 s.
    let later = with(terms("50", "100", "999"), "start", "1060");
    let answer = submit(&mut server, later, 1000.0);
    assert!(text(&answer).contains("deadline=110"), "{answer}");
    let over = with(terms("50", "100", "999"), "start", "1100");
    let answer = submit(&mut server, over, 1000.0);
    assert!(
        text(&answer).contains("it may start 1m40s after its submission at the earliest (-a)"),
        "{answer}"
    );
    assert!(text(&answer).contains("more than 2m30s"), "{answer}");
}

#[test]
fn a_quote_says_what_the_submission_is_told() {
    let mut server = one_node();
    enter(&mut server, "1.s", terms("90", "100", "999"), 1000.0);
    let job = waiting("50", "100", "999");
    let told = submit(&mut server, job.clone(), 1000.0)["resources"]["libra_info"].clone();
    let asked = submit(&mut server, with(job.clone(), "quote", "ask"), 1000.0);
    let quote = libra_batch::quote::Quote::find(text(&asked)).expect("an answer");
    assert_eq!((quote.accepted, quote.node), (true, None));
    assert_eq!(quote.text, told.as_str().expect("a text"));
    let held = submit(&mut server, with(job, "quote", "hold:1m"), 1000.0);
    assert!(text(&held).contains("may not start yet"), "{held}");
}

#[test]
fn released_it_has_a_share_of_a_node_with_room() {
    let mut server = server_with(&config(""), &[node("n1", "1"), node("n2", "1")]);
    let job = defer(&mut server, "2.s", waiting("30", "100", "999"), 1000.0);
    enter(&mut server, "1.s", terms("90", "100", "999"), 1000.0);
    let taken = server.book().places("1.s").expect("there")[0]
        .node
        .to_string();
    // PBS would have put it where there is no room.
    let answer = run(&mut server, &job, 1040.0);
    assert!(
        text(&answer).contains("PBS starts it in a moment"),
        "{answer}"
    );
    assert_eq!(answer["start"], 1042);
    let anew = line(&answer);
    assert_eq!(
        (anew.submitted, anew.request.terms.deadline, anew.deferred),
        (1040.0, 60.0, false)
    );
    let node = &anew.places[0].node;
    assert!(*node != taken, "{answer}");
    assert_eq!(
        answer["resources"]["select"],
        format!("1:ncpus=0:mpiprocs=1:ompthreads=1:libra_share=0.5:vnode={node}")
    );
    // Meanwhile PBS shows it as one that waits for its time.
    let waits = json!({"id": "2.s", "state": "W", "commitment": anew.line(), "start": 1042.0});
    ask(
        &mut server,
        json!({"event": "held", "jobs": [waits]}),
        1041.0,
    );
    // And runs there.
    let starts = json!({"id": "2.s", "state": "Q", "commitment": anew.line(), "eligible": 1039.0,
        "exec_vnode": format!("({node}:ncpus=0:libra_share=0.5)")});
    assert_eq!(run(&mut server, &starts, 1042.0)["verdict"], "accept");
}

/// What it waits for may end whenever it likes.
#[test]
fn a_deadline_from_its_start_counts_from_when_it_may_start() {
    let mut server = one_node();
    for (key, value) in [
        ("depend", "afterok:1.s@s"),
        ("start", "5000"),
        ("hold", "u"),
    ] {
        let asked = with(terms("40", "100/start", "999"), key, value);
        let mut job = defer(&mut server, "2.s", asked, 1000.0);
        let info = job["info"].as_str().expect("a text").to_string();
        assert!(
            info.starts_with(
                "deferred: finished in 1m40s from when it may start at the latest, for "
            ),
            "{info}"
        );
        job["eligible"] = 9000.0.into();
        let anew = line(&run(&mut server, &job, 9010.0));
        assert_eq!(
            (anew.submitted, anew.request.terms.deadline),
            (9010.0, 90.0)
        );
        ask(
            &mut server,
            json!({"event": "gone", "jobs": ["2.s"]}),
            9010.0,
        );
        let late = run(&mut server, &job, 9070.0);
        assert!(
            text(&late).contains("given back: refused (deadline)"),
            "{late}"
        );
    }
    // It waits for nothing: the earliest start is now.
    let at_once = submit(&mut server, terms("40", "100/start", "999"), 1000.0);
    assert!(!line(&at_once).deferred, "{at_once}");
    let refused = submit(
        &mut server,
        with(terms("400", "100/start", "9999"), "hold", "u"),
        1000.0,
    );
    assert!(text(&refused).contains("deadline=400/start"), "{refused}");
}

/// Each of its jobs has its deadline from when the array may start, and pays from the array's hold.
#[test]
fn jobs_of_an_array_count_from_when_it_may_start() {
    let mut server = one_node();
    let array = with(
        with(terms("30", "100/start", "999"), "depend", "afterok:1.s@s"),
        "array",
        "1-2",
    );
    let answer = submit(&mut server, array, 1000.0);
    let first = json!({"id": "7[1].s", "state": "Q", "commitment": answer["resources"]["libra_terms"], "array": "1-2",
        "exec_vnode": "(n1:libra_share=0.3)", "eligible": 9000.0});
    let anew = line(&run(&mut server, &first, 9010.0));
    assert_eq!(
        (anew.submitted, anew.request.terms.deadline),
        (9010.0, 90.0)
    );
}

#[test]
fn a_start_after_which_its_deadline_cannot_be_kept_is_refused() {
    let mut server = one_node();
    let job = defer(&mut server, "2.s", waiting("40", "100", "999"), 1000.0);
    let alter = |server: &mut Server, line: &Value, start: Option<f64>| {
        let job = json!({"commitment": line, "keys": [], "start": start, "by": "ann"});
        ask(server, json!({"event": "modifyjob", "job": job}), 1010.0)
    };
    for start in [None, Some(1001.0), Some(1050.0)] {
        assert_eq!(
            alter(&mut server, &job["commitment"], start)["verdict"],
            "accept"
        );
    }
    let refused = alter(&mut server, &job["commitment"], Some(1070.0));
    assert!(
        text(&refused).contains(
            "if it begins within 59 s of its submission, and this start is 70 s after it"
        ),
        "{refused}"
    );
    let from_start = with(terms("40", "100/start", "999"), "hold", "u");
    let job = defer(&mut server, "3.s", from_start, 1000.0);
    assert_eq!(
        alter(&mut server, &job["commitment"], Some(9000.0))["verdict"],
        "accept"
    );
    let line = enter(&mut server, "4.s", terms("40", "100", "999"), 1000.0);
    assert_eq!(
        alter(&mut server, &json!(line), Some(9000.0))["verdict"],
        "accept"
    );
}

/// The periodic hook may have looked at it before that, and would tell its owner another reason.
#[test]
fn what_it_was_told_when_its_promise_was_given_back_stays() {
    let mut server = one_node();
    let job = defer(&mut server, "2.s", waiting("40", "100", "999"), 1000.0);
    let mut alter = |commitment: &Value| {
        let altered =
            json!({"id": "2.s", "commitment": commitment, "keys": ["libra_info"], "by": "root"});
        ask(
            &mut server,
            json!({"event": "modifyjob", "job": altered}),
            1100.0,
        )
    };
    assert_eq!(alter(&job["commitment"])["verdict"], "accept");
    assert_eq!(alter(&Value::Null)["verdict"], "refuse");
}

#[test]
fn without_room_it_waits_on_and_says_until_when() {
    let mut server = one_node();
    let job = defer(&mut server, "2.s", waiting("40", "100", "999"), 1000.0);
    enter(&mut server, "1.s", terms("90", "100", "999"), 1000.0);
    let answer = run(&mut server, &job, 1010.0);
    assert!(
        text(&answer).starts_with("libra: refused (share): "),
        "{answer}"
    );
    let info = answer["resources"]["libra_info"].as_str().expect("a text");
    assert!(
        info.ends_with("its deadline can be kept if it begins within 59 s of its submission"),
        "{info}"
    );
    assert_eq!(answer["hold"], Value::Null);
    // It is told once.
    let mut told = job.clone();
    told["info"] = info.into();
    let again = run(&mut server, &told, 1020.0);
    assert_eq!(again["verdict"], "refuse");
    assert_eq!(again["resources"], Value::Null, "{again}");
    ask(
        &mut server,
        json!({"event": "gone", "jobs": ["1.s"]}),
        1030.0,
    );
    assert!(line(&run(&mut server, &told, 1030.0)).places.len() == 1);
}

#[test]
fn what_cannot_be_kept_any_more_is_given_back() {
    for (now, why) in [
        (1070.0, "refused (deadline): "),
        (1100.0, "its deadline passed before it could start"),
    ] {
        let mut server = one_node();
        let job = defer(&mut server, "2.s", waiting("40", "100", "999"), 1000.0);
        let answer = run(&mut server, &job, now);
        assert!(text(&answer).contains("given back: "), "{answer}");
        assert!(text(&answer).contains(why), "{answer}");
        assert_eq!(answer["hold"], true);
        assert_eq!(answer["resources"]["libra_terms"], "-");
        assert_eq!(server.book().job_count(), 0);
    }
}

/// Time makes it dearer: by then its budget is not enough.
#[test]
fn what_its_budget_does_not_pay_any_more_is_given_back() {
    let mut server = one_node();
    let job = defer(&mut server, "2.s", waiting("10", "20", "10.6"), 1000.0);
    let answer = run(&mut server, &job, 1006.0);
    assert!(text(&answer).contains("refused (budget): "), "{answer}");
    assert_eq!(answer["hold"], true);
}

#[test]
fn chunks_conditions_and_packing_are_as_they_were_asked_for() {
    let mut server = server_with(&config(""), &[node("n1", "4"), node("n2", "4")]);
    for (select, place, expected) in [
        (
            "2:ncpus=2:mem=1gb:host=n2",
            "free",
            "2:ncpus=0:mpiprocs=1:ompthreads=2:libra_share=1:mem=1073741824b:vnode=n2",
        ),
        (
            "4:ncpus=1:arch=linux:host=n1",
            "pack",
            "4:ncpus=0:mpiprocs=1:ompthreads=1:libra_share=0.5:arch=linux:vnode=n1",
        ),
    ] {
        let asked = with(
            with(waiting("50", "100", "9999"), "select", select),
            "place",
            place,
        );
        let job = defer(&mut server, "2.s", asked, 1000.0);
        let answer = run(&mut server, &job, 1000.0);
        assert_eq!(answer["resources"]["select"], expected, "{job}");
        ask(
            &mut server,
            json!({"event": "gone", "jobs": ["2.s"]}),
            1000.0,
        );
    }
}

#[test]
fn a_restarted_server_knows_what_is_deferred() {
    let job = defer(&mut one_node(), "2.s", waiting("40", "100", "999"), 1000.0);
    for (state, held) in [("H", Some("s")), ("W", None), ("Q", None)] {
        let mut server = one_node();
        let mut record = job.clone();
        record["state"] = state.into();
        record["held"] = held.into();
        // Released long after it came.
        record["eligible"] = 1045.0.into();
        let event = json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [record]});
        let answer = ask(&mut server, event, 1050.0);
        assert!(!answer["log"].to_string().contains("is held"), "{answer}");
        assert_eq!(server.book().job_count(), 0);
        assert!(line(&run(&mut server, &job, 1050.0)).places.len() == 1);
    }
}

/// PBS was killed before it wrote down what it was answered.
#[test]
fn what_pbs_did_not_write_down_is_asked_for_again() {
    let mut server = one_node();
    let job = defer(&mut server, "2.s", waiting("60", "100", "999"), 1000.0);
    for now in [1010.0, 1020.0] {
        assert!(line(&run(&mut server, &job, now)).places.len() == 1);
        assert_eq!(server.book().job_count(), 1);
    }
}

/// Its jobs wait with their shares, since PBS runs them one by one, and each is asked for where it runs.
#[test]
fn each_subjob_of_a_deferred_array_is_asked_for() {
    let mut server = one_node();
    let array = with(waiting("30", "100", "999"), "array", "1-3");
    let answer = submit(&mut server, array, 1000.0);
    let resources = &answer["resources"];
    assert!(
        resources["select"]
            .as_str()
            .expect("a text")
            .contains("libra_share=0.3:libra_node=True"),
        "{answer}"
    );
    let of = |id: &str| {
        json!({"id": id, "state": "Q", "commitment": resources["libra_terms"], "array": "1-3",
            "exec_vnode": "(n1:libra_share=0.3)"})
    };
    let first = run(&mut server, &of("7[1].s"), 1010.0);
    assert_eq!(first["verdict"], "accept", "{first}");
    assert!(
        first["resources"]["libra_info"]
            .to_string()
            .contains("(its promise was deferred)"),
        "{first}"
    );
    run(&mut server, &of("7[2].s"), 1010.0);
    assert!((committed(&server) - 2.0 / 3.0).abs() < 1e-9);
    // Of the rest there is not enough for one that begins so late.
    let third = run(&mut server, &of("7[3].s"), 1030.0);
    assert!(
        third["resources"]["libra_info"]
            .to_string()
            .contains("runs without a promise: refused (share)"),
        "{third}"
    );
}

/// What runs there now is over by then, and PBS itself says when it is not.
#[test]
fn limits_that_are_reached_now_are_in_nobodys_way_who_waits() {
    let site = json!({"max_run": "[o:PBS_ALL=1]"});
    let mut server = one_node();
    let records = json!({"event": "records", "nodes": [node("n1", "1")], "jobs": [], "site": site, "queues": {}});
    ask(&mut server, records, 1000.0);
    let mine = |job: Value| with(job, "user", "ann");
    let named = submit(&mut server, mine(terms("10", "100", "99")), 1000.0);
    let first =
        json!({"id": "1.s", "commitment": named["resources"]["libra_terms"], "owner": "ann"});
    ask(
        &mut server,
        json!({"event": "postqueuejob", "job": first}),
        1000.0,
    );
    let mut asked = mine(terms("10", "100", "99"));
    asked["checked"] = "yes".into();
    let refused = submit(&mut server, asked, 1000.0);
    assert!(text(&refused).contains("max_run"), "{refused}");
    let job = defer(&mut server, "2.s", mine(waiting("10", "100", "99")), 1000.0);
    let answer = run(&mut server, &job, 1001.0);
    assert!(text(&answer).contains("max_run"), "{answer}");
    assert_eq!(answer["hold"], Value::Null);
}

#[test]
fn more_margin_gives_no_deferred_promise_back() {
    let with_margin = |percent: u32| {
        let text = format!("[admission]\nestimate-margin = '{percent}%'\n");
        libra_config::Config::from_toml(&text).expect("a configuration")
    };
    let mut server = server_with(&with_margin(5), &[node("n1", "1")]);
    let job = defer(&mut server, "2.s", waiting("100", "120", "999"), 1000.0);
    server.configure(&with_margin(30));
    let answer = submit(&mut server, terms("100", "120", "999"), 1000.0);
    assert_eq!(answer["verdict"], "refuse", "{answer}");
    let answer = run(&mut server, &job, 1001.0);
    let commitment = line(&answer);
    assert!(
        !commitment.deferred && commitment.margin == Some(0.05),
        "{answer}"
    );
    assert!(
        (commitment.places[0].share - 105.0 / 119.0).abs() < 1e-3,
        "{commitment:?}"
    );
    // What is asked from now on is planned with the new one.
    let answer = submit(&mut server, terms("1", "1000", "999"), 1002.0);
    assert_eq!(line(&answer).margin, Some(0.3));
}
