//! What Slurm's submissions and records do to the book, on four nodes of one processor.

use super::Change;
use super::array::{ArrayTasks, JobCommitment};
use super::controller::{Accepted, Answer, Controller};
use super::poll::Prepared;
use super::records::{Node, Partition, Records, SlurmJob, State};
use super::submission::Submission;
use super::words::write_offer;
use libra_config::Config;
use libra_core::decision::counter_offer::CounterOffer;
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
        features: Vec::new(),
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
    controller: Controller,
    records: Records,
    next: u32,
}

impl Queue {
    fn new(config: &str) -> Queue {
        let names = ["n1", "n2", "n3", "n4"];
        let config = Config::from_toml(&whole_processors(config)).expect("a configuration");
        let mut queue = Queue {
            controller: Controller::new(&config, START),
            records: Records {
                taken: START,
                jobs: Vec::new(),
                nodes: names.iter().map(|name| node(name, 1)).collect(),
                partitions: vec![partition("main", &names)],
            },
            next: 1,
        };
        queue.poll(START);
        queue
    }

    fn poll(&mut self, now: f64) -> super::poll::Poll {
        self.records.taken = now;
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
            Answer::Refuse(not) => not.text(submission),
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
            admin_comment: accepted.admin_comment.clone(),
            nodes: Vec::new(),
            comment: String::new(),
            held: accepted.hold,
            waits: accepted.hold,
            pinned: !accepted.nodes.is_empty(),
            started: 0.0,
            ended: 0.0,
            cut_short: false,
            failed: false,
            how: libra_accounts::settlement::HowEnded::Itself,
            restarts: 0,
            ran: 0.0,
            user: 1,
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

#[test]
fn nothing_is_judged_before_the_queue_was_read() {
    let mut controller = Controller::new(&Config::default(), START);
    let job = asks("10", "20", "100");
    assert_eq!(controller.submit(&job, START), Answer::NotReady);
    assert_eq!(
        controller.submit(&Submission::default(), START),
        Answer::Pass
    );
    // Nodes that slurmctld has not heard of yet would refuse everything.
    let mut records = Records {
        taken: START + 1.0,
        nodes: vec![Node {
            up: false,
            unknown: true,
            ..node("n1", 1)
        }],
        partitions: vec![partition("main", &["n1"])],
        ..Records::default()
    };
    controller.poll(&records, START + 1.0).expect("a poll");
    assert_eq!(controller.submit(&job, START + 1.0), Answer::NotReady);
    records.taken = START + 11.0;
    controller.poll(&records, START + 11.0).expect("a poll");
    assert!(matches!(
        controller.submit(&job, START + 11.0),
        Answer::Refuse(_)
    ));
}

#[test]
fn an_accepted_job_is_pinned_and_told() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    assert_eq!(accepted.nodes, ["n1"]);
    assert_eq!(accepted.partition, "main");
    assert_eq!((accepted.node_count, accepted.hold), (1, false));
    // Deadline and estimate: half a minute.
    assert_eq!(accepted.time_limit, 1);
    assert!(
        accepted
            .quote
            .starts_with("accepted: 50 % of a processor on n1, finished in 20 s")
    );
    assert_eq!(
        accepted.admin_comment,
        format!("libra:{}", accepted.commitment)
    );
    // Best fit: the fullest node that takes it.
    assert_eq!(queue.accept(&asks("4", "20", "100"), START).nodes, ["n1"]);
    assert_eq!(queue.accept(&asks("10", "20", "100"), START).nodes, ["n2"]);
    let refused = queue.refuse(&asks("10", "20", "10"), START);
    assert!(
        refused.contains("refused (budget)") && refused.contains("--budget="),
        "{refused}"
    );
    let refused = queue.refuse(&asks("10", "8", "100"), START);
    assert!(
        refused.contains("refused (deadline)") && refused.contains("--sla-deadline="),
        "{refused}"
    );
}

#[test]
fn the_life_of_a_job() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    assert_eq!(queue.committed()["n1"], 0.5);
    let id = queue.enqueue(&accepted);
    let poll = queue.poll(START + 1.0);
    assert!(
        poll.log[0].starts_with("job 1: 50 % of a processor"),
        "{:?}",
        poll.log
    );
    queue.run(id, &["n1"], START + 1.0);
    queue.poll(START + 2.0);
    // It began a second late.
    assert!((queue.committed()["n1"] - 10.0 / 19.0).abs() < 0.03);
    // Requeued: it begins anew, with less time.
    let job = queue.job(id);
    (job.state, job.nodes) = (State::Pending, Vec::new());
    queue.poll(START + 6.0);
    assert!((queue.committed()["n1"] - 10.0 / 14.0).abs() < 0.06);
    queue.run(id, &["n1"], START + 7.0);
    queue.poll(START + 8.0);
    let job = queue.job(id);
    (job.state, job.ended) = (State::Ended, START + 19.0);
    let poll = queue.poll(START + 19.5);
    assert_eq!(
        poll.log,
        ["job 1 met its deadline: ended after 19 s of 20 s, price 10.5"]
    );
    assert_eq!(queue.committed()["n1"], 0.0);
    // Slurm shows it for some minutes more.
    assert!(queue.poll(START + 21.0).log.is_empty());
}

#[test]
fn a_job_may_start_late() {
    let mut queue =
        Queue::new("[admission]\nestimate-margin = '0%'\n[slurm]\nstart-delay = '4s'\n");
    // Sixteen seconds are left when it starts.
    let accepted = queue.accept(&asks("8", "20", "100"), START);
    assert!(
        accepted
            .quote
            .contains("50 % of a processor on n1, finished in 20 s"),
        "{}",
        accepted.quote
    );
    let id = queue.enqueue(&accepted);
    queue.poll(START + 3.0);
    assert_eq!(queue.committed()["n1"], 0.5);
    queue.run(id, &["n1"], START + 3.5);
    queue.poll(START + 3.6);
    assert!(queue.committed()["n1"] < 0.49);
    let reason = queue.refuse(&asks("8", "11", "100"), START + 4.0);
    assert!(
        reason.contains("would need 12 s; the deadline is 11 s"),
        "{reason}"
    );
    assert!(reason.contains("--sla-deadline=12 "), "{reason}");
    queue.accept(&asks("8", "12", "100"), START + 4.0);
    let reason = queue.refuse(&asks("8", "3", "100"), START + 4.0);
    assert!(reason.contains("--sla-deadline=12 "), "{reason}");
}

#[test]
fn an_acceptance_without_a_job_is_taken_back() {
    let mut queue = Queue::new(EXACT);
    queue.accept(&asks("10", "20", "100"), START);
    queue.poll(START + 1.9);
    assert!(queue.committed()["n1"] >= 0.5);
    let poll = queue.poll(START + 2.1);
    assert_eq!(poll.log, ["1 acceptances have no job, taken back"]);
    assert_eq!(queue.committed()["n1"], 0.0);
}

#[test]
fn a_test_holds_its_share_for_a_moment_only() {
    let mut queue = Queue::new(EXACT);
    let mut test = asks("10", "20", "100");
    test.without_session = true;
    queue.accept(&test, START);
    let from_elsewhere = queue.accept(&test, START);
    queue.enqueue(&from_elsewhere);
    assert_eq!(queue.committed()["n1"], 1.0);
    let poll = queue.poll(START + 0.2);
    assert_eq!(poll.log.len(), 1, "{:?}", poll.log);
    // The one that has a job after all keeps its share.
    assert_eq!(queue.controller.book().job_count(), 1);
}

#[test]
fn an_array_over_several_nodes_is_pinned_task_by_task() {
    let mut queue = Queue::new(EXACT);
    let mut array = asks("8", "20", "1000");
    array.array = Some("1-9:2".to_string());
    // Five tasks of 0.4, two to a node.
    let accepted = queue.accept(&array, START);
    assert!(accepted.hold && accepted.nodes.is_empty());
    assert!(accepted.admin_comment.ends_with(":tasks=1,3,5,7,9"));
    let id = queue.enqueue(&accepted);
    let poll = queue.poll(START + 0.5);
    let pins: Vec<(&str, &str)> = (poll.pins.iter())
        .map(|pin| (pin.tasks.as_str(), pin.node.as_str()))
        .collect();
    assert_eq!(
        pins,
        [("1_[1,3]", "n1"), ("1_[5,7]", "n2"), ("1_[9]", "n3")]
    );
    // The groups leave the array's record one after the other; what is left keeps its number.
    let mut first = queue.job(id).clone();
    for (task, other) in [(1, 2), (3, 3)] {
        first.id = other;
        first.array = Some(ArrayTasks {
            array: id,
            tasks: vec![task],
        });
        (first.state, first.nodes, first.pinned, first.held) =
            (State::Running, vec!["n1".to_string()], true, false);
        first.started = START + 1.0;
        queue.records.jobs.push(first.clone());
    }
    queue.job(id).array = Some(ArrayTasks {
        array: id,
        tasks: vec![5, 7, 9],
    });
    let poll = queue.poll(START + 1.5);
    assert_eq!(poll.pins.len(), 2);
    let committed = queue.committed();
    assert!(committed["n1"] > 0.8 && committed["n2"] > 0.8 && committed["n3"] > 0.4);
    assert_eq!(queue.controller.book().job_count(), 5);
    // One task is cancelled.
    queue.job(2).state = State::Ended;
    queue.poll(START + 2.0);
    assert_eq!(queue.controller.book().job_count(), 4);
    // A restart: the same from the records alone.
    let mut anew = Controller::new(
        &Config::from_toml(&whole_processors(EXACT)).expect("valid"),
        START + 2.0,
    );
    let log = anew.poll(&queue.records, START + 2.0).expect("a poll").log;
    assert_eq!(log, ["4 nodes, 4 jobs with terms"]);
    for (name, committed) in queue.committed() {
        let after = anew.book().committed(name).expect("a node");
        assert!(
            (after - committed).abs() < 0.03,
            "{name}: {committed} before, {after} after"
        );
    }
    // Tokens of now are none of then.
    let Answer::Accept(accepted) = anew.submit(&asks("1", "20", "100"), START + 2.0) else {
        panic!("not accepted");
    };
    let commitment = JobCommitment::parse(&accepted.admin_comment)
        .expect("ours")
        .expect("readable")
        .commitment;
    assert!(queue.records.jobs.iter().all(|job| {
        !job.admin_comment
            .contains(&format!("token={}:", commitment.token))
    }));
}

#[test]
fn a_job_that_slurm_runs_elsewhere_counts_there() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    let id = queue.enqueue(&accepted);
    queue.poll(START + 0.1);
    queue.run(id, &["n3"], START + 0.1);
    let poll = queue.poll(START + 0.2);
    assert_eq!(poll.log, ["job 1 runs on n3, not where it was planned"]);
    let committed = queue.committed();
    assert_eq!(committed["n1"], 0.0);
    assert!(committed["n3"] > 0.49);
}

#[test]
fn a_partition_is_tried_once_however_often_it_is_named() {
    let queue = Queue::new("");
    let often = Submission {
        partition: Some(["main", "none", " main "].repeat(10_000).join(",")),
        ..Submission::default()
    };
    assert_eq!(queue.controller.candidates(&often), Ok(vec![0]));
}

#[test]
fn partitions_and_nodes_that_are_asked_for() {
    let mut queue = Queue::new(EXACT);
    queue.records.partitions.push(Partition {
        shared: false,
        ..partition("plain", &["n4"])
    });
    queue.records.partitions.push(Partition {
        longest: Some(1),
        ..partition("short", &["n2", "n3"])
    });
    queue.records.nodes[2].features = vec!["fast".to_string()];
    queue.poll(START);
    let with = |change: &dyn Fn(&mut Submission)| {
        let mut job = asks("10", "20", "100");
        change(&mut job);
        job
    };
    let accepted = queue.accept(&with(&|job| job.partition = Some("short".into())), START);
    assert_eq!(
        (accepted.partition.as_str(), accepted.nodes[0].as_str()),
        ("short", "n2")
    );
    assert_eq!(
        queue
            .accept(&with(&|job| job.features = Some("fast".into())), START)
            .nodes,
        ["n3"]
    );
    assert_eq!(
        queue
            .accept(&with(&|job| job.required_nodes = vec!["n4".into()]), START)
            .nodes,
        ["n4"]
    );
    for (change, part) in [
        (
            with(&|job| job.partition = Some("plain".into())),
            "takes no jobs with a deadline; submit to main or short",
        ),
        (
            with(&|job| job.features = Some("slow".into())),
            "(no-node): none of the nodes of partition main has slow",
        ),
        (
            with(&|job| job.required_nodes = vec!["n9".into()]),
            "is one of n9",
        ),
        (
            with(&|job| job.required_nodes = vec!["n1".into(), "n2".into()]),
            "--nodelist names 2 nodes for a job of 1",
        ),
    ] {
        let reason = queue.refuse(&change, START);
        assert!(reason.contains(part), "{reason}");
    }
    let mut long = asks("10", "100", "100");
    long.partition = Some("short".into());
    let reason = queue.refuse(&long, START);
    assert!(
        reason.contains("ends jobs after 60 s and the deadline is 1m40s"),
        "{reason}"
    );
    // One that is closed takes nothing.
    queue.records.partitions[0].up = false;
    queue.records.partitions[2].up = false;
    queue.poll(START + 0.1);
    assert!(
        queue
            .refuse(&asks("1", "20", "100"), START + 0.1)
            .contains("no partition")
    );
}

#[test]
fn only_so_many_jobs_share_a_processor() {
    let mut queue = Queue::new(EXACT);
    queue.records.partitions[0].jobs_per_processor = 2;
    queue.poll(START);
    let small = asks("1", "100", "100");
    for node in ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"] {
        assert_eq!(queue.accept(&small, START).nodes, [node]);
    }
    let reason = queue.refuse(&small, START);
    assert!(
        reason.contains("at most 2 may share a processor (OverSubscribe=FORCE:2)"),
        "{reason}"
    );
}

#[test]
fn jobs_without_terms() {
    let plain = Submission::default();
    for (rule, expected) in [("best-effort", Answer::Pass), ("leave-alone", Answer::Pass)] {
        let mut queue = Queue::new(&format!("[slurm]\nwithout-terms = '{rule}'"));
        assert_eq!(queue.controller.submit(&plain, START), expected, "{rule}");
    }
    for rule in ["refuse", "other-nodes"] {
        let mut queue = Queue::new(&format!("[slurm]\nwithout-terms = '{rule}'"));
        let Answer::Refuse(not) = queue.controller.submit(&plain, START) else {
            panic!("{rule}: not refused");
        };
        assert_eq!(not.verdict.category(), Some(Category::NoTerms));
        let reason = not.text(&plain);
        assert!(reason.contains("sbatch --sla-deadline"), "{reason}");
    }
    let mut queue = Queue::new("[slurm]\nwithout-terms = 'other-nodes'\npartitions = ['main']");
    queue.records.nodes.push(node("x1", 1));
    queue
        .records
        .partitions
        .push(partition("all", &["n1", "n2", "n3", "n4", "x1"]));
    queue.poll(START);
    let everywhere = Submission {
        partition: Some("all".into()),
        ..Submission::default()
    };
    let off = ["n1", "n2", "n3", "n4"].map(str::to_string).to_vec();
    assert_eq!(
        queue.controller.submit(&everywhere, START),
        Answer::PassWithout(off)
    );
    let reason = queue.refuse(&plain, START);
    assert!(reason.ends_with("or submit to all"), "{reason}");
}

#[test]
fn a_commitment_stays() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    queue.records.jobs.push(SlurmJob {
        id: 1,
        array: None,
        state: State::Running,
        admin_comment: String::new(),
        nodes: Vec::new(),
        comment: String::new(),
        held: false,
        waits: false,
        pinned: false,
        started: START,
        ended: 0.0,
        cut_short: false,
        failed: false,
        how: libra_accounts::settlement::HowEnded::Itself,
        restarts: 0,
        ran: 0.0,
        user: 1,
    });
    queue.next = 2;
    queue.poll(START + 0.1);
    let ask = |queue: &Queue, job: &str, what: &[&'static str]| {
        queue.controller.change(&Change {
            job: job.to_string(),
            committed_properties: what.to_vec(),
            ..Change::default()
        })
    };
    // Its job has no number here yet.
    let answer = ask(&queue, "2", &["TimeLimit"]);
    assert!(answer.is_err_and(|reason| reason.contains("only just submitted")));
    assert_eq!(ask(&queue, "1", &["TimeLimit"]), Ok(()));
    let root_wipes = |queue: &Queue, job: &str| {
        queue.controller.change(&Change {
            job: job.to_string(),
            by_administrator: true,
            admin_comment: Some(String::new()),
            ..Change::default()
        })
    };
    assert!(root_wipes(&queue, "2").is_err());
    assert_eq!(root_wipes(&queue, "1"), Ok(()));
    let id = queue.enqueue(&accepted);
    assert_eq!(id, 2);
    queue.poll(START + 0.2);
    for job in ["2", "2_1-3", "2+0"] {
        let answer = ask(&queue, job, &["TimeLimit"]);
        assert!(answer.is_err_and(|reason| reason.contains("TimeLimit belongs to the commitment")));
        assert_eq!(ask(&queue, job, &[]), Ok(()));
    }
    let root = |admin_comment: Option<&str>, comment: Option<&str>| {
        queue.controller.change(&Change {
            job: "2".to_string(),
            by_administrator: true,
            committed_properties: vec!["NodeList"],
            admin_comment: admin_comment.map(str::to_string),
            comment: comment.map(str::to_string),
        })
    };
    assert_eq!(root(None, Some("libra:budget=1")), Ok(()));
    assert!(root(Some("mine"), None).is_err());
    assert!(root(Some(""), None).is_err());
    let comment = Change {
        job: "1".to_string(),
        comment: Some("libra:budget=1".to_string()),
        ..Change::default()
    };
    assert!(queue.controller.change(&comment).is_err());
}

#[test]
fn counter_offers_are_accepted_as_they_are_written() {
    let mut queue = Queue::new(EXACT);
    for _ in 0..4 {
        queue.accept(&asks("16", "20", "100"), START);
    }
    let reason = queue.refuse(&asks("10", "20", "1000"), START);
    let offered = reason.split("--sla-deadline=").nth(1).expect("an offer");
    let deadline = offered.split(' ').next().expect("a value");
    queue.accept(&asks("10", deadline, "1000"), START);
    let mut array = asks("16", "20", "1000");
    array.array = Some("1-3".to_string());
    let reason = queue.refuse(&array, START);
    assert!(
        reason.contains("(all 3 jobs of the array together)"),
        "{reason}"
    );
}

#[test]
fn fewer_nodes_are_offered_as_slurm_takes_them() {
    let mut queue = Queue::new(EXACT);
    for node in ["n1", "n2", "n3"] {
        let mut there = asks("16", "20", "100");
        there.required_nodes = vec![node.to_string()];
        queue.accept(&there, START);
    }
    let mut wide = asks("10", "20", "1000");
    wide.least_nodes = Some(2);
    let reason = queue.refuse(&wide, START);
    assert!(
        reason.starts_with("libra: refused (nodes): only 1 of 2 nodes would fit now\n"),
        "{reason}"
    );
    // Without -N it would still be for two nodes.
    assert!(
        reason.contains("-N 1 -n 1 --estimate=20 (costs"),
        "{reason}"
    );
    wide.required_nodes = vec!["n3".to_string(), "n4".to_string()];
    let reason = queue.refuse(&wide, START);
    assert!(!reason.contains("-n 1"), "{reason}");
    let mut array = asks("10", "20", "1000");
    array.array = Some("1-3".to_string());
    let reason = queue.refuse(&array, START);
    assert!(
        reason.starts_with("libra: refused (jobs): only 2 of 3 jobs would fit now (all 3 jobs"),
        "{reason}"
    );
}

#[test]
fn fewer_processors_are_not_offered_where_their_work_does_not_fit() {
    let mut queue = Queue::new(EXACT);
    queue.records.nodes[0] = node("n1", 3);
    queue.poll(START);
    let mut there = asks("16", "20", "100");
    there.required_nodes = vec!["n1".to_string()];
    queue.accept(&there, START);
    // Two at 16 s would fit, and are not the work of three.
    let mut wide = asks("16", "20", "1000");
    wide.processors_per_task = Some(3);
    let reason = queue.refuse(&wide, START);
    assert!(
        !reason.contains("-c ") && reason.contains("--sla-deadline="),
        "{reason}"
    );
}

#[test]
fn fewer_processors_of_one_task_are_offered_with_their_estimate() {
    let offer = |chunks, processors_per_chunk| CounterOffer::Processors {
        chunks,
        processors_per_chunk,
        estimate: 13.34,
        price: 4.0,
    };
    let mut task = asks("10", "20", "1000");
    task.processors_per_task = Some(4);
    let written = |offer: CounterOffer, task: &Submission| {
        write_offer(&offer, task).map(|written| written.text)
    };
    assert_eq!(
        written(offer(1, 3), &task).as_deref(),
        Some("-c 3 --estimate=13.34 (costs 4)")
    );
    // It would still be three times as many.
    task.tasks = Some(3);
    assert_eq!(written(offer(1, 3), &task), None);
    assert_eq!(
        written(offer(2, 4), &task).as_deref(),
        Some("-N 2 -n 2 --estimate=13.34 (costs 4)")
    );
}

#[test]
fn a_job_that_comes_and_goes_between_two_polls() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("16", "20", "100"), START);
    let id = queue.enqueue(&accepted);
    let job = queue.job(id);
    (job.state, job.cut_short, job.ended) = (State::Ended, true, START + 0.5);
    let poll = queue.poll(START + 1.0);
    assert_eq!(queue.controller.book().job_count(), 0);
    assert!(
        poll.log.iter().any(|line| line
            .starts_with("job 1 was ended before it was done: ended after 0.5 s of 20 s")),
        "{:?}",
        poll.log
    );
    // An array that was cancelled as a whole; one task of it had begun.
    let mut array = asks("5", "20", "100");
    array.array = Some("1-3".to_string());
    let accepted = queue.accept(&array, START + 1.0);
    let id = queue.enqueue(&accepted);
    let mut task = queue.job(id).clone();
    queue.job(id).state = State::Ended;
    queue.job(id).array = Some(ArrayTasks {
        array: id,
        tasks: Vec::new(),
    });
    task.id = 99;
    task.array = Some(ArrayTasks {
        array: id,
        tasks: vec![2],
    });
    task.state = State::Running;
    task.nodes = vec!["n1".to_string()];
    task.started = START + 1.0;
    queue.records.jobs.push(task);
    queue.poll(START + 2.0);
    assert_eq!(queue.controller.book().job_count(), 1);
    assert!(queue.controller.book().contains(&format!("{id}_2")));
}

#[test]
fn a_node_gives_a_job_no_processor_twice() {
    let mut queue = Queue::new(EXACT);
    let mut wide = asks("1", "20", "100");
    wide.processors_per_task = Some(2);
    let reason = queue.refuse(&wide, START);
    assert!(
        reason.contains("refused (no-node): none of the nodes of partition main has 2 processors"),
        "{reason}"
    );
}

#[test]
fn components_of_a_job_are_kept_apart() {
    let mut queue = Queue::new(EXACT);
    let mut component = asks("1", "20", "100");
    component.user = 7;
    let mut nodes = Vec::new();
    for number in 0..4 {
        component.component = Some(number);
        nodes.push(queue.accept(&component, START).nodes[0].clone());
    }
    assert_eq!(nodes, ["n1", "n2", "n3", "n4"]);
    component.component = Some(4);
    let reason = queue.refuse(&component, START);
    assert!(
        reason.contains("is free of the other components of this job"),
        "{reason}"
    );
    // The next job is another one.
    component.component = Some(0);
    assert_eq!(queue.accept(&component, START).nodes, ["n1"]);
}

#[test]
fn what_is_said_stays_short() {
    let mut queue = Queue::new(EXACT);
    let mut odd = asks("1", "20", "100");
    odd.features = Some("é".repeat(10_000));
    let reason = queue.refuse(&odd, START);
    let shown = "é".repeat(64);
    assert!(
        reason.contains(&shown) && !reason.contains(&format!("{shown}é")),
        "{reason}"
    );
}

#[test]
fn a_poll_can_be_prepared_apart() {
    let mut queue = Queue::new(EXACT);
    let accepted = queue.accept(&asks("10", "20", "100"), START);
    queue.enqueue(&accepted);
    queue.records.taken = START + 1.0;
    // Other partitions were wanted when it was prepared: the next poll puts it right.
    let mut prepared = Prepared::new(&queue.records, &["other".to_string()]);
    queue
        .controller
        .take(&mut prepared, START + 1.0)
        .expect("a poll");
    queue.poll(START + 2.0);
    assert_eq!(queue.controller.book().job_count(), 1);
    assert!(queue.committed()["n1"] > 0.49);
    queue.accept(&asks("10", "20", "100"), START + 2.0);
}

#[test]
fn ends_are_counted_and_acceptances_that_came_to_nothing() {
    let mut queue = Queue::new("");
    let (asked, late) = (asks("10", "1000", "999"), asks("10", "20", "999"));
    let accepted = [
        queue.accept(&asked, START),
        queue.accept(&asked, START),
        queue.accept(&late, START),
    ];
    let jobs = accepted.each_ref().map(|accepted| queue.enqueue(accepted));
    assert!(accepted.iter().all(|accepted| accepted.count == 1));
    // This one has no job.
    queue.accept(&asked, START + 1.0);
    let poll = queue.poll(START + 1.5);
    assert!(poll.counts.is_empty(), "{:?}", poll.counts);
    for (id, cut_short, ended) in [
        (jobs[0], false, 30.0),
        (jobs[1], true, 30.0),
        (jobs[2], true, 30.0),
    ] {
        let job = queue.job(id);
        (job.state, job.cut_short, job.ended) = (State::Ended, cut_short, START + ended);
    }
    let counts = queue.poll(START + 31.0).counts;
    let mut expected = libra_metrics::Counts::EMPTY;
    for outcome in [Outcome::Met, Outcome::Cancelled, Outcome::Late] {
        expected.end(outcome);
    }
    expected.withdrawn = 1;
    assert_eq!(counts, expected);
    // Slurm shows them for a while.
    assert!(queue.poll(START + 32.0).counts.is_empty());
    let figures = queue.controller.book().figures(START + 32.0);
    assert_eq!((figures.waiting, figures.running, figures.late), (0, 0, 0));
    assert!(figures.nodes.iter().all(|node| node.committed == 0.0));
}

#[test]
fn a_part_of_every_node_is_kept_for_its_system() {
    let queue = Queue::new(
        "[admission]\nestimate-margin = '0%'\n[slurm]\nstart-delay = '0s'\n[node]\nreserve = '10%'\n",
    );
    for name in ["n1", "n2", "n3", "n4"] {
        let (_, has) = queue
            .controller
            .book()
            .committed_shares(name)
            .expect("a node");
        assert_eq!(has, 0.9);
    }
}

#[path = "held_tests.rs"]
mod held;
