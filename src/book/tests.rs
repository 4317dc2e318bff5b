use super::*;
use crate::decision::job::Terms;

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
    assert!(matches!(refused, BookError::Refused(_)), "{refused}");
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
    assert!(matches!(late, Err(BookError::UnknownJob(_))));
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
    assert_eq!((place.standing, place.share), (Standing::Overrun, 0.2));
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
    assert!(matches!(&refused, BookError::Refused(r) if r.reason.category() == "share"));
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
        price: 1.0,
        submitted: 0.0,
        phase: Phase::Running,
        places: vec![PlaceRecord {
            node: "elsewhere".to_string(),
            chunks: 1,
            share,
            cput: 0.0,
            delay: 0.0,
        }],
    };
    let snapshot = Snapshot {
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
