//! What arrays cost the book, in steps, and that the sums of nodes are those over their jobs.

use super::sums::work::steps;
use super::*;
use crate::decision::admission::Admission;
use crate::decision::job::{DeadlineType, Request, Terms};
use crate::decision::policy::{AnyPolicy, LibraSla};
use proptest::prelude::*;

fn book(nodes: usize, policy: AnyPolicy) -> Book {
    let admission = Admission {
        policy,
        ..Admission::default()
    };
    let mut book = Book::new(admission, 30.0);
    for index in 0..nodes {
        let spec = NodeSpec {
            processors: 64.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        book.set_node(&format!("n{index}"), spec, true)
            .expect("a plain node");
    }
    book
}

/// Steps of an array of tiny jobs: to take it, hold and redeem it, name, start and end its jobs; and to give one back.
fn life(count: u32, nodes: usize, policy: AnyPolicy) -> Vec<(&'static str, u64)> {
    let mut book = book(nodes, policy);
    let each = Request::single(Terms::hard(0.001, 100_000.0, f64::INFINITY));
    let id = |number: u64| format!("1[{number}]");
    let numbers = 0..u64::from(count);
    let take = |book: &mut Book| {
        let answer = book.admit_array(&each, count, None, 0.0);
        answer.expect("there is room").0
    };
    let mut found = Vec::new();
    let (admitted, taking) = steps(|| take(&mut book));
    found.push(("take", taking));
    let hold = |book: &mut Book| {
        book.hold(admitted.token, count, 60.0).expect("all there");
        book.redeem(admitted.token, count, 0.0).expect("held");
    };
    found.push(("hold and redeem", steps(|| hold(&mut book)).1));
    let start = |book: &mut Book| {
        for number in numbers.clone() {
            let token = admitted.token + number;
            book.bind(token, &id(number), 0.1).expect("a new name");
            book.started(&id(number), 0.1).expect("known");
        }
    };
    found.push(("start", steps(|| start(&mut book)).1));
    // Not in their order.
    let end = |book: &mut Book| {
        for number in numbers.clone() {
            let id = id((number * 7919) % u64::from(count));
            book.ended(&id, 0.2).expect("known");
        }
    };
    found.push(("end", steps(|| end(&mut book)).1));
    assert_eq!(book.job_count(), 0);
    let again = take(&mut book);
    let release = steps(|| book.release(&again, count, 0.3)).1;
    found.push(("release", release));
    take(&mut book);
    found.push(("expire", steps(|| book.advance(40.0)).1));
    for node in 0..nodes {
        assert_eq!(book.slots_on(node), 0);
        assert_eq!(book.committed(&format!("n{node}")), Ok(0.0));
    }
    found
}

/// One submission must not keep a batch server busy for longer than it takes to write the array down.
#[test]
fn an_array_costs_about_as_much_as_its_jobs_one_by_one() {
    for nodes in [1, 3] {
        let small = life(4_096, nodes, AnyPolicy::default());
        let large = life(65_536, nodes, AnyPolicy::default());
        for ((what, small), (_, large)) in small.into_iter().zip(large) {
            assert!(small >= 4_096, "{what}: {small} steps are not counted");
            // Of sixteen times as many jobs; what is done for all of them once for each would be 256 times.
            assert!(large <= 20 * small, "{what}: {small} {large}");
            assert!(large <= 32 * 65_536, "{what}: {large}");
        }
    }
}

#[test]
fn where_delays_are_accepted_an_array_settles_them_once() {
    let sla = AnyPolicy::LibraSla(LibraSla);
    let steps = |count| life(count, 1, sla)[0].1;
    let (small, large) = (steps(512), steps(4_096));
    assert!(large <= 10 * small, "{small} {large}");
}

#[test]
fn what_is_taken_off_leaves_nothing_behind() {
    let mut book = book(1, AnyPolicy::default());
    let mut tokens = Vec::new();
    for number in 1..=300 {
        let terms = Terms::hard(f64::from(number) / 7.0, 1e4, f64::INFINITY);
        let admitted = book.admit(&Request::single(terms), 0.0).expect("room");
        tokens.push(admitted.token);
    }
    for token in tokens.into_iter().rev() {
        book.cancel_token(token, 0.0).expect("there");
    }
    assert_eq!(book.committed("n0"), Ok(0.0));
}

/// The sums of a node, job by job.
fn by_hand(book: &Book, node: usize) -> (f64, u64, u64, u64) {
    let mut sums = (0.0, 0, 0, 0);
    for job in book.jobs.iter().flatten() {
        for place in job
            .places
            .iter()
            .filter(|place| place.node as usize == node)
        {
            let slots = u64::from(place.chunks) * u64::from(job.request.shape.processors_per_chunk);
            sums.0 += slots as f64 * place.counted_share();
            sums.1 += job.request.shape.memory_per_chunk * u64::from(place.chunks);
            sums.2 += slots;
            sums.3 += if job.held_until.is_some() { slots } else { 0 };
        }
    }
    sums
}

proptest! {
    #[test]
    fn sums_are_those_over_the_jobs(
        sla: bool,
        reserves: bool,
        steps in prop::collection::vec((0u8..9, 1u32..6, 0.01f64..0.9, 0.0f64..4.0), 1..60),
    ) {
        let policy = if sla { AnyPolicy::LibraSla(LibraSla) } else { AnyPolicy::default() };
        let mut book = book(3, policy);
        book.reserve_committed_share(reserves);
        let mut now = 0.0;
        let mut names = 0;
        for (what, count, share, later) in steps {
            now += later;
            let ids: Vec<String> = book.ids().into_iter().take(1).collect();
            let mut request = Request::single(Terms::hard(20.0 * share, 20.0, 1e6));
            request.terms.deadline_type = DeadlineType::Soft;
            request.terms.penalty_rate = 0.1;
            request.shape.chunks = count;
            request.shape.memory_per_chunk = 1000;
            match (what, ids.first()) {
                (0, _) => drop(book.admit(&request, now)),
                (1, _) => {
                    if let Ok((admitted, _)) = book.admit_array(&request, 3, None, now) {
                        book.hold(admitted.token, 3, now + 5.0).expect("just taken");
                        if share > 0.5 {
                            book.redeem(admitted.token, 3, now).expect("held");
                        }
                    }
                }
                (2, _) | (_, None) => {
                    if let Ok(admitted) = book.admit(&request, now) {
                        names += 1;
                        book.bind(admitted.token, &names.to_string(), now).expect("new");
                    }
                }
                (3, Some(id)) => book.started(id, now).expect("known"),
                (4, Some(id)) => book.progress(id, None, later, now).expect("known"),
                (5, Some(id)) => drop(book.ended(id, now)),
                (6, Some(id)) => drop(book.modify(id, &request.terms, now)),
                (7, Some(id)) => {
                    let places = [("n2".to_string(), count)];
                    drop(book.moved(id, &places, now));
                }
                (_, Some(id)) => book.requeued(id, now).expect("known"),
            }
            for node in 0..3 {
                let (committed, memory, slots, quoted) = by_hand(&book, node);
                let kept = &book.nodes[node];
                prop_assert!((kept.committed - committed).abs() < 1e-9, "{committed} {kept:?}");
                prop_assert_eq!(kept.memory_committed, memory);
                prop_assert_eq!((book.slots_on(node), book.quoted_slots_on(node)), (slots, quoted));
            }
        }
    }
}
