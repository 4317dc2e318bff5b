//! Jobs of the registry that have ended: in a directory of their own, so that who decides and who readjusts shares reads live
//! ones alone, however many have come and gone.
//!
//! Invariants: a job is first written as ended in its place, then moved; killed in between, it is an ended job among the live
//! ones, which everybody knows how to read, and the next look for jobs to forget moves it.

use super::entry::Entry;
use super::registry::{Registry, RegistryError, failed};
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

const ENDED: &str = "ended";
/// Most files that one look removes: the lock is held meanwhile.
const AT_ONCE: usize = 10_000;

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

    /// Jobs that have ended, those that ended first at the front.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn ended(&self) -> Result<Vec<Entry>, RegistryError> {
        let ids = self.ids_by_age()?;
        Ok(self.read_each(ids.into_iter().map(|(id, _)| id)))
    }

    /// Ids of ended jobs and when their files were written last, the oldest first.
    fn ids_by_age(&self) -> Result<Vec<(String, SystemTime)>, RegistryError> {
        let directory = self.ended_directory();
        let mut found = Vec::new();
        for id in self.ids_in(&directory)? {
            let file = directory.join(Registry::file_name(&id));
            // Gone meanwhile: forgotten by somebody else.
            let Ok(written) = fs::metadata(&file).and_then(|data| data.modified()) else {
                continue;
            };
            found.push((id, written));
        }
        found.sort_by_key(|(_, written)| *written);
        Ok(found)
    }

    /// Forgets ended jobs: those over `most`, the oldest first, and those for which `is_old` holds. Each file that is old enough
    /// by its date is read, the others are not.
    ///
    /// # Errors
    /// When the directory cannot be read or a file not removed.
    pub(super) fn forget_ended(
        &self,
        most: usize,
        keep: f64,
        is_old: impl Fn(&Entry) -> bool,
    ) -> Result<(), RegistryError> {
        let found = self.ids_by_age()?;
        let surplus = found.len().saturating_sub(most).min(AT_ONCE);
        for (id, _) in &found[..surplus] {
            self.remove_ended(id)?;
        }
        let now = SystemTime::now();
        for (id, written) in &found[surplus..] {
            // A date of the future says nothing: somebody has set the clock.
            let age = now.duration_since(*written).map(|age| age.as_secs_f64());
            if age.is_ok_and(|age| age < keep) {
                break;
            }
            if matches!(self.read_ended(id), Ok(Some(entry)) if is_old(&entry)) {
                self.remove_ended(id)?;
            }
        }
        Ok(())
    }
}
