//! The directives of a job script (`#PBS -W block=true`), found and split as qsub does it.
//!
//! Pure. What qsub would refuse is not read; qsub then says so itself.

use super::lists::is_space;
use super::options::{self, Line, Rest};
use std::ops::Range;

/// The prefix where neither `-C` nor the environment names one.
pub const DEFAULT_PREFIX: &[u8] = b"#PBS";
/// qsub cuts what `-C` names to this length.
pub const LONGEST_PREFIX: usize = 32;

/// One directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Number of its first line, from 1.
    pub number: usize,
    /// Where it stands in the script, with what continues it and its line ending.
    pub at: Range<usize>,
    /// The same as one line, as qsub joins it.
    pub text: Vec<u8>,
    /// Where the words of its options stand in `text`.
    pub words: Vec<Range<usize>>,
    /// Its options.
    pub line: Line,
}

/// The directives of a script that qsub would take.
pub fn directives(script: &[u8], prefix: &[u8]) -> Vec<Directive> {
    let mut found = Vec::new();
    if prefix.is_empty() {
        return found;
    }
    let mut number = 1;
    let mut start = 0;
    while start < script.len() {
        let end = line_end(script, start);
        let line = &script[start..end];
        let (mut next, mut lines) = (end, 1);
        if let Some(options_at) = directive(line, prefix) {
            let mut text = line.to_vec();
            if let Some(backslash) = continued(line) {
                text.truncate(backslash);
                let (continuation, count) = continuation(&script[end..]);
                next += count.bytes;
                lines += count.lines;
                text.extend_from_slice(&continuation);
            }
            if let Some((words, line)) = read(&text, options_at) {
                found.push(Directive {
                    number,
                    at: start..next,
                    text,
                    words,
                    line,
                });
            }
        } else if executable(line) {
            break;
        }
        number += lines;
        start = next;
    }
    found
}

fn line_end(script: &[u8], start: usize) -> usize {
    let rest = &script[start..];
    let newline = rest.iter().position(|byte| *byte == b'\n');
    newline.map_or(script.len(), |newline| start + newline + 1)
}

fn spaces(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_space(**byte)).count()
}

/// Where the options start, if this line is a directive.
fn directive(line: &[u8], prefix: &[u8]) -> Option<usize> {
    let start = spaces(line);
    line[start..]
        .starts_with(prefix)
        .then_some(start + prefix.len())
}

/// Returns true if qsub looks for directives no more from this line on.
fn executable(line: &[u8]) -> bool {
    if line.starts_with(b":") || line.starts_with(b"#!") {
        return false;
    }
    line[spaces(line)..]
        .first()
        .is_some_and(|first| *first != b'#')
}

/// Where the backslash stands that continues this line; spaces may follow it.
fn continued(line: &[u8]) -> Option<usize> {
    let last = line.iter().rposition(|byte| !is_space(*byte))?;
    (line[last] == b'\\').then_some(last)
}

/// How much of a script was read.
#[derive(Default)]
struct Count {
    bytes: usize,
    lines: usize,
}

/// What continues a line that ended in a backslash, as one line. qsub joins these lines before it
/// puts them behind the first, so a second backslash at the end of the first continues nothing.
fn continuation(script: &[u8]) -> (Vec<u8>, Count) {
    let mut text = Vec::new();
    let mut count = Count::default();
    while count.bytes < script.len() {
        let end = line_end(script, count.bytes);
        text.extend_from_slice(&script[count.bytes..end]);
        count.bytes = end;
        count.lines += 1;
        match continued(&text) {
            Some(backslash) => text.truncate(backslash),
            None => break,
        }
    }
    (text, count)
}

/// A joined directive as lines that qsub joins to the same. Only its last line ending can be a letter of a word, and a
/// backslash before it would continue the line.
pub fn lines(mut text: Vec<u8>) -> Vec<u8> {
    if let Some(backslash) = continued(&text) {
        text.splice(backslash + 1..backslash + 1, *b"\\\n");
    }
    text
}

fn read(text: &[u8], options_at: usize) -> Option<(Vec<Range<usize>>, Line)> {
    let words = split(&text[options_at..])?;
    let values: Vec<&[u8]> = words.iter().map(|(_, value)| value.as_slice()).collect();
    let line = options::parse(&values)?;
    // A directive has no script and no command.
    if line.rest != Rest::Nothing {
        return None;
    }
    let places = words
        .iter()
        .map(|(at, _)| options_at + at.start..options_at + at.end);
    Some((places.collect(), line))
}

/// The words of a directive, with where they stand: quotes of both kinds, and backslashes outside
/// of them. None if a quote is not closed.
fn split(text: &[u8]) -> Option<Vec<(Range<usize>, Vec<u8>)>> {
    let mut words = Vec::new();
    let mut next = spaces(text);
    let mut start = next;
    let mut word = Vec::new();
    while let Some(byte) = text.get(next) {
        match byte {
            b'"' | b'\'' => {
                let inside = &text[next + 1..];
                let close = inside.iter().position(|other| other == byte)?;
                word.extend_from_slice(&inside[..close]);
                next += close + 2;
            }
            b'\\' => {
                // At the very end the line would have been continued.
                word.push(*text.get(next + 1)?);
                next += 2;
            }
            byte if is_space(*byte) => {
                words.push((start..next, std::mem::take(&mut word)));
                next += spaces(&text[next..]);
                start = next;
            }
            byte => {
                word.push(*byte);
                next += 1;
            }
        }
    }
    if next != start {
        words.push((start..next, word));
    }
    Some(words)
}

/// A word that [`split`] reads as `value`.
pub fn quoted(value: &[u8]) -> Vec<u8> {
    if value.is_empty() {
        return b"''".to_vec();
    }
    let mut word = Vec::with_capacity(value.len());
    for byte in value {
        if is_space(*byte) || matches!(byte, b'"' | b'\'' | b'\\') {
            word.push(b'\\');
        }
        word.push(*byte);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of each directive, with its line number.
    fn read(script: &str, prefix: &str) -> Vec<String> {
        directives(script.as_bytes(), prefix.as_bytes())
            .iter()
            .map(|directive| {
                let mut text = directive.number.to_string();
                for group in &directive.line.groups {
                    for flag in &group.flags {
                        text.push_str(&format!(" {}", char::from(*flag)));
                    }
                    if let Some((letter, value)) = &group.valued {
                        let value = String::from_utf8_lossy(value);
                        text.push_str(&format!(" {}={value}", char::from(*letter)));
                    }
                }
                text
            })
            .collect()
    }

    #[test]
    fn where_directives_are() {
        for (script, expected) in [
            ("", &[][..]),
            ("#PBS -N a", &["1 N=a"]),
            ("#!/bin/sh\n#PBS -N a\n#PBS -z\n", &["2 N=a", "3 z"]),
            ("\n  \t\n   #PBS -N a\n", &["3 N=a"]),
            ("# a comment\n:label\n#PBS -N a\n", &["3 N=a"]),
            ("#PBS -N a\necho\n#PBS -z\n", &["1 N=a"]),
            // Only at the very start of a line is a colon no command.
            (" :\n#PBS -N a\n", &[]),
            ("#PBS-Na\n", &["1 N=a"]),
            ("#PBSX -N a\n", &[]),
            ("#pbs -N a\n# PBS -N b\n##PBS -N c\n", &[]),
            ("#PBS\n#PBS -z\n", &["1", "2 z"]),
            ("#PBS -N a -z -l x=1\n", &["1 N=a z l=x=1"]),
            ("#PBS -N a # a name\n#PBS -z\n", &["2 z"]),
            ("#PBS -Q\n#PBS -z --\n#PBS -- sleep\n", &[]),
            ("#PBS -W a=b,c=d\n", &["1 W=a=b,c=d"]),
            ("#PBS -W \"a=b, c=d\"\n", &["1 W=a=b, c=d"]),
            ("#PBS -v 'A=\"x y\"',B=2\n", &["1 v=A=\"x y\",B=2"]),
            ("#PBS -N a\\ b\\\"c\n", &["1 N=a b\"c"]),
            ("#PBS -N \"a\n#PBS -z\n", &["2 z"]),
            ("#PBS -N '' -z\n", &["1 N= z"]),
            ("#PBS -W a=b, \\\n c=d\n", &[]),
            ("#PBS -W a=b,\\\nc=d\n#PBS -z\n", &["1 W=a=b,c=d", "3 z"]),
            ("#PBS -W \\  \n a=b \\\n -z\n#PBS -h", &["1 W=a=b z", "4 h"]),
            ("#PBS -N a\\", &["1 N=a"]),
            // The first of two backslashes takes the line ending as a letter.
            ("#PBS -N a \\\\\n\n\n#PBS -z\n", &["4 z"]),
            ("#PBS -N a \\\n\\\\\n\n -z\n#PBS -h", &["1 N=a z", "5 h"]),
            ("#PBS -N a\r\n", &["1 N=a"]),
        ] {
            assert_eq!(read(script, "#PBS"), expected, "{script:?}");
        }
    }

    #[test]
    fn other_prefixes() {
        assert_eq!(read("#PBS -z\n#J -h\n", "#J"), ["2 h"]);
        assert_eq!(read("QSUB -z\nQSUB -h\necho\n", "QSUB"), ["1 z", "2 h"]);
        assert_eq!(read("#PBS -z\n", ""), [""; 0]);
    }

    #[test]
    fn what_is_quoted_reads_back() {
        for word in [
            "",
            "a",
            "a b",
            "\"",
            "'x' \"y\" \\z",
            "\u{fc} \t",
            "a=b,c=d",
        ] {
            let mut text = quoted(word.as_bytes());
            text.extend_from_slice(b" -z");
            let words = split(&text).expect(word);
            assert_eq!(words.len(), 2, "{word:?}");
            assert_eq!(words[0].1, word.as_bytes());
        }
    }
}
