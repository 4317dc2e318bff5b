//! Which jobs of best effort run, and which stand still, so that those with a promise are not disturbed.
//!
//! A job that is held to next to nothing still disturbs: it wakes, takes caches and holds locks. So it is suspended where the others
//! leave less than [`KEEP`] of what it can use, and goes on where they leave [`RESUME`], and have for [`REST`]: between the two limits
//! it stays as it is, so that a share that goes up and down a little does not stop and start it at each round.
//!
//! Who came first runs first.

use super::allotment::{Claim, Shortage, Spare, allot};

/// A job that runs is suspended where less than this part of what it can use is left for it.
pub const KEEP: f64 = 0.05;
/// A suspended job goes on where this part of what it can use is left for it.
pub const RESUME: f64 = 0.15;
/// Seconds for which a suspended job stands still at least.
pub const REST: f64 = 2.0;

/// A job of best effort among the claims on a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestEffort {
    /// Seconds for which it has been suspended; None if it runs.
    pub suspended: Option<f64>,
    /// When it was submitted: who came first runs first.
    pub submitted: f64,
    /// It may be suspended: it has begun, nobody has asked for its end, and the host can.
    pub can_be: bool,
}

/// Gives each claim its part of `capacity` processors, as [`allot`] does, and says who of best effort is to stand still. `jobs`: for each
/// claim whether it is one of those, whose claims [`Claim::yields`]. `given` and `suspended` are overwritten, in the order of the
/// claims; who stands still is given nothing.
pub fn share_out(
    (shortage, spare): (Shortage, Spare),
    claims: &[Claim],
    jobs: &[Option<BestEffort>],
    capacity: f64,
    given: &mut Vec<f64>,
    suspended: &mut Vec<bool>,
) {
    suspended.clear();
    suspended.resize(claims.len(), false);
    if jobs.iter().all(Option::is_none) {
        return allot(shortage, spare, claims, capacity, given);
    }
    let promised: Vec<Claim> = (claims.iter().copied())
        .filter(|claim| !claim.yields)
        .collect();
    allot(shortage, spare, &promised, capacity, given);
    let left = (capacity - given.iter().sum::<f64>()).max(0.0);
    let mut order: Vec<usize> = (0..claims.len())
        .filter(|&at| jobs.get(at).is_some_and(Option::is_some))
        .collect();
    let submitted = |at: usize| jobs[at].map_or(0.0, |job| job.submitted);
    order.sort_by(|a, b| submitted(*a).total_cmp(&submitted(*b)));
    let mut running = 0.0;
    for at in order {
        let Some(job) = jobs[at] else { continue };
        // What it could use on a host of its own.
        let most = claims[at].limit.min(capacity);
        let part = left / (running + most).max(f64::MIN_POSITIVE);
        let runs = match job.suspended {
            None => part >= KEEP,
            Some(since) => part >= RESUME && since >= REST,
        };
        if runs || !job.can_be {
            running += most;
        } else {
            suspended[at] = true;
        }
    }
    let mut running: Vec<Claim> = claims.to_vec();
    for (claim, suspended) in running.iter_mut().zip(&*suspended) {
        if *suspended {
            claim.limit = 0.0;
        }
    }
    allot(shortage, spare, &running, capacity, given);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promised(need: f64) -> Claim {
        Claim {
            need,
            committed_share: need,
            limit: need.ceil(),
            remaining_deadline: 10.0,
            full_return: 1.0,
            hard: true,
            yields: false,
            whole: false,
            outlived: false,
        }
    }

    fn left_over(limit: f64) -> Claim {
        Claim {
            need: 0.0,
            committed_share: 0.0,
            limit,
            yields: true,
            ..promised(0.0)
        }
    }

    fn job(suspended: Option<f64>, submitted: f64) -> Option<BestEffort> {
        Some(BestEffort {
            suspended,
            submitted,
            can_be: true,
        })
    }

    fn plan(claims: &[Claim], jobs: &[Option<BestEffort>]) -> (Vec<f64>, Vec<bool>) {
        let (mut given, mut suspended) = (Vec::new(), Vec::new());
        let rule = (Shortage::CommittedFirst, Spare::Idle);
        share_out(rule, claims, jobs, 2.0, &mut given, &mut suspended);
        (given, suspended)
    }

    #[test]
    fn it_gets_what_the_others_leave() {
        let (given, suspended) = plan(&[promised(1.5), left_over(1.0)], &[None, job(None, 0.0)]);
        assert_eq!((given, suspended), (vec![1.5, 0.5], vec![false, false]));
    }

    #[test]
    fn it_stands_still_before_it_disturbs() {
        let (given, suspended) = plan(&[promised(1.96), left_over(1.0)], &[None, job(None, 0.0)]);
        assert_eq!((given, suspended), (vec![1.96, 0.0], vec![false, true]));
    }

    #[test]
    fn between_the_limits_it_stays_as_it_is() {
        // A tenth of a processor is left.
        for (before, after) in [(None, false), (Some(100.0), true)] {
            let (_, suspended) = plan(&[promised(1.9), left_over(1.0)], &[None, job(before, 0.0)]);
            assert_eq!(suspended, [false, after], "{before:?}");
        }
        // There is room again; it has not rested, and it has.
        for (since, after) in [(0.5, true), (REST, false)] {
            let (_, suspended) = plan(
                &[promised(1.0), left_over(1.0)],
                &[None, job(Some(since), 0.0)],
            );
            assert_eq!(suspended, [false, after], "{since}");
        }
    }

    #[test]
    fn who_came_first_runs_first() {
        // 0.14 is left: for one that runs there is enough, for two there is, for three there is not.
        let claims = [
            left_over(1.0),
            left_over(1.0),
            left_over(1.0),
            promised(1.86),
        ];
        let jobs = [job(None, 3.0), job(None, 1.0), job(None, 2.0), None];
        let (given, suspended) = plan(&claims, &jobs);
        assert_eq!(suspended, [true, false, false, false]);
        assert!(
            (given[1] - 0.07).abs() < 1e-9 && given[0] == 0.0,
            "{given:?}"
        );
    }

    #[test]
    fn one_with_more_slots_than_the_host_has_runs_on_an_empty_host() {
        let (given, suspended) = plan(&[left_over(64.0)], &[job(Some(5.0), 0.0)]);
        assert_eq!((given, suspended), (vec![2.0], vec![false]));
    }

    #[test]
    fn one_that_cannot_be_suspended_is_not() {
        let mut it = job(None, 0.0);
        if let Some(job) = &mut it {
            job.can_be = false;
        }
        let (given, suspended) = plan(&[promised(2.0), left_over(1.0)], &[None, it]);
        assert_eq!((given, suspended), (vec![2.0, 0.0], vec![false, false]));
    }

    #[test]
    fn one_past_its_deadline_takes_nothing_from_the_decision() {
        // It gets what is left as well, side by side.
        let (given, suspended) = plan(
            &[promised(1.0), left_over(1.0), left_over(1.0)],
            &[None, None, job(None, 0.0)],
        );
        assert_eq!(
            (given, suspended),
            (vec![1.0, 0.5, 0.5], vec![false, false, false])
        );
    }
}
