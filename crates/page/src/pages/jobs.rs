//! The list of the user's jobs: a page of it, and what has changed on it since.

use super::{Stripe, View, bar, hidden, or_dash, problem};
use crate::address::InAddress;
use crate::list::{Counts, FILTERS, Group, Listing, Query, Row, SORTS, Sort, listing};
use crate::system::{JobSummary, Outcome, Problem, Tone};
use libra_plots::markup::Escaped;
use libra_units::{credits, duration, percent};
use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The list as it was asked for, in the pieces that an update replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// What is above the table.
    above: String,
    /// What is below it.
    below: String,
    rows: Vec<RenderedRow>,
}

#[derive(Debug, Clone, PartialEq)]
struct RenderedRow {
    /// Unique in the list.
    key: String,
    html: String,
    /// Of all of it but how far its bars are.
    fixed: u64,
    progress: Option<Progress>,
}

/// What a browser has: enough to know what is new to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Of all of it. Two lists of one version are alike.
    pub version: String,
    above: u64,
    below: u64,
    rows: Vec<(String, u64, Option<Progress>)>,
}

fn hashed(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Rendered {
    /// Of these jobs.
    pub fn new(
        view: &View<'_>,
        jobs: &Result<Vec<JobSummary>, Problem>,
        query: &Query,
    ) -> Rendered {
        let jobs = match jobs {
            Ok(jobs) => jobs,
            Err(error) => {
                return Rendered {
                    above: problem(&error.to_string()).into_string(),
                    below: String::new(),
                    rows: Vec::new(),
                };
            }
        };
        let listing = listing(jobs, query);
        Rendered {
            above: above(&listing, query).into_string(),
            below: below(&listing, query).into_string(),
            rows: listing
                .rows
                .iter()
                .map(|row| match row {
                    Row::One(job) => one(view, job),
                    Row::Several(group) => several(view, group, row.price(), query),
                })
                .collect(),
        }
    }

    /// What a browser has that was sent this.
    pub fn known(&self) -> Known {
        let row = |row: &RenderedRow| (row.key.clone(), row.fixed, row.progress.clone());
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        let (above, below) = (hashed(&self.above), hashed(&self.below));
        let shown: Vec<_> = (rows.iter())
            .map(|(key, fixed, progress)| (key, fixed, progress.as_ref().map(Progress::shown)))
            .collect();
        Known {
            version: format!("{:016x}", hashed(&(above, below, shown))),
            above,
            below,
            rows,
        }
    }

    /// What is new to a browser that has this: members `above`, `below`, `order`, `rows` (of those that it has not, or that have changed)
    /// and `bars` (of those of which only the bars have), each only where there is something.
    pub fn changes(&self, old: Option<&Known>) -> Map<String, Value> {
        let new = self.known();
        let mut changes = Map::new();
        if old.map(|old| old.above) != Some(new.above) {
            changes.insert("above".to_string(), self.above.clone().into());
        }
        if old.map(|old| old.below) != Some(new.below) {
            changes.insert("below".to_string(), self.below.clone().into());
        }
        let keys: Vec<&str> = self.rows.iter().map(|row| row.key.as_str()).collect();
        let old_rows = old.map_or(&[][..], |old| &old.rows);
        if old.is_none() || !keys.iter().eq(old_rows.iter().map(|(key, ..)| key)) {
            changes.insert("order".to_string(), json!(keys));
        }
        let (mut rows, mut bars) = (Map::new(), Map::new());
        for row in &self.rows {
            let before = old_rows.iter().find(|(key, ..)| *key == row.key);
            match (before, &row.progress) {
                (Some((_, fixed, progress)), _)
                    if *fixed == row.fixed && *progress == row.progress => {}
                (Some((_, fixed, _)), Some(progress)) if *fixed == row.fixed => {
                    bars.insert(row.key.clone(), progress.as_json());
                }
                _ => {
                    rows.insert(row.key.clone(), row.html.clone().into());
                }
            }
        }
        for (name, map) in [("rows", rows), ("bars", bars)] {
            if !map.is_empty() {
                changes.insert(name.to_string(), map.into());
            }
        }
        changes.insert("version".to_string(), new.version.into());
        changes
    }
}

/// The list, around what is asked for again and again.
pub fn body(view: &View<'_>, rendered: &Rendered, query: &Query) -> Markup {
    let known = rendered.known();
    html! {
        (controls(query))
        @if query.still {
            noscript {
                p.small { "This page does not reload itself now. " a href=(moving(query)) { "Let it reload itself" } }
            }
        } @else {
            noscript {
                p.small {
                    "This page reloads itself. " a href=(still(query)) { "Let it stand still" } " to choose jobs."
                }
            }
        }
        form #jobs method="post" action="cancel" data-list=(part_address(query)) data-version=(known.version) data-seconds="3" {
            (hidden("word", view.word))
            @for (name, value) in query.pairs() {
                (hidden(name, &value))
            }
            div #above { (PreEscaped(&rendered.above)) }
            table.jobs hidden[rendered.rows.is_empty()] {
                thead {
                    tr {
                        th scope="col" { span.quiet { "Choose" } }
                        (heading(query, "Job", Sort::Name, "ascending"))
                        (heading(query, "State", Sort::State, "ascending"))
                        (heading(query, "Until the deadline", Sort::Left, "ascending"))
                        th scope="col" { "Node" }
                        th scope="col" { "Share" }
                        (heading(query, "Price", Sort::Price, "descending"))
                    }
                }
                tbody #rows {
                    @for row in &rendered.rows { (PreEscaped(&row.html)) }
                }
            }
        }
        div #below { (PreEscaped(&rendered.below)) }
        // Shown by a script where a browser can tell it.
        p { button #tells type="button" hidden { "Tell me when a job ends or is in danger" } }
    }
}

/// What is asked for again and again.
fn part_address(query: &Query) -> String {
    query.address("jobs-part")
}

fn still(query: &Query) -> String {
    let query = Query {
        still: true,
        ..query.clone()
    };
    query.address("jobs")
}

fn moving(query: &Query) -> String {
    let query = Query {
        still: false,
        ..query.clone()
    };
    query.address("jobs")
}

/// A column's heading, which sorts by it.
fn heading(query: &Query, name: &str, sort: Sort, direction: &str) -> Markup {
    let to = Query {
        sort,
        page: 0,
        ..query.clone()
    };
    let is = query.sort == sort;
    html! {
        th scope="col" aria-sort=[is.then_some(direction)] {
            a href=(to.address("jobs")) { (name) }
            @if is { span aria-hidden="true" { @if direction == "ascending" { " ▲" } @else { " ▼" } } }
        }
    }
}

/// Search, filter and order.
fn controls(query: &Query) -> Markup {
    let option = |value: &str, text: &str, is: bool| {
        html! { option value=(value) selected[is] { (text) } }
    };
    html! {
        form #find .find method="get" action="jobs" role="search" aria-label="Jobs" {
            div.field {
                label for="q" { "Search" }
                input #q type="search" name="q" value=(Escaped(&query.search)) maxlength="200" autocomplete="off" autocapitalize="none"
                    spellcheck="false" placeholder="name, number, node, state";
            }
            div.field {
                label for="state" { "Show" }
                select #state name="state" {
                    @for (filter, name, text) in FILTERS { (option(name, text, filter == query.filter)) }
                }
            }
            div.field {
                label for="sort" { "Order" }
                select #sort name="sort" {
                    @for (sort, name, text) in SORTS { (option(name, text, sort == query.sort)) }
                }
            }
            @if !query.group.is_empty() { (hidden("group", &query.group)) }
            @if query.each { (hidden("each", "yes")) }
            @if query.still { (hidden("still", "yes")) }
            button type="submit" { "Find" }
        }
    }
}

/// Counts, and what can be done with several jobs.
fn above(listing: &Listing<'_>, query: &Query) -> Markup {
    let counts = &listing.counts;
    let live = counts.live();
    let with = |change: fn(&mut Query)| {
        let mut query = Query {
            page: 0,
            ..query.clone()
        };
        change(&mut query);
        query.address("jobs")
    };
    html! {
        @if listing.all_jobs == 0 {
            p.empty { "You have no jobs here. " a href="submit" { "Submit one" } "." }
        } @else if listing.all_rows == 0 {
            p.empty { "No job of yours is like that. " a href="jobs" { "Show all" } "." }
        } @else {
            p.counts {
                @if !query.group.is_empty() {
                    strong { (Escaped(query.group.split_once('.').map_or("", |(_, name)| name))) } ": "
                }
                (in_words(counts, true))
                @if query.group.is_empty() && (listing.has_groups || query.each) {
                    " · "
                    @if query.each {
                        a href=(with(|query| query.each = false)) { "Arrays and jobs of one name in one row" }
                    } @else {
                        a href=(with(|query| query.each = true)) { "A row for each job" }
                    }
                }
                @if *query != Query::default() && *query != (Query { still: true, ..Query::default() }) {
                    " · " a href="jobs" { "Show all" }
                }
            }
        }
        @if live > 0 {
            div.actions {
                button type="submit" name="do" value="chosen" #cancel-chosen { "Cancel chosen jobs…" }
                @if live > 1 {
                    button type="submit" name="do" value="all" #cancel-all { "Cancel all " (live) "…" }
                }
            }
        }
    }
}

/// `12 jobs: 3 running (1 in danger), 2 waiting, 7 finished`.
pub fn in_words(counts: &Counts, total: bool) -> Markup {
    let parts = [
        (counts.running, "running"),
        (counts.waiting, "waiting"),
        (counts.danger, "in danger"),
        (counts.finished, "finished"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (counts.unknown, "ended"),
        (counts.late, "late"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    html! {
        @if total {
            (counts.all()) @if counts.all() == 1 { " job: " } @else { " jobs: " }
        }
        (parts.join(", "))
    }
}

/// Which page it is, and the ways to the others.
fn below(listing: &Listing<'_>, query: &Query) -> Markup {
    let to = |page: usize| {
        let query = Query {
            page,
            ..query.clone()
        };
        query.address("jobs")
    };
    let (page, last) = (listing.page, listing.pages - 1);
    html! {
        @if listing.pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 0 {
                    a.button href=(to(0)) { "First" }
                    a.button href=(to(page - 1)) rel="prev" { "Earlier rows" }
                }
                span { "Page " (page + 1) " of " (listing.pages) ", " (listing.all_rows) " rows" }
                @if page < last {
                    a.button href=(to(page + 1)) rel="next" { "More rows" }
                    a.button href=(to(last)) { "Last" }
                }
            }
        }
    }
}

fn one(view: &View<'_>, job: &JobSummary) -> RenderedRow {
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

fn name_of(name: &str) -> &str {
    if name.is_empty() { "job" } else { name }
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
                small { (Escaped(&job.id)) }
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

fn several(view: &View<'_>, group: &Group<'_>, price: Option<f64>, query: &Query) -> RenderedRow {
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

fn stripe(class: &'static str, part: f64, top: u32, height: u32) -> Stripe {
    Stripe {
        class,
        part,
        top,
        height,
    }
}

/// How far a job is: parts of the time until its deadline and of the work of its estimate, and both in words.
#[derive(Debug, Clone, PartialEq, Default)]
struct Progress {
    /// Percent, to a tenth.
    time: f64,
    work: Option<f64>,
    /// How long until the deadline.
    left: String,
    label: String,
}

impl Progress {
    /// None: it has no deadline.
    fn of(job: &JobSummary) -> Option<Progress> {
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
    fn shown(&self) -> (String, &str, &str) {
        let bars = format!("{} {:?}", self.time, self.work);
        (bars, &self.left, &self.label)
    }

    fn as_json(&self) -> Value {
        json!([self.time, self.work, self.left, self.label])
    }
}

/// Two bars that end at the deadline and at the estimate: the time that has gone, and the work that is done.
pub fn progress(job: &JobSummary) -> Markup {
    bars(job, Progress::of(job).as_ref())
}

fn bars(job: &JobSummary, progress: Option<&Progress>) -> Markup {
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

/// The question whether these jobs are to be ended. `query`: where they were chosen.
pub fn confirm(view: &View<'_>, jobs: &[&JobSummary], query: &Query) -> Markup {
    let shown = 12;
    let counts = Counts::of(jobs.iter().copied());
    html! {
        p {
            @if jobs.len() == 1 { "This job ends now:" } @else { "These " (jobs.len()) " jobs end now (" (in_words(&counts, false)) "):" }
        }
        ul {
            @for job in jobs.iter().take(shown) {
                li {
                    (Escaped(name_of(&job.name))) " " small { (Escaped(&job.id)) } ", " (Escaped(job.state_word()))
                    @if let Some(progress) = Progress::of(job) { ", " (progress.left) }
                }
            }
            @if jobs.len() > shown { li { "and " (jobs.len() - shown) " more" } }
        }
        p { "Work that is not written to files yet is lost." }
        form method="post" action="cancel" {
            (hidden("word", view.word))
            (hidden("sure", "yes"))
            @for (name, value) in query.pairs() { (hidden(name, &value)) }
            @for job in jobs { (hidden(&format!("job.{}", job.key), "on")) }
            div.actions {
                button.main type="submit" #sure {
                    @if jobs.len() == 1 { "Cancel the job" } @else { "Cancel " (jobs.len()) " jobs" }
                }
                a.button href=(query.address("jobs")) { "Back to the list" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View<'static> {
        View {
            kind: &crate::system::local::KIND,
            host: "h",
            user: "u",
            word: "w",
            now: 0.0,
            news: 0,
            time: |at| format!("{at}"),
        }
    }

    fn job(key: &str, elapsed: f64) -> JobSummary {
        JobSummary {
            key: key.to_string(),
            id: key.to_string(),
            name: format!("n{key}"),
            state: "on track".to_string(),
            live: true,
            elapsed: Some(elapsed),
            deadline: Some(100.0),
            used: Some(1.0),
            estimate: Some(50.0),
            ..JobSummary::default()
        }
    }

    fn rendered(jobs: Vec<JobSummary>) -> Rendered {
        Rendered::new(&view(), &Ok(jobs), &Query::default())
    }

    #[test]
    fn an_update_has_what_has_changed_and_nothing_else() {
        let first = rendered(vec![job("1", 10.0), job("2", 10.0)]);
        let known = first.known();
        let names =
            |changes: &Map<String, Value>| changes.keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(names(&first.changes(Some(&known))), "version");
        assert_eq!(
            names(&first.changes(None)),
            "above below order rows version"
        );
        // Time goes on.
        let later = rendered(vec![job("1", 20.0), job("2", 10.0)]);
        let changes = later.changes(Some(&known));
        assert_eq!(names(&changes), "bars version");
        assert_eq!(
            changes["bars"],
            json!({"1": [20.0, 2.0, "80 s left", "time 20 %, work 2 %"]})
        );
        assert_ne!(later.known().version, known.version);
        // One ends, another comes.
        let mut done = job("2", 10.0);
        (done.live, done.outcome, done.in_time) = (false, Some(Outcome::Finished), Some(true));
        let ended = rendered(vec![job("3", 0.0), job("1", 10.0), done]);
        let changes = ended.changes(Some(&known));
        assert_eq!(names(&changes), "above order rows version");
        assert_eq!(changes["order"], json!(["3", "1", "2"]));
        let rows = changes["rows"].as_object().expect("rows");
        assert_eq!(rows.keys().cloned().collect::<Vec<_>>(), ["2", "3"]);
        assert!(
            rows["2"]
                .as_str()
                .is_some_and(|row| row.contains(">finished<") && row.contains(">in time<"))
        );
    }

    #[test]
    fn how_it_ended_and_whether_in_time_are_two_badges() {
        let badges = |outcome, in_time| {
            let job = JobSummary {
                outcome: Some(outcome),
                in_time,
                ..JobSummary::default()
            };
            let text = state(&job).into_string();
            let texts = text
                .split("</span>")
                .filter_map(|part| part.rsplit('>').next());
            texts
                .filter(|text| !text.is_empty())
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            badges(Outcome::Finished, Some(true)),
            ["finished", "in time"]
        );
        assert_eq!(badges(Outcome::Finished, Some(false)), ["finished", "late"]);
        assert_eq!(badges(Outcome::Failed, Some(true)), ["failed", "in time"]);
        assert_eq!(badges(Outcome::Cancelled, Some(true)), ["cancelled"]);
        assert_eq!(
            badges(Outcome::Cancelled, Some(false)),
            ["cancelled", "late"]
        );
        assert_eq!(badges(Outcome::Unknown, None), ["ended"]);
    }

    #[test]
    fn no_row_ends_a_job_by_itself() {
        let page = body(&view(), &rendered(vec![job("1", 1.0)]), &Query::default()).into_string();
        assert!(!page.contains("name=\"sure\""), "{page}");
        let all = [job("1", 1.0)];
        let asked = confirm(&view(), &[&all[0]], &Query::default()).into_string();
        assert!(
            asked.contains("name=\"sure\" value=\"yes\"") && asked.contains("name=\"job.1\""),
            "{asked}"
        );
    }
}
