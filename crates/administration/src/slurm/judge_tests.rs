//! Findings from texts of slurm.conf.

use super::*;
use crate::findings::Level;
use std::path::Path;

const GOOD: &str = "\
SlurmctldHost=a
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
SchedulerParameters=batch_sched_delay=0,bf_interval=30
ProctrackType=proctrack/cgroup
PrologFlags=Alloc
NodeName=n[1-4] CPUs=1
PartitionName=main Nodes=n[1-2] OverSubscribe=FORCE:20
PartitionName=plain Nodes=n[3-4]
";

fn conf(text: &str) -> Conf {
    Conf::read(Path::new("slurm.conf"), &|_| Ok(text.to_string())).expect("text")
}

/// What is not ok with a slurm.conf, in which each of these texts is another one.
fn found(changes: &[(&str, &str)], config: &str) -> Vec<(Level, String)> {
    let mut text = GOOD.to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let mut findings = Findings::default();
    let config = Config::from_toml(config).expect("a configuration");
    settings(
        &mut findings,
        &conf(&text),
        &config,
        Version::find("22.05.8"),
    );
    let found = findings
        .0
        .into_iter()
        .map(|finding| (finding.level, finding.text));
    found.filter(|(level, _)| *level > Level::Ok).collect()
}

#[test]
fn a_good_configuration_is_good() {
    assert_eq!(found(&[], ""), []);
    assert_eq!(found(&[("_Memory\nDefMemPerCPU=100", "")], ""), []);
    assert_eq!(found(&[], "[slurm]\npartitions = ['main']"), []);
}

#[test]
fn a_default_partition_that_jobs_without_terms_can_fill_is_a_warning() {
    let line = "PartitionName=main Nodes=n[1-2] OverSubscribe=FORCE:20";
    let default = (
        line,
        "PartitionName=main Nodes=n[1-2] Default=yes OverSubscribe=FORCE:20",
    );
    let said = found(&[default], "");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, Level::Warning);
    assert!(said[0].1.contains("partitions = [\"main\"]"), "{said:?}");
    for elsewhere in ["refuse", "other-nodes"] {
        let config = format!("[slurm]\nwithout-terms = '{elsewhere}'");
        assert_eq!(found(&[default], &config), [], "{elsewhere}");
    }
    // As it says.
    let beside =
        format!("{line}\nPartitionName=beside Nodes=n[1-2] Default=YES OverSubscribe=FORCE:1");
    assert_eq!(
        found(&[(line, &beside)], "[slurm]\npartitions = ['main']"),
        []
    );
}

#[test]
fn a_class_for_a_partition_that_is_not_there_is_a_warning() {
    assert_eq!(found(&[], "[class.queues]\nmain = 'dedicated'"), []);
    let said = found(&[], "[class.queues]\nmian = 'dedicated'");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, Level::Warning);
    assert!(
        said[0].1.starts_with(
            "class.queues.mian of Libra's configuration: there is no partition of that name"
        ),
        "{said:?}"
    );
}

#[test]
fn each_setting_that_keeps_libra_from_working_is_a_problem() {
    let problems = [
        ("SelectType=select/cons_tres\n", "", "select/linear"),
        ("CR_CPU_Memory", "CR_Memory", "CR_CPU or CR_Core"),
        ("CR_CPU_Memory", "CR_Socket_Memory", "whole sockets"),
        ("DefMemPerCPU=100\n", "", "DefMemPerCPU"),
        ("FORCE:20", "YES:20", "none shares"),
        (
            "ProctrackType",
            "PreemptMode=SUSPEND,GANG\nProctrackType",
            "GANG",
        ),
    ];
    for (from, to, text) in problems {
        let found = found(&[(from, to)], "");
        assert!(
            found
                .iter()
                .any(|(level, t)| *level == Level::Problem && t.contains(text)),
            "{from} -> {to}: {found:?}"
        );
    }
    let named = "[slurm]\npartitions = ['gone', 'plain']";
    let all = found(&[], named);
    assert!(all[0].1.contains("no partition 'gone'"), "{all:?}");
    assert!(all[1].1.contains("OverSubscribe=NO"), "{all:?}");
}

#[test]
fn each_setting_that_makes_jobs_late_is_a_warning() {
    let warnings = [
        ("select/cons_tres", "select/cons_res", "23.02"),
        ("batch_sched_delay=0,", "", "3 s by Slurm's default"),
        ("batch_sched_delay=0,", "batch_sched_delay=10,", "10 s;"),
        ("bf_interval=30", "defer", "sched_interval"),
        ("FORCE:20", "FORCE", "FORCE:4"),
        ("FORCE:20", "FORCE:20 ExclusiveUser=YES", "two users"),
        (
            "PartitionName=plain Nodes=n[3-4]",
            "PartitionName=plain Nodes=n[2-4]",
            "has 1 of the nodes",
        ),
        (
            "PartitionName=plain Nodes=n[3-4]",
            "PartitionName=plain Nodes=ALL",
            "has 2 of the nodes",
        ),
        (
            "CPUs=1",
            "CPUs=4 CoreSpecCount=1\nTaskPlugin=task/affinity,task/cgroup",
            "CoreSpecCount",
        ),
        ("proctrack/cgroup", "proctrack/pgid", "pgid"),
        (
            "SlurmctldHost=a",
            "SlurmctldHost=a\nSlurmctldHost=b(10.0.0.2)",
            "controller: b needs",
        ),
    ];
    for (from, to, text) in warnings {
        let found = found(&[(from, to)], "");
        assert_eq!(found.len(), 1, "{from} -> {to}: {found:?}");
        assert!(
            found[0].0 == Level::Warning && found[0].1.contains(text),
            "{to}: {found:?}"
        );
    }
}

#[test]
fn plugins_and_prologs_are_found_in_any_spelling() {
    for text in [
        "JobSubmitPlugins=lua,libra",
        "jobsubmitplugins=job_submit/libra",
    ] {
        assert!(names_plugin(&conf(text)).is_some(), "{text}");
    }
    assert!(names_plugin(&conf("JobSubmitPlugins=libra2")).is_none());
    for (text, at_once) in [
        ("PrologFlags=alloc", true),
        ("PrologFlags=X11", true),
        ("PrologFlags=Serial", false),
        ("", false),
    ] {
        assert_eq!(prolog_at_once(&conf(text)), at_once, "{text}");
    }
}

#[test]
fn who_is_asked_after_libra_is_named() {
    for (list, after) in [
        ("libra", &[][..]),
        ("lua,libra", &[]),
        ("lua,job_submit/libra,all_partitions", &["all_partitions"]),
        ("libra,lua,x", &["lua", "x"]),
    ] {
        let conf = conf(&format!("JobSubmitPlugins={list}\n"));
        let line = names_plugin(&conf).expect("it is there");
        assert_eq!(behind(line), after, "{list}");
    }
}
