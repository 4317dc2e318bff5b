//! What one round of the control loop costs with 1,000 jobs on a real host: real cgroups, real registry.
//!
//! `cargo bench --bench agent`, as root. Times are processor time of this process, user and system.

use libra_config::Config;
use libra_core::decision::job::{Request, Terms};
use libra_host::Host;
use libra_host::batch::BatchJob;
use libra_host::control::ControlLoop;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const JOBS: usize = 1000;
const ROUNDS: usize = 50;

fn cpu_ms() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("this process");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    micros as f64 / 1e3
}

fn main() {
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
    let ids: Vec<String> = (0..JOBS).map(|index| format!("{index}.bench")).collect();
    let before = cpu_ms();
    for id in &ids {
        host.begin(&BatchJob {
            id: id.clone(),
            request: Request::single(Terms::hard(10.0, 1e5, 1e6)),
            slots: 1,
            share: 1e-3,
            price: 1.0,
            elapsed: 0.0,
            user: 0,
        })
        .expect("a job");
    }
    println!(
        "begin: {:.3} ms of CPU a job",
        (cpu_ms() - before) / JOBS as f64
    );

    let mut control = ControlLoop::try_lead(&host)
        .expect("a registry")
        .expect("nobody else leads");
    let measure = |control: &mut ControlLoop<'_>| {
        let before = cpu_ms();
        let round = control.round().expect("a round");
        assert_eq!(round.jobs, JOBS);
        cpu_ms() - before
    };
    println!(
        "first round, everything read: {:.2} ms of CPU",
        measure(&mut control)
    );
    std::thread::sleep(std::time::Duration::from_millis(100));
    measure(&mut control);
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| measure(&mut control)).collect();
    rounds.sort_by(f64::total_cmp);
    println!(
        "a round of {JOBS} jobs: median {:.2} ms of CPU, fastest {:.2}, slowest {:.2}, of {ROUNDS}",
        rounds[ROUNDS / 2],
        rounds[0],
        rounds[ROUNDS - 1]
    );
    drop(control);
    for id in &ids {
        host.end(id).expect("a job");
    }
}
