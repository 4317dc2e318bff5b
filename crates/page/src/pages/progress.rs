//! How a job stands, as the list and its own page show it: its state, and how far it is.

use super::{Stripe, View, bar, hidden};
use crate::system::job::{JobSummary, Outcome, Tone};
use libra_plots::markup::Escaped;
use libra_units::{duration, percent};
use maud::{Markup, html};
use serde_json::{Value, json};

/// A share as people read it.
pub fn slots(share: f64, slots: Option<f64>) -> String {
    match slots {
        Some(slots) if slots > 1.0 => format!("{} of {slots} processors", percent(share)),
        _ => percent(share),
    }
}

/// The state of a job in its colour; of one that has ended, how, and whether that was in time, which are two questions.
pub fn state(job: &JobSummary) -> Markup {
    let class = |tone: Tone| match tone {
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
        Tone::Quiet => "calm",
    };
    let first = match job.outcome {
        Some(Outcome::Finished) => Tone::Good,
        Some(Outcome::Failed | Outcome::Stopped) => Tone::Bad,
        Some(_) => Tone::Quiet,
        None => job.tone(),
    };
    let in_time = match (job.outcome, job.in_time) {
        // It did not need the time that it had.
        (Some(Outcome::Cancelled), Some(true)) => None,
        (Some(Outcome::Finished), Some(true)) => Some((Tone::Good, "in time")),
        (_, Some(true)) => Some((Tone::Quiet, "in time")),
        (_, Some(false)) => Some((Tone::Bad, "late")),
        (_, None) => None,
    };
    html! {
        span.badge.(class(first)) { (Escaped(job.state_word())) }
        @if let Some((tone, word)) = in_time {
            " " span.badge.(class(tone)) { (word) }
        }
        @if !job.ending.is_empty() {
            br;
            small { (Escaped(&job.ending)) }
        }
    }
}

pub(super) fn stripe(class: &'static str, part: f64, top: u32, height: u32) -> Stripe {
    Stripe {
        class,
        part,
        top,
        height,
    }
}

/// How far a job is: parts of the time until its deadline and of the work of its estimate, and both in words.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Progress {
    /// Percent, to a tenth.
    pub(super) time: f64,
    pub(super) work: Option<f64>,
    /// How long until the deadline.
    pub(super) left: String,
    pub(super) label: String,
}

impl Progress {
    /// None: it has no deadline.
    pub(super) fn of(job: &JobSummary) -> Option<Progress> {
        let part =
            |a: Option<f64>, b: Option<f64>| Some((a? / b.filter(|b| *b > 0.0)?).clamp(0.0, 1.0));
        let tenths = |part: f64| (part * 1000.0).round() / 10.0;
        let time = tenths(part(job.elapsed, job.deadline)?);
        let work = part(job.used, job.estimate).map(tenths);
        let of_work = work.map_or(String::new(), |work| format!(", work {work:.0} %"));
        Some(Progress {
            time,
            work,
            left: left(job),
            label: format!("time {time:.0} %{of_work}"),
        })
    }

    /// What of it is seen.
    pub(super) fn shown(&self) -> (String, &str, &str) {
        let bars = format!("{} {:?}", self.time, self.work);
        (bars, &self.left, &self.label)
    }

    pub(super) fn as_json(&self) -> Value {
        json!([self.time, self.work, self.left, self.label])
    }
}

/// Two bars that end at the deadline and at the estimate: the time that has gone, and the work that is done.
pub fn progress(job: &JobSummary) -> Markup {
    bars(job, Progress::of(job).as_ref())
}

pub(super) fn bars(job: &JobSummary, progress: Option<&Progress>) -> Markup {
    let Some(progress) = progress else {
        return html! { span.soft { "no deadline" } };
    };
    let class = match job.tone() {
        Tone::Bad => "progress bad",
        _ => "progress",
    };
    let mut stripes = vec![
        stripe("track", 1.0, 0, 12),
        stripe("time", progress.time / 100.0, 0, 7),
    ];
    stripes.extend(progress.work.map(|work| stripe("work", work / 100.0, 8, 4)));
    html! {
        (bar(class, Some(&progress.label), &stripes))
        span.under {
            span.left { (progress.left) }
            span.soft { (progress.label) }
        }
    }
}

/// How long until the deadline; of a job that has ended, how long it took.
pub(super) fn left(job: &JobSummary) -> String {
    let (Some(elapsed), Some(deadline)) = (job.elapsed, job.deadline) else {
        return String::new();
    };
    let show = duration::show;
    match job.live {
        true if deadline >= elapsed => format!("{} left", show(deadline - elapsed)),
        true => format!("late by {}", show(elapsed - deadline)),
        false => format!("{} of {}", show(elapsed), show(deadline)),
    }
}

/// A button that asks whether a job is to be ended; nothing for one that has ended.
pub fn cancel(view: &View<'_>, job: &JobSummary) -> Markup {
    html! {
        @if job.live {
            form method="post" action="cancel" {
                (hidden("word", view.word))
                (hidden(&format!("job.{}", job.key), "on"))
                button type="submit" id="cancel" { "Cancel…" }
            }
        }
    }
}
