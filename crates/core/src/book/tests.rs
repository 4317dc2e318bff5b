use super::*;
use crate::decision::admission::Admission;
use crate::decision::allotment::{Claim, Shortage, Spare, allot};
use crate::decision::job::{DeadlineType, Request, Terms};
use crate::decision::policy::{AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla, Policy};
use crate::decision::refusal::Category;
use proptest::prelude::*;

impl Book {
    /// Ids of all jobs that have one, in their order.
    pub(super) fn ids(&self) -> Vec<String> {
        let ids = self
            .jobs
            .iter()
            .flatten()
            .filter_map(|job| job.id.as_deref());
        let mut ids: Vec<String> = ids.map(str::to_string).collect();
        ids.sort();
        ids
    }
}

fn book(nodes: usize) -> Book {
    let mut book = Book::new(Admission::default(), 30.0);
    for index in 0..nodes {
        let spec = NodeSpec {
            processors: 1.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        book.set_node(&format!("n{index}"), spec, true)
            .expect("a plain node");
    }
    book
}

fn half() -> Request {
    Request::single(Terms::hard(10.0, 20.0, 100.0))
}

#[test]
fn two_submissions_in_a_row_do_not_both_get_the_last_share() {
    let mut book = book(1);
    book.admit(&half(), 0.0).expect("first half");
    book.admit(&half(), 0.0).expect("second half");
    let refused = book.admit(&half(), 0.0).expect_err("a third half");
    assert!(matches!(refused, BookError::Refused(_)), "{refused:?}");
    assert_eq!(book.job_count(), 2);
}

#[test]
fn a_reservation_without_an_id_expires_and_one_with_an_id_stays() {
    let mut book = book(1);
    let bound = book.admit(&half(), 0.0).expect("fits");
    book.admit(&half(), 0.0).expect("fits");
    book.bind(bound.token, "1.server", 1.0)
        .expect("known token");
    book.advance(31.0);
    assert_eq!(book.job_count(), 1);
    assert_eq!(book.places("1.server").expect("still there").len(), 1);
    let late = book.bind(bound.token + 1, "2.server", 32.0);
    assert!(matches!(late, Err(BookError::UnknownToken(_))));
}

#[test]
fn progress_moves_the_share_and_a_passed_deadline_takes_a_whole_processor() {
    let mut book = book(1);
    let job = book.admit(&half(), 0.0).expect("fits");
    book.bind(job.token, "1", 0.0).expect("known");
    book.started("1", 0.0).expect("known");
    book.progress("1", None, 8.0, 10.0).expect("known");
    assert!((book.committed("n0").expect("node") - 0.2).abs() < 1e-12);
    // Nothing reported since: it is taken to run at 0.2, and needs 0.2 still.
    book.advance(15.0);
    assert!((book.committed("n0").expect("node") - 0.2).abs() < 1e-12);
    book.advance(20.0);
    assert_eq!(book.committed("n0").expect("node"), 1.0);
    let ending = book.ended("1", 21.0).expect("known");
    assert_eq!((ending.met, ending.delay), (false, 1.0));
    assert_eq!(book.committed("n0").expect("node"), 0.0);
}

#[test]
fn a_job_that_outlives_its_estimate_keeps_the_share_it_held() {
    let mut book = book(1);
    let job = book.admit(&half(), 0.0).expect("fits");
    book.bind(job.token, "1", 0.0).expect("known");
    book.progress("1", None, 8.0, 10.0).expect("known");
    book.progress("1", None, 10.5, 12.0).expect("known");
    let place = &book.places("1").expect("known")[0];
    assert_eq!(
        (place.deadline_status, place.share),
        (DeadlineStatus::Overrun, 0.2)
    );
}

#[test]
fn new_terms_are_taken_only_where_they_fit() {
    let mut book = book(1);
    for id in ["1", "2"] {
        let job = book.admit(&half(), 0.0).expect("fits");
        book.bind(job.token, id, 0.0).expect("known");
    }
    let hurry = Terms::hard(10.0, 15.0, 100.0);
    let refused = book.modify("1", &hurry, 0.0).expect_err("node is full");
    assert!(matches!(&refused, BookError::Refused(r) if r.reason.category() == Category::Share));
    assert_eq!(book.committed("n0").expect("node"), 1.0);
    book.ended("2", 1.0).expect("known");
    book.modify("1", &hurry, 1.0).expect("room now");
    assert!((book.committed("n0").expect("node") - 10.0 / 14.0).abs() < 1e-12);
}

#[test]
fn a_book_is_built_again_from_its_snapshot() {
    let mut book = book(3);
    for index in 0..5 {
        let job = book.admit(&half(), f64::from(index)).expect("fits");
        if index > 0 {
            book.bind(job.token, &format!("{index}.s"), f64::from(index))
                .expect("known");
            book.started(&format!("{index}.s"), f64::from(index))
                .expect("known");
        }
    }
    let before = book.snapshot();
    let text = serde_json::to_string(&before).expect("plain data");
    let mut again = Book::new(*book.admission(), 30.0);
    let read: Snapshot = serde_json::from_str(&text).expect("what was written");
    assert_eq!(again.rebuild(&read), Ok(Vec::new()));
    let after = again.snapshot();
    for (old, new) in before.nodes.iter().zip(&after.nodes) {
        assert!(
            (old.committed - new.committed).abs() < 1e-9,
            "{old:?} {new:?}"
        );
    }
    assert_eq!(before.jobs.len(), after.jobs.len());
}

#[test]
fn a_job_on_an_undeclared_node_is_kept_and_a_broken_record_is_named() {
    let mut book = book(1);
    let job = |id: &str, share: f64| JobRecord {
        id: Some(id.to_string()),
        token: 0,
        request: half(),
        margin: None,
        price: 1.0,
        submitted: 0.0,
        phase: Phase::Running,
        starts_by: None,
        suspended: None,
        places: vec![AllocationRecord {
            node: "elsewhere".to_string(),
            chunks: 1,
            share,
            committed_share: 0.0,
            cput: 0.0,
            delay: 0.0,
        }],
    };
    let snapshot = Snapshot {
        consumables: Vec::new(),
        version: 1,
        now: 5.0,
        nodes: vec![],
        jobs: vec![job("1", 0.5), job("2", f64::NAN), job("1", 0.5)],
    };
    let problems = book.rebuild(&snapshot).expect("as a whole it is sound");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(book.committed("elsewhere").expect("brought along") > 0.5);
    assert!(book.admit(&half(), 5.0).is_err(), "closed to new jobs");
}

#[test]
fn sums_stay_exact_over_many_jobs() {
    let mut book = book(2);
    let mut live = std::collections::VecDeque::new();
    for round in 0..20_000u32 {
        let now = f64::from(round) * 0.1;
        let deadline = 20.0 + f64::from(round % 97);
        let request = Request::single(Terms::hard(3.0 + f64::from(round % 7), deadline, 1e6));
        if let Ok(job) = book.admit(&request, now) {
            book.bind(job.token, &round.to_string(), now).expect("new");
            book.started(&round.to_string(), now).expect("bound");
            live.push_back(round.to_string());
        }
        if live.len() > 6 {
            let id = live.pop_front().expect("not empty");
            book.ended(&id, now).expect("live");
        }
    }
    while let Some(id) = live.pop_front() {
        book.ended(&id, 2000.0).expect("live");
    }
    assert_eq!(book.committed("n0"), Ok(0.0));
    assert_eq!(book.committed("n1"), Ok(0.0));
}

#[test]
fn jobs_that_ended_early_leave_no_alarms_behind() {
    let mut book = book(1);
    let long = Request::single(Terms::hard(1.0, 1e9, 100.0));
    for _ in 0..20_000 {
        let job = book.admit(&long, 0.0).expect("fits");
        book.cancel_token(job.token, 0.0).expect("known");
    }
    assert!(book.alarms.len() <= 1024, "{}", book.alarms.len());
}

#[test]
fn a_token_that_leaves_no_next_one_is_not_taken() {
    let mut book = book(1);
    book.admit(&half(), 0.0).expect("fits");
    let mut snapshot = book.snapshot();
    snapshot.jobs[0].token = u64::MAX;
    assert_eq!(book.rebuild(&snapshot).expect("sound").len(), 1);
    let first = book.admit(&half(), 0.0).expect("fits").token;
    let second = book.admit(&half(), 0.0).expect("fits").token;
    assert!(0 < first && first < second);
}

#[test]
fn a_job_of_more_slots_than_a_u32_counts() {
    let mut book = book(1);
    let mut request = Request::single(Terms::hard(1e-3, 1e10, f64::INFINITY));
    request.shape.chunks = 65_536;
    request.shape.processors_per_chunk = 65_536;
    book.admit(&request, 0.0).expect("4e-4 processors");
    let committed = book.committed("n0").expect("node");
    assert!((committed - 65_536.0 * 65_536.0 * 1e-13).abs() < 1e-9);
}

#[test]
fn a_job_that_waits_to_be_started_needs_more_and_it_counts() {
    let mut book = book(1);
    let job = book.admit(&half(), 0.0).expect("fits");
    book.bind(job.token, "1", 0.0).expect("known");
    book.advance(5.0);
    assert!((book.committed("n0").expect("node") - 10.0 / 15.0).abs() < 1e-12);
    assert!(
        book.admit(&half(), 5.0).is_err(),
        "the first one needs more by now"
    );
    book.started("1", 6.0).expect("known");
    book.advance(10.0);
    assert!((book.committed("n0").expect("node") - 10.0 / 14.0).abs() < 1e-12);
}

fn book_of(policy: AnyPolicy, processors: &[f64]) -> Book {
    let admission = Admission {
        policy,
        ..Admission::default()
    };
    let mut book = Book::new(admission, 1e9);
    for (index, &processors) in processors.iter().enumerate() {
        let spec = NodeSpec {
            processors,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        book.set_node(&format!("n{index}"), spec, true)
            .expect("a plain node");
    }
    book
}

fn soft(estimate: f64, deadline: f64, budget: f64, penalty_rate: f64) -> Terms {
    Terms {
        deadline_type: DeadlineType::Soft,
        penalty_rate,
        ..Terms::hard(estimate, deadline, budget)
    }
}

fn start(book: &mut Book, id: &str, terms: Terms, now: f64) {
    let job = book.admit(&Request::single(terms), now).expect("fits");
    book.bind(job.token, id, now).expect("known");
    book.started(id, now).expect("known");
}

#[test]
fn new_terms_that_others_make_room_for_delay_those_others() {
    let mut book = book_of(AnyPolicy::LibraSla(LibraSla), &[1.0]);
    start(&mut book, "soft", soft(8.0, 16.0, 80.0, 0.01), 0.0);
    start(&mut book, "hard", Terms::hard(5.0, 10.0, 1000.0), 0.0);
    // 0.5 + 0.5 until now; 0.8 leave 0.2 for the soft one: 40 s, 24 s late.
    let hurry = Terms::hard(5.0, 6.25, 1000.0);
    book.modify("hard", &hurry, 0.0).expect("it yields");
    assert!((book.committed("n0").expect("node") - 1.0).abs() < 1e-9);
    assert!((book.places("soft").expect("known")[0].share - 0.2).abs() < 1e-9);
}

#[test]
fn a_delay_that_was_accepted_buys_no_room_for_new_terms() {
    let mut book = book_of(AnyPolicy::LibraSla(LibraSla), &[1.0]);
    start(&mut book, "soft", soft(8.0, 10.0, 80.0, 1.0), 0.0);
    start(&mut book, "hard", Terms::hard(5.0, 10.0, 1000.0), 0.0);
    // The soft one runs towards 16 s at 0.5. With a hard deadline at 10 s it needs 0.8.
    let refused = book.modify("soft", &Terms::hard(8.0, 10.0, 80.0), 0.0);
    assert!(
        matches!(&refused, Err(BookError::Refused(r)) if r.reason.category() == Category::Share),
        "{refused:?}"
    );
    // At 11 s a deadline of 10 s has passed, whatever was accepted.
    assert!(
        book.modify("soft", &soft(8.0, 10.0, 90.0, 1.0), 11.0)
            .is_err()
    );
}

#[test]
fn a_job_that_was_taken_in_spite_of_its_estimate_may_be_given_more_time() {
    let mut book = book_of(AnyPolicy::LibraRisk(LibraRisk::default()), &[1.0]);
    start(&mut book, "1", Terms::hard(40.0, 10.0, 1000.0), 0.0);
    book.modify("1", &Terms::hard(40.0, 20.0, 1000.0), 1.0)
        .expect("alone it has no risk");
    let libra = AnyPolicy::Libra(Libra::default());
    let mut book = book_of(libra, &[1.0]);
    start(&mut book, "1", Terms::hard(40.0, 50.0, 1000.0), 0.0);
    let refused = book.modify("1", &Terms::hard(40.0, 20.0, 1000.0), 1.0);
    assert!(
        matches!(&refused, Err(BookError::Refused(r)) if r.reason.category() == Category::Deadline),
        "{refused:?}"
    );
}

#[test]
fn a_job_past_the_delay_that_was_accepted_for_it_takes_a_whole_processor() {
    let mut book = book_of(AnyPolicy::LibraSla(LibraSla), &[1.0]);
    start(&mut book, "soft", soft(8.0, 10.0, 80.0, 1.0), 0.0);
    start(&mut book, "hard", Terms::hard(5.0, 10.0, 1000.0), 0.0);
    book.progress("soft", None, 1.0, 5.0).expect("known");
    book.ended("hard", 9.0).expect("known");
    // 1 s done by 5 s, 7 in the 11 s until 16 s.
    book.advance(12.0);
    assert!((book.committed("n0").expect("node") - 7.0 / 11.0).abs() < 1e-9);
    let snapshot = book.snapshot();
    book.advance(16.5);
    assert_eq!(book.committed("n0"), Ok(1.0));
    let mut again = Book::new(*book.admission(), 1e9);
    assert_eq!(again.rebuild(&snapshot), Ok(Vec::new()));
    assert!((again.committed("n0").expect("node") - 7.0 / 11.0).abs() < 1e-9);
    again.advance(16.5);
    assert_eq!(again.committed("n0"), Ok(1.0));
}

/// The jobs of a book's node run on at what they are given, for so long; who has done its work leaves.
/// The longest time that anybody is behind what was promised, seconds.
fn run_on(book: &mut Book, seconds: f64, now: &mut f64) -> f64 {
    let end = *now + seconds;
    let mut worst = 0.0f64;
    while *now < end && book.job_count() > 0 {
        let mut step = end - *now;
        let mut rates: Vec<(String, String, f64)> = Vec::new();
        for (index, details) in book.details.iter().enumerate() {
            let policy = book.admission.admission.policy;
            let (mut claims, mut names) = (Vec::new(), Vec::new());
            for (key, place) in book.tenants(index) {
                let job = book.job(key);
                if job.phase != Phase::Running {
                    continue;
                }
                let on_node = book.on_node(job, &job.places[place]);
                if on_node.cput >= on_node.terms.estimate - 1e-7 {
                    // This part is done and waits for the others.
                    continue;
                }
                let need = policy.need(&on_node, 1.0);
                claims.push(Claim::new(&on_node, need, job.places[place].share));
                names.push((job.id.clone().expect("it runs"), on_node));
            }
            let mut given = Vec::new();
            let processors = book.nodes[index].spec.processors;
            allot(
                policy.shortage(),
                Spare::Idle,
                &claims,
                processors,
                &mut given,
            );
            for ((id, job), given) in names.into_iter().zip(given) {
                let rate = given / f64::from(job.slots);
                let left = job.terms.estimate - job.cput;
                worst = worst.max(job.walltime - job.terms.deadline - job.delay);
                if rate > 0.0 {
                    step = step.min((left / rate).max(1e-6));
                }
                rates.push((id.into(), details.name.clone(), rate));
            }
        }
        step = step.min(0.9);
        let before: Vec<f64> = rates
            .iter()
            .map(|(id, node, _)| {
                let job = book.job(book.find_id(id).expect("known"));
                let node = book.node_index(node).expect("declared");
                let place = job.places.iter().find(|place| place.node as usize == node);
                job.cput(place.expect("it is there"), book.now)
            })
            .collect();
        *now += step;
        for ((id, node, rate), before) in rates.iter().zip(before) {
            book.progress(id, Some(node), before + rate * step, *now)
                .expect("it runs");
        }
        let done: Vec<String> = (book.jobs.iter().flatten())
            .filter(|job| {
                let done = |place: &Allocation| place.cput >= job.request.terms.estimate - 1e-7;
                job.phase == Phase::Running && job.places.iter().all(done)
            })
            .filter_map(|job| job.id.as_deref().map(str::to_string))
            .collect();
        for id in done {
            book.ended(&id, *now).expect("known");
        }
    }
    worst
}

proptest! {
    /// With exact estimates nobody is later than was accepted, whatever is admitted and modified
    /// meanwhile and whenever the book is built again; and the book's sums are what its jobs need.
    #[test]
    fn what_was_promised_is_kept(
        policy in prop_oneof![
            Just(AnyPolicy::Libra(Libra::default())),
            Just(AnyPolicy::LibraSla(LibraSla)),
            Just(AnyPolicy::LibraRisk(LibraRisk::default())),
            Just(AnyPolicy::LibraAdaptive(LibraAdaptive::default())),
        ],
        steps in prop::collection::vec((
            0u8..4, 0.5f64..20.0, 1.05f64..6.0, 0.0f64..8.0, any::<bool>(), 0.0f64..2.0, 0usize..9), 1..25),
        second in prop_oneof![Just(1.0f64), Just(2.0)],
    ) {
        let mut book = book_of(policy, &[1.0, second]);
        let mut now = 0.0;
        let mut count = 0;
        for (action, estimate, loose, pause, is_soft, penalty, which) in steps {
            let deadline = estimate * loose;
            let budget = 1000.0 + 100.0 * penalty;
            let terms = if is_soft {
                soft(estimate, deadline, budget, penalty)
            } else {
                Terms::hard(estimate, deadline, budget)
            };
            match action {
                0 | 1 => {
                    let mut request = Request::single(terms);
                    request.shape.chunks = 1 + (which % 2) as u32;
                    if let Ok(job) = book.admit(&request, now) {
                        count += 1;
                        book.bind(job.token, &count.to_string(), now).expect("known");
                        book.started(&count.to_string(), now).expect("known");
                    }
                }
                2 => {
                    let ids = book.ids();
                    if let Some(id) = ids.get(which % ids.len().max(1)) {
                        let job = book.job(book.find_id(id).expect("known"));
                        let estimate = job.request.terms.estimate;
                        // No shorter than what is left: some policies would take it at its word.
                        let left = estimate - job.places[0].cput.min(estimate);
                        let left = left.max(estimate - job.places[job.places.len() - 1].cput);
                        let terms = Terms {
                            estimate,
                            deadline: now - job.submitted + left.max(0.01) * loose,
                            ..terms
                        };
                        let _ = book.modify(id, &terms, now);
                    }
                }
                _ => {
                    let snapshot = book.snapshot();
                    prop_assert_eq!(book.rebuild(&snapshot).expect("sound"), Vec::<Untaken>::new());
                }
            }
            for node in 0..book.nodes.len() {
                let (sum, spec) = (book.nodes[node].committed, book.nodes[node].spec);
                // A part that is done waits for one on another node that was given longer.
                let late = book.tenants(node).any(|(key, place)| {
                    book.job(key).places[place].deadline_status == DeadlineStatus::Late
                });
                if policy.shortage() != Shortage::DeadlineOrder && !late {
                    prop_assert!(sum <= spec.processors * (1.0 + 1e-6), "{} of {:?}", sum, spec);
                }
            }
            let late = run_on(&mut book, pause, &mut now);
            prop_assert!(late <= 1e-3, "{} s late", late);
        }
        let late = run_on(&mut book, 500.0, &mut now);
        prop_assert!(late <= 1e-3, "{} s late", late);
    }
}
