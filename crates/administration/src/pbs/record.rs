//! What an installation changed and what was there before: one JSON file for each server.
//!
//! An entry is written before the change that it is about, so that an installation that was killed
//! can be continued and undone.

use super::PbsError;
use crate::install_state::InstallState;
use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What was changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct InstallRecord {
    /// The server.
    pub server: String,
    /// The version of Libra that wrote this.
    pub version: String,
    /// Whether the last installation came to its end.
    pub complete: bool,
    /// What was asked for, for a later run that does not say.
    pub options: Options,
    /// Resources that were made.
    pub resources: Vec<String>,
    /// For each node, resources whose value was set.
    pub nodes: BTreeMap<String, BTreeMap<String, NodeValue>>,
    /// The change of sched_config.
    pub scheduler: Option<SchedulerChange>,
    /// Hooks that were made.
    pub hooks: Vec<String>,
}

/// The options of an installation; none and empty are the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    pub nodes: Vec<String>,
    pub share: Option<f64>,
    pub library: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub host_config: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeValue {
    /// None: the node had none.
    pub before: Option<String>,
    pub set: String,
}

/// One line of sched_config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerChange {
    pub file: PathBuf,
    pub before: String,
    pub set: String,
}

/// One entry of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Installed {
    Resource(String),
    Node {
        node: String,
        resource: String,
        value: NodeValue,
    },
    Scheduler(SchedulerChange),
    Hook(String),
}

impl InstallRecord {
    /// Takes an entry in. What was there before the first change stays what was there before.
    pub fn add(&mut self, entry: &Installed) {
        match entry {
            Installed::Resource(name) => insert(&mut self.resources, name),
            Installed::Hook(name) => insert(&mut self.hooks, name),
            Installed::Scheduler(change) => match &mut self.scheduler {
                Some(first) => first.set.clone_from(&change.set),
                None => self.scheduler = Some(change.clone()),
            },
            Installed::Node {
                node,
                resource,
                value,
            } => {
                let values = self.nodes.entry(node.clone()).or_default();
                match values.get_mut(resource) {
                    Some(first) => first.set.clone_from(&value.set),
                    None => {
                        values.insert(resource.clone(), value.clone());
                    }
                }
            }
        }
    }

    /// Takes an entry out: it is undone.
    pub fn remove(&mut self, entry: &Installed) {
        match entry {
            Installed::Resource(name) => self.resources.retain(|r| r != name),
            Installed::Hook(name) => self.hooks.retain(|h| h != name),
            Installed::Scheduler(_) => self.scheduler = None,
            Installed::Node { node, resource, .. } => {
                if let Some(values) = self.nodes.get_mut(node) {
                    values.remove(resource);
                    if values.is_empty() {
                        self.nodes.remove(node);
                    }
                }
            }
        }
    }

    /// Whether there is nothing to undo.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.nodes.is_empty()
            && self.hooks.is_empty()
            && self.scheduler.is_none()
    }
}

fn insert(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|n| n == name) {
        names.push(name.to_string());
    }
}

/// The directory with the records.
pub struct Records(InstallState);

impl Records {
    /// The record of a server; nothing is made yet.
    pub fn of(directory: &Path, server: &str) -> Records {
        Records(InstallState::of(directory, server, "pbs"))
    }

    /// Where the record is.
    pub fn file(&self) -> &Path {
        self.0.file()
    }

    /// Where hooks are written to, to be imported.
    pub fn hooks(&self) -> PathBuf {
        self.file().with_extension("hooks")
    }

    /// Makes the directory and keeps other installations out while the value lives.
    pub fn lock(&self) -> Result<Flock<File>, PbsError> {
        Ok(self.0.lock()?)
    }

    /// Reads the record; None if nothing is installed.
    pub fn read(&self) -> Result<Option<InstallRecord>, PbsError> {
        Ok(self.0.read()?)
    }

    /// Writes the record; an empty one is removed, and the directory with it where that is empty.
    pub fn write(&self, record: &InstallRecord) -> Result<(), PbsError> {
        let written = !record.is_empty() || record.complete;
        Ok(self.0.write(written.then_some(record))?)
    }

    /// Takes away what a run that was killed may have left half made. Needs the lock.
    pub fn tidy(&self) {
        self.0.tidy();
        let _ = fs::remove_dir_all(self.hooks());
    }

    /// Takes the directory away where no record is left in it. Needs the lock.
    pub fn clear(&self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install_state::InstallStateError;

    fn value(before: Option<&str>, set: &str) -> Installed {
        Installed::Node {
            node: "n1".to_string(),
            resource: "libra_share".to_string(),
            value: NodeValue {
                before: before.map(str::to_string),
                set: set.to_string(),
            },
        }
    }

    #[test]
    fn what_was_there_first_stays_known() {
        let mut record = InstallRecord::default();
        record.add(&value(Some("7"), "2"));
        record.add(&value(Some("2"), "1.5"));
        let written = &record.nodes["n1"]["libra_share"];
        assert_eq!(
            (written.before.as_deref(), written.set.as_str()),
            (Some("7"), "1.5")
        );
        record.add(&Installed::Hook("h".to_string()));
        record.add(&Installed::Hook("h".to_string()));
        assert_eq!(record.hooks, ["h"]);
        record.remove(&value(None, ""));
        record.remove(&Installed::Hook("h".to_string()));
        assert!(record.is_empty() && record.nodes.is_empty());
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_goes_when_it_is_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        let records = Records::of(&directory.path().join("pbs"), "srv");
        let lock = records.lock().expect("free");
        assert!(matches!(
            records.lock(),
            Err(PbsError::InstallState(InstallStateError::Busy { .. }))
        ));
        assert_eq!(records.read().expect("nothing there"), None);
        let mut record = InstallRecord {
            server: "srv".to_string(),
            complete: true,
            ..InstallRecord::default()
        };
        record.add(&value(None, "2"));
        records.write(&record).expect("written");
        assert_eq!(records.read().expect("readable"), Some(record.clone()));
        record.remove(&value(None, "2"));
        record.complete = false;
        records.write(&record).expect("removed");
        assert!(!records.file().exists());
        drop(lock);
        records.clear();
        assert!(!directory.path().join("pbs").exists());
        fs::create_dir(directory.path().join("pbs")).expect("made");
        fs::write(records.file(), "{").expect("written");
        let error = records.read().expect_err("half a file").to_string();
        assert!(error.contains("srv.json"), "{error}");
    }
}
