//! What becomes of groups whose processes others kill.

use super::held_in_its_end::Held;
use super::*;
use libra_cgroup::{DirectoryRecord, KilledGroups};

/// Quota and weight, as the kernel has them.
fn kept(directory: &Path) -> (String, String) {
    let read = |name: &str| {
        let text = fs::read_to_string(directory.join(name)).ok()?;
        Some(text.trim().to_string())
    };
    (
        read("cpu.cfs_quota_us").or(read("cpu.max")).unwrap(),
        read("cpu.shares").or(read("cpu.weight")).unwrap(),
    )
}

/// The weight of a processor, and no quota.
fn held_to_nothing(version: Version) -> (String, String) {
    let (quota, most) = match version {
        Version::V1 => ("-1", 262_144.0),
        Version::V2 => ("max 100000", 10_000.0),
    };
    (
        quota.to_string(),
        format!("{:.0}", (most / capacity()).floor()),
    )
}

fn send(signal: Signal, pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

#[test]
fn a_job_that_another_kills_is_held_to_nothing() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let mut group = stage.group("1.other", 0.01);
    let at = group.directory().to_owned();
    let before = kept(&at);
    let (pid, beside) = (stage.sh("exec sleep 1000"), stage.sh("exec sleep 1000"));
    assert!(!group.is_killed(false).unwrap(), "nothing is in it");
    for pid in [pid, beside] {
        assert!(group.place(pid).unwrap());
    }
    let mut held = Held::trace(pid);
    assert!(!group.is_killed(false).unwrap());
    send(Signal::SIGKILL, pid);
    held.wait();
    assert!(!group.is_killed(false).unwrap(), "one lives");
    send(Signal::SIGKILL, beside);
    wait_until("the other one is gone", || !is_alive(beside));
    assert!(group.is_killed(false).unwrap());
    group.let_end(capacity()).unwrap();
    assert_eq!(kept(&at), held_to_nothing(stage.version()));
    assert_eq!(group.drift().unwrap(), []);
    group.hold_again().unwrap();
    assert_eq!(kept(&at), before);
    group.let_end(capacity()).unwrap();
    group.set(&limits(0.01)).unwrap();
    assert_eq!(kept(&at), before);
    held.let_go();
    wait_until("it is gone", || !group.is_populated().unwrap());
    assert!(!group.is_killed(false).unwrap());
}

#[test]
fn a_stopped_or_a_traced_process_is_not_killed() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let mut group = stage.group("1.other", 0.5);
    // Whatever it blocks and handles.
    let pid = stage.sh("trap '' TERM INT HUP; while :; do sleep 1; done");
    assert!(group.place(pid).unwrap());
    let _held = Held::trace(pid);
    send(Signal::SIGTERM, pid);
    send(Signal::SIGSTOP, pid);
    assert!(!group.is_killed(false).unwrap());
    assert!(is_alive(pid));
}

/// What gives the dying more is asked for one of these groups: it is given it, and has it no longer when somebody comes.
fn helped_and_held_again(stage: &Stage, at: &Path, enter: &dyn Fn(i32)) {
    let (mut killed, capacity) = (KilledGroups::default(), capacity());
    killed.find_scopes(&stage.enforcer);
    let before = kept(at);
    let pid = stage.sh("exec sleep 1000");
    enter(pid);
    let mut held = Held::trace(pid);
    assert!(killed.help(&stage.enforcer, capacity).is_empty());
    assert_eq!(kept(at), before);
    send(Signal::SIGKILL, pid);
    held.wait();
    assert_eq!(killed.help(&stage.enforcer, capacity).len(), 1);
    assert_eq!(kept(at), held_to_nothing(stage.version()));
    assert!(killed.help(&stage.enforcer, capacity).is_empty());
    assert!(killed.is_any());
    let next = stage.sh("exec sleep 1000");
    enter(next);
    assert!(killed.help(&stage.enforcer, capacity).is_empty());
    assert_eq!(kept(at), before);
    assert!(!killed.is_any());
    held.let_go();
    send(Signal::SIGKILL, next);
    wait_until("both are gone", || {
        fs::read_to_string(at.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
    });
}

#[test]
fn a_job_without_terms_that_is_killed_is_held_to_nothing() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let record = (stage.enforcer)
        .make_without_terms("job-1.s", &limits(capacity() / 2.0))
        .unwrap();
    let at = record.directories[0].path.clone();
    helped_and_held_again(&stage, &at, &|pid| {
        for directory in &record.directories {
            fs::write(directory.path.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    });
    stage.enforcer.discard(&record, PATIENCE).unwrap();
}

#[test]
fn a_job_of_the_least_weight_that_is_killed_is_held_to_nothing() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    if stage.version() == Version::V2 {
        return in_slurms_scope(&stage);
    }
    let enforcer = &stage.enforcer;
    for job in ["job-1", "job-2"] {
        assert!(enforcer.make_best_effort(job).unwrap());
    }
    let root = PathBuf::from("/sys/fs/cgroup/cpu").canonicalize().unwrap();
    let root = root.join(stage.settings.root.as_deref().unwrap());
    let of = |job: &str| PathBuf::from(format!("{}-best-effort-{job}", root.display()));
    assert_eq!(kept(&of("job-1")).1, "2");
    let other = stage.sh("exec sleep 1000");
    assert!(enforcer.enter_best_effort("job-2", other).unwrap());
    helped_and_held_again(&stage, &of("job-1"), &|pid| {
        assert!(enforcer.enter_best_effort("job-1", pid).unwrap());
    });
    assert_eq!(kept(&of("job-2")).1, "2", "that of another, which lives");
    enforcer.remove_empty_best_effort();
    assert!(!of("job-1").exists() && of("job-2").exists());
    assert!(!enforcer.enter_best_effort("job-1", other).unwrap());
    send(Signal::SIGKILL, other);
    wait_until("the other one is gone", || {
        enforcer.remove_empty_best_effort();
        !of("job-2").exists()
    });
}

/// On version 2 such a job is where Slurm keeps it, together with Slurm's own processes.
fn in_slurms_scope(stage: &Stage) {
    if !tree_is_ours() {
        return;
    }
    let slice = Path::new("/sys/fs/cgroup/system.slice");
    let scope = slice.join("slurmstepd.scope");
    let job = scope.join("job_12");
    let (own, task) = (job.join("step_0/slurm"), job.join("step_0/user/task_0"));
    for directory in [&own, &task] {
        fs::create_dir_all(directory).unwrap();
    }
    for directory in [Path::new("/sys/fs/cgroup"), slice, &scope] {
        fs::write(directory.join("cgroup.subtree_control"), "+cpu\n").unwrap();
    }
    let enter = |at: &Path, pid: i32| fs::write(at.join("cgroup.procs"), pid.to_string()).unwrap();
    let stepd = stage.sh("exec sleep 1000");
    enter(&own, stepd);
    use std::os::unix::fs::MetadataExt;
    let record = DirectoryRecord {
        path: job.clone(),
        inode: fs::metadata(&job).unwrap().ino(),
        roles: Vec::new(),
    };
    stage.enforcer.weigh_least(&record).unwrap();
    let mut killed = KilledGroups::default();
    killed.find_scopes(&stage.enforcer);
    assert!(killed.help(&stage.enforcer, capacity()).is_empty());
    let before = kept(&job);
    assert_eq!(before.1, "1");
    let pid = stage.sh("exec sleep 1000");
    enter(&task, pid);
    let mut held = Held::trace(pid);
    assert!(killed.help(&stage.enforcer, capacity()).is_empty());
    send(Signal::SIGKILL, pid);
    held.wait();
    assert_eq!(killed.help(&stage.enforcer, capacity()), ["job_12"]);
    assert_eq!(kept(&job), held_to_nothing(Version::V2));
    held.let_go();
    wait_until("the task is gone", || {
        fs::read_to_string(task.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
    });
    assert!(killed.help(&stage.enforcer, capacity()).is_empty());
    assert_eq!(kept(&job), before);
    send(Signal::SIGKILL, stepd);
    for directory in [
        own,
        job.join("step_0/user/task_0"),
        job.join("step_0/user"),
        job.join("step_0"),
        job,
        scope,
        slice.to_owned(),
    ] {
        wait_until("it is removed", || fs::remove_dir(&directory).is_ok());
    }
}
