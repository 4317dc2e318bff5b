use super::*;
use crate::decision::TOLERANCE;
use crate::decision::admission::Admission;
use crate::decision::class::Class;
use crate::decision::curve::with_deadline;
use crate::decision::job::{Request, Terms};
use crate::decision::policy::{AnyPolicy, LibraAdaptive, LibraRisk, LibraSla, Policy};
use crate::decision::service::ClassRules;
use proptest::prelude::*;

/// No class has a price that matters here.
const BUDGET: f64 = 1e12;

fn request(class: Class, estimate: f64, deadline: f64, processors: u32) -> Request {
    let mut request = Request::single(Terms {
        class,
        ..Terms::hard(estimate, deadline, BUDGET)
    });
    request.shape.processors_per_chunk = processors;
    request
}

fn dedicated(estimate: f64, deadline: f64, processors: u32) -> Request {
    request(Class::Dedicated, estimate, deadline, processors)
}

fn book(policy: AnyPolicy, nodes: &[f64]) -> Book {
    let rules = ClassAdmission {
        admission: Admission {
            policy,
            ..Admission::default()
        },
        rules: ClassRules::default(),
    };
    let mut book = Book::new(rules, 1e6);
    for (index, &processors) in nodes.iter().enumerate() {
        let spec = NodeSpec {
            processors,
            rating: 1.0,
            memory: 1000,
        };
        book.set_node(&format!("n{}", index + 1), spec, true)
            .expect("ours");
    }
    book
}

fn one(processors: f64) -> Book {
    book(AnyPolicy::default(), &[processors])
}

#[test]
fn what_is_held_is_done_before_who_begins_behind_it() {
    for held in [
        request(Class::Deadline, 40.0, 95.0, 1),
        dedicated(95.0, 500.0, 1),
    ] {
        let mut book = one(2.0);
        let runs = request(Class::Deadline, 50.0, 100.0, 1);
        book.admit(&runs, 0.0).expect("there is room");
        let last = dedicated(50.0, 1e3, 2);
        let planned = book.plan(&last, None).expect("behind the first one");
        assert_eq!(planned.starts_by, 100.0);
        book.promise(&last, &planned);
        assert!(book.quote(&held, None, None).is_ok());
        // Whoever comes at 6 is not done by 100.
        for array in [None, Some(1)] {
            let refused = book.admit_until(&held, array, None, 6.0, 0.0);
            assert!(matches!(refused, Err(BookError::Refused(_))), "{refused:?}");
        }
        assert!(book.questions(6.0).quote(&held, None, None).is_err());
        assert!(book.questions(5.0).quote(&held, None, None).is_ok());
        for array in [None, Some(1)] {
            let taken = book.admit_until(&held, array, None, 5.0, 0.0);
            let (taken, _) = taken.expect("until 100");
            book.hold(taken.token, 1, 5.0).expect("just admitted");
            // It is out of the way of starts that are planned from now on as well.
            let next = book.plan(&dedicated(1.0, 1e3, 2), None);
            assert_eq!(next.map(|planned| planned.starts_by), Some(150.0));
            book.cancel_token(taken.token, 0.0).expect("held");
        }
    }
}

/// The nodes get these ratings.
pub(super) fn rate(book: &mut Book, nodes: &[(f64, f64)]) {
    for (index, &(processors, rating)) in nodes.iter().enumerate() {
        let spec = NodeSpec {
            processors,
            rating,
            memory: 1000,
        };
        book.set_node(&format!("n{}", index + 1), spec, true)
            .expect("ours");
    }
}

/// The rating of the slowest node of a job, at whose pace all its processes go.
pub(super) fn pace(book: &Book, id: &str) -> f64 {
    let places = book.places(id).expect("in the book").into_iter();
    let rating = |place: PlaceView| book.nodes[book.by_name[place.node]].spec.rating;
    places.map(rating).fold(f64::INFINITY, f64::min)
}

fn run(book: &mut Book, id: &str, request: &Request, now: f64) {
    let admitted = book.admit(request, now).expect("room");
    book.bind(admitted.token, id, now).expect("ours");
    book.started(id, now).expect("ours");
}

/// Promises a start; when it is.
fn promise(book: &mut Book, id: &str, request: &Request, now: f64) -> f64 {
    book.advance(now);
    let planned = book.plan(request, None).expect("a start");
    let admitted = book.promise(request, &planned);
    book.bind(admitted.token, id, now).expect("ours");
    assert_eq!(book.starts_by(id), Some(planned.starts_by));
    planned.starts_by
}

fn begins(book: &mut Book, id: &str, request: &Request, submitted: f64, now: f64) -> bool {
    let left = with_deadline(request, request.terms.deadline - (now - submitted));
    book.begin(id, &left, None, None, now).is_some()
}

#[test]
fn it_begins_when_those_before_it_are_done() {
    let mut book = one(1.0);
    run(&mut book, "1", &dedicated(50.0, 1000.0, 1), 0.0);
    let asked = dedicated(20.0, 100.0, 1);
    assert!(book.admit(&asked, 0.0).is_err());
    assert_eq!(promise(&mut book, "2", &asked, 0.0), 50.0);
    // Behind it, whatever its own deadline.
    assert_eq!(
        promise(&mut book, "3", &dedicated(5.0, 500.0, 1), 0.0),
        70.0
    );
    assert_eq!(book.committed("n1"), Ok(1.0));
    assert_eq!(book.planned(), ["2", "3"]);
    // It could begin at 75, which is too late; so is no start.
    assert_eq!(book.plan(&dedicated(10.0, 84.0, 1), None), None);
    assert!(!begins(&mut book, "2", &asked, 0.0, 49.0));
    book.ended("1", 30.0).expect("there");
    assert!(begins(&mut book, "2", &asked, 0.0, 30.0));
    assert_eq!(book.planned(), ["3"]);
    assert_eq!(book.committed("n1"), Ok(1.0));
}

#[test]
fn what_was_promised_keeps_its_margin() {
    let mut book = one(1.0);
    book.set_margin(Some(0.5));
    let first = book.admit(&dedicated(100.0, 1000.0, 1), 0.0).expect("room");
    let line = book.commitment(&dedicated(100.0, 1000.0, 1), 1, &first, None, 0.0);
    book.bind(first.token, "1", 0.0).expect("ours");
    book.started("1", 0.0).expect("ours");
    let second = dedicated(10.0, 500.0, 1);
    assert_eq!(promise(&mut book, "2", &second, 0.0), 150.0);
    // Less is learned: who is there has its processors for as long as it was told, and who comes is behind both.
    assert_eq!(book.set_margin(Some(0.0)), 0.5);
    let third = dedicated(10.0, 500.0, 1);
    assert_eq!(promise(&mut book, "3", &third, 0.0), 165.0);
    assert!(!begins(&mut book, "2", &second, 0.0, 149.0));
    // And so it is for a server that has begun anew, also by a record that is read back.
    let mut again = one(1.0);
    let untaken = again.rebuild(&book.snapshot()).expect("its own");
    assert_eq!(untaken, []);
    assert_eq!(promise(&mut again, "4", &third, 149.0), 175.0);
    assert_eq!(line.margin, Some(0.5));
    let record = JobRecord::committed("1", 0, &line, Phase::Running);
    let mut of_line = one(1.0);
    of_line.restore(&record).expect("room");
    assert_eq!(promise(&mut of_line, "2", &second, 0.0), 150.0);
    // More is learned: nobody's promise is given back for it, and a job that begins has what it was promised.
    book.set_margin(Some(1.0));
    book.ended("1", 150.0).expect("there");
    let left = with_deadline(&second, 350.0);
    let begun = book
        .begin("2", &left, None, None, 150.0)
        .expect("its place");
    let line = book.commitment(&second, 1, &begun, None, 150.0);
    assert_eq!(line.margin, Some(0.5));
    book.started("2", 150.0).expect("begun");
    assert!(begins(&mut book, "3", &third, 0.0, 166.0));
    assert!(
        again
            .restore(&JobRecord {
                margin: Some(-1.0),
                ..record
            })
            .is_err()
    );
}

#[test]
fn whether_a_planned_job_could_begin_is_judged_by_its_own_margin() {
    let mut book = one(1.0);
    run(&mut book, "1", &dedicated(10.0, 1000.0, 1), 0.0);
    assert_eq!(
        promise(&mut book, "2", &dedicated(10.0, 22.0, 1), 0.0),
        10.0
    );
    // With as much again it would not end in the 12 seconds that are left.
    book.set_margin(Some(1.0));
    assert!(!book.could_begin("2", None));
    book.ended("1", 10.0).expect("there");
    assert!(book.could_begin("2", None));
}

#[test]
fn with_a_share_somebody_is_done_at_the_deadline() {
    let mut book = one(2.0);
    run(
        &mut book,
        "1",
        &request(Class::Deadline, 80.0, 100.0, 1),
        0.0,
    );
    assert_eq!(
        promise(&mut book, "2", &dedicated(10.0, 1000.0, 2), 0.0),
        100.0
    );
}

#[test]
fn what_is_done_before_it_begins_may_still_come() {
    for policy in [
        AnyPolicy::default(),
        AnyPolicy::LibraSla(LibraSla),
        AnyPolicy::LibraRisk(LibraRisk::default()),
        AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
    ] {
        let mut book = book(policy, &[2.0]);
        run(&mut book, "1", &dedicated(50.0, 1000.0, 1), 0.0);
        promise(&mut book, "2", &dedicated(20.0, 100.0, 2), 0.0);
        for (class, estimate, deadline, fits) in [
            (Class::Dedicated, 50.0, 1000.0, true),
            (Class::Dedicated, 51.0, 1000.0, false),
            (Class::Immediate, 51.0, 1000.0, false),
            (Class::Deadline, 10.0, 50.0, true),
            (Class::Deadline, 10.0, 51.0, false),
            (Class::Deadline, 10.0, 1000.0, false),
        ] {
            let asked = request(class, estimate, deadline, 1);
            let answer = book.quote(&asked, None, None);
            assert_eq!(answer.is_ok(), fits, "{policy:?} {asked:?} {answer:?}");
            // What is offered instead is taken.
            if let Err(BookError::Refused(refusal)) = answer {
                assert!(refusal.reason.category().is_for_nodes(), "{refusal:?}");
                for offer in &refusal.counter_offers {
                    let taken = book.quote(&offer.apply(&asked), None, None);
                    assert!(taken.is_ok(), "{policy:?} {offer:?} {taken:?}");
                }
            }
        }
    }
}

#[test]
fn memory_is_kept_from_its_acceptance() {
    let mut book = one(1.0);
    let mut large = dedicated(50.0, 1000.0, 1);
    large.shape.memory_per_chunk = 600;
    run(&mut book, "1", &large, 0.0);
    assert_eq!(book.plan(&large, None), None);
    large.shape.memory_per_chunk = 400;
    assert_eq!(promise(&mut book, "2", &large, 0.0), 50.0);
    assert_eq!(book.free_memory_on("n1"), Some(0));
    // Its own it has.
    book.ended("1", 10.0).expect("there");
    assert!(begins(&mut book, "2", &large, 0.0, 10.0));
}

#[test]
fn who_outlives_its_time_gives_way_to_who_is_due_alone() {
    let mut book = one(1.0);
    run(&mut book, "1", &dedicated(50.0, 1000.0, 1), 0.0);
    let asked = dedicated(20.0, 100.0, 1);
    promise(&mut book, "2", &asked, 0.0);
    book.advance(60.0);
    // Nobody knows when it will be done.
    assert_eq!(book.plan(&dedicated(1.0, 19.0, 1), None), None);
    assert!(begins(&mut book, "2", &asked, 0.0, 60.0));
    assert_eq!(book.committed("n1"), Ok(2.0));
    // A job with a share keeps none past its deadline either.
    let mut book = one(1.0);
    run(
        &mut book,
        "1",
        &request(Class::Deadline, 50.0, 50.0, 1),
        0.0,
    );
    promise(&mut book, "2", &asked, 0.0);
    assert!(begins(&mut book, "2", &asked, 0.0, 50.0));
}

#[test]
fn one_that_is_due_waits_for_who_was_started_late_and_for_its_node() {
    let mut book = one(1.0);
    let first = book.admit(&dedicated(50.0, 1000.0, 1), 0.0).expect("room");
    book.bind(first.token, "1", 0.0).expect("ours");
    let asked = dedicated(20.0, 100.0, 1);
    promise(&mut book, "2", &asked, 0.0);
    book.started("1", 5.0).expect("ours");
    assert!(!begins(&mut book, "2", &asked, 0.0, 52.0));
    // Its place is kept meanwhile.
    assert!(
        book.quote(&request(Class::Deadline, 0.1, 100.0, 1), None, None)
            .is_err()
    );
    book.set_available("n1", false).expect("ours");
    assert!(!begins(&mut book, "2", &asked, 0.0, 56.0));
    assert_eq!(book.plan_anew("2", None, 56.0), None);
    book.set_available("n1", true).expect("ours");
    assert!(begins(&mut book, "2", &asked, 0.0, 56.0));
}

#[test]
fn an_overdue_one_is_planned_anew_elsewhere() {
    let mut book = book(AnyPolicy::default(), &[1.0, 1.0]);
    run(&mut book, "1", &dedicated(50.0, 1000.0, 1), 0.0);
    run(&mut book, "2", &dedicated(70.0, 1000.0, 1), 0.0);
    let asked = dedicated(20.0, 100.0, 1);
    assert_eq!(promise(&mut book, "3", &asked, 0.0), 50.0);
    book.set_available("n1", false).expect("ours");
    assert!(!begins(&mut book, "3", &asked, 0.0, 60.0));
    let anew = book.plan_anew("3", None, 60.0).expect("on the other");
    assert_eq!((anew.starts_by, anew.offer.places[0].node), (70.0, 1));
    assert_eq!(book.starts_by("3"), Some(70.0));
    assert!(begins(&mut book, "3", &asked, 0.0, 70.0));
}

#[test]
fn the_plan_is_made_of_records_again() {
    let mut book = one(2.0);
    book.set_start_latency(4.0);
    run(&mut book, "1", &dedicated(50.0, 1000.0, 2), 0.0);
    let latest = promise(&mut book, "2", &dedicated(20.0, 100.0, 1), 1.0);
    assert_eq!(latest, 54.0);
    let snapshot = book.snapshot();
    let mut again = one(2.0);
    again.set_start_latency(4.0);
    assert_eq!(again.rebuild(&snapshot).expect("ours"), []);
    assert_eq!(again.starts_by("2"), Some(latest));
    for (estimate, fits) in [(24.0, true), (23.0, true)] {
        // Beside it, and behind the first.
        let asked = dedicated(estimate, 90.0, 1);
        assert_eq!(again.plan(&asked, None).is_some(), fits);
        assert_eq!(again.plan(&asked, None), book.plan(&asked, None));
    }
    // Whoever lets it run, it runs.
    again.ended("1", 10.0).expect("there");
    again.started("2", 10.0).expect("there");
    assert_eq!(
        (again.starts_by("2"), again.committed("n1")),
        (None, Ok(1.0))
    );
}

#[test]
fn who_outlived_its_time_does_not_count_beside_who_begins_by_right() {
    let mut book = one(1.0);
    book.reserve_committed_share(true);
    book.set_begin_latency(5.0);
    run(&mut book, "1", &dedicated(50.0, 1000.0, 1), 0.0);
    let asked = dedicated(20.0, 200.0, 1);
    assert_eq!(promise(&mut book, "2", &asked, 0.0), 55.0);
    let before = Some((1.0, 1.0));
    assert_eq!(
        (book.committed_shares("n1"), book.shares_in_time("n1")),
        (before, before)
    );
    assert!(!book.could_begin("2", None) && !book.could_begin("1", None));
    assert!(begins(&mut book, "2", &asked, 0.0, 55.0));
    assert_eq!(book.committed_shares("n1"), Some((2.0, 1.0)));
    assert_eq!(book.shares_in_time("n1"), Some((1.0, 1.0)));
    // Who is planned behind it begins so much later, and sooner when it is gone.
    book.ended("1", 56.0).expect("there");
    assert_eq!(promise(&mut book, "3", &asked, 56.0), 80.0);
    assert!(!book.could_begin("3", None));
    book.ended("2", 60.0).expect("there");
    assert!(book.could_begin("3", None));
}

#[test]
fn only_dedicated_jobs_are_planned_and_only_within_their_budgets() {
    let mut book = one(1.0);
    run(&mut book, "1", &dedicated(50.0, 1000.0, 1), 0.0);
    for class in [Class::Deadline, Class::Immediate] {
        assert_eq!(book.plan(&request(class, 10.0, 100.0, 1), None), None);
    }
    let mut poor = dedicated(10.0, 100.0, 1);
    poor.terms.budget = 5.0;
    assert_eq!(book.plan(&poor, None), None);
    // None on nodes that it may not have.
    assert_eq!(book.plan(&dedicated(10.0, 100.0, 1), Some(&[0])), None);
}

#[test]
fn on_nodes_of_different_ratings_it_has_all_for_as_long_as_the_slowest_takes() {
    let mut book = one(1.0);
    rate(&mut book, &[(1.0, 1.0), (1.0, 0.5)]);
    let mut wide = dedicated(10.0, 25.0, 1);
    wide.shape.chunks = 2;
    run(&mut book, "1", &wide, 0.0);
    // It is done on both at 20, whatever the faster one could do in 10.
    let asked = |deadline| dedicated(10.0, deadline, 1);
    assert_eq!(book.plan(&asked(29.0), None), None);
    let planned = book.plan(&asked(30.0), None).expect("a start");
    assert_eq!(planned.starts_by, 20.0);
    assert_eq!(planned.offer.places[0].node, 0);
    promise(&mut book, "2", &asked(30.0), 0.0);
    // Nor may one come in front of it that keeps the faster one too long, and on nodes that are slow enough for that there is none.
    book.ended("1", 5.0).expect("there");
    let mut before = dedicated(8.0, 18.0, 1);
    before.shape.chunks = 2;
    assert!(book.admit(&before, 5.0).is_err());
    assert!(book.quote(&before, None, None).is_err());
    before.terms.estimate = 7.0;
    assert!(book.quote(&before, None, None).is_ok());
    assert_eq!(book.admit(&before, 5.0).expect("room").places.len(), 2);
}

#[test]
fn a_slow_node_that_takes_too_long_is_left_alone_where_others_do() {
    let mut book = one(1.0);
    rate(&mut book, &[(1.0, 1.0), (1.0, 0.5), (1.0, 1.0)]);
    run(&mut book, "1", &dedicated(4.0, 100.0, 1), 0.0);
    let mut wide = dedicated(50.0, 60.0, 1);
    wide.shape.chunks = 2;
    assert_eq!(promise(&mut book, "2", &wide, 0.0), 4.0);
    // On all three it would be done behind that start, on the slow one and another one too.
    let mut before = dedicated(3.0, 50.0, 1);
    before.shape.chunks = 2;
    let admitted = book.admit(&before, 0.0);
    assert!(admitted.is_err(), "{admitted:?}");
    book.ended("1", 0.0).expect("there");
    let admitted = book.admit(&before, 0.0).expect("the two fast ones");
    let nodes: Vec<usize> = admitted.places.iter().map(|place| place.node).collect();
    assert!(!nodes.contains(&1), "{nodes:?}");
}

#[test]
fn of_many_ratings_the_slowest_and_the_fastest_are_tried() {
    let ratings: Vec<(f64, f64)> = (1..=19).map(|rating| (1.0, f64::from(rating))).collect();
    let mut book = one(1.0);
    rate(&mut book, &ratings);
    let mut wide = dedicated(10.0, 100.0, 1);
    wide.shape.chunks = 2;
    let paces = |book: &Book| book.paces(&wide, &super::judge::Nodes::now(book, None));
    // Nobody begins later.
    assert_eq!(paces(&book), [None]);
    let mut all = dedicated(10.0, 100.0, 1);
    all.shape.chunks = 19;
    run(&mut book, "1", &all, 0.0);
    promise(&mut book, "2", &dedicated(10.0, 100.0, 1), 0.0);
    let tried = paces(&book);
    assert_eq!(
        (tried.len(), tried[0], tried[7]),
        (8, Some(1.0), Some(19.0))
    );
    // One chunk is on one node.
    wide.shape.chunks = 1;
    assert_eq!(
        book.paces(&wide, &super::judge::Nodes::now(&book, None)),
        [None]
    );
}

#[derive(Debug, Clone)]
struct Step {
    after: f64,
    class: u8,
    estimate: f64,
    /// Of the estimate.
    deadline: f64,
    processors: u32,
    chunks: u32,
    /// How long it really runs, of its estimate; more than 1 outlives it.
    runs: f64,
    /// Seconds until the batch system starts it.
    starts: f64,
}

fn step() -> impl Strategy<Value = Step> {
    let times = (0.0..30.0f64, 1.0..60.0f64, 1.0..8.0f64);
    (times, 0..6u8, 1..3u32, 1..3u32, 0.2..1.3f64, 0.0..2.0f64).prop_map(
        |((after, estimate, deadline), class, processors, chunks, runs, starts)| Step {
            after,
            class,
            estimate,
            deadline,
            processors,
            chunks,
            runs,
            starts,
        },
    )
}

struct Live {
    id: String,
    request: Request,
    submitted: f64,
    starts_by: Option<f64>,
    ends: f64,
    runs: f64,
    starts: f64,
    started: bool,
}

const LATENCY: f64 = 3.5;

/// What decisions read of a node of who has whole processors there, and who is to have them, is what its jobs say.
fn assert_shown(book: &Book) {
    for index in 0..book.nodes.len() {
        let (mut whole, mut planned) = (0.0, 0);
        for (key, place) in book.tenants(index) {
            let job = book.job(key);
            match job.starts_by {
                Some(_) => planned += 1,
                None if job.has_whole() => whole += job.slots_at(&job.places[place]),
                None => {}
            }
        }
        let shown = &book.nodes[index];
        assert_eq!((shown.whole, shown.planned), (whole, planned));
    }
}

/// On no node and at no time from now on is more promised than there is, by who is in its time; looked at from one moment to the next.
fn assert_sound(book: &Book, nodes: &[f64], live: &[Live], now: f64) {
    let (mut moments, mut times) = (vec![now], Vec::new());
    for job in live {
        let length = match job.request.terms.class.is_whole() {
            true => job.request.terms.estimate / pace(book, &job.id) + LATENCY,
            false => job.request.terms.deadline,
        };
        let from = job.starts_by.map_or(job.submitted, |by| by.max(now));
        moments.push(from.max(now));
        times.push((job, from, from + length));
    }
    for (index, &has) in nodes.iter().enumerate() {
        let name = format!("n{}", index + 1);
        for &at in &moments {
            let used: f64 = (times.iter())
                .filter(|(_, from, until)| *from <= at && *until > at + 0.02)
                .flat_map(|(job, ..)| {
                    let slots = f64::from(job.request.shape.processors_per_chunk);
                    let places = book.places(&job.id).expect("in the book");
                    (places.into_iter())
                        .filter(|place| place.node == name)
                        .map(move |place| f64::from(place.chunks) * slots * place.share)
                        .collect::<Vec<_>>()
                })
                .sum();
            assert!(
                used <= has * (1.0 + 4.0 * TOLERANCE),
                "{used} of {has} on {name} at {at}, now {now}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is submitted, ends early and is late: who was planned begins by when it was told, and nothing is promised twice.
    #[test]
    fn no_planned_promise_is_broken(
        nodes in prop::collection::vec((1..4u32, 1..4u32), 1..4),
        steps in prop::collection::vec(step(), 1..60),
        policy in 0..4u8,
    ) {
        let rated: Vec<(f64, f64)> = (nodes.into_iter())
            .map(|(processors, rating)| (f64::from(processors), f64::from(rating) / 2.0))
            .collect();
        let nodes: Vec<f64> = rated.iter().map(|(processors, _)| *processors).collect();
        let policy = match policy {
            0 => AnyPolicy::LibraRisk(LibraRisk::default()),
            1 => AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
            _ => AnyPolicy::default(),
        };
        // Under the others shares are no sums that fit.
        let sums = policy.goes_by_sums().is_some();
        let mut book = book(policy, &nodes);
        rate(&mut book, &rated);
        book.set_start_latency(LATENCY);
        let mut live: Vec<Live> = Vec::new();
        let mut now = 1e9;
        for (number, step) in steps.into_iter().enumerate() {
            let until = now + step.after;
            while now < until {
                now = (now + 1.0).min(until);
                book.advance(now);
                // Some outlive their estimates and some end early, when nobody else has asked for it.
                live.retain(|job| {
                    let over = job.starts_by.is_none() && now >= job.ends;
                    if over {
                        book.ended(&job.id, now).expect("in the book");
                    }
                    !over
                });
                for job in live.iter_mut().filter(|job| job.starts_by.is_none() && !job.started) {
                    if now >= job.submitted + job.starts {
                        book.started(&job.id, now).expect("in the book");
                        job.started = true;
                    }
                }
                let planned: Vec<String> = book.planned().into_iter().map(str::to_string).collect();
                for id in planned {
                    let job = live.iter_mut().find(|job| job.id == id).expect("known");
                    let due = job.submitted + job.request.terms.deadline;
                    let left = with_deadline(&job.request, due - now);
                    match book.begin(&id, &left, None, None, now) {
                        Some(_) => {
                            // Its time began when it was due.
                            let starts_by = job.starts_by.expect("planned");
                            let late = (0.0..=LATENCY).contains(&(now - starts_by));
                            job.submitted = if late { starts_by } else { now };
                            job.request = with_deadline(&job.request, due - job.submitted);
                            job.starts_by = None;
                            job.ends = now + job.starts + job.runs / pace(&book, &job.id);
                        }
                        None => prop_assert!(
                            job.starts_by.expect("planned") > now,
                            "{id} was to begin by {:?}, now {now}", job.starts_by
                        ),
                    }
                }
                if sums {
                    assert_sound(&book, &nodes, &live, now);
                }
            }
            let class = match step.class {
                0 | 1 => Class::Deadline,
                2 => Class::Immediate,
                _ => Class::Dedicated,
            };
            let mut asked = request(class, step.estimate, step.estimate * step.deadline, step.processors);
            asked.shape.chunks = step.chunks;
            let id = number.to_string();
            let (admitted, starts_by) = match book.admit(&asked, now) {
                Ok(admitted) => (admitted, None),
                Err(_) => match book.plan(&asked, None) {
                    None => continue,
                    Some(planned) => (book.promise(&asked, &planned), Some(planned.starts_by)),
                },
            };
            book.bind(admitted.token, &id, now).expect("ours");
            let (runs, pace) = match class {
                // By its share it takes longer.
                Class::Deadline => (asked.terms.deadline * step.runs, 1.0),
                _ => (step.estimate * step.runs, pace(&book, &id)),
            };
            live.push(Live {
                id,
                request: asked,
                submitted: now,
                starts_by,
                ends: now + step.starts + runs / pace,
                runs,
                starts: step.starts,
                started: false,
            });
            assert_shown(&book);
            if sums {
                assert_sound(&book, &nodes, &live, now);
            }
        }
    }
}
