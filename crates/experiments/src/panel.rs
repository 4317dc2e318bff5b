//! One plot of a paper's figure: measured curves, as a drawing, as CSV and as a table.

use libra_plots::figure::Table;
use libra_plots::{Axis, Plot, Point, Series};
use libra_simulator::sums::Spread;
use std::fmt::Write;

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What was run.
    pub name: &'static str,
    /// Its colour, dash and marker in every plot of the paper, 0 to 7.
    pub style: usize,
    /// A value for each of the panel's, over the seeds; None if no run has it.
    pub points: Vec<Option<Spread>>,
}

/// A plot: curves over the values of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Figure and part as the paper numbers them, such as `3b`; unique in a paper.
    pub id: &'static str,
    /// What it shows.
    pub title: String,
    /// The parameter.
    pub parameter: &'static str,
    /// Its values, ascending.
    pub values: Vec<f64>,
    /// What is measured.
    pub measure: &'static str,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Panel {
    /// The means of a curve; no number where no run has the measure. Empty where there is no such
    /// curve.
    pub fn means(&self, name: &str) -> Vec<f64> {
        let curve = self.curves.iter().find(|curve| curve.name == name);
        let mean = |spread: &Option<Spread>| spread.map_or(f64::NAN, |spread| spread.mean);
        curve.map_or(Vec::new(), |curve| curve.points.iter().map(mean).collect())
    }

    /// The mean of a curve at a value of the parameter.
    pub fn at(&self, name: &str, value: f64) -> f64 {
        let place = self.values.iter().position(|&v| (v - value).abs() < 1e-9);
        let means = self.means(name);
        (place.and_then(|place| means.get(place).copied())).unwrap_or(f64::NAN)
    }

    /// Pairs of means of two curves at the values that are `wanted`.
    pub fn pairs(&self, a: &str, b: &str, wanted: impl Fn(f64) -> bool) -> Vec<(f64, f64)> {
        let pairs = self.means(a).into_iter().zip(self.means(b));
        let wanted_only = self.values.iter().zip(pairs).filter(|(v, _)| wanted(**v));
        wanted_only.map(|(_, pair)| pair).collect()
    }

    /// The drawing; error bars are one standard deviation over the seeds to each side.
    pub fn plot(&self) -> Plot {
        let points = |curve: &Curve| {
            let points = self.values.iter().zip(&curve.points);
            let known = points.filter_map(|(value, spread)| Some((*value, (*spread)?)));
            known
                .map(|(value, Spread { mean, deviation })| {
                    Point::between(value, mean, mean - deviation, mean + deviation)
                })
                .collect()
        };
        Plot {
            title: format!("Figure {}: {}", self.id, self.title),
            description: format!(
                "{} against {}; one line for each of {}.",
                self.measure,
                self.parameter,
                self.names().join(", ")
            ),
            x: Axis::linear(self.parameter),
            y: Axis::linear(self.measure),
            series: (self.curves.iter())
                .map(|curve| Series::new(curve.name, points(curve)).in_style(curve.style))
                .collect(),
            ..Plot::default()
        }
    }

    fn names(&self) -> Vec<&'static str> {
        self.curves.iter().map(|curve| curve.name).collect()
    }

    /// One line for each value and curve.
    pub fn csv(&self) -> String {
        let mut csv = format!("{},curve,mean,standard_deviation\n", self.parameter);
        for (place, value) in self.values.iter().enumerate() {
            for curve in &self.curves {
                // Writing to a String cannot fail.
                let _ = match curve.points[place] {
                    Some(Spread { mean, deviation }) => {
                        writeln!(csv, "{value},\"{}\",{mean:.4},{deviation:.4}", curve.name)
                    }
                    None => writeln!(csv, "{value},\"{}\",,", curve.name),
                };
            }
        }
        csv
    }

    /// The means and standard deviations, a row for each value.
    pub fn table(&self) -> Table {
        let mut head = vec![self.parameter.to_string()];
        head.extend(self.names().into_iter().map(str::to_string));
        let rows = self.values.iter().enumerate().map(|(place, value)| {
            let mut row = vec![value.to_string()];
            row.extend(self.curves.iter().map(|curve| match curve.points[place] {
                Some(Spread { mean, deviation }) => format!("{mean:.1} ± {deviation:.1}"),
                None => "–".to_string(),
            }));
            row
        });
        Table {
            caption: format!("Figure {}: {}; {}", self.id, self.title, self.measure),
            head,
            rows: rows.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel() -> Panel {
        let spread = |mean, deviation| Some(Spread { mean, deviation });
        Panel {
            id: "1a",
            title: "load".to_string(),
            parameter: "factor",
            values: vec![0.5, 1.0],
            measure: "fulfilled, %",
            curves: vec![
                Curve {
                    name: "EDF",
                    style: 0,
                    points: vec![spread(80.0, 1.25), spread(90.0, 0.0)],
                },
                Curve {
                    name: "Libra, idle",
                    style: 1,
                    points: vec![spread(85.0, 0.5), None],
                },
            ],
        }
    }

    #[test]
    fn values_are_found() {
        let panel = panel();
        assert_eq!(panel.at("EDF", 1.0), 90.0);
        assert!(panel.at("EDF", 0.7).is_nan() && panel.at("FIFO", 1.0).is_nan());
        let pairs = panel.pairs("Libra, idle", "EDF", |value| value < 0.7);
        assert_eq!(pairs, [(85.0, 80.0)]);
    }

    #[test]
    fn written_down() {
        let panel = panel();
        let csv = "factor,curve,mean,standard_deviation\n\
            0.5,\"EDF\",80.0000,1.2500\n0.5,\"Libra, idle\",85.0000,0.5000\n\
            1,\"EDF\",90.0000,0.0000\n1,\"Libra, idle\",,\n";
        assert_eq!(panel.csv(), csv);
        assert_eq!(panel.table().rows[0], ["0.5", "80.0 ± 1.2", "85.0 ± 0.5"]);
        let svg = panel.plot().svg();
        assert!(svg.contains("Figure 1a: load") && svg.contains("Libra, idle"));
    }
}
