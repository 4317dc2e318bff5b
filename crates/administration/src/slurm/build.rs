//! `libra slurm build`: the plugins made of Libra's sources for the Slurm that is here, and put where `install` finds them.

use super::SlurmError;
use super::plugin::{Binary, Version, Which, faults};
use super::sources::BUILT;
use crate::args::SlurmBuildArgs;
use crate::replace::replace;
use crate::{Common, Done, Failure};
use libra_terminal::{answer, note};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Where the package libra-slurm-source puts them.
const SOURCES: &str = concat!(
    "/usr/src/libra-slurm-",
    env!("CARGO_PKG_VERSION"),
    ".tar.xz"
);
/// Beside the plugins: what they were made of, a checksum and the name of each file.
const MADE_OF: &str = "made-of";
/// Below the directory of all versions: what is unpacked and built, only as long as it takes.
const WORKSHOP: &str = ".building";
const LOCK: &str = ".lock";
/// Another profile of Cargo.toml than release, for tests that only want to see it built.
const TEST_PROFILE: &str = "LIBRA_TEST_PROFILE";

pub fn build(build: &SlurmBuildArgs, args: &Common) -> Done {
    let sources = build.sources.clone().unwrap_or_else(|| SOURCES.into());
    let there = fs::metadata(&sources).map_err(|error| no_sources(&sources, &error))?;
    if there.is_dir() && build.if_needed {
        let text = format!(
            "--if-needed: {} is a directory, of which cargo itself knows what has changed; name libra-slurm-VERSION.tar.xz, or leave the option out",
            sources.display()
        );
        return Err(Failure::Usage(text));
    }
    let to = build.to.clone().unwrap_or_else(|| BUILT.into());
    let version = version_of(&build.include)?;
    let place = to.join(version.to_string());
    let made_of = match there.is_dir() {
        true => None,
        false => Some(checksums(&sources, &build.include)?),
    };
    let is_there = || build.if_needed && is_made_of(&place, version, made_of.as_deref());
    if is_there() {
        return Ok(ExitCode::SUCCESS);
    }
    for path in [&sources, &build.include.join("slurm"), &to] {
        owned(path)?;
    }
    let _lock = lock(&to, build.if_needed)?;
    // Whoever was waited for may have built them.
    if is_there() {
        return Ok(ExitCode::SUCCESS);
    }
    let workshop = Workshop::open(to.join(WORKSHOP))?;
    let made = match there.is_dir() {
        true => of_tree(&sources, Some(&build.include), None)?,
        false => {
            let tree = workshop.unpack(&sources)?;
            of_tree(&tree, Some(&build.include), Some(&workshop.0))?
        }
    };
    for which in Which::BOTH {
        let file = made.join(which.file());
        let wrong = match Binary::read(&file) {
            Err(error) => vec![error],
            Ok(plugin) => faults(which, &plugin, Some(version), None, &|_| None),
        };
        if let Some(wrong) = wrong.first() {
            let why = format!("{wrong}; nothing was put into {}", place.display());
            return Err(failed(&file, why).into());
        }
    }
    put(&made, &place, made_of.as_deref())?;
    if build.to.is_none() {
        remove_others(&to);
    }
    let text = format!(
        "{}: the plugins for Slurm {version}; 'libra slurm install' puts them into Slurm, on each host that has them there",
        place.display()
    );
    answer(&note(args.json, &text), 0)
}

/// What another Libra has built is of no use to this one.
fn remove_others(own: &Path) {
    let all = own.parent().and_then(|all| fs::read_dir(all).ok());
    for other in all.into_iter().flatten().flatten() {
        if other.path() != own {
            let _ = fs::remove_dir_all(other.path());
        }
    }
}

/// Root builds nothing where somebody else can put files: cargo takes settings from all directories above, and what is built runs in slurmctld.
fn owned(path: &Path) -> Result<(), SlurmError> {
    let own = nix::unistd::geteuid();
    // As far as it is there.
    let there = path
        .ancestors()
        .find_map(|path| fs::canonicalize(path).ok());
    for directory in there.as_deref().into_iter().flat_map(Path::ancestors) {
        let Ok(found) = fs::metadata(directory) else {
            continue;
        };
        if own.is_root() && (found.uid() != 0 || found.mode() & 0o002 != 0) {
            return Err(failed(
                path,
                format!(
                    "others than root can write into {}, and what is built of it runs in slurmctld; name a place that is root's alone, and so is all above it",
                    directory.display()
                ),
            ));
        }
    }
    Ok(())
}

fn failed(program: &Path, why: String) -> SlurmError {
    SlurmError::Build {
        program: program.to_path_buf(),
        why,
    }
}

fn no_sources(sources: &Path, error: &std::io::Error) -> SlurmError {
    failed(
        sources,
        format!(
            "{error}; install the package libra-slurm-source, or name its libra-slurm-VERSION.tar.xz or a directory with Libra's sources"
        ),
    )
}

/// The version of the Slurm whose headers these are.
fn version_of(include: &Path) -> Result<Version, SlurmError> {
    let file = include.join("slurm/slurm_version.h");
    let wrong = |why: String| {
        failed(
            &file,
            format!(
                "{why}; the plugins are built for the Slurm whose headers are there: install them (Debian: libslurm-dev; .rpm: slurm-devel), \
                 or say --include DIR, the directory in which slurm/ is"
            ),
        )
    };
    let text = fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
    number_in(&text)
        .map(Version::of)
        .ok_or_else(|| wrong("there is no SLURM_VERSION_NUMBER in it".to_string()))
}

fn number_in(header: &str) -> Option<u32> {
    header.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let named = words.next()? == "#define" && words.next()? == "SLURM_VERSION_NUMBER";
        let number = words.next().filter(|_| named)?.strip_prefix("0x")?;
        u32::from_str_radix(number, 16).ok()
    })
}

/// One build at a time in a directory, which is made. `wait`: for another one to end.
fn lock(to: &Path, wait: bool) -> Result<Flock<File>, SlurmError> {
    let wrong =
        |error: std::io::Error| failed(to, format!("{error}; run it as root, or say --to DIR"));
    directory(to).map_err(wrong)?;
    let file = (OpenOptions::new()
        .create(true)
        .append(true)
        .open(to.join(LOCK)))
    .map_err(wrong)?;
    let how = match wait {
        true => FlockArg::LockExclusive,
        false => FlockArg::LockExclusiveNonblock,
    };
    Flock::lock(file, how).map_err(|(_, _)| {
        failed(
            to,
            "another 'libra slurm build' is at work there; wait for it".to_string(),
        )
    })
}

/// Makes a directory and those above it, in which nobody else may write.
fn directory(path: &Path) -> std::io::Result<()> {
    (fs::DirBuilder::new().recursive(true).mode(0o755)).create(path)
}

/// What sha256sum says of the sources and of all of Slurm's headers.
fn checksums(sources: &Path, include: &Path) -> Result<String, SlurmError> {
    let directory = include.join("slurm");
    let mut files = vec![sources.to_path_buf()];
    let entries =
        fs::read_dir(&directory).map_err(|error| failed(&directory, error.to_string()))?;
    files.extend(
        entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "h")),
    );
    files[1..].sort();
    let mut command = Command::new("sha256sum");
    command.args(&files).stdin(Stdio::null());
    let done =
        (command.output()).map_err(|error| failed(Path::new("sha256sum"), error.to_string()))?;
    match done.status.success() {
        // By their names alone: the same headers may have been elsewhere before an upgrade.
        true => Ok((String::from_utf8_lossy(&done.stdout).lines())
            .filter_map(|line| line.split_once("  "))
            .map(|(sum, path)| {
                let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
                format!("{sum}  {name}\n")
            })
            .collect()),
        false => Err(failed(
            Path::new("sha256sum"),
            String::from_utf8_lossy(&done.stderr).trim().to_string(),
        )),
    }
}

/// Returns true if both plugins are there, for this version, and were made of this.
fn is_made_of(place: &Path, version: Version, made_of: Option<&str>) -> bool {
    let whole = |which: Which| {
        let plugin = Binary::read(&place.join(which.file()));
        plugin.is_ok_and(|plugin| faults(which, &plugin, Some(version), None, &|_| None).is_empty())
    };
    fs::read_to_string(place.join(MADE_OF)).ok().as_deref() == made_of
        && Which::BOTH.into_iter().all(whole)
}

/// Whatever is in the environment of whoever builds, it becomes what a package has.
fn as_shipped(command: &mut Command, workshop: &Path) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_compilers = text.starts_with("RUSTC_")
            || text.starts_with("CARGO_PROFILE_")
            || text.starts_with("CARGO_BUILD_");
        if is_compilers || ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].contains(&&*text) {
            command.env_remove(&name);
        }
    }
    let profile = std::env::var_os(TEST_PROFILE).unwrap_or_else(|| "release".into());
    command.env("PROFILE", profile);
    command.env("CARGO_TARGET_DIR", workshop.join("target"));
    // The probes run what they compile, and /tmp may have no programs.
    command.env("TMPDIR", workshop);
}

/// Has a source tree build the plugins; what it says is seen while it works. The directory that has them. `workshop`: where, if not in the tree.
pub fn of_tree(
    tree: &Path,
    include: Option<&Path>,
    workshop: Option<&Path>,
) -> Result<PathBuf, SlurmError> {
    let program = tree.join("scripts/slurm-plugins");
    let mut command = Command::new(&program);
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    if let Some(include) = include {
        command.env("SLURM_INCLUDE", include);
    }
    if let Some(workshop) = workshop {
        as_shipped(&mut command, workshop);
    }
    let done = command.output().map_err(|error| {
        failed(
            &program,
            format!("{error}; expected a directory with Libra's sources"),
        )
    })?;
    if !done.status.success() {
        return Err(failed(
            &program,
            format!("{}; nothing was changed", done.status),
        ));
    }
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default().trim();
    match Path::new(last).is_dir() {
        true => Ok(PathBuf::from(last)),
        false => Err(failed(
            &program,
            format!("it says '{last}', which is not a directory"),
        )),
    }
}

/// The plugins come to their place, and then what says of what they are.
fn put(made: &Path, place: &Path, made_of: Option<&str>) -> Result<(), SlurmError> {
    let wrong = |file: &Path| {
        let file = file.to_path_buf();
        move |error| SlurmError::File { file, error }
    };
    directory(place).map_err(wrong(place))?;
    let note = place.join(MADE_OF);
    match fs::remove_file(&note) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(wrong(&note)(error)),
        _ => {}
    }
    for which in Which::BOTH {
        let (from, to) = (made.join(which.file()), place.join(which.file()));
        let bytes = fs::read(&from).map_err(wrong(&from))?;
        replace(&to, &bytes, 0o644).map_err(wrong(&to))?;
    }
    match made_of {
        Some(text) => replace(&note, text.as_bytes(), 0o644).map_err(wrong(&note)),
        None => Ok(()),
    }
}

/// A directory that is there as long as something is built in it. One that was left by a build that was killed is taken away first.
struct Workshop(PathBuf);

impl Workshop {
    fn open(directory: PathBuf) -> Result<Workshop, SlurmError> {
        let made = match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => fs::create_dir(&directory),
        };
        match made {
            Ok(()) => Ok(Workshop(directory)),
            Err(error) => Err(SlurmError::File {
                file: directory,
                error,
            }),
        }
    }

    /// Unpacks sources; the tree that they are.
    fn unpack(&self, sources: &Path) -> Result<PathBuf, SlurmError> {
        let mut command = Command::new("tar");
        command.args(["--extract", "--xz", "--no-same-owner", "--file"]);
        command
            .arg(sources)
            .arg("--directory")
            .arg(&self.0)
            .stdin(Stdio::null());
        let done = command
            .output()
            .map_err(|error| failed(Path::new("tar"), error.to_string()))?;
        if !done.status.success() {
            // A full disk is a line for each file.
            let said = String::from_utf8_lossy(&done.stderr);
            let said: Vec<&str> = said.lines().take(2).collect();
            return Err(failed(
                sources,
                format!(
                    "tar cannot unpack it into {}: {}",
                    self.0.display(),
                    said.join("; ")
                ),
            ));
        }
        let trees = fs::read_dir(&self.0).map_err(|error| failed(&self.0, error.to_string()))?;
        let mut trees = trees
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.join("scripts/slurm-plugins").is_file());
        trees.next().ok_or_else(|| failed(sources, "there is no scripts/slurm-plugins in it; expected libra-slurm-VERSION.tar.xz, the sources of Libra's plugins".to_string()))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::plugin::tests::{built, job_submit};

    #[test]
    fn headers_say_their_version() {
        let header = "#define SLURM_MAJOR 0x18\n#define  SLURM_VERSION_NUMBER 0x180b07\n";
        assert_eq!(number_in(header), Some(0x18_0b_07));
        for wrong in [
            "",
            "#define SLURM_VERSION_NUMBER",
            "#define SLURM_VERSION_NUMBER 12",
            "#define SLURM_VERSION_STRING 0x16",
        ] {
            assert_eq!(number_in(wrong), None, "{wrong}");
        }
        let root = tempfile::tempdir().expect("a directory");
        let error = version_of(root.path()).expect_err("no headers").to_string();
        assert!(
            error.contains("slurm/slurm_version.h: No such file")
                && error.contains("--include DIR"),
            "{error}"
        );
    }

    #[test]
    fn plugins_of_other_sources_or_headers_are_not_those_wanted() {
        let root = tempfile::tempdir().expect("a directory");
        let (sources, include, place) = (
            root.path().join("a.tar.xz"),
            root.path().join("include"),
            root.path().join("22.05.8"),
        );
        fs::create_dir_all(include.join("slurm")).expect("made");
        fs::create_dir(&place).expect("made");
        fs::write(&sources, "sources").expect("written");
        fs::write(include.join("slurm/slurm.h"), "int a;").expect("written");
        let sums = || checksums(&sources, &include).expect("sha256sum is there");
        let version = Version::of(0x16_05_08);
        let is = |made_of: &str| is_made_of(&place, version, Some(made_of));
        assert!(!is(&sums()), "there is nothing");
        fs::write(place.join(MADE_OF), sums()).expect("written");
        assert!(!is(&sums()), "there are no plugins");
        let spank = "#include <stdint.h>\nconst char plugin_type[] = \"spank\"; const uint32_t plugin_version = 0x160508;\n";
        let both = built(&place, "job_submit_libra.so", &job_submit(0x160508)).is_some()
            && built(&place, "libra_spank.so", spank).is_some();
        if !both {
            return;
        }
        assert!(is(&sums()));
        assert!(
            !is_made_of(&place, Version::of(0x16_05_09), Some(&sums())),
            "of another Slurm"
        );
        fs::write(include.join("slurm/slurm.h"), "int b;").expect("written");
        assert!(!is(&sums()), "other headers");
        fs::write(place.join(MADE_OF), sums()).expect("written");
        assert!(is(&sums()));
        fs::write(include.join("slurm/more.h"), "").expect("written");
        assert!(!is(&sums()), "one header more");
        fs::remove_file(include.join("slurm/more.h")).expect("gone");
        fs::write(&sources, "others").expect("written");
        assert!(!is(&sums()), "other sources");
        fs::write(place.join(MADE_OF), sums()).expect("written");
        let elsewhere = root.path().join("elsewhere");
        fs::rename(&include, &elsewhere).expect("moved");
        let same = checksums(&sources, &elsewhere).expect("sums");
        assert!(is(&same), "the same headers in another place");
    }

    #[test]
    fn what_is_no_archive_of_sources_says_so_and_nothing_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let (at, text) = (root.path().join("work"), root.path().join("a.tar.xz"));
        fs::write(&text, "no archive").expect("written");
        let workshop = Workshop::open(at.clone()).expect("made");
        let error = workshop.unpack(&text).expect_err("no archive").to_string();
        assert!(error.contains("tar cannot unpack it"), "{error}");
        let other = root.path().join("other.tar.xz");
        let tar = Command::new("tar")
            .args(["-cJf"])
            .arg(&other)
            .arg("-C")
            .arg(root.path())
            .arg("a.tar.xz")
            .status();
        assert!(tar.expect("tar runs").success());
        let error = workshop.unpack(&other).expect_err("no sources").to_string();
        assert!(
            error.contains("expected libra-slurm-VERSION.tar.xz"),
            "{error}"
        );
        // As a build that was killed leaves it.
        std::mem::forget(workshop);
        drop(Workshop::open(at.clone()).expect("made anew"));
        assert!(!at.exists());
    }

    #[test]
    fn root_builds_only_where_nobody_else_writes() {
        let root = tempfile::tempdir().expect("a directory");
        // /tmp is everybody's; of others than root nothing is asked.
        let is_root = nix::unistd::geteuid().is_root();
        assert_eq!(owned(&root.path().join("not/there")).is_err(), is_root);
        assert!(owned(Path::new("/usr/include/slurm")).is_ok());
    }

    #[test]
    fn what_another_libra_has_built_goes() {
        let root = tempfile::tempdir().expect("a directory");
        let own = root.path().join("0.2.0");
        for version in ["0.1.0/22.05.8", "0.2.0/22.05.8"] {
            fs::create_dir_all(root.path().join(version)).expect("made");
        }
        remove_others(&own);
        assert!(own.join("22.05.8").is_dir() && !root.path().join("0.1.0").exists());
    }

    #[test]
    fn one_build_at_a_time() {
        let root = tempfile::tempdir().expect("a directory");
        let _first = lock(root.path(), false).expect("free");
        let error = (lock(root.path(), false).expect_err("taken")).to_string();
        assert!(error.contains("another 'libra slurm build'"), "{error}");
    }
}
