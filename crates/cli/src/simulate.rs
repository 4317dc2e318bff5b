//! `libra simulate`: from arguments to a [`plan`], from its runs to what is printed ([`print`]) and
//! to the page ([`page`]).

mod file;
mod page;
mod plan;
mod print;
mod progress;

use super::args::{Args, Format, SimulateArgs};
use super::{Done, Failure};
use file::OutputFile;
use flate2::Compression;
use flate2::write::GzEncoder;
use libra_simulator::experiment::{Experiment, Progress, Run};
use libra_simulator::outcomes::Outcomes;
use libra_terminal::answer;
use libra_workload::read::Leniency;
use plan::{LogExcerpt, Plan};
use std::io::{BufWriter, Write};
use std::path::Path;

pub fn simulate(simulate: &SimulateArgs, args: &Args) -> Done {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let mut plan = Plan::of(simulate, args)?;
    // Said before the work and not after it: a file that cannot be written.
    let output = &simulate.output;
    let report = output.report.as_deref().map(OutputFile::open);
    let report = report.transpose()?;
    let outcomes = output.outcomes.as_deref().map(OutputFile::open);
    let outcomes = outcomes.transpose()?;
    let leniency = if simulate.lenient {
        Leniency::Lenient
    } else {
        Leniency::Strict
    };
    let part = LogExcerpt::read(simulate, leniency).map_err(|error| usage(&error))?;
    plan.compare_with_log(&part)?;
    let settings = plan.settings(&part)?;
    let experiment = Experiment {
        log: &part.log.records,
        records: part.records(),
        sla: plan.sla.as_ref(),
        leniency,
        settings: &settings,
        seeds: &plan.seeds,
        policies: &plan.policies,
        time_of_day: part.time_of_day().unwrap_or(0.0),
    };
    // The smallest machine has the most jobs that are too large for it.
    let smallest = settings.iter().min_by_key(|setting| setting.processors());
    for setting in settings.first().into_iter().chain(smallest) {
        let fits = experiment.jobs(setting, plan.seeds[0]);
        fits.map_err(|error| usage(&format!("{}: {error}", part.name)))?;
    }
    let made = experiment.jobs(&settings[0], plan.seeds[0]);
    let made = made.map_err(|error| usage(&error))?;
    part.warn(&made);
    let jobs = (made.jobs.len() * experiment.runs()) as u64;
    let runs = progress::shown(jobs, |progress| match outcomes {
        Some(file) => with_outcomes(&experiment, file, progress),
        None => experiment
            .run(plan.threads, progress)
            .map_err(|error| usage(&error)),
    })?;
    let results = print::Results {
        plan: &plan,
        part: &part,
        made: &made,
        settings: &settings,
        summaries: (0..settings.len())
            .map(|setting| experiment.summaries(&runs, setting))
            .collect(),
    };
    let written = report.map(|file| file.replace(page::page(&results, &runs).as_bytes()));
    let text = match output.format {
        Format::Table if !args.json => results.table(),
        _ => results.json().map_err(std::io::Error::other)?,
    };
    let done = answer(&text, 0);
    written.transpose()?;
    done
}

/// Runs everything and writes down what became of every job.
fn with_outcomes(
    experiment: &Experiment<'_>,
    file: OutputFile,
    progress: &Progress,
) -> Result<Vec<Run>, Failure> {
    let path = file.path().to_path_buf();
    let failed = |error| file::cannot_write(&path, error);
    let gzip = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
    let file = BufWriter::with_capacity(1 << 16, file.start()?);
    if !gzip {
        let (runs, mut file) = written(experiment, file, progress, &path)?;
        file.flush().map_err(failed)?;
        return Ok(runs);
    }
    let packed = BufWriter::with_capacity(1 << 16, GzEncoder::new(file, Compression::default()));
    let (runs, packed) = written(experiment, packed, progress, &path)?;
    let packed = packed
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    packed
        .finish()
        .and_then(|mut file| file.flush())
        .map_err(failed)?;
    Ok(runs)
}

fn written<W: Write>(
    experiment: &Experiment<'_>,
    to: W,
    progress: &Progress,
    path: &Path,
) -> Result<(Vec<Run>, W), Failure> {
    let failed = |error| file::cannot_write(path, error);
    let mut outcomes = Outcomes::new(to).map_err(failed)?;
    let runs = experiment
        .run_with_outcomes(&mut outcomes, progress)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((runs, outcomes.finish().map_err(failed)?))
}
