//! Scripts: reading them without taking them away from qsub, and handing over a changed one
//! without a file that could be left behind.

use super::options::{Line, Rest};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What qsub prints where it reads a script from a terminal.
const INVITATION: &str = "Job script will be read from standard input. Submit with CTRL+D.\n";

/// A script, and whether qsub can still read it where it was.
#[derive(Debug, Default)]
pub struct Script {
    pub text: Vec<u8>,
    /// It came through a pipe or from a terminal and is there no more.
    pub taken: bool,
}

/// Where the script comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// A command takes its place.
    None,
    Input,
    File(&'a Path),
}

/// Where qsub would take the script from.
pub fn source<'a>(words: &'a [Vec<u8>], line: &Line) -> Source<'a> {
    match line.rest {
        Rest::Command(_) => Source::None,
        Rest::Nothing => Source::Input,
        Rest::Script(at) => match words[at].as_slice() {
            b"" | b"-" => Source::Input,
            name => Source::File(Path::new(OsStr::from_bytes(name))),
        },
    }
}

/// Reads a script. One that cannot be read is empty here: qsub will say what is wrong.
pub fn read(source: Source<'_>) -> Script {
    match source {
        Source::None => Script::default(),
        // Opening something else than a file could wait for ever, and qsub refuses it.
        Source::File(path) if !fs::metadata(path).is_ok_and(|data| data.is_file()) => {
            Script::default()
        }
        Source::File(path) => Script {
            text: fs::read(path).unwrap_or_default(),
            taken: false,
        },
        Source::Input => read_input().unwrap_or_default(),
    }
}

fn read_input() -> io::Result<Script> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut text = Vec::new();
    if input.metadata()?.is_file() {
        // The place in the file is shared with qsub, so it must not move.
        let start = input.stream_position()?;
        let mut buffer = [0; 65_536];
        loop {
            let length = input.read_at(&mut buffer, start + text.len() as u64)?;
            if length == 0 {
                return Ok(Script { text, taken: false });
            }
            text.extend_from_slice(&buffer[..length]);
        }
    }
    let terminal = input.is_terminal();
    if terminal {
        let mut out = io::stdout();
        let _ = out.write_all(INVITATION.as_bytes());
        let _ = out.flush();
    }
    // What was read before an error is all that qsub would have had, too.
    let _ = input.read_to_end(&mut text);
    let taken = terminal || !text.is_empty();
    Ok(Script { text, taken })
}

/// A file without a name, with this text, at its start.
///
/// # Errors
/// What the system said.
pub fn nameless(text: &[u8]) -> io::Result<File> {
    // Stays open for qsub.
    let mut file = File::from(memfd_create(c"libra-qsub", MFdFlags::empty())?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

/// The path by which a program that inherits this file can open it.
pub fn path_of(file: &File) -> Vec<u8> {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into_bytes()
}

/// The name that qsub gives the job of this script.
pub fn job_name(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    let slash = path.iter().rposition(|byte| *byte == b'/');
    &path[slash.map_or(0, |slash| slash + 1)..]
}
