//! What can be typed after `libra pbs`.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// Where the states of installations are.
const STATE: &str = "/var/lib/libra/pbs";

const AFTER_INSTALL: &str = "\
Examples:
  libra pbs install --dry-run
  libra pbs install --nodes n1,n2
  libra pbs install --share 1.5

Exit status:
  0    installed, or nothing to do
  1    'libra pbs check' found a problem; nothing was changed
  2    wrong arguments or configuration
  125  a command failed: what was done before it stays, and a second run
       goes on from there

Environment:
  PBS_CONF_FILE  the configuration of PBS, where it is not /etc/pbs.conf

Files:
  /var/lib/libra/pbs/SERVER.json  what was there before, for 'uninstall'";

const AFTER_UNINSTALL: &str = "\
Exit status:
  0    all undone, or nothing to do
  1    not undone, or not all of it: jobs hold what Libra made
  2    wrong arguments
  125  a command failed; a second run goes on from there

Environment:
  PBS_CONF_FILE  the configuration of PBS, where it is not /etc/pbs.conf";

const AFTER_CHECK: &str = "\
Lines begin with:
  ok       as it should be
  warning  works, but read it
  problem  'libra pbs install' stops here

Exit status:
  0    no problem
  1    at least one problem

Environment:
  PBS_CONF_FILE  the configuration of PBS, where it is not /etc/pbs.conf";

/// `libra pbs`
#[derive(Debug, Subcommand)]
pub enum PbsCommand {
    /// Let this PBS server admit jobs by Libra
    ///
    /// Creates resources and hooks, declares what may be shared on the nodes, and adds libra_share to
    /// the resources of the scheduler. Checks first ('libra pbs check') and stops on problems. Prints
    /// every command before it runs it. A second run changes only what differs: after an upgrade of
    /// Libra, with other options, or where the first one was interrupted. Options that it leaves out are
    /// as at the last run.
    Install(PbsInstallArgs),

    /// Undo what 'libra pbs install' did
    ///
    /// Removes what install made, in the reverse order, and sets what it changed to what was there
    /// before. Refuses while jobs with terms, or counted by libra_besteffort, are queued or running. Finished jobs in the history of
    /// PBS keep their resources from being deleted: these stay until a later run, or the jobs are
    /// deleted from the history (--delete-history).
    Uninstall(PbsUninstallArgs),

    /// Say whether Libra can be installed here, and whether what is installed is sound
    ///
    /// Reads only.
    #[command(after_long_help = AFTER_CHECK)]
    Check(PbsSettings),

    /// Show what is committed on the nodes, and how the jobs with terms stand
    ///
    /// Slack is for how long a job could stand still and, on processors of its own from then on, still
    /// end in time. Jobs with the least of it come first. With --json, the same for programs.
    Status,

    /// Write out the hooks as they are imported, to read them
    Hooks {
        /// The directory to write to; made where it is missing
        directory: PathBuf,

        /// What each of these commands is told.
        #[command(flatten)]
        settings: PbsSettings,
    },
}

/// What the hooks are told.
#[derive(Debug, Clone, ClapArgs)]
pub struct PbsSettings {
    /// The library that the hooks load, on the server and on every host [default: where it is found]
    #[arg(long, value_name = "FILE", value_parser = absolute)]
    pub library: Option<PathBuf>,

    /// Configuration file of the execution hosts; %h is the host's name [default: as --config]
    #[arg(long, value_name = "FILE", value_parser = absolute)]
    pub host_config: Option<PathBuf>,

    /// The directory where install keeps what was there before
    #[arg(long, value_name = "DIR", default_value = STATE, value_parser = absolute)]
    pub state: PathBuf,
}

/// `libra pbs install`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_INSTALL)]
pub struct PbsInstallArgs {
    /// Print what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// The nodes whose processors jobs may share, or 'all' [default: all]
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    pub nodes: Vec<String>,

    /// Processors of each of these nodes that may be shared, or 'all' [default: all]
    #[arg(long, value_name = "N", value_parser = share)]
    pub share: Option<Share>,

    /// What each of these commands is told.
    #[command(flatten)]
    pub settings: PbsSettings,
}

/// `libra pbs uninstall`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_UNINSTALL)]
pub struct PbsUninstallArgs {
    /// Print what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Also while jobs with terms are queued or running: Libra manages them no longer
    #[arg(long)]
    pub force: bool,

    /// Delete finished jobs that had terms from the history of PBS
    #[arg(long)]
    pub delete_history: bool,

    /// The directory where install kept what was there before
    #[arg(long, value_name = "DIR", default_value = STATE, value_parser = absolute)]
    pub state: PathBuf,
}

/// What `--share` says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// All processors of a node.
    All,
    /// So many.
    Processors(f64),
}

fn share(text: &str) -> Result<Share, &'static str> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1e6 => Ok(Share::Processors(n)),
        _ if text == "all" => Ok(Share::All),
        _ => Err("expected 'all' or a number of processors above 0, such as 3.5"),
    }
}

/// Hooks run elsewhere, in a directory that is not the caller's.
fn absolute(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    // A quote or a line end would end a command of qmgr too early.
    if !path.is_absolute() || text.contains(|c: char| c.is_whitespace() || c == '\'' || c == '"') {
        return Err("expected an absolute path without spaces and quotes");
    }
    Ok(path)
}
