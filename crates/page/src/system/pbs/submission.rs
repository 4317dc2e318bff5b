//! A submission as qsub's options and as lines of a script. Pure.

use super::super::submission::Submission;
use libra_units::memory;

/// The options of qsub. Every value stands behind its option, and none begins with a dash.
pub fn options(wanted: &Submission) -> Vec<String> {
    let mut options = Vec::new();
    let mut option = |name: &str, value: String| {
        options.push(name.to_string());
        options.push(value);
    };
    let list = wanted.requests();
    if !list.is_empty() {
        option("-W", list.join(","));
    }
    let memory = memory::parse(&wanted.memory).map(|bytes| format!(":mem={bytes}b"));
    // As 'libra quote' asks: memory or GPUs alone are those of one processor.
    if !wanted.processors.is_empty() || memory.is_ok() || !wanted.gpus.is_empty() {
        let processors = match wanted.processors.as_str() {
            "" => "1",
            processors => processors,
        };
        let memory = memory.unwrap_or_default();
        let gpus = match wanted.gpus.as_str() {
            "" => String::new(),
            count => format!(":ngpus={count}"),
        };
        option("-l", format!("select=1:ncpus={processors}{memory}{gpus}"));
    }
    let tells = if wanted.mail.is_empty() { "" } else { "ae" };
    for (name, value) in [
        ("-q", wanted.queue.as_str()),
        ("-N", &wanted.name),
        ("-P", &wanted.project),
        ("-J", &wanted.array),
        ("-v", &wanted.environment),
        ("-M", &wanted.mail),
        ("-m", tells),
    ] {
        if !value.is_empty() {
            option(name, value.to_string());
        }
    }
    // Both outputs in one file that is written where it belongs while the job runs, unless the script wants it otherwise.
    let says = |letter: char| {
        let lines = wanted
            .script
            .lines()
            .filter(|line| line.starts_with("#PBS"));
        lines
            .flat_map(str::split_whitespace)
            .any(|word| word.starts_with(&format!("-{letter}")))
    };
    if !"joek".chars().any(says) {
        option("-j", "oe".to_string());
        option("-k", "doe".to_string());
    }
    options
}

/// A script of PBS with options that a question has none for: lines behind all of the script's own, since the last
/// one counts, as the option does in a submission.
pub fn with_lines(script: &str, options: &[(&str, &String)]) -> String {
    let given = options.iter().filter(|(_, value)| !value.is_empty());
    let lines = given.map(|(name, value)| format!("#PBS {name} {value}\n"));
    let lines = lines.collect::<String>();
    if lines.is_empty() {
        return script.to_string();
    }
    let mut end = 0;
    let mut at = 0;
    let mut goes_on = false;
    for line in script.split_inclusive('\n') {
        at += line.len();
        let directive = line.starts_with("#PBS");
        // qsub reads none below the first line of the script proper.
        let comment = line.trim().is_empty() || line.starts_with(['#', ':']);
        if !directive && !goes_on && !comment {
            break;
        }
        if directive || goes_on {
            end = at;
        }
        goes_on = (directive || goes_on) && line.trim_end().ends_with('\\');
    }
    let (head, rest) = script.split_at(end);
    let line_end = if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{head}{line_end}{lines}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_queue(script: &str, queue: &str) -> String {
        with_lines(script, &[("-q", &queue.to_string())])
    }

    #[test]
    fn the_queue_of_the_form_wins_over_the_script() {
        let script =
            "#PBS -q other\n# text\n#PBS -W estimate=1,\\\ndeadline=2\n\necho\n#PBS -q none\n";
        let asked = "#PBS -q other\n# text\n#PBS -W estimate=1,\\\ndeadline=2\n#PBS -q typed\n\necho\n#PBS -q none\n";
        assert_eq!(with_queue(script, "typed"), asked);
        assert_eq!(with_queue("echo", "typed"), "#PBS -q typed\necho");
        assert_eq!(
            with_queue("#PBS -N x", "typed"),
            "#PBS -N x\n#PBS -q typed\n"
        );
        assert_eq!(with_queue(script, ""), script);
    }
    #[test]
    fn options_of_qsub() {
        let wanted = Submission {
            script: "#!/bin/sh\n".to_string(),
            estimate: "10".to_string(),
            deadline: "20".to_string(),
            budget: "15".to_string(),
            processors: "2".to_string(),
            ..Submission::default()
        };
        let words = [
            "-W",
            "estimate=10,deadline=20,budget=15",
            "-l",
            "select=1:ncpus=2",
            "-j",
            "oe",
            "-k",
            "doe",
        ];
        assert_eq!(options(&wanted), words);
        let more = Submission {
            memory: "2GiB".to_string(),
            gpus: "2".to_string(),
            array: "1-3".to_string(),
            environment: "A=1,B".to_string(),
            mail: "ann@x".to_string(),
            project: "p".to_string(),
            ..Submission::default()
        };
        let words = options(&more);
        assert_eq!(
            words[..12],
            [
                "-l",
                "select=1:ncpus=1:mem=2147483648b:ngpus=2",
                "-P",
                "p",
                "-J",
                "1-3",
                "-v",
                "A=1,B",
                "-M",
                "ann@x",
                "-m",
                "ae"
            ]
        );
        let own = Submission {
            script: "#!/bin/sh\n#PBS -o /x\n".to_string(),
            ..Submission::default()
        };
        assert_eq!(options(&own), Vec::<String>::new());
    }
}
