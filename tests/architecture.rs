//! ARCHITECTURE.md is held against the tree: which crate knows which, and what none of them may use.
//!
//! cargo refuses a path into a crate that a Cargo.toml does not name. What it cannot see is tested here: that the table in ARCHITECTURE.md is
//! still what these files say, that a crate which is said to be pure reads no clock, no file and nothing of the process, and that the files of
//! a crate know one another in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What the plugins of Slurm know is not in the table's order but in the same table.
const PLUGINS: [&str; 3] = ["sys", "job_submit", "spank"];

/// Crates that read nothing but their arguments, and what would be read otherwise.
const PURE: [&str; 6] = ["units", "core", "wording", "rules", "plots", "xml"];
const IMPURE: [&str; 10] = [
    "nix::",
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
const OF_THE_PROGRAM: [&str; 8] = [
    "libra-plots",
    "libra-workload",
    "libra-simulator",
    "libra-experiments",
    "libra-page",
    "libra-terminal",
    "libra-administration",
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
    let mut known = known_by_name(directory);
    known.retain(|name| name.starts_with("libra"));
    known
}

/// All crates that a Cargo.toml names, others' as well.
fn known_by_name(directory: &Path) -> BTreeSet<String> {
    let manifest = manifest(directory);
    let dependencies = manifest.get("dependencies").and_then(|d| d.as_table());
    (dependencies.into_iter())
        .flat_map(|dependencies| dependencies.keys().cloned())
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
    let name = below_top(path);
    if name.ends_with("tests.rs") || name.contains("/tests/") {
        return Vec::new();
    }
    let text = read(path);
    let lines: Vec<&str> = text.lines().collect();
    // Tests in a file are its last part; a line alone is the name of a file of tests.
    let begin_tests = |index: &usize| {
        lines[*index] == "#[cfg(test)]"
            && (lines.get(index + 1))
                .is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'))
    };
    let end = (0..lines.len()).find(begin_tests).unwrap_or(lines.len());
    (1..)
        .zip(&lines[..end])
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(number, line)| (number, (*line).to_string()))
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

/// A column that nobody keeps is worse than none: it may be off by a fifth, or by a hundred lines.
#[test]
fn crates_are_as_long_as_the_table_says() {
    let text = read(&top().join("ARCHITECTURE.md"));
    for (name, directory) in crates() {
        let short = name.strip_prefix("libra-").unwrap_or(&name);
        let row = (text.lines().filter(|line| line.matches('|').count() == 5))
            .find(|line| line.starts_with(&format!("| {short} |")))
            .unwrap_or_else(|| panic!("{name} has no row in the table of ARCHITECTURE.md"));
        let said: usize = (row.split('|').nth(3).expect("a third cell").trim())
            .replace(',', "")
            .parse()
            .expect("a number");
        let files = sources(&directory.join("src"));
        let found: usize = files.iter().map(|path| read(path).lines().count()).sum();
        assert!(
            said.abs_diff(found) <= (found / 5).max(100),
            "{name} has {found} lines of Rust, and {said} in the table of ARCHITECTURE.md"
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

/// What the core decides is data; who tells people makes sentences of it.
#[test]
fn the_core_has_no_words_for_people() {
    // Words for people are made by these. The line of the commitment is for programs.
    const WORDS: [&str; 5] = ["fmt::", "Display", "thiserror", "format!(", "format_args!("];
    const FOR_PROGRAMS: [&str; 2] = [
        "crates/core/src/commitment.rs",
        "crates/core/src/decision/job.rs",
    ];
    for path in sources(&top().join("crates/core/src")) {
        let shown = below_top(&path);
        if FOR_PROGRAMS.contains(&shown.as_str()) {
            continue;
        }
        for (number, line) in code(&path) {
            let words = WORDS.iter().find(|words| line.contains(**words));
            assert_eq!(words, None, "{shown}:{number} makes a sentence");
        }
    }
    let core = known_by_name(&top().join("crates/core"));
    assert!(!core.contains("thiserror"), "{core:?}");
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
    let names: Vec<String> = (crates().keys())
        .map(|name| format!("pub use libra_{}::", name.replace('-', "_")))
        .collect();
    for (_, directory) in crates() {
        for path in sources(&directory.join("src")) {
            for (number, line) in code(&path) {
                let line = line.trim_start();
                assert!(
                    !names.iter().any(|name| line.starts_with(name)),
                    "{}:{number} hands on what is another crate's",
                    below_top(&path)
                );
            }
        }
    }
}

/// Files of one crate that know one another in a circle are one file in pieces. A module and what is below it may.
#[test]
fn no_circle_of_files_but_a_module_and_its_parent() {
    for (name, directory) in crates() {
        let files = modules(&directory.join("src"));
        let known: BTreeMap<&Module, BTreeSet<Module>> = (files.iter())
            .map(|(module, path)| {
                let all = named_in(module, path, &files);
                let beside = all.into_iter().filter(|other| {
                    !other.starts_with(module.as_slice()) && !module.starts_with(other.as_slice())
                });
                (module, beside.collect())
            })
            .collect();
        for module in files.keys() {
            if let Some(circle) = way_back(module, &known) {
                let circle: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
                panic!("{name}: a circle of files, {}", circle.join(" -> "));
            }
        }
    }
}

/// `["decision", "policy"]` for `src/decision/policy/mod.rs`.
type Module = Vec<String>;

/// The files of a crate that are not tests.
fn modules(src: &Path) -> BTreeMap<Module, PathBuf> {
    (sources(src).into_iter())
        .filter(|path| !code(path).is_empty())
        .map(|path| {
            let within = path
                .strip_prefix(src)
                .expect("below src")
                .with_extension("");
            let mut module: Module = (within.iter())
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            let last = module.last().expect("a name").clone();
            if ["mod", "lib", "main"].contains(&last.as_str()) {
                module.pop();
            }
            (module, path)
        })
        .collect()
}

/// The other modules of its crate that a file names: in `use`, and by a path that begins with `crate`, `super` or a module.
fn named_in(module: &Module, path: &Path, files: &BTreeMap<Module, PathBuf>) -> BTreeSet<Module> {
    let text: String = (code(path).into_iter())
        .map(|(_, line)| line + "\n")
        .collect();
    let mut found = BTreeSet::new();
    for path in paths_in(&text) {
        let mut at = module.clone();
        let mut rest = path.as_slice();
        match rest[0].as_str() {
            "crate" => (at, rest) = (Module::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            _ => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
        }
        for part in rest {
            at.push(part.clone());
            if !files.contains_key(&at) {
                at.pop();
                break;
            }
        }
        if at != *module && files.contains_key(&at) {
            found.insert(at);
        }
    }
    found
}

/// All paths in a text, those in the braces of a `use` each by itself.
fn paths_in(text: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut paths = Vec::new();
    let mut before: Vec<String> = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if is_part(c) {
            word.push(c);
            continue;
        }
        let whole = format!("{}{word}", before.last().map_or("", String::as_str));
        match c {
            // Only a `use` has a brace right behind two colons.
            '{' if word.ends_with("::") => before.push(whole),
            '{' if !before.is_empty() => before.push(String::new()),
            _ => {
                let inside = !before.is_empty() && !word.is_empty();
                if inside || word.contains("::") {
                    paths.push(whole);
                }
                if c == '}' {
                    before.pop();
                }
            }
        }
        word.clear();
    }
    (paths.iter())
        .map(|path| (path.split("::").filter(|part| !part.is_empty())).map(str::to_string))
        .map(Iterator::collect::<Vec<String>>)
        .filter(|path| !path.is_empty())
        .collect()
}

/// A way from a module over others back to it.
fn way_back(from: &Module, known: &BTreeMap<&Module, BTreeSet<Module>>) -> Option<Vec<Module>> {
    let mut seen = BTreeSet::new();
    let mut ways = vec![vec![from.clone()]];
    while let Some(way) = ways.pop() {
        for next in &known[way.last().expect("it begins somewhere")] {
            let way = [way.as_slice(), std::slice::from_ref(next)].concat();
            if next == from {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push(way);
            }
        }
    }
    None
}
