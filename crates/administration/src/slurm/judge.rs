//! What slurm.conf means for Libra: findings from plain data. Pure.

use super::conf::{Conf, Line, words};
use super::found::controllers;
use super::hostlist;
use super::jobs::force;
use super::plugin::Version;
use crate::findings::Findings;
use libra_config::{Config, WithoutTerms};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that should be able to share one processor; fewer keep small shares apart.
const ENOUGH: u32 = 20;

/// All settings that matter, whether Libra is installed or not.
pub fn settings(findings: &mut Findings, conf: &Conf, config: &Config, slurm: Option<Version>) {
    let partitions = conf.described("PartitionName");
    let ours = shared(&partitions, config);
    select(findings, conf, slurm);
    memory(findings, conf, &ours);
    self::partitions(findings, &partitions, &ours, config);
    neighbours(findings, conf, &partitions, &ours);
    without_terms(findings, &ours, config);
    preemption(findings, conf, &ours);
    scheduler(findings, conf);
    processes(findings, conf);
    backup(findings, conf);
}

fn name(partition: &Line) -> &str {
    &partition.pairs[0].1
}

fn forced(partition: &Line) -> Option<u32> {
    force(partition.get("OverSubscribe").or(partition.get("Shared"))?)
}

/// Libra's partitions: those that the configuration names, or all that share processors.
fn shared<'a>(partitions: &'a [Line], config: &Config) -> Vec<&'a Line> {
    let named = &config.slurm.partitions;
    let is_ours = |p: &&Line| match named.is_empty() {
        true => forced(p).is_some(),
        false => named.iter().any(|n| n == name(p)),
    };
    partitions.iter().filter(is_ours).collect()
}

fn select(findings: &mut Findings, conf: &Conf, slurm: Option<Version>) {
    let usual = match slurm {
        Some(version) if version.release() >= (23, 11) => "select/cons_tres",
        _ => "select/linear",
    };
    let kind = conf.get("SelectType").unwrap_or(usual);
    match kind {
        "select/cons_tres" => findings.ok("SelectType: select/cons_tres"),
        "select/cons_res" => findings.warning(
            "SelectType: select/cons_res shares processors as well, but Slurm 23.02 and later do not have it; tried is select/cons_tres",
        ),
        other => findings.problem(format!(
            "SelectType: {other} gives whole nodes to jobs; write SelectType=select/cons_tres and restart all daemons"
        )),
    }
    let parameters = conf.list("SelectTypeParameters");
    let is = |what: &str| {
        let mut all = parameters.iter();
        all.any(|p| p.to_ascii_lowercase().starts_with(what))
    };
    if is("cr_cpu") || is("cr_core") {
        findings.ok(format!("SelectTypeParameters: {}", parameters.join(",")));
    } else if is("cr_socket") {
        findings.problem(
            "SelectTypeParameters: CR_Socket gives whole sockets to jobs; write CR_CPU or CR_Core",
        );
    } else {
        let said = match parameters.is_empty() {
            true => "not set".to_string(),
            false => parameters.join(","),
        };
        findings.problem(format!(
            "SelectTypeParameters: {said}; processors must be what is given out: write CR_CPU or CR_Core, with _Memory where memory is to be counted"
        ));
    }
}

/// Memory that is counted and has no default is all of a node: the second job waits, whatever its share.
fn memory(findings: &mut Findings, conf: &Conf, ours: &[&Line]) {
    let counted = (conf.list("SelectTypeParameters").iter())
        .any(|p| p.to_ascii_lowercase().contains("memory"));
    let keys = ["DefMemPerCPU", "DefMemPerNode"];
    let all = keys.iter().any(|key| conf.get(key).is_some());
    let without: Vec<&str> = (ours.iter())
        .filter(|p| !keys.iter().any(|key| p.get(key).is_some()))
        .map(|p| name(p))
        .collect();
    if !counted {
        findings.ok("memory: not counted by Slurm");
    } else if all || without.is_empty() {
        findings.ok("memory: counted, with a default for jobs that name none");
    } else {
        findings.problem(format!(
            "memory: counted, and a job that names none takes all of its node, so nobody shares it, and jobs with a deadline are refused that do not say --mem: write DefMemPerCPU=… (MB) for the cluster or for partition {}",
            without.join(", ")
        ));
    }
}

fn partitions(findings: &mut Findings, all: &[Line], ours: &[&Line], config: &Config) {
    for named in &config.slurm.partitions {
        if !all.iter().any(|p| name(p) == named) {
            findings.problem(format!(
                "[slurm] partitions of Libra's configuration: there is no partition '{named}' in slurm.conf"
            ));
        }
    }
    findings.class_queues(config, "partition", |queue| {
        all.iter().any(|p| name(p) == queue)
    });
    if ours.is_empty() {
        findings.problem(
            "partitions: none shares its processors; write OverSubscribe=FORCE:20 on those whose jobs are to have deadlines",
        );
    }
    for partition in ours {
        let who = format!("partition {} ({})", name(partition), partition.place());
        match forced(partition) {
            None => findings.problem(format!(
                "{who}: OverSubscribe={}; jobs share processors with OverSubscribe=FORCE:20 only",
                partition.get("OverSubscribe").unwrap_or("NO")
            )),
            Some(count) if count < ENOUGH => findings.warning(format!(
                "{who}: OverSubscribe=FORCE:{count}, so no more than {count} jobs run on one processor, however small their shares: a later one that was accepted waits; FORCE:{ENOUGH} or more is better"
            )),
            Some(count) => findings.ok(format!("{who}: OverSubscribe=FORCE:{count}")),
        }
        let exclusive = partition.get("ExclusiveUser").unwrap_or("NO");
        if !exclusive.eq_ignore_ascii_case("no") {
            findings.warning(format!(
                "{who}: ExclusiveUser={exclusive}, so jobs of two users never share a node, whatever was promised"
            ));
        }
        if partition
            .get("State")
            .is_some_and(|s| !s.eq_ignore_ascii_case("up"))
        {
            findings.warning(format!("{who}: not State=UP"));
        }
    }
}

/// A job of a partition without FORCE keeps jobs with shares off its node, and the other way about.
fn neighbours(findings: &mut Findings, conf: &Conf, all: &[Line], ours: &[&Line]) {
    let every: BTreeSet<String> = (conf.described("NodeName").iter())
        .flat_map(|line| hostlist::names(name(line)).unwrap_or_default())
        .collect();
    let nodes = |partition: &Line| -> BTreeSet<String> {
        match partition.get("Nodes") {
            Some(list) if list.eq_ignore_ascii_case("all") => every.clone(),
            list => hostlist::names(list.unwrap_or_default())
                .unwrap_or_default()
                .into_iter()
                .collect(),
        }
    };
    let held: BTreeMap<&str, BTreeSet<String>> = ours.iter().map(|p| (name(p), nodes(p))).collect();
    for other in all.iter().filter(|p| forced(p).is_none()) {
        let theirs = nodes(other);
        let common = |mine: &BTreeSet<String>| mine.intersection(&theirs).count();
        for (mine, held) in held.iter().filter(|(mine, _)| **mine != name(other)) {
            let count = common(held);
            if count > 0 {
                findings.warning(format!(
                    "partition {}: has {count} of the nodes of {mine} without OverSubscribe=FORCE; while one of its jobs runs on such a node no job with a deadline is accepted there, and the other way about its jobs wait",
                    name(other)
                ));
            }
        }
    }
}

/// Jobs without terms that come into a partition of Libra's take its places, until there is none for jobs that have some.
fn without_terms(findings: &mut Findings, ours: &[&Line], config: &Config) {
    let allowed = matches!(
        config.slurm.without_terms,
        WithoutTerms::BestEffort | WithoutTerms::LeaveAlone
    );
    let is_default = |p: &&&Line| {
        p.get("Default")
            .is_some_and(|s| s.eq_ignore_ascii_case("yes"))
    };
    if let Some(partition) = ours.iter().find(is_default).filter(|_| allowed) {
        let name = name(partition);
        findings.warning(format!(
            "partition {name} ({}): Default=YES, so jobs without a deadline come into it as well; when many of them wait, they take all places that its OverSubscribe has, \
             and jobs with a deadline are refused (no-node). Give them a partition of their own on the same nodes, PartitionName=… Default=YES OverSubscribe=FORCE:1, \
             and name yours in libra.toml: [slurm] partitions = [\"{name}\"]",
            partition.place()
        ));
    }
}

fn preemption(findings: &mut Findings, conf: &Conf, ours: &[&Line]) {
    let gang = |mode: &&str| words(mode).iter().any(|w| w.eq_ignore_ascii_case("gang"));
    let suspends = |mode: &&str| {
        words(mode)
            .iter()
            .any(|w| w.eq_ignore_ascii_case("suspend"))
    };
    let cluster = conf.get("PreemptMode");
    if cluster.as_ref().is_some_and(gang) {
        findings.problem(
            "PreemptMode: with GANG Slurm stops jobs that share a processor in turn, instead of letting shares decide; leave GANG out",
        );
        return;
    }
    let of_partitions = ours.iter().filter_map(|p| p.get("PreemptMode"));
    if cluster
        .into_iter()
        .chain(of_partitions)
        .any(|mode| suspends(&mode))
    {
        findings.warning("PreemptMode: suspended jobs keep their shares and miss their deadlines");
    } else {
        findings.ok("PreemptMode: no job is stopped for another one in turn");
    }
}

fn scheduler(findings: &mut Findings, conf: &Conf) {
    let parameters = conf.list("SchedulerParameters");
    let value = |key: &str| {
        let found = parameters
            .iter()
            .find_map(|p| p.strip_prefix(key)?.strip_prefix('='));
        found.map(str::to_string)
    };
    let delay = value("batch_sched_delay");
    let seconds = delay.as_deref().unwrap_or("3");
    match seconds.parse::<f64>() {
        Ok(seconds) if seconds <= 1.0 => {
            findings.ok(format!("SchedulerParameters: batch_sched_delay={seconds}"));
        }
        _ => findings.warning(format!(
            "SchedulerParameters: batch_sched_delay is {seconds} s{}; an accepted job may wait that long before it starts, which counts against its deadline: batch_sched_delay=0 or 1 is better, or short deadlines need as much room",
            if delay.is_none() { " by Slurm's default" } else { "" }
        )),
    }
    if parameters
        .iter()
        .any(|p| *p == "defer" || p.starts_with("defer_batch"))
    {
        findings.warning(
            "SchedulerParameters: with defer a job waits for the next round of the scheduler (sched_interval, 60 s by default), which counts against its deadline",
        );
    }
}

/// Plugins on the nodes.
fn processes(findings: &mut Findings, conf: &Conf) {
    match conf.get("ProctrackType") {
        Some("proctrack/pgid") => findings.warning(
            "ProctrackType: proctrack/pgid loses processes that leave their group; Libra's cgroup still holds them to the job's share, and its end kills them. proctrack/cgroup is better",
        ),
        Some(kind) => findings.ok(format!("ProctrackType: {kind}")),
        None => findings.ok("ProctrackType: Slurm's default"),
    }
    let tasks = conf.list("TaskPlugin");
    let shown = match tasks.is_empty() {
        true => "task/none".to_string(),
        false => tasks.join(","),
    };
    let binds = tasks
        .iter()
        .any(|task| ["task/affinity", "task/cgroup"].contains(task));
    findings.ok(format!(
        "TaskPlugin: {shown}{}",
        match binds {
            true => "; jobs with a share are let off the processors that it binds them to (not tried on cgroup v2: grep Cpus_allowed_list /proc/PID/status there)",
            false => "",
        }
    ));
    let is_special = |line: &Line| {
        ["CoreSpecCount", "CpuSpecList"]
            .iter()
            .any(|key| line.get(key).is_some())
    };
    if binds && conf.described("NodeName").iter().any(is_special) {
        findings.warning(
            "CoreSpecCount, CpuSpecList: jobs with a share run on the processors that are kept for the system too; [node] reserve of libra.toml keeps a part of the node's time for it instead",
        );
    }
    let gather = conf
        .get("JobAcctGatherType")
        .unwrap_or("jobacct_gather/none");
    findings.ok(format!(
        "JobAcctGatherType: {gather}; Libra takes what a job used from the kernel, by its processes"
    ));
}

fn backup(findings: &mut Findings, conf: &Conf) {
    let hosts = controllers(conf);
    if hosts.len() > 1 {
        findings.warning(format!(
            "backup controller: {} needs the same plugins and the same configuration of Libra; its slurmctld would not start without the plugin ('libra slurm check' there)",
            hosts[1..].join(", ")
        ));
    }
}

/// Returns true if `PrologFlags` has a job's prolog run on all its nodes when it is given to it.
pub fn prolog_at_once(conf: &Conf) -> bool {
    let implies = [
        "alloc",
        "contain",
        "x11",
        "deferbatch",
        "forcerequeueonfail",
        "runinjob",
    ];
    (conf.list("PrologFlags").iter())
        .any(|flag| implies.contains(&flag.to_ascii_lowercase().as_str()))
}

/// Plugins that slurmctld asks after Libra's: what they change was not judged.
pub fn behind(line: &Line) -> Vec<&str> {
    let list = words(line.get("JobSubmitPlugins").unwrap_or_default());
    let at = list.iter().position(is_ours);
    at.map_or_else(Vec::new, |at| list[at + 1..].to_vec())
}

fn is_ours(word: &&str) -> bool {
    matches!(*word, "libra" | "job_submit/libra")
}

/// The line that lists job_submit plugins, if Libra is on it.
pub fn names_plugin(conf: &Conf) -> Option<&Line> {
    let line = conf.line("JobSubmitPlugins")?;
    let list = words(line.get("JobSubmitPlugins")?);
    list.iter().any(is_ours).then_some(line)
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
