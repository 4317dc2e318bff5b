//! What the index finds is what asking every node in its order finds, whatever has happened to the book before.

use super::judge::{BookNode, Nodes, Shown};
use super::*;
use crate::decision::admission::Admission;
use crate::decision::class::Class;
use crate::decision::job::{Request, Shape, Terms};
use crate::decision::node::{Cluster, NodeView};
use crate::decision::placement;
use crate::decision::policy::{
    AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla, NodeChoice, Obstacle, Offer, Policy,
};
use crate::decision::pricing::{AnyPricing, ByShare, Linear, Utilisation};
use crate::decision::service::ClassRules;
use crate::decision::share::ShareRule;
use proptest::prelude::*;

/// The same nodes without an index.
struct Plain<'a>(Nodes<'a>);

impl Cluster for Plain<'_> {
    type Node<'a>
        = BookNode<'a>
    where
        Self: 'a;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn node(&self, index: usize) -> Option<BookNode<'_>> {
        self.0.node(index)
    }

    fn node_for(&self, index: usize, request: &Request) -> Option<BookNode<'_>> {
        self.0.node_for(index, request)
    }
}

/// Whatever is asked of a cluster, answered.
fn answers<C: Cluster>(book: &Book, cluster: &C, request: &Request, jobs: u32) -> String {
    let admission = book.admission();
    let mut scratch = vec![
        Placement::EMPTY;
        placement::room(&admission.admission.policy, request, cluster.len())
    ];
    let judged = admission.judge_jobs(cluster, request, jobs, &mut scratch);
    let places = match &judged {
        Ok(accepted) => scratch[..accepted.nodes].to_vec(),
        Err(_) => Vec::new(),
    };
    let appraised = admission.appraise(cluster, request);
    let price = admission.price_now(cluster, request);
    let reason = admission.admission.reason(cluster, request);
    // As text: of numbers, the shortest that is read back as the same.
    format!("{judged:?} {places:?} {appraised:?} {price:?} {reason:?}")
}

fn assert_same(book: &Book, request: &Request, jobs: u32, allowed: Option<&[u32]>) {
    let plain = answers(book, &Plain(Nodes::now(book, allowed)), request, jobs);
    let shown = Shown::default();
    let nodes = Nodes::now(book, allowed).remembering(&shown);
    let indexed = answers(book, &nodes, request, jobs);
    assert_eq!(indexed, plain, "{request:?} {jobs} {allowed:?}");
    // What was remembered, by now, is what is there.
    let indexed = answers(book, &nodes, request, jobs);
    assert_eq!(indexed, plain, "{request:?} {jobs} {allowed:?}");
    let faster = Some(1.0);
    let plain = Plain(Nodes::now(book, allowed).no_slower_than(faster));
    let plain = answers(book, &plain, request, jobs);
    let indexed = answers(book, &nodes.no_slower_than(faster), request, jobs);
    assert_eq!(
        indexed, plain,
        "{request:?} {jobs} {allowed:?} no slower than 1"
    );
}

/// Numbers for one step.
type Step = (u8, u32, u32, u32);

/// Of few values each, so that nodes are often equally full.
fn spec((_, one, other, third): Step) -> NodeSpec {
    NodeSpec {
        processors: [1.0, 2.0, 2.5, 64.0, 0.1][one as usize % 5],
        rating: [1.0, 1.0, 2.0, 0.7][other as usize % 4],
        memory: [NodeSpec::MEMORY_UNLIMITED, 1 << 30, 64, 0][third as usize % 4],
    }
}

fn request((kind, one, other, third): Step) -> Request {
    let estimate = [10.0, 20.0, 1.0 / 3.0, 1e-3, 100.0][one as usize % 5];
    let slack: f64 = [1.0, 2.0, 3.0, 1e9, 0.9][other as usize % 5];
    let budget = [f64::INFINITY, 0.0, 25.0, 1e6][third as usize % 4];
    let deadline = (estimate * slack).clamp(0.002, 1e9);
    Request {
        terms: Terms {
            class: [
                Class::Deadline,
                Class::Deadline,
                Class::Dedicated,
                Class::Immediate,
            ][kind as usize / 16 % 4],
            ..Terms::hard(estimate, deadline, budget)
        },
        shape: Shape {
            chunks: [1, 1, 2, 7, 90][third as usize / 4 % 5],
            processors_per_chunk: [1, 1, 2, 3][other as usize / 5 % 4],
            memory_per_chunk: [0, 0, 10, 1 << 29][one as usize / 5 % 4],
            scatter: kind % 3 == 0,
            ..Shape::default()
        },
    }
}

/// One thing that happens to a book.
fn happen(book: &mut Book, step: Step, now: f64) {
    let (kind, one, other, third) = step;
    let node = |number: u32| format!("n{}", number % 40);
    let ids = book.ids();
    let id = ids
        .get(one as usize % ids.len().max(1))
        .cloned()
        .unwrap_or_default();
    let asked = request(step);
    // What is refused changes nothing, which is as good.
    match kind % 20 {
        0 => drop(book.set_node(&node(one), spec(step), third % 5 > 0)),
        1 => drop(book.set_available(&node(one), other % 3 > 0)),
        2..=6 => {
            if let Ok(admitted) = book.admit(&asked, now) {
                drop(book.bind(admitted.token, &admitted.token.to_string(), now));
            }
        }
        7 => drop(book.admit_array(&asked, 1 + one % 5, None, now)),
        8 => drop(book.started(&id, now)),
        9 => drop(book.progress(&id, None, f64::from(other % 20), now)),
        10 => drop(book.ended(&id, now)),
        11 => drop(book.requeued(&id, now)),
        12 => drop(book.moved(&id, &[(node(other), 1)], now)),
        13 => drop(book.modify(&id, &asked.terms, now)),
        14 => {
            if let Ok(admitted) = book.admit(&asked, now) {
                drop(book.hold(admitted.token, 1, now + 20.0));
                if other % 2 == 0 {
                    drop(book.redeem(admitted.token, 1, now));
                }
            }
        }
        15 => {
            let again = book.snapshot();
            drop(book.rebuild(&again));
        }
        // Somebody is to begin or to go on later.
        16 | 17 => {
            book.advance(now);
            let asked = Request {
                terms: Terms {
                    class: Class::Dedicated,
                    budget: f64::INFINITY,
                    ..asked.terms
                },
                ..asked
            };
            let planned = book.plan(&asked, None);
            let planned = planned.or_else(|| book.plan_in_front(&asked, None, &|_| other % 3 > 0));
            if let Some(planned) = planned {
                let token = book.promise(&asked, &planned).token;
                drop(book.bind(token, &token.to_string(), now));
            }
        }
        18 => drop(book.note_stands_still(&id, other % 2 == 0, now)),
        _ => {
            drop(book.let_go_on(now));
            if let Some(id) = book.planned().first().map(|id| id.to_string()) {
                drop(book.begin(&id, &asked, None, None, now));
            }
        }
    }
}

fn any_admission() -> impl Strategy<Value = Admission> {
    let choice = prop_oneof![Just(NodeChoice::BestFit), Just(NodeChoice::LeastLoaded)];
    let rule = prop_oneof![Just(ShareRule::Exact), Just(ShareRule::Integral)];
    let policy = prop_oneof![
        (choice, rule).prop_map(|(node_choice, share_rule)| AnyPolicy::Libra(Libra {
            node_choice,
            share_rule,
        })),
        any::<bool>()
            .prop_map(|unconditional| AnyPolicy::LibraAdaptive(LibraAdaptive { unconditional })),
        Just(AnyPolicy::LibraRisk(LibraRisk::default())),
        Just(AnyPolicy::LibraSla(LibraSla)),
    ];
    let pricing = prop_oneof![
        Just(AnyPricing::Linear(Linear::default())),
        Just(AnyPricing::ByShare(ByShare::default())),
        Just(AnyPricing::Utilisation(Utilisation::default())),
    ];
    (policy, pricing, 0..2u8).prop_map(|(policy, pricing, margin)| Admission {
        policy,
        pricing,
        estimate_margin: f64::from(margin) * 0.05,
    })
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(
        (any::<u8>(), any::<u32>(), any::<u32>(), any::<u32>()),
        1..most,
    )
}

proptest! {
    #[test]
    fn the_index_finds_what_a_scan_finds(
        admission in any_admission(),
        // More, too, than are compared for a job.
        nodes in prop_oneof![6 => 0usize..40, 1 => 65usize..110],
        alike: bool,
        latency in 0..2u8,
        happens in steps(80),
        asked in steps(4),
        allowed in proptest::collection::vec(prop_oneof![Just(0u32), Just(u32::MAX), 1u32..4], 110),
    ) {
        let rules = ClassRules::default().in_batch();
        let mut book = Book::new(ClassAdmission { admission, rules }, 30.0);
        book.set_start_latency(f64::from(latency) * 5.0);
        for number in 0..nodes {
            let step = happens[number % happens.len()];
            let step = if alike { (0, 1, 0, 0) } else { step };
            let spec = spec(step);
            book.set_node(&format!("n{number}"), spec, true).expect("a node");
        }
        let mut now = 0.0;
        for (number, step) in happens.iter().enumerate() {
            now += f64::from(step.3 % 7) * 0.75;
            happen(&mut book, *step, now);
            let asked = request(asked[number % asked.len()]);
            for jobs in [1, asked.shape.chunks] {
                assert_same(&book, &asked, jobs, None);
            }
            assert_same(&book, &asked, 1, Some(&allowed));
        }
    }
}

/// Blocks are split, made one, passed over, and left out where memory or a list of nodes closes next to all.
#[test]
fn of_many_nodes_the_index_finds_what_a_scan_finds() {
    let libra = |node_choice| {
        AnyPolicy::Libra(Libra {
            node_choice,
            ..Libra::default()
        })
    };
    let adaptive = AnyPolicy::LibraAdaptive(LibraAdaptive::default());
    // What each node is asked for takes long where all its jobs are looked at.
    for (policy, memory, nodes, rounds) in [
        (libra(NodeChoice::BestFit), 1 << 10, 1_500, 4_000u32),
        (libra(NodeChoice::LeastLoaded), 1 << 10, 1_500, 4_000),
        (
            libra(NodeChoice::BestFit),
            NodeSpec::MEMORY_UNLIMITED,
            1_500,
            4_000,
        ),
        (adaptive, 1 << 10, 300, 1_200),
        (adaptive, NodeSpec::MEMORY_UNLIMITED, 300, 1_200),
    ] {
        let admission = Admission {
            policy,
            ..Admission::default()
        };
        let mut book = Book::new(admission, 1e9);
        for number in 0..nodes {
            let spec = NodeSpec {
                processors: f64::from(4 + 4 * (number % 2)),
                rating: 1.0,
                memory,
            };
            let name = format!("n{number}");
            book.set_node(&name, spec, number % 11 > 0).expect("a node");
        }
        // Always the same numbers.
        let mut random = 1u64;
        let mut next = |most: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % most
        };
        let mut tokens = Vec::new();
        for round in 0..rounds {
            let request = Request {
                terms: Terms::hard(1.0, 1.0 + next(40) as f64, f64::INFINITY),
                shape: Shape {
                    chunks: [1, 1, 3, 40, 3_000][next(5) as usize],
                    processors_per_chunk: 1 + next(3) as u32,
                    memory_per_chunk: next(4) * 200,
                    scatter: next(4) == 0,
                    ..Shape::default()
                },
            };
            if round % 40 == 0 {
                assert_same(&book, &request, 1, None);
                let few: Vec<u32> = (0..nodes).map(|n| u32::from(n % 97 == 0) * 2).collect();
                assert_same(&book, &request, 1, Some(&few));
                let most: Vec<u32> = (0..nodes).map(|n| u32::from(n % 5 > 0) * 9).collect();
                assert_same(&book, &request, 1, Some(&most));
            }
            // First more come than go, then the other way round.
            if (round < 2_500) == (next(4) > 0) {
                tokens.extend(book.admit(&request, 0.0).map(|admitted| admitted.token));
            } else if !tokens.is_empty() {
                let token = tokens.swap_remove(next(tokens.len() as u64) as usize);
                book.cancel_token(token, 0.0).expect("there");
            }
        }
        for token in tokens.drain(..) {
            book.cancel_token(token, 0.0).expect("there");
        }
        let empty = Request::single(Terms::hard(1.0, 2.0, f64::INFINITY));
        assert_same(&book, &empty, 1, None);
    }
}

/// A policy that counts how often it is asked.
struct Counting<P>(P, std::cell::Cell<u64>);

impl<P: Policy> Policy for Counting<P> {
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        self.1.set(self.1.get() + 1);
        self.0.offer(node, request)
    }

    fn share_rule(&self) -> ShareRule {
        self.0.share_rule()
    }

    fn goes_by_sums(&self) -> Option<NodeChoice> {
        self.0.goes_by_sums()
    }

    fn ranks_by_sums(&self) -> Option<NodeChoice> {
        self.0.ranks_by_sums()
    }

    fn compared(&self, shape: &Shape) -> usize {
        self.0.compared(shape)
    }

    fn rank<N: NodeView>(&self, node: &N, request: &Request) -> f64 {
        self.0.rank(node, request)
    }
}

/// How often the policy is asked for 2,000 admissions of jobs of up to so many slots, and for as many refusals with their counter-offers.
fn asked<P: Policy>(policy: P, nodes: u32, slots: u32) -> (u64, u64) {
    let mut book = Book::new(Admission::default(), 30.0);
    for number in 0..nodes {
        let spec = NodeSpec {
            processors: 16.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        let name = format!("n{number}");
        book.set_node(&name, spec, true).expect("a node");
    }
    let counting: Admission<Counting<P>, Linear> = Admission {
        policy: Counting(policy, Default::default()),
        pricing: Linear::default(),
        estimate_margin: 0.0,
    };
    let count = |book: &Book, request: &Request| {
        let before = counting.policy.1.get();
        let mut scratch =
            vec![Placement::EMPTY; placement::room(&counting.policy, request, book.nodes.len())];
        let accepted = counting.judge(&Nodes::now(book, None), request, &mut scratch);
        (accepted.is_ok(), counting.policy.1.get() - before)
    };
    let (mut accepting, mut refusing) = (0, 0);
    for number in 0..2_000 {
        let terms = Terms::hard(10.0, 20.0 + f64::from(number % 70), f64::INFINITY);
        let mut request = Request::single(terms);
        request.shape.processors_per_chunk = 1 + number % slots;
        let (accepted, steps) = count(&book, &request);
        assert!(accepted);
        accepting += steps;
        // Of a policy that looks at every job all nodes are asked then, dozens of times.
        if counting.policy.goes_by_sums().is_some() {
            let mut large = request;
            large.shape.processors_per_chunk = 1_000;
            let (accepted, steps) = count(&book, &large);
            assert!(!accepted);
            refusing += steps;
        }
        book.admit(&request, 0.0).expect("there is room");
    }
    (accepting, refusing)
}

#[test]
fn on_sixteen_times_as_many_nodes_a_decision_looks_at_few_more() {
    let of = |nodes| asked(Libra::default(), nodes, 3);
    let (small, large) = (of(1_000), of(16_000));
    assert!(small.0 >= 2_000 && small.1 >= 2_000, "{small:?}");
    // Halving goes on for four steps more.
    assert!(large.0 <= small.0 + 2_000 * 5, "{small:?} {large:?}");
    assert!(large.1 <= 2 * small.1, "{small:?} {large:?}");
}

#[test]
fn where_every_job_counts_the_emptiest_nodes_are_asked_and_no_others() {
    let of = |nodes, slots| asked(LibraAdaptive::default(), nodes, slots).0;
    let (small, large) = (of(1_000, 1), of(16_000, 1));
    assert!((2_000..=12_000).contains(&small), "{small}");
    assert!(large <= small + 2_000, "{small} {large}");
    // Half of them have two slots: 64 of the nodes are asked then.
    let (small, large) = (of(1_000, 2), of(16_000, 2));
    assert!((64_000..=75_000).contains(&small), "{small}");
    assert!(large <= small + 2_000, "{small} {large}");
}

/// Jobs are to begin later, on nodes that stand apart. The others are in order all the same.
#[test]
fn beside_a_planned_start_few_more_nodes_are_asked() {
    let least_loaded = Libra {
        node_choice: NodeChoice::LeastLoaded,
        ..Libra::default()
    };
    for policy in [
        AnyPolicy::Libra(least_loaded),
        AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
    ] {
        let admission = Admission {
            policy,
            ..Admission::default()
        };
        let mut book = Book::new(admission, 30.0);
        // A job on each.
        for number in 0..500 {
            let spec = NodeSpec {
                processors: 4.0,
                rating: 1.0,
                memory: NodeSpec::MEMORY_UNLIMITED,
            };
            let name = format!("n{number}");
            book.set_node(&name, spec, true).expect("a node");
            let terms = Terms::hard(10.0, 520.0 - f64::from(number), f64::INFINITY);
            book.admit(&Request::single(terms), 0.0)
                .expect("there is room");
        }
        let mut dedicated = Request::single(Terms::hard(10.0, 1e3, f64::INFINITY));
        dedicated.terms.class = Class::Dedicated;
        dedicated.shape.processors_per_chunk = 2;
        let mut begin_later = 0;
        // By and by on all of them.
        for planned in [0, 1, 3, 500] {
            while begin_later < planned {
                let mut only = vec![0; 500];
                only[begin_later] = 2;
                let found = book.plan(&dedicated, Some(&only));
                book.promise(&dedicated, &found.expect("the others end before"));
                begin_later += 1;
            }
            for slots in [1, 2, 4, 5] {
                let mut asked = Request::single(Terms::hard(10.0, 11.0, f64::INFINITY));
                asked.shape.processors_per_chunk = slots;
                assert_same(&book, &asked, 1, None);
                asked.terms.deadline = 700.0;
                assert_same(&book, &asked, 1, None);
            }
            let counting: Admission<Counting<AnyPolicy>, Linear> = Admission {
                policy: Counting(policy, Default::default()),
                pricing: Linear::default(),
                estimate_margin: 0.0,
            };
            let asked = Request::single(Terms::hard(10.0, 700.0, f64::INFINITY));
            let mut scratch = vec![Placement::EMPTY; book.room(&asked)];
            let judged = counting.judge(&Nodes::now(&book, None), &asked, &mut scratch);
            judged.expect("there is room");
            let count = counting.policy.1.get();
            // By its rank, nobody is asked who is not the emptiest. Where sums say all, each of those that stand apart is.
            let apart = match policy.goes_by_sums() {
                Some(_) => planned as u64,
                None => 0,
            };
            assert!(count <= 30 + apart, "{count} with {planned} planned");
        }
    }
}

/// In the order of deadlines an emptier node may refuse what a fuller one takes. More of them than the search by the index has patience for.
#[test]
fn where_the_emptiest_nodes_refuse_the_index_finds_what_a_scan_finds() {
    let policy = AnyPolicy::LibraAdaptive(LibraAdaptive::default());
    let admission = Admission {
        policy,
        ..Admission::default()
    };
    let mut book = Book::new(admission, 1e9);
    let (nodes, urgent) = (200, 150);
    for number in 0..nodes {
        let spec = NodeSpec {
            processors: 1.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        book.set_node(&format!("n{number}"), spec, true)
            .expect("a node");
    }
    let mut put = |node: usize, estimate: f64, deadline: f64| {
        let mut allowed = vec![0; nodes];
        allowed[node] = u32::MAX;
        let request = Request::single(Terms::hard(estimate, deadline, f64::INFINITY));
        book.admit_among(&request, Some(&allowed), 0.0)
            .expect("there is room");
    };
    for node in 0..nodes {
        match node < urgent {
            // Half of the processor is committed, all before the deadline that is asked for.
            true => put(node, 5.0, 10.0),
            // More of it, and none of it has to be done before that.
            false => (0..2).for_each(|_| put(node, 400.0, 1_000.0)),
        }
    }
    let asked = Request::single(Terms::hard(10.0, 10.0, f64::INFINITY));
    assert_same(&book, &asked, 1, None);
    let place = book.admit(&asked, 0.0).expect("there is room").places[0].node;
    assert!(place >= urgent, "{place}");
}
