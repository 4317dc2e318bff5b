//! What a check of a batch system found, a line each.

use libra_config::Config;
use libra_units::toml_key;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub level: Level,
    pub text: String,
    /// Of a node that holds jobs to their shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Running>,
}

/// What holds jobs to their shares on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// Version of Libra in its daemon.
    pub version: String,
    /// The configuration that it reads.
    pub configuration: PathBuf,
    /// Of what is in that now, see [`libra_host::mark::content_hash`]; None if it could not be read.
    pub hash: Option<String>,
}

/// What a check found, in the order in which it looked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    pub fn add(&mut self, level: Level, text: impl Into<String>) {
        let text = text.into();
        self.0.push(Finding {
            level,
            text,
            node: None,
        });
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
            let line = match json {
                // Texts and numbers can always be written.
                true => serde_json::to_string(finding).unwrap_or_default(),
                false => format!("{:8} {}", finding.level, finding.text),
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}
