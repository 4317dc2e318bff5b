use super::*;
use crate::decision::admission::Admission;
use crate::decision::job::{Request, Terms};
use crate::decision::node::NodeSpec;

const NOW: f64 = 1_790_000_000.0;

fn book() -> Book {
    let mut book = Book::new(Admission::default(), 30.0);
    let spec = NodeSpec {
        processors: 1.0,
        rating: 1.0,
        memory: NodeSpec::MEMORY_UNLIMITED,
    };
    book.set_node("n1", spec, true).expect("a plain node");
    book.advance(NOW);
    book
}

fn quotes() -> HeldQuotes {
    HeldQuotes::new(Limits {
        longest: 600.0,
        most: 2,
    })
}

fn wanted(user: &str, deadline: f64) -> Wanted {
    Wanted {
        user: user.to_string(),
        request: Request::single(Terms::hard(10.0, deadline, 100.0)),
        array: None,
        others: vec![("partition".into(), "shared".to_string())],
    }
}

fn hold(quotes: &mut HeldQuotes, book: &mut Book, wanted: Wanted, until: f64) -> String {
    let admitted = book.admit(&wanted.request, NOW).expect("room");
    let bits = u128::from(admitted.token);
    let held = HeldQuote {
        offer: Offer {
            price: admitted.price,
            places: admitted.places,
            pinned: true,
        },
        token: admitted.token,
        wanted,
        until,
        place: String::new(),
    };
    quotes.hold(book, held, bits).expect("just accepted")
}

#[test]
fn a_number_says_when_its_time_is_over_and_no_two_are_alike() {
    let numbers: Vec<String> = (0..100).map(|index| new_number(NOW + 0.5, index)).collect();
    for (index, number) in numbers.iter().enumerate() {
        assert_eq!(expiry(number), Some(NOW), "{number}");
        assert_eq!(Order::parse(number), Ok(Order::Use(number.clone())));
        assert!(!numbers[..index].contains(number));
    }
    for text in ["", "1", "ask", "0123456-", "0123456-0123456789abcdei", "x"] {
        assert_eq!(expiry(text), None, "{text}");
    }
}

#[test]
fn what_is_asked_is_read() {
    for (text, hold, in_parts) in [
        ("1", None, false),
        ("ask", None, false),
        ("hold:5m", Some(300.0), false),
        ("parts:ask", None, true),
        ("parts:hold:5m", Some(300.0), true),
    ] {
        let question = Order::Question { hold, in_parts };
        assert_eq!(Order::parse(text), Ok(question), "{text}");
    }
    let number = new_number(NOW, 1);
    let drop = Order::parse(&format!("drop:{number}"));
    assert_eq!(drop, Ok(Order::Drop(number.clone())));
    let part = Order::parse(&format!("part:2:{number}"));
    let key = number;
    assert_eq!(part, Ok(Order::Part { number: 2, key }));
    for text in [
        "",
        "hold:",
        "hold:0",
        "hold:soon",
        "drop:",
        "drop:1",
        "7",
        "parts:",
        "parts:7",
        "parts:hold:0",
        "part:",
        "part:2",
        "part:2:7",
        "part:0:0123456-0123456789abcdef",
        "part:-1:0123456-0123456789abcdef",
    ] {
        assert!(Order::parse(text).is_err(), "{text}");
    }
}

#[test]
fn it_is_used_exactly_once_by_whom_it_belongs_to_for_what_it_was() {
    let (mut book, mut quotes) = (book(), quotes());
    let number = hold(&mut quotes, &mut book, wanted("ann", 20.0), NOW + 300.0);
    let mut redeem = |wanted: &Wanted, now: f64| quotes.redeem(&mut book, &number, wanted, now);
    let error = redeem(&wanted("bob", 20.0), NOW).expect_err("not his");
    assert!(matches!(error, QuoteError::Unknown(_)), "{error:?}");
    let mut other = wanted("ann", 25.0);
    other.request.shape.chunks = 2;
    other.others[0].1 = "other".to_string();
    let other_partition = |name: &str| Value::Other("partition".into(), name.to_string());
    let differences = [
        (Value::Deadline(25.0), Value::Deadline(20.0)),
        (Value::Chunks(2), Value::Chunks(1)),
        (other_partition("other"), other_partition("shared")),
    ];
    let differs = QuoteError::Differs {
        number: number.clone(),
        differences: (differences.into_iter())
            .map(|(asked, quoted)| Difference { asked, quoted })
            .collect(),
    };
    assert_eq!(redeem(&other, NOW), Err(differs));
    let held = redeem(&wanted("ann", 20.0), NOW + 299.0).expect("hers");
    assert_eq!(held.offer.price, 10.5);
    let error = redeem(&wanted("ann", 20.0), NOW + 299.0).expect_err("used");
    assert!(matches!(error, QuoteError::Unknown(_)), "{error:?}");
    assert!(book.has_provisional());
    assert_eq!(book.job_count(), 1);
}

#[test]
fn expiry_is_told_and_frees_its_share() {
    let (mut book, mut quotes) = (book(), quotes());
    let number = hold(&mut quotes, &mut book, wanted("ann", 20.0), NOW + 300.0);
    let now = NOW + 360.0;
    let error = quotes.redeem(&mut book, &number, &wanted("ann", 20.0), now);
    assert_eq!(error, Err(QuoteError::Expired { number, ago: 60.0 }));
    book.advance(now);
    assert_eq!(book.job_count(), 0);
}

#[test]
fn nobody_keeps_more_or_longer_than_the_site_allows() {
    let (mut book, mut quotes) = (book(), quotes());
    assert_eq!(
        quotes.check("ann", 601.0, NOW),
        Err(QuoteError::TooLong(600.0))
    );
    for until in [100.0, 300.0] {
        assert_eq!(quotes.check("ann", until, NOW), Ok(()));
        hold(&mut quotes, &mut book, wanted("ann", 40.0), NOW + until);
    }
    assert_eq!(quotes.check("ann", 10.0, NOW), Err(QuoteError::TooMany(2)));
    assert_eq!(quotes.check("bob", 10.0, NOW), Ok(()));
    assert_eq!(quotes.check("ann", 10.0, NOW + 101.0), Ok(()));
    quotes.configure(Limits {
        longest: 0.0,
        most: 2,
    });
    assert_eq!(quotes.check("bob", 10.0, NOW), Err(QuoteError::Never));
}

#[test]
fn what_is_given_back_is_free_and_a_closed_node_keeps_it() {
    let (mut book, mut quotes) = (book(), quotes());
    let number = hold(&mut quotes, &mut book, wanted("ann", 20.0), NOW + 300.0);
    book.set_available("n1", false).expect("a node");
    let closed = quotes.redeem(&mut book, &number, &wanted("ann", 20.0), NOW);
    assert!(
        matches!(closed, Err(QuoteError::NodeGone { .. })),
        "{closed:?}"
    );
    assert!(quotes.give_back(&mut book, &number, "bob", NOW).is_err());
    assert_eq!(quotes.give_back(&mut book, &number, "ann", NOW), Ok(()));
    assert_eq!(book.job_count(), 0);
    assert!(quotes.give_back(&mut book, &number, "ann", NOW).is_err());
}
