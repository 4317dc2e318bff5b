//! How long something took, in fixed buckets from 10 µs to 50 s.

use serde_json::{Value, json};
use std::time::Duration;

/// Upper bounds of the buckets, in nanoseconds; one more bucket has what took longer.
///
/// Verdicts take microseconds, or as long as somebody else holds a lock (20 s at the most); rounds of a host with very many jobs some ten
/// seconds.
pub const BOUNDS: [u64; 21] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    50_000_000_000,
];

/// Times by bucket, and their sum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// Of each bucket alone, the last one for what is beyond all bounds.
    counts: [u64; BOUNDS.len() + 1],
    nanoseconds: u64,
}

impl Histogram {
    /// One that has counted nothing.
    pub const EMPTY: Histogram = Histogram {
        counts: [0; BOUNDS.len() + 1],
        nanoseconds: 0,
    };

    /// Counts one.
    pub fn observe(&mut self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|&bound| took <= bound);
        let count = &mut self.counts[bucket.unwrap_or(BOUNDS.len())];
        *count = count.saturating_add(1);
        self.nanoseconds = self.nanoseconds.saturating_add(took);
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.nanoseconds = self.nanoseconds.saturating_add(other.nanoseconds);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Seconds that all of them took together.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / 1e9
    }

    /// (upper bound in seconds, how many took no longer), upwards; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS.iter().map(|&bound| bound as f64 / 1e9);
        let mut sum = 0u64;
        let sums = self.counts.map(|count| {
            sum = sum.saturating_add(count);
            sum
        });
        bounds.chain([f64::INFINITY]).zip(sums)
    }

    /// `{"buckets": [count of each], "seconds": sum}`.
    pub fn to_json(&self) -> Value {
        json!({"buckets": self.counts, "seconds": self.seconds()})
    }

    /// From [`Histogram::to_json`]. Of fewer buckets, as earlier versions wrote them, the last one has what was beyond their bounds, and is
    /// beyond all bounds here: nobody knows by how much. What is not there or of more buckets counts as nothing.
    pub fn from_json(value: &Value) -> Histogram {
        let mut histogram = Histogram::EMPTY;
        let buckets = value["buckets"].as_array().map_or(&[][..], Vec::as_slice);
        let count = |bucket: &Value| bucket.as_u64().unwrap_or(0);
        if let Some((beyond, within)) = buckets.split_last() {
            if within.len() > BOUNDS.len() {
                return histogram;
            }
            for (own, bucket) in histogram.counts.iter_mut().zip(within) {
                *own = count(bucket);
            }
            histogram.counts[BOUNDS.len()] = count(beyond);
            let seconds = value["seconds"].as_f64().unwrap_or(0.0);
            histogram.nanoseconds = (seconds.clamp(0.0, 1e9) * 1e9).round() as u64;
        }
        histogram
    }
}
