//! plugstack.conf: `required|optional FILE ARGUMENTS…` and `include PATTERN`.

use super::conf::without_comment;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file of Libra's SPANK plugin.
pub const SPANK: &str = "libra_spank.so";

/// Includes in includes, at most.
const DEEPEST: usize = 16;

/// A line that loads a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginLine {
    pub file: PathBuf,
    /// From 1.
    pub number: usize,
    pub required: bool,
    /// As written: a path, or a name that is looked for in PluginDir.
    pub plugin: String,
    pub arguments: Vec<String>,
}

impl PluginLine {
    /// Returns true if it is about Libra's plugin.
    pub fn is_libra(&self) -> bool {
        Path::new(&self.plugin).file_name() == Some(SPANK.as_ref())
    }

    /// The configuration that the line names.
    pub fn config(&self) -> Option<&str> {
        self.arguments
            .iter()
            .find_map(|a| a.strip_prefix("config="))
    }

    /// `plugstack.conf:3`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.number)
    }
}

/// How files are found and opened.
pub struct Files<'a> {
    pub open: &'a dyn Fn(&Path) -> io::Result<String>,
    /// The files in a directory.
    pub list: &'a dyn Fn(&Path) -> Vec<PathBuf>,
}

/// The lines of a file and of what it includes, and what could not be read.
pub fn read(path: &Path, files: &Files<'_>) -> io::Result<(Vec<PluginLine>, Vec<String>)> {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    let text = (files.open)(path)?;
    take(path, &text, files, 0, &mut entries, &mut problems);
    Ok((entries, problems))
}

fn take(
    path: &Path,
    text: &str,
    files: &Files<'_>,
    depth: usize,
    entries: &mut Vec<PluginLine>,
    problems: &mut Vec<String>,
) {
    for (index, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), index + 1);
        let mut words = without_comment(line).split_whitespace();
        let Some(kind) = words.next() else { continue };
        let Some(name) = words.next() else {
            problems.push(format!("{place}: '{kind}' is followed by no file"));
            continue;
        };
        match kind {
            "required" | "optional" => entries.push(PluginLine {
                file: path.to_path_buf(),
                number: index + 1,
                required: kind == "required",
                plugin: name.to_string(),
                arguments: words.map(str::to_string).collect(),
            }),
            "include" if depth >= DEEPEST => {
                problems.push(format!("{place}: too many includes in one another"));
            }
            "include" => {
                let pattern = path.parent().unwrap_or(Path::new("/")).join(name);
                for file in matching(&pattern, files) {
                    match (files.open)(&file) {
                        Ok(text) => take(&file, &text, files, depth + 1, entries, problems),
                        Err(error) => {
                            problems.push(format!("{place}: {}: {error}", file.display()));
                        }
                    }
                }
            }
            other => problems.push(format!(
                "{place}: '{other}' is none of required, optional and include; Slurm passes the line over"
            )),
        }
    }
}

/// The files that a pattern names, sorted as glob(3) does. '*' and '?' count in the last part only.
fn matching(pattern: &Path, files: &Files<'_>) -> Vec<PathBuf> {
    let last = pattern.file_name().unwrap_or_default().to_string_lossy();
    if !last.contains(['*', '?', '[']) {
        return vec![pattern.to_path_buf()];
    }
    let directory = pattern.parent().unwrap_or(Path::new("/"));
    let mut found: Vec<PathBuf> = (files.list)(directory)
        .into_iter()
        .filter(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            !name.starts_with('.') && fits(last.as_bytes(), name.as_bytes())
        })
        .collect();
    found.sort();
    found
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => (0..=name.len()).any(|n| fits(&pattern[1..], &name[n..])),
        (Some(b'?'), Some(_)) => fits(&pattern[1..], &name[1..]),
        (Some(p), Some(n)) if p == n => fits(&pattern[1..], &name[1..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_what_is_included_are_read_in_order() {
        let text = |path: &Path| {
            match path.to_str() {
            Some("/e/plugstack.conf") => Ok("# optional no.so\nrequired a.so\n\
                include plugstack.conf.d/*.conf\noptional /x/libra_spank.so config=/c n=1 # c\nwhat x.so\noptional\n"
                .to_string()),
            Some("/e/plugstack.conf.d/1.conf") => Ok("optional one.so\n".to_string()),
            Some("/e/plugstack.conf.d/2.conf") => Ok("optional two.so\n".to_string()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
        };
        let list = |_: &Path| {
            ["2.conf", "1.conf", "x.rpmsave", ".3.conf"]
                .map(|name| Path::new("/e/plugstack.conf.d").join(name))
                .to_vec()
        };
        let files = Files {
            open: &text,
            list: &list,
        };
        let (entries, problems) = read(Path::new("/e/plugstack.conf"), &files).expect("there");
        let names: Vec<&str> = entries.iter().map(|e| e.plugin.as_str()).collect();
        assert_eq!(names, ["a.so", "one.so", "two.so", "/x/libra_spank.so"]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        let ours = &entries[3];
        assert!(ours.is_libra() && !ours.required && entries[0].required);
        assert_eq!(ours.config(), Some("/c"));
        assert_eq!(ours.place(), "/e/plugstack.conf:4");
    }
}
