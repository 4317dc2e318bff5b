//! The same three schedulers as a textbook has them, for tests: everything is searched anew at each
//! time, over plain lists.

use crate::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_core::decision::node::NodeSpec;
use libra_workload::Job;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Textbook {
    Fifo,
    Edf,
    Easy,
}

#[derive(Debug, Clone)]
struct Running {
    index: usize,
    start: f64,
    finish: f64,
    expected: f64,
    /// The node of each slot.
    on: Vec<usize>,
}

/// Free whole processors and memory of each node.
type Free = Vec<(u64, u64)>;

fn empty(machine: &Machine) -> Free {
    let node = |node: &NodeSpec| (node.processors.floor() as u64, node.memory);
    machine.nodes.iter().map(node).collect()
}

fn change(free: &mut Free, job: &Job, on: &[usize], take: bool) {
    for &node in on {
        let (processors, memory) = &mut free[node];
        let counted = *memory != NodeSpec::MEMORY_UNLIMITED;
        if take {
            *processors -= 1;
            *memory -= if counted { job.memory } else { 0 };
        } else {
            *processors += 1;
            *memory += if counted { job.memory } else { 0 };
        }
    }
}

/// Slot after slot on the fastest node that has a processor and the memory.
fn place(free: &Free, machine: &Machine, job: &Job) -> Option<Vec<usize>> {
    let mut free = free.clone();
    let mut on = Vec::new();
    for _ in 0..job.processors {
        let mut best: Option<usize> = None;
        for (node, &(processors, memory)) in free.iter().enumerate() {
            let faster = best.is_none_or(|b| machine.nodes[node].rating > machine.nodes[b].rating);
            if processors >= 1 && memory >= job.memory && faster {
                best = Some(node);
            }
        }
        change(&mut free, job, &[best?], true);
        on.push(best?);
    }
    Some(on)
}

fn slowest(machine: &Machine, on: &[usize]) -> f64 {
    let rating = |&node: &usize| machine.nodes[node].rating;
    on.iter().map(rating).fold(f64::INFINITY, f64::min)
}

impl Textbook {
    /// What stands first in the queue.
    fn select(self, queue: &[usize], jobs: &[Job]) -> Option<usize> {
        match self {
            Textbook::Edf => queue
                .iter()
                .copied()
                .min_by(|&a, &b| jobs[a].due().total_cmp(&jobs[b].due()).then(a.cmp(&b))),
            _ => queue.first().copied(),
        }
    }
}

/// When the head is expected to start, and what is expected to be free then.
fn reserve(
    machine: &Machine,
    jobs: &[Job],
    free: &Free,
    running: &[Running],
    head: &Job,
    now: f64,
) -> (f64, Free) {
    let mut times: Vec<f64> = running.iter().map(|run| run.expected.max(now)).collect();
    times.sort_by(f64::total_cmp);
    for at in times {
        let mut then = free.clone();
        for run in running {
            if run.expected <= at {
                change(&mut then, &jobs[run.index], &run.on, false);
            }
        }
        if place(&then, machine, head).is_some() {
            return (at, then);
        }
    }
    panic!("the head fits on the empty machine");
}

impl Scheduler for Textbook {
    fn run(&mut self, jobs: &[Job], machine: &Machine, observer: &mut dyn Observer) {
        let refuse = |observer: &mut dyn Observer, index: usize, at, reason| {
            let job = &jobs[index];
            let fate = Fate::Refused { at, reason };
            observer.outcome(&Outcome { index, job, fate });
        };
        let mut free = empty(machine);
        let whole = free.clone();
        let mut running: Vec<Running> = Vec::new();
        let mut queue: Vec<usize> = Vec::new();
        let mut next = 0;
        let mut now = 0.0f64;
        loop {
            let ends = running.iter().map(|run| run.finish);
            let time = ends
                .chain(jobs.get(next).map(|job| job.submit))
                .fold(f64::INFINITY, f64::min);
            if time == f64::INFINITY {
                assert!(queue.is_empty());
                return;
            }
            now = now.max(time);
            // Ends.
            let mut ended: Vec<Running> = running
                .iter()
                .filter(|r| r.finish <= now)
                .cloned()
                .collect();
            running.retain(|r| r.finish > now);
            ended.sort_by(|a, b| a.finish.total_cmp(&b.finish).then(a.index.cmp(&b.index)));
            for run in ended {
                let job = &jobs[run.index];
                change(&mut free, job, &run.on, false);
                let mut nodes: Vec<u32> = run.on.iter().map(|&node| node as u32).collect();
                nodes.sort();
                nodes.dedup();
                observer.outcome(&Outcome {
                    index: run.index,
                    job,
                    fate: Fate::Ended {
                        start: run.start,
                        finish: run.finish,
                        price: 0.0,
                        nodes: &nodes,
                    },
                });
            }
            // Submissions.
            while next < jobs.len() && jobs[next].submit <= now {
                let job = &jobs[next];
                let processors: u64 = whole.iter().map(|&(processors, _)| processors).sum();
                if u64::from(job.processors) > processors {
                    refuse(observer, next, now, "processors");
                } else if place(&whole, machine, job).is_none() {
                    refuse(observer, next, now, "memory");
                } else {
                    queue.push(next);
                }
                next += 1;
            }
            // Starts.
            let start =
                |index: usize, on: Vec<usize>, free: &mut Free, running: &mut Vec<Running>| {
                    let job = &jobs[index];
                    change(free, job, &on, true);
                    let rating = slowest(machine, &on);
                    running.push(Running {
                        index,
                        start: now,
                        finish: now + job.run_time / rating,
                        expected: now + job.terms.estimate / rating,
                        on,
                    });
                };
            while let Some(index) = self.select(&queue, jobs) {
                let job = &jobs[index];
                let on = place(&free, machine, job);
                if *self == Textbook::Edf {
                    let unlimited = Job { memory: 0, ..*job };
                    let best = place(&whole, machine, &unlimited).expect("was not refused");
                    let rating = slowest(machine, on.as_ref().unwrap_or(&best));
                    if !job.met_by(now + job.terms.estimate / rating) {
                        refuse(observer, index, now, "deadline");
                        queue.retain(|&other| other != index);
                        continue;
                    }
                }
                let Some(on) = on else { break };
                start(index, on, &mut free, &mut running);
                queue.retain(|&other| other != index);
            }
            if *self != Textbook::Easy || queue.len() < 2 {
                continue;
            }
            let head = &jobs[queue[0]];
            for index in queue.split_off(1) {
                let job = &jobs[index];
                let on = place(&free, machine, job).filter(|on| {
                    let (at, mut then) = reserve(machine, jobs, &free, &running, head, now);
                    if now + job.terms.estimate / slowest(machine, on) <= at {
                        return true;
                    }
                    // What is free now is free then as well.
                    change(&mut then, job, on, true);
                    place(&then, machine, head).is_some()
                });
                match on {
                    Some(on) => start(index, on, &mut free, &mut running),
                    None => queue.push(index),
                }
            }
        }
    }
}
