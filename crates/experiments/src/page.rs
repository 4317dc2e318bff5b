//! The page of a paper's experiments: verdicts, figures, numbers, and how they came about.

use super::Reproduction;
use super::panel::Panel;
use super::statement::{Statement, Verdict};
use libra_plots::markup::Escaped;
use libra_plots::{Size, style};
use libra_simulator::report::page::CSS;
use std::fmt::Write;

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
        let (title, paper) = (Escaped(&title), Escaped(self.paper));
        let mut body = self.verdicts_html();
        for (_, table) in &self.tables {
            let _ = writeln!(body, "<section>\n{}</section>", table.html());
        }
        for picture in &self.pictures {
            let _ = writeln!(
                body,
                "<figure id=\"figure-{id}\">\n<figcaption><h2>{}</h2></figcaption>\n\
                 <div class=\"scroll\" tabindex=\"0\">\n{}</div>\n</figure>",
                Escaped(&picture.title),
                picture.inline(&format!("picture-{}", picture.id), ""),
                id = picture.id,
            );
        }
        for panels in self.panels.chunk_by(|a, b| number(a) == number(b)) {
            body += &figure(panels);
        }
        let notes: String = (self.notes.iter())
            .map(|note| format!("<li>{}</li>\n", Escaped(note)))
            .collect();
        let facts: String = (self.facts.iter())
            .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", Escaped(name), Escaped(value)))
            .collect();
        let plots = style::CSS;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{CSS}{plots}{VERDICTS}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p class=\"subtitle\">{paper}</p>\n</header>\n\
             {body}\
             <section>\n<h2>What to keep in mind</h2>\n<ul>\n{notes}</ul>\n</section>\n\
             <section>\n<h2>How it was run</h2>\n<dl>\n{facts}</dl>\n</section>\n\
             </main>\n</body>\n</html>\n"
        )
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

    fn verdicts_html(&self) -> String {
        let mut html =
            String::from("<section>\n<h2>What the paper says, and what comes out here</h2>\n");
        if self.readings.len() > 1 {
            html += "<p>What the paper leaves open can be read in more than one way:</p>\n<dl>\n";
            for reading in &self.readings {
                let (name, meaning) = (Escaped(reading.name), Escaped(reading.meaning));
                let _ = writeln!(html, "<dt>{name}</dt><dd>{meaning}</dd>");
            }
            html += "</dl>\n";
        }
        html += "<div class=\"scroll verdicts\" tabindex=\"0\"><table>\n<thead><tr>\
                 <th scope=\"col\">where</th><th scope=\"col\">what the paper says</th>";
        for reading in &self.readings {
            let _ = write!(html, "<th scope=\"col\">{}</th>", Escaped(reading.name));
        }
        html += "</tr></thead>\n<tbody>\n";
        for statement in &self.statements {
            html += &self.statement_html(statement);
        }
        html + "</tbody></table></div>\n</section>\n"
    }

    fn statement_html(&self, statement: &Statement) -> String {
        let findings = || self.readings.iter().zip(&statement.findings);
        let evidence: String = findings()
            .map(|(reading, finding)| {
                let (name, evidence) = (Escaped(reading.name), Escaped(&finding.evidence));
                format!("<dt>{name}</dt><dd>{evidence}</dd>\n")
            })
            .collect();
        let verdicts: String = findings()
            .map(|(_, finding)| {
                let sign = match finding.verdict {
                    Verdict::Holds => "●",
                    Verdict::InPart => "◐",
                    Verdict::Fails => "○",
                };
                format!("<td class=\"verdict\">{sign} {}</td>", finding.verdict)
            })
            .collect();
        format!(
            "<tr><td>{}</td><td>{}<details><summary>The numbers</summary>\n<dl>\n{evidence}</dl></details></td>{verdicts}</tr>\n",
            Escaped(statement.place),
            Escaped(statement.text),
        )
    }
}

/// The figure that a panel is part of.
fn number(panel: &Panel) -> &str {
    panel.id.trim_end_matches(|c: char| c.is_ascii_lowercase())
}

/// The panels of one figure beside each other.
fn figure(panels: &[Panel]) -> String {
    let Some(first) = panels.first() else {
        return String::new();
    };
    let mut drawings = String::new();
    let mut tables = String::new();
    for panel in panels {
        let plot = panel
            .plot()
            .inline(Size::NARROW, &format!("plot-{}", panel.id), "");
        let (id, title) = (panel.id, Escaped(&panel.title));
        let _ = writeln!(drawings, "<div>\n<h3>{id}: {title}</h3>\n{plot}</div>");
        tables += &panel.table().html();
    }
    let number = number(first);
    format!(
        "<figure id=\"figure-{number}\">\n<figcaption><h2>Figure {number}: {}</h2>\n\
         <p>Means over the seeds; the error bars are one standard deviation to each side.</p></figcaption>\n\
         <div class=\"small\">\n{drawings}</div>\n\
         <details><summary>The numbers</summary>\n{tables}</details>\n</figure>\n",
        Escaped(first.parameter)
    )
}
