//! From the jobs of a batch system to a log: order, numbers, names, header.

use super::{AccountingRecord, Imported, LeftOut, Options, PROMISED};
use crate::swf::{LONGEST, SwfRecord, UNKNOWN};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Numbers for names, from 1, in the order in which they come.
#[derive(Default)]
struct Names {
    numbers: BTreeMap<Rc<str>, i32>,
    names: Vec<Rc<str>>,
}

impl Names {
    /// -1 for no name.
    fn number(&mut self, name: Option<&Rc<str>>) -> i32 {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return -1;
        };
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.names.push(name.clone());
        let number = i32::try_from(self.names.len()).unwrap_or(i32::MAX);
        self.numbers.insert(name.clone(), number);
        number
    }

    fn header(&self, key: &str, header: &mut Vec<String>) {
        let lines = self.names.iter().zip(1..);
        header.extend(lines.map(|(name, number)| format!("{key}: {number} {name}")));
    }
}

/// Puts jobs in order and makes the log of them.
pub(super) fn make(
    mut entries: Vec<AccountingRecord>,
    options: &Options,
    left_out: LeftOut,
    first_bad_lines: Vec<String>,
) -> Imported {
    entries.sort_by_key(|entry| (entry.submit, entry.number.unwrap_or(u32::MAX)));
    let start = entries.first().map_or(0, |entry| entry.submit);
    let own_numbers = have_own_numbers(&entries);
    let mut names = [Names::default(), Names::default(), Names::default()];
    let records: Vec<SwfRecord> = entries
        .iter()
        .zip(1..)
        .map(|(entry, count)| {
            let number = entry.number.filter(|_| own_numbers).unwrap_or(count);
            let [users, groups, queues] = &mut names;
            SwfRecord {
                user: users.number(entry.user.as_ref()),
                group: groups.number(entry.group.as_ref()),
                queue: queues.number(entry.queue.as_ref()),
                ..record(entry, number, start)
            }
        })
        .collect();
    let processors = options.processors.or_else(|| most_in_use(&entries));
    let mut header = vec![
        "Version: 2.2".to_string(),
        "Note: Made of accounting records by: libra trace import".to_string(),
        match own_numbers {
            true => "Note: Job numbers are the batch system's own".to_string(),
            false => "Note: Jobs are numbered in order of submission".to_string(),
        },
        format!("MaxJobs: {}", records.len()),
        format!("MaxRecords: {}", records.len()),
        format!("UnixStartTime: {start}"),
    ];
    if options.promised {
        header.push(PROMISED.to_string());
    }
    if let Some(processors) = processors {
        if options.processors.is_none() {
            header.push("Note: MaxProcs is the most that were in use at one time".to_string());
        }
        header.push(format!("MaxProcs: {processors}"));
    }
    header.push(format!("MaxQueues: {}", names[2].names.len()));
    if !options.anonymous {
        for (key, names) in ["User", "Group", "Queue"].into_iter().zip(&names) {
            names.header(key, &mut header);
        }
    }
    Imported {
        header,
        records,
        left_out,
        first_bad_lines,
        names: names.map(|names| names.names.len()),
        processors,
    }
}

/// Returns true if every job has a number of its own that no other has.
fn have_own_numbers(entries: &[AccountingRecord]) -> bool {
    let mut numbers: Vec<u32> = entries.iter().filter_map(|entry| entry.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len() == entries.len()
}

/// The line of a job, without its names.
fn record(entry: &AccountingRecord, number: u32, start: i64) -> SwfRecord {
    let count = |processors: Option<u32>| match processors {
        Some(processors) if processors > 0 => i32::try_from(processors).unwrap_or(i32::MAX),
        _ => -1,
    };
    let processors = entry.allocated.filter(|n| *n > 0).or(entry.requested);
    let each = |amount: Option<f64>, digits: f64| match (amount, processors) {
        (Some(amount), Some(processors)) if processors > 0 => {
            (amount / f64::from(processors) * digits).round() / digits
        }
        _ => UNKNOWN,
    };
    let ran = entry.start.zip(entry.run_time);
    let known = |seconds: f64| (0.0..=LONGEST).contains(&seconds);
    SwfRecord {
        // A start before the submission is one in an hour that the clocks had twice.
        wait: ran.map_or(UNKNOWN, |(start, _)| (start - entry.submit).max(0) as f64),
        run_time: ran
            .map(|(_, time)| time)
            .filter(|t| known(*t))
            .unwrap_or(UNKNOWN),
        allocated: count(entry.allocated),
        cpu_time: each(entry.cpu_time.filter(|_| ran.is_some()), 100.0),
        used_memory: each(entry.used_memory.filter(|_| ran.is_some()), 1.0),
        requested: count(entry.requested),
        requested_time: entry
            .requested_time
            .filter(|t| known(*t))
            .unwrap_or(UNKNOWN),
        requested_memory: each(entry.requested_memory, 1.0),
        status: i32::from(entry.status),
        ..SwfRecord::unknown(number, (entry.submit - start) as f64)
    }
}

/// The most processors that were in use at one time: at least so many has the cluster.
fn most_in_use(entries: &[AccountingRecord]) -> Option<u32> {
    let mut changes: Vec<(i64, i64)> = Vec::with_capacity(2 * entries.len());
    for entry in entries {
        let processors = entry.allocated.filter(|n| *n > 0).or(entry.requested);
        let (Some(start), Some(time), Some(processors)) = (entry.start, entry.run_time, processors)
        else {
            continue;
        };
        let processors = i64::from(processors);
        changes.push((start, processors));
        changes.push((start.saturating_add(time as i64), -processors));
    }
    // At one time those that end come before those that start: the negative ones first.
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    u32::try_from(most).ok().filter(|most| *most > 0)
}
