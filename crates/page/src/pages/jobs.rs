//! The list of the user's jobs.

use super::{InAddress, View, hidden, problem};
use crate::system::{Job, Problem, Tone};
use libra_plots::markup::{Escaped, Px};
use libra_units::{credits, duration, percent};

/// The list, around what is asked for again and again.
pub fn body(view: &View<'_>, jobs: &Result<Vec<Job>, Problem>) -> String {
    format!(
        "<div id=\"part\" data-refresh=\"jobs-part\" data-seconds=\"3\">\n{}</div>\n",
        part(view, jobs)
    )
}

/// What is asked for again and again.
pub fn part(view: &View<'_>, jobs: &Result<Vec<Job>, Problem>) -> String {
    let jobs = match jobs {
        Ok(jobs) => jobs,
        Err(error) => return problem(&error.to_string()),
    };
    if jobs.is_empty() {
        return "<p class=\"empty\">You have no jobs here. <a href=\"submit\">Submit one</a>.</p>\n".to_string();
    }
    let (live, ended): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(|job| job.live);
    let mut part = match live.is_empty() {
        true => "<p class=\"empty\">No job of yours is queued or runs.</p>\n".to_string(),
        false => table(view, "Now", &live),
    };
    if !ended.is_empty() {
        part += &table(view, "Ended", &ended);
    }
    part
}

fn table(view: &View<'_>, heading: &str, jobs: &[&Job]) -> String {
    let rows: String = jobs.iter().map(|job| row(view, job)).collect();
    format!(
        "<section>\n<h2>{heading}</h2>\n<table class=\"jobs\">\n<thead><tr><th scope=\"col\">Job</th><th scope=\"col\">State</th>\
         <th scope=\"col\">Until the deadline</th><th scope=\"col\">Node</th><th scope=\"col\">Share</th>\
         <th scope=\"col\">Price</th><th scope=\"col\"><span class=\"quiet\">Cancel</span></th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n</section>\n"
    )
}

fn row(view: &View<'_>, job: &Job) -> String {
    let (key, to) = (Escaped(&job.key), InAddress(&job.key));
    let when = job.submitted.map_or(String::new(), |at| {
        format!("<br><small>{}</small>", Escaped(&(view.time)(at)))
    });
    let name = match job.name.as_str() {
        "" => "job",
        name => name,
    };
    let share = job
        .share
        .map_or("–".to_string(), |share| slots(share, job.slots));
    let price = job.price.map_or("–".to_string(), credits);
    let node = match job.node.as_str() {
        "" => "–",
        node => node,
    };
    format!(
        "<tr><th scope=\"row\"><a id=\"job-{key}\" href=\"job?id={to}\">{}</a> <small>{}</small>{when}</th>\n\
         <td data-label=\"State\">{}</td>\n<td data-label=\"Deadline\">{}</td>\n\
         <td data-label=\"Node\">{}</td>\n<td data-label=\"Share\">{}</td>\n<td data-label=\"Price\">{}</td>\n\
         <td class=\"act\">{}</td></tr>\n",
        Escaped(name),
        Escaped(&job.id),
        state(job),
        progress(job),
        Escaped(node),
        Escaped(&share),
        Escaped(&price),
        cancel(view, job)
    )
}

/// A share as people read it.
pub fn slots(share: f64, slots: Option<f64>) -> String {
    match slots {
        Some(slots) if slots > 1.0 => format!("{} of {slots} processors", percent(share)),
        _ => percent(share),
    }
}

/// The state of a job in its colour, and how it ended.
pub fn state(job: &Job) -> String {
    let tone = match job.tone() {
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
        Tone::Quiet => "calm",
    };
    let ending = match job.ending.as_str() {
        "" => String::new(),
        ending => format!("<br><small>{}</small>", Escaped(ending)),
    };
    format!(
        "<span class=\"badge {tone}\">{}</span>{ending}",
        Escaped(&job.state)
    )
}

/// A button that ends a job; nothing for one that has ended.
pub fn cancel(view: &View<'_>, job: &Job) -> String {
    if !job.live {
        return String::new();
    }
    format!(
        "<form method=\"post\" action=\"cancel\">{}{}<button type=\"submit\" id=\"cancel-{key}\" aria-label=\"Cancel job {id}\">Cancel</button></form>",
        hidden("word", view.word),
        hidden("id", &job.key),
        key = Escaped(&job.key),
        id = Escaped(&job.id),
    )
}

/// Two bars that end at the deadline and at the estimate: the time that has gone, and the work that is done.
pub fn progress(job: &Job) -> String {
    let part =
        |a: Option<f64>, b: Option<f64>| Some((a? / b.filter(|b| *b > 0.0)?).clamp(0.0, 1.0));
    let (time, work) = (
        part(job.elapsed, job.deadline),
        part(job.used, job.estimate),
    );
    let Some(time) = time else {
        return "<span class=\"soft\">no deadline</span>".to_string();
    };
    let work_bar = work.map_or(String::new(), |work| {
        format!(
            "<rect class=\"work\" x=\"0\" y=\"8\" width=\"{}\" height=\"4\"/>",
            Px(100.0 * work)
        )
    });
    let tone = if job.tone() == Tone::Bad { " bad" } else { "" };
    let whole = |part: f64| format!("{:.0} %", 100.0 * part);
    let work_text = work.map_or(String::new(), |work| format!(", work {}", whole(work)));
    let left = match (job.elapsed, job.deadline) {
        (Some(elapsed), Some(deadline)) if job.live && deadline >= elapsed => {
            format!("{} left", duration::show(deadline - elapsed))
        }
        (Some(elapsed), Some(deadline)) if job.live => {
            format!("late by {}", duration::show(elapsed - deadline))
        }
        (Some(elapsed), Some(deadline)) => {
            format!(
                "{} of {}",
                duration::show(elapsed),
                duration::show(deadline)
            )
        }
        _ => String::new(),
    };
    let label = format!("time {}{work_text}", whole(time));
    format!(
        "<svg class=\"progress{tone}\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">\
         <rect class=\"track\" x=\"0\" y=\"0\" width=\"100\" height=\"12\"/>\
         <rect class=\"time\" x=\"0\" y=\"0\" width=\"{}\" height=\"7\"/>{work_bar}</svg>\n\
         <span class=\"under\"><span>{}</span><span class=\"soft\">{label}</span></span>",
        Px(100.0 * time),
        Escaped(&left)
    )
}
