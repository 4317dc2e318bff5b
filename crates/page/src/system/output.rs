//! A job's output, read while it grows: its end, or any part of it.
//!
//! Opened as the user whose page it is, and only what is plainly that user's: no symbolic link as the last step, a regular
//! file, owned by the user. A pipe would make the page wait, and a link in a directory that others may write to could name
//! anything. However large it is, no more of it is in memory than a part.

use super::Problem;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The most that is given out at once, in bytes.
pub const MOST: u64 = 64 << 10;

/// A line without an end that is longer is given out in pieces, in bytes.
const LONGEST: usize = 16 << 10;

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputChunk {
    /// Whole lines; what is no UTF-8 is replaced.
    pub text: String,
    /// Behind them, the beginning of a line that has no end yet.
    pub rest: String,
    /// Where it begins in the file, in bytes.
    pub from: u64,
    /// Where the next part begins: at the rest, which may change yet.
    pub next: u64,
    /// Where the rest ends.
    pub end: u64,
    /// How large the file is.
    pub size: u64,
    /// The file begins again: it was cut since `from` was said.
    pub again: bool,
}

/// Which part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// From this offset on.
    At(u64),
    /// What is before this offset, from the beginning of a line on.
    Before(u64),
    /// The end of it, from the beginning of a line on.
    End,
}

/// A part of a file. Nothing, where the file is not there yet.
///
/// # Errors
/// The file cannot be read, or is none that may be shown.
pub fn read(path: &Path, position: Position) -> Result<OutputChunk, Problem> {
    let Some((mut file, size)) = open(path)? else {
        return Ok(OutputChunk::default());
    };
    let again = matches!(position, Position::At(at) if at > size);
    let (from, most) = match position {
        Position::At(at) if !again => (at, MOST),
        Position::Before(end) => {
            let end = end.min(size);
            (end.saturating_sub(MOST), end.min(MOST))
        }
        _ => (size.saturating_sub(MOST), MOST),
    };
    file.seek(SeekFrom::Start(from))
        .map_err(|error| failed(path, &error))?;
    let mut bytes = Vec::new();
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(path, &error))?;
    // The middle of the file may be the middle of a line, or of a character.
    let end_of_line = bytes.iter().position(|byte| *byte == b'\n');
    let skipped = match (from, position, end_of_line) {
        (0, ..) => 0,
        (_, Position::Before(_) | Position::End, Some(end)) if end + 1 < bytes.len() => end + 1,
        _ => continued(&bytes),
    };
    let shown = &bytes[skipped..];
    let parts = Parts::of(shown);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let from = from + skipped as u64;
    Ok(OutputChunk {
        text: text(&shown[..parts.whole]),
        rest: text(&shown[parts.rest..parts.end]),
        from,
        next: from + parts.rest as u64,
        end: from + parts.end as u64,
        size,
        again,
    })
}

/// Where lines end and the rest begins and ends: what is between has been overwritten.
struct Parts {
    whole: usize,
    rest: usize,
    end: usize,
}

impl Parts {
    fn of(bytes: &[u8]) -> Parts {
        let end = bytes.len() - unfinished(bytes);
        let bytes = &bytes[..end];
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        if end - whole <= LONGEST {
            return Parts {
                whole,
                rest: whole,
                end,
            };
        }
        // A bar that is drawn again and again on one line: its last state is read again with the next part.
        let tail = &bytes[whole..];
        match tail.iter().rposition(|byte| *byte == b'\r') {
            Some(at) if at > 0 && tail.len() - at <= LONGEST => Parts {
                whole,
                rest: whole + at,
                end,
            },
            _ => Parts {
                whole: end,
                rest: end,
                end,
            },
        }
    }
}

/// How many bytes at the beginning are the end of a character.
fn continued(bytes: &[u8]) -> usize {
    let first = bytes.iter().take(3);
    first.take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// The file and its size; None if it is not there (yet).
///
/// # Errors
/// It cannot be read, or is none that may be shown.
pub fn open(path: &Path) -> Result<Option<(File, u64)>, Problem> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(not_shown(path, "it is a symbolic link"));
        }
        Err(error) => return Err(failed(path, &error)),
    };
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    if !metadata.is_file() {
        return Err(not_shown(path, "it is not a regular file"));
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(not_shown(path, "it belongs to somebody else"));
    }
    Ok(Some((file, metadata.len())))
}

pub(super) fn failed(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(format!("{} cannot be read: {error}", path.display()))
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
    use crate::terminal;

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("output");
        (directory, file)
    }

    #[test]
    fn it_is_read_as_it_grows_and_no_line_is_read_twice() {
        let (_directory, file) = file();
        assert_eq!(
            read(&file, Position::At(0)).expect("not there yet"),
            OutputChunk::default()
        );
        std::fs::write(&file, &"one\na\u{e4}".as_bytes()[..6]).expect("written");
        let first = read(&file, Position::At(0)).expect("read");
        assert_eq!(
            (first.text.as_str(), first.rest.as_str()),
            ("one\n", "a"),
            "no half a letter"
        );
        assert_eq!((first.next, first.end, first.size), (4, 5, 6));
        std::fs::write(&file, "one\na\u{e4}b\nc").expect("written");
        let second = read(&file, Position::At(first.next)).expect("read");
        assert_eq!(
            (second.text.as_str(), second.rest.as_str()),
            ("a\u{e4}b\n", "c")
        );
        assert_eq!(second.next, 9);
        std::fs::write(&file, "x").expect("cut");
        let third = read(&file, Position::At(second.next)).expect("read");
        assert_eq!((third.rest.as_str(), third.again), ("x", true));
    }

    #[test]
    fn the_end_of_a_long_one_comes_first_and_bytes_are_no_trouble() {
        let (_directory, file) = file();
        let lines = (0..20_000).map(|line| format!("line {line}\n"));
        std::fs::write(&file, lines.collect::<String>()).expect("written");
        let end = read(&file, Position::End).expect("read");
        assert!(
            end.text.starts_with("line ") && end.text.ends_with("line 19999\n"),
            "whole lines"
        );
        assert_eq!((end.next, end.end), (end.size, end.size));
        assert!(end.size - end.from <= MOST);
        let before = read(&file, Position::Before(end.from)).expect("read");
        assert!(before.text.starts_with("line ") && before.rest.is_empty());
        assert_eq!(before.next, end.from);
        let first = read(&file, Position::Before(7)).expect("read");
        assert_eq!((first.from, first.text.as_str()), (0, "line 0\n"));
        std::fs::write(&file, b"\xff\xfeok\xc3").expect("written");
        let part = read(&file, Position::At(0)).expect("read");
        assert_eq!((part.rest.as_str(), part.end), ("\u{fffd}\u{fffd}ok", 4));
    }

    #[test]
    fn a_line_without_an_end_is_read_to_its_end() {
        let (_directory, file) = file();
        // Steps that overwrite each other: the last one is what is to be seen.
        let steps = (0..30_000).map(|step| format!("\rstep {step}"));
        std::fs::write(&file, steps.collect::<String>()).expect("written");
        let mut at = 0;
        let mut seen = String::new();
        loop {
            let part = read(&file, Position::At(at)).expect("read");
            assert_eq!(part.text, "");
            if part.end == part.size {
                seen = terminal::plain(&part.rest);
            }
            if part.next == at {
                break;
            }
            at = part.next;
        }
        assert_eq!(seen, "step 29999");
        // Nothing overwrites: it comes in pieces, and all of it comes.
        let long = "\u{e4}".repeat(100_000);
        std::fs::write(&file, &long).expect("written");
        let (mut at, mut all) = (0, String::new());
        loop {
            let part = read(&file, Position::At(at)).expect("read");
            all += &part.text;
            if part.end == part.size {
                all += &part.rest;
                break;
            }
            assert!(part.next > at);
            at = part.next;
        }
        assert!(all == long);
    }

    #[test]
    fn links_and_pipes_are_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, link) = (directory.path().join("f"), directory.path().join("l"));
        std::fs::write(&file, "secret").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let said = read(&link, Position::End).expect_err("a link").to_string();
        assert!(said.contains("symbolic link"), "{said}");
        let said = read(directory.path(), Position::End).expect_err("a directory");
        assert!(said.to_string().contains("not a regular file"), "{said}");
        let pipe = directory.path().join("p");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert!(read(&pipe, Position::End).is_err(), "and it does not wait");
    }
}
