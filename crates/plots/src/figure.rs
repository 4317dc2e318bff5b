//! A figure of a page: what is to be seen in words, the drawing for wide and for narrow screens,
//! and the numbers behind it.

use super::markup::Escaped;
use maud::{Markup, html};

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
    pub fn html(&self) -> Markup {
        self.html_named_by(1)
    }

    /// The same where so many of the first columns name a row.
    pub fn html_named_by(&self, names: usize) -> Markup {
        html! {
            div.scroll tabindex="0" {
                table {
                    caption { (Escaped(&self.caption)) }
                    thead {
                        tr {
                            @for (place, cell) in self.head.iter().enumerate() {
                                th scope="col" class=[(place < names).then_some("name")] { (Escaped(cell)) }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (place, cell) in row.iter().enumerate() {
                                    @if place < names {
                                        th scope="row" class="name" { (Escaped(cell)) }
                                    } @else {
                                        td { (small_below(cell)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What follows a line break stands small below the rest.
fn small_below(cell: &str) -> Markup {
    let (cell, below) = match cell.split_once('\n') {
        Some((cell, below)) => (cell, Some(below)),
        None => (cell, None),
    };
    html! {
        (Escaped(cell))
        @if let Some(below) = below {
            small { (Escaped(below)) }
        }
    }
}

/// One figure.
#[derive(Debug, Clone, Default)]
pub struct Figure {
    /// A plain word, unique in its page.
    pub id: &'static str,
    /// What it is about.
    pub heading: String,
    /// What is to be seen and how it was measured.
    pub caption: String,
    /// One or more drawings.
    pub drawings: Markup,
    /// They are small and stand beside each other.
    pub small: bool,
    /// The numbers behind it.
    pub table: Table,
}

impl Figure {
    /// As HTML.
    pub fn html(&self) -> Markup {
        let class = if self.small { "small" } else { "drawings" };
        html! {
            figure id=(self.id) {
                figcaption {
                    h2 { (Escaped(&self.heading)) }
                    p { (Escaped(&self.caption)) }
                }
                div class=(class) { (self.drawings) }
                details {
                    summary { "The numbers" }
                    (self.table.html())
                }
            }
        }
    }
}
