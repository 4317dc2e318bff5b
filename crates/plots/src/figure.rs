//! A figure of a page: what is to be seen in words, the drawing for wide and for narrow screens,
//! and the numbers behind it.

use super::markup::Escaped;
use std::fmt::Write;

/// A table; the first column names its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it holds.
    pub caption: String,
    /// One heading for each column.
    pub head: Vec<String>,
    /// Cells as they are shown; what follows a line break in one stands small below the rest.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// As HTML, in a box of its own that scrolls where the table is wider than the screen.
    pub fn html(&self) -> String {
        self.html_named_by(1)
    }

    /// The same where so many of the first columns name a row.
    pub fn html_named_by(&self, names: usize) -> String {
        let mut html = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n");
        // Writing to a String cannot fail.
        let _ = writeln!(html, "<caption>{}</caption>", Escaped(&self.caption));
        html += "<thead><tr>";
        for (place, cell) in self.head.iter().enumerate() {
            let class = if place < names { " class=\"name\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", Escaped(cell));
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            html += "<tr>";
            for (place, cell) in row.iter().enumerate() {
                let _ = match place {
                    place if place < names => write!(
                        html,
                        "<th scope=\"row\" class=\"name\">{}</th>",
                        Escaped(cell)
                    ),
                    _ => match cell.split_once('\n') {
                        Some((cell, below)) => write!(
                            html,
                            "<td>{}<small>{}</small></td>",
                            Escaped(cell),
                            Escaped(below)
                        ),
                        None => write!(html, "<td>{}</td>", Escaped(cell)),
                    },
                };
            }
            html += "</tr>\n";
        }
        html += "</tbody></table></div>\n";
        html
    }
}

/// One figure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figure {
    /// A plain word, unique in its page.
    pub id: &'static str,
    /// What it is about.
    pub heading: String,
    /// What is to be seen and how it was measured.
    pub caption: String,
    /// One or more drawings, in SVG.
    pub drawings: String,
    /// They are small and stand beside each other.
    pub small: bool,
    /// The numbers behind it.
    pub table: Table,
}

impl Figure {
    /// As HTML.
    pub fn html(&self) -> String {
        let class = if self.small { "small" } else { "drawings" };
        format!(
            "<figure id=\"{}\">\n<figcaption><h2>{}</h2>\n<p>{}</p></figcaption>\n\
             <div class=\"{class}\">\n{}</div>\n\
             <details><summary>The numbers</summary>\n{}</details>\n</figure>\n",
            self.id,
            Escaped(&self.heading),
            Escaped(&self.caption),
            self.drawings,
            self.table.html()
        )
    }
}
