//! What a submission and a poll of the queue cost inside slurmctld, without Slurm.
//!
//! `cargo bench --bench slurm --no-default-features [-- NODES JOBS]`

use libra_config::Config;
use libra_core::decision::refusal::Category;
use libra_metrics::Counts;
use libra_slurm::controller::{Answer, Controller};
use libra_slurm::poll::Prepared;
use libra_slurm::records::{Node, Partition, Records, SlurmJob, State};
use libra_slurm::submission::Submission;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const START: f64 = 1.7e9;

fn submission() -> Submission {
    let option = |name: &str, value: &str| (name.to_string(), value.to_string());
    Submission {
        user: 1000,
        options: vec![
            option("estimate", "1000"),
            option("sla-deadline", "100000"),
            option("budget", "1000000000"),
        ],
        ..Submission::default()
    }
}

fn records(nodes: u32, taken: f64) -> Records {
    let name = |number: u32| format!("node-{number}");
    Records {
        taken,
        jobs: Vec::new(),
        nodes: (0..nodes)
            .map(|number| Node {
                name: name(number),
                processors: 1,
                memory: 1000,
                up: true,
                unknown: false,
                answers: true,
                up_since: 0.0,
                features: Vec::new(),
                gres: Vec::new(),
            })
            .collect(),
        partitions: vec![Partition {
            name: "main".to_string(),
            nodes: (0..nodes).map(name).collect(),
            shared: true,
            jobs_per_processor: 20,
            longest: None,
            default: true,
            up: true,
            one_user: false,
            default_memory: None,
        }],
        ..Records::default()
    }
}

fn show(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    println!(
        "{what}: median {:.1} us, 99 of 100 {:.1} us, longest {:.1} us",
        at(50),
        at(99),
        at(100)
    );
}

fn timed<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = black_box(work());
    times.push(began.elapsed().as_secs_f64() * 1e6);
    done
}

/// What the plugin does beside it for the metrics, a thousand times in each measurement: one takes too little time to be measured.
fn count() {
    let counts = Mutex::new(Counts::EMPTY);
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for number in 0..1000 {
        let took = Duration::from_micros(black_box(number));
        timed(&mut accepted, || {
            for _ in 0..1000 {
                counts.lock().expect("ours").accept(black_box(1), took);
            }
        });
        timed(&mut refused, || {
            for _ in 0..1000 {
                let reason = black_box(Category::NoNode);
                counts.lock().expect("ours").refuse(reason, took);
            }
        });
    }
    show("counting 1000 accepted submissions", accepted);
    show("counting 1000 refused submissions", refused);
}

fn main() {
    let mut numbers = std::env::args().filter_map(|text| text.parse::<u32>().ok());
    let (nodes, jobs) = (
        numbers.next().unwrap_or(1000),
        numbers.next().unwrap_or(1000),
    );
    let mut controller = Controller::new(&Config::default(), START);
    let mut records = records(nodes, START);
    controller.poll(&records, START).expect("nodes");
    let mut now = START;
    let (mut submits, mut plain) = (Vec::new(), Vec::new());
    let (mut prepares, mut polls) = (Vec::new(), Vec::new());
    let asked = submission();
    for number in 0..jobs + 1000 {
        now += 0.01;
        let mut fresh = Vec::new();
        let times = if number < jobs {
            &mut fresh
        } else {
            &mut submits
        };
        let Answer::Accept(accepted) = timed(times, || controller.submit(&asked, now)) else {
            panic!("refused");
        };
        if number < jobs {
            records.jobs.push(SlurmJob {
                id: number + 1,
                array: None,
                state: if number % 2 == 0 {
                    State::Running
                } else {
                    State::Pending
                },
                admin_comment: accepted.admin_comment.into(),
                nodes: if number % 2 == 0 {
                    accepted.nodes
                } else {
                    Vec::new()
                },
                comment: String::new(),
                held: false,
                waits: false,
                kept: false,
                deferred: None,
                pinned: true,
                started: now,
                ended: 0.0,
                cut_short: false,
                failed: false,
                how: libra_accounts::settlement::HowEnded::Itself,
                restarts: 0,
                ran: 0.0,
                suspended: false,
                changed: 0.0,
                user: 1000,
                component: false,
            });
        }
        if number % 50 == 49 {
            // What has no job is forgotten again.
            now += 3.0;
            records.taken = now;
            let mut prepared = timed(&mut prepares, || Prepared::new(&records, &[]));
            timed(&mut polls, || {
                controller.take(&mut prepared, now).expect("a poll")
            });
        }
        timed(&mut plain, || {
            controller.submit(&Submission::default(), now)
        });
    }
    println!(
        "{nodes} nodes, {} jobs with terms",
        controller.book().job_count()
    );
    show("a submission with terms", submits);
    show("a submission without", plain);
    count();
    // With all jobs in it.
    let from = jobs as usize / 50;
    show("a poll of the queue, prepared", prepares.split_off(from));
    show("a poll of the queue, taken", polls.split_off(from));
}
