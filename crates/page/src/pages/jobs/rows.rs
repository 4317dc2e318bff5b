//! The rows of the list.

use super::name_of;
use crate::address::InAddress;
use crate::list::{Counts, Group, Query};
use crate::pages::progress::{Progress, bars, slots, state, stripe};
use crate::pages::{View, bar, or_dash};
use crate::system::job::JobSummary;
use libra_plots::markup::Escaped;
use libra_units::credits;
use maud::{Markup, html};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A row, and what of it changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RenderedRow {
    /// Unique in the list.
    pub(super) key: String,
    pub(super) html: String,
    /// Of all of it but how far its bars are.
    pub(super) fixed: u64,
    pub(super) progress: Option<Progress>,
}

pub(super) fn hashed(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn one(view: &View<'_>, job: &JobSummary) -> RenderedRow {
    let progress = Progress::of(job);
    let html = row(view, job, progress.as_ref()).into_string();
    let fixed = match &progress {
        Some(progress) => {
            // What the bars say is not a part of it.
            let unmoved = Progress {
                work: progress.work.map(|_| 0.0),
                ..Progress::default()
            };
            hashed(&row(view, job, Some(&unmoved)).into_string())
        }
        None => hashed(&html),
    };
    RenderedRow {
        key: job.key.clone(),
        html,
        fixed,
        progress,
    }
}

fn row(view: &View<'_>, job: &JobSummary, progress: Option<&Progress>) -> Markup {
    let share = job.share.map(|share| slots(share, job.slots));
    let price = job.price.map(credits);
    html! {
        tr data-key=(Escaped(&job.key)) {
            td.choose {
                @if job.live {
                    input type="checkbox" name={ "job." (Escaped(&job.key)) } id={ "choose-" (Escaped(&job.key)) }
                        aria-label={ "Choose job " (Escaped(&job.id)) };
                }
            }
            th scope="row" {
                a id={ "job-" (Escaped(&job.key)) } href={ "job?id=" (InAddress(&job.key)) } { (Escaped(name_of(&job.name))) }
                " "
                small {
                    (Escaped(&job.id))
                    @if let Some(class) = job.class.filter(|class| !class.is_default()) { ", " (class.word()) }
                }
                @if let Some(at) = job.submitted {
                    br;
                    small { ((view.time)(at)) }
                }
            }
            td data-label="State" { (state(job)) }
            td data-label="Deadline" { (bars(job, progress)) }
            (cell("Node", &job.node))
            (cell("Share", &share.unwrap_or_default()))
            (cell("Price", &price.unwrap_or_default()))
        }
    }
}

pub(super) fn several(
    view: &View<'_>,
    group: &Group<'_>,
    price: Option<f64>,
    query: &Query,
) -> RenderedRow {
    let counts = Counts::of(group.jobs.iter().copied());
    let done = counts.all() - counts.live();
    let part = done as f64 / counts.all().max(1) as f64;
    let latest = group
        .jobs
        .iter()
        .filter_map(|job| job.submitted)
        .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
    let to = Query {
        group: group.key.clone(),
        page: 0,
        ..query.clone()
    };
    let badge = |count: usize, class: &'static str, word: &str| {
        html! { @if count > 0 { span.badge.(class) { (count) " " (word) } " " } }
    };
    let label = format!("{done} of {} have ended", counts.all());
    let html = html! {
        tr data-key=(Escaped(&group.key)) {
            td.choose {
                @if counts.live() > 0 {
                    input type="checkbox" name={ "group." (Escaped(&group.key)) } id={ "choose-" (Escaped(&group.key)) }
                        aria-label={ "Choose all of " (Escaped(name_of(group.name))) };
                }
            }
            th scope="row" {
                a id={ "group-" (Escaped(&group.key)) } href=(to.address("jobs")) { (Escaped(name_of(group.name))) }
                " "
                small { (counts.all()) " jobs" @if group.key.starts_with("array.") { " of array " (Escaped(&group.key["array.".len()..])) } }
                @if let Some(at) = latest {
                    br;
                    small { "the latest " ((view.time)(at)) }
                }
            }
            td data-label="State" {
                (badge(counts.danger, "bad", "in danger"))
                (badge(counts.running, "good", "running"))
                (badge(counts.waiting, "calm", "waiting"))
                (badge(counts.finished, "good", "finished"))
                (badge(counts.failed, "bad", "failed"))
                (badge(counts.cancelled, "calm", "cancelled"))
                (badge(counts.unknown, "calm", "ended"))
                (badge(counts.late, "bad", "late"))
            }
            td data-label="Deadline" {
                (bar("progress", Some(&label), &[stripe("track", 1.0, 0, 12), stripe("work", part, 0, 12)]))
                span.under { span { (label) } }
            }
            (cell("Node", ""))
            (cell("Share", ""))
            (cell("Price", &price.map(credits).unwrap_or_default()))
        }
    }
    .into_string();
    RenderedRow {
        key: group.key.clone(),
        fixed: hashed(&html),
        html,
        progress: None,
    }
}

/// A cell; a narrow screen leaves out those that are empty.
fn cell(label: &str, text: &str) -> Markup {
    html! {
        td data-label=(label) class=[text.is_empty().then_some("none")] { (Escaped(or_dash(text))) }
    }
}
