//! The schedulers against plain ones, and what holds for every outcome.

use super::textbook::Textbook;
use super::{CONSERVATIVE, EASY_DROP, EDF_BACKFILL, Told, job, node, run};
use crate::Machine;
use crate::queue::{Easy, Edf, Fifo};
use libra_core::decision::node::NodeSpec;
use libra_workload::Job;
use proptest::prelude::*;

/// No processor and no byte is used twice at a time, and each job is told of once, in order of time.
fn check(told: &[Told], jobs: &[Job], machine: &Machine) -> Result<(), TestCaseError> {
    let mut seen = vec![false; jobs.len()];
    let mut last = 0.0;
    let mut changes: Vec<(f64, bool, u32)> = Vec::new();
    for told in told {
        let (index, at) = match *told {
            Told::Refused(index, at, _) => (index, at),
            Told::Ended(index, start, finish, ref nodes) => {
                let job = &jobs[index];
                prop_assert!(start >= job.submit && finish > start);
                prop_assert!(nodes.is_sorted_by(|a, b| a < b));
                prop_assert!(nodes.len() <= job.processors as usize);
                let room: f64 = nodes
                    .iter()
                    .map(|&n| machine.nodes[n as usize].processors.floor())
                    .sum();
                prop_assert!(room >= f64::from(job.processors));
                changes.push((start, true, job.processors));
                changes.push((finish, false, job.processors));
                (index, finish)
            }
        };
        prop_assert!(!seen[index], "job {} has two outcomes", index);
        seen[index] = true;
        prop_assert!(at >= last);
        last = at;
    }
    prop_assert!(seen.iter().all(|&seen| seen));
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let all: f64 = machine.nodes.iter().map(|n| n.processors.floor()).sum();
    let mut used = 0.0;
    for (_, start, processors) in changes {
        used += f64::from(processors) * if start { 1.0 } else { -1.0 };
        prop_assert!(used <= all);
    }
    // Where every node has one processor, node by node.
    if machine.nodes.iter().all(|node| node.processors == 1.0) {
        let mut free_at = vec![0.0; machine.nodes.len()];
        let mut ended: Vec<_> = told
            .iter()
            .filter_map(|told| match told {
                Told::Ended(index, start, finish, nodes) => Some((*start, *finish, nodes, *index)),
                Told::Refused(..) => None,
            })
            .collect();
        ended.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (start, finish, nodes, index) in ended {
            prop_assert_eq!(nodes.len(), jobs[index].processors as usize);
            for &node in nodes {
                prop_assert!(free_at[node as usize] <= start);
                free_at[node as usize] = finish;
            }
        }
    }
    Ok(())
}

/// Times are small and whole, so that many events fall on one time; estimates are wrong both ways.
fn workload(most_processors: u32, memory: u64) -> impl Strategy<Value = Vec<Job>> {
    let one = (
        0u32..6,
        1u32..30,
        -8i32..30,
        1..=most_processors,
        0..=memory,
        1u32..120,
        0u32..10,
    );
    prop::collection::vec(one, 1..120).prop_map(|jobs| {
        let mut now = 0.0;
        jobs.into_iter()
            .map(
                |(gap, run_time, wrong, processors, memory, slack, fraction)| {
                    now += f64::from(gap);
                    let run_time = f64::from(run_time) + if fraction == 0 { 0.3 } else { 0.0 };
                    let mut job = job(
                        now,
                        processors,
                        run_time,
                        (run_time + f64::from(wrong)).max(1.0),
                    );
                    job.memory = memory;
                    job.terms.deadline = f64::from(slack);
                    job
                },
            )
            .collect()
    })
}

fn same(jobs: &[Job], machine: &Machine) -> Result<(), TestCaseError> {
    for (name, told, textbook) in [
        ("fifo", run(Fifo, jobs, machine), Textbook::Fifo),
        ("edf", run(Edf, jobs, machine), Textbook::Edf),
        ("easy", run(Easy, jobs, machine), Textbook::Easy),
    ] {
        check(&told, jobs, machine)?;
        prop_assert_eq!(&told, &run(textbook, jobs, machine), "{}", name);
    }
    prop_assert_eq!(run(Easy, jobs, machine), run(Easy, jobs, machine));
    for told in [
        run(EASY_DROP, jobs, machine),
        run(EDF_BACKFILL, jobs, machine),
        run(CONSERVATIVE, jobs, machine),
    ] {
        check(&told, jobs, machine)?;
    }
    Ok(())
}

/// Deadlines that all can keep alone, and estimates that are right.
fn exact(mut jobs: Vec<Job>) -> Vec<Job> {
    for job in &mut jobs {
        job.terms.estimate = job.run_time;
        job.terms.deadline += job.run_time;
        job.memory = 0;
    }
    jobs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn equal_nodes_as_the_textbook(jobs in workload(9, 0), nodes in 1usize..9) {
        same(&jobs, &Machine::uniform(nodes, 1))?;
    }

    #[test]
    fn many_processors_as_the_textbook(jobs in workload(150, 0), nodes in 1usize..80) {
        same(&jobs, &Machine::uniform(nodes, 2))?;
    }

    #[test]
    fn with_exact_estimates_nobody_who_ran_was_late(jobs in workload(9, 0), nodes in 1usize..9) {
        let jobs = exact(jobs);
        let machine = Machine::uniform(nodes, 1);
        for told in [
            run(EASY_DROP, &jobs, &machine),
            run(EDF_BACKFILL, &jobs, &machine),
            run(CONSERVATIVE, &jobs, &machine),
        ] {
            for told in told {
                if let Told::Ended(index, _, finish, _) = told {
                    prop_assert!(jobs[index].met_by(finish), "job {} ended at {}", index, finish);
                }
            }
        }
    }

    #[test]
    fn unequal_nodes_as_the_textbook(
        jobs in workload(9, 8),
        nodes in prop::collection::vec((0u32..5, 1u32..4, 0u64..12), 1..7),
    ) {
        let machine = Machine {
            nodes: nodes
                .into_iter()
                .map(|(processors, rating, memory)| {
                    let memory = if memory == 0 { NodeSpec::MEMORY_UNLIMITED } else { memory * 2 };
                    node(f64::from(processors), f64::from(rating), memory)
                })
                .collect(),
        };
        same(&jobs, &machine)?;
    }
}
