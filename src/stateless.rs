//! The two questions of the 2004 paper, straight over the caller's arrays, and the list of terms.

use super::answer::{self, Answer};
use super::enter;
use super::fault::Fault;
use super::header as c;
use super::pointers::{Array, OutStruct, read, string};
use libra_core::decision::admission::{Admission, affordable};
use libra_core::decision::class::Class;
use libra_core::decision::counter_offer;
use libra_core::decision::job::{DeadlineType, LONGEST, OutOfRange, Request, SHORTEST, Terms};
use libra_core::decision::node::{Cluster, JobOnNode, NodeSpec, NodeView};
use libra_core::decision::placement::{self, Placement};
use libra_core::decision::policy::Libra;
use libra_core::decision::pricing::{Linear, Pricing};
use libra_wording::terms;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};

/// Nodes that a job may use without memory being allocated.
const ON_STACK: usize = 64;

/// See `libra.h`.
///
/// # Safety
/// None needed; unsafe because the header's functions all are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn req_budget(budget: f64, estimate: f64, deadline: f64) -> c_int {
    enter(|| {
        let request = Request::single(Terms::hard(estimate, deadline, budget));
        request.check()?;
        Ok(affordable(Linear::default().least(&request), budget).into())
    })
}

/// See `libra.h`.
///
/// # Safety
/// Pointers that are not NULL point to as much as sizes, counts and capacities say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept_reject_all_nodes(
    jinfo: *const c::libra_job,
    nodes: *const c::libra_node,
    node_count: usize,
    decision: *mut c::libra_decision,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let job = unsafe { read(jinfo) }?;
        // SAFETY: the caller's promise.
        let nodes = unsafe { Array::open(nodes, node_count) }?;
        // SAFETY: the caller's promise.
        let answer = unsafe { Answer::open(decision) }?;
        decide(&answer::request(&job)?, nodes, &answer)
    })
}

fn decide(
    request: &Request,
    nodes: Array<'_, c::libra_node>,
    answer: &Answer,
) -> Result<c_int, Fault> {
    // Libra and nothing else: the function has no configuration.
    let admission = Admission::<Libra, Linear>::default();
    let price = admission.pricing.least(request);
    let within_budget = affordable(price, request.terms.budget);
    // The budget does not decide here; it binds the counter-offers where the job keeps to it.
    let mut judged = *request;
    if !within_budget {
        judged.terms.budget = f64::INFINITY;
    }

    let mut on_stack = [Placement::EMPTY; ON_STACK];
    let mut on_heap = Vec::new();
    let room = placement::room(&admission.policy, &judged, nodes.len());
    let scratch = if room <= ON_STACK {
        &mut on_stack[..room]
    } else {
        with_room(&mut on_heap, room)?;
        on_heap.resize(room, Placement::EMPTY);
        &mut on_heap[..]
    };

    let cluster = Callers {
        nodes,
        fault: RefCell::new(None),
    };
    let accepted = admission.accepts(&cluster, &judged, scratch);
    if let Some(fault) = cluster.fault.take() {
        return Err(fault);
    }
    if let Some(acceptance) = accepted {
        let places = &scratch[..acceptance.nodes];
        answer.room_for(places.len())?;
        let counter_budget = if within_budget {
            f64::NAN
        } else {
            counter_offer::budget_for(price)
        };
        return Ok(answer.accept(0, price, within_budget, counter_budget, places));
    }
    // The search for counter-offers asks dozens of times; it gets the sums, not the jobs.
    let sums = Sums::of(&cluster)?;
    match admission.judge(&sums, &judged, scratch) {
        Err(refusal) => answer.refuse(price, within_budget, &refusal, |node| {
            format!("node {node}")
        }),
        Ok(_) => Err(Fault::new(
            c::LIBRA_E_INTERNAL,
            "the nodes changed while they were looked at",
        )),
    }
}

fn with_room<T>(vec: &mut Vec<T>, room: usize) -> Result<(), Fault> {
    vec.try_reserve_exact(room)
        .map_err(|_| Fault::new(c::LIBRA_E_MEMORY, "out of memory"))
}

/// The caller's nodes as a decision sees them. The first value that is out of range stops the
/// looking and waits in `fault`.
struct Callers<'a> {
    nodes: Array<'a, c::libra_node>,
    fault: RefCell<Option<Fault>>,
}

/// One of them, its jobs summed up.
struct Summed<'a> {
    spec: NodeSpec,
    committed: f64,
    memory_committed: u64,
    jobs: Array<'a, c::libra_running_job>,
}

impl Cluster for Callers<'_> {
    type Node<'b>
        = Summed<'b>
    where
        Self: 'b;

    fn len(&self) -> usize {
        self.nodes.len()
    }

    #[inline(always)]
    fn node(&self, index: usize) -> Option<Summed<'_>> {
        match self.sum_up(index) {
            Ok(node) => node,
            Err(fault) => {
                self.keep(index, fault);
                None
            }
        }
    }
}

impl<'a> Callers<'a> {
    #[cold]
    fn keep(&self, index: usize, fault: Fault) {
        let mut first = self.fault.borrow_mut();
        if first.is_none() {
            *first = Some(fault.within(format_args!("node {index}")));
        }
    }

    /// Inlined, with what it calls: called, it would cost twice the arithmetic.
    #[inline(always)]
    fn sum_up(&self, index: usize) -> Result<Option<Summed<'a>>, Fault> {
        let node = self.nodes.get(index)?;
        let (spec, available) = answer::node(node)?;
        // SAFETY: the promise of accept_reject_all_nodes about a node's jobs.
        let jobs = unsafe { Array::open(node.jobs, node.job_count) }?;
        if !available {
            return Ok(None);
        }
        let mut committed = 0.0;
        let mut memory_committed = 0u64;
        for index in 0..jobs.len() {
            let job = jobs.get(index)?;
            if !sound(job) {
                return Err(unsound(index, job));
            }
            committed += f64::from(job.slots) * on_node(job).need(spec.rating).share;
            memory_committed = memory_committed.saturating_add(job.memory);
        }
        Ok(Some(Summed {
            spec,
            committed,
            memory_committed,
            jobs,
        }))
    }
}

impl NodeView for Summed<'_> {
    #[inline(always)]
    fn spec(&self) -> NodeSpec {
        self.spec
    }

    #[inline(always)]
    fn committed(&self) -> f64 {
        self.committed
    }

    #[inline(always)]
    fn memory_committed(&self) -> u64 {
        self.memory_committed
    }

    fn for_each_job(&self, mut show: impl FnMut(&JobOnNode)) {
        for index in 0..self.jobs.len() {
            // All of them were read once before.
            if let Ok(job) = self.jobs.get(index) {
                show(&on_node(job));
            }
        }
    }
}

#[inline(always)]
fn on_node(job: &c::libra_running_job) -> JobOnNode {
    JobOnNode {
        terms: Terms {
            estimate: job.estimate,
            deadline: job.deadline,
            budget: f64::INFINITY,
            deadline_type: DeadlineType::Hard,
            penalty_rate: 0.0,
            class: Class::Deadline,
        },
        slots: job.slots,
        cput: job.cput,
        walltime: job.walltime,
        held_share: job.share,
        memory: job.memory,
        delay: 0.0,
    }
}

/// Longest processor time or time since submission that is taken, in seconds.
const LONGEST_USED: f64 = 1e12;

/// Returns true if the job can be counted. One expression without branches: this runs for every job of a cluster.
#[inline(always)]
fn sound(job: &c::libra_running_job) -> bool {
    let within = |value: f64, low: f64, high: f64| (value >= low) & (value <= high);
    within(job.estimate, SHORTEST, LONGEST)
        & within(job.deadline, SHORTEST, LONGEST)
        & within(job.cput, 0.0, LONGEST_USED)
        & within(job.walltime, 0.0, LONGEST_USED)
        & within(job.share, 0.0, f64::MAX)
        & (job.slots != 0)
        & (job.reserved == 0)
}

#[cold]
fn unsound(index: usize, job: &c::libra_running_job) -> Fault {
    let out_of_range = |field, value, expected| OutOfRange {
        field,
        value,
        expected,
    };
    let terms = Terms::hard(job.estimate, job.deadline, 0.0);
    let used = "seconds, from 0 to 1e12";
    let fault: Fault = if let Err(error) = terms.check() {
        error.into()
    } else if !(0.0..=LONGEST_USED).contains(&job.cput) {
        out_of_range("cput", job.cput, used).into()
    } else if !(0.0..=LONGEST_USED).contains(&job.walltime) {
        out_of_range("walltime", job.walltime, used).into()
    } else if !(0.0..=f64::MAX).contains(&job.share) {
        out_of_range("share", job.share, "processors per slot, 0 or more").into()
    } else if job.slots == 0 {
        out_of_range("slots", 0.0, "1 or more").into()
    } else {
        match answer::reserved(job.reserved) {
            Err(fault) => fault,
            Ok(()) => Fault::new(c::LIBRA_E_INTERNAL, "a job changed while it was looked at"),
        }
    };
    fault.within(format_args!("job {index}"))
}

/// The sums of a cluster's nodes, copied.
struct Sums<'a>(Vec<Option<Summed<'a>>>);

impl<'a> Sums<'a> {
    fn of(cluster: &Callers<'a>) -> Result<Sums<'a>, Fault> {
        let mut nodes = Vec::new();
        with_room(&mut nodes, cluster.len())?;
        for index in 0..cluster.len() {
            nodes.push(cluster.sum_up(index)?);
        }
        Ok(Sums(nodes))
    }
}

impl<'c> Cluster for Sums<'c> {
    type Node<'b>
        = &'b Summed<'c>
    where
        Self: 'b;

    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn node(&self, index: usize) -> Option<&Summed<'c>> {
        self.0[index].as_ref()
    }
}

impl NodeView for &Summed<'_> {
    #[inline(always)]
    fn spec(&self) -> NodeSpec {
        self.spec
    }

    #[inline(always)]
    fn committed(&self) -> f64 {
        self.committed
    }

    #[inline(always)]
    fn memory_committed(&self) -> u64 {
        self.memory_committed
    }

    fn for_each_job(&self, show: impl FnMut(&JobOnNode)) {
        Summed::for_each_job(self, show);
    }
}

/// See `libra.h`.
///
/// # Safety
/// `text` is NULL or ends with a NUL; `job` is NULL or as large as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libra_parse_terms(text: *const c_char, job: *mut c::libra_job) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (place, mut value) = unsafe { OutStruct::open(job) }?;
        // SAFETY: the caller's promise.
        let text = unsafe { string("text", text) }?;
        let terms = terms::parse(text, &terms::deadline_as_duration)?.complete()?;
        value.estimate = terms.estimate;
        value.deadline = terms.deadline;
        value.budget = terms.budget;
        value.penalty_rate = terms.penalty_rate;
        value.deadline_type = match terms.deadline_type {
            DeadlineType::Hard => c::LIBRA_DEADLINE_HARD as i32,
            DeadlineType::Soft => c::LIBRA_DEADLINE_SOFT as i32,
        };
        place.write(value);
        Ok(0)
    })
}
