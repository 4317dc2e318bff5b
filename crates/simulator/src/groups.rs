//! Who gains and who loses under a policy: the jobs by size, by urgency, and by whose they are.
//!
//! A policy that keeps more deadlines may keep those of one sort of jobs and give up those of another; a mean does not show it.

use super::{Observer, Outcome};
use libra_workload::Job;
use std::collections::HashMap;

/// All of them, in the order in which they are shown: by size, by urgency, by user.
pub const GROUPS: [&str; 9] = [
    "1 processor",
    "2 to 8 processors",
    "9 to 64 processors",
    "more than 64 processors",
    "deadline below 1.5 × estimate",
    "deadline 1.5 to 3 × estimate",
    "deadline from 3 × estimate on",
    "users with half of the work",
    "other users",
];

/// Where the divisions begin in [`GROUPS`].
const FIRST_URGENCY: usize = 4;
const FIRST_USER: usize = 7;

/// Submitted jobs of each group, and those of them that met their deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Submitted.
    pub submitted: u64,
    /// Ended by their deadline.
    pub met: u64,
}

impl Count {
    /// Those that met it in percent, 0 to 100; None of no jobs.
    pub fn percent(self) -> Option<f64> {
        (self.submitted > 0).then(|| self.met as f64 / self.submitted as f64 * 100.0)
    }
}

/// Counts the outcomes of one run by group.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Of each of [`GROUPS`].
    pub counts: [Count; GROUPS.len()],
    /// Users who together submitted half of the work, the largest first; none if the log does not say whose jobs are.
    large: Vec<u32>,
}

impl Groups {
    /// Of a run of these jobs, with no outcome yet.
    pub fn of(jobs: &[Job]) -> Groups {
        let mut work: HashMap<u32, f64> = HashMap::new();
        for job in jobs {
            *work.entry(job.user).or_default() += job.run_time * f64::from(job.processors);
        }
        let all: f64 = jobs
            .iter()
            .map(|job| job.run_time * f64::from(job.processors))
            .sum();
        let mut users: Vec<(u32, f64)> = work.into_iter().collect();
        users.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut large = Vec::new();
        let mut so_far = 0.0;
        for (user, work) in users.iter().filter(|_| users.len() > 1) {
            if so_far >= all / 2.0 {
                break;
            }
            so_far += work;
            large.push(*user);
        }
        Groups {
            counts: [Count::default(); GROUPS.len()],
            large,
        }
    }

    /// How many users have half of the work; 0 where the log does not say whose jobs are.
    pub fn large_users(&self) -> usize {
        self.large.len()
    }

    /// The places in [`GROUPS`] of a job's groups.
    fn places(&self, job: &Job) -> impl Iterator<Item = usize> + use<> {
        let size = match job.processors {
            ..=1 => 0,
            2..=8 => 1,
            9..=64 => 2,
            _ => 3,
        };
        let urgency = match job.terms.deadline / job.terms.estimate {
            times if times < 1.5 => 0,
            times if times < 3.0 => 1,
            _ => 2,
        };
        let user = match (self.large.is_empty(), self.large.contains(&job.user)) {
            (true, _) => None,
            (false, true) => Some(FIRST_USER),
            (false, false) => Some(FIRST_USER + 1),
        };
        [Some(size), Some(FIRST_URGENCY + urgency), user]
            .into_iter()
            .flatten()
    }
}

impl Observer for Groups {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        for place in self.places(outcome.job) {
            let count = &mut self.counts[place];
            count.submitted += 1;
            count.met += u64::from(outcome.met());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ended, job, refused};

    #[test]
    fn each_job_is_of_one_group_of_each_division() {
        let of = |processors, user, times: f64| Job {
            processors,
            user,
            ..job(0.0, 100.0, times * 100.0)
        };
        let jobs = [of(1, 1, 1.2), of(8, 2, 2.0), of(9, 3, 3.0), of(65, 3, 9.0)];
        let mut groups = Groups::of(&jobs);
        assert_eq!(groups.large_users(), 1, "user 3 has nearly all");
        for one in &jobs[..3] {
            groups.outcome(&ended(one, 0.0, 100.0));
        }
        groups.outcome(&refused(&jobs[3], "share"));
        let found = groups.counts.map(|count| (count.submitted, count.met));
        assert_eq!(
            found,
            [
                (1, 1),
                (1, 1),
                (1, 1),
                (1, 0),
                (1, 1),
                (1, 1),
                (2, 1),
                (2, 1),
                (2, 2)
            ]
        );
        let nobody: Vec<Job> = jobs.iter().map(|one| Job { user: 0, ..*one }).collect();
        let mut groups = Groups::of(&nobody);
        groups.outcome(&ended(&nobody[0], 0.0, 100.0));
        assert_eq!((groups.large_users(), groups.counts[7].submitted), (0, 0));
    }
}
