//! Jobs without a promise hold something of Libra's nodes.

use super::*;
use crate::records::{Memory, MemoryRule, OtherJob, Sharing};

fn other(partition: &str, node: &str, memory: u64) -> OtherJob {
    OtherJob {
        user: 2000,
        partition: partition.to_string(),
        sharing: Sharing::ByPartition,
        nodes: vec![node.to_string()],
        processors: 1,
        memory: Memory::PerNode(memory),
        gres: Vec::new(),
        licenses: Vec::new(),
    }
}

/// n1 alone, with memory counted.
fn one_node() -> Queue {
    let mut queue = Queue::new("");
    queue.records.partitions = vec![
        partition("main", &["n1"]),
        Partition {
            shared: false,
            jobs_per_processor: 1,
            ..partition("plain", &["n1"])
        },
    ];
    queue.records.memory = MemoryRule {
        counted: true,
        default: Some(Memory::PerProcessor(100)),
    };
    queue.poll(START);
    queue
}

#[test]
fn a_node_that_a_job_keeps_for_itself_takes_none() {
    let mut queue = one_node();
    queue.records.others = vec![other("plain", "n1", 0)];
    queue.poll(START);
    let said = queue.refuse(&asks("10", "100", "100"), START);
    assert!(
        said.contains("is free of jobs that share no processors, such as those of partition plain"),
        "{said}"
    );
    // A promise that is deferred is judged as if nobody was there.
    let later = Submission {
        begin: Some(START + 30.0),
        ..asks("10", "100", "100")
    };
    assert!(matches!(
        queue.controller.submit(&later, START),
        Answer::Accept(_)
    ));
    queue.records.others.clear();
    queue.poll(START);
    queue.accept(&asks("10", "100", "100"), START);
}

#[test]
fn memory_counts_whoever_has_it() {
    let mut queue = one_node();
    let with = |memory| Submission {
        memory,
        ..asks("10", "1000", "100")
    };
    queue.records.others = vec![other("main", "n1", 900)];
    queue.poll(START);
    let said = queue.refuse(&with(Some(Memory::PerNode(200))), START);
    assert!(said.contains("memory"), "{said}");
    // By default it has 100.
    queue.accept(&with(None), START);
    let said = queue.refuse(&with(None), START);
    assert!(said.contains("memory"), "{said}");
    queue.records.others.clear();
    queue.poll(START);
    queue.accept(&with(Some(Memory::PerNode(200))), START);
    let said = queue.refuse(&with(Some(Memory::AllOfNode)), START);
    assert!(said.contains("--mem=0"), "{said}");
    queue.records.memory.default = None;
    queue.poll(START);
    let said = queue.refuse(&with(None), START);
    assert!(said.contains("names none"), "{said}");
    // Where Slurm does not count it, a job that names none has none.
    queue.records.memory.counted = false;
    queue.poll(START);
    queue.accept(&with(None), START);
}

#[test]
fn others_take_places_of_their_partition() {
    let mut queue = one_node();
    queue.records.partitions[0].jobs_per_processor = 2;
    queue.records.others = vec![other("main", "n1", 0)];
    queue.poll(START);
    queue.accept(&asks("1", "100", "100"), START);
    let said = queue.refuse(&asks("1", "100", "100"), START);
    assert!(said.contains("at most 2 may share a processor"), "{said}");
}

#[test]
fn a_node_for_itself_is_refused_by_name() {
    let mut queue = one_node();
    let alone = Submission {
        exclusive: true,
        ..asks("1", "100", "100")
    };
    let said = queue.refuse(&alone, START);
    assert!(
        said.contains("--exclusive") && said.contains("--sla-class=dedicated"),
        "{said}"
    );
}
