//! Cases worked out by hand, and what holds for every workload.

mod coupled;
mod groups;

use super::{Shares, Waiting};
use crate::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_core::decision::admission::Admission;
use libra_core::decision::allotment::Spare;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::{DeadlineType, Request, Shape, Terms};
use libra_core::decision::node::{NodeSpec, PlainNode};
use libra_core::decision::placement::Placement;
use libra_core::decision::policy::{AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla, Policy};
use libra_core::decision::pricing::{AnyPricing, Linear, Utilisation};
use libra_workload::Job;
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq)]
enum End {
    Refused(f64, &'static str),
    Ran(f64, f64, Vec<u32>),
}

/// What became of each job, and how often something was said of it.
#[derive(Debug, Default, PartialEq)]
struct Ends {
    ends: Vec<Option<End>>,
    told: Vec<u32>,
    price: Vec<f64>,
    last: f64,
}

impl Observer for Ends {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        let (at, price, end) = match outcome.fate {
            Fate::Refused { at, reason } => (at, 0.0, End::Refused(at, reason)),
            Fate::Ended {
                start,
                finish,
                price,
                nodes,
            } => (finish, price, End::Ran(start, finish, nodes.to_vec())),
        };
        assert!(at >= self.last, "told in the order of time");
        self.last = at;
        self.ends[outcome.index] = Some(end);
        self.price[outcome.index] = price;
        self.told[outcome.index] += 1;
    }
}

impl Ends {
    fn finish(&self, index: usize) -> f64 {
        match &self.ends[index] {
            Some(End::Ran(_, finish, _)) => *finish,
            other => panic!("job {index}: {other:?}"),
        }
    }

    fn reason(&self, index: usize) -> &'static str {
        match &self.ends[index] {
            Some(End::Refused(_, reason)) => reason,
            other => panic!("job {index}: {other:?}"),
        }
    }
}

fn rules<P: Policy>(policy: P, spare: Spare) -> Shares<P> {
    Shares {
        admission: Admission {
            policy,
            pricing: AnyPricing::Linear(Linear::default()),
            estimate_margin: 0.0,
        },
        spare,
        waiting: Waiting::Block,
    }
}

fn run<P: Policy + Copy>(mut rules: Shares<P>, jobs: &[Job], machine: &Machine) -> Ends {
    let mut ends = Ends {
        ends: vec![None; jobs.len()],
        told: vec![0; jobs.len()],
        price: vec![0.0; jobs.len()],
        last: 0.0,
    };
    rules.run(jobs, machine, &mut ends);
    ends
}

fn job(submit: f64, run_time: f64, estimate: f64, deadline: f64) -> Job {
    let mut job = crate::testing::job(submit, run_time, deadline);
    job.terms = Terms::hard(estimate, deadline, f64::INFINITY);
    job
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-5, "{value}, not {expected}");
}

#[test]
fn a_job_held_to_its_share_ends_at_its_deadline_and_one_that_is_overestimated_before() {
    // Shares 0.5 and 0.5; the second needs 5 of its 10 s and ends after 10 of 20 s.
    let jobs = [job(0.0, 10.0, 10.0, 20.0), job(0.0, 5.0, 10.0, 20.0)];
    let ends = run(
        rules(Libra::default(), Spare::Idle),
        &jobs,
        &Machine::uniform(1, 1),
    );
    near(ends.finish(0), 20.0);
    near(ends.finish(1), 10.0);
}

#[test]
fn a_third_half_is_refused_until_one_is_free() {
    let half = |submit| job(submit, 5.0, 5.0, 10.0);
    let jobs = [half(0.0), half(0.0), half(1.0), half(10.0)];
    let ends = run(
        rules(Libra::default(), Spare::Idle),
        &jobs,
        &Machine::uniform(1, 1),
    );
    assert_eq!(ends.reason(2), "share");
    near(ends.finish(3), 20.0);
}

#[test]
fn an_overrun_keeps_its_share_and_a_late_job_takes_only_what_is_not_committed() {
    // 0.25 for an estimate of 5 s; it needs 10 s. At its deadline, 20 s, it has had 5 s. From then on it
    // counts 1.0 beside one with a commitment of 0.5: it gets 0.5 and ends 10 s later.
    let jobs = [job(0.0, 10.0, 5.0, 20.0), job(0.0, 50.0, 50.0, 100.0)];
    let ends = run(
        rules(Libra::default(), Spare::Idle),
        &jobs,
        &Machine::uniform(1, 1),
    );
    near(ends.finish(0), 30.0);
    near(ends.finish(1), 100.0);
}

#[test]
fn spare_time_is_shared_in_proportion() {
    // Needs 0.2 and 0.3: rates 0.4 and 0.6. The second, of 6 s, ends at 10 s; the first has 2 s left of
    // its 6, alone: 12 s.
    let jobs = [job(0.0, 6.0, 6.0, 30.0), job(0.0, 6.0, 6.0, 20.0)];
    let ends = run(
        rules(Libra::default(), Spare::Shared),
        &jobs,
        &Machine::uniform(1, 1),
    );
    near(ends.finish(1), 10.0);
    near(ends.finish(0), 12.0);
}

#[test]
fn parts_on_nodes_of_different_speed_end_at_their_times() {
    // 10 s on the reference node take 5 s on the one of rating 2; at shares 0.5 and 0.25 both parts
    // end at the deadline. Node 1 has memory for one slot only.
    let node = |rating, memory| NodeSpec {
        processors: 1.0,
        rating,
        memory,
    };
    let machine = Machine {
        nodes: vec![node(2.0, 100), node(1.0, 60)],
    };
    let mut two = job(0.0, 10.0, 10.0, 20.0);
    two.processors = 2;
    two.memory = 50;
    let ends = run(
        rules(Libra::default(), Spare::Idle),
        &[two, two, two],
        &machine,
    );
    assert_eq!(ends.ends[0], Some(End::Ran(0.0, 20.0, vec![0, 1])));
    assert_eq!(ends.reason(1), "chunks");
}

#[test]
fn a_job_beside_an_overestimated_one_waits_for_nothing_under_deadline_order() {
    // The first is estimated at 40 s and asks for 30: it gets the node. The second, due at 50 s with
    // 15 s of work, fits behind it: 30 + 15 <= 50. A third of 10 s does not: 55 > 52.
    let jobs = [
        job(0.0, 8.0, 40.0, 30.0),
        job(0.0, 15.0, 15.0, 50.0),
        job(0.0, 10.0, 10.0, 52.0),
    ];
    let ends = run(
        rules(LibraAdaptive::default(), Spare::Idle),
        &jobs,
        &Machine::uniform(1, 1),
    );
    // The first leaves no room for a foothold; it ends after 8 s, and the second has the node.
    near(ends.finish(0), 8.0);
    near(ends.finish(1), 23.0);
    assert_eq!(ends.reason(2), "time");
}

#[test]
fn a_soft_job_yields_and_pays_under_libra_sla() {
    // As in the policy's own test: 8 s of work due at 10 s keeps 0.5 beside a hard 5 s due at 10 s.
    // That one ends at 10 s; then the soft one, with 3 s left, has the node as it has the highest
    // return of those that are there: 13 s.
    let mut soft = job(0.0, 8.0, 8.0, 10.0);
    soft.terms.deadline_type = DeadlineType::Soft;
    soft.terms.budget = 80.0;
    soft.terms.penalty_rate = 1.0;
    let mut hard = job(0.0, 5.0, 5.0, 10.0);
    hard.terms.budget = 100.0;
    let ends = run(
        rules(LibraSla, Spare::HighestReturn),
        &[soft, hard],
        &Machine::uniform(1, 1),
    );
    near(ends.finish(1), 10.0);
    near(ends.finish(0), 13.0);
}

#[test]
fn a_soft_job_that_comes_and_yields_itself_runs_toward_the_end_that_was_accepted() {
    // 8 s due at 10 s are hard and have the highest return; 5 s due at 10 s get the 0.2 that are left, and
    // 25 s. At 10 s the first has ended; without the delay the second, late by then, would have a whole
    // processor from there and end at 13 s.
    let mut hard = job(0.0, 8.0, 8.0, 10.0);
    hard.terms.budget = 1000.0;
    let mut soft = job(0.0, 5.0, 5.0, 10.0);
    soft.terms.deadline_type = DeadlineType::Soft;
    soft.terms.budget = 100.0;
    soft.terms.penalty_rate = 1.0;
    let ends = run(
        rules(LibraSla, Spare::Idle),
        &[hard, soft],
        &Machine::uniform(1, 1),
    );
    near(ends.finish(0), 10.0);
    near(ends.finish(1), 25.0);
}

#[test]
fn a_price_that_follows_the_load_is_checked_when_the_node_is_known() {
    let mut cheap = job(0.0, 10.0, 10.0, 20.0);
    cheap.terms.budget = 25.0;
    let mut rules = rules(Libra::default(), Spare::Idle);
    rules.admission.pricing = AnyPricing::Utilisation(Utilisation::default());
    let ends = run(rules, &[cheap, cheap], &Machine::uniform(1, 1));
    // 10 x (1 + 1) on the empty node; 10 x (1 + 1 / 0.5) beside the first.
    near(ends.price[0], 20.0);
    assert_eq!(ends.reason(1), "budget");
}

fn any_policy() -> impl Strategy<Value = AnyPolicy> {
    prop_oneof![
        Just(AnyPolicy::Libra(Libra::default())),
        Just(AnyPolicy::LibraSla(LibraSla)),
        any::<bool>().prop_map(|spare_is_shared| {
            AnyPolicy::LibraRisk(LibraRisk {
                spare_is_shared,
                ..LibraRisk::default()
            })
        }),
        Just(AnyPolicy::LibraAdaptive(LibraAdaptive::default())),
    ]
}

fn any_spare() -> impl Strategy<Value = Spare> {
    prop_oneof![
        Just(Spare::Idle),
        Just(Spare::Shared),
        Just(Spare::HighestReturn)
    ]
}

/// Seconds between submissions, run time, estimate / run time, deadline / run time, slots, soft, budget,
/// user.
type Drawn = (f64, f64, f64, f64, u32, bool, f64, u32);

fn any_jobs() -> impl Strategy<Value = Vec<Drawn>> {
    let one = (
        0.0f64..20.0,
        0.5f64..100.0,
        0.3f64..5.0,
        1.05f64..12.0,
        1u32..6,
        any::<bool>(),
        1.0f64..1000.0,
        0u32..3,
    );
    proptest::collection::vec(one, 1..60)
}

fn workload(drawn: &[Drawn], exact: bool, coupled: bool) -> Vec<Job> {
    let mut now = 0.0;
    (drawn.iter().enumerate())
        .map(
            |(number, &(wait, run_time, estimate, deadline, slots, soft, budget, user))| {
                now += wait;
                let estimate = if exact { 1.0 } else { estimate };
                let mut job = job(now, run_time, run_time * estimate, run_time * deadline);
                job.number = number as u64;
                job.processors = slots;
                job.user = user;
                job.coupled = coupled;
                if soft {
                    job.terms.deadline_type = DeadlineType::Soft;
                    job.terms.penalty_rate = budget / 100.0;
                }
                job.terms.budget = budget * 1e6;
                job
            },
        )
        .collect()
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let node = (1u32..5, prop_oneof![Just(1.0f64), Just(0.5), Just(2.0)]);
    proptest::collection::vec(node, 1..5).prop_map(|nodes| Machine {
        nodes: (nodes.into_iter())
            .map(|(processors, rating)| NodeSpec {
                processors: f64::from(processors),
                rating,
                memory: NodeSpec::MEMORY_UNLIMITED,
            })
            .collect(),
    })
}

proptest! {
    /// Debug builds check more on the way: no node gives out more than it has, and every part of a
    /// job ends with exactly its work.
    #[test]
    fn every_job_is_told_once_and_none_runs_faster_than_it_can(
        drawn in any_jobs(),
        machine in any_machine(),
        policy in any_policy(),
        spare in any_spare(),
        coupled: bool,
    ) {
        let jobs = workload(&drawn, false, coupled);
        let ends = run(rules(policy, spare), &jobs, &machine);
        prop_assert!(ends.told.iter().all(|told| *told == 1));
        let fastest = machine.nodes.iter().map(|node| node.rating).fold(0.0, f64::max);
        for (job, end) in jobs.iter().zip(&ends.ends) {
            if let Some(End::Ran(start, finish, nodes)) = end {
                prop_assert_eq!(*start, job.submit);
                let least = job.run_time / fastest;
                prop_assert!(finish - start >= least * (1.0 - 1e-9), "{} {}", finish - start, least);
                prop_assert!(nodes.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
        prop_assert_eq!(run(rules(policy, spare), &jobs, &machine), ends);
    }

    #[test]
    fn with_exact_estimates_nobody_is_late(
        drawn in any_jobs(),
        machine in any_machine(),
        adaptive: bool,
        spare in any_spare(),
    ) {
        let jobs = workload(&drawn, true, false);
        let policy = if adaptive {
            AnyPolicy::LibraAdaptive(LibraAdaptive::default())
        } else {
            AnyPolicy::Libra(Libra::default())
        };
        let ends = run(rules(policy, spare), &jobs, &machine);
        for (job, end) in jobs.iter().zip(&ends.ends) {
            if let Some(End::Ran(_, finish, _)) = end {
                prop_assert!(
                    *finish <= job.due() + 1e-5 * job.terms.deadline,
                    "{:?} ended at {}, {} late", job, finish, finish - job.due()
                );
            }
        }
    }

    /// Work is neither made nor lost: a machine that is never short and leaves nothing idle runs
    /// everything at full speed.
    #[test]
    fn alone_and_with_all_spare_time_a_job_runs_at_full_speed(
        run_time in 1.0f64..100.0, estimate in 0.3f64..5.0, deadline in 1.05f64..12.0, policy in any_policy(),
    ) {
        let alone = job(0.0, run_time, run_time * estimate, run_time * deadline);
        let ends = run(rules(policy, Spare::Shared), &[alone], &Machine::uniform(1, 4));
        if let Some(End::Ran(_, finish, _)) = &ends.ends[0] {
            prop_assert!((finish - run_time).abs() < 1e-9 * run_time);
        }
    }

    /// Whoever takes an offer of fewer processors, and has all the work that he had, ends in time beside whoever was there.
    #[test]
    fn an_offer_of_fewer_processors_is_kept(
        drawn in any_jobs(),
        nodes in 2usize..7,
        adaptive: bool,
        spare in any_spare(),
        asked in 3u32..12,
        estimate in 1.0f64..100.0,
        hurry in 1.0f64..8.0,
    ) {
        let policy = if adaptive {
            AnyPolicy::LibraAdaptive(LibraAdaptive::default())
        } else {
            AnyPolicy::Libra(Libra::default())
        };
        let rules = rules(policy, spare);
        // Chunks of one processor, no two on a node.
        let machine = Machine::uniform(nodes, 1);
        let mut cluster: Vec<PlainNode> = (machine.nodes.iter())
            .map(|spec| PlainNode::new(*spec, Vec::new(), policy.share_rule()))
            .collect();
        let request = |job: &Job| Request {
            terms: job.terms,
            shape: Shape { chunks: job.processors, scatter: true, ..Shape::default() },
        };
        let mut jobs = workload(&drawn, true, false);
        for job in &mut jobs {
            job.submit = 0.0;
            let request = request(job);
            let mut places = vec![Placement::EMPTY; nodes];
            if let Some(accepted) = rules.admission.accepts(&cluster[..], &request, &mut places) {
                for place in &places[..accepted.nodes] {
                    cluster[place.node].reserve(&request, place.chunks);
                }
            }
        }
        let mut wide = job(0.0, estimate, estimate, estimate * hurry);
        wide.processors = asked;
        let mut places = vec![Placement::EMPTY; nodes];
        let judged = rules.admission.judge(&cluster[..], &request(&wide), &mut places);
        let offers = judged.map_or_else(|refusal| refusal.counter_offers, |_| Vec::new());
        for offer in offers {
            let CounterOffer::Processors { chunks, estimate: planned, .. } = offer else {
                continue;
            };
            let mut taken = wide;
            taken.processors = chunks;
            taken.terms.estimate = planned;
            taken.run_time = estimate * f64::from(asked) / f64::from(chunks);
            let mut all = jobs.clone();
            all.push(taken);
            let ends = run(rules, &all, &machine);
            let due = estimate * hurry;
            prop_assert!(ends.finish(all.len() - 1) <= due * (1.0 + 1e-5), "{:?} of {:?}", offer, wide);
        }
    }
}
