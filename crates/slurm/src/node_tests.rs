//! A node on a registry of its own; with cgroups of either version where this process may make them. What only version 2 has is
//! in `node_v2_tests`.

use super::super::claim::{ControllerRecord, JobRecord};
use super::*;
use libra_config::Config;
use libra_system::clock;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// Five days of work in ten days: what the job needs stays the same, and it is not over, however long a test takes.
pub(super) const LINE: &str = "v=1:token=17:submitted=1000:estimate=432000:deadline=864000:budget=500000:type=hard:penalty=0:price=453600:\
                    chunks=1:processors=1:memory=0:scatter=0:count=1:at=n1*1*0.525";
pub(super) const ESTIMATE: f64 = 432_000.0;
pub(super) const DEADLINE: f64 = 864_000.0;

pub(super) fn open(directory: &Path, more: &str) -> Host {
    let text = format!(
        "[node]\nprocessors = 1\n[registry]\ndirectory = '{}'\n{more}",
        directory.join("registry").display()
    );
    Host::open(Config::from_toml(&text).expect("our own text")).expect("a registry")
}

pub(super) const OFF: &str = "[cgroup]\nversion = 'off'\n";

pub(super) fn job(claimed: Option<&str>) -> Starting<'_> {
    Starting {
        name: "12",
        user: 1000,
        claimed,
        node: "n1",
    }
}

/// A slurmctld that has this on record of every job, of user 1000.
pub(super) fn recorded(
    line: &str,
    nodes: u32,
) -> impl Fn(u32, Duration) -> Option<ControllerRecord> + use<> {
    let record = ControllerRecord::Job(JobRecord {
        user: 1000,
        nodes,
        before: 0,
        is_here: true,
        is_running: true,
        is_suspended: false,
        admin_comment: format!("libra:{line}"),
    });
    move |_, _| Some(record.clone())
}

/// slurmctld's records say what the job claims.
pub(super) fn prolog(host: &Host, job: &Starting<'_>, now: f64) -> Result<(), String> {
    super::prolog(host, job, &recorded(job.claimed.unwrap_or(LINE), 1), now)
}

pub(super) fn join(host: &Host, name: &str, pid: i32) -> Joined {
    super::join(host, &task_of(name, pid), &recorded(LINE, 1), 1000.0)
}

/// A task of a job without options of ours.
pub(super) fn task_of(name: &str, pid: i32) -> Task<'_> {
    Task {
        name,
        user: 1000,
        pid,
        node: "n1",
        has_terms: false,
    }
}

/// Commitments to several chunks, or several tasks of an array, at these places.
fn line(chunks: u32, processors: u32, count: u32, at: &str) -> String {
    LINE.replace(
        "chunks=1:processors=1",
        &format!("chunks={chunks}:processors={processors}"),
    )
    .replace("count=1", &format!("count={count}"))
    .replace("n1*1*0.525", at)
}

/// By a clock, between when this began and when it had ended: what it has noted in between is there, however long it took.
fn during<T>(clock: fn() -> f64, act: impl FnOnce() -> T) -> (T, std::ops::RangeInclusive<f64>) {
    let begun = clock();
    let done = act();
    (done, begun..=clock())
}

/// Returns true if a time, so many seconds ago or ahead, is of that span; clocks may differ by a tick.
fn is_of(span: &std::ops::RangeInclusive<f64>, time: f64) -> bool {
    (span.start() - 0.1..=span.end() + 0.1).contains(&time)
}

/// A child that sleeps and is killed at the end.
pub(super) struct Sleeper(Child);

impl Sleeper {
    pub(super) fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("1000").spawn().expect("sleep"))
    }

    pub(super) fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// The end of its cpu group's path.
    fn is_in(&self, group: &str) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", self.pid()));
        (text.expect("it lives").lines())
            .any(|line| line.ends_with(group) && (line.contains(":cpu") || has_v2()))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if cgroup version 2 has the cpu controller here.
pub(super) fn has_v2() -> bool {
    std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
        .is_ok_and(|controllers| controllers.split_whitespace().any(|c| c == "cpu"))
}

/// Above the test's groups.
pub(super) fn hierarchy() -> &'static Path {
    Path::new(match has_v2() {
        true => "/sys/fs/cgroup",
        false => "/sys/fs/cgroup/cpu",
    })
}

/// Configuration for cgroups of this test alone, and their root; None if there are none to be made.
pub(super) fn groups(more: &str) -> Option<(String, String)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let v1 = hierarchy().join("cpu.shares").exists();
    if !(v1 || has_v2()) || !nix::unistd::geteuid().is_root() {
        eprintln!("not run: needs root and a cpu hierarchy of cgroup version 1 or 2");
        return None;
    }
    let root = format!(
        "libra-node-test-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    Some((format!("[cgroup]\nroot = '{root}'\n{more}"), root))
}

#[test]
fn no_deadline_is_later_for_a_slurmctld_that_takes_its_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let spent = std::cell::Cell::new(0.0);
    let answer = recorded(LINE, 1);
    let ask = |job: u32, patience: Duration| {
        let began = clock::since_boot();
        std::thread::sleep(Duration::from_millis(300));
        spent.set(spent.get() + clock::since_boot() - began);
        answer(job, patience)
    };
    let before = clock::since_boot();
    // It was submitted at 1000.
    super::prolog(&host, &job(Some("x")), &ask, 1500.0).expect("it begins");
    let took = clock::since_boot() - before;
    let entry = host.registry().read("12").expect("a registry");
    let later = entry.expect("it is here").submitted - (before - 500.0);
    let asked = spent.get();
    assert!(
        asked >= 0.3 && (-0.001..=took - asked + 0.001).contains(&later),
        "{later} of {took}, {asked} asked"
    );
}

#[test]
fn a_job_from_prolog_to_epilog() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let begin = || prolog(&host, &job(Some(LINE)), 5000.0).expect("begun");
    let (((), by_boot), by_date) = during(clock::unix_time, || during(clock::since_boot, begin));
    let entry = host.registry().read("12").expect("read").expect("there");
    assert_eq!((entry.slots, entry.share, entry.user), (1, 0.525, 1000));
    // It was submitted four thousand seconds before.
    let submitted = entry.submitted;
    assert!(
        is_of(&by_boot, submitted + 4000.0),
        "{submitted} {by_boot:?}"
    );
    let task = Sleeper::new();
    let Joined::Held(deadline) = join(&host, "12", task.pid()) else {
        panic!("not held");
    };
    let begun = deadline - (DEADLINE - 4000.0);
    assert!(is_of(&by_date, begun), "{begun} {by_date:?}");
    // It slept, and that is no use of a processor, nor is what it waited before.
    let used = epilog(&host, "12").expect("ended").expect("it was here");
    assert!(used < 60.0, "{used}");
    assert_eq!(epilog(&host, "12").expect("again"), None);
}

/// Claims that this host has not believed: not on record, and beyond what it has.
pub(super) fn rejected(host: &Host) -> (u64, u64) {
    let record = host.counts().expect("read");
    record.map_or((0, 0), |record| {
        let of = |rejection| record.totals.rejected(rejection);
        (of(Rejection::Unrecorded), of(Rejection::Capacity))
    })
}

#[test]
fn what_slurmctld_has_not_on_record_is_no_promise() {
    for record in [
        Some(ControllerRecord::Unknown),
        Some(ControllerRecord::Job(JobRecord {
            user: 1000,
            nodes: 1,
            before: 0,
            is_here: true,
            is_running: true,
            is_suspended: false,
            admin_comment: String::new(),
        })),
        // The line of somebody else's job, if ever it got to this one's name.
        recorded(LINE, 1)(12, PROLOG_ASKS).map(|record| match record {
            ControllerRecord::Job(record) => ControllerRecord::Job(JobRecord {
                user: 1001,
                ..record
            }),
            other => other,
        }),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let host = open(directory.path(), OFF);
        let ask = |_: u32, _: Duration| record.clone();
        super::prolog(&host, &job(Some(LINE)), &ask, 1000.0).expect("as one without terms");
        assert_eq!(host.registry().read("12").expect("read"), None);
        assert_eq!(rejected(&host), (1, 0));
        let task = Sleeper::new();
        let joined = super::join(&host, &task_of("12", task.pid()), &ask, 1000.0);
        assert_eq!(joined, Joined::LeftAlone);
    }
}

#[test]
fn the_record_counts_and_not_what_is_claimed() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let forged = LINE.replace("n1*1*0.525", "n1*1*1");
    super::prolog(&host, &job(Some(&forged)), &recorded(LINE, 1), 1000.0).expect("begun");
    let entry = host.registry().read("12").expect("read").expect("there");
    assert_eq!(entry.share, 0.525);
    assert_eq!(rejected(&host), (1, 0));
    // No task joins what has become another's job meanwhile.
    epilog(&host, "12").expect("ended");
    let sleeper = Sleeper::new();
    let task = task_of("12", sleeper.pid());
    let unknown = super::join(
        &host,
        &task,
        &|_, _| Some(ControllerRecord::Unknown),
        1000.0,
    );
    assert_eq!(unknown, Joined::LeftAlone);
    let silent = super::join(&host, &task, &|_, _| None, 1000.0);
    assert!(matches!(silent, Joined::Refused(said) if said.contains("slurmctld did not say")));
    // It was held and let go meanwhile: what is committed to it now counts.
    let anew = LINE.replace("n1*1*0.525", "n1*1*0.75");
    let joined = super::join(&host, &task, &recorded(&anew, 1), 1000.0);
    assert!(matches!(joined, Joined::Held(_)), "{joined:?}");
    let entry = host.registry().read("12").expect("read").expect("there");
    assert!(entry.is_live() && entry.share == 0.75, "{entry:?}");
}

#[test]
fn a_job_without_a_prolog_begins_with_its_first_task() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let sleeper = Sleeper::new();
    let of = |name, has_terms| Task {
        has_terms,
        ..task_of(name, sleeper.pid())
    };
    let nobody = |_: u32, _: Duration| panic!("nothing is to be asked");
    let left = super::join(&host, &of("12", false), &nobody, 1000.0);
    assert_eq!(left, Joined::LeftAlone);
    // Options that nothing came of are none.
    for (name, record) in ["15", "16"].into_iter().zip([
        ControllerRecord::Unknown,
        ControllerRecord::Job(JobRecord {
            user: 1000,
            nodes: 1,
            before: 0,
            is_here: true,
            is_running: true,
            is_suspended: false,
            admin_comment: "a comment of the site's".to_string(),
        }),
    ]) {
        let left = super::join(&host, &of(name, true), &|_, _| Some(record.clone()), 1000.0);
        assert_eq!(left, Joined::LeftAlone);
    }
    let silent = super::join(&host, &of("12", true), &|_, _| None, 1000.0);
    assert!(matches!(silent, Joined::Refused(said) if said.contains("slurmctld did not say")));
    let held = super::join(&host, &of("12", true), &recorded(LINE, 1), 1000.0);
    assert!(matches!(held, Joined::Held(_)), "{held:?}");
    let entry = host.registry().read("12").expect("read").expect("there");
    assert!(entry.is_live() && entry.share == 0.525, "{entry:?}");
    for has_terms in [true, false] {
        let held = super::join(&host, &of("12", has_terms), &nobody, 1000.0);
        assert!(matches!(held, Joined::Held(_)), "{held:?}");
    }
    // What its prolog was told is not asked once more, however slurmctld is.
    let given_back = recorded(LINE, 1)(12, PROLOG_ASKS).map(|record| match record {
        ControllerRecord::Job(record) => ControllerRecord::Job(JobRecord {
            admin_comment: format!("libra-nothing:{LINE}"),
            ..record
        }),
        other => other,
    });
    let starting = Starting {
        name: "14",
        ..job(Some(LINE))
    };
    super::prolog(&host, &starting, &|_, _| given_back.clone(), 1000.0).expect("without a share");
    let left = super::join(&host, &of("14", true), &nobody, 1000.0);
    assert_eq!(left, Joined::LeftAlone);
    assert_eq!(epilog(&host, "14").expect("ended"), None);
    let asked = super::join(&host, &of("14", true), &|_, _| None, 1000.0);
    assert!(matches!(asked, Joined::Refused(_)), "{asked:?}");
    // More than any host has.
    let impossible = line(1, 65536, 1, "n1*1*1");
    let left = super::join(&host, &of("13", true), &recorded(&impossible, 1), 1000.0);
    assert_eq!(left, Joined::LeftAlone);
    assert_eq!(rejected(&host), (0, 1));
    assert!(epilog(&host, "12").expect("ended").is_some());
}

#[test]
fn nothing_is_asked_for_a_job_without_a_claim() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let mut entry = host.registry().read("12").expect("read").expect("there");
    // A job without a process, which a prolog with a claim asks for.
    entry.begun = entry.begun.map(|begun| begun - 60.0);
    host.registry().write(&entry).expect("written");
    let starting = Starting {
        name: "13",
        ..job(None)
    };
    let nobody = |_: u32, _: Duration| -> Option<ControllerRecord> { panic!("asked") };
    super::prolog(&host, &starting, &nobody, 1000.0).expect("nothing to do");
}

#[test]
fn no_claim_takes_what_others_were_promised() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let share = |name: &str| {
        let entry = host.registry().read(name).expect("read");
        entry.map(|entry| entry.share * f64::from(entry.slots))
    };
    let claim = |name: &'static str, line: &str| {
        let starting = Starting {
            name,
            ..job(Some(line))
        };
        prolog(&host, &starting, 1000.0).expect("no fault");
        share(name)
    };
    // More than any host has: no promise at all.
    let impossible = line(1, 65536, 1, "n1*1*1");
    assert_eq!(claim("13", &impossible), None);
    assert_eq!(rejected(&host), (0, 1));
    // More than there is left: what is left.
    let whole = LINE.replace("n1*1*0.525", "n1*1*1");
    let left = claim("14", &whole).expect("begun");
    assert!((left - 0.475).abs() < 1e-6, "{left}");
    assert_eq!(claim("15", LINE), Some(0.0));
    assert_eq!(rejected(&host), (0, 3));
    assert_eq!(share("12"), Some(0.525));
    // What ends makes room, and a requeued job does not stand in its own way.
    for name in ["14", "15"] {
        epilog(&host, name).expect("ended");
    }
    assert_eq!(claim("12", LINE), Some(0.525));
    assert_eq!(
        claim("16", &LINE.replace("n1*1*0.525", "n1*1*0.475")),
        Some(0.475)
    );
    assert_eq!(rejected(&host), (0, 3));
}

#[test]
fn slots_are_those_on_this_node() {
    // (line, nodes of the job, this node, slots, share)
    for (line, nodes, node, slots, share) in [
        // As planned: two chunks of three processors here, one there.
        (line(3, 3, 1, "n1*2*0.05+n2*1*0.025"), 2, "n1", 6, 0.05),
        (line(3, 3, 1, "n1*2*0.05+n2*1*0.025"), 2, "n2", 3, 0.025),
        // Put elsewhere, all on one node, or one on each: the largest share that was committed.
        (line(2, 1, 1, "n1*1*0.05+n2*1*0.025"), 1, "n9", 2, 0.05),
        (line(2, 1, 1, "n1*1*0.05+n2*1*0.025"), 1, "n1", 2, 0.05),
        (line(2, 1, 1, "n1*1*0.05+n2*1*0.025"), 2, "n9", 1, 0.05),
        // A task of an array of four, two on each node.
        (line(1, 2, 4, "n1*2*0.05+n2*2*0.025"), 1, "n1", 2, 0.05),
        (line(1, 2, 4, "n1*2*0.05+n2*2*0.025"), 1, "n2", 2, 0.025),
        // A task of two chunks on a node each.
        (line(2, 1, 2, "n1*2*0.05+n2*2*0.025"), 2, "n2", 1, 0.025),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let host = open(directory.path(), OFF);
        let starting = Starting {
            node,
            ..job(Some(&line))
        };
        super::prolog(&host, &starting, &recorded(&line, nodes), 1000.0).expect("begun");
        let entry = host.registry().read("12").expect("read").expect("there");
        assert_eq!((entry.slots, entry.share), (slots, share), "{line} {node}");
    }
}

#[test]
fn a_requeued_job_begins_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    prolog(&host, &job(Some(LINE)), 1001.0).expect("begun");
    let first = Sleeper::new();
    assert!(matches!(join(&host, "12", first.pid()), Joined::Held(_)));
    let again = || prolog(&host, &job(Some(LINE)), 8000.0).expect("begun again");
    let ((), span) = during(clock::since_boot, again);
    let entry = host.registry().read("12").expect("read").expect("there");
    assert_eq!(entry.started, None);
    let submitted = entry.submitted;
    assert!(is_of(&span, submitted + 7000.0), "{submitted} {span:?}");
}

#[test]
fn a_job_that_slurm_starts_anew_without_a_prolog() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    prolog(&host, &job(Some(LINE)), 2000.0).expect("begun");
    epilog(&host, "12").expect("ended");
    let task = Sleeper::new();
    let begin = || {
        super::join(
            &host,
            &task_of("12", task.pid()),
            &recorded(LINE, 1),
            5000.0,
        )
    };
    let (joined, span) = during(clock::unix_time, begin);
    let Joined::Held(deadline) = joined else {
        panic!("not held: {joined:?}");
    };
    let begun = deadline - (DEADLINE - 4000.0);
    assert!(is_of(&span, begun), "{begun} {span:?}");
    epilog(&host, "12").expect("ended again");
    // Another job of the same number, without terms.
    prolog(&host, &job(None), 2000.0).expect("no terms");
    assert_eq!(join(&host, "12", task.pid()), Joined::LeftAlone);
}

#[test]
fn what_cannot_be_read_is_refused_or_admitted() {
    for (rule, refused) in [("refuse", true), ("admit", false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let host = open(
            directory.path(),
            &format!("{OFF}[slurm]\non-fault = '{rule}'\n"),
        );
        let newer = LINE.replace("v=1", "v=2");
        let said = prolog(&host, &job(Some(&newer)), 1000.0).expect_err("of another version");
        assert!(said.contains("another version of Libra"), "{said}");
        let task = Sleeper::new();
        match join(&host, "12", task.pid()) {
            Joined::Refused(text) if refused => assert_eq!(text, said),
            Joined::LeftAlone if !refused => {}
            other => panic!("{rule}: {other:?}"),
        }
        // Others are not meant, and the same job may be better next time.
        assert_eq!(join(&host, "13", task.pid()), Joined::LeftAlone);
        prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
        assert!(matches!(join(&host, "12", task.pid()), Joined::Held(_)));
    }
}

#[test]
fn a_job_without_its_cap_is_refused_or_admitted() {
    let absent = if has_v2() { "v1" } else { "v2" };
    for (rule, refused) in [("refuse", true), ("admit", false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[slurm]\non-fault = '{rule}'\n[cgroup]\nversion = '{absent}'\nroot = 'nowhere'\n"
        );
        let host = open(directory.path(), &text);
        if host.unenforced().is_none() {
            eprintln!("not run: both versions of cgroups have the cpu controller here");
            return;
        }
        let said = prolog(&host, &job(Some(LINE)), 1000.0).expect_err("no cap");
        assert!(said.contains("job 12 is not held to its share"), "{said}");
        let task = Sleeper::new();
        match join(&host, "12", task.pid()) {
            Joined::Refused(text) if refused => {
                assert!(text.contains("job 12 is not held"), "{text}");
            }
            Joined::LeftAlone if !refused => {}
            other => panic!("{rule}: {other:?}"),
        }
        assert!(epilog(&host, "12").expect("ended").is_some());
    }
}

#[test]
fn what_is_left_over_can_be_cancelled() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    let starting = job(Some(LINE));
    prolog(&host, &starting, 1000.0).expect("begun");
    // No task has come, and no epilog will.
    host.cancel(starting.name).expect("cancelled");
    let entry = host.registry().read(starting.name).expect("read");
    assert!(entry.is_none_or(|entry| !entry.is_live()));
}

#[test]
fn what_slurm_has_given_up_is_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    for (name, back) in [
        ("1", 11.0),
        ("2", 11.0),
        ("3", 11.0),
        // However long this takes.
        ("4", -600.0),
        ("5", 11.0),
    ] {
        let starting = Starting {
            name,
            ..job(Some(LINE))
        };
        prolog(&host, &starting, 1000.0).expect("begun");
        let mut entry = host.registry().read(name).expect("read").expect("there");
        entry.begun = entry.begun.map(|begun| begun - back);
        host.registry().write(&entry).expect("written");
    }
    let task = Sleeper::new();
    assert!(matches!(join(&host, "3", task.pid()), Joined::Held(_)));
    let live = || {
        let entries = host.registry().all().expect("all");
        let mut live: Vec<String> = (entries.into_iter().filter(|entry| entry.is_live()))
            .map(|entry| entry.id)
            .collect();
        live.sort();
        live.concat()
    };
    end_given_up(&host, &|_| None);
    assert_eq!(live(), "12345");
    // 2 is still Slurm's, 3 has a process, 4 has only just begun.
    end_given_up(&host, &|number| Some(number != 2));
    assert_eq!(live(), "234");
}

#[test]
fn leftovers_end_when_their_time_is_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    // Its deadline and its estimate, and ten minutes: one that has five of these left, and two that have not.
    let (before, after) = (DEADLINE + ESTIMATE + 300.0, DEADLINE + ESTIMATE + 601.0);
    for (name, back) in [("1", before), ("2", after), ("3", after)] {
        let starting = Starting {
            name,
            ..job(Some(LINE))
        };
        prolog(&host, &starting, 1000.0).expect("begun");
        let mut entry = host.registry().read(name).expect("read").expect("there");
        entry.begun = entry.begun.map(|begun| begun - back);
        host.registry().write(&entry).expect("written");
    }
    let task = Sleeper::new();
    assert!(matches!(join(&host, "3", task.pid()), Joined::Held(_)));
    prolog(&host, &job(None), 1000.0).expect("no terms");
    let live = |name: &str| {
        let entry = host.registry().read(name).expect("read");
        entry.is_some_and(|entry| entry.is_live())
    };
    assert_eq!([live("1"), live("2"), live("3")], [true, false, true]);
}

#[test]
fn tasks_are_in_their_groups() {
    let Some((text, root)) = groups("") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), &text);
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let (with, without) = (Sleeper::new(), Sleeper::new());
    assert!(matches!(join(&host, "12", with.pid()), Joined::Held(_)));
    assert!(with.is_in(&format!("/{root}/job-12")));
    if has_v2() {
        assert_eq!(join(&host, "13", without.pid()), Joined::LeftAlone);
        epilog(&host, "12").expect("ended");
        assert!(!hierarchy().join(&root).exists());
        return;
    }
    assert_eq!(join(&host, "13", without.pid()), Joined::BestEffort);
    assert!(without.is_in(&format!("/{root}-best-effort-job-13")));
    let beside = hierarchy().join(format!("{root}-best-effort-job-13"));
    let shares = std::fs::read_to_string(beside.join("cpu.shares")).expect("there");
    assert_eq!(shares.trim(), "2");
    // Another job's epilog leaves it; the last one takes it away.
    epilog(&host, "12").expect("ended");
    assert!(beside.exists());
    drop(without);
    epilog(&host, "13").expect("nothing to end");
    assert!(!beside.exists());
    assert!(!hierarchy().join(&root).exists());
}

#[test]
fn jobs_without_terms_are_left_where_the_site_says_so() {
    for rule in ["refuse", "other-nodes", "leave-alone"] {
        let Some((text, _)) = groups(&format!("[slurm]\nwithout-terms = '{rule}'\n")) else {
            return;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let host = open(directory.path(), &text);
        let task = Sleeper::new();
        prolog(&host, &job(None), 1000.0).expect("nothing to do");
        assert_eq!(join(&host, "12", task.pid()), Joined::LeftAlone);
        assert!(task.is_in("/"));
    }
}

#[test]
fn how_the_batch_script_ended_is_known_at_the_end() {
    use libra_host::entry::Conclusion;
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), OFF);
    for (script, concluded) in [
        (Some(0), Conclusion::Finished),
        (Some(3 << 8), Conclusion::Failed),
        (Some(9), Conclusion::Failed),
        (None, Conclusion::Unknown),
    ] {
        prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
        left(&host, "12", script).expect("noted");
        epilog(&host, "12").expect("ended");
        let entry = host.registry().read("12").expect("read").expect("there");
        assert_eq!(entry.conclusion(), Some(concluded), "{script:?}");
    }
    // Of a job without terms nothing is kept.
    left(&host, "13", Some(0)).expect("nothing");
}
