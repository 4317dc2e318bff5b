//! What holds for every stream of jobs of all classes.

use crate::aroma::round_robin::{Rates, slack};
use crate::aroma::run::Simulation;
use crate::aroma::*;
use crate::{Fate, Outcome};
use libra_core::decision::job::Terms;
use libra_core::decision::node::NodeSpec;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![
        Just(Class::Deadline),
        Just(Class::HighPriority { within: 5.0 }),
        Just(Class::Dedicated),
        Just(Class::BestEffort),
    ]
}

/// Jobs in order of submission; whole numbers now and then, so that dates meet. `exact`: the times
/// planned with are true.
fn jobs(exact: bool) -> impl Strategy<Value = Vec<(Class, Job)>> {
    let time = || prop_oneof![(1u32..40).prop_map(f64::from), 0.01..50.0];
    let job = (
        class(),
        prop_oneof![Just(0.0), (0u32..20).prop_map(f64::from), 0.0..10.0],
        time(),
        time(),
        prop_oneof![Just(1.0), 1.0..8.0],
        prop_oneof![Just(1u32), 1u32..6],
        0u64..50,
    );
    prop::collection::vec(job, 1..25).prop_map(move |jobs| {
        let mut submit = 0.0;
        let job = |(class, wait, estimate, run_time, times, processors, memory)| {
            submit += wait;
            let job = Job {
                number: 0,
                submit,
                run_time: if exact { estimate } else { run_time },
                terms: Terms::hard(estimate, estimate * times, f64::INFINITY),
                processors,
                memory,
                user: 0,
                queue: -1,
                logged_wait: -1.0,
                coupled: false,
            };
            (class, job)
        };
        jobs.into_iter().map(job).collect()
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    let node = (
        prop_oneof![4 => Just(1.0), 1 => Just(2.0), 1 => 0.5..4.0],
        prop_oneof![3 => Just(1.0), 1 => 0.5..2.0],
        prop_oneof![Just(NodeSpec::MEMORY_UNLIMITED), 1u64..100],
    );
    prop_oneof![
        (1usize..6).prop_map(|hosts| Machine::uniform(hosts, 1)),
        prop::collection::vec(node, 1..5).prop_map(|nodes| Machine {
            nodes: nodes
                .into_iter()
                .map(|(processors, rating, memory)| NodeSpec {
                    processors,
                    rating,
                    memory,
                })
                .collect(),
        }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fared {
    Refused(&'static str),
    Ended { start: f64, finish: f64, met: bool },
}

#[derive(Default)]
struct Fates(BTreeMap<usize, Fared>);

impl Observer for Fates {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let fared = match outcome.fate {
            Fate::Refused { reason, .. } => Fared::Refused(reason),
            Fate::Ended { start, finish, .. } => Fared::Ended {
                start,
                finish,
                met: outcome.met(),
            },
        };
        let before = self.0.insert(outcome.index, fared);
        assert_eq!(before, None, "job {} has two outcomes", outcome.index);
    }
}

/// Runs step by step and checks each one. Yields the outcomes.
fn run(machine: &Machine, jobs: &[(Class, Job)], most_displaced: usize) -> Fates {
    let (classes, jobs): (Vec<Class>, Vec<Job>) = jobs.iter().copied().unzip();
    let mut aroma = Aroma::new(|index, _| classes[index]);
    aroma.most_displaced = most_displaced;
    let mut simulation = Simulation::new(&aroma, &jobs, machine);
    let mut fates = Fates::default();
    let mut hosts_of: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let (mut served, mut speed, mut last) = (0.0, 0.0, 0.0);
    let mut steps = 0;
    while simulation.step(&mut fates, &mut ()) {
        steps += 1;
        assert!(steps < 100_000, "it does not end");
        let plan = &simulation.plan;
        assert!(plan.now >= last, "time goes back");
        served += (plan.now - last) * speed;
        last = plan.now;
        speed = 0.0;
        for host in &plan.hosts {
            let (mut dedicated, mut shared) = (0, 0);
            for task in host.running() {
                match task.process.dedicated {
                    true => dedicated += u64::from(task.process.slots),
                    false => shared += u64::from(task.process.slots),
                }
            }
            let rates = Rates::of(host.processors, dedicated, shared);
            assert!(rates.apart, "a dedicated task is not alone");
            speed +=
                host.rating * (dedicated as f64 * rates.dedicated + shared as f64 * rates.shared);
        }
        for (index, job) in &plan.jobs {
            let tasks = job
                .hosts
                .iter()
                .filter_map(|h| plan.hosts[*h as usize].task(*index));
            let tasks: Vec<_> = tasks.collect();
            assert_eq!(tasks.len(), job.open);
            // Its tasks start together, stop together and stay where they are.
            assert!(tasks.iter().all(|task| task.process.running == job.running));
            assert!(job.running || job.start >= plan.now - slack(plan.now));
            if job.first_start.is_some() {
                let hosts = hosts_of.entry(*index).or_insert_with(|| job.hosts.clone());
                assert_eq!(hosts, &job.hosts);
            }
        }
    }
    assert!(simulation.plan.jobs.is_empty());
    assert_eq!(fates.0.len(), jobs.len());
    let done = |index: &usize| jobs[*index].run_time * f64::from(jobs[*index].processors);
    let ended = fates
        .0
        .iter()
        .filter(|(_, fared)| matches!(fared, Fared::Ended { .. }));
    let work: f64 = ended.map(|(index, _)| done(index)).sum();
    assert!(
        (served - work).abs() < 1e-3,
        "{served} s of {work} s served"
    );
    fates
}

fn dedicated_slots(machine: &Machine) -> u32 {
    let slots = |node: &NodeSpec| node.processors as u32;
    machine.nodes.iter().map(slots).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
    ))]

    #[test]
    fn promises_hold_where_the_times_planned_with_are_true(
        machine in machine(),
        jobs in jobs(true),
        most_displaced in prop_oneof![Just(1usize), Just(3), Just(100)],
    ) {
        let fates = run(&machine, &jobs, most_displaced);
        for (index, fared) in &fates.0 {
            let (class, job) = &jobs[*index];
            match (class, fared) {
                (Class::Deadline, Fared::Ended { met, finish, .. }) => {
                    prop_assert!(met, "job {index} is due at {} and ends at {finish}", job.due());
                }
                (Class::HighPriority { within }, Fared::Ended { start, .. }) => {
                    prop_assert!(*start <= job.submit + within + slack(*start));
                }
                (Class::Dedicated, Fared::Refused(reason)) => {
                    prop_assert_eq!(*reason, "chunks");
                    prop_assert!(job.processors > dedicated_slots(&machine));
                }
                (Class::BestEffort, Fared::Refused(reason)) => {
                    prop_assert!(false, "best effort is refused: {}", reason);
                }
                _ => {}
            }
            if let Fared::Ended { start, finish, .. } = fared {
                prop_assert!(*start >= job.submit);
                prop_assert!(finish > start);
            }
        }
    }

    #[test]
    fn nothing_breaks_where_the_times_planned_with_are_not_true(
        machine in machine(),
        jobs in jobs(false),
    ) {
        run(&machine, &jobs, 1);
    }

    #[test]
    fn the_same_jobs_have_the_same_outcomes(machine in machine(), jobs in jobs(false)) {
        let (first, second) = (run(&machine, &jobs, 2), run(&machine, &jobs, 2));
        prop_assert_eq!(first.0, second.0);
    }
}
