//! Terms that a site gives for the jobs of a log: a CSV file with one line a job.
//!
//! The header names the columns, in any order: `job` (the SWF job number, required), `deadline`
//! and `estimate` (seconds, or durations as on the command line; the deadline counts from the
//! submission), `budget` (credits or `unlimited`), `deadline_type` (`hard` or `soft`),
//! `penalty_rate` (credits per second of delay) and `coupled` (`yes` or `no`, see [`Job::coupled`]). A cell that is blank, a column that is missing
//! and a job that is not listed leave what the workload model has drawn.
//!
//! Invariant: an entry holds only values that pass [`Terms::check`].

use super::Job;
use super::swf::SwfRecord;
use libra_core::decision::job::{OutOfRange, Terms};
use libra_wording::terms::{KEYS, PartialTerms, TermsError, deadline_as_duration};
use std::collections::BTreeMap;
use std::path::Path;

/// The terms of some jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sla {
    name: String,
    entries: BTreeMap<u32, TermsLine>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct TermsLine {
    line: usize,
    terms: PartialTerms,
    coupled: Option<bool>,
}

/// What is wrong with a file of terms.
#[derive(Debug, thiserror::Error)]
pub enum SlaError {
    /// It cannot be read.
    #[error("{name}: cannot be read: {error}; name a CSV file with the header job,deadline,...")]
    Read {
        /// The file.
        name: String,
        /// Why.
        error: std::io::Error,
    },
    /// It has no header.
    #[error(
        "{0}: is empty; the first line names the columns: job,deadline,budget,deadline_type,penalty_rate,estimate,coupled"
    )]
    Empty(String),
    /// A line cannot be taken.
    #[error("{name}: line {line}: {problem}")]
    Line {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it and what was expected.
        problem: String,
    },
    /// A cell cannot be taken.
    #[error("{name}: line {line}, column {column} ({key}): {problem}")]
    Cell {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the column is called.
        key: String,
        /// What is wrong with it and what was expected.
        problem: String,
    },
}

/// Splits a line at its commas. Cells may stand in double quotes, in which a quote is written
/// twice and a comma separates nothing.
fn cells(line: &str) -> Result<Vec<String>, &'static str> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_string(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Ok(cells),
        }
    }
}

/// A cell whose opening quote was taken, and what comes after its closing quote.
fn quoted_cell(text: &str) -> Result<(String, &str), &'static str> {
    let mut cell = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"').ok_or("a double quote is not closed")?;
        cell.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => break,
        }
    }
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with(',') {
        return Ok((cell.trim().to_string(), rest));
    }
    Err("after a closing double quote a comma was expected")
}

/// Reads a file of terms.
///
/// # Errors
/// When it cannot be read, or the first line or cell that is wrong.
pub fn read(path: &Path) -> Result<Sla, SlaError> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &name),
        Err(error) => Err(SlaError::Read { name, error }),
    }
}

/// Reads terms from a text; `name` is what errors call it.
///
/// # Errors
/// The first line or cell that is wrong.
pub fn parse(text: &str, name: &str) -> Result<Sla, SlaError> {
    let mut sla = Sla {
        name: name.to_string(),
        entries: BTreeMap::new(),
    };
    // Spreadsheets write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim().is_empty());
    let Some((line, header)) = lines.next() else {
        return Err(SlaError::Empty(sla.name));
    };
    let columns = sla.columns(line, header)?;
    for (line, text) in lines {
        sla.take(line, text, &columns)?;
    }
    Ok(sla)
}

const NAMES: &str = "job, deadline, budget, deadline_type, penalty_rate, estimate, coupled";

/// Columns that are no terms.
const OWN_KEYS: [&str; 2] = ["job", "coupled"];

impl Sla {
    /// Jobs that are listed.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no job is listed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn bad_line(&self, line: usize, problem: impl Into<String>) -> SlaError {
        SlaError::Line {
            name: self.name.clone(),
            line,
            problem: problem.into(),
        }
    }

    fn bad_cell(&self, line: usize, column: usize, key: &str, problem: String) -> SlaError {
        SlaError::Cell {
            name: self.name.clone(),
            line,
            column: column + 1,
            key: key.chars().take(32).collect(),
            problem,
        }
    }

    /// The keys of the columns, in the file's order.
    fn columns(&self, line: usize, header: &str) -> Result<Vec<String>, SlaError> {
        let mut columns: Vec<String> = Vec::new();
        let names = cells(header).map_err(|problem| self.bad_line(line, problem))?;
        for (index, name) in names.iter().enumerate() {
            let key = name.to_ascii_lowercase().replace('-', "_");
            if !OWN_KEYS.contains(&key.as_str()) && !KEYS.contains(&key.as_str()) {
                let problem =
                    format!("there is no such column; there are {NAMES}, separated by commas");
                return Err(self.bad_cell(line, index, name, problem));
            }
            if columns.contains(&key) {
                return Err(self.bad_cell(line, index, name, "is there twice".to_string()));
            }
            columns.push(key);
        }
        if columns.iter().all(|key| key != "job") {
            return Err(self.bad_line(
                line,
                "the column 'job' is missing: the job's number in the log",
            ));
        }
        Ok(columns)
    }

    fn take(&mut self, line: usize, text: &str, columns: &[String]) -> Result<(), SlaError> {
        let cells = cells(text).map_err(|problem| self.bad_line(line, problem))?;
        if cells.len() != columns.len() {
            let problem = format!(
                "{} cells, expected {}, as many as the header has",
                cells.len(),
                columns.len()
            );
            return Err(self.bad_line(line, problem));
        }
        let mut number = None;
        let mut terms = PartialTerms::default();
        let mut coupled = None;
        for (index, (key, cell)) in columns.iter().zip(&cells).enumerate() {
            let bad = |problem| self.bad_cell(line, index, key, problem);
            if key == "job" {
                number = Some((index, job_number(cell).map_err(bad)?));
            } else if key == "coupled" {
                coupled = yes_or_no(cell).map_err(bad)?;
            } else if !cell.is_empty() {
                terms
                    .set(key, cell, &deadline_as_duration)
                    .map_err(|error| match error {
                        TermsError::Value { problem, .. } => bad(problem),
                        other => bad(other.to_string()),
                    })?;
                in_range(&terms)
                    .map_err(|error| bad(format!("'{cell}', expected {}", error.expected)))?;
            }
        }
        let Some((column, number)) = number else {
            return Err(self.bad_line(line, "the job's number is missing"));
        };
        let entry = TermsLine {
            line,
            terms,
            coupled,
        };
        if let Some(other) = self.entries.insert(number, entry) {
            let problem = format!("job {number} was already given in line {}", other.line);
            return Err(self.bad_cell(line, column, "job", problem));
        }
        Ok(())
    }

    /// Gives the jobs their terms. `records` are those of the whole log, of which `jobs` may be a
    /// part: that a listed job is not in this part is no error. The number of jobs whose terms
    /// were given.
    ///
    /// # Errors
    /// A job that is listed and is not in the log, or stands there twice.
    pub fn apply(&self, records: &[SwfRecord], jobs: &mut [Job]) -> Result<usize, SlaError> {
        let mut missing = self.entries.clone();
        for record in records {
            let listed = self.entries.get(&record.number);
            if let Some(entry) = listed.filter(|_| missing.remove(&record.number).is_none()) {
                let problem = format!(
                    "there are two jobs {} in the log; number its jobs, each with its own number",
                    record.number
                );
                return Err(self.bad_line(entry.line, problem));
            }
        }
        if let Some((number, entry)) = missing.iter().min_by_key(|(_, entry)| entry.line) {
            let problem =
                format!("there is no job {number} in the log; expected a number of its field 1");
            return Err(self.bad_line(entry.line, problem));
        }
        let mut given = 0;
        for job in jobs {
            let number = u32::try_from(job.number).ok();
            if let Some(entry) = number.and_then(|number| self.entries.get(&number)) {
                job.terms = over(&entry.terms, job.terms);
                job.coupled = entry.coupled.unwrap_or(job.coupled);
                given += 1;
            }
        }
        Ok(given)
    }
}

fn job_number(cell: &str) -> Result<u32, String> {
    let plain = cell.bytes().all(|b| b.is_ascii_digit());
    cell.parse().ok().filter(|_| plain).ok_or_else(|| {
        format!(
            "'{}' is not the number of a job, expected a whole number from 0 to 4294967295",
            cell.chars().take(32).collect::<String>()
        )
    })
}

fn yes_or_no(cell: &str) -> Result<Option<bool>, String> {
    match cell.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "yes" => Ok(Some(true)),
        "no" => Ok(Some(false)),
        _ => Err(format!(
            "'{}', expected yes or no",
            cell.chars().take(32).collect::<String>()
        )),
    }
}

/// These terms, and where they say nothing, the others.
fn over(terms: &PartialTerms, drawn: Terms) -> Terms {
    Terms {
        estimate: terms.estimate.unwrap_or(drawn.estimate),
        deadline: terms.deadline.unwrap_or(drawn.deadline),
        budget: terms.budget.unwrap_or(drawn.budget),
        deadline_type: terms.deadline_type.unwrap_or(drawn.deadline_type),
        penalty_rate: terms.penalty_rate.unwrap_or(drawn.penalty_rate),
        class: drawn.class,
    }
}

fn in_range(terms: &PartialTerms) -> Result<(), OutOfRange> {
    over(terms, Terms::hard(1.0, 1.0, 1.0)).check()
}

#[cfg(test)]
#[path = "sla_tests.rs"]
mod tests;
