//! Generic resources and licences: counted beside what is shared.

use super::*;
use crate::gres::{Gres, GresAsked};
use crate::records::{Memory, OtherJob, Sharing};

/// n1 and n2 of two processors. n1 has GPUs of two types, n2 of one.
fn two_nodes() -> Queue {
    let mut queue = Queue::new("");
    let with = |name, gres| Node {
        gres: Gres::list(gres),
        ..node(name, 2)
    };
    queue.records.nodes = vec![
        with("n1", "gpu:a:1(S:0),gpu:b:1(S:1),tape:4"),
        with("n2", "gpu:a:2"),
    ];
    queue.records.partitions = vec![partition("main", &["n1", "n2"])];
    queue.records.licenses = vec![("matlab".to_string(), 4)];
    queue.poll(START);
    queue
}

fn plain() -> Submission {
    asks("1", "100", "100")
}

fn per_node(gres: &str) -> Submission {
    Submission {
        gres: GresAsked {
            per_node: Some(gres.to_string()),
            ..GresAsked::default()
        },
        ..plain()
    }
}

fn licensed(licenses: &str) -> Submission {
    Submission {
        licenses: Some(licenses.to_string()),
        ..plain()
    }
}

fn other(gres: &[&str], licenses: u64) -> OtherJob {
    OtherJob {
        user: 2000,
        partition: "main".to_string(),
        sharing: Sharing::ByPartition,
        nodes: vec!["n1".to_string(), "n2".to_string()],
        processors: 1,
        memory: Memory::PerNode(0),
        gres: gres.iter().map(|gres| Gres::list(gres)).collect(),
        licenses: vec![("matlab".to_string(), licenses)],
    }
}

#[test]
fn what_one_has_the_next_has_not_and_the_record_says_it_after_a_restart() {
    let mut queue = two_nodes();
    let both = queue.accept(&per_node("gres:gpu:a:2"), START);
    assert_eq!(both.nodes, ["n2"]);
    assert!(
        both.admin_comment.contains(":consumables=gpu/a*2n+gpu*2n:"),
        "{}",
        both.admin_comment
    );
    let job = queue.enqueue(&both);
    queue.run(job, &["n2"], START);
    queue.poll(START);
    // Of one type it has one of each of n1's, by name it would have any.
    queue.accept(&per_node("gres/gpu:a=1"), START);
    let config = Config::from_toml(&whole_processors("")).expect("a configuration");
    queue.controller = Controller::new(&config, START);
    queue.poll(START + 100.0);
    let said = queue.refuse(&per_node("gres:gpu:a:2"), START + 100.0);
    assert!(
        said.contains("refused (resource): needs 2 gpu:a; the best node, n2, has 0 free"),
        "{said}"
    );
    let job = queue.job(job);
    job.state = State::Ended;
    job.ended = START + 101.0;
    queue.poll(START + 102.0);
    queue.accept(&per_node("gres:gpu:a:2"), START + 102.0);
}

#[test]
fn without_a_type_it_goes_where_there_is_one_alone() {
    let mut queue = two_nodes();
    for _ in 0..2 {
        assert_eq!(
            queue.accept(&per_node("gres:gpu:1"), START).nodes,
            ["n2"],
            "of n1's Slurm would take either"
        );
    }
    let said = queue.refuse(&per_node("gres:gpu"), START);
    assert!(said.contains("needs 1 gpu; the best node, n2"), "{said}");
    queue.records.partitions = vec![partition("main", &["n1"])];
    queue.poll(START + 10.0);
    let said = queue.refuse(&per_node("gres:gpu:1"), START + 10.0);
    assert!(
        said.contains("has gpu of one type alone") && said.contains("--gres=gpu:TYPE:COUNT"),
        "{said}"
    );
    // The types say how many there are of each, and so in all.
    let both = per_node("gres:gpu:a:1,gres:gpu:b:1");
    assert_eq!(queue.accept(&both, START + 10.0).nodes, ["n1"]);
}

#[test]
fn what_others_have_counts_on_each_of_their_nodes() {
    let mut queue = two_nodes();
    queue.records.others = vec![other(
        &["gpu:a:0(IDX:),gpu:b:1(IDX:1),tape(CNT:3)", "gpu:a:1(IDX:0)"],
        3,
    )];
    queue.poll(START);
    let said = queue.refuse(&per_node("gres:gpu:b:1"), START);
    assert!(
        said.contains("needs 1 gpu:b; the best node, n1, has 0"),
        "{said}"
    );
    let said = queue.refuse(&per_node("gres:tape:2"), START);
    assert!(
        said.contains("needs 2 tape; the best node, n1, has 1"),
        "{said}"
    );
    let said = queue.refuse(&licensed("matlab:2"), START);
    assert!(
        said.contains("needs 2 matlab; the cluster has 1 free"),
        "{said}"
    );
    queue.accept(&per_node("gres:gpu:a:1"), START);
    queue.records.others.clear();
    queue.poll(START);
    queue.accept(&per_node("gres:gpu:b:1,gres:tape:4"), START);
    queue.accept(&licensed("matlab:4"), START);
}

#[test]
fn each_way_to_ask_is_one_amount_for_each_node() {
    let mut queue = two_nodes();
    let on_two = |gres: GresAsked| Submission {
        gres,
        tasks: Some(2),
        least_nodes: Some(2),
        ..plain()
    };
    let per_job = |gres: &str| GresAsked {
        per_job: Some(gres.to_string()),
        ..GresAsked::default()
    };
    let all = queue.accept(&on_two(per_job("gres:gpu:a:2")), START);
    assert_eq!(all.gres.as_deref(), Some("gres:gpu:a:1"));
    assert!(all.admin_comment.contains("gpu/a*1n"));
    let said = queue.refuse(&on_two(per_job("gres:gpu:a:3")), START);
    assert!(
        said.contains("3 gpu cannot be spread evenly over 2 nodes"),
        "{said}"
    );
    let per_task = |tasks| Submission {
        gres: GresAsked {
            per_task: Some("cpu:1,gres:gpu:a:1".to_string()),
            ..GresAsked::default()
        },
        tasks,
        ..plain()
    };
    let said = queue.refuse(&per_task(Some(2)), START);
    assert!(
        said.contains("needs 2 gpu:a; the best node, n2, has 1"),
        "{said}"
    );
    assert_eq!(queue.accept(&per_task(Some(1)), START).gres, None);
    let said = queue.refuse(&per_task(None), START);
    assert!(said.contains("how many tasks it has (-n)"), "{said}");
    let one = Submission {
        gres: per_job("gres:tape:4"),
        ..plain()
    };
    assert_eq!(queue.accept(&one, START).gres, None, "a node has all");
}

#[test]
fn licences_count_once_for_each_job() {
    let mut queue = two_nodes();
    let array = |last: u32| Submission {
        array: Some(format!("1-{last}")),
        ..licensed("matlab")
    };
    let said = queue.refuse(&array(5), START);
    assert!(
        said.contains("needs 5 matlab; the cluster has 4 free"),
        "{said}"
    );
    queue.accept(&array(3), START);
    queue.accept(&licensed("matlab"), START);
    let said = queue.refuse(&licensed("matlab:1"), START);
    assert!(said.contains("refused (resource)"), "{said}");
    // An administrator has bought more.
    queue.records.licenses[0].1 = 5;
    queue.poll(START);
    queue.accept(&licensed("matlab:1"), START);
}

#[test]
fn what_cannot_be_promised_is_refused_by_name() {
    let mut queue = two_nodes();
    for (submission, part) in [
        (per_node("gres:gpu:a:9"), "has 9 gpu:a"),
        (
            per_node("gres:gpu:c:1"),
            "no node for jobs with a deadline has gpu:c",
        ),
        (per_node("gres:shard:1"), "'shard:1' cannot be promised"),
        (per_node("gres:gpu:a:x"), "'gpu:a:x' cannot be promised"),
        (
            per_node("gres:gpu:a:1,gres:gpu:a:1"),
            "gpu is asked for twice",
        ),
        (
            per_node("license/matlab:1"),
            "'license/matlab:1' cannot be promised",
        ),
        (licensed("word"), "no licences word of its own"),
        (licensed("matlab:5"), "the cluster has 4"),
        (
            licensed("matlab@server:1"),
            "names each of its licences once",
        ),
        (licensed("matlab|word"), "names each of its licences once"),
        (licensed("matlab,matlab"), "names each of its licences once"),
    ] {
        let said = queue.refuse(&submission, START);
        assert!(said.contains(part), "{said}");
    }
    let more = "gres:gpu:a:1,gres:gpu:b:1,gres:tape:1";
    let said = queue.refuse(
        &Submission {
            licenses: Some("matlab".to_string()),
            ..per_node(more)
        },
        START,
    );
    assert!(
        said.contains("5 sorts") && said.contains("can ask for 4"),
        "{said}"
    );
}

#[test]
fn fewer_tasks_are_not_offered_where_they_ask_for_less() {
    let fewer = Fewer {
        chunks: 1,
        processors_per_chunk: 1,
        estimate: "9".to_string(),
        class: None,
    };
    let two = Submission {
        tasks: Some(2),
        ..per_node("gres:gpu:a:1")
    };
    assert!(write_processors(&two, &fewer).is_some());
    let each = Submission {
        gres: GresAsked {
            per_task: Some("gres:gpu:a:1".to_string()),
            ..GresAsked::default()
        },
        ..two
    };
    assert!(write_processors(&each, &fewer).is_none());
}
