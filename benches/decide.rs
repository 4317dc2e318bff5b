//! What a decision costs: the stateless entry point per job looked at, and the book.
//!
//! `cargo bench --bench decide`

// A counting allocator, and the C ABI called as C calls it.
#![allow(unsafe_code)]

use libra::header as c;
use libra::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CString;
use std::hint::black_box;
use std::mem::size_of;
use std::ptr;
use std::time::Instant;

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

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

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
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[RUNS / 2], allocations)
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
    let examined = (node_count * jobs_per_node) as f64;
    for (what, asked, expected) in [
        ("accept", job(10.0, 40.0, 1), 1),
        ("accept, 64 chunks", job(10.0, 40.0, 64), 1),
        (
            "accept, 2 chunks a node",
            job(10.0, 40.0, 2 * node_count as u32),
            1,
        ),
        ("refuse, too many chunks", job(39.0, 40.0, 60_000), 0),
        ("refuse, deadline", job(50.0, 40.0, 1), 0),
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
        println!(
            "{:<16} {what:<24} {:>10.1} us {:>8.2} ns/job {allocations:>4} allocations",
            format!("{node_count} x {jobs_per_node}"),
            nanoseconds / 1e3,
            nanoseconds / examined,
        );
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
        let start = Instant::now();
        // SAFETY: an open book; structures as large as they say.
        let code = unsafe { libra_book_admit(handle, &asked, now, &mut decision) };
        let microseconds = start.elapsed().as_nanos() as f64 / 1e3;
        assert_eq!(code, 1);
        if bind {
            let id = CString::new(format!("{}", decision.token)).expect("no NUL");
            // SAFETY: an open book and a string.
            let code = unsafe { libra_book_bind(handle, decision.token, id.as_ptr(), now) };
            assert_eq!(code, 0);
            // SAFETY: the same. As on a cluster, where an accepted job starts at once.
            assert_eq!(unsafe { libra_book_started(handle, id.as_ptr(), now) }, 0);
        }
        microseconds
    };
    for _ in 0..jobs {
        admit(0.0, true);
    }
    let mut times: Vec<f64> = (0..10_000)
        .map(|i| admit(1.0 + f64::from(i) * 1e-3, true))
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "book: admit on {node_count} nodes with {jobs} jobs: p50 {:.1} us, p99 {:.1} us, max {:.1} us",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let refused = job(10.0, 9.0, 1);
    let (nanoseconds, _) = measure(|| {
        // SAFETY: an open book; structures as large as they say.
        let code = unsafe { libra_book_admit(handle, &refused, 20.0, &mut decision) };
        assert_eq!(code, 0);
    });
    println!(
        "book: refusal with counter-offers: {:.1} us",
        nanoseconds / 1e3
    );
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
    stateless(128, 4);
    stateless(1_000, 4);
    stateless(10_000, 10);
    book(10_000, 100_000);
}
