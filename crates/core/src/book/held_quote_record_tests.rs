use super::*;
use crate::book::held_quote::{Limits, QuoteError};
use crate::decision::admission::Admission;
use crate::decision::job::{Request, Terms};
use crate::decision::node::NodeSpec;

const NOW: f64 = 1_790_000_000.0;

/// With these nodes of one processor.
fn book(nodes: &[&str]) -> Book {
    let mut book = Book::new(Admission::default(), 30.0);
    let spec = NodeSpec {
        processors: 1.0,
        rating: 1.0,
        memory: NodeSpec::MEMORY_UNLIMITED,
    };
    for node in nodes {
        book.set_node(node, spec, true).expect("a plain node");
    }
    book.advance(NOW);
    book
}

fn quotes() -> HeldQuotes {
    HeldQuotes::new(Limits {
        longest: 600.0,
        most: 5,
    })
}

fn wanted(array: Option<u32>) -> Wanted {
    Wanted {
        user: "ann".to_string(),
        request: Request::single(Terms::hard(60.0, 100.0, f64::INFINITY)),
        array,
        others: vec![("partition".into(), "shared".to_string())],
    }
}

/// What a server wrote down that held such a quote until 300 s from now.
fn written(array: Option<u32>) -> HeldQuoteRecord {
    held_in(&mut book(&["n1", "n2", "n3"]), array)
}

fn held_in(book: &mut Book, array: Option<u32>) -> HeldQuoteRecord {
    let mut quotes = quotes();
    // Tokens of a server that has run for a while.
    book.tokens_from(1000);
    let wanted = wanted(array);
    let (admitted, pinned) = match array {
        None => (book.admit(&wanted.request, NOW).expect("room"), true),
        Some(jobs) => (book.admit_array(&wanted.request, jobs, None, NOW)).expect("room"),
    };
    let held = HeldQuote {
        offer: Offer {
            price: admitted.price,
            places: admitted.places,
            pinned,
        },
        token: admitted.token,
        wanted,
        until: NOW + 300.0,
        place: "shared".to_string(),
    };
    assert!(!quotes.take_changed());
    quotes.hold(book, held, 7).expect("just accepted");
    assert!(quotes.take_changed() && !quotes.take_changed());
    let mut written = records(&quotes, book).pop().expect("one");
    written.commitment = Commitment::parse(&written.commitment.line()).expect("ours");
    written
}

#[test]
fn what_was_held_is_held_by_a_server_that_begins_anew() {
    for array in [None, Some(2)] {
        let record = written(array);
        let jobs = array.unwrap_or(1) as usize;
        // In another order, as Slurm and PBS may tell them.
        let (mut quotes, mut book) = (quotes(), book(&["n3", "n2", "n1"]));
        assert_eq!(
            restore(&mut quotes, &mut book, record.clone(), NOW + 200.0),
            Ok(true)
        );
        assert_eq!(book.job_count(), jobs);
        assert_eq!(records(&quotes, &book), std::slice::from_ref(&record));
        // Longer than an acceptance without a job is held.
        book.advance(NOW + 299.0);
        assert_eq!(book.job_count(), jobs);
        // Nobody else has its place: as many more of these as there are nodes left.
        let request = wanted(None).request;
        let others = std::iter::from_fn(|| book.admit(&request, NOW + 299.0).ok());
        assert_eq!(others.count(), 3 - jobs);
        let number = &record.number;
        let others = quotes.usable(
            &book,
            number,
            &Wanted {
                user: "eve".into(),
                ..wanted(array)
            },
            NOW + 299.0,
        );
        assert!(matches!(others, Err(QuoteError::Unknown(_))), "{others:?}");
        let used = quotes
            .redeem(&mut book, number, &wanted(array), NOW + 299.0)
            .expect("usable");
        assert_eq!(
            (used.token, used.offer.price, used.place.as_str()),
            (record.commitment.token, record.price, "shared")
        );
        let nodes: Vec<_> = (used.offer.places.iter())
            .map(|place| (book.node_name(place.node), place.chunks, place.share))
            .collect();
        let written: Vec<_> = (record.commitment.places.iter())
            .map(|at| (at.node.as_str(), at.chunks, at.share))
            .collect();
        assert_eq!(nodes, written);
        assert!(quotes.take_changed());
        assert_eq!(records(&quotes, &book), []);
    }
}

#[test]
fn to_the_book_one_that_is_held_again_is_as_it_was() {
    for (array, reserve) in [(None, false), (None, true), (Some(2), true)] {
        let books = || {
            let mut book = book(&["n1", "n2", "n3"]);
            book.reserve_committed_share(reserve);
            book
        };
        let (mut before, mut after) = (books(), books());
        let record = held_in(&mut before, array);
        assert_eq!(restore(&mut quotes(), &mut after, record, NOW), Ok(true));
        assert_eq!(after.snapshot(), before.snapshot());
    }
}

#[test]
fn a_quote_whose_time_is_over_is_not_held_and_ends_when_it_said() {
    let record = written(None);
    let (mut quotes, mut book) = (quotes(), book(&["n1"]));
    assert_eq!(
        restore(&mut quotes, &mut book, record.clone(), NOW + 300.0),
        Ok(false)
    );
    let longer = HeldQuoteRecord {
        until: f64::MAX,
        ..record
    };
    assert_eq!(restore(&mut quotes, &mut book, longer, NOW), Ok(true));
    book.advance(NOW + 302.0);
    assert_eq!(book.job_count(), 0);
    assert_eq!(records(&quotes, &book), []);
}

#[test]
fn one_that_was_used_is_not_held_beside_its_job() {
    for array in [None, Some(3)] {
        let record = written(array);
        let (mut quotes, mut book) = (quotes(), book(&["n1", "n2", "n3"]));
        // The last job of the array is the one that is on record.
        let used = JobRecord {
            token: record.commitment.token + u64::from(array.unwrap_or(1)) - 1,
            ..JobRecord::committed("1", 0, &record.commitment, Phase::Bound)
        };
        book.restore(&used).expect("ours");
        let (token, restored) = (
            used.token,
            restore(&mut quotes, &mut book, record.clone(), NOW),
        );
        assert_eq!(restored, Err(NotHeld::Book(BookError::TokenTaken(token))));
        assert_eq!((book.job_count(), records(&quotes, &book)), (1, vec![]));
    }
}

#[test]
fn what_nobody_was_offered_is_not_held() {
    let record = written(None);
    let mut far = record.clone();
    far.commitment.places[0].share = 2.0;
    let mut nowhere = record.clone();
    nowhere.commitment.places.clear();
    let mut no_time = record.clone();
    no_time.commitment.request.terms.deadline = 0.0;
    let mut no_number = record.clone();
    no_number.number = "12".to_string();
    let mut dear = record.clone();
    dear.commitment.price = -1.0;
    for wrong in [far, nowhere, no_time, no_number, dear] {
        let (mut quotes, mut book) = (quotes(), book(&["n1"]));
        let restored = restore(&mut quotes, &mut book, wrong.clone(), NOW);
        assert!(restored.is_err(), "{wrong:?}");
        assert_eq!((book.job_count(), records(&quotes, &book)), (0, vec![]));
    }
}

#[test]
fn a_node_that_is_gone_keeps_the_quote_from_being_used_and_not_from_being_held() {
    let record = written(None);
    let (mut quotes, mut book) = (quotes(), book(&["n9"]));
    assert_eq!(
        restore(&mut quotes, &mut book, record.clone(), NOW),
        Ok(true)
    );
    let used = quotes.redeem(&mut book, &record.number, &wanted(None), NOW);
    assert!(matches!(used, Err(QuoteError::NodeGone { .. })), "{used:?}");
}
