//! Jobs with shares and jobs with whole processors on one machine.

use super::*;
use crate::shares::{Shares, Waiting};
use libra_core::decision::policy::{AnyPolicy, Libra, LibraAdaptive};

/// A job whose processes wait for each other.
fn coupled(job: Job) -> Job {
    Job {
        coupled: true,
        ..job
    }
}

fn rule(policy: AnyPolicy, suspends: bool) -> Classes {
    Classes {
        admission: Admission {
            policy,
            ..Admission::default()
        },
        spare: Spare::Idle,
        dedicated: Dedicated::Coupled,
        suspends,
    }
}

fn policies() -> [AnyPolicy; 2] {
    [
        AnyPolicy::Libra(Libra::default()),
        AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
    ]
}

fn run(scheduler: &mut impl Scheduler, jobs: &[Job], machine: &Machine) -> Told {
    let mut told = Told::default();
    scheduler.run(jobs, machine, &mut told);
    told.fates.sort_unstable();
    told
}

/// What becomes of them where shares are those of 2004, and nobody stands still.
fn fates(jobs: &[Job], machine: &Machine) -> Vec<String> {
    let told = run(&mut rule(policies()[0], false), jobs, machine);
    assert!(told.fates.iter().map(|fate| fate.0).eq(0..jobs.len()));
    told.fates.into_iter().map(|fate| fate.1).collect()
}

#[test]
fn who_waits_for_others_of_its_own_is_dedicated() {
    let class = |dedicated: Dedicated, job: &Job| dedicated.class_of(job);
    let (one, two) = (wide(0.0, 1.0, 2.0, 1), wide(0.0, 1.0, 2.0, 2));
    let (coupled_one, coupled_two) = (coupled(one), coupled(two));
    for (job, expected) in [
        (&one, Class::Deadline),
        (&two, Class::Deadline),
        (&coupled_one, Class::Deadline),
        (&coupled_two, Class::Dedicated),
    ] {
        assert_eq!(class(Dedicated::Coupled, job), expected, "{job:?}");
        assert_eq!(class(Dedicated::All, job), Class::Dedicated);
    }
}

#[test]
fn a_processor_is_shared_or_whole_by_plan() {
    let jobs = [
        // Half of a processor until 10.
        wide(0.0, 5.0, 10.0, 1),
        // Both: one is shared until then.
        coupled(wide(0.0, 4.0, 20.0, 2)),
        // Half of one, and ends in front of it.
        wide(1.0, 4.0, 8.0, 1),
        // Would have its share at a time when both are whole.
        wide(1.0, 4.0, 12.0, 1),
        // After it.
        wide(14.0, 4.0, 8.0, 1),
    ];
    let expected = [
        "0 to 10 on [0]",
        "10 to 14 on [0]",
        "1 to 9 on [0]",
        "share at 1",
        "14 to 22 on [0]",
    ];
    assert_eq!(fates(&jobs, &Machine::uniform(1, 2)), expected);
}

#[test]
fn shares_in_the_order_of_deadlines_are_not_late_for_a_start_to_come() {
    let mut jobs = vec![wide(0.0, 6.6, 10.0, 1); 3];
    jobs.extend(vec![wide(0.0, 10.0, 20.0, 1); 2]);
    jobs.push(coupled(wide(0.0, 15.0, 40.0, 2)));
    let told = run(
        &mut rule(policies()[1], false),
        &jobs,
        &Machine::uniform(1, 3),
    );
    assert_eq!(told.late, [0; 0]);
    // It is planned for 20, when the last of them are to be done, and they are sooner.
    let last = rounded(&told).pop().map(|fate| fate.1);
    assert_eq!(last.as_deref(), Some("16.270 to 31.270 on [0]"));
}

#[test]
fn shares_that_end_early_let_a_planned_job_begin() {
    let jobs = [
        says(5.0, wide(0.0, 2.0, 10.0, 1)),
        coupled(wide(0.0, 4.0, 20.0, 2)),
    ];
    let expected = ["0 to 4 on [0]", "4 to 8 on [0]"];
    assert_eq!(fates(&jobs, &Machine::uniform(1, 2)), expected);
}

#[test]
fn who_outlives_its_share_keeps_it_until_its_deadline_and_then_has_what_is_left() {
    let jobs = [
        // Has used its estimate at 10, and its deadline is then.
        says(5.0, wide(0.0, 7.0, 10.0, 1)),
        coupled(wide(0.0, 4.0, 14.0, 2)),
    ];
    // 5 s of work by 10; nothing is left until 14.
    let expected = ["0 to 16 on [0]", "10 to 14 on [0]"];
    assert_eq!(fates(&jobs, &Machine::uniform(1, 2)), expected);
}

#[test]
fn slots_with_shares_make_their_own_way() {
    let mut machine = Machine::uniform(2, 1);
    machine.nodes[1].rating = 0.75;
    // The same end on both, by shares of 0.6 and 0.8.
    let jobs = [wide(0.0, 12.0, 20.0, 2)];
    let told = run(&mut rule(policies()[0], false), &jobs, &machine);
    assert_eq!(rounded(&told)[0].1, "0.000 to 20.000 on [0, 1]");
    // In the order of deadlines at full speed: the fast one is done at 12.
    let jobs = [wide(0.0, 12.0, 20.0, 2), wide(12.0, 5.0, 8.0, 1)];
    let told = run(&mut rule(policies()[1], false), &jobs, &machine);
    assert_eq!(told.fates[0].1, "0 to 16 on [0, 1]");
    assert_eq!(told.fates[1].1, "12 to 17 on [0]");
}

/// Jobs of both classes.
fn mixed(exact: bool) -> impl Strategy<Value = Vec<Job>> {
    let kinds = prop::collection::vec(0u8..3, 80);
    (workload(exact), kinds).prop_map(|(jobs, kinds)| {
        let of_kind = |(job, kind): (Job, u8)| match kind {
            0 => coupled(job),
            // Most of those with shares have one processor.
            1 => Job {
                processors: 1,
                ..job
            },
            _ => job,
        };
        jobs.into_iter().zip(kinds).map(of_kind).collect()
    })
}

/// Mostly few: then jobs meet.
fn processors() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 1u32..4, 1 => 4u32..12]
}

/// Times to a thousandth: sums of times come in another order.
fn rounded(told: &Told) -> Vec<(usize, String)> {
    let round = |word: &str| match word.parse::<f64>() {
        Ok(number) => format!("{:.3}", number + 1e-9),
        Err(_) => word.to_string(),
    };
    let of = |text: &str| text.split(' ').map(round).collect::<Vec<_>>().join(" ");
    told.fates.iter().map(|(i, text)| (*i, of(text))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(20_061_128),
        ..ProptestConfig::with_cases(400)
    })]

    /// With exact estimates no accepted job is late, of whatever class, and no node is promised twice.
    #[test]
    fn with_exact_estimates_nobody_of_either_class_is_late(
        jobs in mixed(true),
        ratings in ratings(),
        processors in processors(),
    ) {
        let machine = machine(&ratings, processors);
        for policy in policies() {
            for suspends in [false, true] {
                let told = run(&mut rule(policy, suspends), &jobs, &machine);
                prop_assert_eq!(&told.late, &[0usize; 0], "{:?} {}", policy, suspends);
                check_work(&told, &jobs, &machine)?;
            }
        }
    }

    /// Nor is anybody who needs no more than it says, however wrong the others are, where shares add up.
    #[test]
    fn whoever_is_late_of_either_class_has_outlived_its_estimate(
        jobs in mixed(false),
        ratings in ratings(),
        processors in processors(),
    ) {
        let machine = machine(&ratings, processors);
        for suspends in [false, true] {
            let told = run(&mut rule(policies()[0], suspends), &jobs, &machine);
            for &late in &told.late {
                let job = &jobs[late];
                prop_assert!(job.run_time > job.terms.estimate, "{} {}", late, suspends);
            }
            check_work(&told, &jobs, &machine)?;
        }
    }

    /// Where all have one processor and need what they say it is the same as shares alone, by two books and two machines that share no code but the
    /// decision.
    #[test]
    fn jobs_with_shares_alone_fare_as_under_their_policy(
        jobs in workload(true),
        nodes in 1usize..5,
    ) {
        let jobs: Vec<Job> = (jobs.into_iter()).map(|job| Job { processors: 1, memory: 0, ..job }).collect();
        let machine = Machine::uniform(nodes, 2);
        for policy in policies() {
            let both = run(&mut rule(policy, true), &jobs, &machine);
            let mut alone = Shares {
                admission: Admission { policy, ..Admission::default() },
                spare: Spare::Idle,
                waiting: Waiting::Block,
            };
            let alone = run(&mut alone, &jobs, &machine);
            prop_assert_eq!(rounded(&both), rounded(&alone), "{:?}", policy);
        }
    }
}
