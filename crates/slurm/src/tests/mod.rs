//! What Slurm's submissions and records do to the book, on four nodes of one processor.

mod classes;
mod counted;
mod deferred;
mod held;
mod life;
mod offers;
mod others;
mod placement;
mod planned;
mod suspended;

use super::Change;
use super::array::{ArrayTasks, JobCommitment};
use super::controller::{Accepted, Answer, Controller};
use super::poll::Prepared;
use super::records::{Node, Partition, Records, SlurmJob, State};
use super::submission::Submission;
use super::words::write_processors;
use libra_batch::front_end::Fewer;
use libra_config::Config;
use libra_core::decision::refusal::Category;
use libra_metrics::Outcome;
use std::collections::HashMap;

const START: f64 = 1000.0;

fn node(name: &str, processors: u32) -> Node {
    Node {
        name: name.to_string(),
        processors,
        memory: 1024,
        up: true,
        unknown: false,
        answers: true,
        up_since: 0.0,
        features: Vec::new(),
        gres: Vec::new(),
    }
}

fn partition(name: &str, nodes: &[&str]) -> Partition {
    Partition {
        name: name.to_string(),
        nodes: nodes.iter().map(ToString::to_string).collect(),
        shared: true,
        jobs_per_processor: 20,
        longest: None,
        default: name == "main",
        up: true,
        one_user: false,
        default_memory: None,
    }
}

/// These rules, and nothing of a node is kept for the system unless they say so.
fn whole_processors(rules: &str) -> String {
    match rules.contains("[node]") {
        true => rules.to_string(),
        false => format!("{rules}\n[node]\nreserve = '0%'\n"),
    }
}

/// A Slurm that does what it is told: what was accepted becomes a job.
struct Queue {
    config: Config,
    controller: Controller,
    records: Records,
    next: u32,
    /// When it was polled last.
    polled: f64,
}

impl Queue {
    fn new(config: &str) -> Queue {
        let names = ["n1", "n2", "n3", "n4"];
        let config = Config::from_toml(&whole_processors(config)).expect("a configuration");
        let mut queue = Queue {
            controller: Controller::new(&config, START),
            config,
            records: Records {
                taken: START,
                jobs: Vec::new(),
                nodes: names.iter().map(|name| node(name, 1)).collect(),
                partitions: vec![partition("main", &names)],
                ..Records::default()
            },
            next: 1,
            polled: START,
        };
        queue.poll(START);
        queue
    }

    fn poll(&mut self, now: f64) -> super::poll::Poll {
        self.records.taken = now;
        let run = |job: &&mut SlurmJob| job.state == State::Running && !job.suspended;
        for job in self.records.jobs.iter_mut().filter(run) {
            job.ran += now - self.polled.max(job.started);
        }
        self.polled = now;
        self.controller.poll(&self.records, now).expect("a poll")
    }

    fn accept(&mut self, submission: &Submission, now: f64) -> Accepted {
        match self.controller.submit(submission, now) {
            Answer::Accept(accepted) => *accepted,
            other => panic!("not accepted: {other:?}"),
        }
    }

    fn refuse(&mut self, submission: &Submission, now: f64) -> String {
        match self.controller.submit(submission, now) {
            Answer::Refuse(not) => not.text,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// An accepted job is in the queue, and waits.
    fn enqueue(&mut self, accepted: &Accepted) -> u32 {
        let id = self.next;
        self.next += 1;
        let commitment = JobCommitment::parse(&accepted.admin_comment)
            .expect("ours")
            .expect("readable");
        self.records.jobs.push(SlurmJob {
            id,
            array: (!commitment.tasks.is_empty()).then_some(ArrayTasks {
                array: id,
                tasks: commitment.tasks,
            }),
            state: State::Pending,
            admin_comment: accepted.admin_comment.clone().into(),
            nodes: Vec::new(),
            comment: String::new(),
            held: accepted.hold,
            waits: accepted.hold,
            kept: false,
            deferred: None,
            pinned: !accepted.nodes.is_empty(),
            started: 0.0,
            ended: 0.0,
            cut_short: false,
            failed: false,
            how: libra_accounts::settlement::HowEnded::Itself,
            restarts: 0,
            ran: 0.0,
            suspended: false,
            changed: 0.0,
            user: 1,
            component: false,
        });
        id
    }

    fn job(&mut self, id: u32) -> &mut SlurmJob {
        (self.records.jobs.iter_mut())
            .find(|job| job.id == id)
            .expect("in the queue")
    }

    fn run(&mut self, id: u32, nodes: &[&str], now: f64) {
        let job = self.job(id);
        job.state = State::Running;
        job.nodes = nodes.iter().map(ToString::to_string).collect();
        job.started = now;
    }

    fn committed(&self) -> HashMap<&str, f64> {
        let book = self.controller.book();
        (0..book.node_count())
            .map(|index| book.node_name(index))
            .map(|name| {
                (
                    name,
                    (book.committed(name).expect("a node") * 1000.0).round() / 1000.0,
                )
            })
            .collect()
    }
}

fn asks(estimate: &str, deadline: &str, budget: &str) -> Submission {
    Submission {
        options: vec![
            ("estimate".to_string(), estimate.to_string()),
            ("sla-deadline".to_string(), deadline.to_string()),
            ("budget".to_string(), budget.to_string()),
        ],
        ..Submission::default()
    }
}

/// Half a processor, without a margin.
const EXACT: &str = "[admission]\nestimate-margin = '0%'\n[slurm]\nstart-delay = '0s'\n";
