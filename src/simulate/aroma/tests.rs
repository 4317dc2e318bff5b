//! Small cases, worked out by hand.

use super::*;
use crate::decision::job::Terms;
use crate::decision::node::NodeSpec;
use crate::simulate::{Fate, Outcome};

const INF: f64 = f64::INFINITY;
const AT_ONCE: Class = Class::HighPriority { within: 5.0 };

/// What is told of a run, in order.
#[derive(Debug, Default)]
struct Told {
    /// Index, start, finish and hosts.
    ended: Vec<(usize, f64, f64, Vec<u32>)>,
    refused: Vec<(usize, f64, &'static str)>,
}

impl Observer for Told {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        match outcome.fate {
            Fate::Refused { at, reason } => self.refused.push((outcome.index, at, reason)),
            Fate::Ended {
                start,
                finish,
                nodes,
                ..
            } => self
                .ended
                .push((outcome.index, start, finish, nodes.to_vec())),
        }
    }
}

impl Told {
    /// Start and finish of a job.
    fn times(&self, index: usize) -> (f64, f64) {
        let ended = self.ended.iter().find(|ended| ended.0 == index);
        ended.map_or((f64::NAN, f64::NAN), |ended| {
            let round = |time: f64| (time * 1e4).round() / 1e4;
            (round(ended.1), round(ended.2))
        })
    }

    fn hosts(&self, index: usize) -> &[u32] {
        let ended = self.ended.iter().find(|ended| ended.0 == index);
        ended.map_or(&[], |ended| &ended.3)
    }
}

#[derive(Debug, Default)]
struct Displaced {
    /// Index, when that was, start.
    moved: Vec<(usize, f64, f64)>,
    stopped: Vec<(usize, f64, f64)>,
}

impl MappingObserver for Displaced {
    fn moved(&mut self, index: usize, at: f64, start: f64) {
        self.moved.push((index, at, start));
    }
    fn stopped(&mut self, index: usize, at: f64, goes_on: f64) {
        self.stopped.push((index, at, goes_on));
    }
}

/// A job that comes at `submit` and takes `work` seconds on each of its processors.
fn job(submit: f64, work: f64, processors: u32) -> Job {
    Job {
        number: 0,
        submit,
        run_time: work,
        terms: Terms::hard(work, INF, INF),
        processors,
        memory: 0,
        user: 0,
        queue: -1,
        logged_wait: -1.0,
    }
}

/// With a deadline, in seconds after its submission.
fn due(submit: f64, work: f64, processors: u32, deadline: f64) -> Job {
    let mut job = job(submit, work, processors);
    job.terms.deadline = deadline;
    job
}

fn run_on(machine: &Machine, jobs: &[(Class, Job)]) -> (Told, Displaced) {
    let (classes, jobs): (Vec<Class>, Vec<Job>) = jobs.iter().copied().unzip();
    let aroma = Aroma::new(|index, _| classes[index]);
    let (mut told, mut displaced) = (Told::default(), Displaced::default());
    aroma.run_observed(&jobs, machine, &mut told, &mut displaced);
    assert_eq!(told.ended.len() + told.refused.len(), jobs.len());
    (told, displaced)
}

fn run(hosts: usize, jobs: &[(Class, Job)]) -> (Told, Displaced) {
    run_on(&Machine::uniform(hosts, 1), jobs)
}

use Class::{BestEffort, Deadline, Dedicated};

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
    let mut jobs = [job(0.0, 10.0, 1), job(0.0, 4.0, 1)];
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
    let (told, _) = run(1, &[(Dedicated, long), (Dedicated, job(0.0, 5.0, 1))]);
    assert_eq!(told.times(0), (0.0, 14.0));
    assert_eq!(told.times(1), (14.0, 19.0));
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
