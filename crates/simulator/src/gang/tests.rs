use super::*;
use crate::schedulers::{self, GangOptions, Options};
use crate::testing::job;
use libra_core::decision::node::NodeSpec;
use libra_core::gang::Suspend;

/// Index, what became of it (a reason, or start, end and nodes), and how many were promised later.
#[derive(Default)]
struct Told(Vec<(usize, String)>, usize);

impl Observer for Told {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let fate = match outcome.fate {
            Fate::Refused { at, reason } => format!("{reason} at {at}"),
            Fate::Ended {
                start,
                finish,
                nodes,
                ..
            } => format!("{start} to {finish} on {nodes:?}"),
        };
        self.0.push((outcome.index, fate));
    }

    fn promised_later(&mut self) {
        self.1 += 1;
    }
}

fn wide(submit: f64, run_time: f64, deadline: f64, processors: u32) -> Job {
    Job {
        processors,
        ..job(submit, run_time, deadline)
    }
}

fn told(jobs: &[Job], machine: &Machine, gang: GangOptions) -> Told {
    let options = Options {
        gang,
        ..Options::default()
    };
    let mut told = Told::default();
    let mut scheduler = schedulers::named("libra-gang", &options).expect("a known name");
    scheduler.run(jobs, machine, &mut told);
    told
}

fn fates(jobs: &[Job], machine: &Machine, gang: GangOptions) -> Vec<String> {
    let mut told = told(jobs, machine, gang).0;
    told.sort_unstable();
    assert!(told.iter().map(|told| told.0).eq(0..jobs.len()));
    told.into_iter().map(|told| told.1).collect()
}

#[test]
fn two_nodes_worked_out_by_hand() {
    let jobs = [
        // Runs 0 to 1, is suspended, goes on from 5 to 14.
        wide(0.0, 10.0, 20.0, 3),
        // Needs two processors by 6: one is free.
        wide(1.0, 4.0, 5.0, 2),
        // Uses what the first one leaves meanwhile.
        wide(1.0, 2.0, 30.0, 1),
        // All four, before the first one is due: from 14 on, as it is due at 24 only.
        wide(2.0, 10.0, 22.0, 4),
    ];
    let expected = [
        "0 to 14 on [0, 1]",
        "1 to 5 on [0, 1]",
        "1 to 3 on [0]",
        "14 to 24 on [0, 1]",
    ];
    let machine = Machine::uniform(2, 2);
    assert_eq!(fates(&jobs, &machine, GangOptions::default()), expected);
    // Where nobody is suspended, the second one is refused.
    let never = GangOptions {
        suspend: Suspend::Never,
        ..GangOptions::default()
    };
    let expected = [
        "0 to 10 on [0, 1]",
        "time at 1",
        "1 to 3 on [1]",
        "10 to 20 on [0, 1]",
    ];
    assert_eq!(fates(&jobs, &machine, never), expected);
}

#[test]
fn a_job_moves_up_when_another_ends_early_and_overruns_when_it_needs_more() {
    let mut early = wide(0.0, 4.0, 10.0, 1);
    early.terms.estimate = 10.0;
    let mut longer = wide(0.0, 10.0, 30.0, 1);
    longer.terms.estimate = 5.0;
    let machine = Machine::uniform(1, 1);
    let expected = ["0 to 4 on [0]", "4 to 14 on [0]"];
    assert_eq!(
        fates(&[early, longer], &machine, GangOptions::default()),
        expected
    );
}

#[test]
fn what_is_refused_waits_only_where_that_is_wanted() {
    let mut early = wide(0.0, 2.0, 10.0, 1);
    early.terms.estimate = 10.0;
    let jobs = [early, wide(0.0, 5.0, 8.0, 1), wide(0.0, 5.0, 9.0, 1)];
    let machine = Machine::uniform(1, 1);
    let plain = ["0 to 2 on [0]", "time at 0", "time at 0"];
    assert_eq!(fates(&jobs, &machine, GangOptions::default()), plain);
    let wait = GangOptions {
        wait_for_promise: true,
        ..GangOptions::default()
    };
    // The second one is promised at 2; the third could start at 4 at the latest.
    let expected = ["0 to 2 on [0]", "2 to 7 on [0]", "time at 4"];
    assert_eq!(fates(&jobs, &machine, wait), expected);
    assert_eq!(told(&jobs, &machine, wait).1, 1);
}

#[test]
fn what_does_not_fit_the_machine_is_refused() {
    let machine = Machine {
        nodes: vec![
            NodeSpec {
                processors: 2.0,
                rating: 1.0,
                memory: 100,
            };
            2
        ],
    };
    let mut large = wide(0.0, 1.0, 9.0, 1);
    large.memory = 101;
    let mut dear = wide(0.0, 10.0, 90.0, 1);
    dear.terms.budget = 1.0;
    let jobs = [wide(0.0, 1.0, 9.0, 5), large, dear];
    let expected = ["chunks at 0", "memory at 0", "budget at 0"];
    assert_eq!(fates(&jobs, &machine, GangOptions::default()), expected);
}

#[test]
fn equal_processors_of_half_the_speed_take_twice_as_long() {
    let mut machine = Machine::uniform(2, 1);
    machine.nodes[1].rating = 0.5;
    let jobs = [wide(0.0, 10.0, 30.0, 2)];
    let expected = ["0 to 20 on [0, 1]"];
    assert_eq!(fates(&jobs, &machine, GangOptions::default()), expected);
}
