//! The rule by hand-worked cases and by properties, played by a small executor that trusts nothing: who runs where it checks
//! itself.

use super::plain::Both;
use super::plan::Bounds;
use super::*;
use crate::decision::job::{Shape, Terms};
use proptest::prelude::*;

fn node(processors: f64) -> NodeSpec {
    NodeSpec {
        processors,
        rating: 1.0,
        memory: NodeSpec::MEMORY_UNLIMITED,
    }
}

/// One chunk of one processor for each slot.
fn job(slots: u32, estimate: f64, deadline: f64) -> Request {
    with_memory(slots, estimate, deadline, 0)
}

fn with_memory(slots: u32, estimate: f64, deadline: f64, memory: u64) -> Request {
    Request {
        terms: Terms::hard(estimate, deadline, f64::INFINITY),
        shape: Shape {
            chunks: slots,
            memory_per_chunk: memory,
            ..Shape::default()
        },
    }
}

fn gang(nodes: &[NodeSpec], rules: Rules) -> Gang {
    Gang::new(nodes, rules).expect("values in range")
}

fn accepted(gang: &mut Gang, request: Request, now: f64) -> (JobId, Promise) {
    gang.submit(&request, now).expect("it can be promised")
}

fn run(start: f64, end: f64) -> Run {
    Run { start, end }
}

const NEVER: Rules = Rules {
    suspend: Suspend::Never,
    jobs_per_processor: None,
    margin: 0.0,
};

#[test]
fn an_earlier_deadline_suspends_a_later_one() {
    let mut gang = gang(&[node(1.0)], Rules::default());
    let (long, promise) = accepted(&mut gang, job(1, 10.0, 30.0), 0.0);
    assert_eq!((promise.planned_start, promise.planned_end), (0.0, 10.0));
    assert_eq!(gang.act(0.0), [Change::Start(long)]);
    let (short, promise) = accepted(&mut gang, job(1, 5.0, 6.0), 2.0);
    assert_eq!((promise.planned_start, promise.planned_end), (2.0, 7.0));
    let changes = gang.act(2.0);
    assert_eq!(changes, [Change::Suspend(long), Change::Start(short)]);
    assert_eq!(gang.planned(long), [run(7.0, 15.0)]);
    assert_eq!(gang.next_change(), 7.0);
    gang.ended(short);
    assert_eq!(gang.act(7.0), [Change::Resume(long)]);
    assert_eq!(gang.next_change(), 15.0);
}

#[test]
fn where_nobody_is_suspended_it_is_refused_and_told_when_it_could_end() {
    let mut gang = gang(&[node(1.0)], NEVER);
    let (long, _) = accepted(&mut gang, job(1, 10.0, 30.0), 0.0);
    gang.act(0.0);
    let refused = gang.submit(&job(1, 5.0, 6.0), 2.0);
    let (end, deadline) = (13.0, 6.0);
    assert_eq!(refused, Err(Refused::Late { end, deadline }));
    assert_eq!(refused.map_err(|r| r.category()), Err(Category::Time));
    assert_eq!(gang.planned(long), [run(0.0, 10.0)]);
    assert_eq!(gang.len(), 1);
}

#[test]
fn who_is_suspended_keeps_his_memory() {
    let mut site = node(1.0);
    site.memory = 10;
    for (rules, memory, fits) in [
        (Rules::default(), 4, true),
        (Rules::default(), 5, false),
        (
            Rules {
                jobs_per_processor: Some(1),
                ..Rules::default()
            },
            0,
            false,
        ),
        (
            Rules {
                jobs_per_processor: Some(2),
                ..Rules::default()
            },
            0,
            true,
        ),
    ] {
        let mut gang = gang(&[site], rules);
        accepted(&mut gang, with_memory(1, 10.0, 30.0, 6), 0.0);
        gang.act(0.0);
        let answer = gang.submit(&with_memory(1, 5.0, 6.0, memory), 2.0);
        assert_eq!(answer.is_ok(), fits, "{rules:?} {memory}");
        // Behind the one that runs there is room for it in any case.
        let later = gang.submit(&with_memory(1, 5.0, 40.0, memory), 2.0);
        assert!(later.is_ok(), "{rules:?} {memory}");
    }
}

#[test]
fn a_start_is_put_off_as_far_as_the_deadline_allows() {
    let mut gang = gang(&[node(1.0)], Rules::default());
    let (first, _) = accepted(&mut gang, job(1, 10.0, 10.0), 0.0);
    let (second, promise) = accepted(&mut gang, job(1, 5.0, 20.0), 0.0);
    let expected = Promise {
        planned_start: 10.0,
        planned_end: 15.0,
        latest_start: 15.0,
        latest_end: 20.0,
        conditional: false,
    };
    assert_eq!(promise, expected);
    assert_eq!(gang.act(0.0), [Change::Start(first)]);
    gang.ended(first);
    // It ended early, and the other moves up.
    assert_eq!(gang.act(4.0), [Change::Start(second)]);
}

#[test]
fn a_job_on_two_nodes_is_suspended_on_both() {
    let mut gang = gang(&[node(2.0), node(2.0)], Rules::default());
    let (wide, _) = accepted(&mut gang, job(3, 10.0, 20.0), 0.0);
    gang.act(0.0);
    assert_eq!(gang.processors(wide), [0, 1, 2]);
    // One processor is free, two are needed.
    let (urgent, _) = accepted(&mut gang, job(2, 4.0, 5.0), 1.0);
    let (small, _) = accepted(&mut gang, job(1, 2.0, 30.0), 1.0);
    let mut changes = gang.act(1.0);
    assert_eq!(changes.remove(0), Change::Suspend(wide));
    assert_eq!(gang.processors(urgent), [0, 3]);
    assert_eq!(gang.node_of(0), 0);
    assert_eq!(gang.node_of(3), 1);
    // What the wide one leaves meanwhile is used.
    assert_eq!(changes, [Change::Start(urgent), Change::Start(small)]);
    gang.ended(small);
    assert_eq!(gang.act(3.0), []);
    gang.ended(urgent);
    assert_eq!(gang.act(5.0), [Change::Resume(wide)]);
    assert_eq!(gang.processors(wide), [0, 1, 2]);
    assert_eq!(gang.planned(wide), [run(5.0, 14.0)]);
}

#[test]
fn a_job_stays_where_it_first_ran() {
    let mut gang = gang(&[node(2.0)], Rules::default());
    let (pinned, _) = accepted(&mut gang, job(1, 10.0, 40.0), 0.0);
    let (other, _) = accepted(&mut gang, job(1, 8.0, 9.0), 0.0);
    gang.act(0.0);
    let home = gang.processors(pinned).to_vec();
    let (urgent, _) = accepted(&mut gang, job(1, 4.0, 5.0), 1.0);
    assert_eq!(
        gang.act(1.0),
        [Change::Suspend(pinned), Change::Start(urgent)]
    );
    assert_eq!(gang.processors(urgent), home);
    // The other processor is free now, and of no use to it.
    gang.ended(other);
    assert_eq!(gang.act(2.0), []);
    assert_eq!(gang.planned(pinned), [run(5.0, 14.0)]);
}

#[test]
fn who_needs_more_is_taken_to_need_a_tenth_more_again_and_again() {
    let mut gang = gang(&[node(1.0)], Rules::default());
    let (long, _) = accepted(&mut gang, job(1, 10.0, 30.0), 0.0);
    gang.act(0.0);
    assert_eq!(gang.next_change(), 10.0);
    assert_eq!(gang.act(10.0), []);
    assert_eq!(gang.next_change(), 11.0);
    gang.act(11.0);
    assert!((gang.next_change() - 12.1).abs() < 1e-9);
    assert_eq!(gang.planned(long).len(), 1);
}

#[test]
fn who_needs_more_gives_way_to_what_was_promised() {
    let mut gang = gang(&[node(1.0)], Rules::default());
    let (long, _) = accepted(&mut gang, job(1, 10.0, 12.0), 0.0);
    let (next, _) = accepted(&mut gang, job(1, 10.0, 20.0), 0.0);
    gang.act(0.0);
    // It would end at 11, and the other at 21.
    assert_eq!(gang.act(10.0), [Change::Suspend(long), Change::Start(next)]);
    assert_eq!(gang.planned(next), [run(10.0, 20.0)]);
}

#[test]
fn a_deadline_shorter_than_the_estimate_is_promised_under_a_condition() {
    let mut gang = gang(&[node(1.0)], Rules::default());
    let (_, promise) = accepted(&mut gang, job(1, 10.0, 6.0), 0.0);
    assert!(promise.conditional);
    assert_eq!((promise.latest_start, promise.planned_end), (0.0, 6.0));
}

#[test]
fn who_was_refused_is_promised_later_or_told_that_it_is_too_late() {
    let mut gang = gang(&[node(1.0)], Rules::default());
    let (first, _) = accepted(&mut gang, job(1, 10.0, 10.0), 0.0);
    gang.act(0.0);
    let short = job(1, 5.0, 8.0);
    assert!(gang.submit(&short, 0.0).is_err());
    let waiting = gang.wait_for_promise(&short, 0.0).expect("it could run");
    let too_late = job(1, 2.0, 3.0);
    let hopeless = gang.wait_for_promise(&too_late, 0.0).expect("it could run");
    assert_eq!(gang.next_change(), 1.0);
    assert_eq!(gang.act(1.0), [Change::Expired(hopeless)]);
    gang.ended(first);
    let changes = gang.act(2.0);
    let [
        Change::Promised(ticket, job, promise),
        Change::Start(started),
    ] = changes[..]
    else {
        panic!("{changes:?}");
    };
    assert_eq!((ticket, job), (waiting, started));
    assert_eq!((promise.planned_end, promise.latest_end), (7.0, 8.0));
    gang.stop_waiting(ticket);
    assert_eq!(gang.next_change(), 7.0);
}

#[test]
fn what_can_never_run_says_why() {
    let mut small = node(2.0);
    small.memory = 100;
    let mut gang = gang(&[small, small], Rules::default());
    let answers = [
        (job(5, 1.0, 9.0), Refused::TooLarge { asked: 5, fit: 4 }),
        (
            with_memory(1, 1.0, 9.0, 101),
            Refused::Memory {
                needed: 101,
                most: 100,
            },
        ),
        // Two chunks of this size do not fit into one node.
        (
            with_memory(3, 1.0, 9.0, 60),
            Refused::TooLarge { asked: 3, fit: 2 },
        ),
    ];
    for (request, refused) in answers {
        assert_eq!(gang.submit(&request, 0.0), Err(refused));
        assert_eq!(gang.wait_for_promise(&request, 0.0), Err(refused));
        assert_eq!(gang.counter_offers(&request, 0.0), []);
    }
    let invalid = gang.submit(&job(1, -1.0, 9.0), 0.0);
    assert_eq!(invalid.map_err(|r| r.category()), Err(Category::Invalid));
    let mut none = super::tests::gang(&[node(0.5)], Rules::default());
    assert_eq!(none.submit(&job(1, 1.0, 9.0), 0.0), Err(Refused::NoNode));
    assert_eq!(none.next_change(), f64::INFINITY);
}

#[test]
fn chunks_stay_together_and_apart_where_that_is_asked() {
    let mut gang = gang(&[node(3.0), node(3.0)], Rules::default());
    let of = |chunks, each, scatter| Request {
        shape: Shape {
            chunks,
            processors_per_chunk: each,
            memory_per_chunk: 0,
            scatter,
            ..Shape::default()
        },
        ..job(1, 1.0, 9.0)
    };
    let (pairs, _) = accepted(&mut gang, of(2, 2, false), 0.0);
    let nodes = |gang: &Gang, job| -> Vec<usize> {
        let processors = gang.processors(job).iter();
        processors
            .map(|&processor| gang.node_of(processor))
            .collect()
    };
    assert_eq!(nodes(&gang, pairs), [0, 0, 1, 1]);
    let (scattered, _) = accepted(&mut gang, of(2, 1, true), 0.0);
    assert_eq!(nodes(&gang, scattered), [0, 1]);
    let three = gang.submit(&of(3, 1, true), 0.0);
    assert_eq!(three, Err(Refused::TooLarge { asked: 3, fit: 2 }));
}

#[test]
fn a_job_runs_at_the_pace_of_its_slowest_processor() {
    let mut slow = node(1.0);
    slow.rating = 0.5;
    let mut gang = gang(&[slow, node(1.0)], Rules::default());
    let (both, promise) = accepted(&mut gang, job(2, 10.0, 30.0), 0.0);
    assert_eq!((promise.planned_end, promise.latest_start), (20.0, 10.0));
    assert_eq!(gang.processors(both), [0, 1]);
}

#[test]
fn counter_offers_are_taken() {
    let mut gang = gang(&[node(4.0)], Rules::default());
    accepted(&mut gang, job(3, 100.0, 100.0), 0.0);
    gang.act(0.0);
    let asked = job(4, 10.0, 50.0);
    assert!(gang.submit(&asked, 0.0).is_err());
    let offers = gang.counter_offers(&asked, 0.0);
    let expected = [
        Offer::Deadline(110.0),
        // The whole work on one processor.
        Offer::Processors {
            chunks: 1,
            estimate: 40.0,
        },
    ];
    assert_eq!(offers, expected);
    for offer in offers {
        let taken = offer.apply(&asked);
        assert!(gang.quote(&taken, 0.0).is_ok(), "{offer:?}");
    }
    assert_eq!(gang.len(), 1);
}

/// A job of a stream.
#[derive(Debug, Clone, Copy)]
struct Submission {
    /// Seconds after the one before.
    after: f64,
    slots: u32,
    estimate: f64,
    /// Of the estimate.
    needs: f64,
    /// Deadline / estimate.
    slack: f64,
    memory: u64,
}

/// What becomes of an accepted job.
#[derive(Debug, Clone)]
struct Executed {
    id: JobId,
    need: f64,
    done: f64,
    since: Option<f64>,
    processors: Vec<u32>,
    memory: u64,
    due: f64,
    conditional: bool,
}

/// Runs a stream to its end. Checks that no processor has two at a time, that nobody is moved, and what may have begun beside
/// what. Yields how many were late.
fn play(nodes: &[NodeSpec], rules: Rules, stream: &[Submission], exact: bool) -> usize {
    play_within(Bounds::default(), nodes, rules, stream, exact)
}

/// The same where less is searched.
fn play_within(
    bounds: Bounds,
    nodes: &[NodeSpec],
    rules: Rules,
    stream: &[Submission],
    exact: bool,
) -> usize {
    let mut gang = Both::new(nodes, rules, bounds);
    let processors: usize = nodes.iter().map(|node| node.processors as usize).sum();
    let mut owner: Vec<Option<JobId>> = vec![None; processors];
    let mut jobs: Vec<Executed> = Vec::new();
    let (mut now, mut next, mut late) = (0.0, 0, 0);
    let mut due_in = stream.first().map_or(f64::INFINITY, |first| first.after);
    let mut steps = 0;
    loop {
        steps += 1;
        assert!(steps < 20_000, "it comes to no end");
        let finish = |job: &Executed| job.since.map(|since| since + job.need - job.done);
        let ends = jobs.iter().filter_map(finish).fold(f64::INFINITY, f64::min);
        let time = gang.next_change().min(ends).min(due_in);
        if time == f64::INFINITY {
            break;
        }
        now = f64::max(now, time);
        let mut index = 0;
        while index < jobs.len() {
            let Some(end) = finish(&jobs[index]).filter(|end| *end <= now + 1e-6) else {
                index += 1;
                continue;
            };
            let job = jobs.swap_remove(index);
            if exact {
                let planned = gang.planned(job.id).last().map(|run| run.end);
                assert!((planned.expect("it runs") - end).abs() < 1e-6);
            }
            late += usize::from(!job.conditional && end > job.due + 1e-6);
            for &processor in &job.processors {
                assert_eq!(owner[processor as usize].take(), Some(job.id));
            }
            gang.ended(job.id);
        }
        gang.tidy(now);
        while due_in <= now {
            let new = stream[next];
            next += 1;
            due_in = stream.get(next).map_or(f64::INFINITY, |n| due_in + n.after);
            let request = with_memory(
                new.slots.min(processors as u32),
                new.estimate,
                new.estimate * new.slack,
                new.memory,
            );
            let ends = |gang: &Both| -> Vec<f64> {
                let runs = jobs.iter().map(|job| gang.planned(job.id));
                runs.map(|runs| runs.last().map_or(now, |run| run.end))
                    .collect()
            };
            let before = ends(&gang);
            let quoted = gang.quote(&request, now);
            assert_eq!(ends(&gang), before, "a quote changes nothing");
            match gang.submit(&request, now) {
                Ok((id, promise)) => {
                    assert!(quoted.is_ok());
                    assert!(promise.planned_end <= promise.latest_end + 1e-6);
                    let new_job = Executed {
                        id,
                        need: new.estimate * new.needs,
                        done: 0.0,
                        since: None,
                        processors: Vec::new(),
                        memory: new.memory,
                        due: promise.latest_end,
                        conditional: promise.conditional,
                    };
                    jobs.push(new_job);
                }
                Err(refused) => {
                    assert_eq!(quoted, Err(refused));
                    assert_eq!(ends(&gang), before, "a refusal changes nothing");
                }
            }
        }
        for change in gang.act(now) {
            let (id, runs, starts) = match change {
                Change::Start(id) => (id, true, true),
                Change::Resume(id) => (id, true, false),
                Change::Suspend(id) => (id, false, false),
                other => panic!("nobody waits: {other:?}"),
            };
            let job = jobs.iter_mut().find(|job| job.id == id).expect("accepted");
            let planned = gang.processors(id).to_vec();
            if starts {
                assert!(job.processors.is_empty());
                job.processors = planned;
            } else {
                assert_eq!(job.processors, planned, "it was moved");
            }
            for &processor in &job.processors {
                let before = (!runs).then_some(id);
                assert_eq!(owner[processor as usize], before, "two at a time");
                owner[processor as usize] = runs.then_some(id);
            }
            if runs {
                job.since = Some(now);
            } else {
                assert_eq!(rules.suspend, Suspend::Memory);
                job.done += now - job.since.take().expect("it ran");
            }
        }
        let begun = || jobs.iter().filter(|job| !job.processors.is_empty());
        for processor in 0..processors as u32 {
            let here = begun().filter(|job| job.processors.contains(&processor));
            let most = rules.jobs_per_processor.map_or(usize::MAX, |m| m as usize);
            assert!(here.count() <= most, "more have begun than may");
        }
        for (index, node) in nodes.iter().enumerate() {
            let held = begun().map(|job| {
                let here = job.processors.iter();
                here.filter(|&&p| gang.node_of(p) == index).count() as u64 * job.memory
            });
            assert!(
                held.sum::<u64>() <= node.memory,
                "more memory than there is"
            );
        }
    }
    assert!(gang.is_empty());
    late
}

fn streams(needs: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Vec<Submission>> {
    let one = (0u32..12, 1u32..9, 1u32..60, needs, 10u32..80, 0u64..8);
    let one = one.prop_map(
        |(after, slots, estimate, needs, slack, memory)| Submission {
            after: f64::from(after),
            slots,
            estimate: f64::from(estimate),
            needs,
            slack: f64::from(slack) / 10.0,
            memory,
        },
    );
    prop::collection::vec(one, 1..40)
}

fn sites() -> impl Strategy<Value = Vec<NodeSpec>> {
    let one = (1u32..5, prop::option::of(7u64..20)).prop_map(|(processors, memory)| NodeSpec {
        memory: memory.unwrap_or(NodeSpec::MEMORY_UNLIMITED),
        ..node(f64::from(processors))
    });
    prop::collection::vec(one, 1..4)
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let suspend = prop_oneof![Just(Suspend::Memory), Just(Suspend::Never)];
    (suspend, prop::option::of(1u32..4)).prop_map(|(suspend, jobs_per_processor)| Rules {
        suspend,
        jobs_per_processor,
        margin: 0.0,
    })
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (1usize..400, 1usize..40, 1usize..2_000).prop_map(|(effort, surveyed, tidying)| Bounds {
        effort,
        surveyed,
        tidying,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// And what was planned when a job was admitted, or since, is what is executed.
    #[test]
    fn with_exact_estimates_no_promise_is_ever_late(
        nodes in sites(), rules in any_rules(), stream in streams(Just(1.0)),
    ) {
        prop_assert_eq!(play(&nodes, rules, &stream, true), 0);
    }

    #[test]
    fn nobody_is_late_because_others_end_early(
        nodes in sites(), rules in any_rules(), stream in streams(0.05f64..1.0),
    ) {
        prop_assert_eq!(play(&nodes, rules, &stream, false), 0);
    }

    /// How many are late then nobody can say; the machine is never more than it is.
    #[test]
    fn overruns_break_no_limit(
        nodes in sites(), rules in any_rules(), stream in streams(0.2f64..2.5),
    ) {
        play(&nodes, rules, &stream, false);
    }

    /// As on machines of thousands of processors, where not everything can be looked at.
    #[test]
    fn what_is_looked_at_less_is_decided_as_by_the_plain_rule(
        nodes in sites(), rules in any_rules(), stream in streams(0.2f64..1.6),
        bounds in bounds(),
    ) {
        play_within(bounds, &nodes, rules, &stream, false);
    }
}
