//! Measures how exactly jobs get their shares on this host: the tables of docs/enforcement.md.
//!
//! Needs root and two processors. `cargo run --release --example measure_shares [SECONDS]`

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libra_cgroup::{Enforcement, Enforcer, Group, Limits, Settings, Spare, Version, open};

const CAPACITY: f64 = 2.0;

/// Shares of jobs of one busy loop each, with the processor that packing gives them.
type Set = (&'static str, Vec<(f64, Option<u32>)>);

fn sets() -> Vec<Set> {
    let packed = |a: &[f64], b: &[f64], part: f64| {
        let on = |shares: &[f64], cpu| {
            shares
                .iter()
                .map(|s| (s * part, Some(cpu)))
                .collect::<Vec<_>>()
        };
        [on(a, 0), on(b, 1)].concat()
    };
    let eight = [0.25, 0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.05];
    vec![
        ("4 jobs, sum 1.8", packed(&[0.7, 0.3], &[0.6, 0.4], 0.9)),
        ("4 jobs, sum 2.0", packed(&[0.7, 0.3], &[0.6, 0.4], 1.0)),
        ("16 jobs, sum 1.8", packed(&eight, &eight, 0.9)),
        ("16 jobs, sum 2.0", packed(&eight, &eight, 1.0)),
        (
            "3 × 0.6, one cannot be packed",
            vec![(0.6, Some(0)), (0.6, Some(1)), (0.6, None)],
        ),
        (
            "3 × 0.66, one cannot be packed",
            vec![(0.66, Some(0)), (0.66, Some(1)), (0.66, None)],
        ),
        (
            "3 × 0.6 and 2 × 0.1, one cannot be packed",
            vec![
                (0.6, Some(0)),
                (0.6, Some(1)),
                (0.6, None),
                (0.1, Some(0)),
                (0.1, Some(1)),
            ],
        ),
    ]
}

fn enforcer(spare: Spare) -> Enforcer {
    let settings = Settings {
        spare,
        root: Some(format!("libra-measure-{}", std::process::id())),
        ..Settings::default()
    };
    match open(&settings) {
        Enforcement::Active(enforcer) => enforcer,
        Enforcement::None { reason } => {
            eprintln!("nothing to measure: {reason}");
            std::process::exit(1);
        }
    }
}

/// Shares received over the interval, in processors.
fn measure(
    spare: Spare,
    burst: bool,
    pack: bool,
    jobs: &[(f64, Option<u32>)],
    interval: Duration,
) -> Vec<f64> {
    let enforcer = enforcer(spare);
    let mut children: Vec<Child> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for (i, &(share, cpu)) in jobs.iter().enumerate() {
        let pinned = cpu.filter(|_| pack).map(|c| vec![c]);
        let limits = Limits {
            pinned,
            ..Limits::new(share, CAPACITY)
        };
        let group = enforcer.create(&i.to_string(), &limits).expect("a group");
        let file = match enforcer.version() {
            Version::V1 => "cpu.cfs_burst_us",
            Version::V2 => "cpu.max.burst",
        };
        if !burst {
            let _ = std::fs::write(group.directory().join(file), "0");
        }
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .expect("sh");
        group.place(child.id() as i32).expect("to be placed");
        children.push(child);
        groups.push(group);
    }
    sleep(Duration::from_millis(1_500));
    let sample = || -> Vec<(Instant, f64)> {
        groups
            .iter()
            .map(|g| (Instant::now(), g.usage().map_or(f64::NAN, |u| u.seconds)))
            .collect()
    };
    let before = sample();
    sleep(interval);
    let after = sample();
    for group in groups {
        if let Err(e) = group.remove(Duration::from_secs(10)) {
            eprintln!("{e}");
        }
    }
    for mut child in children {
        let _ = child.wait();
    }
    let _ = enforcer.remove_root_if_empty(&enforcer.made_root());
    before
        .iter()
        .zip(&after)
        .map(|(b, a)| (a.1 - b.1) / (a.0 - b.0).as_secs_f64())
        .collect()
}

fn main() {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(8);
    println!("error of each job's share against its target in %, least to greatest\n");
    println!(
        "| jobs | weights | weights, packed | quotas | quotas, packed | quotas with burst | the same, packed |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, jobs) in sets() {
        let mut row = format!("| {name} |");
        for (spare, burst) in [
            (Spare::Shared, true),
            (Spare::Idle, false),
            (Spare::Idle, true),
        ] {
            for pack in [false, true] {
                let got = measure(spare, burst, pack, &jobs, Duration::from_secs(seconds));
                let errors: Vec<f64> = got
                    .iter()
                    .zip(&jobs)
                    .map(|(g, (share, _))| (g / share - 1.0) * 100.0)
                    .collect();
                let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
                let most = errors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                row += &format!(" {least:+.1} … {most:+.1} |");
            }
        }
        println!("{row}");
    }
}
