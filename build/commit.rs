//! Which commit a build is of, read from git's own files: git need not be installed, nor believe in who owns the directory.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Digits of a commit that are shown; git shows seven or more of them, and twelve stay unique in any repository.
const SHOWN: usize = 12;

/// The commit that is checked out in `root`, shortened, and the files whose change makes it another one. `None` where `root` is not
/// the top of a clone (an unpacked archive, also within somebody else's repository), or git keeps its files in a way unknown here.
pub fn checked_out(root: &Path) -> Option<(String, Vec<PathBuf>)> {
    let git = directory(root)?;
    let head = git.join("HEAD");
    let mut watched = vec![head.clone()];
    let text = read_to_string(&head).ok()?;
    let commit = match text.trim().strip_prefix("ref: ") {
        None => text.trim().to_string(),
        Some(name) => {
            // Branches are shared by all work trees of a repository.
            let common = match read_to_string(git.join("commondir")) {
                Ok(path) => git.join(path.trim()),
                Err(_) => git,
            };
            let loose = common.join(name);
            let packed = common.join("packed-refs");
            // A branch that is packed gets a file of its own with the next commit. What is not there must not be watched: cargo
            // would take that for a change each time.
            let branch = if loose.exists() {
                Some(loose.as_path())
            } else {
                loose.parent()
            };
            watched.extend(
                branch
                    .into_iter()
                    .chain([packed.as_path()])
                    .filter(|path| path.exists())
                    .map(Path::to_path_buf),
            );
            match read_to_string(&loose) {
                Ok(commit) => commit.trim().to_string(),
                Err(_) => (read_to_string(&packed).ok()?.lines())
                    .find_map(|line| line.split_once(' ').filter(|(_, packed)| *packed == name))
                    .map(|(commit, _)| commit.to_string())?,
            }
        }
    };
    shortened(&commit).map(|commit| (commit, watched))
}

/// `.git` itself, or where the file of that name points (a further work tree, a submodule).
fn directory(root: &Path) -> Option<PathBuf> {
    let path = root.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let text = read_to_string(path).ok()?;
    Some(root.join(text.trim().strip_prefix("gitdir: ")?))
}

/// The first digits, if it is a commit at all.
pub fn shortened(commit: &str) -> Option<String> {
    (commit.len() >= 7 && commit.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .then(|| commit.chars().take(SHOWN).collect())
}
