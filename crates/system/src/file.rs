//! Small files that are there as a whole or not at all, in directories where others may have put what they like.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Reads a plain file of at most so many bytes, follows no link and waits for nobody; None if there is none.
///
/// # Errors
/// When it cannot be read, or is no such file.
pub fn read(path: &Path, most: u64) -> io::Result<Option<String>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > most {
        return Err(io::Error::other(format!(
            "no plain file of at most {} MiB",
            most >> 20
        )));
    }
    let mut text = String::new();
    file.take(most).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Over what a file is there as a whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The end of the process.
    OverProcesses,
    /// A loss of power too, and what a file server says late: the disk is waited for.
    OverPowerLoss,
}

/// Writes a file whole or not at all, with this mode, whatever the process's umask is. What was there is replaced.
///
/// # Errors
/// When it cannot be written, with its path.
pub fn replace(path: &Path, text: &str, mode: u32, kept: Kept) -> Result<(), String> {
    // Another ending: node_exporter reads *.prom.
    let temporary = path.with_extension(match path.extension() {
        Some(end) => format!("{}.new", end.to_string_lossy()),
        None => "new".to_string(),
    });
    // What a killed process has left, or a link that somebody has put there.
    let _ = fs::remove_file(&temporary);
    let written = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| {
            file.set_permissions(Permissions::from_mode(mode))?;
            file.write_all(text.as_bytes())?;
            match kept {
                Kept::OverProcesses => Ok(()),
                Kept::OverPowerLoss => file.sync_all(),
            }
        })
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        format!("cannot write {}: {error}", path.display())
    })
}
