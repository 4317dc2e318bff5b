//! What all benchmarks have in common: a clock that other work on the machine does not move, results that `scripts/bench-compare` reads, and
//! what the machine itself takes for the least of the work.

// Each benchmark uses some of it.
#![allow(dead_code)]

use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;

/// The same numbers in each run.
pub struct Random(pub u64);

impl Random {
    /// From 0 to below 1.
    pub fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() * end as f64) as usize
    }
}

/// Processor time of this thread, in nanoseconds.
pub fn used() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

/// Nanoseconds of processor time, the clock's own left out.
pub fn nanoseconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = used();
    let done = work();
    ((used() - start - clock()).max(0.0), done)
}

/// What reading the clock twice takes by itself, in nanoseconds.
pub fn clock() -> f64 {
    use std::sync::OnceLock;
    static CLOCK: OnceLock<f64> = OnceLock::new();
    *CLOCK.get_or_init(|| {
        let mut times: Vec<f64> = (0..1_001).map(|_| -(used() - used())).collect();
        part(&mut times, 0.5)
    })
}

/// The value below which this part of all is; sorts them.
pub fn part(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    match values {
        [] => f64::NAN,
        values => values[((values.len() - 1) as f64 * part) as usize],
    }
}

/// Median of so many runs, in nanoseconds.
pub fn median(runs: usize, mut work: impl FnMut()) -> f64 {
    work();
    let mut times: Vec<f64> = (0..runs).map(|_| nanoseconds(&mut work).0).collect();
    part(&mut times, 0.5)
}

/// A result, for people and for `scripts/bench-compare`: a name without spaces, nanoseconds, and the machine's limit for it, if it has one.
pub fn result(name: &str, nanoseconds: f64, limit: Option<f64>) {
    let limit = limit.map_or(String::new(), |limit| {
        let ratio = nanoseconds / limit;
        format!("   {ratio:>8.1} x limit of {} us", microseconds(limit))
    });
    println!("= {name:<58} {:>12} us{limit}", microseconds(nanoseconds));
}

fn microseconds(nanoseconds: f64) -> String {
    format!("{:.3}", nanoseconds / 1e3)
}

/// The limit of whatever looks at so much memory once: it is read from one end to the other, and one number of each record is divided by
/// another. `record`: bytes of each. Nanoseconds, median of some runs.
pub fn scan(bytes: usize, record: usize) -> f64 {
    let words = (record / 8).max(2);
    let memory: Vec<f64> = (0..bytes / 8).map(|word| 1.0 + word as f64).collect();
    median(31, || {
        black_box(scan_over(black_box(&memory), words));
    })
}

/// Every word is read: they are taken together as bits, which costs next to nothing beside reading them.
#[inline(never)]
fn scan_over(memory: &[f64], words: usize) -> (f64, u64) {
    let (mut sum, mut bits) = (0.0, 0);
    for record in memory.chunks_exact(words) {
        sum += record[0] / record[1];
        for word in record {
            bits ^= word.to_bits();
        }
    }
    (sum, bits)
}
