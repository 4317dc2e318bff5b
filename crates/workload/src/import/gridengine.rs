//! Grid Engine's accounting file: one line for each task that has ended, see [`crate::gridengine`].
//!
//! A task of an array is a job. One that was taken back into the queue and ran again counts once, with its last run. Of a parallel job with
//! tight integration lines of its further tasks are parts; where the environment has `accounting_summary` there are none.

use super::values::{Words, shown};
use super::{AccountingRecord, LeftOut};
use crate::gridengine::GridEngineRecord;
use libra_units::{duration, memory};
use std::collections::BTreeMap;

/// Exit status of one that SIGKILL or SIGTERM has ended: qdel's.
const KILLED: [i32; 2] = [137, 143];

/// Collects jobs.
#[derive(Default)]
pub(super) struct Collector {
    /// By time of submission, number of job and of task. None: it was only taken back so far.
    jobs: BTreeMap<(i64, u32, u32), Option<AccountingRecord>>,
    parts: u64,
    repeated: u64,
    words: Words,
}

impl Collector {
    /// Takes one line.
    pub(super) fn take(&mut self, line: &str) -> Result<(), String> {
        let Some(record) = GridEngineRecord::parse(line)? else {
            return Ok(());
        };
        if record.is_part {
            self.parts += 1;
            return Ok(());
        }
        // Taken back by qmaster, of which no more is known.
        if record.is_taken_back() && record.submitted == 0 {
            self.repeated += 1;
            return Ok(());
        }
        let entry = match record.is_taken_back() {
            true => None,
            false => Some(self.entry(&record)?),
        };
        let key = (record.submitted, record.job, record.task.unwrap_or(0));
        match self.jobs.get_mut(&key) {
            None => {
                self.jobs.insert(key, entry);
            }
            Some(before) => {
                self.repeated += 1;
                if entry.is_some() {
                    *before = entry;
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, record: &GridEngineRecord<'_>) -> Result<AccountingRecord, String> {
        let slots = f64::from(record.slots.max(1));
        let time = |text: &str| duration::parse(text).ok();
        let requested_time = requested(record, "h_rt", time, "a duration such as 3600 or 1:00:00")?;
        let bytes = |text: &str| memory::parse(text).ok();
        let requested_memory =
            requested(record, "h_vmem", bytes, "an amount of memory such as 4G")?
                .map(|bytes| bytes as f64 / 1024.0 * slots);
        let has_run = record.started > 0;
        let mut text = |word: &str| (!word.is_empty()).then(|| self.words.keep(word));
        Ok(AccountingRecord {
            number: Some(record.job),
            submit: record.submitted,
            start: has_run.then_some(record.started),
            run_time: has_run.then(|| record.ran()),
            allocated: has_run.then_some(record.slots),
            requested: Some(record.slots),
            cpu_time: record.is_measured.then_some(record.cpu),
            used_memory: (record.max_vmem > 0.0).then_some(record.max_vmem / 1024.0),
            requested_time,
            requested_memory,
            status: match (record.failed, record.exit) {
                (0, _) if !record.is_measured => 5,
                (0, 0) => 1,
                (17 | 100, exit) if KILLED.contains(&exit) => 5,
                _ => 0,
            },
            user: text(record.owner),
            group: text(record.group),
            queue: text(record.queue),
            promised: None,
        })
    }

    /// The jobs that have ended, in order of submission.
    pub(super) fn finish(self, left_out: &mut LeftOut) -> Vec<AccountingRecord> {
        let all = self.jobs.len() as u64;
        let entries: Vec<AccountingRecord> = self.jobs.into_values().flatten().collect();
        left_out.not_ended += all - entries.len() as u64;
        left_out.parts += self.parts;
        left_out.repeated += self.repeated;
        entries
    }
}

/// What was requested, unless it was no limit.
fn requested<T>(
    record: &GridEngineRecord<'_>,
    name: &str,
    read: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<Option<T>, String> {
    let text = (record.request(name)).filter(|text| !text.eq_ignore_ascii_case("INFINITY"));
    text.map(|text| {
        read(text).ok_or_else(|| format!("{name} is '{}', expected {expected}", shown(text)))
    })
    .transpose()
}
