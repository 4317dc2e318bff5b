//! What one processor is planned to do: runs of jobs, one after the other.
//!
//! Invariant: runs ascend and do not overlap.

use std::cmp::Ordering;

/// In which order jobs are served: the least first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Priority {
    /// A time: for most jobs when they are due. Minus infinity before all, infinity after all.
    pub at: f64,
    /// Of equals the one that was submitted first.
    pub number: u64,
}

impl Priority {
    /// Behind everybody.
    pub const LAST: Priority = Priority {
        at: f64::INFINITY,
        number: u64::MAX,
    };
}

impl Eq for Priority {}

impl Priority {
    /// As one number, in the same order.
    fn key(self) -> u128 {
        let bits = self.at.to_bits();
        // Negative numbers are the smaller the larger their bits, as in `f64::total_cmp`.
        let ordered = bits ^ ((((bits as i64) >> 63) as u64) | (1 << 63));
        (u128::from(ordered) << 64) | u128::from(self.number)
    }
}

impl Ord for Priority {
    fn cmp(&self, other: &Priority) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Priority {
    fn partial_cmp(&self, other: &Priority) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    fn lt(&self, other: &Priority) -> bool {
        self.key() < other.key()
    }

    fn ge(&self, other: &Priority) -> bool {
        self.key() >= other.key()
    }
}

/// A time in which a job runs, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Its first moment.
    pub start: f64,
    /// The moment after its last.
    pub end: f64,
}

/// A run on one processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    pub run: Run,
    pub priority: Priority,
    /// The place of its job in the plan.
    pub job: u32,
}

/// What is planned on one processor, as one job sees it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Survey {
    pub processor: u32,
    /// When nobody who comes before the job uses it for the first time.
    pub first: f64,
    /// When it is left by the last of those who come before, or now.
    pub last: f64,
    /// Seconds until the job is due that those who come before use.
    pub before: f64,
    /// Seconds until then that anybody uses.
    pub all: f64,
}

/// A processor as a job sees it that is to start early.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Early {
    pub processor: u32,
    /// When nobody who comes before the job uses it for the first time.
    pub first: f64,
    /// Seconds until the job is due that anybody uses; looked at only where it decides.
    pub all: f64,
}

/// The runs of one processor.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    entries: Vec<Entry>,
}

impl Timeline {
    /// Those that end after `from`, ascending.
    #[inline]
    pub fn after(&self, from: f64) -> &[Entry] {
        // Mostly few, and of these hardly any in the past.
        let past = self.entries.iter().take_while(|e| e.run.end <= from);
        &self.entries[past.count()..]
    }

    /// When the last of its runs ends; minus infinity without any.
    pub fn end(&self) -> f64 {
        self.entries.last().map_or(f64::NEG_INFINITY, |e| e.run.end)
    }

    /// Forgets what ended by `now`. `entries` counts the runs of all lines.
    pub fn forget_until(&mut self, now: f64, entries: &mut usize) {
        let past = self.entries.len() - self.after(now).len();
        self.entries.drain(..past);
        *entries -= past;
    }

    /// Adds a run, and forgets what ended by `now`. `entries` counts those of all lines.
    pub fn insert(&mut self, entry: Entry, now: f64, entries: &mut usize) {
        self.forget_until(now, entries);
        *entries += 1;
        let place = self
            .entries
            .partition_point(|other| other.run.start < entry.run.start);
        self.entries.insert(place, entry);
    }

    /// Takes out the runs of a job, which has these. The first of them may have begun before.
    pub fn remove(&mut self, job: u32, runs: &[Run], entries: &mut usize) {
        let before = self.entries.len();
        let Some(first) = runs.first() else { return };
        let from = (self.entries).partition_point(|entry| entry.run.end <= first.start);
        let of_job = |entry: &Entry| entry.job == job;
        match runs {
            [_] if self.entries.get(from).is_some_and(of_job) => {
                self.entries.remove(from);
            }
            _ => self.entries.retain(|entry| entry.job != job),
        }
        *entries -= before - self.entries.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: f64, end: f64, job: u32) -> Entry {
        let priority = Priority {
            at: 0.0,
            number: u64::from(job),
        };
        let run = Run { start, end };
        Entry { run, priority, job }
    }

    #[test]
    fn runs_stand_in_order_and_what_is_past_is_forgotten() {
        let (mut line, mut count) = (Timeline::default(), 0);
        for (start, end, job) in [(5.0, 6.0, 1), (0.0, 2.0, 2), (3.0, 5.0, 1), (2.0, 3.0, 3)] {
            line.insert(entry(start, end, job), 0.0, &mut count);
        }
        assert_eq!(count, 4);
        let jobs = |line: &Timeline, from| -> Vec<u32> {
            line.after(from).iter().map(|entry| entry.job).collect()
        };
        assert_eq!(jobs(&line, 0.0), [2, 3, 1, 1]);
        assert_eq!(jobs(&line, 2.0), [3, 1, 1]);
        let run = |start, end| Run { start, end };
        line.remove(1, &[run(3.5, 5.0), run(5.0, 6.0)], &mut count);
        assert_eq!(jobs(&line, 0.0), [2, 3]);
        line.insert(entry(7.0, 8.0, 4), 2.5, &mut count);
        assert_eq!(jobs(&line, 0.0), [3, 4]);
        line.remove(4, &[run(7.5, 8.0)], &mut count);
        assert_eq!(count, 1);
        assert_eq!(jobs(&line, 0.0), [3]);
    }

    #[test]
    fn of_two_that_are_due_at_one_time_the_earlier_number_is_first() {
        let priority = |at, number| Priority { at, number };
        assert!(priority(1.0, 2) < priority(2.0, 1));
        assert!(priority(1.0, 1) < priority(1.0, 2));
        assert!(priority(f64::NEG_INFINITY, 9) < priority(-1e300, 1));
        assert!(priority(f64::INFINITY, 0) > priority(1e300, 1));
    }
}
