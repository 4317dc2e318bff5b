//! Caps, guarantees and the ceiling over all jobs, measured: on a machine that has nothing else to do these take seconds, beside other control
//! groups of great weight minutes. `scripts/test` runs them, by this module's name, while nothing else runs (step shares).

use super::*;

#[test]
fn caps_hold_on_one_processor() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    println!("{}", stage.enforcer.describe());
    let (a, b) = (stage.busy("1[7].caps", 0.6), stage.busy("2.caps", 0.3));
    // What was carried over while nothing ran in there is used up first.
    sleep(Duration::from_millis(1_000));
    within_tolerance(|interval| error("caps", &rates(&[&a, &b], interval), &[0.6, 0.3]));
    // User-mode Linux holds the quota, yet at times counts no time of waiting for it.
    assert!(tree_is_ours() || a.throttled().unwrap() > 0.0);
    let read = a.limits().unwrap();
    assert!((read.processors - 0.6).abs() < 1e-4, "{read:?}");
}

#[test]
fn guarantees_share_the_rest_in_proportion() {
    let Some(stage) = Stage::set(Spare::Shared) else {
        return;
    };
    let (a, b) = (stage.busy("1.shared", 0.6), stage.busy("2.shared", 0.3));
    sleep(Duration::from_millis(300));
    within_tolerance(|interval| {
        let got = rates(&[&a, &b], interval);
        let short = (1.0 - got[0] / 0.6).max(1.0 - got[1] / 0.3);
        error("guarantees, ratio", &[got[0] / got[1]], &[2.0]).max(short)
    });
    let read = b.limits().unwrap();
    assert!((read.processors - 0.3).abs() < 0.001, "{read:?}");
}

#[test]
fn a_change_acts_within_a_fifth_of_a_second() {
    let Some(stage) = Stage::set(Spare::Idle) else {
        return;
    };
    let (mut a, mut b) = (stage.busy("1.live", 0.6), stage.busy("2.live", 0.2));
    sleep(Duration::from_millis(300));
    let (a, b) = (
        std::cell::RefCell::new(&mut a),
        std::cell::RefCell::new(&mut b),
    );
    let swapped = std::cell::Cell::new(false);
    within_tolerance(|interval| {
        let targets = if swapped.get() {
            [0.6, 0.2]
        } else {
            [0.2, 0.6]
        };
        swapped.set(!swapped.get());
        a.borrow_mut().set(&limits(targets[0])).unwrap();
        b.borrow_mut().set(&limits(targets[1])).unwrap();
        sleep(Duration::from_millis(200));
        error(
            "0.2 s after a change",
            &rates(&[*a.borrow(), *b.borrow()], interval),
            &targets,
        )
    });
}

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
    // So much below all that a fifth of the machine may be another's: what it lends to a guest is not what is measured.
    let ceiling = 0.8 * all;
    let Some(stage) = Stage::set_below(Spare::Idle, Some(ceiling)) else {
        return;
    };
    println!("{}", stage.enforcer.describe());
    // Next to all of the ceiling.
    let targets = [0.4875, 0.2925, 0.195].map(|part| part * ceiling);
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
