//! What a decision of the gang rule costs where many jobs are known, and what it costs to make the plan anew: processor time. The limit beside
//! each is a scan over what was asked for all jobs that are known, one division for each.
//!
//! `cargo bench --bench gang`, or with how many jobs are known, and which of the cases alone: `cargo bench --bench gang -- 2000 1000x16/memory`

mod common;

use common::{part, result, scan};
use libra_core::decision::job::{Request, Shape, Terms};
use libra_core::decision::node::NodeSpec;
use libra_core::gang::{Change, Gang, JobId, Promise, Refused, Rules, Suspend};
use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    /// A job of 1 to 64 processors and 5 minutes to 10 hours. `slack`: seconds until it is due, besides.
    fn job(&mut self, slack: f64) -> Request {
        let estimate = 300.0 * 120f64.powf(self.next());
        let deadline = estimate * (1.2 + self.next()) + slack * self.next();
        Request {
            terms: Terms::hard(estimate, deadline, f64::INFINITY),
            shape: Shape {
                chunks: 1 << (7.0 * self.next()) as u32,
                ..Shape::default()
            },
        }
    }
}

/// Processor time of this thread, in microseconds: other work on the machine does not count.
fn used() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3
}

fn microseconds<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = used();
    let done = work();
    times.push(used() - start);
    done
}

fn show(name: &str, times: &mut [f64], limit: f64) {
    for (of_all, which) in [(0.5, "p50"), (0.99, "p99"), (1.0, "max")] {
        result(
            &format!("{name}/{which}"),
            part(times, of_all) * 1e3,
            Some(limit),
        );
    }
}

/// What was decided as one number, by which two builds can be compared: the same decisions, the same number.
#[derive(Default)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn answer(&mut self, answer: &Result<(JobId, Promise), Refused>) {
        match answer {
            Ok((_, promise)) => {
                self.add(promise.planned_start.to_bits());
                self.add(promise.planned_end.to_bits());
            }
            Err(Refused::Late { end, .. }) => self.add(end.to_bits()),
            Err(_) => self.add(1),
        }
    }
}

/// So many jobs are known at each decision; some end early after each.
fn decisions(name: &str, nodes: usize, processors: f64, known: usize, rules: Rules, asked: usize) {
    let node = NodeSpec {
        processors,
        rating: 1.0,
        memory: NodeSpec::MEMORY_UNLIMITED,
    };
    let mut gang = Gang::new(&vec![node; nodes], rules).expect("values in range");
    let mut random = Random(7);
    let mut now = 0.0;
    // What they need altogether, on the machine.
    let backlog = known as f64 * 7_500.0 * 18.0 / (nodes as f64 * processors);
    let mut running: BTreeSet<JobId> = BTreeSet::new();
    let (mut accept, mut refuse, mut tidy) = (Vec::new(), Vec::new(), Vec::new());
    let mut refused = 0;
    let mut digest = Digest::default();
    while gang.len() < known && refused < 20 * known {
        let answer = gang.submit(&random.job(3.0 * backlog), now);
        digest.answer(&answer);
        refused += usize::from(answer.is_err());
    }
    let filled = gang.len();
    let mut act = |gang: &mut Gang, now: f64, running: &mut BTreeSet<JobId>| {
        let changes = microseconds(&mut tidy, || gang.act(now));
        let changed = changes.len() as u64;
        for change in changes {
            match change {
                Change::Start(job) | Change::Resume(job) => running.insert(job),
                Change::Suspend(job) => running.remove(&job),
                Change::Promised(..) | Change::Expired(_) => continue,
            };
        }
        changed
    };
    act(&mut gang, now, &mut running);
    for number in 0..asked {
        now = (now + 1.0).min(gang.next_change());
        if gang.next_change() <= now {
            digest.add(act(&mut gang, now, &mut running));
        }
        // Urgent ones among the others, as they push most aside.
        let slack = if number % 4 == 0 {
            600.0
        } else {
            2.0 * backlog
        };
        let job = random.job(slack);
        let start = used();
        let answer = gang.submit(&job, now);
        let taken = used() - start;
        digest.answer(&answer);
        match answer {
            Ok(_) => accept.push(taken),
            Err(_) => refuse.push(taken),
        }
        if gang.len() > filled {
            if let Some(first) = running.pop_first() {
                gang.ended(first);
            }
        }
        digest.add(act(&mut gang, now, &mut running));
    }
    println!(
        "{name}: {nodes} nodes of {processors} processors, {filled} jobs known, {rules:?}, decisions {:016x}",
        digest.0
    );
    let limit = scan(filled * size_of::<Request>(), size_of::<Request>());
    for (what, times) in [
        ("accept", &mut accept),
        ("refuse", &mut refuse),
        ("plan-anew", &mut tidy),
    ] {
        let name = format!("gang-{nodes}x{processors}/{name}/{what}");
        show(&name, times, limit);
    }
}

fn main() {
    // `cargo test --benches` runs this too, and wants no measurements.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    if !measuring {
        decisions("memory", 16, 4.0, 100, Rules::default(), 20);
        return;
    }
    let margin = 0.05;
    let memory = Rules {
        margin,
        ..Rules::default()
    };
    let two = Rules {
        jobs_per_processor: Some(2),
        ..memory
    };
    let never = Rules {
        suspend: Suspend::Never,
        ..memory
    };
    let known = std::env::args().find_map(|argument| argument.parse().ok());
    let known = known.unwrap_or(10_000);
    let is_case = |argument: &String| {
        argument.contains('x') && argument.starts_with(|first: char| first.is_ascii_digit())
    };
    let only = std::env::args().find(is_case);
    for (name, rules) in [("memory", memory), ("two", two), ("never", never)] {
        for (nodes, processors) in [(1_000, 1.0), (1_000, 16.0)] {
            let case = format!("{nodes}x{processors}/{name}");
            if only.as_ref().is_none_or(|only| case.starts_with(only)) {
                decisions(name, nodes, processors, known, rules, 400);
            }
        }
    }
}
