//! A margin on estimates that was learned from the site's own records: a file beside the configuration, written by `libra trace margin --keep`.
//!
//! It is of whoever admits jobs, on the hosts of control: a commitment says with what margin it was made, and nodes keep to that.

use super::{Config, ConfigError, Margin};
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the file.
pub const FILE: &str = "learned-margin.toml";

/// What is read of the file. Whatever else is in it is for people.
#[derive(Deserialize)]
struct Learned {
    margin: Margin,
}

/// Where it is, beside a configuration.
pub fn beside(configuration: &Path) -> PathBuf {
    configuration.with_file_name(FILE)
}

/// The text of the file for a margin, in whole percent. `from`: of what it was learned, in one line.
pub fn written(margin: f64, from: &str) -> String {
    format!(
        "# Written by 'libra trace margin --keep'; counts where libra.toml has estimate-margin = \"learned\". Without this file the least of\n\
         # learned-margin-bounds counts.\n\
         # {from}\n\
         margin = \"{:.0}%\"\n",
        margin * 100.0
    )
}

/// What a log is to say where another margin counts than before, behind what else is said; empty where it does not.
pub fn changed(before: &Config, now: &Config) -> String {
    let margin = now.admission.margin();
    match margin == before.admission.margin() {
        true => String::new(),
        false => format!(
            "; estimates of new jobs are stretched by {} % from now on",
            (margin * 1e4).round() / 1e2
        ),
    }
}

/// What was learned, with the text that says so; None if nothing was.
///
/// # Errors
/// When the file, or a link in its place, is there and cannot be taken.
pub fn read(file: &Path) -> Result<Option<(Margin, String)>, ConfigError> {
    let invalid = |problem: &str| ConfigError::invalid(&file.display().to_string(), problem);
    let text = match std::fs::read_to_string(file) {
        // A link without its target is what is seen of a file system that is away: nobody has forgotten anything.
        Err(error) if error.kind() == ErrorKind::NotFound && !file.is_symlink() => return Ok(None),
        other => other.map_err(|error| {
            invalid(&format!(
                "cannot be read: {error}; 'libra trace margin --keep' writes it anew, and without it nothing was learned"
            ))
        })?,
    };
    let learned: Learned = toml::from_str(&text).map_err(|error| invalid(&error.to_string()))?;
    Ok(Some((learned.margin, text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EstimateMargin;

    #[test]
    fn what_was_learned_counts_within_its_bounds() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("libra.toml");
        let rules = "[admission]\nestimate-margin = 'learned'\n";
        std::fs::write(&file, rules).expect("written");
        let margin = || {
            let config = Config::from_file(&file).map_err(|error| error.to_string())?;
            Ok::<f64, String>(config.admission.margin())
        };
        assert_eq!(margin(), Ok(0.05), "nothing was learned");
        for (learned, counts) in [(0.13, 0.13), (0.0, 0.05), (1.0, 0.5)] {
            let text = written(learned, "400 jobs of 'site.swf.gz'");
            std::fs::write(beside(&file), text).expect("written");
            assert_eq!(margin(), Ok(counts), "{learned}");
        }
        std::fs::write(beside(&file), "margin = 0.2\n").expect("written");
        let said = margin().expect_err("no percent");
        assert!(
            said.contains("learned-margin.toml") && said.contains("percent"),
            "{said}"
        );
        std::fs::write(beside(&file), "").expect("written");
        let said = margin().expect_err("empty");
        assert!(said.contains("margin"), "{said}");
        std::fs::remove_file(beside(&file)).expect("removed");
        std::os::unix::fs::symlink("/nowhere/margin", beside(&file)).expect("a link");
        let said = margin().expect_err("a link to nothing");
        assert!(said.contains("cannot be read"), "{said}");
        // It is nothing to who has a margin of his own.
        std::fs::write(&file, "[admission]\nestimate-margin = '7%'\n").expect("written");
        assert_eq!(margin(), Ok(0.07));
    }

    #[test]
    fn a_text_alone_has_no_file_beside_it() {
        let config = Config::from_toml(
            "[admission]\nestimate-margin = 'learned'\nlearned-margin-bounds = ['8%', '9%']",
        )
        .expect("valid");
        assert_eq!(config.admission.estimate_margin, EstimateMargin::Learned);
        assert_eq!(config.admission.margin(), 0.08);
        for (bad, expected) in [
            ("['9%', '8%']", "9 %, is above the most, 8 %"),
            ("['9%']", "line 3"),
            ("'9%'", "line 3"),
            ("[5, 9]", "5 is not a margin"),
        ] {
            let text = format!("[admission]\n\nlearned-margin-bounds = {bad}\n");
            let said = Config::from_toml(&text).expect_err(bad).to_string();
            assert!(
                said.contains(expected) && said.contains("line 3"),
                "{bad}: {said}"
            );
        }
    }
}
