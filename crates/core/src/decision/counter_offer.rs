//! What would be accepted instead of a refused request: the earliest deadline at this budget, the
//! smallest budget at this deadline, fewer processors with the estimate that they need, fewer jobs; on one host another class of
//! service ([`super::service`]).
//!
//! Invariants:
//! - Every counter-offer, submitted as is against the same cluster, is accepted; each one is judged
//!   before it is made.
//! - An offer never plans less work than was asked for: on fewer processors the estimate of each is
//!   longer by as much. Only of an array jobs are left out, whole ones.
//!
//! The search knows nothing about policies: it asks the same question with other values. Amounts
//! are rounded outward to figures that a person would type.

use super::TOLERANCE;
use super::class::Class;
use super::job::{LARGEST_AMOUNT, LONGEST, Request};
use super::node::{Cluster, NodeView};
use super::node_index::Search;

/// One change that makes the request acceptable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CounterOffer {
    /// The earliest deadline at this budget, in steps of 0.1 s below 100 s and 1 s above.
    Deadline {
        /// Seconds after submission.
        deadline: f64,
        /// What the job costs then, credits.
        price: f64,
    },
    /// The smallest budget at this deadline, in steps of 0.01 credits.
    Budget {
        /// Credits.
        budget: f64,
    },
    /// Fewer chunks, or fewer processors of the one chunk, and the whole work on them. Whether the
    /// job's work can be spread so only its user knows.
    Processors {
        /// Chunks.
        chunks: u32,
        /// Processors in each.
        processors_per_chunk: u32,
        /// Seconds on each processor: those that were asked for, times the processors that were
        /// asked for, divided by those that are offered, rounded up.
        estimate: f64,
        /// What the job costs then, credits.
        price: f64,
    },
    /// Fewer jobs of an array, each as it was asked for.
    Jobs {
        /// Jobs.
        jobs: u32,
        /// Chunks of all of them together.
        chunks: u32,
        /// What they cost together, credits.
        price: f64,
    },
    /// The job as it is, in another class of service.
    Class {
        /// The class.
        class: Class,
        /// What the job costs then, credits.
        price: f64,
    },
}

impl CounterOffer {
    /// What the job costs if it is taken, credits; None if the offer is a budget.
    pub fn price(&self) -> Option<f64> {
        match *self {
            CounterOffer::Budget { .. } => None,
            CounterOffer::Deadline { price, .. }
            | CounterOffer::Processors { price, .. }
            | CounterOffer::Jobs { price, .. }
            | CounterOffer::Class { price, .. } => Some(price),
        }
    }

    /// The request changed by this offer; for [`CounterOffer::Jobs`], that of all jobs together.
    pub fn apply(&self, request: &Request) -> Request {
        let mut changed = *request;
        match *self {
            CounterOffer::Deadline { deadline, .. } => changed.terms.deadline = deadline,
            CounterOffer::Budget { budget } => changed.terms.budget = budget,
            CounterOffer::Processors {
                chunks,
                processors_per_chunk,
                estimate,
                ..
            } => {
                changed.shape.chunks = chunks;
                changed.shape.processors_per_chunk = processors_per_chunk;
                changed.terms.estimate = estimate;
            }
            CounterOffer::Jobs { chunks, .. } => changed.shape.chunks = chunks,
            CounterOffer::Class { class, .. } => changed.terms.class = class,
        }
        changed
    }
}

/// The decision to be searched along: what would be accepted, and what things cost.
pub(super) struct Question<'a> {
    /// The price of a request that would be accepted; its values were checked.
    pub accepts: &'a dyn Fn(&Request) -> Option<f64>,
    /// What a request costs, accepted or not.
    pub price: &'a dyn Fn(&Request) -> f64,
    /// The processors that there are.
    pub capacity: &'a dyn Fn() -> Capacity,
    /// Part by which estimates are stretched, see [`super::admission::Admission::estimate_margin`].
    pub margin: f64,
    /// Whether a job may be taken for a larger budget than it costs that is refused for less.
    pub weighs_budgets: bool,
}

/// The processors of the nodes that take new jobs, whatever runs there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Capacity {
    /// Of the largest node.
    largest: f64,
    /// Of all nodes together.
    total: f64,
    /// Rating of the slowest node.
    slowest: f64,
}

impl Capacity {
    const NONE: Capacity = Capacity {
        largest: 0.0,
        total: 0.0,
        slowest: 0.0,
    };

    pub fn of<C: Cluster + ?Sized>(cluster: &C) -> Capacity {
        let summed = |search: Search<'_>| search.nodes.processors().filter(|_| search.all);
        if let Some((largest, total, slowest)) = cluster.index().and_then(summed) {
            return Capacity {
                largest,
                total,
                slowest,
            };
        }
        let nodes = (0..cluster.len()).filter_map(|index| cluster.node(index));
        let none = Capacity {
            slowest: f64::INFINITY,
            ..Capacity::NONE
        };
        nodes.fold(none, |all, node| {
            let processors = node.spec().processors;
            Capacity {
                largest: all.largest.max(processors),
                total: all.total + processors,
                slowest: all.slowest.min(node.spec().rating),
            }
        })
    }

    /// Returns true if there are so many, one for each process. A node of less than one is a processor all the same.
    fn has(&self, chunks: u32, processors_per_chunk: u32) -> bool {
        let slots = f64::from(chunks) * f64::from(processors_per_chunk);
        f64::from(processors_per_chunk) <= self.largest.max(1.0) && slots <= self.total.max(1.0)
    }
}

/// All counter-offers to a request that was refused and whose values are in range. `jobs`: it asks for
/// so many jobs of an array together, whose chunks are all alike.
pub(super) fn find(question: &Question<'_>, request: &Request, jobs: u32) -> Vec<CounterOffer> {
    let smaller = match jobs {
        0 | 1 => question.fewer_processors(request),
        jobs => question.fewer_jobs(request, jobs),
    };
    [
        question.earliest_deadline(request),
        question.smallest_budget(request),
        smaller,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The smallest budget for which a request would be accepted whatever its own says, in steps of 0.01 credits; None if it is
/// no matter of budgets. `accepts`: the price of a request that would be accepted; `price`: of one that need not be.
/// `weighs_budgets`: see [`super::policy::Policy::weighs_budgets`].
pub fn budget_needed(
    accepts: &dyn Fn(&Request) -> Option<f64>,
    price: f64,
    weighs_budgets: bool,
    request: &Request,
) -> Option<f64> {
    let mut free = *request;
    free.terms.budget = 0.0;
    let question = Question {
        accepts,
        price: &|_| price,
        capacity: &|| Capacity::NONE,
        margin: 0.0,
        weighs_budgets,
    };
    if question.accepts(&free).is_some() {
        return Some(0.0);
    }
    match question.smallest_budget(&free)? {
        CounterOffer::Budget { budget } => Some(budget),
        _ => None,
    }
}

/// The smallest budget that a person would type for this price.
pub fn budget_for(price: f64) -> f64 {
    let budget = (price * 100.0).ceil() / 100.0;
    // Above 2^53 hundredths the rounding may fall short of the price; such a sum stands as it is.
    if budget < price { price } else { budget }
}

/// Deadlines up to this many seconds are offered in tenths of a second, longer ones in seconds.
const FINE_UNTIL: f64 = 100.0;

/// A deadline for which less than this of a processor would do is not offered: where all nodes are full that is what sums of shares may be off by
/// ([`TOLERANCE`] of each node), and 6 s of work would be done in two centuries.
const LEAST_SHARE: f64 = 1e-6;

impl Question<'_> {
    /// The price of a request that would be accepted.
    fn accepts(&self, request: &Request) -> Option<f64> {
        request.check().ok()?;
        (self.accepts)(request)
    }

    fn earliest_deadline(&self, request: &Request) -> Option<CounterOffer> {
        let with = |deadline: f64| {
            let mut changed = *request;
            changed.terms.deadline = deadline;
            changed
        };
        // No deadline helps where the longest does not: price and shares only fall with it.
        self.accepts(&with(LONGEST))?;
        let mut refused = request.terms.deadline;
        let mut accepted = refused;
        loop {
            accepted = (accepted * 2.0).min(LONGEST);
            if self.accepts(&with(accepted)).is_some() {
                break;
            }
            if accepted >= LONGEST {
                return None;
            }
            refused = accepted;
        }
        // Bisect on the grid of deadlines that a person would type; it gets coarser at FINE_UNTIL, so
        // the two must lie on one side of that.
        if refused < FINE_UNTIL && FINE_UNTIL < accepted {
            match self.accepts(&with(FINE_UNTIL)) {
                Some(_) => accepted = FINE_UNTIL,
                None => refused = FINE_UNTIL,
            }
        }
        let step = if accepted <= FINE_UNTIL { 0.1 } else { 1.0 };
        let on_grid = |steps: f64| if step < 1.0 { steps / 10.0 } else { steps };
        let (mut low, mut high) = ((refused / step).floor(), (accepted / step).ceil());
        // None if the grid's end lies beyond the longest deadline.
        self.accepts(&with(on_grid(high)))?;
        while high - low > 1.0 {
            let middle = ((low + high) / 2.0).floor();
            if self.accepts(&with(on_grid(middle))).is_some() {
                high = middle;
            } else {
                low = middle;
            }
        }
        let deadline = on_grid(high);
        if request.terms.estimate / deadline < LEAST_SHARE {
            return None;
        }
        let price = self.accepts(&with(deadline))?;
        Some(CounterOffer::Deadline { deadline, price })
    }

    fn smallest_budget(&self, request: &Request) -> Option<CounterOffer> {
        let asked = request.terms.budget;
        let with = |budget: f64| {
            let mut changed = *request;
            changed.terms.budget = budget;
            changed
        };
        let price = (self.price)(request);
        if price > asked {
            let budget = budget_for(price);
            if budget > LARGEST_AMOUNT {
                return None;
            }
            if self.accepts(&with(budget)).is_some() {
                return Some(CounterOffer::Budget { budget });
            }
        }
        if !self.weighs_budgets || asked >= LARGEST_AMOUNT {
            return None;
        }
        // More than it costs: what it brings has to outweigh what others lose.
        let on_grid = |steps: f64| steps / 100.0;
        let most = LARGEST_AMOUNT * 100.0;
        let mut low = (asked.max(price) * 100.0).floor();
        let mut high = low.max(1.0);
        loop {
            high = (high * 2.0).min(most);
            if self.accepts(&with(on_grid(high))).is_some() {
                break;
            }
            if high >= most {
                return None;
            }
            low = high;
        }
        // Of twelve figures the rest is no matter, and beyond 2^53 there is no middle.
        while high - low > (high * 1e-12).max(1.0) {
            let middle = ((low + high) / 2.0).floor();
            if self.accepts(&with(on_grid(middle))).is_some() {
                high = middle;
            } else {
                low = middle;
            }
        }
        let budget = on_grid(high);
        Some(CounterOffer::Budget { budget })
    }

    /// The most of those processors that would do, the work being the same: too many do not fit, too few do not end in time.
    fn fewer_processors(&self, request: &Request) -> Option<CounterOffer> {
        let asked = request.shape;
        if asked.slots() < 2 {
            return None;
        }
        let by_chunks = asked.chunks > 1;
        let with = |count: u32| {
            let mut changed = *request;
            let of = if by_chunks {
                changed.shape.chunks = count;
                asked.chunks
            } else {
                changed.shape.processors_per_chunk = count;
                asked.processors_per_chunk
            };
            let work = request.terms.estimate * f64::from(of);
            changed.terms.estimate = estimate_for(work / f64::from(count));
            changed
        };
        let capacity = (self.capacity)();
        let has = |count: u32| match by_chunks {
            true => capacity.has(count, asked.processors_per_chunk),
            false => capacity.has(1, count),
        };
        // Where a policy takes a deadline below the estimate at its word, the work would not be done by then.
        let in_time = |changed: &Request| {
            let planned = changed.terms.estimate * (1.0 + self.margin);
            planned <= changed.terms.deadline * capacity.slowest * (1.0 + TOLERANCE)
        };
        let offered = |count: u32| {
            let changed = with(count);
            let tried = has(count) && in_time(&changed);
            tried.then(|| self.accepts(&changed)).flatten()
        };
        let asked_for = if by_chunks {
            asked.chunks
        } else {
            asked.processors_per_chunk
        };
        let mut refused = largest(asked_for, &has) + 1;
        // What suits is somewhere in the middle: some are tried one by one from above, then in steps of a quarter.
        let mut suits = None;
        for tried in 0..64 {
            let count = match tried {
                0..16 => refused - 1,
                _ => (refused / 4 * 3).min(refused - 1),
            };
            if count == 0 {
                return None;
            }
            if offered(count).is_some() {
                suits = Some(count);
                break;
            }
            refused = count;
        }
        let above = suits?;
        let fits = above + largest(refused - above, &|more| offered(above + more).is_some());
        let changed = with(fits);
        let price = self.accepts(&changed)?;
        Some(CounterOffer::Processors {
            chunks: changed.shape.chunks,
            processors_per_chunk: changed.shape.processors_per_chunk,
            estimate: changed.terms.estimate,
            price,
        })
    }

    /// As many jobs of an array as would fit, each as it is.
    fn fewer_jobs(&self, request: &Request, jobs: u32) -> Option<CounterOffer> {
        let each = request.shape.chunks / jobs;
        if each == 0 {
            return None;
        }
        let with = |count: u32| {
            let mut changed = *request;
            changed.shape.chunks = each * count;
            changed
        };
        let fits = largest(jobs, &|count| self.accepts(&with(count)).is_some());
        if fits == 0 {
            return None;
        }
        let changed = with(fits);
        let price = self.accepts(&changed)?;
        Some(CounterOffer::Jobs {
            jobs: fits,
            chunks: changed.shape.chunks,
            price,
        })
    }
}

/// The largest number below `end` that suits, where all smaller ones do as well; 0 without asking.
fn largest(end: u32, suits: &dyn Fn(u32) -> bool) -> u32 {
    let (mut yes, mut no) = (0, end);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if suits(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// An estimate of at least so many seconds, such as a person would type: hundredths of a second, tenths above 100 s, four
/// figures below 1 s.
fn estimate_for(seconds: f64) -> f64 {
    let steps = match seconds {
        100.0.. => 10.0,
        1.0.. => 100.0,
        _ => 10f64.powi(3 - seconds.log10().floor() as i32),
    };
    // What is a step already stays it, whatever the division left of it.
    (seconds * steps * (1.0 - 1e-12)).ceil() / steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::admission::Admission;
    use crate::decision::job::{Shape, Terms};
    use crate::decision::node::{JobOnNode, NodeSpec, PlainNode};
    use crate::decision::placement::{self, Placement};
    use crate::decision::policy::{AnyPolicy, LibraSla};
    use crate::decision::refusal::{Category, Refusal};
    use crate::decision::share::ShareRule;

    fn node(processors: f64, memory: u64) -> PlainNode {
        let spec = NodeSpec {
            processors,
            rating: 1.0,
            memory,
        };
        PlainNode::new(spec, Vec::new(), ShareRule::Exact)
    }

    fn processors(estimate: f64, deadline: f64, count: u32) -> Request {
        let mut request = Request::single(Terms::hard(estimate, deadline, 1e6));
        request.shape.processors_per_chunk = count;
        request
    }

    fn refused(admission: &Admission, nodes: &[PlainNode], request: &Request) -> Refusal {
        let mut scratch =
            vec![Placement::EMPTY; placement::room(&admission.policy, request, nodes.len())];
        let judged = admission.judge(nodes, request, &mut scratch);
        *judged.expect_err("it is refused")
    }

    /// What is offered, with prices to hundredths of a credit.
    fn offers(refusal: &Refusal) -> Vec<CounterOffer> {
        let cents = |price: f64| (price * 100.0).round() / 100.0;
        let mut offers = refusal.counter_offers.clone();
        for offer in &mut offers {
            match offer {
                CounterOffer::Budget { .. } => {}
                CounterOffer::Deadline { price, .. }
                | CounterOffer::Processors { price, .. }
                | CounterOffer::Jobs { price, .. }
                | CounterOffer::Class { price, .. } => *price = cents(*price),
            }
        }
        offers
    }

    fn later(deadline: f64, price: f64) -> CounterOffer {
        CounterOffer::Deadline { deadline, price }
    }

    /// Two processes of 4 s are 8 s of work, which no processor does in 5 s.
    #[test]
    fn where_the_work_does_not_fit_on_fewer_processors_none_are_offered() {
        let nodes = [node(1.0, NodeSpec::MEMORY_UNLIMITED)];
        let refusal = refused(&Admission::default(), &nodes, &processors(4.0, 5.0, 2));
        assert_eq!(offers(&refusal), [later(8.0, 9.0)]);
    }

    /// Two halves, or one that is late and claims all of it: what is left is what sums may be off by, and nobody waits for that for centuries.
    #[test]
    fn a_full_node_offers_no_deadline() {
        for (count, estimate) in [(2, 5.0), (1, 10.0)] {
            let job = JobOnNode {
                terms: Terms::hard(estimate, 10.0, 1e6),
                slots: 1,
                cput: 0.0,
                walltime: 0.0,
                held_share: 0.0,
                memory: 0,
                delay: 0.0,
            };
            let spec = node(1.0, NodeSpec::MEMORY_UNLIMITED).spec;
            let full = PlainNode::new(spec, vec![job; count], ShareRule::Exact);
            for policy in [AnyPolicy::default(), AnyPolicy::LibraSla(LibraSla)] {
                let admission = Admission {
                    policy,
                    ..Admission::default()
                };
                let refusal = refused(
                    &admission,
                    std::slice::from_ref(&full),
                    &processors(6.0, 12.0, 1),
                );
                assert_eq!(refusal.reason.category(), Category::Share, "{policy:?}");
                assert_eq!(offers(&refusal), [], "{policy:?}");
            }
        }
    }

    #[test]
    fn more_processors_than_there_are_are_never_offered() {
        let nodes = [node(2.0, NodeSpec::MEMORY_UNLIMITED)];
        let refusal = refused(&Admission::default(), &nodes, &processors(2.0, 20.0, 64));
        assert_eq!(offers(&refusal), [later(64.0, 130.0)]);
    }

    #[test]
    fn fewer_chunks_come_with_the_estimate_that_they_need() {
        let memory = [node(4.0, 300), node(4.0, 0)];
        let mut request = processors(10.0, 50.0, 2);
        request.shape = Shape {
            chunks: 7,
            memory_per_chunk: 100,
            ..request.shape
        };
        // Three chunks have memory: 140 s of work on six processors.
        let refusal = refused(&Admission::default(), &memory, &request);
        let fewer = CounterOffer::Processors {
            chunks: 3,
            processors_per_chunk: 2,
            estimate: 23.34,
            price: 142.84,
        };
        assert_eq!(offers(&refusal), [fewer]);
        request.terms.deadline = 20.0;
        let refusal = refused(&Admission::default(), &memory, &request);
        assert_eq!(offers(&refusal), [], "23.34 s are not done in 20 s");
    }

    #[test]
    fn of_an_array_jobs_are_left_out_and_none_gets_longer() {
        let nodes = [node(2.0, NodeSpec::MEMORY_UNLIMITED)];
        let mut all = processors(10.0, 20.0, 1);
        all.shape.chunks = 6;
        let admission = <Admission>::default();
        let mut scratch = vec![Placement::EMPTY; placement::room(&admission.policy, &all, 1)];
        let judged = admission.judge_jobs(&nodes[..], &all, 6, &mut scratch);
        let refusal = judged.expect_err("four halves fit");
        let fewer = CounterOffer::Jobs {
            jobs: 4,
            chunks: 4,
            price: 42.0,
        };
        assert_eq!(offers(&refusal), [later(30.0, 62.0), fewer]);
    }

    #[test]
    fn where_a_budget_is_weighed_a_larger_one_is_offered() {
        let admission = Admission {
            policy: AnyPolicy::LibraSla(LibraSla),
            ..Admission::default()
        };
        let mut node = node(1.0, NodeSpec::MEMORY_UNLIMITED);
        // Two of 0.4: the one that brings less would yield, and be late.
        for budget in [100.0, 50.0] {
            node.jobs.push(JobOnNode {
                terms: Terms {
                    deadline_type: crate::decision::job::DeadlineType::Soft,
                    penalty_rate: 5.0,
                    ..Terms::hard(4.0, 10.0, budget)
                },
                slots: 1,
                cput: 0.0,
                walltime: 0.0,
                held_share: 0.0,
                memory: 0,
                delay: 0.0,
            });
        }
        let nodes = [node];
        let request = Request::single(Terms::hard(10.0, 20.0, 11.0));
        let refusal = refused(&admission, &nodes, &request);
        assert_eq!(refusal.reason.category(), Category::Return);
        let budget = (refusal.counter_offers.iter()).find_map(|offer| match offer {
            CounterOffer::Budget { budget } => Some(*budget),
            _ => None,
        });
        let budget = budget.expect("one that outweighs the penalties");
        let accepted = |budget: f64| {
            let mut changed = request;
            changed.terms.budget = budget;
            let mut scratch = [Placement::EMPTY; 1];
            admission
                .accepts(&nodes[..], &changed, &mut scratch)
                .is_some()
        };
        assert!(budget > 11.0 && accepted(budget) && !accepted(budget - 0.01));
    }

    #[test]
    fn estimates_are_such_as_one_would_type_and_never_less() {
        for (seconds, typed) in [
            (8.0, 8.0),
            (40.0 / 3.0, 13.34),
            (1000.0 / 3.0, 333.4),
            (0.1 * 3.0, 0.3),
            (0.001_234_56, 0.001_235),
            (99.999, 100.0),
        ] {
            assert_eq!(estimate_for(seconds), typed);
        }
    }
}
