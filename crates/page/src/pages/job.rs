//! One job: how it stands, what it has printed so far.

use super::{InAddress, View, facts, note, problem};
use crate::pages::jobs;
use crate::system::output::Part;
use crate::system::{Detail, Problem};
use libra_plots::markup::Escaped;
use libra_units::{credits, duration};

/// The page of a job. `output`: the end of it, or why it cannot be shown; none where there is none.
pub fn body(view: &View<'_>, detail: &Detail, output: Option<&Result<Part, Problem>>) -> String {
    let key = InAddress(&detail.job.key);
    let again = match detail.ours {
        true => format!("<a class=\"button\" href=\"submit?again={key}\">Submit again</a>\n"),
        false => String::new(),
    };
    let said = match detail.said.as_str() {
        "" => String::new(),
        said => format!("<p class=\"said\">Accepted: {}</p>\n", Escaped(said)),
    };
    format!(
        "<div id=\"part\" data-refresh=\"job-part?id={key}\" data-seconds=\"3\">\n{}</div>\n{said}{}\
         <div class=\"actions\">{again}</div>\n<section>\n<h2>Output</h2>\n{}</section>\n",
        part(view, detail),
        facts(&detail.facts),
        self::output(detail, output)
    )
}

/// What is asked for again and again.
pub fn part(view: &View<'_>, detail: &Detail) -> String {
    let job = &detail.job;
    let mut some = vec![];
    let mut fact = |name: &str, value: Option<String>| {
        some.extend(
            value
                .filter(|v| !v.is_empty())
                .map(|value| (name.to_string(), value)),
        );
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
    format!(
        "<div class=\"standing\" data-state=\"{state}\"><div>{}</div>\n<div class=\"wide\">{}</div>\n<div>{}</div></div>\n{}",
        jobs::state(job),
        jobs::progress(job),
        jobs::cancel(view, job),
        facts(&some)
    )
}

fn output(detail: &Detail, output: Option<&Result<Part, Problem>>) -> String {
    let part = match output {
        None => return note(&detail.no_output),
        Some(Err(error)) => return problem(&error.to_string()),
        Some(Ok(part)) => part,
    };
    let before = match part.from {
        0 => String::new(),
        bytes => format!(
            "<p class=\"soft\" id=\"before\">The first {bytes} bytes are not shown; the file has them.</p>\n"
        ),
    };
    let empty = match (part.text.is_empty(), detail.job.live) {
        (false, _) => "",
        (true, true) => "Nothing yet.",
        (true, false) => "It has printed nothing.",
    };
    format!(
        "{before}<p class=\"soft\" id=\"nothing\"{}>{empty}</p>\n\
         <pre id=\"output\" tabindex=\"0\" aria-label=\"Output\" data-id=\"{}\" data-next=\"{}\">{}</pre>\n",
        if empty.is_empty() { " hidden" } else { "" },
        Escaped(&detail.job.key),
        part.next,
        // A line break right behind the tag would be dropped.
        if part.text.starts_with('\n') {
            format!("\n{}", Escaped(&part.text))
        } else {
            Escaped(&part.text).to_string()
        },
    )
}

/// In place of a job that is not there.
pub fn gone() -> String {
    note("There is no such job of yours. Those there are, are under Jobs.")
}
