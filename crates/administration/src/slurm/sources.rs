//! Where the plugins to install come from: a package, a directory that was named, or a source tree that builds them now.

use super::SlurmError;
use super::plugin::{Binary, Version, Which};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the package puts them.
pub const PACKAGE: &str = "/usr/lib/libra/slurm";

/// Directories that may have plugins, or one directory of them for each version of Slurm.
pub fn places(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_path_buf()];
    }
    // `make install` puts them below its own prefix.
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent).and_then(Path::parent);
    let own = own.map(|prefix| prefix.join("lib/libra/slurm"));
    let mut places: Vec<PathBuf> = own.into_iter().collect();
    if !places.iter().any(|place| place == Path::new(PACKAGE)) {
        places.push(PACKAGE.into());
    }
    places
}

/// The versions for which there are plugins, newest first: the directories that are named so, or hold them directly.
fn versions(place: &Path) -> Vec<(Option<Version>, PathBuf)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let version = Version::find(&entry.file_name().to_string_lossy());
        if let Some(version) = version.filter(|_| entry.path().is_dir()) {
            found.push((Some(version), entry.path()));
        }
    }
    found.sort_by(|(a, _), (b, _)| b.cmp(a));
    if Which::BOTH
        .iter()
        .any(|which| place.join(which.file()).exists())
    {
        found.insert(0, (None, place.to_path_buf()));
    }
    found
}

/// The file of a plugin for a version of Slurm.
///
/// # Errors
/// There is none; what there is, and what to do.
pub fn find(which: Which, slurm: Version, places: &[PathBuf]) -> Result<PathBuf, String> {
    let mut there = Vec::new();
    let mut fitting: Option<(Option<Version>, PathBuf)> = None;
    for (version, directory) in places.iter().flat_map(|place| versions(place)) {
        let file = directory.join(which.file());
        if !file.exists() {
            continue;
        }
        // What lies in a directory without a version says it itself.
        let said = || Binary::read(&file).ok()?.version.map(Version::of);
        let built = version.or_else(said);
        there.push(built.map_or_else(|| directory.display().to_string(), |v| v.to_string()));
        let better = fitting.is_none() || built == Some(slurm);
        if better && built.is_none_or(|built| which.fits(built, slurm)) {
            fitting = Some((built, file));
        }
    }
    fitting.map(|(_, file)| file).ok_or_else(|| {
        let shown: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        let there = match there.is_empty() {
            true => "there is none at all".to_string(),
            false => format!("there are some for {}", there.join(", ")),
        };
        format!(
            "there is no {} for Slurm {slurm} in {}: {there}; install the package libra-slurm that was built for {slurm}, or build it: \
             scripts/slurm-plugins in Libra's sources, with Slurm's headers of this version ('libra slurm install --build DIR' does it)",
            which.file(),
            shown.join(", ")
        )
    })
}

/// Has a source tree build the plugins; what it says is seen while it works. The directory that has them.
pub fn build(tree: &Path) -> Result<PathBuf, SlurmError> {
    let program = tree.join("scripts/slurm-plugins");
    let failed = |why: String| SlurmError::Build {
        program: program.clone(),
        why,
    };
    let done = Command::new(&program)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| {
            failed(format!(
                "{error}; --build names a directory with Libra's sources"
            ))
        })?;
    if !done.status.success() {
        return Err(failed(format!("{}; nothing was changed", done.status)));
    }
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default().trim();
    match Path::new(last).is_dir() {
        true => Ok(PathBuf::from(last)),
        false => Err(failed(format!(
            "it says '{last}', which is not a directory"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::plugin::tests::{built, job_submit};

    #[test]
    fn the_directory_of_the_right_version_is_taken() {
        let root = tempfile::tempdir().expect("a directory");
        let places = [root.path().to_path_buf()];
        let slurm = Version::find("22.05.8").expect("a version");
        let none = find(Which::Spank, slurm, &places).expect_err("nothing there");
        assert!(none.contains("none at all"), "{none}");
        for version in ["22.05.2", "22.05.8", "23.11.1"] {
            std::fs::create_dir(root.path().join(version)).expect("made");
            for which in Which::BOTH {
                let file = root.path().join(version).join(which.file());
                std::fs::write(file, "").expect("written");
            }
        }
        for which in Which::BOTH {
            let file = find(which, slurm, &places).expect("there");
            assert_eq!(file, root.path().join("22.05.8").join(which.file()));
        }
        // Another micro version: SPANK takes the newest of the release, job_submit none.
        let slurm = Version::find("22.05.9").expect("a version");
        let file = find(Which::Spank, slurm, &places).expect("there");
        assert_eq!(file, root.path().join("22.05.8/libra_spank.so"));
        let error = find(Which::JobSubmit, slurm, &places).expect_err("none");
        assert!(
            error.contains("some for 23.11.1, 22.05.8, 22.05.2"),
            "{error}"
        );
    }

    #[test]
    fn a_directory_without_a_version_is_asked_through_its_files() {
        let root = tempfile::tempdir().expect("a directory");
        if built(root.path(), "job_submit_libra.so", &job_submit(0x160508)).is_none() {
            return;
        }
        let places = [root.path().to_path_buf()];
        let find = |slurm: &str| {
            find(
                Which::JobSubmit,
                Version::find(slurm).expect("one"),
                &places,
            )
        };
        assert!(find("22.05.8").is_ok());
        assert!(
            find("22.05.7")
                .expect_err("another")
                .contains("for 22.05.8")
        );
    }
}
