//! Which file is the configuration: the one that was named, or the site's.

use super::{Config, ConfigError, last};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the site's configuration is.
pub const FILE: &str = "/etc/libra/libra.toml";

/// The variable that names another.
pub const VARIABLE: &str = "LIBRA_CONFIG";

/// The file that was named: by an option, else by [`VARIABLE`].
pub fn named(option: Option<&Path>) -> Option<PathBuf> {
    named_by(option, std::env::var_os(VARIABLE))
}

/// Empty is not set.
fn named_by(option: Option<&Path>, variable: Option<OsString>) -> Option<PathBuf> {
    let variable = variable.filter(|path| !path.is_empty());
    option
        .map(Path::to_path_buf)
        .or(variable.map(PathBuf::from))
}

/// The configuration: of the file that was named, or the site's, or the defaults.
///
/// # Errors
/// When the named file cannot be read, or the site's is there and cannot be.
pub fn load(option: Option<&Path>) -> Result<Config, ConfigError> {
    match named(option) {
        Some(path) => Config::from_file(&path),
        None => Ok(of_site(Path::new(FILE))?.config),
    }
}

/// The same for what starts with nobody there to mend it, and has read it often before: also where it is gone or has a mistake, the copy of what
/// it was counts ([`last::read_or_copy`]).
///
/// # Errors
/// When it cannot be read or taken and there is no copy, or when the named file never was there.
pub fn load_unattended(option: Option<&Path>) -> Result<Config, ConfigError> {
    let named = named(option);
    let path = named.as_deref().unwrap_or(Path::new(FILE));
    let found = last::read_or_copy(path)?;
    if named.is_some() && found.origin.is_none() {
        return Config::from_file(path);
    }
    if let Some(gone) = &found.gone {
        log::error!("{gone}");
    }
    Ok(found.config)
}

/// The site's configuration in this file; the defaults where there never was one.
///
/// # Errors
/// When it is there and cannot be read: with the defaults in its place other jobs would be admitted.
pub fn of_site(path: &Path) -> Result<last::Read, ConfigError> {
    let found = last::read(path)?;
    if let Some(gone) = &found.gone {
        log::error!("{gone}");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_unattended_goes_by_the_rules_that_were() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let load = || load_unattended(Some(&file));
        let never = load().expect_err("a typing error").to_string();
        assert!(never.contains("libra.toml"), "{never}");
        std::fs::write(&file, "[admission]\nestimate-margin = 7\n").expect("written");
        let none = load().expect_err("no copy").to_string();
        assert!(none.contains("line 2"), "{none}");
        std::fs::write(&file, "[admission]\nestimate-margin = '7%'\n").expect("written");
        let rules = load().expect("valid");
        assert_eq!(rules.admission.margin(), 0.07);
        std::fs::write(&file, "[admission]\nestimate-margin = 8\n").expect("written");
        assert_eq!(load().expect("the copy"), rules);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(load().expect("the copy"), rules);
    }

    #[test]
    fn an_empty_variable_names_no_configuration() {
        let named = |option: Option<&str>, variable: Option<&str>| {
            named_by(option.map(Path::new), variable.map(OsString::from))
        };
        assert_eq!(named(None, None), None);
        assert_eq!(named(None, Some("")), None);
        assert_eq!(named(None, Some("/a")), Some("/a".into()));
        assert_eq!(named(Some("/b"), Some("/a")), Some("/b".into()));
    }

    #[test]
    fn only_a_site_configuration_that_is_not_there_gives_the_defaults() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let read = of_site(&file).expect("no file, no error");
        assert_eq!(read.config, Config::default());
        std::fs::write(&file, "[node]\nrating = 2.0\n").expect("a file");
        assert_ne!(of_site(&file).expect("valid").config, Config::default());
        // A directory that may not be looked into gives another error than "not found", as this does.
        let hidden = of_site(&file.join("libra.toml")).expect_err("not to be seen");
        assert!(hidden.to_string().contains("cannot be read"), "{hidden}");
    }
}
