//! Each class of service, worked out by hand.

use super::*;

#[test]
fn best_effort_starts_when_it_comes_and_shares() {
    // The first has 6 of 10 left at 4; at half speed that ends at 16. Then the other has 10 - 6.
    let jobs = [
        (BestEffort, job(0.0, 10.0, 1)),
        (BestEffort, job(4.0, 10.0, 1)),
    ];
    let (told, _) = run(1, &jobs);
    assert_eq!(told.times(0), (0.0, 16.0));
    assert_eq!(told.times(1), (4.0, 20.0));
    // With two hosts the second is the better one for the second job: 10 s against 16.
    let (told, _) = run(2, &jobs);
    assert_eq!(told.times(1), (4.0, 14.0));
    assert_eq!((told.hosts(0), told.hosts(1)), (&[0][..], &[1][..]));
}

#[test]
fn more_tasks_than_processors_share_hosts() {
    // Three tasks of 4 s on two hosts: two share one and end at 8, the third is alone.
    let (told, _) = run(2, &[(BestEffort, job(0.0, 4.0, 3))]);
    assert_eq!(told.times(0), (0.0, 8.0));
    assert_eq!(told.hosts(0), [0, 1]);
}

#[test]
fn dedicated_jobs_wait_for_each_other_and_fill_holes() {
    let (told, _) = run(
        2,
        &[
            (Dedicated, job(0.0, 10.0, 1)), // host 0 until 10
            (Dedicated, job(1.0, 5.0, 2)),  // needs both: 10 to 15
            (Dedicated, job(1.0, 9.0, 1)),  // fits between 1 and 10 on host 1
            (Dedicated, job(1.0, 9.5, 1)),  // fits nowhere before 15
            (BestEffort, job(2.0, 1.0, 1)), // both hosts have dedicated tasks until 15
        ],
    );
    assert_eq!(told.times(0), (0.0, 10.0));
    assert_eq!(told.times(1), (10.0, 15.0));
    assert_eq!(told.times(2), (1.0, 10.0));
    assert_eq!(told.times(3), (15.0, 24.5));
    assert_eq!(told.times(4), (15.0, 16.0));
    assert_eq!(told.hosts(2), [1]);
}

#[test]
fn best_effort_does_not_delay_a_planned_dedicated_job() {
    let (told, _) = run(
        1,
        &[
            (BestEffort, job(0.0, 10.0, 1)),
            // Not alone before 12.
            (Dedicated, job(1.0, 5.0, 1)),
            // From 2 on the host has 8 s of work and until 10 nothing to spare.
            (BestEffort, job(2.0, 3.0, 1)),
        ],
    );
    assert_eq!(told.times(0), (0.0, 10.0));
    assert_eq!(told.times(1), (10.0, 15.0));
    assert_eq!(told.times(2), (15.0, 18.0));
}

#[test]
fn a_dedicated_job_leaves_the_other_processors_of_a_host() {
    // Two processors: one dedicated for 10 s, the two others share one and have 5 s each at 10.
    let (told, _) = run_on(
        &Machine::uniform(1, 2),
        &[
            (Dedicated, job(0.0, 10.0, 1)),
            (BestEffort, job(0.0, 10.0, 2)),
            (Dedicated, job(1.0, 3.0, 2)),
        ],
    );
    assert_eq!(told.times(0), (0.0, 10.0));
    assert_eq!(told.times(1), (0.0, 15.0));
    assert_eq!(told.times(2), (15.0, 18.0));
}

#[test]
fn deadlines_hold_for_the_new_job_and_for_those_before() {
    // Together the first two end at 16 (8 s each) and 18.
    let two = [
        (Deadline, due(0.0, 10.0, 1, 20.0)),
        (Deadline, due(0.0, 8.0, 1, 18.0)),
    ];
    let (told, _) = run(1, &two);
    assert_eq!(told.times(0), (0.0, 18.0));
    assert_eq!(told.times(1), (0.0, 16.0));
    // A third would end at 15, and later dates are too late for it.
    let third = (Deadline, due(0.0, 5.0, 1, 10.0));
    let (told, _) = run(1, &[two[0], two[1], third]);
    assert_eq!(told.refused, [(2, 0.0, "share")]);
    // One with time enough for itself would end at 15 too, and the second then at 21. At 16, when
    // that has ended, the first has 2 s left and ends just in time, at 20; the new one at 23.
    let patient = (Deadline, due(0.0, 5.0, 1, 30.0));
    let (told, _) = run(1, &[two[0], two[1], patient]);
    assert_eq!(told.times(0), (0.0, 20.0));
    assert_eq!(told.times(2), (16.0, 23.0));
}

#[test]
fn a_deadline_job_starts_later_where_now_would_break_a_promise() {
    let (told, _) = run(
        1,
        &[
            (Deadline, due(0.0, 10.0, 1, 12.0)),
            // Now the first would end at 15.
            (Deadline, due(0.0, 5.0, 1, 20.0)),
        ],
    );
    assert_eq!(told.times(0), (0.0, 10.0));
    assert_eq!(told.times(1), (10.0, 15.0));
}

#[test]
fn high_priority_starts_within_its_limit_or_is_refused() {
    let tight = (Deadline, due(0.0, 10.0, 1, 10.0));
    let (told, _) = run(1, &[tight, (AT_ONCE, job(1.0, 1.0, 1))]);
    assert_eq!(told.refused, [(1, 1.0, "share")]);
    // 4 s before the end it can wait for it.
    let (told, _) = run(1, &[tight, (AT_ONCE, job(6.0, 1.0, 1))]);
    assert_eq!(told.times(1), (10.0, 11.0));
    // Where the deadline allows, it starts at once.
    let loose = (Deadline, due(0.0, 10.0, 1, 20.0));
    let (told, _) = run(1, &[loose, (AT_ONCE, job(1.0, 1.0, 1))]);
    assert_eq!(told.times(1), (1.0, 3.0));
    assert_eq!(told.times(0), (0.0, 11.0));
}

#[test]
fn hosts_with_less_of_their_memory_used_come_first() {
    let machine = Machine {
        nodes: [100, 1000]
            .map(|memory| NodeSpec {
                processors: 1.0,
                rating: 1.0,
                memory,
            })
            .to_vec(),
    };
    // Not at 0: finish times are ranked from now, whatever the date is.
    let mut jobs = [job(1000.0, 10.0, 1), job(1000.0, 4.0, 1)];
    jobs.iter_mut().for_each(|job| job.memory = 50);
    let aroma = |memory_weight| {
        let aroma = Aroma {
            memory_weight,
            ..Aroma::all(BestEffort)
        };
        let mut told = Told::default();
        aroma.run_observed(&jobs, &machine, &mut told, &mut ());
        (told.hosts(0).to_vec(), told.hosts(1).to_vec())
    };
    // First job: 10 x (1 + 50 / 100) = 15 against 10 x (1 + 50 / 1000) = 10.5.
    // Second: 4 x 1.5 = 6 against 14 x 1.1 = 15.4.
    assert_eq!(aroma(1.0), (vec![1], vec![0]));
    // 4 x (1 + 6 x 0.5) = 16 against 14 x (1 + 6 x 0.1) = 22.4; with 20: 44 against 42.
    assert_eq!(aroma(6.0), (vec![1], vec![0]));
    assert_eq!(aroma(20.0), (vec![1], vec![1]));
    // Without the weight both are equal for the first job, and the first host is taken.
    assert_eq!(aroma(0.0), (vec![0], vec![1]));
}

#[test]
fn faster_hosts_take_less_time() {
    let mut machine = Machine::uniform(2, 1);
    machine.nodes[1].rating = 2.0;
    let (told, _) = run_on(&machine, &[(Deadline, due(0.0, 10.0, 1, 5.0))]);
    assert_eq!(told.times(0), (0.0, 5.0));
    assert_eq!(told.hosts(0), [1]);
}

#[test]
fn what_can_never_run_is_refused() {
    let mut nonsense = job(0.0, 10.0, 1);
    nonsense.terms.estimate = f64::NAN;
    let (told, _) = run(
        2,
        &[
            (Dedicated, job(0.0, 10.0, 3)),
            (Deadline, due(0.0, 10.0, 1, 9.0)),
            (BestEffort, nonsense),
            (BestEffort, job(0.0, 10.0, 0)),
            (Class::HighPriority { within: -1.0 }, job(0.0, 10.0, 1)),
        ],
    );
    let reasons: Vec<_> = told.refused.iter().map(|refused| refused.2).collect();
    assert_eq!(
        reasons,
        ["chunks", "deadline", "invalid", "invalid", "invalid"]
    );
    let (told, _) = run(0, &[(BestEffort, job(0.0, 10.0, 1))]);
    assert_eq!(told.refused, [(0, 0.0, "no-node")]);
}

#[test]
fn classes_by_deadline_and_by_queue() {
    assert_eq!(by_deadline(0, &due(0.0, 1.0, 1, 9.0)), Deadline);
    assert_eq!(by_deadline(0, &job(0.0, 1.0, 1)), BestEffort);
    let aroma = Aroma::by_queue(vec![(1, AT_ONCE), (2, Dedicated)]);
    let class = |queue| {
        (aroma.class_of)(
            0,
            &Job {
                queue,
                ..job(0.0, 1.0, 1)
            },
        )
    };
    assert_eq!(
        [class(1), class(2), class(7)],
        [AT_ONCE, Dedicated, BestEffort]
    );
}

#[test]
fn it_can_run_in_another_thread() {
    fn sent<T: Scheduler + Send>(_: &T) {}
    sent(&Aroma::default());
}
