//! What is handed to the real qsub: the keys of Libra in `-W` lists become resources (`-l`), on the
//! command line and in the directives of the script; everything else stays byte for byte.
//!
//! Pure, but for the clock that `deadline` may look at. For each key the command line beats the
//! directives, and a later place an earlier one, as with qsub's own options.

use super::directives::{Directive, lines, quoted};
use super::lists::{self, ListItem};
use super::options::{Group, Line, Rest};
use libra_core::book::held_quote::Order;
use libra_core::decision::class_defaults::{Basis, ClassDefaults};
use libra_core::decision::job::DeadlineType;
use libra_units::duration;
use libra_wording::errors::no_order;
use libra_wording::terms::{self, Completed, PartialTerms, ReadDeadline, TermsError};
use libra_wording::words::nearest;
use std::collections::BTreeSet;

/// What is to be submitted.
pub struct Submission<'a> {
    /// The words after the program's name, and how qsub reads them.
    pub words: &'a [Vec<u8>],
    pub line: &'a Line,
    /// The script; empty where there is none.
    pub script: &'a [u8],
    pub directives: &'a [Directive],
    /// What the script is called in messages.
    pub script_name: &'a str,
}

/// What qsub gets instead.
#[derive(Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Its options.
    pub options: Vec<Vec<u8>>,
    /// The script, where it had to be changed.
    pub script: Option<Vec<u8>>,
}

/// Where an entry of a `-W` list stands: in a directive or, without one, on the command line, and
/// in which of its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OptionPosition {
    directive: Option<usize>,
    group: usize,
}

/// A key of Libra's and its value.
struct Found {
    key: &'static str,
    value: String,
    place: OptionPosition,
}

/// Where something was found that is wrong.
fn at(submission: &Submission<'_>, place: Option<usize>) -> String {
    match place {
        None => "-W".to_string(),
        Some(directive) => {
            let number = submission.directives[directive].number;
            format!("{}, line {number}: -W", submission.script_name)
        }
    }
}

/// Key of a held quote, which is no term.
const QUOTE: &str = "quote";

/// What PBS's own qsub knows behind `-W` (23.06): never taken for a slip of one of ours.
const OF_PBS: [&str; 17] = [
    "block",
    "create_resv_from_job",
    "cred",
    "depend",
    "group_list",
    "interactive",
    "keep",
    "max_run_subjobs",
    "project",
    "pwd",
    "release_nodes_on_stageout",
    "run_count",
    "sandbox",
    "stagein",
    "stageout",
    "tolerate_node_failures",
    "umask",
];

/// The key of Libra's that was meant by a name that nobody knows; None if it is like none of them.
fn meant_by(name: &[u8]) -> Option<&'static str> {
    let name = std::str::from_utf8(name).ok()?;
    if key_of(name.as_bytes()).is_some() || OF_PBS.contains(&name) {
        return None;
    }
    nearest(name, terms::KEYS_WITH_CLASS.into_iter().chain([QUOTE]))
}

fn key_of(name: &[u8]) -> Option<&'static str> {
    let name = std::str::from_utf8(name).ok()?;
    terms::key_with_class(name).or_else(|| name.eq_ignore_ascii_case(QUOTE).then_some(QUOTE))
}

/// The key that a resource stands for.
fn key_of_resource(name: &[u8]) -> Option<&'static str> {
    if name == libra_pbs::QUOTE.as_bytes() {
        return Some(QUOTE);
    }
    key_of(name).filter(|key| *key != QUOTE)
}

/// The resource of a key.
fn resource_of(key: &str) -> &str {
    if key == QUOTE { libra_pbs::QUOTE } else { key }
}

/// The entries of a group that is a `-W` with a key of Libra's.
fn entries_of(group: &Group) -> Option<(&[u8], Vec<ListItem>)> {
    let list = group.value_of(b'W')?;
    let entries = lists::entries(list)?;
    entries
        .iter()
        .any(|entry| key_of(&entry.name).is_some())
        .then_some((list, entries))
}

/// The keys that the resources of a line name.
fn resources_of(line: &Line) -> impl Iterator<Item = &'static str> {
    line.values(b'l')
        .flat_map(lists::resource_names)
        .filter_map(key_of_resource)
}

/// What qsub is to get; None if nothing of Libra's is used.
///
/// # Errors
/// What is wrong with the terms, for the user.
pub fn rewrite(
    submission: &Submission<'_>,
    deadline: ReadDeadline<'_>,
) -> Result<Option<Rewritten>, String> {
    let mut found = Vec::new();
    collect(submission, None, submission.line, &mut found)?;
    for (index, directive) in submission.directives.iter().enumerate() {
        collect(submission, Some(index), &directive.line, &mut found)?;
    }
    let own: BTreeSet<&str> = resources_of(submission.line).collect();
    let scripts: BTreeSet<&str> = submission
        .directives
        .iter()
        .flat_map(|directive| resources_of(&directive.line))
        .collect();
    if found.is_empty() && own.is_empty() && scripts.is_empty() {
        return Ok(None);
    }
    let found = winners(found, &own);
    for Found { key, place, .. } in &found {
        let same = if place.directive.is_some() {
            &scripts
        } else {
            &own
        };
        if same.contains(key) {
            let at = at(submission, place.directive);
            return Err(format!(
                "{at}: {key} is also given as a resource (-l {}=…); give it once",
                resource_of(key)
            ));
        }
    }
    let mut read = Vec::new();
    let mut together = PartialTerms::default();
    for Found { key, value, place } in found {
        if key == QUOTE {
            match Order::parse(&value) {
                Ok(_) => read.push((place, key, value)),
                Err(error) => {
                    return Err(format!(
                        "{}: quote: {}",
                        at(submission, place.directive),
                        no_order(&error)
                    ));
                }
            }
            continue;
        }
        let problem = |error: TermsError| format!("{}: {error}", at(submission, place.directive));
        let (given, from_start) = match key {
            "deadline" => terms::from_start(&value),
            _ => (value.as_str(), false),
        };
        if from_start && given.starts_with('@') {
            return Err(format!(
                "{}: deadline: '{value}' is a clock time, which counts from nothing; give '{given}', or how long after its start as '2h{}'",
                at(submission, place.directive),
                terms::FROM_START
            ));
        }
        let terms = one(key, given, deadline).map_err(problem)?;
        together = together.or(terms);
        let counted = if from_start { terms::FROM_START } else { "" };
        read.push((place, key, written(&terms) + counted));
    }
    in_range(together)?;
    Ok(Some(Rewritten {
        options: options(submission, &read),
        script: script(submission, &read),
    }))
}

/// Takes the keys of Libra's that stand in a line.
fn collect(
    submission: &Submission<'_>,
    directive: Option<usize>,
    line: &Line,
    found: &mut Vec<Found>,
) -> Result<(), String> {
    for (index, group) in line.groups.iter().enumerate() {
        let all = group.value_of(b'W').and_then(lists::entries);
        for entry in all.iter().flatten() {
            if let Some(key) = meant_by(&entry.name) {
                return Err(format!(
                    "{}: there is no '{}'; did you mean {key}?",
                    at(submission, directive),
                    String::from_utf8_lossy(&entry.name)
                ));
            }
        }
        let Some((_, entries)) = entries_of(group) else {
            continue;
        };
        let mut here = BTreeSet::new();
        for entry in entries {
            let Some(key) = key_of(&entry.name) else {
                continue;
            };
            if !here.insert(key) {
                let error = TermsError::Twice(key);
                return Err(format!("{}: {error}", at(submission, directive)));
            }
            found.push(Found {
                key,
                value: String::from_utf8_lossy(&entry.value).trim().to_string(),
                place: OptionPosition {
                    directive,
                    group: index,
                },
            });
        }
    }
    Ok(())
}

/// For each key the one that counts, in the order in which they were found.
fn winners(found: Vec<Found>, own: &BTreeSet<&str>) -> Vec<Found> {
    let mut left: Vec<Found> = Vec::new();
    for new in found {
        let before = left.iter().position(|other| other.key == new.key);
        let beaten = new.place.directive.is_some()
            && (own.contains(new.key)
                || before.is_some_and(|before| left[before].place.directive.is_none()));
        if beaten {
            continue;
        }
        if let Some(before) = before {
            left.remove(before);
        }
        left.push(new);
    }
    left
}

fn one(key: &str, value: &str, deadline: ReadDeadline<'_>) -> Result<PartialTerms, TermsError> {
    let mut terms = PartialTerms::default();
    terms.set(key, value, deadline)?;
    in_range_of(terms)?;
    Ok(terms)
}

/// Checks what was given, with harmless values in place of what was not.
fn in_range_of(terms: PartialTerms) -> Result<(), TermsError> {
    let harmless = PartialTerms {
        estimate: Some(1.0),
        deadline: Some(1.0),
        budget: Some(0.0),
        deadline_type: None,
        penalty_rate: None,
        class: None,
    };
    // Which class it will have pbs_server knows.
    (terms.or(harmless))
        .complete_in_batch(&ClassDefaults::default(), Basis::default())
        .map(|_: Completed| ())
}

fn in_range(terms: PartialTerms) -> Result<(), String> {
    in_range_of(terms).map_err(|error| format!("-W: {error}"))
}

/// The value as the server is to get it. No clock is needed to read it.
fn written(terms: &PartialTerms) -> String {
    let seconds = terms.estimate.or(terms.deadline).map(|seconds| {
        // What a clock gave is not worth nanoseconds; rounded down, so that no time is made up.
        let milliseconds = (seconds * 1000.0).floor() / 1000.0;
        duration::exact(if milliseconds > 0.0 {
            milliseconds
        } else {
            seconds
        })
    });
    let budget = terms.budget.map(|budget| {
        if budget.is_infinite() {
            "unlimited".to_string()
        } else {
            budget.to_string()
        }
    });
    let kind = terms.deadline_type.map(|kind| match kind {
        DeadlineType::Hard => "hard".to_string(),
        DeadlineType::Soft => "soft".to_string(),
    });
    let penalty = terms.penalty_rate.map(|rate| rate.to_string());
    let class = terms.class.map(|class| class.word().to_string());
    (seconds.or(budget).or(kind).or(penalty).or(class)).unwrap_or_default()
}

type Read = (OptionPosition, &'static str, String);

/// `key=value,…` of those that `wanted` names.
fn resources(read: &[Read], wanted: impl Fn(&OptionPosition) -> bool) -> Option<String> {
    let list: Vec<String> = read
        .iter()
        .filter(|(place, ..)| wanted(place))
        .map(|(_, key, value)| format!("{}={value}", resource_of(key)))
        .collect();
    (!list.is_empty()).then(|| list.join(","))
}

/// What stands in the place of a `-W` with keys of Libra's. None for other options.
fn instead(group: &Group, resources: Option<String>) -> Option<Vec<Vec<u8>>> {
    let (list, entries) = entries_of(group)?;
    let mut words = Vec::new();
    if !group.flags.is_empty() {
        let mut flags = b"-".to_vec();
        flags.extend_from_slice(&group.flags);
        words.push(flags);
    }
    if let Some(resources) = resources {
        words.push(b"-l".to_vec());
        words.push(resources.into_bytes());
    }
    if let Some(kept) = lists::keep(list, &entries, &|entry| key_of(&entry.name).is_none()) {
        words.push(b"-W".to_vec());
        words.push(kept);
    }
    Some(words)
}

fn options(submission: &Submission<'_>, read: &[Read]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for (index, group) in submission.line.groups.iter().enumerate() {
        let here = OptionPosition {
            directive: None,
            group: index,
        };
        match instead(group, resources(read, |place| *place == here)) {
            Some(new) => words.extend(new),
            None => words.extend_from_slice(&submission.words[group.at.clone()]),
        }
    }
    words
}

/// The script with its `-W` lines rewritten; None if it has no such lines.
fn script(submission: &Submission<'_>, read: &[Read]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut copied = 0;
    for (index, directive) in submission.directives.iter().enumerate() {
        if let Some(line) = directive_line(index, directive, read) {
            text.extend_from_slice(&submission.script[copied..directive.at.start]);
            text.extend(line);
            copied = directive.at.end;
        }
    }
    if copied == 0 {
        return None;
    }
    text.extend_from_slice(&submission.script[copied..]);
    Some(text)
}

fn directive_line(index: usize, directive: &Directive, read: &[Read]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut copied = 0;
    for (number, group) in directive.line.groups.iter().enumerate() {
        let here = OptionPosition {
            directive: Some(index),
            group: number,
        };
        let Some(words) = instead(group, resources(read, |place| *place == here)) else {
            continue;
        };
        let start = directive.words[group.at.start].start;
        text.extend_from_slice(&directive.text[copied..start]);
        let words: Vec<Vec<u8>> = words.iter().map(|word| quoted(word)).collect();
        text.extend(words.join(&b' '));
        copied = directive.words[group.at.end - 1].end;
    }
    if copied == 0 {
        return None;
    }
    text.extend_from_slice(&directive.text[copied..]);
    Some(lines(text))
}

/// Returns true if the job is interactive. Then qsub has the terminal.
pub fn interactive(lines: &[&Line]) -> bool {
    let asked = |entry: &ListItem| {
        entry.name == b"interactive" && entry.value.trim_ascii().eq_ignore_ascii_case(b"true")
    };
    lines.iter().any(|line| {
        line.has(b'I')
            || line
                .values(b'W')
                .filter_map(lists::entries)
                .any(|entries| entries.iter().any(asked))
    })
}

/// The words that stand for the script or command.
pub fn rest(words: &[Vec<u8>], rest: &Rest) -> Vec<Vec<u8>> {
    match rest {
        Rest::Nothing => Vec::new(),
        Rest::Script(at) | Rest::Command(at) => words[*at..].to_vec(),
    }
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
