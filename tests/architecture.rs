//! ARCHITECTURE.md is held against the tree: which crate knows which, and what none of them may use.
//!
//! cargo refuses a path into a crate that a Cargo.toml does not name. What it cannot see is tested here: that the table in ARCHITECTURE.md is
//! still what these files say, and that a crate which is said to be pure reads no clock, no file and nothing of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What the plugins of Slurm know is not in the table's order but in the same table.
const PLUGINS: [&str; 3] = ["sys", "job_submit", "spank"];

/// Crates that read nothing but their arguments, and what would be read otherwise.
const PURE: [&str; 5] = ["units", "core", "wording", "rules", "plots"];
const IMPURE: [&str; 9] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::os",
    "Instant::now",
    "SystemTime",
    "File::open",
];

/// Where unsafe code may be.
const UNSAFE: [&str; 2] = ["crates/system/src/lib.rs", "src/lib.rs"];

/// What the program alone is made of: no batch system loads it.
const OF_THE_PROGRAM: [&str; 6] = [
    "libra-plots",
    "libra-workload",
    "libra-simulator",
    "libra-experiments",
    "libra-page",
    "libra-cli",
];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The directory of each crate, by its name.
fn crates() -> BTreeMap<String, PathBuf> {
    let below = fs::read_dir(top().join("crates"))
        .expect("crates/")
        .map(|entry| entry.expect("a directory entry").path());
    let plugins = PLUGINS.map(|name| top().join("slurm-plugins").join(name));
    below
        .chain(plugins)
        .chain([top().to_path_buf()])
        .map(|directory| {
            let manifest = manifest(&directory);
            let name = manifest["package"]["name"].as_str().expect("a name");
            (name.to_string(), directory)
        })
        .collect()
}

fn manifest(directory: &Path) -> toml::Table {
    let path = directory.join("Cargo.toml");
    let text = read(&path);
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Crates of ours that a Cargo.toml names; those of its tests are not counted.
fn known_by(directory: &Path) -> BTreeSet<String> {
    let manifest = manifest(directory);
    let Some(dependencies) = manifest.get("dependencies").and_then(|d| d.as_table()) else {
        return BTreeSet::new();
    };
    (dependencies.keys())
        .filter(|name| name.starts_with("libra"))
        .cloned()
        .collect()
}

/// `core` in the table is the crate `libra-core`; the library itself is called `libra`.
fn whole_name(short: &str) -> String {
    match short {
        "libra" => short.to_string(),
        short => format!("libra-{short}"),
    }
}

/// The rows of the table: a crate, and those that it knows.
fn drawn() -> BTreeMap<String, BTreeSet<String>> {
    let text = read(&top().join("ARCHITECTURE.md"));
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate | knows |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next().expect("a first cell").trim_matches('`');
        let knows = cells.next().expect("a second cell");
        let knows = (knows.split(','))
            .map(|name| name.trim().trim_matches('`'))
            .filter(|name| !name.is_empty() && *name != "–")
            .map(whole_name);
        (whole_name(name), knows.collect())
    })
    .collect()
}

/// All Rust files below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The code of a file that is not for tests, with the numbers of its lines; comments are left out.
fn code(path: &Path) -> Vec<(usize, String)> {
    let name = path.to_string_lossy();
    if name.ends_with("tests.rs") || name.contains("/tests/") {
        return Vec::new();
    }
    read(path)
        .lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(number, line)| (number, line.to_string()))
        .collect()
}

fn below_top(path: &Path) -> String {
    let path = path.strip_prefix(top()).unwrap_or(path);
    path.display().to_string()
}

#[test]
fn crates_know_what_the_table_says() {
    let drawn = drawn();
    let found: BTreeMap<String, BTreeSet<String>> = (crates().iter())
        .map(|(name, directory)| (name.clone(), known_by(directory)))
        .collect();
    for (name, knows) in &found {
        let Some(said) = drawn.get(name) else {
            panic!("{name} has no row in the table of ARCHITECTURE.md");
        };
        assert_eq!(
            knows, said,
            "{name}: its Cargo.toml (left) and the table of ARCHITECTURE.md (right) differ"
        );
    }
    for name in drawn.keys() {
        assert!(
            found.contains_key(name),
            "{name} is in the table and not in the tree"
        );
    }
}

#[test]
fn no_batch_system_loads_what_is_the_programs() {
    let crates = crates();
    for loaded in ["libra", "libra-slurm-job-submit", "libra-slurm-spank"] {
        let mut known = BTreeSet::from([loaded.to_string()]);
        let mut open = vec![loaded.to_string()];
        while let Some(name) = open.pop() {
            for name in known_by(&crates[&name]) {
                if known.insert(name.clone()) {
                    open.push(name);
                }
            }
        }
        for name in OF_THE_PROGRAM {
            assert!(!known.contains(name), "{loaded} depends on {name}");
        }
    }
}

#[test]
fn what_is_pure_reads_nothing_but_its_arguments() {
    for name in PURE {
        for path in sources(&top().join("crates").join(name).join("src")) {
            for (number, line) in code(&path) {
                for impure in IMPURE {
                    assert!(
                        !line.contains(impure),
                        "{}:{number} uses {impure}, and libra-{name} is pure",
                        below_top(&path)
                    );
                }
            }
        }
    }
}

#[test]
fn unsafe_code_has_its_places() {
    for (name, directory) in crates() {
        let lints = &manifest(&directory)["lints"];
        let inherited = lints.get("workspace").and_then(toml::Value::as_bool);
        assert_eq!(inherited, Some(true), "{name} has lints of its own");
        for path in sources(&directory.join("src")) {
            let path_shown = below_top(&path);
            let may =
                UNSAFE.contains(&path_shown.as_str()) || path_shown.starts_with("slurm-plugins/");
            let allows = (code(&path).iter()).any(|(_, line)| line.contains("allow(unsafe_code)"));
            assert!(may || !allows, "{path_shown} allows unsafe code");
        }
    }
}

/// One thing has one path: a crate does not hand on what is another's.
#[test]
fn no_crate_hands_on_another() {
    for (_, directory) in crates() {
        for path in sources(&directory.join("src")) {
            for (number, line) in code(&path) {
                assert!(
                    !line.trim_start().starts_with("pub use libra"),
                    "{}:{number} hands on what is another crate's",
                    below_top(&path)
                );
            }
        }
    }
}
