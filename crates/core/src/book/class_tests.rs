use super::*;
use crate::commitment::Commitment;
use crate::decision::admission::Admission;
use crate::decision::class::Class;
use crate::decision::counter_offer::CounterOffer;
use crate::decision::job::{Request, Terms};
use crate::decision::policy::{AnyPolicy, LibraAdaptive, LibraRisk, LibraSla};
use crate::decision::refusal::Category;
use crate::decision::service::{ClassRules, NONE};

const POLICIES: [AnyPolicy; 4] = [
    AnyPolicy::Libra(crate::decision::policy::Libra {
        node_choice: crate::decision::policy::NodeChoice::BestFit,
        share_rule: crate::decision::share::ShareRule::Exact,
    }),
    AnyPolicy::LibraSla(LibraSla),
    AnyPolicy::LibraRisk(LibraRisk {
        spare_is_shared: false,
        unconditional: true,
    }),
    AnyPolicy::LibraAdaptive(LibraAdaptive {
        unconditional: true,
    }),
];

/// Nodes of two processors, `n0` and so on.
fn book(policy: AnyPolicy, nodes: usize) -> Book {
    let admission = ClassAdmission {
        admission: Admission {
            policy,
            ..Admission::default()
        },
        rules: ClassRules {
            dedicated_factor: 2.0,
            immediate_factor: 3.0,
            ..ClassRules::default().in_batch()
        },
    };
    let mut book = Book::new(admission, 30.0);
    for index in 0..nodes {
        let spec = NodeSpec {
            processors: 2.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        book.set_node(&format!("n{index}"), spec, true)
            .expect("a plain node");
    }
    book
}

fn of(class: Class, estimate: f64, deadline: f64) -> Request {
    Request::single(Terms {
        class,
        ..Terms::hard(estimate, deadline, 1e6)
    })
}

fn classes(error: BookError) -> Vec<(Class, f64)> {
    let BookError::Refused(refusal) = error else {
        panic!("not refused: {error:?}");
    };
    let of = |offer: &CounterOffer| match offer {
        CounterOffer::Class { class, price } => Some((*class, *price)),
        _ => None,
    };
    refusal.counter_offers.iter().filter_map(of).collect()
}

fn committed(book: &Book) -> f64 {
    book.committed("n0").expect("a node")
}

#[test]
fn whole_processors_stay_whole_from_acceptance_to_the_end() {
    for policy in POLICIES {
        for (class, deadline) in [(Class::Dedicated, 100.0), (Class::Immediate, NONE)] {
            let mut book = book(policy, 1);
            let job = book.admit(&of(class, 10.0, deadline), 0.0).expect("room");
            assert_eq!(job.places[0].share, 1.0);
            book.bind(job.token, "1", 0.0).expect("known");
            book.advance(5.0);
            assert_eq!(committed(&book), 1.0, "it waits to be started");
            book.started("1", 5.0).expect("known");
            for (cput, now) in [(4.0, 10.0), (9.9, 20.0), (12.0, 40.0), (50.0, 200.0)] {
                book.progress("1", None, cput, now).expect("known");
                assert_eq!(committed(&book), 1.0, "{policy:?} {class:?} {cput}");
                assert_eq!(book.places("1").expect("known")[0].share, 1.0);
            }
            book.requeued("1", 201.0).expect("known");
            assert_eq!(committed(&book), 1.0);
            book.ended("1", 202.0).expect("known");
            assert_eq!(committed(&book), 0.0);
        }
    }
}

#[test]
fn who_has_a_share_is_judged_on_the_processors_that_nobody_has_whole() {
    for policy in POLICIES {
        let mut book = book(policy, 1);
        let whole = book.admit(&of(Class::Immediate, 10.0, NONE), 0.0);
        assert!(whole.is_ok(), "{policy:?}: {whole:?}");
        // One of two processors is left: for two halves and no third, whichever way the policy takes them.
        let half = of(Class::Deadline, 50.0, 100.0);
        for _ in 0..2 {
            book.admit(&half, 0.0).expect("half of what is left");
        }
        // LibraRisk takes a job that is as late as all others.
        if !matches!(policy, AnyPolicy::LibraRisk(_)) {
            assert!(book.admit(&half, 0.0).is_err(), "{policy:?}");
        }
        let mut two = of(Class::Dedicated, 10.0, 100.0);
        two.shape.processors_per_chunk = 2;
        assert!(book.admit(&two, 0.0).is_err(), "{policy:?}");
    }
}

#[test]
fn what_is_refused_is_offered_in_another_class_and_that_is_taken_at_its_price() {
    let mut book = book(POLICIES[0], 1);
    book.admit(&of(Class::Deadline, 60.0, 100.0), 0.0)
        .expect("room");
    let mut two = of(Class::Immediate, 50.0, 100.0);
    two.shape.processors_per_chunk = 2;
    let error = book.admit(&two, 0.0).expect_err("1.4 are free");
    let BookError::Refused(refusal) = &error else {
        panic!("not refused: {error:?}");
    };
    assert_eq!(refusal.reason.category(), Category::Share);
    // Best effort is no class of a batch system, and no dedicated job has more room.
    let offered = classes(error);
    assert_eq!(offered, [(Class::Deadline, 101.0)]);
    two.terms.class = Class::Deadline;
    assert_eq!(book.admit(&two, 0.0).map(|job| job.price), Ok(101.0));
    // For less than its class costs, it may be had in a cheaper one.
    let mut poor = of(Class::Immediate, 10.0, 100.0);
    poor.terms.budget = 25.0;
    let mut empty = super::class_tests::book(POLICIES[0], 1);
    let error = empty.admit(&poor, 0.0).expect_err("it costs 33");
    assert_eq!(
        classes(error),
        [(Class::Deadline, 10.1), (Class::Dedicated, 20.2)]
    );
    // Where no site offers classes, none is.
    let mut plain = Book::new(Admission::default(), 30.0);
    plain.set_node("n0", NODE, true).expect("a node");
    let error = plain.admit(&poor_deadline(), 0.0).expect_err("it costs 10");
    assert_eq!(classes(error), []);
}

const NODE: NodeSpec = NodeSpec {
    processors: 2.0,
    rating: 1.0,
    memory: NodeSpec::MEMORY_UNLIMITED,
};

fn poor_deadline() -> Request {
    let mut poor = of(Class::Deadline, 10.0, 100.0);
    poor.terms.budget = 1.0;
    poor
}

#[test]
fn what_a_restart_reads_back_is_whole_again() {
    let mut book = book(POLICIES[3], 1);
    let request = of(Class::Dedicated, 10.0, 100.0);
    let admitted = book.admit(&request, 0.0).expect("room");
    let line = book.commitment(&request, 1, &admitted, None, 0.0).line();
    assert!(line.contains(":class=dedicated:"), "{line}");
    let read = Commitment::parse(&line).expect("ours");
    assert_eq!(read.request, request);
    book.bind(admitted.token, "1", 0.0).expect("known");
    book.progress("1", None, 5.0, 50.0).expect("known");
    let text = serde_json::to_string(&book.snapshot()).expect("plain data");
    let mut again = Book::new(*book.admission(), 30.0);
    let records: Snapshot = serde_json::from_str(&text).expect("what was written");
    assert_eq!(again.rebuild(&records), Ok(Vec::new()));
    assert_eq!(committed(&again), 1.0);
    let half = of(Class::Deadline, 60.0, 100.0);
    again.admit(&half, 50.0).expect("the other processor");
    assert!(again.admit(&half, 50.0).is_err());
}

#[test]
fn new_terms_of_a_whole_job_keep_it_whole() {
    let mut book = book(POLICIES[1], 1);
    let admitted = (book.admit(&of(Class::Dedicated, 10.0, 100.0), 0.0)).expect("room");
    book.bind(admitted.token, "1", 0.0).expect("known");
    let hurry = of(Class::Dedicated, 10.0, 20.0).terms;
    // Twice what the terms cost, as any of its class.
    assert_eq!(book.modify("1", &hurry, 1.0), Ok(21.0));
    assert_eq!(committed(&book), 1.0);
    let too_late = of(Class::Dedicated, 10.0, 10.5).terms;
    assert!(book.modify("1", &too_late, 1.0).is_err());
}

#[test]
fn an_array_has_whole_processors_for_each_of_its_jobs() {
    let mut book = book(POLICIES[0], 2);
    book.set_start_latency(5.0);
    let each = of(Class::Immediate, 10.0, NONE);
    let (admitted, _) = book.admit_array(&each, 4, None, 0.0).expect("four");
    assert_eq!(
        admitted
            .places
            .iter()
            .map(|place| place.chunks)
            .sum::<u32>(),
        4
    );
    assert_eq!(admitted.price, 4.0 * 33.0);
    assert!(book.admit(&of(Class::Deadline, 1.0, 100.0), 0.0).is_err());
}

#[test]
fn a_job_whose_terms_change_keeps_its_class() {
    let mut book = book(AnyPolicy::default(), 1);
    for (id, class) in [("whole", Class::Dedicated), ("share", Class::Deadline)] {
        let admitted = book.admit(&of(class, 100.0, 1000.0), 0.0).expect("room");
        book.bind(admitted.token, id, 0.0).expect("a new id");
    }
    for (id, other) in [("whole", Class::Deadline), ("share", Class::Dedicated)] {
        let terms = of(other, 100.0, 2000.0).terms;
        book.modify(id, &terms, 1.0).expect("room");
    }
    assert_eq!(book.nodes[0].whole, 1.0);
    for id in ["whole", "share"] {
        book.ended(id, 2.0).expect("known");
    }
    assert_eq!(book.nodes[0].whole, 0.0);
    assert!(book.nodes[0].committed.abs() < 1e-12);
}

/// A node of so many processors under a policy that takes more than shares that add up.
fn in_deadline_order(processors: f64) -> Book {
    let mut book = book(AnyPolicy::LibraAdaptive(LibraAdaptive::default()), 1);
    let spec = NodeSpec {
        processors,
        ..book.nodes[0].spec
    };
    book.set_node("n0", spec, true).expect("ours");
    book
}

/// Jobs with a share run from now on, each of so many slots, with an estimate and a deadline; or the first that is refused is told.
fn run_all(book: &mut Book, jobs: &[(u32, f64, f64)], now: f64) -> Result<(), usize> {
    for (index, &(slots, estimate, deadline)) in jobs.iter().enumerate() {
        let mut request = of(Class::Deadline, estimate, deadline);
        request.shape.processors_per_chunk = slots;
        let admitted = book.admit(&request, now).map_err(|_| index)?;
        let id = admitted.token.to_string();
        book.bind(admitted.token, &id, now).expect("ours");
        book.started(&id, now).expect("ours");
    }
    Ok(())
}

/// When a dedicated job would begin, of so many processors.
fn begins_at(book: &Book, processors: u32, estimate: f64, deadline: f64) -> Option<f64> {
    let mut request = of(Class::Dedicated, estimate, deadline);
    request.shape.processors_per_chunk = processors;
    Some(book.plan(&request, None)?.starts_by)
}

#[test]
fn no_start_is_planned_beside_slots_that_would_not_find_a_whole_processor() {
    // Until 11 the first two have both processors, and 18 seconds of work remain until 20: more than one processor can do.
    let mut book = in_deadline_order(2.0);
    let first = [(1, 10.0, 10.0), (1, 10.0, 11.0)];
    assert_eq!(run_all(&mut book, &first, 0.0), Ok(()));
    assert_eq!(run_all(&mut book, &[(1, 6.0, 20.0); 3], 0.0), Ok(()));
    assert!(book.committed("n0").expect("ours") > 2.8);
    assert_eq!(begins_at(&book, 1, 9.0, 21.0), None);
    // All of them are done by 20.
    assert_eq!(begins_at(&book, 1, 9.0, 30.0), Some(20.0));
    assert_eq!(begins_at(&book, 2, 9.0, 30.0), Some(20.0));
    // A single slot has the other one.
    let mut book = in_deadline_order(2.0);
    let jobs = [(1, 9.0, 10.0), (1, 6.0, 20.0)];
    assert_eq!(run_all(&mut book, &jobs, 0.0), Ok(()));
    assert_eq!(begins_at(&book, 1, 9.0, 21.0), Some(10.0));
    // These add up at every moment beside two processors from 10 on, and hosts are done with the first three at 7.26: two of three processors are used
    // then until 10, and one is too few from there on.
    let mut book = in_deadline_order(3.0);
    assert_eq!(run_all(&mut book, &[(1, 6.6, 10.0); 3], 0.0), Ok(()));
    assert_eq!(run_all(&mut book, &[(1, 10.0, 20.0); 2], 0.0), Ok(()));
    assert_eq!(begins_at(&book, 2, 15.0, 30.0), None);
    assert_eq!(begins_at(&book, 1, 15.0, 30.0), Some(10.0));
}

/// A start is promised to a dedicated job.
fn plan(book: &mut Book, processors: u32, estimate: f64, deadline: f64) -> f64 {
    let mut request = of(Class::Dedicated, estimate, deadline);
    request.shape.processors_per_chunk = processors;
    let planned = book.plan(&request, None).expect("a share of each fits");
    book.promise(&request, &planned);
    planned.starts_by
}

#[test]
fn who_comes_in_front_of_a_planned_start_finds_a_whole_processor_beside_it_or_is_gone() {
    let mut book = in_deadline_order(2.0);
    let jobs = [(1, 9.0, 10.0), (1, 15.0, 20.0)];
    assert_eq!(run_all(&mut book, &jobs, 0.0), Ok(()));
    assert_eq!(plan(&mut book, 1, 10.0, 20.0), 10.0);
    // 9 seconds and 5 of the second one's before 10, on two processors.
    assert_eq!(run_all(&mut book, &[(1, 7.0, 10.0)], 0.0), Err(0));
    assert_eq!(run_all(&mut book, &[(1, 4.0, 10.0)], 0.0), Ok(()));
    // The second one has the other processor then.
    assert_eq!(run_all(&mut book, &[(1, 0.1, 15.0)], 0.0), Err(0));
    book.ended("2", 0.0).expect("ours");
    assert_eq!(run_all(&mut book, &[(1, 0.1, 15.0)], 0.0), Ok(()));
}

#[test]
fn shares_beside_a_planned_start_may_not_be_put_off_by_hosts_that_do_not_know_of_it() {
    let mut book = in_deadline_order(10.0);
    let first = [(3, 1.0, 1.0), (2, 10.0, 10.0)];
    let long = (1, 17.8, 20.0);
    assert_eq!(run_all(&mut book, &first, 0.0), Ok(()));
    assert_eq!(run_all(&mut book, &[long; 3], 0.0), Ok(()));
    assert_eq!(plan(&mut book, 3, 20.0, 30.0), 1.0);
    // On seven processors all of them would end in time. But until 1 hosts have ten, and put the long ones off behind all others.
    assert_eq!(run_all(&mut book, &[long; 3], 0.0), Err(2));
}
