//! `libra gridengine`: what Grid Engine's daemons start, and the installation into the cell of this machine.
//!
//! [`jsv`] is what qmaster starts, [`shepherd`] what execution daemons start. [`settings`] reads and changes texts of qconf: plain data. [`check`]
//! looks at the cell, [`install`] carries out what it has printed, [`poll`] reads qmaster's records, [`follow`] is what is done with them.

mod check;
mod follow;
mod install;
mod jsv;
mod poll;
mod settings;
mod shepherd;
pub mod status;

use super::Done;
use super::args::GridEngineCommand;
use super::install_state::InstallStateError;
use crate::Common;
use libra_gridengine::commands::{Cell, CommandError};
use libra_xml::XmlError;
use std::path::PathBuf;
use std::time::Duration;

/// Exit code of a check that found a problem, and of what was not done for a reason that was said.
const NOT_DONE: u8 = 1;

/// A command of Grid Engine's is waited for so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GridEngineError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("{0}: {1}")]
    Answer(&'static str, XmlError),
    #[error("{file}: {error}")]
    File {
        file: PathBuf,
        error: std::io::Error,
    },
    #[error(transparent)]
    InstallState(#[from] InstallStateError),
    #[error("{0}")]
    Records(String),
    #[error("the bootstrap file of the cell says no {0}; set SGE_ROOT and SGE_CELL")]
    Bootstrap(&'static str),
}

/// Does what was typed.
///
/// # Errors
/// See [`Failure`](crate::Failure).
pub fn gridengine(command: &GridEngineCommand, args: &Common) -> Done {
    match command {
        GridEngineCommand::Install(install) => install::install(install, args),
        GridEngineCommand::Uninstall(uninstall) => install::uninstall(uninstall, args),
        GridEngineCommand::Check(settings) => check::check(settings, args),
        GridEngineCommand::Status => status::report(args)?.print(args),
        GridEngineCommand::Jsv(_) => jsv::jsv(args),
        GridEngineCommand::Shepherd(log) => shepherd::shepherd(log.log.as_deref(), args),
        GridEngineCommand::Watch {
            log,
            job,
            shepherd,
            further,
            active_jobs,
            detach,
        } => {
            let watch = shepherd::Watch {
                job,
                shepherd: *shepherd,
                is_further: *further,
                active_jobs,
            };
            match detach {
                true => watch.detach(log.log.as_deref(), args),
                false => watch.wait(args),
            }
        }
    }
}

/// Returns true if this host is of a cell: its environment names one that has a qmaster.
pub fn is_here() -> bool {
    let named = std::env::var_os("SGE_ROOT").is_some_and(|root| !root.is_empty());
    let cell = cell();
    named
        && cell
            .root
            .join(&cell.name)
            .join("common/act_qmaster")
            .exists()
}

fn cell() -> Cell {
    Cell::new(&|name| std::env::var(name).ok())
}

fn file_error(file: &std::path::Path) -> impl Fn(std::io::Error) -> GridEngineError {
    let file = file.to_path_buf();
    move |error| GridEngineError::File {
        file: file.clone(),
        error,
    }
}
