//! One control file, kept open.
//!
//! Invariants: a write is one system call with the whole value and its newline (the kernel parses each
//! write by itself); a read starts at the beginning; errors carry the path. Keeping the file open makes a
//! write ten times cheaper than opening it each time, and a file of a removed group answers ENODEV instead
//! of silently meaning a new group of the same name.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::Error;

/// More than a number of 64 bits with its sign and its newline is long.
const NUMBER: usize = 32;

/// A control file and its path.
#[derive(Debug)]
pub(crate) struct ControlFile {
    path: PathBuf,
    file: File,
}

impl ControlFile {
    /// Opens `directory/name` for reading, and for writing if asked.
    pub fn open(directory: &Path, name: &str, write: bool) -> Result<Self, Error> {
        let path = directory.join(name);
        let file = OpenOptions::new().read(true).write(write).open(&path);
        let file = file.map_err(|e| Error::io("open", &path, None, e))?;
        Ok(Self { path, file })
    }

    /// The same, `None` where this kernel has no such file.
    pub fn open_if_present(
        directory: &Path,
        name: &str,
        write: bool,
    ) -> Result<Option<Self>, Error> {
        match Self::open(directory, name, write) {
            Err(Error::Gone { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content as it is now, at most 4 KiB: no control file read here is longer.
    pub fn read(&self) -> Result<String, Error> {
        let mut buffer = [0u8; 4096];
        let content = self.read_into(&mut buffer)?;
        Ok(String::from_utf8_lossy(content).into_owned())
    }

    fn read_into<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8], Error> {
        let length =
            (self.file.read_at(buffer, 0)).map_err(|e| Error::io("read", &self.path, None, e))?;
        Ok(&buffer[..length])
    }

    /// The first line as a number. A control loop reads several of each job in each round, so nothing is allocated for it.
    pub fn number<T: std::str::FromStr>(&self) -> Result<T, Error> {
        let mut buffer = [0u8; NUMBER];
        let content = self.read_into(&mut buffer)?;
        let line = content.split(|byte| *byte == b'\n').next();
        let number = std::str::from_utf8(line.unwrap_or_default());
        (number.ok().and_then(|number| number.trim().parse().ok())).ok_or_else(|| {
            let text = String::from_utf8_lossy(content);
            Error::malformed(&self.path, &text, "a number")
        })
    }

    /// The number after `key` in a file of "key number" lines; `None` where the key is missing.
    pub fn keyed(&self, key: &str) -> Result<Option<u64>, Error> {
        let text = self.read()?;
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
        line.map(|v| {
            v.trim()
                .parse()
                .map_err(|_| Error::malformed(&self.path, &text, "`key number` lines"))
        })
        .transpose()
    }

    /// Writes one value.
    pub fn write(&self, value: &str) -> Result<(), Error> {
        write_all(&self.file, &self.path, value)
    }
}

/// Writes a value into a file opened only for it.
pub(crate) fn write_once(path: &Path, value: &str) -> Result<(), Error> {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|e| Error::io("open", path, Some(value), e))?;
    write_all(&file, path, value)
}

fn write_all(file: &File, path: &Path, value: &str) -> Result<(), Error> {
    let line = format!("{value}\n");
    file.write_all_at(line.as_bytes(), 0)
        .map_err(|e| Error::io("write", path, Some(value), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_keys() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("n"), "-1\n").unwrap();
        std::fs::write(dir.path().join("s"), "usage_usec 17\nuser_usec 3\n").unwrap();
        let n = ControlFile::open(dir.path(), "n", true).unwrap();
        assert_eq!(n.number::<i64>().unwrap(), -1);
        n.write("60000").unwrap();
        assert_eq!(n.number::<u64>().unwrap(), 60_000);
        // A shorter value over a longer one: the kernel forgets the old one, a fixture keeps its tail.
        n.write("7").unwrap();
        assert_eq!(n.number::<u64>().unwrap(), 7);
        let s = ControlFile::open(dir.path(), "s", false).unwrap();
        assert_eq!(s.keyed("usage_usec").unwrap(), Some(17));
        assert_eq!(s.keyed("usage").unwrap(), None);
        assert!(s.number::<u64>().is_err());
        assert!(
            ControlFile::open_if_present(dir.path(), "absent", true)
                .unwrap()
                .is_none()
        );
    }
}
