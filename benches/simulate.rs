//! How many jobs a second each scheduler simulates, and how that changes with nodes and jobs.
//!
//! `cargo bench --bench simulate`, or with the path of a log in the Standard Workload Format:
//! `cargo bench --bench simulate -- LOG`. Without one the jobs are synthetic (`libra workload`'s
//! model). Times are of the simulation alone: the jobs are in memory and the outcomes are counted. Processor time; the limit beside it is that of
//! an event loop that does nothing: each job is submitted and ends. Of a log, what reading it takes stands there as well.

mod common;

use common::{nanoseconds, result};
use libra_simulator::queue::{Easy, Edf, Fifo};
use libra_simulator::schedulers::{self, Options};
use libra_simulator::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_workload::Job;
use libra_workload::read::{Leniency, read};
use libra_workload::synthetic::Synthetic;
use libra_workload::terms::{TermsModel, jobs};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::path::Path;

/// A name, and a fresh scheduler for each run.
type SchedulerEntry = (&'static str, fn() -> Box<dyn Scheduler>);

/// Another scheduler is another line here.
const SCHEDULERS: &[SchedulerEntry] = &[
    ("fifo", || Box::new(Fifo)),
    ("easy", || Box::new(Easy)),
    ("edf", || Box::new(Edf)),
    ("libra", || named("libra")),
    ("libra-risk", || named("libra-risk")),
    ("adaptive", || named("libra-adaptive")),
];

/// A scheduler as 'libra simulate' makes it, without a margin on estimates.
fn named(name: &str) -> Box<dyn Scheduler> {
    schedulers::named(name, &Options::default()).expect("a name of the list")
}

const NODES: [u32; 3] = [128, 1_000, 10_000];
const JOBS: [u32; 3] = [10_000, 100_000, 1_000_000];
/// Part of the machine that the synthetic jobs ask for.
const LOAD: f64 = 0.8;
/// Runs of which the fastest counts.
const RUNS: usize = 3;
/// A run that would take longer than this, judged by one with a tenth of the jobs, is left out.
const LONGEST: f64 = 60.0;

#[derive(Default)]
struct Count {
    outcomes: usize,
    ended: usize,
    met: usize,
    wait: f64,
}

impl Observer for Count {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        self.outcomes += 1;
        if let Fate::Ended { start, .. } = outcome.fate {
            self.ended += 1;
            self.wait += start - outcome.job.submit;
            self.met += usize::from(outcome.met());
        }
    }
}

/// Seconds of the fastest of some runs, and what came of it.
fn measure(make: fn() -> Box<dyn Scheduler>, jobs: &[Job], machine: &Machine) -> (f64, Count) {
    let mut best = (f64::INFINITY, Count::default());
    for _ in 0..RUNS {
        let mut count = Count::default();
        let mut scheduler = make();
        let (time, ()) = nanoseconds(|| scheduler.run(jobs, machine, &mut count));
        let seconds = time / 1e9;
        assert_eq!(count.outcomes, jobs.len());
        if seconds < best.0 {
            best = (seconds, count);
        }
        if seconds > LONGEST / 10.0 {
            break;
        }
    }
    best
}

fn synthetic(jobs_wanted: u32, nodes: u32, load: f64) -> Vec<Job> {
    let model = Synthetic {
        jobs: jobs_wanted,
        nodes,
        load: Some(load),
        ..Synthetic::default()
    };
    let records: Vec<_> = model.make().expect("values in range").records().collect();
    let made = jobs(
        &records,
        &TermsModel::default(),
        1,
        Some(nodes),
        Leniency::Strict,
    );
    made.expect("jobs that fit").jobs
}

/// Nanoseconds of an event loop in which each job is submitted and ends, and nothing comes of either.
fn nothing(jobs: &[Job]) -> f64 {
    let time = || {
        let mut events: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut ended = 0;
        // Of times from 0 on, the bits are in the same order.
        for (index, job) in jobs.iter().enumerate() {
            let now = job.submit.to_bits();
            while events.peek().is_some_and(|Reverse((at, _))| *at <= now) {
                events.pop();
                ended += 1;
            }
            events.push(Reverse(((job.submit + job.run_time).to_bits(), index)));
        }
        black_box(ended + events.into_sorted_vec().len())
    };
    (0..RUNS)
        .map(|_| nanoseconds(time).0)
        .fold(f64::INFINITY, f64::min)
}

/// One line for each scheduler, on one workload. `name`: of its results.
fn show(title: &str, name: &str, jobs: &[Job], nodes: u32) {
    println!("{title}: {} jobs, {nodes} nodes", jobs.len());
    let limit = nothing(jobs);
    println!("  scheduler        jobs/s   ended     met   mean wait");
    let machine = Machine::uniform(nodes as usize, 1);
    for &(scheduler, make) in SCHEDULERS {
        let (seconds, count) = measure(make, jobs, &machine);
        println!(
            "  {scheduler:<10} {:>12.0} {:>6.1}% {:>6.1}% {:>9.0} s",
            jobs.len() as f64 / seconds,
            100.0 * count.ended as f64 / jobs.len() as f64,
            100.0 * count.met as f64 / jobs.len() as f64,
            count.wait / count.ended.max(1) as f64,
        );
        result(
            &format!("simulate-{name}/{scheduler}"),
            seconds * 1e9,
            Some(limit),
        );
    }
    println!();
}

/// Jobs a second by nodes and jobs.
fn growth(job_counts: &[u32], node_counts: &[u32]) {
    println!("jobs/s by nodes and jobs; synthetic jobs, load {LOAD}");
    print!("     nodes       jobs");
    for (name, _) in SCHEDULERS {
        print!(" {name:>12}");
    }
    println!();
    for &nodes in node_counts {
        let machine = Machine::uniform(nodes as usize, 1);
        let mut last = vec![0.0; SCHEDULERS.len()];
        for &job_count in job_counts {
            let jobs = synthetic(job_count, nodes, LOAD);
            print!("{nodes:>10} {job_count:>10}");
            for (&(_, make), last) in SCHEDULERS.iter().zip(&mut last) {
                if *last * 10.0 > LONGEST {
                    print!(" {:>12}", "-");
                    continue;
                }
                let (seconds, _) = measure(make, &jobs, &machine);
                *last = seconds;
                print!(" {:>12.0}", jobs.len() as f64 / seconds);
            }
            println!();
        }
    }
    println!();
}

fn log(path: &str) {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("{path}: {error}");
            std::process::exit(2);
        }
    };
    let (time, log) = nanoseconds(|| read(Path::new(path), Leniency::Lenient));
    // Decompressed or not: each byte of the file has to be looked at once.
    result(
        "simulate-log/read",
        time,
        Some(common::scan(bytes.len(), 64)),
    );
    let log = match log {
        Ok(log) => log,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let Some(nodes) = log.header.max_processors() else {
        eprintln!("{path}: the header has no MaxProcs");
        std::process::exit(2);
    };
    let model = TermsModel::default();
    match jobs(&log.records, &model, 1, Some(nodes), Leniency::Lenient) {
        Ok(made) => show(path, "log", &made.jobs, nodes),
        Err(error) => {
            eprintln!("{path}: {error}");
            std::process::exit(2);
        }
    }
}

fn main() {
    // `cargo test --benches` runs this too, and wants no measurements.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let logs: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if !measuring {
        growth(&[1_000], &[128]);
    } else if logs.is_empty() {
        growth(&JOBS, &NODES);
        show("load 0.8", "load-0.8", &synthetic(100_000, 128, 0.8), 128);
        // Half of the jobs wait when the last one is submitted.
        show(
            "overload, 2.0",
            "load-2.0",
            &synthetic(200_000, 128, 2.0),
            128,
        );
    } else {
        logs.iter().for_each(|path| log(path));
    }
}
