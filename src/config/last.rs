//! A configuration that was there and is gone: the rules that it had last go on.
//!
//! Many processes read a site's configuration, some of them anew at each event. Were a missing file the built-in defaults to them, a slip of the
//! hand would turn accounts off and let in jobs that the site refuses. So whoever reads it keeps a copy, and where the file is missing the copy
//! counts, with a complaint. A file that never was there has no copy: then the defaults are meant. An empty file means them too.
//!
//! The copy of a file below `/etc` is in `/var/lib/libra/rules`, that of any other beside it.

use super::{Config, ConfigError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Where copies of what is below `/etc` are.
const COPIES: &str = "/var/lib/libra/rules";

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The rules.
    pub config: Config,
    /// The file that they are of; none: the built-in defaults.
    pub origin: Option<PathBuf>,
    /// Where they are of the copy: what the administrators are to be told, every minute.
    pub gone: Option<String>,
}

/// Reads a configuration that may be missing.
///
/// # Errors
/// When it, or what is left of it, is there and cannot be taken.
pub fn read(path: &Path) -> Result<Read, ConfigError> {
    match Config::from_file(path) {
        Err(error) if is_missing(&error) => read_copy(path),
        Err(error) => Err(error),
        Ok(config) => {
            keep(path);
            Ok(Read {
                config,
                origin: Some(path.to_path_buf()),
                gone: None,
            })
        }
    }
}

fn is_missing(error: &ConfigError) -> bool {
    matches!(error, ConfigError::Unreadable { error, .. } if error.kind() == ErrorKind::NotFound)
}

fn read_copy(path: &Path) -> Result<Read, ConfigError> {
    let copy = copy_of(path);
    match Config::from_file(&copy) {
        Err(error) if is_missing(&error) => Ok(Read {
            config: Config::default(),
            origin: None,
            gone: None,
        }),
        Err(error) => Err(error),
        Ok(config) => Ok(Read {
            config,
            gone: Some(format!(
                "{} is gone; the rules that it had last go on (kept in {}). Put it back; if the defaults are meant, an empty one",
                path.display(),
                copy.display()
            )),
            origin: Some(copy),
        }),
    }
}

/// Where the copy of a configuration is.
pub fn copy_of(path: &Path) -> PathBuf {
    match path.strip_prefix("/etc") {
        Ok(below) => {
            let name = below.to_string_lossy().replace('/', "-");
            Path::new(COPIES).join(name)
        }
        Err(_) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.with_file_name(format!(".{name}.last"))
        }
    }
}

/// Keeps a copy, where whoever reads it may write one: in the services, root.
fn keep(path: &Path) {
    if let Err(error) = try_keep(path, &copy_of(path)) {
        log::debug!("no copy of {}: {error}", path.display());
    }
}

fn try_keep(path: &Path, copy: &Path) -> io::Result<()> {
    // A user's process is not to decide what root's reads later.
    if !nix::unistd::geteuid().is_root() && copy.starts_with(COPIES) {
        return Ok(());
    }
    let (text, found) = (std::fs::read(path)?, std::fs::metadata(path)?);
    if std::fs::read(copy).is_ok_and(|kept| kept == text) {
        return Ok(());
    }
    if let (true, Some(directory)) = (copy.starts_with(COPIES), copy.parent()) {
        std::fs::create_dir_all(directory)?;
    }
    // Of the same owner and mode, and there as a whole or not at all.
    let new = copy.with_extension(format!("new-{}", std::process::id()));
    let written = (|| {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(found.mode() & 0o777)
            .open(&new)?;
        io::Write::write_all(&mut file, &text)?;
        let _ = fchown(&file, Some(found.uid()), Some(found.gid()));
        std::fs::rename(&new, copy)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_goes_on_and_what_never_was_are_the_defaults() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let never = read(&file).expect("no file, no error");
        assert_eq!((never.config, never.gone), (Config::default(), None));
        std::fs::write(&file, "[pbs]\nwithout-terms = 'refuse'\n").expect("written");
        let there = read(&file).expect("valid");
        assert_eq!(there.gone, None);
        std::fs::remove_file(&file).expect("removed");
        let gone = read(&file).expect("the copy");
        assert_eq!(gone.config, there.config);
        let said = gone.gone.expect("a complaint");
        assert!(
            said.contains("libra.toml is gone") && said.contains("an empty one"),
            "{said}"
        );
        // The defaults are to be asked for, and are then kept as well.
        std::fs::write(&file, "").expect("written");
        assert_eq!(read(&file).expect("empty").config, Config::default());
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(read(&file).expect("the copy").config, Config::default());
    }

    #[test]
    fn one_that_cannot_be_taken_is_an_error_and_changes_no_copy() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        std::fs::write(&file, "[node]\nrating = 2.0\n").expect("written");
        let good = read(&file).expect("valid").config;
        std::fs::write(&file, "[node]\nrating = 'fast'\n").expect("written");
        assert!(read(&file).is_err());
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(read(&file).expect("the copy").config, good);
        std::fs::write(copy_of(&file), "[node").expect("written");
        assert!(read(&file).is_err());
    }

    #[test]
    fn where_copies_are() {
        assert_eq!(
            copy_of(Path::new("/etc/libra/libra.toml")),
            Path::new("/var/lib/libra/rules/libra-libra.toml")
        );
        assert_eq!(
            copy_of(Path::new("/srv/n1.toml")),
            Path::new("/srv/.n1.toml.last")
        );
    }
}
