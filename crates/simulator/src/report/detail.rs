//! Figures of how single jobs and hours fared in one run of several policies.

use super::clock::Clock;
use super::grid::Promises;
use super::run::{PolicyRun, both, percent, plot, words};
use crate::series;
use libra_plots::figure::{Figure, Table};
use libra_plots::plot::Joined;
use libra_plots::scale::count;
use libra_plots::{Axis, Plot, Point, Series, Strip, Strips, style};
use libra_units::duration;
use maud::html;

/// The distribution of slowdowns.
pub(super) fn slowdowns(runs: &[PolicyRun]) -> Figure {
    let lines = runs.iter().enumerate().map(|(place, run)| {
        let submitted: u64 = run.series.hours.iter().map(|hour| hour.submitted).sum();
        let part = |jobs: u64| jobs as f64 / (submitted.max(1)) as f64 * 100.0;
        let points = run.series.slowdowns.cumulative();
        Series::new(
            &run.name,
            points.map(|(x, jobs)| Point::at(x, part(jobs))).collect(),
        )
        .in_style(place)
    });
    let mut lines: Vec<Series> = lines.collect();
    // All lines go on to the end of the longest, where they stay what they are.
    let last = |series: &Series| series.points.last().map_or(1.0, |point| point.x);
    let end = lines.iter().map(last).fold(10.0, f64::max);
    for line in &mut lines {
        if let Some(point) = line.points.last().copied() {
            line.points.push(Point::at(end, point.y));
        }
    }
    let at = |line: &Series, slowdown: f64| {
        let below = line
            .points
            .iter()
            .rev()
            .find(|point| point.x <= slowdown * 1.000_001);
        below.map_or("–".to_string(), |point| percent(point.y))
    };
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0];
    let mut head = words(&["policy"]);
    head.extend(steps.iter().map(|step| format!("≤ {step}")));
    let rows = lines.iter().map(|line| {
        let mut row = vec![line.name.clone()];
        row.extend(steps.iter().map(|step| at(line, *step)));
        row
    });
    let table = Table {
        caption: "Submitted jobs that met their deadline with at most this slowdown".to_string(),
        head,
        rows: rows.collect(),
    };
    let drawing = Plot {
        title: "How long the jobs took that met their deadline".to_string(),
        description: "One line for each policy: the part of the submitted jobs that met their \
                      deadline with at most this slowdown."
            .to_string(),
        x: Axis::log("slowdown: (end − submission) / run time"),
        y: Axis::percent("% of submitted jobs"),
        series: lines,
        joined: Joined::Curve,
        references: Vec::new(),
    };
    Figure {
        id: "slowdown",
        heading: drawing.title.clone(),
        caption: "A line that rises early means quick answers; where it ends is the part of the \
                  jobs that met their deadline at all. A policy of shares lets a job run slowly \
                  on purpose as long as it ends in time."
            .to_string(),
        drawings: plot(&drawing, "slowdown"),
        small: false,
        table,
    }
}

/// Promises against outcomes.
pub(super) fn promises(runs: &[PolicyRun]) -> Figure {
    let mut plots: Vec<Promises> = runs
        .iter()
        .map(|run| {
            let description = format!(
                "{}: each cell counts the jobs with this deadline that ended after this time.",
                run.name
            );
            Promises::new(&run.name, &description, &run.series.promises)
        })
        .collect();
    let filled = plots.iter().filter(|plot| !plot.cells.is_empty());
    let range = filled
        .map(|plot| plot.range)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    for plot in &mut plots {
        plot.range = range.unwrap_or(plot.range);
    }
    let rows = runs.iter().flat_map(|run| {
        (0..series::DECADES).filter_map(|decade| {
            let cells = run.series.promises.cells();
            let of_decade = cells.filter(|cell| cell.promise / series::CELLS_PER_DECADE == decade);
            let (met, late) = of_decade.fold((0u64, 0u64), |(met, late), cell| {
                (met + u64::from(cell.met), late + u64::from(cell.late))
            });
            let edge = |power: usize| duration::show(10f64.powi(power as i32));
            (met + late > 0).then(|| {
                vec![
                    run.name.clone(),
                    format!("{} to {}", edge(decade), edge(decade + 1)),
                    count(met),
                    count(late),
                ]
            })
        })
    });
    Figure {
        id: "promises",
        heading: "What was promised and what came of it".to_string(),
        caption: "Each accepted job by its deadline (across) and the time after which it ended \
                  (up), both from its submission. On the diagonal it ended at its deadline, below \
                  it in time, above it late. Refused jobs are not shown."
            .to_string(),
        drawings: html! {
            @for (place, plot) in plots.iter().enumerate() {
                (plot.inline(&format!("promise-{place}"), ""))
            }
        },
        small: true,
        table: Table {
            caption: "Accepted jobs by their deadline".to_string(),
            head: words(&["policy", "deadline", "met", "late"]),
            rows: rows.collect(),
        },
    }
}

/// Utilisation over time.
pub(super) fn utilisation(runs: &[PolicyRun]) -> Figure {
    let end = runs
        .iter()
        .flat_map(|run| run.series.utilisation().map(|bin| bin.1));
    let (unit, name) = unit_of_time(end.fold(0.0, f64::max));
    let strips = Strips {
        title: "How busy the machine was".to_string(),
        description: "One strip for each policy: the part of the processors in use over time."
            .to_string(),
        x: Axis::linear(&format!("{name} since the first submission")),
        y: "processors in use".to_string(),
        most: (1.0, "100 %".to_string()),
        strips: runs
            .iter()
            .map(|run| Strip {
                name: run.name.clone(),
                spans: run
                    .series
                    .utilisation()
                    .map(|(start, end, part)| (start / unit, end / unit, part))
                    .collect(),
            })
            .collect(),
    };
    let rows = runs.iter().map(|run| {
        let mut parts: Vec<f64> = run.series.utilisation().map(|bin| bin.2 * 100.0).collect();
        parts.sort_by(f64::total_cmp);
        let at = |part: f64| match parts.len() {
            0 => "–".to_string(),
            n => percent(parts[((n - 1) as f64 * part).round() as usize]),
        };
        vec![
            run.name.clone(),
            at(0.0),
            at(0.25),
            at(0.5),
            at(0.75),
            at(1.0),
        ]
    });
    let widths = runs.iter().map(|run| run.series.work.width());
    let width = duration::show(widths.fold(0.0, f64::max));
    Figure {
        id: "utilisation",
        heading: strips.title.clone(),
        caption: format!(
            "Work as it was done, in steps of at most {width}; the top of a strip is all processors. \
             (Of aroma's jobs it is not told: it is spread evenly between their start and their end.)"
        ),
        drawings: both(
            |wide, id, class| strips.inline(wide, id, class),
            "utilisation",
        ),
        small: false,
        table: Table {
            caption: format!("Utilisation in steps of {width}: quartiles over time"),
            head: words(&[
                "policy",
                "least",
                "lower quartile",
                "median",
                "upper quartile",
                "most",
            ]),
            rows: rows.collect(),
        },
    }
}

/// A unit in which so many seconds are a readable number.
fn unit_of_time(seconds: f64) -> (f64, &'static str) {
    match seconds {
        s if s < 300.0 => (1.0, "seconds"),
        s if s < 4.0 * 3600.0 => (60.0, "minutes"),
        s if s < 4.0 * 86_400.0 => (3600.0, "hours"),
        _ => (86_400.0, "days"),
    }
}

/// The hours of the day; None if submissions have none.
pub(super) fn hours(runs: &[PolicyRun], clock: Clock) -> Option<Figure> {
    let first = runs.first()?;
    let points = |count: fn(&series::Hour) -> u64, run: &PolicyRun| {
        let hours = run.series.hours.iter().enumerate();
        hours
            .map(|(hour, jobs)| Point::at(hour as f64, count(jobs) as f64))
            .collect::<Vec<Point>>()
    };
    let mut lines: Vec<Series> = runs
        .iter()
        .enumerate()
        .map(|(place, run)| {
            Series::new(&run.name, points(|hour| hour.fulfilled, run)).in_style(place)
        })
        .collect();
    let all = Series::new("submitted", points(|hour| hour.submitted, first));
    lines.push(all.in_style(style::QUIET));
    let clock = match clock {
        Clock::Log => "Hours are those of the log's own clock.",
        Clock::FirstJob => {
            "The log does not say when it began: hours are counted from its first job."
        }
        Clock::Moved => return None,
    };
    let drawing = Plot {
        title: "At what time of day promises are made and kept".to_string(),
        description: "One line for each policy: jobs that met their deadline by hour of \
                      submission; above them all submitted jobs."
            .to_string(),
        x: Axis {
            range: Some((0.0, 23.0)),
            step: Some(6.0),
            ..Axis::linear("hour of submission")
        },
        y: Axis::linear("jobs"),
        series: lines,
        joined: Joined::Lines,
        references: Vec::new(),
    };
    let mut head = words(&["hour", "submitted"]);
    head.extend(runs.iter().map(|run| run.name.clone()));
    let rows = (0..24).map(|hour| {
        let mut row = vec![
            format!("{hour:02}–{:02}", hour + 1),
            count(first.series.hours[hour].submitted),
        ];
        row.extend(
            runs.iter()
                .map(|run| count(run.series.hours[hour].fulfilled)),
        );
        row
    });
    Some(Figure {
        id: "hours",
        heading: drawing.title.clone(),
        caption: format!(
            "Jobs that met their deadline by the hour in which they were submitted, over all \
             days. The gap below the grey line was refused or late. {clock}"
        ),
        drawings: plot(&drawing, "hours"),
        small: false,
        table: Table {
            caption: "Submitted jobs, and those that met their deadline".to_string(),
            head,
            rows: rows.collect(),
        },
    })
}
