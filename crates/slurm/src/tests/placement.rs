//! Partitions, nodes and processors: where a job may go and what is counted there.

use super::*;

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
fn a_partition_is_tried_once_however_often_it_is_named() {
    let queue = Queue::new("");
    let often = Submission {
        partition: Some(["main", "none", " main "].repeat(10_000).join(",")),
        ..Submission::default()
    };
    assert_eq!(queue.controller.front.candidates(&often), Ok(vec![0]));
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
fn tasks_that_slurm_would_let_wait_are_not_accepted() {
    let mut queue = Queue::new(EXACT);
    queue.records.partitions[0].jobs_per_processor = 3;
    queue.poll(START);
    let array = |tasks: &str, quote: Option<&str>| {
        let mut job = asks("0.5", "60", "1000");
        job.array = Some(tasks.to_string());
        let quote = quote.map(|quote| ("sla-quote".to_string(), quote.to_string()));
        job.options.extend(quote);
        job
    };
    // Of shares alone there are enough for all of them on one node.
    let reason = queue.refuse(&array("0-12", None), START);
    assert!(
        reason.starts_with("libra: refused (jobs): only 12 of 13 jobs would fit now (all 13 jobs"),
        "{reason}"
    );
    let Answer::Answered(line) = queue.controller.submit(&array("0-12", Some("ask")), START) else {
        panic!("no answer");
    };
    let quote = libra_batch::quote::Quote::find(&line).expect("an answer");
    assert!(!quote.accepted, "{line}");
    assert!(quote.text.contains("only 12 of 13 jobs"), "{line}");
    assert!(
        !quote
            .curve
            .iter()
            .any(|point| point.judged.refused.is_none())
    );
    // Two are on one node, the rest where there is a place.
    let accepted = queue.accept(&array("0-1", None), START);
    assert_eq!(accepted.nodes, ["n1"]);
    let reason = queue.refuse(&array("0-10", None), START);
    assert!(reason.contains("only 10 of 11 jobs"), "{reason}");
    let accepted = queue.accept(&array("0-9", None), START);
    let commitment = JobCommitment::parse(&accepted.admin_comment)
        .expect("ours")
        .expect("readable")
        .commitment;
    let mut places: Vec<(&str, u32)> = (commitment.places.iter())
        .map(|place| (place.node.as_str(), place.chunks))
        .collect();
    places.sort_unstable();
    assert_eq!(places, [("n1", 1), ("n2", 3), ("n3", 3), ("n4", 3)]);
    let reason = queue.refuse(&array("0-1", None), START);
    assert!(reason.contains("at most 3 may share"), "{reason}");
}

#[test]
fn wide_tasks_leave_processors_of_a_row_over() {
    let mut queue = Queue::new(EXACT);
    queue.records.nodes[0] = node("n1", 4);
    queue.records.partitions[0].jobs_per_processor = 2;
    queue.poll(START);
    let wide = |processors: u32, tasks: &str| {
        let mut job = asks("0.5", "60", "1000");
        job.processors_per_task = Some(processors);
        job.array = Some(tasks.to_string());
        job
    };
    // Of three processors each there is one in each of two rows of four.
    for (processors, fit) in [(3, 2), (2, 4), (4, 2)] {
        let reason = queue.refuse(&wide(processors, "0-7"), START);
        let part = format!("only {fit} of 8 jobs");
        assert!(reason.contains(&part), "{processors}: {reason}");
    }
    assert_eq!(queue.accept(&wide(3, "0-1"), START).nodes, ["n1"]);
}

#[test]
fn held_quotes_leave_half_of_the_places_to_jobs() {
    let mut queue = Queue::new(EXACT);
    let held = |tasks: &str| {
        let mut job = asks("0.001", "100000", "1");
        job.array = Some(tasks.to_string());
        job.options
            .push(("sla-quote".to_string(), "hold:10m".to_string()));
        job
    };
    let mut answer = |tasks: &str| match queue.controller.submit(&held(tasks), START) {
        Answer::Answered(line) => libra_batch::quote::Quote::find(&line).expect("an answer"),
        other => panic!("no answer: {other:?}"),
    };
    // Four nodes with twenty places each.
    let refused = answer("0-40");
    assert!(refused.text.contains("only 40 of 41 jobs"), "{refused:?}");
    assert!(answer("0-39").held.is_some());
    let refused = answer("0");
    assert!(
        refused.text.contains("take at most half of its places"),
        "{refused:?}"
    );
    // Whoever submits finds the other half.
    for _ in 0..40 {
        queue.accept(&asks("0.01", "100", "100"), START);
    }
    let reason = queue.refuse(&asks("0.01", "100", "100"), START);
    assert!(reason.contains("at most 20 may share"), "{reason}");
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
        let reason = not.text;
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
