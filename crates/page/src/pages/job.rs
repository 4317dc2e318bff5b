//! One job: how it stands, what it has printed so far, and its story.

use super::{View, facts, note};
use crate::address::InAddress;
use crate::pages::{progress, story};
use crate::profile::Profile;
use crate::system::Problem;
use crate::system::job::{Detail, JobSummary};
use crate::system::output::OutputChunk;
use crate::told::Told;
use libra_plots::markup::Escaped;
use libra_units::{credits, duration};
use maud::{Markup, html};

/// The page of a job. `output`: the end of it, or why it cannot be shown; None if there is none. `profile`: None if nobody looked.
pub fn body(
    view: &View<'_>,
    detail: &Detail,
    output: Option<&Result<OutputChunk, Problem>>,
    profile: Option<&Profile>,
    told: &Told,
) -> Markup {
    let key = InAddress(&detail.job.key);
    html! {
        div #part data-refresh={ "job-part?id=" (key) } data-seconds="3" { (part(view, detail)) }
        @if !detail.said.is_empty() {
            p.said { "Accepted: " (Escaped(&detail.said)) }
        }
        (facts(&detail.facts))
        div.actions {
            @if detail.ours {
                a.button href={ "submit?again=" (key) } { "Submit again" }
            }
        }
        section {
            h2 { "Output" }
            (super::output::end(detail, output))
        }
        div #story data-refresh={ "story-part?id=" (key) } data-seconds="10" { (story_part(detail, profile, told)) }
        (story::script(told))
    }
}

/// What is asked for now and then: what changes as it goes on, and at its end.
pub fn story_part(detail: &Detail, profile: Option<&Profile>, told: &Told) -> Markup {
    html! {
        (story::advice(detail, told))
        section {
            h2 { "Share and progress" }
            (super::profile::part(&detail.job, profile))
        }
        (story::payment(told))
    }
}

/// What is asked for again and again.
pub fn part(view: &View<'_>, detail: &Detail) -> Markup {
    let job = &detail.job;
    let mut some = vec![];
    let mut fact = |name: &'static str, value: Option<String>| {
        some.extend(value.filter(|v| !v.is_empty()).map(|value| (name, value)));
    };
    let class = job.class.filter(|class| !class.is_default());
    fact("Class", class.map(|class| class.word().to_string()));
    fact("Node", Some(job.node.clone()));
    fact(
        "Share",
        job.share.map(|share| progress::slots(share, job.slots)),
    );
    fact(
        "Price",
        job.price.map(|price| format!("{} credits", credits(price))),
    );
    let of = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => Some(format!("{} of {}", duration::show(a), duration::show(b))),
        (None, Some(b)) => Some(duration::show(b)),
        _ => None,
    };
    fact("Processor time", of(job.used, job.estimate));
    fact("Submitted", job.submitted.map(view.time));
    let due = job
        .submitted
        .zip(job.deadline)
        .map(|(at, deadline)| (view.time)(at + deadline));
    fact("Deadline", due);
    let state = if job.live { "live" } else { "ended" };
    html! {
        div.deadline-status data-state=(state) {
            div { (progress::state(job)) }
            div.wide { (progress::progress(job)) }
            div { (progress::cancel(view, job)) }
        }
        (story::end(job))
        (facts(&some))
    }
}

/// What a job is called in headings.
pub fn title(job: &JobSummary) -> String {
    let name = if job.name.is_empty() {
        "Job"
    } else {
        &job.name
    };
    format!("{name} ({})", job.id)
}

/// In place of a job that is not there.
pub fn gone() -> Markup {
    note("There is no such job of yours. Yours are listed under Jobs.")
}
