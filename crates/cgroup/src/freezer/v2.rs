//! The freezer of cgroup v2: in every group a file for the order; the state is among the group's events.

use super::Frozen;
use crate::error::Error;
use crate::file::ControlFile;
use crate::v2;
use std::path::Path;

/// Kernels before 5.2 have no such file.
const FREEZE: &str = "cgroup.freeze";

/// The files of one group.
#[derive(Debug)]
pub(crate) struct Freezer {
    order: ControlFile,
    events: Option<ControlFile>,
}

impl Freezer {
    /// None if the directory has no such file.
    pub fn open(directory: &Path) -> Result<Option<Self>, Error> {
        let Some(order) = ControlFile::open_if_present(directory, FREEZE, true)? else {
            return Ok(None);
        };
        let events = ControlFile::open_if_present(directory, v2::EVENTS, false)?;
        Ok(Some(Self { order, events }))
    }

    pub fn files(&mut self) -> impl Iterator<Item = &mut ControlFile> {
        std::iter::once(&mut self.order).chain(&mut self.events)
    }

    pub fn set(&self, frozen: bool) -> Result<(), Error> {
        self.order.write(if frozen { "1" } else { "0" })
    }

    pub fn state(&self) -> Result<Frozen, Error> {
        if self.order.number::<u8>()? == 0 {
            return Ok(Frozen::No);
        }
        let all = match &self.events {
            Some(events) => events.keyed("frozen")? == Some(1),
            None => false,
        };
        Ok(if all { Frozen::Yes } else { Frozen::Going })
    }
}
