//! Letting all processes of a job stand still, and go on: the kernel's freezer, behind one value for both versions.
//!
//! Stopped by signals a job would notice, and its shell or its own children could start it again. Frozen, it does not: nothing of it runs,
//! what is sent to it waits, its memory stays its own.
//!
//! Invariants: whether a group is frozen is read from the kernel, nothing else remembers it; on version 1 a frozen process does not
//! even die, so who kills a group thaws it first (`dying`).

mod v1;
mod v2;

use super::detect::Role;
use super::error::Error;
use super::file::ControlFile;
use super::processes;
use super::record::GroupRecord;
use super::settings::Version;
use std::path::Path;

/// How much of a group stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// Nothing.
    No,
    /// It is to, and some of it does not yet: it waits for a device.
    Going,
    /// All of it.
    Yes,
}

/// The freezer of one group.
#[derive(Debug)]
pub(crate) enum Freezer {
    V1(v1::Freezer),
    V2(v2::Freezer),
}

impl Freezer {
    /// That of this group; None if it has none: it was made without, another made it, or the kernel has none.
    pub fn open(record: &GroupRecord) -> Result<Option<Freezer>, Error> {
        let Some(at) = directory(record) else {
            return Ok(None);
        };
        Ok(match record.version {
            Version::V1 => v1::Freezer::open(at)?.map(Freezer::V1),
            Version::V2 => v2::Freezer::open(at)?.map(Freezer::V2),
        })
    }

    pub fn files(&mut self) -> Box<dyn Iterator<Item = &mut ControlFile> + '_> {
        match self {
            Freezer::V1(freezer) => Box::new(freezer.files()),
            Freezer::V2(freezer) => Box::new(freezer.files()),
        }
    }

    /// Lets all of it stand still, or go on.
    pub fn set(&self, frozen: bool) -> Result<(), Error> {
        match self {
            Freezer::V1(freezer) => freezer.set(frozen),
            Freezer::V2(freezer) => freezer.set(frozen),
        }
    }

    /// What the kernel says.
    pub fn state(&self) -> Result<Frozen, Error> {
        match self {
            Freezer::V1(freezer) => freezer.state(),
            Freezer::V2(freezer) => freezer.state(),
        }
    }
}

/// The directory of a group that is frozen with it.
fn directory(record: &GroupRecord) -> Option<&Path> {
    if record.adopted.is_some() {
        return None;
    }
    let wanted = match record.version {
        Version::V1 => Role::Freezer,
        Version::V2 => Role::Cpu,
    };
    let found = (record.directories.iter()).find(|d| d.roles.contains(&wanted));
    found
        .filter(|d| d.matches().unwrap_or(false))
        .map(|d| d.path.as_path())
}

/// Lets a group go on, and all groups that its job made below.
///
/// # Errors
/// The first that cannot be thawed; the others are.
pub(crate) fn thaw_all(record: &GroupRecord) -> Result<(), Error> {
    let mut done = Ok(());
    let Some(at) = directory(record) else {
        return done;
    };
    // Outermost first: what is below stays frozen as long as that is.
    for at in processes::with_nested(at).iter().rev() {
        let thawed = match record.version {
            Version::V1 => v1::Freezer::open(at)
                .and_then(|found| found.map_or(Ok(()), |freezer| freezer.set(false))),
            Version::V2 => v2::Freezer::open(at)
                .and_then(|found| found.map_or(Ok(()), |freezer| freezer.set(false))),
        };
        match thawed {
            Err(e) if !e.is_gone() => done = done.and(Err(e)),
            _ => {}
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::DirectoryRecord;

    fn record(version: Version, at: &Path) -> GroupRecord {
        let roles = match version {
            Version::V1 => vec![Role::Freezer],
            Version::V2 => vec![Role::Cpu, Role::Accounting],
        };
        GroupRecord {
            name: "1".into(),
            version,
            capacity: 2.0,
            directories: vec![DirectoryRecord::make(&at.join("1"), &roles).unwrap()],
            adopted: None,
        }
    }

    #[test]
    fn both_versions_say_what_the_kernel_says() {
        for (version, file, frozen, thawed) in [
            (Version::V1, "freezer.state", "FROZEN", "THAWED"),
            (Version::V2, "cgroup.freeze", "1", "0"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let record = record(version, dir.path());
            assert!(Freezer::open(&record).unwrap().is_none(), "no such file");
            let at = dir.path().join("1");
            std::fs::write(at.join(file), format!("{thawed}\n")).unwrap();
            std::fs::write(at.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
            let freezer = Freezer::open(&record).unwrap().expect("a freezer");
            assert_eq!(freezer.state().unwrap(), Frozen::No);
            freezer.set(true).unwrap();
            let text = std::fs::read_to_string(at.join(file)).unwrap();
            assert_eq!(text.trim(), frozen);
            if version == Version::V2 {
                assert_eq!(freezer.state().unwrap(), Frozen::Going);
                std::fs::write(at.join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
            }
            assert_eq!(freezer.state().unwrap(), Frozen::Yes);
            std::fs::create_dir(at.join("own")).unwrap();
            std::fs::write(at.join("own").join(file), format!("{frozen}\n")).unwrap();
            thaw_all(&record).unwrap();
            for at in [at.join(file), at.join("own").join(file)] {
                assert!(std::fs::read_to_string(at).unwrap().starts_with(thawed));
            }
        }
    }

    #[test]
    fn what_another_made_is_never_frozen() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = record(Version::V2, dir.path());
        std::fs::write(dir.path().join("1/cgroup.freeze"), "0\n").unwrap();
        assert!(Freezer::open(&record).unwrap().is_some());
        record.adopted = Some(crate::Adopted {
            offset: 0.0,
            seen: 0.0,
        });
        assert!(Freezer::open(&record).unwrap().is_none());
    }
}
