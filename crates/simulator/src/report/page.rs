//! The page: what was run, what came of it, the figures, and how all of it was measured.

use super::clock::Clock;
use super::detail;
use super::gains::{self, SiteRules};
pub use super::parts::{bullets, section};
use super::run::{self, Columns, PolicyRun, words};
use super::sweep::Sweep;
use crate::summary::Measure;
use libra_plots::figure::{Figure, Table};
use libra_plots::html::{self, definitions};
use libra_plots::markup::Escaped;
use libra_plots::style;
use maud::{Markup, PreEscaped, html};

/// What came of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub enum Results {
    /// Of several policies over one workload.
    Runs(Vec<PolicyRun>),
    /// Of several policies over a range of values of one parameter.
    Sweep(Sweep),
}

/// All that a page tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its heading.
    pub title: String,
    /// One line below it: the workload and the machine.
    pub subtitle: String,
    /// What came of it.
    pub results: Results,
    /// What hours of the day are.
    pub clock: Clock,
    /// How it was run: names and values, the command line first.
    pub facts: Vec<(String, String)>,
    /// What it rests on, besides what is true of every simulation: shown beside the result, in the same size.
    pub notes: Vec<String>,
    /// What a site would write besides the policy.
    pub rules: SiteRules,
}

impl Report {
    /// The page, complete: style, drawings and numbers, without scripts and without the network.
    pub fn html(&self) -> String {
        let (lead, results) = match &self.results {
            Results::Runs(runs) => {
                let results = html! {
                    @if let Some(gains) = gains::gains(runs) { (gains) }
                    @if let Some(lines) = gains::configuration(runs, &self.rules) { (lines) }
                    (section("All measures", &all_measures(runs).html()))
                    @for figure in self.figures(runs) { (figure.html()) }
                };
                (gains::lead(runs).or_else(|| best(runs)), results)
            }
            Results::Sweep(sweep) => {
                // Its table is long: figures first.
                let results = html! {
                    @for figure in sweep.figures() { (figure.html()) }
                    (section("All measures", &sweep.table().html_named_by(2)))
                };
                (sweep.lead(), results)
            }
        };
        let notes = self.notes.iter().map(String::as_str).chain(NOTES);
        let facts = self.facts.iter().map(|(name, value)| (name, value));
        let body = html! {
            div.assumptions {
                p { "This rests on:" }
                (bullets(notes))
            }
            (results)
            (section("What the measures mean", &html! { dl { (definitions(MEANINGS)) } }))
            (section("How it was run", &html! { dl.facts { (definitions(facts)) } }))
        };
        let heading = Heading {
            title: &self.title,
            subtitle: &self.subtitle,
            lead: lead.as_deref(),
        };
        document(&heading, "", &body)
    }

    fn figures(&self, runs: &[PolicyRun]) -> Vec<Figure> {
        let mut figures = vec![run::fates(runs)];
        figures.extend(run::refusals(runs));
        figures.push(detail::slowdowns(runs));
        figures.push(detail::promises(runs));
        figures.push(detail::utilisation(runs));
        figures.extend(detail::hours(runs, self.clock));
        figures
    }
}

/// What stands at the top of a report.
#[derive(Debug, Clone, Copy)]
pub struct Heading<'a> {
    /// Its heading, and the document's title.
    pub title: &'a str,
    /// One line below it.
    pub subtitle: &'a str,
    /// What came out, in a few words.
    pub lead: Option<&'a str>,
}

/// A report, complete: style, drawings and numbers, without scripts and without the network. `css`: rules besides those of all reports.
pub fn document(heading: &Heading<'_>, css: &str, body: &Markup) -> String {
    let head = html! {
        title { (Escaped(heading.title)) }
        style { (PreEscaped(CSS)) (PreEscaped(style::CSS)) (PreEscaped(css)) }
    };
    let body = html! {
        main {
            header {
                h1 { (Escaped(heading.title)) }
                p.subtitle { (Escaped(heading.subtitle)) }
                @if let Some(lead) = heading.lead {
                    p.lead { (Escaped(lead)) }
                }
            }
            (body)
        }
    };
    html::document(&head, &body).into_string()
}

/// The result in a sentence, where none of Libra's policies was run.
fn best(runs: &[PolicyRun]) -> Option<String> {
    let percent = |run: &PolicyRun| run.summary.mean(Measure::FulfilledPercent);
    let mut known: Vec<(&PolicyRun, f64)> = runs
        .iter()
        .filter_map(|run| Some((run, percent(run)?)))
        .collect();
    // Stable: of equals the first.
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (best, most) = known.first()?;
    let mut text = format!(
        "Under {} {} of the jobs met their deadline",
        best.name,
        run::percent(*most)
    );
    if let [_, .., (worst, least)] = &known[..] {
        text += &format!(
            ", the most of {} policies; the fewest did under {}, {}",
            known.len(),
            worst.name,
            run::percent(*least)
        );
    }
    Some(text + ".")
}

fn all_measures(runs: &[PolicyRun]) -> Table {
    let columns = Columns::of(runs.iter().map(|run| &run.summary));
    let mut head = words(&["policy"]);
    head.extend(columns.head());
    let rows = runs.iter().map(|run| {
        let mut row = vec![run.name.clone()];
        row.extend(columns.cells(&run.summary));
        row
    });
    let submitted = runs
        .first()
        .and_then(|run| run.summary.mean(Measure::Submitted));
    Table {
        caption: format!(
            "Measures of {} submitted jobs",
            run::jobs(submitted.unwrap_or(0.0))
        ),
        head,
        rows: rows.collect(),
    }
}

const MEANINGS: [(&str, &str); 10] = [
    (
        "refused, late, met",
        "What became of the submitted jobs: they did not run, ended after their deadline, or by their \
         deadline. Jobs that never ran in the log are left out. Late, in percent, is of those that \
         ran without a condition.",
    ),
    (
        "conditional, of these late",
        "Jobs that ran with a deadline shorter than their estimate, and those of them that ended after \
         it: they could end in time only by needing less than they said, so nobody broke a promise. They \
         are not among the late.",
    ),
    (
        "met, %",
        "Jobs that met their deadline, of all submitted jobs.",
    ),
    (
        "work met, %",
        "The work of the jobs that met their deadline, of that of all submitted jobs, in processor \
         seconds. A policy that keeps many small jobs and refuses large ones has less of it.",
    ),
    (
        "slowdown",
        "(end − submission) / run time: the mean of the jobs that met their deadline, and of no \
         others.",
    ),
    (
        "wait",
        "From submission to end, less the run time: the mean of all jobs that ran. With processors of \
         its own a job waits so long for its start; with a share, or suspended, it also stands still or goes slowly.",
    ),
    (
        "utility",
        "In credits, of all jobs that ran: the budget, less the delay times the penalty rate of a \
         late job. A late job with a hard deadline earns nothing. Not known where a budget is \
         unlimited.",
    ),
    (
        "revenue",
        "In credits, the prices of all jobs that ran, as they were agreed. Not known where nothing has a price, as in a queue.",
    ),
    (
        "in use",
        "Work of the jobs that ran, of what the machine could have done from the first submission \
         to the last end.",
    ),
    (
        "± and error bars",
        "Standard deviation over seeds: the same jobs with deadlines drawn anew.",
    ),
];

const NOTES: [&str; 2] = [
    "A simulation replays what was submitted. Users who are refused, or who pay, would submit \
     other jobs.",
    "Run times are those of the log, on processors of their own. What jobs on one node do to each \
     other beyond sharing processors (memory, network, disks) is not simulated.",
];

/// The style of all reports.
const CSS: &str = "\
:root{--ground:#fff;--ink:#1f2328;--soft:#57606a;--rule:#d8dee4;--shade:#c4cad1;color-scheme:light}
@media screen and (prefers-color-scheme:dark){:root{--ground:#14171b;--ink:#e6e9ed;--soft:#a5adb8;--rule:#2c323a;--shade:#333a43;color-scheme:dark}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
main{max-width:58rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:1.15rem;line-height:1.3;margin:0 0 .25rem}
p{margin:0 0 .75rem;max-width:44rem}
.subtitle{color:var(--soft);margin:0 0 1.25rem}
.assumptions{font-size:1.1rem}
.lead{font-size:1.1rem;border-left:3px solid #0072b2;padding-left:.9rem;margin:0 0 1.5rem}
figure{margin:3rem 0 0}
figcaption p{color:var(--soft)}
section{margin:3rem 0 0;padding:1.5rem 0 0;border-top:1px solid var(--rule)}
svg{display:block;width:100%;height:auto;overflow:visible}
svg.wide{max-width:56rem}
svg.narrow{display:none;max-width:30rem}
.small{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(20rem,100%),1fr));gap:1.5rem 1.75rem}
.small svg{max-width:26rem}
.scroll{overflow-x:auto;max-width:100%;background:linear-gradient(90deg,var(--ground) 40%,transparent) left/3rem 100% no-repeat local,linear-gradient(270deg,var(--ground) 40%,transparent) right/3rem 100% no-repeat local,linear-gradient(90deg,var(--shade),transparent) left/.6rem 100% no-repeat,linear-gradient(270deg,var(--shade),transparent) right/.6rem 100% no-repeat}
.scroll:focus-visible,summary:focus-visible{outline:2px solid #3794cd;outline-offset:2px}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;margin:.5rem 0;min-width:min(100%,24rem)}
caption{text-align:left;color:var(--soft);padding:0 0 .4rem}
th,td{padding:.35rem .8rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th.name{text-align:left}
th:first-child{padding-left:0}
thead th{font-weight:600;color:var(--soft);border-bottom-color:var(--soft)}
tbody th{font-weight:600}
td small{display:block;color:var(--soft);font-size:.85em;line-height:1.2}
details{margin:.5rem 0 0}
summary{cursor:pointer;color:var(--soft);font-size:.9rem;width:fit-content}
dl{margin:.75rem 0 0;display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.4rem 1.5rem;max-width:50rem}
dt{font-weight:600}
dd{margin:0;color:var(--soft);overflow-wrap:anywhere;min-width:0}
.facts dd,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9rem;color:var(--ink);white-space:pre-wrap;overflow-wrap:anywhere}
ul{margin:.75rem 0 0;padding-left:1.2rem;max-width:44rem}
li{margin:0 0 .4rem}
@media (max-width:720px){
main{padding:1.5rem 1rem 3rem}
h1{font-size:1.4rem}
svg.wide{display:none}
svg.narrow{display:block}
dl{grid-template-columns:1fr;gap:0}
dd{margin:0 0 .6rem}
}
@media print{
@page{margin:16mm 14mm}
body{font-size:10.5pt}
main{max-width:none;padding:0}
svg.wide{display:block}
svg.narrow{display:none}
.small{grid-template-columns:repeat(2,1fr)}
.small svg{max-width:80mm}
figure,svg,tr,dl>*{break-inside:avoid}
h2,figcaption{break-after:avoid}
details{display:none}
.scroll{overflow:visible}
table{font-size:8.5pt}
th,td{padding:.2rem .45rem}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
";
