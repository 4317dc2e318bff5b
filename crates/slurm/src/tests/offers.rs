//! Counter-offers, as Slurm takes them, and what is said.

use super::*;

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
    let fewer = |chunks, processors_per_chunk| Fewer {
        chunks,
        processors_per_chunk,
        estimate: "13.34".to_string(),
        class: None,
    };
    let mut task = asks("10", "20", "1000");
    task.processors_per_task = Some(4);
    let written = |fewer: Fewer, task: &Submission| {
        write_processors(task, &fewer).map(|written| written.text)
    };
    assert_eq!(
        written(fewer(1, 3), &task).as_deref(),
        Some("-c 3 --estimate=13.34")
    );
    // It would still be three times as many.
    task.tasks = Some(3);
    assert_eq!(written(fewer(1, 3), &task), None);
    assert_eq!(
        written(fewer(2, 4), &task).as_deref(),
        Some("-N 2 -n 2 --estimate=13.34")
    );
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
