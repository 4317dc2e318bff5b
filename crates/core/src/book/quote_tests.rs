use super::*;
use crate::decision::admission::Admission;
use crate::decision::curve::{curve, with_deadline};
use crate::decision::job::{DeadlineType, Request, Shape, Terms};
use crate::decision::policy::{AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla};
use crate::decision::pricing::{AnyPricing, Linear, Utilisation};
use proptest::prelude::*;

fn half() -> Request {
    Request::single(Terms::hard(10.0, 20.0, 100.0))
}

fn book(nodes: usize, admission: Admission) -> Book {
    let mut book = Book::new(admission, 30.0);
    for index in 0..nodes {
        let spec = NodeSpec {
            processors: 1.0 + index as f64,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        let name = format!("n{index}");
        book.set_node(&name, spec, true).expect("a plain node");
    }
    book
}

#[test]
fn what_is_held_needs_the_same_share_all_the_time_and_then_is_free() {
    let mut book = book(1, Admission::default());
    let held = book.admit(&half(), 0.0).expect("fits");
    book.hold(held.token, 1, 300.0).expect("known");
    assert!(!book.has_provisional());
    for now in [10.0, 31.0, 100.0, 299.0] {
        book.advance(now);
        assert_eq!(book.drop_unnamed(now), Vec::<u64>::new());
        assert_eq!(book.committed("n0").expect("node"), 0.5, "at {now}");
    }
    assert!(book.admit(&half(), 299.0).is_ok());
    assert!(book.admit(&half(), 299.0).is_err());
    book.advance(300.0);
    assert!(!book.has_token(held.token));
    assert!(book.redeem(held.token, 1, 301.0).is_err());
}

#[test]
fn what_is_redeemed_is_a_job_that_was_submitted_then() {
    let mut book = book(1, Admission::default());
    let held = book.admit(&half(), 0.0).expect("fits");
    book.hold(held.token, 1, 300.0).expect("known");
    book.redeem(held.token, 1, 250.0).expect("held");
    assert!(book.has_provisional());
    book.bind(held.token, "1", 260.0).expect("known");
    book.started("1", 260.0).expect("known");
    book.advance(400.0);
    let ending = book.ended("1", 400.0).expect("it does not expire");
    assert_eq!(ending.delay, 130.0, "its deadline was at 270");
    let held = book.admit(&half(), 400.0).expect("fits");
    book.hold(held.token, 1, 700.0).expect("known");
    book.redeem(held.token, 1, 450.0).expect("held");
    book.advance(480.0);
    assert!(!book.has_token(held.token), "nobody named it");
}

#[test]
fn what_is_held_keeps_the_margin_that_it_was_planned_with() {
    let mut book = book(1, Admission::default());
    let held = book.admit(&half(), 0.0).expect("fits");
    book.hold(held.token, 1, 300.0).expect("known");
    book.set_margin(Some(0.5));
    book.redeem(held.token, 1, 250.0).expect("held");
    assert_eq!(book.committed("n0"), Ok(0.5));
    let line = book.commitment(&half(), 1, &held, None, 250.0);
    assert_eq!((line.margin, line.places[0].share), (Some(0.0), 0.5));
    assert!(book.admit(&half(), 250.0).is_err(), "0.75 would be needed");
}

fn admission() -> impl Strategy<Value = Admission> {
    let policy = prop_oneof![
        Just(AnyPolicy::Libra(Libra::default())),
        Just(AnyPolicy::LibraSla(LibraSla)),
        any::<bool>().prop_map(|spare_is_shared| AnyPolicy::LibraRisk(LibraRisk {
            spare_is_shared,
            unconditional: spare_is_shared
        })),
        Just(AnyPolicy::LibraAdaptive(LibraAdaptive::default())),
    ];
    let pricing = prop_oneof![
        (0.0..3.0, 0.0..30.0).prop_map(|(alpha, beta)| AnyPricing::Linear(Linear { alpha, beta })),
        (0.0..3.0, 0.1..3.0).prop_map(|(alpha, beta)| AnyPricing::Utilisation(Utilisation {
            alpha,
            beta,
            base: 1.0
        })),
    ];
    (policy, pricing, prop_oneof![Just(0.0), 0.0..0.5]).prop_map(
        |(policy, pricing, estimate_margin)| Admission {
            policy,
            pricing,
            estimate_margin,
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    (
        (0.5..50.0, 0.3..20.0, 0.2..4.0, any::<bool>()),
        (1u32..4, 1u32..3, any::<bool>()),
    )
        .prop_map(
            |((estimate, slack, money, soft), (chunks, each, scatter))| Request {
                terms: Terms {
                    deadline_type: if soft {
                        DeadlineType::Soft
                    } else {
                        DeadlineType::Hard
                    },
                    penalty_rate: if soft { 0.5 } else { 0.0 },
                    ..Terms::hard(
                        estimate,
                        estimate * slack,
                        estimate * money * f64::from(chunks * each),
                    )
                },
                shape: Shape {
                    chunks,
                    processors_per_chunk: each,
                    memory_per_chunk: 0,
                    scatter,
                    ..Shape::default()
                },
            },
        )
}

/// Books that have seen the same: one cannot be copied.
fn filled(
    admission: Admission,
    settings: (usize, bool, f64),
    before: &[(Request, f64, bool)],
) -> (Book, f64) {
    let (nodes, reserve_committed_share, delay) = settings;
    let mut book = book(nodes, admission);
    book.reserve_committed_share(reserve_committed_share);
    book.set_start_latency(delay);
    let mut now = 0.0;
    for (index, (request, later, starts)) in before.iter().enumerate() {
        now += later;
        let Ok(admitted) = book.admit(request, now) else {
            continue;
        };
        let id = index.to_string();
        book.bind(admitted.token, &id, now).expect("new");
        if *starts {
            book.started(&id, now).expect("known");
        }
    }
    (book, now)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_point_of_a_curve_is_what_a_submission_is_answered(
        admission in admission(),
        settings in (1usize..4, any::<bool>(), prop_oneof![Just(0.0), Just(4.0)]),
        before in prop::collection::vec((request(), 0.0..5.0, any::<bool>()), 0..6),
        asked in request(),
        array in prop_oneof![2 => Just(None), 1 => (1u32..4).prop_map(Some)],
        open in prop::collection::vec(prop_oneof![Just(0), 1u32..6, Just(u32::MAX)], 0..4),
        later in 0.0..10.0,
    ) {
        let (mut book, last) = filled(admission, settings, &before);
        let now = last + later;
        book.advance(now);
        let allowed = (open.len() > 2).then_some(open.as_slice());
        let points = curve(&asked, &|request| book.appraise(request, array, allowed));
        prop_assert!((20..=40).contains(&points.len()), "{}", points.len());
        prop_assert!(points.iter().any(|point| point.deadline == asked.terms.deadline));
        let jobs = book.job_count();
        for point in points {
            let request = with_deadline(&asked, point.deadline);
            let quoted = book.quote(&request, array, allowed);
            let (mut same, _) = filled(admission, settings, &before);
            let submitted = match array {
                None => same.admit_among(&request, allowed, now).map(|a| (a, true)),
                Some(count) => same.admit_array(&request, count, allowed, now),
            };
            match (submitted, quoted) {
                (Ok((admitted, pinned)), Ok(offer)) => {
                    prop_assert_eq!(point.judged.refused, None);
                    prop_assert_eq!(point.judged.price, admitted.price);
                    let most = admitted.places.iter().fold(0.0f64, |most, p| p.share.max(most));
                    prop_assert_eq!(point.judged.share, Some(most));
                    prop_assert_eq!((offer.price, offer.pinned), (admitted.price, pinned));
                    prop_assert_eq!(offer.places, admitted.places);
                }
                (Err(BookError::Refused(refusal)), Err(BookError::Refused(quoted))) => {
                    prop_assert_eq!(point.judged.refused, Some(refusal.reason.category()));
                    prop_assert_eq!(refusal, quoted);
                }
                (Err(BookError::Unsound(one)), Err(BookError::Unsound(other))) => {
                    prop_assert_eq!(one, other);
                    prop_assert!(point.judged.refused.is_some());
                }
                (submitted, quoted) => prop_assert!(false, "{submitted:?}\n{quoted:?}"),
            }
        }
        prop_assert_eq!(book.job_count(), jobs);
    }

    /// What is held and what is committed never need more than a node has, whenever it is used, given back or forgotten.
    #[test]
    fn what_is_held_keeps_its_room(
        steps in prop::collection::vec(
            (request(), 0u8..4, prop_oneof![3 => 0.0..2.0, 1 => 0.0..40.0]),
            1..40,
        ),
        nodes in 1usize..4,
    ) {
        let mut book = book(nodes, Admission::default());
        let mut quotes = held_quote::HeldQuotes::new(held_quote::Limits { longest: 60.0, most: 50 });
        let mut open: Vec<(String, held_quote::Wanted)> = Vec::new();
        let mut now = 1e9;
        for (index, (request, what, later)) in steps.into_iter().enumerate() {
            now += later;
            book.advance(now);
            let wanted = held_quote::Wanted {
                user: "ann".to_string(),
                request,
                array: None,
                others: Vec::new(),
            };
            let mut started = None;
            match (what, open.pop()) {
                (0, Some((number, wanted))) => {
                    // Expired or not, it is never used twice.
                    if let Ok(held) = quotes.redeem(&mut book, &number, &wanted, now) {
                        prop_assert!(quotes.redeem(&mut book, &number, &wanted, now).is_err());
                        started = Some(held.token);
                    }
                }
                (1, Some((number, _))) => {
                    let _ = quotes.give_back(&mut book, &number, "ann", now);
                }
                (2, before) => {
                    open.extend(before);
                    started = book.admit(&request, now).ok().map(|admitted| admitted.token);
                }
                (_, before) => {
                    open.extend(before);
                    if let Ok(admitted) = book.admit(&request, now) {
                        let bits = u128::from(admitted.token);
                        let held = held_quote::HeldQuote {
                            wanted: wanted.clone(),
                            offer: Offer {
                                price: admitted.price,
                                places: admitted.places,
                                pinned: true,
                            },
                            token: admitted.token,
                            until: now + 60.0,
                            place: String::new(),
                        };
                        open.push((quotes.hold(&mut book, held, bits).expect("just admitted"), wanted));
                    }
                }
            }
            if let Some(token) = started {
                let id = index.to_string();
                book.bind(token, &id, now).expect("just accepted");
                book.started(&id, now).expect("known");
                if index % 3 == 0 {
                    book.ended(&id, now).expect("known");
                }
            }
            for node in 0..nodes {
                let needed = book.committed(&format!("n{node}")).expect("a node");
                // Jobs that were never reported done are late by and by, and then need whole processors.
                let late = book.snapshot().jobs.iter().any(|job| {
                    job.id.is_some() && job.submitted + job.request.terms.deadline <= now
                });
                prop_assert!(
                    late || needed <= (1.0 + node as f64) * (1.0 + 1e-6),
                    "{needed} on n{node}"
                );
            }
        }
    }
}
