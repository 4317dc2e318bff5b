//! What can be typed after `libra simulate`.

use clap::{Args as ClapArgs, ValueEnum};
use libra_simulator::schedulers;
use std::path::PathBuf;

const AFTER: &str = "\
Measures:
  refused   jobs that did not run
  late      jobs that ended after their deadline; the percentage is of those
            that ran without a condition
  cond.     jobs that did so with a deadline shorter than their estimate: they
            are not counted as late
  met       jobs that ended by it; the percentage is of all submitted jobs
            that ran in the log
  work      processor seconds of those, in percent of all submitted jobs'
  slowdown  (end - submission) / run time, mean of the jobs that met
  wait      from submission to end, less the run time; mean of the jobs that
            ran
  utility   credits: budgets less penalties for delay (LibraSLA 2005);
            not known where budgets are unlimited
  revenue   credits: the prices of the jobs that ran, as they were agreed
  in use    work of the jobs that ran, of what the machine could have done

Sweeps:
  --sweep NAME=FROM..TO..STEP, or NAME=0.1,0.2,...,1, where NAME is one of
  arrival-delay-factor, high-urgency, deadline-factor, deadline-ratio,
  deadline-spread, slack (seconds), infeasible, estimates, budget-factor,
  budget-ratio, budget-spread, penalty-factor, penalty-ratio, penalty-spread,
  estimate-margin, nodes

Examples:
  libra simulate site.swf.gz --policy easy,edf --report page.html
  libra simulate site.swf.gz --last 3000 --sweep arrival-delay-factor=0.1..1..0.1
  libra simulate site.swf.gz --deadline-model slack --slack 4h
  libra simulate site.swf.gz --deadline-model run --coupled never
  libra simulate site.swf.gz --seeds 10 --format json

Exit status:
  0    done
  2    wrong arguments, configuration or log
  125  something could not be written";

/// `libra simulate`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER)]
pub struct SimulateArgs {
    /// Log of jobs in the Standard Workload Format, plain or gzip; - is standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// Policies to compare, separated by commas
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', long_help = policies())]
    pub policy: Option<Vec<String>>,

    /// Only so many jobs from the start of the log
    #[arg(long, value_name = "N", conflicts_with = "last", value_parser = positive)]
    pub first: Option<usize>,

    /// Only so many jobs up to the end of the log
    #[arg(long, value_name = "N", value_parser = positive)]
    pub last: Option<usize>,

    /// Leave out lines that are no jobs and jobs larger than the machine, and say how many
    #[arg(long)]
    pub lenient: bool,

    #[command(flatten)]
    pub machine: MachineArgs,

    #[command(flatten)]
    pub terms: DrawnTermsArgs,

    #[command(flatten)]
    pub rules: RulesArgs,

    #[command(flatten)]
    pub runs: RunsArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// The machine.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Machine")]
pub struct MachineArgs {
    /// Nodes [default: MaxNodes or MaxProcs of the log]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,

    /// Processors of each node [default: MaxProcs / MaxNodes of the log, or 1]
    #[arg(long, value_name = "N")]
    pub processors_per_node: Option<u32>,

    /// Which jobs are coupled: their slots wait for each other and go on at the pace of the slowest
    ///
    /// The processes of most parallel programs do. A column 'coupled' of the file of --sla says it of
    /// single jobs.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Coupled::MultiProcessor)]
    pub coupled: Coupled,
}

/// How terms are drawn.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Terms, which no log has: they are drawn")]
pub struct DrawnTermsArgs {
    /// Terms of single jobs from a CSV file, with the columns job, deadline, budget and so on
    ///
    /// The first line names the columns: job (the number in the log), and any of deadline, estimate,
    /// budget, deadline_type, penalty_rate and coupled (yes or no). What is not given is drawn.
    #[arg(long, value_name = "FILE")]
    pub sla: Option<PathBuf>,

    /// Estimates: the log's, exact, or how far from exact (0) to the log's (1) [default: trace]
    #[arg(long, value_name = "trace|exact|P")]
    pub estimates: Option<String>,

    /// Part of the jobs that is of high urgency [default: 0.2]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub high_urgency: Option<f64>,

    /// What deadlines are drawn from [default: estimate; with --soft: run]
    ///
    /// The papers take the true run time, which no user knows; the other models go by what users do know.
    #[arg(long, value_name = "MODEL", value_enum)]
    pub deadline_model: Option<DeadlineModel>,

    /// Mean of deadline / estimate (or run time) of jobs of high urgency [default: 4]
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub deadline_factor: Option<f64>,

    /// How many times longer the others' are [default: 4; with --soft: 7]
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub deadline_ratio: Option<f64>,

    /// Standard deviation of that multiple, as a part of its mean [default: 0.25]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub deadline_spread: Option<f64>,

    /// With --deadline-model slack: mean time between the estimate and the deadline [default: 8h]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub slack: Option<String>,

    /// With --deadline-model clock: the times by which jobs are wanted [default: 18:00,8:00,mon-8:00]
    #[arg(long, value_name = "TIMES")]
    pub clock_times: Option<String>,

    /// Part of the jobs whose deadline is shorter than their run time [default: 0]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub infeasible: Option<f64>,

    /// Multiplies the times between submissions: less is more load [default: 1]
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub arrival_delay_factor: Option<f64>,

    /// Soft deadlines, budgets and penalties, by the model of the LibraSLA paper
    ///
    /// Jobs of low urgency have soft deadlines, 7 times as long as those of high urgency; these pay 7
    /// times as much and get 4 times the penalty rate. Estimates are exact. Single values can be
    /// changed with the other options.
    #[arg(long)]
    pub soft: bool,

    /// Mean of budget / run time of jobs of low urgency, credits a second [default: unlimited; with --soft: 1]
    #[arg(long, value_name = "CREDITS", allow_negative_numbers = true)]
    pub budget_factor: Option<f64>,

    /// How many times more those of high urgency offer [default: 7]
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub budget_ratio: Option<f64>,

    /// Standard deviation of budget / run time, as a part of its mean [default: 0.25]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub budget_spread: Option<f64>,

    /// Mean of penalty rate / run time of jobs of low urgency [default: none; with --soft: 0.0001]
    #[arg(long, value_name = "CREDITS", allow_negative_numbers = true)]
    pub penalty_factor: Option<f64>,

    /// How many times higher that of high urgency is [default: 4]
    #[arg(long, value_name = "F", allow_negative_numbers = true)]
    pub penalty_ratio: Option<f64>,

    /// Standard deviation of penalty rate / run time, as a part of its mean [default: 0.25]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub penalty_spread: Option<f64>,
}

/// What admission goes by. Prices come from the configuration.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Rules of admission")]
pub struct RulesArgs {
    /// Part by which estimates are stretched for planning: 0.05 [default: the configuration's]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub estimate_margin: Option<f64>,

    /// What time that no job was promised is used for
    #[arg(long, value_name = "USE", value_enum, default_value_t = Spare::Idle)]
    pub spare: Spare,

    /// What a slot of a coupled job does while it waits for the others
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Waiting::Block)]
    pub waiting: Waiting,

    /// Whether libra-gang, libra-classes and libra-dedicated suspend jobs behind earlier deadlines
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Suspend::Memory)]
    pub suspend: Suspend,

    /// Most jobs of libra-gang that have begun and not ended on a processor [default: what its memory holds]
    #[arg(long, value_name = "N")]
    pub jobs_per_processor: Option<u32>,

    /// Jobs that libra-gang refuses wait, and are promised later where others end early
    #[arg(long)]
    pub wait_for_promise: bool,
}

/// Which runs there are.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Runs")]
pub struct RunsArgs {
    /// Number that the draws start from: the same one, the same results
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Runs with so many seeds, counted from --seed; shows means and standard deviations [default: 1, and 5 for a report]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,

    /// Runs over a range of values of one parameter; see below
    #[arg(long, value_name = "NAME=VALUES")]
    pub sweep: Option<String>,

    /// Threads; the results do not depend on it [default: the processors of this host]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,
}

/// What comes out.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// What is printed; json is one object a line, as with --json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Write what became of every job as CSV, gzip if the name ends in .gz
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    pub outcomes: Option<PathBuf>,

    /// Write a page with figures as HTML
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// What deadlines are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeadlineModel {
    /// A multiple of the true run time, as in the papers
    Run,
    /// A multiple of the estimate
    Estimate,
    /// The estimate and a time of exponential length (--slack)
    Slack,
    /// The next of the clock times that leaves time for the estimate (--clock-times)
    Clock,
}

/// Which jobs are coupled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Coupled {
    /// None, as in the papers
    Never,
    /// Those of more than one processor
    MultiProcessor,
    /// All
    Always,
}

/// What a slot of a coupled job does while it waits for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Waiting {
    /// It sleeps: policies that give spare time out give its time to others
    Block,
    /// It asks again and again, as MPI libraries often do: its time is used up
    Spin,
}

/// What time that no job was promised is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Spare {
    /// Nothing: every job gets its share
    Idle,
    /// All jobs of the node, in proportion to their shares
    Shared,
    /// The job of the node with the highest return
    HighestReturn,
}

/// Who may be suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suspend {
    /// Where the memory of the nodes holds both jobs
    Memory,
    /// Who has started runs to its end
    Never,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

fn positive(text: &str) -> Result<usize, &'static str> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or("expected a whole number from 1 up")
}

/// The help text of `--policy`.
fn policies() -> String {
    let mut text = format!(
        "Policies to compare, separated by commas [default: {}; '{}' where the log has waiting times and is run on its own machine]\n",
        schedulers::DEFAULT.join(","),
        schedulers::DEFAULT[0]
    );
    for known in &schedulers::ALL {
        text += &format!("\n- {}: {}", known.name, known.summary);
    }
    text
}
