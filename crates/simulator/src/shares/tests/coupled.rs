//! Jobs whose slots wait for each other: cases worked out by hand, and what holds for all.

use super::*;
use crate::measures::MeasureObserver;
use crate::series::Series;

fn coupled(processors: u32, mut job: Job) -> Job {
    job.processors = processors;
    job.coupled = true;
    job
}

#[test]
fn a_coupled_job_waits_for_its_slowest_slot_and_leaves_its_time_to_others() {
    // Node 0 is all taken by job 0 until 10, so job 1 does not go on before. Meanwhile node 1 would work
    // for job 1, whose deadline is earlier than job 2's, and does for job 2. From 10 on both nodes
    // work for job 1.
    let mut jobs = [
        job(0.0, 10.0, 10.0, 10.0),
        coupled(2, job(0.0, 10.0, 10.0, 40.0)),
        job(0.0, 10.0, 10.0, 60.0),
    ];
    let machine = Machine::uniform(2, 1);
    let ends = run(
        rules(LibraAdaptive::default(), Spare::Idle),
        &jobs,
        &machine,
    );
    assert_eq!(
        ends.ends[1],
        Some(End::Ran(0.0, ends.finish(1), vec![0, 1]))
    );
    assert_eq!(ends.ends[2], Some(End::Ran(0.0, ends.finish(2), vec![1])));
    near(ends.finish(0), 10.0);
    near(ends.finish(1), 20.0);
    near(ends.finish(2), 10.0);
    // While it waits actively, job 2 has its foothold alone: by 10 it has had a sixth of a second. Then it is
    // behind job 1 on node 1, which ends at 20, and done at 30, but for footholds.
    let spinning = Shares {
        waiting: Waiting::Spin,
        ..rules(LibraAdaptive::default(), Spare::Idle)
    };
    let ends = run(spinning, &jobs, &machine);
    near(ends.finish(0), 10.0);
    let (first, second) = (ends.finish(1), ends.finish(2));
    assert!((20.0..20.5).contains(&first), "{first}");
    assert!((29.0..30.0).contains(&second), "{second}");
    // If it makes its own way on node 1, it is done there by 10 (a foothold later), and job 2 follows.
    jobs[1].coupled = false;
    let ends = run(
        rules(LibraAdaptive::default(), Spare::Idle),
        &jobs,
        &machine,
    );
    near(ends.finish(1), 20.0);
    near(ends.finish(2), 20.0);
}

#[test]
fn a_late_coupled_job_gets_the_least_of_what_its_nodes_leave() {
    // As above, a quarter for an estimate of 5 s, and 10 s are needed: at 20 s it is late. Beside it node 0
    // has promised 0.7 and leaves 0.3, node 1 has promised 0.25 and leaves 0.75: the 5 s take 16.7 s. What it
    // leaves on node 1 nobody gets: job 2 is held to its share.
    let mut jobs = [
        coupled(2, job(0.0, 10.0, 5.0, 20.0)),
        job(0.0, 70.0, 70.0, 100.0),
        job(0.0, 25.0, 25.0, 100.0),
    ];
    let machine = Machine::uniform(2, 1);
    let ends = run(rules(Libra::default(), Spare::Idle), &jobs, &machine);
    near(ends.finish(0), 20.0 + 5.0 / 0.3);
    near(ends.finish(1), 100.0);
    near(ends.finish(2), 100.0);
    jobs[0].processors = 1;
    let ends = run(rules(Libra::default(), Spare::Idle), &jobs, &machine);
    // Alone on node 0 or beside either: 0.3 or more.
    assert!(ends.finish(0) <= 20.0 + 5.0 / 0.3 + 1e-5);
}

#[test]
fn spare_time_of_a_coupled_job_is_shared_in_proportion() {
    // Node 0: needs 0.5 and 0.5. Node 1: needs 0.5 and 0.25, given 2/3 and 1/3; job 0 can use 0.5 of it, and
    // job 2 has the other half: done at 10, not at 15.
    let jobs = [
        coupled(2, job(0.0, 10.0, 10.0, 20.0)),
        job(0.0, 10.0, 10.0, 20.0),
        job(0.0, 5.0, 5.0, 20.0),
    ];
    let machine = Machine::uniform(2, 1);
    let ends = run(rules(Libra::default(), Spare::Shared), &jobs, &machine);
    near(ends.finish(0), 20.0);
    near(ends.finish(1), 20.0);
    near(ends.finish(2), 10.0);
}

#[test]
fn slots_on_nodes_of_different_speed_go_on_together() {
    // 10 s of the reference node, alone under deadline order: the node of rating 2 could do it in 5 s.
    let node = |rating| NodeSpec {
        processors: 1.0,
        rating,
        memory: NodeSpec::MEMORY_UNLIMITED,
    };
    let machine = Machine {
        nodes: vec![node(2.0), node(1.0)],
    };
    let jobs = [
        coupled(2, job(0.0, 10.0, 10.0, 30.0)),
        job(0.0, 10.0, 10.0, 40.0),
    ];
    let ends = run(
        rules(LibraAdaptive::default(), Spare::Idle),
        &jobs,
        &machine,
    );
    // Half of the fast node is left for job 1 from the start: 10 s of work at 0.5 × 2.
    let first = ends.finish(0);
    assert!((10.0..11.0).contains(&first), "{first}");
    assert!(ends.finish(1) <= 11.0, "{}", ends.finish(1));
}

proptest! {
    /// What is told of work adds up to that of the jobs that ran, and is never more than the machine can do.
    #[test]
    fn no_more_of_the_machine_is_used_than_there_is(
        drawn in any_jobs(),
        machine in any_machine(),
        policy in any_policy(),
        spare in any_spare(),
        coupled: bool,
    ) {
        let jobs = workload(&drawn, false, coupled);
        let mut told = (Series::new(&machine, 0.0, true), MeasureObserver::new(&machine));
        rules(policy, spare).run(&jobs, &machine, &mut told);
        let mut work = 0.0;
        for (start, end, part) in told.0.utilisation() {
            prop_assert!(part <= 1.0 + 1e-6, "{} from {} to {}", part, start, end);
            work += part * (end - start) * told.0.capacity;
        }
        if let Some(utilisation) = told.1.measures().utilisation {
            let last = told.0.utilisation().last().map_or(0.0, |bin| bin.1);
            prop_assert!(utilisation <= 1.0 + 1e-6);
            let ran = utilisation * told.0.capacity * (last - jobs[0].submit).max(jobs[jobs.len() - 1].submit - jobs[0].submit);
            prop_assert!((work - ran).abs() <= 1e-6 * ran.max(1.0), "{} of {}", work, ran);
        }
    }

    /// Where nobody is short of a share and nothing is given away, all slots of a job go on alike anyway.
    #[test]
    fn coupled_jobs_that_are_held_to_their_shares_end_as_others(
        drawn in any_jobs(),
        machine in any_machine(),
    ) {
        let mut jobs = workload(&drawn, false, false);
        for job in &mut jobs {
            job.terms.estimate = job.terms.estimate.max(job.run_time);
            job.terms.deadline_type = DeadlineType::Hard;
        }
        let rules = rules(Libra::default(), Spare::Idle);
        let apart = run(rules, &jobs, &machine);
        jobs.iter_mut().for_each(|job| job.coupled = true);
        let together = run(rules, &jobs, &machine);
        for (apart, together) in apart.ends.iter().zip(&together.ends) {
            match (apart, together) {
                (Some(End::Ran(_, a, nodes)), Some(End::Ran(_, b, same))) => {
                    prop_assert!((a - b).abs() <= 1e-6 * a.max(1.0), "{} {}", a, b);
                    prop_assert_eq!(nodes, same);
                }
                (apart, together) => prop_assert_eq!(apart, together),
            }
        }
    }

    /// Beside the same jobs of one slot, waiting for its slots never makes a job faster, but for footholds of
    /// others that end sooner since it left them time.
    #[test]
    fn a_coupled_job_is_never_faster_than_one_whose_slots_make_their_own_way(
        drawn in any_jobs(),
        nodes in 2usize..6,
        slots in 2u32..6,
        run_time in 1.0f64..50.0,
        deadline in 1.5f64..10.0,
    ) {
        let mut jobs = workload(&drawn, true, false);
        for job in &mut jobs {
            (job.submit, job.processors) = (0.0, 1);
            job.terms.deadline_type = DeadlineType::Hard;
        }
        let mut wide = job(0.0, run_time, run_time, run_time * deadline);
        wide.processors = slots.min(nodes as u32);
        jobs.push(wide);
        let last = jobs.len() - 1;
        let (rules, machine) = (rules(LibraAdaptive::default(), Spare::Idle), Machine::uniform(nodes, 1));
        let apart = run(rules, &jobs, &machine);
        jobs[last].coupled = true;
        let together = run(rules, &jobs, &machine);
        if let (Some(End::Ran(_, apart, _)), Some(End::Ran(_, together, _))) =
            (&apart.ends[last], &together.ends[last])
        {
            prop_assert!(*together >= apart * 0.99, "{} {}", together, apart);
        }
    }
}
