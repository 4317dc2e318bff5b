//! What `libra run` has been told on this host, and how its jobs ended, counted in a file of the registry.
//!
//! Invariants:
//! - It is read and written under the registry's lock alone, so nothing is lost between two processes.
//! - Jobs of a batch system are not counted here: who accepted them does. What is, is that this host did not believe one.
//! - A count that cannot be written changes nothing else.

use super::entry::{Conclusion, Ending, Entry};
use super::registry::Lock;
use super::{Host, HostError};
use libra_batch::verdict::NotTaken;
use libra_config::System;
use libra_core::decision::refusal::Category;
use libra_metrics::files::read_record;
use libra_metrics::{Counts, Outcome, Rejection, StoredCounts};
use libra_system::clock;
use std::convert::Infallible;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// How a job of this host has ended.
fn outcome(entry: &Entry, ending: &Ending, rating: f64) -> Outcome {
    let terms = &entry.request.terms;
    let took = ending.at - entry.submitted;
    let conditional = terms.are_conditional(rating);
    if !entry.has_promised_end() {
        return match entry.conclusion() {
            Some(Conclusion::Cancelled | Conclusion::Stopped) => Outcome::Cancelled,
            Some(Conclusion::Failed) => Outcome::Failed,
            Some(Conclusion::Finished) => Outcome::Finished,
            Some(Conclusion::Unknown) | None => Outcome::Unknown,
        };
    }
    let of = |cut_short| Outcome::of(took, terms.deadline, cut_short).if_conditional(conditional);
    match entry.conclusion() {
        Some(Conclusion::Cancelled | Conclusion::Stopped) => of(true),
        Some(Conclusion::Failed) => of(false).but_failed(true),
        Some(Conclusion::Finished) => of(false),
        // In time, and nobody knows whether it was done.
        Some(Conclusion::Unknown) | None => match of(false) {
            Outcome::Met => Outcome::Unknown,
            other => other,
        },
    }
}

impl Host {
    /// The file; there is one once something was counted.
    pub fn counts_path(&self) -> PathBuf {
        self.registry.directory().join("counts.json")
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// When the file cannot be read, with its path.
    pub fn counts(&self) -> Result<Option<StoredCounts>, String> {
        let mut counted = self.written_counts()?;
        let faults = std::fs::metadata(self.faults_path()).map_or(0, |data| data.len());
        if faults > 0 {
            let mut counts = Counts::EMPTY;
            counts.refuse_many(Category::Fault, faults);
            let record = counted.get_or_insert_with(|| StoredCounts::new(&self.boot));
            record.totals.add(&counts);
        }
        Ok(counted)
    }

    fn written_counts(&self) -> Result<Option<StoredCounts>, String> {
        read_record(&self.counts_path(), System::Local)
    }

    /// A byte for each submission that could not be judged: the lock, without which nothing is counted, may be what it lacked.
    fn faults_path(&self) -> PathBuf {
        self.registry.directory().join("faults")
    }

    /// Counts a submission that could not be judged; best effort.
    pub(super) fn count_fault(&self) {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.faults_path());
        if let Err(error) = file.and_then(|mut file| file.write_all(b".")) {
            log::debug!("a fault is not counted: {error}");
        }
    }

    /// Counts something.
    pub(super) fn count(&self, lock: &Lock, change: impl FnOnce(&mut Counts)) {
        let mut counts = Counts::EMPTY;
        change(&mut counts);
        let now = clock::unix_time();
        let mut record = self.counts_or_new(now);
        record.add(&counts, now);
        if let Err(error) = self.write_counts(lock, &record, now) {
            log::error!("not counted: {error}");
        }
    }

    /// Counts a submission that is not taken.
    pub(super) fn count_refusal(&self, lock: &Lock, not: &NotTaken<Infallible>, took: Duration) {
        if let Some(category) = not.category() {
            self.count(lock, |counts| counts.refuse(category, took));
        }
    }

    /// Counts a job of a batch system whose claim to a share was not believed.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn reject_claim(&self, rejection: Rejection) -> Result<(), HostError> {
        let lock = self.registry.lock()?;
        self.count(&lock, |counts| counts.reject(rejection));
        Ok(())
    }

    /// Counts the end of a job, if it was accepted here.
    pub(super) fn count_ending(&self, lock: &Lock, entry: &Entry, ending: &Ending) {
        // A batch system counts its own, and a held quote was never a job.
        if entry.begun.is_none() && entry.quote.is_none() {
            let rating = self.machine.spec.rating;
            self.count(lock, |counts| counts.end(outcome(entry, ending, rating)));
        }
    }

    /// Takes over what an earlier boot has counted, once. Returns what there is now.
    ///
    /// # Errors
    /// When the registry fails.
    pub fn continue_counts(&self, before: &StoredCounts) -> Result<StoredCounts, HostError> {
        let lock = self.registry.lock()?;
        let now = clock::unix_time();
        let mut record = self.counts_or_new(now);
        record.continue_from(before, now);
        self.write_counts(&lock, &record, now)?;
        Ok(record)
    }

    fn counts_or_new(&self, now: f64) -> StoredCounts {
        let found = self.written_counts().unwrap_or_else(|problem| {
            log::error!("{problem}; jobs are counted from 0 on");
            None
        });
        found.unwrap_or_else(|| StoredCounts::new(&format!("{} {now:.6}", self.boot)))
    }

    fn write_counts(&self, _lock: &Lock, record: &StoredCounts, now: f64) -> Result<(), HostError> {
        let text = record.to_json(System::Local, now).to_string();
        Ok(self
            .registry
            .replace(&self.counts_path(), format!("{text}\n").as_bytes())?)
    }
}
