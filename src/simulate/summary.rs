//! The measures of several runs that differ in their seed alone, as means and standard deviations.

use super::measures::Measures;
use super::sums::Spread;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A measure that is one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// [`Measures::submitted`]
    Submitted,
    /// [`Measures::accepted`]
    Accepted,
    /// [`Measures::rejected`]
    Rejected,
    /// [`Measures::fulfilled`]
    Fulfilled,
    /// [`Measures::late`]
    Late,
    /// [`Measures::fulfilled_percent`]
    FulfilledPercent,
    /// [`Measures::mean_slowdown`]
    MeanSlowdown,
    /// [`Measures::mean_wait`]
    MeanWait,
    /// [`Measures::utility`]
    Utility,
    /// [`Measures::utilisation`]
    Utilisation,
    /// [`Measures::mean_delay`]
    MeanDelay,
    /// [`Measures::longest_delay`]
    LongestDelay,
}

impl Measure {
    /// All of them, in the order of [`Measures`].
    pub const ALL: [Measure; 12] = [
        Measure::Submitted,
        Measure::Accepted,
        Measure::Rejected,
        Measure::Fulfilled,
        Measure::Late,
        Measure::FulfilledPercent,
        Measure::MeanSlowdown,
        Measure::MeanWait,
        Measure::Utility,
        Measure::Utilisation,
        Measure::MeanDelay,
        Measure::LongestDelay,
    ];

    /// Its name in the JSON output: that of the field of [`Measures`].
    pub fn name(self) -> &'static str {
        match self {
            Measure::Submitted => "submitted",
            Measure::Accepted => "accepted",
            Measure::Rejected => "rejected",
            Measure::Fulfilled => "fulfilled",
            Measure::Late => "late",
            Measure::FulfilledPercent => "fulfilled_percent",
            Measure::MeanSlowdown => "mean_slowdown",
            Measure::MeanWait => "mean_wait",
            Measure::Utility => "utility",
            Measure::Utilisation => "utilisation",
            Measure::MeanDelay => "mean_delay",
            Measure::LongestDelay => "longest_delay",
        }
    }

    /// Its value in one run.
    pub fn of(self, measures: &Measures) -> Option<f64> {
        match self {
            Measure::Submitted => Some(measures.submitted as f64),
            Measure::Accepted => Some(measures.accepted as f64),
            Measure::Rejected => Some(measures.rejected as f64),
            Measure::Fulfilled => Some(measures.fulfilled as f64),
            Measure::Late => Some(measures.late as f64),
            Measure::FulfilledPercent => measures.fulfilled_percent,
            Measure::MeanSlowdown => measures.mean_slowdown,
            Measure::MeanWait => measures.mean_wait,
            Measure::Utility => measures.utility,
            Measure::Utilisation => measures.utilisation,
            Measure::MeanDelay => measures.mean_delay,
            Measure::LongestDelay => measures.longest_delay,
        }
    }
}

/// One policy at one setting, over all seeds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    runs: Vec<Measures>,
}

impl Summary {
    /// Of these runs, in the order of their seeds.
    pub fn new(runs: Vec<Measures>) -> Summary {
        Summary { runs }
    }

    /// The single runs.
    pub fn runs(&self) -> &[Measures] {
        &self.runs
    }

    /// A measure over the runs that have it; none where no run has it.
    pub fn get(&self, measure: Measure) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| measure.of(run)))
    }

    /// The mean of a measure.
    pub fn mean(&self, measure: Measure) -> Option<f64> {
        self.get(measure).map(|spread| spread.mean)
    }

    /// Refusals by reason; a run without such a refusal counts 0.
    pub fn rejected_by_reason(&self) -> BTreeMap<&'static str, Spread> {
        let reasons = self
            .runs
            .iter()
            .flat_map(|run| run.rejected_by_reason.keys());
        let reasons: BTreeSet<&'static str> = reasons.copied().collect();
        let spread = |reason| {
            let counts = self
                .runs
                .iter()
                .map(|run| run.rejected_by_reason.get(reason));
            Spread::of(counts.map(|count| *count.unwrap_or(&0) as f64))
        };
        let spreads = reasons.into_iter().map(|reason| (reason, spread(reason)));
        spreads
            .filter_map(|(reason, spread)| spread.map(|spread| (reason, spread)))
            .collect()
    }

    /// The fields of [`Measures`]: as they are of a single run, else means, with the standard
    /// deviations of a sample in `standard_deviation` and the number of runs in `seeds`.
    pub fn json(&self) -> Map<String, Value> {
        if let [only] = &self.runs[..] {
            return match serde_json::to_value(only) {
                Ok(Value::Object(fields)) => fields,
                // Numbers and words: there is nothing in it that could fail.
                _ => Map::new(),
            };
        }
        let part = |of: fn(Spread) -> f64| {
            let mut fields: Map<String, Value> = Measure::ALL
                .iter()
                .map(|&measure| {
                    let value = self.get(measure).map(of);
                    (measure.name().to_string(), value.into())
                })
                .collect();
            let reasons = self.rejected_by_reason().into_iter();
            let reasons = reasons.map(|(reason, spread)| (reason.to_string(), of(spread).into()));
            let reasons = Value::Object(reasons.collect());
            fields.insert("rejected_by_reason".to_string(), reasons);
            fields
        };
        let mut fields = part(|spread| spread.mean);
        let deviations = Value::Object(part(|spread| spread.deviation));
        fields.insert("seeds".to_string(), self.runs.len().into());
        fields.insert("standard_deviation".to_string(), deviations);
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(fulfilled: u64, slowdown: Option<f64>, reason: &'static str) -> Measures {
        Measures {
            submitted: 10,
            rejected: 10 - fulfilled,
            fulfilled,
            fulfilled_percent: Some(fulfilled as f64 * 10.0),
            mean_slowdown: slowdown,
            rejected_by_reason: BTreeMap::from([(reason, 10 - fulfilled)]),
            ..Measures::default()
        }
    }

    #[test]
    fn names_are_those_of_the_fields() {
        let json = serde_json::to_value(Measures::default()).expect("plain data");
        let mut fields: Vec<&String> = json.as_object().expect("an object").keys().collect();
        fields.retain(|field| *field != "rejected_by_reason");
        let mut names: Vec<&str> = Measure::ALL.iter().map(|m| m.name()).collect();
        names.sort_unstable();
        assert_eq!(fields, names);
    }

    #[test]
    fn one_run_stays_as_it_is() {
        let summary = Summary::new(vec![run(4, Some(2.5), "share")]);
        let json = Value::Object(summary.json());
        assert_eq!(json["fulfilled"], 4);
        assert_eq!(json["rejected_by_reason"]["share"], 6);
        assert_eq!(json["utility"], Value::Null);
        assert_eq!(json.get("standard_deviation"), None);
    }

    #[test]
    fn several_runs_have_means_and_deviations() {
        // 2 and 6: mean 4, squares 4 + 4 over 1. The slowdown of the one that has it.
        let summary = Summary::new(vec![run(2, Some(2.5), "share"), run(6, None, "budget")]);
        let json = Value::Object(summary.json());
        assert_eq!(json["seeds"], 2);
        assert_eq!(json["fulfilled"], 4.0);
        assert_eq!(json["standard_deviation"]["fulfilled"], 8.0f64.sqrt());
        assert_eq!(json["mean_slowdown"], 2.5);
        assert_eq!(json["standard_deviation"]["mean_slowdown"], 0.0);
        // 8 and 0.
        assert_eq!(json["rejected_by_reason"]["share"], 4.0);
        assert_eq!(json["rejected_by_reason"]["budget"], 2.0);
    }
}
