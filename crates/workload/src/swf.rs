//! The Standard Workload Format, version 2.2: one job a line, 18 numbers, and comments that start
//! with a semicolon (Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job
//! Schedulers, 1999; definition at the Parallel Workloads Archive).
//!
//! Invariant: in a [`SwfRecord`] that was parsed, every time and amount is finite and is ≥ 0 or
//! [`UNKNOWN`]. The format has whole numbers; some logs have decimals, which are taken as they
//! are, in the fields that count things if they are whole.

use std::fmt::Write as _;

/// Stands for 'not known, or does not apply' in every field but the job number.
pub const UNKNOWN: f64 = -1.0;
/// Longest time that is taken, in seconds: [`libra_core::decision::job::LONGEST`].
pub const LONGEST: f64 = libra_core::decision::job::LONGEST;

/// One job of a log: the 18 fields. -1 stands for 'not known'.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwfRecord {
    /// Field 1: its number, one for each job of a log.
    pub number: u32,
    /// Field 2: when it was submitted, in seconds from the start of the log, ≥ 0. The format has no -1 here, some
    /// logs do.
    pub submit: f64,
    /// Field 3: how long it waited, in seconds.
    pub wait: f64,
    /// Field 4: how long it ran, in seconds of the clock; ≤ 0 where it never ran.
    pub run_time: f64,
    /// Field 5: processors it was given.
    pub allocated: i32,
    /// Field 6: processor time it used, in seconds, the mean over its processors.
    pub cpu_time: f64,
    /// Field 7: memory it used, in KB (1024 bytes) for each processor.
    pub used_memory: f64,
    /// Field 8: processors it asked for.
    pub requested: i32,
    /// Field 9: run time it asked for, in seconds: the user's estimate.
    pub requested_time: f64,
    /// Field 10: memory it asked for, in KB (1024 bytes) for each processor.
    pub requested_memory: f64,
    /// Field 11: 1 completed, 0 failed, 5 cancelled; 2 to 4 for parts of jobs. Some logs have codes of their
    /// system's.
    pub status: i32,
    /// Field 12: its user.
    pub user: i32,
    /// Field 13: its group.
    pub group: i32,
    /// Field 14: its program.
    pub executable: i32,
    /// Field 15: its queue.
    pub queue: i32,
    /// Field 16: its partition.
    pub partition: i32,
    /// Field 17: the number of a job that must end before; 0 where there is none.
    pub preceding: u32,
    /// Field 18: seconds between the end of that job and this submission.
    pub think_time: f64,
}

/// What a field is called and may hold.
struct Field {
    name: &'static str,
    /// Only a whole number makes sense.
    whole: bool,
    /// May be -1.
    may_be_unknown: bool,
    most: f64,
    expected: &'static str,
}

const fn time(name: &'static str) -> Field {
    Field {
        name,
        whole: false,
        may_be_unknown: true,
        most: LONGEST,
        expected: "seconds from 0 to 10000000000, or -1 where it is not known",
    }
}

const fn memory(name: &'static str) -> Field {
    Field {
        name,
        whole: false,
        may_be_unknown: true,
        most: 1e15,
        expected: "KB for each processor, 0 or more, or -1 where it is not known",
    }
}

const fn count(name: &'static str, most: f64, expected: &'static str) -> Field {
    Field {
        name,
        whole: true,
        may_be_unknown: true,
        most,
        expected,
    }
}

const PROCESSORS: &str = "a whole number of processors, or -1 where it is not known";
const NUMBER: &str = "a whole number from 0 to 2147483647, or -1 where it is not known";

const FIELDS: [Field; 18] = [
    Field {
        name: "job number",
        whole: true,
        may_be_unknown: false,
        most: u32::MAX as f64,
        expected: "a whole number from 0 to 4294967295",
    },
    Field {
        name: "submit time",
        whole: false,
        may_be_unknown: true,
        most: LONGEST,
        expected: "seconds from the start of the log, from 0 to 10000000000, or -1 where it is not known",
    },
    time("wait time"),
    time("run time"),
    count("allocated processors", i32::MAX as f64, PROCESSORS),
    time("average CPU time used"),
    memory("used memory"),
    count("requested processors", i32::MAX as f64, PROCESSORS),
    time("requested time"),
    memory("requested memory"),
    count(
        "status",
        i32::MAX as f64,
        "0 to 5, a whole number of the log's own, or -1 where it is not known",
    ),
    count("user", i32::MAX as f64, NUMBER),
    count("group", i32::MAX as f64, NUMBER),
    count("executable", i32::MAX as f64, NUMBER),
    count("queue", i32::MAX as f64, NUMBER),
    count("partition", i32::MAX as f64, NUMBER),
    count(
        "preceding job",
        u32::MAX as f64,
        "the number of a job, or -1 where there is none",
    ),
    time("think time"),
];

/// Why a line is not a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// Fewer or more than 18 fields.
    #[error("{0} fields, expected the 18 of the Standard Workload Format")]
    Fields(usize),
    /// One field cannot be taken.
    #[error("field {field} ({name}) is '{text}', expected {expected}")]
    Field {
        /// Its number, from 1.
        field: usize,
        /// Its name.
        name: &'static str,
        /// What stands there, cut to 32 characters.
        text: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// Longer than any job: the file is something else.
    #[error("longer than {0} bytes; this is not a log in the Standard Workload Format")]
    Long(usize),
}

/// The powers of ten that a f64 holds exactly and that a mantissa of 15 digits can be divided by
/// with one, correct, rounding.
const POWERS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// Reads a number of at most 15 digits without an exponent: nearly all there are.
fn short_number(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut mantissa = 0u64;
    let mut point = None;
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => mantissa = mantissa * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(index),
            _ => return None,
        }
    }
    let value = match point {
        None if digits.len() == 16 => return None,
        None => mantissa as f64,
        Some(_) if digits.len() == 1 => return None,
        Some(index) => mantissa as f64 / POWERS[digits.len() - 1 - index],
    };
    Some(if negative { -value } else { value })
}

fn number(text: &[u8]) -> Option<f64> {
    short_number(text).or_else(|| {
        let text = std::str::from_utf8(text).ok()?;
        // f64's own parser would also take 'inf' and 'nan'.
        let plain = text
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E'));
        text.parse().ok().filter(|_| plain)
    })
}

/// A text as it may stand in an error: short and printable.
fn shown(text: &[u8]) -> String {
    let mut shown = String::new();
    for c in String::from_utf8_lossy(text).chars().take(32) {
        let _ = match c {
            c if c.is_control() => write!(shown, "{}", c.escape_default()),
            c => write!(shown, "{c}"),
        };
    }
    shown
}

fn value(index: usize, text: &[u8]) -> Result<f64, BadLine> {
    let field = &FIELDS[index];
    number(text)
        .filter(|value| {
            (0.0..=field.most).contains(value) || (field.may_be_unknown && *value == UNKNOWN)
        })
        .filter(|value| !field.whole || value.fract() == 0.0)
        .ok_or_else(|| BadLine::Field {
            field: index + 1,
            name: field.name,
            text: shown(text),
            expected: field.expected,
        })
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Reads one job. `line` may end in a line break.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(line: &[u8]) -> Result<SwfRecord, BadLine> {
    let mut values = [0.0; 18];
    let mut found = 0;
    let mut wrong = None;
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_space(byte));
        let Some(start) = start else { break };
        rest = &rest[start..];
        let end = rest.iter().position(is_space).unwrap_or(rest.len());
        if found < values.len() && wrong.is_none() {
            match value(found, &rest[..end]) {
                Ok(value) => values[found] = value,
                Err(error) => wrong = Some(error),
            }
        }
        found += 1;
        rest = &rest[end..];
    }
    // A line of prose has another number of words, and that says more than its first word.
    if found != values.len() {
        return Err(BadLine::Fields(found));
    }
    if let Some(error) = wrong {
        return Err(error);
    }
    // Every whole number was checked against the range of its type.
    Ok(SwfRecord {
        number: values[0] as u32,
        submit: values[1],
        wait: values[2],
        run_time: values[3],
        allocated: values[4] as i32,
        cpu_time: values[5],
        used_memory: values[6],
        requested: values[7] as i32,
        requested_time: values[8],
        requested_memory: values[9],
        status: values[10] as i32,
        user: values[11] as i32,
        group: values[12] as i32,
        executable: values[13] as i32,
        queue: values[14] as i32,
        partition: values[15] as i32,
        preceding: values[16].max(0.0) as u32,
        think_time: values[17],
    })
}

impl SwfRecord {
    /// A job of which only number and submit time are known.
    pub fn unknown(number: u32, submit: f64) -> SwfRecord {
        SwfRecord {
            number,
            submit,
            wait: UNKNOWN,
            run_time: UNKNOWN,
            allocated: -1,
            cpu_time: UNKNOWN,
            used_memory: UNKNOWN,
            requested: -1,
            requested_time: UNKNOWN,
            requested_memory: UNKNOWN,
            status: -1,
            user: -1,
            group: -1,
            executable: -1,
            queue: -1,
            partition: -1,
            preceding: 0,
            think_time: UNKNOWN,
        }
    }

    /// Returns true if it ran. A run time ≤ 0 means that it was cancelled before.
    pub fn ran(&self) -> bool {
        self.run_time > 0.0
    }

    /// Its processors: those it asked for (field 8), or where the log does not say those it was
    /// given (field 5); None if neither is known. Where a log has both they nearly always
    /// agree, and what was asked for is what an admission control would have seen.
    pub fn processors(&self) -> Option<u32> {
        [self.requested, self.allocated]
            .into_iter()
            .find(|processors| *processors > 0)
            .map(i32::unsigned_abs)
    }

    /// Appends it as a line. What is written reads back as the same record.
    pub fn write(&self, line: &mut Vec<u8>) {
        let preceding = match self.preceding {
            0 => UNKNOWN,
            number => f64::from(number),
        };
        let values = [
            f64::from(self.number),
            self.submit,
            self.wait,
            self.run_time,
            f64::from(self.allocated),
            self.cpu_time,
            self.used_memory,
            f64::from(self.requested),
            self.requested_time,
            self.requested_memory,
            f64::from(self.status),
            f64::from(self.user),
            f64::from(self.group),
            f64::from(self.executable),
            f64::from(self.queue),
            f64::from(self.partition),
            preceding,
            self.think_time,
        ];
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                line.push(b' ');
            }
            write_number(value, line);
        }
        line.push(b'\n');
    }
}

fn write_number(value: f64, line: &mut Vec<u8>) {
    let whole = value as i64;
    if whole as f64 != value {
        line.extend_from_slice(value.to_string().as_bytes());
        return;
    }
    if whole < 0 {
        line.push(b'-');
    }
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = whole.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[start..]);
}

/// What the comments before the first job say: lines of the form `; Key: value`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// The comment lines without semicolon and the blank after it. What is not UTF-8 is replaced.
    pub comments: Vec<String>,
}

impl Header {
    /// Most lines that are kept; the archive's headers have about fifty.
    const MOST_LINES: usize = 4096;

    /// Keeps a comment line, given with its semicolon.
    pub fn push(&mut self, line: &[u8]) {
        if self.comments.len() < Self::MOST_LINES {
            let line = line.strip_prefix(b";").unwrap_or(line);
            let line = line.strip_prefix(b" ").unwrap_or(line);
            let text = String::from_utf8_lossy(line).trim_end().to_string();
            self.comments.push(text);
        }
    }

    /// The value of the first line with this key, whatever its case.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.comments.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case(key).then(|| value.trim())
        })
    }

    /// The number that a value starts with: archive headers go on with remarks.
    fn leading<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let value = self.value(key)?;
        let end = value
            .find(|c: char| !c.is_ascii_digit() && c != '-')
            .unwrap_or(value.len());
        value[..end].parse().ok()
    }

    /// Nodes of the machine.
    pub fn max_nodes(&self) -> Option<u32> {
        self.leading("MaxNodes")
    }

    /// Processors of the machine.
    pub fn max_processors(&self) -> Option<u32> {
        self.leading("MaxProcs")
    }

    /// The time from which submit times count, in seconds since 1970-01-01T00:00:00 UTC.
    pub fn unix_start_time(&self) -> Option<i64> {
        self.leading("UnixStartTime")
    }
}

#[cfg(test)]
#[path = "swf_tests.rs"]
mod tests;
