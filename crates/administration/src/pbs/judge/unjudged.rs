//! Settings of a server by which PBS may let a job wait that Libra has promised something to, and which are not judged when it is submitted. Each that is
//! set here has a line.

use super::super::found::{Found, resources_line, shown};
use crate::findings::Findings;
use serde_json::Value;
use std::collections::BTreeMap;

/// Attributes of the server and of queues, and what they do.
const ATTRIBUTES: [(&str, &str); 6] = [
    ("max_run_soft", "jobs above it can be preempted"),
    ("max_run_res_soft", "jobs above it can be preempted"),
    ("max_user_run_soft", "jobs above it can be preempted"),
    ("max_group_run_soft", "jobs above it can be preempted"),
    ("node_group_key", "jobs wait for nodes that are alike in it"),
    (
        "partition",
        "another scheduler starts its jobs, on its own nodes",
    ),
];

/// Words of sched_config, the value with which they matter, and what they do. A value of "" matters whatever it is.
const WORDS: [(&str, &str, &str); 9] = [
    (
        "strict_ordering",
        "true",
        "a job waits until those before it have started",
    ),
    ("fair_share", "true", "other users' jobs may come first"),
    (
        "help_starving_jobs",
        "true",
        "jobs that have waited long come first",
    ),
    (
        "server_dyn_res",
        "",
        "what a script says of a resource is not seen",
    ),
    (
        "mom_resources",
        "",
        "what a host's own script says of a resource is not seen",
    ),
    (
        "resource_unset_infinite",
        "",
        "a node without that resource has none of it to Libra, and no end of it to PBS",
    ),
    (
        "load_balancing",
        "true",
        "a host with much load gets no jobs",
    ),
    (
        "backfill_prime",
        "true",
        "a job waits that would run into primetime",
    ),
    (
        "dedicated_prefix",
        "",
        "queues of that prefix start jobs in dedicated time only, and the others not then",
    ),
];

/// Queues of this priority and more preempt others by default.
const EXPRESS: f64 = 150.0;

/// All of them.
pub fn find(
    findings: &mut Findings,
    found: &Found,
    server: &Value,
    queues: &BTreeMap<String, Value>,
) {
    let before = findings.0.len();
    place(findings, "server", server);
    for (name, queue) in queues {
        let title = format!("queue {name}");
        place(findings, &title, queue);
        let kind = queue.get("queue_type").map(shown).unwrap_or_default();
        let destinations = queue
            .get("route_destinations")
            .map(shown)
            .unwrap_or_default();
        if destinations.contains('@') {
            findings.warning(format!(
                "{title}: route_destinations={destinations}: a share is on one server, so jobs with a deadline are refused in a queue that sends them to another one"
            ));
        }
        if kind.to_ascii_lowercase().starts_with('r') {
            not_judged(
                findings,
                &title,
                "queue_type=Route",
                "limits and nodes of the queues that it sends jobs to are not known when they are submitted",
            );
        }
        if queue
            .get("resources_available")
            .and_then(Value::as_object)
            .is_some_and(|of| !of.is_empty())
        {
            not_judged(
                findings,
                &title,
                "resources_available",
                "its jobs together can have no more",
            );
        }
        let priority = queue
            .get("Priority")
            .map(shown)
            .and_then(|text| text.parse::<f64>().ok());
        if let Some(priority) = priority.filter(|priority| *priority >= EXPRESS) {
            not_judged(
                findings,
                &title,
                &format!("Priority={priority}"),
                "its jobs may preempt others (preempt_queue_prio)",
            );
        }
    }
    let Some(scheduler) = &found.scheduler else {
        return;
    };
    for (word, matters, does) in WORDS {
        for value in values(&scheduler.text, word) {
            // Where no line of the dedicated times is written, the word alone does nothing.
            let is_default = word == "dedicated_prefix" && value == "ded";
            if !is_default && (matters.is_empty() || value.eq_ignore_ascii_case(matters)) {
                not_judged(findings, "scheduler", &format!("{word}: {value}"), does);
            }
        }
    }
    counted(findings, found, &scheduler.text);
    if findings.0.len() == before {
        findings.ok("limits: all that this server sets are judged at submission");
    }
}

fn place(findings: &mut Findings, title: &str, attributes: &Value) {
    for (name, does) in ATTRIBUTES {
        let value = attributes
            .get(name)
            .map(shown)
            .filter(|value| !value.is_empty() && value != "{}");
        if let Some(value) = value {
            not_judged(findings, title, &format!("{name}={value}"), does);
        }
    }
}

fn not_judged(findings: &mut Findings, place: &str, setting: &str, does: &str) {
    findings.warning(format!("{place}: {setting} is not judged at submission: {does}; a job with a deadline may wait for it"));
}

/// Values of a word of sched_config, without quotes and the time for which they are.
pub fn values(text: &str, word: &str) -> Vec<String> {
    let value = |line: &str| {
        let rest = line
            .trim()
            .strip_prefix(word)?
            .trim_start()
            .strip_prefix(':')?
            .trim();
        let value = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split_whitespace().next(),
        };
        value.filter(|value| !value.is_empty()).map(str::to_string)
    };
    text.lines().filter_map(value).collect()
}

/// Resources of nodes that Libra counts and the scheduler does not, and those that are another node's.
fn counted(findings: &mut Findings, found: &Found, text: &str) {
    let line = resources_line(text);
    for (name, resource) in &found.resources {
        let is_counted = resource.flags.contains(['n', 'f', 'q']) && !name.starts_with("libra_");
        if !is_counted {
            continue;
        }
        let with = |node: &&super::super::found::NodeFound| node.available.contains_key(name);
        if line.is_some_and(|line| !line.has(name)) && found.nodes.values().any(|node| with(&node))
        {
            findings.warning(format!(
                "resource {name}: nodes have it, and it is not on the scheduler's resources line, so that PBS starts jobs without terms whatever is left of it; put it there"
            ));
        }
        for (node, of) in &found.nodes {
            if let Some(value) = of
                .available
                .get(name)
                .filter(|value| value.starts_with('@'))
            {
                findings.warning(format!(
                    "node {node}: {name}={value} is another node's, which Libra does not follow: no job with a deadline gets any there"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::found::{NodeFound, ResourceFound, SchedulerFound};
    use super::*;
    use crate::findings::Level;
    use serde_json::json;

    #[test]
    fn each_setting_that_is_not_judged_is_named() {
        let resource = ResourceFound {
            kind: "long".to_string(),
            flags: "hn".to_string(),
        };
        let node = |ngpus: &str| NodeFound {
            available: BTreeMap::from([("ngpus".to_string(), ngpus.to_string())]),
            ..NodeFound::default()
        };
        let found = |text: &str| Found {
            resources: BTreeMap::from([("ngpus".to_string(), resource.clone())]),
            nodes: BTreeMap::from([
                ("n1".to_string(), node("4")),
                ("n2".to_string(), node("@n1")),
            ]),
            scheduler: Some(SchedulerFound {
                text: text.to_string(),
                ..SchedulerFound::default()
            }),
            ..Found::default()
        };
        let text = "strict_ordering: True ALL\nfair_share: false\tALL\nserver_dyn_res: \"lic !/bin/lic\"\ndedicated_prefix: ded\nresources: \"ncpus, mem\"";
        let queues = BTreeMap::from([
            ("in".to_string(), json!({"queue_type": "Route"})),
            (
                "fast".to_string(),
                json!({"queue_type": "Execution", "Priority": 200, "max_run_soft": "[u:PBS_GENERIC=1]", "resources_available": {"ncpus": 8}}),
            ),
        ]);
        let mut findings = Findings::default();
        find(
            &mut findings,
            &found(text),
            &json!({"node_group_key": "rack", "max_run": "[o:PBS_ALL=2]"}),
            &queues,
        );
        let said = findings.shown(false, Level::Ok);
        for part in [
            "server: node_group_key=rack",
            "queue in: queue_type=Route",
            "queue fast: max_run_soft=[u:PBS_GENERIC=1]",
            "queue fast: resources_available",
            "queue fast: Priority=200",
            "scheduler: strict_ordering: True",
            "scheduler: server_dyn_res: lic !/bin/lic",
            "resource ngpus: nodes have it",
            "node n2: ngpus=@n1",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        for part in ["max_run=", "fair_share", "dedicated_prefix"] {
            assert!(!said.contains(part), "{part}: {said}");
        }
        let mut findings = Findings::default();
        let clean = Found {
            nodes: BTreeMap::from([("n1".to_string(), node("4"))]),
            ..found("resources: \"ncpus, ngpus\"")
        };
        find(&mut findings, &clean, &json!({}), &BTreeMap::new());
        assert!(
            findings
                .shown(false, Level::Ok)
                .contains("all that this server sets are judged"),
            "{}",
            findings.shown(false, Level::Ok)
        );
    }
}
