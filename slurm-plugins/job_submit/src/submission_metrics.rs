//! What becomes of submissions and jobs, counted, and now and then written down.
//!
//! A submission counts under a lock that nobody holds for longer than it takes to copy a few numbers; files are written by
//! the plugin's thread alone, and when Slurm takes the plugin out.

use libra_config::{MetricsConfig, System};
use libra_core::book::figures::ClusterFigures;
use libra_core::decision::refusal::Category;
use libra_metrics::Counts;
use libra_metrics::files::Files;
use libra_slurm::controller::Answer;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Since it was written down last.
static COUNTS: Mutex<Counts> = Mutex::new(Counts::EMPTY);

static FILES: Mutex<Option<Files>> = Mutex::new(None);

fn counts() -> MutexGuard<'static, Counts> {
    // A panic under the lock left whole numbers.
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A submission was answered.
pub fn submission(answer: &Answer, took: Duration) {
    match answer {
        Answer::Accept(accepted) => counts().accept(u64::from(accepted.count), took),
        Answer::Refuse(not) => {
            if let Some(category) = not.verdict.category() {
                counts().refuse(category, took);
            }
        }
        Answer::Pass | Answer::PassWithout(_) | Answer::Answered(_) | Answer::NotReady => {}
    }
}

/// A submission was refused because of a fault of ours.
pub fn fault(took: Duration) {
    counts().refuse(Category::Fault, took);
}

/// Adds what a poll of the queue has found.
pub fn add(found: &Counts) {
    counts().add(found);
}

/// Writes what was counted, where it is time to. `figures` is asked only then. Returns lines for the log.
pub fn write(
    config: &MetricsConfig,
    now: f64,
    figures: impl FnOnce() -> Option<ClusterFigures>,
) -> Vec<String> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files.get_or_insert_with(|| Files::new(System::Slurm));
    let configured = files.configure(&config.directory, config.interval.0, now);
    let mut written = None;
    if files.is_due(now) {
        if let Some(figures) = figures() {
            files.add(&std::mem::take(&mut *counts()), now);
            written = files.write(&figures, now);
        }
    }
    configured.into_iter().chain(written).collect()
}

/// Writes the last that was counted, if this process has written before: other plugins were configured. When slurmctld
/// ends it does not say so.
pub fn end(now: f64, figures: impl FnOnce() -> Option<ClusterFigures>) {
    let mut files = match FILES.try_lock() {
        Ok(files) => files,
        Err(TryLockError::Poisoned(files)) => files.into_inner(),
        // It is just being written; slurmctld's end does not wait for a disk.
        Err(TryLockError::WouldBlock) => return,
    };
    if let Some(files) = files.as_mut().filter(|files| files.has_written()) {
        if let Some(figures) = figures() {
            files.add(&std::mem::take(&mut *counts()), now);
            let _ = files.write(&figures, now);
        }
    }
}
