//! One control file, kept open, or opened for each use where a process may not have so many open.
//!
//! Invariants: a write is one system call with the whole value and its newline (the kernel parses each
//! write by itself); a read starts at the beginning; errors carry the path. Keeping the file open makes a
//! write ten times cheaper than opening it each time. Either way a file of a removed group is gone, and never
//! silently means a new group of the same name: one that is kept open answers ENODEV, one that is opened for each use is compared by device and inode.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::Error;

/// More than a number of 64 bits with its sign and its newline is long.
const NUMBER: usize = 32;

/// A control file and its path.
#[derive(Debug)]
pub(crate) struct ControlFile {
    path: PathBuf,
    write: bool,
    handle: Handle,
}

#[derive(Debug)]
enum Handle {
    Open(File),
    /// Opened for each use; the file is the one with these.
    Closed {
        device: u64,
        inode: u64,
    },
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(write).open(path)
}

impl ControlFile {
    /// Opens `directory/name` for reading, and for writing if asked.
    pub fn open(directory: &Path, name: &str, write: bool) -> Result<Self, Error> {
        let path = directory.join(name);
        let file = open(&path, write).map_err(|e| Error::io("open", &path, None, e))?;
        let handle = Handle::Open(file);
        Ok(Self {
            path,
            write,
            handle,
        })
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

    pub fn is_open(&self) -> bool {
        matches!(self.handle, Handle::Open(_))
    }

    /// From now on it is opened for each use.
    pub fn close(&mut self) {
        if let Handle::Open(file) = &self.handle {
            // Of an open file that cannot fail; it stays open then.
            if let Ok(found) = file.metadata() {
                self.handle = Handle::Closed {
                    device: found.dev(),
                    inode: found.ino(),
                };
            }
        }
    }

    /// From now on it is kept open. False if it cannot be opened: it is opened for each use still.
    pub fn keep_open(&mut self) -> bool {
        if let Handle::Closed { device, inode } = self.handle {
            if let Ok(file) = self.opened(device, inode) {
                self.handle = Handle::Open(file);
            }
        }
        self.is_open()
    }

    fn opened(&self, device: u64, inode: u64) -> Result<File, Error> {
        let gone = || Error::Gone {
            path: self.path.clone(),
        };
        let file = open(&self.path, self.write);
        let file = file.map_err(|e| Error::io("open", &self.path, None, e))?;
        let found = file.metadata().map_err(|_| gone())?;
        match (found.dev(), found.ino()) == (device, inode) {
            true => Ok(file),
            false => Err(gone()),
        }
    }

    /// Does something with the open file.
    fn with<T>(
        &self,
        action: &'static str,
        value: Option<&str>,
        work: impl FnOnce(&File) -> io::Result<T>,
    ) -> Result<T, Error> {
        let done = match &self.handle {
            Handle::Open(file) => work(file),
            Handle::Closed { device, inode } => work(&self.opened(*device, *inode)?),
        };
        done.map_err(|e| Error::io(action, &self.path, value, e))
    }

    /// The content as it is now, at most 4 KiB: no control file read here is longer.
    pub fn read(&self) -> Result<String, Error> {
        let mut buffer = [0u8; 4096];
        let content = self.read_into(&mut buffer)?;
        Ok(String::from_utf8_lossy(content).into_owned())
    }

    fn read_into<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8], Error> {
        let length = self.with("read", None, |file| file.read_at(buffer, 0))?;
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
        self.with("write", Some(value), |file| write_all(file, value))
    }
}

/// Writes a value into a file opened only for it.
pub(crate) fn write_once(path: &Path, value: &str) -> Result<(), Error> {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|e| Error::io("open", path, Some(value), e))?;
    write_all(&file, value).map_err(|e| Error::io("write", path, Some(value), e))
}

fn write_all(file: &File, value: &str) -> io::Result<()> {
    file.write_all_at(format!("{value}\n").as_bytes(), 0)
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
        assert!(s.is_open());
        assert!(
            ControlFile::open_if_present(dir.path(), "absent", true)
                .unwrap()
                .is_none()
        );
    }
    #[test]
    fn a_file_that_is_opened_for_each_use_is_the_same_one_or_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        std::fs::write(&path, "1\n").unwrap();
        let mut n = ControlFile::open(dir.path(), "n", true).unwrap();
        n.close();
        assert!(!n.is_open());
        assert_eq!(n.number::<u64>().unwrap(), 1);
        n.write("2").unwrap();
        assert!(n.keep_open() && n.is_open());
        assert_eq!(n.number::<u64>().unwrap(), 2);
        n.close();
        // Another one in its place, as when a job runs again; made while the first is there, so that it has not its inode.
        let other = dir.path().join("other");
        std::fs::write(&other, "3\n").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(n.number::<u64>().unwrap_err().is_gone());
        assert!(n.write("4").unwrap_err().is_gone());
        assert!(!n.keep_open() && !n.is_open());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3\n");
        std::fs::remove_file(&path).unwrap();
        assert!(n.number::<u64>().unwrap_err().is_gone());
    }
}
