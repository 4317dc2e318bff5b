//! What Slurm's `sacct --parsable2` prints: a header line with the names of the columns, then one
//! line for each job and each of its steps, in columns that are separated by `|`.
//!
//! Columns are found by name, so their order and further ones do not matter. Steps (`12.batch`)
//! are not jobs; of them only the memory they used is taken. A task of an array (`12_3`) and a part
//! of a heterogeneous job (`12+1`) is a job.

use super::promised::Promised;
use super::values::{Each, Words, duration, limit, memory, minutes, shown, time, whole};
use super::{AccountingRecord, LeftOut, Problem, ToUnix};
use std::collections::BTreeMap;

/// What to run.
pub const COMMAND: &str = "sacct --allusers --starttime ... --endtime ... --parsable2 --format=JobID,JobIDRaw,User,Group,Partition,Submit,Start,End,ElapsedRaw,TimelimitRaw,ReqCPUS,AllocCPUS,NNodes,State,TotalCPU,ReqMem,MaxRSS";

/// The columns that are used, as sacct names them.
const COLUMNS: [&str; 22] = [
    "JobID",
    "JobIDRaw",
    "User",
    "Group",
    "Partition",
    "Submit",
    "Start",
    "End",
    "Elapsed",
    "ElapsedRaw",
    "Timelimit",
    "TimelimitRaw",
    "ReqCPUS",
    "AllocCPUS",
    "NCPUS",
    "NNodes",
    "AllocNodes",
    "State",
    "TotalCPU",
    "ReqMem",
    "MaxRSS",
    ADMIN_COMMENT,
];

/// Has what was promised. Other plugins write what they like into it, so it is only taken in the last place, where it may have bars.
const ADMIN_COMMENT: &str = "AdminComment";

/// Columns of sacct with words of users, or of other programs.
const FREE_TEXT: [&str; 9] = [
    "JobName",
    "Comment",
    "SystemComment",
    "Extra",
    "SubmitLine",
    "WorkDir",
    "StdIn",
    "StdOut",
    "StdErr",
];

/// Of each of these at least one must be there.
const NEEDED: [&[&str]; 4] = [
    &["JobID"],
    &["Submit"],
    &["ElapsedRaw", "Elapsed", "End"],
    &["ReqCPUS", "AllocCPUS", "NCPUS"],
];

/// States of jobs that have not ended.
const NOT_ENDED: [&str; 14] = [
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "CONFIGURING",
    "COMPLETING",
    "RESIZING",
    "RESV_DEL_HOLD",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SIGNALING",
    "SPECIAL_EXIT",
    "STAGE_OUT",
    "STOPPED",
    "EXPEDITING",
];

/// States of jobs that ended otherwise than they should.
const FAILED: [&str; 11] = [
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
    "PREEMPTED",
    "LAUNCH_FAILED",
    "RECONFIG_FAIL",
    "POWER_DOWN_NODE",
    "REQUEUED",
];

const DURATION: &str = "a time such as 1-02:03:04, 02:03:04 or 03:04";
const MEMORY: &str = "an amount such as 4000M, 4Gc or 16Gn";

/// One line's cells, by the names of their columns.
struct Row<'a> {
    cells: Vec<&'a str>,
    columns: &'a [Option<usize>; COLUMNS.len()],
}

impl<'a> Row<'a> {
    /// What stands in a column; None if it is not there or says that it is not known.
    fn get(&self, name: &str) -> Option<&'a str> {
        let column = COLUMNS.iter().position(|column| *column == name)?;
        let cell = self.cells.get(self.columns[column]?)?.trim();
        let unknown = ["", "Unknown", "None", "N/A", "INVALID"];
        (!unknown.iter().any(|word| cell.eq_ignore_ascii_case(word))).then_some(cell)
    }

    fn has(&self, name: &str) -> bool {
        let column = COLUMNS.iter().position(|column| *column == name);
        column.is_some_and(|column| self.columns[column].is_some())
    }

    fn read<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, String> {
        let Some(cell) = self.get(name) else {
            return Ok(None);
        };
        match read(cell) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("{name} is '{}', expected {expected}", shown(cell))),
        }
    }

    /// The first of these columns that has a number of processors.
    fn processors(&self, names: &[&str]) -> Result<Option<u32>, String> {
        for name in names {
            let read = |text: &str| text.parse().ok().filter(|n| *n <= i32::MAX as u32);
            let count = self.read(name, read, "a whole number of processors")?;
            if count.is_some_and(|count| count > 0) {
                return Ok(count);
            }
        }
        Ok(None)
    }
}

/// Collects jobs.
pub(super) struct Collector<'a> {
    to_unix: ToUnix<'a>,
    columns: Option<[Option<usize>; COLUMNS.len()]>,
    width: usize,
    /// By time of submission and id; a job that has not ended is none.
    jobs: BTreeMap<(i64, String), Option<AccountingRecord>>,
    /// The job of which the last line told.
    last: Option<(i64, String)>,
    parts: u64,
    repeated: u64,
    words: Words,
}

impl<'a> Collector<'a> {
    pub(super) fn new(to_unix: ToUnix<'a>) -> Collector<'a> {
        Collector {
            to_unix,
            columns: None,
            width: 0,
            jobs: BTreeMap::new(),
            last: None,
            parts: 0,
            repeated: 0,
            words: Words::default(),
        }
    }

    /// The next line is the first one of a file.
    pub(super) fn next_file(&mut self) {
        self.columns = None;
        self.last = None;
    }

    /// Takes a line.
    pub(super) fn take(&mut self, line: &str) -> Result<(), Problem> {
        let mut cells: Vec<&str> = line.split('|').collect();
        // Files may have been put one behind the other, each with its header.
        let is_header = cells.iter().any(|cell| is(cell, "JobID"));
        let columns = match self.columns {
            Some(columns) if !is_header => columns,
            _ => {
                self.columns = Some(header(&cells)?);
                self.width = cells.len();
                return Ok(());
            }
        };
        let last = self.width.saturating_sub(1);
        if cells.len() > self.width && columns[COLUMNS.len() - 1] == Some(last) {
            cells = line.splitn(self.width, '|').collect();
        }
        if cells.len() != self.width {
            return Err(Problem::Line(format!(
                "{} columns, expected {}, as many as the header has; leave out columns of free text such as JobName and Comment",
                cells.len(),
                self.width
            )));
        }
        let row = Row {
            cells,
            columns: &columns,
        };
        self.row(&row).map_err(Problem::Line)
    }

    fn row(&mut self, row: &Row<'_>) -> Result<(), String> {
        let id = row
            .get("JobID")
            .ok_or("JobID is empty, expected such as 12, 12_3 or 12.batch")?;
        if let Some((job, _)) = id.split_once('.') {
            self.parts += 1;
            self.step(job, row)?;
            return Ok(());
        }
        let state = row.get("State").map(|state| {
            let word = state.split_whitespace().next().unwrap_or_default();
            word.trim_end_matches('+').to_ascii_uppercase()
        });
        // What another cluster of a federation ran in its place.
        if state.as_deref() == Some("REVOKED") {
            self.parts += 1;
            return Ok(());
        }
        let submit = self
            .time(row, "Submit")?
            .ok_or("Submit is not known, expected a time such as 2027-01-31T08:00:00")?;
        let status = match &state {
            Some(state) => status(state)?,
            // Without a column State a job has ended when it has an end.
            None if row.get("End").is_none() && row.get("Start").is_some() => None,
            None => Some(-1),
        };
        let entry = match status {
            Some(status) => Some(self.entry(row, id, submit, status)?),
            None => None,
        };
        let key = (submit, id.to_string());
        self.last = Some(key.clone());
        match self.jobs.get_mut(&key) {
            None => {
                self.jobs.insert(key, entry);
            }
            Some(before) => {
                self.repeated += 1;
                // A later file may tell how it ended.
                if entry.is_some() {
                    *before = entry;
                }
            }
        }
        Ok(())
    }

    /// A step: the largest of its processes is taken for each process of the job.
    fn step(&mut self, job: &str, row: &Row<'_>) -> Result<(), String> {
        let Some(used) = row.read("MaxRSS", |text| memory(text, "K"), MEMORY)? else {
            return Ok(());
        };
        let last = self.last.as_ref().filter(|(_, id)| id == job);
        let entry = last.and_then(|key| self.jobs.get_mut(key)?.as_mut());
        if let Some(entry) = entry {
            let processors = entry.allocated.or(entry.requested).unwrap_or(1);
            let all = used.0 * f64::from(processors);
            entry.used_memory = Some(entry.used_memory.unwrap_or(0.0).max(all));
        }
        Ok(())
    }

    fn time(&self, row: &Row<'_>, name: &str) -> Result<Option<i64>, String> {
        row.read(
            name,
            |text| time(text, self.to_unix),
            "a time such as 2027-01-31T08:00:00 (leave SLURM_TIME_FORMAT unset)",
        )
    }

    fn entry(
        &mut self,
        row: &Row<'_>,
        id: &str,
        submit: i64,
        status: i8,
    ) -> Result<AccountingRecord, String> {
        let start = self.time(row, "Start")?;
        let end = self.time(row, "End")?;
        let elapsed = match row.read("ElapsedRaw", whole, "seconds")? {
            Some(seconds) => Some(seconds),
            None => row.read("Elapsed", duration, DURATION)?,
        };
        let between = start
            .zip(end)
            .map(|(start, end)| (end - start).max(0) as f64);
        // Without a column Start a job that took no time is one that never started.
        let took = elapsed.or(between);
        let start = match row.has("Start") {
            true => start,
            false => took.filter(|time| *time > 0.0).and(
                end.zip(took)
                    .map(|(end, time)| end - time as i64)
                    .or(Some(submit)),
            ),
        };
        let limit = match row.read("TimelimitRaw", minutes, "minutes")? {
            Some(limit) => limit,
            None => row.read("Timelimit", limit, DURATION)?.flatten(),
        };
        let requested = row.processors(&["ReqCPUS"])?;
        let allocated = row.processors(&["AllocCPUS", "NCPUS"])?;
        let processors = f64::from(allocated.or(requested).unwrap_or(1));
        let nodes = row.processors(&["AllocNodes", "NNodes"])?.unwrap_or(1);
        let requested_memory = row
            .read("ReqMem", |text| memory(text, "M"), MEMORY)?
            .map(|(amount, each)| match each {
                Each::Job => amount,
                Each::Node => amount * f64::from(nodes),
                Each::Processor => amount * processors,
            })
            .filter(|amount| *amount > 0.0);
        let raw = row.get("JobIDRaw").unwrap_or(id);
        let cpu_time = row.read("TotalCPU", duration, DURATION)?;
        let promised = (row.get(ADMIN_COMMENT)).and_then(|comment| {
            Promised::of_comment(comment, took, |slots| Some(cpu_time? / slots))
        });
        let words = &mut self.words;
        let mut text = |name: &str| row.get(name).map(|word| words.keep(word));
        Ok(AccountingRecord {
            number: raw.parse().ok(),
            submit,
            start,
            run_time: took,
            allocated: allocated.filter(|_| start.is_some()),
            requested: requested.or(allocated),
            cpu_time,
            used_memory: row
                .read("MaxRSS", |text| memory(text, "K"), MEMORY)?
                .map(|(amount, _)| amount * processors),
            requested_time: limit,
            requested_memory,
            status,
            user: text("User"),
            group: text("Group"),
            queue: text("Partition"),
            promised,
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

fn is(cell: &str, name: &str) -> bool {
    cell.trim().eq_ignore_ascii_case(name)
}

/// Where the columns stand.
fn header(cells: &[&str]) -> Result<[Option<usize>; COLUMNS.len()], Problem> {
    if !cells.iter().any(|cell| is(cell, "JobID")) {
        let problem = match cells.len() {
            1 => "the columns are not separated by '|', expected what --parsable2 prints",
            _ => "there is no header line with a column JobID, expected one at the start",
        };
        return Err(Problem::Header(problem.to_string()));
    }
    let columns = COLUMNS.map(|name| cells.iter().position(|cell| is(cell, name)));
    let there = |name: &&str| {
        let column = COLUMNS.iter().position(|column| column == name);
        column.is_some_and(|column| columns[column].is_some())
    };
    let missing: Vec<String> = NEEDED
        .iter()
        .filter(|names| !names.iter().any(there))
        .map(|names| names.join(" or "))
        .collect();
    // What bars belong to is only known if one column alone may have them.
    let last = columns[COLUMNS.len() - 1] == Some(cells.len() - 1);
    let free = FREE_TEXT
        .into_iter()
        .find(|name| cells.iter().any(|cell| is(cell, name)));
    if let (true, Some(name)) = (last, free) {
        return Err(Problem::Header(format!(
            "beside {ADMIN_COMMENT} leave out the column {name}, which may have bars too"
        )));
    }
    match missing.is_empty() {
        true => Ok(columns),
        false => Err(Problem::Header(format!(
            "the column {} is missing",
            missing.join(", and ")
        ))),
    }
}

/// Field 11 of a state; None if the job has not ended.
fn status(state: &str) -> Result<Option<i8>, String> {
    match state {
        "COMPLETED" => Ok(Some(1)),
        "CANCELLED" => Ok(Some(5)),
        state if FAILED.contains(&state) => Ok(Some(0)),
        state if NOT_ENDED.contains(&state) => Ok(None),
        other => Err(format!(
            "State is '{}', expected one of Slurm's, such as COMPLETED, FAILED, TIMEOUT, CANCELLED, RUNNING",
            shown(other)
        )),
    }
}
