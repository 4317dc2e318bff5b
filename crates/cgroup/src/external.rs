//! What is different about a group that a batch system made: it keeps room for its maker's processes, and is given back without limits.

use std::path::Path;

use super::error::Error;
use super::limits::{Bandwidth, Held, Limits};
use super::record::GroupRecord;
use super::v2;

/// How a new group is: no quota, the usual period, no burst, the usual weight.
pub(crate) const UNSET: Held = Held {
    bandwidth: Bandwidth {
        quota_us: None,
        period_us: 100_000,
        burst_us: 0,
    },
    weight: 100,
};

/// The least cap of an adopted group, in processors: its maker's own processes live of it too. Slurmstepd needs some 20 ms to begin
/// and to end a step, ten times that on a slow machine; held to a thousandth, it ends no job in time.
const ROOM: f64 = 0.05;

/// Where Slurm keeps its own processes of a step, beside those of its user.
const SLURMS_OWN: &str = "slurm";

/// What the name of Slurm's scope ends with, after that of the node where several are on one machine.
const SCOPE: &str = "slurmstepd.scope";

/// Takes all limits off an adopted group, if it is still there and the same one.
pub(crate) fn take_limits_off(record: &GroupRecord) -> Result<(), Error> {
    for directory in &record.directories {
        if !directory.matches()? {
            continue;
        }
        let unset = v2::Controls::open(&directory.path).and_then(|controls| {
            let mut held = controls.read()?;
            controls.write(&mut held, &UNSET)
        });
        match unset {
            Err(e) if !e.is_gone() => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// The limits that an adopted group is capped by, so that its maker has room.
pub(crate) fn with_room(limits: &Limits) -> Limits {
    Limits::new(
        limits.processors.max(ROOM.min(limits.capacity)),
        limits.capacity,
    )
}

/// True for a directory with processes of the batch system's own, which are no business of ours.
pub(crate) fn is_its_makers(directory: &Path) -> bool {
    directory.file_name().is_some_and(|n| n == SLURMS_OWN)
}

/// True for the name of a directory in which Slurm keeps the groups of its jobs.
pub(crate) fn is_scope(name: &str) -> bool {
    name.ends_with(SCOPE)
}
