//! `libra quote`: what a job would cost at which deadline, and whether it would be accepted.
//!
//! [`script`] reads a job script, [`local`] asks this host, [`remote`] a batch system; [`chart`] and [`picture`] draw the answer.

mod chart;
mod gridengine;
mod local;
mod picture;
mod remote;
mod sbatch;
mod script;

use super::args::{Args, QuoteArgs};
use super::qsub::find;
use super::{Done, Failure, exit, status};
use libra_batch::quote::Quote;
use libra_config::System;
use libra_terminal::{answer, note, say};
use libra_units::duration;
use script::Script;
use serde_json::Value;
use std::io::IsTerminal;
use std::path::Path;

/// What the answer is worth to whoever asked.
struct Answered {
    quote: Quote,
    /// What only this host says, for programs.
    more: Vec<(&'static str, Value)>,
    /// Lines for people, after the verdict.
    warnings: Vec<String>,
}

/// A question.
struct Question<'a> {
    quote: &'a QuoteArgs,
    script: Option<&'a Script>,
    /// Whose lines of the script count.
    kind: System,
}

/// For how many seconds it is to be held, if it is.
fn hold(question: &Question<'_>) -> Result<Option<f64>, Failure> {
    let text = question.quote.hold.as_deref();
    let seconds = text.map(duration::parse).transpose();
    let seconds = seconds.map_err(|error| Failure::Usage(format!("--hold: {error}")))?;
    match seconds {
        Some(seconds) if seconds <= 0.0 => Err(Failure::Usage(
            "--hold: a quote is held for more than 0 s".to_string(),
        )),
        seconds => Ok(seconds),
    }
}

/// A job script as it is read at most, in bytes: it may be an archive that unpacks itself.
const LARGEST_SCRIPT: u64 = 64 << 20;

pub fn quote(quote: &QuoteArgs, args: &Args) -> Done {
    let script = quote.script.as_deref().map(read).transpose()?;
    let kinds = script.as_ref().map_or_else(Vec::new, Script::kinds);
    let (system, kind, mut notes) = choose(quote.system, &kinds, &is_here);
    let question = Question {
        quote,
        script: script.as_ref(),
        kind,
    };
    if let Some(number) = &quote.drop {
        match system {
            System::Local => local::drop_quote(number, args)?,
            System::Pbs => remote::pbs_drop(number)?,
            System::Slurm => remote::slurm_drop(number)?,
            System::GridEngine => remote::gridengine_drop(number)?,
        }
        return answer(
            &note(args.json, &format!("quote {number} was given back")),
            0,
        );
    }
    let answered = match system {
        System::Local => local::ask(&question, args, &mut notes),
        System::Pbs => remote::pbs(&question),
        System::Slurm => remote::slurm(&question),
        System::GridEngine => remote::gridengine(&question),
    };
    if answered.is_err() {
        // Whose lines were read may be why something is missing.
        tell_notes(&notes);
    }
    let answered = answered?;
    if let Some(file) = &quote.svg {
        std::fs::write(file, picture::svg(&answered.quote)).map_err(|error| Failure::File {
            file: file.clone(),
            error,
        })?;
    }
    let code = if answered.quote.accepted {
        0
    } else {
        exit::REFUSED
    };
    if args.json {
        let mut json = answered.quote.json(system.name());
        for (key, value) in answered.more {
            json[key] = value;
        }
        json["notes"] = notes.into();
        return answer(&format!("{json}\n"), code);
    }
    tell_notes(&notes);
    let mut text = format!("{}\n", answered.quote.text);
    for warning in &answered.warnings {
        text += &format!("{warning}\n");
    }
    let out = std::io::stdout();
    if quote.chart || out.is_terminal() {
        let size = terminal_size::terminal_size_of(&out);
        let width = size.map_or(80, |(width, _)| usize::from(width.0));
        let chart = chart::chart(&answered.quote, width, status::utf8());
        if !chart.is_empty() {
            text += &format!("\n{chart}");
        }
    }
    answer(&text, code)
}

fn tell_notes(notes: &[String]) {
    for note in notes {
        say(format_args!("libra: {note}"));
    }
}

fn read(path: &Path) -> Result<Script, Failure> {
    let name = path.display().to_string();
    let cannot = |problem: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "{name}: cannot be read: {problem}; name a job script, or leave it out and give the terms as options"
        ))
    };
    let data = std::fs::metadata(path).map_err(|error| cannot(&error))?;
    if !data.is_file() || data.len() > LARGEST_SCRIPT {
        return Err(cannot(&"it is not a plain file of at most 64 MiB"));
    }
    let bytes = std::fs::read(path).map_err(|error| cannot(&error))?;
    Ok(Script {
        name,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Returns true if a system's own command is here.
fn is_here(system: System) -> bool {
    match system {
        System::Local => true,
        System::Pbs => find::real(&find::Surroundings::of_this_process()).is_ok(),
        System::Slurm => remote::sbatch().is_some(),
        System::GridEngine => remote::gridengine_qsub().is_ok(),
    }
}

fn lines_of(system: System) -> &'static str {
    match system {
        System::Local => "",
        System::Pbs => "#PBS",
        System::Slurm => "#SBATCH",
        System::GridEngine => "#$",
    }
}

/// What its users submit by.
fn command_of(system: System) -> &'static str {
    match system {
        System::Local => "libra run",
        System::Pbs => "qsub",
        System::Slurm => "sbatch",
        System::GridEngine => "Grid Engine's qsub",
    }
}

/// Whom to ask, whose lines count, and what the user is told of both. `kinds`: what the script has lines of.
fn choose(
    wanted: Option<System>,
    kinds: &[System],
    is_here: &dyn Fn(System) -> bool,
) -> (System, System, Vec<String>) {
    let mut notes = Vec::new();
    let here = kinds.iter().copied().find(|kind| is_here(*kind));
    let first = here.or(kinds.first().copied());
    let (system, kind) = match wanted {
        Some(System::Local) => (System::Local, first.unwrap_or(System::Local)),
        Some(system) => {
            if !kinds.is_empty() && !kinds.contains(&system) {
                notes.push(format!("the script has no {} lines", lines_of(system)));
            }
            (system, system)
        }
        None => {
            let kind = first.unwrap_or(System::Local);
            if let (None, false) = (here, kinds.is_empty()) {
                notes.push(format!(
                    "the script has {} lines and {} is not here: this is what this host says",
                    lines_of(kind),
                    command_of(kind),
                ));
            }
            (here.unwrap_or(System::Local), kind)
        }
    };
    if kinds.len() > 1 && kinds.contains(&kind) {
        let there = || System::ALL.into_iter().filter(|one| kinds.contains(one));
        let all: Vec<&str> = there().map(lines_of).collect();
        let others: Vec<&str> = there()
            .filter(|one| *one != kind)
            .map(System::name)
            .collect();
        notes.push(format!(
            "the script has {} lines: the {} lines were taken; --system {} asks with the others",
            all.join(" and "),
            lines_of(kind),
            others.join(" or "),
        ));
    }
    (system, kind, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_to_ask() {
        use System::{GridEngine, Local, Pbs, Slurm};
        for (wanted, kinds, here, expected, notes) in [
            (None, &[][..], &[Pbs, Slurm][..], (Local, Local), 0),
            (None, &[Slurm], &[Pbs, Slurm], (Slurm, Slurm), 0),
            (None, &[Pbs], &[Pbs, Slurm], (Pbs, Pbs), 0),
            (None, &[Pbs], &[Slurm], (Local, Pbs), 1),
            (None, &[Pbs, Slurm], &[Slurm], (Slurm, Slurm), 1),
            (None, &[Slurm, Pbs], &[Pbs, Slurm], (Slurm, Slurm), 1),
            (None, &[Slurm, Pbs], &[], (Local, Slurm), 2),
            (Some(Local), &[Slurm, Pbs], &[Pbs], (Local, Pbs), 1),
            (Some(Local), &[], &[Pbs], (Local, Local), 0),
            (Some(Pbs), &[Slurm], &[], (Pbs, Pbs), 1),
            (Some(Pbs), &[], &[], (Pbs, Pbs), 0),
            (
                None,
                &[GridEngine],
                &[GridEngine],
                (GridEngine, GridEngine),
                0,
            ),
            (None, &[GridEngine], &[Pbs], (Local, GridEngine), 1),
            (
                None,
                &[Pbs, Slurm, GridEngine],
                &[GridEngine],
                (GridEngine, GridEngine),
                1,
            ),
        ] {
            let (system, kind, told) = choose(wanted, kinds, &|system| here.contains(&system));
            let what = format!("{wanted:?} {kinds:?} {here:?}: {told:?}");
            assert_eq!((system, kind), expected, "{what}");
            assert_eq!(told.len(), notes, "{what}");
        }
    }
}
