//! What an installation changed, and what was there before.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What was changed on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct InstallRecord {
    /// The version of Libra that wrote this.
    pub version: String,
    /// Plugins that were copied.
    pub plugins: Vec<PathBuf>,
    /// Files whose text was changed.
    pub files: Vec<Changed>,
}

/// A file whose text was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Changed {
    pub file: PathBuf,
    /// None: it was not there.
    pub before: Option<String>,
    pub after: String,
    /// The copy beside it.
    pub copy: Option<PathBuf>,
}

impl InstallRecord {
    /// Notes a plugin.
    pub fn add_plugin(&mut self, file: &Path) {
        if !self.plugins.iter().any(|plugin| plugin == file) {
            self.plugins.push(file.to_path_buf());
        }
    }

    /// Notes a change. What was there before the first one stays what was before, as long as the file is still as the last
    /// one left it; otherwise somebody else's work is what was before.
    pub fn add_change(&mut self, change: Changed) {
        let old = self.files.iter_mut().find(|old| old.file == change.file);
        match old {
            Some(old) if Some(&old.after) == change.before.as_ref() => old.after = change.after,
            Some(old) => *old = change,
            None => self.files.push(change),
        }
    }

    /// The change of a file.
    pub fn change(&self, file: &Path) -> Option<&Changed> {
        self.files.iter().find(|changed| changed.file == file)
    }

    /// Whether there is nothing to undo.
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty() && self.files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_stays_known_while_nobody_else_writes() {
        let change = |before: &str, after: &str| Changed {
            file: "/f".into(),
            before: Some(before.to_string()),
            after: after.to_string(),
            copy: None,
        };
        let mut record = InstallRecord::default();
        record.add_change(change("a", "b"));
        record.add_change(change("b", "c"));
        assert_eq!(record.files, [change("a", "c")]);
        record.add_change(change("x", "y"));
        assert_eq!(record.files, [change("x", "y")]);
        record.add_plugin(Path::new("/p"));
        record.add_plugin(Path::new("/p"));
        assert_eq!(record.plugins.len(), 1);
    }
}
