//! What can be typed after `libra reproduce`.

use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

const AFTER: &str = "\
Logs:
  librasla and librarisk take the last 1000 and 3000 jobs of SDSC SP2, aroma
  the first 35000. The Parallel Workloads Archive has it as
  SDSC-SP2-1998-4.2-cln.swf.gz:
  https://www.cs.huji.ac.il/labs/parallel/workload/l_sdsc_sp2/
  Its terms: for educational, research and non-profit purposes.
  libra draws its jobs at random and needs no log.

Files written with --output:
  index.html         verdicts, figures and numbers
  NAME-findings.csv  every statement of the paper, with the numbers
  NAME-figure-*      each plot as SVG and as CSV
  NAME-*.csv         tables

Examples:
  libra reproduce libra
  libra reproduce librarisk --trace SDSC-SP2-1998-4.2-cln.swf.gz --output risk

Exit status:
  0    done, whatever the verdicts
  2    wrong arguments or log
  125  something could not be written";

/// `libra reproduce`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER)]
pub struct ReproduceArgs {
    /// Whose experiments
    #[arg(value_name = "PAPER")]
    pub paper: Paper,

    /// The log of SDSC SP2, plain or gzip; see below
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Write a page, plots and tables to this directory; made where it is missing
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Runs with so many seeds [default: 5; for libra 200; aroma draws nothing]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,

    /// Fewer values of every parameter
    #[arg(long)]
    pub quick: bool,

    /// Threads; the results do not depend on it [default: the processors of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: Option<u64>,
}

/// The papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// 2004: Table I, FIFO against Libra
    Libra,
    /// 2005: LibraSLA against Libra, figures 2 to 5
    Librasla,
    /// 2006: EDF, Libra and LibraRisk, figures 1 to 4
    Librarisk,
    /// 2004: waits under AROMA's classes of service against the log's, Tables 1 and 2
    Aroma,
}
