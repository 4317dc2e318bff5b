//! What a check of a batch system found, a line each.

use libra_config::Config;
use libra_units::toml_key;
use serde_json::json;
use std::fmt;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    Warning,
    /// An installation stops here.
    Problem,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        })
    }
}

/// One line of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub level: Level,
    pub text: String,
}

/// What a check found, in the order in which it looked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    pub fn add(&mut self, level: Level, text: impl Into<String>) {
        let text = text.into();
        self.0.push(Finding { level, text });
    }

    pub fn ok(&mut self, text: impl Into<String>) {
        self.add(Level::Ok, text);
    }

    pub fn warning(&mut self, text: impl Into<String>) {
        self.add(Level::Warning, text);
    }

    pub fn problem(&mut self, text: impl Into<String>) {
        self.add(Level::Problem, text);
    }

    /// Lines of `[class.queues]` that are for nothing that there is. `what`: a queue, a partition.
    pub fn class_queues(&mut self, config: &Config, what: &str, is_there: impl Fn(&str) -> bool) {
        for queue in config.class.queues.keys().filter(|queue| !is_there(queue)) {
            self.warning(format!(
                "class.queues.{} of Libra's configuration: there is no {what} of that name, so no job has its class by it",
                toml_key(queue)
            ));
        }
    }

    pub fn worst(&self) -> Level {
        let levels = self.0.iter().map(|finding| finding.level);
        levels.max().unwrap_or(Level::Ok)
    }

    /// The findings from a level on, a line each.
    pub fn shown(&self, json: bool, least: Level) -> String {
        let mut text = String::new();
        for finding in self.0.iter().filter(|finding| finding.level >= least) {
            let line = if json {
                json!({"level": finding.level.to_string(), "text": finding.text}).to_string()
            } else {
                format!("{:8} {}", finding.level, finding.text)
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}
