//! `libra status`

use super::args::{Args, StatusArgs};
use super::{Done, Failure, load_config};
use libra::decision::share::Standing;
use libra::host::entry::Phase;
use libra::host::report::{HostReport, JobReport};
use libra::host::{Host, HostError};
use libra::text::{duration, percent, processors};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

const BAR: usize = 20;

pub fn status(status: &StatusArgs, args: &Args) -> Done {
    let interval = duration::parse(&status.interval)
        .map_err(|error| Failure::Usage(format!("--interval: {error}")))?;
    let host = Host::open(load_config(args)?)?;
    let mut out = std::io::stdout().lock();
    let redraw = status.watch && !args.json && out.is_terminal();
    if redraw {
        write!(out, "\x1b[2J")?;
    }
    loop {
        let mut report = host.report()?;
        if !status.jobs.is_empty() {
            report.jobs.retain(|job| status.jobs.contains(&job.id));
            for id in &status.jobs {
                if !report.jobs.iter().any(|job| job.id == *id) {
                    return Err(HostError::UnknownJob(id.clone()).into());
                }
            }
        }
        if args.json {
            let json = serde_json::to_string(&report).map_err(std::io::Error::other)?;
            writeln!(out, "{json}")?;
        } else {
            let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
            let text = table(&report, width, utf8());
            if redraw {
                // Home, each line cleared to its end, the rest of the screen cleared: no flicker.
                let text = text.replace('\n', "\x1b[K\n");
                write!(out, "\x1b[H{text}\x1b[J")?;
            } else {
                write!(out, "{text}")?;
            }
        }
        out.flush()?;
        if !status.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs_f64(interval.clamp(0.1, 3600.0)));
    }
}

/// May the bar be drawn with block characters?
fn utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        })
}

fn table(report: &HostReport, width: Option<usize>, utf8: bool) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}: {} of {} processors committed; shares {}",
        report.node,
        processors(report.committed),
        processors(report.processors),
        // The first words are enough here; 'libra config check' has the rest.
        match report.enforcement.split_once(" below ") {
            Some((held, _)) => format!("held by {held}"),
            None => report.enforcement.clone(),
        }
    );
    if report.jobs.is_empty() {
        text.push_str("no jobs\n");
        return text;
    }
    let id = report
        .jobs
        .iter()
        .map(|job| job.id.len())
        .max()
        .unwrap_or(2);
    let id = id.max(2);
    let _ = writeln!(
        text,
        "{:>id$}  {:<10} {:>8}  {:>17}  {:<bar$} {:>9}  COMMAND",
        "ID",
        "STATE",
        "SHARE",
        "USED/ESTIMATE",
        "DEADLINE",
        "LEFT",
        bar = BAR + 7
    );
    for job in &report.jobs {
        let share = match job.phase {
            Phase::Ended => String::new(),
            _ => percent(job.share),
        };
        let used = format!(
            "{} / {}",
            duration::show(job.used_seconds),
            duration::show(job.estimate_seconds)
        );
        let mut line = format!(
            "{:>id$}  {:<10} {:>8}  {:>17}  {} {:>9}  {}",
            job.id,
            state(job),
            share,
            used,
            bar(job.elapsed_seconds / job.deadline_seconds, utf8),
            duration::show(job.left_seconds),
            job.command.replace(char::is_control, " "),
        );
        if let Some(width) = width
            && line.chars().count() > width
        {
            line = line.chars().take(width).collect();
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn state(job: &JobReport) -> &'static str {
    match (&job.ending, job.standing) {
        (Some(ending), _) if ending.cancelled => "cancelled",
        (Some(ending), _) if ending.met => "met",
        (Some(_), _) => "missed",
        (None, _) if job.phase == Phase::Reserved => "starting",
        (None, Some(Standing::AtRisk)) => "at risk",
        (None, Some(Standing::Overrun)) => "overrun",
        (None, Some(Standing::Late)) => "late",
        (None, _) if job.orphaned => "orphaned",
        (None, _) => "on track",
    }
}

/// How much of the time until the deadline has passed.
fn bar(part: f64, utf8: bool) -> String {
    let (full, empty) = if utf8 { ('█', '░') } else { ('#', '.') };
    let filled = (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let mut bar = String::with_capacity(4 * BAR);
    bar.extend(std::iter::repeat_n(full, filled));
    bar.extend(std::iter::repeat_n(empty, BAR - filled));
    let _ = write!(bar, " {:>4.0} %", (part * 100.0).min(9999.0));
    bar
}
