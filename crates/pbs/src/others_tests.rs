//! Consumables in PBS: jobs with terms and others on the same nodes.

use super::server::Server;
use super::tests::{ask, config, enter, submit, terms, text, with};
use serde_json::{Value, json};

fn definitions() -> Value {
    json!({"ngpus": ["long", "hn"], "scratch": ["size", "hn"], "part": ["float", "hn"], "fl": ["long", "hf"], "lic": ["long", "q"],
        "level": ["long", "h"], "bigmem": ["boolean", "h"], "color": ["string", "h"], "site": ["string", ""]})
}

fn node(name: &str, resources: Value) -> Value {
    let mut all = json!({"host": name, "arch": "linux"});
    for (key, value) in resources.as_object().expect("an object") {
        all[key] = value.clone();
    }
    json!({"name": name, "share": "4", "mem": "8gb", "up": true, "resources": all})
}

fn records(jobs: Value, others: Value) -> Value {
    json!({"event": "records", "definitions": definitions(), "server": {"lic": "3", "site": "here"}, "jobs": jobs, "others": others,
        "nodes": [node("n1", json!({"color": "red", "level": "2"})),
            node("n2", json!({"ngpus": "4", "scratch": "10gb", "part": "1.5", "fl": "2", "bigmem": "True", "color": "blue,7"}))]})
}

fn server() -> Server {
    let mut server = Server::new(&config(""));
    ask(&mut server, records(json!([]), json!([])), 1000.0);
    server
}

fn selects(what: &str) -> Value {
    let job = with(terms("10", "100", "1000"), "select", what);
    with(job, "checked", "yes")
}

fn wide(key: &str, value: &str) -> Value {
    let mut job = with(terms("10", "100", "1000"), "checked", "yes");
    job["wide"] = json!({key: value});
    job
}

fn runs(server: &mut Server, id: &str, exec_vnode: &str, wide: Value, now: f64) -> Value {
    let job = json!({"id": id, "exec_vnode": exec_vnode, "wide": wide});
    ask(server, json!({"event": "runjob", "job": job}), now)
}

#[test]
fn a_job_takes_what_it_asks_for_and_leaves_the_rest() {
    let mut server = server();
    let line = enter(&mut server, "1.s", selects("1:ncpus=1:ngpus=1"), 1000.0);
    assert!(line.contains(":consumables=ngpus*1n:"), "{line}");
    let refused = submit(&mut server, selects("1:ngpus=4"), 1000.0);
    assert_eq!(
        text(&refused).lines().next(),
        Some("libra: refused (resource): needs 4 ngpus; the best node, n2, has 3 free")
    );
    assert_eq!(refused["category"], "resource");
    let accepted = submit(&mut server, selects("3:ngpus=1"), 1000.0);
    assert_eq!(
        accepted["resources"]["select"],
        "3:ncpus=0:mpiprocs=1:ompthreads=1:libra_share=0.1:ngpus=1:vnode=n2"
    );
    assert!(text(&submit(&mut server, selects("1:ngpus=1"), 1000.0)).contains("n2, has 0 free"));
    // It ended.
    let end = json!({"event": "jobobit", "job": {"id": "1.s", "commitment": line, "state": "E", "exit": 0}});
    ask(&mut server, end, 1005.0);
    submit(&mut server, selects("1:NGPUS=1"), 1005.0)["resources"]["select"]
        .as_str()
        .filter(|select| select.contains(":ngpus=1:"))
        .expect("it fits, spelled as PBS spells it");
}

#[test]
fn sizes_parts_and_packed_chunks() {
    for (select, place, says) in [
        (
            "1:scratch=11gb",
            "free",
            "needs 11 GiB scratch; the best node, n2, has 10 GiB free",
        ),
        (
            "1:part=1.6",
            "free",
            "needs 1.6 part; the best node, n2, has 1.5 free",
        ),
        ("5:ngpus=1", "free", "only 4 of its 5 chunks would fit"),
        (
            "5:ngpus=1",
            "pack",
            "needs 5 ngpus; the best node, n2, has 4 free",
        ),
        ("1:fl=3", "free", "needs 3 fl"),
        // PBS's scheduler would never start it.
        (
            "1:color=RED",
            "free",
            "none of the nodes that jobs with a deadline run on has color=RED",
        ),
        // Not used up, but there must be so much.
        (
            "1:level=3",
            "free",
            "none of the nodes that jobs with a deadline run on has level=3",
        ),
    ] {
        let job = with(selects(select), "place", place);
        let refused = submit(&mut server(), job, 1000.0);
        assert!(text(&refused).contains(says), "{select}: {refused}");
    }
    for (select, node) in [
        ("1:part=0.25", "n2"),
        ("1:level=1", "n1"),
        ("1:bigmem=t", "n2"),
        ("1:bigmem=False", "n1"),
        ("1:color=red", "n1"),
        ("1:color=7", "n2"),
        ("1:ngpus=0:color=red", "n1"),
    ] {
        let accepted = submit(&mut server(), selects(select), 1000.0);
        let given = accepted["resources"]["select"].as_str().unwrap_or_default();
        assert!(
            given.ends_with(&format!("vnode={node}")),
            "{select}: {accepted}"
        );
    }
}

#[test]
fn a_value_of_another_type_is_said_to_be_one() {
    for (select, says) in [
        (
            "1:ngpus=two",
            "ngpus is 'two', expected a whole number, 0 or more",
        ),
        ("1:ngpus=-1", "ngpus is '-1', expected a whole number"),
        (
            "1:scratch=much",
            "scratch is 'much', expected a size, such as 512mb or 4gb",
        ),
        ("1:part=x", "part is 'x', expected a number, 0 or more"),
        ("1:bigmem=3", "bigmem is '3', expected True or False"),
        (
            "1:color=3",
            "color is '3', a number; it is text, compared for equality, and the nodes have 7, blue, red",
        ),
    ] {
        let refused = submit(&mut server(), selects(select), 1000.0);
        assert!(text(&refused).contains(says), "{select}: {refused}");
        assert_eq!(refused["category"], "request");
    }
}

#[test]
fn what_the_server_has_is_used_by_all_jobs() {
    let mut server = server();
    enter(&mut server, "1.s", wide("lic", "2"), 1000.0);
    let refused = submit(&mut server, wide("lic", "2"), 1000.0);
    assert!(
        text(&refused).contains("needs 2 lic; the cluster has 1 free"),
        "{refused}"
    );
    let mut array = with(wide("lic", "1"), "array", "1-2");
    assert!(text(&submit(&mut server, array.clone(), 1000.0)).contains("needs 2 lic"));
    array["array"] = "1-1".into();
    assert_eq!(submit(&mut server, array, 1000.0)["verdict"], "accept");
    for (key, value, says) in [
        ("lic", "x", "lic is 'x'"),
        ("site", "there", "this server has here"),
    ] {
        assert!(text(&submit(&mut server, wide(key, value), 1000.0)).contains(says));
    }
    // What chunks ask for goes into the chunk, and PBS is rid of it elsewhere.
    let accepted = submit(&mut server, wide("ngpus", "1"), 1000.0);
    assert_eq!(accepted["moved"], json!(["ngpus"]));
    assert!(
        accepted["resources"]["select"]
            .as_str()
            .is_some_and(|select| select.contains(":ngpus=1:"))
    );
    // Nobody alters what is committed.
    let line = enter(&mut server, "2.s", selects("1:ngpus=1"), 1000.0);
    let alter =
        json!({"event": "modifyjob", "job": {"commitment": line, "keys": ["NGPUS"], "by": "u"}});
    assert!(text(&ask(&mut server, alter, 1000.0)).contains("belongs to the commitment"));
}

#[test]
fn others_use_it_too_and_give_way_to_promises() {
    let mut server = server();
    let other = "(n2:ncpus=0:libra_besteffort=1:mem=2097152kb:ngpus=2)";
    let ran = runs(&mut server, "5.s", other, json!({"lic": "1"}), 1001.0);
    assert_eq!(ran["verdict"], "accept");
    assert!(text(&submit(&mut server, selects("1:ngpus=3"), 1001.0)).contains("n2, has 2 free"));
    assert!(text(&submit(&mut server, selects("1:ngpus=1:mem=7gb"), 1001.0)).contains("refused"));
    assert!(
        text(&submit(&mut server, wide("lic", "3"), 1001.0)).contains("the cluster has 2 free")
    );
    let line = enter(&mut server, "1.s", selects("1:ngpus=1"), 1002.0);
    // Two are free to PBS, and one of them is promised to a job that has not begun.
    let late = runs(
        &mut server,
        "6.s",
        "(n2:ncpus=0:ngpus=2)",
        json!({}),
        1003.0,
    );
    assert_eq!(
        text(&late),
        "libra: 2 ngpus of n2 is promised to a job with a deadline; this job runs when there is more"
    );
    assert_eq!(
        runs(
            &mut server,
            "7.s",
            "(n2:ncpus=0:ngpus=1)",
            json!({}),
            1003.0
        )["verdict"],
        "accept"
    );
    // A subjob that is let wait would hold up PBS's scheduler.
    assert_eq!(
        runs(
            &mut server,
            "8[1].s",
            "(n2:ncpus=0:ngpus=1)",
            json!({}),
            1003.0
        )["verdict"],
        "accept"
    );
    let end = |id: &str| json!({"event": "jobobit", "job": {"id": id}});
    for id in ["5.s", "7.s", "8[1].s"] {
        ask(&mut server, end(id), 1004.0);
    }
    let run = json!({"event": "runjob", "job": {"id": "1.s", "commitment": line, "exec_vnode": "(n2:ngpus=1:libra_share=0.1)"}});
    assert_eq!(ask(&mut server, run, 1004.0)["verdict"], "accept");
    // It runs, and PBS counts it itself.
    assert_eq!(
        runs(
            &mut server,
            "6.s",
            "(n2:ncpus=0:ngpus=3)",
            json!({}),
            1005.0
        )["verdict"],
        "accept"
    );
}

#[test]
fn records_say_what_others_use() {
    let mut server = server();
    let other = json!({"id": "5.s", "exec_vnode": "(n2:ngpus=3)", "wide": {}});
    let shown = |others: Value| {
        let mut event = records(json!([]), others);
        event["taken"] = 1010.0.into();
        event
    };
    let free = |server: &mut Server, gpus: u32| {
        let answer = submit(server, selects(&format!("1:ngpus={gpus}")), 1012.0);
        answer["verdict"] == "accept"
    };
    ask(&mut server, shown(json!([other])), 1011.0);
    assert!(!free(&mut server, 2));
    // It ended after these records were taken.
    ask(
        &mut server,
        json!({"event": "jobobit", "job": {"id": "5.s"}}),
        1011.5,
    );
    ask(&mut server, shown(json!([other])), 1011.6);
    assert!(free(&mut server, 4));
    // One that started after they were taken stays, one from before that is not in them is gone.
    let mut server = super::others_tests::server();
    runs(&mut server, "6.s", "(n2:ngpus=1)", json!({}), 1005.0);
    runs(&mut server, "7.s", "(n2:ngpus=1)", json!({}), 1010.5);
    ask(&mut server, shown(json!([])), 1011.0);
    assert!(!free(&mut server, 4));
    assert!(free(&mut server, 3));
}
