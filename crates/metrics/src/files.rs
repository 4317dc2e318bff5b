//! The files of an admitting process: `slurm.prom` and `slurm.json`, or `pbs.…`, in the directory of `[metrics]`.
//!
//! Invariants:
//! - A file is replaced by rename; a reader never sees half of one.
//! - What cannot be read or written is no reason to do anything else differently.
//! - The JSON is written before the text: who begins anew with it never counts less than was shown.

use super::figures::{show_cluster, show_counts};
use super::{Counts, Format, Page, StoredCounts};
use libra_config::System;
use libra_core::book::figures::ClusterFigures;
use libra_system::file::{self, Kept};
use std::io;
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// Keeps the record of one system, and writes it every now and then.
#[derive(Debug)]
pub struct Files {
    system: System,
    /// None: nothing is written.
    directory: Option<PathBuf>,
    record: StoredCounts,
    /// Seconds between two writes.
    interval: f64,
    /// When it was written last, Unix time.
    written: Option<f64>,
    /// What is wrong with the files, as was said last.
    problem: Option<String>,
}

impl Files {
    /// Writes nothing until it is told where to.
    pub fn new(system: System) -> Files {
        Files {
            system,
            directory: None,
            record: StoredCounts::default(),
            interval: 10.0,
            written: None,
            problem: None,
        }
    }

    /// Writes to this directory from now on, at most every so many seconds; an empty one: nowhere. Carries on what is
    /// recorded there. Returns lines for the log.
    pub fn configure(&mut self, directory: &str, interval: f64, now: f64) -> Option<String> {
        self.interval = interval;
        let wanted = (!directory.is_empty()).then(|| PathBuf::from(directory));
        if wanted == self.directory {
            return None;
        }
        self.directory = wanted;
        (self.written, self.problem) = (None, None);
        let path = self.path("json")?;
        let before = match read_record(&path, self.system) {
            Ok(before) => before,
            Err(problem) => {
                self.begin(now);
                let line = format!("{problem}; metrics are counted from 0 on");
                self.problem = Some(problem);
                return Some(line);
            }
        };
        match before {
            // What was counted meanwhile, elsewhere or nowhere, is still to be added.
            Some(before) if self.record.series.is_empty() => {
                let counted = std::mem::replace(&mut self.record, before);
                self.record.add(&counted.totals, now);
            }
            Some(before) => self.record.continue_from(&before, now),
            None => self.begin(now),
        }
        None
    }

    fn begin(&mut self, now: f64) {
        if self.record.series.is_empty() {
            self.record.series = format!("{:.6}", now);
        }
    }

    /// Returns true if there is somewhere to write to, and it is time to.
    pub fn is_due(&self, now: f64) -> bool {
        let age = self.written.map(|written| now - written);
        // A clock that was set back is no reason to wait.
        self.directory.is_some() && age.is_none_or(|age| age >= self.interval || age < 0.0)
    }

    /// Returns true if it has written anything to where it is to.
    pub fn has_written(&self) -> bool {
        self.written.is_some()
    }

    /// Adds what was counted since the last time.
    pub fn add(&mut self, counted: &Counts, now: f64) {
        self.record.add(counted, now);
    }

    /// What is recorded.
    pub fn record(&self) -> &StoredCounts {
        &self.record
    }

    /// Writes both files. Returns a line for the log, when there is something new to say.
    pub fn write(&mut self, figures: &ClusterFigures, now: f64) -> Option<String> {
        let (json, prom) = (self.path("json")?, self.path("prom")?);
        self.written = Some(now);
        let mut page = Page::new();
        show_counts(&mut page, self.system, &self.record.totals);
        show_cluster(&mut page, self.system, figures, now);
        let record = self.record.to_json(self.system, now).to_string();
        let done = replace(&json, &format!("{record}\n"))
            .and_then(|()| replace(&prom, &page.text(Format::Prometheus)));
        match (done, self.problem.take()) {
            (Ok(()), None) => None,
            (Ok(()), Some(_)) => Some("metrics are written again".to_string()),
            // Once, until it is well again.
            (Err(problem), before) => {
                self.problem = Some(problem.clone());
                before
                    .is_none()
                    .then(|| format!("{problem}; metrics are not written"))
            }
        }
    }

    fn path(&self, ending: &str) -> Option<PathBuf> {
        let name = format!("{}.{ending}", self.system.name());
        Some(self.directory.as_ref()?.join(name))
    }
}

/// Reads a record; None if there is none.
///
/// # Errors
/// When it cannot be read, with its path.
pub fn read_record(path: &Path, system: System) -> Result<Option<StoredCounts>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let Some(text) = read(path).map_err(|error| problem(&error))? else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text).map_err(|error| problem(&error))?;
    let record = StoredCounts::from_json(&value, system).map_err(|error| problem(&error))?;
    Ok(Some(record))
}

/// Reads one of these files, see [`file::read`]; None if there is none.
///
/// # Errors
/// When it cannot be read, or is no plain file of at most 1 MiB.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    file::read(path, LARGEST)
}

/// Writes a file whole or not at all, for everybody to read.
///
/// # Errors
/// When it cannot be written, with its path.
pub fn replace(path: &Path, text: &str) -> Result<(), String> {
    file::replace(path, text, 0o644, Kept::OverProcesses)
}
