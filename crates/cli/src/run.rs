//! `libra run`

use super::args::{Args, RunArgs};
use super::{Done, exit, show, terms};
use libra_batch::verdict::Verdict;
use libra_config::site;
use libra_host::Host;
use libra_host::entry::Exit;
use libra_host::entry::Process;
use libra_host::submit::SubmitOptions;
use libra_host::supervise::Outcome;
use libra_terminal::say;
use nix::sys::signal::{Signal, raise};
use std::process::ExitCode;

pub fn run(run: &RunArgs, args: &Args) -> Done {
    let config = site::load(args.config.as_deref())?;
    let (request, class_line) = terms::request(&run.terms, &libra_rules::class_defaults(&config))?;
    let host = Host::open(config)?;
    let command: Vec<String> = run
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let (words, myself) = (command.join(" "), Process::this());
    let options = SubmitOptions {
        name: run.name.as_deref(),
        project: run.project.as_deref(),
    };
    let submitted = match &run.quote {
        Some(number) => host.submit_quoted(number, &request, &words, myself, &options)?,
        None => host.submit_for(&request, &words, myself, &options)?,
    };
    let accepted = match submitted {
        Verdict::Accepted(accepted)
        | Verdict::WithBudget {
            offer: accepted, ..
        } => accepted,
        not => {
            let manner = show::OnHost::of(&request, class_line.as_ref());
            if args.json {
                say(manner.refusal_json(&not));
            } else {
                for line in manner.refusal(&not) {
                    say(format_args!("libra: {line}"));
                }
            }
            return Ok(ExitCode::from(exit::REFUSED));
        }
    };
    if args.json {
        let mut json = show::terms_json(&host, &request, &accepted.terms);
        json["event"] = "accepted".into();
        json["job"] = accepted.entry.id.clone().into();
        json["name"] = accepted.entry.name.clone().into();
        json["submitted"] = accepted.entry.submitted_unix.into();
        json["deadline"] = show::deadline(&accepted.entry).into();
        json["unenforced"] = accepted.unenforced.clone().into();
        say(json);
    } else {
        if !run.quiet {
            let got = show::terms(&host, &request, &accepted.terms);
            say(format_args!(
                "libra: job {} {}: {got}",
                accepted.entry.id,
                show::verdict(&host, &request)
            ));
        }
        if let Some(reason) = &accepted.unenforced {
            // Loud even when quiet: a promise that nobody keeps must not look like one.
            say(format_args!(
                "libra: warning: its share is NOT enforced on this host: {reason}"
            ));
        }
    }
    match host.run(*accepted, &run.command)? {
        Outcome::Ended(entry, how) => {
            if args.json {
                say(show::ending_json(&entry));
            } else if !run.quiet {
                say(format_args!("libra: {}", show::ending(&entry)));
            }
            Ok(pass_through(how))
        }
        Outcome::NotExecuted(error) => {
            say(format_args!("libra: {}: {error}", command[0]));
            Ok(ExitCode::from(match error.kind() {
                std::io::ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            }))
        }
    }
}

/// Ends as the job ended: the same exit code, or by the same signal.
pub fn pass_through(how: Exit) -> ExitCode {
    if let Some(number) = how.signal {
        // Real-time signals have no name here; the shell's number has to do for them.
        if let Ok(signal) = Signal::try_from(number) {
            // The core dump, where there is one, is the job's.
            let _ = libra_host::supervise::forbid_core_dump();
            let _ = raise(signal);
        }
        return ExitCode::from((128 + number).clamp(0, 255) as u8);
    }
    ExitCode::from(how.code.unwrap_or(i32::from(exit::FAILED)).clamp(0, 255) as u8)
}
