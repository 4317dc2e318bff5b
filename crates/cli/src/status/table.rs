//! The table of `libra status`, fitted to what it is shown on.

use libra_administration::status::paint::Paint;
use libra_administration::status::room::{Room, columns};
use libra_host::entry::Phase;
use libra_host::report::{HostReport, JobReport};
use libra_plots::columns::{Column, Flush, GAP};
use libra_units::{duration, fine_percent, processors};
use std::fmt::Write as _;

/// As long as the longest state, `cancelled`.
const STATE: usize = 9;
/// The bar at its longest and, before it is left out, at its shortest.
const BAR: std::ops::RangeInclusive<usize> = 8..=20;
/// Behind the bar: ` 100 %`.
const PERCENT: usize = 6;
/// What the command should have before the bar is shortened for it, and before it is left out.
const COMMAND_GOOD: usize = 24;
const COMMAND_ENOUGH: usize = 12;

/// The host and its jobs, in the order in which they come.
pub fn table(report: &HostReport, room: &Room) -> String {
    let cut = |line: String| room.fitted(&line);
    let mut lines = vec![cut(headline(report))];
    if report.jobs.is_empty() {
        lines.push(cut("no jobs".to_string()));
    } else {
        let (jobs, left_out) = chosen(&report.jobs, room.lines);
        let rows: Vec<Row> = jobs.iter().map(Row::of).collect();
        let layout = Layout::fitting(&rows, room.width);
        lines.push(cut(layout.heading()));
        lines.extend(
            (rows.iter()).map(|row| layout.painted(cut(layout.line(row, room)), row, room.paint)),
        );
        if let Some(left_out) = left_out {
            lines.push(cut(format!("{} and {left_out}", room.more())));
        }
    }
    if let Some(most) = room.lines {
        lines.truncate(most.max(1));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn headline(report: &HostReport) -> String {
    format!(
        "{}: {} of {} processors committed; shares {}",
        report.node,
        processors(report.committed),
        processors(report.processors),
        // The first words are enough here; 'libra config check' has the rest.
        match report.enforcement.split_once(" below ") {
            Some((held, _)) => format!("held by {held}"),
            None => report.enforcement.clone(),
        }
    )
}

/// The first jobs, as many as fit into so many lines with the two above them, and how many do not, in words.
fn chosen(jobs: &[JobReport], lines: Option<usize>) -> (&[JobReport], Option<String>) {
    let rows = lines.map_or(usize::MAX, |lines| lines.saturating_sub(2));
    if jobs.len() <= rows {
        return (jobs, None);
    }
    // One line says what is left out.
    let (shown, hidden) = jobs.split_at(rows.saturating_sub(1));
    let live = hidden.iter().filter(|job| job.phase != Phase::Ended);
    let left_out = match live.count() {
        0 => format!("{} more", hidden.len()),
        live => format!("{} more, {live} of them not ended", hidden.len()),
    };
    (shown, Some(left_out))
}

/// What is said about a job.
struct Row {
    id: String,
    state: &'static str,
    /// As in JSON.
    state_key: String,
    ended: bool,
    share: String,
    used: String,
    /// Part of the time until the deadline that has passed; no number where there is none.
    passed: f64,
    left: String,
    command: String,
}

impl Row {
    fn of(job: &JobReport) -> Row {
        Row {
            id: job.id.clone(),
            state: job.state,
            state_key: super::host::state(job),
            ended: job.phase == Phase::Ended,
            share: match job.phase {
                Phase::Ended => String::new(),
                _ => fine_percent(job.share),
            },
            used: format!(
                "{} / {}",
                duration::show(job.used_seconds),
                shown(job.estimate_seconds)
            ),
            passed: match job.deadline_seconds.is_finite() {
                true => job.elapsed_seconds / job.deadline_seconds,
                false => f64::NAN,
            },
            left: shown(job.left_seconds),
            // Where it has a name, that says more than a script's path.
            command: (job.name.as_ref().unwrap_or(&job.command)).replace(char::is_control, " "),
        }
    }
}

/// Seconds, where there are any.
fn shown(seconds: f64) -> String {
    match seconds.is_finite() {
        true => duration::show(seconds),
        false => "-".to_string(),
    }
}

/// Widths of the columns. All but the last stay as they are while times pass: a table that is
/// drawn again and again should not move.
struct Layout {
    id: usize,
    share: usize,
    /// Zero where it is left out.
    used: usize,
    left: usize,
    /// None if the column is left out, zero where it has no bar.
    bar: Option<usize>,
    /// None if nothing is to be cut.
    command: Option<usize>,
}

impl Layout {
    fn fitting(rows: &[Row], width: Option<usize>) -> Layout {
        let widest = |least: usize, cell: fn(&Row) -> &str| {
            Column::fitting(rows.iter().map(cell), Flush::Right)
                .width
                .max(least)
        };
        let mut layout = Layout {
            id: widest(2, |row| &row.id),
            share: widest(6, |row| &row.share),
            used: widest(15, |row| &row.used),
            left: widest(7, |row| &row.left),
            bar: Some(*BAR.end()),
            command: None,
        };
        let Some(width) = width else {
            return layout;
        };
        let command = rows
            .iter()
            .map(|row| columns(&row.command))
            .max()
            .unwrap_or(0);
        let command = command.max("COMMAND".len());
        let shorter = BAR.rev().map(|bar| (Some(bar), COMMAND_GOOD));
        let least = [Some(*BAR.start()), Some(0), None].map(|bar| (bar, COMMAND_ENOUGH));
        for (bar, wanted) in shorter.chain(least) {
            layout.bar = bar;
            if layout.before_command() + command.min(wanted) <= width {
                layout.command = Some(width - layout.before_command());
                return layout;
            }
        }
        if layout.before_command() + command.min(COMMAND_ENOUGH / 2) > width {
            layout.used = 0;
        }
        layout.command = Some(width.saturating_sub(layout.before_command()));
        layout
    }

    /// All before the command; of no width where it is left out.
    fn columns(&self) -> [Column; 6] {
        let deadline = match self.bar {
            Some(0) => Column::right("DEADLINE".len()),
            // A bar fills it; the heading stands where that begins.
            Some(bar) => Column::left(bar + PERCENT),
            None => Column::left(0),
        };
        [
            Column::right(self.id),
            Column::left(STATE),
            Column::right(self.share),
            Column::right(self.used),
            deadline,
            Column::right(self.left),
        ]
    }

    /// Characters before the command, the space before it included.
    fn before_command(&self) -> usize {
        let shown = self.columns().into_iter().filter(|one| one.width > 0);
        shown.map(|one| one.width + GAP.len()).sum()
    }

    fn heading(&self) -> String {
        self.cells(["ID", "STATE", "SHARE", "USED/ESTIMATE", "DEADLINE", "LEFT"]) + "COMMAND"
    }

    fn line(&self, row: &Row, room: &Room) -> String {
        let deadline = match self.bar {
            // It has none.
            _ if row.passed.is_nan() => "-".to_string(),
            Some(length) => bar(row.passed, length, room.utf8),
            None => String::new(),
        };
        let cells = [
            &row.id, row.state, &row.share, &row.used, &deadline, &row.left,
        ];
        let cells = self.cells(cells);
        match self.command {
            Some(width) => cells + &room.cut(&row.command, width),
            None => cells + &row.command,
        }
    }

    /// A line with its state in colour, that of a job that has ended faint but for its state.
    fn painted(&self, line: String, row: &Row, paint: Paint) -> String {
        let begin = self.id + GAP.len();
        let at = |column: usize| line.char_indices().nth(column).map(|(at, _)| at);
        let places = at(begin).zip(at(begin + row.state.len()).or(Some(line.len())));
        let Some((before, state, after)) = places
            .and_then(|(from, to)| Some((line.get(..from)?, line.get(from..to)?, line.get(to..)?)))
        else {
            return line;
        };
        let state = paint.state(&row.state_key, state);
        match row.ended {
            true => format!("{}{state}{}", paint.faint(before), paint.faint(after)),
            false => format!("{before}{state}{after}"),
        }
    }

    fn cells(&self, cells: [&str; 6]) -> String {
        let shown = (self.columns().into_iter().zip(cells)).filter(|(column, _)| column.width > 0);
        shown
            .map(|(column, cell)| column.cell(cell) + GAP)
            .collect()
    }
}

/// How much of the time until the deadline has passed.
fn bar(part: f64, length: usize, utf8: bool) -> String {
    let (full, empty) = if utf8 { ('█', '░') } else { ('#', '.') };
    let filled = (part.clamp(0.0, 1.0) * length as f64).round() as usize;
    let mut bar = String::with_capacity(4 * length + PERCENT);
    bar.extend(std::iter::repeat_n(full, filled));
    bar.extend(std::iter::repeat_n(empty, length - filled));
    let _ = write!(bar, " {:>3.0} %", (part * 100.0).min(999.0));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use libra_administration::status::sort::Sort;
    use libra_core::decision::class::Class;
    use libra_core::decision::share::DeadlineStatus;
    use libra_host::entry::Conclusion;

    fn job(id: usize, command: &str, ended_at: Option<f64>) -> JobReport {
        JobReport {
            id: id.to_string(),
            name: None,
            command: command.to_string(),
            user: 0,
            phase: ended_at.map_or(Phase::Running, |_| Phase::Ended),
            deadline_status: ended_at.is_none().then_some(DeadlineStatus::OnTrack),
            slots: 1,
            share: 0.525,
            needed_share: 0.525,
            estimate_seconds: 5400.0,
            used_seconds: 61.0,
            submitted: 1_790_000_000.0,
            ended: ended_at.map(|at| 1_790_000_000.0 + at),
            deadline_seconds: 10_800.0,
            elapsed_seconds: 120.0,
            left_seconds: 10_680.0,
            price: 1.0,
            enforced: true,
            class: Class::Deadline,
            suspended: false,
            orphaned: false,
            started: true,
            held_seconds: None,
            state: if ended_at.is_some() {
                "met"
            } else {
                "on track"
            },
            conclusion: ended_at.map(|_| Conclusion::Finished),
            in_time: ended_at.map(|_| true),
            reason: None,
            exit_code: ended_at.map(|_| 0),
            signal: None,
        }
    }

    fn drawn(mut jobs: Vec<JobReport>, width: Option<usize>, lines: Option<usize>) -> Vec<String> {
        super::super::host::sort(&mut jobs, Sort::Usual);
        painted(jobs, width, lines, Paint::Plain)
    }

    fn painted(
        jobs: Vec<JobReport>,
        width: Option<usize>,
        lines: Option<usize>,
        paint: Paint,
    ) -> Vec<String> {
        let report = HostReport {
            node: "a-node-with-a-long-name.example.org".to_string(),
            processors: 2.0,
            committed: 1.05,
            enforced: true,
            enforcement: "cgroup v2 below /sys/fs/cgroup/libra; caps".to_string(),
            jobs,
        };
        let room = Room {
            width,
            lines,
            utf8: true,
            paint,
        };
        table(&report, &room).lines().map(str::to_string).collect()
    }

    const LONG: &str = "./simulate --input 日本語.dat --output result.dat";

    #[test]
    fn every_line_fits_and_says_what_is_left_and_what_runs() {
        for width in [30, 40, 50, 60, 72, 80, 100, 120] {
            let lines = drawn(vec![job(1, LONG, None)], Some(width), None);
            for line in &lines {
                assert!(columns(line) <= width, "{width}: {line}");
            }
            if width >= 40 {
                assert!(lines[1].ends_with("LEFT  COMMAND"), "{width}: {}", lines[1]);
                assert!(lines[2].contains("2h58m  ./s"), "{width}: {}", lines[2]);
                assert!(lines[2].ends_with('…'), "{width}: {}", lines[2]);
            }
            let bar = lines[2].matches(['█', '░']).count();
            let expected = match width {
                ..=72 => 0,
                80 => 8,
                100 => 19,
                _ => 20,
            };
            assert_eq!(bar, expected, "{width}: {}", lines[2]);
        }
    }

    #[test]
    fn colours_change_no_character_and_no_width() {
        let mut jobs = vec![job(1, LONG, None), job(2, LONG, Some(1.0))];
        jobs[0].state = "at risk";
        jobs[0].name = Some("Ünïcode 日本".to_string());
        for width in [8, 10, 14, 30, 80, 200] {
            let plain = drawn(jobs.clone(), Some(width), None);
            let coloured = painted(jobs.clone(), Some(width), None, Paint::Colours);
            for (plain, coloured) in plain.iter().zip(&coloured) {
                let mut bare = String::new();
                for (index, part) in coloured.split('\u{1b}').enumerate() {
                    let text = part.split_once('m').map(|(_, text)| text);
                    bare += if index == 0 {
                        part
                    } else {
                        text.expect("a sequence")
                    };
                }
                assert_eq!(&bare, plain, "{width}");
            }
        }
        let coloured = painted(jobs, Some(80), None, Paint::Colours);
        assert!(
            coloured[2].contains("\u{1b}[33mat risk\u{1b}[0m"),
            "{coloured:?}"
        );
        assert!(coloured[2].ends_with("Ünïcode 日本"), "{coloured:?}");
        assert!(coloured[3].starts_with("\u{1b}[2m"), "{coloured:?}");
    }

    #[test]
    fn jobs_that_have_ended_are_last_however_it_is_sorted() {
        let mut jobs = vec![
            job(1, "a", Some(1.0)),
            job(2, "b", None),
            job(3, "c", Some(9.0)),
            job(4, "d", None),
        ];
        jobs[1].left_seconds = 900.0;
        jobs[3].left_seconds = 9.0;
        jobs[1].state = "late";
        jobs[3].share = 0.9;
        for (by, order) in [
            (Sort::Usual, ["2", "4", "3", "1"]),
            (Sort::Deadline, ["4", "2", "3", "1"]),
            (Sort::State, ["2", "4", "3", "1"]),
            (Sort::Share, ["4", "2", "3", "1"]),
        ] {
            super::super::host::sort(&mut jobs, Sort::Usual);
            jobs[..2].sort_by(|a, b| a.id.cmp(&b.id));
            super::super::host::sort(&mut jobs, by);
            let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
            assert_eq!(ids, order, "{by:?}");
        }
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let command = "x".repeat(500);
        let lines = drawn(vec![job(1, &command, None)], None, None);
        assert!(lines[2].ends_with(&command));
        assert_eq!(lines[2].matches(['█', '░']).count(), 20);
    }

    #[test]
    fn live_jobs_come_first_and_what_does_not_fit_is_counted() {
        let mut jobs: Vec<JobReport> = (1..=10).map(|id| job(id, "old", Some(id as f64))).collect();
        jobs.push(job(11, "live", None));
        let ids = |lines: usize| -> Vec<String> {
            let drawn = drawn(jobs.clone(), Some(80), Some(lines));
            assert!(drawn.len() <= lines.max(1), "{drawn:?}");
            drawn[2..]
                .iter()
                .map(|line| {
                    line.trim_start()
                        .split("  ")
                        .next()
                        .unwrap_or("")
                        .to_string()
                })
                .collect()
        };
        assert_eq!(ids(6), ["11", "10", "9", "… and 8 more"]);
        let all = ids(13);
        assert_eq!(
            (all.len(), all[0].as_str(), all[10].as_str()),
            (11, "11", "1")
        );
        jobs.push(job(12, "live", None));
        jobs.push(job(13, "live", None));
        let few = drawn(jobs.clone(), Some(80), Some(4));
        assert_eq!(few[3], "… and 12 more, 2 of them not ended");
        for lines in 0..4 {
            assert!(drawn(jobs.clone(), Some(80), Some(lines)).len() <= lines.max(1));
        }
    }
}
