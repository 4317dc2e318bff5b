//! cgroup v1: quota, period, burst and shares in files of their own.
//!
//! Invariants: writes come in an order in which every state on the way is valid for the kernel (burst never
//! above quota, quota never below 1 ms) and never more generous than the larger of old and new.

use std::path::Path;

use super::error::Error;
use super::file::ControlFile;
use super::limits::{Bandwidth, Held};

pub(crate) const QUOTA: &str = "cpu.cfs_quota_us";
const PERIOD: &str = "cpu.cfs_period_us";
const BURST: &str = "cpu.cfs_burst_us";
pub(crate) const SHARES: &str = "cpu.shares";
const STAT: &str = "cpu.stat";
const USAGE: &str = "cpuacct.usage";
/// Processors a group of the cpuset controller may run on (the same name on v2), and its memory nodes.
pub(crate) const CPUS: &str = "cpuset.cpus";
pub(crate) const MEMS: &str = "cpuset.mems";

/// The control files of one job.
#[derive(Debug)]
pub(crate) struct Controls {
    quota: ControlFile,
    period: ControlFile,
    burst: Option<ControlFile>,
    shares: ControlFile,
    stat: ControlFile,
    usage: Option<ControlFile>,
}

impl Controls {
    /// `accounting` is the directory with `cpuacct.usage`: the same one where both controllers share a
    /// mount, `None` where there is none.
    pub fn open(directory: &Path, accounting: Option<&Path>) -> Result<Self, Error> {
        Ok(Self {
            quota: ControlFile::open(directory, QUOTA, true)?,
            period: ControlFile::open(directory, PERIOD, true)?,
            burst: ControlFile::open_if_present(directory, BURST, true)?,
            shares: ControlFile::open(directory, SHARES, true)?,
            stat: ControlFile::open(directory, STAT, false)?,
            usage: accounting
                .map(|d| ControlFile::open_if_present(d, USAGE, false))
                .transpose()?
                .flatten(),
        })
    }

    pub fn files(&mut self) -> impl Iterator<Item = &mut ControlFile> {
        let Self {
            quota,
            period,
            burst,
            shares,
            stat,
            usage,
        } = self;
        let some = burst.iter_mut().chain(usage);
        [quota, period, shares, stat].into_iter().chain(some)
    }

    pub fn has_burst(&self) -> bool {
        self.burst.is_some()
    }

    pub fn read(&self) -> Result<Held, Error> {
        let quota: i64 = self.quota.number()?;
        let bandwidth = Bandwidth {
            quota_us: u64::try_from(quota).ok(),
            period_us: self.period.number()?,
            burst_us: self.burst.as_ref().map_or(Ok(0), ControlFile::number)?,
        };
        Ok(Held {
            bandwidth,
            weight: self.shares.number()?,
        })
    }

    /// Writes what differs between `from` (what the kernel holds) and `to`; keeps `from` up to date, so
    /// that it is right even where a write fails. Returns the number of files written.
    pub fn write(&self, from: &mut Held, to: &Held) -> Result<usize, Error> {
        let mut written = 0;
        let (old, new) = (from.bandwidth, to.bandwidth);
        if new.burst_us < old.burst_us {
            written += self.write_burst(from, new.burst_us)?;
        }
        // A longer period first, a shorter one last: in between the job has less, never more.
        if new.period_us > old.period_us {
            written += self.write_period(from, new.period_us)?;
        }
        if new.quota_us != old.quota_us {
            let text = new
                .quota_us
                .map_or_else(|| "-1".to_owned(), |q| q.to_string());
            self.quota.write(&text)?;
            from.bandwidth.quota_us = new.quota_us;
            written += 1;
        }
        if new.period_us < old.period_us {
            written += self.write_period(from, new.period_us)?;
        }
        if new.burst_us > old.burst_us {
            written += self.write_burst(from, new.burst_us)?;
        }
        if to.weight != from.weight {
            self.shares.write(&to.weight.to_string())?;
            from.weight = to.weight;
            written += 1;
        }
        Ok(written)
    }

    fn write_burst(&self, from: &mut Held, burst_us: u64) -> Result<usize, Error> {
        let Some(file) = &self.burst else {
            return Ok(0);
        };
        file.write(&burst_us.to_string())?;
        from.bandwidth.burst_us = burst_us;
        Ok(1)
    }

    fn write_period(&self, from: &mut Held, period_us: u64) -> Result<usize, Error> {
        self.period.write(&period_us.to_string())?;
        from.bandwidth.period_us = period_us;
        Ok(1)
    }

    /// Each file with what it should and does hold, where the two differ.
    pub fn differences<'a>(
        &'a self,
        wanted: &Held,
        found: &Held,
    ) -> Vec<(&'a Path, String, String)> {
        let quota = |h: &Held| {
            h.bandwidth
                .quota_us
                .map_or_else(|| "-1".to_owned(), |q| q.to_string())
        };
        let burst = self.burst.as_ref().map(|f| {
            (
                f,
                wanted.bandwidth.burst_us.to_string(),
                found.bandwidth.burst_us.to_string(),
            )
        });
        let pairs = [
            (&self.quota, quota(wanted), quota(found)),
            (
                &self.period,
                wanted.bandwidth.period_us.to_string(),
                found.bandwidth.period_us.to_string(),
            ),
            (
                &self.shares,
                wanted.weight.to_string(),
                found.weight.to_string(),
            ),
        ];
        let all = pairs.into_iter().chain(burst);
        all.filter(|(_, w, f)| w != f)
            .map(|(file, w, f)| (file.path(), w, f))
            .collect()
    }

    /// Seconds of processor time; `None` without the cpuacct controller.
    pub fn usage(&self) -> Result<Option<f64>, Error> {
        let Some(file) = &self.usage else {
            return Ok(None);
        };
        Ok(Some(file.number::<u64>()? as f64 / 1e9))
    }

    /// Seconds of waiting for the next period.
    pub fn throttled(&self) -> Result<f64, Error> {
        Ok(self.stat.keyed("throttled_time")?.unwrap_or(0) as f64 / 1e9)
    }
}

#[cfg(test)]
pub(crate) fn fixture(directory: &Path) {
    for (name, text) in [
        (QUOTA, "-1\n"),
        (PERIOD, "100000\n"),
        (BURST, "0\n"),
        (SHARES, "1024\n"),
        (
            STAT,
            "nr_periods 4\nnr_throttled 3\nthrottled_time 2500000000\n",
        ),
        (USAGE, "1500000000\n"),
        ("cgroup.procs", ""),
    ] {
        std::fs::write(directory.join(name), text).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(quota_us: Option<u64>, period_us: u64, burst_us: u64, weight: u64) -> Held {
        Held {
            bandwidth: Bandwidth {
                quota_us,
                period_us,
                burst_us,
            },
            weight,
        }
    }

    #[test]
    fn writes_only_what_changed_and_reads_it_back() {
        let dir = tempfile::tempdir().unwrap();
        fixture(dir.path());
        let controls = Controls::open(dir.path(), Some(dir.path())).unwrap();
        let mut now = controls.read().unwrap();
        assert_eq!(now, held(None, 100_000, 0, 1024));
        let to = held(Some(60_000), 100_000, 60_000, 78_643);
        assert_eq!(controls.write(&mut now, &to).unwrap(), 3);
        assert_eq!(now, to);
        assert_eq!(controls.read().unwrap(), to);
        assert_eq!(controls.write(&mut now, &to).unwrap(), 0);
        assert_eq!(controls.usage().unwrap(), Some(1.5));
        assert_eq!(controls.throttled().unwrap(), 2.5);
    }

    #[test]
    fn a_failed_write_leaves_the_truth_behind() {
        let dir = tempfile::tempdir().unwrap();
        fixture(dir.path());
        std::fs::remove_file(dir.path().join(SHARES)).unwrap();
        // Every write to /dev/full fails with ENOSPC.
        std::os::unix::fs::symlink("/dev/full", dir.path().join(SHARES)).unwrap();
        let controls = Controls::open(dir.path(), None).unwrap();
        let mut now = held(None, 100_000, 0, 1024);
        let error = controls
            .write(&mut now, &held(Some(1_000), 200_000, 1_000, 9))
            .unwrap_err();
        assert!(error.to_string().contains(SHARES), "{error}");
        assert_eq!(now, held(Some(1_000), 200_000, 1_000, 1024));
    }

    #[test]
    fn kernels_without_burst_do_without() {
        let dir = tempfile::tempdir().unwrap();
        fixture(dir.path());
        std::fs::remove_file(dir.path().join(BURST)).unwrap();
        let controls = Controls::open(dir.path(), None).unwrap();
        assert!(!controls.has_burst());
        assert_eq!(controls.read().unwrap().bandwidth.burst_us, 0);
        assert_eq!(controls.usage().unwrap(), None);
        let differences = controls.differences(
            &held(Some(5_000), 100_000, 0, 1),
            &held(None, 100_000, 0, 1),
        );
        assert_eq!(
            differences,
            [(
                dir.path().join(QUOTA).as_path(),
                "5000".to_owned(),
                "-1".to_owned()
            )]
        );
    }
}
