//! A job's profile: its share and its progress over time, as far as a page was open that asked. Pure.
//!
//! Samples are taken of what is asked for anyway, and thinned as they become many, so that a job of a week has no more of them than one of a
//! minute: when there are [`MOST`], every second one goes and they are taken half as often from then on.

use crate::system::job::{JobSummary, Outcome};
use serde::{Deserialize, Serialize};

/// The most samples of a job.
pub const MOST: usize = 200;

/// Between two of a job that has just begun, in seconds.
const EVERY: f64 = 1.0;

/// How a job stood at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since its submission.
    pub at: f64,
    /// Share of each slot, in processors.
    pub share: Option<f64>,
    /// Processor seconds used, per slot.
    pub used: Option<f64>,
}

/// How a job has ended that was looked at before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Seconds since its submission, where that is known.
    pub at: Option<f64>,
    /// Processor seconds used, per slot, where its system says so.
    pub used: Option<f64>,
    /// It did what it was to do.
    pub finished: bool,
}

/// All of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// When it was submitted, seconds since 1970: another job of the same number was submitted at another time.
    pub submitted: f64,
    /// The key of its page.
    pub key: String,
    /// What its user calls it.
    pub name: String,
    /// In their order.
    pub samples: Vec<Sample>,
    /// Seconds between two samples.
    pub every: f64,
    /// None while it has not ended, or where nobody saw that.
    pub end: Option<End>,
}

impl Profile {
    /// Of a job of which nothing is known yet.
    pub fn new(job: &JobSummary) -> Profile {
        Profile {
            submitted: job.submitted.unwrap_or(0.0),
            key: job.key.clone(),
            name: job.name.clone(),
            every: EVERY,
            ..Profile::default()
        }
    }

    /// Returns true if it is this job's. Times of a submission that are reckoned from now may differ by seconds.
    pub fn is_of(&self, job: &JobSummary) -> bool {
        (self.submitted - job.submitted.unwrap_or(0.0)).abs() < 30.0
    }

    /// Takes note of how a job stands. Returns true if that is more than the moment of the last sample.
    pub fn observe(&mut self, job: &JobSummary) -> bool {
        if !job.live {
            let end = End {
                at: job.elapsed,
                used: job.used,
                finished: job.outcome == Some(Outcome::Finished),
            };
            let is_new = self.end.as_ref() != Some(&end);
            self.end = Some(end);
            return is_new;
        }
        // It may have been taken back into its queue.
        self.end = None;
        match job.elapsed.filter(|at| at.is_finite() && *at >= 0.0) {
            Some(at) if job.share.is_some() || job.used.is_some() => self.add(Sample {
                at,
                share: job.share,
                used: job.used,
            }),
            _ => false,
        }
    }

    fn add(&mut self, sample: Sample) -> bool {
        // Clocks that are set back add nothing.
        if self.samples.last().is_some_and(|last| sample.at <= last.at) {
            return false;
        }
        // The last one is the present, which takes its place until it is far enough from the one before.
        if let [.., before, last] = &mut self.samples[..] {
            if last.at - before.at < self.every {
                *last = sample;
                return false;
            }
        }
        self.samples.push(sample);
        if self.samples.len() > MOST {
            let last = self.samples.len() - 1;
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                (index - 1) % 2 == 0 || index - 1 == last
            });
            let spans = self.samples.windows(2).map(|pair| pair[1].at - pair[0].at);
            self.every = (2.0 * self.every).max(spans.fold(f64::INFINITY, f64::min));
        }
        true
    }

    /// Processor seconds that each slot has used until its end, where it is known from samples: the last one is about as late as the end, and
    /// a slot uses no more than a processor since. None if nobody looked.
    pub fn used_at_most(&self) -> Option<f64> {
        let end = self.end.as_ref()?;
        if let Some(used) = end.used {
            return Some(used);
        }
        let (at, last) = (end.at?, self.samples.last()?);
        let gap = (at - last.at).max(0.0);
        let is_near = gap <= (0.05 * at).max(5.0);
        last.used.filter(|_| is_near).map(|used| used + gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(at: f64, used: f64) -> JobSummary {
        JobSummary {
            live: true,
            submitted: Some(1000.0),
            elapsed: Some(at),
            share: Some(0.5),
            used: Some(used),
            ..JobSummary::default()
        }
    }

    #[test]
    fn a_week_has_no_more_samples_than_a_minute() {
        let mut profile = Profile::new(&job(0.0, 0.0));
        let mut at = 0.0;
        while at < 7.0 * 86_400.0 {
            profile.observe(&job(at, at / 2.0));
            assert!(profile.samples.len() <= MOST);
            at += 3.0;
        }
        let samples = &profile.samples;
        assert!(samples.len() > MOST / 3, "{}", samples.len());
        assert_eq!(samples[0].at, 0.0, "the beginning stays");
        assert_eq!(
            samples[samples.len() - 1].at,
            at - 3.0,
            "and the present is there"
        );
        let spans: Vec<f64> = samples
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .collect();
        let (last, rest) = spans.split_last().expect("spans");
        let (least, most) = (
            rest.iter().copied().fold(f64::MAX, f64::min),
            rest.iter().copied().fold(0.0, f64::max),
        );
        assert!(
            most <= 3.0 * least && *last <= most,
            "{least} {most} {last}"
        );
        assert!(serde_json::to_string(&profile).expect("JSON").len() < 16 << 10);
    }

    #[test]
    fn the_present_takes_its_own_place_and_time_does_not_go_back() {
        let mut profile = Profile::new(&job(0.0, 0.0));
        let seen = [0.0, 0.4, 0.8, 1.2, 1.5, 0.3, 2.9].map(|at| profile.observe(&job(at, at)));
        assert_eq!(seen, [true, true, false, false, true, false, false]);
        let at: Vec<f64> = profile.samples.iter().map(|sample| sample.at).collect();
        assert_eq!(at, [0.0, 1.2, 2.9]);
        let waits = JobSummary {
            share: None,
            used: None,
            ..job(9.0, 0.0)
        };
        assert!(!profile.observe(&waits), "nothing is known");
    }

    #[test]
    fn what_was_used_is_known_by_who_looked_to_the_end() {
        let mut profile = Profile::new(&job(0.0, 0.0));
        let over = |at: f64, used: Option<f64>| JobSummary {
            live: false,
            outcome: Some(Outcome::Finished),
            share: None,
            used,
            ..job(at, 0.0)
        };
        profile.observe(&job(40.0, 20.0));
        assert_eq!(profile.used_at_most(), None, "it goes on");
        assert!(profile.observe(&over(43.0, None)));
        assert_eq!(profile.used_at_most(), Some(23.0));
        assert!(!profile.observe(&over(43.0, None)), "that was known");
        profile.observe(&over(90.0, None));
        assert_eq!(profile.used_at_most(), None, "too long ago");
        profile.observe(&over(90.0, Some(21.0)));
        assert_eq!(profile.used_at_most(), Some(21.0));
        // A job of the same number, after a boot.
        assert!(!profile.is_of(&JobSummary {
            submitted: Some(5000.0),
            ..job(1.0, 0.0)
        }));
        // Taken back into its queue it goes on.
        assert!(profile.observe(&job(95.0, 1.0)));
        assert_eq!(profile.end, None);
    }
}
