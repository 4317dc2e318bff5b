//! AROMA's experiment in the form of all papers': tables, verdicts and numbers.

use super::statements::{self, Figure};
use super::{Case, ClassFigures, Experiment, HOSTS, Waits};
use crate::statement::{Finding, Statement, Verdict};
use crate::{Reading, Reproduction};
use libra_plots::figure::Table;

impl Experiment {
    /// The same as [`Reproduction`]. Times of mappings are those of a clock: nothing else in it
    /// differs from run to run.
    pub fn reproduction(&self) -> Reproduction {
        let fact = |name: &str, value: String| (name.to_string(), value);
        Reproduction {
            name: "aroma",
            paper: "AROMA 2004, section 4: four classes of service by dynamic mapping, against the \
                    waits under NQS in the log of SDSC SP2",
            facts: vec![
                fact("machine", format!("{HOSTS} hosts of one processor")),
                fact(
                    "jobs",
                    "from the start of the log, planned and run with their processor times; as many \
                     as in the paper (10,000 and 35,000), and as many days (112 and 249): the \
                     archive's log was cleaned since"
                        .to_string(),
                ),
            ],
            readings: vec![Reading {
                name: "both parts",
                meaning: "As many jobs as in the paper, and as many days.",
            }],
            statements: self.statements.iter().map(statement).collect(),
            tables: vec![
                ("table-1", table_1(&self.table_1)),
                ("table-2", table_2(&self.table_2)),
            ],
            panels: Vec::new(),
            pictures: Vec::new(),
            notes: vec![
                "The log's version is a later one than the paper's: compare ratios, not seconds. \
                 Times of mappings depend on this host."
                    .to_string(),
            ],
        }
    }
}

fn statement(statement: &statements::Statement) -> Statement {
    let verdict = match statement.verdict {
        statements::Verdict::Holds => Verdict::Holds,
        statements::Verdict::HoldsInPart => Verdict::InPart,
        statements::Verdict::DoesNotHold => Verdict::Fails,
    };
    let words = |figure: &Figure| match figure.paper {
        Some(paper) => format!(
            "{} {} (paper {})",
            figure.name,
            short(figure.here),
            short(paper)
        ),
        None => format!("{} {}", figure.name, short(figure.here)),
    };
    let evidence: Vec<String> = statement.figures.iter().map(words).collect();
    Statement {
        place: statement.source,
        text: statement.text,
        findings: vec![Finding {
            verdict,
            evidence: evidence.join("; "),
        }],
    }
}

/// A number with as many digits as it takes.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

fn table_1(waits: &[Waits]) -> Table {
    let row = |waits: &Waits| {
        vec![
            waits.part.to_string(),
            waits.jobs.to_string(),
            format!("{:.0}", waits.days),
            format!("{:.0}", waits.logged),
            format!("{:.0}", waits.dedicated),
            format!("{:.2}", waits.dedicated / waits.logged),
            format!("{:.2}", waits.dedicated_run_times / waits.logged),
        ]
    };
    Table {
        caption: "Table 1: mean waits, all jobs dedicated".to_string(),
        head: words(&[
            "part of the log",
            "jobs that ran",
            "days",
            "in the log, s",
            "AROMA, s",
            "ratio",
            "ratio by run times",
        ]),
        rows: waits.iter().map(row).collect(),
    }
}

fn table_2(cases: &[Case]) -> Table {
    let row = |case: &Case| {
        let mode = match case.four_classes {
            true => "four classes",
            false => "best effort alone",
        };
        let waits = |class: &ClassFigures| match class.jobs - class.refused {
            0 => "–".to_string(),
            _ => format!("{:.1}", class.wait),
        };
        let mut row = vec![format!("{}, {mode}", case.part)];
        row.extend(case.classes.iter().map(waits));
        row.push(format!("{:.1}", case.all.wait));
        row.push(case.all.refused.to_string());
        row.push(case.all.broken.to_string());
        row.push(format!("{} / {}", case.moved, case.stopped));
        row
    };
    Table {
        caption: "Table 2: mean waits by class, in seconds".to_string(),
        head: words(&[
            "jobs",
            "deadline",
            "high priority",
            "dedicated",
            "best effort",
            "all",
            "refused",
            "broken promises",
            "moved / stopped",
        ]),
        rows: cases.iter().map(row).collect(),
    }
}
