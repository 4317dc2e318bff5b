//! What must hold for every cluster and every stream of submissions.
//!
//! PROPTEST_CASES sets the number of cases of each property.

use libra_core::decision::TOLERANCE;
use libra_core::decision::admission::Admission;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::curve::{curve, with_deadline};
use libra_core::decision::job::{DeadlineType, Request, Shape, Terms};
use libra_core::decision::node::{JobOnNode, NodeSpec, NodeView, PlainNode};
use libra_core::decision::placement::{self, Placement};
use libra_core::decision::policy::{
    AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla, NodeChoice, Policy,
};
use libra_core::decision::pricing::{AnyPricing, ByShare, Linear, Utilisation};
use libra_core::decision::refusal::{Reason, Refusal};
use libra_core::decision::share::{DeadlineStatus, ShareRule};
use libra_wording::refusal as wording;
use libra_wording::terms;
use proptest::prelude::*;

fn nodes() -> impl Strategy<Value = Vec<PlainNode>> {
    let node = (
        prop_oneof![Just(1.0), Just(2.0), 0.0..4.0, Just(64.0), Just(0.0)],
        prop_oneof![4 => Just(1.0), 4 => 0.25..4.0, 1 => Just(1e-6), 1 => Just(1e6)],
        prop_oneof![Just(NodeSpec::MEMORY_UNLIMITED), 0u64..1000],
        prop::collection::vec(job_on_node(), 0..5),
    );
    prop::collection::vec(node, 0..8).prop_map(|nodes| {
        nodes
            .into_iter()
            .map(|(processors, rating, memory, jobs)| {
                let spec = NodeSpec {
                    processors,
                    rating,
                    memory,
                };
                PlainNode::new(spec, jobs, ShareRule::Exact)
            })
            .collect()
    })
}

fn job_on_node() -> impl Strategy<Value = JobOnNode> {
    (
        0.1..100.0,
        0.1..400.0,
        0.0..120.0,
        0.0..500.0,
        0.0..1.0,
        0u64..300,
        soft_terms(),
        // One that has only just come and one that has come far.
        prop_oneof![Just(0.0), Just(0.0), Just(1.0)],
    )
        .prop_map(
            |(estimate, deadline, cput, walltime, held_share, memory, soft, far)| JobOnNode {
                terms: Terms {
                    deadline_type: soft.0,
                    penalty_rate: soft.1,
                    ..Terms::hard(estimate, deadline, soft.2)
                },
                slots: 1,
                cput: cput * far,
                walltime: walltime * far,
                held_share,
                memory,
                delay: 0.0,
            },
        )
}

/// Deadline type, penalty rate, budget.
fn soft_terms() -> impl Strategy<Value = (DeadlineType, f64, f64)> {
    (
        prop_oneof![Just(DeadlineType::Hard), Just(DeadlineType::Soft)],
        prop_oneof![Just(0.0), 0.0..10.0, Just(1e15)],
        prop_oneof![Just(1.0), 0.0..1000.0, Just(f64::INFINITY), Just(1e15)],
    )
}

fn request() -> impl Strategy<Value = Request> {
    (
        prop_oneof![0.1..100.0, Just(10.0), 1e-3..1e10],
        prop_oneof![0.1..400.0, Just(20.0), 1e-3..1e10],
        prop_oneof![0.0..1000.0, Just(f64::INFINITY), Just(0.0)],
        prop_oneof![Just(1u32), 1u32..12],
        prop_oneof![Just(1u32), 1u32..6],
        prop_oneof![Just(0u64), 0u64..400],
        any::<bool>(),
        soft_terms(),
    )
        .prop_map(
            |(estimate, deadline, budget, chunks, processors_per_chunk, memory, scatter, soft)| {
                Request {
                    terms: Terms {
                        estimate,
                        deadline,
                        budget,
                        deadline_type: soft.0,
                        penalty_rate: soft.1,
                        class: libra_core::decision::class::Class::Deadline,
                    },
                    shape: Shape {
                        chunks,
                        processors_per_chunk,
                        memory_per_chunk: memory,
                        scatter,
                        ..Shape::default()
                    },
                }
            },
        )
}

fn admission() -> impl Strategy<Value = Admission> {
    (
        prop_oneof![Just(NodeChoice::BestFit), Just(NodeChoice::LeastLoaded)],
        prop_oneof![Just(ShareRule::Exact), Just(ShareRule::Integral)],
        prop_oneof![Just(0.0), 0.0..0.5],
    )
        .prop_map(|(node_choice, share_rule, estimate_margin)| Admission {
            policy: AnyPolicy::Libra(Libra {
                node_choice,
                share_rule,
            }),
            estimate_margin,
            ..Admission::default()
        })
}

/// Every policy, every pricing.
fn any_admission() -> impl Strategy<Value = Admission> {
    let others = prop_oneof![
        Just(AnyPolicy::LibraSla(LibraSla)),
        any::<bool>().prop_map(|spare_is_shared| AnyPolicy::LibraRisk(LibraRisk {
            spare_is_shared,
            unconditional: !spare_is_shared
        })),
        any::<bool>()
            .prop_map(|unconditional| AnyPolicy::LibraAdaptive(LibraAdaptive { unconditional })),
    ];
    let pricing = prop_oneof![
        Just(AnyPricing::Linear(Linear::default())),
        (0.0..2.0, 0.0..2.0).prop_map(|(alpha, beta)| AnyPricing::ByShare(ByShare { alpha, beta })),
        (0.0..2.0, 0.0..2.0, prop_oneof![Just(1.0), 0.0..2.0]).prop_map(|(alpha, beta, base)| {
            AnyPricing::Utilisation(Utilisation { alpha, beta, base })
        }),
    ];
    (admission(), prop::option::weighted(0.75, others), pricing).prop_map(
        |(libra, other, pricing)| Admission {
            policy: other.unwrap_or(libra.policy),
            pricing,
            ..libra
        },
    )
}

fn judge(
    admission: &Admission,
    nodes: &[PlainNode],
    request: &Request,
) -> Result<Vec<Placement>, Box<Refusal>> {
    let mut scratch =
        vec![Placement::EMPTY; placement::room(&admission.policy, request, nodes.len())];
    let accepted = admission.judge(nodes, request, &mut scratch)?;
    scratch.truncate(accepted.nodes);
    Ok(scratch)
}

/// The request changed by the words of an offer.
fn typed(offer: &CounterOffer, request: &Request) -> Request {
    let mut again = *request;
    let text = wording::offer(offer);
    let values = text.split(" (").next().unwrap_or_default();
    for (key, value) in values.split(',').filter_map(|pair| pair.split_once('=')) {
        match key {
            "chunks" => again.shape.chunks = value.parse().expect("our own text"),
            "processors" => {
                again.shape.processors_per_chunk = value.parse().expect("our own text");
            }
            "deadline" => {
                again.terms.deadline = libra_units::duration::parse(value).expect("our own text")
            }
            "estimate" => {
                again.terms.estimate = libra_units::duration::parse(value).expect("our own text")
            }
            "budget" => again.terms.budget = value.parse().expect("our own text"),
            other => panic!("{other} in {text}"),
        }
    }
    if let CounterOffer::Processors { chunks: 1, .. } = offer {
        again.shape.chunks = 1;
    }
    again
}

/// Whoever does the work of `asked` with the terms and the shape of `offered` is done in time.
fn keeps_its_work(
    admission: &Admission,
    nodes: &[PlainNode],
    asked: &Request,
    offered: &Request,
) -> Result<(), TestCaseError> {
    let each = asked.terms.estimate * asked.shape.slots() as f64 / offered.shape.slots() as f64;
    prop_assert!(offered.terms.estimate >= each * (1.0 - 1e-9));
    // Who has such a share for all of its time; under the other policies a share grows later, see the simulator's tests.
    if let AnyPolicy::Libra(_) = admission.policy {
        for place in judge(admission, nodes, offered).expect("it is accepted") {
            let done = place.share * nodes[place.node].spec.rating * offered.terms.deadline;
            prop_assert!(done >= each * (1.0 - 1e-6), "{done} of {each} s");
        }
    }
    Ok(())
}

/// Puts an accepted job on its nodes.
fn reserve(
    admission: &Admission,
    nodes: &mut [PlainNode],
    request: &Request,
    places: &[Placement],
) {
    let planned = admission.planned(request);
    for place in places {
        nodes[place.node].reserve(&planned, place.chunks);
    }
}

proptest! {
    #[test]
    fn no_accepted_set_exceeds_a_capacity(
        admission in admission(),
        cluster in nodes(),
        requests in prop::collection::vec(request(), 1..20),
    ) {
        let mut nodes: Vec<PlainNode> = cluster
            .iter()
            .map(|node| PlainNode::new(node.spec, Vec::new(), admission.policy.share_rule()))
            .collect();
        for request in &requests {
            if let Ok(places) = judge(&admission, &nodes, request) {
                let chunks: u32 = places.iter().map(|place| place.chunks).sum();
                prop_assert_eq!(chunks, request.shape.chunks, "whole or not at all");
                if request.shape.scatter {
                    prop_assert!(places.iter().all(|place| place.chunks == 1));
                }
                reserve(&admission, &mut nodes, request, &places);
                for place in &places {
                    let node = &&nodes[place.node];
                    let loadfree = (node.spec.processors - node.committed()).max(0.0);
                    prop_assert!((loadfree - place.loadfree).abs() < 1e-6, "{} {:?}", loadfree, place);
                }
            }
            for node in &nodes {
                let most = node.spec.processors * (1.0 + 2.0 * TOLERANCE) + 1e-9;
                prop_assert!((&node).committed() <= most, "{:?}", node);
                prop_assert!((&node).memory_committed() <= node.spec.memory);
            }
        }
    }

    #[test]
    fn with_exact_estimates_every_accepted_job_ends_by_its_deadline(
        requests in prop::collection::vec((request(), 0.0..50.0), 1..15),
        processors in prop_oneof![Just(1.0), Just(2.0)],
    ) {
        // One node run forward: each job at the share it needs, new ones as they arrive.
        let admission = Admission::default();
        let spec = NodeSpec { processors, rating: 1.0, memory: NodeSpec::MEMORY_UNLIMITED };
        let mut running: Vec<(JobOnNode, f64)> = Vec::new();
        let mut now = 0.0;
        for (mut request, pause) in requests {
            request.shape = Shape::default();
            request.terms.budget = f64::INFINITY;
            let end = now + pause;
            while now < end {
                let step = run_to_next_end(&mut running, &mut now, end)?;
                prop_assert!(step >= 0.0);
            }
            let jobs = running.iter().map(|(job, _)| *job).collect();
            let node = [PlainNode::new(spec, jobs, ShareRule::Exact)];
            if judge(&admission, &node, &request).is_ok() {
                let job = JobOnNode {
                    terms: request.terms,
                    slots: 1,
                    cput: 0.0,
                    walltime: 0.0,
                    held_share: 0.0,
                    memory: 0,
                    delay: 0.0,
                };
                running.push((job, now));
            }
        }
        while !running.is_empty() {
            run_to_next_end(&mut running, &mut now, f64::INFINITY)?;
        }
    }

    #[test]
    fn a_refused_job_changes_nothing_and_an_accepted_one_is_judged_alike_twice(
        admission in any_admission(),
        cluster in nodes(),
        request in request(),
    ) {
        let before = cluster.clone();
        let first = judge(&admission, &cluster, &request);
        prop_assert_eq!(&before, &cluster);
        prop_assert_eq!(first, judge(&admission, &cluster, &request));
    }

    #[test]
    fn a_refusal_says_something_that_is_true(
        admission in any_admission(),
        cluster in nodes(),
        request in request(),
    ) {
        if let Err(refusal) = judge(&admission, &cluster, &request) {
            let text = wording::reason(&refusal.reason.named(|node| format!("node {node}")));
            prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{}", text);
            match refusal.reason {
                Reason::Budget { price, budget } => prop_assert!(price > budget, "{}", text),
                Reason::Funds { .. } | Reason::Cover { .. } => prop_assert!(false, "no accounts here: {}", text),
                Reason::Deadline { fastest, deadline } => prop_assert!(fastest > deadline, "{}", text),
                Reason::Share { needed, free, .. } | Reason::Time { needed, free, .. } => {
                    prop_assert!(needed > free && free >= 0.0, "{} {:?}", text, refusal.reason);
                }
                Reason::Memory { needed, free, .. } | Reason::Consumable { needed, free, .. } => prop_assert!(needed > free, "{}", text),
                Reason::Chunks { asked, fit } => prop_assert!(0 < fit && fit < asked, "{}", text),
                Reason::Risk { delay, .. } => prop_assert!(delay >= 0.0, "{}", text),
                Reason::Return { with, without, .. } => {
                    prop_assert!(with.is_nan() || with < without, "{} {:?}", text, refusal.reason);
                }
                Reason::Invalid(_) | Reason::NoNode => {}
            }
        }
    }

    #[test]
    fn the_order_of_the_nodes_does_not_change_the_verdict(
        admission in any_admission(),
        cluster in nodes(),
        request in request(),
        turn in 0usize..8,
    ) {
        // A price that follows the load of the nodes is another one where equally good nodes are taken
        // in another order.
        let admission = Admission { pricing: AnyPricing::default(), ..admission };
        let here = judge(&admission, &cluster, &request);
        let mut other = cluster;
        other.reverse();
        if !other.is_empty() {
            let by = turn % other.len();
            other.rotate_left(by);
        }
        let there = judge(&admission, &other, &request);
        prop_assert_eq!(here.is_ok(), there.is_ok());
        if let (Err(here), Err(there)) = (here, there) {
            prop_assert_eq!(here.reason.category(), there.reason.category());
            prop_assert_eq!(here.counter_offers, there.counter_offers);
        }
    }

    #[test]
    fn every_counter_offer_submitted_as_is_is_accepted(
        admission in any_admission(),
        cluster in nodes(),
        request in request(),
        jobs in prop_oneof![3 => Just(1u32), 1 => 2u32..5],
    ) {
        let mut together = request;
        together.shape.chunks *= jobs;
        let mut scratch = vec![Placement::EMPTY; placement::room(&admission.policy, &together, cluster.len())];
        let judged = admission.judge_jobs(&cluster[..], &together, jobs, &mut scratch);
        if let Err(refusal) = judged {
            if let Reason::Chunks { asked, fit } = refusal.reason {
                prop_assert!(fit < asked && asked == together.shape.chunks, "{:?}", refusal.reason);
            }
            for offer in &refusal.counter_offers {
                let changed = offer.apply(&together);
                prop_assert_ne!(changed, together, "an offer changes something");
                prop_assert!(judge(&admission, &cluster, &changed).is_ok(), "{:?} {:?}", offer, refusal.reason);
                // What is printed is what is typed in again.
                let again = typed(offer, &together);
                if let CounterOffer::Jobs { jobs: left, .. } = *offer {
                    prop_assert!(left < jobs && changed.shape.chunks == left * request.shape.chunks);
                } else {
                    prop_assert!(judge(&admission, &cluster, &again).is_ok(), "{:?} of {:?}", offer, together);
                    if let Some(price) = offer.price() {
                        prop_assert!(price <= again.terms.budget * (1.0 + TOLERANCE));
                    }
                }
                if let CounterOffer::Processors { chunks, processors_per_chunk, estimate, .. } = *offer {
                    prop_assert_eq!(jobs, 1);
                    keeps_its_work(&admission, &cluster, &request, &again)?;
                    let slots = f64::from(chunks) * f64::from(processors_per_chunk);
                    let total: f64 = cluster.iter().map(|node| node.spec.processors).sum();
                    let largest = cluster.iter().fold(1.0f64, |most, node| node.spec.processors.max(most));
                    prop_assert!(slots < request.shape.slots() as f64 && slots <= total.max(1.0));
                    prop_assert!(f64::from(processors_per_chunk) <= largest && estimate > request.terms.estimate);
                }
            }
        }
    }

    #[test]
    fn every_point_of_a_curve_is_judged_as_a_submission(
        nodes in nodes(),
        admission in any_admission(),
        request in request(),
    ) {
        let points = curve(&request, &|request| admission.appraise(&nodes[..], request));
        prop_assert!(points.len() <= 40);
        prop_assert_eq!(points.is_empty(), request.check().is_err());
        for point in points {
            let asked = with_deadline(&request, point.deadline);
            let mut places = vec![Placement::EMPTY; placement::room(&admission.policy, &asked, nodes.len())];
            match admission.judge(&nodes[..], &asked, &mut places) {
                Ok(acceptance) => {
                    places.truncate(acceptance.nodes);
                    prop_assert_eq!(point.judged.refused, None);
                    prop_assert_eq!(point.judged.price, acceptance.price);
                    let most = places.iter().fold(0.0f64, |most, place| place.share.max(most));
                    prop_assert_eq!(point.judged.share, Some(most));
                }
                Err(refusal) => {
                    prop_assert_eq!(point.judged.refused, Some(refusal.reason.category()));
                }
            }
        }
    }

    #[test]
    fn the_earliest_deadline_is_the_earliest(
        cluster in nodes(),
        mut request in request(),
    ) {
        request.terms.budget = f64::INFINITY;
        request.terms.estimate = request.terms.estimate.min(1e5);
        let admission = Admission::default();
        if let Err(refusal) = judge(&admission, &cluster, &request) {
            for offer in &refusal.counter_offers {
                if let CounterOffer::Deadline { deadline, .. } = *offer {
                    let step = if deadline <= 100.0 { 0.1 } else { 1.0 };
                    let mut earlier = request;
                    earlier.terms.deadline = deadline - 2.0 * step;
                    if earlier.terms.deadline > request.terms.deadline {
                        prop_assert!(judge(&admission, &cluster, &earlier).is_err(), "{}", deadline);
                    }
                }
            }
        }
    }

    #[test]
    fn best_fit_leaves_the_least_and_least_loaded_the_most(
        cluster in nodes(),
        mut request in request(),
    ) {
        request.shape = Shape { memory_per_chunk: request.shape.memory_per_chunk, ..Shape::default() };
        request.terms.budget = f64::INFINITY;
        for (choice, better) in [(NodeChoice::BestFit, -1.0), (NodeChoice::LeastLoaded, 1.0)] {
            let policy = Libra { node_choice: choice, share_rule: ShareRule::Exact };
            let admission = Admission { policy: AnyPolicy::Libra(policy), ..Admission::default() };
            if let Ok(places) = judge(&admission, &cluster, &request) {
                for node in &cluster {
                    if let Ok(offer) = policy.offer(&node, &request) {
                        prop_assert!(better * (places[0].loadfree - offer.loadfree) >= -1e-9);
                    }
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*", key in "[a-z_]{0,12}", value in "\\PC{0,20}") {
        let _ = terms::parse(&text, &terms::deadline_as_duration).map(terms::PartialTerms::complete);
        let _ = terms::parse(&format!("{key}={value}"), &terms::deadline_as_duration);
        let _ = libra_units::duration::parse(&value);
        let _ = libra_units::memory::parse(&value);
    }

    #[test]
    fn any_list_of_terms_is_read_or_refused(
        entries in prop::collection::vec(
            (prop::sample::select(terms::KEYS.to_vec()), "[0-9:.hms\\-einfa]{0,12}"), 0..7),
    ) {
        let list: Vec<String> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let read = terms::parse(&list.join(","), &terms::deadline_as_duration);
        if let Ok(terms) = read.and_then(terms::PartialTerms::complete) {
            prop_assert!(terms.check().is_ok());
        }
    }

    #[test]
    fn any_configuration_is_read_or_refused(text in "\\PC*", line in 0usize..60, junk in "\\PC{0,10}") {
        let _ = libra_config::Config::from_toml(&text);
        // Our own text with one line spoilt.
        let spoilt: Vec<String> = libra_config::DEFAULT_TOML
            .lines()
            .enumerate()
            .map(|(index, own)| if index == line { format!("{own}{junk}") } else { own.to_string() })
            .collect();
        let _ = libra_config::Config::from_toml(&spoilt.join("\n"));
    }
}

/// Runs all jobs at the share they need until the first of them ends, or until `end`.
fn run_to_next_end(
    running: &mut Vec<(JobOnNode, f64)>,
    now: &mut f64,
    end: f64,
) -> Result<f64, TestCaseError> {
    let shares: Vec<f64> = running.iter().map(|(job, _)| job.need(1.0).share).collect();
    let mut step = end - *now;
    for ((job, _), share) in running.iter().zip(&shares) {
        step = step.min((job.terms.estimate - job.cput) / share);
    }
    *now += step;
    for ((job, _), share) in running.iter_mut().zip(&shares) {
        job.cput += share * step;
        job.walltime += step;
    }
    for (job, _) in running.iter() {
        if job.cput >= job.terms.estimate * (1.0 - 1e-9) {
            let tolerance = 1e-6 * job.terms.deadline;
            prop_assert!(job.walltime <= job.terms.deadline + tolerance, "{:?}", job);
        } else {
            prop_assert_ne!(
                job.need(1.0).deadline_status,
                DeadlineStatus::Late,
                "{:?}",
                job
            );
        }
    }
    running.retain(|(job, _)| job.cput < job.terms.estimate * (1.0 - 1e-9));
    Ok(step)
}
