//! A site's own accounting records as a log in the Standard Workload Format.
//!
//! `sacct`, `pbs` and `gridengine` read the lines of one format each and yield an [`AccountingRecord`] for each job; `log` puts
//! them in order of submission, numbers them, and gives them what the format wants: numbers for
//! users, groups and queues, and times from the first submission on.
//!
//! Local times become times of the world by a function that the caller gives: the rules of time
//! zones are not known here.
//!
//! With [`Options::promised`] the log has the jobs alone that Libra promised something, as what they needed of a processor of their own against
//! their estimates, whatever their time limits and shares were.
//!
//! Invariants: a job is in the log once, however many files and records tell of it; the order of the
//! files does not matter; the log starts at 0.

mod gridengine;
mod log;
mod pbs;
mod promised;
mod sacct;
mod values;

pub use promised::Promised;

use super::gridengine::GridEngineRecord;
use super::read::{Leniency, TraceError, next_line, open, reading_failed, text};
use super::swf::SwfRecord;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A date and time as a clock on the wall shows it; checked to be one of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Such as 2027.
    pub year: i16,
    /// 1 to 12.
    pub month: i8,
    /// 1 to 31.
    pub day: i8,
    /// 0 to 23.
    pub hour: i8,
    /// 0 to 59.
    pub minute: i8,
    /// 0 to 59.
    pub second: i8,
}

/// Turns a local time into seconds since 1970-01-01T00:00:00 UTC; None if there is no such day.
pub type ToUnix<'a> = &'a dyn Fn(LocalTime) -> Option<i64>;

/// What a file of records is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Slurm: `sacct --parsable2`.
    Sacct,
    /// PBS accounting logs.
    Pbs,
    /// Grid Engine's accounting file.
    GridEngine,
}

/// The line in the header of a log of promised jobs ([`Options::promised`]).
pub const PROMISED: &str = "Note: Jobs that Libra promised something: estimates are theirs, and run times what they needed of a processor of their own";

/// How to import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What they are written in; none: as they look.
    pub format: Option<Format>,
    /// What to do about a line that cannot be read.
    pub leniency: Leniency,
    /// No names of users, groups and queues in the header.
    pub anonymous: bool,
    /// Processors of the cluster; none: the most that were in use at one time.
    pub processors: Option<u32>,
    /// Only the jobs that Libra promised something: their estimates are those that they were submitted with, and their run times what they needed.
    pub promised: bool,
}

/// A job, as far as a batch system tells of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AccountingRecord {
    /// Its id as a number, where it is one.
    pub number: Option<u32>,
    /// When it was submitted, in seconds since 1970-01-01T00:00:00 UTC.
    pub submit: i64,
    /// When it started.
    pub start: Option<i64>,
    /// Seconds it ran.
    pub run_time: Option<f64>,
    /// Processors it was given.
    pub allocated: Option<u32>,
    /// Processors it asked for.
    pub requested: Option<u32>,
    /// Processor seconds it used, on all processors.
    pub cpu_time: Option<f64>,
    /// Memory it used, in KB, on all processors.
    pub used_memory: Option<f64>,
    /// Seconds it asked for.
    pub requested_time: Option<f64>,
    /// Memory it asked for, in KB, on all processors.
    pub requested_memory: Option<f64>,
    /// Field 11 of the format: 1 completed, 0 failed, 5 cancelled.
    pub status: i8,
    /// Its user.
    pub user: Option<Rc<str>>,
    /// Its group.
    pub group: Option<Rc<str>>,
    /// Its queue or partition.
    pub queue: Option<Rc<str>>,
    /// What Libra promised it, and what it needed.
    pub promised: Option<Promised>,
}

/// What was read and is not in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Jobs that were still waiting or running.
    pub not_ended: u64,
    /// Steps of jobs, and arrays as a whole, of which the parts are jobs.
    pub parts: u64,
    /// Records of jobs that other records tell more of, or the same.
    pub repeated: u64,
    /// Lines that cannot be read, with [`Leniency::Lenient`].
    pub bad_lines: u64,
    /// Jobs that Libra promised nothing, with [`Options::promised`].
    pub without_promise: u64,
    /// Jobs that do not show what they needed: they failed or were cancelled within their estimates, or nothing was measured; with
    /// [`Options::promised`].
    pub inconclusive: u64,
}

/// A log that was made of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its header, without semicolons.
    pub header: Vec<String>,
    /// Its jobs, in order of submission.
    pub records: Vec<SwfRecord>,
    /// What is not in it.
    pub left_out: LeftOut,
    /// The first lines that cannot be read, each with the reason.
    pub first_bad_lines: Vec<String>,
    /// Users, groups and queues.
    pub names: [usize; 3],
    /// Processors of the cluster, or the most that were in use at one time.
    pub processors: Option<u32>,
}

/// Why records cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] TraceError),
    /// A file is nothing that is known here.
    #[error(
        "{0}: looks neither like what 'sacct --parsable2' prints, with its header line, nor like a PBS accounting log (MM/DD/YYYY HH:MM:SS;E;id;...), nor like Grid Engine's accounting file (43 entries or more between colons); say which it is with --from"
    )]
    Unknown(String),
    /// A header of sacct lacks columns, or is none.
    #[error("{name}: line {line}: {problem}; run {}", sacct::COMMAND)]
    Header {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// What is missing.
        problem: String,
    },
    /// A line cannot be read.
    #[error("{name}: line {line}: {problem}; correct it, or leave such lines out with --lenient")]
    Line {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// There is no job with a promise in any file.
    #[error(
        "none of {ended} jobs that ended has a promise of Libra's and says what it needed: {} had none, {} failed, were cancelled or not measured. sacct is to have the column AdminComment, as the last one, and TotalCPU (JobAcctGatherType in slurm.conf); Grid Engine's accounting file does not say what was promised",
        .left_out.without_promise,
        .left_out.inconclusive
    )]
    NonePromised {
        /// Jobs that ended.
        ended: usize,
        /// What they were.
        left_out: LeftOut,
    },
    /// There is no job in any file.
    #[error("no job that has ended in {lines} lines{}", why(.left_out))]
    Empty {
        /// Lines of all files.
        lines: u64,
        /// What there was.
        left_out: LeftOut,
    },
}

fn why(left_out: &LeftOut) -> String {
    let LeftOut {
        not_ended,
        parts,
        bad_lines,
        ..
    } = left_out;
    format!(
        ": {not_ended} jobs were waiting or running, {parts} lines were of steps or whole arrays, {bad_lines} could not be read; give the records of a time in which jobs ended"
    )
}

/// What is wrong with a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The file, not the line: it cannot be read at all.
    Header(String),
    /// This line alone.
    Line(String),
}

impl From<String> for Problem {
    fn from(problem: String) -> Problem {
        Problem::Line(problem)
    }
}

/// Most bytes of a line: jobs of ten thousand hosts name each one.
const LONGEST_LINE: usize = 16 << 20;
/// So many of the lines that cannot be read are told with their reason.
const SHOWN: usize = 5;

/// Reads files of records, `-` for standard input, and makes a log of them.
///
/// # Errors
/// When a file cannot be read or is not what it should be, or no job has ended; with
/// [`Leniency::Strict`] also the first line that cannot be read.
pub fn import(
    files: &[PathBuf],
    options: &Options,
    to_unix: ToUnix<'_>,
) -> Result<Imported, ImportError> {
    let mut sacct = sacct::Collector::new(to_unix);
    let mut pbs = pbs::Collector::new(to_unix);
    let mut gridengine = gridengine::Collector::default();
    let mut reading = Reading::default();
    for file in files {
        reading.file(file, options, &mut sacct, &mut pbs, &mut gridengine)?;
    }
    let mut left_out = LeftOut {
        bad_lines: reading.bad_lines,
        ..LeftOut::default()
    };
    let mut entries = sacct.finish(&mut left_out);
    entries.extend(pbs.finish(&mut left_out));
    entries.extend(gridengine.finish(&mut left_out));
    if entries.is_empty() {
        let lines = reading.lines;
        return Err(ImportError::Empty { lines, left_out });
    }
    if options.promised {
        let ended = entries.len();
        entries = promised::only(entries, &mut left_out);
        if entries.is_empty() {
            return Err(ImportError::NonePromised { ended, left_out });
        }
    }
    Ok(log::make(
        entries,
        options,
        left_out,
        reading.first_bad_lines,
    ))
}

/// What is known between two lines.
#[derive(Default)]
struct Reading {
    lines: u64,
    bad_lines: u64,
    first_bad_lines: Vec<String>,
}

impl Reading {
    fn file(
        &mut self,
        path: &Path,
        options: &Options,
        sacct: &mut sacct::Collector<'_>,
        pbs: &mut pbs::Collector<'_>,
        gridengine: &mut gridengine::Collector,
    ) -> Result<(), ImportError> {
        let (source, name) = open(path)?;
        let mut text = text(source, &name)?;
        let mut line = Vec::new();
        let mut number = 0;
        let mut format = options.format;
        sacct.next_file();
        while next_line(&mut text, &mut line, LONGEST_LINE)
            .map_err(|error| reading_failed(&name, number, error))?
        {
            number += 1;
            self.lines += 1;
            let line = String::from_utf8_lossy(line.trim_ascii());
            if line.is_empty() {
                continue;
            }
            // Grid Engine's file begins with some.
            let is_comment = line.starts_with('#');
            let format = match format {
                Some(format) => format,
                None if is_comment => continue,
                None => {
                    let found = looks_like(&line).ok_or(ImportError::Unknown(name.clone()))?;
                    *format.insert(found)
                }
            };
            let taken = match format {
                Format::Sacct => sacct.take(&line),
                Format::Pbs => pbs.take(&line).map_err(Problem::Line),
                Format::GridEngine => gridengine.take(&line).map_err(Problem::Line),
            };
            match taken {
                Ok(()) => {}
                Err(problem) => self.bad_line(&name, number, problem, options.leniency)?,
            }
        }
        Ok(())
    }

    fn bad_line(
        &mut self,
        name: &str,
        line: u64,
        problem: Problem,
        leniency: Leniency,
    ) -> Result<(), ImportError> {
        let name = name.to_string();
        match problem {
            Problem::Header(problem) => Err(ImportError::Header {
                name,
                line,
                problem,
            }),
            Problem::Line(problem) if leniency == Leniency::Strict => Err(ImportError::Line {
                name,
                line,
                problem,
            }),
            Problem::Line(problem) => {
                self.bad_lines += 1;
                if self.first_bad_lines.len() < SHOWN {
                    let bad = format!("{name}: line {line}: {problem}");
                    self.first_bad_lines.push(bad);
                }
                Ok(())
            }
        }
    }
}

/// What a first line is written in.
fn looks_like(line: &str) -> Option<Format> {
    let bytes = line.as_bytes();
    let dated = bytes.get(2) == Some(&b'/') && bytes.get(5) == Some(&b'/');
    if dated && line.contains(';') {
        return Some(Format::Pbs);
    }
    if GridEngineRecord::looks_like(line) {
        return Some(Format::GridEngine);
    }
    let start = line.get(..5).unwrap_or_default();
    (line.contains('|') || start.eq_ignore_ascii_case("jobid")).then_some(Format::Sacct)
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
