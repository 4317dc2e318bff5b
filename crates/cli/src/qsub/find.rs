//! Where the real qsub is.
//!
//! Libra's own may be ahead in PATH under the same name, as a link or as a script of two lines, so
//! nothing is taken that is this program or that calls it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where PBS's configuration is, unless the environment names another file.
const CONF_FILE: &str = "/etc/pbs.conf";
/// Where PBS is, unless its configuration says otherwise.
const EXEC: &str = "/opt/pbs";

/// The real qsub.
#[derive(Debug, PartialEq, Eq)]
pub struct Real {
    pub path: PathBuf,
    /// Nothing but PATH names it, so it might be another link to a copy of this program.
    pub by_path_alone: bool,
}

/// What the environment says about where PBS is.
#[derive(Debug, Default)]
pub struct Surroundings {
    pub pbs_exec: Option<OsString>,
    pub pbs_conf_file: Option<OsString>,
    pub path: Option<OsString>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_this_process() -> Surroundings {
        Surroundings {
            pbs_exec: std::env::var_os("PBS_EXEC"),
            pbs_conf_file: std::env::var_os("PBS_CONF_FILE"),
            path: std::env::var_os("PATH"),
        }
    }

    /// Every place to look at, in order, and whether PATH alone names it.
    fn places(&self, default_exec: &Path) -> Vec<(PathBuf, bool)> {
        let mut places = Vec::new();
        let mut below = |exec: &OsStr| places.push((Path::new(exec).join("bin/qsub"), false));
        // PBS's own commands let the environment win over the file.
        if let Some(exec) = self.pbs_exec.as_deref().filter(|exec| !exec.is_empty()) {
            below(exec);
        }
        let conf = self.pbs_conf_file.as_deref();
        let conf = fs::read(conf.unwrap_or(OsStr::new(CONF_FILE))).unwrap_or_default();
        if let Some(exec) = exec_of(&conf) {
            below(OsStr::from_bytes(exec));
        }
        below(default_exec.as_os_str());
        for directory in std::env::split_paths(self.path.as_deref().unwrap_or_default()) {
            places.push((directory.join("qsub"), true));
        }
        places
    }
}

/// What `PBS_EXEC` is in a pbs.conf.
fn exec_of(conf: &[u8]) -> Option<&[u8]> {
    conf.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter_map(|line| line.strip_prefix(b"PBS_EXEC="))
        .rfind(|value| !value.is_empty())
}

/// The real qsub of these surroundings.
///
/// # Errors
/// Where it was looked for.
pub fn real(surroundings: &Surroundings) -> Result<Real, String> {
    let myself = fs::metadata("/proc/self/exe").ok();
    find(surroundings, Path::new(EXEC), &|path| {
        myself
            .as_ref()
            .zip(fs::metadata(path).ok())
            .is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
    })
}

fn find(
    surroundings: &Surroundings,
    default_exec: &Path,
    is_myself: &dyn Fn(&Path) -> bool,
) -> Result<Real, String> {
    let places = surroundings.places(default_exec);
    let found = places
        .iter()
        .find(|(path, _)| can_be_executed(path) && !is_myself(path) && !calls_libra(path));
    if let Some((path, by_path_alone)) = found {
        return Ok(Real {
            path: path.clone(),
            by_path_alone: *by_path_alone,
        });
    }
    let named: Vec<String> = places
        .iter()
        .filter(|(_, by_path_alone)| !by_path_alone)
        .map(|(path, _)| path.display().to_string())
        .collect();
    Err(format!(
        "there is no qsub of PBS: not {}, and none in PATH; set PBS_EXEC in the file that \
         PBS_CONF_FILE names, or in {CONF_FILE}",
        named.join(", not ")
    ))
}

fn can_be_executed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file())
        && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// Returns true if this is a script that calls `libra qsub`.
fn calls_libra(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(2).read_to_end(&mut start));
    if read.is_err() || start != b"#!" {
        return false;
    }
    let words = b"libra qsub";
    fs::read(path).is_ok_and(|text| text.windows(words.len()).any(|window| window == words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(path: &Path, text: &str, mode: u32) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    #[test]
    fn the_configuration_names_it() {
        for (conf, exec) in [
            ("", None),
            ("# PBS_EXEC=/x\nPBS_HOME=/y\n", None),
            ("PBS_HOME=/y\n PBS_EXEC=/opt/pbs \r\n", Some("/opt/pbs")),
            ("PBS_EXEC=/a\nPBS_EXEC=/b", Some("/b")),
            ("PBS_EXEC=\n", None),
        ] {
            assert_eq!(exec_of(conf.as_bytes()), exec.map(str::as_bytes), "{conf}");
        }
    }

    #[test]
    fn places_in_their_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let conf = root.join("pbs.conf");
        fs::write(&conf, format!("PBS_EXEC={}\n", root.join("a").display())).expect("a file");
        let surroundings = Surroundings {
            pbs_exec: None,
            pbs_conf_file: Some(conf.into()),
            path: Some(std::env::join_paths([root.join("mine"), root.join("c")]).expect("a path")),
        };
        let mine = root.join("mine/qsub");
        program(&mine, "#!/bin/sh\n", 0o755);
        let find = || find(&surroundings, &root.join("b"), &|path| path == mine);
        let error = find().expect_err("none is there");
        assert!(
            error.contains("a/bin/qsub") && error.contains("b/bin/qsub"),
            "{error}"
        );

        program(&root.join("c/qsub"), "#!/bin/sh\n", 0o755);
        let real = find().expect("in PATH");
        assert_eq!(real.path, root.join("c/qsub"));
        assert!(real.by_path_alone);
        // Not what calls us, and not what cannot be executed.
        let calls = "#!/bin/sh\nexec /usr/bin/libra qsub \"$@\"\n";
        program(&root.join("b/bin/qsub"), calls, 0o755);
        program(&root.join("a/bin/qsub"), "#!/bin/sh\n", 0o644);
        assert_eq!(find().expect("in PATH").path, root.join("c/qsub"));

        program(&root.join("b/bin/qsub"), "#!/bin/sh\n# libraries\n", 0o755);
        let real = find().expect("in the default place");
        assert_eq!(real.path, root.join("b/bin/qsub"));
        assert!(!real.by_path_alone);
        program(&root.join("a/bin/qsub"), "", 0o755);
        assert_eq!(find().expect("by pbs.conf").path, root.join("a/bin/qsub"));
    }
}
