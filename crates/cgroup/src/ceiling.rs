//! What all jobs together can use: a quota of the directory above them.
//!
//! That directory has the most weight there is, so that what is committed is kept however busy the rest of the host is. Without a
//! quota the rest would in turn get 1/257 of a host whose jobs run beyond what is committed to them: logins, sshd and the batch
//! system's own daemons with it.
//!
//! Invariant: a directory that somebody else made is not written to.

use std::path::Path;

use super::detect::Role;
use super::enforcer::Enforcer;
use super::error::Error;
use super::limits::{Bandwidth, Held, Limits, V1_SHARES, V2_WEIGHT};
use super::record::RootRecord;
use super::settings::Version;
use super::{v1, v2};

impl Enforcer {
    /// Writes the ceiling and the weight into the directory above jobs, where `made` says that it was made here and where they
    /// are not what they should be: another configuration made it, or somebody changed them. True where something was written.
    ///
    /// # Errors
    /// When it cannot be read or written; on version 1 also where a job still holds more than the new ceiling.
    pub fn hold_ceiling(&self, made: &RootRecord) -> Result<bool, Error> {
        let Some(root) = self.root_of(Role::Cpu) else {
            return Ok(false);
        };
        for directory in &made.directories {
            if directory.path == root && directory.matches()? {
                return self.write_ceiling(root);
            }
        }
        Ok(false)
    }

    /// Writes them into a directory that was made here.
    pub(super) fn write_ceiling(&self, at: &Path) -> Result<bool, Error> {
        let bandwidth = self.bandwidth_of_all();
        let written = match self.version() {
            Version::V1 => {
                let controls = v1::Controls::open(at, None)?;
                let weight = V1_SHARES.1;
                controls.write(&mut controls.read()?, &Held { bandwidth, weight })?
            }
            Version::V2 => {
                let controls = v2::Controls::open(at)?;
                let weight = V2_WEIGHT.1;
                controls.write(&mut controls.read()?, &Held { bandwidth, weight })?
            }
        };
        Ok(written > 0)
    }

    fn bandwidth_of_all(&self) -> Bandwidth {
        let policy = self.policy();
        match self.ceiling() {
            None => Bandwidth {
                quota_us: None,
                period_us: policy.period_us,
                burst_us: 0,
            },
            // Always a cap, also where shares are guarantees; without burst, which would be taken out of the reserve.
            Some(processors) => policy.cap(&Limits::new(processors, processors), false),
        }
    }
}
