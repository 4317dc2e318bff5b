//! What can be typed after `libra gridengine`.

use clap::{Args as ClapArgs, Subcommand};
use std::path::{Path, PathBuf};

/// Where the states of installations are.
const STATE: &str = "/var/lib/libra/gridengine";

/// Where the scripts are that Grid Engine starts.
const SCRIPTS: &str = "/etc/libra/gridengine";

/// Where shepherds log to.
const SHEPHERD_LOG: &str = "/var/log/libra-gridengine.log";

const AFTER_INSTALL: &str = "\
Examples:
  libra gridengine install --host         # on each execution host, first
  libra gridengine install --dry-run      # on the host of qmaster
  libra gridengine install

Exit status:
  0    installed, or nothing to do
  1    'libra gridengine check' found a problem; nothing was changed
  2    wrong arguments or configuration
  125  something failed: what was done before it stays, and a second run
       goes on from there

Environment:
  SGE_ROOT, SGE_CELL, SGE_QMASTER_PORT  the cell [default: Debian's]

Files:
  /etc/libra/gridengine/jsv               what qmaster starts
  /etc/libra/gridengine/shepherd          what execution daemons start
  /var/lib/libra/gridengine/CELL.json     what was there before, for 'uninstall'";

const AFTER_UNINSTALL: &str = "\
Exit status:
  0    all undone, or nothing to do
  1    not undone: jobs hold what was committed to them
  2    wrong arguments
  125  something failed; a second run goes on from there";

const AFTER_CHECK: &str = "\
Lines begin with:
  ok       as it should be
  warning  works, but read it
  problem  Grid Engine or Libra would not work

Exit status:
  0    no problem
  1    at least one problem";

/// `libra gridengine`
#[derive(Debug, Subcommand)]
pub enum GridEngineCommand {
    /// Let the Grid Engine cell of this machine admit jobs by Libra
    ///
    /// Checks first ('libra gridengine check') and stops on problems. Adds the complexes by which users give terms, and sets
    /// jsv_url, jsv_allowed_mod and shepherd_cmd of the global configuration; each command is printed before it is run.
    /// On execution hosts only the script for shepherd_cmd is written (--host), which must be there before the cell is told of it.
    Install(GridEngineInstallArgs),

    /// Undo what 'libra gridengine install' did on this machine
    ///
    /// The configuration is afterwards as it was; what others have changed since stays.
    Uninstall(GridEngineUninstallArgs),

    /// Say whether Libra can work with the cell of this machine, and whether what is installed is sound
    ///
    /// Reads only.
    #[command(after_long_help = AFTER_CHECK)]
    Check(GridEngineSettings),

    /// Show what is committed on the hosts, and how the jobs with terms stand
    ///
    /// What a running job has used is reckoned from its share and the time since it started; 'libra status' on its host has
    /// what the kernel counted. With --json, the same for programs.
    Status,

    /// What qmaster starts: judges submissions
    #[command(hide = true)]
    Jsv(LogArgs),

    /// What execution daemons start: puts a task where it belongs, and becomes its shepherd
    #[command(hide = true)]
    Shepherd(LogArgs),

    /// Waits for the end of a shepherd, and ends its job on this host
    #[command(hide = true)]
    Watch {
        /// Where it logs to.
        #[command(flatten)]
        log: LogArgs,
        /// The job, as the registry calls it
        #[arg(long)]
        job: String,
        /// The shepherd's process
        #[arg(long)]
        shepherd: i32,
        /// There may be more shepherds of it
        #[arg(long)]
        further: bool,
        /// The daemon's directory of live jobs
        #[arg(long)]
        active_jobs: PathBuf,
        /// Start the one that waits, and end
        #[arg(long)]
        detach: bool,
    },
}

impl GridEngineCommand {
    /// The file that it logs to, if it has one of its own: what is started by daemons has nobody who reads its standard error.
    pub fn log(&self) -> Option<&Path> {
        match self {
            GridEngineCommand::Jsv(log)
            | GridEngineCommand::Shepherd(log)
            | GridEngineCommand::Watch { log, .. } => log.log.as_deref(),
            _ => None,
        }
    }
}

/// Where daemons' commands log to.
#[derive(Debug, ClapArgs)]
pub struct LogArgs {
    /// Write the log to FILE
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// Where things are.
#[derive(Debug, Clone, ClapArgs)]
pub struct GridEngineSettings {
    /// This is an execution host: only the script for its shepherds is meant
    #[arg(long)]
    pub host: bool,

    /// The directory of the scripts that Grid Engine starts, the same on all hosts
    #[arg(long, value_name = "DIR", default_value = SCRIPTS, value_parser = absolute)]
    pub scripts: PathBuf,

    /// The file that shepherds log to, on each execution host
    #[arg(long, value_name = "FILE", default_value = SHEPHERD_LOG, value_parser = absolute)]
    pub shepherd_log: PathBuf,

    /// The directory where install keeps what was there before
    #[arg(long, value_name = "DIR", default_value = STATE, value_parser = absolute)]
    pub state: PathBuf,
}

/// `libra gridengine install`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_INSTALL)]
pub struct GridEngineInstallArgs {
    /// Print what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// What each of these commands is told.
    #[command(flatten)]
    pub settings: GridEngineSettings,
}

/// `libra gridengine uninstall`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_UNINSTALL)]
pub struct GridEngineUninstallArgs {
    /// Print what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Also while jobs with terms are queued or running: Libra manages them no longer
    #[arg(long)]
    pub force: bool,

    /// What each of these commands is told.
    #[command(flatten)]
    pub settings: GridEngineSettings,
}

/// A path that a shell and Grid Engine's configuration take as it is.
fn absolute(text: &str) -> Result<PathBuf, String> {
    if text.contains(|c: char| c.is_whitespace() || "'\"#:=,$\\".contains(c)) {
        return Err("expected a path without blanks, quotes and #:=,$\\".to_string());
    }
    std::path::absolute(text).map_err(|error| error.to_string())
}
