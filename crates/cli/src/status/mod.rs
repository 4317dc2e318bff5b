//! `libra status`: how the jobs of this host and of its batch systems stand.
//!
//! [`host`] brings the jobs of this host, [`table`] shows them as lines; `libra_administration::status` does both of the batch systems. [`keys`] are
//! read while it is shown again and again.

mod host;
mod keys;
mod table;

use super::args::{Args, StatusArgs};
use super::{Done, Failure};
use keys::{Keys, Next};
use libra_administration::status::Report;
use libra_administration::status::paint::Paint;
use libra_administration::status::room::Room;
use libra_administration::status::schema::Status;
use libra_administration::status::sort::Sort;
use libra_administration::{gridengine, pbs, slurm};
use libra_config::{System, site};
use libra_host::report::HostReport;
use libra_host::{Host, HostError};
use libra_system::clock;
use libra_terminal::say;
use libra_units::duration;
use std::io::{IsTerminal, StdoutLock, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use table::table;

/// A batch system is asked no more often: each time its server has work.
const BATCH_INTERVAL: Duration = Duration::from_secs(5);

/// `libra status`.
pub fn status(status: &StatusArgs, args: &Args) -> Done {
    let interval = duration::parse(&status.interval)
        .map_err(|error| Failure::Usage(format!("--interval: {error}")))?;
    let mut view = View::new(status, args)?;
    let mut out = std::io::stdout().lock();
    let redraw = status.watch && !args.json && out.is_terminal();
    let keys = if redraw { Keys::of_input() } else { None };
    let mut first = true;
    loop {
        let shown = view.snapshot()?;
        let text = if args.json {
            format!("{}\n", json(shown)?)
        } else {
            let room = room(&out, redraw);
            let below = keys.as_ref().map(|_| keys::help(view.sort));
            let text = shown.text(&room, below);
            match room.width {
                Some(width) if redraw => frame(&text, width, first),
                _ => text,
            }
        };
        // All lines in one piece, so that a terminal never shows half of them.
        out.write_all(text.as_bytes())?;
        out.flush()?;
        if !status.watch {
            return Ok(ExitCode::SUCCESS);
        }
        first = false;
        let pause = Duration::from_secs_f64(interval.clamp(0.1, 3600.0));
        match keys.as_ref().map(|keys| keys.wait(pause)) {
            None => std::thread::sleep(pause),
            Some(Next::Show) => {}
            Some(Next::Sort(sort)) => view.sort = sort,
            Some(Next::Quit) => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Ids of jobs and what they are called, for completions: those of this host that have not ended, or with `all` whatever is shown. What cannot be
/// found out has none.
pub fn known(args: &Args, all: bool) -> Vec<(String, String)> {
    let wanted = StatusArgs {
        systems: if all { Vec::new() } else { vec![System::Local] },
        ..StatusArgs::default()
    };
    let shown = View::new(&wanted, args).and_then(|mut view| view.snapshot());
    let Ok(shown) = shown else {
        return Vec::new();
    };
    let mut status = Status::default();
    if let Some(host) = shown.host {
        host::add_to(host, 0.0, &mut status);
    }
    for (_, report) in shown.batch {
        report.add_to(&mut status);
    }
    let jobs = (status.jobs.into_iter()).filter(|job| all || job.phase != "ended");
    jobs.map(|job| {
        let called = job.name.or(job.command).or(job.user).unwrap_or_default();
        let called: String = called.chars().take(40).collect();
        (job.id, format!("{called}, {}", job.state.replace('_', " ")))
    })
    .collect()
}

fn batch(system: System, args: &Args) -> Result<Report, Failure> {
    let args = args.common();
    let report = match system {
        System::Pbs => pbs::status::report(&args),
        System::Slurm => slurm::status::report(&args),
        System::GridEngine => gridengine::status::report(&args),
        System::Local => return Err(Failure::Usage("this host is no batch system".to_string())),
    };
    report.map_err(Failure::from)
}

/// Returns true if the programs and the configuration of a batch system are on this host.
fn is_here(system: System) -> bool {
    match system {
        System::Local => true,
        System::Pbs => pbs::is_here(),
        System::Slurm => {
            libra_page::system::Kind::named(system.name()).is_some_and(|kind| (kind.is_here)())
        }
        System::GridEngine => gridengine::is_here(),
    }
}

/// What is looked at, again and again.
struct View<'a> {
    args: &'a Args,
    wanted: &'a StatusArgs,
    /// What is shown whether or not there is anything of it.
    named: bool,
    host: Option<Host>,
    systems: Vec<System>,
    sort: Sort,
    known: Option<Answers>,
    /// What is wrong with the host, where that is no reason to end.
    problem: Option<String>,
}

/// The last answers of batch systems.
struct Answers {
    /// Since when they are known.
    since: Instant,
    reports: Vec<(System, Report)>,
    /// What those said that had no answer.
    problems: Vec<String>,
}

/// What was found.
#[derive(Default)]
struct Shown {
    host: Option<HostReport>,
    batch: Vec<(System, Report)>,
    problems: Vec<String>,
}

impl<'a> View<'a> {
    fn new(wanted: &'a StatusArgs, args: &'a Args) -> Result<View<'a>, Failure> {
        let named = !wanted.systems.is_empty();
        let of = |system: &System| match named {
            true => wanted.systems.contains(system),
            false => is_here(*system),
        };
        let systems: Vec<System> = System::batch().filter(of).collect();
        let opened = match of(&System::Local) {
            true => Host::open(site::load(args.config.as_deref())?).map(Some),
            false => Ok(None),
        };
        // Who asks for a cluster need not have a host that can be looked at.
        let (host, problem) = match opened {
            Ok(host) => (host, None),
            Err(error) if !named && !systems.is_empty() => (None, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        Ok(View {
            args,
            wanted,
            named,
            host,
            systems,
            sort: wanted.sort,
            known: None,
            problem,
        })
    }

    /// How everything stands now.
    fn snapshot(&mut self) -> Result<Shown, Failure> {
        let mut shown = Shown {
            host: (self.host.as_ref()).map(Host::report).transpose()?,
            ..Shown::default()
        };
        shown.problems.extend(self.problem.clone());
        self.ask_batch_systems(&mut shown)?;
        self.choose(&mut shown)?;
        if let Some(report) = &mut shown.host {
            host::sort(&mut report.jobs, self.sort);
        }
        for (_, report) in &mut shown.batch {
            report.sort(self.sort);
        }
        Ok(shown)
    }

    fn ask_batch_systems(&mut self, shown: &mut Shown) -> Result<(), Failure> {
        let old = (self.known.as_ref()).is_none_or(|known| known.since.elapsed() >= BATCH_INTERVAL);
        if old {
            let (mut reports, mut problems) = (Vec::new(), Vec::new());
            for system in &self.systems {
                match batch(*system, self.args) {
                    // Where nobody has asked for it, and Libra has nothing to do with it, it is not worth a line.
                    Ok(report) if report.is_empty() && !self.named => {}
                    Ok(report) => reports.push((*system, report)),
                    Err(error) if self.named && !self.wanted.watch => return Err(error),
                    Err(error) => problems.push(format!("{}: {error}", system.name())),
                }
            }
            self.known = Some(Answers {
                since: Instant::now(),
                reports,
                problems,
            });
        }
        if let Some(known) = &self.known {
            shown.batch.clone_from(&known.reports);
            shown.problems.extend(known.problems.iter().cloned());
        }
        Ok(())
    }

    /// The jobs that were named, where some were.
    fn choose(&self, shown: &mut Shown) -> Result<(), Failure> {
        let ids = &self.wanted.jobs;
        if ids.is_empty() {
            return Ok(());
        }
        let of_host = |id: &String| {
            let mut jobs = shown.host.iter().flat_map(|host| &host.jobs);
            jobs.any(|job| job.id == *id)
        };
        let in_batch = |id: &String| shown.batch.iter().any(|(_, report)| report.has(id));
        if let Some(id) = ids.iter().find(|id| !of_host(id) && !in_batch(id)) {
            // It may be one of those that could not be asked.
            for problem in &shown.problems {
                say(format_args!("libra: {problem}"));
            }
            return Err(HostError::UnknownJob(id.clone()).into());
        }
        if let Some(host) = &mut shown.host {
            host.jobs.retain(|job| ids.contains(&job.id));
        }
        for (_, report) in &mut shown.batch {
            report.retain(ids);
        }
        Ok(())
    }
}

/// Everything as one line of JSON.
fn json(shown: Shown) -> Result<String, std::io::Error> {
    let mut status = Status {
        time: clock::unix_time(),
        problems: shown.problems,
        ..Status::default()
    };
    if let Some(host) = shown.host {
        let now = status.time;
        host::add_to(host, now, &mut status);
    }
    for (_, report) in shown.batch {
        status.time = status.time.min(report.time());
        report.add_to(&mut status);
    }
    status.to_json()
}

impl Shown {
    /// Everything as lines, `below` at the end.
    fn text(&self, room: &Room, below: Option<String>) -> String {
        let mut after = String::new();
        for (system, report) in &self.batch {
            if self.host.is_some() || self.batch.len() > 1 {
                after += &format!("\n{}:\n", title(*system));
            }
            after += &report.text(room);
        }
        for problem in &self.problems {
            after += &format!("{}\n", room.fitted(problem));
        }
        let below = below.map_or_else(String::new, |line| {
            format!("{}\n", room.paint.faint(&room.fitted(&line)))
        });
        let Some(most) = room.lines else {
            let host = self.host.as_ref().map(|host| table(host, room));
            return host.unwrap_or_default() + &after + &below;
        };
        // The host has what the others leave, but some lines at least; what does not fit then is cut off at the end.
        let needed = after.lines().count() + below.lines().count();
        let host = self.host.as_ref().map(|host| {
            let own = Room {
                lines: Some(most.saturating_sub(needed).max(most.min(5))),
                ..*room
            };
            table(host, &own)
        });
        let above = host.unwrap_or_default() + &after;
        let fits = most.saturating_sub(below.lines().count());
        let lines = above.lines().take(fits);
        lines.map(|line| format!("{line}\n")).collect::<String>() + &below
    }
}

fn title(system: System) -> &'static str {
    match system {
        System::Local => "This host",
        System::Pbs => "PBS",
        System::Slurm => "Slurm",
        System::GridEngine => "Grid Engine",
    }
}

/// What the output has room for. Only a terminal has an end; what goes to a file or a pipe is whole.
fn room(out: &StdoutLock<'_>, redraw: bool) -> Room {
    let size = out
        .is_terminal()
        .then(|| terminal_size::terminal_size_of(out))
        .flatten();
    let (width, height) = size.map_or((None, None), |(width, height)| {
        (Some(usize::from(width.0)), Some(usize::from(height.0)))
    });
    Room {
        width,
        // The last line is for the cursor.
        lines: height
            .filter(|_| redraw)
            .map(|height| height.saturating_sub(1)),
        utf8: utf8(),
        paint: Paint::of_output(),
    }
}

/// The table drawn over what is on the screen: from its corner, each line cleared behind its text,
/// then the rest of the screen.
fn frame(text: &str, width: usize, first: bool) -> String {
    let mut frame = String::with_capacity(text.len() + 64);
    if first {
        frame.push_str("\x1b[2J");
    }
    frame.push_str("\x1b[H");
    for line in text.lines() {
        frame.push_str(line);
        // Behind a full line the cursor stands on its last character still.
        if columns_of(line) < width {
            frame.push_str("\x1b[K");
        }
        frame.push('\n');
    }
    frame.push_str("\x1b[J");
    frame
}

/// Characters of a line, without sequences that only colour it.
fn columns_of(line: &str) -> usize {
    let mut coloured = line.split('\x1b');
    let plain = coloured.next().map_or(0, |text| text.chars().count());
    let after = coloured.filter_map(|part| Some(part.split_once('m')?.1.chars().count()));
    plain + after.sum::<usize>()
}

/// Returns true if block characters and such can be shown.
pub fn utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        })
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn a_frame_clears_behind_every_line_that_is_not_full() {
        assert_eq!(
            frame(
                "abc\nfull\n\x1b[31mfull\x1b[0m\n\x1b[2mabc\x1b[0m\n",
                4,
                false
            ),
            "\x1b[Habc\x1b[K\nfull\n\x1b[31mfull\x1b[0m\n\x1b[2mabc\x1b[0m\x1b[K\n\x1b[J"
        );
        assert!(frame("", 4, true).starts_with("\x1b[2J\x1b[H"));
    }
}
