//! Processor time of a job where the kernel's own count is missing or partial.
//!
//! Invariant: a figure that is not the kernel's own, whole count is marked so.

use std::path::Path;

use super::detect::Role;
use super::error::Error;
use super::processes;
use super::record::GroupRecord;

/// Processor time used by a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Seconds, summed over processors.
    pub seconds: f64,
    /// False where this is a lower bound: there is no cpuacct controller, or the batch system has moved
    /// the job's processes to accounting groups of its own, so that processes which ended are missing.
    pub complete: bool,
}

/// Completes the kernel's count, if there is one, with processes that it does not cover.
pub(crate) fn complete(counted: Option<f64>, record: &GroupRecord) -> Result<Usage, Error> {
    let of = |role| {
        record
            .directories
            .iter()
            .filter(move |d| d.roles.contains(&role))
            .map(|d| d.path.as_path())
    };
    let held: Vec<&Path> = of(Role::Cpu).collect();
    let accounts: Vec<&Path> = of(Role::Accounting).collect();
    match counted {
        None => Ok(Usage {
            seconds: processes::seconds(&processes::listed_below(held)?),
            complete: false,
        }),
        // One directory does both: whoever is held to the share is counted.
        Some(seconds) if held == accounts => Ok(Usage {
            seconds,
            complete: true,
        }),
        Some(seconds) => {
            // In this order a process born in between is covered, and one that ended is not running.
            let mut outside = processes::listed_below(held)?;
            let covered = processes::listed_below(accounts)?;
            outside
                .retain(|pid| covered.binary_search(pid).is_err() && processes::is_running(*pid));
            Ok(Usage {
                seconds: seconds + processes::seconds(&outside),
                complete: outside.is_empty(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::DirectoryRecord;
    use crate::settings::Version;

    fn record(dir: &Path, held: &str, accounted: &str) -> GroupRecord {
        let make = |name: &str, role, pids: &str| {
            let made = DirectoryRecord::make(&dir.join(name), &[role]).unwrap();
            std::fs::write(made.path.join(processes::PROCS), pids).unwrap();
            made
        };
        let directories = vec![
            make("cpu", Role::Cpu, held),
            make("acct", Role::Accounting, accounted),
        ];
        GroupRecord {
            name: "1".into(),
            version: Version::V1,
            capacity: 2.0,
            directories,
            adopted: None,
        }
    }

    #[test]
    fn processes_taken_to_another_accounting_group_make_it_a_lower_bound() {
        let own = std::process::id();
        let dir = tempfile::tempdir().unwrap();
        let taken = complete(Some(1.0), &record(dir.path(), &format!("{own}\n"), "")).unwrap();
        assert!(taken.seconds >= 1.0 && !taken.complete);
        let dir = tempfile::tempdir().unwrap();
        let covered = record(dir.path(), &format!("{own}\n"), &format!("{own}\n"));
        assert_eq!(
            complete(Some(1.0), &covered).unwrap(),
            Usage {
                seconds: 1.0,
                complete: true
            }
        );
        assert!(!complete(None, &covered).unwrap().complete);
        let dir = tempfile::tempdir().unwrap();
        let ended = record(dir.path(), "999999999\n", "");
        assert_eq!(
            complete(Some(1.0), &ended).unwrap(),
            Usage {
                seconds: 1.0,
                complete: true
            }
        );
    }
}
