//! What a simulation prints: a table for people, JSON for programs.

use super::plan::{LogExcerpt, Plan};
use crate::status::utf8;
use libra_plots::columns::{self, Flush};
use libra_plots::scale::{count, number};
use libra_simulator::setting::Setting;
use libra_simulator::shares::Waiting;
use libra_simulator::summary::{Measure, Summary};
use libra_simulator::sums::Spread;
use libra_units::duration;
use libra_workload::terms::Made;
use serde::Serialize;
use std::io::IsTerminal;

/// Everything that came out.
pub struct Results<'a> {
    pub plan: &'a Plan,
    pub part: &'a LogExcerpt,
    /// The jobs of the first setting and seed.
    pub made: &'a Made,
    pub settings: &'a [Setting],
    /// For each setting one for each policy.
    pub summaries: Vec<Vec<Summary>>,
}

/// A column of the table.
struct Column {
    heading: &'static str,
    measure: Measure,
    show: fn(f64) -> String,
    /// The smallest are left out first where the terminal is too narrow.
    weight: u8,
}

const COLUMNS: [Column; 12] = [
    Column {
        heading: "REFUSED",
        measure: Measure::Rejected,
        show: whole,
        weight: 7,
    },
    Column {
        heading: "LATE",
        measure: Measure::Late,
        show: whole,
        weight: 10,
    },
    Column {
        heading: "LATE %",
        measure: Measure::LatePercent,
        show: tenths,
        weight: 8,
    },
    Column {
        heading: "COND. LATE",
        measure: Measure::ConditionalLate,
        show: whole,
        weight: 4,
    },
    Column {
        heading: "MET",
        measure: Measure::Fulfilled,
        show: whole,
        weight: 5,
    },
    Column {
        heading: "MET %",
        measure: Measure::FulfilledPercent,
        show: tenths,
        weight: 11,
    },
    Column {
        heading: "WORK %",
        measure: Measure::FulfilledWorkPercent,
        show: tenths,
        weight: 9,
    },
    Column {
        heading: "SLOWDOWN",
        measure: Measure::MeanSlowdown,
        show: |slowdown| format!("{slowdown:.2}"),
        weight: 6,
    },
    Column {
        heading: "WAIT",
        measure: Measure::MeanWait,
        show: duration::show,
        weight: 1,
    },
    Column {
        heading: "UTILITY",
        measure: Measure::Utility,
        show: number,
        weight: 3,
    },
    Column {
        heading: "REVENUE",
        measure: Measure::Revenue,
        show: number,
        weight: 3,
    },
    Column {
        heading: "IN USE",
        measure: Measure::Utilisation,
        show: |part| format!("{:.1} %", part * 100.0),
        weight: 2,
    },
];

fn tenths(percent: f64) -> String {
    format!("{percent:.1}")
}

fn whole(jobs: f64) -> String {
    count(jobs.round() as u64)
}

impl Results<'_> {
    /// One line about the whole and one for each policy, or for each policy at each value.
    pub fn table(&self) -> String {
        let out = std::io::stdout();
        let width = out
            .is_terminal()
            .then(|| terminal_size::terminal_size_of(&out))
            .flatten()
            .map(|(width, _)| usize::from(width.0));
        self.fitted(width, utf8())
    }

    fn fitted(&self, width: Option<usize>, utf8: bool) -> String {
        let plus_minus = if utf8 { "±" } else { "+-" };
        // Money is of interest where budgets have a limit.
        let mut all = self.summaries.iter().flatten();
        let limited = all.any(|summary| summary.get(Measure::Utility).is_some());
        let of_money = [Measure::Utility, Measure::Revenue];
        let known = |column: &&Column| limited || !of_money.contains(&column.measure);
        let mut columns: Vec<&Column> = COLUMNS.iter().filter(known).collect();
        let mut text = self.headline() + "\n";
        let mut lines = self.lines(&columns, plus_minus);
        let too_wide = |lines: &[String]| {
            let widest = lines.iter().map(|line| line.chars().count()).max();
            width.is_some_and(|width| widest.unwrap_or(0) > width)
        };
        let mut left_out = Vec::new();
        while too_wide(&lines) && columns.len() > 2 {
            let least = columns.iter().map(|column| column.weight).min();
            let (out, kept) = columns
                .into_iter()
                .partition(|column| Some(column.weight) == least);
            columns = kept;
            left_out.extend::<Vec<&Column>>(out);
            lines = self.lines(&columns, plus_minus);
        }
        if !left_out.is_empty() {
            let names: Vec<&str> = left_out.iter().map(|column| column.heading).collect();
            lines.push(format!("no room for {}; see --json", names.join(", ")));
        }
        for line in lines {
            text += &line;
            text.push('\n');
        }
        text
    }

    /// Which jobs, on what, how often.
    fn headline(&self) -> String {
        let jobs = count(self.made.jobs.len() as u64);
        let mut line = format!("{}: {jobs} jobs", self.part.name);
        if self.made.never_ran > 0 {
            line += &format!(" ({} more never ran)", count(self.made.never_ran as u64));
        }
        let Setting {
            nodes,
            processors_per_node: each,
            larger_nodes,
            ..
        } = self.settings[0];
        let all = count(u64::from(nodes));
        line += &match (each, larger_nodes) {
            (1, 0) => format!(" on {all} processors"),
            (each, 0) => format!(" on {all} nodes of {each} processors"),
            (each, _) => format!(" on {all} nodes of {each} or {} processors", each + 1),
        };
        line += &match &self.plan.seeds[..] {
            [seed] => format!(", seed {seed}"),
            [first, .., last] => format!(", mean of seeds {first} to {last}"),
            [] => String::new(),
        };
        let model = &self.settings[0].model;
        line += &format!("; deadlines: {}", model.deadlines.name());
        if model.infeasible > 0.0 {
            line += &format!(", infeasible {}", model.infeasible);
        }
        line += &format!("; coupled: {}", model.coupled.name());
        match self.settings[0].options.waiting {
            Waiting::Block => line,
            Waiting::Spin => line + ", waiting slots spin",
        }
    }

    fn lines(&self, shown: &[&Column], plus_minus: &str) -> Vec<String> {
        let swept = self.plan.sweep.as_ref();
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut heading = Vec::new();
        if let Some(range) = swept {
            heading.push(range.parameter.name().to_uppercase());
        }
        heading.push("POLICY".to_string());
        heading.extend(shown.iter().map(|column| column.heading.to_string()));
        rows.push(heading);
        for (place, summaries) in self.summaries.iter().enumerate() {
            for (policy, summary) in self.plan.policies.iter().zip(summaries) {
                let mut row: Vec<String> = Vec::new();
                if let Some(range) = swept {
                    row.push(range.values[place].to_string());
                }
                row.push(policy.name.to_string());
                row.extend(shown.iter().map(|column| cell(column, summary, plus_minus)));
                rows.push(row);
            }
        }
        let policy = usize::from(swept.is_some());
        columns::lines(&rows, |column| match column == policy {
            true => Flush::Left,
            false => Flush::Right,
        })
    }

    /// One object for each policy, at each value of a range; each on a line of its own.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        for (place, summaries) in self.summaries.iter().enumerate() {
            let setting = &self.settings[place];
            for (policy, summary) in self.plan.policies.iter().zip(summaries) {
                let sweep = self.plan.sweep.as_ref().map(|range| Sweep {
                    parameter: range.parameter.name(),
                    value: range.values[place],
                });
                text += &serde_json::to_string(&Line {
                    policy: policy.name,
                    sweep,
                    trace: &self.part.name,
                    nodes: setting.nodes,
                    processors_per_node: setting.processors_per_node,
                    processors: setting.processors(),
                    coupled: setting.model.coupled.name(),
                    waiting: setting.options.waiting.name(),
                    deadline_model: setting.model.deadlines.name(),
                    infeasible: setting.model.infeasible,
                    seed: self.plan.seeds[0],
                    summary,
                })?;
                text.push('\n');
            }
        }
        Ok(text)
    }
}

/// What stands in a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<Sweep>,
    trace: &'a str,
    nodes: u32,
    processors_per_node: u32,
    /// All of them: some nodes may have one more.
    processors: u32,
    coupled: &'static str,
    waiting: &'static str,
    deadline_model: &'static str,
    infeasible: f64,
    /// The first one.
    seed: u64,
    #[serde(flatten)]
    summary: &'a Summary,
}

#[derive(Serialize)]
struct Sweep {
    parameter: &'static str,
    value: f64,
}

fn cell(column: &Column, summary: &Summary, plus_minus: &str) -> String {
    // How far counts are apart, the percentage tells.
    let plain = matches!(
        column.measure,
        Measure::Rejected | Measure::Late | Measure::ConditionalLate | Measure::Fulfilled
    );
    match summary.get(column.measure) {
        None => "-".to_string(),
        Some(Spread { mean, deviation }) if summary.runs().len() > 1 && !plain => {
            let (mean, deviation) = ((column.show)(mean), (column.show)(deviation));
            format!("{mean} {plus_minus} {deviation}")
        }
        Some(Spread { mean, .. }) => (column.show)(mean),
    }
}
