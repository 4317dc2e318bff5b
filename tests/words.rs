//! One vocabulary: words of our own that gave way to the field's (docs/glossary.md) do not come back.
//!
//! A rule is a set of words, how they are recognised, and what is said instead. Plain English stays: to look something up, a promise
//! that is kept, a standing order. Where a word means two things, the rule is narrow and knows the private one only.

use std::path::Path;
use std::process::Command;

/// What a rule finds words in.
#[derive(Clone, Copy)]
enum Find {
    /// The whole word, in any case: `sold`, `Sold`, `SOLD`, and as a part of a name: `sold_on`, `SoldPlace`, `LIBRA_SOLD`.
    Name,
    /// These very words, in any case.
    Phrase,
}

use Find::{Name, Phrase};

/// What is not said, and what is instead.
const RULES: &[(Find, &[&str], &str)] = &[
    (
        Name,
        &["sold", "sale", "seller", "sellers"],
        "commitment, committed: accounting has sales, admission has promises",
    ),
    (
        Phrase,
        &["sells", "selling", "to sell"],
        "commits: nothing is handed over",
    ),
    (Name, &["desk"], "budget gate: it asks accounts who pays"),
    (
        Name,
        &["keeper"],
        "sync thread: it keeps nothing, it compares",
    ),
    (Name, &["tally"], "submission metrics, measures"),
    (Name, &["standing"], "deadline status, progress"),
    (Name, &["borrowed", "lent"], "adopted group, external group"),
    (
        Phrase,
        &[
            "fn look(",
            "mod look",
            "struct look",
            ".look(",
            " a look at ",
            "two looks",
            "each look",
            "every look",
            "next look",
            "last look",
            "looks_wanted",
        ],
        "poll, snapshot, check",
    ),
    (
        Phrase,
        &[
            "kept quote",
            "quote that is kept",
            "quotes that are kept",
            "notkept",
            "keptquote",
            "kept_until",
        ],
        "held quote",
    ),
    (
        Phrase,
        &["struct kept", "mod kept", "kepterror"],
        "install state",
    ),
    (Phrase, &["take_off"], "release"),
    (Phrase, &["starts_within("], "start latency"),
    (Phrase, &["count_sold"], "reserve_committed_share"),
    (Phrase, &["none where"], "None if"),
    (
        Phrase,
        &[
            "/// has it",
            "/// is it",
            "/// does it",
            "/// was it",
            "/// may it",
            "/// can it",
        ],
        "Returns true if, Whether",
    ),
    (Phrase, &["none that is known"], "unrecognised"),
    (
        Phrase,
        &["accounts cannot be asked"],
        "accounting unavailable",
    ),
    (
        Phrase,
        &["# the house", "rules of the house", "house rules"],
        "Architecture, Rules",
    ),
    (Phrase, &["comes nearest, has"], "the best node"),
    (
        Phrase,
        &["struct part ", "enum part ", "struct part<", "struct part("],
        "what it is a part of: ChunkGroup, OutputChunk, Segment",
    ),
    (
        Phrase,
        &["struct place ", "enum place ", "struct place<"],
        "Allocation, PageKind, ListenAddress",
    ),
    (
        Phrase,
        &["struct record ", "enum record ", "struct record("],
        "SwfRecord, InstallRecord, ControllerRecord",
    ),
];

/// Where these words may be: as what is not said, of other people's texts, of the past.
const EXEMPT: &[&str] = &[
    "docs/glossary.md",
    "tests/words.rs",
    "CHANGELOG.md",
    "LICENSE",
    "Cargo.lock",
    "fuzz/Cargo.lock",
];

/// Hits that are honest: a part of a line, and what it is.
const HONEST: &[(&str, &str)] = &[
    ("high_priority_starts_within_its_limit", "of a time limit"),
    ("outstanding", "of shares, in a licence"),
];

/// The words of a line: names are taken apart at `_` and where a capital begins.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        let begins = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if begins || !c.is_ascii_alphabetic() {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic() {
            words
                .last_mut()
                .expect("one at least")
                .push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a line says that has another word, and that word.
fn said(line: &str) -> Option<(&'static str, &'static str)> {
    let lower = line.to_lowercase();
    if HONEST.iter().any(|(part, _)| lower.contains(part)) {
        return None;
    }
    let words = words(line);
    RULES.iter().find_map(|(find, old, new)| {
        let hit = old.iter().find(|old| match find {
            Name => words.iter().any(|word| word == *old),
            Phrase => lower.contains(*old),
        });
        hit.map(|old| (*old, *new))
    })
}

/// The files under version control; in an archive without it there is nothing to compare.
fn files(top: &Path) -> Option<Vec<String>> {
    let listed = Command::new("git")
        .arg("-C")
        .arg(top)
        .args(["ls-files", "-z"])
        .output()
        .ok()?;
    let text = String::from_utf8(listed.stdout).ok()?;
    let files: Vec<String> = text
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_string)
        .collect();
    (listed.status.success() && !files.is_empty()).then_some(files)
}

#[test]
fn no_private_word_comes_back() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(files) = files(top) else {
        eprintln!("not tested: {} is no git checkout", top.display());
        return;
    };
    let mut found = Vec::new();
    for name in files.iter().filter(|name| !EXEMPT.contains(&name.as_str())) {
        // Binary files, and those that are about to be removed, have no lines.
        let Ok(text) = std::fs::read_to_string(top.join(name)) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some((old, new)) = said(line) {
                found.push(format!(
                    "{name}:{number}: '{old}' is called otherwise: {new}"
                ));
            }
        }
    }
    assert!(
        found.is_empty(),
        "{} lines; docs/glossary.md has the words\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn private_words_are_found_in_names_and_sentences() {
    for line in [
        "pub struct SoldPlace {",
        "let x = book.sold_on(node);",
        "SPANK_LIBRA_SOLD=1",
        "// What was sold.",
        "fn look(&self)",
        "/// Has it a job?",
    ] {
        assert!(said(line).is_some(), "{line}");
    }
    for line in [
        "// The name is looked up.",
        "a promise that is kept",
        "notwithstanding",
        "soldier",
        "standings of a soldier",
    ] {
        assert!(said(line).is_none(), "{line}");
    }
}

/// The glossary's tables: each term once, each with a meaning.
#[test]
fn the_glossary_has_each_term_once() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/glossary.md"))
            .expect("docs/glossary.md");
    let rows = text.lines().filter(|line| {
        line.starts_with("| ") && !line.starts_with("| term") && !line.starts_with("| ---")
    });
    let mut terms = std::collections::BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{row}");
        assert!(!cells[2].is_empty(), "{row}");
        for term in cells[1].split(", ") {
            assert!(terms.insert(term.to_lowercase()), "{term} is there twice");
        }
    }
    assert!(terms.len() >= 40, "{}", terms.len());
}
