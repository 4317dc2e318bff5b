//! The list as it was asked for, in the pieces that an update replaces.

use super::rows::{self, RenderedRow, hashed};
use super::{above, below};
use crate::list::{Query, Row, listing};
use crate::pages::progress::Progress;
use crate::pages::{View, problem};
use crate::system::Problem;
use crate::system::job::JobSummary;
use serde_json::{Map, Value, json};

/// The list as it was asked for, in the pieces that an update replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// What is above the table.
    pub(super) above: String,
    /// What is below it.
    pub(super) below: String,
    pub(super) rows: Vec<RenderedRow>,
}

/// What a browser has: enough to know what is new to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Of all of it. Two lists of one version are alike.
    pub version: String,
    pub(super) above: u64,
    pub(super) below: u64,
    pub(super) rows: Vec<(String, u64, Option<Progress>)>,
}

impl Rendered {
    /// Of these jobs.
    pub fn new(
        view: &View<'_>,
        jobs: &Result<Vec<JobSummary>, Problem>,
        query: &Query,
    ) -> Rendered {
        let jobs = match jobs {
            Ok(jobs) => jobs,
            Err(error) => {
                return Rendered {
                    above: problem(&error.to_string()).into_string(),
                    below: String::new(),
                    rows: Vec::new(),
                };
            }
        };
        let listing = listing(jobs, query);
        Rendered {
            above: above(&listing, query).into_string(),
            below: below(&listing, query).into_string(),
            rows: listing
                .rows
                .iter()
                .map(|row| match row {
                    Row::One(job) => rows::one(view, job),
                    Row::Several(group) => rows::several(view, group, row.price(), query),
                })
                .collect(),
        }
    }

    /// What a browser has that was sent this.
    pub fn known(&self) -> Known {
        let row = |row: &RenderedRow| (row.key.clone(), row.fixed, row.progress.clone());
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        let (above, below) = (hashed(&self.above), hashed(&self.below));
        let shown: Vec<_> = (rows.iter())
            .map(|(key, fixed, progress)| (key, fixed, progress.as_ref().map(Progress::shown)))
            .collect();
        Known {
            version: format!("{:016x}", hashed(&(above, below, shown))),
            above,
            below,
            rows,
        }
    }

    /// What is new to a browser that has this: members `above`, `below`, `order`, `rows` (of those that it has not, or that have changed)
    /// and `bars` (of those of which only the bars have), each only where there is something.
    pub fn changes(&self, old: Option<&Known>) -> Map<String, Value> {
        let new = self.known();
        let mut changes = Map::new();
        if old.map(|old| old.above) != Some(new.above) {
            changes.insert("above".to_string(), self.above.clone().into());
        }
        if old.map(|old| old.below) != Some(new.below) {
            changes.insert("below".to_string(), self.below.clone().into());
        }
        let keys: Vec<&str> = self.rows.iter().map(|row| row.key.as_str()).collect();
        let old_rows = old.map_or(&[][..], |old| &old.rows);
        if old.is_none() || !keys.iter().eq(old_rows.iter().map(|(key, ..)| key)) {
            changes.insert("order".to_string(), json!(keys));
        }
        let (mut rows, mut bars) = (Map::new(), Map::new());
        for row in &self.rows {
            let before = old_rows.iter().find(|(key, ..)| *key == row.key);
            match (before, &row.progress) {
                (Some((_, fixed, progress)), _)
                    if *fixed == row.fixed && *progress == row.progress => {}
                (Some((_, fixed, _)), Some(progress)) if *fixed == row.fixed => {
                    bars.insert(row.key.clone(), progress.as_json());
                }
                _ => {
                    rows.insert(row.key.clone(), row.html.clone().into());
                }
            }
        }
        for (name, map) in [("rows", rows), ("bars", bars)] {
            if !map.is_empty() {
                changes.insert(name.to_string(), map.into());
            }
        }
        changes.insert("version".to_string(), new.version.into());
        changes
    }
}
