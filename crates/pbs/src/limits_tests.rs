//! Limits of the server and its queues, as hooks show them.

use super::server::Server;
use super::tests::{ask, config, node, submit, terms, text, with};
use serde_json::{Value, json};

fn server(site: Value, queues: Value) -> Server {
    let mut server = Server::new(&config(""));
    ask(&mut server, cluster(site, queues), 1000.0);
    server
}

fn cluster(mut site: Value, queues: Value) -> Value {
    site["default_queue"] = "work".into();
    let tied = |name: &str, queue: &str| {
        let mut node = node(name, "4");
        node["queue"] = queue.into();
        node
    };
    json!({"event": "records", "definitions": {"ngpus": ["long", "hn"]}, "site": site, "queues": queues, "jobs": [], "others": [],
        "nodes": [node("n1", "4"), node("n2", "4"), tied("n3", "big")]})
}

fn job(user: &str, queue: &str) -> Value {
    let job = with(terms("10", "100", "1000"), "checked", "yes");
    let job = with(with(job, "user", user), "queue", queue);
    with(job, "group", "staff")
}

/// Accepted, and in PBS under this id.
fn enter(server: &mut Server, id: &str, job: Value) -> String {
    let answer = submit(server, job.clone(), 1000.0);
    let line = answer["resources"]["libra_terms"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"));
    let named = json!({"event": "postqueuejob", "job": {"id": id, "commitment": line, "owner": job["user"], "group": job["group"],
        "queue": job["queue"], "array": job["array"]}});
    ask(server, named, 1000.0);
    line.to_string()
}

fn refused(server: &mut Server, job: Value, says: &str) {
    let answer = submit(server, job, 1000.0);
    assert!(text(&answer).contains(says), "{answer}");
    assert_eq!(answer["category"], "limit");
}

#[test]
fn what_runs_and_what_is_promised_counts() {
    let work = json!({"max_run": "[u:PBS_GENERIC=2],[u:carol=1]"});
    let mut server = server(
        json!({"max_run": "[o:PBS_ALL=4]"}),
        json!({"work": work, "other": {}}),
    );
    let line = enter(&mut server, "1.s", job("alice", ""));
    let run = json!({"event": "runjob", "job": {"id": "2.s", "owner": "alice", "queue": "work", "exec_vnode": "(n1:ncpus=1)"}});
    ask(&mut server, run, 1000.0);
    refused(
        &mut server,
        job("alice", "work"),
        "queue work: max_run [u:PBS_GENERIC=2] is reached (alice: 2 running or promised, 1 more asked for)",
    );
    // Another queue, another user, one with a limit of her own.
    enter(&mut server, "3.s", job("alice", "other"));
    refused(
        &mut server,
        with(job("carol", "work"), "array", "1-2"),
        "max_run [u:carol=1]",
    );
    enter(&mut server, "4.s", job("carol", "work"));
    refused(
        &mut server,
        job("bob", "other"),
        "server: max_run [o:PBS_ALL=4] is reached (all jobs: 4",
    );
    for (id, line) in [("1.s", Some(line)), ("2.s", None)] {
        let end = json!({"event": "jobobit", "job": {"id": id, "commitment": line, "state": "E", "exit": 0}});
        ask(&mut server, end, 1001.0);
    }
    enter(&mut server, "5.s", job("bob", "work"));
    enter(&mut server, "6.s", job("alice", "work"));
}

#[test]
fn processors_count_as_they_were_asked_for() {
    let limits = json!({"max_run_res": {"ncpus": "[g:PBS_GENERIC=4]", "ngpus": "[o:PBS_ALL=0]"}, "resources_max": {"ncpus": "3", "walltime": "00:10:00"}});
    let mut server = server(
        json!({"resources_min": {"mem": "1gb"}}),
        json!({"work": limits}),
    );
    let of = |ncpus: u32| with(job("alice", "work"), "select", &format!("1:ncpus={ncpus}"));
    refused(
        &mut server,
        of(4),
        "queue work: resources_max.ncpus is 3, this job has 4",
    );
    enter(&mut server, "1.s", of(3));
    refused(
        &mut server,
        of(2),
        "max_run_res.ncpus [g:PBS_GENERIC=4] is reached (staff: 3 running or promised, 2 more asked for)",
    );
    refused(
        &mut server,
        with(of(1), "select", "1:ngpus=1"),
        "max_run_res.ngpus [o:PBS_ALL=0]",
    );
    refused(
        &mut server,
        with(of(1), "select", "1:mem=512mb"),
        "server: resources_min.mem is 1gb, this job has 512 MiB",
    );
    let mut long = of(1);
    long["walltime"] = 700.into();
    refused(
        &mut server,
        long,
        "resources_max.walltime is 00:10:00, this job has 700",
    );
    // Those of a job without terms, which PBS does not see.
    let other = json!({"id": "5.s", "owner": "bob", "group": "staff", "queue": "work", "exec_vnode": "(n1:ncpus=0:libra_besteffort=2)",
        "asked": {"ncpus": "0", "libra_besteffort": "2"}});
    let answer = ask(
        &mut server,
        json!({"event": "runjob", "job": other}),
        1000.0,
    );
    assert!(
        text(&answer).starts_with("libra: queue work: max_run_res.ncpus"),
        "{answer}"
    );
    let plain = json!({"terms": {}, "select": "2:ncpus=2", "queue": "work", "user": "bob"});
    refused(
        &mut server,
        plain,
        "resources_max.ncpus is 3, this job has 4",
    );
}

#[test]
fn queues_that_start_nothing_and_nodes_of_queues() {
    let queues = json!({"work": {"started": true, "enabled": true}, "stopped": {"started": false}, "big": {"started": true}, "closed": {"enabled": false}});
    let mut server = server(json!({}), queues);
    refused(
        &mut server,
        job("a", "stopped"),
        "queue stopped: started is False",
    );
    refused(
        &mut server,
        job("a", "closed"),
        "queue closed: enabled is False",
    );
    for (queue, nodes) in [("big", vec!["n3"]), ("", vec!["n1", "n2"])] {
        let answer = submit(&mut server, job("a", queue), 1000.0);
        let given = answer["resources"]["select"].as_str().expect("accepted");
        assert!(
            nodes.iter().any(|node| given.ends_with(node)),
            "{queue}: {given}"
        );
    }
    let there = with(job("a", "work"), "select", "1:vnode=n3");
    assert!(text(&submit(&mut server, there, 1000.0)).contains("has vnode=n3"));
    // The administrator has started it.
    let mut started = cluster(json!({}), json!({"stopped": {"started": true}}));
    started["event"] = "nodes".into();
    ask(&mut server, started, 1000.0);
    assert_eq!(
        submit(&mut server, job("a", "stopped"), 1000.0)["verdict"],
        "accept"
    );
}

#[test]
fn records_say_who_runs() {
    let work = json!({"max_running": "3", "max_user_run": "2"});
    let mut server = server(json!({}), json!({"work": work}));
    let line = enter(&mut server, "1.s", job("alice", "work"));
    let mut records = cluster(json!({}), json!({"work": work}));
    records["jobs"] =
        json!([{"id": "1.s", "state": "Q", "commitment": line, "owner": "alice", "queue": "work"}]);
    records["others"] = json!([{"id": "2.s", "owner": "alice", "queue": "work"}]);
    for mut server in [Server::new(&config("")), server] {
        ask(&mut server, records.clone(), 1001.0);
        refused(
            &mut server,
            job("alice", "work"),
            "queue work: max_user_run 2 is reached (alice: 2",
        );
        refused(
            &mut server,
            with(job("bob", "work"), "array", "1-2"),
            "max_running 3 is reached (all jobs: 2 running or promised, 2 more",
        );
        let mut later = records.clone();
        later["others"] = json!([]);
        ask(&mut server, later, 1005.0);
        assert_eq!(
            submit(&mut server, job("alice", "work"), 1005.0)["verdict"],
            "accept"
        );
    }
}

#[test]
fn reservations_keep_their_nodes() {
    let new = || server(json!({}), json!({"work": {}, "R1": {}, "R2": {}}));
    let mut server = new();
    let reserved = |queue: &str, start: f64, end: f64, nodes: &str| json!({"name": format!("{queue}.s"), "queue": queue, "start": start, "end": end, "nodes": nodes});
    // PBS would let it run for 110 s.
    let asks = |queue: &str, reservations: Value| {
        with_value(job("alice", queue), "reservations", reservations)
    };
    let node_of = |answer: &Value| {
        let select = answer["resources"]["select"].as_str().map(str::to_string);
        select.unwrap_or_else(|| panic!("{answer}"))
    };
    for (start, on) in [(900.0, "n2"), (1100.0, "n2"), (1111.0, "n1")] {
        let first = reserved("R1", start, start + 500.0, "(n1:ncpus=2+n5:ncpus=1)");
        let answer = submit(&mut new(), asks("work", json!([first])), 1000.0);
        assert!(
            node_of(&answer).ends_with(&format!("vnode={on}")),
            "{answer}"
        );
    }
    let both = json!([
        reserved("R1", 990.0, 2000.0, "(n2:ncpus=4)"),
        reserved("R2", 1060.0, 2000.0, "(n1:ncpus=4)"),
    ]);
    refused(
        &mut server,
        asks("work", both.clone()),
        "the nodes that it could have are reserved before it would end: R1.s now, R2.s in 60 s",
    );
    // In one's own there are its nodes.
    let answer = submit(&mut server, asks("R1", both.clone()), 1000.0);
    assert!(node_of(&answer).ends_with("vnode=n2"), "{answer}");
    refused(
        &mut server,
        asks("R2", both),
        "reservation R2.s begins in 60 s, and a job with a deadline starts at once",
    );
    refused(
        &mut server,
        asks("R1", json!([reserved("R1", 990.0, 1109.0, "(n2:ncpus=4)")])),
        "reservation R1.s ends in 1m49s, and PBS would have to let this job run for 1m50s",
    );
    refused(
        &mut server,
        asks("R1", json!([reserved("R1", 990.0, 2000.0, "(n7:ncpus=4)")])),
        "reservation R1.s has no node that a job with a deadline could have there",
    );
    // What cannot be read is none, and neither is one that is over.
    let odd = json!([{"name": "R1.s"}, reserved("R2", 10.0, 999.0, "(n1:ncpus=4)+(n2:ncpus=4)")]);
    assert_eq!(
        submit(&mut server, asks("work", odd), 1000.0)["verdict"],
        "accept"
    );
}

fn with_value(mut job: Value, key: &str, value: Value) -> Value {
    job[key] = value;
    job
}

/// What is promised here cannot be kept there.
#[test]
fn a_queue_that_sends_jobs_to_another_server_takes_none_with_terms() {
    let site = json!({"name": "here"});
    let routes = |to: &str| json!({"front": {"routes": true, "destinations": to}, "work": {"started": true}});
    for to in ["work", "work,more", "work@here", "work@HERE"] {
        let mut server = server(site.clone(), routes(to));
        enter(&mut server, "1.s", job("alice", "front"));
    }
    for to in ["work@there", "work,work@there:15001"] {
        let mut server = server(site.clone(), routes(to));
        refused(
            &mut server,
            job("alice", "front"),
            "queue front: it sends jobs to another server (work@there",
        );
        enter(&mut server, "1.s", job("alice", "work"));
        // One that waits as well.
        let waits = with(job("alice", "front"), "hold", "u");
        refused(&mut server, waits, "it sends jobs to another server");
        let plain = json!({"event": "queuejob", "job": {"queue": "front", "select": "1:ncpus=1", "terms": {}}});
        assert_eq!(ask(&mut server, plain, 1000.0)["verdict"], "accept");
    }
}
