mod both;

use super::*;
use crate::schedulers::{self, GangOptions, Options};
use crate::testing::job;
use crate::{Fate, Outcome};
use libra_core::decision::node::NodeSpec;
use libra_core::gang::Suspend;
use proptest::prelude::*;

/// What was told: of each job its index and what became of it (a reason, or start, end and nodes), and the work that was done.
#[derive(Default)]
struct Told {
    fates: Vec<(usize, String)>,
    late: Vec<usize>,
    /// From, until, processor seconds.
    work: Vec<(f64, f64, f64)>,
}

impl Observer for Told {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let fate = match outcome.fate {
            Fate::Refused { at, reason } => format!("{reason} at {at}"),
            Fate::Ended {
                start,
                finish,
                nodes,
                ..
            } => {
                if !outcome.met() {
                    self.late.push(outcome.index);
                }
                format!("{start} to {finish} on {nodes:?}")
            }
        };
        self.fates.push((outcome.index, fate));
    }

    fn worked(&mut self, from: f64, to: f64, work: f64) {
        self.work.push((from, to, work));
    }
}

fn wide(submit: f64, run_time: f64, deadline: f64, processors: u32) -> Job {
    let mut job = job(submit, run_time, deadline);
    job.terms.budget = f64::INFINITY;
    Job { processors, ..job }
}

/// A job whose estimate is not its run time.
fn says(estimate: f64, job: Job) -> Job {
    let mut job = job;
    job.terms.estimate = estimate;
    job
}

fn told(jobs: &[Job], machine: &Machine, suspend: Suspend) -> Told {
    let options = Options {
        gang: GangOptions {
            suspend,
            ..GangOptions::default()
        },
        ..Options::default()
    };
    let mut told = Told::default();
    let mut scheduler = schedulers::named("libra-dedicated", &options).expect("a known name");
    scheduler.run(jobs, machine, &mut told);
    told
}

fn fates(jobs: &[Job], machine: &Machine, suspend: Suspend) -> Vec<String> {
    let mut fates = told(jobs, machine, suspend).fates;
    fates.sort_unstable();
    assert!(fates.iter().map(|fate| fate.0).eq(0..jobs.len()));
    fates.into_iter().map(|fate| fate.1).collect()
}

#[test]
fn it_starts_at_once_where_it_fits_and_is_planned_behind_others_where_it_does_not() {
    let jobs = [
        wide(0.0, 10.0, 20.0, 1),
        wide(0.0, 4.0, 4.0, 1),
        // By estimates from 10 on.
        wide(1.0, 5.0, 20.0, 2),
        // Fits in front of that.
        wide(4.0, 6.0, 90.0, 1),
        // Does not.
        wide(4.0, 7.0, 12.0, 1),
        // Ends too late even behind all.
        wide(5.0, 5.0, 9.0, 2),
    ];
    let expected = [
        "0 to 10 on [0]",
        "0 to 4 on [1]",
        "10 to 15 on [0, 1]",
        "4 to 10 on [1]",
        "share at 4",
        "share at 5",
    ];
    let machine = Machine::uniform(2, 1);
    assert_eq!(fates(&jobs, &machine, Suspend::Never), expected);
}

#[test]
fn a_planned_job_begins_sooner_when_another_ends_early_and_on_other_nodes() {
    let jobs = [
        says(10.0, wide(0.0, 8.0, 50.0, 1)),
        says(20.0, wide(0.0, 3.0, 50.0, 1)),
        // Planned on the first node from 10 on.
        wide(0.0, 5.0, 16.0, 1),
        // Planned behind it, from 15 on; where the third one leaves, it begins at 8.
        wide(0.0, 5.0, 26.0, 1),
    ];
    let expected = [
        "0 to 8 on [0]",
        "0 to 3 on [1]",
        "3 to 8 on [1]",
        "8 to 13 on [0]",
    ];
    let machine = Machine::uniform(2, 1);
    assert_eq!(fates(&jobs, &machine, Suspend::Never), expected);
}

#[test]
fn later_deadlines_stand_still_for_an_earlier_one_and_go_on_in_time() {
    let jobs = [
        // Stands still from 1 to 5, on both nodes.
        wide(0.0, 10.0, 20.0, 3),
        wide(1.0, 4.0, 5.0, 2),
        // In the hole that it leaves.
        wide(1.0, 4.0, 30.0, 2),
    ];
    let machine = Machine::uniform(2, 2);
    let expected = ["0 to 14 on [0, 1]", "1 to 5 on [0, 1]", "1 to 5 on [0, 1]"];
    let found = fates(&jobs, &machine, Suspend::Memory);
    assert_eq!(found.len(), 3);
    assert_eq!(found[0], expected[0]);
    assert!(found[1].starts_with("1 to 5"), "{found:?}");
    assert!(found[2].starts_with("1 to 5"), "{found:?}");
    let found = fates(&jobs, &machine, Suspend::Never);
    assert_eq!(found[..2], ["0 to 10 on [0, 1]", "chunks at 1"]);
    // Who has no time to stand still does not.
    let jobs = [wide(0.0, 10.0, 13.0, 2), wide(1.0, 4.0, 5.0, 2)];
    let found = fates(&jobs, &Machine::uniform(1, 2), Suspend::Memory);
    assert_eq!(found, ["0 to 10 on [0]", "share at 1"]);
}

#[test]
fn it_goes_on_when_it_fits_and_when_it_is_due() {
    // The one in front needs less than it says.
    let jobs = [wide(0.0, 10.0, 40.0, 1), says(6.0, wide(1.0, 2.0, 6.0, 1))];
    let machine = Machine::uniform(1, 1);
    let found = fates(&jobs, &machine, Suspend::Memory);
    assert_eq!(found, ["0 to 12 on [0]", "1 to 3 on [0]"]);
    // It needs more: it stands still from 5 on, until the other one is done, and is late.
    let jobs = [wide(0.0, 10.0, 40.0, 1), says(4.0, wide(1.0, 6.0, 6.0, 1))];
    let found = told(&jobs, &machine, Suspend::Memory);
    assert_eq!(
        found.fates,
        [
            (0, "0 to 14 on [0]".to_string()),
            (1, "1 to 16 on [0]".to_string())
        ]
    );
    assert_eq!(found.late, [1]);
}

#[test]
fn who_outlives_its_estimate_gives_way_to_who_is_due() {
    let jobs = [
        // On both nodes until 10, and in truth for 5 more.
        says(10.0, wide(0.0, 15.0, 90.0, 2)),
        // Begins on one of them at 10, and the other one is its own meanwhile.
        wide(0.0, 4.0, 14.0, 1),
        // Nobody who comes gets what it has.
        wide(11.0, 1.0, 1.5, 1),
    ];
    let expected = ["0 to 19 on [0, 1]", "10 to 14 on [0]", "share at 11"];
    let machine = Machine::uniform(2, 1);
    assert_eq!(fates(&jobs, &machine, Suspend::Memory), expected);
    // Two that have outlived their estimates share what there is.
    let jobs = [
        says(10.0, wide(0.0, 15.0, 90.0, 1)),
        says(4.0, wide(0.0, 6.0, 60.0, 1)),
    ];
    let expected = ["0 to 21 on [0]", "10 to 18 on [0]"];
    let machine = Machine::uniform(1, 1);
    assert_eq!(fates(&jobs, &machine, Suspend::Memory), expected);
}

#[test]
fn memory_that_does_not_hold_both_keeps_the_second_one_out() {
    let node = NodeSpec {
        processors: 1.0,
        rating: 1.0,
        memory: 100,
    };
    let machine = Machine { nodes: vec![node] };
    let holds = |memory, job| Job { memory, ..job };
    let jobs = |memory| {
        [
            holds(60, wide(0.0, 10.0, 90.0, 1)),
            holds(memory, wide(1.0, 4.0, 5.0, 1)),
            holds(memory, wide(10.0, 1.0, 9.0, 1)),
        ]
    };
    let found = fates(&jobs(40), &machine, Suspend::Memory);
    assert_eq!(
        found,
        ["0 to 14 on [0]", "1 to 5 on [0]", "14 to 15 on [0]"]
    );
    // Nor is a start planned: its memory would have to be there from now on.
    let found = fates(&jobs(41), &machine, Suspend::Memory);
    assert_eq!(found, ["0 to 10 on [0]", "share at 1", "10 to 11 on [0]"]);
}

#[test]
fn who_costs_more_than_its_budget_or_fits_no_machine_is_refused() {
    let mut dear = wide(0.0, 10.0, 90.0, 1);
    dear.terms.budget = 1.0;
    let late = says(10.0, wide(0.0, 1.0, 9.0, 1));
    let jobs = [wide(0.0, 1.0, 9.0, 5), dear, late];
    let expected = ["chunks at 0", "budget at 0", "deadline at 0"];
    let machine = Machine::uniform(2, 2);
    assert_eq!(fates(&jobs, &machine, Suspend::Memory), expected);
}

/// What becomes of the last two of four jobs, both planned on the first of two nodes, if that is gone when they are due and comes back at 190. The last one
/// has this deadline.
fn without_their_node(deadline: f64) -> (Vec<String>, Vec<usize>) {
    let jobs = [
        wide(0.0, 100.0, 900.0, 1),
        wide(0.0, 150.0, 900.0, 1),
        wide(0.0, 50.0, 250.0, 1),
        wide(0.0, 50.0, deadline, 1),
    ];
    let machine = Machine::uniform(2, 1);
    let mut told = Told::default();
    let rule = Classes {
        admission: Admission::default(),
        spare: Spare::Idle,
        dedicated: Dedicated::All,
        suspends: true,
    };
    let mut simulation = Simulation::new(&rule, &jobs, &machine, &mut told);
    assert!(simulation.step());
    assert_eq!(simulation.book.starts_by("2"), Some(100.0));
    assert_eq!(simulation.book.starts_by("3"), Some(150.0));
    (simulation.book.set_available("0", false)).expect("ours");
    while simulation.now < 190.0 {
        assert!(simulation.step());
    }
    (simulation.book.set_available("0", true)).expect("ours");
    while simulation.step() {}
    drop(simulation);
    told.fates.sort_unstable();
    let fates = told.fates.into_iter().skip(2).map(|fate| fate.1);
    (fates.collect(), told.late)
}

#[test]
fn one_that_is_overdue_is_planned_anew_or_in_front_and_else_given_back_and_late() {
    // Half a minute after it was due the third one gets a start at 150 on the other node, and the last one at 180 one in front of it.
    let (fates, late) = without_their_node(230.0);
    assert_eq!(fates, ["150 to 250 on [1]", "180 to 230 on [1]"]);
    assert_eq!(late, [0; 0]);
    // At 180 it could not be kept by anybody. It runs when a node is free, and counts.
    let (fates, late) = without_their_node(225.0);
    assert_eq!(fates, ["150 to 200 on [1]", "200 to 250 on [1]"]);
    assert_eq!(late, [3]);
}

#[test]
fn on_nodes_of_different_ratings_nobody_is_planned_before_the_slowest_is_done() {
    let mut machine = Machine::uniform(2, 1);
    machine.nodes[1].rating = 0.5;
    // On the faster node alone the first would be done at 10; its processes wait for those on the slower one.
    let jobs = [wide(0.0, 10.0, 25.0, 2), wide(0.0, 10.0, 20.0, 1)];
    assert_eq!(
        fates(&jobs, &machine, Suspend::Never),
        ["0 to 20 on [0, 1]", "share at 0"]
    );
    let jobs = [wide(0.0, 10.0, 25.0, 2), wide(0.0, 10.0, 30.0, 1)];
    assert_eq!(
        fates(&jobs, &machine, Suspend::Never),
        ["0 to 20 on [0, 1]", "20 to 30 on [0]"]
    );
}

/// Jobs that come at random, with whole and half seconds, so that many things happen at one time.
fn workload(exact: bool) -> impl Strategy<Value = Vec<Job>> {
    let one = (0u32..20, 1u32..60, 2u32..24, 1u32..6, 0u64..3, 1u32..20);
    prop::collection::vec(one, 1..80).prop_map(move |jobs| {
        let mut now = 0.0;
        let made = jobs.into_iter().map(
            |(after, run_time, factor, processors, memory, tenths_more)| {
                now += f64::from(after) / 2.0;
                let run_time = f64::from(run_time) / 2.0;
                let estimate = match exact {
                    true => run_time,
                    false => run_time * f64::from(tenths_more) / 10.0,
                };
                let deadline = estimate * f64::from(factor) / 2.0;
                let mut job = says(estimate, wide(now, run_time, deadline, processors));
                job.memory = memory;
                job
            },
        );
        made.collect()
    })
}

/// At no moment is more work done than the machine can do, and all of the work of those who ran is.
fn check_work(told: &Told, jobs: &[Job], machine: &Machine) -> Result<(), TestCaseError> {
    let mut changes: Vec<(f64, f64)> = Vec::new();
    for (from, to, work) in &told.work {
        let pace = work / (to - from);
        // Ends that are a microsecond apart are one.
        changes.extend([(*from, pace), ((to - 2e-6).max(*from), -pace)]);
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let most: f64 = (machine.nodes.iter())
        .map(|node| node.processors * node.rating)
        .sum();
    let mut pace = 0.0;
    for (at, change) in changes {
        pace += change;
        prop_assert!(pace <= most + 1e-6, "{} at {}", pace, at);
    }
    let done: f64 = told.work.iter().map(|work| work.2).sum();
    let ran = told.fates.iter().filter(|fate| fate.1.contains(" to "));
    let wanted: f64 = (ran.map(|fate| &jobs[fate.0]))
        .map(|job| job.run_time * f64::from(job.processors))
        .sum();
    prop_assert!(
        (done - wanted).abs() < 1e-6 * (1.0 + wanted),
        "{} {}",
        done,
        wanted
    );
    let mut indices: Vec<usize> = told.fates.iter().map(|fate| fate.0).collect();
    indices.sort_unstable();
    prop_assert!(indices.into_iter().eq(0..jobs.len()), "each is told once");
    Ok(())
}

/// Nodes of these ratings, in halves.
fn machine(ratings: &[u32], processors: u32) -> Machine {
    let mut machine = Machine::uniform(ratings.len(), processors);
    for (node, rating) in machine.nodes.iter_mut().zip(ratings) {
        node.memory = 4;
        node.rating = f64::from(*rating) / 2.0;
    }
    machine
}

/// Mostly all alike.
fn ratings() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        prop::collection::vec(Just(2u32), 1..6),
        prop::collection::vec(1u32..4, 1..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(20_041_120),
        ..ProptestConfig::with_cases(400)
    })]

    /// With exact estimates no accepted job is late, whoever stands still for whom, and no node is promised twice ([`Site`] looks at each).
    #[test]
    fn with_exact_estimates_nobody_who_is_accepted_is_late(
        jobs in workload(true),
        ratings in ratings(),
        processors in 1u32..4,
    ) {
        let machine = machine(&ratings, processors);
        for suspend in [Suspend::Never, Suspend::Memory] {
            let told = told(&jobs, &machine, suspend);
            prop_assert_eq!(&told.late, &[0usize; 0], "{:?}", suspend);
            check_work(&told, &jobs, &machine)?;
        }
    }

    /// Nor is anybody who needs no more than it says, however wrong the others are.
    #[test]
    fn whoever_is_late_has_outlived_its_estimate(
        jobs in workload(false),
        ratings in ratings(),
        processors in 1u32..4,
    ) {
        let machine = machine(&ratings, processors);
        for suspend in [Suspend::Never, Suspend::Memory] {
            let told = told(&jobs, &machine, suspend);
            for &late in &told.late {
                let job = &jobs[late];
                prop_assert!(job.run_time > job.terms.estimate, "{} {:?}", late, suspend);
            }
            check_work(&told, &jobs, &machine)?;
        }
    }
}
