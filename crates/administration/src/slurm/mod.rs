//! `libra slurm`: installation into the Slurm of this machine.
//!
//! [`conf`], [`plugstack`], [`hostlist`], [`plugin`] and [`jobs`] read what Slurm has, [`edit`] changes texts, [`judge`] says what
//! settings mean: plain data. [`found`], [`daemons`] and [`host`] look at the machine, [`check`], [`installed`] and [`node`] put it together, [`nodes`] asks other hosts for that, [`sources`] knows where plugins come
//! from, [`build`] has them built, [`install`] and [`uninstall`] carry out what they have printed.

mod build;
mod check;
mod conf;
mod daemons;
mod edit;
mod found;
mod host;
mod hostlist;
mod install;
mod installed;
mod jobs;
mod judge;
mod node;
mod nodes;
mod plugin;
mod plugstack;
mod record;
mod sources;
pub mod status;
mod uninstall;

use super::Done;
use super::args::SlurmCommand;
use super::install_state::InstallStateError;
use crate::Common;
use std::path::PathBuf;

/// Exit code of a check that found a problem, and of what was not done for a reason that was said.
const NOT_DONE: u8 = 1;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlurmError {
    #[error("{command}: {answer}")]
    Command { command: String, answer: String },
    #[error("{file}: {error}")]
    File {
        file: PathBuf,
        error: std::io::Error,
    },
    #[error("{file}: {why}; write the line by hand, 'libra slurm install --dry-run' shows it")]
    Edit { file: PathBuf, why: String },
    #[error(transparent)]
    InstallState(#[from] InstallStateError),
    #[error("{program}: {why}")]
    Build { program: PathBuf, why: String },
}

/// Whom slurm.conf names as SlurmUser, where there is one.
pub fn slurm_user() -> Option<String> {
    found::Slurm::conf_alone()
        .get("SlurmUser")
        .map(str::to_string)
}

/// Does what was typed.
///
/// # Errors
/// See [`Failure`](crate::Failure).
pub fn slurm(command: &SlurmCommand, args: &Common) -> Done {
    match command {
        SlurmCommand::Build(build) => build::build(build, args),
        SlurmCommand::Install(install) => install::install(install, args),
        SlurmCommand::Uninstall(uninstall) => uninstall::uninstall(uninstall, args),
        SlurmCommand::Check(check) => match &check.nodes {
            Some(list) => nodes::check(list, &check.by, args),
            None => check::check(&check.settings, args),
        },
        SlurmCommand::Status => status::report(args)?.print(args),
    }
}
