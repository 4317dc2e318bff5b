//! What can be typed after `libra slurm`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Where the states of installations are.
const STATE: &str = "/var/lib/libra/slurm";

/// How a node's host is asked, where nothing else is said.
const BY: &str = "ssh -o BatchMode=yes -o ConnectTimeout=10 {}";

const AFTER_INSTALL: &str = "\
Examples:
  libra slurm install --dry-run
  libra slurm install                     # copies the plugins, says what to write where
  libra slurm install --edit              # and writes it
  libra slurm install --build ~/libra     # builds the plugins for this Slurm first

Exit status:
  0    installed, or nothing to do
  1    'libra slurm check' found a problem; nothing was changed
  2    wrong arguments or configuration
  125  something failed: what was done before it stays, and a second run
       goes on from there

Environment:
  SLURM_CONF  Slurm's configuration, where it is not in a usual place

Files:
  /usr/lib/libra/slurm/VERSION/           plugins for that version of Slurm
  /var/lib/libra/slurm/CLUSTER.json       what was there before, for 'uninstall'";

const AFTER_BUILD: &str = "\
Examples:
  libra slurm build                       # of the package libra-slurm-source
  libra slurm build --if-needed           # in a hook, after each upgrade of Slurm
  libra slurm build --include /root/new/usr/include   # before the upgrade

Exit status:
  0    built, or nothing to do
  2    wrong arguments
  125  something failed

Files:
  /usr/src/libra-slurm-VERSION.tar.xz     the sources, of this version of Libra
  /var/lib/libra/slurm-plugins/           the plugins, by versions of Libra and Slurm";

const AFTER_UNINSTALL: &str = "\
Exit status:
  0    all undone, or nothing to do
  1    not undone: Slurm's configuration still names Libra, or jobs hold what
       was committed to them
  2    wrong arguments
  125  something failed; a second run goes on from there

Environment:
  SLURM_CONF  Slurm's configuration, where it is not in a usual place";

const AFTER_CHECK: &str = "\
Examples:
  libra slurm check                       # this machine
  libra slurm check --nodes               # all nodes of Libra's partitions
  libra slurm check --nodes=n[1-99]       # these
  libra slurm check --nodes --by 'ssh -p 2222 admin@{} sudo'

Lines begin with:
  ok       as it should be
  warning  works, but read it
  problem  Slurm or Libra would not work

Exit status:
  0    no problem
  1    at least one problem

Environment:
  SLURM_CONF  Slurm's configuration, where it is not in a usual place";

/// `libra slurm`
#[derive(Debug, Subcommand)]
pub enum SlurmCommand {
    /// Build Libra's plugins for the Slurm whose headers are here
    ///
    /// A plugin is for one version of Slurm: with another one slurmctld does not start. Builds both for the headers in
    /// --include, looks whether they are for that version, and puts them where 'libra slurm install' looks; nothing of
    /// Slurm's is touched. All that is needed of Libra is in one file, so no network is; Rust, a C compiler and libclang
    /// are. It takes two minutes on two processors, and a third of a gigabyte there while it builds. Root builds only of what
    /// nobody else can write, and where nobody else can.
    Build(SlurmBuildArgs),

    /// Put Libra's plugins into the Slurm of this machine
    ///
    /// Checks first ('libra slurm check') and stops on problems, above all on a plugin that was built for another version:
    /// slurmctld would not start with it. Copies the plugins into Slurm's PluginDir and says which lines are to be written into
    /// slurm.conf and plugstack.conf, and what to do then. A second run changes only what differs. On the controller both
    /// plugins are copied, on nodes and where users log in the one for SPANK.
    Install(SlurmInstallArgs),

    /// Undo what 'libra slurm install' did on this machine
    ///
    /// First the lines, then the files: a slurm.conf that names a plugin which is not there keeps slurmctld from starting. So
    /// it refuses while slurm.conf or plugstack.conf still name Libra, unless --edit takes the lines out. What nobody changed
    /// since is afterwards as it was, to the byte.
    Uninstall(SlurmUninstallArgs),

    /// Say whether Libra can work with the Slurm of this machine, and whether what is installed is sound
    ///
    /// Reads only. Works with the controller down. With --nodes it asks the nodes' hosts what the same command says there,
    /// and puts nodes together of which the same is said.
    Check(SlurmCheckArgs),

    /// Show what is committed on the nodes, and how the jobs with terms stand
    ///
    /// Slack is for how long a job could stand still and, on processors of its own from then on, still end in time. Jobs
    /// with the least of it come first. What a running job has used is reckoned from its share and the time since it
    /// started, as the plugin reckons it; 'libra status' on its node has what the kernel counted. With --json, the same for
    /// programs.
    Status,
}

/// What a machine is to Slurm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// slurmctld runs here
    Controller,
    /// slurmd runs here
    Node,
    /// Users submit here
    Login,
    /// All of them
    All,
}

/// Where things are.
#[derive(Debug, Clone, ClapArgs)]
pub struct SlurmSettings {
    /// What this machine is to Slurm [default: by its programs and slurm.conf]
    #[arg(long, value_name = "ROLE")]
    pub role: Option<Role>,

    /// The directory with Libra's plugins, or with a directory of them for each version of Slurm [default: /usr/lib/libra/slurm, and what 'build' has built]
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    pub plugins: Option<PathBuf>,

    /// Slurm's directory to put them into [default: from slurm.conf, else where Slurm's programs look]
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    pub plugin_dir: Option<PathBuf>,

    /// The directory where install keeps what was there before
    #[arg(long, value_name = "DIR", default_value = STATE, value_parser = absolute)]
    pub state: PathBuf,
}

/// `libra slurm check`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_CHECK)]
pub struct SlurmCheckArgs {
    /// Ask nodes: those of Slurm's list NODES, or all of the partitions whose processors jobs with deadlines share
    #[arg(long, value_name = "NODES", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with_all = ["role", "plugins", "plugin_dir", "state"])]
    pub nodes: Option<String>,

    /// How a command is run on a node's host: words, in which {} stands for the host; the command is put behind them
    #[arg(long, value_name = "COMMAND", default_value = BY, requires = "nodes")]
    pub by: String,

    /// What each of these commands is told.
    #[command(flatten)]
    pub settings: SlurmSettings,
}

/// `libra slurm build`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_BUILD)]
pub struct SlurmBuildArgs {
    /// libra-slurm-VERSION.tar.xz, or a directory with Libra's sources [default: that of the package libra-slurm-source]
    #[arg(value_name = "SOURCES", value_parser = absolute)]
    pub sources: Option<PathBuf>,

    /// The directory in which Slurm's headers are, as slurm/slurm.h
    #[arg(long, value_name = "DIR", default_value = "/usr/include", value_parser = absolute)]
    pub include: PathBuf,

    /// The directory that gets one for each version of Slurm [default: in /var/lib/libra/slurm-plugins]
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    pub to: Option<PathBuf>,

    /// Build nothing, and say nothing, where there are plugins made of these sources for these headers
    #[arg(long)]
    pub if_needed: bool,
}

/// `libra slurm install`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_INSTALL)]
pub struct SlurmInstallArgs {
    /// Print what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Also write the lines into slurm.conf and plugstack.conf; copies of the files stay beside them
    #[arg(long)]
    pub edit: bool,

    /// Build the plugins first, with scripts/slurm-plugins of Libra's sources in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "plugins")]
    pub build: Option<PathBuf>,

    /// What each of these commands is told.
    #[command(flatten)]
    pub settings: SlurmSettings,
}

/// `libra slurm uninstall`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_UNINSTALL)]
pub struct SlurmUninstallArgs {
    /// Print what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Take the lines out of slurm.conf and plugstack.conf
    #[arg(long)]
    pub edit: bool,

    /// Also while jobs with terms are queued or running: Libra manages them no longer
    #[arg(long)]
    pub force: bool,

    /// What each of these commands is told.
    #[command(flatten)]
    pub settings: SlurmSettings,
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    if text.contains(|c: char| c.is_whitespace() || "'\"#:=".contains(c)) {
        return Err("expected a path without blanks, quotes and #:=".to_string());
    }
    std::path::absolute(text).map_err(|error| error.to_string())
}
