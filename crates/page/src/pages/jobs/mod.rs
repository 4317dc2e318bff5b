//! The list of the user's jobs: a page of it, and what has changed on it since.

mod rendered;
mod rows;

pub use rendered::{Known, Rendered};

use super::progress::Progress;
use super::{View, hidden};
use crate::list::{Counts, FILTERS, Listing, Query, SORTS, Sort};
use crate::system::job::JobSummary;
use libra_plots::markup::Escaped;
use maud::{Markup, PreEscaped, html};

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

fn name_of(name: &str) -> &str {
    if name.is_empty() { "job" } else { name }
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
    use crate::pages::progress::state;
    use crate::system::job::Outcome;
    use libra_core::decision::class::Class;
    use serde_json::{Map, Value, json};

    fn view() -> View<'static> {
        View {
            kind: &crate::system::local::KIND,
            classes: [Class::Deadline; 2],
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
