//! Findings from plain data.

use super::*;
use crate::findings::Level;
use crate::pbs::found::{HookFound, NodeFound, ResourceFound, SchedulerFound};
use serde_json::json;

/// The levels and texts that a judgement adds.
fn judged(judge: impl FnOnce(&mut Findings)) -> Vec<(Level, String)> {
    let mut findings = Findings::default();
    judge(&mut findings);
    let findings = findings.0.into_iter();
    findings
        .map(|finding| (finding.level, finding.text))
        .collect()
}

fn worst(found: &[(Level, String)]) -> Level {
    found.iter().map(|(level, _)| *level).max().expect("a line")
}

#[test]
fn old_and_unknown_versions_are_problems() {
    for (version, level) in [
        ("23.06.06", Level::Ok),
        ("22.05.11", Level::Problem),
        ("2022.1.1", Level::Ok),
        ("", Level::Problem),
        ("devel", Level::Problem),
    ] {
        let found = judged(|f| super::version(f, "srv", &json!({"pbs_version": version})));
        assert_eq!(worst(&found), level, "{version}");
    }
}

#[test]
fn a_resource_of_the_sites_own_is_named_with_both_kinds() {
    let mut found = Found::default();
    let budget = |kind: &str, flags: &str| ResourceFound {
        kind: kind.to_string(),
        flags: flags.to_string(),
    };
    found
        .resources
        .insert("budget".to_string(), budget("long", "q"));
    let said = judged(|f| resources(f, &found, None));
    assert_eq!(worst(&said), Level::Problem);
    assert!(
        said[0]
            .1
            .contains("type=long,flag=q; Libra needs type=string,flag=m")
    );
    found
        .resources
        .insert("budget".to_string(), budget("string", "m"));
    assert_eq!(
        worst(&judged(|f| resources(f, &found, None))),
        Level::Warning
    );
    let record = InstallRecord {
        resources: vec!["budget".to_string()],
        ..InstallRecord::default()
    };
    assert_eq!(
        worst(&judged(|f| resources(f, &found, Some(&record)))),
        Level::Ok
    );
}

#[test]
fn hooks_of_unknown_origin_are_a_problem_and_later_ones_a_warning() {
    let hook = |event: &str, order, enabled| HookFound {
        enabled,
        events: vec![event.to_string()],
        order,
        ..HookFound::default()
    };
    for (name, hook, level) in [
        ("libra_runjob", hook("runjob", 1, false), Level::Problem),
        ("mine", hook("queuejob", 1000, true), Level::Warning),
        ("mine", hook("modifyjob", 999, true), Level::Ok),
        ("mine", hook("queuejob", 1000, false), Level::Ok),
        ("mine", hook("runjob", 1000, true), Level::Ok),
    ] {
        let found = Found {
            hooks: [(name.to_string(), hook)].into(),
            ..Found::default()
        };
        let said = judged(|f| hooks(f, &found, None));
        assert_eq!(worst(&said), level, "{said:?}");
        let record = InstallRecord {
            hooks: vec!["libra_runjob".to_string()],
            ..InstallRecord::default()
        };
        assert!(worst(&judged(|f| hooks(f, &found, Some(&record)))) < Level::Problem);
    }
}

#[test]
fn the_cpu_part_of_pbs_cgroups_is_a_problem_only_where_it_acts() {
    let with = |enabled, config: &str| {
        let hook = HookFound {
            enabled,
            config: config.to_string(),
            ..HookFound::default()
        };
        let found = Found {
            hooks: [("pbs_cgroups".to_string(), hook)].into(),
            ..Found::default()
        };
        worst(&judged(|f| cgroups(f, &found)))
    };
    let cpu = r#"{"cgroup": {"cpu": {"enabled": true}}}"#;
    assert_eq!(with(true, cpu), Level::Problem);
    assert_eq!(with(false, cpu), Level::Ok);
    assert_eq!(with(true, &cpu.replace("true", "false")), Level::Ok);
    assert_eq!(with(true, &cpu.replace("true", "\"True\"")), Level::Problem);
    assert_eq!(with(true, &cpu.replace("cpu", "cpuacct")), Level::Warning);
    assert_eq!(with(true, "{}"), Level::Ok);
    assert_eq!(with(true, "{"), Level::Problem);
    assert_eq!(worst(&judged(|f| cgroups(f, &Found::default()))), Level::Ok);
}

#[test]
fn a_scheduler_must_run_here() {
    let on = json!({"scheduling": "True"});
    let with = |scheduler| Found {
        scheduler,
        ..Found::default()
    };
    let there = SchedulerFound {
        text: "resources: \"ncpus\"".to_string(),
        pid: Some(7),
        ..SchedulerFound::default()
    };
    let still = SchedulerFound {
        pid: None,
        ..there.clone()
    };
    let level = |found: &Found, attributes| worst(&judged(|f| scheduler(f, found, attributes)));
    assert_eq!(level(&with(Some(there.clone())), &on), Level::Ok);
    assert_eq!(level(&with(Some(still)), &on), Level::Problem);
    assert_eq!(level(&with(None), &on), Level::Problem);
    let off = json!({"scheduling": "False"});
    let mut found = with(Some(there));
    assert_eq!(level(&found, &off), Level::Warning);
    found.more_schedulers = vec!["second".to_string()];
    assert_eq!(level(&found, &on), Level::Warning);
}

#[test]
fn peer_scheduling_is_refused_by_name() {
    let with = |text: &str| Found {
        scheduler: Some(SchedulerFound {
            text: text.to_string(),
            pid: Some(7),
            ..SchedulerFound::default()
        }),
        ..Found::default()
    };
    let said = |text: &str| judged(|f| scheduler(f, &with(text), &json!({"scheduling": "True"})));
    for quiet in [
        "",
        "# peer_queue: \"workq workq@two\"\n",
        "peer_queues: 1\n",
    ] {
        assert_eq!(worst(&said(quiet)), Level::Ok, "{quiet}");
    }
    let said = said("resources: \"ncpus\"\npeer_queue: \"workq workq@two\"\n");
    assert_eq!(worst(&said), Level::Problem);
    let named = |(_, text): &(Level, String)| text.contains("peer_queue: \"workq workq@two\"");
    assert!(said.iter().any(named), "{said:?}");
}

#[test]
fn limits_that_refuse_or_change_jobs_are_named() {
    let level = |queue| {
        worst(&judged(|f| {
            f.ok("");
            limits(f, "queue q", &queue);
        }))
    };
    assert_eq!(level(json!({})), Level::Ok);
    assert_eq!(
        level(json!({"resources_max": {"walltime": "01:00:00"}})),
        Level::Warning
    );
    assert_eq!(
        level(json!({"resources_min": {"ncpus": 1}})),
        Level::Warning
    );
    assert_eq!(level(json!({"resources_min": {"ncpus": 0}})), Level::Ok);
    assert_eq!(level(json!({"resources_default": {"ncpus": 1}})), Level::Ok);
    assert_eq!(
        level(json!({"resources_default": {"deadline": 10}})),
        Level::Problem
    );
    assert_eq!(
        level(json!({"default_chunk": {"libra_share": 1}})),
        Level::Problem
    );
    assert_eq!(seconds("00:00:30"), Some(30.0));
    assert_eq!(seconds("x"), None);
}

#[test]
fn suspended_jobs_must_keep_their_memory() {
    let config = |suspend: &str| {
        Config::from_toml(&format!("[class]\nsuspend = '{suspend}'\n")).expect("a configuration")
    };
    let judged = |attributes: Value, suspend: &str| {
        judged(|findings| suspension(findings, &attributes, &config(suspend)))
    };
    let released = |names: &str| json!({"restrict_res_to_release_on_suspend": names});
    assert!(judged(json!({}), "never").is_empty());
    assert_eq!(worst(&judged(released("ncpus"), "memory")), Level::Ok);
    for attributes in [json!({}), released("ncpus,mem"), released("libra_share")] {
        let found = judged(attributes, "memory");
        assert_eq!(worst(&found), Level::Warning);
        assert!(
            found[0]
                .1
                .contains("set server restrict_res_to_release_on_suspend = ncpus"),
            "{found:?}"
        );
    }
}

#[test]
fn hosts_that_cannot_share_are_named() {
    let node = |state: &str, version: &str, sharing: &str| NodeFound {
        state: state.to_string(),
        version: Some(version.to_string()),
        sharing: sharing.to_string(),
        available: [("host".to_string(), "h".to_string())].into(),
    };
    let server = json!({"pbs_version": "23"});
    let said = |nodes: Vec<NodeFound>| {
        let names = ["a", "b"].iter().map(|name| name.to_string());
        let found = Found {
            nodes: names.zip(nodes).collect(),
            ..Found::default()
        };
        let shares = found.nodes.keys().map(|name| (name.clone(), 1.0)).collect();
        judged(|f| hosts(f, &found, &shares, &server))
    };
    let good = || node("free", "23", "default_shared");
    assert_eq!(worst(&said(vec![good()])), Level::Ok);
    for (nodes, part) in [
        (
            vec![node("state-unknown,down", "23", "")],
            "node a: state-unknown,down",
        ),
        (vec![node("free", "22", "")], "PBS 22, the server has 23"),
        (vec![node("free", "23", "force_excl")], "sharing=force_excl"),
        (vec![good(), good()], "host h: 2 vnodes"),
    ] {
        let said = said(nodes);
        assert_eq!(worst(&said), Level::Warning);
        assert!(said.iter().any(|(_, text)| text.contains(part)), "{said:?}");
    }
}

#[test]
fn lines_of_queues_that_no_job_has_its_class_by() {
    let config = "[class.queues]\nlong = 'dedicated'\nlnog = 'dedicated'\n";
    let config = Config::from_toml(config).expect("a configuration");
    let queues = BTreeMap::from([
        ("long".to_string(), json!({"queue_type": "Execution"})),
        (
            "door".to_string(),
            json!({"queue_type": "Route", "route_destinations": "short,long"}),
        ),
    ]);
    let found = judged(|f| super::classes(f, &queues, &config));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].1.starts_with(
            "class.queues.lnog of Libra's configuration: there is no queue of that name"
        ),
        "{found:?}"
    );
    assert!(
        found[1]
            .1
            .contains("jobs that queue door sends there have the class of door"),
        "{found:?}"
    );
    assert_eq!(worst(&found), Level::Warning);
    let both = "[class.queues]\nlong = 'dedicated'\ndoor = 'dedicated'\n";
    let both = Config::from_toml(both).expect("a configuration");
    assert_eq!(judged(|f| super::classes(f, &queues, &both)), []);
}
