//! qsub's options, read as qsub reads them: getopt(3) of the C library with qsub's own option
//! string, and what qsub checks itself around `--` and the script.
//!
//! Pure. What qsub would refuse is not read at all (`None`): qsub then says so itself.

use std::ops::Range;

/// Options with a value. One that is missing here would make its value look like a script.
const WITH_VALUE: &[u8] = b"aACcejJklmMNopqrRSuvWP";
/// Options without one.
const FLAGS: &[u8] = b"fhIVXz";

/// The words of one option: `-z`, `-zWblock=true`, `-N name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which words: one, or two where the value is a word of its own.
    pub at: Range<usize>,
    /// Options without a value, in their order.
    pub flags: Vec<u8>,
    /// The option with a value, which comes last.
    pub valued: Option<(u8, Vec<u8>)>,
}

impl Group {
    /// The value, where this is the option `letter`.
    pub fn value_of(&self, letter: u8) -> Option<&[u8]> {
        match &self.valued {
            Some((found, value)) if *found == letter => Some(value),
            _ => None,
        }
    }
}

/// What comes after the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: the script comes on standard input.
    Nothing,
    /// The script, at this place.
    Script(usize),
    /// `--` and a command, from this place.
    Command(usize),
}

/// A command line of qsub, or the options of one directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub groups: Vec<Group>,
    pub rest: Rest,
}

impl Line {
    /// The value of an option: qsub takes the last one.
    pub fn last(&self, letter: u8) -> Option<&[u8]> {
        self.values(letter).last()
    }

    /// The values of an option, in their order.
    pub fn values(&self, letter: u8) -> impl Iterator<Item = &[u8]> {
        self.groups
            .iter()
            .filter_map(move |group| group.value_of(letter))
    }

    /// Returns true if this option, one without a value, is among them.
    pub fn has(&self, flag: u8) -> bool {
        self.groups.iter().any(|group| group.flags.contains(&flag))
    }
}

/// Reads the words after the program's name. None if qsub would print its usage.
pub fn parse<Word: AsRef<[u8]>>(words: &[Word]) -> Option<Line> {
    let mut groups = Vec::new();
    let mut rest = Rest::Nothing;
    let mut next = 0;
    while let Some(word) = words.get(next).map(AsRef::as_ref) {
        if word == b"--" {
            // qsub wants a command after it.
            words.get(next + 1)?;
            rest = Rest::Command(next);
            break;
        }
        let Some(letters) = word.strip_prefix(b"-").filter(|rest| !rest.is_empty()) else {
            // getopt would look for options behind it, and qsub refuses any that it finds there.
            if next + 1 != words.len() {
                return None;
            }
            rest = Rest::Script(next);
            break;
        };
        let group = group(letters, next, words)?;
        next = group.at.end;
        groups.push(group);
    }
    // qsub takes a value `--` right before what is left for the end of the options, and stops.
    let before = next.checked_sub(1).map(|last| words[last].as_ref());
    if !matches!(rest, Rest::Command(_)) && before == Some(b"--") {
        return None;
    }
    Some(Line { groups, rest })
}

/// Reads the word at `at`, whose letters after the dash these are.
fn group<Word: AsRef<[u8]>>(letters: &[u8], at: usize, words: &[Word]) -> Option<Group> {
    let mut flags = Vec::new();
    for (index, letter) in letters.iter().enumerate() {
        if FLAGS.contains(letter) {
            flags.push(*letter);
        } else if WITH_VALUE.contains(letter) {
            let attached = &letters[index + 1..];
            let (value, end) = if attached.is_empty() {
                (words.get(at + 1)?.as_ref(), at + 2)
            } else {
                (attached, at + 1)
            };
            return Some(Group {
                at: at..end,
                flags,
                valued: Some((*letter, value.to_vec())),
            });
        } else {
            return None;
        }
    }
    Some(Group {
        at: at..at + 1,
        flags,
        valued: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As text: options with their values, then what is left.
    fn read(words: &[&str]) -> Option<String> {
        let line = parse(words)?;
        let mut text = Vec::new();
        for group in &line.groups {
            text.extend(group.flags.iter().map(|flag| char::from(*flag).to_string()));
            if let Some((letter, value)) = &group.valued {
                let value = String::from_utf8_lossy(value);
                text.push(format!("{}={value}", char::from(*letter)));
            }
        }
        text.push(match line.rest {
            Rest::Nothing => "stdin".to_string(),
            Rest::Script(at) => format!("script {}", words[at]),
            Rest::Command(at) => format!("command {}", words[at + 1..].join(" ")),
        });
        Some(text.join("; "))
    }

    #[test]
    fn what_qsub_takes() {
        for (words, expected) in [
            (&[][..], "stdin"),
            (&["-"], "script -"),
            (&[""], "script "),
            (&["job.sh"], "script job.sh"),
            (&["-N", "x", "job.sh"], "N=x; script job.sh"),
            (&["-Nx", "job.sh"], "N=x; script job.sh"),
            (&["-zhNx", "job.sh"], "z; h; N=x; script job.sh"),
            (&["-zh", "-V"], "z; h; V; stdin"),
            (&["-zW", "a=b", "j"], "z; W=a=b; script j"),
            (&["-l", "-W", "j"], "l=-W; script j"),
            (&["-N", "", "j"], "N=; script j"),
            (&["-NW", "j"], "N=W; script j"),
            (&["-z", "--", "sleep", "-W", "--"], "z; command sleep -W --"),
            (&["-N", "--", "--", "sleep"], "N=--; command sleep"),
            (&["-N", "--", "-z", "j"], "N=--; z; script j"),
            (&["-W", "a=b", "--", "-x"], "W=a=b; command -x"),
            (&["-q", "-", "-"], "q=-; script -"),
        ] {
            assert_eq!(read(words).as_deref(), Some(expected), "{words:?}");
        }
    }

    #[test]
    fn what_qsub_refuses_is_left_to_it() {
        for words in [
            &["-Q"][..],
            &["--version"],
            &["--help"],
            &["-W"],
            &["-zN"],
            &["--"],
            &["-z", "--"],
            &["job.sh", "-z"],
            &["job.sh", "argument"],
            &["job.sh", "--", "sleep"],
            &["-", "-z"],
            &["-N", "--"],
            &["-N", "--", "job.sh"],
            &["-N", "--", "--"],
        ] {
            assert_eq!(read(words), None, "{words:?}");
        }
    }
}
