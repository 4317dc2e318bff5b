//! The `#$` lines of a script, as far as the form says something in their place. Pure.

/// What a line begins with that has options in it.
pub const PREFIX: &str = "#$";

/// Options of a line: the name, its values, and where all of that stands in the line, in bytes.
struct Found<'a> {
    name: &'a str,
    values: Vec<&'a str>,
    from: usize,
    to: usize,
}

/// The options of a script's line; none of another line.
fn options(line: &str) -> Vec<Found<'_>> {
    let Some(rest) = line.strip_prefix(PREFIX) else {
        return Vec::new();
    };
    // '#$' begins other comments as well.
    if !rest.trim_start().starts_with('-') {
        return Vec::new();
    }
    let mut found: Vec<Found<'_>> = Vec::new();
    for (from, word) in words(line).into_iter().skip_while(|(at, _)| *at < 2) {
        let to = from + word.len();
        match found.last_mut() {
            Some(last) if !word.starts_with('-') => {
                last.values.push(word);
                last.to = to;
            }
            _ => found.push(Found {
                // '#$-l' is one word.
                name: word.strip_prefix(PREFIX).unwrap_or(word),
                values: Vec::new(),
                from,
                to,
            }),
        }
    }
    found
}

/// Words and where they begin, quotes and all, the prefix apart.
fn words(line: &str) -> Vec<(usize, &str)> {
    let (mut words, mut begin, mut quote, mut escaped) = (Vec::new(), None, None, false);
    for (at, letter) in line.char_indices().skip(PREFIX.len()) {
        let blank = letter.is_whitespace() && quote.is_none() && !escaped;
        match (blank, begin) {
            (true, Some(from)) => {
                words.push((from, &line[from..at]));
                begin = None;
            }
            (false, None) => begin = Some(at),
            _ => {}
        }
        match quote {
            _ if escaped => escaped = false,
            Some(open) if open == letter => quote = None,
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            None | Some('"') if letter == '\\' => escaped = true,
            _ => {}
        }
    }
    words.extend(begin.map(|from| (from, &line[from..])));
    words
}

/// Returns true if the script has one of these options.
pub fn has(script: &str, names: &[&str]) -> bool {
    (script.lines().flat_map(options)).any(|option| names.contains(&option.name))
}

/// The parallel environment that the script asks for last.
pub fn environment(script: &str) -> Option<&str> {
    let all = script.lines().flat_map(options);
    let named = all.filter(|option| option.name == "-pe");
    named
        .filter_map(|option| option.values.first().copied())
        .next_back()
}

/// What is given in place of the script's own `-q`, `-t` and `-pe`: with options of a command it is so, of two lines that say the same both
/// count, and a question has no other options.
pub fn with(script: &str, given: &[(&str, String)]) -> String {
    if given.is_empty() {
        return script.to_string();
    }
    let (first, rest) = match script.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => (Some(first), rest),
        _ => (None, script),
    };
    let mut text = first.map_or_else(String::new, |first| format!("{first}\n"));
    let all = given.iter().map(|(name, value)| format!(" {name} {value}"));
    text += &format!("{PREFIX}{}\n", all.collect::<String>());
    for line in rest.split_inclusive('\n') {
        let mut at = 0;
        for option in options(line) {
            if given.iter().any(|(name, _)| *name == option.name) {
                text += &line[at..option.from];
                at = option.to;
            }
        }
        text += &line[at..];
    }
    text
}

/// What is to read the script, for `-S`: what its first line names, since a queue may have another shell for all scripts. With options in
/// that line, a program that has the kernel look at it.
pub fn interpreter(script: &str) -> &str {
    let first = script
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("#!"));
    let mut words = first.unwrap_or_default().split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(interpreter), None) if interpreter.starts_with('/') => interpreter,
        (Some(_), _) => "/usr/bin/env",
        (None, _) => "/bin/sh",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "#!/bin/sh\n#$ -q 'a b' -N x\n#$-pe smp 4 -l estimate=1,deadline=2\n# $ -q none\n#$HOME -q none\necho '#$ -q none'\n#$ -j y -t 1-3\n";

    #[test]
    fn options_are_found_where_they_are_some() {
        for name in ["-q", "-N", "-pe", "-l", "-j", "-t"] {
            assert!(has(SCRIPT, &[name]), "{name}");
        }
        assert!(!has(SCRIPT, &["-S", "-o"]) && !has("", &["-q"]) && !has("#$\n#$ \n", &["-q"]));
        assert_eq!(environment(SCRIPT), Some("smp"));
        assert_eq!(environment("#$ -pe\n"), None);
        assert_eq!(environment("#$ -pe a 1\n#$ -pe b 2\n"), Some("b"));
    }

    #[test]
    fn what_the_form_says_takes_the_place_of_the_scripts() {
        assert_eq!(with(SCRIPT, &[]), SCRIPT);
        let given = [("-q", "main.q".to_string()), ("-pe", "smp 2".to_string())];
        let asked = "#!/bin/sh\n#$ -q main.q -pe smp 2\n#$  -N x\n#$ -l estimate=1,deadline=2\n# $ -q none\n#$HOME -q none\necho '#$ -q none'\n#$ -j y -t 1-3\n";
        assert_eq!(with(SCRIPT, &given), asked);
        assert_eq!(with("", &given[..1]), "#$ -q main.q\n");
        assert_eq!(with("#$ -q \u{e4}\\ b", &given[..1]), "#$ -q main.q\n#$ ");
    }

    #[test]
    fn the_first_line_says_what_reads_it() {
        for (script, interpreter_of) in [
            ("#!/bin/bash\n", "/bin/bash"),
            ("#! /bin/bash -l\n", "/usr/bin/env"),
            ("#!/usr/bin/env python3\n", "/usr/bin/env"),
            ("#!python3\n", "/usr/bin/env"),
            ("echo\n", "/bin/sh"),
            ("", "/bin/sh"),
        ] {
            assert_eq!(interpreter(script), interpreter_of, "{script}");
        }
    }
}
