//! Figures of several policies over a range of values of one parameter.

use super::run::{Columns, plot, spread};
use crate::summary::{Measure, Summary};
use libra_plots::figure::{Figure, Table};
use libra_plots::scale::number;
use libra_plots::{Axis, Plot, Point, Series};

/// A range of values of one parameter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sweep {
    /// The parameter, in words.
    pub parameter: String,
    /// What the policies are called.
    pub policies: Vec<String>,
    /// Each value with the measures of each policy, in their order.
    pub points: Vec<(f64, Vec<Summary>)>,
}

impl Sweep {
    /// A figure for each measure that any run has.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let percent = |value: f64| value * 100.0;
        let same = |value: f64| value;
        [
            self.figure(
                Measure::FulfilledPercent,
                "Jobs that met their deadline",
                Axis::percent("met their deadline, % of submitted jobs"),
                "Of all submitted jobs, the refused and the late ones included.",
                same,
            ),
            self.figure(
                Measure::MeanSlowdown,
                "Slowdown of the jobs that met their deadline",
                Axis::linear("mean slowdown"),
                "(end − submission) / run time, the mean of the jobs that met their deadline. \
                 A policy that fulfils few and short jobs looks good here: read it beside the \
                 figure above.",
                same,
            ),
            self.figure(
                Measure::Utility,
                "Utility",
                Axis::linear("utility, credits"),
                "Budgets of the jobs that ran, less the penalties of those that were late.",
                same,
            ),
            self.figure(
                Measure::Utilisation,
                "How busy the machine was",
                Axis::percent("processors in use, %"),
                "Work of the jobs that ran, of what the machine could have done from the first \
                 submission to the last end.",
                percent,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn figure(
        &self,
        measure: Measure,
        title: &str,
        y: Axis,
        caption: &str,
        unit: fn(f64) -> f64,
    ) -> Option<Figure> {
        let known = |summary: &Summary| summary.get(measure).is_some();
        if !self.points.iter().any(|(_, all)| all.iter().any(known)) {
            return None;
        }
        let line = |place: usize| {
            let points = self.points.iter().filter_map(|(value, all)| {
                let spread = all.get(place)?.get(measure)?;
                let (low, high) = (
                    spread.mean - spread.deviation,
                    spread.mean + spread.deviation,
                );
                Some(Point::between(
                    *value,
                    unit(spread.mean),
                    unit(low),
                    unit(high),
                ))
            });
            points.collect()
        };
        let lines = self.policies.iter().enumerate();
        let drawing = Plot {
            title: format!("{title} against {}", self.parameter),
            description: "One line for each policy.".to_string(),
            x: Axis::linear(&self.parameter),
            y,
            series: lines
                .map(|(place, name)| Series::new(name, line(place)).in_style(place))
                .collect(),
            ..Plot::default()
        };
        let mut head = vec![self.parameter.clone()];
        head.extend(self.policies.iter().cloned());
        let rows = self.points.iter().map(|(value, all)| {
            let mut row = vec![number(*value)];
            let show = |value| number(unit(value));
            row.extend(all.iter().map(|summary| spread(summary, measure, show)));
            row
        });
        let mut caption = caption.to_string();
        if self.seeds() > 1 {
            let seeds = self.seeds();
            caption += &format!(
                " Mean of {seeds} seeds; the error bars are one standard deviation to each side."
            );
        }
        Some(Figure {
            id: measure.name(),
            heading: title.to_string(),
            caption,
            drawings: plot(&drawing, measure.name()),
            small: false,
            table: Table {
                caption: drawing.y.label.clone(),
                head,
                rows: rows.collect(),
            },
        })
    }

    fn seeds(&self) -> usize {
        let all = self.points.iter().flat_map(|(_, all)| all);
        all.map(|summary| summary.runs().len()).max().unwrap_or(0)
    }

    /// Who fulfilled most, in a sentence.
    pub(super) fn lead(&self) -> Option<String> {
        let best = |all: &Vec<Summary>| {
            let percent = |place: usize| all[place].mean(Measure::FulfilledPercent);
            (0..all.len().min(self.policies.len()))
                .filter_map(|place| Some((place, percent(place)?)))
                // The first of equals.
                .fold(None, |best: Option<(usize, f64)>, next| match best {
                    Some(best) if best.1 >= next.1 => Some(best),
                    _ => Some(next),
                })
        };
        let winners: Vec<usize> = self
            .points
            .iter()
            .filter_map(|(_, all)| Some(best(all)?.0))
            .collect();
        let mut wins = vec![0usize; self.policies.len()];
        winners.iter().for_each(|&place| wins[place] += 1);
        if winners.is_empty() || self.policies.len() < 2 {
            return None;
        }
        let mut order: Vec<usize> = (0..wins.len()).filter(|&place| wins[place] > 0).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(wins[place]));
        let values = winners.len();
        if let [all] = order[..] {
            return Some(format!(
                "At all {values} values of the {} most jobs met their deadline under {}.",
                self.parameter, self.policies[all]
            ));
        }
        let [most, others @ ..] = &order[..] else {
            return None;
        };
        let mut text = format!(
            "Most jobs met their deadline under {} at {} of {values} values of the {}",
            self.policies[*most], wins[*most], self.parameter
        );
        for &place in others {
            text += &format!(", under {} at {}", self.policies[place], wins[place]);
        }
        Some(text + ".")
    }

    /// All measures at all values.
    pub(super) fn table(&self) -> Table {
        let all = self.points.iter().flat_map(|(_, all)| all);
        let columns = Columns::of(all);
        let mut head = vec![self.parameter.clone(), "policy".to_string()];
        head.extend(columns.head());
        let columns = &columns;
        let rows = self.points.iter().flat_map(|(value, all)| {
            self.policies.iter().zip(all).map(move |(name, summary)| {
                let mut row = vec![number(*value), name.clone()];
                row.extend(columns.cells(summary));
                row
            })
        });
        Table {
            caption: format!("By {} and policy", self.parameter),
            head,
            rows: rows.collect(),
        }
    }
}
