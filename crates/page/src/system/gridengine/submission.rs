//! A submission as qsub's options.

use super::super::command::Call;
use super::super::submission::Submission;
use super::super::{Problem, check_directory};
use super::cell::Cell;
use super::script;

/// `qsub` with what was asked for.
///
/// # Errors
/// There is no qsub, the directory is none, or nobody knows by which environment processors are meant.
pub fn qsub(cell: &Cell, wanted: &Submission) -> Result<Call, Problem> {
    let directory = check_directory(&wanted.directory)?;
    let mut options = vec![
        "-terse".to_string(),
        "-wd".to_string(),
        wanted.directory.clone(),
    ];
    let mut option = |name: &str, value: &str| {
        options.push(name.to_string());
        match name {
            // A name and a number, in a script as here.
            "-pe" => options.extend(value.split(' ').map(str::to_string)),
            _ => options.push(value.to_string()),
        }
    };
    let terms = wanted.requests();
    if !terms.is_empty() {
        option("-l", &terms.join(","));
    }
    for (name, value) in instead(wanted)? {
        option(name, &value);
    }
    let tells = if wanted.mail.is_empty() { "" } else { "ae" };
    for (name, value) in [
        ("-N", wanted.name.as_str()),
        ("-P", &wanted.project),
        ("-v", &wanted.environment),
        ("-M", &wanted.mail),
        ("-m", tells),
    ] {
        if !value.is_empty() {
            option(name, value);
        }
    }
    // Queues have a shell of their own for scripts, whatever their first line says.
    if !script::has(&wanted.script, &["-S"]) {
        option("-S", script::interpreter(&wanted.script));
    }
    // Both outputs in one file, unless the script wants it otherwise.
    if !script::has(&wanted.script, &["-j", "-o", "-e"]) {
        option("-j", "y");
    }
    let call = cell.program("qsub")?.args(options);
    Ok(call.directory(directory).input(&wanted.script))
}

/// Options that take the place of the script's own.
///
/// # Errors
/// Processors are given out by a parallel environment, and no line of the script names one.
pub fn instead(wanted: &Submission) -> Result<Vec<(&'static str, String)>, Problem> {
    let mut given = Vec::new();
    for (name, value) in [("-q", &wanted.queue), ("-t", &wanted.array)] {
        if !value.is_empty() {
            given.push((name, value.clone()));
        }
    }
    match (
        wanted.processors.as_str(),
        script::environment(&wanted.script),
    ) {
        ("", _) | ("1", None) => {}
        (processors, Some(name)) => given.push(("-pe", format!("{name} {processors}"))),
        (processors, None) => {
            return Err(Problem::new(format!(
                "Grid Engine gives out processors by a parallel environment: write '#$ -pe NAME {processors}' into the script ('qconf -spl' lists the names), or leave Processors empty"
            )));
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(processors: &str, script: &str) -> Submission {
        Submission {
            processors: processors.to_string(),
            script: script.to_string(),
            ..Submission::default()
        }
    }

    #[test]
    fn processors_come_from_the_scripts_environment() {
        let script = "#!/bin/sh\n#$ -pe smp 4\n";
        assert_eq!(
            instead(&wanted("2", script)).expect("some"),
            [("-pe", "smp 2".to_string())]
        );
        assert_eq!(instead(&wanted("", script)).expect("the script's"), []);
        assert_eq!(instead(&wanted("1", "")).expect("one needs none"), []);
        let said = instead(&wanted("2", ""))
            .expect_err("none named")
            .to_string();
        assert!(said.contains("'#$ -pe NAME 2'"), "{said}");
    }
}
