//! Cases worked out by hand, in `deadlines` of the queues that know them. `properties` compares with `textbook` on random ones, `logs` on real ones.

mod deadlines;
mod logs;
mod properties;
mod textbook;

use super::{Conservative, Dropping, Easy, Edf, Fifo, Order};
use crate::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_core::decision::job::Terms;
use libra_core::decision::node::NodeSpec;
use libra_workload::Job;

/// What became of a job.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Refused(usize, f64, &'static str),
    Ended(usize, f64, f64, Vec<u32>),
}

#[derive(Default)]
struct Recorder(Vec<Told>);

impl Observer for Recorder {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        self.0.push(match outcome.fate {
            Fate::Refused { at, reason } => Told::Refused(outcome.index, at, reason),
            Fate::Ended {
                start,
                finish,
                nodes,
                price,
            } => {
                assert_eq!(price, 0.0);
                Told::Ended(outcome.index, start, finish, nodes.to_vec())
            }
        });
    }
}

fn run(mut scheduler: impl Scheduler, jobs: &[Job], machine: &Machine) -> Vec<Told> {
    let mut record = Recorder::default();
    scheduler.run(jobs, machine, &mut record);
    record.0
}

/// Start of each job in order of the workload; -1 where it was refused.
fn starts(told: &[Told]) -> Vec<f64> {
    let mut starts = vec![-1.0; told.len()];
    for told in told {
        if let Told::Ended(index, start, ..) = told {
            starts[*index] = *start;
        }
    }
    starts
}

/// Submitted, processors, run time, estimate; a deadline that is far away.
fn job(submit: f64, processors: u32, run_time: f64, estimate: f64) -> Job {
    Job {
        number: 0,
        submit,
        run_time,
        terms: Terms::hard(estimate, 1e6, f64::INFINITY),
        processors,
        memory: 0,
        user: 0,
        queue: -1,
        logged_wait: -1.0,
        coupled: false,
    }
}

/// The estimate is right; a deadline.
fn due(submit: f64, processors: u32, run_time: f64, deadline: f64) -> Job {
    let mut job = job(submit, processors, run_time, run_time);
    job.terms.deadline = deadline;
    job
}

fn node(processors: f64, rating: f64, memory: u64) -> NodeSpec {
    NodeSpec {
        processors,
        rating,
        memory,
    }
}

const EASY_DROP: Dropping = Dropping {
    order: Order::Submission,
    estimate_margin: 0.0,
};
const EDF_BACKFILL: Dropping = Dropping {
    order: Order::Deadline,
    estimate_margin: 0.0,
};
const CONSERVATIVE: Conservative = Conservative {
    estimate_margin: 0.0,
};

// One machine of four processors for the first cases.
//
//   job  submitted  processors  run time
//    0       0          3          10
//    1       1          2           5
//    2       2          1           4
//    3       3          1          20
fn four() -> Vec<Job> {
    vec![
        job(0.0, 3, 10.0, 10.0),
        job(1.0, 2, 5.0, 5.0),
        job(2.0, 1, 4.0, 4.0),
        job(3.0, 1, 20.0, 20.0),
    ]
}

#[test]
fn fifo_holds_up_everything_behind_its_head() {
    // Job 1 needs 2, 1 is free until 10. From 10 on it has two of four; 2 and 3 take the others.
    let told = run(Fifo, &four(), &Machine::uniform(4, 1));
    assert_eq!(
        told,
        [
            Told::Ended(0, 0.0, 10.0, vec![0, 1, 2]),
            Told::Ended(2, 10.0, 14.0, vec![2]),
            Told::Ended(1, 10.0, 15.0, vec![0, 1]),
            Told::Ended(3, 10.0, 30.0, vec![3]),
        ]
    );
}

#[test]
fn easy_fills_the_gap_before_its_head() {
    // Job 1 is expected at 10; 4 are free then and it needs 2, so 2 are extra. Job 2 takes the free
    // processor at 2 and would end at 6, before 10. It ends; job 3 takes it at 6 until 26: past 10,
    // but one of the two extra.
    let told = run(Easy, &four(), &Machine::uniform(4, 1));
    assert_eq!(
        told,
        [
            Told::Ended(2, 2.0, 6.0, vec![3]),
            Told::Ended(0, 0.0, 10.0, vec![0, 1, 2]),
            Told::Ended(1, 10.0, 15.0, vec![0, 1]),
            Told::Ended(3, 6.0, 26.0, vec![3]),
        ]
    );
}

#[test]
fn easy_never_moves_the_reservation_of_its_head() {
    // The head needs all four at 10. Job 2 (8 s from 2: until 10, just in time) is let in; at 10
    // both end, the head runs until 15, and job 3, which would have run past 10, comes last.
    let mut jobs = four();
    jobs[1].processors = 4;
    jobs[2].run_time = 8.0;
    jobs[2].terms.estimate = 8.0;
    let machine = Machine::uniform(4, 1);
    assert_eq!(starts(&run(Easy, &jobs, &machine)), [0.0, 10.0, 2.0, 15.0]);
    // A second more of estimate, and it is not let in either.
    jobs[2].terms.estimate = 9.0;
    assert_eq!(starts(&run(Easy, &jobs, &machine)), [0.0, 10.0, 15.0, 15.0]);
}

#[test]
fn easy_uses_up_what_is_extra() {
    // 0 has 3 of 5 until 10, the head needs 4 then: 1 is extra, 2 are free. Of three long jobs of
    // one processor each the first gets the extra one, the others wait for 14, when the head ends.
    let jobs = [
        job(0.0, 3, 10.0, 10.0),
        job(1.0, 4, 4.0, 4.0),
        job(2.0, 1, 100.0, 100.0),
        job(2.0, 1, 100.0, 100.0),
        job(2.0, 1, 100.0, 100.0),
    ];
    let told = run(Easy, &jobs, &Machine::uniform(5, 1));
    assert_eq!(starts(&told), [0.0, 10.0, 2.0, 14.0, 14.0]);
}

#[test]
fn easy_expects_jobs_that_outlive_their_estimate_to_end_now() {
    // Two processors. 0 says 5 and runs 50. The head, 1, needs both and is expected at 5. Job 2 has
    // 3 s and is let in at 2 (until 5, runs 3). At 6, job 3 comes with 1 s: the head is expected now,
    // nothing ends by now, nothing is extra; it waits for the head, which starts at 50.
    let jobs = [
        job(0.0, 1, 50.0, 5.0),
        job(1.0, 2, 10.0, 10.0),
        job(2.0, 1, 3.0, 3.0),
        job(6.0, 1, 1.0, 1.0),
    ];
    let told = run(Easy, &jobs, &Machine::uniform(2, 1));
    assert_eq!(starts(&told), [0.0, 50.0, 2.0, 60.0]);
    // Three processors, and one more job that says 5 and runs 30: at 6 all three are expected to be
    // free now, so one is extra, and job 3 takes the one that is.
    let jobs = [
        job(0.0, 1, 50.0, 5.0),
        job(0.0, 1, 30.0, 5.0),
        job(1.0, 2, 10.0, 10.0),
        job(6.0, 1, 100.0, 100.0),
    ];
    let told = run(Easy, &jobs, &Machine::uniform(3, 1));
    assert_eq!(starts(&told), [0.0, 0.0, 30.0 + 20.0, 6.0]);
}

#[test]
fn edf_selects_anew_while_it_waits() {
    // One processor. 0 runs until 10. Job 1 (due 100) waits; job 2 (due 1 + 2 + 30 = 32) comes later
    // and overtakes; job 3 is due at 3 + 26 = 29 and overtakes both.
    let jobs = [
        due(0.0, 1, 10.0, 20.0),
        due(1.0, 1, 10.0, 99.0),
        due(2.0, 1, 5.0, 30.0),
        due(3.0, 1, 5.0, 26.0),
    ];
    let told = run(Edf, &jobs, &Machine::uniform(1, 1));
    assert_eq!(starts(&told), [0.0, 20.0, 15.0, 10.0]);
}

#[test]
fn edf_refuses_when_selected_and_not_before() {
    // One processor, 0 runs until 10. Job 1 is due at 12 and needs 5: at 1 it could still do it (1 +
    // 5 ≤ 12), at 10 it cannot (15 > 12). Job 2 is selected at 2 already, as it is due at 6, and
    // needs 5: 7 > 6, refused though nothing is free. Job 3 starts at 10.
    let jobs = [
        due(0.0, 1, 10.0, 20.0),
        due(1.0, 1, 5.0, 11.0),
        due(2.0, 1, 5.0, 4.0),
        due(3.0, 1, 5.0, 40.0),
    ];
    let told = run(Edf, &jobs, &Machine::uniform(1, 1));
    assert_eq!(
        told,
        [
            Told::Refused(2, 2.0, "deadline"),
            Told::Ended(0, 0.0, 10.0, vec![0]),
            Told::Refused(1, 10.0, "deadline"),
            Told::Ended(3, 10.0, 15.0, vec![0]),
        ]
    );
}

#[test]
fn edf_judges_by_the_estimate_alone() {
    // Both would need 5 and be in time; the second says 12, which is more than its 10.
    let mut jobs = [due(0.0, 1, 5.0, 10.0), due(0.0, 1, 5.0, 10.0)];
    jobs[1].terms.estimate = 12.0;
    let told = run(Edf, &jobs, &Machine::uniform(2, 1));
    assert_eq!(
        told,
        [
            Told::Refused(1, 0.0, "deadline"),
            Told::Ended(0, 0.0, 5.0, vec![0]),
        ]
    );
    // And one that says 4 and runs 20 is late, which nobody prevents.
    let mut jobs = [due(0.0, 1, 20.0, 10.0)];
    jobs[0].terms.estimate = 4.0;
    let told = run(Edf, &jobs, &Machine::uniform(1, 1));
    assert_eq!(told, [Told::Ended(0, 0.0, 20.0, vec![0])]);
}

#[test]
fn what_never_fits_is_refused_at_once_and_a_job_as_large_as_the_machine_runs() {
    let jobs = [
        job(0.0, 1, 10.0, 10.0),
        job(1.0, 7, 1.0, 1.0),
        job(2.0, 6, 5.0, 5.0),
        job(3.0, 1, 1.0, 1.0),
    ];
    // 2 + 1 + 3 whole processors; the halves are nobody's.
    let machine = Machine {
        nodes: [2.5, 1.0, 3.9, 0.5]
            .map(|processors| node(processors, 1.0, NodeSpec::MEMORY_UNLIMITED))
            .to_vec(),
    };
    let expected = [
        Told::Refused(1, 1.0, "processors"),
        Told::Ended(0, 0.0, 10.0, vec![0]),
        Told::Ended(2, 10.0, 15.0, vec![0, 1, 2]),
        Told::Ended(3, 15.0, 16.0, vec![0]),
    ];
    assert_eq!(run(Fifo, &jobs, &machine), expected);
    // The last one is done before 10 under EASY, and has the later deadline under EDF.
    let told = run(Easy, &jobs, &machine);
    assert_eq!(starts(&told), [0.0, -1.0, 10.0, 3.0]);
    assert_eq!(run(Edf, &jobs, &machine), expected);
}

#[test]
fn the_fastest_processors_are_taken_and_the_slowest_slot_ends_the_job() {
    // Ratings 1, 4, 2, 4 with 1, 1, 2, 1 processors: taken are nodes 1, 3, 2, 2, 0. Three slots of
    // 12 s end with the one on node 2: 12 / 2 = 6 s. Two more get node 2 and node 0: 12 / 1 s.
    let unlimited = NodeSpec::MEMORY_UNLIMITED;
    let machine = Machine {
        nodes: vec![
            node(1.0, 1.0, unlimited),
            node(1.0, 4.0, unlimited),
            node(2.0, 2.0, unlimited),
            node(1.0, 4.0, unlimited),
        ],
    };
    let jobs = [job(0.0, 3, 12.0, 12.0), job(0.0, 2, 12.0, 12.0)];
    let expected = [
        Told::Ended(0, 0.0, 6.0, vec![1, 2, 3]),
        Told::Ended(1, 0.0, 12.0, vec![0, 2]),
    ];
    assert_eq!(run(Fifo, &jobs, &machine), expected);
    assert_eq!(run(Easy, &jobs, &machine), expected);
    assert_eq!(run(Edf, &jobs, &machine), expected);
    // EDF judges the second on the processors that it would get: 12 s on node 0 are too long.
    let jobs = [due(0.0, 3, 12.0, 7.0), due(0.0, 2, 12.0, 11.0)];
    assert_eq!(
        run(Edf, &jobs, &machine),
        [
            Told::Refused(1, 0.0, "deadline"),
            Told::Ended(0, 0.0, 6.0, vec![1, 2, 3]),
        ]
    );
    // And one that waits for all five on the best that it can ever get, rating 1: 12 > 11, at once.
    let jobs = [due(0.0, 3, 12.0, 7.0), due(1.0, 5, 12.0, 11.0)];
    assert_eq!(
        run(Edf, &jobs, &machine)[0],
        Told::Refused(1, 1.0, "deadline")
    );
}

#[test]
fn memory_is_held_on_the_node_of_the_slot() {
    // Two nodes of 2 processors and 10 bytes. Slots of 6 bytes: one a node. Job 0 has both nodes
    // until 10, job 1 (6 bytes) finds processors but no memory, job 2 (4 bytes) fits beside job 0
    // and job 3 needs no memory.
    let machine = Machine {
        nodes: vec![node(2.0, 1.0, 10); 2],
    };
    let with = |mut job: Job, memory| {
        job.memory = memory;
        job
    };
    let jobs = [
        with(job(0.0, 2, 10.0, 10.0), 6),
        with(job(1.0, 1, 10.0, 10.0), 6),
        with(job(2.0, 1, 3.0, 3.0), 4),
        job(3.0, 1, 100.0, 100.0),
        // The empty machine has four processors, but memory for two such slots.
        with(job(4.0, 3, 1.0, 1.0), 6),
        with(job(5.0, 1, 1.0, 1.0), 11),
    ];
    let fifo = run(Fifo, &jobs, &machine);
    assert_eq!(fifo[0], Told::Refused(4, 4.0, "memory"));
    assert_eq!(fifo[1], Told::Refused(5, 5.0, "memory"));
    assert_eq!(starts(&fifo), [0.0, 10.0, 10.0, 10.0, -1.0, -1.0]);
    // EASY: job 2 ends at 5, before 10. Job 3 runs past 10, but the head needs one processor with 6
    // bytes then, and nodes 0 and 1 both have that.
    let easy = run(Easy, &jobs, &machine);
    assert_eq!(starts(&easy), [0.0, 10.0, 2.0, 3.0, -1.0, -1.0]);
}

#[test]
fn easy_keeps_memory_for_its_head() {
    // One node of 3 processors and 10 bytes. 0 holds 5 bytes until 10. The head needs 8 bytes and
    // has its processor; then 2 bytes are left. Job 2 (3 bytes, long) is in its way though two
    // processors are extra; job 3 (2 bytes, long) is not; job 4 (3 bytes) ends by 10.
    let machine = Machine {
        nodes: vec![node(4.0, 1.0, 10)],
    };
    let with = |mut job: Job, memory| {
        job.memory = memory;
        job
    };
    let jobs = [
        with(job(0.0, 1, 10.0, 10.0), 5),
        with(job(1.0, 1, 5.0, 5.0), 8),
        with(job(2.0, 1, 50.0, 50.0), 3),
        with(job(3.0, 1, 50.0, 50.0), 2),
        with(job(4.0, 1, 6.0, 6.0), 3),
    ];
    let told = run(Easy, &jobs, &machine);
    // Job 2 follows when the head has ended at 15.
    assert_eq!(starts(&told), [0.0, 10.0, 15.0, 3.0, 4.0]);
}

#[test]
fn nothing_that_is_no_number_stops_a_run() {
    let machine = Machine::uniform(2, 1);
    let mut jobs = vec![job(0.0, 1, 5.0, 5.0); 6];
    jobs[1].submit = f64::NAN;
    jobs[2].run_time = f64::NAN;
    jobs[3].terms.estimate = f64::NAN;
    jobs[4].terms.deadline = f64::NAN;
    jobs[5].processors = 0;
    assert_eq!(run(Fifo, &jobs, &machine).len(), 6);
    assert_eq!(run(Easy, &jobs, &machine).len(), 6);
    assert_eq!(run(Edf, &jobs, &machine).len(), 6);
    let nothing = Machine { nodes: Vec::new() };
    assert_eq!(run(Fifo, &jobs, &nothing).len(), 6);
    assert_eq!(run(Easy, &jobs, &nothing).len(), 6);
    assert_eq!(run(Edf, &jobs, &nothing).len(), 6);
    for machine in [machine, nothing] {
        assert_eq!(run(EASY_DROP, &jobs, &machine).len(), 6);
        assert_eq!(run(EDF_BACKFILL, &jobs, &machine).len(), 6);
        assert_eq!(run(CONSERVATIVE, &jobs, &machine).len(), 6);
    }
}
