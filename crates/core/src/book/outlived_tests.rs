use super::*;
use crate::decision::admission::Admission;
use crate::decision::class::Class;
use crate::decision::job::Terms;
use crate::decision::overrun::PastDeadline;
use crate::decision::policy::{AnyPolicy, LibraAdaptive, LibraRisk, LibraSla};
use crate::decision::service::{ClassRules, NONE};
use proptest::prelude::*;

const LATENCY: f64 = 4.0;

fn of(class: Class, estimate: f64, deadline: f64, processors: u32) -> Request {
    let mut request = Request::single(Terms {
        class,
        ..Terms::hard(estimate, deadline, 1e12)
    });
    request.shape.processors_per_chunk = processors;
    request
}

/// One node, by a rule for jobs whose promise is over. Estimates are planned with 5 % more.
fn book(policy: AnyPolicy, past: PastDeadline, processors: f64) -> Book {
    let rules = ClassAdmission {
        admission: Admission {
            policy,
            estimate_margin: 0.05,
            ..Admission::default()
        },
        rules: ClassRules {
            past,
            ..ClassRules::default().in_batch()
        },
    };
    let mut book = Book::new(rules, 30.0);
    book.set_start_latency(LATENCY);
    let node = NodeSpec {
        processors,
        rating: 1.0,
        memory: 1000,
    };
    book.set_node("n1", node, true).expect("a plain node");
    book
}

fn plain(processors: f64) -> Book {
    book(AnyPolicy::default(), PastDeadline::WhatIsLeft, processors)
}

fn accept(book: &mut Book, id: &str, request: &Request, now: f64) {
    let admitted = book.admit(request, now).expect("room");
    book.bind(admitted.token, id, now).expect("ours");
}

fn run(book: &mut Book, id: &str, request: &Request, now: f64) {
    accept(book, id, request, now);
    book.started(id, now).expect("ours");
}

fn committed(book: &mut Book, now: f64) -> f64 {
    book.advance(now);
    book.committed("n1").expect("the node")
}

#[test]
fn others_are_promised_its_processors_when_its_estimate_is_over_and_not_before() {
    for policy in [
        AnyPolicy::default(),
        AnyPolicy::LibraSla(LibraSla),
        AnyPolicy::LibraRisk(LibraRisk::default()),
        AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
    ] {
        for (class, deadline) in [(Class::Dedicated, 36000.0), (Class::Immediate, NONE)] {
            let first = of(class, 100.0, deadline, 1);
            for newcomer in [
                of(Class::Deadline, 500.0, 1000.0, 1),
                of(Class::Dedicated, 500.0, 1000.0, 1),
                of(Class::Immediate, 500.0, NONE, 1),
            ] {
                let mut book = book(policy, PastDeadline::WhatIsLeft, 1.0);
                run(&mut book, "1", &first, 1.0);
                // 105 s, and what the batch system may take to start it.
                for (now, fits) in [(1.0, false), (50.0, false), (109.9, false), (110.0, true)] {
                    book.advance(now);
                    let answer = book.quote(&newcomer, None, None);
                    assert_eq!(
                        answer.is_ok(),
                        fits,
                        "{policy:?} {newcomer:?} {now} {answer:?}"
                    );
                }
                assert_eq!(committed(&mut book, 110.0), 0.0);
                accept(&mut book, "2", &newcomer, 110.0);
                // The next one is judged beside that one alone.
                assert!(
                    book.admit(&of(Class::Dedicated, 1.0, 1e6, 1), 111.0)
                        .is_err()
                );
                let other = committed(&mut book, 111.0);
                book.ended("1", 112.0).expect("there");
                assert_eq!(committed(&mut book, 111.0), other, "it held nothing");
                book.ended("2", 113.0).expect("there");
                assert_eq!(committed(&mut book, 113.0), 0.0);
            }
        }
    }
}

#[test]
fn a_site_may_let_it_keep_them() {
    let mut book = book(AnyPolicy::default(), PastDeadline::KeepsShare, 1.0);
    run(&mut book, "1", &of(Class::Dedicated, 100.0, 1000.0, 1), 0.0);
    for now in [120.0, 999.0, 5000.0] {
        assert_eq!(committed(&mut book, now), 1.0);
    }
    // By the other rules from now on.
    let mut rules = *book.admission();
    rules.rules.past = PastDeadline::EndedAfter(3.0);
    book.set_admission(rules);
    assert_eq!(committed(&mut book, 5000.0), 0.0);
    rules.rules.past = PastDeadline::KeepsShare;
    book.set_admission(rules);
    assert_eq!(committed(&mut book, 5000.0), 1.0);
}

#[test]
fn it_is_counted_from_when_it_began_and_whether_it_worked_does_not_matter() {
    let mut book = plain(1.0);
    accept(&mut book, "1", &of(Class::Dedicated, 100.0, 1000.0, 1), 0.0);
    assert_eq!(committed(&mut book, 300.0), 1.0, "it waits");
    book.started("1", 300.0).expect("there");
    for (cput, now, counts) in [(0.0, 350.0, 1.0), (1.0, 404.0, 1.0), (1.0, 405.0, 0.0)] {
        book.progress("1", None, cput, now).expect("there");
        assert_eq!(committed(&mut book, now), counts, "{now}");
    }
    // Taken back into the queue it has all of it before it again.
    book.requeued("1", 410.0).expect("there");
    assert_eq!(committed(&mut book, 410.0), 1.0);
    book.started("1", 500.0).expect("there");
    assert_eq!(committed(&mut book, 604.0), 1.0);
    assert_eq!(committed(&mut book, 605.0), 0.0);
}

#[test]
fn its_memory_stays_its_own() {
    let mut book = plain(1.0);
    let mut large = of(Class::Dedicated, 100.0, 1000.0, 1);
    large.shape.memory_per_chunk = 600;
    run(&mut book, "1", &large, 0.0);
    book.advance(200.0);
    assert_eq!(book.free_memory_on("n1"), Some(400));
    assert!(book.admit(&large, 200.0).is_err());
    large.shape.memory_per_chunk = 400;
    assert!(book.admit(&large, 200.0).is_ok());
}

#[test]
fn the_records_say_how_long_it_stood_suspended() {
    let mut book = plain(1.0);
    run(&mut book, "1", &of(Class::Dedicated, 100.0, 1000.0, 1), 0.0);
    let mut records = book.snapshot();
    records.now = 50.0;
    records.jobs[0].places[0].cput = 50.0;
    records.jobs[0].suspended = 30.0;
    book.reconcile(&records, 51.0).expect("sound");
    let mut again = plain(1.0);
    assert_eq!(again.rebuild(&book.snapshot()), Ok(Vec::new()));
    for mut book in [book, again] {
        assert_eq!(committed(&mut book, 138.9), 1.0);
        assert_eq!(committed(&mut book, 139.1), 0.0);
        // It is known late, and of no progress.
        records.now = 140.0;
        records.jobs[0].places[0].cput = 0.0;
        records.jobs[0].suspended = 60.0;
        book.reconcile(&records, 140.0).expect("sound");
        assert_eq!(committed(&mut book, 168.9), 1.0);
        assert_eq!(committed(&mut book, 169.1), 0.0);
    }
}

#[test]
fn a_restart_knows_it_again() {
    let mut book = plain(1.0);
    run(&mut book, "1", &of(Class::Dedicated, 100.0, 1000.0, 1), 0.0);
    for (now, counts) in [(50.0, 1.0), (200.0, 0.0)] {
        book.advance(now);
        let mut again = plain(1.0);
        assert_eq!(again.rebuild(&book.snapshot()), Ok(Vec::new()));
        assert_eq!(committed(&mut again, now), counts);
        assert_eq!(committed(&mut again, 200.0), 0.0, "{now}");
    }
}

#[test]
fn an_array_is_judged_by_the_count_of_the_batch_system_that_places_it() {
    for (counts_itself, fits) in [(true, false), (false, true)] {
        let mut book = plain(2.0);
        book.reserve_committed_share(counts_itself);
        run(&mut book, "1", &of(Class::Dedicated, 100.0, 1000.0, 1), 0.0);
        book.advance(200.0);
        let each = of(Class::Deadline, 600.0, 1000.0, 1);
        assert_eq!(book.quote(&each, Some(2), None).is_ok(), fits);
        assert_eq!(book.appraise(&each, Some(2), None).refused.is_none(), fits);
        assert_eq!(book.admit_array(&each, 2, None, 200.0).is_ok(), fits);
        if !fits {
            // Where one fits beside it, an array does, and others have what is left.
            assert!(book.admit_array(&each, 1, None, 200.0).is_ok());
            assert!(book.admit(&each, 200.0).is_ok());
        }
    }
}

/// What happens next to a job, in a random stream.
#[derive(Debug, Clone)]
enum Step {
    Submit(f64, u32),
    Start(usize),
    Requeue(usize),
    Report(usize, f64),
    End(usize),
}

fn step() -> impl Strategy<Value = (f64, Step)> {
    let step = prop_oneof![
        3 => (1.0..50.0f64, 1..3u32).prop_map(|(estimate, processors)| Step::Submit(estimate, processors)),
        3 => any::<usize>().prop_map(Step::Start),
        1 => any::<usize>().prop_map(Step::Requeue),
        1 => (any::<usize>(), 0.0..1.0f64).prop_map(|(which, part)| Step::Report(which, part)),
        2 => any::<usize>().prop_map(Step::End),
    ];
    (0.0..25.0f64, step)
}

/// A job as it is known without the book.
#[derive(Debug)]
struct Known {
    id: String,
    processors: u32,
    planned: f64,
    submitted: f64,
    started: Option<f64>,
}

impl Known {
    fn outlives_at(&self) -> Option<f64> {
        let started = self.started?;
        Some((started + self.planned).max(self.submitted + LATENCY + self.planned))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever happens, a job is counted until its time is over and no longer, and others are taken for just what is left beside those.
    #[test]
    fn who_is_in_its_time_is_counted_and_nobody_else(steps in prop::collection::vec(step(), 1..80)) {
        let has = 4.0;
        let mut book = plain(has);
        let mut jobs: Vec<Known> = Vec::new();
        let mut now = 1000.0;
        for (number, (after, step)) in steps.into_iter().enumerate() {
            now += after;
            book.advance(now);
            let count = jobs.len();
            match step {
                Step::Submit(estimate, processors) => {
                    let asked = of(Class::Dedicated, estimate, 1e6, processors);
                    let held: u32 = (jobs.iter())
                        .filter(|job| job.outlives_at().is_none_or(|at| at > now))
                        .map(|job| job.processors)
                        .sum();
                    let answer = book.admit(&asked, now);
                    prop_assert_eq!(answer.is_ok(), f64::from(held + processors) <= has);
                    if let Ok(admitted) = answer {
                        let id = number.to_string();
                        book.bind(admitted.token, &id, now).expect("ours");
                        jobs.push(Known {
                            id,
                            processors,
                            planned: estimate * 1.05,
                            submitted: now,
                            started: None,
                        });
                    }
                }
                Step::Start(which) if count > 0 => {
                    let job = &mut jobs[which % count];
                    if job.started.is_none() {
                        book.started(&job.id, now).expect("there");
                        job.started = Some(now);
                    }
                }
                Step::Requeue(which) if count > 0 => {
                    let job = &mut jobs[which % count];
                    book.requeued(&job.id, now).expect("there");
                    job.started = None;
                }
                Step::Report(which, part) if count > 0 => {
                    let job = &jobs[which % count];
                    if let Some(started) = job.started {
                        book.progress(&job.id, None, part * (now - started), now).expect("there");
                    }
                }
                Step::End(which) if count > 0 => {
                    book.ended(&jobs.swap_remove(which % count).id, now).expect("there");
                }
                _ => {}
            }
            // Sums of times are no more exact at that very moment.
            let is_close = |job: &Known| job.outlives_at().is_some_and(|at| (at - now).abs() < 1e-6);
            if !jobs.iter().any(is_close) {
                let held: u32 = (jobs.iter())
                    .filter(|job| job.outlives_at().is_none_or(|at| at > now))
                    .map(|job| job.processors)
                    .sum();
                prop_assert_eq!(book.committed("n1"), Ok(f64::from(held)));
            }
        }
        for job in &jobs {
            book.ended(&job.id, now).expect("there");
        }
        prop_assert_eq!(book.committed("n1"), Ok(0.0));
    }
}
