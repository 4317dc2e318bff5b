//! Jobs that may not start yet, of a batch system that has no more than it needs.

use super::{AdmissionServer, Answer, Committed};
use crate::front_end::{Deferred, Domain, Fewer, FrontEnd, JobSpecification, OnAccount};
use crate::verdict;
use crate::words::Written;
use libra_core::book::Book;
use libra_core::book::held_quote::{Limits, NoOrder};
use libra_core::decision::admission::Admission;
use libra_core::decision::job::{Request, Terms};
use libra_core::decision::node::NodeSpec;
use libra_core::decision::refusal::Category;

pub(super) struct Plain;

/// Estimate and deadline, and when it may start; an order about a quote.
pub(super) struct Job {
    pub(super) terms: Terms,
    earliest: Option<f64>,
    order: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bad;

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no order")
    }
}

impl From<NoOrder> for Bad {
    fn from(_: NoOrder) -> Bad {
        Bad
    }
}

impl verdict::Problem for Bad {
    fn category(&self) -> Category {
        Category::Request
    }
}

impl FrontEnd for Plain {
    type Submission = Job;
    type Asked = ();
    type Problem = Bad;
    const LONGEST_ANSWER: usize = 3000;
    const PINS_ALL: bool = true;

    fn specification(
        &self,
        _: &Book,
        job: &Job,
        _: bool,
        _: f64,
    ) -> Result<JobSpecification<Plain>, Bad> {
        Ok(JobSpecification {
            request: Request::single(job.terms),
            class_line: None,
            has_budget: true,
            array: None,
            deferred: job.earliest.map(|earliest| Deferred {
                earliest,
                from_start: false,
            }),
            account: Ok(OnAccount {
                user: "ann".to_string(),
                project: None,
            }),
            domain: Domain {
                name: String::new(),
                nodes: Ok(None),
                limit: None,
            },
            alternatives: Vec::new(),
            conditions: Vec::new(),
            asked: (),
        })
    }

    fn order<'a>(&self, job: &'a Job) -> Option<&'a str> {
        job.order
    }

    fn user(&self, _: &Job) -> String {
        "ann".to_string()
    }

    fn may_be_planned(&self, _: &Job) -> bool {
        true
    }

    fn pieces(_: u32) -> Option<&'static str> {
        None
    }

    fn write_processors(_: &Job, _: &(), _: &Fewer) -> Option<Written> {
        None
    }

    fn write_quote(number: &str) -> String {
        number.to_string()
    }
}

pub(super) fn server() -> AdmissionServer {
    let limits = Limits {
        longest: 600.0,
        most: 4,
    };
    let mut server = AdmissionServer::new(Book::new(Admission::default(), 30.0), limits);
    let node = NodeSpec {
        processors: 1.0,
        rating: 1.0,
        memory: NodeSpec::MEMORY_UNLIMITED,
    };
    server.book.set_node("n1", node, true).expect("ours");
    server
}

pub(super) fn job(estimate: f64, deadline: f64, earliest: Option<f64>) -> Job {
    Job {
        terms: Terms::hard(estimate, deadline, 1000.0),
        earliest,
        order: None,
    }
}

pub(super) fn accepted(server: &mut AdmissionServer, job: &Job, now: f64) -> Committed {
    match server.answer(&Plain, job, now) {
        Answer::Accepted(accepted) => accepted.0,
        Answer::NotTaken(not) => panic!("{:?}", not.verdict),
        _ => panic!("it was no question"),
    }
}

fn refused(server: &mut AdmissionServer, job: &Job, now: f64) -> Vec<String> {
    match server.answer(&Plain, job, now) {
        Answer::NotTaken(not) => not.lines(job),
        _ => panic!("it was taken"),
    }
}

pub(super) fn confirm(
    server: &mut AdmissionServer,
    deferred: &Committed,
    now: f64,
) -> Result<Committed, super::NotConfirmed<Bad>> {
    let specification = (Plain.specification(&server.book, &job(1.0, 1.0, None), false, now))
        .expect("it is always read");
    server.confirm(&deferred.commitment, &specification, None, "ann", now)
}

#[test]
fn it_is_judged_by_an_empty_cluster_and_holds_nothing() {
    let mut server = server();
    accepted(&mut server, &job(90.0, 100.0, None), 1000.0);
    let deferred = accepted(&mut server, &job(50.0, 100.0, Some(0.0)), 1000.0);
    assert!(deferred.commitment.deferred);
    assert!(
        deferred
            .text::<Plain>()
            .starts_with("deferred: finished in 1m40s")
    );
    assert_eq!(server.book.job_count(), 1);
    let next = accepted(&mut server, &job(5.0, 100.0, None), 1000.0);
    assert!(next.commitment.token > deferred.commitment.token);
}

#[test]
fn what_can_never_be_kept_is_refused_with_what_would_do() {
    let mut server = server();
    let lines = refused(&mut server, &job(50.0, 40.0, Some(0.0)), 1000.0);
    assert!(lines[0].starts_with("refused (deadline): "), "{lines:?}");
    assert_eq!(lines[1], "accepted now would be: deadline=50 (costs 51)");
    // Of 100 s the first 70 are over when it may start.
    let lines = refused(&mut server, &job(50.0, 100.0, Some(70.0)), 1000.0);
    assert!(lines[1].contains("deadline=120"), "{lines:?}");
    let price = accepted(&mut server, &job(10.0, 100.0, Some(0.0)), 1000.0).price;
    let later = accepted(&mut server, &job(10.0, 100.0, Some(80.0)), 1000.0).price;
    assert!(later > price, "{later} for the hurry, {price} without");
}

#[test]
fn confirmed_it_has_a_share_for_what_is_left_of_its_deadline() {
    let mut server = server();
    let deferred = accepted(&mut server, &job(30.0, 100.0, Some(0.0)), 1000.0);
    let confirmed = confirm(&mut server, &deferred, 1040.0).expect("there is room");
    let commitment = &confirmed.commitment;
    assert_eq!(
        (commitment.submitted, commitment.request.terms.deadline),
        (1040.0, 60.0)
    );
    assert!(!commitment.deferred && commitment.token != deferred.commitment.token);
    assert_eq!(commitment.share_on("n1"), 0.5);
    assert!((server.book.committed("n1").expect("n1") - 0.5).abs() < 1e-9);
}

#[test]
fn without_room_it_says_by_when_it_has_to_begin() {
    let mut server = server();
    let deferred = accepted(&mut server, &job(40.0, 100.0, Some(0.0)), 1000.0);
    accepted(&mut server, &job(90.0, 100.0, None), 1000.0);
    let said: Vec<f64> = [1010.0, 1020.0]
        .map(|now| {
            let not = confirm(&mut server, &deferred, now).expect_err("there is no room");
            assert_eq!(not.verdict.category(), Some(Category::Share));
            not.begin_within.expect("it can still be kept")
        })
        .to_vec();
    // The same whenever it is asked, and never later than it is.
    assert_eq!(said[0], said[1]);
    assert!((59.9..=60.0).contains(&said[0]), "{said:?}");
    let not = confirm(&mut server, &deferred, 1060.5).expect_err("it is too late");
    assert_eq!(not.begin_within, None);
    let not = confirm(&mut server, &deferred, 1100.0).expect_err("it is too late");
    assert_eq!(
        (not.verdict.category(), not.begin_within),
        (Some(Category::Deadline), None)
    );
}

#[test]
fn a_quote_says_the_same_and_none_is_held_or_used() {
    let mut server = server();
    accepted(&mut server, &job(90.0, 100.0, None), 1000.0);
    let told = accepted(&mut server, &job(50.0, 100.0, Some(0.0)), 1000.0);
    let ask = |order| Job {
        order: Some(order),
        ..job(50.0, 100.0, Some(0.0))
    };
    let Answer::Answered { line, .. } = server.answer(&Plain, &ask("ask"), 1000.0) else {
        panic!("it was a question");
    };
    assert!(line.contains(&told.text::<Plain>()), "{line}");
    for order in ["hold:1m", "1nb2f5c-e3p1whfwb3bxw4dp"] {
        let lines = refused(&mut server, &ask(order), 1000.0);
        assert!(lines[0].contains("may not start yet"), "{lines:?}");
    }
}
