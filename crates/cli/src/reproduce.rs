//! `libra reproduce`: reads the log, runs a paper's experiments, prints and writes what came of them.

use super::args::{Args, Paper, ReproduceArgs};
use super::{Done, Failure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use libra_experiments::{Options, Reproduction, aroma, libra as libra_2004, librarisk, librasla};
use libra_terminal::answer;
use libra_workload::read::{self, Leniency, Log};
use std::io::IsTerminal;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

pub fn reproduce(reproduce: &ReproduceArgs, args: &Args) -> Done {
    let seeds = match reproduce.paper {
        Paper::Libra => 200,
        Paper::Librasla | Paper::Librarisk => 5,
        Paper::Aroma => 1,
    };
    let processors = available_parallelism().map_or(1, usize::from);
    let options = Options {
        seeds: reproduce.seeds.unwrap_or(seeds),
        quick: reproduce.quick,
        threads: reproduce
            .threads
            .map_or(processors, |threads| threads as usize),
    };
    if let Some(directory) = &reproduce.output {
        // Said before the work and not after it.
        std::fs::create_dir_all(directory).map_err(|error| cannot_write(directory, error))?;
    }
    let mut result = run(reproduce, &options)?;
    result.facts.extend(how(reproduce.paper, &options));
    if let Some(directory) = &reproduce.output {
        for (name, text) in result.files() {
            let file = directory.join(name);
            std::fs::write(&file, text).map_err(|error| Failure::Write { file, error })?;
        }
    }
    let text = match args.json {
        true => format!("{}\n", result.json()),
        false => {
            let out = std::io::stdout();
            let size = out
                .is_terminal()
                .then(|| terminal_size::terminal_size_of(&out));
            match size.flatten() {
                Some((width, _)) => result.markdown_within(usize::from(width.0)),
                None => result.markdown(),
            }
        }
    };
    answer(&text, 0)
}

fn run(reproduce: &ReproduceArgs, options: &Options) -> Result<Reproduction, Failure> {
    let trace = reproduce.trace.as_deref();
    let bar = bar();
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let result =
        match reproduce.paper {
            Paper::Libra => libra_2004::reproduce(options, &progress),
            Paper::Librasla => librasla::reproduce(&log(trace)?, options, &progress)
                .map_err(|error| usage(&error))?,
            Paper::Librarisk => librarisk::reproduce(&log(trace)?, options, &progress)
                .map_err(|error| usage(&error))?,
            Paper::Aroma => {
                let started = Instant::now();
                let mut clock = || started.elapsed().as_secs_f64();
                aroma::run(&log(trace)?.records, &mut clock)
                    .map_err(|error| usage(&error))?
                    .reproduction()
            }
        };
    bar.finish_and_clear();
    Ok(result)
}

fn log(trace: Option<&Path>) -> Result<Log, Failure> {
    let Some(trace) = trace else {
        return Err(Failure::Usage(
            "these experiments need a log: give --trace FILE, where FILE is \
             SDSC-SP2-1998-4.2-cln.swf.gz of the Parallel Workloads Archive \
             (https://www.cs.huji.ac.il/labs/parallel/workload/l_sdsc_sp2/)"
                .to_string(),
        ));
    };
    read::read(trace, Leniency::Strict).map_err(|error| Failure::Usage(error.to_string()))
}

/// How it was run, without anything that differs between two runs of the same.
fn how(paper: Paper, options: &Options) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_string(), value);
    let mut facts = Vec::new();
    match options.seeds {
        _ if paper == Paper::Aroma => {}
        1 => facts.push(fact("seeds", "1".to_string())),
        seeds => {
            let seeds = format!("1 to {seeds}; ± and error bars are one standard deviation");
            facts.push(fact("seeds", seeds));
        }
    }
    if options.quick {
        facts.push(fact(
            "quick",
            "only some values of every parameter".to_string(),
        ));
    }
    facts.push(fact(
        "version",
        format!("libra {}", env!("CARGO_PKG_VERSION")),
    ));
    facts
}

/// A bar on a terminal, nothing elsewhere.
fn bar() -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(1), target);
    bar.with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

fn cannot_write(directory: &Path, error: std::io::Error) -> Failure {
    Failure::Generate {
        directory: directory.to_path_buf(),
        error,
    }
}
