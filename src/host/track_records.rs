//! What the jobs of each user of this host needed of their estimates, for policies that want to know.
//!
//! One small file in the registry, changed under its lock. It is a convenience, not a promise: where it
//! cannot be read, estimates are taken as given.

use super::entry::Entry;
use super::{Host, HostError};
use crate::decision::admission::Admission;
use crate::decision::policy::Policy;
use crate::decision::track_record::TrackRecord;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Users that are remembered; more than a host has.
const MOST_USERS: usize = 10_000;
/// No file of ours is larger.
const LARGEST_FILE: u64 = 4 << 20;

type TrackRecords = BTreeMap<u32, TrackRecord>;

impl Host {
    /// The rules of admission for this user.
    pub(super) fn admission_for(&self, user: u32) -> Admission {
        let admission = self.config.admission();
        if !admission.policy.uses_track_records() {
            return admission;
        }
        let correction = self
            .read_track_records()
            .get(&user)
            .map_or(1.0, TrackRecord::correction);
        admission.corrected(correction)
    }

    /// Remembers what a job needed that came to its end by itself: one that was cancelled, killed or
    /// left behind has said nothing about the next one.
    pub(super) fn note_track_record(&self, entry: &Entry) -> Result<(), HostError> {
        let policy = self.config.admission().policy;
        let ended = entry.ending.as_ref().filter(|ending| {
            ending.exit_code == Some(0) && !ending.cancelled && policy.uses_track_records()
        });
        let Some(ending) = ended else { return Ok(()) };
        let mut records = self.read_track_records();
        let used = ending.used / f64::from(entry.slots.max(1)) * self.machine.spec.rating;
        if records.len() < MOST_USERS || records.contains_key(&entry.user) {
            let record = records.entry(entry.user).or_default();
            record.note(used, entry.request.terms.estimate);
        }
        let text = serde_json::to_vec(&records).unwrap_or_default();
        self.registry.replace(&self.track_records_path(), &text)?;
        Ok(())
    }

    fn track_records_path(&self) -> PathBuf {
        self.registry.directory().join("track-records.json")
    }

    fn read_track_records(&self) -> TrackRecords {
        let path = self.track_records_path();
        let is_ours = std::fs::symlink_metadata(&path)
            .is_ok_and(|data| data.is_file() && data.len() <= LARGEST_FILE);
        if !is_ours {
            return TrackRecords::new();
        }
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let parsed =
            read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        parsed.unwrap_or_else(|error| {
            log::warn!("{}: {error}; estimates are taken as given", path.display());
            TrackRecords::new()
        })
    }
}
