//! The list of the user's jobs.

use super::{InAddress, Stripe, View, bar, hidden, or_dash, problem};
use crate::system::{JobSummary, Problem, Tone};
use libra_plots::html::headings;
use libra_plots::markup::Escaped;
use libra_units::{credits, duration, percent};
use maud::{Markup, html};

/// The list, around what is asked for again and again.
pub fn body(view: &View<'_>, jobs: &Result<Vec<JobSummary>, Problem>) -> Markup {
    html! {
        div #part data-refresh="jobs-part" data-seconds="3" { (part(view, jobs)) }
    }
}

/// What is asked for again and again.
pub fn part(view: &View<'_>, jobs: &Result<Vec<JobSummary>, Problem>) -> Markup {
    let jobs = match jobs {
        Ok(jobs) => jobs,
        Err(error) => return problem(&error.to_string()),
    };
    let (live, ended): (Vec<&JobSummary>, Vec<&JobSummary>) = jobs.iter().partition(|job| job.live);
    html! {
        @if jobs.is_empty() {
            p.empty { "You have no jobs here. " a href="submit" { "Submit one" } "." }
        } @else if live.is_empty() {
            p.empty { "No job of yours is queued or runs." }
        } @else {
            (table(view, "Now", &live))
        }
        @if !ended.is_empty() {
            (table(view, "Ended", &ended))
        }
    }
}

fn table(view: &View<'_>, heading: &str, jobs: &[&JobSummary]) -> Markup {
    let names = [
        "Job",
        "State",
        "Until the deadline",
        "Node",
        "Share",
        "Price",
    ];
    html! {
        section {
            h2 { (heading) }
            table.jobs {
                thead {
                    tr {
                        (headings(names))
                        th scope="col" { span.quiet { "Cancel" } }
                    }
                }
                tbody {
                    @for job in jobs { (row(view, job)) }
                }
            }
        }
    }
}

fn row(view: &View<'_>, job: &JobSummary) -> Markup {
    let name = match job.name.as_str() {
        "" => "job",
        name => name,
    };
    let share = job.share.map(|share| slots(share, job.slots));
    let price = job.price.map(credits);
    html! {
        tr {
            th scope="row" {
                a id={ "job-" (Escaped(&job.key)) } href={ "job?id=" (InAddress(&job.key)) } { (Escaped(name)) }
                " "
                small { (Escaped(&job.id)) }
                @if let Some(at) = job.submitted {
                    br;
                    small { ((view.time)(at)) }
                }
            }
            td data-label="State" { (state(job)) }
            td data-label="Deadline" { (progress(job)) }
            td data-label="Node" { (Escaped(or_dash(&job.node))) }
            td data-label="Share" { (or_dash(&share.unwrap_or_default())) }
            td data-label="Price" { (or_dash(&price.unwrap_or_default())) }
            td.act { (cancel(view, job)) }
        }
    }
}

/// A share as people read it.
pub fn slots(share: f64, slots: Option<f64>) -> String {
    match slots {
        Some(slots) if slots > 1.0 => format!("{} of {slots} processors", percent(share)),
        _ => percent(share),
    }
}

/// The state of a job in its colour, and how it ended.
pub fn state(job: &JobSummary) -> Markup {
    let tone = match job.tone() {
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
        Tone::Quiet => "calm",
    };
    html! {
        span.badge.(tone) { (Escaped(&job.state)) }
        @if !job.ending.is_empty() {
            br;
            small { (Escaped(&job.ending)) }
        }
    }
}

/// A button that ends a job; nothing for one that has ended.
pub fn cancel(view: &View<'_>, job: &JobSummary) -> Markup {
    html! {
        @if job.live {
            form method="post" action="cancel" {
                (hidden("word", view.word))
                (hidden("id", &job.key))
                button type="submit" id={ "cancel-" (Escaped(&job.key)) } aria-label={ "Cancel job " (Escaped(&job.id)) } {
                    "Cancel"
                }
            }
        }
    }
}

/// Two bars that end at the deadline and at the estimate: the time that has gone, and the work that is done.
pub fn progress(job: &JobSummary) -> Markup {
    let part =
        |a: Option<f64>, b: Option<f64>| Some((a? / b.filter(|b| *b > 0.0)?).clamp(0.0, 1.0));
    let Some(time) = part(job.elapsed, job.deadline) else {
        return html! { span.soft { "no deadline" } };
    };
    let work = part(job.used, job.estimate);
    let class = match job.tone() {
        Tone::Bad => "progress bad",
        _ => "progress",
    };
    let stripe = |class, part, top, height| Stripe {
        class,
        part,
        top,
        height,
    };
    let mut stripes = vec![stripe("track", 1.0, 0, 12), stripe("time", time, 0, 7)];
    stripes.extend(work.map(|work| stripe("work", work, 8, 4)));
    let whole = |part: f64| format!("{:.0} %", 100.0 * part);
    let work = work.map_or(String::new(), |work| format!(", work {}", whole(work)));
    let label = format!("time {}{work}", whole(time));
    html! {
        (bar(class, Some(&label), &stripes))
        span.under {
            span { (left(job)) }
            span.soft { (label) }
        }
    }
}

/// How long until the deadline; of a job that has ended, how long it took.
fn left(job: &JobSummary) -> String {
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
