//! A job's profile, drawn: what it has done of its estimate, and the share that it had.

use crate::profile::{Profile, Sample};
use crate::system::job::JobSummary;
use libra_plots::plot::{Joined, Reference};
use libra_plots::{Axis, Plot, Point, Series, Size};
use libra_units::{duration, percent};
use maud::{Markup, html};

/// Two of them stand beside each other, and one fills a telephone.
const SIZE: Size = Size {
    width: 400.0,
    height: 260.0,
};

/// What is asked for again and again.
pub fn part(job: &JobSummary, profile: Option<&Profile>) -> Markup {
    let samples = profile.map_or(&[][..], |profile| &profile.samples);
    let state = if job.live { "live" } else { "ended" };
    html! {
        div data-state=(state) {
            @if samples.len() < 2 {
                p.soft {
                    @if job.live { "Drawn from what this page sees while it is open; there is nothing to draw yet." }
                    @else { "No page was open while it ran, so there is nothing to draw." }
                }
            } @else {
                div.figures {
                    (progress(job, samples))
                    (share(job, samples))
                }
            }
        }
    }
}

/// Time along the horizontal axis: how many seconds its unit has, and what it is called.
fn unit(span: f64) -> (f64, &'static str) {
    match span {
        span if span < 180.0 => (1.0, "s"),
        span if span < 10_800.0 => (60.0, "min"),
        span if span < 259_200.0 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    }
}

/// From the submission to the deadline, unless that is far away: then what there is would be a dot. Of a job that has ended, to its last sample.
fn span(job: &JobSummary, samples: &[Sample]) -> f64 {
    let last = samples.last().map_or(0.0, |last| last.at).max(1.0);
    let deadline = job.deadline.filter(|deadline| deadline.is_finite());
    match deadline.filter(|_| job.live) {
        Some(deadline) => deadline.min(5.0 * last).max(last),
        None => last,
    }
}

fn axis(span: f64) -> (f64, Axis) {
    let (seconds, name) = unit(span);
    let axis = Axis {
        range: Some((0.0, span / seconds)),
        ..Axis::linear(&format!("since its submission, {name}"))
    };
    (seconds, axis)
}

fn progress(job: &JobSummary, samples: &[Sample]) -> Markup {
    let Some(estimate) = job.estimate.filter(|estimate| *estimate > 0.0) else {
        return Markup::default();
    };
    let span = span(job, samples);
    let (seconds, x) = axis(span);
    let points = samples
        .iter()
        .filter_map(|sample| Some((sample.at, 100.0 * sample.used? / estimate)));
    let points: Vec<(f64, f64)> = points.collect();
    let Some((at, done)) = points.last().copied() else {
        return Markup::default();
    };
    let mut series = vec![Series::new(
        "done",
        points
            .iter()
            .map(|(at, done)| Point::at(at / seconds, *done))
            .collect(),
    )];
    if let Some(deadline) = job
        .deadline
        .filter(|deadline| *deadline > 0.0 && deadline.is_finite())
    {
        let end = deadline.min(span);
        let even = vec![
            Point::at(0.0, 0.0),
            Point::at(end / seconds, 100.0 * end / deadline),
        ];
        series.push(Series::new("even pace to the deadline", even).in_style(1));
    }
    let all = series.iter().flat_map(|series| &series.points);
    let most = all.fold(0.0, |most: f64, point| point.y.max(most));
    let words = format!(
        "{} after its submission {done:.0} % of the estimate of {} were done.",
        duration::show(at),
        duration::show(estimate)
    );
    let plot = Plot {
        title: "Work done".to_string(),
        description: words.clone(),
        x,
        y: Axis::linear("processor time, % of the estimate"),
        series,
        joined: Joined::Curve,
        // Far above all that is drawn it would flatten the rest.
        references: Vec::from_iter((most > 40.0).then(|| Reference {
            y: 100.0,
            label: "estimate".to_string(),
        })),
    };
    figure(&plot, "work-done", &words)
}

fn share(job: &JobSummary, samples: &[Sample]) -> Markup {
    let span = span(job, samples);
    let (seconds, x) = axis(span);
    let points = samples
        .iter()
        .filter_map(|sample| Some((sample.at / seconds, sample.share?)));
    let points: Vec<(f64, f64)> = points.collect();
    if points.is_empty() {
        return Markup::default();
    }
    let least = points
        .iter()
        .fold(f64::INFINITY, |least, (_, share)| share.min(least));
    let most = points
        .iter()
        .fold(0.0, |most: f64, (_, share)| share.max(most));
    let words = match percent(least) == percent(most) {
        true => format!("Its share was {} all the time.", percent(most)),
        false => format!(
            "Its share was {} at least and {} at the most.",
            percent(least),
            percent(most)
        ),
    };
    let plot = Plot {
        title: "Share".to_string(),
        description: words.clone(),
        x,
        y: Axis::linear("share of each processor, %"),
        series: vec![Series::new(
            "share",
            points
                .into_iter()
                .map(|(at, share)| Point::at(at, 100.0 * share))
                .collect(),
        )],
        joined: Joined::Steps,
        references: Vec::new(),
    };
    figure(&plot, "share", &words)
}

fn figure(plot: &Plot, id: &str, words: &str) -> Markup {
    html! {
        figure {
            (plot.inline(SIZE, id, ""))
            figcaption { (words) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(samples: &[(f64, f64, f64)]) -> Profile {
        let sample = |(at, share, used): &(f64, f64, f64)| Sample {
            at: *at,
            share: Some(*share),
            used: Some(*used),
        };
        Profile {
            samples: samples.iter().map(sample).collect(),
            ..Profile::default()
        }
    }

    #[test]
    fn work_and_share_are_drawn_and_said() {
        let job = JobSummary {
            live: true,
            deadline: Some(7200.0),
            estimate: Some(1200.0),
            ..JobSummary::default()
        };
        let seen = profile(&[
            (0.0, 0.25, 0.0),
            (1800.0, 0.25, 450.0),
            (3600.0, 0.5, 900.0),
        ]);
        let drawn = part(&job, Some(&seen)).into_string();
        for needed in [
            "1h00m after its submission 75 % of the estimate of 20m00s were done.",
            "Its share was 25 % at least and 50 % at the most.",
            "since its submission, min",
            "even pace to the deadline",
            "data-state=\"live\"",
        ] {
            assert!(drawn.contains(needed), "{needed}: {drawn}");
        }
        assert!(!drawn.contains("NaN") && !drawn.contains("style="));
        assert!(
            !part(&job, Some(&profile(&[(0.0, 0.1, 0.0)])))
                .into_string()
                .contains("<svg")
        );
        assert!(
            part(&job, None)
                .into_string()
                .contains("nothing to draw yet")
        );
    }

    #[test]
    fn odd_values_are_no_trouble() {
        let odd = [
            (0.0, f64::NAN, f64::INFINITY),
            (1e300, -1.0, 0.0),
            (1e301, 0.0, f64::NAN),
        ];
        for deadline in [
            None,
            Some(0.0),
            Some(f64::NAN),
            Some(f64::INFINITY),
            Some(5.0),
        ] {
            for estimate in [None, Some(0.0), Some(10.0)] {
                let job = JobSummary {
                    deadline,
                    estimate,
                    ..JobSummary::default()
                };
                let drawn = part(&job, Some(&profile(&odd))).into_string();
                assert!(
                    !drawn.contains("=\"NaN") && !drawn.contains("=\"inf"),
                    "{drawn}"
                );
            }
        }
        assert_eq!(
            (
                unit(60.0).1,
                unit(3600.0).1,
                unit(86_400.0).1,
                unit(604_800.0).1
            ),
            ("s", "min", "h", "days")
        );
    }
}
