//! Files that results are written to.

use crate::Failure;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that can be written to, as far as that can be known before. What is in it stays until
/// something is written; a new one is removed if nothing is.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: Option<File>,
    new: bool,
}

impl OutputFile {
    /// Opens it or makes it.
    pub fn open(path: &Path) -> Result<OutputFile, Failure> {
        let new = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.map_err(|error| Failure::File {
            file: path.to_path_buf(),
            error,
        })?;
        Ok(OutputFile {
            path: path.to_path_buf(),
            file: Some(file),
            new,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Empties it, to be written from its start.
    pub fn start(mut self) -> Result<File, Failure> {
        self.begin()
            .map_err(|error| cannot_write(&self.path, error))
    }

    /// Writes all of it.
    pub fn replace(self, content: &[u8]) -> Result<(), Failure> {
        let path = self.path.clone();
        let mut file = self.start()?;
        file.write_all(content)
            .and_then(|()| file.flush())
            .map_err(|error| cannot_write(&path, error))
    }

    fn begin(&mut self) -> io::Result<File> {
        let Some(file) = self.file.take() else {
            return Err(io::Error::other("it was written before"));
        };
        // A device or a pipe has no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.new && self.file.is_some() {
            // An empty file more is no harm.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

pub fn cannot_write(path: &Path, error: io::Error) -> Failure {
    Failure::Write {
        file: path.to_path_buf(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_until_something_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        std::fs::write(&old, "a long line").expect("a file");
        drop(OutputFile::open(&old).expect("writable"));
        drop(OutputFile::open(&new).expect("can be made"));
        assert_eq!(std::fs::read_to_string(&old).expect("there"), "a long line");
        assert!(!new.exists());
        for path in [&old, &new] {
            let file = OutputFile::open(path).expect("writable");
            file.replace(b"short").expect("room");
            assert_eq!(std::fs::read_to_string(path).expect("there"), "short");
        }
    }

    #[test]
    fn what_cannot_be_written_is_said_with_its_name() {
        let directory = tempfile::tempdir().expect("a directory");
        for path in [
            directory.path().to_path_buf(),
            directory.path().join("no/file"),
        ] {
            let error = OutputFile::open(&path).expect_err("not a file").to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
        let full = Path::new("/dev/full");
        if full.exists() {
            let file = OutputFile::open(full).expect("it opens");
            assert!(file.replace(b"x").is_err());
        }
    }
}
