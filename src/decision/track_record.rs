//! What a user's jobs needed of their estimates: what is known of the next estimate.
//!
//! People overestimate to be safe, some tenfold, and go on doing so; a few underestimate. The most
//! that any of a user's last jobs needed of its estimate corrects the next one. The largest and not
//! the mean: an accepted deadline is a promise.

use serde::{Deserialize, Serialize};

/// How many jobs are remembered.
pub const REMEMBERED: usize = 20;
/// How many jobs it takes to correct an estimate.
pub const ENOUGH: usize = 3;

/// The last jobs of one user: what each needed, as a part of its estimate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrackRecord {
    /// Oldest first, at most [`REMEMBERED`].
    needed: Vec<f32>,
}

impl TrackRecord {
    /// A job came to its end by itself: it used `used` seconds per slot (on a reference node) and
    /// was estimated at `estimate`. Values that cannot be are ignored.
    pub fn note(&mut self, used: f64, estimate: f64) {
        let part = used / estimate;
        if !part.is_finite() || part < 0.0 {
            return;
        }
        if self.needed.len() >= REMEMBERED {
            self.needed.remove(0);
        }
        self.needed.push(part as f32);
    }

    /// What the next estimate is multiplied with, > 0; 1 until enough is known.
    pub fn correction(&self) -> f64 {
        if self.needed.len() < ENOUGH {
            return 1.0;
        }
        let most = self.needed.iter().copied().fold(0.0f32, f32::max);
        // A user whose jobs all failed at once has said nothing about the next one.
        f64::from(most).clamp(0.01, 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_the_last_jobs_corrects_the_next_estimate() {
        let mut record = TrackRecord::default();
        record.note(50.0, 100.0);
        record.note(20.0, 100.0);
        assert_eq!(record.correction(), 1.0, "two jobs say nothing yet");
        record.note(10.0, 100.0);
        assert_eq!(record.correction(), 0.5);
        for _ in 0..REMEMBERED - 1 {
            record.note(30.0, 100.0);
        }
        assert!(
            (record.correction() - 0.3).abs() < 1e-6,
            "the first is forgotten"
        );
        record.note(250.0, 100.0);
        assert_eq!(record.correction(), 2.5);
        record.note(f64::NAN, 100.0);
        record.note(1.0, 0.0);
        assert_eq!(record.correction(), 2.5);
    }
}
