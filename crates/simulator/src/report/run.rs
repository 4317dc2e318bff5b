//! Figures of what became of the jobs of one workload under several policies, and why.

use crate::groups::Groups;
use crate::series;
use crate::summary::{Measure, Summary};
use crate::sums::Spread;
use libra_plots::figure::{Figure, Table};
use libra_plots::scale::{count, number};
use libra_plots::{Axis, Bars, Plot, Row, Segment, Size};
use libra_units::duration;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// One policy over the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRun {
    /// Its name.
    pub name: String,
    /// Its measures, over all seeds.
    pub summary: Summary,
    /// What became of its jobs over time, of the first seed.
    pub series: series::Series,
    /// Who met their deadlines, for each seed.
    pub groups: Vec<Groups>,
}

/// Drawn for both kinds of screens.
pub(super) fn both(drawn: impl Fn(f64, &str, &str) -> Markup, id: &str) -> Markup {
    html! {
        (drawn(Size::WIDE.width, &format!("{id}-wide"), "wide"))
        (drawn(Size::NARROW.width, &format!("{id}-narrow"), "narrow"))
    }
}

/// A plot of lines, for both.
pub(super) fn plot(plot: &Plot, id: &str) -> Markup {
    let size = |wide| {
        if wide == Size::WIDE.width {
            Size::WIDE
        } else {
            Size::NARROW
        }
    };
    both(|wide, id, class| plot.inline(size(wide), id, class), id)
}

/// `59.3`, or with several seeds also `± 1.2` on a line below.
pub(super) fn spread(summary: &Summary, measure: Measure, show: impl Fn(f64) -> String) -> String {
    match summary.get(measure) {
        None => "–".to_string(),
        Some(spread) if summary.runs().len() < 2 => show(spread.mean),
        Some(spread) => format!("{}\n± {}", show(spread.mean), show(spread.deviation)),
    }
}

/// A number of jobs: whole, or rounded where it is a mean of several seeds.
pub(super) fn jobs(value: f64) -> String {
    // Never negative: it is a count or a mean of counts.
    count(value.round() as u64)
}

/// A part of the whole in percent, to a tenth.
pub(super) fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn part_of_submitted(summary: &Summary, value: f64) -> f64 {
    match summary.mean(Measure::Submitted) {
        Some(submitted) if submitted > 0.0 => value / submitted * 100.0,
        _ => 0.0,
    }
}

/// What became of the jobs.
pub(super) fn fates(runs: &[PolicyRun]) -> Figure {
    let part = |name: &str, style| Segment {
        name: name.to_string(),
        style,
    };
    let rows = runs.iter().map(|run| {
        let of = |measure| {
            let value = run.summary.mean(measure).unwrap_or(0.0);
            part_of_submitted(&run.summary, value)
        };
        let spread = run.summary.get(Measure::FulfilledPercent);
        Row {
            name: run.name.clone(),
            values: vec![
                of(Measure::Fulfilled),
                of(Measure::Late),
                of(Measure::ConditionalLate),
                of(Measure::Rejected),
            ],
            between: spread
                .filter(|_| run.summary.runs().len() > 1)
                .map(|spread| {
                    (
                        spread.mean - spread.deviation,
                        spread.mean + spread.deviation,
                    )
                }),
        }
    });
    let several = runs.iter().any(|run| run.summary.runs().len() > 1);
    let bars = Bars {
        title: "What became of the jobs".to_string(),
        description: "One bar for each policy: the parts of the submitted jobs that ended by \
                      their deadlines, that ended late, that ended late under a condition, and that \
                      were refused."
            .to_string(),
        x: Axis::percent("% of submitted jobs"),
        parts: vec![
            part("met their deadline", Some(0)),
            part("ended late", Some(1)),
            part("ended late, conditional", Some(4)),
            part("refused", None),
        ],
        rows: rows.collect(),
        decimals: 1,
        unit: " %".to_string(),
    };
    let mut caption = "Each bar is all submitted jobs. The orange part ran and ended after its \
                       deadline: it took processors and kept no promise. A conditional one had a \
                       deadline shorter than its estimate: nothing was promised but that it would end \
                       in time if it needed less than it said."
        .to_string();
    if several {
        caption += " The whisker is one standard deviation over the seeds to each side.";
    }
    let rows = runs.iter().map(|run| {
        let jobs = |measure| spread(&run.summary, measure, jobs);
        vec![
            run.name.clone(),
            jobs(Measure::Submitted),
            jobs(Measure::Fulfilled),
            jobs(Measure::Late),
            jobs(Measure::ConditionalLate),
            jobs(Measure::Rejected),
        ]
    });
    Figure {
        id: "fates",
        heading: bars.title.clone(),
        caption,
        drawings: both(|wide, id, class| bars.inline(wide, id, class), "fates"),
        small: false,
        table: Table {
            caption: "Jobs".to_string(),
            head: words(&[
                "policy",
                "submitted",
                "met",
                "late",
                "late, conditional",
                "refused",
            ]),
            rows: rows.collect(),
        },
    }
}

/// Why jobs were refused; None if none was.
pub(super) fn refusals(runs: &[PolicyRun]) -> Option<Figure> {
    let counted: Vec<_> = runs
        .iter()
        .map(|run| (run, run.summary.rejected_by_reason()))
        .collect();
    let reasons: BTreeSet<&str> = counted
        .iter()
        .flat_map(|(_, reasons)| reasons.keys().copied())
        .collect();
    if reasons.is_empty() {
        return None;
    }
    // The order of colours leaves out those of 'met' and 'late'.
    const STYLES: [usize; 6] = [5, 2, 3, 6, 4, 7];
    let of = |run: &PolicyRun, counts: &BTreeMap<&str, Spread>, reason: &str| {
        counts
            .get(reason)
            .map_or(0.0, |spread| part_of_submitted(&run.summary, spread.mean))
    };
    let bars = Bars {
        title: "Why jobs were refused".to_string(),
        description: "One bar for each policy: the refused jobs by reason.".to_string(),
        x: Axis::linear("% of submitted jobs"),
        parts: reasons
            .iter()
            .enumerate()
            .map(|(place, reason)| Segment {
                name: reason.to_string(),
                style: Some(STYLES[place % STYLES.len()]),
            })
            .collect(),
        rows: counted
            .iter()
            .map(|(run, counts)| Row {
                name: run.name.clone(),
                values: reasons
                    .iter()
                    .map(|reason| of(run, counts, reason))
                    .collect(),
                between: None,
            })
            .collect(),
        decimals: 1,
        unit: " %".to_string(),
    };
    let mut head = words(&["policy"]);
    head.extend(reasons.iter().map(|reason| reason.to_string()));
    let rows = counted.iter().map(|(run, counts)| {
        let mut row = vec![run.name.clone()];
        row.extend(reasons.iter().map(|reason| {
            counts
                .get(reason)
                .map_or("0".to_string(), |spread| jobs(spread.mean))
        }));
        row
    });
    let explained: Vec<String> = reasons.iter().map(|reason| explain(reason)).collect();
    Some(Figure {
        id: "refusals",
        heading: bars.title.clone(),
        caption: format!(
            "By the reason that the user is told. {}.",
            explained.join("; ")
        ),
        drawings: both(|wide, id, class| bars.inline(wide, id, class), "refusals"),
        small: false,
        table: Table {
            caption: "Refused jobs by reason".to_string(),
            head,
            rows: rows.collect(),
        },
    })
}

fn explain(reason: &str) -> String {
    let meaning = match reason {
        "invalid" => "a value that cannot be judged",
        "budget" => "the job costs more than its budget",
        "deadline" => "by its estimate it could no longer end in time",
        "share" => "no node had enough CPU free until its deadline",
        "memory" => "no node had enough memory left",
        "time" => "before some deadline no node had enough time left for all that was promised",
        "risk" => "on every node somebody was late or would have been",
        "return" => "on every node the penalties paid to other jobs would have exceeded its budget",
        "chunks" => "some of its parts fitted, but not all",
        "no-node" => "no node takes jobs",
        "processors" => "the machine has too few processors",
        "not-recorded" => "the log does not say how long it waited",
        _ => return reason.to_string(),
    };
    format!("{reason}: {meaning}")
}

/// A column of the table that all pages have.
struct Column {
    heading: &'static str,
    measure: Measure,
    show: fn(f64) -> String,
}

const COLUMNS: [Column; 13] = [
    column("refused", Measure::Rejected, jobs),
    column("late", Measure::Late, jobs),
    column("late, %", Measure::LatePercent, tenths),
    column("conditional", Measure::Conditional, jobs),
    column("of these late", Measure::ConditionalLate, jobs),
    column("met", Measure::Fulfilled, jobs),
    column("met, %", Measure::FulfilledPercent, tenths),
    column("work met, %", Measure::FulfilledWorkPercent, tenths),
    column("slowdown", Measure::MeanSlowdown, |value| {
        format!("{value:.2}")
    }),
    column("wait", Measure::MeanWait, duration::show),
    column("utility", Measure::Utility, number),
    column("revenue", Measure::Revenue, number),
    column("in use", Measure::Utilisation, |value| {
        percent(value * 100.0)
    }),
];

const fn column(heading: &'static str, measure: Measure, show: fn(f64) -> String) -> Column {
    Column {
        heading,
        measure,
        show,
    }
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// Those of the columns that are shown: money is of interest where budgets have a limit.
pub(super) struct Columns(Vec<&'static Column>);

impl Columns {
    pub fn of<'a>(mut summaries: impl Iterator<Item = &'a Summary>) -> Columns {
        let limited = summaries.any(|summary| summary.get(Measure::Utility).is_some());
        let of_money = [Measure::Utility, Measure::Revenue];
        let shown = |column: &&Column| limited || !of_money.contains(&column.measure);
        Columns(COLUMNS.iter().filter(shown).collect())
    }

    pub fn head(&self) -> Vec<String> {
        let headings = self.0.iter().map(|column| column.heading.to_string());
        headings.collect()
    }

    pub fn cells(&self, summary: &Summary) -> Vec<String> {
        let cell = |column: &&Column| spread(summary, column.measure, column.show);
        self.0.iter().map(cell).collect()
    }
}

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}
