//! What a server's settings mean for Libra: findings from plain data. Pure.

pub mod unjudged;

use super::found::{Found, resources_line, shown, texts};
use super::record::InstallRecord;
use super::wanted::{COUNTED, HOOKS, LAST_ON_SERVER, RESOURCES};
use crate::findings::Findings;
use libra_config::{Config, SuspendName};
use libra_pbs::marks::keeps_memory;
use libra_units::toml_key;
use serde_json::Value;
use std::collections::BTreeMap;

/// Attribute of the server: what a suspended job gives back.
const RELEASED: &str = "restrict_res_to_release_on_suspend";

/// The oldest version whose hooks have the events that Libra needs.
const OLDEST: u32 = 23;

pub fn version(findings: &mut Findings, server: &str, attributes: &Value) {
    let version = attributes.get("pbs_version").map(shown).unwrap_or_default();
    let major = version
        .split('.')
        .next()
        .and_then(|n| n.parse::<u32>().ok());
    match major {
        Some(major) if major >= OLDEST => findings.ok(format!("server {server}: PBS {version}")),
        Some(_) => findings.problem(format!(
            "server {server}: PBS {version} is older than {OLDEST}; its hooks lack events that Libra needs, upgrade it"
        )),
        None => findings.problem(format!(
            "server {server}: unrecognised PBS version '{version}'; OpenPBS {OLDEST} or newer is needed"
        )),
    }
}

/// Resources of Libra's names.
pub fn resources(findings: &mut Findings, found: &Found, record: Option<&InstallRecord>) {
    let made = |name: &str| record.is_some_and(|r| r.resources.iter().any(|made| made == name));
    let mut sound = true;
    for resource in &RESOURCES {
        let Some(there) = found.resources.get(resource.name) else {
            continue;
        };
        if !there.is(resource.kind, resource.flags) {
            sound = false;
            findings.problem(format!(
                "resource {} exists as type={},flag={}; Libra needs type={},flag={}: if nobody uses it, \
                 delete it (qmgr -c 'delete resource {}'), else Libra cannot be installed beside it",
                resource.name,
                there.kind,
                there.flags,
                resource.kind,
                resource.flags,
                resource.name
            ));
        } else if !made(resource.name) {
            sound = false;
            findings.warning(format!(
                "resource {} was there before, as Libra needs it: it is used, and stays at uninstall",
                resource.name
            ));
        }
    }
    if sound {
        findings.ok("resources: no other one has a name of Libra's");
    }
}

/// Hooks of Libra's names, and those that run beside Libra's.
pub fn hooks(findings: &mut Findings, found: &Found, record: Option<&InstallRecord>) {
    let made = |name: &str| record.is_some_and(|r| r.hooks.iter().any(|made| made == name));
    let mut quiet = true;
    for hook in &HOOKS {
        if found.hooks.contains_key(hook.name) && !made(hook.name) {
            quiet = false;
            findings.problem(format!(
                "hook {} exists and 'libra pbs install' has no record of making it: give the --state \
                 directory of that installation, or disable it and delete it with qmgr",
                hook.name
            ));
        }
    }
    for (name, hook) in &found.hooks {
        let other = !name.starts_with("libra_") && hook.enabled;
        let admits = hook
            .events
            .iter()
            .any(|e| e == "queuejob" || e == "modifyjob");
        if other && admits {
            quiet = false;
            let order = hook.order;
            if order >= i64::from(LAST_ON_SERVER) {
                findings.warning(format!(
                    "hook {name} (order {order}) sees jobs after Libra's (order {LAST_ON_SERVER}): it must not \
                     change select, place, walltime or Libra's resources; a lower order is safer"
                ));
            } else {
                findings.ok(format!(
                    "hook {name} (order {order}) sees jobs before Libra's (order {LAST_ON_SERVER})"
                ));
            }
        }
    }
    if quiet {
        findings.ok("hooks: no other one sees jobs when they are submitted or altered");
    }
}

/// The hook for cgroups that PBS brings.
pub fn cgroups(findings: &mut Findings, found: &Found) {
    let Some(hook) = found.hooks.get("pbs_cgroups").filter(|hook| hook.enabled) else {
        findings.ok("pbs_cgroups: not there or not enabled");
        return;
    };
    let Ok(config) = serde_json::from_str::<Value>(&hook.config) else {
        findings.problem(
            "pbs_cgroups: enabled, and its configuration is not JSON; correct it \
             (qmgr -c 'export hook pbs_cgroups application/x-config default')",
        );
        return;
    };
    let on = |controller: &str| {
        let enabled = config.pointer(&format!("/cgroup/{controller}/enabled"));
        enabled.is_some_and(|value| match value {
            Value::Bool(on) => *on,
            other => !matches!(shown(other).to_lowercase().as_str(), "false" | "0" | "null"),
        })
    };
    if on("cpu") {
        findings.problem(
            "pbs_cgroups: its cpu part is enabled. It would cap jobs that ask for ncpus=0, as those with \
             shares do, whatever their share: set \"cpu\": {\"enabled\": false} in its configuration",
        );
    } else if on("cpuacct") {
        findings.warning(
            "pbs_cgroups: enabled, with cpuacct. On hosts that mount cpu and cpuacct together (see \
             /proc/mounts there) turn its cpuacct part off: a job has one place in the two",
        );
    } else {
        findings.ok("pbs_cgroups: enabled, its cpu part is off");
    }
}

/// The scheduler.
pub fn scheduler(findings: &mut Findings, found: &Found, attributes: &Value) {
    let Some(scheduler) = &found.scheduler else {
        findings.problem(
            "scheduler: no sched_config on this host; run this on the host of server and scheduler",
        );
        return;
    };
    let file = scheduler.file.display();
    match resources_line(&scheduler.text) {
        Some(line) if line.has_all(&COUNTED) => {
            findings.ok(format!(
                "scheduler: Libra's counts are on the resources line of {file}"
            ));
        }
        Some(_) => findings.ok(format!(
            "scheduler: {} are to come to the resources line of {file}",
            COUNTED.join(", ")
        )),
        None => findings.ok(format!(
            "scheduler: no resources line in {file}, so all resources count"
        )),
    }
    match scheduler.pid {
        Some(pid) => findings.ok(format!("scheduler: runs as process {pid}")),
        None => findings
            .problem("scheduler: does not run on this host, so nothing would start; start it"),
    }
    if !found.more_schedulers.is_empty() {
        findings.warning(format!(
            "scheduler: besides the default one there is {}; put libra_share, libra_besteffort and libra_node on the resources lines of those \
             with nodes of Libra's yourself",
            found.more_schedulers.join(", ")
        ));
    }
    for peer in unjudged::values(&scheduler.text, "peer_queue") {
        findings.problem(format!(
            "scheduler: peer_queue: \"{peer}\" in {file}: peer scheduling is not served beside Libra: a share is on one server, so a job that was accepted does not \
             move, and what is pulled in here is placed before Libra has judged it; take the line out"
        ));
    }
    if attributes.get("scheduling").map(shown).as_deref() != Some("True") {
        findings.warning(
            "scheduling is off, so no job starts, however early its deadline: qmgr -c 'set server scheduling=true'",
        );
    }
}

/// Attributes of the server that matter.
pub fn server(findings: &mut Findings, attributes: &Value) {
    let get = |key: &str| attributes.get(key).map(shown);
    let on = |key: &str| get(key).as_deref() == Some("True");
    findings.ok(if on("flatuid") {
        "flatuid: True, users are the same on all hosts"
    } else {
        "flatuid: not set, submission from other hosts is up to hosts.equiv; Libra changes nothing there"
    });
    if on("job_history_enable") {
        findings.ok(
            "job_history_enable: True; finished jobs with terms keep their resources until the history lets them go",
        );
    } else {
        findings.warning(
            "job_history_enable: not set, PBS forgets a job when it ends, and with it price and verdict; \
             qmgr -c 'set server job_history_enable=true' keeps them for job_history_duration",
        );
    }
    let interval = get("python_restart_min_interval").and_then(|text| seconds(&text));
    match interval {
        Some(seconds) if seconds < 30.0 => findings.warning(format!(
            "python_restart_min_interval: {seconds} s; every restart of the server's Python stops it for a \
             moment and costs memory, 30 s or more is better"
        )),
        _ => findings.ok("python_restart_*: the server's Python restarts at most every 30 s"),
    }
    limits(findings, "server", attributes);
}

/// Limits of the queues that would refuse or change jobs with terms.
pub fn queues(findings: &mut Findings, queues: &BTreeMap<String, Value>) {
    for (name, queue) in queues {
        limits(findings, &format!("queue {name}"), queue);
    }
}

/// Classes by queue: a job has that of the queue that it is submitted to, wherever it is sent from there.
pub fn classes(findings: &mut Findings, queues: &BTreeMap<String, Value>, config: &Config) {
    findings.class_queues(config, "queue", |queue| queues.contains_key(queue));
    let lines = &config.class.queues;
    for (name, queue) in queues {
        let destinations = (queue.get("route_destinations").map(shown)).unwrap_or_default();
        let differs = (destinations.split(',')).map(str::trim).find(|to| {
            lines
                .get(*to)
                .is_some_and(|class| lines.get(name) != Some(class))
        });
        if let Some(to) = differs {
            findings.warning(format!(
                "class.queues.{} of Libra's configuration: jobs that queue {name} sends there have the class of {name}, where they are submitted; \
                 give that a line as well, or let users submit to {to}",
                toml_key(to)
            ));
        }
    }
}

/// Whether dedicated jobs can stand still for others, where the site wants them to.
pub fn suspension(findings: &mut Findings, attributes: &Value, config: &Config) {
    if config.class.suspend != SuspendName::Memory {
        return;
    }
    let released = attributes.get(RELEASED).map(shown);
    if keeps_memory(released.as_deref()) {
        return findings.ok("class.suspend: suspended jobs keep their memory and their shares");
    }
    let now = match released {
        None => format!("{RELEASED} is not set, which means everything"),
        Some(released) => format!("{RELEASED} is {released}"),
    };
    findings.warning(format!(
        "class.suspend = \"memory\" does nothing: PBS would give away the memory and the shares of suspended jobs ({now}); let it keep them: \
         qmgr -c 'set server {RELEASED} = ncpus', which holds for all jobs that are suspended"
    ));
}

fn limits(findings: &mut Findings, place: &str, attributes: &Value) {
    let get = |list: &str| texts(attributes.get(list));
    for (list, verb) in [("resources_max", "longer"), ("resources_min", "shorter")] {
        if let Some(limit) = get(list).get("walltime") {
            findings.warning(format!(
                "{place}: {list}.walltime={limit}; Libra gives a job a walltime up to its deadline, \
                 and one that is {verb} is refused here"
            ));
        }
    }
    if let Some(least) = get("resources_min").get("ncpus") {
        if least.parse::<f64>().is_ok_and(|n| n > 0.0) {
            findings.warning(format!(
                "{place}: resources_min.ncpus={least}; jobs with shares ask for ncpus=0 and are refused here"
            ));
        }
    }
    for list in ["resources_default", "default_chunk"] {
        for (resource, value) in get(list) {
            if RESOURCES.iter().any(|ours| ours.name == resource) {
                findings.problem(format!(
                    "{place}: {list}.{resource}={value} would give terms to jobs that name none; unset it"
                ));
            }
        }
    }
}

/// `00:00:30` or `30`, in seconds.
fn seconds(text: &str) -> Option<f64> {
    let parts: Option<Vec<f64>> = text.split(':').map(|part| part.parse().ok()).collect();
    parts.map(|parts| parts.iter().fold(0.0, |sum, part| sum * 60.0 + part))
}

/// The execution hosts, as far as the server knows them.
pub fn hosts(
    findings: &mut Findings,
    found: &Found,
    nodes: &BTreeMap<String, f64>,
    server: &Value,
) {
    let version = server.get("pbs_version").map(shown).unwrap_or_default();
    let mut vnodes: BTreeMap<&str, u32> = BTreeMap::new();
    for name in nodes.keys() {
        let Some(node) = found.nodes.get(name) else {
            continue;
        };
        if let Some(host) = node.available.get("host") {
            *vnodes.entry(host).or_default() += 1;
        }
        let down = ["down", "offline", "stale", "unknown"];
        if down.iter().any(|word| node.state.contains(word)) {
            findings.warning(format!("node {name}: {}", node.state));
        }
        if node.sharing.contains("excl") {
            findings.warning(format!(
                "node {name}: sharing={}, a job gets it alone and nothing is shared",
                node.sharing
            ));
        }
        if let Some(other) = node.version.as_ref().filter(|other| **other != version) {
            findings.warning(format!(
                "node {name}: PBS {other}, the server has {version}"
            ));
        }
    }
    for (host, count) in vnodes.into_iter().filter(|(_, count)| *count > 1) {
        findings.warning(format!(
            "host {host}: {count} vnodes; Libra counts the shares of each by itself, one vnode per host is better"
        ));
    }
    if !nodes.is_empty() {
        let shares: Vec<String> = nodes
            .iter()
            .map(|(name, share)| format!("{name} {share}"))
            .collect();
        findings.ok(format!(
            "nodes and processors to share: {}",
            shares.join(", ")
        ));
        findings.ok(
            "not visible from here: each of these hosts needs the same library and configuration at the \
             same paths, and the right time ('libra config check' there, and timedatectl)",
        );
    }
}

#[cfg(test)]
mod tests;
