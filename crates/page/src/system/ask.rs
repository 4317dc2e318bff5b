//! Asking what a job would cost, by `libra quote`.

use super::quote::Quote;
use super::{Kind, Problem, Site, Submission, check_directory, plain, records};
use crate::secret;
use serde_json::Value;
use std::path::PathBuf;

/// A script for the time of a question.
struct Script(PathBuf);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Script {
    fn write(site: &Site, kind: Kind, wanted: &Submission) -> Result<Script, Problem> {
        records::private(&site.state)?;
        let script = Script(
            site.state
                .join(format!("question-{}", &secret::word()[..16])),
        );
        let (first, rest) = match wanted.script.split_once('\n') {
            Some((first, rest)) if first.starts_with("#!") => (first, rest),
            _ => ("#!/bin/sh", wanted.script.as_str()),
        };
        let queue = match kind {
            Kind::Pbs => wanted.queue.as_str(),
            _ => "",
        };
        let text = format!("{first}\n{}\n", with_queue(rest, queue));
        records::write(&script.0, text.as_bytes(), 0o700)?;
        Ok(script)
    }
}

/// A script of PBS with a queue, which a question has no option for: a line behind all of the script's own, since the last
/// one counts, as the option does in a submission.
fn with_queue(script: &str, queue: &str) -> String {
    if queue.is_empty() {
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
    format!("{head}{line_end}#PBS -q {queue}\n{rest}")
}

/// The answer, with the prices of other deadlines.
///
/// # Errors
/// A value is none, or nobody answers.
pub fn ask(site: &Site, kind: Kind, wanted: &Submission) -> Result<Quote, Problem> {
    let call = site.libra(&["quote", "--json"]).args(wanted.terms());
    let (call, _script) = match kind {
        Kind::Local => (call, None),
        _ => {
            let script = Script::write(site, kind, wanted)?;
            // sbatch lets it override lines of a script, as an option does.
            let call = match (kind, wanted.queue.as_str()) {
                (Kind::Slurm, partition) if !partition.is_empty() => {
                    call.variable("SBATCH_PARTITION", partition)
                }
                _ => call,
            };
            let call = call
                .arg(format!("--system={}", kind.name()))
                .arg("--")
                .arg(&script.0);
            (
                call.directory(check_directory(&wanted.directory)?),
                Some(script),
            )
        }
    };
    let done = call.run()?;
    let json: Value = serde_json::from_str(&done.out).unwrap_or_default();
    Quote::from_json(&json).ok_or_else(|| Problem::new(plain(&done)))
}

/// Returns true if this `libra quote` can ask batch systems. One of an older version cannot.
pub fn asks_batch_systems(site: &Site) -> bool {
    let help = site.libra(&["quote", "--help"]).run();
    help.is_ok_and(|help| help.out.contains("--system"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
