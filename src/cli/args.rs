//! What can be typed. The one source of help texts, man pages and completions.

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  libra run -W deadline=20,budget=15,estimate=10 -- ./simulate input.dat
  libra quote --estimate 1h30m --deadline @17:30 --budget unlimited
  libra status --watch

Exit codes:
  0    done; for 'run', the job's own exit code passes through
  2    wrong arguments or configuration
  3    the job was refused
  125  something on this host failed
  126  the job's program could not be executed
  127  the job's program was not found";

/// Jobs with an estimate, a deadline and a budget on shared processors.
///
/// Libra says at once whether a job can be finished by its deadline and within its budget, at which
/// share of a processor and at which price, or why not and what would be accepted. Accepted jobs start
/// at once, are held to their shares by cgroups, and end in time.
#[derive(Debug, Parser)]
#[command(name = "libra", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Args {
    /// Configuration file [default: /etc/libra/libra.toml, or built-in defaults]
    #[arg(long, global = true, value_name = "FILE", env = "LIBRA_CONFIG")]
    pub config: Option<PathBuf>,

    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,

    /// Say more (-v: what is done, -vv: everything). LIBRA_LOG sets the same
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge a command and, when it is accepted, run it at its share
    ///
    /// The command starts at once inside a cgroup of its own. Its input, output, terminal and exit
    /// code are its own; signals sent to 'libra run' go on to it. What Libra says goes to standard
    /// error. The job's environment has LIBRA_JOB_ID. When its first process ends, whatever it left
    /// running is ended too.
    Run(RunArgs),

    /// Say what a job would cost and get, without running it
    Quote(QuoteArgs),

    /// Show the jobs of this host
    Status(StatusArgs),

    /// End jobs: SIGTERM to all their processes, SIGKILL after the configured grace
    Cancel(CancelArgs),

    /// Run the control loop of this host
    ///
    /// Readjusts the shares of all jobs, sets again what somebody else changed, ends and cleans up
    /// jobs whose 'libra run' was killed. Where no agent runs, one of the 'libra run' does the same.
    /// Jobs run on when the agent ends.
    Agent(AgentArgs),

    /// Check a configuration or print the default one
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },

    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// The terms of a job.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct TermsArgs {
    /// Terms as a list: deadline=20,budget=15,estimate=10[,deadline_type=soft,penalty_rate=0.1]
    ///
    /// The keys are those of the long options, which win over the list. May be given several times.
    #[arg(short = 'W', value_name = "KEY=VALUE,...")]
    pub list: Vec<String>,

    /// Run time on a processor of its own: 90, 00:01:30, 1h30m
    #[arg(long, value_name = "DURATION")]
    pub estimate: Option<String>,

    /// When it must be finished: a duration from now, or a clock time (@17:30, @2027-01-31T08:00)
    #[arg(long, value_name = "DURATION|@TIME")]
    pub deadline: Option<String>,

    /// The most it may cost, in credits, or 'unlimited'
    #[arg(long, value_name = "CREDITS")]
    pub budget: Option<String>,

    /// Whether a late result is useless (hard) or compensated (soft) [default: hard]
    #[arg(long, value_name = "hard|soft")]
    pub deadline_type: Option<String>,

    /// Credits paid back per second of delay of a soft job [default: 0]
    #[arg(long, value_name = "CREDITS")]
    pub penalty_rate: Option<String>,

    /// Processors, each at the job's share: for threaded jobs
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub processors: u32,

    /// Memory that the host must have left: 512MiB, 4GiB [default: none]
    ///
    /// Counted at admission, not enforced.
    #[arg(long, value_name = "AMOUNT")]
    pub memory: Option<String>,
}

/// `libra run`
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    #[command(flatten)]
    pub terms: TermsArgs,

    /// Say nothing about an accepted job, only why one was refused
    #[arg(short, long)]
    pub quiet: bool,

    /// The command and its arguments, after --
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `libra quote`
#[derive(Debug, ClapArgs)]
pub struct QuoteArgs {
    #[command(flatten)]
    pub terms: TermsArgs,
}

/// `libra status`
#[derive(Debug, ClapArgs)]
pub struct StatusArgs {
    /// Show it again and again, until interrupted
    #[arg(short, long)]
    pub watch: bool,

    /// Time between two looks with --watch
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub interval: String,

    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub jobs: Vec<String>,
}

/// `libra cancel`
#[derive(Debug, ClapArgs)]
pub struct CancelArgs {
    /// Job ids, as 'libra status' shows them
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<String>,
}

/// `libra agent`
#[derive(Debug, ClapArgs)]
pub struct AgentArgs {
    /// One round, then end
    #[arg(long)]
    pub once: bool,
}

/// `libra config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration and say what it means on this host
    Check {
        /// The file [default: the one that would be used]
        file: Option<PathBuf>,
    },
    /// Print every key with its default and what it means
    Default,
}

/// `libra generate`
#[derive(Debug, ClapArgs)]
pub struct GenerateArgs {
    /// What to write
    pub what: Generated,
    /// The directory to write to; made where it is missing
    pub directory: PathBuf,
}

/// What can be generated.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Generated {
    /// One man page for each command
    Man,
    /// Completions for bash, zsh and fish
    Completions,
}
