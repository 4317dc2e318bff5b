//! What can be typed after `libra quote`.

use super::TermsArgs;
use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use libra_config::System;
use std::ffi::OsString;
use std::path::PathBuf;

const AFTER_QUOTE: &str = "\
Examples:
  libra quote -W deadline=20,budget=15,estimate=10
  libra quote -W deadline=20,estimate=10          # what it costs, and which budget would do
  libra quote --json --estimate 1h30m --deadline @17:30 --budget unlimited
  libra quote job.sh input.dat
  libra quote --deadline 3h --svg price.svg --system slurm job.sh
  libra quote --hold 5m -W deadline=1h,budget=3700,estimate=1800

Exit status:
  0    it would be accepted
  2    wrong arguments or configuration
  3    it would be refused
  125  something on this host failed";

/// `libra quote`
#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "libra quote [OPTIONS] [-W deadline=D,estimate=E[,budget=B]] [SCRIPT [ARGUMENT]...]",
    after_long_help = AFTER_QUOTE
)]
pub struct QuoteArgs {
    /// Who is asked [default: by the script's lines and what is installed, else this host]
    #[arg(long, value_name = "SYSTEM", value_parser = systems())]
    pub system: Option<System>,

    /// Draw the price over deadlines, also where the output is no terminal
    #[arg(long)]
    pub chart: bool,

    /// Write the same as a drawing
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Keep price, node and share for so long, for a job with the same terms ('libra run --quote')
    #[arg(long, value_name = "DURATION", conflicts_with = "drop")]
    pub hold: Option<String>,

    /// Give a held quote back
    #[arg(long, value_name = "NUMBER")]
    pub drop: Option<String>,

    /// Ask as a job that this project pays for, where the site has accounts
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,

    /// GPUs of the node, of any type or of one: 2, tesla:2 (in Slurm; in PBS by number alone)
    #[arg(long, value_name = "[TYPE:]NUMBER")]
    pub gpus: Option<String>,

    /// A job script; its #PBS, #SBATCH or #$ lines are read, and options here win over them
    #[arg(value_name = "SCRIPT")]
    pub script: Option<PathBuf>,

    /// The script's arguments; '--' before those that begin with a dash
    #[arg(value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,

    // Last: its heading would be that of what follows.
    #[command(flatten)]
    pub terms: TermsArgs,
}

/// Whom `libra quote` asks, and `libra status`.
pub fn systems() -> impl TypedValueParser<Value = System> {
    let values = System::ALL.map(|system| {
        PossibleValue::new(system.name()).help(match system {
            System::Local => "This host",
            System::Pbs => "The PBS server, through qsub",
            System::Slurm => "The Slurm cluster, through sbatch",
            System::GridEngine => "The Grid Engine cell, through its qsub",
        })
    });
    PossibleValuesParser::new(values).try_map(|name| System::named(&name).ok_or("no such system"))
}
