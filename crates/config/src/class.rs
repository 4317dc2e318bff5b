//! `[class]`: the classes of service.

use super::values::{Amount, Factor};
use serde::Deserialize;

/// `[class]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClassConfig {
    /// The class of a job that names none.
    pub default: ClassName,
    /// Whether dedicated jobs are taken.
    pub dedicated: bool,
    /// Whether immediate jobs are taken.
    pub immediate: bool,
    /// Whether jobs of best effort are taken.
    pub best_effort: bool,
    /// What a dedicated job costs, as a multiple of the price of its terms.
    pub dedicated_price: Factor,
    /// What an immediate job costs, as a multiple of the price at full speed.
    pub immediate_price: Factor,
    /// Credits for a processor second that a job of best effort uses.
    pub best_effort_price: Amount,
}

/// Classes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassName {
    /// A share, and an end by a deadline.
    #[default]
    Deadline,
    /// Whole processors, and an end by a deadline.
    Dedicated,
    /// Whole processors, at once.
    Immediate,
    /// What the others leave.
    BestEffort,
}

impl ClassConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        let (name, offered) = match self.default {
            ClassName::Deadline => return Ok(()),
            ClassName::Dedicated => ("dedicated", self.dedicated),
            ClassName::Immediate => ("immediate", self.immediate),
            ClassName::BestEffort => ("best-effort", self.best_effort),
        };
        match offered {
            true => Ok(()),
            false => Err(format!(
                "class.default is '{name}' and class.{name} is false, expected a class that is offered"
            )),
        }
    }
}

impl Default for ClassConfig {
    fn default() -> Self {
        ClassConfig {
            default: ClassName::Deadline,
            dedicated: true,
            immediate: true,
            best_effort: true,
            dedicated_price: Factor(1.0),
            immediate_price: Factor(1.0),
            best_effort_price: Amount(0.0),
        }
    }
}
