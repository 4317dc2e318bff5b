//! Jobs that end otherwise than planned, worked out by hand.

use super::*;

#[test]
fn who_ends_early_makes_room() {
    let mut short = job(0.0, 10.0, 1);
    short.run_time = 4.0;
    let (told, _) = run(
        1,
        &[
            (Dedicated, short),
            (Dedicated, job(0.0, 5.0, 1)),
            (Dedicated, job(0.0, 5.0, 1)),
        ],
    );
    assert_eq!(told.times(0), (0.0, 4.0));
    assert_eq!(told.times(1), (4.0, 9.0));
    assert_eq!(told.times(2), (9.0, 14.0));
}

#[test]
fn who_runs_longer_than_planned_is_waited_for() {
    // At 10 the first is given 10 / 4 more, at 12.5 another 12.5 / 4; it ends at 14, before that.
    let mut long = job(0.0, 10.0, 1);
    long.run_time = 14.0;
    let (told, displaced) = run(
        1,
        &[
            (Dedicated, long),
            (Dedicated, job(0.0, 5.0, 1)),
            // At 11 the first is to end at 12.5 and the second at 17.5; at 13 at 15.625 and 20.625.
            (BestEffort, job(11.0, 3.0, 1)),
            (BestEffort, job(13.0, 3.0, 1)),
        ],
    );
    let starts = displaced.planned.iter().map(|planned| planned.1);
    let starts: Vec<f64> = starts.flatten().collect();
    assert_eq!(starts, [0.0, 10.0, 17.5, 20.625]);
    assert_eq!(told.times(0), (0.0, 14.0));
    assert_eq!(told.times(1), (14.0, 19.0));
    // Both go on together from 19 on.
    assert_eq!((told.times(2), told.times(3)), ((19.0, 25.0), (19.0, 25.0)));
}

#[test]
fn a_job_that_an_overrun_makes_late_still_runs() {
    let mut long = due(0.0, 10.0, 1, 10.0);
    long.run_time = 12.0;
    let (told, _) = run(
        1,
        &[
            (Deadline, long),
            (Deadline, due(0.0, 5.0, 1, 15.0)), // planned from 10 to 15
        ],
    );
    // At 10 it is late in any case; what it can do at least is not to make the first one later
    // still. That ends at 12, before the 12.5 that were planned for it then.
    assert_eq!(told.times(0), (0.0, 12.0));
    assert_eq!(told.times(1), (12.0, 17.0));
}
