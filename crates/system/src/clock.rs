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

/// A Unix time that somebody was told, and when that was. What was waited for since is added, and a clock that is stepped meanwhile changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    unix: f64,
    told: f64,
}

impl Moment {
    /// It is this Unix time now.
    pub fn of(unix: f64) -> Moment {
        Moment {
            unix,
            told: since_boot(),
        }
    }

    /// The Unix time that it is by now.
    pub fn unix_time(self) -> f64 {
        self.unix + since_boot() - self.told
    }
}

/// In whole microseconds: a time is written into the registry and must read back as the same
/// number, which JSON readers grant to numbers of up to 15 or 16 digits only.
fn read(clock: ClockId) -> f64 {
    // Neither clock can fail on a Linux that runs this program.
    clock_gettime(clock).map_or(0.0, |time| {
        (time.tv_sec() * 1_000_000 + time.tv_nsec() / 1000) as f64 / 1e6
    })
}

/// `Sat Nov 21 12:00:00 2026`, as PBS and Grid Engine print it, in this host's zone: Unix time. None if it is nothing of the kind.
#[cfg(feature = "local-time")]
pub fn local_time(text: &str) -> Option<f64> {
    let read = jiff::civil::DateTime::strptime("%a %b %d %H:%M:%S %Y", text).ok()?;
    let at = read.to_zoned(jiff::tz::TimeZone::system()).ok()?;
    Some(at.timestamp().as_second() as f64)
}

/// Names this boot: times since boot mean nothing after the next one.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_time_reads_back_as_it_was_written() {
        // A date of our days and one of 2255, with all their digits.
        for seed in 0..20_000u32 {
            let micros = 1_795_246_405_710_086 + i64::from(seed) * 360_287_970_189;
            let time = micros as f64 / 1e6;
            let text = serde_json::to_string(&time).expect("finite");
            let read: f64 = serde_json::from_str(&text).expect("a number");
            assert_eq!(read, time, "{text}");
        }
        assert!(super::unix_time() > 1.7e9);
    }

    #[test]
    fn what_was_waited_for_is_added_to_a_moment() {
        let before = super::since_boot();
        let moment = super::Moment::of(1000.0);
        while super::since_boot() - before < 0.05 {
            std::thread::yield_now();
        }
        let waited = moment.unix_time() - 1000.0;
        let most = super::since_boot() - before;
        // Sums of such numbers are rounded.
        assert!(waited > 0.0 && waited < most + 1e-6, "{waited} of {most}");
    }
}
