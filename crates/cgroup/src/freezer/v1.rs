//! The freezer of cgroup v1: a hierarchy of its own, with one file for the order and the state.

use super::Frozen;
use crate::error::Error;
use crate::file::ControlFile;
use std::path::Path;

const STATE: &str = "freezer.state";

/// The file of one group.
#[derive(Debug)]
pub(crate) struct Freezer {
    state: ControlFile,
}

impl Freezer {
    /// None if the directory has no such file.
    pub fn open(directory: &Path) -> Result<Option<Self>, Error> {
        let state = ControlFile::open_if_present(directory, STATE, true)?;
        Ok(state.map(|state| Self { state }))
    }

    pub fn files(&mut self) -> impl Iterator<Item = &mut ControlFile> {
        std::iter::once(&mut self.state)
    }

    /// A group that is still freezing takes the same order once more, which makes the kernel try again.
    pub fn set(&self, frozen: bool) -> Result<(), Error> {
        self.state.write(if frozen { "FROZEN" } else { "THAWED" })
    }

    pub fn state(&self) -> Result<Frozen, Error> {
        let text = self.state.read()?;
        match text.lines().next().unwrap_or_default().trim() {
            "THAWED" => Ok(Frozen::No),
            "FREEZING" => Ok(Frozen::Going),
            "FROZEN" => Ok(Frozen::Yes),
            _ => Err(Error::malformed(
                self.state.path(),
                &text,
                "THAWED, FREEZING or FROZEN",
            )),
        }
    }
}
