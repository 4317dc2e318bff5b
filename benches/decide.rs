//! What a decision costs as C asks for it: the stateless entry point, and the book. Processor time; the limit of the former is a scan over the
//! same bytes with one division for each job.
//!
//! `cargo bench --bench decide`; `-- 10000` measures the stateless entry point on so many nodes alone, for a profile.

// A counting allocator, and the C ABI called as C calls it.
#![allow(unsafe_code)]

mod common;

use common::{Random, nanoseconds, part, result, scan};
use libra::header as c;
use libra::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CString;
use std::hint::black_box;
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

const RUNS: usize = 31;

fn job(estimate: f64, deadline: f64, chunks: u32) -> c::libra_job {
    c::libra_job {
        size: size_of::<c::libra_job>(),
        estimate,
        deadline,
        budget: f64::INFINITY,
        penalty_rate: 0.0,
        memory_per_chunk: 0,
        chunks,
        processors_per_chunk: 1,
        deadline_type: 0,
        scatter: 0,
    }
}

fn blank() -> c::libra_decision {
    // SAFETY: numbers and pointers.
    let mut blank: c::libra_decision = unsafe { std::mem::zeroed() };
    blank.size = size_of::<c::libra_decision>();
    blank
}

/// Median nanoseconds of several runs, and allocations of one.
fn measure(mut work: impl FnMut()) -> (f64, u64) {
    work();
    let before = ALLOCATIONS.get();
    work();
    let allocations = ALLOCATIONS.get() - before;
    let mut times: Vec<f64> = (0..RUNS).map(|_| nanoseconds(&mut work).0).collect();
    (part(&mut times, 0.5), allocations)
}

fn stateless(node_count: usize, jobs_per_node: usize) {
    let mut random = Random(7);
    let runs: Vec<c::libra_running_job> = (0..node_count * jobs_per_node)
        .map(|_| {
            let deadline = 200.0 + 800.0 * random.next();
            c::libra_running_job {
                size: size_of::<c::libra_running_job>(),
                estimate: deadline * 0.15 * random.next().max(0.01),
                deadline,
                cput: 0.0,
                walltime: 100.0 * random.next(),
                share: 0.1,
                memory: 1 << 20,
                slots: 1,
                reserved: 0,
            }
        })
        .collect();
    let nodes: Vec<c::libra_node> = runs
        .chunks(jobs_per_node)
        .map(|runs| c::libra_node {
            size: size_of::<c::libra_node>(),
            processors: 2.0,
            rating: 1.0,
            memory: 1 << 34,
            jobs: runs.as_ptr(),
            job_count: runs.len(),
            available: 1,
            reserved: 0,
        })
        .collect();
    let mut decision = blank();
    let bytes = size_of_val(&runs[..]) + size_of_val(&nodes[..]);
    let limit = scan(bytes, size_of::<c::libra_running_job>());
    for (what, asked, expected) in [
        ("accept-1", job(10.0, 40.0, 1), 1),
        ("accept-64", job(10.0, 40.0, 64), 1),
        (
            "accept-2-on-each",
            job(10.0, 40.0, 2 * node_count as u32),
            1,
        ),
        ("refuse-60000-chunks", job(39.0, 40.0, 60_000), 0),
        ("refuse-deadline", job(50.0, 40.0, 1), 0),
    ] {
        let (nanoseconds, allocations) = measure(|| {
            // SAFETY: all as large as they say.
            let code = unsafe {
                accept_reject_all_nodes(
                    black_box(&asked),
                    nodes.as_ptr(),
                    nodes.len(),
                    &mut decision,
                )
            };
            assert_eq!(code, expected);
        });
        let name = format!("stateless-{node_count}x{jobs_per_node}/{what}");
        result(&name, nanoseconds, Some(limit));
        if allocations > 0 {
            println!("  {allocations} allocations");
        }
    }
}

fn book(node_count: usize, jobs: usize) {
    let mut handle = ptr::null_mut();
    // SAFETY: NULL is the default configuration.
    assert_eq!(unsafe { libra_book_open(ptr::null(), &mut handle) }, 0);
    let node = c::libra_node {
        size: size_of::<c::libra_node>(),
        processors: 16.0,
        rating: 1.0,
        memory: u64::MAX,
        jobs: ptr::null(),
        job_count: 0,
        available: 1,
        reserved: 0,
    };
    for index in 0..node_count {
        let name = CString::new(format!("n{index}")).expect("no NUL");
        // SAFETY: an open book, a string, a node.
        let code = unsafe { libra_book_set_node(handle, name.as_ptr(), &node) };
        assert_eq!(code, 0);
    }
    let mut random = Random(11);
    let mut decision = blank();
    let mut admit = |now: f64, bind: bool| {
        let asked = job(
            100.0 + 1000.0 * random.next(),
            2000.0 + 2000.0 * random.next(),
            1,
        );
        let (time, code) = nanoseconds(|| {
            // SAFETY: an open book; structures as large as they say.
            unsafe { libra_book_admit(handle, &asked, now, &mut decision) }
        });
        assert_eq!(code, 1);
        if bind {
            let id = CString::new(format!("{}", decision.token)).expect("no NUL");
            // SAFETY: an open book and a string.
            let code = unsafe { libra_book_bind(handle, decision.token, id.as_ptr(), now) };
            assert_eq!(code, 0);
            // SAFETY: the same. As on a cluster, where an accepted job starts at once.
            assert_eq!(unsafe { libra_book_started(handle, id.as_ptr(), now) }, 0);
        }
        time
    };
    for _ in 0..jobs {
        admit(0.0, true);
    }
    let mut times: Vec<f64> = (0..10_000)
        .map(|i| admit(1.0 + f64::from(i) * 1e-3, true))
        .collect();
    for (name, of_all) in [("p50", 0.5), ("p99", 0.99)] {
        let name = format!("libra_book_admit-{node_count}x{jobs}/accept/{name}");
        result(&name, part(&mut times, of_all), None);
    }
    let refused = job(10.0, 9.0, 1);
    let (nanoseconds, _) = measure(|| {
        // SAFETY: an open book; structures as large as they say.
        let code = unsafe { libra_book_admit(handle, &refused, 20.0, &mut decision) };
        assert_eq!(code, 0);
    });
    let name = format!("libra_book_admit-{node_count}x{jobs}/refuse-deadline");
    result(&name, nanoseconds, None);
    // SAFETY: its last use.
    unsafe { libra_book_close(handle) };
}

fn main() {
    // `cargo test --benches` runs this too, and wants no measurements.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    if !measuring {
        stateless(128, 4);
        return;
    }
    if let Some(nodes) = std::env::args().find_map(|argument| argument.parse().ok()) {
        stateless(nodes, 10);
        return;
    }
    stateless(128, 4);
    stateless(1_000, 4);
    stateless(10_000, 10);
    book(10_000, 100_000);
}
