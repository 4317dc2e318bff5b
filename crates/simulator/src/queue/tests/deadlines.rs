//! Cases worked out by hand of the queues that know deadlines and backfill.

use super::{CONSERVATIVE, EASY_DROP, EDF_BACKFILL, Told, due, run, starts};
use crate::Machine;
use crate::queue::{Dropping, Easy};

#[test]
fn a_hopeless_job_is_dropped_and_others_go_ahead() {
    // One processor. Job 1 (5 s, due at 13) is looked at when job 0 ends at 10: 15 is too late. Job 2 has
    // the processor from then on; under EASY it would wait for job 1, which ends late.
    let jobs = [
        due(0.0, 1, 10.0, 10.0),
        due(1.0, 1, 5.0, 12.0),
        due(2.0, 1, 5.0, 20.0),
    ];
    let machine = Machine::uniform(1, 1);
    let told = run(EASY_DROP, &jobs, &machine);
    assert_eq!(told[0], Told::Ended(0, 0.0, 10.0, vec![0]));
    assert_eq!(told[1], Told::Refused(1, 10.0, "deadline"));
    assert_eq!(told[2], Told::Ended(2, 10.0, 15.0, vec![0]));
    assert_eq!(starts(&run(Easy, &jobs, &machine)), [0.0, 10.0, 15.0]);
    // Due at 15 it would just be in time, but not with a margin of a tenth.
    let mut jobs = jobs;
    jobs[1].terms.deadline = 14.0;
    assert_eq!(starts(&run(EASY_DROP, &jobs, &machine)), [0.0, 10.0, 15.0]);
    let careful = Dropping {
        estimate_margin: 0.1,
        ..EASY_DROP
    };
    assert_eq!(starts(&run(careful, &jobs, &machine)), [0.0, -1.0, 10.0]);
}

#[test]
fn who_asks_for_less_than_the_estimate_is_taken_at_his_word() {
    // Estimated at 50 s, needs 10 of its 12: it starts at once, and is hopeless as soon as it waits.
    let mut hurried = due(0.0, 1, 10.0, 12.0);
    hurried.terms.estimate = 50.0;
    let mut second = hurried;
    second.submit = 1.0;
    let machine = Machine::uniform(1, 1);
    let jobs = [hurried, second];
    for told in [
        run(EASY_DROP, &jobs, &machine),
        run(EDF_BACKFILL, &jobs, &machine),
    ] {
        assert_eq!(starts(&told), [0.0, -1.0]);
    }
    // The other is planned until 12, which is too late for the second: refused at once.
    let told = run(CONSERVATIVE, &jobs, &machine);
    assert_eq!(told[0], Told::Refused(1, 1.0, "deadline"));
    assert_eq!(told[1], Told::Ended(0, 0.0, 10.0, vec![0]));
}

#[test]
fn edf_with_backfilling_reserves_for_the_earliest_deadline() {
    // Four processors, of which job 0 has three until 10. Job 2 (two, due at 32) comes before job 1 (four,
    // due at 41): it is expected at 10, and two are extra then. Job 3 (one, 4 s) ends by 10. Job 2 runs
    // from 10 to 15, then job 1. Under EASY job 1 is first.
    let jobs = [
        due(0.0, 3, 10.0, 100.0),
        due(1.0, 4, 5.0, 40.0),
        due(2.0, 2, 5.0, 30.0),
        due(3.0, 1, 4.0, 100.0),
    ];
    let machine = Machine::uniform(4, 1);
    let told = run(EDF_BACKFILL, &jobs, &machine);
    assert_eq!(starts(&told), [0.0, 15.0, 10.0, 3.0]);
    assert_eq!(starts(&run(Easy, &jobs, &machine)), [0.0, 10.0, 15.0, 3.0]);
}

#[test]
fn conservative_backfilling_promises_what_it_can_reserve() {
    // Two processors, both taken until 10, and by job 1 from 10 to 20. Job 2 (5 s, due at 17) would be
    // reserved from 20 on: refused at once. Job 3 (due at 33) is reserved from 20 to 25.
    let mut jobs = [
        due(0.0, 2, 10.0, 100.0),
        due(1.0, 2, 10.0, 25.0),
        due(2.0, 1, 5.0, 15.0),
        due(3.0, 1, 5.0, 30.0),
    ];
    let machine = Machine::uniform(2, 1);
    let told = run(CONSERVATIVE, &jobs, &machine);
    assert_eq!(told[0], Told::Refused(2, 2.0, "deadline"));
    assert_eq!(starts(&told), [0.0, 10.0, -1.0, 20.0]);
    // Job 0 ends at 6: all move forward.
    jobs[0].run_time = 6.0;
    let told = run(CONSERVATIVE, &jobs, &machine);
    assert_eq!(starts(&told), [0.0, 6.0, -1.0, 16.0]);
    // It ends at 12 instead: at 10 nothing ends, at 12 job 1 starts, two seconds late.
    jobs[0].run_time = 12.0;
    let told = run(CONSERVATIVE, &jobs, &machine);
    assert_eq!(starts(&told), [0.0, 12.0, -1.0, 22.0]);
}

#[test]
fn conservative_backfilling_fills_gaps_that_delay_nobody() {
    // Four processors, three taken until 10; job 1 has all of them from 10 to 15. Job 2 (one, 7 s) ends by
    // 9 on the free one, job 3 (one, 9 s) would not and comes after job 1.
    let jobs = [
        due(0.0, 3, 10.0, 100.0),
        due(1.0, 4, 5.0, 40.0),
        due(2.0, 1, 7.0, 40.0),
        due(2.0, 1, 9.0, 40.0),
    ];
    let told = run(CONSERVATIVE, &jobs, &Machine::uniform(4, 1));
    assert_eq!(starts(&told), [0.0, 10.0, 2.0, 15.0]);
}

#[test]
fn while_a_job_outlives_its_plan_it_is_taken_to_need_a_tenth_more() {
    // Planned until 10, it runs until 30. At 11 it is taken to end at 11 (10 + 1, which is now) and so at
    // 12.1; a job of 5 s due at 17 is refused, one due at 18 accepted, and late.
    let mut long = due(0.0, 1, 30.0, 100.0);
    long.terms.estimate = 10.0;
    let jobs = [long, due(11.0, 1, 5.0, 6.0), due(11.0, 1, 5.0, 7.0)];
    let told = run(CONSERVATIVE, &jobs, &Machine::uniform(1, 1));
    assert_eq!(told[0], Told::Refused(1, 11.0, "deadline"));
    assert_eq!(starts(&told), [0.0, -1.0, 30.0]);
}
