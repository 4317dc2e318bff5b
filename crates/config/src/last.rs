//! A configuration that was there and is gone, or has a mistake: the rules that it had last go on.
//!
//! Many processes read a site's configuration, some of them anew at each event. Were a missing file the built-in defaults to them, a slip of the
//! hand would turn accounts off and let in jobs that the site refuses; were one with a mistake an error, the same slip would keep nodes from
//! starting what was promised. Who has its rules in memory keeps those ([`read_anew`]). For others whoever reads a file keeps a copy, and where the
//! file is missing the copy counts, with a complaint ([`read`]); to root's processes, which have read it at every event and so have kept the
//! newest one that can be taken, also where the file has a mistake ([`read_or_copy`]). A file that never was there has no copy: then the defaults
//! are meant. A file of comments alone means them too.
//! One without a single byte does not, where there are other rules: an editor, `cp` and `>` empty a file before they write it, and whoever reads it in
//! between would have the defaults for an event.
//!
//! The copy of a file below `/etc` is in `/var/lib/libra/rules`, that of any other beside it. Below `/etc` root alone keeps one.

use super::{Config, ConfigError, EstimateMargin, learned};
use std::fs::{Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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
    match read_file(path)? {
        Found::There(config, not_learned) => Ok(Read {
            gone: not_learned.map(|error| {
                let margin = config.admission.margin() * 100.0;
                format!("{error}; estimates have the margin that was learned before, {margin:.0} %")
            }),
            config: *config,
            origin: Some(path.to_path_buf()),
        }),
        Found::Not(how) => read_copy_of_gone(path, how),
    }
}

/// The same for who has read it at every event before: also of one with a mistake the copy counts.
///
/// # Errors
/// When it is there, cannot be taken, and there is no copy that can be.
pub fn read_or_copy(path: &Path) -> Result<Read, ConfigError> {
    read(path).or_else(|error| match read_copy(path) {
        Err(_) => Err(error),
        Ok((copy, config)) => Ok(Read {
            config,
            gone: Some(format!("{STAY} (a copy is in {}): {error}", copy.display())),
            origin: Some(copy),
        }),
    })
}

/// Reads it for who has its rules in memory, which are newer than any copy: they stay where it is gone, empty or has a mistake.
///
/// # Errors
/// What the administrators are to be told, every minute.
pub fn read_anew(path: &Path) -> Result<Config, String> {
    match read_file(path) {
        Ok(Found::There(config, None)) => Ok(*config),
        Ok(Found::There(_, Some(error))) => Err(format!("{STAY}: {error}")),
        Ok(Found::Not(how)) => Err(format!(
            "{} is {how}; Libra goes on with the rules it had last. {RESTORE}",
            path.display()
        )),
        Err(error) => Err(format!("{STAY}: {error}")),
    }
}

const STAY: &str = "the rules stay as they were";

const RESTORE: &str =
    "Restore the file; to go back to the defaults, write a file with only a comment, '# defaults'";

enum Found {
    /// Why what was learned cannot be taken, if that is so; then it is what was learned before.
    There(Box<Config>, Option<ConfigError>),
    /// It is gone, or empty.
    Not(&'static str),
}

fn read_file(path: &Path) -> Result<Found, ConfigError> {
    match Config::text_of(path) {
        Err(ConfigError::Unreadable { error, .. }) if error.kind() == ErrorKind::NotFound => {
            Ok(Found::Not("gone"))
        }
        Err(error) => Err(error),
        Ok(text) if text.is_empty() => Ok(Found::Not("empty")),
        Ok(text) => {
            let mut config = Config::from_origin(&text, &path.display().to_string())?;
            keep(path, &text);
            let problem = match config.admission.estimate_margin {
                EstimateMargin::Fixed(_) => None,
                EstimateMargin::Learned => learn(&mut config, path),
            };
            Ok(Found::There(Box::new(config), problem))
        }
    }
}

/// Takes what was learned beside a configuration. Where that has a mistake: what was learned before, and why.
fn learn(config: &mut Config, path: &Path) -> Option<ConfigError> {
    let beside = learned::beside(path);
    let copy = copy_of(&beside);
    let (learned, problem) = match learned::read(&beside) {
        Ok(Some((margin, text))) => {
            keep(&beside, &text);
            (Some(margin), None)
        }
        Ok(None) => {
            // What was forgotten does not come back.
            let _ = std::fs::remove_file(copy);
            (None, None)
        }
        Err(error) => {
            let before = learned::read(&copy).ok().flatten();
            (before.map(|(margin, _)| margin), Some(error))
        }
    };
    config.admission.learned_margin = learned;
    problem
}

fn read_copy(path: &Path) -> Result<(PathBuf, Config), ConfigError> {
    let copy = copy_of(path);
    let text = Config::text_of(&copy)?;
    let mut config = Config::from_origin(&text, &copy.display().to_string())?;
    if config.admission.estimate_margin == EstimateMargin::Learned {
        learn(&mut config, path);
    }
    Ok((copy, config))
}

fn read_copy_of_gone(path: &Path, how: &str) -> Result<Read, ConfigError> {
    match read_copy(path) {
        Err(ConfigError::Unreadable { error, .. }) if error.kind() == ErrorKind::NotFound => {
            Ok(Read {
                config: Config::default(),
                origin: path.exists().then(|| path.to_path_buf()),
                gone: None,
            })
        }
        Err(error) => Err(error),
        Ok((copy, config)) => Ok(Read {
            config,
            gone: Some(format!(
                "{} is {how}; Libra goes on with the rules it had last (a copy is in {}). {RESTORE}",
                path.display(),
                copy.display()
            )),
            origin: Some(copy),
        }),
    }
}

/// What changes with a file, as long as nobody puts its times back: when it was written, and its length.
pub type Stamp = Option<(SystemTime, u64)>;

/// That of a file; None if it cannot be seen.
pub fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Those of a configuration, and of what may be beside it.
pub fn stamps(path: &Path) -> [Stamp; 2] {
    [stamp(path), stamp(&learned::beside(path))]
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
fn keep(path: &Path, text: &str) {
    if let Err(error) = try_keep(path, text, &copy_of(path)) {
        log::debug!("no copy of {}: {error}", path.display());
    }
}

fn try_keep(path: &Path, text: &str, copy: &Path) -> io::Result<()> {
    // A user's process is not to decide what root's reads later.
    if !nix::unistd::geteuid().is_root() && copy.starts_with(COPIES) {
        return Ok(());
    }
    let found = std::fs::metadata(path)?;
    let mode = |of: &Metadata| of.mode() & 0o777;
    // Whoever may not read the file any more may not read the copy either.
    if std::fs::read(copy).is_ok_and(|kept| kept == text.as_bytes())
        && std::fs::metadata(copy).is_ok_and(|kept| mode(&kept) == mode(&found))
    {
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
            .mode(0o600)
            .open(&new)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(mode(&found)))?;
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
            said.contains("libra.toml is gone") && said.contains("'# defaults'"),
            "{said}"
        );
        // As it is for a moment while it is written.
        std::fs::write(&file, "").expect("written");
        let empty = read(&file).expect("the copy");
        assert_eq!(empty.config, there.config);
        let said = empty.gone.expect("a complaint");
        assert!(said.contains("libra.toml is empty"), "{said}");
        // The defaults are to be asked for, and are then kept as well.
        std::fs::write(&file, "# defaults\n").expect("written");
        let asked = read(&file).expect("a comment");
        assert_eq!((asked.config, asked.gone), (Config::default(), None));
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(read(&file).expect("the copy").config, Config::default());
    }

    #[test]
    fn what_was_learned_has_a_copy_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let beside = learned::beside(&file);
        std::fs::write(&file, "[admission]\nestimate-margin = 'learned'\n").expect("written");
        std::fs::write(&beside, "margin = '12%'\n").expect("written");
        let before = stamps(&file);
        assert_eq!(read(&file).expect("valid").config.admission.margin(), 0.12);
        std::fs::write(&beside, "margin = 'twelve percent'\n").expect("written");
        assert_ne!(stamps(&file), before);
        assert!(Config::from_file(&file).is_err());
        for found in [read(&file), read_or_copy(&file)] {
            let found = found.expect("the copy");
            assert_eq!(found.config.admission.margin(), 0.12);
            let said = found.gone.expect("a complaint");
            assert!(
                said.contains("learned-margin.toml") && said.contains("learned before, 12 %"),
                "{said}"
            );
        }
        let said = read_anew(&file).expect_err("rules that stay");
        assert!(said.contains("learned-margin.toml"), "{said}");
        // To take it away is to forget what was learned.
        std::fs::remove_file(&beside).expect("removed");
        assert_eq!(read(&file).expect("valid").config.admission.margin(), 0.05);
        std::fs::write(&beside, "margin = 12\n").expect("written");
        assert_eq!(read(&file).expect("valid").config.admission.margin(), 0.05);
    }

    #[test]
    fn a_copy_is_for_those_who_may_read_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        std::fs::write(&file, "# defaults\n").expect("written");
        for mode in [0o644, 0o640, 0o666, 0o600] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("set");
            read(&file).expect("valid");
            let kept = std::fs::metadata(copy_of(&file)).expect("a copy");
            assert_eq!(kept.mode() & 0o777, mode);
            // Not written anew at each event.
            read(&file).expect("valid");
            let same = std::fs::metadata(copy_of(&file)).expect("a copy");
            assert_eq!(same.ino(), kept.ino());
        }
    }

    #[test]
    fn an_empty_one_that_never_was_another_has_the_defaults() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        std::fs::write(&file, "").expect("written");
        let empty = read(&file).expect("empty");
        assert_eq!((empty.config, empty.gone), (Config::default(), None));
        assert_eq!(empty.origin, Some(file));
    }

    #[test]
    fn one_that_cannot_be_taken_leaves_the_rules_as_they_were() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let mistake = "[node]\nrating = 'fast'\n";
        std::fs::write(&file, mistake).expect("written");
        assert!(read_or_copy(&file).is_err(), "nothing is known from before");
        std::fs::write(&file, "[node]\nrating = 2.0\n").expect("written");
        let good = read_or_copy(&file).expect("valid").config;
        assert_eq!(read_anew(&file).expect("valid"), good);
        for broken in [mistake.as_bytes(), b"[node", b"\xff\xfe"] {
            std::fs::write(&file, broken).expect("written");
            assert!(read(&file).is_err(), "by who may have no new copy");
            let read = read_or_copy(&file).expect("the copy");
            assert_eq!(read.config, good);
            assert_eq!(read.origin, Some(copy_of(&file)));
            let said = read.gone.expect("a complaint");
            assert!(
                said.starts_with("the rules stay as they were (a copy is in ")
                    && said.contains("/libra.toml: "),
                "{said}"
            );
            let said = read_anew(&file).expect_err("a complaint");
            assert!(said.starts_with("the rules stay as they were: "), "{said}");
        }
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(read_or_copy(&file).expect("the copy").config, good);
        std::fs::write(copy_of(&file), "[node").expect("written");
        assert!(read_or_copy(&file).is_err());
        std::fs::write(&file, mistake).expect("written");
        let error = read_or_copy(&file).expect_err("neither can be taken");
        let error = error.to_string();
        assert!(
            error.contains("rating") && !error.contains(".last"),
            "{error}"
        );
    }

    #[test]
    fn who_has_its_rules_takes_neither_a_copy_nor_the_defaults_instead() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        std::fs::write(copy_of(&file), "[node]\nrating = 2.0\n").expect("an old one");
        let said = read_anew(&file).expect_err("a complaint");
        assert!(said.contains("libra.toml is gone; Libra goes on"), "{said}");
        std::fs::write(&file, "").expect("written");
        let said = read_anew(&file).expect_err("a complaint");
        assert!(
            said.contains("libra.toml is empty; Libra goes on"),
            "{said}"
        );
        std::fs::write(&file, "# defaults\n").expect("written");
        assert_eq!(read_anew(&file).expect("a comment"), Config::default());
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
