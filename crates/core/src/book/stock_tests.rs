//! Consumables, counted by hand.

use super::{Book, BookError};
use crate::decision::admission::Admission;
use crate::decision::consumable::{Amounts, Consumable, Scope, Unit};
use crate::decision::job::{Request, Terms};
use crate::decision::node::NodeSpec;
use crate::decision::refusal::Reason;

fn gpus() -> Consumable {
    Consumable::new("ngpus", Unit::Whole, Scope::Node).expect("a name")
}

fn licences() -> Consumable {
    Consumable::new("lic", Unit::Whole, Scope::Cluster).expect("a name")
}

/// Two nodes of four processors, one with four GPUs; three licences.
fn book() -> Book {
    let mut book = Book::new(Admission::default(), 30.0);
    for name in ["n1", "n2"] {
        let spec = NodeSpec {
            processors: 4.0,
            rating: 1.0,
            memory: 8 << 30,
        };
        book.set_node(name, spec, true).expect("a node");
    }
    book.set_consumables("n2", &[(gpus(), 4)]).expect("n2");
    book.set_cluster_consumables(&[(licences(), 3)]);
    book
}

fn asks(amounts: &[(Consumable, u64)]) -> Request {
    let mut request = Request::single(Terms::hard(10.0, 100.0, 1e6));
    request.shape.consumables = Amounts::of(amounts).expect("few");
    request
}

fn reason(answer: Result<impl std::fmt::Debug, BookError>) -> Reason {
    match answer {
        Err(BookError::Refused(refusal)) => refusal.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_leaves_what_it_does_not_use() {
    let mut book = book();
    let one = asks(&[(gpus(), 1)]);
    let admitted = book.admit(&one, 0.0).expect("four are free");
    assert_eq!(book.node_name(admitted.places[0].node), "n2");
    assert_eq!(book.free_on("n2", gpus()), Some(3));
    book.bind(admitted.token, "1", 0.0).expect("an id");
    assert_eq!(
        reason(book.admit(&asks(&[(gpus(), 4)]), 0.0)),
        Reason::Consumable {
            what: gpus(),
            needed: 4,
            free: 3,
            node: Some(1)
        }
    );
    // One that asks for none may go anywhere, and takes none.
    book.admit(&asks(&[]), 0.0).expect("processors");
    assert_eq!(book.free_on("n2", gpus()), Some(3));
    book.ended("1", 1.0).expect("it was there");
    assert_eq!(book.free_on("n2", gpus()), Some(4));
}

#[test]
fn chunks_and_arrays_use_it_each() {
    let mut book = book();
    let mut wide = asks(&[(gpus(), 2)]);
    wide.shape.chunks = 3;
    assert_eq!(
        reason(book.admit(&wide, 0.0)),
        Reason::Chunks { asked: 3, fit: 2 }
    );
    wide.shape.chunks = 2;
    book.admit(&wide, 0.0).expect("four in all");
    assert_eq!(book.free_on("n2", gpus()), Some(0));

    let mut book = super::stock_tests::book();
    let each = asks(&[(gpus(), 1), (licences(), 1)]);
    assert!(matches!(
        reason(book.admit_array(&each, 4, None, 0.0)),
        Reason::Consumable {
            needed: 4,
            free: 3,
            node: None,
            ..
        }
    ));
    let (admitted, together) = book
        .admit_array(&each, 3, None, 0.0)
        .expect("three of each");
    assert!(together);
    assert_eq!(book.free_in_all(licences()), Some(0));
    assert_eq!(book.free_on("n2", gpus()), Some(1));
    book.cancel_token(admitted.token, 0.0).expect("one of them");
    assert_eq!(book.free_in_all(licences()), Some(1));
    assert_eq!(book.free_on("n2", gpus()), Some(2));
}

#[test]
fn what_others_use_is_not_free() {
    let mut book = book();
    book.set_taken("n2", 6 << 30, &[(gpus(), 3)]).expect("n2");
    book.set_cluster_taken(&[(licences(), 3)]);
    assert_eq!(book.free_on("n2", gpus()), Some(1));
    book.admit(&asks(&[(gpus(), 1)]), 0.0).expect("one is left");
    assert!(matches!(
        reason(book.admit(&asks(&[(licences(), 1)]), 0.0)),
        Reason::Consumable {
            needed: 1,
            free: 0,
            node: None,
            ..
        }
    ));
    let mut large = asks(&[]);
    large.shape.memory_per_chunk = 3 << 30;
    let places = book.admit(&large, 0.0).expect("n1 has memory").places;
    assert_eq!(book.node_name(places[0].node), "n1");
    // They have ended.
    book.set_taken("n2", 0, &[]).expect("n2");
    book.set_cluster_taken(&[]);
    assert_eq!(book.free_on("n2", gpus()), Some(3));
    assert_eq!(book.free_in_all(licences()), Some(3));
}

#[test]
fn a_book_of_records_counts_the_same() {
    let mut book = book();
    for id in ["1", "2"] {
        let admitted = (book.admit(&asks(&[(gpus(), 1), (licences(), 1)]), 0.0)).expect("free");
        book.bind(admitted.token, id, 0.0).expect("an id");
    }
    let text = serde_json::to_string(&book.snapshot()).expect("text");
    let mut anew = Book::new(Admission::default(), 30.0);
    let snapshot = serde_json::from_str(&text).expect("ours");
    assert_eq!(anew.rebuild(&snapshot), Ok(Vec::new()));
    for (free, lic) in [(2, 1), (3, 2), (4, 3)] {
        assert_eq!(anew.free_on("n2", gpus()), Some(free));
        assert_eq!(anew.free_in_all(licences()), Some(lic));
        let _ = anew.ended(if free == 2 { "1" } else { "2" }, 1.0);
    }
    // A node that has lost them keeps what is committed on it.
    book.set_consumables("n2", &[]).expect("n2");
    assert_eq!(book.free_on("n2", gpus()), Some(0));
    book.set_consumables("n2", &[(gpus(), 4)]).expect("n2");
    assert_eq!(book.free_on("n2", gpus()), Some(2));
}
