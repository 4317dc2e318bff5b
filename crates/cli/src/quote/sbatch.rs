//! The `#SBATCH` lines of a script, as the options that sbatch would take from them, as far as a price depends on them.
//!
//! Pure, but for the clock that a deadline at a clock time is read with. What sbatch would not take is left to it, unless a price
//! depends on it.

use libra_slurm::OPTIONS;
use libra_slurm::records::Memory;
use libra_slurm::submission::Submission;

/// How each line begins.
const PREFIX: &str = "#SBATCH";

/// Options with a value, by their letters; those that are not here have none, or their value is no matter.
const LETTERS: [(char, &str); 12] = [
    ('a', "array"),
    ('b', "begin"),
    ('C', "constraint"),
    ('c', "cpus-per-task"),
    ('d', "dependency"),
    ('H', "hold"),
    ('N', "nodes"),
    ('n', "ntasks"),
    ('p', "partition"),
    ('t', "time"),
    ('w', "nodelist"),
    ('x', "exclude"),
];

/// Options of sbatch without a value.
const FLAGS: [&str; 12] = [
    "contiguous",
    "exclusive",
    "hold",
    "ignore-pbs",
    "no-kill",
    "no-requeue",
    "overcommit",
    "oversubscribe",
    "parsable",
    "requeue",
    "spread-job",
    "test-only",
];

/// Letters of the same, and of those whose value can only be attached.
const FLAG_LETTERS: &str = "hHIkOsvVW";

/// Returns true if the script has such lines.
pub fn has_lines(script: &str) -> bool {
    lines(script).next().is_some()
}

/// The lines, with their numbers: up to the first that is neither empty nor a comment.
fn lines(script: &str) -> impl Iterator<Item = (usize, &str)> {
    (script.lines().enumerate())
        .take_while(|(_, line)| line.trim().is_empty() || line.trim_start().starts_with('#'))
        .filter_map(|(number, line)| Some((number + 1, line.strip_prefix(PREFIX)?)))
        .filter(|(_, rest)| rest.starts_with(char::is_whitespace))
}

/// What the script asks for. `at`: seconds from now until a time, as `--deadline` has it; `now`: Unix time.
///
/// # Errors
/// The line, and what is wrong in it.
pub fn submission(
    script: &str,
    name: &str,
    now: f64,
    at: &dyn Fn(&str) -> Result<f64, String>,
) -> Result<Submission, String> {
    let mut submission = Submission::default();
    for (number, line) in lines(script) {
        take(&mut submission, &words(line), now, at)
            .map_err(|problem| format!("{name}, line {number}: {problem}"))?;
    }
    Ok(submission)
}

/// Words of a line, as sbatch splits it: quotes of both kinds, backslashes, and what follows a `#` is a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

fn take(
    submission: &mut Submission,
    words: &[String],
    now: f64,
    at: &dyn Fn(&str) -> Result<f64, String>,
) -> Result<(), String> {
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let (name, attached) = match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(long), _) => match long.split_once('=') {
                Some((name, value)) => (name.to_string(), Some(value.to_string())),
                None => (long.to_string(), None),
            },
            (None, Some(short)) => {
                let mut letters = short.chars();
                let letter = letters.next().unwrap_or('-');
                let known = LETTERS.iter().find(|(known, _)| *known == letter);
                let name = known.map_or_else(|| letter.to_string(), |(_, name)| name.to_string());
                let rest = letters.as_str();
                (name, (!rest.is_empty()).then(|| rest.to_string()))
            }
            (None, None) => continue,
        };
        let flag =
            FLAGS.contains(&name.as_str()) || (name.len() == 1 && FLAG_LETTERS.contains(&name));
        let value = match (attached, flag) {
            (Some(value), _) => value,
            (None, true) => String::new(),
            (None, false) => match words.next_if(|next| !next.starts_with('-')) {
                Some(value) => value.clone(),
                None => String::new(),
            },
        };
        set(submission, &name, value.trim(), now, at)?;
    }
    Ok(())
}

fn set(
    submission: &mut Submission,
    name: &str,
    value: &str,
    now: f64,
    at: &dyn Fn(&str) -> Result<f64, String>,
) -> Result<(), String> {
    let text = || Some(value.to_string());
    let list = || {
        (value.split(','))
            .map(|one| one.trim().to_string())
            .collect()
    };
    let count = || {
        (value.parse::<u32>().ok().filter(|count| *count > 0))
            .map(Some)
            .ok_or_else(|| format!("--{name}={value} is not a whole number above 0"))
    };
    match name {
        "comment" => submission.comment = text(),
        "time" => submission.time_limit = minutes(value)?,
        "deadline" => submission.deadline = Some(now + at(value)?),
        "begin" => submission.begin = Some(now + 1.0),
        "partition" => submission.partition = text(),
        "nodes" => {
            // A range has its least first.
            let least = value.split(['-', ',']).next().unwrap_or(value);
            submission.least_nodes = Some(
                (least.parse().ok().filter(|count| *count > 0))
                    .ok_or_else(|| format!("--nodes={value} is not a number of nodes"))?,
            );
        }
        "ntasks" => submission.tasks = count()?,
        "ntasks-per-node" => submission.tasks_per_node = count()?,
        "cpus-per-task" => submission.processors_per_task = count()?,
        "mem" => {
            submission.memory =
                Some(mebibytes(name, value)?.map_or(Memory::AllOfNode, Memory::PerNode));
        }
        "mem-per-cpu" => submission.memory = mebibytes(name, value)?.map(Memory::PerProcessor),
        "nodelist" => submission.required_nodes = list(),
        "exclude" => submission.excluded_nodes = list(),
        "constraint" => submission.features = text(),
        "array" => submission.array = text(),
        "dependency" => submission.dependency = text(),
        "hold" => submission.held = true,
        "exclusive" => submission.exclusive = true,
        option if OPTIONS.iter().any(|(known, _)| *known == option) => {
            submission.options.retain(|(known, _)| known != option);
            (submission.options).push((option.to_string(), value.to_string()));
        }
        _ => {}
    }
    Ok(())
}

/// `--time`: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS; None for no limit. Rounded up, as Slurm does.
fn minutes(text: &str) -> Result<Option<u32>, String> {
    if ["infinite", "unlimited", "-1"].contains(&text.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    let wrong = || format!("--time={text} is not a time; write minutes, HH:MM:SS or D-HH:MM:SS");
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().map_err(|_| wrong())?), rest),
        None => (None, text),
    };
    let fields: Vec<u64> = rest
        .split(':')
        .map(|field| field.parse().map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    let seconds = match (days, &fields[..]) {
        (None, [minutes]) => minutes.checked_mul(60),
        (None, [minutes, seconds]) => minutes
            .checked_mul(60)
            .and_then(|m| m.checked_add(*seconds)),
        (_, [hours, rest @ ..]) if rest.len() < 3 => {
            let unit = |index: usize| rest.get(index).copied().unwrap_or(0);
            (days.unwrap_or(0).checked_mul(24))
                .and_then(|h| h.checked_add(*hours))
                .and_then(|h| h.checked_mul(3600))
                .and_then(|s| s.checked_add(unit(0).checked_mul(60)?))
                .and_then(|s| s.checked_add(unit(1)))
        }
        _ => None,
    };
    let minutes = seconds.map(|seconds| seconds.div_ceil(60));
    (minutes.and_then(|minutes| u32::try_from(minutes).ok()))
        .map(Some)
        .ok_or_else(wrong)
}

/// `--mem`: a number, in MB without a letter; None for 0, all of it.
fn mebibytes(name: &str, text: &str) -> Result<Option<u64>, String> {
    let wrong = || format!("--{name}={text} is not an amount of memory; write 512M or 4G");
    let upper = text.to_ascii_uppercase();
    let digits = upper.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let amount = match upper[digits.len()..]
        .trim_end_matches("IB")
        .trim_end_matches('B')
    {
        "" | "M" => Some(number),
        "K" => Some(number.div_ceil(1024)),
        "G" => number.checked_mul(1 << 10),
        "T" => number.checked_mul(1 << 20),
        _ => None,
    };
    Ok(Some(amount.ok_or_else(wrong)?).filter(|amount| *amount > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> Result<Submission, String> {
        submission(script, "job.sh", 1000.0, &|text| match text {
            "17:30" => Ok(90.0),
            _ => Err(format!("'{text}' is not a time")),
        })
    }

    #[test]
    fn options_in_all_their_forms() {
        let script = "#!/bin/sh\n# a comment\n\n#SBATCH -n4 -c 2 --mem=2G\n#SBATCH --sla-deadline 2h --budget='90' # so much\n\
                      #SBATCH --estimate=1h -J name --requeue\n#SBATCH -t 1-02:03:04 --deadline=17:30 --comment \"libra:a b\"\n\
                      echo\n#SBATCH -n 99\n";
        let read = read(script).expect("all known");
        assert_eq!((read.tasks, read.processors_per_task), (Some(4), Some(2)));
        assert_eq!(read.memory, Some(Memory::PerNode(2048)));
        assert_eq!(read.time_limit, Some(26 * 60 + 4));
        assert_eq!(read.deadline, Some(1090.0));
        assert_eq!(read.comment.as_deref(), Some("libra:a b"));
        let options = [("sla-deadline", "2h"), ("budget", "90"), ("estimate", "1h")];
        let options = options.map(|(key, value)| (key.to_string(), value.to_string()));
        assert_eq!(read.options, options);
    }

    #[test]
    fn all_of_a_node_is_read_as_that() {
        let read = read("#SBATCH --mem=0 --exclusive=user\n").expect("known");
        assert_eq!(
            (read.memory, read.exclusive),
            (Some(Memory::AllOfNode), true)
        );
    }

    #[test]
    fn where_lines_are() {
        for (script, has) in [
            ("#SBATCH -n 1\n", true),
            ("#!/bin/sh\n\n# x\n#SBATCH -n 1\n", true),
            (" #SBATCH -n 1\n", false),
            ("#SBATCHX -n 1\n", false),
            ("echo\n#SBATCH -n 1\n", false),
            ("##SBATCH -n 1\n", false),
        ] {
            assert_eq!(has_lines(script), has, "{script:?}");
        }
    }

    #[test]
    fn times_and_amounts_as_slurm_reads_them() {
        for (text, expected) in [
            ("90", Some(90)),
            ("1:30", Some(2)),
            ("01:30:00", Some(90)),
            ("1-0", Some(1440)),
            ("1-1:30", Some(1530)),
            ("unlimited", None),
        ] {
            assert_eq!(minutes(text), Ok(expected), "{text}");
        }
        for text in ["", "soon", "1:2:3:4", "1-1:2:3:4", "9999999999"] {
            assert!(minutes(text).is_err(), "{text}");
        }
        assert_eq!(mebibytes("mem", "0"), Ok(None));
        assert_eq!(mebibytes("mem", "1T"), Ok(Some(1 << 20)));
        assert_eq!(mebibytes("mem", "1K"), Ok(Some(1)));
        assert!(mebibytes("mem", "much").is_err());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (script, part) in [
            ("#SBATCH -n none\n", "job.sh, line 1: --ntasks=none"),
            ("\n#SBATCH --deadline=soon\n", "job.sh, line 2: 'soon'"),
            ("#SBATCH --nodes=0\n", "--nodes=0"),
        ] {
            let problem = read(script).expect_err(part);
            assert!(problem.contains(part), "{problem}");
        }
    }
}
