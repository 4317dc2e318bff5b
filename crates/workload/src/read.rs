//! Reads a log in the Standard Workload Format from a file, plain or gzip, or from standard input.
//!
//! Invariant: the records of a [`Log`] stand in order of submission, jobs submitted at one time in
//! the order of the file, and there is at least one. Jobs of which nobody knows when they were submitted are
//! counted and not among them.

use super::swf::{self, BadLine, Header, SwfRecord};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

/// What to do about a line that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leniency {
    /// It is an error.
    #[default]
    Strict,
    /// It is left out and counted; jobs out of order are sorted.
    Lenient,
}

/// A line that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub problem: BadLine,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

/// The first job of a file that was submitted before the one that stands above it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disorder {
    /// Its line, from 1.
    pub line: u64,
    /// When it was submitted, in seconds from the start of the log.
    pub submit: f64,
    /// The line of the job above it.
    pub line_above: u64,
    /// When that was submitted.
    pub submit_above: f64,
}

impl std::fmt::Display for Disorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Disorder {
            line,
            submit,
            line_above,
            submit_above,
        } = self;
        write!(
            f,
            "line {line}: submitted at {submit} s, before the job in line {line_above}, submitted at {submit_above} s"
        )
    }
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Its header.
    pub header: Header,
    /// Its jobs, in order of submission, those that never ran among them.
    pub records: Vec<SwfRecord>,
    /// Jobs without a time of submission (-1), which nothing can be done with.
    pub not_submitted: u64,
    /// Lines that were left out.
    pub skipped: u64,
    /// The first of them, at most [`Log::SHOWN`].
    pub first_skipped: Vec<Skipped>,
    /// Where the file was out of order, and its jobs were sorted.
    pub sorted: Option<Disorder>,
}

impl Log {
    /// So many of the lines that were left out are told with their reason.
    pub const SHOWN: usize = 5;

    /// Jobs that never ran.
    pub fn never_ran(&self) -> usize {
        self.records.iter().filter(|record| !record.ran()).count()
    }
}

/// A part of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subset {
    /// All jobs.
    #[default]
    All,
    /// So many jobs from its start.
    First(usize),
    /// So many jobs up to its end.
    Last(usize),
}

impl Subset {
    /// The jobs of this part; all where the log has no more. Jobs that never ran count: the
    /// papers' subsets are counted so.
    pub fn of<T>(self, records: &[T]) -> &[T] {
        match self {
            Subset::All => records,
            Subset::First(count) => &records[..count.min(records.len())],
            Subset::Last(count) => &records[records.len().saturating_sub(count)..],
        }
    }
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no such file, or it may not be read.
    #[error("{name}: cannot be opened: {error}; name a file that is there and may be read")]
    Open {
        /// The file.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// It is a directory.
    #[error("{0}: is a directory; name the files in it")]
    Directory(String),
    /// Reading stopped.
    #[error("{name}: cannot be read after line {line}: {error}")]
    Read {
        /// The file.
        name: String,
        /// The last whole line.
        line: u64,
        /// Why.
        error: io::Error,
    },
    /// The compressed data ends too early.
    #[error(
        "{name}: the gzip data ends in the middle, after line {line}: the file is not complete; copy or download it again"
    )]
    Truncated {
        /// The file.
        name: String,
        /// The last whole line.
        line: u64,
    },
    /// The compressed data is damaged.
    #[error(
        "{name}: the gzip data is damaged after line {line} ({error}); copy or download it again"
    )]
    Damaged {
        /// The file.
        name: String,
        /// The last whole line.
        line: u64,
        /// What the decompressor said.
        error: io::Error,
    },
    /// Packed by another program.
    #[error(
        "{name}: is packed with {program}, expected plain text or gzip; unpack it first, or give it as standard input ('{unpack} FILE | libra ... -')"
    )]
    Packed {
        /// The file.
        name: String,
        /// What packed it.
        program: &'static str,
        /// What unpacks it.
        unpack: &'static str,
    },
    /// A line is not a job.
    #[error("{name}: line {line}: {problem}; correct it, or leave such lines out with --lenient")]
    Line {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: BadLine,
    },
    /// The jobs are not in order of submission.
    #[error("{name}: {disorder}; sort the jobs by submit time, or have it done with --lenient")]
    Unsorted {
        /// The file.
        name: String,
        /// Where.
        disorder: Disorder,
    },
    /// There is no job in it.
    #[error(
        "{name}: no job in {lines} lines{}; expected lines of 18 numbers in the Standard Workload Format",
        all_skipped(.first_skipped)
    )]
    Empty {
        /// The file.
        name: String,
        /// Its lines, comments among them.
        lines: u64,
        /// The first line that was left out.
        first_skipped: Option<Skipped>,
    },
}

fn all_skipped(first: &Option<Skipped>) -> String {
    match first {
        Some(skipped) => format!(" (the first that was left out is {skipped})"),
        None => String::new(),
    }
}

/// Longest line that is read; a job has some hundred bytes.
const LONGEST_LINE: usize = 64 * 1024;

/// Opens a file, or standard input as `-`, and says what errors call it.
///
/// # Errors
/// When it cannot be opened or is a directory.
pub fn open(path: &Path) -> Result<(Box<dyn Read>, String), TraceError> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), "standard input".to_string()));
    }
    let name = path.display().to_string();
    let failed = |error| TraceError::Open {
        name: name.clone(),
        error,
    };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(TraceError::Directory(name));
    }
    Ok((Box::new(file), name))
}

/// Reads a log: a file, plain or gzip whatever its name, or standard input as `-`.
///
/// # Errors
/// When it cannot be read, is not a log, or has no job; with [`Leniency::Strict`] also the first
/// line that is not a job or out of order.
pub fn read(path: &Path, leniency: Leniency) -> Result<Log, TraceError> {
    let (source, name) = open(path)?;
    read_from(source, &name, leniency)
}

/// Reads a log, plain or gzip, from anything; `name` is what errors call it.
///
/// # Errors
/// As [`read`].
pub fn read_from(source: impl Read, name: &str, leniency: Leniency) -> Result<Log, TraceError> {
    let mut text = text(source, name)?;
    let mut reading = Reading {
        name,
        leniency,
        log: Log::default(),
        above: None,
    };
    let mut lines = 0;
    let mut line = Vec::with_capacity(512);
    while next_line(&mut text, &mut line, LONGEST_LINE)
        .map_err(|error| reading_failed(name, lines, error))?
    {
        lines += 1;
        reading.take(lines, &line)?;
    }
    reading.finish(lines)
}

/// Returns true if this is the start of what gzip writes.
pub fn is_gzip(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b])
}

const PACKED: [(&[u8], &str, &str); 4] = [
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];

/// The text of a source that may be gzip.
///
/// # Errors
/// When it cannot be read or is packed by another program.
pub fn text<'a>(
    mut source: impl Read + 'a,
    name: &str,
) -> Result<Box<dyn BufRead + 'a>, TraceError> {
    let mut start = Vec::with_capacity(8);
    let head = source.by_ref().take(6).read_to_end(&mut start);
    head.map_err(|error| TraceError::Read {
        name: name.to_string(),
        line: 0,
        error,
    })?;
    for (magic, program, unpack) in PACKED {
        if start.starts_with(magic) {
            return Err(TraceError::Packed {
                name: name.to_string(),
                program,
                unpack,
            });
        }
    }
    let gzip = is_gzip(&start);
    let whole = BufReader::with_capacity(1 << 17, Cursor::new(start).chain(source));
    Ok(if gzip {
        let plain = MultiGzDecoder::new(whole);
        Box::new(BufReader::with_capacity(1 << 17, plain))
    } else {
        Box::new(whole)
    })
}

/// Reads the next line into `line`, of one that is longer than `longest` a byte more than that.
/// False at the end.
///
/// # Errors
/// When it cannot be read.
pub fn next_line(text: &mut dyn BufRead, line: &mut Vec<u8>, longest: usize) -> io::Result<bool> {
    line.clear();
    Ok(text.take(longest as u64 + 1).read_until(b'\n', line)? > 0)
}

/// Why a text that was opened cannot be read on, after so many lines.
pub fn reading_failed(name: &str, line: u64, error: io::Error) -> TraceError {
    let name = name.to_string();
    match error.kind() {
        ErrorKind::UnexpectedEof => TraceError::Truncated { name, line },
        ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            TraceError::Damaged { name, line, error }
        }
        _ => TraceError::Read { name, line, error },
    }
}

/// What is known in the middle of a log.
struct Reading<'a> {
    name: &'a str,
    leniency: Leniency,
    log: Log,
    /// Line and submit time of the last job.
    above: Option<(u64, f64)>,
}

impl Reading<'_> {
    fn take(&mut self, number: u64, line: &[u8]) -> Result<(), TraceError> {
        // What is so long is not read to its end: it may have none.
        if line.len() > LONGEST_LINE {
            return Err(self.bad(number, BadLine::Long(LONGEST_LINE)));
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            return Ok(());
        }
        if text[0] == b';' {
            if self.log.records.is_empty() {
                self.log.header.push(text);
            }
            return Ok(());
        }
        match swf::parse(text) {
            Ok(record) => self.keep(number, record),
            Err(problem) if self.leniency == Leniency::Strict => Err(self.bad(number, problem)),
            Err(problem) => {
                self.log.skipped += 1;
                if self.log.first_skipped.len() < Log::SHOWN {
                    self.log.first_skipped.push(Skipped {
                        line: number,
                        problem,
                    });
                }
                Ok(())
            }
        }
    }

    fn bad(&self, line: u64, problem: BadLine) -> TraceError {
        TraceError::Line {
            name: self.name.to_string(),
            line,
            problem,
        }
    }

    fn keep(&mut self, line: u64, record: SwfRecord) -> Result<(), TraceError> {
        if record.submit < 0.0 {
            self.log.not_submitted += 1;
            return Ok(());
        }
        if let Some((line_above, submit_above)) = self.above {
            if record.submit < submit_above {
                let disorder = Disorder {
                    line,
                    submit: record.submit,
                    line_above,
                    submit_above,
                };
                if self.leniency == Leniency::Strict {
                    let name = self.name.to_string();
                    return Err(TraceError::Unsorted { name, disorder });
                }
                self.log.sorted.get_or_insert(disorder);
            }
        }
        self.above = Some((line, record.submit));
        self.log.records.push(record);
        Ok(())
    }

    fn finish(self, lines: u64) -> Result<Log, TraceError> {
        let mut log = self.log;
        if log.records.is_empty() {
            return Err(TraceError::Empty {
                name: self.name.to_string(),
                lines,
                first_skipped: log.first_skipped.into_iter().next(),
            });
        }
        if log.sorted.is_some() {
            // Stable: jobs submitted at one time stay as they were.
            log.records.sort_by(|a, b| a.submit.total_cmp(&b.submit));
        }
        Ok(log)
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
