//! Libra with deadlines in order: what we offer beyond the four papers.
//!
//! A node works through its jobs in the order of their deadlines, and takes a new one where, in
//! that order, all of them still end in time. What a job may need is its estimate, and never more than
//! a processor for each slot until its deadline.
//!
//! Why that is better than proportional shares: a share is a rate, and a sum of rates within the
//! capacity is sufficient but not necessary. A fluid schedule that keeps all deadlines exists if
//! and only if for every deadline d the work that must be done before d fits into capacity × d;
//! working in the order of deadlines finds it (Horn, "Some simple scheduling algorithms", 1974).
//! And a job that is served early leaves early: it is not exposed to what others turn out to need.
//!
//! What estimates say is treated as what it is. A user who asks for a deadline shorter than the
//! estimate must think it possible: where the site allows it ([`LibraAdaptive::unconditional`]), such a job gets whole processors until its
//! deadline, if nobody else needs them. A job that outlives what was planned is taken to need a tenth of what it
//! has used, again and again. Estimates are not corrected by what a user's earlier jobs needed: that
//! admits a little more where there is room and breaks promises where there is none
//! (docs/policies.md has the figures).

use super::fit::most_chunks;
use super::{NodeChoice, Obstacle, Offer, Policy};
use crate::decision::TOLERANCE;
use crate::decision::allotment::Shortage;
use crate::decision::few::Few;
use crate::decision::job::{Request, Shape, Terms};
use crate::decision::node::{JobOnNode, NodeView};
use crate::decision::share::{DeadlineStatus, Need, ShareRule, grace};

/// So many nodes more than it could use are compared for a job of several slots. With fewer, fewer jobs end in time, and with more hardly more (docs/policies.md
/// has the figures), while each takes its time to look at.
pub const COMPARED: usize = 63;

/// A job that has used what was planned is taken to need this part of it again.
const OVERRUN: f64 = 0.1;

/// Deadline order, see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LibraAdaptive {
    /// Whether a deadline shorter than the estimate is refused, and not taken at its word.
    pub unconditional: bool,
}

/// Seconds of work that a slot is taken to need on a node of this rating. A deadline shorter than the
/// estimate is taken at its word, on a reference node.
#[inline(always)]
fn planned(terms: &Terms, rating: f64) -> f64 {
    terms.estimate.min(terms.deadline) / rating
}

/// Seconds of work that a slot is taken to have left on its node.
#[inline(always)]
fn remaining(job: &JobOnNode, rating: f64) -> f64 {
    let planned = planned(&job.terms, rating);
    let left = planned - job.cput;
    if left > 0.0 {
        left
    } else {
        OVERRUN * job.cput.max(planned)
    }
}

/// Seconds since its deadline, of a job that is late.
#[inline(always)]
fn lateness(job: &JobOnNode) -> Option<f64> {
    let late = job.walltime - job.terms.deadline;
    (late > grace(job.terms.deadline)).then_some(late)
}

impl LibraAdaptive {
    /// Seconds of work that each slot of a new job is planned to need on a node of this rating.
    #[inline(always)]
    fn work(&self, terms: &Terms, rating: f64) -> f64 {
        match self.unconditional {
            true => terms.estimate / rating,
            false => planned(terms, rating),
        }
    }
}

/// Work that stands before a deadline.
#[derive(Clone, Copy, Default)]
struct Demand {
    /// Seconds until the deadline.
    deadline: f64,
    /// Processor seconds over all slots.
    work: f64,
    slots: f64,
}

impl Demand {
    /// Processor seconds of it that must be done by `time`: all if its deadline is then or before,
    /// otherwise what its slots cannot do between `time` and its deadline.
    #[inline(always)]
    fn before(&self, time: f64) -> f64 {
        if self.deadline <= time {
            self.work
        } else {
            (self.work - self.slots * (self.deadline - time)).max(0.0)
        }
    }
}

impl Policy for LibraAdaptive {
    fn offer<N: NodeView>(&self, node: &N, request: &Request) -> Result<Offer, Obstacle> {
        let spec = node.spec();
        let terms = &request.terms;
        let most = most_chunks(node, &request.shape)?;
        let mut few = Few::<Demand, 16>::new();
        let mut late = None;
        node.for_each_job(|job| {
            late = late.or(lateness(job));
            let deadline = (job.terms.deadline - job.walltime).max(0.0);
            let slots = f64::from(job.slots);
            few.push(Demand {
                deadline,
                work: slots * remaining(job, spec.rating),
                slots,
            });
        });
        if let Some(delay) = late {
            return Err(Obstacle::Risk { delay });
        }
        let slots = f64::from(request.shape.processors_per_chunk);
        let work = self.work(terms, spec.rating);
        if work > terms.deadline * (1.0 + TOLERANCE) {
            return Err(Obstacle::Slot {
                share: work / terms.deadline,
            });
        }
        let chunk = Demand {
            deadline: terms.deadline,
            work: slots * work,
            slots,
        };
        // The least room that any deadline leaves, in processor seconds, and how many chunks it holds.
        let mut by_time = f64::INFINITY;
        let mut tightest = (0.0, 0.0);
        let mut slack = f64::INFINITY;
        let mut check = |time: f64, demands: &[Demand]| {
            let before: f64 = demands.iter().map(|demand| demand.before(time)).sum();
            let room = spec.processors * time * (1.0 + TOLERANCE) - before;
            let needed = chunk.before(time);
            if needed > 0.0 && room / needed < by_time {
                by_time = room / needed;
                tightest = (room, needed);
            }
            if time >= chunk.deadline {
                slack = slack.min(room - needed);
            }
        };
        let demands = few.items();
        check(chunk.deadline, demands);
        for index in 0..demands.len() {
            check(demands[index].deadline, demands);
        }
        if by_time < 1.0 {
            return Err(Obstacle::Time {
                needed: tightest.1,
                free: tightest.0.max(0.0),
            });
        }
        let share = (work / terms.deadline).min(1.0);
        Ok(Offer {
            chunks: most.min(by_time as u32),
            share,
            loadfree: (spec.processors - node.committed() - share * slots).max(0.0),
            per_chunk: share * slots,
            rank: -slack,
            rank_step: chunk.work,
        })
    }

    /// The nodes that have most processors left over with it: what jobs turn out to need beyond their estimates harms least there, and they are found
    /// without asking all. A job of several slots mostly has some that wait for others: of these nodes it has those with most time to spare before the next
    /// deadlines, by which more such jobs end in time, while those of slots on their own fare the same (figures in docs/policies.md).
    #[inline(always)]
    fn ranks_by_sums(&self) -> Option<NodeChoice> {
        Some(NodeChoice::LeastLoaded)
    }

    #[inline(always)]
    fn compared(&self, shape: &Shape) -> usize {
        match shape.slots() {
            1 => 0,
            _ => COMPARED,
        }
    }

    #[inline(always)]
    fn rank<N: NodeView>(&self, node: &N, request: &Request) -> f64 {
        let spec = node.spec();
        let work = self.work(&request.terms, spec.rating);
        let share = (work / request.terms.deadline).min(1.0);
        let one_more = share * f64::from(request.shape.processors_per_chunk);
        node.committed() - spec.processors + one_more
    }

    fn is_hopeless(&self, request: &Request, fastest: f64) -> bool {
        self.unconditional && request.terms.are_conditional(fastest)
    }

    fn need(&self, job: &JobOnNode, rating: f64) -> Need {
        if lateness(job).is_some() {
            return Need {
                share: 1.0,
                deadline_status: DeadlineStatus::Late,
            };
        }
        let left = job.terms.deadline - job.walltime;
        let share = remaining(job, rating) / left.max(1e-9);
        let deadline_status = if job.cput >= planned(&job.terms, rating) {
            DeadlineStatus::Overrun
        } else if share > 1.0 + 1e-6 {
            DeadlineStatus::AtRisk
        } else {
            DeadlineStatus::OnTrack
        };
        Need {
            share: share.min(1.0),
            deadline_status,
        }
    }

    fn share_rule(&self) -> ShareRule {
        ShareRule::Exact
    }

    fn shortage(&self) -> Shortage {
        Shortage::DeadlineOrder
    }
}
