//! What a group that is killed needs to die.
//!
//! To end takes processor time: a job of many gigabytes gives them back itself. Held to a thousandth of a processor, or beside jobs of
//! a thousand times its weight, it takes seconds to minutes, and frozen on version 1 it does not end at all. Once it is killed nothing of
//! its program runs any more, so no cap has anything left to hold: it gets the weight of a processor, for as long as it takes.
//!
//! Another process that readjusts this host's jobs may hold it again meanwhile: asked for as often as it is checked whether it is dead.

use std::path::Path;

use super::detect::Role;
use super::error::Error;
use super::external::UNSET;
use super::freezer::thaw_all;
use super::limits::{Held, V1_SHARES, V2_WEIGHT};
use super::record::GroupRecord;
use super::settings::Version;
use super::{v1, v2};

/// Takes off what would keep a group that is killed from ending. What cannot be taken off is logged: it may die all the same.
pub(crate) fn let_end(record: &GroupRecord) {
    for done in [thaw_all(record), take_cap_off(record)] {
        match done {
            Err(e) if !e.is_gone() => log::warn!("{}: {e}", record.name),
            _ => {}
        }
    }
}

fn take_cap_off(record: &GroupRecord) -> Result<(), Error> {
    let cpu = (record.directories.iter()).find(|d| d.roles.contains(&Role::Cpu));
    let Some(directory) = cpu else {
        return Ok(());
    };
    if !directory.matches()? {
        return Ok(());
    }
    write(record, &directory.path)
}

fn write(record: &GroupRecord, at: &Path) -> Result<(), Error> {
    let wanted = held_to_nothing(record.version, record.capacity);
    match record.version {
        Version::V1 => {
            let controls = v1::Controls::open(at, None)?;
            let mut held = controls.read()?;
            controls.write(&mut held, &wanted).map(drop)
        }
        Version::V2 => {
            let controls = v2::Controls::open(at)?;
            let mut held = controls.read()?;
            controls.write(&mut held, &wanted).map(drop)
        }
    }
}

/// No quota, and the weight of one of so many processors.
pub(crate) fn held_to_nothing(version: Version, capacity: f64) -> Held {
    let (least, most) = match version {
        Version::V1 => V1_SHARES,
        Version::V2 => V2_WEIGHT,
    };
    Held {
        weight: ((most as f64 / capacity.max(1.0)) as u64).clamp(least, most),
        ..UNSET
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::DirectoryRecord;

    #[test]
    fn a_group_that_is_killed_has_no_cap_and_the_weight_of_a_processor() {
        let on_v1 = (v1::QUOTA, "1000\n", v1::SHARES, ("-1", "65536"));
        let on_v2 = (v2::MAX, "1000 100000\n", v2::WEIGHT, ("max 100000", "2500"));
        for (version, (quota, held, weight, expected)) in
            [(Version::V1, on_v1), (Version::V2, on_v2)]
        {
            let dir = tempfile::tempdir().unwrap();
            let roles = [Role::Cpu, Role::Accounting];
            let made = DirectoryRecord::make(&dir.path().join("1.host"), &roles).unwrap();
            match version {
                Version::V1 => v1::fixture(&made.path),
                Version::V2 => v2::fixture(&made.path),
            }
            let path = made.path.clone();
            let first_line = |file| {
                let text = std::fs::read_to_string(path.join(file)).unwrap();
                text.lines().next().unwrap_or_default().to_string()
            };
            let record = GroupRecord {
                name: "1.host".into(),
                version,
                capacity: 4.0,
                directories: vec![made],
                adopted: None,
            };
            std::fs::write(path.join(quota), held).unwrap();
            let_end(&record);
            let found = (first_line(quota), first_line(weight));
            assert_eq!((found.0.as_str(), found.1.as_str()), expected);
            // Nothing there any more is nothing to do.
            std::fs::remove_dir_all(&path).unwrap();
            let_end(&record);
        }
    }
}
