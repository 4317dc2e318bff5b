//! Files put in their places whole, by rename: whoever has the old one open or mapped keeps it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Writes a file beside the old one and puts it in its place when all of it is on the disk.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let temporary = beside(path);
    let _ = fs::remove_file(&temporary);
    let written = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary)?;
        // Whatever the umask says.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        rename(&temporary, path)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// The same for a file that is there: owner and mode stay.
pub fn rewrite(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let old = fs::metadata(path)?;
    let new = beside(path);
    let written = || {
        let mut writing = File::create(&new)?;
        writing.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        chown(&new, Some(old.uid()), Some(old.gid()))?;
        writing.write_all(bytes)?;
        writing.sync_all()?;
        rename(&new, path)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

/// The name that [`replace`] writes to.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".libra-new");
    path.with_file_name(name)
}

/// Renames, and has the directory written to the disk.
pub fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to)?;
    to.parent()
        .map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
