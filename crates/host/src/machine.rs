//! What this host is: its name, processors and memory, as configured or as found.

use libra_config::{Config, Memory, Processors};
use libra_core::decision::node::NodeSpec;
use std::fs;

/// This host as a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its host name.
    pub name: String,
    /// What it offers to jobs.
    pub spec: NodeSpec,
    /// Processors online, by number; at least one.
    pub online: Vec<u32>,
    /// Processors that all jobs together can use at most, whatever is committed; all that are online, where nothing is kept for
    /// the rest of the host.
    pub ceiling: f64,
}

impl Machine {
    /// Looks at this host.
    pub fn find(config: &Config) -> Machine {
        let online = online();
        let all = online.len() as f64;
        let processors = match config.node.processors {
            Processors::All => config.node.reserve.leaves(all),
            Processors::Count(count) => count,
        };
        let memory = match config.node.memory {
            Memory::All => total_memory().unwrap_or(NodeSpec::MEMORY_UNLIMITED),
            Memory::Unlimited => NodeSpec::MEMORY_UNLIMITED,
            Memory::Bytes(bytes) => bytes,
        };
        if processors > online.len() as f64 {
            log::warn!(
                "node.processors is {processors} and this host has {}: shares will not be kept",
                online.len()
            );
        }
        Machine {
            name: nix::unistd::gethostname()
                .ok()
                .and_then(|name| name.into_string().ok())
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "localhost".to_string()),
            spec: NodeSpec {
                processors,
                rating: config.node.rating.0,
                memory,
            },
            ceiling: ceiling(processors, all, config.node.reserve.leaves(all)),
            online,
        }
    }
}

impl Machine {
    /// The settings of the enforcement on this host.
    pub fn cgroup_settings(&self, config: &Config) -> libra_cgroup::Settings {
        let all = self.online.len() as f64;
        libra_cgroup::Settings {
            ceiling: (self.ceiling < all).then_some(self.ceiling),
            ..libra_rules::cgroup_settings(config)
        }
    }
}

/// Half of the reserve is slack: a ceiling of exactly what is committed would take a little of every promise, since the kernel
/// counts the time of the group above the jobs in other moments than that of each job.
fn ceiling(committed: f64, all: f64, unreserved: f64) -> f64 {
    committed.max((unreserved + all) / 2.0).min(all)
}

fn online() -> Vec<u32> {
    let listed = fs::read_to_string("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|text| parse_list(text.trim()));
    listed.filter(|list| !list.is_empty()).unwrap_or_else(|| {
        let count = std::thread::available_parallelism().map_or(1, |n| n.get());
        (0..count as u32).collect()
    })
}

/// Reads a list of processors as the kernel writes it: `0-3,8`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > 65_536 {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

fn total_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        for text in ["", "a", "3-1", "0-", "0-99999999"] {
            assert_eq!(parse_list(text), None, "{text}");
        }
    }

    #[test]
    fn this_host_has_a_processor() {
        let machine = Machine::find(&Config::default());
        let all = machine.online.len() as f64;
        assert!(all >= 1.0);
        assert!((machine.spec.processors - 0.95 * all).abs() < 1e-4);
    }

    #[test]
    fn jobs_cannot_use_the_reserve_and_can_use_their_commitments() {
        // Committed, online, unreserved.
        assert_eq!(ceiling(1.9, 2.0, 1.9), 1.95);
        // An administrator who commits less keeps the rest for jobs that may use spare time.
        assert_eq!(ceiling(1.0, 2.0, 1.9), 1.95);
        // One who says so commits all.
        assert_eq!(ceiling(2.0, 2.0, 1.9), 2.0);
        assert_eq!(ceiling(1.99, 2.0, 1.9), 1.99);
        assert_eq!(ceiling(64.0, 2.0, 1.9), 2.0);
        assert_eq!(ceiling(2.0, 2.0, 2.0), 2.0);
    }
}
