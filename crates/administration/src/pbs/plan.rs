//! The steps from what a server has to what is wanted, and back. Pure.

use super::found::{Found, HookFound, resources_line};
use super::record::{InstallRecord, Installed, NodeValue, SchedulerChange};
use super::step::{HookPart, Note, Planned, Step};
use super::wanted::{BEST_EFFORT, COUNTED, HOOKS, Hook, NODE, RESOURCES, SHARE, Wanted};
use std::collections::BTreeMap;
use std::path::Path;

fn qmgr(directive: String) -> Planned {
    Planned::new(Step::Qmgr(directive))
}

/// What an installation has to change. Hooks are imported from files in `files`.
pub fn install(
    found: &Found,
    wanted: &Wanted,
    record: &InstallRecord,
    files: &Path,
) -> Vec<Planned> {
    let mut plan = Vec::new();
    for resource in &RESOURCES {
        if !found.resources.contains_key(resource.name) {
            let create = format!(
                "create resource {} type={},flag={}",
                resource.name, resource.kind, resource.flags
            );
            plan.push(Planned::making(
                Step::Qmgr(create),
                Installed::Resource(resource.name.to_string()),
            ));
        }
    }
    for (node, share) in &wanted.nodes {
        plan.extend(node_value(found, node, SHARE, &share.to_string()));
        // A fraction stands for a processor a part of which is not committed.
        let processors = share.ceil().max(1.0);
        plan.extend(node_value(
            found,
            node,
            BEST_EFFORT,
            &processors.to_string(),
        ));
        plan.extend(node_value(found, node, NODE, "True"));
    }
    for node in record.nodes.keys() {
        // A node that is no longer one of Libra's.
        if !wanted.nodes.contains_key(node) {
            plan.extend(node_as_before(found, record, node));
        }
    }
    plan.extend(count_share(found, record));
    let config = wanted.config.text();
    for hook in &HOOKS {
        plan.extend(make_hook(found.hooks.get(hook.name), hook, &config, files));
    }
    for hook in &HOOKS {
        let enabled = found.hooks.get(hook.name).is_some_and(|h| h.enabled);
        // Replacing a hook disables it.
        let disabled = disable(hook.name);
        if !enabled || plan.contains(&disabled) {
            plan.push(qmgr(format!("set hook {} enabled=true", hook.name)));
        }
    }
    plan
}

fn disable(hook: &str) -> Planned {
    qmgr(format!("set hook {hook} enabled=false"))
}

fn same(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}

fn node_value(found: &Found, node: &str, resource: &str, value: &str) -> Option<Planned> {
    let before = found.nodes.get(node)?.available.get(resource);
    if before.is_some_and(|before| same(before, value)) {
        return None;
    }
    let set = format!("set node {node} resources_available.{resource}={value}");
    let entry = Installed::Node {
        node: node.to_string(),
        resource: resource.to_string(),
        value: NodeValue {
            before: before.cloned(),
            set: value.to_string(),
        },
    };
    Some(Planned::making(Step::Qmgr(set), entry))
}

/// Libra's counts on the `resources:` line, so that the scheduler does not give out more than there is.
fn count_share(found: &Found, record: &InstallRecord) -> Vec<Planned> {
    let Some(scheduler) = &found.scheduler else {
        return Vec::new();
    };
    let mut plan = Vec::new();
    let missing = resources_line(&scheduler.text).filter(|line| !line.has_all(&COUNTED));
    if let Some(line) = missing {
        let (before, set) = (line.line.to_string(), line.with_all(&COUNTED));
        let file = scheduler.file.clone();
        let step = Step::SchedConfig {
            file: file.clone(),
            from: before.clone(),
            to: set.clone(),
        };
        let change = SchedulerChange { file, before, set };
        plan.push(Planned::making(step, Installed::Scheduler(change)));
    }
    // An installation that was killed may have come to the line and no further.
    let unfinished = !record.complete && record.scheduler.is_some();
    if !plan.is_empty() || unfinished {
        plan.extend(reconfigure(scheduler.pid));
    }
    plan
}

fn reconfigure(pid: Option<i32>) -> Option<Planned> {
    pid.map(|pid| Planned::new(Step::Reconfigure { pid }))
}

/// Makes or replaces one hook and leaves a new one disabled.
fn make_hook(found: Option<&HookFound>, hook: &Hook, config: &str, files: &Path) -> Vec<Planned> {
    let content = hook.content();
    let mut plan = Vec::new();
    let mut create = found.is_none();
    let (mut content_differs, mut config_differs) = (true, true);
    if let Some(found) = found {
        content_differs = found.content != content;
        config_differs = found.config != config;
        let other_event = found.events != [hook.event];
        let other_freq = hook.freq.is_some() && found.freq != hook.freq;
        let other_alarm = hook.alarm.is_some() && found.alarm != hook.alarm;
        let differs = content_differs || config_differs || other_freq || other_alarm;
        create = other_event;
        // A periodic hook may be running at any time, and a live one must never be edited.
        if create || (hook.freq.is_some() && differs) {
            plan.push(disable(hook.name));
        }
        if create {
            plan.push(qmgr(format!("delete hook {}", hook.name)));
        } else {
            // It is not deleted: the name of a hook of the hosts is free only when all hosts have heard of it.
            if let Some(freq) = hook.freq.filter(|_| other_freq) {
                plan.push(qmgr(format!("set hook {} freq={freq}", hook.name)));
            }
            if let Some(alarm) = hook.alarm.filter(|_| other_alarm) {
                plan.push(qmgr(format!("set hook {} alarm={alarm}", hook.name)));
            }
            if found.order != i64::from(hook.order) {
                plan.push(qmgr(format!("set hook {} order={}", hook.name, hook.order)));
            }
        }
    }
    if create {
        let set = |key: &str, value: Option<u32>| {
            value.map_or(String::new(), |value| format!(",{key}={value}"))
        };
        let make = format!(
            "create hook {} event={}{}{},order={},enabled=false",
            hook.name,
            hook.event,
            set("freq", hook.freq),
            set("alarm", hook.alarm),
            hook.order
        );
        let entry = Installed::Hook(hook.name.to_string());
        plan.push(Planned::making(Step::Qmgr(make), entry));
    }
    // Any other hook is replaced in place, live: no job passes by it meanwhile.
    let parts = [
        (HookPart::Content, content, content_differs),
        (HookPart::Config, config.to_string(), config_differs),
    ];
    for (part, text, differs) in parts {
        if create || differs {
            plan.push(Planned::new(Step::Import {
                hook: hook.name,
                part,
                file: files.join(format!("{}.{}", hook.name, part.extension())),
                text,
            }));
        }
    }
    plan
}

/// Jobs that hold what is to be removed, by resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Holders {
    /// Queued or running.
    pub active: BTreeMap<String, Vec<String>>,
    /// In the history.
    pub finished: BTreeMap<String, Vec<String>>,
}

impl Holders {
    fn of(jobs: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        let mut all: Vec<String> = jobs.values().flatten().cloned().collect();
        all.sort();
        all.dedup();
        all
    }

    /// All jobs that are queued or running, each once.
    pub fn active(&self) -> Vec<String> {
        Holders::of(&self.active)
    }

    /// All jobs in the history, each once.
    pub fn finished(&self) -> Vec<String> {
        Holders::of(&self.finished)
    }

    fn hold(&self, resource: &str, forget: bool) -> bool {
        let any = |jobs: &BTreeMap<String, Vec<String>>| {
            jobs.get(resource).is_some_and(|jobs| !jobs.is_empty())
        };
        any(&self.active) || (any(&self.finished) && !forget)
    }
}

/// Jobs in one command.
const JOBS_AT_ONCE: usize = 100;

/// What undoes an installation, in the reverse order. Resources that jobs hold are left out; with
/// `forget`, jobs in the history leave it first.
pub fn uninstall(
    found: &Found,
    record: &InstallRecord,
    holders: &Holders,
    forget: bool,
) -> Vec<Planned> {
    let mut plan = Vec::new();
    let ours = |hook: &&Hook| record.hooks.iter().any(|name| name == hook.name);
    // All off before the first is deleted; the one that admits goes first.
    for hook in HOOKS.iter().rev().filter(ours) {
        if found.hooks.get(hook.name).is_some_and(|h| h.enabled) {
            plan.push(disable(hook.name));
        }
    }
    for hook in HOOKS.iter().rev().filter(ours) {
        if found.hooks.contains_key(hook.name) {
            plan.push(Planned::undoing(
                Step::Qmgr(format!("delete hook {}", hook.name)),
                Installed::Hook(hook.name.to_string()),
            ));
        }
    }
    plan.extend(scheduler_as_before(found, record));
    for node in record.nodes.keys().rev() {
        plan.extend(node_as_before(found, record, node));
    }
    let finished = holders.finished();
    if forget {
        for jobs in finished.chunks(JOBS_AT_ONCE) {
            plan.push(Planned::new(Step::Forget(jobs.to_vec())));
        }
    }
    for resource in RESOURCES.iter().rev() {
        let made = record.resources.iter().any(|name| name == resource.name);
        let there = found.resources.get(resource.name);
        let as_made = there.is_some_and(|r| r.is(resource.kind, resource.flags));
        if made && as_made && !holders.hold(resource.name, forget) {
            plan.push(Planned::undoing(
                Step::Qmgr(format!("delete resource {}", resource.name)),
                Installed::Resource(resource.name.to_string()),
            ));
        }
    }
    plan
}

fn scheduler_as_before(found: &Found, record: &InstallRecord) -> Vec<Planned> {
    let (Some(change), Some(scheduler)) = (&record.scheduler, &found.scheduler) else {
        return Vec::new();
    };
    let mut plan = Vec::new();
    if scheduler.file == change.file {
        let there = resources_line(&scheduler.text)
            .filter(|line| COUNTED.iter().any(|name| line.has(name)));
        if let Some(line) = there {
            // Where the line was changed since, only our word goes.
            let before = if line.line == change.set {
                change.before.clone()
            } else {
                line.without_all(&COUNTED)
            };
            plan.push(Planned::new(Step::SchedConfig {
                file: change.file.clone(),
                from: line.line.to_string(),
                to: before,
            }));
        }
    }
    plan.extend(reconfigure(scheduler.pid));
    // The entry goes when the scheduler knows.
    if let Some(last) = plan.last_mut() {
        last.note = Note::Undone(Installed::Scheduler(change.clone()));
    }
    plan
}

fn node_as_before(found: &Found, record: &InstallRecord, node: &str) -> Vec<Planned> {
    let (Some(values), Some(there)) = (record.nodes.get(node), found.nodes.get(node)) else {
        return Vec::new();
    };
    let mut plan = Vec::new();
    for (resource, value) in values.iter().rev() {
        let now = there.available.get(resource);
        // A value that somebody else set since is not ours to take away; if the resource is ours,
        // it goes with that.
        if !now.is_some_and(|now| same(now, &value.set)) {
            continue;
        }
        let directive = match &value.before {
            Some(before) => format!("set node {node} resources_available.{resource}={before}"),
            None => format!("unset node {node} resources_available.{resource}"),
        };
        let entry = Installed::Node {
            node: node.to_string(),
            resource: resource.clone(),
            value: value.clone(),
        };
        plan.push(Planned::undoing(Step::Qmgr(directive), entry));
    }
    plan
}

/// What a record still has to be undone that `found` has not any more: it was undone by hand, or never
/// came to be.
pub fn settled(found: &Found, record: &InstallRecord) -> Vec<Installed> {
    let mut gone = Vec::new();
    for name in &record.hooks {
        if !found.hooks.contains_key(name) {
            gone.push(Installed::Hook(name.clone()));
        }
    }
    for (node, values) in &record.nodes {
        for (resource, value) in values {
            let there = found.nodes.get(node);
            let now = there.and_then(|node| node.available.get(resource));
            if !now.is_some_and(|now| same(now, &value.set)) {
                gone.push(Installed::Node {
                    node: node.clone(),
                    resource: resource.clone(),
                    value: value.clone(),
                });
            }
        }
    }
    for name in &record.resources {
        let made = RESOURCES.iter().find(|r| r.name == name);
        let there = found.resources.get(name);
        let as_made = made.zip(there).is_some_and(|(r, t)| t.is(r.kind, r.flags));
        if !as_made {
            gone.push(Installed::Resource(name.clone()));
        }
    }
    if let (Some(change), Some(scheduler)) = (&record.scheduler, &found.scheduler) {
        let counted = resources_line(&scheduler.text)
            .is_some_and(|line| COUNTED.iter().any(|name| line.has(name)));
        if !counted && scheduler.pid.is_none() {
            gone.push(Installed::Scheduler(change.clone()));
        }
    }
    gone
}

#[cfg(test)]
mod tests;
