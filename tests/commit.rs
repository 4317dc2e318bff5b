//! What `libra --version` says of the commit: read from clones of every shape that git makes.

#[path = "../build/commit.rs"]
mod commit;

use std::fs::{create_dir_all, write};
use std::path::{Path, PathBuf};
use std::process::Command;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba98";

/// The files of a directory that is made for one test.
fn clone(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let made = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = made.path().join(name);
        create_dir_all(path.parent().expect("it is below the directory")).expect("a directory");
        write(path, text).expect("a file");
    }
    let root = made.path().to_path_buf();
    (made, root)
}

fn shown(root: &Path) -> Option<String> {
    commit::checked_out(root).map(|(commit, _)| commit)
}

#[test]
fn a_branch_that_has_a_file_or_is_packed_or_is_none() {
    let head = (".git/HEAD", "ref: refs/heads/main\n");
    let packed =
        format!("# pack-refs with: peeled\n{OTHER} refs/heads/other\n{COMMIT} refs/heads/main\n");
    let loose = (".git/refs/heads/main", COMMIT);
    for files in [
        vec![head, loose],
        vec![head, (".git/packed-refs", &packed)],
        // What has a file of its own is newer.
        vec![
            head,
            loose,
            (".git/packed-refs", &packed.replace(COMMIT, OTHER)),
        ],
        vec![(".git/HEAD", COMMIT)],
    ] {
        let (_kept, root) = clone(&files);
        assert_eq!(shown(&root).as_deref(), Some(&COMMIT[..12]), "{files:?}");
    }
}

#[test]
fn a_further_work_tree_has_the_branches_of_the_first() {
    let (_kept, root) = clone(&[
        ("first/.git/HEAD", "ref: refs/heads/main\n"),
        ("first/.git/refs/heads/main", OTHER),
        ("first/.git/refs/heads/second", COMMIT),
        (
            "first/.git/worktrees/second/HEAD",
            "ref: refs/heads/second\n",
        ),
        ("first/.git/worktrees/second/commondir", "../..\n"),
        ("second/.git", "gitdir: ../first/.git/worktrees/second\n"),
    ]);
    assert_eq!(shown(&root.join("second")).as_deref(), Some(&COMMIT[..12]));
}

#[test]
fn what_is_no_clone_says_no_commit() {
    for files in [
        &[] as &[(&str, &str)],
        &[(".git/HEAD", "ref: refs/heads/main\n")],
        &[(".git/HEAD", "nonsense\n")],
        &[(".git", "nonsense\n")],
    ] {
        let (_kept, root) = clone(files);
        assert_eq!(shown(&root), None, "{files:?}");
    }
    assert_eq!(commit::shortened("012345"), None);
}

/// git itself, where it is installed, and this very tree where it is a clone.
#[test]
fn git_says_the_same() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if !root.join(".git").exists() {
        println!("not run: this tree is not a clone");
        return;
    }
    let said = Command::new("git")
        .args(["-c", "safe.directory=*", "rev-parse", "HEAD"])
        .current_dir(root)
        .output();
    let Ok(said) = said else {
        println!("not run: there is no git");
        return;
    };
    let said = String::from_utf8(said.stdout).expect("hexadecimal digits");
    assert_eq!(shown(root).as_deref(), said.get(..12));
}
