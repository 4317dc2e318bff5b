//! The control loop, and what is left when somebody is killed.

use crate::support::{Site, kill, sleeps, stderr, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[test]
fn a_killed_libra_run_leaves_a_job_that_the_next_one_finds_judges_and_cleans() {
    let site = Site::new("[node]\nprocessors = 1");
    let gate = site.gate();
    let mut child = site.start(
        "deadline=600000,budget=unlimited,estimate=300000",
        &format!("setsid bash -c '{0}' & {0}; wait", gate.until_open()),
    );
    kill(child.id(), nix::sys::signal::Signal::SIGKILL);
    child.wait().expect("it was killed");
    let job = site.job("1");
    assert_eq!(job["phase"], "running");
    assert_eq!(job["orphaned"], true);
    // Its share still counts.
    let other = site
        .libra(&[
            "quote",
            "-W",
            "deadline=600000,budget=unlimited,estimate=300000",
        ])
        .output()
        .expect("libra");
    assert_eq!(other.status.code(), Some(3), "1.05 of 1 processor");
    // It ends by itself, and the next one to come finds that out.
    gate.open();
    wait_for("its processes to end", || site.processes("1").is_empty());
    let next = site
        .run("deadline=600000,budget=unlimited,estimate=300000", "true")
        .output()
        .expect("libra");
    assert!(next.status.success(), "{}", stderr(&next));
    let job = site.job("1");
    assert_eq!(job["phase"], "ended");
    assert_eq!(job["conclusion"], "unknown", "nobody saw its end: {job}");
    assert_eq!(job["in_time"], true, "{job}");
    site.assert_nothing_left();
}

#[test]
fn the_agent_takes_over_from_a_killed_agent_and_ends_what_was_left() {
    let site = Site::new("");
    let agent = || {
        let child = site.libra(&["agent"]).stderr(Stdio::piped()).spawn();
        child.expect("libra")
    };
    let mut first = agent();
    let gate = site.gate();
    let mut run = site.start(
        "deadline=60000,budget=unlimited,estimate=1000",
        &gate.until_open(),
    );
    for child in [&mut first, &mut run] {
        kill(child.id(), nix::sys::signal::Signal::SIGKILL);
        child.wait().expect("it was killed");
    }
    gate.open();
    let second = agent();
    wait_for("the agent to end the job", || {
        site.job("1")["phase"] == "ended"
    });
    site.assert_nothing_left();
    kill(second.id(), nix::sys::signal::Signal::SIGTERM);
    let output = second.wait_with_output().expect("libra");
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("job 1 is over"),
        "{}",
        stderr(&output)
    );
}

/// The quota of every job of a site, by file.
fn quotas(site: &Site) -> Vec<(PathBuf, String)> {
    let groups = site.cgroups().into_iter().flat_map(|root| {
        let below = fs::read_dir(root).into_iter().flatten().flatten();
        below.map(|entry| entry.path()).collect::<Vec<_>>()
    });
    groups
        .flat_map(|group| ["cpu.cfs_quota_us", "cpu.max"].map(|name| group.join(name)))
        .filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text)))
        .collect()
}

/// A process that does not outlive a test that fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A job has six files and more.
#[test]
fn an_agent_that_may_not_open_the_files_of_all_jobs_adjusts_all_the_same() {
    let site = Site::new("[node]\nprocessors = 1");
    let log = fs::File::create(site.path("agent.log")).expect("a file");
    let mut command = Command::new("sh");
    (command.args(["-c", "ulimit -n 100; exec \"$@\"", "sh"]))
        .arg(site.libra(&[]).get_program())
        .args(["-v", "--config"])
        .arg(site.path("libra.toml"))
        .arg("agent")
        .stderr(log);
    let mut agent = Ended(command.spawn().expect("libra"));
    wait_for("it to lead", || {
        fs::read_to_string(site.path("registry/leader"))
            .is_ok_and(|text| text.trim() == agent.0.id().to_string())
    });
    let gate = site.gate();
    let mut runs: Vec<_> = (0..18)
        .map(|_| {
            site.start(
                "deadline=600000,budget=unlimited,estimate=25000",
                &gate.until_open(),
            )
        })
        .collect();
    let said = || fs::read_to_string(site.path("agent.log")).unwrap_or_default();
    wait_for("it to say so", || {
        said().contains("this process may have 100 files open")
    });
    let before = quotas(&site);
    assert_eq!(before.len(), 18, "{before:?}");
    for (path, text) in &before {
        let other = match text.split_once(' ') {
            Some(_) => "99000 100000",
            None => "99000",
        };
        fs::write(path, other).expect("ours");
    }
    wait_for("all to be held to their shares again", || {
        let now = quotas(&site);
        now.len() == before.len() && now.iter().all(|(_, text)| !text.starts_with("99000"))
    });
    gate.open();
    for run in &mut runs {
        assert!(run.wait().expect("libra").success());
    }
    assert!(!said().contains("Too many open files"), "{}", said());
    kill(agent.0.id(), nix::sys::signal::Signal::SIGTERM);
    assert!(agent.0.wait().expect("libra").success());
    site.assert_nothing_left();
}

#[test]
fn a_broken_file_in_the_registry_harms_nobody_and_is_left_alone() {
    let site = Site::new("");
    let jobs = site.path("registry/jobs");
    fs::create_dir_all(&jobs).expect("ours");
    fs::write(jobs.join("7.json"), "{\"version\":99}").expect("ours");
    let output = site
        .run("deadline=60000,budget=9000,estimate=1000", "true")
        .output()
        .expect("libra");
    assert!(output.status.success());
    assert!(stderr(&output).contains("7.json"), "{}", stderr(&output));
    assert!(jobs.join("7.json").exists());
}

#[test]
fn a_second_agent_says_that_it_waits_and_takes_over() {
    let site = Site::new("");
    let log = |name: &str| fs::File::create(site.path(name)).expect("a file");
    let said = |name: &str| fs::read_to_string(site.path(name)).unwrap_or_default();
    let agent = |name: &str| {
        let child = site.libra(&["agent"]).stderr(log(name)).spawn();
        child.expect("libra")
    };
    let once = |arguments: &[&str]| {
        let output = site.libra(arguments).output().expect("libra");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let led: Value = serde_json::from_str(&once(&["agent", "--once", "--json"])).expect("JSON");
    assert_eq!(
        (&led["led"], &led["jobs"]),
        (&Value::Bool(true), &Value::from(0))
    );
    assert_eq!(once(&["agent", "--once"]), "");
    let mut first = agent("first");
    wait_for("the first to lead", || {
        once(&["agent", "--once", "--json"]) == "{\"led\":false}\n"
    });
    assert!(once(&["agent", "--once"]).contains("nothing was done"));
    let mut second = agent("second");
    wait_for("the second to wait", || {
        said("second").contains("waiting to take over")
    });
    // It could say so again in each round.
    let before = sleeps(second.id());
    wait_for("some rounds more", || sleeps(second.id()) >= before + 10);
    kill(first.id(), nix::sys::signal::Signal::SIGTERM);
    first.wait().expect("it was ended");
    wait_for("the second to lead", || {
        said("second").contains("now runs the control loop")
    });
    kill(second.id(), nix::sys::signal::Signal::SIGTERM);
    second.wait().expect("it was ended");
    assert_eq!(
        said("second").matches("waiting").count(),
        1,
        "{}",
        said("second")
    );
}

/// As under the unit that is shipped, on a host where `/proc` shows everybody but one group his own processes alone: what the agent cannot see
/// has neither ended nor been killed.
#[test]
fn an_agent_that_sees_no_process_of_others_ends_none_and_lets_none_go() {
    let site = Site::new("");
    // hidepid=2 would be that of all mounts on a kernel before 5.8, which does not know the word.
    let blind = "mount -t proc -o hidepid=invisible,gid=65534 proc /proc && \
        exec setpriv --bounding-set=-all,+kill,+dac_override --inh-caps=-all --no-new-privs \"$@\"";
    let agent = site.libra(&["agent"]);
    let mut started = Command::new("unshare");
    started.args(["--mount", "sh", "-c", blind, "sh"]);
    started.arg(agent.get_program()).args(agent.get_args());
    let started = started.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut agent = started.expect("unshare, mount and setpriv");
    let mut said = BufReader::new(agent.stderr.take().expect("a pipe")).lines();
    let mut said = || said.next().expect("more").expect("text");
    let mut all = Vec::new();
    while !all
        .last()
        .is_some_and(|line: &String| line.contains("hidepid"))
    {
        all.push(said());
    }
    wait_for("it leads", || site.path("registry/leader").exists());
    let gate = site.gate();
    let mut run = site.start(
        "deadline=600000,budget=unlimited,estimate=1000",
        &gate.until_open(),
    );
    // It is written anew in the agent's first round, in which a little is still to be done in a little less time; one that is let go has whole processors.
    let share = |job: &Value| job["share"].as_f64().expect("a number");
    let held = share(&site.job("1"));
    // It looks closer every 64 rounds.
    let before = sleeps(agent.id());
    wait_for("some rounds", || sleeps(agent.id()) >= before + 150);
    let job = site.job("1");
    assert_eq!(job["phase"], "running", "{job}");
    assert!((share(&job) / held - 1.0).abs() < 0.01, "{held} {job}");
    gate.open();
    let ended = run.wait().expect("it ends");
    assert!(ended.success(), "{ended}");
    kill(agent.id(), nix::sys::signal::Signal::SIGTERM);
    assert!(agent.wait().expect("it was ended").success());
    site.assert_nothing_left();
}

/// Holds a process in its end, as a busy host does, for as long as it can read.
const TRACER: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
assert libc.ptrace(0x4206, pid, None, 0x40) == 0, os.strerror(ctypes.get_errno())
print('traced', flush=True)
while os.waitpid(pid, 0x40000000)[1] >> 8 != 5 | 6 << 8:
    assert libc.ptrace(7, pid, None, None) == 0
print('held', flush=True)
sys.stdin.read()
";

/// Whoever ends a job takes its limits off, and on a busy host a round comes between that and the end.
#[test]
fn what_was_taken_off_a_job_that_dies_is_nobodys_change() {
    let site = Site::new("");
    let log = site.path("log");
    let errors = fs::File::create(&log).expect("a file");
    let agent = site.libra(&["agent"]).stderr(errors).spawn();
    let mut agent = agent.expect("libra");
    wait_for("it leads", || site.path("registry/leader").exists());
    // A round looks at one of four for who is killed.
    let ids = ["1", "2", "3", "4"];
    let mut runs = ids.map(|_| {
        let terms = "deadline=600000,budget=unlimited,estimate=1000";
        site.start(terms, "exec sleep 100000")
    });
    let pids = ids.map(|id| {
        let processes = site.processes(id);
        processes.first().expect("a process").clone()
    });
    let mut tracers = pids.clone().map(|pid| {
        let mut tracer = Command::new("python3");
        tracer.args(["-c", TRACER, &pid]).stdin(Stdio::piped());
        let mut tracer = tracer.stdout(Stdio::piped()).spawn().expect("python3");
        let lines = BufReader::new(tracer.stdout.take().expect("a pipe")).lines();
        (tracer, lines)
    });
    for (_, lines) in &mut tracers {
        assert_eq!(lines.next().expect("a line").expect("text"), "traced");
    }
    // Nobody but us ends them.
    for run in &runs {
        kill(run.id(), nix::sys::signal::Signal::SIGSTOP);
    }
    site.stop_leader(&agent);
    for (pid, (_, lines)) in pids.iter().zip(&mut tracers) {
        kill(
            pid.parse().expect("a number"),
            nix::sys::signal::Signal::SIGKILL,
        );
        assert_eq!(lines.next().expect("a line").expect("text"), "held");
    }
    let quotas: Vec<_> = (site.cgroups().iter())
        .flat_map(|root| ids.map(|id| root.join(format!("job-{id}"))))
        .flat_map(|group| [group.join("cpu.cfs_quota_us"), group.join("cpu.max")])
        .filter(|file| file.exists())
        .collect();
    assert_eq!(quotas.len(), 4, "{quotas:?}");
    let none = |file: &Path| match file.ends_with("cpu.max") {
        true => "max",
        false => "-1",
    };
    for file in &quotas {
        fs::write(file, none(file)).expect("root");
    }
    kill(agent.id(), nix::sys::signal::Signal::SIGCONT);
    let said = || fs::read_to_string(&log).expect("a log");
    wait_for("all of them to be seen", || {
        (ids.iter()).all(|id| said().contains(&format!("job {id} is killed")))
    });
    let before = sleeps(agent.id());
    wait_for("some rounds", || sleeps(agent.id()) >= before + 12);
    for file in &quotas {
        let now = fs::read_to_string(file).expect("it is there");
        assert!(now.starts_with(none(file)), "{}: {now}", file.display());
    }
    assert!(!said().contains("somebody changed"), "{}", said());
    for (mut tracer, _) in tracers {
        drop(tracer.stdin.take());
        tracer.wait().expect("it ends");
    }
    for run in &mut runs {
        kill(run.id(), nix::sys::signal::Signal::SIGCONT);
        run.wait().expect("it ends");
    }
    kill(agent.id(), nix::sys::signal::Signal::SIGTERM);
    agent.wait().expect("it was ended");
    site.assert_nothing_left();
}
