//! The cluster: what is committed of each node, and what became of jobs over time.

use super::{Stripe, View, bar, note, or_dash, problem};
use crate::history::{History, Hour};
use crate::system::{Cluster, Node, Problem};
use libra_plots::Size;
use libra_plots::html::headings;
use libra_plots::markup::{Anchor, Drawing, Escaped};
use libra_units::{percent, processors};
use maud::{Markup, html};

/// The page. `history`: what the site keeps of it; None if nothing is kept.
pub fn body(
    view: &View<'_>,
    cluster: &Result<Cluster, Problem>,
    history: Option<&History>,
) -> Markup {
    html! {
        div #part data-refresh="cluster-part" data-seconds="10" { (part(cluster)) }
        (past(view, history))
    }
}

/// What is asked for again and again.
pub fn part(cluster: &Result<Cluster, Problem>) -> Markup {
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(error) => return problem(&error.to_string()),
    };
    html! {
        @if cluster.nodes.is_empty() {
            p.empty { "No node shares its processors here." }
        } @else {
            (nodes("Nodes", cluster))
        }
        @for text in &cluster.problems { (note(text)) }
    }
}

pub(super) fn nodes(title: &str, cluster: &Cluster) -> Markup {
    let sum = |of: fn(&Node) -> f64| cluster.nodes.iter().map(of).sum::<f64>();
    let (committed, all) = (sum(|n| n.committed), sum(|n| n.processors));
    let part = if all > 0.0 { committed / all } else { 0.0 };
    html! {
        section {
            h2 { (Escaped(title)) }
            p {
                (processors(committed)) " of " (processors(all)) " processors are committed (" (percent(part)) ")."
                @if !cluster.note.is_empty() { " " (Escaped(&cluster.note)) }
            }
            table.nodes {
                thead { tr { (headings(["Node", "Commitment", "Processors", "Jobs", "State"])) } }
                tbody {
                    @for one in &cluster.nodes { (node(one)) }
                }
            }
        }
    }
}

fn node(node: &Node) -> Markup {
    let part = if node.processors > 0.0 {
        node.committed / node.processors
    } else {
        0.0
    };
    let label = percent(part);
    let stripe = |class, part| Stripe {
        class,
        part,
        top: 0,
        height: 12,
    };
    let stripes = [stripe("track", 1.0), stripe("time", part.clamp(0.0, 1.0))];
    html! {
        tr {
            th scope="row" { (Escaped(&node.name)) }
            td data-label="Commitment" {
                (bar("progress node", Some(&format!("{label} committed")), &stripes))
                span.under { span { (label) } }
            }
            td.number data-label="Processors" { (processors(node.committed)) " of " (processors(node.processors)) }
            td.number data-label="Jobs" { (node.jobs) }
            td data-label="State" { (Escaped(or_dash(&node.state))) }
        }
    }
}

/// What became of jobs, and why others were refused.
fn past(view: &View<'_>, history: Option<&History>) -> Markup {
    let Some(history) = history else {
        return note(
            "What became of jobs over time is not kept here: the site has set no directory for metrics.",
        );
    };
    let hours = &history.hours;
    if hours.iter().all(Hour::is_empty) {
        return note("No job has come or gone in the time that is kept.");
    }
    let sum = |of: fn(&Hour) -> u64| hours.iter().map(of).sum::<u64>();
    let (met, missed, cancelled) = (sum(|h| h.met), sum(|h| h.late), sum(|h| h.cancelled));
    let (accepted, failed) = (sum(|h| h.accepted), sum(|h| h.failed));
    let ended = met + missed;
    let since = hours
        .first()
        .map_or(String::new(), |hour| (view.time)(hour.at));
    html! {
        section {
            h2 { "What became of jobs" }
            p {
                "Since " (since) ": " (accepted) " accepted, " (failed) " failed, " (cancelled) " cancelled."
                @if ended > 0 {
                    " " (met) " of " (ended) " met their deadlines (" (percent(met as f64 / ended as f64)) ")."
                }
            }
            (chart(view, hours))
        }
        section {
            h2 { "Refusals" }
            (refusals(history))
        }
    }
}

/// Bars of jobs that met their deadlines and that missed them: an hour each for two days, else six hours or a day.
fn chart(view: &View<'_>, hours: &[Hour]) -> Markup {
    let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
        return html! {};
    };
    let span = (last.at - first.at).max(0.0) / 3600.0 + 1.0;
    let each = match span {
        span if span <= 48.0 => 3600.0,
        span if span <= 7.0 * 24.0 => 6.0 * 3600.0,
        _ => 24.0 * 3600.0,
    };
    let count = ((last.at - first.at) / each).floor().clamp(0.0, 400.0) as usize + 1;
    let mut bars = vec![(0u64, 0u64); count];
    for hour in hours {
        let index = ((hour.at - first.at) / each).floor().max(0.0) as usize;
        if let Some((met, late)) = bars.get_mut(index) {
            *met += hour.met;
            *late += hour.late;
        }
    }
    let most = bars
        .iter()
        .map(|(met, late)| met + late)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let size = Size {
        width: 440.0,
        height: 190.0,
    };
    let (left, floor, top) = (44.0, 156.0, 16.0);
    let mut drawing = Drawing::new(size);
    for value in [0.0, most] {
        let y = floor - value / most * (floor - top);
        drawing.line("grid", (left, y), (size.width, y));
        drawing.text(
            left - 6.0,
            y + 4.0,
            Anchor::End,
            "soft small",
            &format!("{value}"),
        );
    }
    let step = (size.width - left) / count as f64;
    for (index, (met, late)) in bars.iter().enumerate() {
        let x = left + step * index as f64 + step * 0.12;
        let high = |jobs: u64| jobs as f64 / most * (floor - top);
        let wide = (step * 0.76).min(40.0);
        drawing.rectangle("f2", x, floor - high(*met), wide, high(*met));
        drawing.rectangle("f1", x, floor - high(*met) - high(*late), wide, high(*late));
    }
    drawing.line("axis", (left, floor), (size.width, floor));
    drawing.text(
        left,
        floor + 18.0,
        Anchor::Start,
        "soft small",
        &(view.time)(first.at),
    );
    if count > 1 {
        drawing.text(
            size.width,
            floor + 18.0,
            Anchor::End,
            "soft small",
            &(view.time)(last.at),
        );
    }
    let words = "Green bars are jobs that met their deadlines, orange ones on top of them jobs that missed them.";
    html! {
        figure {
            (drawing.inline("ended", "", "Jobs that ended over time", words))
            figcaption { (words) }
        }
    }
}

fn refusals(history: &History) -> Markup {
    let mut reasons = history.refusals();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let Some(most) = reasons.first().map(|(_, count)| (*count as f64).max(1.0)) else {
        return html! { p.empty { "Nobody was refused." } };
    };
    let stripe = |count: u64| Stripe {
        class: "time",
        part: count as f64 / most,
        top: 0,
        height: 12,
    };
    html! {
        table.refusals {
            tbody {
                @for (reason, count) in &reasons {
                    tr {
                        th scope="row" { (Escaped(reason)) }
                        td { (bar("progress refused", None, &[stripe(*count)])) }
                        td.number { (count) }
                    }
                }
            }
        }
    }
}
