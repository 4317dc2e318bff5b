//! What else is to tell of a job: asked for once when somebody opens its page, and not again and again.

use super::records::Records;
use super::{Kind, Site};

/// What one slot of a job has used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Used {
    /// So many processor seconds, measured.
    Measured(f64),
    /// It ran for so long, and a slot uses no more than a processor. Seconds.
    AtMost(f64),
}

/// A job's script, its environment, and what it has used in the end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Story {
    /// What it runs; None if nobody has it any more.
    pub script: Option<String>,
    /// Variables of its environment, as far as they are known.
    pub environment: Vec<(String, String)>,
    /// These are all that its system knows of; else it has those of whoever submitted it besides.
    pub is_whole: bool,
    /// Of a job that has ended, where its system tells and [`super::JobSummary::used`] does not.
    pub used: Option<Used>,
}

impl Story {
    /// What the page's own record of a job tells; nothing, where it has not submitted it.
    pub fn of_record(site: &Site, kind: &Kind, key: &str) -> Story {
        let Some(wanted) = Records::new(site, kind).again(key) else {
            return Story::default();
        };
        let pairs = wanted
            .environment
            .split(',')
            .filter(|pair| !pair.is_empty());
        Story {
            environment: pairs.map(variable).collect(),
            script: Some(wanted.script),
            ..Story::default()
        }
    }
}

/// `NAME=value`, or a name alone: then its value is that of whoever submitted.
fn variable(pair: &str) -> (String, String) {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    (name.to_string(), value.to_string())
}
