//! A node on cgroup version 2, where Slurm keeps tasks in groups of its own: directories as its plugin cgroup/v2 makes them.

use super::tests::{DEADLINE, ESTIMATE, LINE, groups, has_v2, hierarchy, job, join, open, prolog};
use super::*;
use libra_host::control::ControlLoop;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// What slurmd made for itself, and steps of job 12 in it. All of it is ended and removed at the end.
struct Slurm {
    slice: PathBuf,
    tasks: Vec<Child>,
}

impl Slurm {
    /// `cpu`: with the cpu controller handed on, as Slurm and systemd do.
    fn new(root: &str, cpu: bool) -> Slurm {
        let slurm = Slurm {
            slice: hierarchy().join(format!("{root}.slice")),
            tasks: Vec::new(),
        };
        fs::create_dir_all(slurm.scope()).expect("ours");
        if cpu {
            hand_on(hierarchy());
            hand_on(&slurm.slice);
            hand_on(&slurm.scope());
        }
        slurm
    }

    fn scope(&self) -> PathBuf {
        self.slice.join("slurmstepd.scope")
    }

    fn job(&self) -> PathBuf {
        self.scope().join("job_12")
    }

    /// A process in the group of the step's slurmstepd, which is where a task is when it calls the plugin.
    fn task(&mut self, step: &str, command: &str) -> i32 {
        let step = self.job().join(step);
        for part in ["slurm", "user/task_0"] {
            fs::create_dir_all(step.join(part)).expect("ours");
        }
        let child = Command::new("sh").args(["-c", command]).spawn();
        let child = child.expect("a shell");
        let pid = child.id() as i32;
        self.tasks.push(child);
        enter(&step.join("slurm"), pid);
        pid
    }

    /// Slurm goes on with the task once the plugin is done.
    fn launch(&self, step: &str, pid: i32) {
        enter(&self.job().join(step).join("user/task_0"), pid);
    }

    /// The last step ends, and its directory goes with it.
    fn end_steps(&mut self) {
        for mut task in self.tasks.drain(..) {
            let _ = task.kill();
            let _ = task.wait();
        }
        remove(&self.job());
    }

    fn read(&self, file: &str) -> String {
        let text = fs::read_to_string(self.job().join(file));
        text.expect(file).trim().to_string()
    }

    /// Processor seconds by the kernel's count.
    fn used(&self) -> f64 {
        let text = self.read("cpu.stat");
        let micros = text.lines().find_map(|l| l.strip_prefix("usage_usec "));
        micros.expect("there").parse::<f64>().expect("a number") / 1e6
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.end_steps();
        remove(&self.slice);
    }
}

fn hand_on(directory: &Path) {
    fs::write(directory.join("cgroup.subtree_control"), "+cpu\n").expect("the cpu controller");
}

fn enter(directory: &Path, pid: i32) {
    fs::write(directory.join("cgroup.procs"), format!("{pid}\n")).expect("a group");
}

fn remove(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    // A process that has just died holds its directory a moment longer.
    wait_until(&format!("{directory:?} is gone"), || {
        !directory.exists() || fs::remove_dir(directory).is_ok()
    });
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_in(pid: i32, group: &Path) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
    let below = group.strip_prefix(hierarchy()).expect("below");
    text.trim() == format!("0::/{}", below.display())
}

fn seen(host: &Host) -> Option<f64> {
    let entry = host.registry().read("12").expect("read").expect("there");
    entry.group?.adopted.map(|adopted| adopted.seen)
}

fn unenforced(host: &Host) -> u64 {
    let counted = host.counts().expect("read");
    counted.map_or(0, |record| record.totals.unenforced)
}

/// A host, its directory, and Slurm's groups; none but on version 2.
fn node(more: &str, cpu: bool) -> Option<(tempfile::TempDir, Host, Slurm, PathBuf)> {
    let (text, root) = groups(more)?;
    if !has_v2() {
        eprintln!("not run: needs cgroup version 2 with the cpu controller; tests/uml/run has it");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let host = open(directory.path(), &text);
    let slurm = Slurm::new(&root, cpu);
    Some((directory, host, slurm, hierarchy().join(root)))
}

const BUSY: &str = "while :; do :; done";
const IDLE: &str = "exec sleep 1000";

/// A kernel in user mode is ten times slower than its machine, and that may be busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// Processors that a job uses, of which 0.525 are committed to it: until one measurement is good, each longer, as the machine may be shared with
/// others. What it may catch up with at the beginning is over by then.
fn assert_uses_its_share(slurm: &Slurm) {
    let (start, mut interval) = (Instant::now(), 1);
    loop {
        let (begin, before) = (Instant::now(), slurm.used());
        std::thread::sleep(Duration::from_secs(interval));
        let share = (slurm.used() - before) / begin.elapsed().as_secs_f64();
        eprintln!("committed 0.525, measured {share:.4}");
        if (0.9..=1.1).contains(&(share / 0.525)) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{share}");
        interval = (interval * 2).min(30);
    }
}

/// It has what was committed, to within what half an hour changes of days.
fn assert_holds(slurm: &Slurm) {
    let cap = slurm.read("cpu.max");
    let quota = cap.split(' ').next().and_then(|quota| quota.parse().ok());
    assert!(
        quota.is_some_and(|quota: u32| (52_400..52_600).contains(&quota)),
        "{cap}"
    );
    let weight = slurm.read("cpu.weight");
    let is_its = |weight: u32| (5_240..5_260).contains(&weight);
    assert!(weight.parse().is_ok_and(is_its), "{weight}");
}

#[test]
fn a_job_is_held_where_slurm_keeps_it() {
    let Some((_directory, host, mut slurm, root)) = node("", true) else {
        return;
    };
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    assert!(root.join("job-12").exists());
    let busy = slurm.task("step_0", BUSY);
    let before = slurm.used();
    assert!(matches!(join(&host, "12", busy), Joined::Held(_)));
    let of_no_job = before..=slurm.used();
    // Where it was, its own group gone, held to 0.525 processors of one.
    assert!(is_in(busy, &slurm.job().join("step_0/slurm")));
    assert!(!root.join("job-12").exists());
    assert_holds(&slurm);
    slurm.launch("step_0", busy);
    assert_uses_its_share(&slurm);
    // Another step is in the same directory.
    let entry = host.registry().read("12").expect("read");
    let second = slurm.task("step_1", IDLE);
    assert!(matches!(join(&host, "12", second), Joined::Held(_)));
    assert!(is_in(second, &slurm.job().join("step_1/slurm")));
    assert_eq!(host.registry().read("12").expect("read"), entry);
    slurm.launch("step_1", second);
    assert_eq!(host.usage("12").expect("here").processes, 2);

    // Later what is left to do needs nine tenths of a processor.
    let mut later = entry.expect("there");
    later.submitted -= DEADLINE - 1.05 * ESTIMATE / 0.9;
    host.registry().write(&later).expect("written");
    assert!(host.adjust().expect("a registry"));
    let quota = slurm.read("cpu.max");
    let quota: f64 = quota.split(' ').next().expect("two").parse().expect("one");
    eprintln!("readjusted to {quota}");
    assert!((89_500.0..=90_500.0).contains(&quota), "{quota}");

    // What was used since it is the job's, by the kernel's count before and after.
    wait_until("something was used", || {
        slurm.used() > of_no_job.end() + 1.0
    });
    let before = slurm.used() - of_no_job.end();
    left(&host, "12", None).expect("noted");
    assert!(seen(&host).expect("adopted") >= before - 0.01);
    let used = epilog(&host, "12").expect("ended").expect("it was here");
    let after = slurm.used() - of_no_job.start();
    assert!(
        (before - 0.01..=after + 0.01).contains(&used),
        "{used}: {before} to {after}"
    );
    // Slurm's it is: nobody was killed, nothing is removed, no limit stays.
    assert!(is_in(busy, &slurm.job().join("step_0/user/task_0")));
    assert_eq!(slurm.read("cpu.max"), "max 100000");
    assert_eq!(slurm.read("cpu.max.burst"), "0");
    assert_eq!(slurm.read("cpu.weight"), "100");
    assert!(!root.exists());
}

#[test]
fn slurmstepd_has_room_however_little_is_committed() {
    let Some((_directory, host, mut slurm, _)) = node("", true) else {
        return;
    };
    let little = LINE
        .replace("*0.525", "*0.001")
        .replace("=864000:", "=864000000:");
    prolog(&host, &job(Some(&little)), 1000.0).expect("begun");
    let task = slurm.task("step_0", IDLE);
    assert!(matches!(join(&host, "12", task), Joined::Held(_)));
    assert_eq!(slurm.read("cpu.max"), "5000 100000");
    assert_eq!(slurm.read("cpu.weight"), "10");
}

#[test]
fn between_two_steps_slurms_group_is_gone_and_the_job_is_not() {
    let Some((_directory, host, mut slurm, root)) = node("", true) else {
        return;
    };
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let busy = slurm.task("step_0", BUSY);
    assert!(matches!(join(&host, "12", busy), Joined::Held(_)));
    let mut control = ControlLoop::try_lead(&host).expect("ours").expect("free");
    control.round().expect("a round");
    let mut before = 0.0;
    wait_until("something was used", || {
        left(&host, "12", None).expect("noted");
        before = seen(&host).expect("adopted");
        before > 0.1
    });
    slurm.end_steps();
    // The loop has its files open still, then finds nothing to open.
    for _ in 0..3 {
        assert_eq!(control.round().expect("a round").ended, 0);
    }
    host.clean().expect("cleaned");
    let usage = host.usage("12").expect("it is here");
    assert_eq!((usage.cput, usage.processes), (before, 0));
    // The next step's directory has the same name and counts from nothing.
    let next = slurm.task("step_1", BUSY);
    assert!(matches!(join(&host, "12", next), Joined::Held(_)));
    assert_holds(&slurm);
    let mut cput = before;
    wait_until("the next one's use is added", || {
        control.round().expect("a round");
        cput = host.usage("12").expect("here").cput;
        cput > before + 0.1
    });
    assert!(cput <= before + slurm.used(), "{cput}");
    left(&host, "12", None).expect("noted");
    let noted = seen(&host);
    slurm.end_steps();
    drop(control);
    assert_eq!(epilog(&host, "12").expect("ended"), noted);
    assert!(!root.exists());
}

#[test]
fn a_requeued_job_adopts_anew() {
    let Some((_directory, host, mut slurm, root)) = node("", true) else {
        return;
    };
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let first = slurm.task("step_batch", BUSY);
    assert!(matches!(join(&host, "12", first), Joined::Held(_)));
    wait_until("something was used", || slurm.used() > 0.5);
    // Without an epilog in between, and what Slurm has not ended yet is still there.
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun again");
    assert!(is_in(first, &slurm.job().join("step_batch/slurm")));
    assert_eq!(slurm.read("cpu.max"), "max 100000");
    assert!(root.join("job-12").exists());
    let second = slurm.task("step_batch", IDLE);
    let of_the_first = slurm.used();
    assert!(matches!(join(&host, "12", second), Joined::Held(_)));
    assert_holds(&slurm);
    // What the first run used is not charged to this one; what is left of it goes on meanwhile, beside the second.
    let cput = host.usage("12").expect("here").cput;
    let since = slurm.used() - of_the_first;
    assert!(cput <= since + 0.01, "{cput} {since}");
    slurm.end_steps();
    assert!(epilog(&host, "12").expect("ended").is_some());
    assert!(!root.exists());
}

#[test]
fn without_the_cpu_controller_it_is_handed_on_or_the_job_is_not_held() {
    // Nobody in the way.
    let Some((_directory, host, mut slurm, _)) = node("", false) else {
        return;
    };
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let task = slurm.task("step_0", IDLE);
    assert!(!slurm.job().join("cpu.max").exists());
    assert!(matches!(join(&host, "12", task), Joined::Held(_)));
    assert_holds(&slurm);
    epilog(&host, "12").expect("ended");

    // A process above: its group would become threaded. The task runs all the same, and that is counted, once.
    for rule in ["refuse", "admit"] {
        let more = format!("[slurm]\non-fault = '{rule}'\n");
        let Some((_directory, host, mut slurm, root)) = node(&more, false) else {
            return;
        };
        prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
        let (task, above) = (slurm.task("step_0", IDLE), slurm.task("step_0", IDLE));
        enter(&slurm.scope(), above);
        for _ in 0..2 {
            let joined = join(&host, "12", task);
            assert!(
                matches!(joined, Joined::Unenforced(_)),
                "{rule}: {joined:?}"
            );
            let entry = host.registry().read("12").expect("read").expect("there");
            let reason = entry.unenforced.expect("why");
            assert!(reason.contains("slurmstepd.scope"), "{reason}");
            assert_eq!(unenforced(&host), 1);
        }
        assert!(is_in(task, &slurm.job().join("step_0/slurm")));
        let kind = fs::read_to_string(slurm.scope().join("cgroup.type")).expect("a type");
        assert_eq!(kind.trim(), "domain");
        assert!(!root.join("job-12").exists());
        assert!(epilog(&host, "12").expect("ended").is_some());
        assert!(!root.exists());
    }
}

#[test]
fn what_slurm_keeps_elsewhere_stays_there_and_is_counted() {
    let Some((_directory, host, mut slurm, _)) = node("", true) else {
        return;
    };
    prolog(&host, &job(Some(LINE)), 1000.0).expect("begun");
    let task = slurm.task("step_0", IDLE);
    // As no Slurm does today: beside the steps' directories, and in another job's.
    for (place, counted) in [("elsewhere", 1), ("job_13/step_0/slurm", 1)] {
        let group = slurm.scope().join(place);
        fs::create_dir_all(&group).expect("ours");
        enter(&group, task);
        let joined = join(&host, "12", task);
        assert!(
            matches!(joined, Joined::Unenforced(_)),
            "{place}: {joined:?}"
        );
        assert!(is_in(task, &group));
        assert_eq!(unenforced(&host), counted, "{place}");
    }
    // The next one is where it belongs.
    let next = slurm.task("step_1", IDLE);
    assert!(matches!(join(&host, "12", next), Joined::Held(_)));
    let entry = host.registry().read("12").expect("read").expect("there");
    assert_eq!(entry.unenforced, None);
    assert!(epilog(&host, "12").expect("ended").is_some());
    slurm.end_steps();
    remove(&slurm.scope());
}

#[test]
fn a_job_without_terms_gets_the_least_weight_where_it_is() {
    let Some((_directory, host, mut slurm, root)) = node("", true) else {
        return;
    };
    let task = slurm.task("step_0", IDLE);
    assert_eq!(join(&host, "12", task), Joined::BestEffort);
    assert!(is_in(task, &slurm.job().join("step_0/slurm")));
    assert_eq!(slurm.read("cpu.weight"), "1");
    assert_eq!(slurm.read("cpu.max"), "max 100000");
    assert_eq!(epilog(&host, "12").expect("nothing to end"), None);
    assert!(!root.exists());
}
