//! The `#$` lines of a job script, as Grid Engine's qsub reads them.
//!
//! Pure. What is not about terms, processors and places is passed over; what is wrong with that is for qsub to say.

use libra_gridengine::jsv::Parameters;
use libra_gridengine::submission::Submission;

const PREFIX: &str = "#$";

/// The lines, each with its number.
fn lines(script: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(script.lines())
        .filter_map(|(number, line)| Some((number, line.strip_prefix(PREFIX)?.trim())))
        // '#$' begins other comments as well.
        .filter(|(_, line)| line.starts_with('-'))
}

/// Returns true if it has any.
pub fn has_lines(script: &str) -> bool {
    lines(script).next().is_some()
}

/// Words of a line: quotes of both kinds, backslashes.
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
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// What the script asks for, and the place of its last line about terms, for messages.
///
/// # Errors
/// The line, and what is wrong in it.
pub fn submission(script: &str, name: &str) -> Result<(Submission, String), String> {
    let mut parameters = Parameters::new();
    let mut last = name.to_string();
    for (number, line) in lines(script) {
        let at = format!("{name}, line {number}");
        let words = words(line);
        let mut words = words.iter().map(String::as_str);
        let mut soft = false;
        while let Some(option) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("{at}: {option} has no value"))
            };
            match option {
                "-hard" => soft = false,
                "-soft" => soft = true,
                "-l" => {
                    let list = value()?;
                    last.clone_from(&at);
                    if !soft {
                        join(&mut parameters, "l_hard", list);
                    }
                }
                "-q" => join(&mut parameters, "q_hard", value()?),
                "-P" => drop(parameters.insert("P".to_string(), value()?.to_string())),
                "-pe" => {
                    let environment = value()?.to_string();
                    let slots = value()?;
                    let (least, most) = range(slots).ok_or_else(|| {
                        format!(
                            "{at}: -pe {environment}: '{slots}' is no number of slots, such as 4"
                        )
                    })?;
                    parameters.insert("pe_name".to_string(), environment);
                    parameters.insert("pe_min".to_string(), least.to_string());
                    parameters.insert("pe_max".to_string(), most.to_string());
                }
                "-t" => {
                    let list = value()?;
                    let (tasks, step) = list.split_once(':').unwrap_or((list, "1"));
                    let found = range(tasks).zip(step.parse::<u32>().ok());
                    let ((first, last), step) = found.ok_or_else(|| {
                        format!("{at}: -t: '{list}' is not a list of tasks, such as 1-10 or 1-10:2")
                    })?;
                    for (key, number) in [("t_min", first), ("t_max", last), ("t_step", step)] {
                        parameters.insert(key.to_string(), number.to_string());
                    }
                }
                _ => {}
            }
        }
    }
    Ok((Submission::new(&parameters), last))
}

fn join(parameters: &mut Parameters, key: &str, list: &str) {
    let all = parameters.entry(key.to_string()).or_default();
    if !all.is_empty() {
        all.push(',');
    }
    all.push_str(list);
}

/// `4`, `2-4`.
fn range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_qsub_reads_them() {
        let script = "#!/bin/sh\n#$ -N 'my job' -l deadline=2h\n#$-l budget=50,h_rt=1:00:00 -pe smp 4\n# $ -q none\n#$HOME is no option\n#$ -soft -l arch=x\n\
             #$ -t 1-10:2 -q main.q\n#$ -P chem\n";
        assert!(has_lines(script));
        let (submission, at) = submission(script, "job.sh").expect("right");
        let terms = [("deadline", "2h"), ("budget", "50")];
        let terms = terms.map(|(key, value)| (key.to_string(), value.to_string()));
        assert_eq!(submission.terms, terms);
        assert_eq!(submission.requests, ["h_rt=1:00:00"]);
        assert_eq!(submission.environment, Some(("smp".to_string(), 4, 4)));
        assert_eq!(submission.array, Some((1, 10, 2)));
        assert_eq!(submission.queues, ["main.q"]);
        assert_eq!(submission.project.as_deref(), Some("chem"));
        assert_eq!(at, "job.sh, line 6");
        assert!(!has_lines("#!/bin/sh\n#$HOME\necho '#$ -l a=1'\n"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (script, said) in [
            (
                "\n#$ -pe smp four\n",
                "job.sh, line 2: -pe smp: 'four' is no number",
            ),
            (
                "#$ -t 1-\n",
                "job.sh, line 1: -t: '1-' is not a list of tasks",
            ),
            ("#$ -l\n", "job.sh, line 1: -l has no value"),
        ] {
            let problem = submission(script, "job.sh").expect_err("wrong");
            assert!(problem.starts_with(said), "{problem}");
        }
    }
}
