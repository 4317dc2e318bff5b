//! `libra cancel`

use super::args::{Args, CancelArgs};
use super::{Done, exit};
use libra_config::site;
use libra_host::{Host, HostError};
use libra_terminal::say;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

pub fn cancel(cancel: &CancelArgs, args: &Args) -> Done {
    let host = Host::open(site::load(args.config.as_deref())?)?;
    let mut out = std::io::stdout().lock();
    // Something that failed weighs more than a job that is not there.
    let (mut failed, mut missing) = (false, false);
    let mut unwritten = None;
    // Whatever fails for one, the others are still to be cancelled.
    for id in &cancel.jobs {
        match host.cancel(id) {
            Ok(()) => {
                let text = if args.json {
                    serde_json::json!({"cancelled": id}).to_string()
                } else {
                    format!("job {id} cancelled")
                };
                if let Err(error) = writeln!(out, "{text}") {
                    unwritten = Some(error);
                }
            }
            Err(error) => {
                if has_ended(&host, &error) {
                    say(format_args!("libra: job {id} has ended already"));
                } else {
                    say(format_args!("libra: {error}"));
                }
                match error {
                    HostError::UnknownJob(_) => missing = true,
                    _ => failed = true,
                }
            }
        }
    }
    match unwritten {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ if failed => Ok(ExitCode::from(exit::FAILED)),
        _ if missing => Ok(ExitCode::from(exit::NO_JOB)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Returns true if the unknown job is one that 'libra status' still shows.
fn has_ended(host: &Host, error: &HostError) -> bool {
    let HostError::UnknownJob(id) = error else {
        return false;
    };
    matches!(host.registry().read(id), Ok(Some(entry)) if !entry.is_live())
}
