//! The counts of one system, kept over restarts: all in all, and by the hour for the last fourteen days.
//!
//! Invariants:
//! - Totals only rise while a record is carried on. Who cannot carry it on begins another, which Prometheus sees as a reset.
//! - There are at most as many hours as fourteen days have, and one; so it has a largest size.

use super::{Counts, Histogram};
use libra_config::System;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The only version so far.
pub const VERSION: u64 = 1;

/// Hours that are kept beside the present one.
pub const HOURS: u64 = 14 * 24;

const HOUR: u64 = 3600;

/// Totals and history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredCounts {
    /// Names this run of totals from 0 on: another one has another name.
    pub series: String,
    /// Totals of the series before were added.
    pub continued: bool,
    /// All in all.
    pub totals: Counts,
    /// By the hour, each named by its first second of Unix time; hours in which nothing was counted are left out.
    hours: BTreeMap<u64, Counts>,
}

impl StoredCounts {
    /// Nothing counted yet.
    pub fn new(series: &str) -> StoredCounts {
        StoredCounts {
            series: series.to_string(),
            ..StoredCounts::default()
        }
    }

    /// Adds what was counted since the last time. `now`: seconds of Unix time.
    pub fn add(&mut self, counted: &Counts, now: f64) {
        if counted.is_empty() {
            return;
        }
        self.totals.add(counted);
        let hour = hour_of(now);
        self.hours.entry(hour).or_default().add(counted);
        self.forget(hour);
    }

    /// Takes over what a record of before had, once: its totals are added, and its hours.
    pub fn continue_from(&mut self, before: &StoredCounts, now: f64) {
        if self.continued || before.series == self.series {
            return;
        }
        self.continued = true;
        self.totals.add(&before.totals);
        for (hour, counts) in &before.hours {
            self.hours.entry(*hour).or_default().add(counts);
        }
        self.forget(hour_of(now));
    }

    /// Drops what is older than fourteen days, or of a time that a wrong clock has shown.
    fn forget(&mut self, hour: u64) {
        let oldest = hour.saturating_sub(HOURS * HOUR);
        self.hours
            .retain(|&known, _| (oldest..=hour + HOUR).contains(&known));
    }

    /// The hours, oldest first.
    pub fn hours(&self) -> impl Iterator<Item = (u64, &Counts)> {
        self.hours.iter().map(|(hour, counts)| (*hour, counts))
    }

    /// Written down, see docs/metrics.md. `now`: seconds of Unix time.
    pub fn to_json(&self, system: System, now: f64) -> Value {
        let mut totals = self.totals.to_json();
        totals.insert("decisions".to_string(), self.totals.decisions.to_json());
        let hours: Vec<Value> = (self.hours.iter())
            .map(|(hour, counts)| {
                let mut shown = Map::new();
                shown.insert("hour".to_string(), (*hour).into());
                shown.extend(counts.to_json());
                shown.into()
            })
            .collect();
        json!({
            "version": VERSION,
            "system": system.name(),
            "series": self.series,
            "continued": self.continued,
            "written": now,
            "totals": totals,
            "hours": hours,
        })
    }

    /// From [`StoredCounts::to_json`].
    ///
    /// # Errors
    /// When it is none of this version and system.
    pub fn from_json(value: &Value, system: System) -> Result<StoredCounts, String> {
        if value["version"].as_u64() != Some(VERSION) {
            return Err(format!(
                "its version is {}, expected {VERSION}",
                value["version"]
            ));
        }
        if value["system"].as_str() != Some(system.name()) {
            let name = system.name();
            return Err(format!(
                "its system is {}, expected \"{name}\"",
                value["system"]
            ));
        }
        let mut record = StoredCounts {
            series: value["series"].as_str().unwrap_or_default().to_string(),
            continued: value["continued"].as_bool().unwrap_or(false),
            totals: Counts::from_json(&value["totals"]),
            hours: BTreeMap::new(),
        };
        record.totals.decisions = Histogram::from_json(&value["totals"]["decisions"]);
        for hour in value["hours"].as_array().into_iter().flatten() {
            if let Some(begun) = hour["hour"].as_u64() {
                record.hours.insert(begun, Counts::from_json(hour));
            }
        }
        Ok(record)
    }
}

/// The first second of its hour.
fn hour_of(now: f64) -> u64 {
    now.clamp(0.0, 1e11) as u64 / HOUR * HOUR
}
