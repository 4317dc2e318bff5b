//! What a site keeps of the past: accepted, met, late and cancelled jobs and refusals by reason, per hour.
//!
//! Read from the file that whoever admits writes beside its metrics (`slurm.json`, `pbs.json`, `gridengine.json`, `local.json`; see
//! docs/metrics.md): `{"hours": [{"hour": UNIX, "accepted": N, "met": N, "late": N, "cancelled": N, "refused": {"share": N}}]}`.
//! Whatever else is in it is left alone.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most that is read, in bytes.
const MOST: u64 = 4 << 20;

/// An hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hour {
    /// Its beginning, seconds since 1970.
    pub at: f64,
    /// Jobs that were accepted in it.
    pub accepted: u64,
    /// That ended by their deadlines.
    pub met: u64,
    /// That ended later.
    pub late: u64,
    /// That failed in time.
    pub failed: u64,
    /// That were cancelled.
    pub cancelled: u64,
    /// Refusals, by reason.
    pub refused: BTreeMap<String, u64>,
}

impl Hour {
    /// Nothing happened.
    pub fn is_empty(&self) -> bool {
        self.accepted + self.met + self.late + self.failed + self.cancelled == 0
            && self.refused.is_empty()
    }
}

/// All that is kept, in order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Hours in which something happened.
    pub hours: Vec<Hour>,
}

impl History {
    /// Reads a file; None if there is none, or it is something else.
    pub fn read(file: &Path) -> Option<History> {
        let mut text = String::new();
        File::open(file)
            .ok()?
            .take(MOST)
            .read_to_string(&mut text)
            .ok()?;
        History::from_json(&serde_json::from_str(&text).ok()?)
    }

    fn from_json(json: &Value) -> Option<History> {
        let count = |json: &Value| json.as_u64().unwrap_or(0);
        let mut hours: Vec<Hour> = json["hours"]
            .as_array()?
            .iter()
            .filter_map(|hour| {
                let refused = hour["refused"].as_object().into_iter().flatten();
                Some(Hour {
                    at: hour["hour"].as_f64().or_else(|| hour["at"].as_f64())?,
                    accepted: count(&hour["accepted"]),
                    met: count(&hour["met"]),
                    late: count(&hour["late"]),
                    failed: count(&hour["failed"]),
                    cancelled: count(&hour["cancelled"]),
                    refused: refused
                        .map(|(reason, n)| (reason.clone(), count(n)))
                        .filter(|(_, n)| *n > 0)
                        .collect(),
                })
            })
            .collect();
        hours.retain(|hour| hour.at.is_finite());
        hours.sort_by(|a, b| a.at.total_cmp(&b.at));
        Some(History { hours })
    }

    /// Refusals by reason, all hours together.
    pub fn refusals(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (reason, count) in self.hours.iter().flat_map(|hour| &hour.refused) {
            *sums.entry(reason).or_default() += count;
        }
        sums.into_iter()
            .map(|(reason, count)| (reason.to_string(), count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hours_are_read_and_reasons_added_up() {
        let json = json!({"version": 1, "hours": [
            {"hour": 7200, "accepted": 3, "met": 2, "late": 1, "cancelled": 0, "refused": {"share": 2}},
            {"hour": 3600, "accepted": 1, "refused": {"share": 1, "budget": 4, "funds": 0}}, {"x": 1}]});
        let history = History::from_json(&json).expect("a history");
        assert_eq!(history.hours[0].at, 3600.0);
        assert_eq!(
            history.refusals(),
            [("budget".to_string(), 4), ("share".to_string(), 3)]
        );
        assert_eq!(History::from_json(&json!([])), None);
        assert_eq!(History::read(Path::new("/nonexistent/libra.json")), None);
    }
}
