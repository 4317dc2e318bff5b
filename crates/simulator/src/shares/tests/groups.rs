//! Nodes that are worked out together come out as if each were by itself.

use super::super::groups::{Groups, Parts};
use super::*;

/// What is told, in its order, to the last bit.
#[derive(Debug, Default, PartialEq)]
struct Told(Vec<(usize, u64, &'static str, Vec<u32>)>, f64);

impl Observer for Told {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        self.0.push(match outcome.fate {
            Fate::Refused { at, reason } => (outcome.index, at.to_bits(), reason, Vec::new()),
            Fate::Ended { finish, nodes, .. } => {
                (outcome.index, finish.to_bits(), "", nodes.to_vec())
            }
        });
    }

    fn worked(&mut self, _: f64, _: f64, work: f64) {
        self.1 += work;
    }
}

fn told<P: Policy + Copy>(mut rules: Shares<P>, jobs: &[Job], machine: &Machine) -> Told {
    let mut told = Told::default();
    rules.run(jobs, machine, &mut told);
    told
}

/// The same machine, where no two nodes are of a kind: each has a byte of memory less than the one before it, which
/// nobody asks for.
fn each_of_its_kind(machine: &Machine) -> Machine {
    let nodes = machine.nodes.iter().enumerate();
    Machine {
        nodes: nodes
            .map(|(index, node)| NodeSpec {
                memory: node.memory - index as u64,
                ..*node
            })
            .collect(),
    }
}

proptest! {
    #[test]
    fn alike_nodes_together_are_as_each_by_itself(
        drawn in any_jobs(),
        policy in any_policy(),
        spare in any_spare(),
        at_once: bool,
        // More, too, than are compared for a job.
        nodes in prop_oneof![4 => 1usize..12, 1 => 65usize..150],
        (each, faster) in (1u32..4, 0usize..4),
    ) {
        let mut jobs = workload(&drawn, false, false);
        for job in &mut jobs {
            if at_once {
                // Many things happen at the same moments.
                job.submit = (job.submit / 50.0).floor() * 50.0;
                job.run_time = job.run_time.ceil();
            }
        }
        let mut machine = Machine::uniform(nodes, each);
        for node in machine.nodes.iter_mut().take(faster) {
            node.rating = 2.0;
        }
        let together = told(rules(policy, spare), &jobs, &machine);
        let alone = told(rules(policy, spare), &jobs, &each_of_its_kind(&machine));
        prop_assert_eq!(&together.0, &alone.0);
        prop_assert!((together.1 - alone.1).abs() <= 1e-6 * alone.1.max(1.0));
    }
}

#[test]
fn groups_are_divided_and_put_together_again() {
    let mut groups = Groups::new(&Machine::uniform(6, 1), true);
    assert_eq!(groups.members(0), [0, 1, 2, 3, 4, 5]);
    assert_eq!(groups.divide(0, &[0, 1, 2, 3, 4, 5]), None);
    assert_eq!(groups.divide(0, &[0, 1]), Some(1));
    assert_eq!(groups.divide(0, &[3, 5]), Some(2));
    assert_eq!(
        (groups.members(0), groups.members(1)),
        (&[2, 4][..], &[0, 1][..])
    );
    assert_eq!((groups.of(5), groups.of(4)), (2, 0));
    assert!(groups.are_alike(0, 1) && !groups.are_alike(0, 0));
    groups.unite(0, 2);
    assert_eq!(groups.members(2), [2, 3, 4, 5]);
    assert_eq!((groups.members(0).len(), groups.of(4)), (0, 2));
    assert_eq!(groups.in_order().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(groups.idle_like(2), Some(1));
    // The vacant one is used again.
    assert_eq!(groups.divide(2, &[4]), Some(0));
    let alone = Groups::new(&Machine::uniform(3, 1), false);
    assert_eq!((alone.members(0), alone.members(2)), (&[0][..], &[2][..]));
}

#[test]
fn places_that_are_alike_are_one_part() {
    let mut groups = Groups::new(&Machine::uniform(4, 2), true);
    groups.divide(0, &[3]);
    let machine = Machine::uniform(4, 2);
    let cluster: Vec<PlainNode> = (machine.nodes.iter())
        .map(|spec| PlainNode::new(*spec, Vec::new(), Libra::default().share_rule()))
        .collect();
    // Seven chunks of a whole processor on four nodes of two: 2, 2, 2 and 1.
    let mut request = Request::single(Terms::hard(10.0, 10.0, f64::INFINITY));
    request.shape.chunks = 7;
    let mut places = [Placement::EMPTY; 4];
    let used = libra_core::decision::placement::place(
        &Libra::default(),
        &cluster[..],
        &request,
        &mut places,
    );
    assert_eq!(used, Some(4));
    let mut parts = Parts::default();
    parts.find(&places, &groups);
    let found: Vec<(usize, u32, &[u32])> = (parts.found().iter())
        .map(|part| (part.group, part.chunks, &part.nodes[..]))
        .collect();
    assert_eq!(found, [(0, 2, &[0, 1, 2][..]), (1, 1, &[3])]);
}
