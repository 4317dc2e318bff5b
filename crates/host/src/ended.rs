//! Jobs of the registry that have ended: in a directory of their own, so that who decides and who readjusts shares reads live
//! ones alone, however many have come and gone.
//!
//! Invariants: a job is first written as ended in its place, then moved; killed in between, it is an ended job among the live
//! ones, which everybody knows how to read, and the next search for jobs to forget moves it.

use super::entry::Entry;
use super::registry::{Registry, RegistryError, failed};
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

const ENDED: &str = "ended";
/// Most files that one search removes: the lock is held meanwhile.
const AT_ONCE: usize = 2_000;

impl Registry {
    pub(super) fn ended_directory(&self) -> PathBuf {
        self.directory().join(ENDED)
    }

    /// Moves the file of a job that has ended out of the way of those that have not.
    pub(super) fn put_aside(&self, id: &str) -> Result<(), RegistryError> {
        let to = self.ended_directory();
        self.make_directory(&to)?;
        let from = self.path(id);
        fs::rename(&from, to.join(Registry::file_name(id))).map_err(failed("move", &from))
    }

    /// Jobs that have ended, in order of submission where ids are numbers.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn ended(&self) -> Result<Vec<Entry>, RegistryError> {
        let ids = self.ids_in(&self.ended_directory())?;
        Ok(self.read_each(ids.into_iter()))
    }

    /// Forgets ended jobs: those over `most`, the least numbers first and [`AT_ONCE`] at a time, and those for which `is_old`
    /// holds. Each file that is old enough by its date is read, the others are not.
    ///
    /// # Errors
    /// When the directory cannot be read or a file not removed.
    pub(super) fn forget_ended(
        &self,
        most: usize,
        keep: f64,
        is_old: impl Fn(&Entry) -> bool,
    ) -> Result<(), RegistryError> {
        let directory = self.ended_directory();
        let ids = self.ids_in(&directory)?;
        let surplus = ids.len().saturating_sub(most);
        for id in &ids[..surplus.min(AT_ONCE)] {
            self.remove_ended(id)?;
        }
        let now = SystemTime::now();
        for id in &ids[surplus..] {
            let file = directory.join(Registry::file_name(id));
            // Gone meanwhile: forgotten by somebody else.
            let Ok(written) = fs::metadata(&file).and_then(|data| data.modified()) else {
                continue;
            };
            // A date of the future says nothing: somebody has set the clock.
            let age = now.duration_since(written).map(|age| age.as_secs_f64());
            if age.is_ok_and(|age| age < keep) {
                continue;
            }
            if matches!(self.read_ended(id), Ok(Some(entry)) if is_old(&entry)) {
                self.remove_ended(id)?;
            }
        }
        Ok(())
    }
}
