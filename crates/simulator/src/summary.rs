//! The measures of several runs that differ in their seed alone, as means and standard deviations.

use super::measures::Measures;
use super::sums::Spread;
use serde::ser::{Serialize, SerializeMap, Serializer};
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
    /// [`Measures::conditional`]
    Conditional,
    /// [`Measures::conditional_late`]
    ConditionalLate,
    /// [`Measures::fulfilled_percent`]
    FulfilledPercent,
    /// [`Measures::fulfilled_work_percent`]
    FulfilledWorkPercent,
    /// [`Measures::late_percent`]
    LatePercent,
    /// [`Measures::mean_slowdown`]
    MeanSlowdown,
    /// [`Measures::mean_wait`]
    MeanWait,
    /// [`Measures::utility`]
    Utility,
    /// [`Measures::revenue`]
    Revenue,
    /// [`Measures::utilisation`]
    Utilisation,
    /// [`Measures::mean_delay`]
    MeanDelay,
    /// [`Measures::longest_delay`]
    LongestDelay,
}

impl Measure {
    /// All of them, in the order of [`Measures`].
    pub const ALL: [Measure; 17] = [
        Measure::Submitted,
        Measure::Accepted,
        Measure::Rejected,
        Measure::Fulfilled,
        Measure::Late,
        Measure::Conditional,
        Measure::ConditionalLate,
        Measure::FulfilledPercent,
        Measure::FulfilledWorkPercent,
        Measure::LatePercent,
        Measure::MeanSlowdown,
        Measure::MeanWait,
        Measure::Utility,
        Measure::Revenue,
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
            Measure::Conditional => "conditional",
            Measure::ConditionalLate => "conditional_late",
            Measure::FulfilledPercent => "fulfilled_percent",
            Measure::FulfilledWorkPercent => "fulfilled_work_percent",
            Measure::LatePercent => "late_percent",
            Measure::MeanSlowdown => "mean_slowdown",
            Measure::MeanWait => "mean_wait",
            Measure::Utility => "utility",
            Measure::Revenue => "revenue",
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
            Measure::Conditional => Some(measures.conditional as f64),
            Measure::ConditionalLate => Some(measures.conditional_late as f64),
            Measure::FulfilledPercent => measures.fulfilled_percent,
            Measure::FulfilledWorkPercent => measures.fulfilled_work_percent,
            Measure::LatePercent => measures.late_percent,
            Measure::MeanSlowdown => measures.mean_slowdown,
            Measure::MeanWait => measures.mean_wait,
            Measure::Utility => measures.utility,
            Measure::Revenue => measures.revenue,
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

    /// A measure over the runs that have it; None if no run has it.
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
}

/// The fields of [`Measures`]: as they are of a single run, else means, with the number of runs in
/// `seeds` and the standard deviations of a sample in `standard_deviation`.
impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if let [only] = &self.runs[..] {
            return only.serialize(to);
        }
        let mut fields = to.serialize_map(None)?;
        fields.serialize_entry("seeds", &self.runs.len())?;
        Statistic(self, |spread| spread.mean).entries(&mut fields)?;
        let deviations = Statistic(self, |spread| spread.deviation);
        fields.serialize_entry("standard_deviation", &deviations)?;
        fields.end()
    }
}

/// The means, or the standard deviations.
struct Statistic<'a>(&'a Summary, fn(Spread) -> f64);

impl Statistic<'_> {
    fn entries<M: SerializeMap>(&self, fields: &mut M) -> Result<(), M::Error> {
        let Statistic(summary, of) = self;
        for measure in Measure::ALL {
            fields.serialize_entry(measure.name(), &summary.get(measure).map(of))?;
        }
        let later = (summary.runs.iter()).map(|run| run.promised_later as f64);
        if let Some(later) = Spread::of(later).filter(|later| later.mean > 0.0) {
            fields.serialize_entry("promised_later", &of(later))?;
        }
        let reasons = summary.rejected_by_reason().into_iter();
        let reasons: BTreeMap<&str, f64> =
            reasons.map(|(name, spread)| (name, of(spread))).collect();
        fields.serialize_entry("rejected_by_reason", &reasons)
    }
}

impl Serialize for Statistic<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_map(None)?;
        self.entries(&mut fields)?;
        fields.end()
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
        let json = serde_json::to_value(summary).expect("plain data");
        assert_eq!(json["fulfilled"], 4);
        assert_eq!(json["rejected_by_reason"]["share"], 6);
        assert_eq!(json["utility"], serde_json::Value::Null);
        assert_eq!(json.get("standard_deviation"), None);
    }

    #[test]
    fn several_runs_have_means_and_deviations() {
        // 2 and 6: mean 4, squares 4 + 4 over 1. The slowdown of the one that has it.
        let summary = Summary::new(vec![run(2, Some(2.5), "share"), run(6, None, "budget")]);
        let json = serde_json::to_value(summary).expect("plain data");
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
