//! Plans carried out on plain data: a server that takes qmgr's directives, killed after every step.

use super::*;
use crate::pbs::found::{NodeFound, ResourceFound, SchedulerFound, with_line};
use crate::pbs::wanted::HookConfig;
use libra_config::OnFault;
use std::path::PathBuf;

/// Carries a step out as PBS would, and refuses what PBS refuses.
fn apply(found: &mut Found, step: &Step) {
    match step {
        Step::Qmgr(directive) => qmgr(found, directive),
        Step::Import {
            hook, part, text, ..
        } => {
            let hook = found.hooks.get_mut(*hook).expect("a hook that is there");
            let periodic = hook.events.iter().any(|e| e.contains("periodic"));
            assert!(
                !(periodic && hook.enabled),
                "a live periodic hook is edited"
            );
            match part {
                HookPart::Content => hook.content.clone_from(text),
                HookPart::Config => hook.config.clone_from(text),
            }
        }
        Step::SchedConfig { from, to, .. } => {
            let scheduler = found.scheduler.as_mut().expect("a scheduler");
            scheduler.text = with_line(&scheduler.text, from, to).expect("that line");
        }
        Step::Reconfigure { .. } | Step::Forget(_) => {}
    }
}

fn qmgr(found: &mut Found, directive: &str) {
    let words: Vec<&str> = directive.split(' ').collect();
    let pairs = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(k, v)| (k.to_string(), v.to_string())).collect()
    };
    match words[..] {
        ["create", "resource", name, attributes] => {
            let attributes = pairs(attributes);
            let made = ResourceFound {
                kind: attributes["type"].clone(),
                flags: attributes["flag"].chars().rev().collect(),
            };
            assert!(found.resources.insert(name.to_string(), made).is_none());
        }
        ["delete", "resource", name] => {
            assert!(found.resources.remove(name).is_some());
            for node in found.nodes.values_mut() {
                node.available.remove(name);
            }
        }
        ["create", "hook", name, attributes] => {
            let attributes = pairs(attributes);
            let made = HookFound {
                enabled: attributes["enabled"] == "true",
                events: vec![attributes["event"].clone()],
                order: attributes["order"].parse().expect("a number"),
                freq: attributes.get("freq").and_then(|freq| freq.parse().ok()),
                alarm: attributes.get("alarm").and_then(|alarm| alarm.parse().ok()),
                ..HookFound::default()
            };
            assert!(found.hooks.insert(name.to_string(), made).is_none());
        }
        ["delete", "hook", name] => {
            let gone = found.hooks.remove(name).expect("a hook that is there");
            assert!(!gone.enabled, "{name} was live when it was deleted");
        }
        ["set", "hook", name, setting] => {
            let hook = found.hooks.get_mut(name).expect("a hook that is there");
            match setting.split_once('=').expect("a setting") {
                ("enabled", on) => hook.enabled = on == "true",
                ("freq", freq) => hook.freq = freq.parse().ok(),
                ("alarm", alarm) => hook.alarm = alarm.parse().ok(),
                ("order", order) => hook.order = order.parse().expect("a number"),
                other => panic!("{other:?} of a hook must not be set"),
            }
        }
        [verb, "node", name, setting] => {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let resource = key
                .strip_prefix("resources_available.")
                .expect("a resource");
            assert!(found.resources.contains_key(resource), "{directive}");
            let node = found.nodes.get_mut(name).expect("a node that is there");
            if verb == "set" {
                node.available
                    .insert(resource.to_string(), value.to_string());
            } else {
                assert!(node.available.remove(resource).is_some(), "{directive}");
            }
        }
        _ => panic!("not a directive of an installation: {directive}"),
    }
}

/// Runs the first steps of a plan, as `install::run` does; the next one is recorded and not run.
fn run(found: &mut Found, plan: &[Planned], record: &mut InstallRecord, steps: usize) {
    for (n, planned) in plan.iter().enumerate() {
        if let (Note::Made(entry), true) = (&planned.note, n <= steps) {
            record.add(entry);
        }
        if n < steps {
            apply(found, &planned.step);
            if let Note::Undone(entry) = &planned.note {
                record.remove(entry);
            }
        }
    }
}

/// A site with resources, a value and a hook of its own.
fn site() -> Found {
    let node = || NodeFound {
        state: "free".to_string(),
        available: [("ncpus".to_string(), "2".to_string())].into(),
        ..NodeFound::default()
    };
    let mut found = Found {
        server: "srv".to_string(),
        nodes: [("a".to_string(), node()), ("b".to_string(), node())].into(),
        scheduler: Some(SchedulerFound {
            file: "/p/sched_config".into(),
            text: "# x\nresources: \"ncpus, mem\"\ny".to_string(),
            pid: Some(7),
        }),
        ..Found::default()
    };
    let rating = ResourceFound {
        kind: "float".to_string(),
        flags: "h".to_string(),
    };
    found.resources.insert("libra_rating".to_string(), rating);
    let share = ResourceFound {
        kind: "float".to_string(),
        flags: "hnm".to_string(),
    };
    found.resources.insert("libra_share".to_string(), share);
    let a = found.nodes.get_mut("a").expect("made above");
    a.available
        .insert("libra_share".to_string(), "7".to_string());
    found.hooks.insert("site".to_string(), HookFound::default());
    found
}

fn wanted() -> Wanted {
    Wanted {
        config: HookConfig {
            library: "/l".into(),
            config: "/c".into(),
            host_config: "/h".into(),
            state: "/s".into(),
            on_fault: OnFault::Refuse,
        },
        nodes: [("a".to_string(), 2.0), ("b".to_string(), 1.5)].into(),
    }
}

fn files() -> PathBuf {
    "/files".into()
}

fn installed() -> (Found, InstallRecord) {
    let (mut found, mut record) = (site(), InstallRecord::default());
    let plan = install(&found, &wanted(), &record, &files());
    run(&mut found, &plan, &mut record, usize::MAX);
    record.complete = true;
    (found, record)
}

fn uninstalled(mut found: Found, mut record: InstallRecord) -> (Found, InstallRecord) {
    let plan = uninstall(&found, &record, &Holders::default(), false);
    for entry in settled(&found, &record) {
        record.remove(&entry);
    }
    run(&mut found, &plan, &mut record, usize::MAX);
    (found, record)
}

#[test]
fn a_second_installation_has_nothing_to_do() {
    let (found, record) = installed();
    assert_eq!(install(&found, &wanted(), &record, &files()), []);
    assert!(HOOKS.iter().all(|hook| found.hooks[hook.name].enabled));
    assert_eq!(found.nodes["b"].available["libra_share"], "1.5");
    let text = &found.scheduler.as_ref().expect("there").text;
    assert_eq!(
        text,
        "# x\nresources: \"ncpus, mem, libra_share, libra_besteffort, libra_node\"\ny"
    );
}

#[test]
fn the_hook_that_admits_is_enabled_last_and_disabled_first() {
    let last = install(&site(), &wanted(), &InstallRecord::default(), &files());
    let last = last.last().expect("steps").step.to_string();
    assert_eq!(last, "qmgr -c 'set hook libra_queuejob enabled=true'");
    let (found, record) = installed();
    let first = uninstall(&found, &record, &Holders::default(), false);
    let first = first[0].step.to_string();
    assert_eq!(first, "qmgr -c 'set hook libra_queuejob enabled=false'");
}

#[test]
fn uninstalling_leaves_what_was_there() {
    let (found, record) = installed();
    let (found, record) = uninstalled(found, record);
    assert_eq!(found, site());
    assert!(record.is_empty(), "{record:?}");
}

#[test]
fn killed_after_any_step_it_is_continued_or_undone() {
    let (whole, whole_record) = installed();
    let plan = install(&site(), &wanted(), &InstallRecord::default(), &files());
    for steps in 0..=plan.len() {
        let (mut found, mut record) = (site(), InstallRecord::default());
        run(&mut found, &plan, &mut record, steps);

        let (undone, left) = uninstalled(found.clone(), record.clone());
        assert_eq!(undone, site(), "undone after {steps}");
        assert!(left.is_empty(), "undone after {steps}: {left:?}");

        let rest = install(&found, &wanted(), &record, &files());
        run(&mut found, &rest, &mut record, usize::MAX);
        record.complete = true;
        assert_eq!(found, whole, "continued after {steps}");
        assert_eq!(record, whole_record, "continued after {steps}");
    }
}

#[test]
fn undoing_that_was_killed_after_any_step_is_continued() {
    let (whole, whole_record) = installed();
    let plan = uninstall(&whole, &whole_record, &Holders::default(), false);
    for steps in 0..=plan.len() {
        let (mut found, mut record) = (whole.clone(), whole_record.clone());
        record.complete = false;
        run(&mut found, &plan, &mut record, steps);
        let (found, record) = uninstalled(found, record);
        assert_eq!(found, site(), "after {steps}");
        assert!(record.is_empty(), "after {steps}: {record:?}");
    }
}

#[test]
fn a_scheduler_that_may_not_know_yet_is_told_again() {
    let plan = install(&site(), &wanted(), &InstallRecord::default(), &files());
    let told = |plan: &[Planned]| {
        let told = |p: &Planned| matches!(p.step, Step::Reconfigure { pid: 7 });
        plan.iter().position(told)
    };
    let (mut found, mut record) = (site(), InstallRecord::default());
    run(&mut found, &plan, &mut record, told(&plan).expect("told"));
    assert!(told(&install(&found, &wanted(), &record, &files())).is_some());
}

#[test]
fn hooks_are_replaced_without_a_gap_and_periodic_ones_never_live() {
    let (mut found, record) = installed();
    for name in ["libra_queuejob", "libra_periodic"] {
        found.hooks.get_mut(name).expect("made").content = "old".to_string();
    }
    let plan = install(&found, &wanted(), &record, &files());
    let steps: Vec<String> = plan.iter().map(|p| p.step.to_string()).collect();
    assert_eq!(
        steps,
        [
            "qmgr -c 'set hook libra_periodic enabled=false'",
            "qmgr -c 'import hook libra_periodic application/x-python default /files/libra_periodic.py'",
            "qmgr -c 'import hook libra_queuejob application/x-python default /files/libra_queuejob.py'",
            "qmgr -c 'set hook libra_periodic enabled=true'",
        ]
    );
    // One that PBS would end after its own 30 s, as installed before.
    let (mut found, record) = installed();
    found.hooks.get_mut("libra_periodic").expect("made").alarm = Some(30);
    let plan = install(&found, &wanted(), &record, &files());
    let steps: Vec<String> = plan.iter().map(|p| p.step.to_string()).collect();
    assert_eq!(
        steps,
        [
            "qmgr -c 'set hook libra_periodic enabled=false'",
            "qmgr -c 'set hook libra_periodic alarm=600'",
            "qmgr -c 'set hook libra_periodic enabled=true'",
        ]
    );
    // One of the hosts keeps its name: PBS gives it away again only when all hosts have deleted it.
    let (mut found, record) = installed();
    let hook = found.hooks.get_mut("libra_exechost_periodic");
    let hook = hook.expect("made");
    (hook.config, hook.freq) = ("old".to_string(), Some(120));
    let plan = install(&found, &wanted(), &record, &files());
    let steps: Vec<String> = plan.iter().map(|p| p.step.to_string()).collect();
    assert_eq!(
        steps,
        [
            "qmgr -c 'set hook libra_exechost_periodic enabled=false'",
            "qmgr -c 'set hook libra_exechost_periodic freq=10'",
            "qmgr -c 'import hook libra_exechost_periodic application/x-config default \
             /files/libra_exechost_periodic.json'",
            "qmgr -c 'set hook libra_exechost_periodic enabled=true'",
        ]
    );
    // Another event: nothing is edited, the hook is made anew.
    let (mut found, mut record) = installed();
    let whole = found.clone();
    let hook = found.hooks.get_mut("libra_runjob").expect("made");
    hook.events = vec!["periodic".to_string(), "runjob".to_string()];
    let plan = install(&found, &wanted(), &record, &files());
    run(&mut found, &plan, &mut record, usize::MAX);
    assert_eq!(found, whole);
}

#[test]
fn a_node_that_is_no_longer_libras_is_as_before() {
    let (mut found, mut record) = installed();
    let mut fewer = wanted();
    fewer.nodes.remove("a");
    let plan = install(&found, &fewer, &record, &files());
    run(&mut found, &plan, &mut record, usize::MAX);
    assert_eq!(found.nodes["a"], site().nodes["a"]);
    assert!(!record.nodes.contains_key("a"));
}

#[test]
fn what_others_changed_since_is_left_alone() {
    let (mut found, record) = installed();
    // A site's own resource with a value of its own, set after ours.
    let a = found.nodes.get_mut("a").expect("there");
    a.available
        .insert("libra_share".to_string(), "3".to_string());
    let scheduler = found.scheduler.as_mut().expect("there");
    scheduler.text = "resources: \"ncpus, libra_share, vmem\"\nz".to_string();
    let (found, record) = uninstalled(found, record);
    assert_eq!(found.nodes["a"].available["libra_share"], "3");
    let text = &found.scheduler.expect("there").text;
    assert_eq!(text, "resources: \"ncpus, vmem\"\nz");
    assert!(record.is_empty());
    // A site's own resource in the place of one of ours stays.
    let (mut found, record) = installed();
    let budget = ResourceFound {
        kind: "long".to_string(),
        flags: String::new(),
    };
    found.resources.insert("budget".to_string(), budget);
    let (found, record) = uninstalled(found, record);
    assert!(found.resources.contains_key("budget") && record.is_empty());
}

#[test]
fn resources_that_jobs_have_stay_unless_the_history_forgets_them() {
    let (found, record) = installed();
    let jobs = |ids: &[&str]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>();
    let holders = Holders {
        active: [("deadline".to_string(), jobs(&["9"]))].into(),
        finished: [
            ("deadline".to_string(), jobs(&["1", "2"])),
            ("budget".to_string(), jobs(&["2", "3"])),
        ]
        .into(),
    };
    assert_eq!(holders.finished(), ["1", "2", "3"]);
    let deleted = |forget| -> Vec<String> {
        let plan = uninstall(&found, &record, &holders, forget);
        let steps = plan.iter().map(|p| p.step.to_string());
        steps
            .filter(|s| s.contains("delete resource") || s.contains("qdel"))
            .collect()
    };
    let kept = deleted(false);
    assert!(
        !kept
            .iter()
            .any(|s| s.contains("budget") || s.contains("deadline'"))
    );
    assert!(kept.iter().any(|s| s.contains("estimate")));
    let forgotten = deleted(true);
    assert_eq!(forgotten[0], "qdel -x 1 2 3");
    assert!(forgotten.iter().any(|s| s.contains("budget")));
    assert!(!forgotten.iter().any(|s| s.contains("resource deadline'")));
}
