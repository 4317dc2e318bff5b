//! What came of a paper's experiments, written down: as Markdown for people (it reads well on a
//! terminal, too), as CSV and as JSON for programs.

use super::Reproduction;
use super::panel::Panel;
use super::statement::Verdict;
use libra_plots::columns::{self, Column, Flush};
use libra_plots::figure::Table;
use serde_json::{Value, json};
use std::fmt::Write;

/// A table in Markdown, its columns aligned.
pub fn markdown(table: &Table) -> String {
    let one_line = |cell: &String| cell.replace('\n', " ").replace('|', "\\|");
    let rows: Vec<Vec<String>> = std::iter::once(&table.head)
        .chain(&table.rows)
        .map(|row| row.iter().map(one_line).collect())
        .collect();
    let flush = |place: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(place));
        match cells.all(|cell| is_number(cell)) {
            true => Flush::Right,
            false => Flush::Left,
        }
    };
    let columns: Vec<Column> = columns::fitting(&rows, flush)
        .into_iter()
        .map(|column| Column {
            // The least that a rule below a heading may have.
            width: column.width.max(3),
            ..column
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = columns.iter().enumerate().map(|(place, column)| {
            let cell = row.get(place).map_or("", String::as_str);
            format!(" {} ", column.cell(cell))
        });
        format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
    };
    let mut text = format!("{}\n\n", table.caption);
    for (place, row) in rows.iter().enumerate() {
        text += &line(row);
        if place == 0 {
            let rules = columns.iter().map(|column| match column.flush {
                Flush::Left => "-".repeat(column.width + 2),
                Flush::Right => format!("{}:", "-".repeat(column.width + 1)),
            });
            text += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        }
    }
    text + "\n"
}

/// Markdown in lines of at most so many columns, which read as well. A table that is wider becomes a list: an item for each row, with the names of
/// its cells.
fn fitted(text: &str, tables: &[Table], width: usize) -> String {
    let mut text = text.to_string();
    for table in tables {
        let wide = markdown(table);
        if wide.lines().any(|line| line.chars().count() > width) {
            text = text.replacen(&wide, &list(table), 1);
        }
    }
    let lines = text.lines().map(|line| match line.starts_with('|') {
        true => format!("{line}\n"),
        false => wrapped(line, width),
    });
    lines.collect()
}

/// A table as a list.
fn list(table: &Table) -> String {
    let rows = table.rows.iter().map(|row| {
        let cells = table.head.iter().zip(row);
        let cells = cells.filter(|(_, cell)| !cell.is_empty());
        let cells: Vec<String> = cells
            .map(|(name, cell)| format!("{name}: {cell}"))
            .collect();
        format!("- {}\n", cells.join("; ").replace('\n', " "))
    });
    format!("{}\n\n{}\n", table.caption, rows.collect::<String>())
}

/// A line, broken between words; what goes on an item stands below its text.
fn wrapped(line: &str, width: usize) -> String {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut text = String::new();
    let mut column = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if column > indent.len() && column + 1 + length > width {
            text += &format!("\n{indent}{word}");
            column = indent.len() + length;
        } else {
            let blank = if text.is_empty() { "" } else { " " };
            text += &format!("{blank}{word}");
            column += blank.len() + length;
        }
    }
    text + "\n"
}

/// A number, with its spread perhaps, or nothing.
fn is_number(cell: &str) -> bool {
    let digits = cell.trim_start_matches(['-', '+', '−', '–']);
    digits.is_empty() || digits.starts_with(|c: char| c.is_ascii_digit())
}

/// A table as CSV.
pub fn csv(table: &Table) -> String {
    let mut text = String::new();
    for row in std::iter::once(&table.head).chain(&table.rows) {
        let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_string(),
    }
}

impl Reproduction {
    /// The verdicts, a column for each reading.
    pub fn verdicts(&self) -> Table {
        let mut head = vec!["where".to_string(), "what the paper says".to_string()];
        head.extend(self.readings.iter().map(|reading| reading.name.to_string()));
        let rows = self.statements.iter().map(|statement| {
            let mut row = vec![statement.place.to_string(), statement.text.to_string()];
            row.extend(
                statement
                    .findings
                    .iter()
                    .map(|finding| finding.verdict.to_string()),
            );
            row
        });
        let sums = Verdict::ALL.map(|verdict| {
            let mut row = vec![String::new(), format!("statements: {verdict}")];
            let readings = 0..self.readings.len();
            row.extend(readings.map(|reading| self.count(reading, verdict).to_string()));
            row
        });
        Table {
            caption: "What the paper says, and whether it is so here".to_string(),
            head,
            rows: rows.chain(sums).collect(),
        }
    }

    /// Of how many statements it is this, by one of the readings.
    fn count(&self, reading: usize, verdict: Verdict) -> usize {
        let findings = (self.statements.iter()).filter_map(|one| one.findings.get(reading));
        findings
            .filter(|finding| finding.verdict == verdict)
            .count()
    }

    /// What all came to, in a sentence for each reading: `Of 29 statements 20 hold, 5 hold in part, 4 do not.`
    pub fn sums(&self) -> String {
        let said = self.readings.iter().enumerate().map(|(place, reading)| {
            let [holds, in_part, fails] = Verdict::ALL.map(|verdict| self.count(place, verdict));
            let all = holds + in_part + fails;
            let by = match self.readings.len() {
                1 => String::new(),
                _ => format!(" ({})", reading.name),
            };
            let ending = |count, one, more| if count == 1 { one } else { more };
            format!(
                "Of {all} statement{} {holds} {}, {in_part} {} in part, {fails} {} not{by}.",
                ending(all, "", "s"),
                ending(holds, "holds", "hold"),
                ending(in_part, "holds", "hold"),
                ending(fails, "does", "do"),
            )
        });
        said.collect::<Vec<_>>().join(" ")
    }

    /// Every finding with its numbers, one line each.
    pub fn findings_csv(&self) -> String {
        let mut csv = String::from("where,statement,reading,verdict,evidence\n");
        for statement in &self.statements {
            for (reading, finding) in self.readings.iter().zip(&statement.findings) {
                let verdict = finding.verdict.to_string();
                let cells = [
                    statement.place,
                    statement.text,
                    reading.name,
                    &verdict,
                    &finding.evidence,
                ];
                // Writing to a String cannot fail.
                let _ = writeln!(csv, "{}", cells.map(quoted).join(","));
            }
        }
        csv
    }

    /// The same for a terminal of so many columns.
    pub fn markdown_within(&self, width: usize) -> String {
        let mut tables: Vec<Table> = (self.tables.iter())
            .map(|(_, table)| table.clone())
            .collect();
        tables.extend(self.panels.iter().map(Panel::table));
        tables.push(self.verdicts());
        fitted(&self.markdown(), &tables, width)
    }

    /// All of it for people: tables first, verdicts last.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n\n", self.name, self.paper);
        for (name, value) in &self.facts {
            let _ = writeln!(text, "- {name}: {value}");
        }
        text += "\n";
        for (_, table) in &self.tables {
            text += &markdown(table);
        }
        for panel in &self.panels {
            text += &markdown(&panel.table());
        }
        if self.readings.len() > 1 {
            text += "Readings of what the paper leaves open:\n\n";
        }
        for reading in &self.readings {
            let _ = writeln!(text, "- {}: {}", reading.name, reading.meaning);
        }
        text += "\n";
        text += &markdown(&self.verdicts());
        let _ = writeln!(text, "{}\n", self.sums());
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    /// All of it for programs.
    pub fn json(&self) -> Value {
        let statements = self.statements.iter().map(|statement| {
            let findings =
                self.readings
                    .iter()
                    .zip(&statement.findings)
                    .map(|(reading, finding)| {
                        json!({
                            "reading": reading.name,
                            "verdict": finding.verdict.to_string(),
                            "evidence": finding.evidence,
                        })
                    });
            json!({
                "where": statement.place,
                "text": statement.text,
                "findings": findings.collect::<Vec<Value>>(),
            })
        });
        let tables = self.tables.iter().map(|(name, table)| {
            json!({"name": name, "caption": table.caption, "head": table.head, "rows": table.rows})
        });
        let readings = self.readings.iter().enumerate();
        json!({
            "reproduction": self.name,
            "paper": self.paper,
            "facts": self.facts.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "readings": readings
                .map(|(place, reading)| json!({
                    "name": reading.name,
                    "meaning": reading.meaning,
                    "holds": self.count(place, Verdict::Holds),
                    "in_part": self.count(place, Verdict::InPart),
                    "does_not_hold": self.count(place, Verdict::Fails),
                }))
                .collect::<Vec<Value>>(),
            "statements": statements.collect::<Vec<Value>>(),
            "tables": tables.collect::<Vec<Value>>(),
            "figures": self.panels.iter().map(panel_json).collect::<Vec<Value>>(),
            "notes": self.notes,
        })
    }

    /// The files that hold all of it, each with its name.
    pub fn files(&self) -> Vec<(String, String)> {
        let file = |name: &str, ending: &str, text: String| {
            (format!("{}-{name}.{ending}", self.name), text)
        };
        let mut files = vec![file("findings", "csv", self.findings_csv())];
        for (name, table) in &self.tables {
            files.push(file(name, "csv", csv(table)));
        }
        for panel in &self.panels {
            let name = format!("figure-{}", panel.id);
            files.push(file(&name, "csv", panel.csv()));
            files.push(file(&name, "svg", panel.plot().svg()));
        }
        for picture in &self.pictures {
            files.push(file(
                &format!("figure-{}", picture.id),
                "svg",
                picture.svg(),
            ));
        }
        files.push(("index.html".to_string(), self.page()));
        files
    }
}

fn panel_json(panel: &Panel) -> Value {
    let curves = panel.curves.iter().map(|curve| {
        let points = panel
            .values
            .iter()
            .zip(&curve.points)
            .map(|(value, spread)| {
                json!({
                    "value": value,
                    "mean": spread.map(|spread| spread.mean),
                    "standard_deviation": spread.map(|spread| spread.deviation),
                })
            });
        json!({"name": curve.name, "points": points.collect::<Vec<Value>>()})
    });
    json!({
        "id": panel.id,
        "title": panel.title,
        "parameter": panel.parameter,
        "measure": panel.measure,
        "curves": curves.collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Reading;
    use super::super::statement::{Statement, Tested};
    use super::*;

    fn table() -> Table {
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        Table {
            caption: "Two rows".to_string(),
            head: words(&["name", "a, b"]),
            rows: vec![words(&["x", "1"]), words(&["long name", "2|\"3\""])],
        }
    }

    #[test]
    fn tables() {
        let text = "Two rows\n\n\
            | name      |   a, b |\n\
            |-----------|-------:|\n\
            | x         |      1 |\n\
            | long name | 2\\|\"3\" |\n\n";
        assert_eq!(markdown(&table()), text);
        assert_eq!(
            csv(&table()),
            "name,\"a, b\"\nx,1\nlong name,\"2|\"\"3\"\"\"\n"
        );
    }

    #[test]
    fn what_is_wider_than_a_terminal_becomes_a_list() {
        let text = format!("- a long item of a list\n\n{}", markdown(&table()));
        let narrow = "- a long item of\n  a list\n\nTwo rows\n\n- name: x; a, b:\n  1\n- name: long\n  name; a, b:\n  2|\"3\"\n\n";
        assert_eq!(fitted(&text, &[table()], 16), narrow);
        assert_eq!(fitted(&text, &[table()], 40), text);
    }

    #[test]
    fn everything_is_written_down() {
        let reproduction = Reproduction {
            name: "paper",
            paper: "Somebody: Something",
            readings: vec![Reading {
                name: "plain",
                meaning: "As it stands.",
            }],
            statements: vec![Statement {
                place: "5.1",
                text: "More, not less.",
                findings: vec![Tested::point(true, "3 after 2".to_string()).finding()],
            }],
            tables: vec![("table-1", table())],
            ..Reproduction::default()
        };
        let csv = "where,statement,reading,verdict,evidence\n\
            5.1,\"More, not less.\",plain,holds,3 after 2\n";
        assert_eq!(reproduction.findings_csv(), csv);
        let text = reproduction.markdown();
        assert!(text.contains("| 5.1   | More, not less. | holds |") || text.contains("holds |"));
        let json = reproduction.json();
        assert_eq!(json["statements"][0]["findings"][0]["verdict"], "holds");
        assert_eq!(
            (
                &json["readings"][0]["holds"],
                &json["readings"][0]["in_part"]
            ),
            (&json!(1), &json!(0))
        );
        let sums = "Of 1 statement 1 holds, 0 hold in part, 0 do not.";
        assert_eq!(reproduction.sums(), sums);
        assert!(text.contains(sums), "{text}");
        let lead = format!("<p class=\"lead\">{sums}</p>");
        assert!(reproduction.page().contains(&lead));
        let names: Vec<String> = reproduction
            .files()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            ["paper-findings.csv", "paper-table-1.csv", "index.html"]
        );
    }
}
