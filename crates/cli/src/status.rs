//! `libra status`

use super::args::{Args, StatusArgs};
use super::table::{Room, table};
use super::{Done, Failure};
use libra_config::site;
use libra_host::{Host, HostError};
use libra_units::duration;
use std::io::{IsTerminal, StdoutLock, Write};
use std::process::ExitCode;
use std::time::Duration;

pub fn status(status: &StatusArgs, args: &Args) -> Done {
    let interval = duration::parse(&status.interval)
        .map_err(|error| Failure::Usage(format!("--interval: {error}")))?;
    let host = Host::open(site::load(args.config.as_deref())?)?;
    let mut out = std::io::stdout().lock();
    let redraw = status.watch && !args.json && out.is_terminal();
    let mut first = true;
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
        let text = if args.json {
            let json = serde_json::to_string(&report).map_err(std::io::Error::other)?;
            format!("{json}\n")
        } else {
            let room = room(&out, redraw);
            let text = table(&report, &room);
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
        std::thread::sleep(Duration::from_secs_f64(interval.clamp(0.1, 3600.0)));
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
        if line.chars().count() < width {
            frame.push_str("\x1b[K");
        }
        frame.push('\n');
    }
    frame.push_str("\x1b[J");
    frame
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
            frame("abc\nfull\n", 4, false),
            "\x1b[Habc\x1b[K\nfull\n\x1b[J"
        );
        assert!(frame("", 4, true).starts_with("\x1b[2J\x1b[H"));
    }
}
