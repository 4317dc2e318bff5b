//! Moving and stopping, worked out by hand.

use super::*;

#[test]
fn a_planned_job_of_a_lower_class_is_moved() {
    let (told, displaced) = run(
        1,
        &[
            (Dedicated, job(0.0, 10.0, 1)),
            (Dedicated, job(0.0, 5.0, 1)), // planned from 10 to 15
            // Due at 16: at 10 the planned job is in its way, at 15 it is too late. So it takes
            // 10 to 14, and the other one moves to 14.
            (Deadline, due(1.0, 4.0, 1, 15.0)),
        ],
    );
    assert_eq!(displaced.moved, [(1, 1.0, 14.0)]);
    assert_eq!(displaced.stopped, []);
    assert_eq!(told.times(0), (0.0, 10.0));
    assert_eq!(told.times(1), (14.0, 19.0));
    assert_eq!(told.times(2), (10.0, 14.0));
}

#[test]
fn a_running_job_of_a_lower_class_is_stopped_and_goes_on_where_it_was() {
    let (told, displaced) = run(
        3,
        &[
            (Dedicated, job(0.0, 10.0, 2)),    // hosts 0 and 1
            (Deadline, due(0.0, 6.0, 1, 6.0)), // host 2, nothing to spare
            // Due at 7: nobody is to move, so the first stops at 2 with 8 s left.
            (Deadline, due(2.0, 3.0, 1, 5.0)),
        ],
    );
    assert_eq!(displaced.moved, []);
    assert_eq!(displaced.stopped, [(0, 2.0, 5.0)]);
    assert_eq!(told.times(2), (2.0, 5.0));
    assert_eq!(told.hosts(2), [0]);
    // Both of its tasks go on at one time and on their hosts, though host 1 was free at 2 and
    // host 2 is from 6 on.
    assert_eq!(told.times(0), (0.0, 13.0));
    assert_eq!(told.hosts(0), [0, 1]);
}

#[test]
fn high_priority_stops_lower_classes_and_is_not_stopped_itself() {
    let (told, displaced) = run(
        1,
        &[
            (Dedicated, job(0.0, 10.0, 1)),
            (AT_ONCE, job(1.0, 4.0, 1)),
            // At 2 the running job has 3 s left: together with it this would end at 4 + 2 > 5.
            (Deadline, due(2.0, 2.0, 1, 3.0)),
        ],
    );
    assert_eq!(displaced.stopped, [(0, 1.0, 5.0)]);
    assert_eq!(told.times(1), (1.0, 5.0));
    assert_eq!(told.refused, [(2, 2.0, "share")]);
    assert_eq!(told.times(0), (0.0, 14.0));
}

#[test]
fn nobody_gives_way_to_its_own_class_nor_high_priority_once_it_runs() {
    // Due at 3, so it would need the host to itself from 1 on. Who runs could go on then, within
    // any limit.
    let tight = (Deadline, due(1.0, 2.0, 1, 2.0));
    for first in [Deadline, AT_ONCE] {
        let (told, displaced) = run(1, &[(first, due(0.0, 10.0, 1, 100.0)), tight]);
        assert_eq!(told.refused, [(1, 1.0, "share")]);
        assert_eq!(displaced.stopped, []);
    }
}

#[test]
fn of_several_that_may_go_only_those_in_the_way_do() {
    let jobs = [
        (BestEffort, job(0.0, 10.0, 2)), // hosts 0 and 1
        (BestEffort, job(0.0, 10.0, 1)), // host 2
        // Needs two hosts to itself.
        (Deadline, due(1.0, 5.0, 2, 5.0)),
    ];
    let machine = Machine::uniform(3, 1);
    // The last one submitted is tried first and alone is not enough; then the first one.
    let (told, displaced) = run_with(&machine, &jobs, 2);
    assert_eq!(displaced.stopped, [(0, 1.0, 6.0)]);
    assert_eq!(told.times(1), (0.0, 10.0));
    assert_eq!(told.times(0), (0.0, 15.0));
    // One at a time comes to the same here, but not where two have to go.
    assert_eq!(run_with(&machine, &jobs, 1).1.stopped, [(0, 1.0, 6.0)]);
    let wide = [jobs[0], jobs[1], (Deadline, due(1.0, 5.0, 3, 5.0))];
    assert_eq!(run_with(&machine, &wide, 1).0.refused, [(2, 1.0, "share")]);
    let (told, displaced) = run_with(&machine, &wide, 2);
    assert_eq!(displaced.stopped, [(0, 1.0, 6.0), (1, 1.0, 6.0)]);
    assert_eq!(told.times(2), (1.0, 6.0));
}

#[test]
fn best_effort_goes_before_dedicated_where_one_has_to_stop() {
    let (told, displaced) = run(
        2,
        &[
            (BestEffort, job(0.0, 10.0, 1)),
            (Dedicated, job(0.0, 10.0, 1)),
            // Alone it ends just in time, on either host.
            (Deadline, due(1.0, 5.0, 1, 5.0)),
        ],
    );
    assert_eq!(displaced.stopped, [(0, 1.0, 6.0)]);
    assert_eq!(told.times(1), (0.0, 10.0));
    assert_eq!(told.times(0), (0.0, 15.0));
}
