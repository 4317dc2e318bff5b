//! Accepting allocates nothing: counted, in a program of its own.

// A counting allocator, and the C ABI called as C calls it.
#![allow(unsafe_code)]

use libra::header as c;
use libra::{accept_reject_all_nodes, req_budget};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::mem::size_of;
use std::ptr;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn accepting_allocates_nothing() {
    let run = c::libra_running_job {
        size: size_of::<c::libra_running_job>(),
        estimate: 1.0,
        deadline: 100.0,
        cput: 0.0,
        walltime: 0.0,
        share: 0.0,
        memory: 0,
        slots: 1,
        reserved: 0,
    };
    let runs = [run; 10];
    let node = c::libra_node {
        size: size_of::<c::libra_node>(),
        processors: 1.0,
        rating: 1.0,
        memory: u64::MAX,
        jobs: runs.as_ptr(),
        job_count: runs.len(),
        available: 1,
        reserved: 0,
    };
    let nodes = vec![node; 1000];
    let mut job = c::libra_job {
        size: size_of::<c::libra_job>(),
        estimate: 10.0,
        deadline: 20.0,
        budget: 1e6,
        penalty_rate: 0.0,
        memory_per_chunk: 0,
        chunks: 1,
        processors_per_chunk: 1,
        deadline_type: 0,
        scatter: 0,
    };
    // SAFETY: plain numbers.
    let mut placements: [c::libra_placement; 64] = unsafe { std::mem::zeroed() };
    placements[0].size = size_of::<c::libra_placement>();
    let mut text = [0; 200];
    // SAFETY: numbers and pointers.
    let mut decision: c::libra_decision = unsafe { std::mem::zeroed() };
    decision.size = size_of::<c::libra_decision>();
    decision.placements = placements.as_mut_ptr();
    decision.placement_capacity = placements.len();
    decision.text = text.as_mut_ptr();
    decision.text_capacity = text.len();

    let mut ask = |job: &c::libra_job, expected| {
        // SAFETY: all as large as they say.
        let code =
            unsafe { accept_reject_all_nodes(job, nodes.as_ptr(), nodes.len(), &mut decision) };
        assert_eq!(code, expected);
    };
    // The very first call too: nothing is set up on the heap.
    assert_eq!(allocations(|| ask(&job, 1)), 0);
    for chunks in [1, 2, 63, 64] {
        job.chunks = chunks;
        assert_eq!(allocations(|| ask(&job, 1)), 0, "{chunks} chunks");
    }
    job.scatter = 1;
    assert_eq!(allocations(|| ask(&job, 1)), 0, "scattered");
    // SAFETY: no pointers.
    let budget = || assert_eq!(unsafe { req_budget(15.0, 10.0, 20.0) }, 1);
    assert_eq!(allocations(budget), 0);
    // The counter counts.
    job.chunks = 5000;
    assert!(allocations(|| ask(&job, 0)) > 0);
    let _ = ptr::from_ref(&runs);
}
