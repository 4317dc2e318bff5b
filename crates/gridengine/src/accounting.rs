//! The cell's accounting file, followed: lines that come to its end, and where it is begun to be read.
//!
//! qmaster appends to it, a few seconds after each end (`flush_time` of `reporting_params`). Sites take it away now and then and begin another
//! one: what is left of the old one is read first.

use libra_workload::gridengine::GridEngineRecord;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that are read at once when the place to begin at is searched from the end of the file.
const STEP: u64 = 1 << 20;

/// Longest line, in bytes.
const LONGEST: u64 = 1 << 20;

/// A record may be written so many seconds before another one that has ended earlier.
const DISORDER: i64 = 3600;

/// One end of a task, or one time that it was taken back into the queue, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Number of the job.
    pub job: u32,
    /// Number of the task of an array.
    pub task: Option<u32>,
    /// When it started, Unix time; 0 where that is not known.
    pub started: i64,
    /// When it ended, Unix time; 0 where that is not known.
    pub ended: i64,
    /// It went back into the queue.
    pub is_taken_back: bool,
    /// What failed (sge_status(5)).
    pub failed: u32,
    /// Exit status.
    pub exit: i32,
    /// Somebody has measured it.
    pub is_measured: bool,
    /// It used up a limit that it had asked for, of processor time or of memory.
    pub is_over_limit: bool,
    /// Processor seconds, of each slot.
    pub cpu: f64,
}

impl Run {
    /// Seconds that it ran; 0 where that is not known.
    pub fn ran(&self) -> f64 {
        match self.started {
            0 => 0.0,
            started => (self.ended - started).max(0) as f64,
        }
    }
}

impl From<&GridEngineRecord<'_>> for Run {
    fn from(record: &GridEngineRecord<'_>) -> Run {
        let seconds = |name| libra_units::duration::parse(record.request(name)?).ok();
        let bytes = |name| libra_units::memory::parse(record.request(name)?).ok();
        let cpu = ["h_cpu", "s_cpu"].into_iter().filter_map(seconds);
        let memory = ["h_vmem", "s_vmem"].into_iter().filter_map(bytes);
        let slots = f64::from(record.slots.max(1));
        Run {
            job: record.job,
            task: record.task,
            started: record.started,
            ended: record.ended,
            is_taken_back: record.is_taken_back(),
            failed: record.failed,
            exit: record.exit,
            is_measured: record.is_measured,
            // Both are multiplied by slots, as Grid Engine does.
            is_over_limit: cpu.into_iter().any(|limit| record.cpu >= limit * slots)
                || (memory.into_iter()).any(|limit| record.max_vmem >= limit as f64 * slots),
            cpu: record.cpu / slots,
        }
    }
}

/// What is known of the file between two times that it is read.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// The file that is read, and how far.
    open: Option<(File, u64)>,
    /// What was wrong with a line, as it was said last.
    problem: Option<String>,
}

impl Follower {
    /// Nothing is read yet.
    pub fn new(path: &Path) -> Follower {
        Follower {
            path: path.to_path_buf(),
            open: None,
            problem: None,
        }
    }

    /// What has come to it since the last time; the first time, what has ended since `since`, Unix time. `is_wanted`: of this job. Without a file
    /// nothing has ended yet.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self, since: f64, is_wanted: &dyn Fn(u32) -> bool) -> io::Result<Vec<Run>> {
        let mut runs = Vec::new();
        if let Some((file, at)) = &mut self.open {
            let mut file = &*file;
            *at = lines(&mut file, *at, &mut self.problem, is_wanted, &mut runs)?;
        }
        let found = match File::open(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(runs),
            Err(error) => return Err(error),
        };
        let now = found.metadata()?;
        let is_the_same = match &self.open {
            None => false,
            Some((file, at)) => file.metadata()?.ino() == now.ino() && now.len() >= *at,
        };
        if !is_the_same {
            let begin = match &self.open {
                None => beginning(&found, now.len(), since as i64 - DISORDER)?,
                // Another one, or it was emptied.
                Some(_) => 0,
            };
            let mut file = &found;
            let at = lines(&mut file, begin, &mut self.problem, is_wanted, &mut runs)?;
            self.open = Some((found, at));
        }
        Ok(runs)
    }

    /// What is wrong with the last line that could not be read, once.
    pub fn take_problem(&mut self) -> Option<String> {
        (self.problem.take()).map(|problem| format!("{}: {problem}", self.path.display()))
    }
}

/// Reads whole lines from `at` on; returns where the next one will begin.
fn lines(
    file: &mut &File,
    at: u64,
    problem: &mut Option<String>,
    is_wanted: &dyn Fn(u32) -> bool,
    runs: &mut Vec<Run>,
) -> io::Result<u64> {
    file.seek(SeekFrom::Start(at))?;
    let mut reader = BufReader::new(*file);
    let (mut at, mut line) = (at, Vec::new());
    loop {
        line.clear();
        let length = (&mut reader).take(LONGEST).read_until(b'\n', &mut line)? as u64;
        if !line.ends_with(b"\n") && length < LONGEST {
            return Ok(at);
        }
        at += length;
        let text = String::from_utf8_lossy(&line);
        match GridEngineRecord::parse(text.trim_end()) {
            Ok(Some(record)) if !record.is_part && is_wanted(record.job) => {
                runs.push(Run::from(&record));
            }
            Ok(_) => {}
            Err(_) if text.trim().len() <= 1 => {}
            Err(wrong) => *problem = Some(wrong),
        }
    }
}

/// The begin of a line before which nothing has ended since `since`.
fn beginning(mut file: &File, length: u64, since: i64) -> io::Result<u64> {
    let mut begin = length;
    while begin > 0 {
        begin = begin.saturating_sub(STEP);
        file.seek(SeekFrom::Start(begin))?;
        let mut text = Vec::new();
        (&mut file).take(STEP).read_to_end(&mut text)?;
        // A part of a line is no line.
        let cut = match begin {
            0 => 0,
            _ => text
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(text.len(), |end| end + 1),
        };
        let text = String::from_utf8_lossy(&text[cut..]);
        let ended = |line| Some(GridEngineRecord::parse(line).ok()??.ended).filter(|at| *at > 0);
        if text
            .lines()
            .find_map(ended)
            .is_some_and(|ended| ended < since)
        {
            return Ok(begin + cut as u64);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn line(job: u32, ended: i64) -> String {
        format!(
            "main.q:g1:users:ann:x:{job}:sge:0:{0}:{0}:{ended}:0:0:2:0.007180:0.000000:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:\
             defaultdepartment:smp:2:0:8.0:0.000000:0.000023:-l h_cpu=0:0:4 -pe smp 2:0.000000:NONE:3538944.000000:0:0\n",
            ended - 5
        )
    }

    fn jobs(runs: &[Run]) -> Vec<u32> {
        runs.iter().map(|run| run.job).collect()
    }

    #[test]
    fn lines_are_read_once_and_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("accounting");
        let mut follower = Follower::new(&path);
        let all = |_: u32| true;
        assert!(follower.read(0.0, &all).expect("none yet").is_empty());
        let append = |text: &str| {
            let file = File::options().create(true).append(true).open(&path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .expect("ours");
        };
        append("# Version\n\n");
        append(&line(1, 1000));
        let (begin, end) = (line(2, 1001), line(2, 1001));
        append(&begin[..40]);
        let runs = follower.read(0.0, &all).expect("a file");
        assert_eq!(jobs(&runs), [1]);
        assert_eq!(
            (runs[0].cpu, runs[0].ran(), runs[0].is_over_limit),
            (4.0, 5.0, true)
        );
        append(&end[40..]);
        append("nonsense\n");
        append(&line(3, 1002));
        assert_eq!(
            jobs(&follower.read(0.0, &|job| job != 3).expect("a file")),
            [2]
        );
        let problem = follower.take_problem().expect("one");
        assert!(
            problem.contains("accounting: it has 1 entries"),
            "{problem}"
        );
        assert_eq!(follower.take_problem(), None);
        // It is taken away while there was more in it, and another one begun.
        append(&line(4, 1003));
        std::fs::rename(&path, directory.path().join("accounting.0")).expect("ours");
        append(&line(5, 1004));
        assert_eq!(jobs(&follower.read(0.0, &all).expect("a file")), [4, 5]);
        // Or emptied.
        std::fs::write(&path, "").expect("ours");
        append(&line(6, 1005)[..20]);
        assert!(follower.read(0.0, &all).expect("a file").is_empty());
        append(&line(6, 1005)[20..]);
        assert_eq!(jobs(&follower.read(0.0, &all).expect("a file")), [6]);
    }

    #[test]
    fn a_long_file_is_begun_near_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("accounting");
        let text: String = (1..20_001)
            .map(|job| line(job, i64::from(job) * 10))
            .collect();
        assert!(text.len() as u64 > 4 * STEP);
        std::fs::write(&path, &text).expect("ours");
        let file = File::open(&path).expect("ours");
        let begin = beginning(&file, text.len() as u64, 190_000).expect("it is read");
        assert!(begin > STEP && text[begin as usize..].starts_with("main.q:"));
        let runs = Follower::new(&path)
            .read(193_600.0, &|_| true)
            .expect("it is read");
        assert!(
            jobs(&runs)[0] <= 19_000 && jobs(&runs)[0] > 10_000,
            "{}",
            runs[0].job
        );
        assert_eq!(runs.last().map(|run| run.job), Some(20_000));
        let all = Follower::new(&path)
            .read(0.0, &|_| true)
            .expect("it is read");
        assert_eq!(all.len(), 20_000);
    }
}
