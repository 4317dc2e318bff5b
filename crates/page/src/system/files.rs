//! The user's own files below home: which there are, and a script of them for the form. Nothing is written.
//!
//! A link may lead anywhere the user can read, but what is listed and read lies below home: a page that somebody has left open is no
//! window on the whole machine.

use super::submission::Submission;
use super::{Problem, Site};
use crate::form::LARGEST_SCRIPT;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most that are listed of a directory.
pub const MOST: usize = 500;

/// A directory below home.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Its path, without links.
    pub path: PathBuf,
    /// The directory that it is in; None of home.
    pub above: Option<PathBuf>,
    /// Names of directories in it, by name.
    pub directories: Vec<String>,
    /// Names of files that may be scripts: not empty and not too large.
    pub files: Vec<String>,
    /// There are more than [`MOST`].
    pub more: bool,
}

/// What is in a directory; an empty path is home. Names that begin with a dot are left out.
///
/// # Errors
/// It is none of the user's below home, or cannot be read.
pub fn list(site: &Site, path: &str) -> Result<Listing, Problem> {
    let (home, path) = below(site, path)?;
    let entries = fs::read_dir(&path).map_err(|error| cannot(&path, &error))?;
    let mut listing = Listing {
        above: (path.parent().filter(|_| path != home)).map(Path::to_path_buf),
        path,
        ..Listing::default()
    };
    let mut seen = 0;
    for entry in entries.flatten() {
        // Another name would not come back from an address.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // As links are followed in a shell; what they lead to is looked at when it is opened.
        let Ok(metadata) = fs::metadata(entry.path()) else {
            continue;
        };
        if name.starts_with('.') || name.contains(char::is_control) {
            continue;
        }
        let names = match metadata.is_dir() {
            true => &mut listing.directories,
            false
                if metadata.is_file() && (1..=LARGEST_SCRIPT as u64).contains(&metadata.len()) =>
            {
                &mut listing.files
            }
            false => continue,
        };
        seen += 1;
        listing.more = seen > MOST;
        if !listing.more {
            names.push(name);
        }
    }
    listing.directories.sort_unstable();
    listing.files.sort_unstable();
    Ok(listing)
}

/// A form with this file as its script, its name, and the directory that it is in.
///
/// # Errors
/// It is no file below home, too large, or no text.
pub fn script(site: &Site, path: &str) -> Result<Submission, Problem> {
    let (_, path) = below(site, path)?;
    let mut options = OpenOptions::new();
    // Never waits for a pipe.
    let opened = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path);
    let file: File = opened.map_err(|error| cannot(&path, &error))?;
    let metadata = file.metadata().map_err(|error| cannot(&path, &error))?;
    if !metadata.is_file() {
        return Err(cannot(&path, &"it is no file"));
    }
    let mut bytes = Vec::new();
    let most = LARGEST_SCRIPT as u64 + 1;
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot(&path, &error))?;
    if bytes.len() as u64 == most {
        return Err(cannot(
            &path,
            &"it is larger than 1 MiB; put data and programs into files of their own",
        ));
    }
    let text = String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'));
    let script = text.ok_or_else(|| cannot(&path, &"it is not text in UTF-8"))?;
    let shown =
        |path: Option<&Path>| path.map_or_else(String::new, |path| path.display().to_string());
    Ok(Submission {
        name: name_of(
            path.file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default(),
        ),
        directory: shown(path.parent()),
        script,
        ..Submission::default()
    })
}

/// A job's name of a file's.
fn name_of(file: &str) -> String {
    let is = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let name: String = file.chars().map(|c| if is(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    name.chars().take(60).collect()
}

/// Home and a path in it, both without links.
fn below(site: &Site, path: &str) -> Result<(PathBuf, PathBuf), Problem> {
    let home = fs::canonicalize(&site.files).map_err(|error| cannot(&site.files, &error))?;
    if path.is_empty() {
        return Ok((home.clone(), home));
    }
    let found = fs::canonicalize(path).map_err(|error| cannot(Path::new(path), &error))?;
    match Path::new(path).is_absolute() && found.starts_with(&home) {
        true => Ok((home, found)),
        false => Err(cannot(
            Path::new(path),
            &format!("only what is below {} is shown here", home.display()),
        )),
    }
}

fn cannot(path: &Path, why: &dyn std::fmt::Display) -> Problem {
    let path = path.display().to_string();
    Problem::new(format!("{} cannot be read: {why}", libra_units::cut(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_core::decision::class::Class;
    use std::os::unix::fs::symlink;

    fn site(home: &Path) -> Site {
        Site {
            libra: "libra".into(),
            config: None,
            state: home.join(".state"),
            home: home.into(),
            files: home.into(),
            templates: None,
            classes: [Class::Deadline; 2],
        }
    }

    #[test]
    fn what_is_below_home_is_shown_and_nothing_else() {
        let made = tempfile::tempdir().expect("a directory");
        let home = made.path().join("home");
        fs::create_dir_all(home.join("b dir/inner")).expect("made");
        fs::write(made.path().join("outside"), "secret").expect("written");
        for (name, bytes) in [
            ("run it.sh", &b"#!/bin/sh\n"[..]),
            (".hidden", b"x"),
            ("empty", b""),
            ("binary", b"\xff\0"),
        ] {
            fs::write(home.join(name), bytes).expect("written");
        }
        fs::write(home.join("large"), vec![b'x'; LARGEST_SCRIPT + 1]).expect("written");
        symlink(made.path(), home.join("out")).expect("linked");
        symlink(made.path().join("outside"), home.join("secret")).expect("linked");
        let site = site(&home);
        let home = fs::canonicalize(&home).expect("there");
        let listing = list(&site, "").expect("home");
        assert_eq!(listing.directories, ["b dir", "out"]);
        assert_eq!(listing.files, ["binary", "run it.sh", "secret"]);
        assert_eq!((&listing.path, &listing.above), (&home, &None));
        let inner = list(&site, &home.join("b dir").display().to_string()).expect("a directory");
        assert_eq!(
            (inner.directories, inner.above),
            (vec!["inner".to_string()], Some(home.clone()))
        );
        let of = |name: &str| script(&site, &home.join(name).display().to_string());
        let found = of("run it.sh").expect("a script");
        assert_eq!(found.name, "run-it.sh");
        assert_eq!(found.directory, home.display().to_string());
        assert_eq!(found.script, "#!/bin/sh\n");
        for (name, why) in [
            ("secret", "only what is below"),
            ("out/outside", "only what is below"),
            ("../outside", "only what is below"),
            ("binary", "not text"),
            ("large", "larger than 1 MiB"),
            ("b dir", "no file"),
            ("absent", "No such file"),
        ] {
            let said = of(name).expect_err(name).to_string();
            assert!(said.contains(why), "{name}: {said}");
        }
        assert!(list(&site, "/").is_err() && list(&site, "b dir").is_err());
        assert!(list(&site, &home.join("out").display().to_string()).is_err());
    }

    #[test]
    fn a_long_directory_is_cut() {
        let home = tempfile::tempdir().expect("a directory");
        for number in 0..=MOST {
            fs::write(home.path().join(format!("f{number}")), "x").expect("written");
        }
        let listing = list(&site(home.path()), "").expect("home");
        assert!(listing.more && listing.files.len() == MOST);
    }
}
