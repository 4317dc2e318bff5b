//! What can be typed. The one source of help texts, man pages and completions.

mod account;
mod quote;
mod reproduce;
mod simulate;
mod web;
mod workload;

pub use account::{AccountArgs, AccountCommand, CreateArgs, DepositArgs, StatementArgs};
pub use quote::QuoteArgs;
pub use reproduce::{Paper, ReproduceArgs};
pub use simulate::{
    Coupled, DeadlineModel, DrawnTermsArgs, Format, SimulateArgs, Spare, Suspend, Waiting,
};
pub use web::WebArgs;
pub use workload::{Estimates, From, ImportArgs, MarginArgs, TraceCommand, WorkloadArgs};

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use libra_administration::Common;
use libra_administration::args::{GridEngineCommand, PbsCommand, SlurmCommand};
use libra_administration::status::sort::Sort;
use libra_config::System;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Heading of the options that every command has.
const COMMON: &str = "Common options";

/// Headings without and lines with indentation: [`generate`](super::generate) makes sections of them.
/// The version, and which commit was built: 'commit 0123456789ab', 'commit unknown' of an unpacked archive, or 'development build'.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("LIBRA_BUILD"), ")");

const AFTER: &str = "\
Examples:
  libra run -W deadline=20,budget=15,estimate=10 -- ./simulate input.dat
  libra quote --estimate 1h30m --deadline @17:30 --budget unlimited
  libra status --watch

Exit status:
  0    done; for 'run', the exit code of the job
  2    wrong arguments or configuration
  3    the job was refused
  4    there is no such job, or it has ended
  125  something on this host failed
  126  the job's program could not be executed
  127  the job's program was not found

Environment:
  LIBRA_CONFIG  configuration file, where --config names none
  LIBRA_LOG     what is logged: error, warn, info, debug or trace

Files:
  /etc/libra/libra.toml  the site's configuration; 'libra config default'
                         prints every key
  /run/libra             the jobs of this host; for other users than root
                         $XDG_RUNTIME_DIR/libra";

const AFTER_RUN: &str = "\
Examples:
  libra run -W deadline=20,budget=15,estimate=10 -- ./simulate input.dat
  libra run --estimate 1h30m --deadline @17:30 --budget unlimited -- make
  libra run -p 4 -W deadline=1h,budget=12000,estimate=30m -- ./threaded

Exit status:
  The job's own. When a signal ends the job, it ends 'libra run' as well: a
  shell shows 128 and the number of the signal. If the job did not run:

  2    wrong arguments or configuration
  3    the job was refused
  125  something on this host failed
  126  the program could not be executed
  127  the program was not found

Environment:
  LIBRA_JOB_ID  set for the job: its id";

const AFTER_QSUB: &str = "\
Examples:
  libra qsub -W deadline=2h,budget=9000,estimate=1h job.sh
  libra qsub -W deadline=@17:30,budget=9000,estimate=1h job.sh

In a script:
  #PBS -W deadline=2h,budget=9000,estimate=1h

Exit status:
  That of the real qsub: 0 submitted, 32 refused by Libra (the reason is on
  standard error). If it was not called:

  2    wrong terms, or no real qsub was found
  125  the script could not be handed over
  126  the real qsub could not be executed

Files:
  /etc/pbs.conf  where PBS is (PBS_EXEC); $PBS_CONF_FILE names another file";

const AFTER_STATUS: &str = "\
Keys with --watch:
  q          end
  d, s, h    sort by deadline, by state (those in danger first), by share
  u          the usual order
  space      look again now

States:
  quoted     no job: a quote that is held for one ('libra quote --hold')
  starting   accepted; it has not started yet
  on track   the share that it needs is one that it can have
  at risk    even a whole processor per slot would end it late
  overrun    it has used its estimate and runs on
  late       its deadline has passed
  orphaned   its 'libra run' was killed; the control loop looks after it
  met        it finished by its deadline, with exit code 0
  missed     it finished later
  failed     it ended with another exit code or by a signal, in time or late
  cancelled  'libra cancel' ended it
  stopped    the site ended it: it was past its estimate and deadline for too long
  ended      in time, and nobody saw how: its 'libra run' was killed, or its
             batch system knows
  running    a job without a promise, with what the others leave
  suspended  stands still: of best effort because nothing is left, else for
             another job whose deadline is earlier
  finished   with exit code 0, and no deadline was promised

In batch systems also:
  waits      accepted, and not started yet; 'at risk' where even a whole
             processor per slot would end it late
  planned    accepted, and its place is kept for its start
  deferred   accepted without a share before it may start, and judged then

Exit status:
  0    done
  2    wrong arguments or configuration
  4    there is no such job
  125  something on this host failed, or a system that was named did not answer

Environment:
  NO_COLOR   no colours, if it is set to anything

Examples:
  libra status --watch --sort deadline
  libra status --system slurm
  libra status --json 3 4";

const AFTER_CANCEL: &str = "\
Exit status:
  0    all of them are asked to end
  2    wrong arguments or configuration
  4    there is no such job, or it has ended; the others are asked to end
  125  something on this host failed";

/// Jobs with an estimate, a deadline and a budget on shared processors.
///
/// Libra says at once whether a job can be finished by its deadline and within its budget, at which
/// share of a processor and at which price, or why not and what would be accepted. Accepted jobs start
/// at once, are held to their shares by cgroups, and end in time.
#[derive(Debug, Parser)]
#[command(name = "libra", version = VERSION, after_long_help = AFTER, max_term_width = 100)]
pub struct Args {
    /// Configuration file [default: $LIBRA_CONFIG, /etc/libra/libra.toml, or built-in defaults]
    // The variable is read elsewhere: clap takes an empty one for an empty path.
    #[arg(long, global = true, value_name = "FILE", help_heading = COMMON)]
    pub config: Option<PathBuf>,

    /// Print JSON, one object a line
    #[arg(long, global = true, help_heading = COMMON)]
    pub json: bool,

    /// Log what is done; twice: everything
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = COMMON)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// What every command is given.
    pub fn common(&self) -> Common {
        Common {
            config: self.config.clone(),
            json: self.json,
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge a command and, when it is accepted, run it at its share
    ///
    /// An estimate, a deadline and a budget must be given, as a list (-W) or one by one. An accepted
    /// command starts at once, inside a cgroup of its own. Input, output and terminal are those of
    /// 'libra run', and signals sent to it go on to the command. What Libra says goes to standard
    /// error. When the first process of the job ends, whatever it left running is ended too.
    Run(RunArgs),

    /// Say what a job would cost and get, without running it
    ///
    /// Takes the terms of 'libra run', or those in a job script, and answers as this host, the PBS server or
    /// the Slurm cluster would now, with the price at other deadlines. Nothing is submitted, and nothing
    /// reserved but by --hold.
    Quote(QuoteArgs),

    /// Submit a job to PBS, with the terms of 'libra run -W'
    ///
    /// The options are those of the qsub of PBS (see its man page, qsub(1B)), which gets them as they
    /// are. What this adds: the keys deadline, budget, estimate, deadline_type and penalty_rate in
    /// -W lists, on the command line and in #PBS lines of the script, and a line on standard error
    /// with what Libra decided. The command line wins over the script, key by key. A link named qsub
    /// to this program, ahead of PBS's own in PATH, does the same.
    Qsub(QsubArgs),

    /// Show how jobs stand: those of this host, and of the batch systems that it has
    ///
    /// A batch system is asked where its programs and its configuration are on this host; 'libra pbs status' and
    /// its like show one alone. Jobs of this host that have ended come last, and are shown for a while
    /// (registry.keep-ended in the configuration). The bar is the part of the time until the deadline that has
    /// passed. With --watch keys sort and end it, and batch systems are asked every five seconds.
    Status(StatusArgs),

    /// End jobs and everything that they started
    ///
    /// SIGTERM to all processes of a job, then, after a while (agent.grace in the configuration),
    /// SIGKILL to those that are left.
    Cancel(CancelArgs),

    /// Run the control loop of this host
    ///
    /// Readjusts the shares of all jobs, sets again what somebody else changed, ends and cleans up
    /// jobs whose 'libra run' was killed. One process of a host does this; a second agent waits to
    /// take over. Where no agent runs, one of the 'libra run' does the same. Jobs run on when the
    /// agent ends.
    Agent(AgentArgs),

    /// Say what policies would have done to the jobs of a log
    ///
    /// Replays the submissions of a log on a simulated machine, once for each policy, and compares
    /// what would have become of the jobs. No log has deadlines and budgets: they are drawn at random,
    /// as in the papers that the policies come from, or taken from a file (--sla).
    Simulate(Box<SimulateArgs>),

    /// Run the experiments of the papers again
    ///
    /// The experiments behind the policies, with the papers' jobs; each statement of the papers is
    /// tested on what comes out.
    Reproduce(ReproduceArgs),

    /// Make a synthetic log of jobs, to simulate
    ///
    /// By the model of Lublin and Feitelson: sizes, run times and a daily cycle as they were found
    /// on four parallel machines. Written in the Standard Workload Format.
    Workload(WorkloadArgs),

    /// Make a log to simulate of a site's own records
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },

    /// Let a PBS server admit jobs by Libra
    Pbs {
        #[command(subcommand)]
        command: PbsCommand,
    },

    /// Let a Slurm cluster admit jobs by Libra
    Slurm {
        #[command(subcommand)]
        command: SlurmCommand,
    },

    /// Let a Grid Engine cell admit jobs by Libra
    Gridengine {
        #[command(subcommand)]
        command: GridEngineCommand,
    },

    /// Submit and watch jobs in a browser
    ///
    /// Serves a page on this machine, to you alone, and prints the address to open: it opens one browser, once. What the page
    /// does, it does as you and by the programs that you would have typed. Jobs run on when it ends.
    Web(WebArgs),

    /// Show and change accounts: money that jobs are paid with
    Account(AccountArgs),

    /// Check a configuration or print the default one
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },

    /// Print values for the completions of shells
    #[command(hide = true)]
    Complete(CompleteArgs),

    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// The terms of a job.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Terms")]
pub struct TermsArgs {
    /// Terms as a list: deadline=20,budget=15,estimate=10
    ///
    /// The keys are estimate, deadline, budget, deadline_type, penalty_rate, class and processors, the values those of
    /// the options below, which win over the list. May be given several times; later ones win.
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

    /// Class of service: deadline, dedicated, immediate or best-effort [default: the site's, deadline]
    ///
    /// deadline: a share, and an end by the deadline. dedicated: whole processors, and an end by the deadline. immediate: whole processors
    /// at once, or a refusal; needs no deadline. best-effort: no promise, what the others leave; needs no terms.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,

    /// Processors, each at the job's share: for threaded jobs [default: 1]
    #[arg(short, long, value_name = "N")]
    pub processors: Option<u32>,

    /// Memory that the host must have left: 512MiB, 4GiB [default: none]
    ///
    /// Counted at admission, not enforced.
    #[arg(long, value_name = "AMOUNT")]
    pub memory: Option<String>,
}

/// `libra run`
#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "libra run [OPTIONS] -W deadline=D,budget=B,estimate=E -- COMMAND [ARGUMENT]...",
    after_long_help = AFTER_RUN
)]
pub struct RunArgs {
    /// Say nothing about an accepted job, only why one was refused
    #[arg(short, long)]
    pub quiet: bool,

    /// What the job is called in 'libra status', for everybody to see [default: its command]
    #[arg(long, value_name = "TEXT", value_parser = job_name)]
    pub name: Option<String>,

    /// Let this project pay, where the site has accounts
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,

    /// Run it at the price and share of this quote, which 'libra quote --hold' gave for the same terms
    #[arg(long, value_name = "NUMBER")]
    pub quote: Option<String>,

    /// The command and its arguments, after --
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    // Last: its heading would be that of what follows.
    #[command(flatten)]
    pub terms: TermsArgs,
}

/// `libra qsub`; only its help is read here, see [`qsub::called`](super::qsub::called).
#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "libra qsub [QSUB-OPTIONS] [-W deadline=D,budget=B,estimate=E] [SCRIPT | -- COMMAND [ARGUMENT]...]",
    after_long_help = AFTER_QSUB,
    // The options are not listed: -v and -h are qsub's here.
    help_template = "{about-with-newline}\n{usage-heading} {usage}{after-help}"
)]
pub struct QsubArgs {
    /// What qsub takes
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "QSUB-ARGUMENT"
    )]
    pub arguments: Vec<OsString>,
}

/// `libra status`
#[derive(Debug, Default, ClapArgs)]
#[command(after_long_help = AFTER_STATUS)]
pub struct StatusArgs {
    /// Show it again and again, until 'q' is pressed or it is interrupted
    #[arg(short, long)]
    pub watch: bool,

    /// Only these [default: what is on this host]
    #[arg(long = "system", value_name = "SYSTEM,...", value_delimiter = ',', value_parser = quote::systems())]
    pub systems: Vec<System>,

    /// In which order
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,

    /// Time between two refreshes with --watch
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub interval: String,

    /// Only these jobs
    #[arg(value_name = "JOB", value_parser = job_id)]
    pub jobs: Vec<String>,
}

/// A text that can be the name of a job.
fn job_name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        return Err("it is empty; leave --name out for a job without a name");
    }
    if text.len() > 200 || text.contains(char::is_control) {
        return Err("expected at most 200 bytes in one line");
    }
    Ok(text.to_string())
}

/// A text that can be the id of a job; whether there is one is another question.
fn job_id(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("a job id is missing; 'libra status' lists the known ones");
    }
    let plain = !text.starts_with('.') && !text.contains(|c: char| c == '/' || c.is_control());
    if !plain || text.len() > 200 {
        return Err("this cannot be the id of a job; 'libra status' lists the known ones");
    }
    Ok(text.to_string())
}

/// `libra cancel`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_CANCEL)]
pub struct CancelArgs {
    /// Job ids, as 'libra status' shows them
    #[arg(required = true, value_name = "JOB", value_parser = job_id)]
    pub jobs: Vec<String>,
}

/// `libra agent`
#[derive(Debug, ClapArgs)]
pub struct AgentArgs {
    /// Do one round, then end; nothing where another process runs the loop
    #[arg(long)]
    pub once: bool,

    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics [default: metrics.listen of the configuration]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    (text.parse()).map_err(|_| "expected an address and a port, such as 127.0.0.1:9464")
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

/// `libra complete`
#[derive(Debug, ClapArgs)]
pub struct CompleteArgs {
    /// Values of what
    pub what: Completed,
}

/// What can be completed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Completed {
    /// Jobs of this host that have not ended
    Jobs,
    /// Jobs that 'libra status' shows
    AllJobs,
    /// Policies that can be simulated
    Policies,
    /// Accounts that the user may see
    Accounts,
    /// Projects of the user, without 'project:'
    Projects,
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
