//! What each job of a node is given: of the node's time, now.
//!
//! Admission plans with the shares that jobs need. Needs change afterwards: a job that waited for a
//! disk needs more than was committed to it, one that is late could use a whole processor, one that ran ahead
//! needs less. Two questions are answered here, each in the ways of the four papers and one of our
//! own: who gives way when the needs exceed the node ([`Shortage`]), and who gets the time that
//! nobody needs ([`Spare`]).
//!
//! Invariants: nobody gets more than its slots can use (one processor each); the sum never exceeds
//! the capacity.

mod deadline_order;

use super::job::{DeadlineType, LONGEST};
use super::node::JobOnNode;
use super::share::{DeadlineStatus, Need};

/// One job's claim on a node, in processors over all its slots there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// What it needs from now on, ≤ `limit`.
    pub need: f64,
    /// What is committed to it.
    pub committed_share: f64,
    /// The most that it can use: its slots.
    pub limit: f64,
    /// Seconds until its deadline; not positive when it is late.
    pub remaining_deadline: f64,
    /// Its return, credits per second squared, see [`super::job::Terms::full_return`].
    pub full_return: f64,
    /// Its deadline is hard.
    pub hard: bool,
    /// It gets nothing but what all others leave, see [`super::overrun`]; what it needs and what is committed to it do not count.
    pub yields: bool,
    /// It has whole processors, see [`super::service`]: it is served before all others, whatever the rule for a shortage.
    pub whole: bool,
    /// It has them, and had them for as long as it asked for: where the node is short it has what the others leave of what is committed to them.
    pub outlived: bool,
}

impl Claim {
    /// The claim of a job that needs this share, and to which that one is committed, per slot.
    #[inline(always)]
    pub fn new(job: &JobOnNode, need: Need, committed_share: f64) -> Claim {
        let slots = f64::from(job.slots);
        let left = job.terms.deadline + job.delay - job.walltime;
        Claim {
            need: slots * need.share,
            committed_share: slots * committed_share,
            limit: slots,
            // The policy says who is late; rounding does not.
            remaining_deadline: if need.deadline_status == DeadlineStatus::Late {
                left.min(0.0)
            } else {
                left.max(1e-9)
            },
            full_return: job.terms.full_return(),
            hard: job.terms.deadline_type == DeadlineType::Hard,
            yields: false,
            whole: false,
            outlived: false,
        }
    }
}

/// Who gives way when the needs exceed the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shortage {
    /// Everyone gets its need up to what was committed to it; those who need more share what is left in
    /// proportion to what they lack. Nobody's misfortune breaks another's promise.
    #[default]
    CommittedFirst,
    /// All are scaled down together (LibraRisk 2006, section 3.2).
    Proportional,
    /// The job with the highest return and every hard job keep their shares, the soft others give
    /// up the shortfall in proportion to theirs (LibraSLA 2005, algorithm 2).
    SoftYields,
    /// In the order of their deadlines, see [`deadline_order`]. Also gives out all spare time.
    DeadlineOrder,
}

/// Who gets the time that nobody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spare {
    /// Nobody: a share is a cap.
    #[default]
    Idle,
    /// All, in proportion to their needs: a share is a guarantee.
    Shared,
    /// The job with the highest return (LibraSLA 2005, section 4.2).
    HighestReturn,
}

/// Gives each claim its part of `capacity` processors; `given` is overwritten, in the order of the
/// claims.
pub fn allot(
    shortage: Shortage,
    spare: Spare,
    claims: &[Claim],
    capacity: f64,
    given: &mut Vec<f64>,
) {
    if claims.iter().any(|claim| claim.yields || claim.whole) {
        return allot_in_order(shortage, spare, claims, capacity, given);
    }
    given.clear();
    if shortage == Shortage::DeadlineOrder {
        given.extend(claims.iter().map(|_| 0.0));
        return deadline_order::allot(claims, capacity, given);
    }
    let needs: f64 = claims.iter().map(|claim| claim.need).sum();
    given.extend(claims.iter().map(|claim| claim.need));
    if needs <= capacity * (1.0 + super::TOLERANCE) {
        match spare {
            Spare::Idle => {}
            Spare::Shared => share_spare(claims, capacity, given),
            Spare::HighestReturn => feed(claims, capacity - needs, given, |a, b| {
                b.full_return.total_cmp(&a.full_return)
            }),
        }
        return;
    }
    match shortage {
        Shortage::CommittedFirst => committed_first(claims, capacity, given),
        Shortage::SoftYields => soft_yields(claims, capacity, needs, given),
        Shortage::Proportional | Shortage::DeadlineOrder => scale(given, capacity / needs),
    }
}

/// Who has whole processors first, then those with shares, as far as that is committed to them, then who outlived whole processors, then what else
/// those with shares need; those that yield share what the others leave, each slot as much as the next.
fn allot_in_order(
    shortage: Shortage,
    spare: Spare,
    claims: &[Claim],
    capacity: f64,
    given: &mut Vec<f64>,
) {
    let summed = |of: &dyn Fn(&Claim) -> Option<f64>| claims.iter().filter_map(of).sum::<f64>();
    let whole = |outlived: bool| {
        summed(&|claim| {
            let is = claim.whole && !claim.yields && claim.outlived == outlived;
            is.then_some(claim.need)
        })
    };
    let part_of = |wanted: f64, there: f64| match wanted > there {
        true => there / wanted,
        false => 1.0,
    };
    let (in_time, outlived) = (whole(false), whole(true));
    let of_whole = whole_in_order(claims, in_time, capacity);
    let capacity = (capacity - in_time).max(0.0);
    let committed = summed(&|claim| {
        let by_share = !claim.yields && !claim.whole;
        by_share.then_some(claim.need.min(claim.committed_share))
    });
    // Less than all where others were promised processors for when it should have been done.
    let of_outlived = part_of(outlived, (capacity - committed).max(0.0));
    let capacity = (capacity - outlived * of_outlived).max(0.0);
    let by_share: Vec<Claim> = (claims.iter().copied())
        .filter(|claim| !claim.yields && !claim.whole)
        .collect();
    allot(shortage, spare, &by_share, capacity, given);
    let left = (capacity - given.iter().sum::<f64>()).max(0.0);
    let limits = summed(&|claim| claim.yields.then_some(claim.limit));
    let part = if limits > left { left / limits } else { 1.0 };
    let mut of_others = std::mem::take(given).into_iter();
    given.extend(
        claims
            .iter()
            .map(|claim| match (claim.yields, claim.whole) {
                (true, _) => claim.limit * part,
                (false, true) if claim.outlived => claim.need * of_outlived,
                (false, true) => claim.need * of_whole(claim),
                (false, false) => of_others.next().unwrap_or(0.0),
            }),
    );
}

/// The part of its whole processors that a claim in its time gets, of `wanted` in all: less than all where the node has shrunk, or one that was to stand still for
/// another runs on. Those that were promised no deadline, and all of the time, come first, then those with earlier deadlines.
fn whole_in_order(claims: &[Claim], wanted: f64, capacity: f64) -> impl Fn(&Claim) -> f64 {
    let due = |claim: &Claim| match claim.remaining_deadline > LONGEST / 2.0 {
        true => f64::NEG_INFINITY,
        false => claim.remaining_deadline,
    };
    let mut parts: Vec<(f64, f64)> = Vec::new();
    if wanted > capacity {
        let in_time = |claim: &&Claim| claim.whole && !claim.yields && !claim.outlived;
        let mut all: Vec<(f64, f64)> = (claims.iter().filter(in_time))
            .map(|claim| (due(claim), claim.need))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = capacity;
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let need: f64 = same.iter().map(|(_, need)| need).sum();
            parts.push((same[0].0, if need > left { left / need } else { 1.0 }));
            left = (left - need).max(0.0);
        }
    }
    move |claim| {
        let part = parts.iter().find(|(at, _)| *at == due(claim));
        part.map_or(1.0, |(_, part)| *part)
    }
}

fn scale(given: &mut [f64], factor: f64) {
    given
        .iter_mut()
        .for_each(|processors| *processors *= factor);
}

fn committed_first(claims: &[Claim], capacity: f64, given: &mut [f64]) {
    let base = |claim: &Claim| claim.need.min(claim.committed_share);
    let needs: f64 = claims.iter().map(|claim| claim.need).sum();
    let bases: f64 = claims.iter().map(base).sum();
    let (scale, part) = if bases >= capacity {
        // The node has shrunk.
        (if bases > 0.0 { capacity / bases } else { 0.0 }, 0.0)
    } else {
        (1.0, (capacity - bases) / (needs - bases))
    };
    for (claim, given) in claims.iter().zip(given) {
        *given = base(claim) * scale + (claim.need - base(claim)) * part;
    }
}

fn soft_yields(claims: &[Claim], capacity: f64, needs: f64, given: &mut [f64]) {
    let first = highest_return(claims);
    let yields = |index: usize, claim: &Claim| !claim.hard && Some(index) != first;
    let soft: f64 = (claims.iter().enumerate())
        .filter(|(index, claim)| yields(*index, claim))
        .map(|(_, claim)| claim.need)
        .sum();
    let shortfall = needs - capacity;
    if shortfall >= soft {
        // Not even all soft shares cover it: some job is late or the node has shrunk.
        return scale(given, capacity / needs);
    }
    let scale = 1.0 - shortfall / soft;
    for (index, (claim, given)) in claims.iter().zip(given).enumerate() {
        if yields(index, claim) {
            *given *= scale;
        }
    }
}

/// The claim with the highest return; of equals the first.
pub(super) fn highest_return(claims: &[Claim]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, claim) in claims.iter().enumerate() {
        if best.is_none_or(|best| claim.full_return > claims[best].full_return) {
            best = Some(index);
        }
    }
    best
}

/// All time in proportion to the needs, up to what each can use.
fn share_spare(claims: &[Claim], capacity: f64, given: &mut [f64]) {
    let mut left = capacity;
    let mut open: f64 = claims.iter().map(|claim| claim.need).sum();
    // Whoever reaches its limit leaves its surplus to the others; each pass settles at least one.
    let mut full = claims.iter().map(|_| false).collect::<Vec<_>>();
    loop {
        if open <= 0.0 {
            return;
        }
        let factor = (left / open).max(1.0);
        let mut settled = false;
        for (index, claim) in claims.iter().enumerate() {
            if !full[index] && claim.need * factor >= claim.limit {
                full[index] = true;
                settled = true;
                given[index] = claim.limit;
                left -= claim.limit;
                open -= claim.need;
            }
        }
        if !settled {
            for (index, claim) in claims.iter().enumerate() {
                if !full[index] {
                    given[index] = claim.need * factor;
                }
            }
            return;
        }
    }
}

/// Gives `left` processors to the claims in this order, each up to its limit.
pub(super) fn feed(
    claims: &[Claim],
    mut left: f64,
    given: &mut [f64],
    order: impl Fn(&Claim, &Claim) -> std::cmp::Ordering,
) {
    let mut last: Option<usize> = None;
    // A selection instead of a sort: mostly the first one takes all.
    for _ in 0..claims.len() {
        if left <= 0.0 {
            return;
        }
        let after_last = |index: usize| {
            last.is_none_or(|last| {
                order(&claims[index], &claims[last])
                    .then(index.cmp(&last))
                    .is_gt()
            })
        };
        let mut next: Option<usize> = None;
        for index in 0..claims.len() {
            let better = next.is_none_or(|next| order(&claims[index], &claims[next]).is_lt());
            if after_last(index) && better {
                next = Some(index);
            }
        }
        let Some(index) = next else { return };
        let more = (claims[index].limit - given[index]).clamp(0.0, left);
        given[index] += more;
        left -= more;
        last = Some(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(need: f64, committed_share: f64) -> Claim {
        Claim {
            need,
            committed_share,
            limit: 1.0,
            remaining_deadline: 10.0,
            full_return: 1.0,
            hard: true,
            yields: false,
            whole: false,
            outlived: false,
        }
    }

    fn allotted(shortage: Shortage, spare: Spare, claims: &[Claim], capacity: f64) -> Vec<f64> {
        let mut given = Vec::new();
        allot(shortage, spare, claims, capacity, &mut given);
        given
    }

    fn committed_first(claims: &[Claim]) -> Vec<f64> {
        allotted(Shortage::CommittedFirst, Spare::Idle, claims, 1.0)
    }

    fn near(given: &[f64], expected: &[f64]) {
        assert_eq!(given.len(), expected.len());
        for (given, expected) in given.iter().zip(expected) {
            assert!((given - expected).abs() < 1e-12, "{given} {expected}");
        }
    }

    #[test]
    fn needs_that_fit_are_met() {
        let claims = [claim(0.5, 0.3), claim(0.4, 0.4)];
        assert_eq!(committed_first(&claims), [0.5, 0.4]);
    }

    #[test]
    fn a_late_job_takes_only_what_is_not_committed_to_others() {
        near(
            &committed_first(&[claim(1.0, 0.3), claim(0.6, 0.6)]),
            &[0.4, 0.6],
        );
    }

    #[test]
    fn two_that_lack_share_what_is_left_by_what_they_lack() {
        // 0.6 are kept, 0.4 are left; they lack 0.8 and 0.4.
        let claims = [claim(1.0, 0.2), claim(0.6, 0.2), claim(0.2, 0.2)];
        near(
            &committed_first(&claims),
            &[0.2 + 0.8 / 3.0, 0.2 + 0.4 / 3.0, 0.2],
        );
    }

    #[test]
    fn a_node_that_has_shrunk_scales_all_down() {
        assert_eq!(
            committed_first(&[claim(0.8, 0.8), claim(0.8, 0.8)]),
            [0.5, 0.5]
        );
    }

    #[test]
    fn scaled_down_together() {
        let claims = [claim(1.0, 0.2), claim(0.6, 0.6)];
        let given = allotted(Shortage::Proportional, Spare::Idle, &claims, 1.0);
        near(&given, &[0.625, 0.375]);
    }

    #[test]
    fn soft_jobs_yield_unless_their_return_is_the_highest() {
        let soft = |need, full_return| Claim {
            hard: false,
            full_return,
            ..claim(need, need)
        };
        // 1.2 needed, 0.2 too much; the two that yield hold 0.5, so they keep 60 %.
        let claims = [
            soft(0.3, 9.0),
            claim(0.4, 0.4),
            soft(0.3, 2.0),
            soft(0.2, 1.0),
        ];
        let given = allotted(Shortage::SoftYields, Spare::Idle, &claims, 1.0);
        near(&given, &[0.3, 0.4, 0.18, 0.12]);
    }

    #[test]
    fn spare_time_is_shared_up_to_what_each_can_use() {
        // Two processors; 0.8 and 0.2 are needed. Twice as much would be 1.6: it can use 1.0.
        let claims = [claim(0.8, 0.8), claim(0.2, 0.2)];
        let given = allotted(Shortage::CommittedFirst, Spare::Shared, &claims, 2.0);
        near(&given, &[1.0, 1.0]);
        let given = allotted(Shortage::CommittedFirst, Spare::Shared, &claims, 1.5);
        near(&given, &[1.0, 0.5]);
    }

    #[test]
    fn spare_time_goes_to_the_highest_return_first() {
        let paid = |need, full_return| Claim {
            full_return,
            ..claim(need, need)
        };
        let claims = [paid(0.2, 1.0), paid(0.7, 3.0), paid(0.1, 2.0)];
        let given = allotted(Shortage::CommittedFirst, Spare::HighestReturn, &claims, 1.5);
        near(&given, &[0.2, 1.0, 0.3]);
    }

    #[test]
    fn what_yields_gets_what_is_left() {
        let yielding = |limit| Claim {
            yields: true,
            limit,
            ..claim(1.0, 1.0)
        };
        // One that is short gets its need before them; two slots get twice what one does.
        let claims = [yielding(2.0), claim(0.8, 0.5), yielding(1.0)];
        near(
            &allotted(Shortage::CommittedFirst, Spare::Idle, &claims, 1.4),
            &[0.4, 0.8, 0.2],
        );
        near(
            &allotted(Shortage::CommittedFirst, Spare::Idle, &claims, 4.0),
            &[2.0, 0.8, 1.0],
        );
        near(
            &allotted(Shortage::DeadlineOrder, Spare::Idle, &claims, 1.0),
            &[0.0, 1.0, 0.0],
        );
        near(&committed_first(&[yielding(1.0)]), &[1.0]);
    }

    #[test]
    fn whole_processors_come_first_whatever_the_rule() {
        let whole = Claim {
            whole: true,
            limit: 1.0,
            ..claim(1.0, 1.0)
        };
        let yielding = Claim {
            yields: true,
            limit: 1.0,
            ..claim(0.0, 0.0)
        };
        for shortage in [
            Shortage::CommittedFirst,
            Shortage::Proportional,
            Shortage::SoftYields,
        ] {
            // The other one needs more than was committed to it, and there is no more.
            let claims = [claim(1.0, 0.5), whole, yielding];
            let given = allotted(shortage, Spare::Idle, &claims, 1.75);
            assert_eq!(given, [0.75, 1.0, 0.0], "{shortage:?}");
        }
        let claims = [claim(0.25, 0.25), whole, yielding];
        for spare in [Spare::Idle, Spare::Shared] {
            let given = allotted(Shortage::CommittedFirst, spare, &claims, 2.0);
            assert_eq!(given[1], 1.0, "{spare:?}");
            assert!(given.iter().sum::<f64>() <= 2.0, "{given:?}");
        }
        // The node has shrunk.
        let given = allotted(Shortage::CommittedFirst, Spare::Idle, &[whole, whole], 1.0);
        assert_eq!(given, [0.5, 0.5]);
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_it_can_use_and_no_time_is_made_or_lost(
            needs in proptest::collection::vec((0.001f64..1.0, 0.0f64..1.0, -9.0f64..90.0, 0.0f64..9.0, any::<bool>(), 0..4), 1..9),
            capacity in 0.1f64..6.0,
            shortage in prop_oneof![
                Just(Shortage::CommittedFirst), Just(Shortage::Proportional),
                Just(Shortage::SoftYields), Just(Shortage::DeadlineOrder)
            ],
            spare in prop_oneof![Just(Spare::Idle), Just(Spare::Shared), Just(Spare::HighestReturn)],
        ) {
            let claims: Vec<Claim> = needs
                .iter()
                .map(|&(need, committed_share, remaining_deadline, full_return, hard, yields)| Claim {
                    need, committed_share, limit: 1.0, remaining_deadline, full_return, hard, yields: yields == 0, whole: false, outlived: false,
                })
                .collect();
            let given = allotted(shortage, spare, &claims, capacity);
            let sum: f64 = given.iter().sum();
            let usable = capacity.min(claims.len() as f64);
            prop_assert!(given.iter().all(|g| (0.0..=1.0 + 1e-12).contains(g)));
            prop_assert!(sum <= usable * (1.0 + 1e-9));
            let all = spare != Spare::Idle || shortage == Shortage::DeadlineOrder;
            let others: Vec<Claim> = claims.iter().copied().filter(|claim| !claim.yields).collect();
            let alone = allotted(shortage, spare, &others, capacity);
            let beside = (claims.iter().zip(&given)).filter(|(claim, _)| !claim.yields);
            for ((_, given), alone) in beside.zip(&alone) {
                prop_assert_eq!(given, alone, "one that yields took something");
            }
            if all {
                prop_assert!(sum >= usable * (1.0 - 1e-9), "{sum} of {usable}");
            } else {
                let needs: f64 = claims.iter().map(|claim| claim.need).sum();
                prop_assert!(sum >= needs.min(capacity) * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn of_whole_processors_that_do_not_fit_the_earlier_deadlines_get_theirs() {
        let whole = |need: f64, remaining_deadline: f64| Claim {
            whole: true,
            limit: need,
            remaining_deadline,
            ..claim(need, need)
        };
        let claims = [
            whole(2.0, 90.0),
            whole(1.0, 20.0),
            whole(1.0, LONGEST - 5.0),
        ];
        let given = |capacity| allotted(Shortage::CommittedFirst, Spare::Idle, &claims, capacity);
        near(&given(4.0), &[2.0, 1.0, 1.0]);
        near(&given(3.0), &[1.0, 1.0, 1.0]);
        near(&given(1.5), &[0.0, 0.5, 1.0]);
    }

    #[test]
    fn who_outlived_whole_processors_has_them_until_others_are_promised_them() {
        let whole = |outlived| Claim {
            whole: true,
            outlived,
            ..claim(1.0, 1.0)
        };
        // Enough for all: nothing is taken from it.
        near(&committed_first(&[whole(true)]), &[1.0]);
        let claims = [whole(true), claim(0.3, 0.3)];
        near(
            &allotted(Shortage::CommittedFirst, Spare::Shared, &claims, 2.0),
            &[1.0, 1.0],
        );
        // Another was promised them, or a share.
        near(&committed_first(&[whole(true), whole(false)]), &[0.0, 1.0]);
        near(
            &committed_first(&[whole(true), claim(0.6, 0.4)]),
            &[0.6, 0.4],
        );
    }
}
