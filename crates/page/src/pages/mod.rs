//! The pages: data in, HTML out. Pure; whatever comes from outside goes into a template as [`Escaped`].
//!
//! Addresses are relative and all pages stand beside each other, so a proxy may put any path in front. There are no
//! styles in attributes and no scripts in pages: the policy of [`super::guard`] forbids them.

pub mod account;
pub mod cluster;
pub mod curve;
pub mod files;
pub mod job;
pub mod jobs;
pub mod output;
pub mod overview;
pub mod profile;
pub mod progress;
pub mod story;
pub mod submit;
pub mod verdict;

use super::form::FieldError;
use super::system::Kind;
use libra_core::decision::class::Class;
use libra_plots::html::{definitions, document};
use libra_plots::markup::{Escaped, Px};
use libra_plots::style;
use maud::{Markup, html};

/// What our pages run.
pub const SCRIPT: &str = include_str!("page.js");

/// The sign in the browser's tab: a pair of scales.
pub const ICON: &str = include_str!("icon.svg");

/// What they look like.
pub fn stylesheet() -> String {
    format!("{}{}", include_str!("page.css"), style::CSS)
}

/// What every page is told.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Where jobs go.
    pub kind: &'static Kind,
    /// The classes of jobs of this host that name none: of one processor, and of several.
    pub classes: [Class; 2],
    /// The name of this host.
    pub host: &'a str,
    /// The user.
    pub user: &'a str,
    /// The word that forms have to say.
    pub word: &'a str,
    /// Now, seconds since 1970.
    pub now: f64,
    /// The number of the latest news of the user's jobs ([`crate::news`]).
    pub news: u64,
    /// A time of day in the site's zone, from seconds since 1970.
    pub time: fn(f64) -> String,
}

/// The pages that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// The form.
    Submit,
    /// The list.
    Jobs,
    /// One of them.
    Job,
    /// Money.
    Account,
    /// Nodes.
    Cluster,
}

const MENU: [(PageKind, &str, &str); 4] = [
    (PageKind::Submit, "submit", "Submit"),
    (PageKind::Jobs, "jobs", "Jobs"),
    (PageKind::Account, "account", "Account"),
    (PageKind::Cluster, "cluster", "Cluster"),
];

/// A page. `reload`: seconds after which a browser without scripts asks again, and for what; None for never.
pub fn page(
    view: &View<'_>,
    place: PageKind,
    title: &str,
    reload: Option<(u32, &str)>,
    body: &Markup,
) -> Markup {
    let here = |one: PageKind| match (
        one == place,
        one == PageKind::Jobs && place == PageKind::Job,
    ) {
        (true, _) => Some("page"),
        (_, true) => Some("true"),
        _ => None,
    };
    let system = view.kind.says;
    let run = view.word.get(..8).unwrap_or_default();
    let head = html! {
        // With an address: without one, a browser that is at a place in the page stays there and asks for nothing.
        @if let Some((seconds, to)) = reload {
            noscript { meta http-equiv="refresh" content={ (seconds) ";url=" (Escaped(to)) }; }
        }
        (head(title))
        script src="script.js" defer {}
    };
    let body = html! {
        a.skip href="#main" { "To the content" }
        header.top {
            div.bar-in {
                span.brand { "Libra" }
                nav aria-label="Pages" {
                    @for (one, to, name) in MENU {
                        a href=(to) aria-current=[here(one)] { (name) }
                    }
                }
                span.who { (Escaped(view.user)) " on " (Escaped(view.host)) ", " (system) }
            }
        }
        p #trouble .notice.bad role="alert" hidden {}
        // The numbers begin anew with each run of the page, behind a proxy at the same address.
        div #news role="status" data-after=(view.news) data-run=(Escaped(run)) {}
        main #main tabindex="-1" {
            h1 { (Escaped(title)) }
            (body)
        }
    };
    document(&head, &body)
}

/// A page for who is not let in, or has lost the way: without a menu.
pub fn alone(title: &str, text: &str) -> Markup {
    let body = html! {
        main.alone {
            h1 { (Escaped(title)) }
            p { (Escaped(text)) }
        }
    };
    document(&head(title), &body)
}

/// What the heads of all our documents have.
fn head(title: &str) -> Markup {
    html! {
        title { (Escaped(title)) " – Libra" }
        link rel="stylesheet" href="style.css";
        link rel="icon" href="icon.svg";
    }
}

/// Something that went wrong, as part of a page.
pub fn problem(text: &str) -> Markup {
    html! { p.notice.bad role="alert" { (lines(text)) } }
}

/// What is wrong with fields of a form, as part of a page; beside each of them it stands as well.
pub fn wrong(errors: &[FieldError]) -> Markup {
    html! {
        div.notice.bad role="alert" {
            @for error in errors { p data-field=(error.field) { (Escaped(error.to_string())) } }
        }
    }
}

/// A line for the user, as part of a page.
pub fn note(text: &str) -> Markup {
    html! { p.notice { (lines(text)) } }
}

/// Text of several lines.
fn lines(text: &str) -> Markup {
    html! {
        @for (index, line) in text.lines().enumerate() {
            @if index > 0 { br; }
            (Escaped(line))
        }
    }
}

/// What stands for a text that is empty.
fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

/// A field of a form that nobody sees.
pub fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(Escaped(name)) value=(Escaped(value)); }
}

/// Names and values; nothing where there are none.
pub fn facts<N: AsRef<str>, V: AsRef<str>>(facts: &[(N, V)]) -> Markup {
    html! {
        @if !facts.is_empty() {
            dl.facts {
                @for fact in facts {
                    div { (definitions([(&fact.0, &fact.1)])) }
                }
            }
        }
    }
}

/// A rectangle of a [`bar`].
struct Stripe {
    /// Says its colour.
    class: &'static str,
    /// Its length, as a part of the whole, 0 to 1.
    part: f64,
    /// Where it begins below the top, in twelfths of the bar's height.
    top: u32,
    /// In twelfths.
    height: u32,
}

/// Parts of a whole behind each other. Without a label it says nothing that is not beside it in words.
fn bar(class: &str, label: Option<&str>, stripes: &[Stripe]) -> Markup {
    html! {
        svg class=(class) viewBox="0 0 100 12" preserveAspectRatio="none"
            role=[label.map(|_| "img")] aria-label=[label] aria-hidden=[label.is_none().then_some("true")] {
            @for stripe in stripes {
                rect class=(stripe.class) x="0" y=(stripe.top) width=(Px(100.0 * stripe.part)) height=(stripe.height) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::submit::Said;
    use super::*;
    use crate::account::{Account, Amount, Balance, Month, Movement, Payment};
    use crate::history::{History, Hour};
    use crate::list::Query;
    use crate::profile::{Profile, Sample};
    use crate::system::files::Listing;
    use crate::system::job::{Detail, JobSummary};
    use crate::system::output::OutputChunk;
    use crate::system::quote::{Offer, Quote};
    use crate::system::search::{Found, Hit};
    use crate::system::story::Story;
    use crate::system::submission::Submission;
    use crate::system::templates::Owner;
    use crate::system::{Cluster, Node, Problem};
    use crate::told::Told;

    /// A text of somebody else in every place of every page. The script alone is sent back as it was.
    #[test]
    fn what_comes_from_outside_is_text_without_control_characters() {
        let nasty = "<b>'\"&\u{1b}[1m\u{0}";
        let text = || nasty.to_string();
        let view = View {
            kind: &crate::system::pbs::KIND,
            classes: [Class::Deadline; 2],
            host: nasty,
            user: nasty,
            word: nasty,
            now: 0.0,
            news: 0,
            time: |at| format!("{at}"),
        };
        let job = JobSummary {
            key: text(),
            id: text(),
            name: text(),
            state: text(),
            live: true,
            node: text(),
            ending: text(),
            ..JobSummary::default()
        };
        let told = Told {
            story: Story {
                script: Some(text()),
                environment: vec![(text(), text())],
                ..Story::default()
            },
            payment: Ok(Some(Payment {
                account: text(),
                note: text(),
                is_settled: true,
                ..Payment::default()
            })),
            advice: None,
            price: None,
        };
        let profile = Profile {
            key: text(),
            name: text(),
            samples: [1.0, 2.0]
                .map(|at| Sample {
                    at,
                    share: Some(at),
                    used: Some(at),
                })
                .to_vec(),
            ..Profile::default()
        };
        let detail = Detail {
            job: job.clone(),
            facts: vec![(text(), text())],
            said: text(),
            no_output: text(),
            ..Detail::default()
        };
        let output = OutputChunk {
            text: text(),
            rest: text(),
            from: 1,
            next: 2,
            end: 3,
            size: 3,
            again: false,
        };
        let found = Found {
            hits: vec![Hit {
                text: [text(), text(), text()],
                ..Hit::default()
            }],
            size: 1,
            ..Found::default()
        };
        let wrong = || Problem::new(nasty);
        let query = Query {
            search: text(),
            group: format!("name.{nasty}"),
            ..Query::default()
        };
        let balance = Balance {
            account: text(),
            balance: 1.0,
            held: 0.0,
            available: Amount::Unlimited,
            closed: true,
            ends: vec![(1.0, 2.0)],
            later: vec![(1.0, 2.0)],
            members: vec![text()],
        };
        let movement = Movement {
            at: 0.0,
            kind: text(),
            amount: 1.0,
            balance: 1.0,
            job: text(),
            note: text(),
        };
        let month = |movements| Month {
            account: text(),
            opening: 0.0,
            closing: 1.0,
            movements,
        };
        let account = Account::On(vec![balance], vec![month(vec![]), month(vec![movement])]);
        let cluster = Cluster {
            nodes: vec![Node {
                name: text(),
                state: text(),
                ..Node::default()
            }],
            note: text(),
            problems: vec![text()],
        };
        let history = History {
            hours: vec![Hour {
                refused: [(text(), 1)].into(),
                ..Hour::default()
            }],
        };
        let typed = Submission {
            name: text(),
            estimate: text(),
            deadline: text(),
            budget: text(),
            penalty: text(),
            processors: text(),
            queue: text(),
            directory: text(),
            ..Submission::default()
        };
        let quote = Quote {
            text: text(),
            reason: text(),
            class_line: text(),
            warning: text(),
            offers: vec![Offer {
                words: text(),
                ..Offer::default()
            }],
            ..Quote::default()
        };
        let listing = Listing {
            path: nasty.into(),
            above: Some(nasty.into()),
            directories: vec![text()],
            files: vec![text()],
            more: true,
        };
        let errors = vec![FieldError {
            field: "name",
            label: "Name",
            text: text(),
        }];
        let parts = [
            alone(nasty, nasty),
            files::body(&listing),
            account::body(&view, &Ok(account), nasty, nasty, Some(nasty)),
            cluster::body(&view, &Ok(cluster), Some(&history)),
            cluster::body(&view, &Err(wrong()), None),
            job::body(&view, &detail, None, None, &told),
            output::part(&detail, &output),
            output::found(&detail, nasty, 0, &found),
            output::none(&detail, nasty),
            job::body(&view, &detail, Some(&Ok(output)), Some(&profile), &told),
            job::body(&view, &detail, Some(&Err(wrong())), None, &told),
            jobs::body(
                &view,
                &jobs::Rendered::new(&view, &Ok(vec![job.clone()]), &query),
                &query,
            ),
            jobs::body(
                &view,
                &jobs::Rendered::new(&view, &Ok(vec![job.clone(); 5]), &Query::default()),
                &Query::default(),
            ),
            jobs::body(
                &view,
                &jobs::Rendered::new(&view, &Err(wrong()), &query),
                &query,
            ),
            jobs::confirm(&view, &[&job], &query),
            submit::body(
                &view,
                &typed,
                nasty,
                &Said::Nothing,
                true,
                &[(Owner::User, text())],
            ),
            submit::body(&view, &typed, nasty, &Said::Wrong(errors), true, &[]),
            verdict::part(&quote, &typed, true),
        ];
        for part in parts {
            let page = page(&view, PageKind::Job, nasty, Some((1, nasty)), &part).into_string();
            assert!(!page.contains("<b>"), "{page}");
            let control = |c: char| c.is_control() && c != '\n';
            assert!(!page.contains(control), "{page:?}");
        }
    }
}
