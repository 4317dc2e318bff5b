//! One job: how it stands, what it has printed so far.

use super::{View, facts, note, problem};
use crate::address::InAddress;
use crate::pages::jobs;
use crate::system::output::OutputChunk;
use crate::system::{Detail, Problem};
use libra_plots::markup::Escaped;
use libra_units::{credits, duration};
use maud::{Markup, html};

/// The page of a job. `output`: the end of it, or why it cannot be shown; None if there is none.
pub fn body(
    view: &View<'_>,
    detail: &Detail,
    output: Option<&Result<OutputChunk, Problem>>,
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
            (self::output(detail, output))
        }
    }
}

/// What is asked for again and again.
pub fn part(view: &View<'_>, detail: &Detail) -> Markup {
    let job = &detail.job;
    let mut some = vec![];
    let mut fact = |name: &'static str, value: Option<String>| {
        some.extend(value.filter(|v| !v.is_empty()).map(|value| (name, value)));
    };
    fact("Node", Some(job.node.clone()));
    fact(
        "Share",
        job.share.map(|share| jobs::slots(share, job.slots)),
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
            div { (jobs::state(job)) }
            div.wide { (jobs::progress(job)) }
            div { (jobs::cancel(view, job)) }
        }
        (facts(&some))
    }
}

fn output(detail: &Detail, output: Option<&Result<OutputChunk, Problem>>) -> Markup {
    let part = match output {
        None => return note(&detail.no_output),
        Some(Err(error)) => return problem(&error.to_string()),
        Some(Ok(part)) => part,
    };
    let empty = match (part.text.is_empty(), detail.job.live) {
        (false, _) => "",
        (true, true) => "Nothing yet.",
        (true, false) => "It has printed nothing.",
    };
    html! {
        @if part.from > 0 {
            p.soft #before { "The first " (part.from) " bytes are not shown; the file has them." }
        }
        p.soft #nothing hidden[empty.is_empty()] { (empty) }
        pre #output tabindex="0" aria-label="Output" data-id=(Escaped(&detail.job.key)) data-next=(part.next) {
            // A line break right behind the tag would be dropped.
            @if part.text.starts_with('\n') { "\n" }
            (Escaped(&part.text))
        }
    }
}

/// In place of a job that is not there.
pub fn gone() -> Markup {
    note("There is no such job of yours. Yours are listed under Jobs.")
}
