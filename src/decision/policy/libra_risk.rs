//! LibraRisk (2006): a node takes a job when, projected forward, it leaves no risk that one job
//! of the node is delayed more than another.
//!
//! The risk is the standard deviation of the jobs' deadline delays. A job alone on a node has none,
//! even if its estimate says that it will be late: so an overestimated job gets its chance where it
//! can hurt nobody. That is the point of the paper.

use super::fit::{largest_suitable, most_chunks};
use super::{Obstacle, Offer, Policy};
use crate::decision::TOLERANCE;
use crate::decision::allotment::Shortage;
use crate::decision::few::Few;
use crate::decision::job::Request;
use crate::decision::node::NodeView;
use crate::decision::share::ShareRule;

/// The policy of the 2006 paper, algorithm 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LibraRisk {
    /// Time that nobody needs is used, so jobs end earlier than their shares say; a projection
    /// that knows it finds fewer delays.
    pub spare_is_shared: bool,
}

/// Largest risk that counts as none.
const NO_RISK: f64 = 1e-6;

/// A job of a node, projected.
#[derive(Clone, Copy, Default)]
struct Projected {
    slots: f64,
    /// Seconds of work left, per slot.
    work: f64,
    /// Seconds until its deadline, from now.
    deadline: f64,
    /// When it ends, from now.
    finish: f64,
    rate: f64,
}

impl Projected {
    /// Processors per slot that it needs at `now`.
    fn share(&self, now: f64) -> f64 {
        let left = self.deadline - now;
        if left <= self.deadline * 1e-12 {
            return 1.0;
        }
        (self.work / left).min(1.0)
    }

    /// Deadline delay (formula 4); 1 for a job that ends in time.
    fn deadline_delay(&self) -> f64 {
        ((self.finish - self.deadline).max(0.0) + self.deadline) / self.deadline
    }
}

/// Runs the jobs to their ends: all at their shares, scaled down together where they exceed the
/// capacity; shares are taken anew at each departure and each deadline that passes.
fn project(jobs: &mut [Projected], capacity: f64, spare_is_shared: bool) {
    let mut now = 0.0;
    let negligible = |job: &Projected| job.work <= job.deadline * 1e-12;
    loop {
        let mut needs = 0.0;
        let mut running = 0.0;
        for job in jobs.iter_mut() {
            job.rate = if negligible(job) { 0.0 } else { job.share(now) };
            needs += job.rate * job.slots;
            running += if job.rate > 0.0 { job.slots } else { 0.0 };
        }
        if needs <= 0.0 {
            return;
        }
        let scale = if needs > capacity {
            capacity / needs
        } else if spare_is_shared {
            // In proportion, as far as no slot gets more than a processor; what is left over by
            // that rule on nodes of several processors is not counted on.
            capacity.min(running) / needs
        } else {
            1.0
        };
        let mut step = f64::INFINITY;
        for job in jobs.iter_mut().filter(|job| job.rate > 0.0) {
            job.rate = (job.rate * scale).min(1.0);
            step = step.min(job.work / job.rate);
            let left = job.deadline - now;
            if left > job.deadline * 1e-12 {
                step = step.min(left);
            }
        }
        now += step;
        for job in jobs.iter_mut().filter(|job| job.rate > 0.0) {
            job.work -= job.rate * step;
            if negligible(job) {
                job.work = 0.0;
                job.finish = now;
            }
        }
    }
}

/// Standard deviation of the deadline delays (formula 6), taken about the mean: the paper's form
/// loses all digits where the delays are large and alike.
fn risk(jobs: &[Projected]) -> f64 {
    let count = jobs.len() as f64;
    let mean = jobs.iter().map(Projected::deadline_delay).sum::<f64>() / count;
    let squares = |job: &Projected| (job.deadline_delay() - mean).powi(2);
    (jobs.iter().map(squares).sum::<f64>() / count).sqrt()
}

impl Policy for LibraRisk {
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        let spec = node.spec();
        let terms = &request.terms;
        let work = terms.estimate / spec.rating;
        let per_chunk_slots = f64::from(request.shape.processors_per_chunk);
        let most = most_chunks(node, &request.shape)?;
        let share = (work / terms.deadline).min(1.0);
        let new = |chunks: u32| Projected {
            slots: f64::from(chunks) * per_chunk_slots,
            work,
            deadline: terms.deadline,
            ..Projected::default()
        };
        let mut few = Few::<Projected, 16>::new();
        let mut committed = 0.0;
        let mut late = None;
        let mut at_risk = work > terms.deadline * (1.0 + TOLERANCE);
        node.for_each_job(|job| {
            let projected = Projected {
                slots: f64::from(job.slots),
                work: (job.terms.estimate / spec.rating - job.cput).max(0.0),
                deadline: job.terms.deadline - job.walltime,
                ..Projected::default()
            };
            if projected.deadline <= job.terms.deadline * 1e-12 {
                late = Some(-projected.deadline);
            }
            at_risk |= projected.work > projected.deadline * (1.0 + TOLERANCE);
            committed += f64::from(job.slots) * job.need(spec.rating).share;
            few.push(projected);
        });
        if let Some(delay) = late {
            return Err(Obstacle::Risk { delay });
        }
        few.push(new(1));
        let offer = |chunks| Offer {
            chunks,
            share,
            loadfree: (spec.processors - committed - share * per_chunk_slots).max(0.0),
            per_chunk: share * per_chunk_slots,
            // Any suitable node will do, in node order.
            rank: 0.0,
            rank_step: 0.0,
        };
        let alone = few.items().len() == 1;
        let fits = |chunks: u32| {
            let sum = committed + share * per_chunk_slots * f64::from(chunks);
            !at_risk && sum <= spec.processors * (1.0 + TOLERANCE)
        };
        let mut room = Few::<Projected, 16>::new();
        for job in few.items() {
            room.push(*job);
        }
        let room = std::cell::RefCell::new(room);
        let jobs = few.items();
        let last = jobs.len() - 1;
        let risk_with = |chunks: u32| {
            if fits(chunks) {
                // Everyone runs at the share it needs to its deadline.
                return 0.0;
            }
            let mut room = room.borrow_mut();
            let room = room.items();
            room.copy_from_slice(jobs);
            room[last] = new(chunks);
            project(room, spec.processors, self.spare_is_shared);
            risk(room)
        };
        // A job alone has no risk, however large it is. That it also fits the processors of the
        // node is asked where it has several slots: two of one job on one processor are not alone.
        if alone && most == 1 && per_chunk_slots <= 1.0 {
            return Ok(offer(1));
        }
        if alone && per_chunk_slots > spec.processors.max(1.0) {
            return Err(Obstacle::Share {
                needed: per_chunk_slots,
                free: spec.processors,
            });
        }
        if risk_with(1) > NO_RISK {
            let room = room.borrow_mut().items().to_vec();
            let delay = |job: &Projected| (job.finish - job.deadline).max(0.0);
            return Err(Obstacle::Risk {
                delay: room.iter().map(delay).fold(0.0, f64::max),
            });
        }
        // A node that is late with all its jobs alike has no risk either; only one chunk of an
        // overestimated job is given that chance, more must fit.
        Ok(offer(largest_suitable(most, |chunks| {
            fits(chunks) || (!alone && risk_with(chunks) <= NO_RISK && !at_risk)
        })))
    }

    fn share_rule(&self) -> ShareRule {
        ShareRule::Exact
    }

    fn shortage(&self) -> Shortage {
        Shortage::Proportional
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::job::Terms;
    use crate::decision::node::{NodeSpec, PlainNode};

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

    fn offer(jobs: &[Terms], estimate: f64, deadline: f64) -> Result<Offer, Obstacle> {
        let request = Request::single(Terms::hard(estimate, deadline, f64::INFINITY));
        LibraRisk::default().offer(&&node(jobs), &request)
    }

    fn hard(estimate: f64, deadline: f64) -> Terms {
        Terms::hard(estimate, deadline, f64::INFINITY)
    }

    #[test]
    fn where_all_shares_fit_there_is_no_risk() {
        assert!(offer(&[hard(5.0, 10.0)], 10.0, 20.0).is_ok());
    }

    #[test]
    fn a_job_alone_has_no_risk_even_if_its_estimate_is_too_long() {
        assert_eq!(offer(&[], 40.0, 10.0).expect("alone").share, 1.0);
        assert!(offer(&[hard(1.0, 10.0)], 40.0, 10.0).is_err());
    }

    #[test]
    fn a_projection_by_hand() {
        // Shares 0.6 and 0.9 on one processor, scaled by 1 / 1.5 to 0.4 and 0.6. After 10 s, the
        // first one's deadline, 6 - 4 = 2 s and 18 - 6 = 12 s are left. The late one counts 1.0
        // now, the other needs 12 / 10 and can use 1.0: 0.5 each. The late one ends at 14 s, 4 s
        // late; the other has 10 s left and ends at 24 s, 4 s late.
        let mut jobs = [(6.0, 10.0), (18.0, 20.0)].map(|(work, deadline)| Projected {
            slots: 1.0,
            work,
            deadline,
            ..Projected::default()
        });
        project(&mut jobs, 1.0, false);
        assert!((jobs[0].finish - 14.0).abs() < 1e-9 && (jobs[1].finish - 24.0).abs() < 1e-9);
        // Deadline delays 1.4 and 1.2.
        assert!((risk(&jobs) - 0.1).abs() < 1e-9);
        let Err(Obstacle::Risk { delay }) = offer(&[hard(6.0, 10.0)], 18.0, 20.0) else {
            panic!("somebody is late");
        };
        assert!((delay - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_departure_can_make_room_that_the_sum_of_shares_does_not_see() {
        // 0.5 for 10 s beside 0.6 for 100 s: 1.1 together. Scaled, the first is late.
        assert!(offer(&[hard(5.0, 10.0)], 60.0, 100.0).is_err());
        // Where idle time is used there is none, so nothing changes; but a node whose jobs run
        // ahead has more room.
        let shared = LibraRisk {
            spare_is_shared: true,
        };
        let request = Request::single(hard(60.0, 100.0));
        assert!(shared.offer(&&node(&[hard(3.0, 10.0)]), &request).is_ok());
    }

    #[test]
    fn a_node_with_a_late_job_is_not_suitable() {
        let mut late = node(&[hard(5.0, 10.0)]);
        late.jobs[0].walltime = 11.0;
        let request = Request::single(hard(1.0, 100.0));
        assert!(matches!(
            LibraRisk::default().offer(&&late, &request),
            Err(Obstacle::Risk { .. })
        ));
    }
}
