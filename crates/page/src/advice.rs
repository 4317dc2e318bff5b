//! What a user may learn of a job that has done its work: whether the estimate fitted, and which one would have. Pure.

/// An estimate that is longer than what was needed by less is good.
const GOOD: f64 = 1.25;

/// So much more than was needed is proposed: the next job is not quite like the last.
const MARGIN: f64 = 1.1;

/// What to do about an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advice {
    /// It was so many times what was needed.
    TooLong {
        /// Estimate / what this job used.
        times: f64,
        /// Jobs of this name that were looked at, this one among them.
        jobs: usize,
        /// The most that one of them used, in processor seconds of each slot.
        most: f64,
        /// What would have been enough for all of them, with a margin, in seconds.
        proposed: f64,
    },
    /// It was less than what was needed.
    TooShort {
        /// What would have been enough for all of them, with a margin, in seconds.
        proposed: f64,
    },
}

/// Of a job that has finished. `used`, `estimate`: processor seconds of each slot; `others`: what the user's other jobs of its name used.
pub fn advice(estimate: f64, used: f64, others: &[f64]) -> Option<Advice> {
    let is = |value: &f64| value.is_finite() && *value > 0.0;
    if !is(&estimate) || !is(&used) {
        return None;
    }
    let others = others.iter().copied().filter(is);
    let (jobs, most) = others.fold((1, used), |(jobs, most), other| (jobs + 1, other.max(most)));
    let proposed = rounded(most * MARGIN);
    if used > estimate {
        return Some(Advice::TooShort { proposed });
    }
    let times = estimate / used;
    (times >= GOOD && proposed * GOOD <= estimate * MARGIN).then_some(Advice::TooLong {
        times,
        jobs,
        most,
        proposed,
    })
}

/// Up to a round number of seconds, as people write them.
fn rounded(seconds: f64) -> f64 {
    let steps = [(60.0, 1.0), (600.0, 5.0), (3600.0, 60.0), (36_000.0, 300.0)];
    let found = steps.into_iter().find(|(below, _)| seconds < *below);
    let step = found.map_or(1800.0, |(_, step)| step);
    (seconds / step).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_too_long_by_what_all_jobs_of_its_name_used() {
        let proposed = |estimate, used, others: &[f64]| match advice(estimate, used, others) {
            Some(Advice::TooLong {
                times,
                jobs,
                most,
                proposed,
            }) => Some((times, jobs, most, proposed)),
            _ => None,
        };
        assert_eq!(proposed(42.0, 20.0, &[]), Some((2.1, 1, 20.0, 22.0)));
        assert_eq!(
            proposed(60.0, 20.0, &[25.0, 10.0]),
            Some((3.0, 3, 25.0, 28.0))
        );
        assert_eq!(
            proposed(36_000.0, 7200.0, &[]),
            Some((5.0, 1, 7200.0, 8100.0))
        );
        // Another one needed what was said.
        assert_eq!(proposed(42.0, 20.0, &[40.0]), None);
        assert_eq!(proposed(24.0, 20.0, &[]), None);
        assert_eq!(
            proposed(0.5, 0.001, &[]),
            None,
            "nothing shorter is a number of seconds"
        );
        assert_eq!(proposed(42.0, 0.0, &[]), None);
        assert_eq!(proposed(42.0, f64::NAN, &[]), None);
        assert_eq!(
            proposed(42.0, 20.0, &[f64::INFINITY]),
            Some((2.1, 1, 20.0, 22.0))
        );
    }

    #[test]
    fn an_estimate_is_too_short() {
        let short = |proposed| Some(Advice::TooShort { proposed });
        assert_eq!(advice(20.0, 30.0, &[]), short(33.0));
        assert_eq!(advice(20.0, 30.0, &[500.0]), short(550.0));
    }
}
