//! A job's output, read while it grows.
//!
//! Opened as the user whose page it is, and only what is plainly that user's: no symbolic link as the last step, a regular
//! file, owned by the user. A pipe would make the page wait, and a link in a directory that others may write to could name
//! anything.

use super::Problem;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The most that is given out at once, in bytes.
pub const MOST: u64 = 64 << 10;

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputChunk {
    /// Its text; what is no UTF-8 is replaced.
    pub text: String,
    /// Where it begins in the file, in bytes.
    pub from: u64,
    /// Where the next part begins.
    pub next: u64,
    /// The file begins again: it was cut since `from` was said.
    pub again: bool,
}

/// The part from an offset on, or, with none, the end of the file. Nothing, where the file is not there yet.
///
/// # Errors
/// The file cannot be read, or is none that may be shown.
pub fn read(path: &Path, offset: Option<u64>) -> Result<OutputChunk, Problem> {
    let mut file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(OutputChunk::default()),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(not_shown(path, "it is a symbolic link"));
        }
        Err(error) => {
            return Err(Problem::new(format!(
                "{} cannot be read: {error}",
                path.display()
            )));
        }
    };
    let failed =
        |error: std::io::Error| Problem::new(format!("{} cannot be read: {error}", path.display()));
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(not_shown(path, "it is not a regular file"));
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(not_shown(path, "it belongs to somebody else"));
    }
    let size = metadata.len();
    let again = offset.is_some_and(|offset| offset > size);
    let from = match offset {
        Some(offset) if !again => offset,
        _ => size.saturating_sub(MOST),
    };
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).map_err(failed)?;
    // The middle of the file may be the middle of a character, and so may its present end.
    let skipped = match from {
        0 => 0,
        _ if offset.is_some() && !again => 0,
        _ => bytes
            .iter()
            .take(3)
            .take_while(|b| **b & 0xc0 == 0x80)
            .count(),
    };
    let whole = bytes.len() - unfinished(&bytes);
    let shown = &bytes[skipped.min(whole)..whole];
    Ok(OutputChunk {
        text: String::from_utf8_lossy(shown).into_owned(),
        from: from + skipped as u64,
        next: from + whole as u64,
        again,
    })
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

fn not_shown(path: &Path, why: &str) -> Problem {
    Problem::new(format!(
        "{} is not shown: {why}; look at it in a terminal",
        path.display()
    ))
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        // Broken somewhere: only the end counts.
        Err(_) => {
            let tail = bytes.len().saturating_sub(3);
            (tail..bytes.len())
                .find(|&at| {
                    let part = std::str::from_utf8(&bytes[at..]);
                    bytes[at] >= 0xc0
                        && part.is_err_and(|e| e.error_len().is_none() && e.valid_up_to() == 0)
                })
                .map_or(0, |at| bytes.len() - at)
        }
        Ok(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_and_characters_stay_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("output");
        assert_eq!(
            read(&file, Some(0)).expect("not there yet"),
            OutputChunk::default()
        );
        std::fs::write(&file, &"a\u{e4}".as_bytes()[..2]).expect("written");
        let first = read(&file, Some(0)).expect("read");
        assert_eq!((first.text.as_str(), first.next), ("a", 1));
        std::fs::write(&file, "a\u{e4}b").expect("written");
        let second = read(&file, Some(first.next)).expect("read");
        assert_eq!((second.text.as_str(), second.next), ("\u{e4}b", 4));
        std::fs::write(&file, "x").expect("cut");
        let third = read(&file, Some(second.next)).expect("read");
        assert_eq!((third.text.as_str(), third.again), ("x", true));
    }

    #[test]
    fn the_end_of_a_long_one_comes_first_and_bytes_are_no_trouble() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("output");
        std::fs::write(&file, "\u{e4}".repeat(100_000)).expect("written");
        let end = read(&file, None).expect("read");
        assert_eq!(end.next, 200_000);
        assert!(end.text.chars().all(|c| c == '\u{e4}'), "no halves");
        std::fs::write(&file, b"\xff\xfeok\xc3").expect("written");
        let part = read(&file, Some(0)).expect("read");
        assert_eq!((part.text.as_str(), part.next), ("\u{fffd}\u{fffd}ok", 4));
    }

    #[test]
    fn links_and_pipes_are_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, link) = (directory.path().join("f"), directory.path().join("l"));
        std::fs::write(&file, "secret").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let said = read(&link, None).expect_err("a link").to_string();
        assert!(said.contains("symbolic link"), "{said}");
        let said = read(directory.path(), None).expect_err("a directory");
        assert!(said.to_string().contains("not a regular file"), "{said}");
        let pipe = directory.path().join("p");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert!(read(&pipe, None).is_err(), "and it does not wait");
    }
}
