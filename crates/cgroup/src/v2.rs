//! cgroup v2: quota and period in one file, a weight, a burst.
//!
//! Invariants: `cpu.max` is always written with both numbers; weights are written as they are, in
//! proportion to processors; burst never exceeds the quota at any step.

use std::path::Path;

use nix::errno::Errno;

use super::error::Error;
use super::file::{ControlFile, write_once};
use super::limits::{Bandwidth, Held};
use super::processes;

pub(crate) const MAX: &str = "cpu.max";
const BURST: &str = "cpu.max.burst";
pub(crate) const WEIGHT: &str = "cpu.weight";
const STAT: &str = "cpu.stat";
/// Controllers that a group's children have.
const SUBTREE: &str = "cgroup.subtree_control";
/// Controllers that a group may hand on.
pub(crate) const CONTROLLERS: &str = "cgroup.controllers";
/// "domain" or "threaded"; absent at the very top.
pub(crate) const TYPE: &str = "cgroup.type";
/// "populated 1" while a process lives in the group or below.
pub(crate) const EVENTS: &str = "cgroup.events";
/// Kills everything in the group and below (5.14 and later).
pub(crate) const KILL: &str = "cgroup.kill";

/// The control files of one job.
#[derive(Debug)]
pub(crate) struct Controls {
    max: ControlFile,
    burst: Option<ControlFile>,
    weight: ControlFile,
    stat: ControlFile,
}

impl Controls {
    pub fn open(directory: &Path) -> Result<Self, Error> {
        Ok(Self {
            max: ControlFile::open(directory, MAX, true)?,
            burst: ControlFile::open_if_present(directory, BURST, true)?,
            weight: ControlFile::open(directory, WEIGHT, true)?,
            stat: ControlFile::open(directory, STAT, false)?,
        })
    }

    pub fn files(&mut self) -> impl Iterator<Item = &mut ControlFile> {
        let Self {
            max,
            burst,
            weight,
            stat,
        } = self;
        [max, weight, stat].into_iter().chain(burst)
    }

    pub fn has_burst(&self) -> bool {
        self.burst.is_some()
    }

    pub fn read(&self) -> Result<Held, Error> {
        let text = self.max.read()?;
        let (quota_us, period_us) = parse_max(&text)
            .ok_or_else(|| Error::malformed(self.max.path(), &text, "`quota period`"))?;
        let burst_us = self.burst.as_ref().map_or(Ok(0), ControlFile::number)?;
        Ok(Held {
            bandwidth: Bandwidth {
                quota_us,
                period_us,
                burst_us,
            },
            weight: self.weight.number()?,
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
        if (new.quota_us, new.period_us) != (old.quota_us, old.period_us) {
            self.max.write(&format_max(&new))?;
            from.bandwidth.quota_us = new.quota_us;
            from.bandwidth.period_us = new.period_us;
            written += 1;
        }
        if new.burst_us > old.burst_us {
            written += self.write_burst(from, new.burst_us)?;
        }
        if to.weight != from.weight {
            self.weight.write(&to.weight.to_string())?;
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

    /// Each file with what it should and does hold, where the two differ.
    pub fn differences<'a>(
        &'a self,
        wanted: &Held,
        found: &Held,
    ) -> Vec<(&'a Path, String, String)> {
        let burst = self.burst.as_ref().map(|f| {
            (
                f,
                wanted.bandwidth.burst_us.to_string(),
                found.bandwidth.burst_us.to_string(),
            )
        });
        let pairs = [
            (
                &self.max,
                format_max(&wanted.bandwidth),
                format_max(&found.bandwidth),
            ),
            (
                &self.weight,
                wanted.weight.to_string(),
                found.weight.to_string(),
            ),
        ];
        let all = pairs.into_iter().chain(burst);
        all.filter(|(_, w, f)| w != f)
            .map(|(file, w, f)| (file.path(), w, f))
            .collect()
    }

    /// Seconds of processor time.
    pub fn usage(&self) -> Result<Option<f64>, Error> {
        Ok(self.stat.keyed("usage_usec")?.map(|us| us as f64 / 1e6))
    }

    /// Seconds of waiting for the next period.
    pub fn throttled(&self) -> Result<f64, Error> {
        Ok(self.stat.keyed("throttled_usec")?.unwrap_or(0) as f64 / 1e6)
    }
}

fn parse_max(text: &str) -> Option<(Option<u64>, u64)> {
    let (quota, period) = text.lines().next()?.split_once(' ')?;
    let quota = if quota == "max" {
        None
    } else {
        Some(quota.parse().ok()?)
    };
    Some((quota, period.trim().parse().ok()?))
}

fn format_max(bandwidth: &Bandwidth) -> String {
    match bandwidth.quota_us {
        Some(quota) => format!("{quota} {}", bandwidth.period_us),
        None => format!("max {}", bandwidth.period_us),
    }
}

/// True where the directory's children have this controller.
pub(crate) fn hands_on(directory: &Path, controller: &str) -> bool {
    std::fs::read_to_string(directory.join(SUBTREE))
        .is_ok_and(|t| t.split_whitespace().any(|c| c == controller))
}

/// Gives the directory's children a controller.
pub(crate) fn hand_on(directory: &Path, controller: &str) -> Result<(), Error> {
    if hands_on(directory, controller) {
        return Ok(());
    }
    write_once(&directory.join(SUBTREE), &format!("+{controller}"))
}

/// Processes may live only in leaves. The kernel does not say so for cpu: it accepts the write, makes the directory the root of a
/// threaded tree, and its children take no process from then on. Only the very top, which has no type, may hold
/// processes beside its children.
///
/// # Errors
/// Where handing the controller on would do that.
pub(crate) fn refuse_occupied(directory: &Path, controller: &str) -> Result<(), Error> {
    let is_top = !directory.join(TYPE).exists();
    if is_top || hands_on(directory, controller) || processes::listed(directory)?.is_empty() {
        return Ok(());
    }
    Err(occupied(directory))
}

pub(crate) fn occupied(directory: &Path) -> Error {
    let source = std::io::Error::from(Errno::EBUSY);
    Error::io("make groups in", directory, None, source)
}

#[cfg(test)]
pub(crate) fn fixture(directory: &Path) {
    for (name, text) in [
        (MAX, "max 100000\n"),
        (BURST, "0\n"),
        (WEIGHT, "100\n"),
        (
            STAT,
            "usage_usec 1500000\nuser_usec 1\nnr_periods 4\nthrottled_usec 2500000\n",
        ),
        ("cgroup.procs", ""),
    ] {
        std::fs::write(directory.join(name), text).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_only_what_changed_and_reads_it_back() {
        let dir = tempfile::tempdir().unwrap();
        fixture(dir.path());
        let controls = Controls::open(dir.path()).unwrap();
        let mut now = controls.read().unwrap();
        assert_eq!(now.bandwidth.quota_us, None);
        let bandwidth = Bandwidth {
            quota_us: Some(60_000),
            period_us: 100_000,
            burst_us: 60_000,
        };
        let to = Held {
            bandwidth,
            weight: 3_000,
        };
        assert_eq!(controls.write(&mut now, &to).unwrap(), 3);
        assert_eq!(controls.read().unwrap(), to);
        assert_eq!(controls.write(&mut now, &to).unwrap(), 0);
        assert_eq!(controls.usage().unwrap(), Some(1.5));
        assert_eq!(controls.throttled().unwrap(), 2.5);
        let drifted = Held {
            weight: 100,
            ..to.clone()
        };
        let differences = controls.differences(&to, &drifted);
        assert_eq!(
            differences,
            [(
                dir.path().join(WEIGHT).as_path(),
                "3000".to_owned(),
                "100".to_owned()
            )]
        );
    }

    #[test]
    fn nonsense_is_an_error_with_the_path() {
        let dir = tempfile::tempdir().unwrap();
        fixture(dir.path());
        std::fs::write(dir.path().join(MAX), "many\n").unwrap();
        let error = Controls::open(dir.path()).unwrap().read().unwrap_err();
        assert!(
            error.to_string().contains("cpu.max holds \"many\\n\""),
            "{error}"
        );
    }

    #[test]
    fn controllers_of_children() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(SUBTREE), "cpu memory\n").unwrap();
        assert!(hands_on(dir.path(), "cpu"));
        assert!(!hands_on(dir.path(), "cpuset"));
        assert!(!hands_on(&dir.path().join("absent"), "cpu"));
    }
}
