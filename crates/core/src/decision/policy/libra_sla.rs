//! LibraSLA (2005): a node takes a job when that does not lower what all its jobs bring it, the
//! penalties for the delay of soft ones counted.

use super::fit::{largest_suitable, most_chunks};
use super::{Obstacle, Offer, Policy};
use crate::decision::TOLERANCE;
use crate::decision::allotment::Shortage;
use crate::decision::few::Few;
use crate::decision::job::{DeadlineType, Request, Terms};
use crate::decision::node::{JobOnNode, NodeSpec, NodeView};
use crate::decision::share::ShareRule;

/// The policy of the 2005 paper, algorithms 1 and 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LibraSla;

/// A job of a node as algorithm 2 sees it.
#[derive(Clone, Copy)]
struct JobLoad {
    terms: Terms,
    /// Share of all its slots, in processors.
    share: f64,
    slots: f64,
    /// Seconds of work left, per slot, on this node.
    remaining_estimate: f64,
    /// Seconds until its deadline, without any delay that was accepted for it.
    remaining_deadline: f64,
    /// Delay that was accepted for it, seconds.
    delay: f64,
}

impl Default for JobLoad {
    fn default() -> JobLoad {
        JobLoad {
            terms: Terms::hard(1.0, 1.0, 0.0),
            share: 0.0,
            slots: 0.0,
            remaining_estimate: 0.0,
            remaining_deadline: 0.0,
            delay: 0.0,
        }
    }
}

impl JobLoad {
    fn of(job: &JobOnNode, rating: f64) -> JobLoad {
        JobLoad {
            terms: job.terms,
            share: f64::from(job.slots) * job.need(rating).share,
            slots: f64::from(job.slots),
            remaining_estimate: (job.terms.estimate / rating - job.cput).max(0.0),
            remaining_deadline: job.terms.deadline - job.walltime,
            delay: job.delay,
        }
    }

    fn is_hard(&self) -> bool {
        self.terms.deadline_type == DeadlineType::Hard
    }
}

/// Part of its share that each job that yields keeps, and which job does not yield although it is
/// soft. None: the shares of the soft jobs do not cover the shortfall.
fn yielding(parts: &[JobLoad], capacity: f64) -> Option<(f64, usize)> {
    let mut first = 0;
    let mut total = 0.0;
    for (index, part) in parts.iter().enumerate() {
        total += part.share;
        if part.terms.full_return() > parts[first].terms.full_return() {
            first = index;
        }
    }
    let shortfall = total - capacity;
    if shortfall <= capacity * TOLERANCE {
        return Some((1.0, first));
    }
    let soft: f64 = (parts.iter().enumerate())
        .filter(|(index, part)| !part.is_hard() && *index != first)
        .map(|(_, part)| part.share)
        .sum();
    (soft > shortfall).then(|| (1.0 - shortfall / soft, first))
}

fn yields(index: usize, part: &JobLoad, (scale, first): (f64, usize)) -> bool {
    scale < 1.0 && !part.is_hard() && index != first
}

/// The delay of each part once those that must have yielded.
fn delay(index: usize, part: &JobLoad, (scale, first): (f64, usize)) -> f64 {
    if !yields(index, part, (scale, first)) {
        return part.delay;
    }
    let share = part.share * scale / part.slots;
    (part.remaining_estimate / share - part.remaining_deadline).max(part.delay)
}

/// Return of the node with these jobs; None if the soft ones cannot yield enough.
fn node_return(parts: &[JobLoad], capacity: f64) -> Option<f64> {
    let scale = yielding(parts, capacity)?;
    let returns = parts
        .iter()
        .enumerate()
        .map(|(index, part)| part.terms.return_with_delay(delay(index, part, scale)));
    Some(returns.sum())
}

impl Policy for LibraSla {
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        let spec = node.spec();
        let terms = request.terms;
        let share = terms.estimate / spec.rating / terms.deadline;
        if share > 1.0 + TOLERANCE {
            return Err(Obstacle::Slot { share });
        }
        let share = share.min(1.0);
        let most = most_chunks(node, &request.shape)?;
        let mut few = Few::<JobLoad, 16>::new();
        let mut without = 0.0;
        let mut committed = 0.0;
        node.for_each_job(|job| {
            let part = JobLoad::of(job, spec.rating);
            without += part.terms.return_with_delay(part.delay);
            committed += part.share;
            few.push(part);
        });
        let per_chunk = share * f64::from(request.shape.processors_per_chunk);
        few.push(JobLoad::default());
        let parts = few.items();
        let last = parts.len() - 1;
        let mut with = |chunks: u32| {
            let slots = f64::from(chunks) * f64::from(request.shape.processors_per_chunk);
            parts[last] = JobLoad {
                terms,
                share: share * slots,
                slots,
                remaining_estimate: terms.estimate / spec.rating,
                remaining_deadline: terms.deadline,
                delay: 0.0,
            };
            let scale = yielding(parts, spec.processors)?;
            let share_there = if parts[last].is_hard() || scale.1 == last {
                share
            } else {
                share * scale.0
            };
            Some((node_return(parts, spec.processors)?, share_there))
        };
        let Some((one, mut share_there)) = with(1) else {
            return Err(Obstacle::Share {
                needed: per_chunk,
                free: (spec.processors - committed).max(0.0),
            });
        };
        // Not below: a penalty that outweighs the budget is a loss, and so is one without a number.
        if one < without || one.is_nan() {
            return Err(Obstacle::Return { with: one, without });
        }
        let with = std::cell::RefCell::new(with);
        let chunks = largest_suitable(most, |chunks| {
            (with.borrow_mut())(chunks).is_some_and(|(there, _)| there >= without)
        });
        let mut best = one;
        if chunks > 1 {
            if let Some((there, share)) = (with.borrow_mut())(chunks) {
                (best, share_there) = (there, share);
            }
        }
        Ok(Offer {
            chunks,
            share: share_there,
            loadfree: (spec.processors - committed - per_chunk).max(0.0),
            per_chunk,
            rank: -best,
            rank_step: 0.0,
        })
    }

    fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        request.terms.estimate / fastest / request.terms.deadline > 1.0 + TOLERANCE
    }

    fn share_rule(&self) -> ShareRule {
        ShareRule::Exact
    }

    fn shortage(&self) -> Shortage {
        Shortage::SoftYields
    }

    fn accepts_delays(&self) -> bool {
        true
    }

    fn weighs_budgets(&self) -> bool {
        true
    }

    fn accept_delays(&self, spec: &NodeSpec, jobs: &mut [JobOnNode]) {
        let parts: Vec<JobLoad> = jobs
            .iter()
            .map(|job| JobLoad::of(job, spec.rating))
            .collect();
        if let Some(scale) = yielding(&parts, spec.processors) {
            for (index, (job, part)) in jobs.iter_mut().zip(&parts).enumerate() {
                job.delay = delay(index, part, scale);
                if yields(index, part, scale) && part.remaining_estimate <= 0.0 {
                    // It has outlived its estimate: no delay says what it keeps.
                    job.held_share = part.share * scale.0 / part.slots;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::node::PlainNode;

    fn soft(estimate: f64, deadline: f64, budget: f64, penalty_rate: f64) -> Terms {
        Terms {
            deadline_type: DeadlineType::Soft,
            penalty_rate,
            ..Terms::hard(estimate, deadline, budget)
        }
    }

    fn node(jobs: &[Terms]) -> PlainNode {
        let spec = NodeSpec {
            processors: 1.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        let mut node = PlainNode::new(spec, Vec::new(), ShareRule::Exact);
        for terms in jobs {
            node.reserve(&Request::single(*terms), 1);
        }
        node
    }

    fn offer(jobs: &[Terms], new: Terms) -> Result<Offer, Obstacle> {
        LibraSla.offer(&&node(jobs), &Request::single(new))
    }

    #[test]
    fn with_room_the_return_is_that_of_the_budgets() {
        // 100 / 10 / 20 = 0.5 are there, 60 / 10 / 30 = 0.2 come.
        let offer = offer(
            &[Terms::hard(10.0, 20.0, 100.0)],
            Terms::hard(10.0, 30.0, 60.0),
        );
        let rank = offer.expect("0.5 + 0.333 fit").rank;
        assert!((rank + 0.7).abs() < 1e-12, "{rank}");
    }

    #[test]
    fn a_soft_job_makes_room_where_its_penalty_is_small() {
        // Shares 0.8 (soft, return 1) and 0.5 (hard, return 2): 0.3 too much, so the soft one
        // keeps 0.5 and ends after 8 / 0.5 = 16 s, 6 s late: 80 - 6 x 1 = 74, return 74 / 8 / 10.
        let there = [soft(8.0, 10.0, 80.0, 1.0)];
        let new = Terms::hard(5.0, 10.0, 100.0);
        let rank = offer(&there, new).expect("returns more").rank;
        assert!((rank + 74.0 / 80.0 + 2.0).abs() < 1e-9, "{rank}");

        let mut jobs = node(&[there[0], new]).jobs;
        let spec = node(&[]).spec;
        LibraSla.accept_delays(&spec, &mut jobs);
        assert!((jobs[0].delay - 6.0).abs() < 1e-9 && jobs[1].delay == 0.0);
        // From then on it needs 8 s in 16 s.
        assert!((jobs[0].need(1.0).share - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_penalty_that_outweighs_the_budget_closes_the_node() {
        // As above with 20 credits a second: 80 - 120 = -40, return -0.5; with the new one 1.5 < 1 + ...
        // 1.0 without; -0.5 + 1.4 = 0.9 with.
        let there = [soft(8.0, 10.0, 80.0, 20.0)];
        let refused = offer(&there, Terms::hard(5.0, 10.0, 70.0)).expect_err("a loss");
        let Obstacle::Return { with, without } = refused else {
            panic!("{refused:?}");
        };
        assert!((with - 0.9).abs() < 1e-9 && (without - 1.0).abs() < 1e-12);
    }

    #[test]
    fn hard_jobs_never_yield() {
        let there = [Terms::hard(8.0, 10.0, 1.0)];
        let refused = offer(&there, Terms::hard(5.0, 10.0, 1e6)).expect_err("0.8 + 0.5");
        assert!(matches!(refused, Obstacle::Share { .. }), "{refused:?}");
        // A new soft one yields: 0.5 is needed, 0.2 is there; it ends after 25 s, 15 s late.
        // 100 - 15 x 1 = 85 credits, return 1.7; but the job with the highest return keeps its
        // share, and that is the new one: so the node is full all the same.
        let new = soft(5.0, 10.0, 100.0, 1.0);
        assert!(offer(&there, new).is_err());
        let rich = [Terms::hard(8.0, 10.0, 1000.0)];
        let taken = offer(&rich, new).expect("it yields");
        assert!((taken.share - 0.2).abs() < 1e-9 && (taken.rank + 12.5 + 1.7).abs() < 1e-9);
    }

    #[test]
    fn no_deadline_shorter_than_the_estimate() {
        assert!(matches!(
            offer(&[], Terms::hard(11.0, 10.0, 1.0)),
            Err(Obstacle::Slot { .. })
        ));
    }
}
