//! Changes of slurm.conf and plugstack.conf, to the byte: comments, order, blanks and everything else stay. Pure.

use super::conf::{continued, without_comment, words};
use super::plugstack::SPANK;
use std::ops::Range;
use std::path::Path;

/// Where the value of a key stands; of several the last. None if the key is not set here.
///
/// # Errors
/// A value that goes on in the next line is nobody's to change but an editor's.
fn find(text: &str, key: &str) -> Result<Option<Range<usize>>, String> {
    let (mut found, mut start) = (None, 0);
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let line = without_comment(raw.trim_end_matches(['\n', '\r']));
        for (at, _) in line.char_indices() {
            let Some(value) = value_at(line, at, key) else {
                continue;
            };
            if line.len() == value.end && continued(line).is_some() {
                return Err(format!(
                    "line {}: the value of {key} goes on in the next line",
                    index + 1
                ));
            }
            found = Some(start + value.start..start + value.end);
        }
        start += raw.len();
    }
    Ok(found)
}

/// The value of a key that begins at a place of a line, its quotes included.
fn value_at(line: &str, at: usize, key: &str) -> Option<Range<usize>> {
    let before = &line[..at];
    let word = line.get(at..at + key.len())?;
    let begins = before.ends_with(char::is_whitespace) || before.is_empty();
    if !begins || !word.eq_ignore_ascii_case(key) || before.matches('"').count() % 2 == 1 {
        return None;
    }
    let after = line[at + key.len()..].trim_start().strip_prefix('=')?;
    let value = after.trim_start();
    let start = line.len() - value.len();
    let length = match value.strip_prefix('"') {
        Some(quoted) => quoted.find('"')? + 2,
        None => value.find(char::is_whitespace).unwrap_or(value.len()),
    };
    Some(start..start + length)
}

/// Adds a word to a key that is a list, behind the others; adds the line where there is none.
///
/// # Errors
/// The value cannot be changed: see [`find`].
pub fn with_word(text: &str, key: &str, word: &str) -> Result<String, String> {
    let Some(place) = find(text, key)? else {
        return Ok(appended(text, &format!("{key}={word}")));
    };
    let value = text[place.clone()].trim_matches('"');
    if words(value).iter().any(|w| w.eq_ignore_ascii_case(word)) {
        return Ok(text.to_string());
    }
    let mut list = words(value);
    list.push(word);
    Ok(put(text, place, &list.join(",")))
}

/// Takes a word out of a key that is a list; the line goes with the last word.
///
/// # Errors
/// The value cannot be changed: see [`find`].
pub fn without_word(text: &str, key: &str, word: &str) -> Result<String, String> {
    let Some(place) = find(text, key)? else {
        return Ok(text.to_string());
    };
    let value = text[place.clone()].trim_matches('"');
    let left: Vec<&str> = (words(value).into_iter())
        .filter(|w| !w.eq_ignore_ascii_case(word))
        .collect();
    if left.len() == words(value).len() {
        return Ok(text.to_string());
    }
    if !left.is_empty() {
        return Ok(put(text, place, &left.join(",")));
    }
    let start = text[..place.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[place.end..]
        .find('\n')
        .map_or(text.len(), |at| place.end + at + 1);
    let before_ends = text[..start].trim_end_matches(['\n', '\r']);
    let alone = text[start..place.start]
        .trim_end_matches(['=', ' ', '\t'])
        .trim()
        .eq_ignore_ascii_case(key)
        && text[place.end..end].trim().is_empty()
        && before_ends
            .lines()
            .last()
            .and_then(|l| continued(without_comment(l)))
            .is_none();
    if alone {
        return Ok(put(text, start..end, ""));
    }
    // Something else is on the line: only the pair goes.
    let key_at = text[start..place.start]
        .to_ascii_lowercase()
        .rfind(&key.to_ascii_lowercase())
        .unwrap_or_default();
    Ok(put(text, start + key_at..place.end, ""))
}

fn put(text: &str, place: Range<usize>, new: &str) -> String {
    format!("{}{new}{}", &text[..place.start], &text[place.end..])
}

/// A line more at the end. The last line may lack its end, or claim to go on.
pub fn appended(text: &str, line: &str) -> String {
    let mut text = text.to_string();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let last = text.lines().last().unwrap_or_default();
    if continued(without_comment(last)).is_some() {
        text.push('\n');
    }
    text + line + "\n"
}

/// Takes out the lines of plugstack.conf that load Libra's plugin.
pub fn without_plugin(text: &str) -> String {
    let other = |line: &&str| {
        let mut words = without_comment(line).split_whitespace();
        let loads = matches!(words.next(), Some("required" | "optional"));
        let name = words.next().map(Path::new).and_then(Path::file_name);
        !(loads && name == Some(SPANK.as_ref()))
    };
    text.split_inclusive('\n').filter(other).collect()
}

/// The lines that differ, `-` before and `+` after.
pub fn difference(before: &str, after: &str) -> Vec<String> {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    // The longest common subsequence: such files are short, and so is what changes.
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    let tail = (a.iter().rev().zip(b.iter().rev()))
        .take_while(|(a, b)| a == b)
        .count();
    let (a, b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    let mut length = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            length[i][j] = match a[i] == b[j] {
                true => length[i + 1][j + 1] + 1,
                false => length[i + 1][j].max(length[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && length[i + 1][j] >= length[i][j + 1]) {
            lines.push(format!("-{}", a[i]));
            i += 1;
        } else {
            lines.push(format!("+{}", b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(text: &str) -> String {
        with_word(text, "JobSubmitPlugins", "libra").expect("an edit")
    }

    fn take(text: &str) -> String {
        without_word(text, "JobSubmitPlugins", "libra").expect("an edit")
    }

    #[test]
    fn a_word_comes_to_the_list_and_all_else_stays() {
        let text = "A=1 # JobSubmitPlugins=no\r\n  jobsubmitplugins = lua,x  # mine\nB=\"JobSubmitPlugins=q\"\n";
        let edited = add(text);
        assert_eq!(
            edited,
            "A=1 # JobSubmitPlugins=no\r\n  jobsubmitplugins = lua,x,libra  # mine\nB=\"JobSubmitPlugins=q\"\n"
        );
        assert_eq!(add(&edited), edited);
        assert_eq!(take(&edited), text);
        assert_eq!(
            add("JobSubmitPlugins=\"a\"\n"),
            "JobSubmitPlugins=a,libra\n"
        );
        assert_eq!(
            add("XJobSubmitPlugins=a\n"),
            "XJobSubmitPlugins=a\nJobSubmitPlugins=libra\n"
        );
    }

    #[test]
    fn a_line_comes_to_the_end_whatever_the_end_is() {
        assert_eq!(add(""), "JobSubmitPlugins=libra\n");
        assert_eq!(add("A=1"), "A=1\nJobSubmitPlugins=libra\n");
        assert_eq!(add("A=1,\\"), "A=1,\\\n\nJobSubmitPlugins=libra\n");
        assert_eq!(add("A=1,\\\n"), "A=1,\\\n\nJobSubmitPlugins=libra\n");
        assert_eq!(add("A=1 # \\\n"), "A=1 # \\\nJobSubmitPlugins=libra\n");
    }

    #[test]
    fn the_last_word_takes_the_line_along_and_nothing_else() {
        assert_eq!(take("A=1\nJobSubmitPlugins=libra\nB=2"), "A=1\nB=2");
        assert_eq!(take("A=1 JobSubmitPlugins=libra B=2\n"), "A=1  B=2\n");
        assert_eq!(take("JobSubmitPlugins=libra # why\n"), " # why\n");
        assert_eq!(
            take("JobSubmitPlugins=a,libra,b\n"),
            "JobSubmitPlugins=a,b\n"
        );
        assert_eq!(take("A=1\n"), "A=1\n");
        // The line before goes on: without this one it would go on in the one after.
        assert_eq!(
            take("A=1 \\\nJobSubmitPlugins=libra\nB=2\n"),
            "A=1 \\\n\nB=2\n"
        );
    }

    #[test]
    fn a_value_over_two_lines_is_left_to_an_editor() {
        let error = with_word("JobSubmitPlugins=a,\\\nb\n", "JobSubmitPlugins", "libra");
        assert!(error.expect_err("not done").contains("line 1"));
        assert!(with_word("JobSubmitPlugins=a \\\nB=1\n", "JobSubmitPlugins", "libra").is_ok());
    }

    #[test]
    fn lines_of_the_plugin_go_and_no_others() {
        let text = "optional libra_spank.so config=/c\nrequired /x/libra_spank.so\n# optional libra_spank.so\noptional a.so libra_spank.so";
        assert_eq!(
            without_plugin(text),
            "# optional libra_spank.so\noptional a.so libra_spank.so"
        );
    }

    #[test]
    fn the_difference_is_the_lines_that_differ() {
        assert_eq!(
            difference("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n"),
            ["-b", "+x", "+e"]
        );
        assert!(difference("a\n", "a\n").is_empty());
    }

    proptest! {
        /// Whatever the file: adding twice is adding once, and taking out what was added to a file without the key gives
        /// it back (but for a last line without its end).
        #[test]
        fn adding_is_idempotent_and_can_be_undone(lines in prop::collection::vec("[ -~]{0,30}", 0..8)) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            if let Ok(once) = with_word(&text, "Key", "libra") {
                prop_assert_eq!(with_word(&once, "Key", "libra"), Ok(once.clone()));
                if find(&text, "Key") == Ok(None) {
                    let undone = without_word(&once, "Key", "libra").expect("undone");
                    prop_assert_eq!(undone.trim_end_matches('\n'), text.trim_end_matches('\n'));
                }
            }
        }
    }
}
