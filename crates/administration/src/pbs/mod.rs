//! `libra pbs`: installation into a PBS server.
//!
//! [`wanted`] is what an installation consists of, [`found`] what a server has, [`plan`] the [`step`]s from
//! one to the other, [`record`] what was there before: plain data. [`server`] and [`session`] run PBS's commands,
//! [`check`] judges what it finds, [`install`] carries plans out.

mod check;
mod found;
mod install;
mod judge;
mod plan;
mod record;
mod server;
mod session;
mod site;
pub mod status;
mod step;
mod wanted;

use super::Done;
use super::args::{PbsCommand, PbsSettings};
use super::install_state::InstallStateError;
use crate::Common;
use libra_terminal::answer;
use record::Records;
use server::Pbs;
use std::path::{Path, PathBuf};
use wanted::HOOKS;

/// Exit code of a check that found a problem, and of what was not done for a reason that was said.
const NOT_DONE: u8 = 1;

/// Why something at the PBS server could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PbsError {
    #[error(
        "{conf}: cannot be read: {error}; set PBS_CONF_FILE to the configuration of the PBS server of this host"
    )]
    NoPbs {
        conf: PathBuf,
        error: std::io::Error,
    },
    #[error("{conf}: no {key} in it; this is not the configuration of a PBS server")]
    NoSetting { conf: PathBuf, key: String },
    #[error("{command}: {answer}")]
    Command { command: String, answer: String },
    #[error("{file}: {error}")]
    File {
        file: PathBuf,
        error: std::io::Error,
    },
    #[error(transparent)]
    InstallState(#[from] InstallStateError),
    #[error("{error}\nWhat was done before this stays. {next}")]
    Step {
        error: Box<PbsError>,
        next: &'static str,
    },
    #[error("{file}: changed while this ran: the line '{line}' is not there; run it again")]
    Line { file: PathBuf, line: String },
}

/// Does what was typed.
///
/// # Errors
/// See [`Failure`](crate::Failure).
pub fn pbs(command: &PbsCommand, args: &Common) -> Done {
    match command {
        PbsCommand::Install(install) => install::install(install, args),
        PbsCommand::Uninstall(uninstall) => install::uninstall(uninstall, args),
        PbsCommand::Check(settings) => check::check(settings, args),
        PbsCommand::Status => status::report(args)?.print(args),
        PbsCommand::Hooks {
            directory,
            settings,
        } => hooks(directory, settings, args),
    }
}

/// Returns true if this host has a PBS: its configuration, and programs to ask it.
pub fn is_here() -> bool {
    Pbs::find().is_ok_and(|pbs| pbs.exec.join("bin/qstat").exists())
}

/// Writes the hooks out, with what they are told.
fn hooks(directory: &Path, settings: &PbsSettings, args: &Common) -> Done {
    // What they are told depends on the server, where there is one.
    let pbs = Pbs::find().ok();
    let server = pbs.as_ref().and_then(|pbs| pbs.server().ok());
    let record = match server {
        Some((name, _)) => Records::of(&settings.state, &name).read()?,
        None => None,
    };
    let last = record.map(|record| record.options).unwrap_or_default();
    let (_, config) = site::told(settings, args, &last, pbs.as_ref())?;
    std::fs::create_dir_all(directory).map_err(|error| PbsError::File {
        file: directory.to_path_buf(),
        error,
    })?;
    let mut names = String::new();
    for hook in &HOOKS {
        for (extension, text) in [("py", hook.content()), ("json", config.text())] {
            let file = directory.join(format!("{}.{extension}", hook.name));
            std::fs::write(&file, text).map_err(|error| PbsError::File {
                file: file.clone(),
                error,
            })?;
            names.push_str(&format!("{}\n", file.display()));
        }
    }
    answer(&names, 0)
}
