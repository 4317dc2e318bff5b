//! Libra in batch systems, for administrators: `install`, `uninstall`, `check` and `status` of PBS, Slurm and Grid Engine, and what Grid Engine
//! starts.
//!
//! [`args`] is what can be typed. A plan of steps is data that is printed before it is carried out; what was there before is kept
//! ([`install_state`]) and put back byte by byte.

pub mod args;
mod command;
mod failover;
mod findings;
pub mod gridengine;
mod install_state;
pub mod pbs;
mod replace;
pub mod slurm;
pub mod status;

use libra_config::ConfigError;
use libra_host::HostError;
use std::path::PathBuf;
use std::process::ExitCode;

/// What every command is given.
#[derive(Debug, Clone)]
pub struct Common {
    /// The configuration that was named.
    pub config: Option<PathBuf>,
    /// JSON, one object a line, instead of text.
    pub json: bool,
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Wrong arguments.
    #[error("{0}")]
    Usage(String),
    /// A configuration that cannot be taken.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// This host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The batch system, or its files.
    #[error(transparent)]
    System(Box<dyn std::error::Error + Send + Sync>),
    /// Standard output.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl From<pbs::PbsError> for Failure {
    fn from(error: pbs::PbsError) -> Failure {
        Failure::System(error.into())
    }
}

impl From<slurm::SlurmError> for Failure {
    fn from(error: slurm::SlurmError) -> Failure {
        Failure::System(error.into())
    }
}

impl From<gridengine::GridEngineError> for Failure {
    fn from(error: gridengine::GridEngineError) -> Failure {
        Failure::System(error.into())
    }
}

type Done = Result<ExitCode, Failure>;
