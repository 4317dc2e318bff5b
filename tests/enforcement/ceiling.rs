//! The ceiling over all jobs: what the rest of the host keeps.

use super::*;

/// Processor seconds of this thread.
fn own_seconds() -> f64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Loops in a job that want every processor twice, whatever is committed to it.
fn greedy(stage: &Stage, name: &str, processors: f64) -> Group {
    let whole = Limits::new(processors, capacity());
    let group = stage.enforcer.create(name, &whole).unwrap();
    stage.records.lock().unwrap().push(group.record());
    for _ in 0..2 * capacity() as usize {
        assert!(group.place(stage.sh("while :; do :; done")).unwrap());
    }
    group
}

#[test]
fn the_rest_of_the_host_makes_progress_beside_jobs_that_want_everything() {
    let all = capacity();
    let ceiling = 0.9 * all;
    // Guarantees: nothing but the ceiling holds these jobs back.
    let Some(stage) = Stage::set_below(Spare::Shared, Some(ceiling)) else {
        return;
    };
    let jobs = [
        greedy(&stage, "1.greedy", 0.4 * all),
        greedy(&stage, "2.greedy", 0.4 * all),
    ];
    sleep(Duration::from_millis(500));
    within_tolerance(|interval| {
        let (begin, before) = (Instant::now(), own_seconds());
        let seconds = || -> f64 { jobs.iter().map(|job| job.usage().unwrap().seconds).sum() };
        let used_before = seconds();
        let (mut longest, mut others) = (Duration::ZERO, 0.0_f64);
        while begin.elapsed() < interval {
            // Wakes up, works a little, sleeps again, as a login or a daemon does.
            let slept = Instant::now();
            sleep(Duration::from_millis(1));
            longest = longest.max(slept.elapsed());
            others = others.max(running() - 1.0 - jobs.len() as f64);
            let work = own_seconds();
            while own_seconds() - work < 0.002 {}
        }
        let took = begin.elapsed().as_secs_f64();
        let used = (seconds() - used_before) / took;
        let got = (own_seconds() - before) / took;
        println!(
            "jobs used {used:.4} of {ceiling} processors, a process beside them and at most {others} others {got:.4}; longest wake-up {longest:?}"
        );
        // Other programs may want the reserve as well, so this one is sure of a part of it only.
        let least = 0.1 * all / 16.0 / (1.0 + others.max(0.0));
        match got > least && longest < Duration::from_secs(30) {
            true => (used / ceiling - 1.0).max(0.0),
            false => f64::INFINITY,
        }
    });
}

/// Processes of the whole machine that run or would if they could.
fn running() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    let counts = text.split(' ').nth(3).unwrap();
    counts.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn a_ceiling_takes_nothing_of_what_is_committed() {
    let all = capacity();
    let Some(stage) = Stage::set_below(Spare::Idle, Some(0.975 * all)) else {
        return;
    };
    println!("{}", stage.enforcer.describe());
    let targets = [0.475 * all, 0.285 * all, 0.19 * all];
    let jobs: Vec<Group> = (targets.iter().enumerate())
        .map(|(index, &processors)| greedy(&stage, &format!("{index}.committed"), processors))
        .collect();
    sleep(Duration::from_secs(1));
    within_tolerance(|interval| {
        error(
            "below a ceiling",
            &rates(&jobs.iter().collect::<Vec<_>>(), interval),
            &targets,
        )
    });
}

#[test]
fn a_ceiling_follows_the_configuration_and_is_set_again() {
    let all = capacity();
    let Some(stage) = Stage::set_below(Spare::Idle, Some(0.5 * all)) else {
        return;
    };
    let group = stage.group("1.ceiling", 0.25);
    let root = group.directory().parent().unwrap().to_owned();
    let quota = || {
        let v1 = fs::read_to_string(root.join("cpu.cfs_quota_us"));
        let text = v1
            .or_else(|_| fs::read_to_string(root.join("cpu.max")))
            .unwrap();
        text.split_whitespace().next().unwrap().to_owned()
    };
    let half = quota();
    assert_eq!(half, format!("{}", (50_000.0 * all) as u64));
    let made = stage.enforcer.made_root();
    assert!(!stage.enforcer.hold_ceiling(&made).unwrap());
    // Another configuration, another process.
    let other = |ceiling| match open(&Settings {
        ceiling,
        ..stage.settings.clone()
    }) {
        Enforcement::Active(enforcer) => enforcer,
        Enforcement::None { reason } => panic!("{reason}"),
    };
    assert!(other(None).hold_ceiling(&made).unwrap());
    assert!(["-1", "max"].contains(&quota().as_str()), "{}", quota());
    assert!(stage.enforcer.hold_ceiling(&made).unwrap());
    assert_eq!(quota(), half);
    // One that was not made here is not touched.
    assert!(!other(None).hold_ceiling(&Default::default()).unwrap());
    assert_eq!(quota(), half);
}

#[test]
fn one_that_left_the_group_that_holds_it_is_put_back() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let group = stage.group("1.left", 0.5);
    let pid = stage.sh("sleep 60");
    assert!(group.place(pid).unwrap());
    assert_eq!(group.put_back().unwrap(), Vec::<i32>::new());
    let cpu = group.directory().to_owned();
    let apart = group.record().directories.len() > 1 && cpu.join("cpu.shares").exists();
    if !apart || cpu.join("cpuacct.usage").exists() {
        println!("one directory holds and counts here: who leaves it is nobody's");
        return;
    }
    let top = cpu.parent().unwrap().parent().unwrap();
    fs::write(top.join("cgroup.procs"), pid.to_string()).unwrap();
    let inside = || {
        let listed = fs::read_to_string(cpu.join("cgroup.procs")).unwrap();
        listed.lines().any(|line| line == pid.to_string())
    };
    assert!(!inside());
    assert_eq!(group.put_back().unwrap(), [pid]);
    assert!(inside());
}
