//! The file in which a server keeps its held quotes, for the one that begins after it: for its own user alone, as the numbers in it are worth something.
//!
//! Invariant: what cannot be written or read costs quotes that outlive the server, and nothing else.

use libra_system::file::{self, Kept};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Largest file that is written or read, in bytes: some ten thousand quotes.
const LARGEST: u64 = 8 << 20;

/// Such a file.
#[derive(Debug)]
pub struct QuotesFile {
    path: PathBuf,
    /// What could not be written.
    unwritten: Option<String>,
    /// What is wrong with it, as was said last.
    problem: Option<String>,
}

impl QuotesFile {
    /// At this path; nothing is made of it before a quote is held.
    pub fn new(path: &Path) -> QuotesFile {
        QuotesFile {
            path: path.to_path_buf(),
            unwritten: None,
            problem: None,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was written last; None if nothing is held.
    ///
    /// # Errors
    /// A line for the log: why it cannot be read.
    pub fn read(&self) -> Result<Option<String>, String> {
        file::read(&self.path, LARGEST)
            .map_err(|error| format!("held quotes are lost: {}: {error}", self.path.display()))
    }

    /// Writes what has changed in the place of what was there; nothing takes the file away. What could not be written is tried again each time that this is
    /// called, and until then there is no file: that of before may have quotes that were used since. Returns a line for the log, where there is something new to say.
    pub fn write(&mut self, changed: Option<String>) -> Option<String> {
        let text = changed.or_else(|| self.unwritten.take())?;
        match (self.replace(&text), self.problem.take()) {
            (Ok(()), None) => {
                self.unwritten = None;
                None
            }
            (Ok(()), Some(_)) => {
                self.unwritten = None;
                Some("held quotes are written again".to_string())
            }
            // Once, until it is well again.
            (Err(problem), before) => {
                let _ = fs::remove_file(&self.path);
                self.unwritten = Some(text);
                self.problem = Some(problem.clone());
                (before.as_ref() != Some(&problem)).then(|| {
                    format!("{problem}: quotes that are held now are lost with the next restart")
                })
            }
        }
    }

    fn replace(&self, text: &str) -> Result<(), String> {
        match text.len() as u64 {
            0 => match fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(format!("cannot remove {}: {error}", self.path.display()))
                }
                _ => Ok(()),
            },
            1..=LARGEST => file::replace(&self.path, text, 0o600, Kept::OverPowerLoss),
            _ => Err(format!(
                "{} would be larger than {} MiB",
                self.path.display(),
                LARGEST >> 20
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn write(quotes: &mut QuotesFile, text: &str) -> Option<String> {
        quotes.write(Some(text.to_string()))
    }

    #[test]
    fn what_was_written_is_read_by_its_owner_alone_and_none_leaves_no_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("libra.quotes");
        let mut quotes = QuotesFile::new(&path);
        assert_eq!(quotes.read(), Ok(None));
        assert_eq!(write(&mut quotes, ""), None);
        assert_eq!(write(&mut quotes, "some"), None);
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(quotes.read(), Ok(Some("some".to_string())));
        assert_eq!(write(&mut quotes, ""), None);
        assert_eq!(fs::read_dir(directory.path()).expect("ours").count(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_said_once_tried_again_and_leaves_nothing_old() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("not-there/libra.quotes");
        let mut quotes = QuotesFile::new(&path);
        let said = write(&mut quotes, "some").expect("said");
        assert!(
            said.contains("not-there") && said.contains("restart"),
            "{said}"
        );
        assert_eq!(write(&mut quotes, "more"), None);
        assert_eq!(quotes.write(None), None);
        fs::create_dir(path.parent().expect("one")).expect("ours");
        assert!(quotes.write(None).expect("said").contains("again"));
        assert_eq!(quotes.read(), Ok(Some("more".to_string())));
        assert_eq!(quotes.write(None), None);
        let said = write(&mut quotes, &"x".repeat(9 << 20)).expect("said");
        assert!(said.contains("8 MiB"), "{said}");
        assert_eq!(quotes.read(), Ok(None));
        fs::create_dir(&path).expect("ours");
        assert!(quotes.read().expect_err("no file").contains("libra.quotes"));
    }
}
