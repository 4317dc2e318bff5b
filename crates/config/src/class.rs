//! `[class]`: the classes of service.

use super::values::{Amount, Factor};
use libra_units::{cut, toml_key};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `[class]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClassConfig {
    /// The class of a job that names none.
    pub default: ClassName,
    /// The class of a job of more than one processor that names none.
    pub several: SeveralName,
    /// The class of a job of a queue or partition that names none, by the names of queues and partitions.
    pub queues: BTreeMap<String, PromisedName>,
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
    /// Whether dedicated jobs of a batch system stand still for earlier deadlines.
    pub suspend: SuspendName,
}

/// Where a dedicated job stands still for one with an earlier deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuspendName {
    /// Nowhere: it runs on.
    #[default]
    Never,
    /// In the memory of its nodes, where that holds both.
    Memory,
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

/// Classes that a job can be of which has several processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeveralName {
    /// That of a job of one processor.
    #[default]
    Default,
    /// As [`ClassName::Deadline`].
    Deadline,
    /// As [`ClassName::Dedicated`].
    Dedicated,
    /// As [`ClassName::Immediate`].
    Immediate,
}

/// Classes in which something is promised: what a job with terms can be of in a batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromisedName {
    /// As [`ClassName::Deadline`].
    Deadline,
    /// As [`ClassName::Dedicated`].
    Dedicated,
    /// As [`ClassName::Immediate`].
    Immediate,
}

impl From<PromisedName> for ClassName {
    fn from(name: PromisedName) -> ClassName {
        match name {
            PromisedName::Deadline => ClassName::Deadline,
            PromisedName::Dedicated => ClassName::Dedicated,
            PromisedName::Immediate => ClassName::Immediate,
        }
    }
}

impl SeveralName {
    /// The class; None for that of a job of one processor.
    pub fn class(self) -> Option<ClassName> {
        match self {
            SeveralName::Default => None,
            SeveralName::Deadline => Some(ClassName::Deadline),
            SeveralName::Dedicated => Some(ClassName::Dedicated),
            SeveralName::Immediate => Some(ClassName::Immediate),
        }
    }
}

impl ClassConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_offered("class.default", Some(self.default))?;
        self.check_offered("class.several", self.several.class())?;
        for (queue, class) in &self.queues {
            let line = format!("class.queues.{}", toml_key(queue));
            if queue.is_empty() || queue.contains(|c: char| c.is_whitespace() || c.is_control()) {
                return Err(format!(
                    "{line}: '{}' is no name of a queue or partition, expected one without blanks",
                    cut(queue)
                ));
            }
            if let Some(other) = queue.chars().find(|c| ",@*?|".contains(*c)) {
                return Err(format!(
                    "{line}: there is a '{other}' in '{}', expected the name of one queue or partition, in full",
                    cut(queue)
                ));
            }
            self.check_offered(&line, Some((*class).into()))?;
        }
        Ok(())
    }

    /// Checks that what a line says can be had.
    fn check_offered(&self, line: &str, class: Option<ClassName>) -> Result<(), String> {
        let (name, offered) = match class {
            None | Some(ClassName::Deadline) => return Ok(()),
            Some(ClassName::Dedicated) => ("dedicated", self.dedicated),
            Some(ClassName::Immediate) => ("immediate", self.immediate),
            Some(ClassName::BestEffort) => ("best-effort", self.best_effort),
        };
        match offered {
            true => Ok(()),
            false => Err(format!(
                "{line} is '{name}' and class.{name} is false, expected a class that is offered"
            )),
        }
    }
}

impl Default for ClassConfig {
    fn default() -> Self {
        ClassConfig {
            default: ClassName::Deadline,
            several: SeveralName::Default,
            queues: BTreeMap::new(),
            dedicated: true,
            immediate: true,
            best_effort: true,
            dedicated_price: Factor(1.0),
            immediate_price: Factor(1.0),
            best_effort_price: Amount(0.0),
            suspend: SuspendName::default(),
        }
    }
}
