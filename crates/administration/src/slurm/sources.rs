//! Where the plugins to install come from: a package, a directory that was named, or what `libra slurm build` has built ([`super::build`]).

use super::plugin::{Binary, Version, Which};
use std::path::{Path, PathBuf};

/// Where the package puts them.
pub const PACKAGE: &str = "/usr/lib/libra/slurm";

/// Where `libra slurm build` puts them: for each version of Libra another directory, so that none is taken for another's.
pub const BUILT: &str = concat!("/var/lib/libra/slurm-plugins/", env!("CARGO_PKG_VERSION"));

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
    // Of plugins for the same Slurm the last ones count: these were built with its own headers.
    places.push(BUILT.into());
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
            "there is no {} for Slurm {slurm} in {}: {there}; install the package libra-slurm that was built for {slurm}, or build it, with Slurm's \
             headers of this version: 'libra slurm build', of the package libra-slurm-source or Libra's sources",
            which.file(),
            shown.join(", ")
        )
    })
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
    fn what_was_built_here_goes_before_the_package() {
        let all = places(None);
        assert!(all.iter().any(|place| place == Path::new(PACKAGE)));
        assert_eq!(all.last().map(PathBuf::as_path), Some(Path::new(BUILT)));
        let root = tempfile::tempdir().expect("a directory");
        let places = ["package", "built"].map(|name| root.path().join(name));
        for place in &places {
            std::fs::create_dir_all(place.join("22.05.8")).expect("made");
            std::fs::write(place.join("22.05.8/libra_spank.so"), "").expect("written");
        }
        let slurm = Version::find("22.05.8").expect("a version");
        let file = find(Which::Spank, slurm, &places).expect("there");
        assert_eq!(file, places[1].join("22.05.8/libra_spank.so"));
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
