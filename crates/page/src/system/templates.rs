//! Templates: scripts with the values of the form in lines of their own, of the site and of the user.
//!
//! A template is a file whose name is the template's. Lines `#LIBRA field=value` fill in the form and are no part of the script; they
//! are comments to whatever else reads the file, so a script that is in use may be one:
//!
//! ```text
//! #!/bin/bash
//! #LIBRA estimate=1h
//! #LIBRA deadline=4h
//! ./simulate input.dat
//! ```

use super::{Problem, Site, records};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a line of a template begins with that is not the script's.
const LINE: &str = "#LIBRA ";

/// The largest file, in bytes.
const LARGEST: u64 = (1 << 20) + (64 << 10);

/// The most that are listed of each kind.
const MOST: usize = 100;

/// Whose a template is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// An administrator's: `templates` of `[web]` in the configuration.
    Site,
    /// The user's own.
    User,
}

impl Owner {
    /// In addresses.
    pub fn word(self) -> &'static str {
        match self {
            Owner::Site => "site",
            Owner::User => "own",
        }
    }
}

/// Where a user's own are.
pub fn own(site: &Site) -> PathBuf {
    site.state.join("templates")
}

fn directory(site: &Site, owner: Owner) -> Option<PathBuf> {
    match owner {
        Owner::Site => site.templates.clone(),
        Owner::User => Some(own(site)),
    }
}

/// All that there are, those of the site first, by name.
pub fn all(site: &Site) -> Vec<(Owner, String)> {
    let mut found = Vec::new();
    for owner in [Owner::Site, Owner::User] {
        let Some(directory) = directory(site, owner) else {
            continue;
        };
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        let names = files.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_name(name)).collect();
        names.sort_unstable();
        names.truncate(MOST);
        found.extend(names.into_iter().map(|name| (owner, name)));
    }
    found
}

/// Returns true if a template may be called so: up to 60 letters, digits and . _ + -, a letter or digit first. Never a path.
pub fn is_name(name: &str) -> bool {
    let is = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    name.len() <= 60
        && name.chars().all(is)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// The fields of a form by their names, `script` among them, of `site.NAME` or `own.NAME`.
///
/// # Errors
/// There is none of that name, or it cannot be read.
pub fn read(site: &Site, called: &str) -> Result<BTreeMap<String, String>, Problem> {
    let none = || {
        Problem::new(format!(
            "there is no template '{}'",
            libra_units::cut(called)
        ))
    };
    let (owner, name) = called.split_once('.').ok_or_else(none)?;
    let owner = [Owner::Site, Owner::User]
        .into_iter()
        .find(|known| known.word() == owner);
    let directory = owner.and_then(|owner| directory(site, owner));
    let directory = directory.filter(|_| is_name(name)).ok_or_else(none)?;
    let path = directory.join(name);
    if !path.exists() {
        return Err(none());
    }
    Ok(fields_of(&text_of(&path)?))
}

fn text_of(path: &Path) -> Result<String, Problem> {
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(format!(
            "the template {} cannot be read: {error}",
            path.display()
        ))
    };
    let mut options = OpenOptions::new();
    // Never waits for a pipe.
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file: File = opened.map_err(|error| failed(&error))?;
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(failed(&"it is not a file of 1 MiB or less"));
    }
    let mut text = String::new();
    let read = file.take(LARGEST).read_to_string(&mut text);
    read.map_err(|error| failed(&error))?;
    Ok(text)
}

fn fields_of(text: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut script = String::new();
    for line in text.split_inclusive('\n') {
        let value = line
            .strip_prefix(LINE)
            .and_then(|line| line.split_once('='));
        match value {
            Some((name, value)) => {
                fields.insert(name.trim().to_string(), value.trim().to_string());
            }
            None => script.push_str(line),
        }
    }
    fields.insert("script".to_string(), script);
    fields
}

/// A template with these fields of a form, as its file has it: no value has a line break.
fn text_with(fields: &[(&str, &str)], script: &str) -> String {
    let given = fields.iter().filter(|(_, value)| !value.is_empty());
    let lines = given.map(|(name, value)| format!("{LINE}{name}={value}\n"));
    let lines = lines.collect::<String>();
    let rest = script.trim_end_matches('\n');
    // Its first line says what reads it.
    match rest.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => format!("{first}\n{lines}{rest}\n"),
        None if rest.starts_with("#!") => format!("{rest}\n{lines}"),
        _ => format!("{lines}{rest}\n"),
    }
}

/// Keeps one of the user's own, in the place of an older one of that name.
///
/// # Errors
/// The name or a value is none, or it cannot be written.
pub fn write(
    site: &Site,
    name: &str,
    fields: &[(&str, &str)],
    script: &str,
) -> Result<(), Problem> {
    if !is_name(name) {
        return Err(Problem::new(
            "a template's name is up to 60 letters, digits and . _ + -, a letter or digit first",
        ));
    }
    let odd = |(_, value): &(&str, &str)| value.contains(char::is_control);
    if fields.iter().any(odd) || script.contains('\0') {
        return Err(Problem::new(
            "a value has a control character in it; type it anew",
        ));
    }
    let directory = own(site);
    records::private(&directory)?;
    let text = text_with(fields, script);
    records::write(&directory.join(name), text.as_bytes(), 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_core::decision::class::Class;

    fn site(home: &Path) -> Site {
        Site {
            libra: "libra".into(),
            config: None,
            state: home.join("state"),
            home: home.into(),
            files: home.into(),
            templates: Some(home.join("site")),
            classes: [Class::Deadline; 2],
        }
    }

    #[test]
    fn what_was_kept_is_there_again() {
        let home = tempfile::tempdir().expect("a directory");
        let site = site(home.path());
        assert_eq!(all(&site), []);
        let fields = [("estimate", "1h"), ("budget", ""), ("name", "x")];
        for script in ["#!/bin/bash\necho a\n", "echo a\n", "#!/bin/bash\n"] {
            write(&site, "mine", &fields, script).expect("written");
            let again = read(&site, "own.mine").expect("there");
            assert_eq!(again["script"], script);
            assert_eq!(
                (again["estimate"].as_str(), again["name"].as_str()),
                ("1h", "x")
            );
            assert!(!again.contains_key("budget"));
        }
        std::fs::create_dir(home.path().join("site")).expect("made");
        let file = home.path().join("site/fluid");
        std::fs::write(file, "#!/bin/sh\n#LIBRA deadline=4h\necho '#LIBRA x=1'\n")
            .expect("written");
        assert_eq!(
            all(&site),
            [
                (Owner::Site, "fluid".to_string()),
                (Owner::User, "mine".to_string())
            ]
        );
        let fluid = read(&site, "site.fluid").expect("there");
        assert_eq!(fluid["deadline"], "4h");
        assert_eq!(fluid["script"], "#!/bin/sh\necho '#LIBRA x=1'\n");
    }

    #[test]
    fn no_name_is_a_path_and_no_value_a_line() {
        let home = tempfile::tempdir().expect("a directory");
        let site = site(home.path());
        for name in ["", "..", "a/b", ".hidden", "-x", "a b"] {
            assert!(write(&site, name, &[], "x").is_err(), "{name}");
            assert!(read(&site, &format!("own.{name}")).is_err(), "{name}");
        }
        assert!(write(&site, "x", &[("name", "a\n#LIBRA budget=1")], "x").is_err());
        for called in ["x", "other.x", "own.absent"] {
            assert!(read(&site, called).is_err(), "{called}");
        }
    }
}
