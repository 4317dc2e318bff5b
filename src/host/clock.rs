//! The times of this host. The one place that reads a clock.

use nix::time::{ClockId, clock_gettime};
use std::fs;

/// Seconds since this host was booted, sleep included. Never stepped; what deadlines are kept by.
pub fn since_boot() -> f64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Seconds since 1970, for people. May be stepped; nothing is decided by it.
pub fn unix_time() -> f64 {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> f64 {
    // Neither clock can fail on a Linux that runs this program.
    clock_gettime(clock).map_or(0.0, |time| {
        time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9
    })
}

/// Names this boot: times since boot mean nothing after the next one.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_string())
        .unwrap_or_default()
}
