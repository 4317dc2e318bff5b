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
use crate::decision::node::{JobOnNode, NodeView};
use crate::decision::share::ShareRule;

/// The policy of the 2006 paper, algorithm 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LibraRisk {
    /// Time that nobody needs is used, so jobs end earlier than their shares say; a projection
    /// that knows it finds fewer delays.
    pub spare_is_shared: bool,
    /// Whether a deadline shorter than the estimate is refused. The paper takes such a job on a node of its own: a delay that everybody there
    /// has is no risk.
    pub unconditional: bool,
}

/// Largest risk that counts as none.
const NO_RISK: f64 = 1e-6;

/// A job of a node, projected.
#[derive(Debug, Clone, Copy, Default)]
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
    fn of(job: &JobOnNode, rating: f64) -> Projected {
        Projected {
            slots: f64::from(job.slots),
            work: (job.terms.estimate / rating - job.cput).max(0.0),
            deadline: job.terms.deadline - job.walltime,
            finish: 0.0,
            rate: 0.0,
        }
    }

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
///
/// It stops as soon as two of them are known to be delayed so differently that there is a risk, and
/// returns whether that was so.
fn project(jobs: &mut [Projected], capacity: f64, spare_is_shared: bool) -> bool {
    let mut now = 0.0;
    let negligible = |job: &Projected| job.work <= job.deadline * 1e-12;
    let spread = certain_spread(jobs.len() as f64);
    loop {
        let mut needs = 0.0;
        let mut running = 0.0;
        let (mut least, mut most) = (f64::INFINITY, 1.0f64);
        for job in jobs.iter_mut() {
            if negligible(job) {
                job.rate = 0.0;
                least = least.min(job.deadline_delay());
                most = most.max(job.deadline_delay());
                continue;
            }
            job.rate = job.share(now);
            needs += job.rate * job.slots;
            running += job.slots;
            // It ends no earlier than if it had a processor for each slot from now on.
            most = most.max((now + job.work) / job.deadline);
        }
        if needs <= 0.0 {
            return false;
        }
        if most - least > spread {
            for job in jobs.iter_mut().filter(|job| !negligible(job)) {
                job.finish = now + job.work;
            }
            return true;
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

/// What can be said of a projection without making it, which is what most nodes are refused by.
///
/// Where the shares exceed the capacity from the start, the job with the earliest deadline is late: until
/// then nobody departs and all are scaled down. And either some job is in time, or the node
/// stays overloaded until its last job ends, when all work is done: then the job with the latest deadline
/// is delayed by no more than all the work allows.
#[derive(Default)]
struct Overload {
    jobs: f64,
    needs: f64,
    work: f64,
    latest: f64,
    earliest: Option<(f64, f64)>,
}

impl Overload {
    #[inline(always)]
    fn add(&mut self, work: f64, deadline: f64, slots: f64) {
        self.jobs += 1.0;
        if work <= deadline * 1e-12 {
            return;
        }
        self.needs += (work / deadline).min(1.0) * slots;
        self.work += work * slots;
        self.latest = self.latest.max(deadline);
        if self
            .earliest
            .is_none_or(|(_, earliest)| deadline < earliest)
        {
            self.earliest = Some((work, deadline));
        }
    }

    /// Seconds that somebody would be late at least, if there is a risk for certain.
    fn certain_risk(&self, capacity: f64) -> Option<f64> {
        let (work, deadline) = self.earliest?;
        if self.needs <= capacity {
            return None;
        }
        let late = work - (work / deadline).min(1.0) * capacity / self.needs * deadline;
        let of_the_earliest = 1.0 + late / deadline;
        let of_the_last = (self.work / capacity / self.latest).max(1.0);
        (of_the_earliest - of_the_last > certain_spread(self.jobs)).then_some(late)
    }
}

/// A spread of deadline delays above this makes the standard deviation of so many of them a risk.
fn certain_spread(jobs: f64) -> f64 {
    NO_RISK * (2.0 * jobs).sqrt()
}

/// Standard deviation of the deadline delays (formula 6), taken about the mean: the paper's form
/// loses all digits where the delays are large and alike.
fn risk(jobs: &[Projected]) -> f64 {
    let count = jobs.len() as f64;
    let mean = jobs.iter().map(Projected::deadline_delay).sum::<f64>() / count;
    let squares = |job: &Projected| (job.deadline_delay() - mean).powi(2);
    (jobs.iter().map(squares).sum::<f64>() / count).sqrt()
}

impl LibraRisk {
    /// The jobs of a node and a new one, to be projected.
    fn jobs<N: NodeView>(node: &N, new: Projected) -> Few<Projected, 16> {
        let rating = node.spec().rating;
        let mut few = Few::new();
        node.for_each_job(|job| few.push(Projected::of(job, rating)));
        few.push(new);
        few
    }

    /// Checks that there is no risk on the node with the new job. If there is, the error is the longest delay that
    /// was found, in seconds: at least so much.
    fn without_risk<N: NodeView>(&self, node: &N, new: Projected) -> Result<(), f64> {
        let mut few = LibraRisk::jobs(node, new);
        let jobs = few.items();
        if !project(jobs, node.spec().processors, self.spare_is_shared) && risk(jobs) <= NO_RISK {
            return Ok(());
        }
        let delay = |job: &Projected| (job.finish - job.deadline).max(0.0);
        Err(jobs.iter().map(delay).fold(0.0, f64::max))
    }
}

impl Policy for LibraRisk {
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        let spec = node.spec();
        let terms = &request.terms;
        let work = terms.estimate / spec.rating;
        let slots = f64::from(request.shape.processors_per_chunk);
        let most = most_chunks(node, &request.shape)?;
        if self.unconditional && request.terms.are_conditional(spec.rating) {
            return Err(Obstacle::Slot {
                share: work / terms.deadline,
            });
        }
        let share = (work / terms.deadline).min(1.0);
        // Nothing ever ends there, so there is nothing to project.
        if spec.processors <= 0.0 {
            return Err(Obstacle::Share {
                needed: share * slots,
                free: 0.0,
            });
        }
        let mut alone = true;
        let mut late = None;
        let mut at_risk = work > terms.deadline * (1.0 + TOLERANCE);
        let mut overload = Overload::default();
        node.for_each_job(|job| {
            alone = false;
            let left = job.terms.deadline - job.walltime;
            if left <= job.terms.deadline * 1e-12 {
                late = Some(-left);
            }
            let work = (job.terms.estimate / spec.rating - job.cput).max(0.0);
            at_risk |= work > left * (1.0 + TOLERANCE);
            overload.add(work, left, f64::from(job.slots));
        });
        if let Some(delay) = late {
            return Err(Obstacle::Risk { delay });
        }
        overload.add(work, terms.deadline, slots);
        if !alone {
            if let Some(delay) = overload.certain_risk(spec.processors) {
                return Err(Obstacle::Risk { delay });
            }
        }
        let committed = node.committed();
        let offer = |chunks| Offer {
            chunks,
            share,
            loadfree: (spec.processors - committed - share * slots).max(0.0),
            per_chunk: share * slots,
            // Any suitable node will do, in node order.
            rank: 0.0,
            rank_step: 0.0,
        };
        // Where all shares fit, everyone runs at the share it needs to its deadline.
        let fits = |chunks: u32| {
            let sum = committed + share * slots * f64::from(chunks);
            !at_risk && sum <= spec.processors * (1.0 + TOLERANCE)
        };
        let new = |chunks: u32| Projected {
            slots: f64::from(chunks) * slots,
            work,
            deadline: terms.deadline,
            finish: 0.0,
            rate: 0.0,
        };
        // A node commits less than it has where a part is kept for the system, so a fraction stands for a processor.
        if alone && slots > spec.processors.ceil().max(1.0) {
            return Err(Obstacle::Share {
                needed: slots,
                free: spec.processors,
            });
        }
        // A job alone on its node has no risk, however long it is.
        if !alone && !fits(1) {
            self.without_risk(node, new(1))
                .map_err(|delay| Obstacle::Risk { delay })?;
        }
        // Alone with too long an estimate it is given one chance on a node, not several: as many
        // chunks as fit, and more only where a projection finds nobody late.
        Ok(offer(largest_suitable(most, |chunks| {
            fits(chunks) || (!alone && !at_risk && self.without_risk(node, new(chunks)).is_ok())
        })))
    }

    fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        self.unconditional && request.terms.are_conditional(fastest)
    }

    fn takes_any_node(&self) -> bool {
        true
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
    use proptest::prelude::*;

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
    fn a_node_without_processors_takes_nobody() {
        let mut nothing = node(&[]);
        nothing.spec.processors = 0.0;
        let refused = |node: &PlainNode| {
            let offer = LibraRisk::default().offer(&node, &Request::single(hard(5.0, 10.0)));
            assert!(matches!(offer, Err(Obstacle::Share { .. })), "{offer:?}");
        };
        refused(&nothing);
        // What was committed there before it lost them is no reason to look further either.
        nothing.reserve(&Request::single(hard(1.0, 10.0)), 1);
        refused(&nothing);
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
        assert!(!project(&mut jobs, 1.0, false));
        assert!((jobs[0].finish - 14.0).abs() < 1e-9 && (jobs[1].finish - 24.0).abs() < 1e-9);
        // Deadline delays 1.4 and 1.2.
        assert!((risk(&jobs) - 0.1).abs() < 1e-9);
        let Err(Obstacle::Risk { delay }) = offer(&[hard(6.0, 10.0)], 18.0, 20.0) else {
            panic!("somebody is late");
        };
        assert!((delay - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_deadline_below_the_estimate_is_refused_where_promises_have_no_condition() {
        let refusing = LibraRisk {
            unconditional: true,
            ..LibraRisk::default()
        };
        for (estimate, deadline, taken) in
            [(10.0, 20.0, true), (20.0, 20.0, true), (20.0, 10.0, false)]
        {
            let request = Request::single(hard(estimate, deadline));
            assert!(
                offer(&[], estimate, deadline).is_ok(),
                "alone there is no risk"
            );
            let found = refusing.offer(&&node(&[]), &request);
            assert_eq!(found.is_ok(), taken, "{found:?}");
            assert_eq!(refusing.is_hopeless(&request, 1.0), !taken);
            assert!(!refusing.is_hopeless(&request, 2.0));
        }
    }

    #[test]
    fn a_departure_can_make_room_that_the_sum_of_shares_does_not_see() {
        // 0.5 for 10 s beside 0.6 for 100 s: 1.1 together. Scaled, the first is late.
        assert!(offer(&[hard(5.0, 10.0)], 60.0, 100.0).is_err());
        // Where idle time is used there is none, so nothing changes; but a node whose jobs run
        // ahead has more room.
        let shared = LibraRisk {
            spare_is_shared: true,
            ..LibraRisk::default()
        };
        let request = Request::single(hard(60.0, 100.0));
        assert!(shared.offer(&&node(&[hard(3.0, 10.0)]), &request).is_ok());
    }

    proptest! {
        /// The short cut says no only where the whole projection does.
        #[test]
        fn what_is_certain_without_a_projection_is_so_with_one(
            drawn in proptest::collection::vec((0.01f64..1.6, 1.0f64..100.0, 1u32..3), 2..7),
            capacity in prop_oneof![Just(1.0f64), Just(2.0)],
            alike: bool,
            spare_is_shared: bool,
        ) {
            let mut overload = Overload::default();
            let mut jobs: Vec<Projected> = drawn
                .iter()
                .map(|&(share, deadline, slots)| {
                    let deadline = if alike { 10.0 } else { deadline };
                    let slots = f64::from(slots);
                    overload.add(share * deadline, deadline, slots);
                    Projected { slots, work: share * deadline, deadline, ..Projected::default() }
                })
                .collect();
            let stopped = project(&mut jobs, capacity, spare_is_shared);
            if let Some(delay) = overload.certain_risk(capacity) {
                prop_assert!(stopped || risk(&jobs) > NO_RISK, "{jobs:?}");
                let late = jobs.iter().map(|job| job.finish - job.deadline).fold(0.0, f64::max);
                prop_assert!(stopped || delay <= late * (1.0 + 1e-9), "{delay} {late}");
            }
        }
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
