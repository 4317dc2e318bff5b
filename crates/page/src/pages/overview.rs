//! The whole site, to be read only. There is nothing in these pages that changes anything, and no script.

use super::progress::{progress, slots, state};
use super::{Stripe, bar, cluster, head, note, or_dash, problem};
use crate::address::InAddress;
use crate::overview::{Day, Find, ROWS, SiteJob, SiteStatus, WHICH};
use crate::system::Problem;
use crate::system::job::JobSummary;
use libra_core::decision::class::Class;
use libra_plots::html::{document, headings};
use libra_plots::markup::Escaped;
use libra_units::{credits, percent};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// What every page is told.
#[derive(Debug, Clone, Copy)]
pub struct OverviewView<'a> {
    /// The name of this host.
    pub host: &'a str,
    /// Now, seconds since 1970.
    pub now: f64,
    /// Who reads it wants it anew every half minute.
    pub reloads: bool,
    /// A time of day in the site's zone, from seconds since 1970.
    pub time: fn(f64) -> String,
}

/// Address and name of each page.
const MENU: [(&str, &str); 3] = [
    ("jobs", "Jobs"),
    ("nodes", "Nodes"),
    ("days", "Promises by day"),
];

/// A page. `here`: its address without what it is asked for; `asked`: that, to be asked for again.
pub fn page(view: &OverviewView<'_>, here: &str, asked: &[(&str, &str)], body: &Markup) -> Markup {
    let title = MENU.iter().find(|(to, _)| *to == here);
    let title = title.map_or("", |(_, name)| name);
    let address = |reloads: bool| {
        let more = reloads.then_some(("reloads", "yes"));
        let pairs = asked.iter().copied().chain(more);
        let pairs = pairs.filter(|(_, value)| !value.is_empty());
        let pairs = pairs.map(|(name, value)| format!("{name}={}", InAddress(value)));
        let pairs: Vec<String> = pairs.collect();
        match pairs.is_empty() {
            true => here.to_string(),
            false => format!("{here}?{}", pairs.join("&")),
        }
    };
    let head = html! {
        // Only where somebody wants that: it would take the place away from who reads with a screen reader.
        @if view.reloads { meta http-equiv="refresh" content="30"; }
        (head(title))
    };
    let body = html! {
        a.skip href="#main" { "To the content" }
        header.top {
            div.bar-in {
                span.brand { "Libra" }
                nav aria-label="Pages" {
                    @for (to, name) in MENU {
                        a href=(to) aria-current=[(to == here).then_some("page")] { (name) }
                    }
                }
                span.who { "All users on " (Escaped(view.host)) ", to be read only" }
            }
        }
        main #main tabindex="-1" {
            h1 { (title) }
            (body)
            p.small {
                "As of " ((view.time)(view.now)) ". "
                a href=(address(view.reloads)) { "Reload" } " · "
                @if view.reloads { a href=(address(false)) { "Stop reloading" } }
                @else { a href=(address(true)) { "Reload every 30 s" } }
            }
        }
    };
    document(&head, &body)
}

/// All jobs.
pub fn jobs(
    view: &OverviewView<'_>,
    status: &Result<impl AsRef<SiteStatus>, Problem>,
    find: &Find,
) -> Markup {
    let status = match status {
        Ok(status) => status.as_ref(),
        Err(error) => return problem(&error.to_string()),
    };
    let found = find.of(&status.jobs);
    let pages = found.len().div_ceil(ROWS).max(1);
    let page = find.page.min(pages - 1);
    let rows = found.iter().skip(page * ROWS).take(ROWS);
    let to = |page: usize| {
        format!(
            "jobs?q={}&which={}&page={page}",
            InAddress(&find.search),
            InAddress(&find.which)
        )
    };
    html! {
        (counts(&status.jobs))
        form.find method="get" action="jobs" {
            div.field {
                label for="q" { "Search" }
                input #q name="q" type="search" value=(Escaped(&find.search)) maxlength="200";
                small { "Words of name, number, owner, node, state, class, system" }
            }
            div.field {
                label for="which" { "Which" }
                select #which name="which" {
                    @for (name, words, _) in WHICH {
                        option value=(name) selected[name == find.which] { (words) }
                    }
                }
            }
            button type="submit" { "Show" }
        }
        @if found.is_empty() {
            p.empty { @if status.jobs.is_empty() { "There is no job with a promise." } @else { "No job is like that." } }
        } @else {
            table.jobs {
                thead { tr { (headings(["Job", "User", "State", "Until the deadline", "Node", "Share", "Price", "System"])) } }
                tbody { @for one in rows { (row(view, one)) } }
            }
        }
        @if pages > 1 {
            nav.pages aria-label="Parts of the list" {
                @if page > 0 { a.button href=(to(page - 1)) { "Earlier" } }
                span { "Part " (page + 1) " of " (pages) ", " (found.len()) " jobs" }
                @if page + 1 < pages { a.button href=(to(page + 1)) { "More" } }
            }
        }
        @for text in &status.problems { (note(text)) }
    }
}

fn counts(jobs: &[SiteJob]) -> Markup {
    let count = |of: fn(&JobSummary) -> bool| jobs.iter().filter(|one| of(&one.job)).count();
    let committed: f64 = jobs
        .iter()
        .filter(|one| one.job.live)
        .filter_map(|one| Some(one.job.share? * one.job.slots.unwrap_or(1.0)))
        .sum();
    let live = count(|job| job.live);
    let danger = count(JobSummary::in_danger);
    html! {
        p.counts {
            (live) " not ended, "
            @if danger > 0 { span.badge.bad { (danger) " in danger" } ", " } @else { "none in danger, " }
            (count(JobSummary::waits)) " waiting; " (libra_units::processors(committed)) " processors are committed to them. "
            (jobs.len() - live) " have ended, " (count(|job| !job.live && job.is_late())) " of them late."
        }
        (by_class(jobs))
    }
}

/// How the classes of service stand, where there is one beside the usual.
fn by_class(jobs: &[SiteJob]) -> Markup {
    let mut classes: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for one in jobs {
        let class = one.job.class.unwrap_or_default().word();
        let [live, ended, late] = classes.entry(class).or_default();
        match one.job.live {
            true => *live += 1,
            false => *ended += 1,
        }
        *late += usize::from(!one.job.live && one.job.is_late());
    }
    if classes.keys().all(|word| *word == Class::default().word()) {
        return html! {};
    }
    html! {
        p.counts {
            "By class of service: "
            @for (at, (word, [live, ended, late])) in classes.iter().enumerate() {
                @if at > 0 { "; " }
                (word) " " (live) " not ended, " (ended) " ended, " (late) " of them late"
            }
            "."
        }
    }
}

fn row(view: &OverviewView<'_>, one: &SiteJob) -> Markup {
    let job = &one.job;
    let share = job.share.map(|share| slots(share, job.slots));
    let cell = |label: &str, text: &str| {
        html! { td data-label=(label) class=[text.is_empty().then_some("none")] { (Escaped(or_dash(text))) } }
    };
    html! {
        tr {
            th scope="row" {
                // A batch system's jobs are known by their numbers here.
                @if job.name.is_empty() { (Escaped(&job.id)) }
                @else { (Escaped(&job.name)) " " small { (Escaped(&job.id)) } }
                @if let Some(class) = job.class.filter(|class| !class.is_default()) { small { ", " (class.word()) } }
                @if let Some(at) = job.submitted { br; small { ((view.time)(at)) } }
            }
            (cell("User", &one.user))
            td data-label="State" { (state(job)) }
            td data-label="Deadline" {
                (progress(job))
                @if let Some(at) = one.until { small { "by " ((view.time)(at)) } }
            }
            (cell("Node", &job.node))
            (cell("Share", &share.unwrap_or_default()))
            (cell("Price", &job.price.map(credits).unwrap_or_default()))
            (cell("System", &one.system))
        }
    }
}

/// All nodes.
pub fn nodes(status: &Result<impl AsRef<SiteStatus>, Problem>) -> Markup {
    let status = match status {
        Ok(status) => status.as_ref(),
        Err(error) => return problem(&error.to_string()),
    };
    html! {
        @if status.clusters.is_empty() { p.empty { "No node shares its processors here." } }
        @for (system, cluster) in &status.clusters {
            (cluster::nodes(&format!("Nodes of {system}"), cluster))
        }
        @for text in &status.problems { (note(text)) }
    }
}

/// What became of promises, by system and day. None: it is not kept.
pub fn days<N: AsRef<str>>(kept: Option<&[(N, Vec<Day>)]>) -> Markup {
    let Some(kept) = kept else {
        return note(
            "What became of promises is not kept here: the site has set no directory for metrics.",
        );
    };
    let number = |label: &str, count: u64| html! { td.number data-label=(label) { (count) } };
    html! {
        @if kept.iter().all(|(_, days)| days.is_empty()) {
            p.empty { "No promise was made or kept in the time that is kept." }
        }
        @for (system, days) in kept.iter().filter(|(_, days)| !days.is_empty()) {
            section {
                h2 { "Promises of " (Escaped(system.as_ref())) }
                table.nodes {
                    thead { tr { (headings(["Day", "Kept of those that ended", "Accepted", "In time", "Late", "Failed", "Cancelled", "Refused"])) } }
                    tbody {
                        @for day in days {
                            tr {
                                th scope="row" { (Escaped(&day.date)) }
                                td data-label="Kept" { (kept_of(day)) }
                                (number("Accepted", day.accepted))
                                (number("In time", day.met))
                                (number("Late", day.late))
                                (number("Failed", day.failed))
                                (number("Cancelled", day.cancelled))
                                (number("Refused", day.refused))
                            }
                        }
                    }
                }
            }
        }
        @if kept.iter().any(|(_, days)| !days.is_empty()) {
            p.small { "A job counts on the day on which it was accepted, ended or was refused. Kept are those that ended by their deadlines, of these and those that ended later." }
        }
    }
}

fn kept_of(day: &Day) -> Markup {
    let ended = day.met + day.late;
    if ended == 0 {
        return html! { "–" };
    }
    let part = day.met as f64 / ended as f64;
    let stripe = |class, part| Stripe {
        class,
        part,
        top: 0,
        height: 12,
    };
    let label = percent(part);
    html! {
        (bar("progress node", Some(&format!("{label} kept")), &[stripe("track", 1.0), stripe("time", part)]))
        span.under { span { (label) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{Cluster, Node};

    /// A text of somebody else in every place of every page, and nothing that could change anything.
    #[test]
    fn pages_are_text_and_change_nothing() {
        let nasty = "<b>'\"&\u{1b}[1m\u{0}";
        let text = || nasty.to_string();
        let view = OverviewView {
            host: nasty,
            now: 0.0,
            reloads: true,
            time: |at| format!("{at}"),
        };
        let job = JobSummary {
            id: text(),
            name: text(),
            state: text(),
            node: text(),
            ending: text(),
            live: true,
            ..JobSummary::default()
        };
        let one = SiteJob {
            system: text(),
            user: text(),
            until: Some(1.0),
            job,
        };
        let cluster = Cluster {
            nodes: vec![Node {
                name: text(),
                state: text(),
                ..Node::default()
            }],
            note: text(),
            problems: Vec::new(),
        };
        let status = SiteStatus {
            at: 0.0,
            jobs: vec![one; ROWS + 1],
            clusters: vec![(text(), cluster)],
            problems: vec![text()],
        };
        let status = Ok(std::sync::Arc::new(status));
        let wrong: Result<std::sync::Arc<SiteStatus>, Problem> = Err(Problem::new(nasty));
        let find = Find {
            search: text(),
            ..Find::default()
        };
        let day = Day {
            date: text(),
            met: 1,
            late: 1,
            ..Day::default()
        };
        for part in [
            jobs(&view, &status, &find),
            jobs(&view, &status, &Find::default()),
            jobs(&view, &wrong, &find),
            nodes(&status),
            nodes(&wrong),
            days(Some(&[(nasty, vec![day])])),
            days(None::<&[(&str, Vec<Day>)]>),
        ] {
            let page = page(&view, "jobs", &[("q", nasty)], &part).into_string();
            assert!(!page.contains("<b>"), "{page}");
            let control = |c: char| c.is_control() && c != '\n';
            assert!(!page.contains(control), "{page:?}");
            for changes in ["<script", "method=\"post\"", "onclick", "type=\"hidden\""] {
                assert!(!page.contains(changes), "{changes}: {page}");
            }
        }
    }

    #[test]
    fn classes_are_told_where_there_is_one_beside_the_usual() {
        let view = OverviewView {
            host: "h",
            now: 0.0,
            reloads: false,
            time: |at| format!("{at}"),
        };
        let of = |class, live| SiteJob {
            job: JobSummary {
                id: "7".to_string(),
                class,
                live,
                ..JobSummary::default()
            },
            ..SiteJob::default()
        };
        let told = |all: Vec<SiteJob>| {
            let status = SiteStatus {
                jobs: all,
                ..SiteStatus::default()
            };
            jobs(&view, &Ok(std::sync::Arc::new(status)), &Find::default()).into_string()
        };
        let usual = told(vec![of(Some(Class::Deadline), true), of(None, true)]);
        assert!(!usual.contains("class of service"), "{usual}");
        let mixed = told(vec![
            of(None, false),
            of(Some(Class::Dedicated), true),
            of(Some(Class::Dedicated), false),
        ]);
        let words = "By class of service: deadline 0 not ended, 1 ended, 0 of them late; dedicated 1 not ended, 1 ended, 0 of them late.";
        assert!(mixed.contains(words), "{mixed}");
        assert_eq!(
            mixed.matches("7<small>, dedicated</small>").count(),
            2,
            "{mixed}"
        );
    }

    #[test]
    fn a_list_of_more_than_a_part_leads_on() {
        let view = OverviewView {
            host: "h",
            now: 0.0,
            reloads: false,
            time: |at| format!("{at}"),
        };
        let status = SiteStatus {
            jobs: vec![SiteJob::default(); 2 * ROWS + 1],
            ..SiteStatus::default()
        };
        let status = Ok(std::sync::Arc::new(status));
        let part = |page| {
            let find = Find {
                page,
                ..Find::default()
            };
            jobs(&view, &status, &find).into_string()
        };
        assert!(part(0).contains("Part 1 of 3, 201 jobs"), "{}", part(0));
        assert!(part(0).contains("More") && !part(0).contains("Earlier"));
        assert_eq!(part(2).matches("<tr>").count(), 2, "a head and a job");
        assert_eq!(part(2), part(700), "there is no later one");
    }
}
