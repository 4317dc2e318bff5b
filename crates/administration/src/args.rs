//! What can be typed after `libra pbs`, `libra slurm` and `libra gridengine`.

mod gridengine;
mod pbs;
mod slurm;

pub use gridengine::{
    GridEngineCommand, GridEngineInstallArgs, GridEngineSettings, GridEngineUninstallArgs,
};
pub use pbs::{PbsCommand, PbsInstallArgs, PbsSettings, PbsUninstallArgs, Share};
pub use slurm::{
    Role, SlurmBuildArgs, SlurmCheckArgs, SlurmCommand, SlurmInstallArgs, SlurmSettings,
    SlurmUninstallArgs,
};
