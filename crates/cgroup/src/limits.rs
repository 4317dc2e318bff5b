//! From processors to the numbers the kernel takes, and back. Pure: no file is touched here.
//!
//! Invariants: a share is never rounded to fit a period, the period grows instead (up to 1 s); a quota is
//! never below the kernel's least, 1 ms; weights are proportional to processors, without the curve by
//! which container runtimes translate v1 shares into v2 weights, so that two jobs' weights stand in the
//! ratio of their shares on either version.

use serde::{Deserialize, Serialize};

use super::error::Error;

/// The least quota and the shortest period the kernel takes, in microseconds.
const LEAST_US: u64 = 1_000;
/// The longest period, in microseconds.
const LONGEST_PERIOD_US: u64 = 1_000_000;
/// v2 `cpu.weight`: 1 ..= 10000.
pub(crate) const V2_WEIGHT: (u64, u64) = (1, 10_000);
/// v1 `cpu.shares`: 2 ..= 262144.
pub(crate) const V1_SHARES: (u64, u64) = (2, 262_144);

/// Who gets the processor time that no running job needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spare {
    /// Nobody: a share is a cap, held by a quota. What a job gets does not depend on its neighbours.
    #[default]
    Idle,
    /// The running jobs, in proportion to their shares: a share is a guarantee, held by a weight.
    Shared,
}

/// What a job may use on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Limits {
    /// Processors, share × slots: 0.0 ..= `capacity`. 0 means zero, held at the least a kernel can:
    /// 1 ms of processor time in each second.
    pub processors: f64,
    /// Processors of this host, > 0: what weights are a fraction of. The same for all jobs of a host.
    pub capacity: f64,
    /// Processors (numbered as in /proc/cpuinfo) the job is to stay on; `None` lets it move freely, or
    /// leaves it where it is. Without effect on a group that was created with `None`, and on hosts
    /// without the cpuset controller (`Group::can_pin`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Vec<u32>>,
    /// It is promised nothing: it has the least weight there is, and where shares are no caps nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub yields: bool,
}

impl Limits {
    /// `processors` out of `capacity`, free to move.
    pub fn new(processors: f64, capacity: f64) -> Self {
        Self {
            processors,
            capacity,
            pinned: None,
            yields: false,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(self.capacity.is_finite() && self.capacity > 0.0) {
            return Err(Error::Limit {
                what: "capacity",
                value: self.capacity,
                range: "more than 0 processors",
            });
        }
        // A sum of shares may exceed the capacity by its last digits.
        if !(self.processors >= 0.0 && self.processors <= self.capacity * 1.0001) {
            let range = "0 to the processors of the host (capacity)";
            return Err(Error::Limit {
                what: "processors",
                value: self.processors,
                range,
            });
        }
        if self.pinned.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::Limit {
                what: "pinned",
                value: 0.0,
                range: "at least one processor, or none given",
            });
        }
        Ok(())
    }
}

/// `cpu.max` and its v1 counterparts, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bandwidth {
    /// Processor time per period; `None` is unlimited.
    pub quota_us: Option<u64>,
    pub period_us: u64,
    /// Unused quota that may be carried over. At most the quota.
    pub burst_us: u64,
}

/// Everything we write into a job's directory, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub bandwidth: Bandwidth,
    pub weight: u64,
}

/// The settings that turn limits into numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub spare: Spare,
    /// The period wished for, in microseconds; small shares lengthen it.
    pub period_us: u64,
    /// The range of weights of the version in use.
    pub weights: (u64, u64),
}

impl Policy {
    /// The numbers for these limits. `burst` says whether this kernel (5.14 and later) can carry unused
    /// quota over.
    pub fn held(&self, limits: &Limits, burst: bool) -> Held {
        let bandwidth = match self.spare {
            Spare::Shared => Bandwidth {
                quota_us: None,
                period_us: self.period_us,
                burst_us: 0,
            },
            Spare::Idle => self.cap(limits, burst),
        };
        Held {
            bandwidth,
            weight: self.weight(limits),
        }
    }

    /// The quota that holds a group to these processors.
    pub fn cap(&self, limits: &Limits, burst: bool) -> Bandwidth {
        let period_us = self
            .period_us
            .max((LEAST_US as f64 / limits.processors).ceil() as u64);
        let period_us = period_us.min(LONGEST_PERIOD_US);
        let quota = ((limits.processors * period_us as f64).round() as u64).max(LEAST_US);
        // Half a quota may be carried over: without it a job that waited for a processor within
        // a period loses that time for good; with more, each change of a share gives more away
        // (docs/enforcement.md has the figures).
        Bandwidth {
            quota_us: Some(quota),
            period_us,
            burst_us: if burst { quota / 2 } else { 0 },
        }
    }

    fn weight(&self, limits: &Limits) -> u64 {
        let (least, most) = self.weights;
        if limits.yields {
            return least;
        }
        ((most as f64 * limits.processors / limits.capacity).round() as u64).clamp(least, most)
    }

    /// The limits that these numbers stand for: by the quota where there is one, else by the weight.
    pub fn limits(&self, held: &Held, capacity: f64) -> Limits {
        let processors = match held.bandwidth.quota_us {
            Some(quota) => quota as f64 / held.bandwidth.period_us.max(1) as f64,
            None => held.weight as f64 / self.weights.1 as f64 * capacity,
        };
        Limits {
            processors,
            capacity,
            pinned: None,
            yields: false,
        }
    }
}

/// Parses the kernel's list of processors: "0-2,5".
pub(crate) fn parse_cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // Bounds the list against nonsense; the kernel's own limit is 8192.
        if first > last || last > 65_535 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Writes a list of processors the way the kernel reads it.
pub(crate) fn format_cpus(cpus: &[u32]) -> String {
    cpus.iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(spare: Spare) -> Policy {
        Policy {
            spare,
            period_us: 100_000,
            weights: V2_WEIGHT,
        }
    }

    #[test]
    fn idle_writes_quota_weight_and_burst() {
        let held = policy(Spare::Idle).held(&Limits::new(0.6, 2.0), true);
        assert_eq!(
            held.bandwidth,
            Bandwidth {
                quota_us: Some(60_000),
                period_us: 100_000,
                burst_us: 30_000
            }
        );
        assert_eq!(held.weight, 3_000);
        let held = policy(Spare::Shared).held(&Limits::new(0.6, 2.0), true);
        assert_eq!(held.bandwidth.quota_us, None);
    }

    #[test]
    fn what_is_promised_nothing_weighs_least() {
        let limits = Limits {
            yields: true,
            ..Limits::new(1.5, 2.0)
        };
        let capped = policy(Spare::Idle).held(&limits, true);
        assert_eq!(capped.bandwidth.quota_us, Some(150_000));
        assert_eq!(capped.weight, V2_WEIGHT.0);
        let shared = policy(Spare::Shared).held(&limits, true);
        assert_eq!(
            (shared.bandwidth.quota_us, shared.weight),
            (None, V2_WEIGHT.0)
        );
    }

    #[test]
    fn small_shares_lengthen_the_period() {
        let held = policy(Spare::Idle).held(&Limits::new(0.004, 2.0), false);
        assert_eq!(
            held.bandwidth,
            Bandwidth {
                quota_us: Some(1_000),
                period_us: 250_000,
                burst_us: 0
            }
        );
        let held = policy(Spare::Idle).held(&Limits::new(0.0, 2.0), false);
        assert_eq!(
            held.bandwidth,
            Bandwidth {
                quota_us: Some(1_000),
                period_us: 1_000_000,
                burst_us: 0
            }
        );
        assert_eq!(held.weight, 1);
    }

    #[test]
    fn limits_out_of_range_are_refused() {
        for (p, c) in [
            (f64::NAN, 2.0),
            (-0.1, 2.0),
            (2.1, 2.0),
            (1.0, 0.0),
            (1.0, f64::INFINITY),
        ] {
            assert!(Limits::new(p, c).check().is_err(), "{p} {c}");
        }
        assert!(Limits::new(2.0, 2.0).check().is_ok());
        assert!(
            Limits {
                pinned: Some(vec![]),
                ..Limits::new(1.0, 2.0)
            }
            .check()
            .is_err()
        );
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpus("\n"), Some(vec![]));
        assert_eq!(parse_cpus("2-1"), None);
        assert_eq!(parse_cpus("0-4294967295"), None);
        assert_eq!(format_cpus(&[0, 1, 5]), "0,1,5");
    }

    proptest! {
        #[test]
        fn numbers_are_in_the_kernels_range_and_come_back(share in 0.0f64..=1.0, capacity in 0.5f64..1024.0, period in 1_000u64..=1_000_000) {
            for spare in [Spare::Idle, Spare::Shared] {
                for weights in [V1_SHARES, V2_WEIGHT] {
                    let policy = Policy { spare, period_us: period, weights };
                    let wanted = Limits::new(share * capacity, capacity);
                    wanted.check().unwrap();
                    let held = policy.held(&wanted, true);
                    let b = held.bandwidth;
                    prop_assert!((LEAST_US..=LONGEST_PERIOD_US).contains(&b.period_us));
                    prop_assert!(b.quota_us.is_none_or(|q| q >= LEAST_US && b.burst_us <= q));
                    prop_assert!((weights.0..=weights.1).contains(&held.weight));
                    let back = policy.limits(&held, capacity).processors;
                    // Half a microsecond in a quota of at least 1 ms; half a step of the weight.
                    let slack = match spare {
                        Spare::Idle => (wanted.processors * 0.0006).max(0.001),
                        Spare::Shared => capacity * 2.0 / weights.1 as f64,
                    };
                    prop_assert!((back - wanted.processors).abs() <= slack, "{} -> {back}", wanted.processors);
                }
            }
        }
    }
}
