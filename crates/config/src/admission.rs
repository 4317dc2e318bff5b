//! `[admission]`: who is admitted, and by how much estimates are stretched.

use super::{Duration, EstimateMargin, Margin, MarginBounds};
use serde::Deserialize;

/// `[admission]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AdmissionConfig {
    /// The rule.
    pub policy: PolicyName,
    /// Which node is taken first.
    pub node_choice: NodeChoice,
    /// Shares rounded up to 1/k.
    pub integral_shares: bool,
    /// Stretch of every estimate, as the file has it; [`AdmissionConfig::margin`] is what counts.
    pub estimate_margin: EstimateMargin,
    /// Between what a margin that was learned is followed.
    pub learned_margin_bounds: MarginBounds,
    /// What was learned: no key, but the file beside ([`super::learned`]).
    #[serde(skip)]
    pub learned_margin: Option<Margin>,
    /// What becomes of a deadline shorter than the estimate, under a policy that could take it.
    pub estimate_above_deadline: EstimateAboveDeadline,
    /// How long an acceptance holds without a job id.
    pub provisional: Duration,
    /// How long a quote is held at most; 0: none is.
    pub longest_quote: Duration,
    /// How many held quotes one user may have at a time.
    pub most_quotes: u32,
}

impl AdmissionConfig {
    /// The part by which every estimate is stretched (0.05 = 5 %). One that is learned is kept within its bounds; it is the least where none was
    /// learned.
    pub fn margin(&self) -> f64 {
        let MarginBounds { least, most } = self.learned_margin_bounds;
        match self.estimate_margin {
            EstimateMargin::Fixed(margin) => margin.0,
            EstimateMargin::Learned => self
                .learned_margin
                .map_or(least.0, |learned| learned.0.clamp(least.0, most.0)),
        }
    }
}

/// Policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Libra, 2004.
    #[default]
    Libra,
    /// LibraSLA, 2005.
    LibraSla,
    /// LibraRisk, 2006.
    LibraRisk,
    /// Deadlines in order.
    LibraAdaptive,
}

impl PolicyName {
    /// Returns true if a job has its share from its start to its end, so that what is committed on a node is a sum of shares.
    pub fn shares_add_up(self) -> bool {
        match self {
            PolicyName::Libra => true,
            PolicyName::LibraSla | PolicyName::LibraRisk | PolicyName::LibraAdaptive => false,
        }
    }
}

/// What becomes of a job whose deadline is shorter than its estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateAboveDeadline {
    /// It is refused: an accepted job ends in time if it needs what it says.
    #[default]
    Refuse,
    /// libra-risk and libra-adaptive take it where nobody else is late for it: kept only if it needs less than it says, and counted apart.
    Conditional,
}

/// Which node is taken of those that take a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeChoice {
    /// The one with least processors left over.
    #[default]
    BestFit,
    /// The one with most processors left over.
    LeastLoaded,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        AdmissionConfig {
            policy: PolicyName::Libra,
            node_choice: NodeChoice::BestFit,
            integral_shares: false,
            estimate_margin: EstimateMargin::Fixed(Margin(0.05)),
            learned_margin_bounds: MarginBounds::default(),
            learned_margin: None,
            estimate_above_deadline: EstimateAboveDeadline::Refuse,
            provisional: Duration(30.0),
            longest_quote: Duration(600.0),
            most_quotes: 5,
        }
    }
}
