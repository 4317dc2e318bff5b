//! Jobs of a batch system that nothing was promised to: each has a group of its own from its first process on, so that all of it is counted
//! and nothing of it is left behind at its end.
//!
//! They are not in the registry: they hold no share, and all there is to know of one is in the kernel's directories.

use super::batch::check_id;
use super::ending::PATIENCE;
use super::entry::{GROUP_PREFIX, group_name};
use super::registry::{Limit, Lock};
use super::{Host, HostError};
use std::time::Duration;

impl Host {
    /// Makes the group of such a job before its first process comes, with the weight of so many processors against others of its kind. False
    /// where nothing is enforced here.
    ///
    /// # Errors
    /// When the id cannot be one, or the group cannot be made.
    pub fn begin_without_terms(&self, id: &str, processors: f64) -> Result<bool, HostError> {
        check_id(id)?;
        let Some(enforcer) = self.enforcer() else {
            return Ok(false);
        };
        enforcer.make_without_terms(&group_name(id), &self.limits(processors.max(0.0)))?;
        if !enforcer.made_root().directories.is_empty() {
            match self.lock_at_once() {
                Some(_lock) => self.note_roots()?,
                None => log::warn!(
                    "the directory above jobs without terms is not written down; it will stay"
                ),
            }
        }
        Ok(true)
    }

    /// The registry's lock, if it is to be had within a moment: none of these jobs is in the registry, and none waits for it.
    fn lock_at_once(&self) -> Option<Lock> {
        let mut registry = self.registry.clone();
        registry.limit = Some(Limit::new(Duration::ZERO));
        registry.lock().ok()
    }

    /// Puts a process of such a job into its group: alone, where it is about to become a task of it, or with all that it has started since
    /// (`tree`). Where it has none yet, it gets one.
    ///
    /// # Errors
    /// As for [`Host::begin_without_terms`].
    pub fn attach_without_terms(&self, id: &str, pid: i32, tree: bool) -> Result<(), HostError> {
        check_id(id)?;
        let Some(enforcer) = self.enforcer() else {
            return Ok(());
        };
        let name = group_name(id);
        if enforcer.group_without_terms(&name)?.is_none() {
            self.begin_without_terms(id, 1.0)?;
        }
        let Some(record) = enforcer.group_without_terms(&name)? else {
            return Ok(());
        };
        if tree {
            if let Some(group) = enforcer.reopen(&record)? {
                group.place_tree(pid)?;
            }
        } else {
            enforcer.place_without_terms(&record, pid)?;
        }
        Ok(())
    }

    /// Ends such a job here: kills what is left of it and removes its group. The processor seconds that it used; None if it has no group.
    ///
    /// # Errors
    /// When its processes do not end, or the group cannot be removed.
    pub fn end_without_terms(&self, id: &str) -> Result<Option<f64>, HostError> {
        check_id(id)?;
        let Some(enforcer) = self.enforcer() else {
            return Ok(None);
        };
        let Some(record) = enforcer.group_without_terms(&group_name(id))? else {
            return Ok(None);
        };
        let group = enforcer.reopen(&record)?;
        let used = group.and_then(|group| group.usage().ok());
        enforcer.discard(&record, PATIENCE)?;
        if self.has_roots() {
            // The next one does it otherwise.
            if let Some(_lock) = self.lock_at_once() {
                self.remove_roots()?;
            }
        }
        Ok(Some(used.map_or(0.0, |used| used.seconds)))
    }

    /// Ends those that their batch system does not have any more. `is_left_over`: of an id and the seconds since its group was made. Returns
    /// lines for the log.
    pub fn end_left_over_without_terms(
        &self,
        is_left_over: &dyn Fn(&str, f64) -> bool,
    ) -> Vec<String> {
        let Some(enforcer) = self.enforcer() else {
            return Vec::new();
        };
        let mut log = Vec::new();
        for (name, age) in enforcer.groups_without_terms() {
            let Some(id) = name.strip_prefix(GROUP_PREFIX) else {
                continue;
            };
            if is_left_over(id, age.as_secs_f64()) {
                log.push(match self.end_without_terms(id) {
                    Ok(_) => format!("job {id} was left over, ended"),
                    Err(error) => format!("job {id} is left over: {error}"),
                });
            }
        }
        log
    }
}
