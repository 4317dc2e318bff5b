//! This machine: who may read what, which programs run, which libraries there are.

use super::plugin::Binary;
use nix::unistd::{Gid, Uid, User, getgrouplist};
use std::ffi::CString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Somebody who has to be able to read a file.
pub struct Reader {
    pub name: String,
    uid: u32,
    /// None: whoever is neither owner nor in the group.
    groups: Option<Vec<u32>>,
}

impl Reader {
    /// Any user.
    pub fn anybody() -> Reader {
        Reader {
            name: "all users".to_string(),
            uid: u32::MAX,
            groups: None,
        }
    }

    /// A user of this machine.
    pub fn user(name: &str) -> Option<Reader> {
        // slurm.conf may also have the number.
        let found = match name.parse::<u32>() {
            Ok(uid) => User::from_uid(Uid::from_raw(uid)),
            Err(_) => User::from_name(name),
        };
        let user = found.ok().flatten()?;
        let groups = CString::new(user.name.as_str())
            .ok()
            .and_then(|name| getgrouplist(&name, user.gid).ok())
            .unwrap_or_else(|| vec![user.gid]);
        Some(Reader {
            name: user.name,
            uid: user.uid.as_raw(),
            groups: Some(groups.into_iter().map(Gid::as_raw).collect()),
        })
    }

    fn may(&self, file: &Metadata, bit: u32) -> bool {
        let mode = file.mode();
        if self.uid == 0 {
            return true;
        }
        let in_group = (self.groups.iter().flatten()).any(|group| *group == file.gid());
        match (self.uid == file.uid(), in_group) {
            (true, _) => mode & bit << 6 != 0,
            (_, true) => mode & bit << 3 != 0,
            _ => mode & bit != 0,
        }
    }

    /// What keeps this reader from a file: the file, or a directory above it.
    pub fn barred(&self, path: &Path) -> Option<PathBuf> {
        let real = fs::canonicalize(path).ok()?;
        let above = real.ancestors().skip(1).find(|dir| {
            let there = fs::metadata(dir);
            there.is_ok_and(|there| !self.may(&there, 1))
        });
        let above = above.map(Path::to_path_buf);
        above.or_else(|| match fs::metadata(&real) {
            Ok(there) if self.may(&there, 4) => None,
            _ => Some(real.clone()),
        })
    }
}

/// Returns true if others than root and these users can write it. Who loads it runs as them.
pub fn writable_by_others(path: &Path, allowed: &[u32]) -> bool {
    fs::metadata(path).is_ok_and(|file| {
        let owner = file.uid() == 0 || allowed.contains(&file.uid());
        !owner || file.mode() & 0o022 != 0
    })
}

/// The number of a user.
pub fn uid(name: &str) -> Option<u32> {
    Reader::user(name).map(|reader| reader.uid)
}

/// Returns true if a program of one of these names is running, with this word among its arguments.
pub fn runs(names: &[&str], word: Option<&str>) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|process| {
        let file = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
        let comm = file("comm");
        let comm = String::from_utf8_lossy(&comm);
        if !names.contains(&comm.trim()) {
            return false;
        }
        let arguments = file("cmdline");
        word.is_none_or(|word| arguments.split(|b| *b == 0).any(|a| a == word.as_bytes()))
    })
}

/// A library that programs are linked with, where loaders look for it.
pub fn library(name: &str) -> Option<Binary> {
    let own = format!("{}-linux-gnu", std::env::consts::ARCH);
    let places = [
        format!("/lib/{own}"),
        format!("/usr/lib/{own}"),
        "/lib64".to_string(),
        "/usr/lib64".to_string(),
        "/lib".to_string(),
        "/usr/lib".to_string(),
    ];
    let files = places.iter().map(|place| Path::new(place).join(name));
    files
        .filter(|file| file.exists())
        .find_map(|file| Binary::read(&file).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn who_may_not_read_is_told_why() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("f");
        fs::write(&file, "").expect("written");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
        };
        let file = fs::canonicalize(&file).expect("there");
        let above = file.parent().expect("a directory").to_path_buf();
        mode(&above, 0o755);
        mode(&file, 0o644);
        let all = Reader::anybody();
        assert_eq!(all.barred(&file), None);
        mode(&file, 0o640);
        assert_eq!(all.barred(&file), Some(file.clone()));
        mode(&file, 0o644);
        mode(&above, 0o700);
        assert_eq!(all.barred(&file), Some(above.clone()));
        let root = Reader::user("0").expect("root is everywhere");
        assert_eq!((root.name.as_str(), root.barred(&file)), ("root", None));
        mode(&above, 0o755);
        assert!(!writable_by_others(
            &file,
            &[fs::metadata(&file).expect("there").uid()]
        ));
        mode(&file, 0o664);
        assert!(writable_by_others(&file, &[]));
    }

    #[test]
    fn programs_are_found_by_their_names_and_words() {
        let own = fs::read_to_string("/proc/self/comm").expect("a name");
        assert!(runs(&[own.trim()], None));
        assert!(!runs(&[own.trim()], Some("no such word")));
    }

    #[test]
    fn the_c_library_is_found() {
        let libc = library("libc.so.6").expect("a C library");
        assert!(
            libc.has.iter().any(|v| v.starts_with("GLIBC_2.")),
            "{:?}",
            libc.has
        );
    }
}
