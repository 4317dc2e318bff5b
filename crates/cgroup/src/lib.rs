//! Holding jobs to their shares of a host's processors, by control groups of the Linux kernel. It knows processes, and nothing of
//! what was promised.
//!
//! [`open`] looks at the host and gives an [`Enforcer`], or the reason why there is none; that is a value,
//! not an error, because a host without control groups still runs jobs. An [`Enforcer`] makes one
//! [`Group`] for each job. What was made is remembered by path and inode in records that a registry can
//! store, and only that is ever removed.
//!
//! Rooms: `settings` what an administrator may choose; `detect` what the host offers; `limits` processors
//! to numbers (pure); `v1`, `v2` the files of each version; `freezer` letting a job stand still, with a file for each version; `dying` what one that is killed needs, `killed` giving it to those that others kill; `enforcer` the directory above jobs; `group` a
//! job; `adopted` and `external` one that a batch system made (an external group, adopted); `bound` processors that a batch system picked; `best_effort` what was promised nothing, on either version; `without_terms` groups of such jobs that count and end them; `record` what outlives us; `processes`, `usage`, `file` the tools for that.

mod adopted;
mod best_effort;
mod bound;
mod ceiling;
mod detect;
mod dying;
mod enforcer;
mod error;
mod external;
mod file;
mod freezer;
mod group;
mod killed;
mod limits;
mod processes;
mod record;
mod settings;
mod usage;
mod v1;
mod v2;
mod without_terms;

pub use bound::{let_off, let_run_anywhere};
pub use detect::Role;
pub use enforcer::{Enforcer, Orphan};
pub use error::Error;
pub use freezer::Frozen;
pub use group::{Drift, Group, Killed};
pub use killed::KilledGroups;
pub use limits::{Limits, Spare};
pub use nix::sys::signal::Signal;
pub use processes::signal_tree;
pub use record::{Adopted, DirectoryRecord, GroupRecord, RootRecord};
pub use settings::{Pin, Settings, Version, VersionChoice};
pub use usage::Usage;

use std::path::Path;

/// Whether shares are enforced on this host.
#[derive(Debug)]
pub enum Enforcement {
    /// They are.
    Active(Enforcer),
    /// They are not; jobs run as the kernel pleases.
    None {
        /// Why, in words for an administrator.
        reason: String,
    },
}

/// Looks for control groups according to the settings. Makes and writes nothing.
pub fn open(settings: &Settings) -> Enforcement {
    if settings.version == VersionChoice::Off {
        return Enforcement::None {
            reason: "enforcement is switched off in the settings".to_owned(),
        };
    }
    let table = settings
        .mounts
        .as_deref()
        .unwrap_or(Path::new("/proc/self/mountinfo"));
    let mountinfo = match detect::mount_table(table) {
        Ok(text) => text,
        Err(e) => {
            return Enforcement::None {
                reason: format!("cannot read {}: {e}", table.display()),
            };
        }
    };
    let caller = detect::Caller {
        root: nix::unistd::geteuid().is_root(),
        own: std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
    };
    match detect::detect(settings, &mountinfo, &caller) {
        Ok(layout) => Enforcement::Active(Enforcer::new(layout, settings)),
        Err(reason) => Enforcement::None { reason },
    }
}
