//! One setting of a simulation, and its parameters by name.

use super::Machine;
use super::schedulers::{Options, gang};
use libra_core::decision::job::OutOfRange;
use libra_workload::deadlines::DeadlineModel;
use libra_workload::terms::{Amounts, Estimates, TermsModel};

/// Everything that a run depends on, besides the log, the seed and the policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// How terms are drawn.
    pub model: TermsModel,
    /// What schedulers are told.
    pub options: Options,
    /// Nodes of the machine, 1 to 1,000,000.
    pub nodes: u32,
    /// Processors of each, 1 to 65,536.
    pub processors_per_node: u32,
    /// So many of the nodes, the first ones, have one processor more: a log may tell how many processors
    /// there are on all nodes together, and no multiple of the nodes. 0 up to the nodes.
    pub larger_nodes: u32,
}

impl Setting {
    /// Most nodes of a machine.
    pub const MOST_NODES: u32 = 1_000_000;

    /// The machine.
    pub fn machine(&self) -> Machine {
        let mut machine = Machine::uniform(self.nodes as usize, self.processors_per_node);
        for node in machine.nodes.iter_mut().take(self.larger_nodes as usize) {
            node.processors += 1.0;
        }
        machine
    }

    /// Processors of the machine.
    pub fn processors(&self) -> u32 {
        let all = self.nodes.saturating_mul(self.processors_per_node);
        all.saturating_add(self.larger_nodes.min(self.nodes))
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let range = |field, value: f64, least: f64, most: f64, expected| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(OutOfRange {
                field,
                value,
                expected,
            })
        };
        let (nodes, each) = (f64::from(self.nodes), f64::from(self.processors_per_node));
        range("nodes", nodes, 1.0, 1e6, "nodes, from 1 to 1000000")?;
        range(
            "processors_per_node",
            each,
            1.0,
            65_536.0,
            "processors, from 1 to 65536",
        )?;
        range(
            "larger_nodes",
            f64::from(self.larger_nodes),
            0.0,
            nodes,
            "no more than there are nodes",
        )?;
        let margin = self.options.admission.estimate_margin;
        range(
            "estimate_margin",
            margin,
            0.0,
            10.0,
            "a part of the estimate, from 0 to 10",
        )?;
        gang(&self.options).rules.check()?;
        self.model.check()
    }
}

/// A parameter that can be given a range of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// [`TermsModel::arrival_delay_factor`]
    ArrivalDelayFactor,
    /// [`TermsModel::high_urgency`]
    HighUrgency,
    /// [`TermsModel::deadline_factor`]
    DeadlineFactor,
    /// [`TermsModel::deadline_ratio`]
    DeadlineRatio,
    /// [`TermsModel::deadline_spread`]
    DeadlineSpread,
    /// [`DeadlineModel::Slack`]
    Slack,
    /// [`TermsModel::infeasible`]
    Infeasible,
    /// [`Estimates::Inaccuracy`]
    Estimates,
    /// [`Amounts::factor`] of the budget
    BudgetFactor,
    /// [`Amounts::ratio`] of the budget
    BudgetRatio,
    /// [`Amounts::spread`] of the budget
    BudgetSpread,
    /// [`Amounts::factor`] of the penalty rate
    PenaltyFactor,
    /// [`Amounts::ratio`] of the penalty rate
    PenaltyRatio,
    /// [`Amounts::spread`] of the penalty rate
    PenaltySpread,
    /// [`libra_core::decision::admission::Admission::estimate_margin`]
    EstimateMargin,
    /// [`Setting::nodes`]
    Nodes,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Parameter; 16] = [
        Parameter::ArrivalDelayFactor,
        Parameter::HighUrgency,
        Parameter::DeadlineFactor,
        Parameter::DeadlineRatio,
        Parameter::DeadlineSpread,
        Parameter::Slack,
        Parameter::Infeasible,
        Parameter::Estimates,
        Parameter::BudgetFactor,
        Parameter::BudgetRatio,
        Parameter::BudgetSpread,
        Parameter::PenaltyFactor,
        Parameter::PenaltyRatio,
        Parameter::PenaltySpread,
        Parameter::EstimateMargin,
        Parameter::Nodes,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::ArrivalDelayFactor => "arrival-delay-factor",
            Parameter::HighUrgency => "high-urgency",
            Parameter::DeadlineFactor => "deadline-factor",
            Parameter::DeadlineRatio => "deadline-ratio",
            Parameter::DeadlineSpread => "deadline-spread",
            Parameter::Slack => "slack",
            Parameter::Infeasible => "infeasible",
            Parameter::Estimates => "estimates",
            Parameter::BudgetFactor => "budget-factor",
            Parameter::BudgetRatio => "budget-ratio",
            Parameter::BudgetSpread => "budget-spread",
            Parameter::PenaltyFactor => "penalty-factor",
            Parameter::PenaltyRatio => "penalty-ratio",
            Parameter::PenaltySpread => "penalty-spread",
            Parameter::EstimateMargin => "estimate-margin",
            Parameter::Nodes => "nodes",
        }
    }

    /// What it is, as an axis says it.
    pub fn words(self) -> &'static str {
        match self {
            Parameter::ArrivalDelayFactor => "arrival delay factor",
            Parameter::HighUrgency => "fraction of high-urgency jobs",
            Parameter::DeadlineFactor => "low multiple of deadlines, mean",
            Parameter::DeadlineRatio => "deadline high:low ratio",
            Parameter::DeadlineSpread => "spread of the multiple of deadlines",
            Parameter::Slack => "mean slack beyond the estimate, seconds",
            Parameter::Infeasible => "part of infeasible deadlines",
            Parameter::Estimates => "inaccuracy of estimates",
            Parameter::BudgetFactor => "low budget / run time, mean",
            Parameter::BudgetRatio => "budget high:low ratio",
            Parameter::BudgetSpread => "spread of budget / run time",
            Parameter::PenaltyFactor => "low penalty rate / run time, mean",
            Parameter::PenaltyRatio => "penalty rate high:low ratio",
            Parameter::PenaltySpread => "spread of penalty rate / run time",
            Parameter::EstimateMargin => "margin on estimates",
            Parameter::Nodes => "nodes",
        }
    }

    /// Returns true if deadlines of this model do not depend on it.
    pub fn is_foreign_to(self, model: DeadlineModel) -> bool {
        match self {
            Parameter::DeadlineFactor | Parameter::DeadlineRatio | Parameter::DeadlineSpread => {
                !model.is_multiple()
            }
            Parameter::Slack => !matches!(model, DeadlineModel::Slack(_)),
            _ => false,
        }
    }

    /// Gives it a value. One of budgets makes them limited, one of penalties makes there be some.
    ///
    /// # Errors
    /// When the setting that comes of it is out of range.
    pub fn set(self, setting: &mut Setting, value: f64) -> Result<(), OutOfRange> {
        let model = &mut setting.model;
        match self {
            Parameter::ArrivalDelayFactor => model.arrival_delay_factor = value,
            Parameter::HighUrgency => model.high_urgency = value,
            Parameter::DeadlineFactor => model.deadline_factor = value,
            Parameter::DeadlineRatio => model.deadline_ratio = value,
            Parameter::DeadlineSpread => model.deadline_spread = value,
            Parameter::Slack => model.deadlines = DeadlineModel::Slack(value),
            Parameter::Infeasible => model.infeasible = value,
            Parameter::Estimates => model.estimates = Estimates::Inaccuracy(value),
            Parameter::BudgetFactor => amounts(&mut model.budget, BUDGET).factor = value,
            Parameter::BudgetRatio => amounts(&mut model.budget, BUDGET).ratio = value,
            Parameter::BudgetSpread => amounts(&mut model.budget, BUDGET).spread = value,
            Parameter::PenaltyFactor => amounts(&mut model.penalty, PENALTY).factor = value,
            Parameter::PenaltyRatio => amounts(&mut model.penalty, PENALTY).ratio = value,
            Parameter::PenaltySpread => amounts(&mut model.penalty, PENALTY).spread = value,
            Parameter::EstimateMargin => setting.options.admission.estimate_margin = value,
            // What is no count of nodes becomes 0, which is out of range.
            Parameter::Nodes if value.fract() == 0.0 => {
                setting.nodes = value as u32;
                setting.larger_nodes = 0;
            }
            Parameter::Nodes => setting.nodes = 0,
        }
        setting
            .check()
            .map_err(|error| OutOfRange { value, ..error })
    }
}

/// Those of the 2005 paper, see [`TermsModel::libra_sla`].
const BUDGET: Amounts = Amounts {
    factor: 1.0,
    ratio: 7.0,
    spread: 0.25,
};
const PENALTY: Amounts = Amounts {
    factor: 1e-4,
    ratio: 4.0,
    spread: 0.25,
};

fn amounts(given: &mut Option<Amounts>, default: Amounts) -> &mut Amounts {
    given.get_or_insert(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting {
            model: TermsModel::default(),
            options: Options::default(),
            nodes: 128,
            processors_per_node: 1,
            larger_nodes: 0,
        }
    }

    #[test]
    fn processors_that_are_no_multiple_of_the_nodes_are_all_there() {
        // 10 processors on 4 nodes: 3, 3, 2, 2.
        let uneven = Setting {
            nodes: 4,
            processors_per_node: 2,
            larger_nodes: 2,
            ..setting()
        };
        let machine = uneven.machine();
        let each: Vec<f64> = machine.nodes.iter().map(|node| node.processors).collect();
        assert_eq!(each, [3.0, 3.0, 2.0, 2.0]);
        assert_eq!(uneven.processors(), 10);
        assert_eq!(uneven.check(), Ok(()));
        let too_many = Setting {
            larger_nodes: 5,
            ..uneven
        };
        assert!(too_many.check().is_err());
    }

    #[test]
    fn every_parameter_sets_something_and_refuses_what_is_out_of_range() {
        for parameter in Parameter::ALL {
            let mut changed = setting();
            // Neither is a default.
            let fine = if parameter == Parameter::Nodes {
                7.0
            } else {
                0.375
            };
            assert_eq!(parameter.set(&mut changed, fine), Ok(()), "{parameter:?}");
            assert_ne!(changed, setting(), "{parameter:?}");
            let error = parameter
                .set(&mut changed, -1.0)
                .expect_err(parameter.name());
            assert_eq!(error.value, -1.0);
            assert_eq!(
                format!("{}=1", parameter.name())
                    .parse::<crate::range::Range>()
                    .map(|r| r.parameter),
                Ok(parameter)
            );
        }
        let half = Parameter::Nodes
            .set(&mut setting(), 1.5)
            .expect_err("half a node");
        assert_eq!((half.field, half.value), ("nodes", 1.5));
    }
}
