//! What can be typed after `libra workload` and `libra trace`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;

const AFTER_WORKLOAD: &str = "\
Examples:
  libra workload --jobs 5000 --nodes 64 --load 0.8 -o synthetic.swf.gz
  libra workload --jobs 100 --estimates exact | head -30

Exit status:
  0    done
  2    wrong arguments
  125  the log could not be written";

const AFTER_IMPORT: &str = "\
Slurm:
  sacct --allusers --starttime 2027-01-01 --endtime 2027-02-01 --parsable2 \\
    --format=JobID,JobIDRaw,User,Group,Partition,Submit,Start,End,ElapsedRaw,\\
TimelimitRaw,ReqCPUS,AllocCPUS,NNodes,State,TotalCPU,ReqMem,MaxRSS >jobs.txt
  libra trace import jobs.txt -o site.swf.gz

PBS (OpenPBS, PBS Professional, Torque):
  libra trace import /var/spool/pbs/server_priv/accounting/202701* -o site.swf.gz

Grid Engine:
  libra trace import $SGE_ROOT/$SGE_CELL/common/accounting -o site.swf.gz

Exit status:
  0    done
  2    wrong arguments, or records that cannot be read
  125  the log could not be written";

/// `libra workload`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER_WORKLOAD)]
pub struct WorkloadArgs {
    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub jobs: u32,

    /// Nodes of the machine, one processor each
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub nodes: u32,

    /// Part of the machine that the jobs would keep busy: 0.7, 1.2 [default: as the model has it]
    ///
    /// Their processor seconds, over the processors times the time from the first submission to
    /// the last. Jobs come faster or slower for it; the daily cycle stays.
    #[arg(long, value_name = "L")]
    pub load: Option<f64>,

    /// Number that the random draws start from: the same one, the same log
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Users; the n-th most active submits 1/n of what the most active does
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub users: u32,

    /// What users say of their run times
    #[arg(long, value_name = "MODEL", value_enum, default_value_t = Estimates::Round)]
    pub estimates: Estimates,

    /// Where to write it, gzip if the name ends in .gz [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What users say of their run times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Estimates {
    /// Round values, never shorter than the run time and mostly much longer, as real users' are
    Round,
    /// The run times
    Exact,
}

const AFTER_MARGIN: &str = "\
Examples:
  libra trace margin site.swf.gz
  libra trace margin --last 20000 --json site.swf.gz
  libra trace import --promised /var/spool/pbs/server_priv/accounting/* | libra trace margin --keep -";

/// `libra trace`
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Make a log of a site's own accounting records
    ///
    /// Reads what Slurm's sacct prints (--parsable2, with its header line) or PBS accounting logs,
    /// plain or gzip, several files in any order, and writes their jobs in the Standard Workload
    /// Format, in order of submission. Jobs that are still waiting or running are left out. A
    /// summary goes to standard error.
    #[command(after_long_help = AFTER_IMPORT)]
    Import(ImportArgs),

    /// Propose a margin on estimates from a log's jobs
    ///
    /// Reads a log in the Standard Workload Format (of your own records: 'libra trace import') and holds run times against estimates. The
    /// margin that it proposes is the least, in whole percent and at most 100 %, that one job in a hundred exceeds. What the
    /// first two thirds of the log would have proposed is tried on the last third.
    #[command(after_long_help = AFTER_MARGIN)]
    Margin(MarginArgs),
}

/// `libra trace margin`
#[derive(Debug, ClapArgs)]
pub struct MarginArgs {
    /// Take the last N jobs of the log alone
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,

    /// Write what is proposed beside the configuration (learned-margin.toml), where estimate-margin = "learned" follows it
    #[arg(long)]
    pub keep: bool,

    /// Leave out lines that cannot be read, and say how many
    #[arg(long)]
    pub lenient: bool,

    /// The log, plain or gzip; - is standard input
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
}

/// `libra trace import`
#[derive(Debug, ClapArgs)]
pub struct ImportArgs {
    /// What the records are written in [default: as they look]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub from: Option<From>,

    /// Where to write the log, gzip if the name ends in .gz [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write no names of users, groups and queues into the header
    #[arg(long)]
    pub anonymous: bool,

    /// Only the jobs that Libra promised something, against their own estimates
    ///
    /// Their run times are then what they needed: processor time of a slot, or, with whole processors, the time that they ran; cancelled jobs are
    /// left out. For 'libra trace margin', not for a simulation. sacct needs the column AdminComment for it, as the last one.
    #[arg(long)]
    pub promised: bool,

    /// Processors of the cluster [default: the most that were in use at one time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub processors: Option<u32>,

    /// Time zone of the cluster: Europe/Berlin [default: that of this host]
    ///
    /// sacct and PBS write local times. Of an hour that a change of the clocks makes occur twice the
    /// first one is taken.
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<String>,

    /// Leave out lines that cannot be read, and say how many
    #[arg(long)]
    pub lenient: bool,

    /// Files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// What the records are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// What sacct --parsable2 prints
    Sacct,
    /// PBS accounting logs
    Pbs,
    /// Grid Engine's accounting file
    Gridengine,
}
