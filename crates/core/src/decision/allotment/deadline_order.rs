//! The time of a node given out in the order of deadlines.
//!
//! Invariant: where the jobs of a node can all end in time, they still can after any time at these
//! rates. Everyone gets what it must have before the next deadline; what is left over then goes to
//! footholds, and the rest to the earliest deadline, the second, and so on. Jobs that are late come
//! last: their promise is broken already, and no other is broken for them.
//!
//! What a job must have before the next deadline is what cannot be put off: the work is laid out
//! backwards in time, from the latest deadline, as late as possible. On one processor that is
//! nothing but the earliest job's own work. On several a long job with hardly any slack must run
//! although others have earlier deadlines: a slot cannot use two processors later.

use super::{Claim, feed};
use crate::decision::few::Few;

/// Part of its need that a job keeps while others are ahead of it, as far as that endangers none of
/// them: it has started, it shows signs of life, and what it waits for (a download, a peer) goes on.
pub const FOOTHOLD: f64 = 0.1;

/// A job that is not late.
#[derive(Clone, Copy, Default)]
struct Waiting {
    index: usize,
    /// Seconds until its deadline.
    deadline: f64,
    /// Processor seconds that it needs until then.
    work: f64,
    foothold: f64,
    limit: f64,
}

/// Adds each claim's part to `given`, which is all zero.
pub(super) fn allot(claims: &[Claim], capacity: f64, given: &mut [f64]) {
    let mut waiting = Few::<Waiting, 16>::new();
    for (index, claim) in claims.iter().enumerate() {
        if claim.remaining_deadline > 0.0 {
            waiting.push(Waiting {
                index,
                deadline: claim.remaining_deadline,
                work: claim.need * claim.remaining_deadline,
                foothold: FOOTHOLD * claim.need,
                limit: claim.limit,
            });
        }
    }
    let waiting = waiting.items();
    if let [only] = waiting {
        given[only.index] = only.limit.min(capacity);
    } else {
        sort_by_deadline(waiting);
        if waiting.iter().all(|job| job.limit >= capacity) {
            footholds_in_turn(waiting, capacity, given);
        } else {
            must_have(waiting, capacity, given);
            let left = capacity - given.iter().sum::<f64>();
            grow_to_footholds(waiting, left, given);
        }
    }
    let left = capacity - given.iter().sum::<f64>();
    feed(claims, left, given, by_deadline);
}

/// By insertion: the jobs of a node are few, and they stand nearly in order.
fn sort_by_deadline(waiting: &mut [Waiting]) {
    for end in 1..waiting.len() {
        let mut index = end;
        while index > 0 && waiting[index].deadline < waiting[index - 1].deadline {
            waiting.swap(index, index - 1);
            index -= 1;
        }
    }
}

fn by_deadline(a: &Claim, b: &Claim) -> std::cmp::Ordering {
    let late = |claim: &Claim| claim.remaining_deadline <= 0.0;
    late(a)
        .cmp(&late(b))
        .then(a.remaining_deadline.total_cmp(&b.remaining_deadline))
}

/// Where each job could use the whole node, one after the other is right; for every deadline, what
/// those behind it get meanwhile must leave room for the work before it.
fn footholds_in_turn(waiting: &[Waiting], capacity: f64, given: &mut [f64]) {
    let mut behind: f64 = waiting.iter().map(|job| job.foothold).sum();
    let mut before = 0.0;
    let mut scale: f64 = 1.0;
    for job in waiting {
        behind -= job.foothold;
        before += job.work;
        let room = (capacity - before / job.deadline).max(0.0);
        if behind > room {
            scale = scale.min(room / behind);
        }
    }
    for job in waiting {
        given[job.index] = job.foothold * scale;
    }
}

/// The rates that cannot be put off beyond the first deadline: the work laid out backwards.
fn must_have(waiting: &mut [Waiting], capacity: f64, given: &mut [f64]) {
    for last in (1..waiting.len()).rev() {
        let length = waiting[last].deadline - waiting[last - 1].deadline;
        if length > 0.0 {
            put_off(&mut waiting[last..], length, capacity);
        }
    }
    let length = waiting[0].deadline;
    let mut left = capacity;
    for job in waiting.iter() {
        // All that is left lies before the first deadline; the earliest first where it does not fit.
        let rate = (job.work / length).min(job.limit).min(left);
        given[job.index] = rate;
        left -= rate;
    }
}

/// Takes as much work as possible off these jobs in an interval of this length, in which all of them
/// may run: those first that have most to do for each processor they can use, so that afterwards the
/// longest of them is as short as can be.
fn put_off(jobs: &mut [Waiting], length: f64, capacity: f64) {
    let most = |job: &Waiting| job.work.min(job.limit * length);
    let possible: f64 = jobs.iter().map(most).sum();
    let room = capacity * length;
    if possible <= room {
        for job in jobs {
            job.work -= most(job);
        }
        return;
    }
    // Everyone is cut down to the same level, as far as its limit allows. Amounts fall with the level.
    let amount =
        |job: &Waiting, level: f64| (job.work - job.limit * level).clamp(0.0, job.limit * length);
    let level_of = |job: &Waiting| job.work / job.limit;
    let (mut low, mut high) = (0.0, jobs.iter().map(level_of).fold(0.0, f64::max));
    for _ in 0..60 {
        let level = (low + high) / 2.0;
        let taken: f64 = jobs.iter().map(|job| amount(job, level)).sum();
        if taken > room {
            low = level;
        } else {
            high = level;
        }
    }
    for job in jobs {
        job.work -= amount(job, high);
    }
}

fn grow_to_footholds(waiting: &[Waiting], mut left: f64, given: &mut [f64]) {
    for job in waiting {
        let more = (job.foothold - given[job.index]).clamp(0.0, left.max(0.0));
        given[job.index] += more;
        left -= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(work: f64, deadline: f64, slots: f64) -> Claim {
        Claim {
            need: (work / deadline).min(slots),
            committed_share: 0.0,
            limit: slots,
            remaining_deadline: deadline,
            full_return: 1.0,
            hard: true,
            yields: false,
            whole: false,
            outlived: false,
        }
    }

    fn rates(claims: &[Claim], capacity: f64) -> Vec<f64> {
        let mut given = vec![0.0; claims.len()];
        allot(claims, capacity, &mut given);
        given
    }

    fn near(given: &[f64], expected: &[f64]) {
        for (given, expected) in given.iter().zip(expected) {
            assert!((given - expected).abs() < 1e-9, "{given} {expected}");
        }
    }

    #[test]
    fn the_earliest_deadline_takes_all_but_the_footholds() {
        // Needs 0.5 and 0.2; 5 % for the one behind leave 0.95, and 0.2 would do.
        let claims = [claim(15.0, 30.0, 1.0), claim(4.0, 20.0, 1.0)];
        near(&rates(&claims, 1.0), &[0.05, 0.95]);
    }

    #[test]
    fn a_foothold_endangers_nobody() {
        // The first needs 0.97 of the node until its deadline: 0.03 are left, not 0.05.
        let claims = [claim(9.7, 10.0, 1.0), claim(10.0, 20.0, 1.0)];
        near(&rates(&claims, 1.0), &[0.97, 0.03]);
        let claims = [claim(10.0, 10.0, 1.0), claim(10.0, 20.0, 1.0)];
        near(&rates(&claims, 1.0), &[1.0, 0.0]);
    }

    #[test]
    fn a_late_job_comes_last() {
        let mut late = claim(1.0, 1.0, 1.0);
        late.remaining_deadline = -5.0;
        near(&rates(&[late, claim(4.0, 20.0, 1.0)], 1.0), &[0.0, 1.0]);
        near(&rates(&[late, claim(4.0, 20.0, 1.0)], 1.5), &[0.5, 1.0]);
    }

    #[test]
    fn a_long_job_without_slack_runs_beside_earlier_deadlines() {
        // Two processors. The last needs one of them all the time, so the others share the other one.
        let claims = [
            claim(1.0, 2.0, 1.0),
            claim(1.0, 2.0, 1.0),
            claim(10.0, 10.0, 1.0),
        ];
        near(&rates(&claims, 2.0), &[0.5, 0.5, 1.0]);
    }

    #[test]
    fn shares_by_need_in_order_would_miss_this_one() {
        // Needs 1, 0.889 and 0.95 on two processors: in that order the last would get 0.111 and
        // could not make up for it. After the first second 8 s and 9 s are left: 8 - 0.5 and 9.5 - 0.5
        // must be left of the work, at most 8 and 9.
        let claims = [
            claim(1.0, 1.0, 1.0),
            claim(8.0, 9.0, 1.0),
            claim(9.5, 10.0, 1.0),
        ];
        let given = rates(&claims, 2.0);
        assert!(given[0] > 1.0 - 1e-9 && given[2] > 0.5 - 1e-9, "{given:?}");
    }

    /// Runs the jobs at their rates, taken anew at every end and deadline and, to be hard on them,
    /// now and then between; the first time that somebody misses a deadline by, in seconds.
    fn worst_miss(jobs: &[(f64, f64, f64)], capacity: f64) -> f64 {
        let mut left: Vec<(f64, f64, f64)> = jobs.to_vec();
        let mut now = 0.0;
        let mut worst = 0.0f64;
        while !left.is_empty() {
            let claims: Vec<Claim> = left
                .iter()
                .map(|&(work, due, slots)| claim(work, (due - now).max(1e-9), slots))
                .collect();
            let rates = rates(&claims, capacity);
            let mut step = 0.37;
            for (job, rate) in left.iter().zip(&rates) {
                if *rate > 0.0 {
                    step = f64::min(step, job.0 / rate);
                }
            }
            now += step;
            for (job, rate) in left.iter_mut().zip(&rates) {
                job.0 -= rate * step;
                if job.0 > 1e-7 {
                    worst = worst.max(now - job.1);
                }
            }
            left.retain(|job| job.0 > 1e-7);
            if worst > 1.0 {
                break;
            }
        }
        worst
    }

    proptest! {
        /// What the feasibility test of the admission accepts is kept by these rates.
        #[test]
        fn whoever_can_end_in_time_does(
            jobs in proptest::collection::vec((0.05f64..1.0, 0.5f64..20.0, 1u32..3), 1..8),
            capacity in prop_oneof![Just(1.0f64), Just(2.0), Just(3.0), Just(0.6)],
        ) {
            // Admits one after the other by the condition of the policy, written down plainly.
            let mut accepted: Vec<(f64, f64, f64)> = Vec::new();
            for (part, due, slots) in jobs {
                let slots = f64::from(slots);
                accepted.push((part * due * slots.min(capacity), due, slots));
                let before = |time: f64| -> f64 {
                    accepted.iter().map(|&(work, due, slots)| {
                        if due <= time { work } else { (work - slots * (due - time)).max(0.0) }
                    }).sum()
                };
                let fits = accepted.iter().all(|job| before(job.1) <= capacity * job.1);
                if !fits {
                    accepted.pop();
                }
            }
            let miss = worst_miss(&accepted, capacity);
            prop_assert!(miss <= 1e-4, "{miss} {accepted:?}");
        }
    }
}
