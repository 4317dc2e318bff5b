//! What this page has submitted: a directory for each job below `~/.local/state/libra/web/SYSTEM`, readable by the user alone.
//!
//! A batch system forgets its jobs after minutes, and nobody else knows where a job of this host writes to. In each
//! directory: `record.json`, written by rename, `script`, and for jobs of this host `start`, `output` and `said`. A directory
//! may be removed at any time.

use super::job::{JobSummary, Outcome};
use super::submission::Submission;
use super::{Kind, Problem, Site, executable};
use crate::secret;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The most records that are read: the latest.
const MOST: usize = 200;

/// A submission.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SubmissionRecord {
    /// Its key: the name of its directory.
    #[serde(skip)]
    pub key: String,
    /// The host it was submitted on. Several may share a home directory.
    pub host: String,
    /// The cluster, where a host may speak to several; empty otherwise.
    pub cluster: String,
    /// Its id; empty until it has one.
    pub id: String,
    /// When, seconds since 1970.
    pub submitted: f64,
    /// What was said.
    pub said: String,
    /// Where its output goes.
    pub output: PathBuf,
    /// What was committed to it, where its system forgets that with the job: a line of `libra_core::commitment`.
    pub committed: String,
    /// How it ended, where its system forgets that.
    pub end: Option<End>,
    /// What was asked for.
    pub wanted: Submission,
}

/// How a job has ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// When, Unix time; None if nobody knows.
    pub at: Option<f64>,
    /// `completed`, `failed`, `cancelled`, or `ended` where nobody knows how.
    pub state: String,
    /// In words.
    pub ending: String,
    /// Its nodes; empty where they are not known.
    pub node: String,
}

impl SubmissionRecord {
    /// A job that its batch system has forgotten, or of which nobody knows whether it was ever there.
    pub fn as_ended(&self) -> JobSummary {
        let state = match self.id.as_str() {
            "" => "perhaps submitted",
            _ => "ended",
        };
        JobSummary {
            key: self.key.clone(),
            id: self.id.clone(),
            name: self.wanted.name.clone(),
            state: state.to_string(),
            outcome: (!self.id.is_empty()).then_some(Outcome::Unknown),
            submitted: Some(self.submitted),
            ..JobSummary::default()
        }
    }
}

/// All of one system.
#[derive(Debug)]
pub struct Records {
    directory: PathBuf,
}

impl Records {
    /// Those of this system.
    pub fn new(site: &Site, kind: &Kind) -> Records {
        Records {
            directory: site.state.join(kind.name),
        }
    }

    /// The directory of a record.
    pub fn directory(&self, key: &str) -> PathBuf {
        self.directory.join(key)
    }

    /// Makes the directory of a new record, with the script in it; its key.
    ///
    /// # Errors
    /// It cannot be made, or what is there is not the user's own.
    pub fn begin(&self, wanted: &Submission, now: f64) -> Result<SubmissionRecord, Problem> {
        private(&self.directory)?;
        // Names in the order of time.
        let key = format!("{:010.0}-{}", now.max(0.0), &secret::word()[..8]);
        let directory = self.directory.join(&key);
        let failed = |error| failed(&directory, &error);
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(failed)?;
        write(&directory.join("script"), wanted.script.as_bytes(), 0o700)?;
        Ok(SubmissionRecord {
            key,
            host: host(),
            submitted: now,
            wanted: wanted.clone(),
            ..SubmissionRecord::default()
        })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, record: &SubmissionRecord) -> Result<(), Problem> {
        let directory = self.directory(&record.key);
        let (new, file) = (directory.join("record.new"), directory.join("record.json"));
        let json = serde_json::to_vec_pretty(record)
            .map_err(|error| Problem::new(format!("a record cannot be written: {error}")))?;
        write(&new, &json, 0o600)?;
        fs::rename(&new, &file).map_err(|error| failed(&file, &error))
    }

    /// Removes a record of something that was never submitted.
    pub fn drop(&self, record: &SubmissionRecord) {
        let directory = self.directory(&record.key);
        if let Err(error) = fs::remove_dir_all(&directory) {
            log::warn!("{} cannot be removed: {error}", directory.display());
        }
    }

    /// The latest, the newest first. What cannot be read is left out.
    pub fn all(&self) -> Vec<SubmissionRecord> {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_key(name)).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.truncate(MOST);
        names.iter().filter_map(|key| self.read(key)).collect()
    }

    /// One of them.
    pub fn read(&self, key: &str) -> Option<SubmissionRecord> {
        if !is_key(key) {
            return None;
        }
        let text = fs::read(self.directory(key).join("record.json")).ok()?;
        let record: SubmissionRecord = serde_json::from_slice(&text).ok()?;
        Some(SubmissionRecord {
            key: key.to_string(),
            ..record
        })
    }

    /// What was asked for with a record, with its script.
    pub fn again(&self, key: &str) -> Option<Submission> {
        let record = self.read(key)?;
        let script = fs::read_to_string(self.directory(key).join("script")).ok()?;
        Some(Submission {
            script,
            ..record.wanted
        })
    }
}

/// Digits, a dash, digits and letters: never a path.
fn is_key(name: &str) -> bool {
    let parts = name.split_once('-');
    parts.is_some_and(|(time, word)| {
        !time.is_empty()
            && word.len() == 8
            && time.bytes().all(|b| b.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// The name of this host.
pub fn host() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Makes a directory for the user alone, unless it is there and is that.
///
/// # Errors
/// It cannot be made, or belongs to others, or others may write to it.
pub fn private(directory: &Path) -> Result<(), Problem> {
    let failed = |error: std::io::Error| failed(directory, &error);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed)?;
    let metadata = fs::metadata(directory).map_err(failed)?;
    let own = nix::unistd::geteuid().as_raw();
    if metadata.uid() != own || metadata.mode() & 0o022 != 0 {
        return Err(Problem::new(format!(
            "{} is not used: it must belong to you and nobody else may write to it (mode {:o}, owner {})",
            directory.display(),
            metadata.mode() & 0o7777,
            metadata.uid()
        )));
    }
    Ok(())
}

/// Writes a new file of the user's alone. One that may be executed is written while nothing is started.
///
/// # Errors
/// It is there already, or cannot be written.
pub fn write(file: &Path, text: &[u8], mode: u32) -> Result<(), Problem> {
    let _still = (mode & 0o100 != 0).then(executable::nothing_starts);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(mode);
    let opened = options.custom_flags(libc::O_NOFOLLOW).open(file);
    opened
        .and_then(|mut opened| opened.write_all(text))
        .map_err(|error| failed(file, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_core::decision::class::Class;

    #[test]
    fn what_was_written_is_there_again_and_others_may_not_read_it() {
        let home = tempfile::tempdir().expect("a directory");
        let site = Site {
            libra: "libra".into(),
            config: None,
            state: home.path().join("state"),
            home: home.path().into(),
            files: home.path().into(),
            templates: None,
            classes: [Class::Deadline; 2],
        };
        let records = Records::new(&site, &crate::system::local::KIND);
        assert_eq!(records.all(), []);
        let wanted = Submission {
            script: "echo\n".to_string(),
            name: "x".to_string(),
            ..Submission::default()
        };
        let mut record = records.begin(&wanted, 17.5).expect("begun");
        record.id = "7".to_string();
        records.write(&record).expect("written");
        let again = records.again(&record.key).expect("there");
        assert_eq!(again, wanted);
        assert_eq!(records.all()[0].id, "7");
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!(mode(&site.state), 0o700);
        let directory = records.directory(&record.key);
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join("record.json")), 0o600);
        records.drop(&record);
        assert_eq!(records.all(), []);
    }

    #[test]
    fn no_key_is_a_path() {
        let good = "1790000000-0a1B2c3D";
        assert!(is_key(good));
        for bad in [
            "..",
            "../x-12345678",
            "1-1234567/",
            "1/-12345678",
            "",
            "-12345678",
            "1-123456789",
            "a-12345678",
        ] {
            assert!(!is_key(bad), "{bad}");
        }
    }

    #[test]
    fn a_directory_of_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a directory");
        let open = home.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("opened");
        assert!(
            private(&open)
                .expect_err("open")
                .to_string()
                .contains("777")
        );
    }
}
