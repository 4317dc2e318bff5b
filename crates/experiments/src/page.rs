//! The page of a paper's experiments: verdicts, figures, numbers, and how they came about.

use super::Reproduction;
use super::panel::Panel;
use super::statement::{Statement, Verdict};
use libra_plots::Size;
use libra_plots::html::{definitions, headings};
use libra_plots::markup::Escaped;
use libra_simulator::report::page::{Heading, bullets, document, section};
use maud::{Markup, html};

/// What this page has besides the style of all pages: verdicts in words that may be long.
const VERDICTS: &str = "\
.verdicts td,.verdicts th{white-space:normal;text-align:left;vertical-align:top}
.verdicts td:first-child,.verdicts th:first-child{padding-left:0}
.verdicts td.verdict{white-space:nowrap}
.verdicts dl{grid-template-columns:1fr;gap:0}
.verdicts dd{margin:0 0 .5rem}
h3{font-size:1rem;margin:0 0 .2rem}
";

impl Reproduction {
    /// The page, complete: style, drawings and numbers, without scripts and without the network.
    pub fn page(&self) -> String {
        let title = format!("The experiments of the {} paper, run again", self.title());
        let facts = self.facts.iter().map(|(name, value)| (name, value));
        let body = html! {
            (section("What the paper says, and what comes out here", &self.verdicts_html()))
            @for (_, table) in &self.tables {
                section { (table.html()) }
            }
            @for picture in &self.pictures {
                figure id={"figure-" (picture.id)} {
                    figcaption { h2 { (Escaped(&picture.title)) } }
                    div.scroll tabindex="0" {
                        (picture.inline(&format!("picture-{}", picture.id), ""))
                    }
                }
            }
            @for panels in self.panels.chunk_by(|a, b| number(a) == number(b)) {
                (figure(panels))
            }
            (section("What to keep in mind", &bullets(&self.notes)))
            (section("How it was run", &html! { dl { (definitions(facts)) } }))
        };
        let sums = self.sums();
        let heading = Heading {
            title: &title,
            subtitle: self.paper,
            lead: Some(&sums),
        };
        document(&heading, VERDICTS, &body)
    }

    fn title(&self) -> &'static str {
        match self.name {
            "libra" => "Libra",
            "librasla" => "LibraSLA",
            "librarisk" => "LibraRisk",
            "aroma" => "AROMA",
            other => other,
        }
    }

    fn verdicts_html(&self) -> Markup {
        let readings = self.readings.iter();
        let meanings = readings.clone().map(|one| (one.name, one.meaning));
        html! {
            @if self.readings.len() > 1 {
                p { "What the paper leaves open can be read in more than one way:" }
                dl { (definitions(meanings)) }
            }
            div.scroll.verdicts tabindex="0" {
                table {
                    thead {
                        tr {
                            (headings(["where", "what the paper says"]))
                            (headings(readings.map(|reading| reading.name)))
                        }
                    }
                    tbody {
                        @for statement in &self.statements { (self.statement_html(statement)) }
                    }
                }
            }
        }
    }

    fn statement_html(&self, statement: &Statement) -> Markup {
        let findings = statement.findings.iter();
        let evidence = (self.readings.iter().zip(findings.clone()))
            .map(|(reading, finding)| (reading.name, &finding.evidence));
        html! {
            tr {
                td { (Escaped(statement.place)) }
                td {
                    (Escaped(statement.text))
                    details {
                        summary { "The numbers" }
                        dl { (definitions(evidence)) }
                    }
                }
                @for finding in findings.take(self.readings.len()) {
                    td.verdict { (sign(finding.verdict)) " " (finding.verdict) }
                }
            }
        }
    }
}

fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "●",
        Verdict::InPart => "◐",
        Verdict::Fails => "○",
    }
}

/// The figure that a panel is part of.
fn number(panel: &Panel) -> &str {
    panel.id.trim_end_matches(|c: char| c.is_ascii_lowercase())
}

/// The panels of one figure beside each other.
fn figure(panels: &[Panel]) -> Markup {
    let Some(first) = panels.first() else {
        return html! {};
    };
    let number = number(first);
    html! {
        figure id={"figure-" (number)} {
            figcaption {
                h2 { "Figure " (number) ": " (Escaped(first.parameter)) }
                p { "Means over the seeds; the error bars are one standard deviation to each side." }
            }
            div.small {
                @for panel in panels {
                    div {
                        h3 { (panel.id) ": " (Escaped(&panel.title)) }
                        (panel.plot().inline(Size::NARROW, &format!("plot-{}", panel.id), ""))
                    }
                }
            }
            details {
                summary { "The numbers" }
                @for panel in panels { (panel.table().html()) }
            }
        }
    }
}
