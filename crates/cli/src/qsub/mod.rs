//! `libra qsub`: the front end for the qsub of PBS, also under the name `qsub` itself.
//!
//! Turns Libra's keys in `-W` lists, on the command line and in `#PBS` lines, into resources, which
//! the stock qsub takes; and says afterwards what Libra decided. Whoever uses none of these keys gets
//! the real qsub in place of this process, with arguments and input as they were.
//!
//! Pure: [`options`], [`lists`], [`directives`], [`rewrite`]. Edges: [`find`] the real one,
//! [`hand_over`] scripts, [`running`] it, [`verdict`] of the server.

pub(super) mod directives;
pub(super) mod find;
mod hand_over;
pub(super) mod lists;
pub(super) mod options;
mod rewrite;
mod running;
mod verdict;

use super::{Done, Failure, terms};
use hand_over::{Script, Source};
use options::Line;
use rewrite::Submission;
use running::Call;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The words for qsub, where this process was called as qsub or as `libra qsub`.
///
/// They must not be read as options of Libra's: `-v` and `-h` are qsub's. `libra qsub --help` alone
/// is ours, as qsub has no help.
pub fn called(mut words: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let program = words.next()?;
    if Path::new(&program).file_name() == Some(OsStr::new("qsub")) {
        return Some(words.collect());
    }
    if words.next()? != "qsub" {
        return None;
    }
    let rest: Vec<OsString> = words.collect();
    (rest != ["--help"]).then_some(rest)
}

/// Submits. Returns only where the real qsub did not take the place of this process.
pub fn qsub(words: Vec<OsString>) -> Done {
    running::not_in_a_circle()?;
    let real = find::real(&find::Surroundings::of_this_process()).map_err(Failure::Usage)?;
    let words: Vec<Vec<u8>> = words.into_iter().map(OsString::into_vec).collect();
    let Some(line) = options::parse(&words) else {
        // It has its own words for what is wrong.
        return Call {
            real,
            arguments: words,
            input: None,
        }
        .replace();
    };
    let source = match hand_over::source(&words, &line) {
        // The terminal is the job's.
        Source::Input if rewrite::interactive(&[&line]) => Source::None,
        source => source,
    };
    let script = hand_over::read(source);
    let prefix = std::env::var_os("PBS_DPREFIX");
    let directives = directives::directives(&script.text, directive_prefix(&line, prefix.as_ref()));
    let rewritten = rewrite::rewrite(
        &Submission {
            words: &words,
            line: &line,
            script: &script.text,
            directives: &directives,
            script_name: &name_in_messages(source),
        },
        &terms::deadline,
    )
    .map_err(Failure::Usage)?;
    let lines: Vec<&Line> = std::iter::once(&line)
        .chain(directives.iter().map(|directive| &directive.line))
        .collect();
    let Some(rewritten) = rewritten else {
        let input = input_again(&script)?;
        return Call {
            real,
            arguments: words,
            input,
        }
        .replace();
    };
    let mut arguments = rewritten.options;
    // Open until qsub has read it.
    let mut handed_over: Option<File> = None;
    let mut input = None;
    match (rewritten.script, source) {
        (Some(text), Source::File(path)) => {
            let file = nameless(&text)?;
            if !lines.iter().any(|line| line.last(b'N').is_some()) {
                arguments.push(b"-N".to_vec());
                arguments.push(hand_over::job_name(path).to_vec());
            }
            arguments.push(hand_over::path_of(&file));
            handed_over = Some(file);
        }
        (Some(text), _) => {
            arguments.extend(rewrite::rest(&words, &line.rest));
            input = Some(nameless(&text)?);
        }
        (None, _) => {
            arguments.extend(rewrite::rest(&words, &line.rest));
            input = input_again(&script)?;
        }
    }
    let quiet = lines.iter().any(|line| line.has(b'z')) || !verdict::can_be_read();
    let server = lines.iter().find_map(|line| line.last(b'q'));
    let server = server.and_then(|queue| {
        let at = queue.iter().position(|byte| *byte == b'@')?;
        Some(&queue[at + 1..]).filter(|server| !server.is_empty())
    });
    let call = Call {
        real,
        arguments,
        input,
    };
    let done = if quiet || rewrite::interactive(&lines) {
        call.replace()
    } else {
        call.watch(server)
    };
    drop(handed_over);
    done
}

/// A script that is there no more, for qsub to read.
fn input_again(script: &Script) -> Result<Option<File>, Failure> {
    if script.taken {
        nameless(&script.text).map(Some)
    } else {
        Ok(None)
    }
}

fn nameless(text: &[u8]) -> Result<File, Failure> {
    hand_over::nameless(text).map_err(Failure::Script)
}

/// The prefix of directives, as qsub chooses it.
fn directive_prefix<'a>(line: &'a Line, environment: Option<&'a OsString>) -> &'a [u8] {
    match (line.last(b'C'), environment) {
        (Some(prefix), _) => &prefix[..prefix.len().min(directives::LONGEST_PREFIX)],
        (None, Some(prefix)) => prefix.as_bytes(),
        (None, None) => directives::DEFAULT_PREFIX,
    }
}

fn name_in_messages(source: Source<'_>) -> String {
    match source {
        Source::File(path) => path.display().to_string(),
        Source::None | Source::Input => "standard input".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_called() {
        for (words, expected) in [
            (&["qsub"][..], Some(&[][..])),
            (&["/usr/local/bin/qsub", "-v", "A"], Some(&["-v", "A"])),
            (&["qsub", "--help"], Some(&["--help"])),
            (&["libra", "qsub"], Some(&[])),
            (&["libra", "qsub", "-h", "j"], Some(&["-h", "j"])),
            (&["libra", "qsub", "--help", "j"], Some(&["--help", "j"])),
            (&["libra", "qsub", "--help"], None),
            (&["libra", "run", "qsub"], None),
            (&["libra"], None),
            (&[], None),
        ] {
            let called = called(words.iter().map(OsString::from));
            let expected = expected.map(|words| words.iter().map(OsString::from).collect());
            assert_eq!(called, expected, "{words:?}");
        }
    }

    #[test]
    fn prefixes_of_directives() {
        let prefix = |words: &[&str], environment: Option<&str>| {
            let line = options::parse(words).expect("valid");
            let environment = environment.map(OsString::from);
            String::from_utf8_lossy(directive_prefix(&line, environment.as_ref())).into_owned()
        };
        assert_eq!(prefix(&[], None), "#PBS");
        assert_eq!(prefix(&[], Some("#J")), "#J");
        assert_eq!(prefix(&[], Some("")), "");
        assert_eq!(prefix(&["-C", "#A", "-C#B"], Some("#J")), "#B");
        assert_eq!(prefix(&["-C", ""], Some("#J")), "");
        assert_eq!(prefix(&["-C", &"x".repeat(40)], None), "x".repeat(32));
    }
}
