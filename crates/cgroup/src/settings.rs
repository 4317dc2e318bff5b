//! What an administrator may choose about enforcement.
//!
//! Invariants: unknown keys are refused, every field has a default, and the defaults work unattended on
//! v1, v2 and hybrid hosts.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::Spare;

/// Which interface of the kernel to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionChoice {
    /// v2 where it has the cpu controller, else v1.
    #[default]
    Auto,
    /// cgroup v1 only.
    V1,
    /// cgroup v2 only.
    V2,
    /// No enforcement.
    Off,
}

/// The interface in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    /// cgroup v1.
    V1,
    /// cgroup v2.
    V2,
}

/// Whether jobs may be held to chosen processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    /// Where a job's limits name processors and the host has the cpuset controller.
    #[default]
    Auto,
    /// Never; named processors are ignored.
    Never,
}

/// How shares are enforced on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Which interface of the kernel.
    pub version: VersionChoice,
    /// The directory above all jobs, below the mount: "libra", "system.slice/x.service/jobs". `None`: the
    /// agent's delegated unit where there is one, for ordinary users their own group, else "libra".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Who gets time that no job needs.
    pub spare: Spare,
    /// The period of quotas, 1 ms ..= 1 s (values outside are brought inside), as `period-ms`. Small
    /// shares get a longer one by themselves. Kernels before 5.14 keep shares better with 250 ms.
    #[serde(rename = "period-ms", with = "milliseconds")]
    pub period: Duration,
    /// Whether jobs may be held to chosen processors.
    pub pin: Pin,
    /// Processors that all jobs together may use at most, > 0: a quota of the directory above them. `None`: all there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    /// A mount table in place of /proc/self/mountinfo, for tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounts: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: VersionChoice::Auto,
            root: None,
            spare: Spare::Idle,
            period: Duration::from_millis(100),
            pin: Pin::Auto,
            ceiling: None,
            mounts: None,
        }
    }
}

impl Settings {
    /// The period in microseconds, within what the kernel takes.
    pub(crate) fn period_us(&self) -> u64 {
        u64::try_from(self.period.as_micros())
            .unwrap_or(u64::MAX)
            .clamp(1_000, 1_000_000)
    }
}

mod milliseconds {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_there_and_back() {
        let text = "version = \"v1\"\nspare = \"shared\"\nperiod-ms = 250\npin = \"never\"\n";
        let settings: Settings = toml::from_str(text).unwrap();
        assert_eq!(settings.period, Duration::from_millis(250));
        assert_eq!(settings.version, VersionChoice::V1);
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
        assert!(toml::from_str::<Settings>("perod-ms = 1").is_err());
        assert_eq!(toml::from_str::<Settings>("").unwrap(), Settings::default());
    }

    #[test]
    fn period_is_brought_into_range() {
        for (ms, us) in [(0, 1_000), (100, 100_000), (90_000, 1_000_000)] {
            assert_eq!(
                Settings {
                    period: Duration::from_millis(ms),
                    ..Settings::default()
                }
                .period_us(),
                us
            );
        }
    }
}
