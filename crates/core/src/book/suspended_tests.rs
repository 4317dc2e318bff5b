use super::planned_tests::{pace, rate};
use super::*;
use crate::decision::TOLERANCE;
use crate::decision::admission::Admission;
use crate::decision::class::Class;
use crate::decision::consumable::{Amounts, Consumable, Scope, Unit};
use crate::decision::curve::with_deadline;
use crate::decision::job::{Request, Terms};
use crate::decision::policy::AnyPolicy;
use crate::decision::service::ClassRules;
use proptest::prelude::*;

const BUDGET: f64 = 1e12;

/// Seconds that it takes until somebody stands still.
const HALT: f64 = 2.0;

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

fn book(nodes: &[f64]) -> Book {
    let rules = ClassAdmission {
        admission: Admission {
            policy: AnyPolicy::default(),
            ..Admission::default()
        },
        rules: ClassRules::default(),
    };
    let mut book = Book::new(rules, 1e6);
    book.set_suspend_latency(HALT);
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

fn run(book: &mut Book, id: &str, request: &Request, now: f64) {
    let admitted = book.admit(request, now).expect("room");
    book.bind(admitted.token, id, now).expect("ours");
    book.started(id, now).expect("ours");
}

fn may(_: &str) -> bool {
    true
}

/// Who would stand still for it, and until when.
fn in_front(book: &Book, request: &Request) -> Option<Vec<(String, f64)>> {
    let planned = book.plan_in_front(request, None, &may)?;
    let suspends = planned.suspends.into_iter();
    Some(suspends.map(|one| (one.id, one.by)).collect())
}

fn promise(book: &mut Book, id: &str, request: &Request, now: f64) -> Planned {
    book.advance(now);
    assert_eq!(book.plan(request, None), None);
    let planned = book.plan_in_front(request, None, &may).expect("a start");
    let admitted = book.promise(request, &planned);
    book.bind(admitted.token, id, now).expect("ours");
    planned
}

fn begins(book: &mut Book, id: &str, request: &Request, submitted: f64, now: f64) -> bool {
    let left = with_deadline(request, request.terms.deadline - (now - submitted));
    book.begin(id, &left, None, None, now).is_some()
}

#[test]
fn who_has_time_stands_still_for_an_earlier_deadline_and_goes_on_behind_it() {
    let mut book = book(&[2.0]);
    run(&mut book, "1", &dedicated(100.0, 400.0, 2), 0.0);
    book.advance(10.0);
    let asked = dedicated(50.0, 70.0, 2);
    let planned = promise(&mut book, "2", &asked, 10.0);
    assert_eq!(planned.starts_by, 12.0);
    assert_eq!(book.goes_on_by("1"), Some(62.0));
    // Until it stands still nobody has its processors.
    assert!(!begins(&mut book, "2", &asked, 10.0, 11.0));
    assert!(!begins(&mut book, "2", &asked, 10.0, 12.0));
    book.note_stands_still("1", true, 12.0).expect("there");
    assert!(begins(&mut book, "2", &asked, 10.0, 12.0));
    book.started("2", 12.0).expect("there");
    assert_eq!(book.committed("n1"), Ok(2.0));
    assert!(book.let_go_on(50.0).is_empty());
    // Behind both: 62 and what is left of the first one, 88 s.
    let behind = book
        .plan(&dedicated(10.0, 400.0, 2), None)
        .expect("a start");
    assert_eq!((behind.starts_by, behind.suspends.len()), (150.0, 0));
    // It goes on sooner where the other is done sooner.
    book.ended("2", 55.0).expect("there");
    assert_eq!(book.let_go_on(55.0), ["1"]);
    assert_eq!(
        (book.goes_on_by("1"), book.committed("n1")),
        (None, Ok(2.0))
    );
    // While it stood still it did nothing.
    assert_eq!(
        book.plan(&dedicated(10.0, 400.0, 2), None)
            .map(|plan| plan.starts_by),
        Some(143.0)
    );
}

#[test]
fn it_stands_still_for_earlier_deadlines_alone_and_only_if_it_is_done_in_time() {
    let mut one = book(&[2.0]);
    run(&mut one, "1", &dedicated(100.0, 200.0, 2), 0.0);
    // 2 + 98 + 100 is the latest: what is left goes on at 100 then.
    assert_eq!(
        in_front(&one, &dedicated(98.0, 101.0, 2)),
        Some(vec![("1".to_string(), 100.0)])
    );
    assert_eq!(in_front(&one, &dedicated(99.0, 102.0, 2)), None);
    let mut other = book(&[2.0]);
    run(&mut other, "1", &dedicated(100.0, 150.0, 2), 0.0);
    assert_eq!(in_front(&other, &dedicated(10.0, 151.0, 2)), None);
    // Nor is anybody late who comes in front of nobody.
    assert_eq!(in_front(&other, &dedicated(10.0, 11.0, 2)), None);
}

#[test]
fn what_cannot_be_given_back_is_not_taken() {
    let asked = dedicated(10.0, 20.0, 2);
    for class in [Class::Deadline, Class::Immediate] {
        let mut book = book(&[2.0]);
        run(&mut book, "1", &request(class, 400.0, 400.0, 2), 0.0);
        assert_eq!(in_front(&book, &asked), None, "{class:?}");
    }
    let gpu = Consumable::new("gpu", Unit::Whole, Scope::Node).expect("a name");
    let mut with_gpu = book(&[2.0]);
    with_gpu.set_consumables("n1", &[(gpu, 2)]).expect("n1");
    let mut holds = dedicated(100.0, 400.0, 2);
    holds.shape.consumables = Amounts::of(&[(gpu, 1)]).expect("one");
    run(&mut with_gpu, "1", &holds, 0.0);
    assert_eq!(in_front(&with_gpu, &asked), None);
    let mut unable = book(&[2.0]);
    run(&mut unable, "1", &dedicated(100.0, 400.0, 2), 0.0);
    assert_eq!(unable.plan_in_front(&asked, None, &|_| false), None);
    // One that outlived its estimate has no end that could be planned.
    unable.advance(101.0);
    assert_eq!(in_front(&unable, &asked), None);
    // Its memory stays there.
    let mut full = book(&[2.0]);
    let mut large = dedicated(100.0, 400.0, 2);
    large.shape.memory_per_chunk = 600;
    run(&mut full, "1", &large, 0.0);
    large.terms = asked.terms;
    assert_eq!(in_front(&full, &large), None);
    large.shape.memory_per_chunk = 400;
    assert!(in_front(&full, &large).is_some());
}

#[test]
fn of_several_the_latest_deadlines_stand_still_and_no_more_than_have_to() {
    let mut book = book(&[3.0]);
    for (id, deadline) in [("1", 300.0), ("2", 500.0), ("3", 400.0)] {
        run(&mut book, id, &dedicated(100.0, deadline, 1), 0.0);
    }
    assert_eq!(
        in_front(&book, &dedicated(10.0, 20.0, 1)),
        Some(vec![("2".to_string(), 12.0)])
    );
    let two = in_front(&book, &dedicated(10.0, 20.0, 2)).expect("two");
    assert_eq!(two, [("3".to_string(), 12.0), ("2".to_string(), 12.0)]);
    // Whoever is planned has its place: it goes on before or behind it.
    let planned = book
        .plan(&dedicated(50.0, 300.0, 3), None)
        .expect("behind all");
    let admitted = book.promise(&dedicated(50.0, 300.0, 3), &planned);
    book.bind(admitted.token, "4", 0.0).expect("ours");
    assert_eq!(book.starts_by("4"), Some(100.0));
    assert_eq!(
        in_front(&book, &dedicated(10.0, 20.0, 1)),
        Some(vec![("2".to_string(), 150.0)])
    );
}

#[test]
fn a_job_on_two_nodes_goes_on_when_both_are_free() {
    let mut book = book(&[1.0, 1.0]);
    let mut wide = dedicated(100.0, 1000.0, 1);
    wide.shape.chunks = 2;
    run(&mut book, "1", &wide, 0.0);
    assert_eq!(
        in_front(&book, &dedicated(10.0, 20.0, 1)),
        Some(vec![("1".to_string(), 12.0)])
    );
    promise(&mut book, "2", &dedicated(10.0, 20.0, 1), 0.0);
    book.note_stands_still("1", true, 1.0).expect("there");
    // In the hole on the other node there is room until then, and no longer.
    assert!(book.quote(&dedicated(11.0, 100.0, 1), None, None).is_ok());
    assert!(book.quote(&dedicated(13.0, 100.0, 1), None, None).is_err());
    run(&mut book, "3", &dedicated(11.0, 100.0, 1), 1.0);
    assert!(begins(&mut book, "2", &dedicated(10.0, 20.0, 1), 0.0, 2.0));
    book.ended("2", 5.0).expect("there");
    assert!(book.let_go_on(5.0).is_empty());
    book.ended("3", 9.0).expect("there");
    assert_eq!(book.let_go_on(9.0), ["1"]);
}

#[test]
fn who_ends_on_many_nodes_ends_once() {
    let mut book = book(&[1.0; 80]);
    let mut wide = dedicated(100.0, 1000.0, 1);
    wide.shape.chunks = 80;
    run(&mut book, "1", &wide, 0.0);
    let behind = dedicated(50.0, 160.0, 1);
    let planned = book.plan(&behind, None).expect("behind it");
    let admitted = book.promise(&behind, &planned);
    book.bind(admitted.token, "2", 0.0).expect("ours");
    // On each of its nodes it could go on at 12, and would be in the way of the second one: so it goes on behind that.
    assert_eq!(
        in_front(&book, &dedicated(10.0, 20.0, 1)),
        Some(vec![("1".to_string(), 150.0)])
    );
}

#[test]
fn one_that_outlives_its_time_does_not_keep_it_from_going_on() {
    let mut book = book(&[1.0]);
    run(&mut book, "1", &dedicated(100.0, 400.0, 1), 0.0);
    let asked = dedicated(10.0, 20.0, 1);
    promise(&mut book, "2", &asked, 0.0);
    book.note_stands_still("1", true, 1.0).expect("there");
    assert!(begins(&mut book, "2", &asked, 0.0, 2.0));
    book.started("2", 2.0).expect("there");
    assert!(book.let_go_on(11.0).is_empty());
    // Nor does a node that takes no new jobs.
    book.set_available("n1", false).expect("ours");
    assert_eq!(book.let_go_on(12.0), ["1"]);
}

#[test]
fn one_that_does_not_come_to_run_does_not_keep_it_from_going_on() {
    let asked = dedicated(10.0, 20.0, 1);
    for requeued in [false, true] {
        let mut book = book(&[1.0]);
        run(&mut book, "1", &dedicated(100.0, 400.0, 1), 0.0);
        promise(&mut book, "2", &asked, 0.0);
        book.note_stands_still("1", true, 1.0).expect("there");
        // Its batch system does not start it, or takes it back into its queue.
        assert!(begins(&mut book, "2", &asked, 0.0, 2.0));
        if requeued {
            book.started("2", 2.0).expect("there");
            book.requeued("2", 10.0).expect("there");
        }
        assert!(book.let_go_on(11.0).is_empty());
        assert_eq!(book.let_go_on(12.0), ["1"], "requeued: {requeued}");
    }
}

#[test]
fn one_that_runs_still_counts_until_it_stands_still() {
    let mut book = book(&[2.0]);
    run(&mut book, "1", &dedicated(100.0, 400.0, 1), 0.0);
    run(
        &mut book,
        "2",
        &request(Class::Immediate, 1.0, 20.0, 1),
        0.0,
    );
    let comes = dedicated(10.0, 20.0, 2);
    // The second is done in a second, and the first could stand still in two.
    let planned = book.plan_in_front(&comes, None, &may).expect("a start");
    let admitted = book.promise(&comes, &planned);
    // It may be a test: nobody is planned into the hole that it would leave.
    let other = dedicated(1.0, 500.0, 2);
    assert_eq!(book.stands_still_until("1"), None);
    assert_eq!(book.plan(&other, None), None);
    book.bind(admitted.token, "3", 0.0).expect("ours");
    assert_eq!(book.stands_still_until("1"), Some(12.0));
    let behind = book.plan(&other, None).map(|plan| plan.starts_by);
    assert_eq!(behind, Some(112.0));
    assert_eq!(book.committed("n1"), Ok(1.0));
}

#[test]
fn whoever_it_stands_still_for_is_gone_and_it_goes_on() {
    let mut book = book(&[1.0]);
    run(&mut book, "1", &dedicated(100.0, 400.0, 1), 0.0);
    promise(&mut book, "2", &dedicated(10.0, 20.0, 1), 0.0);
    book.cancel("2", 1.0).expect("there");
    // Before it stood still.
    assert_eq!(book.let_go_on(1.0), ["1"]);
    promise(&mut book, "3", &dedicated(10.0, 20.0, 1), 1.0);
    // Taken back into its queue it begins anew, and has what it had.
    book.requeued("1", 2.0).expect("there");
    assert_eq!(
        (book.goes_on_by("1"), book.committed("n1")),
        (None, Ok(1.0))
    );
}

#[test]
fn records_have_it_still() {
    let mut book = book(&[1.0]);
    run(&mut book, "1", &dedicated(100.0, 400.0, 1), 0.0);
    promise(&mut book, "2", &dedicated(10.0, 20.0, 1), 10.0);
    book.note_stands_still("1", true, 11.0).expect("there");
    book.advance(12.0);
    let mut snapshot = book.snapshot();
    assert_eq!(snapshot.jobs[0].places[0].cput, 11.0);
    let mut again = self::book(&[1.0]);
    assert_eq!(again.rebuild(&snapshot).expect("ours"), []);
    for book in [&mut again, &mut book] {
        assert_eq!(book.goes_on_by("1"), Some(22.0));
        assert!(begins(book, "2", &dedicated(10.0, 20.0, 1), 10.0, 12.0));
        assert_eq!(book.would_be_late("1"), None);
        assert_eq!(book.would_be_late("2"), None);
        assert_eq!(
            book.plan(&dedicated(1.0, 400.0, 1), None)
                .map(|plan| plan.starts_by),
            Some(111.0)
        );
    }
    // An administrator lets it run all the same: its record says so.
    snapshot.now = 13.0;
    snapshot.jobs.remove(1);
    if let Some(suspension) = &mut snapshot.jobs[0].suspended {
        suspension.stands_still = false;
    }
    again.reconcile(&snapshot, 13.0).expect("ours");
    assert!(again.is_suspending());
    // It has done 11 s, and is late when it goes on after 311.
    assert_eq!(book.would_be_late("1"), None);
    book.advance(312.0);
    assert_eq!(book.would_be_late("1"), Some(1.0));
}

#[derive(Debug, Clone)]
struct Step {
    after: f64,
    class: u8,
    estimate: f64,
    deadline: f64,
    processors: u32,
    chunks: u32,
    /// Of its estimate.
    runs: f64,
    halts: f64,
}

fn step() -> impl Strategy<Value = Step> {
    let times = (0.0..20.0f64, 1.0..60.0f64, 1.0..12.0f64);
    (times, 0..5u8, 1..3u32, 1..3u32, 0.2..1.0f64, 0.0..1.0f64).prop_map(
        |((after, estimate, deadline), class, processors, chunks, runs, halts)| Step {
            after,
            class,
            estimate,
            deadline,
            processors,
            chunks,
            runs,
            halts,
        },
    )
}

struct Live {
    id: String,
    request: Request,
    submitted: f64,
    begun: bool,
    starts_by: f64,
    /// Seconds of work that are left, of one with whole processors; else until its deadline.
    left: f64,
    /// When it stands still, of one that is to.
    halts_at: Option<f64>,
    halts: f64,
    still: bool,
}

/// Seconds from one look at all of them to the next; a promise is kept within it.
const TICK: f64 = 0.5;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Where nobody outlives its estimate everybody ends by its deadline, whoever stood still for whom, and nobody has a processor that another one has.
    #[test]
    fn nobody_is_late_for_another(
        nodes in prop::collection::vec((1..4u32, 1..4u32), 1..4),
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let rated: Vec<(f64, f64)> = (nodes.into_iter())
            .map(|(processors, rating)| (f64::from(processors), f64::from(rating) / 2.0))
            .collect();
        let nodes: Vec<f64> = rated.iter().map(|(processors, _)| *processors).collect();
        let mut book = book(&nodes);
        rate(&mut book, &rated);
        // A look may come so much late each time that it begins or goes on.
        book.set_begin_latency(2.0 * TICK);
        let mut live: Vec<Live> = Vec::new();
        let mut now = 1e6;
        let mut steps = steps.into_iter().enumerate();
        let mut next = steps.next();
        let mut due = now + next.as_ref().map_or(0.0, |(_, step)| step.after);
        while next.is_some() || !live.is_empty() {
            now += TICK;
            book.advance(now);
            let mut used = vec![0.0; nodes.len()];
            for job in live.iter_mut().filter(|job| job.begun && !job.still) {
                if job.request.terms.class.is_whole() {
                    for place in book.places(&job.id).expect("in the book") {
                        let node: usize = place.node[1..].parse().expect("ours");
                        let each = f64::from(job.request.shape.processors_per_chunk);
                        used[node - 1] += f64::from(place.chunks) * each;
                    }
                }
                let pace = match job.request.terms.class.is_whole() {
                    true => pace(&book, &job.id),
                    false => 1.0,
                };
                job.left -= TICK * pace;
            }
            for (used, has) in used.iter().zip(&nodes) {
                prop_assert!(used <= has, "{used} of {has} are in use at {now}");
            }
            live.retain(|job| {
                let over = job.begun && job.left <= 0.0;
                if over {
                    book.ended(&job.id, now).expect("in the book");
                    let late = now - job.submitted - job.request.terms.deadline;
                    assert!(late <= TICK, "{} is {late} s late at {now}", job.id);
                }
                !over
            });
            for id in book.let_go_on(now) {
                let job = live.iter_mut().find(|job| job.id == id).expect("known");
                (job.still, job.halts_at) = (false, None);
            }
            for job in &mut live {
                match (book.goes_on_by(&job.id), job.halts_at) {
                    (Some(_), None) => job.halts_at = Some(now + job.halts),
                    (Some(by), Some(at)) => {
                        prop_assert!(now < by + TICK, "{} goes on by {by}, now {now}", job.id);
                        if !job.still && now >= at {
                            job.still = true;
                            book.note_stands_still(&job.id, true, now).expect("there");
                        }
                    }
                    (None, _) => {}
                }
            }
            let planned: Vec<String> = book.planned().into_iter().map(str::to_string).collect();
            for id in planned {
                let job = live.iter_mut().find(|job| job.id == id).expect("known");
                let left = job.request.terms.deadline - (now - job.submitted);
                if book.begin(&id, &with_deadline(&job.request, left), None, None, now).is_some() {
                    book.started(&id, now).expect("in the book");
                    job.begun = true;
                } else {
                    prop_assert!(now < job.starts_by + TICK, "{id} begins by {}, now {now}", job.starts_by);
                }
            }
            if now < due {
                continue;
            }
            let Some((number, step)) = next.take() else { continue };
            next = steps.next();
            due = now + next.as_ref().map_or(0.0, |(_, step)| step.after);
            let class = match step.class {
                0 => Class::Deadline,
                1 => Class::Immediate,
                _ => Class::Dedicated,
            };
            let mut asked = request(class, step.estimate, step.estimate * step.deadline, step.processors);
            asked.shape.chunks = step.chunks;
            let admitted = match book.admit(&asked, now) {
                Ok(admitted) => Some((admitted, None)),
                Err(_) => {
                    let planned = (book.plan(&asked, None)).or_else(|| book.plan_in_front(&asked, None, &may));
                    planned.map(|planned| (book.promise(&asked, &planned), Some(planned.starts_by)))
                }
            };
            let Some((admitted, starts_by)) = admitted else { continue };
            let id = number.to_string();
            book.bind(admitted.token, &id, now).expect("ours");
            if starts_by.is_none() {
                book.started(&id, now).expect("ours");
            }
            let runs = match class.is_whole() {
                true => step.estimate * step.runs,
                false => asked.terms.deadline * step.runs,
            };
            live.push(Live {
                id,
                request: asked,
                submitted: now,
                begun: starts_by.is_none(),
                starts_by: starts_by.unwrap_or(now),
                left: runs,
                halts_at: None,
                halts: step.halts,
                still: false,
            });
            for (index, &has) in nodes.iter().enumerate() {
                let committed = book.committed(&format!("n{}", index + 1)).expect("ours");
                prop_assert!(committed <= has * (1.0 + 4.0 * TOLERANCE));
            }
        }
    }
}
