//! What is told of a job besides how it stands: its script, what became of its price, and what its user may learn for the next one.

use super::account::{self, Payment};
use super::advice::{self, Advice};
use super::profile::Profile;
use super::system::job::{Detail, JobSummary, Outcome};
use super::system::story::{Story, Used};
use super::system::submission::Submission;
use super::system::{self, Problem, System};
use libra_units::duration;

/// What is told of a job but how it stands.
#[derive(Debug, Clone)]
pub struct Told {
    /// Its script and its environment.
    pub story: Story,
    /// What became of its price; None if nobody is charged.
    pub payment: Result<Option<Payment>, Problem>,
    /// What to do about its estimate.
    pub advice: Option<Advice>,
    /// What it would cost with the estimate that is proposed, asked now. Credits.
    pub price: Option<f64>,
}

/// Asks for all of it. `others`: what jobs of its name used, in processor seconds of each slot. `time`: a time of day in the zone of the site.
pub fn tell(
    system: &dyn System,
    detail: &Detail,
    profile: Option<&Profile>,
    others: impl FnOnce() -> Vec<f64>,
    time: fn(f64) -> String,
) -> Told {
    let job = &detail.job;
    let story = system.story(detail);
    let again = system::again(system, &job.key);
    let advice = match job.outcome {
        Some(Outcome::Finished) => advice_of(job, &story, profile, others),
        _ => None,
    };
    let price = match (advice, &again) {
        (Some(Advice::TooLong { proposed, .. }), Some(wanted)) => {
            price(system, job, wanted, proposed)
        }
        _ => None,
    };
    let project = again.as_ref().map_or("", |wanted| &wanted.project);
    Told {
        payment: payment(system, job, project, time),
        story,
        advice,
        price,
    }
}

/// What it would cost with another estimate, as the form would say it.
fn price(system: &dyn System, job: &JobSummary, wanted: &Submission, estimate: f64) -> Option<f64> {
    if !system.quotes() {
        return None;
    }
    let wanted = Submission {
        estimate: duration::exact(estimate),
        deadline: duration::exact(job.deadline?),
        ..wanted.clone()
    };
    system.quote(&wanted).ok()?.price
}

fn payment(
    system: &dyn System,
    job: &JobSummary,
    project: &str,
    time: fn(f64) -> String,
) -> Result<Option<Payment>, Problem> {
    let known = job.price.is_some() && !job.id.is_empty();
    let Some(since) = job.submitted.filter(|_| known) else {
        return Ok(None);
    };
    let end = since + job.elapsed.unwrap_or(0.0);
    // It is held in the month of its submission, and paid in that of its end.
    let month = |at: f64| time(at).chars().take("2026-11".len()).collect::<String>();
    let mut months = vec![month(since), month(end)];
    months.dedup();
    account::of_job(system.site(), project, &job.id, since, &months)
}

/// What the user may learn of a job that has finished.
fn advice_of(
    job: &JobSummary,
    story: &Story,
    profile: Option<&Profile>,
    others: impl FnOnce() -> Vec<f64>,
) -> Option<Advice> {
    let estimate = job.estimate?;
    let used = match (job.used, story.used) {
        (Some(used), _) | (None, Some(Used::Measured(used))) => used,
        // On a faster node it may have done more in that time; and a job that had less than a processor may have needed less.
        (None, Some(Used::AtMost(used))) => {
            let last = profile.and_then(|profile| profile.samples.last()?.used);
            let is_bound = used < estimate && last.is_none_or(|last| last <= used);
            return is_bound
                .then(|| advice::advice(estimate, used, &[]))
                .flatten();
        }
        (None, None) => profile?.used_at_most()?,
    };
    advice::advice(estimate, used, &others())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_a_bound_never_makes_an_estimate_too_short() {
        let job = JobSummary {
            estimate: Some(42.0),
            ..JobSummary::default()
        };
        let with = |used, profile: Option<&Profile>| {
            let story = Story {
                used,
                ..Story::default()
            };
            advice_of(&job, &story, profile, || vec![30.0])
        };
        let is_long = |advice: Option<Advice>, most: f64| matches!(advice, Some(Advice::TooLong { most: is, .. }) if is == most);
        assert!(
            is_long(with(Some(Used::AtMost(20.0)), None), 20.0),
            "others are not measured there"
        );
        assert!(is_long(with(Some(Used::Measured(20.0)), None), 30.0));
        assert_eq!(with(Some(Used::AtMost(60.0)), None), None);
        assert!(matches!(
            with(Some(Used::Measured(60.0)), None),
            Some(Advice::TooShort { .. })
        ));
        let live = |used| JobSummary {
            live: true,
            elapsed: Some(9.0),
            used: Some(used),
            ..job.clone()
        };
        let mut fast = Profile::new(&job);
        fast.observe(&live(30.0));
        assert_eq!(
            with(Some(Used::AtMost(20.0)), Some(&fast)),
            None,
            "its node is faster than that"
        );
        assert_eq!(with(None, Some(&fast)), None, "it has not ended");
        fast.observe(&JobSummary {
            elapsed: Some(10.0),
            ..job.clone()
        });
        assert!(is_long(with(None, Some(&fast)), 31.0));
    }
}
