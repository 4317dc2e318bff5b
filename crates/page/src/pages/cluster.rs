//! The cluster: what is sold of each node, and what became of jobs over time.

use super::{View, note, problem};
use crate::history::{History, Hour};
use crate::system::{Cluster, Node, Problem};
use libra_plots::Size;
use libra_plots::markup::{Anchor, Drawing, Escaped, Px};
use libra_units::{percent, processors};

/// The page. `history`: what the site keeps of it; none where nothing is kept.
pub fn body(
    view: &View<'_>,
    cluster: &Result<Cluster, Problem>,
    history: Option<&History>,
) -> String {
    format!(
        "<div id=\"part\" data-refresh=\"cluster-part\" data-seconds=\"10\">\n{}</div>\n{}",
        part(cluster),
        past(view, history)
    )
}

/// What is asked for again and again.
pub fn part(cluster: &Result<Cluster, Problem>) -> String {
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(error) => return problem(&error.to_string()),
    };
    let problems: String = cluster.problems.iter().map(|text| note(text)).collect();
    if cluster.nodes.is_empty() {
        return format!("<p class=\"empty\">No node shares its processors here.</p>\n{problems}");
    }
    let sum = |of: fn(&Node) -> f64| cluster.nodes.iter().map(of).sum::<f64>();
    let (sold, all) = (sum(|n| n.committed), sum(|n| n.processors));
    let part = if all > 0.0 { sold / all } else { 0.0 };
    let rows: String = cluster.nodes.iter().map(node).collect();
    let how = match cluster.note.as_str() {
        "" => String::new(),
        how => format!(" {}", Escaped(how)),
    };
    format!(
        "<section>\n<h2>Nodes</h2>\n<p>{} of {} processors are sold ({}).{how}</p>\n<table class=\"nodes\">\n\
         <thead><tr><th scope=\"col\">Node</th><th scope=\"col\">Sold</th><th scope=\"col\">Processors</th>\
         <th scope=\"col\">Jobs</th><th scope=\"col\">State</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</section>\n{problems}",
        processors(sold),
        processors(all),
        percent(part)
    )
}

fn node(node: &Node) -> String {
    let part = if node.processors > 0.0 {
        node.committed / node.processors
    } else {
        0.0
    };
    let state = match node.state.as_str() {
        "" => "–".to_string(),
        state => Escaped(state).to_string(),
    };
    let label = percent(part);
    format!(
        "<tr><th scope=\"row\">{}</th><td data-label=\"Sold\"><svg class=\"progress node\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-label=\"{label} sold\"><rect class=\"track\" x=\"0\" y=\"0\" width=\"100\" height=\"12\"/>\
         <rect class=\"time\" x=\"0\" y=\"0\" width=\"{}\" height=\"12\"/></svg>\n<span class=\"under\"><span>{label}</span></span></td>\
         <td data-label=\"Processors\" class=\"number\">{} of {}</td><td data-label=\"Jobs\" class=\"number\">{}</td>\
         <td data-label=\"State\">{state}</td></tr>\n",
        Escaped(&node.name),
        Px(100.0 * part.clamp(0.0, 1.0)),
        processors(node.committed),
        processors(node.processors),
        node.jobs
    )
}

/// What became of jobs, and why others were refused.
fn past(view: &View<'_>, history: Option<&History>) -> String {
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
    let failed = sum(|h| h.failed);
    let ended = met + missed;
    let kept = match ended {
        0 => String::new(),
        ended => format!(
            " {} of {ended} met their deadlines ({}).",
            met,
            percent(met as f64 / ended as f64)
        ),
    };
    let since = hours
        .first()
        .map_or(String::new(), |hour| (view.time)(hour.at));
    format!(
        "<section>\n<h2>What became of jobs</h2>\n<p>Since {}: {} accepted, {failed} failed, {cancelled} cancelled.{kept}</p>\n{}</section>\n\
         <section>\n<h2>Refusals</h2>\n{}</section>\n",
        Escaped(&since),
        sum(|h| h.accepted),
        chart(view, hours),
        refusals(history)
    )
}

/// Bars of jobs that met their deadlines and that missed them: an hour each for two days, else six hours or a day.
fn chart(view: &View<'_>, hours: &[Hour]) -> String {
    let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
        return String::new();
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
    format!(
        "<figure>\n{}<figcaption>{words}</figcaption>\n</figure>\n",
        drawing.inline("ended", "", "Jobs that ended over time", words)
    )
}

fn refusals(history: &History) -> String {
    let mut reasons = history.refusals();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let Some((_, most)) = reasons.first().cloned() else {
        return "<p class=\"empty\">Nobody was refused.</p>\n".to_string();
    };
    let rows: String = reasons
        .iter()
        .map(|(reason, count)| {
            format!(
                "<tr><th scope=\"row\">{}</th><td><svg class=\"progress refused\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect class=\"time\" x=\"0\" y=\"0\" width=\"{}\" height=\"12\"/></svg></td><td class=\"number\">{count}</td></tr>\n",
                Escaped(reason),
                Px(100.0 * *count as f64 / (most as f64).max(1.0))
            )
        })
        .collect();
    format!("<table class=\"refusals\">\n<tbody>\n{rows}</tbody>\n</table>\n")
}
