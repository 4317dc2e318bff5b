//! What one round of the control loop costs, on a real host: real cgroups, a real registry, a process in each job.
//!
//! `cargo bench --bench agent`, as root; `LIBRA_JOBS=10000` for more jobs than 1,000. Times are processor time of this process. The limit is
//! what no round can do without: a read of every file that holds a job to its share and of its processor time, all of them open already.

#[path = "common/mod.rs"]
mod common;

use common::{nanoseconds, part, result};
use libra_cgroup::GroupRecord;
use libra_config::Config;
use libra_core::decision::job::{Request, Terms};
use libra_host::Host;
use libra_host::batch::BatchJob;
use libra_host::control::ControlLoop;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};

const ROUNDS: usize = 128;
/// Jobs of which the files are read for the limit, where there are more than the first; the loop has its own open beside them.
const MOST_READ: usize = 1000;
const READ_OF_MANY: usize = 500;
/// Of both versions; those that are there are read.
const FILES: [&str; 9] = [
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.shares",
    "cpuacct.usage",
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.stat",
];

fn main() {
    let jobs = std::env::var("LIBRA_JOBS").map_or(1000, |jobs| jobs.parse().expect("a number"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = format!(
        "[cgroup]\nroot = \"libra-bench-{}\"\n[registry]\ndirectory = \"{}\"\n",
        std::process::id(),
        directory.path().join("registry").display()
    );
    let host = Host::open(Config::from_toml(&text).expect("our own text")).expect("a registry");
    if let Some(reason) = host.unenforced() {
        println!("not measured: this needs root and a writable cpu controller: {reason}");
        return;
    }
    println!("{}", host.enforcement());
    libra_host::supervise::raise_file_limit();
    let begun: Vec<Begun<'_>> = (0..jobs).map(|index| Begun::new(&host, index)).collect();
    let mut begins: Vec<f64> = begun.iter().map(|job| job.took).collect();
    result(&format!("agent/{jobs}/begin"), part(&mut begins, 0.5), None);

    let mut control = ControlLoop::try_lead(&host)
        .expect("a registry")
        .expect("nobody else leads");
    let mut round = || {
        let (took, round) = nanoseconds(|| control.round().expect("a round"));
        assert_eq!(round.jobs, jobs);
        took
    };
    result(&format!("agent/{jobs}/first-round"), round(), None);
    // What was written last settles before it is believed to stay.
    std::thread::sleep(std::time::Duration::from_millis(100));
    round();
    let read = match begun.len() {
        0..=MOST_READ => begun.len(),
        _ => READ_OF_MANY,
    };
    let files: Vec<File> = begun[..read].iter().flat_map(Begun::files).collect();
    // In turns, as the machine is not the same at any two times.
    let (mut rounds, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rounds.push(round());
        limits.push(nanoseconds(|| read_all(&files)).0);
    }
    let limit = part(&mut limits, 0.5) * jobs as f64 / read as f64;
    // Some of what is looked at less often falls into each round, and its cost shows in the mean.
    let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
    result(&format!("agent/{jobs}/round-mean"), mean, Some(limit));
    for (name, at) in [("round", 0.5), ("round-p99", 0.99)] {
        result(
            &format!("agent/{jobs}/{name}"),
            part(&mut rounds, at),
            Some(limit),
        );
    }
    println!(
        "{} reads of files a job; {ROUNDS} rounds, in turns with {ROUNDS} readings of the files alone",
        files.len() as f64 / read as f64
    );
}

fn read_all(files: &[File]) {
    let mut buffer = [0; 512];
    for file in files {
        black_box(
            file.read_at(&mut buffer, 0)
                .expect("a file of a group that is there"),
        );
        black_box(&buffer);
    }
}

/// A job with a process that sleeps; it is ended when this is dropped.
struct Begun<'a> {
    host: &'a Host,
    id: String,
    group: GroupRecord,
    process: Child,
    /// Nanoseconds that its beginning took.
    took: f64,
}

impl<'a> Begun<'a> {
    fn new(host: &'a Host, index: usize) -> Begun<'a> {
        let id = format!("{index}.bench");
        let (took, begun) = nanoseconds(|| {
            host.begin(&BatchJob {
                id: id.clone(),
                request: Request::single(Terms::hard(10.0, 1e5, 1e6)),
                slots: 1,
                share: 1e-4,
                price: 1.0,
                elapsed: 0.0,
                margin: None,
                user: 0,
            })
        });
        begun.expect("a job");
        let entry = host.registry().read(&id).expect("a registry");
        let group = entry.and_then(|entry| entry.group).expect("just begun");
        let process = Command::new("sleep")
            .arg("infinity")
            .spawn()
            .expect("sleep");
        for directory in &group.directories {
            let pid = process.id().to_string();
            fs::write(directory.path.join("cgroup.procs"), pid).expect("a group of ours");
        }
        Begun {
            host,
            id,
            group,
            process,
            took,
        }
    }

    fn files(&self) -> Vec<File> {
        let opened = |path: &Path| File::open(path).ok();
        let directories = self.group.directories.iter();
        let paths = directories.flat_map(|held| FILES.map(|name| held.path.join(name)));
        let mut paths: Vec<_> = paths.collect();
        paths.sort();
        paths.dedup();
        let is_v2 = paths
            .iter()
            .any(|path| path.ends_with("cpu.max") && path.exists());
        // cpu.stat has the processor time on version 2, and nothing that a round needs on version 1; cpuacct has directories of its own there,
        // where it is not mounted with cpu.
        paths.retain(|path| is_v2 || !path.ends_with("cpu.stat"));
        paths.iter().filter_map(|path| opened(path)).collect()
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.host.end(&self.id) {
            println!("{}: {error}", self.id);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
