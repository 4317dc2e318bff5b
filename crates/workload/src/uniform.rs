//! The jobs of the 2004 paper (section 5): everything uniform, and no log.
//!
//! Invariant: a seed gives the same lengths, deadlines, budgets and arrivals whatever the rating of
//! the processors; each is drawn from a stream of its own.

use super::{Job, random};
use libra_core::decision::job::Terms;
use rand::RngExt;

/// A batch of jobs of one processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uniform {
    /// How many.
    pub jobs: u32,
    /// First and last time of submission, in seconds.
    pub arrivals: (f64, f64),
    /// Shortest and greatest length, in million instructions (MI).
    pub lengths: (f64, f64),
    /// Shortest and longest deadline after submission, in seconds.
    pub deadlines: (f64, f64),
    /// What most jobs have, and to how much the budgets of the others reach, in credits.
    pub budgets: (f64, f64),
    /// Fraction of the jobs that have the lower budget, 0 to 1.
    pub low_budgets: f64,
    /// Million instructions per second (MIPS) of a processor: a job runs for length / rating.
    pub rating: f64,
}

/// The streams of a seed. The numbers are part of what a seed means.
#[derive(Debug, Clone, Copy)]
enum Property {
    Arrival = 1,
    Length = 2,
    Deadline = 3,
    Budget = 4,
    IsLow = 5,
}

impl Uniform {
    /// The paper's batches: 100 jobs that come from 1 to 102, or 200 from 1 to 208.
    pub fn libra(jobs: u32, last_arrival: f64, rating: f64) -> Uniform {
        Uniform {
            jobs,
            arrivals: (1.0, last_arrival),
            lengths: (1000.0, 10_900.0),
            deadlines: (1.0, 1200.0),
            budgets: (1000.0, 12_000.0),
            low_budgets: 0.8,
            rating,
        }
    }

    /// The jobs, in order of submission; times count from that of the paper, not from the first
    /// job. Estimates are exact.
    pub fn jobs(&self, seed: u64) -> Vec<Job> {
        let mut jobs: Vec<Job> = (1..=self.jobs).map(|n| self.job(seed, n)).collect();
        // Stable: of two at one time the first stays first.
        jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
        jobs
    }

    fn job(&self, seed: u64, number: u32) -> Job {
        let draw = |property| -> f64 { random::stream(seed, number, property as u32).random() };
        let within = |(from, to): (f64, f64), property| from + (to - from) * draw(property);
        let run_time = within(self.lengths, Property::Length) / self.rating;
        let budget = match draw(Property::IsLow) < self.low_budgets {
            true => self.budgets.0,
            false => within(self.budgets, Property::Budget),
        };
        let deadline = within(self.deadlines, Property::Deadline);
        Job {
            number: u64::from(number),
            submit: within(self.arrivals, Property::Arrival),
            run_time,
            terms: Terms::hard(run_time, deadline, budget),
            processors: 1,
            memory: 0,
            user: 0,
            queue: -1,
            logged_wait: -1.0,
            coupled: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_within_its_range_and_in_order() {
        let uniform = Uniform::libra(20_000, 208.0, 100.0);
        let jobs = uniform.jobs(1);
        assert!(jobs.windows(2).all(|pair| pair[0].submit <= pair[1].submit));
        let mean = |of: fn(&Job) -> f64| jobs.iter().map(of).sum::<f64>() / 20_000.0;
        // Means of uniform variables; a range of width w has a deviation of w / sqrt(12), the mean of
        // 20,000 of w / 490: three of those are allowed.
        for (what, least, most, mean) in [
            ("arrival", 1.0, 208.0, mean(|j| j.submit)),
            ("run time", 10.0, 109.0, mean(|j| j.run_time)),
            ("deadline", 1.0, 1200.0, mean(|j| j.terms.deadline)),
        ] {
            let middle = (least + most) / 2.0;
            assert!(
                (mean - middle).abs() < 3.0 * (most - least) / 490.0,
                "{what} {mean}"
            );
        }
        let low = jobs.iter().filter(|j| j.terms.budget == 1000.0).count();
        assert!((15_800..16_200).contains(&low), "{low}");
        assert!(
            jobs.iter()
                .all(|j| j.terms.budget <= 12_000.0 && j.terms.check().is_ok())
        );
    }

    #[test]
    fn a_faster_machine_has_the_same_jobs() {
        let slow = Uniform::libra(50, 102.0, 50.0).jobs(7);
        let fast = Uniform::libra(50, 102.0, 100.0).jobs(7);
        for (slow, fast) in slow.iter().zip(&fast) {
            assert_eq!(slow.submit, fast.submit);
            assert_eq!(slow.terms.deadline, fast.terms.deadline);
            assert!((slow.run_time - 2.0 * fast.run_time).abs() < 1e-9);
        }
        assert_ne!(Uniform::libra(50, 102.0, 50.0).jobs(8), slow);
    }
}
