//! Lines of Grid Engine's accounting file (accounting(5)): entries between colons, one line for each end of a task, and one for each time that
//! it was taken back into the queue.
//!
//! The category of a job is the one entry that may have colons in it (`-l h_rt=1:00:00`): what stands before it is counted from the
//! line's begin, what stands behind it from its end.

/// Entries before the category.
const BEFORE: usize = 39;

/// Entries behind it: since 6.2 with the two of advance reservations, and before.
const BEHIND: [usize; 2] = [5, 3];

/// Times beyond this one, in the year 5138, are milliseconds, as later Grid Engines write them.
const MILLISECONDS: i64 = 100_000_000_000;

/// One line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridEngineRecord<'a> {
    /// Cluster queue.
    pub queue: &'a str,
    /// Group of the owner.
    pub group: &'a str,
    /// Its owner.
    pub owner: &'a str,
    /// Number of the job.
    pub job: u32,
    /// Unix time; 0 where it is not known, as of a task that `qmod -rj` has taken back.
    pub submitted: i64,
    /// Unix time; 0 for one that never started.
    pub started: i64,
    /// Unix time; 0 where it is not known.
    pub ended: i64,
    /// What failed (sge_status(5)), 0 for nothing.
    pub failed: u32,
    /// Exit status of the job, 128 and the signal where one has ended it.
    pub exit: i32,
    /// Whether something was measured: without it, nobody has seen the end, as with `qdel -f`.
    pub is_measured: bool,
    /// Slots.
    pub slots: u32,
    /// Number of the task of an array; None for a job that is none.
    pub task: Option<u32>,
    /// Processor seconds, on all slots.
    pub cpu: f64,
    /// Options that tell its kind of job, such as `-l h_rt=100 -pe smp 2`; empty for none.
    pub category: &'a str,
    /// It is of a further task of a parallel job (`qrsh -inherit`), and not of the whole.
    pub is_part: bool,
    /// Most bytes of virtual memory.
    pub max_vmem: f64,
}

/// `failed` of a task that was taken back into the queue: migrated, rescheduled.
const TAKEN_BACK: [u32; 2] = [24, 25];

impl<'a> GridEngineRecord<'a> {
    /// Returns true if a line has as many entries as one of this file.
    pub fn looks_like(line: &str) -> bool {
        line.matches(':').count() >= BEFORE + BEHIND[1]
    }

    /// Reads a line; None for a comment.
    ///
    /// # Errors
    /// What of it cannot be read, and what was expected.
    pub fn parse(line: &'a str) -> Result<Option<GridEngineRecord<'a>>, String> {
        if line.starts_with('#') {
            return Ok(None);
        }
        let entries: Vec<&str> = line.split(':').collect();
        let Some(behind) = (BEHIND.into_iter()).find(|behind| entries.len() > BEFORE + behind)
        else {
            return Err(format!(
                "it has {} entries between colons, expected the {} or more of accounting(5)",
                entries.len(),
                BEFORE + 1 + BEHIND[1],
            ));
        };
        let length = |entries: &[&str]| entries.iter().map(|entry| entry.len() + 1).sum::<usize>();
        let begin = length(&entries[..BEFORE]);
        let end = line.len() - length(&entries[entries.len() - behind..]);
        let tail = &entries[entries.len() - behind..];
        let whole = |index: usize, name: &str| -> Result<i64, String> {
            (entries[index].parse()).map_err(|_| unread(name, entries[index], "a whole number"))
        };
        let time = |index: usize, name: &str| -> Result<i64, String> {
            let time = whole(index, name)?;
            match time {
                MILLISECONDS.. => Ok(time / 1000),
                0.. => Ok(time),
                _ => Err(unread(name, entries[index], "seconds since 1970")),
            }
        };
        let small = |index: usize, name: &str| -> Result<u32, String> {
            (whole(index, name)?.try_into())
                .map_err(|_| unread(name, entries[index], "a number from 0 on"))
        };
        let amount = |text: &str, name: &str| -> Result<f64, String> {
            (text.parse::<f64>().ok())
                .filter(|amount| amount.is_finite() && *amount >= 0.0)
                .ok_or_else(|| unread(name, text, "a number from 0 on"))
        };
        let none_empty = |text: &'a str| if text == "NONE" { "" } else { text };
        Ok(Some(GridEngineRecord {
            queue: entries[0],
            group: entries[2],
            owner: entries[3],
            job: small(5, "job_number")?,
            submitted: time(8, "submission_time")?,
            started: time(9, "start_time")?,
            ended: time(10, "end_time")?,
            failed: small(11, "failed")?,
            exit: whole(12, "exit_status")?.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
            is_measured: amount(entries[13], "ru_wallclock")? > 0.0
                || amount(entries[16], "ru_maxrss")? > 0.0,
            slots: small(34, "slots")?,
            task: Some(small(35, "task_number")?).filter(|task| *task > 0),
            cpu: amount(entries[36], "cpu")?,
            category: none_empty(&line[begin..end]),
            is_part: !none_empty(tail[1]).is_empty(),
            max_vmem: amount(tail[2], "maxvmem")?,
        }))
    }

    /// Returns true if the task went back into the queue: this is no end.
    pub fn is_taken_back(&self) -> bool {
        TAKEN_BACK.contains(&self.failed)
    }

    /// Seconds that it ran; 0 where that is not known.
    pub fn ran(&self) -> f64 {
        match self.started {
            0 => 0.0,
            started => (self.ended - started).max(0) as f64,
        }
    }

    /// What was requested with `-l`, of its category.
    pub fn request(&self, name: &str) -> Option<&'a str> {
        let mut words = self.category.split_whitespace();
        while let Some(word) = words.next() {
            if word == "-l" {
                let list = words.next().unwrap_or_default();
                let mut pairs = list.split(',').filter_map(|pair| pair.split_once('='));
                if let Some((_, value)) = pairs.find(|(key, _)| *key == name) {
                    return Some(value);
                }
            }
        }
        None
    }
}

fn unread(name: &str, text: &str, expected: &str) -> String {
    format!(
        "{name} is '{}', expected {expected}",
        libra_units::printable(text, 64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 8.1.9 has written them, with other names.
    const ENDED: &str = "main.q:g1:users:ann:STDIN:1:sge:0:1795421542:1795421543:1795421545:0:0:2:0.007180:0.000000:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:defaultdepartment:NONE:1:0:0.007180:0.000000:0.000023:-l h_rt=100:0.000000:NONE:3538944.000000:0:0";
    const TAKEN_BACK: &str = "main.q:g2:users:ann:STDIN:5:sge:0:0:0:0:25:0:0:0.000000:0.000000:0.000000:0:0:0:0:0:0:0:0.000000:0:0:0:0:0:0:NONE:defaultdepartment:NONE:1:0:0.000000:0.000000:0.000000:NONE:0.000000:NONE:0.000000:0:0";
    const BY_FORCE: &str = "main.q:g2:users:ann:STDIN:11:sge:0:1795421616:1795421616:1795421619:0:0:0:0.000000:0.000000:0.000000:0:0:0:0:0:0:0:0.000000:0:0:0:0:0:0:NONE:defaultdepartment:NONE:1:0:0.000000:0.000000:0.000000:NONE:0.000000:NONE:0.000000:0:0";

    fn read(line: &str) -> GridEngineRecord<'_> {
        GridEngineRecord::parse(line)
            .expect("as it is written")
            .expect("no comment")
    }

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let record = read(ENDED);
        assert_eq!((record.job, record.task, record.slots), (1, None, 1));
        assert_eq!((record.queue, record.owner), ("main.q", "ann"));
        assert_eq!((record.submitted, record.ran()), (1_795_421_542, 2.0));
        assert!(record.is_measured && !record.is_taken_back() && !record.is_part);
        assert_eq!(record.request("h_rt"), Some("100"));
        assert_eq!(record.request("h_cpu"), None);
        assert!(read(TAKEN_BACK).is_taken_back());
        let by_force = read(BY_FORCE);
        assert!(!by_force.is_measured && !by_force.is_taken_back());
        assert_eq!(by_force.ran(), 3.0);
        assert_eq!(GridEngineRecord::parse("# Version: 8.1.9"), Ok(None));
    }

    #[test]
    fn colons_of_a_category_move_nothing() {
        let line = ENDED.replace("-l h_rt=100", "-l h_rt=1:00:00,h=a -pe smp 2");
        let record = read(&line);
        assert_eq!(record.category, "-l h_rt=1:00:00,h=a -pe smp 2");
        assert_eq!(record.request("h_rt"), Some("1:00:00"));
        assert_eq!(record.max_vmem, 3_538_944.0);
        // Before 6.2 nothing was reserved in advance.
        let old = ENDED.strip_suffix(":0:0").expect("two");
        assert_eq!(read(old).category, "-l h_rt=100");
        let of_array = ENDED.replace("NONE:1:0:0.007180", "NONE:1:7:0.007180");
        assert_eq!(read(&of_array).task, Some(7));
        let part = ENDED.replace("0.000000:NONE:3538944", "0.000000:1.g2:3538944");
        assert!(read(&part).is_part);
        let later = ENDED.replace("1795421545", "1795421545000");
        assert_eq!(read(&later).ended, 1_795_421_545);
    }

    #[test]
    fn what_cannot_be_read_says_what_was_expected() {
        for (line, problem) in [
            (String::new(), "it has 1 entries"),
            (
                ENDED.replace(":1:sge", ":x:sge"),
                "job_number is 'x', expected a whole number",
            ),
            (ENDED.replace(":1:sge", ":-1:sge"), "job_number is '-1'"),
            (
                ENDED.replace("1795421543", "-5"),
                "start_time is '-5', expected seconds since 1970",
            ),
            (ENDED.replace("1:0:0.007180", "1:0:NaN"), "cpu is 'NaN'"),
        ] {
            let said = GridEngineRecord::parse(&line).expect_err("no line of it");
            assert!(said.starts_with(problem), "{said}");
        }
    }
}
