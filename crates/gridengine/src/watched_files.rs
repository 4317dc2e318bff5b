//! What is known of accepted jobs beside qmaster's records, a file for each: what was committed to it, until its end is settled.
//!
//! qmaster forgets a job's context with the job, and a verifier may be killed at any time. So what is committed is in a file before qmaster is told
//! that the job is accepted. They are for the one that has the lock alone.

use super::context;
use super::ends::{Seen, Watched};
use libra_units::indices;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A job's number, and what was committed to it.
pub type WatchedJob = (u32, Watched);

/// Largest file that is read, in bytes: an array of many tasks that are settled one by one.
const LARGEST: u64 = 4 << 20;

/// The directory of these files.
#[derive(Debug, Clone)]
pub struct WatchedFiles {
    directory: PathBuf,
}

impl WatchedFiles {
    /// In this directory, which is made.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(directory: &Path) -> io::Result<WatchedFiles> {
        fs::create_dir_all(directory)?;
        Ok(WatchedFiles {
            directory: directory.to_path_buf(),
        })
    }

    /// All of them, by the jobs' numbers, and what is wrong with those that cannot be read; they stay.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn read(&self) -> io::Result<(Vec<WatchedJob>, Vec<String>)> {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            // Others are halves of what was being written.
            let name = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            let Some(job) = name else { continue };
            let text = match fs::metadata(&path)?.len() {
                0..=LARGEST => fs::read_to_string(&path)?,
                _ => String::new(),
            };
            match read(job, &text) {
                Ok(watched) => found.push((job, watched)),
                Err(problem) => problems.push(format!("{}: {problem}", path.display())),
            }
        }
        Ok((found, problems))
    }

    /// Writes one, in the place of what was there; None takes it away.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, job: u32, watched: Option<&Watched>) -> io::Result<()> {
        let path = self.directory.join(job.to_string());
        let Some(watched) = watched else {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        let half = self.directory.join(format!("{job}.new"));
        fs::write(&half, text(job, watched))?;
        fs::rename(half, path)
    }
}

fn text(job: u32, watched: &Watched) -> String {
    let mut text = format!("{}\n", context::write(job, &watched.commitment));
    if let Some((first, step)) = watched.tasks {
        text.push_str(&format!("tasks {first} {step}\n"));
    }
    text.push_str(match watched.seen {
        Seen::Accepted => "",
        Seen::Listed => "listed\n",
        Seen::Running => "ran\n",
    });
    if watched.held {
        text.push_str("held\n");
    }
    if !watched.settled.is_empty() {
        let settled: Vec<u32> = watched.settled.iter().copied().collect();
        text.push_str(&format!("settled {}\n", indices::show(&settled)));
    }
    text
}

fn read(job: u32, text: &str) -> Result<Watched, String> {
    let mut lines = text.lines();
    let commitment =
        context::read(job, lines.next().unwrap_or_default()).map_err(|error| error.to_string())?;
    let mut watched = Watched::new(commitment, None);
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["held"] => watched.held = true,
            ["listed"] => watched.seen = Seen::Listed,
            ["ran"] => watched.seen = Seen::Running,
            ["tasks", first, step] => {
                let number = |text: &str| text.parse().map_err(|_| unknown(line));
                watched.tasks = Some((number(first)?, number(step)?));
            }
            ["settled", list] => {
                let settled = indices::parse(list).map_err(|_| unknown(line))?;
                watched.settled = settled.into_iter().collect();
            }
            _ => return Err(unknown(line)),
        }
    }
    Ok(watched)
}

fn unknown(line: &str) -> String {
    format!(
        "'{}' is none of its lines",
        libra_units::printable(line, 64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_core::commitment::Commitment;

    const LINE: &str = "v=1:token=17:submitted=1700000000.25:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:\
         chunks=1:processors=1:memory=0:scatter=0:count=4:payer=user/ann:at=n1*4*0.525";

    #[test]
    fn what_was_written_is_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = WatchedFiles::open(&directory.path().join("jobs")).expect("ours");
        let commitment = Commitment::parse(LINE).expect("ours");
        let mut watched = Watched::new(commitment, Some((3, 2)));
        files.write(13, Some(&watched)).expect("ours");
        watched.held = true;
        watched.seen = Seen::Running;
        watched.settled = [0, 1, 3].into_iter().collect();
        files.write(14, Some(&watched)).expect("ours");
        files.write(15, Some(&watched)).expect("ours");
        files.write(15, None).expect("ours");
        files.write(15, None).expect("it is gone");
        fs::write(directory.path().join("jobs/16.new"), "half").expect("ours");
        fs::write(directory.path().join("jobs/17"), format!("16:{LINE}\n")).expect("ours");
        fs::write(
            directory.path().join("jobs/18"),
            format!("18:{LINE}\nheld up\n"),
        )
        .expect("ours");
        let (mut found, mut problems) = files.read().expect("ours");
        found.sort_by_key(|(job, _)| *job);
        problems.sort();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].1.tasks, Some((3, 2)));
        assert!(!found[0].1.held && found[0].1.settled.is_empty());
        assert_eq!(found[1], (14, watched));
        assert!(
            problems[0].ends_with("jobs/17: its context is that of job 16"),
            "{problems:?}"
        );
        assert!(
            problems[1].ends_with("'held up' is none of its lines"),
            "{problems:?}"
        );
    }
}
