//! Each promise against its outcome: how many jobs with this deadline ended after so long.

use crate::series::{CELLS_PER_DECADE, Cell, PromiseGrid};
use libra_plots::Size;
use libra_plots::markup::{Anchor, Drawing, Px, width};
use libra_plots::plot::{Area, frame};
use libra_plots::scale::{Axis, Ends, Scale};
use maud::Markup;
use std::collections::BTreeMap;

/// The jobs of one run over their deadlines, both axes alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Promises {
    /// What it shows. Drawn at its top, so that it can stand among others.
    pub title: String,
    /// What is to be seen, for those who cannot see it.
    pub description: String,
    /// The jobs.
    pub cells: Vec<Cell>,
    /// First and last cell of both axes; the same for plots that are to be compared.
    pub range: (usize, usize),
}

const SMALL: f64 = 12.0;
/// Jobs of a cell from which on it is darker, and as it is written.
const SHADES: [(u32, &str); 4] = [(1, "1"), (10, "10"), (100, "100"), (1000, "1,000 jobs")];

impl Promises {
    /// Of this run.
    pub fn new(title: &str, description: &str, grid: &PromiseGrid) -> Promises {
        let cells: Vec<Cell> = grid.cells().collect();
        let range = cells
            .iter()
            .fold(None, |range: Option<(usize, usize)>, cell| {
                let (first, last) = range.unwrap_or((cell.promise, cell.promise));
                Some((
                    first.min(cell.promise).min(cell.outcome),
                    last.max(cell.promise).max(cell.outcome),
                ))
            });
        Promises {
            title: title.to_string(),
            description: description.to_string(),
            cells,
            range: range.unwrap_or((2 * CELLS_PER_DECADE, 6 * CELLS_PER_DECADE)),
        }
    }

    /// A file of its own, with its style, light and dark.
    pub fn svg(&self) -> String {
        self.draw().file(&self.title, &self.description)
    }

    /// A part of a page that has the style sheet. `id` must be unique in it and a plain word.
    pub fn inline(&self, id: &str, class: &str) -> Markup {
        self.draw()
            .inline(id, class, &self.title, &self.description)
    }

    fn draw(&self) -> Drawing {
        let mut drawing = Drawing::new(Size {
            width: 360.0,
            height: 420.0,
        });
        drawing.text(2.0, 18.0, Anchor::Start, "heading", &self.title);
        drawing.text(2.0, 40.0, Anchor::Start, "soft", "ended after");
        let area = Area {
            left: 52.0,
            right: 348.0,
            top: 50.0,
            bottom: 346.0,
        };
        let (first, last) = self.range;
        let (first, last) = (first as f64, last.max(first) as f64 + 1.0);
        let edge = |cell: f64| 10f64.powf(cell / CELLS_PER_DECADE as f64);
        let axis = Axis {
            scale: Scale::Duration,
            range: Some((edge(first), edge(last))),
            ..Axis::default()
        };
        let mut x = axis.lay_out(std::iter::empty(), Ends::Exact, (area.left, area.right));
        let mut y = axis.lay_out(std::iter::empty(), Ends::Exact, (area.bottom, area.top));
        x.thin(|label| width(label, SMALL));
        y.thin(|_| 14.0);
        frame(&mut drawing, &area, &x, &y, "deadline after submission");
        let side = (area.right - area.left) / (last - first);
        let mut shapes: BTreeMap<(&str, usize), String> = BTreeMap::new();
        for cell in &self.cells {
            let left = area.left + (cell.promise as f64 - first) * side;
            let bottom = area.bottom - (cell.outcome as f64 - first) * side;
            let (right, top) = (left + side, bottom - side);
            let diagonal = cell.promise == cell.outcome;
            for (kind, jobs) in [("m", cell.met), ("l", cell.late)] {
                let Some(shade) = SHADES.iter().rposition(|(least, _)| jobs >= *least) else {
                    continue;
                };
                let corner = |x, y| format!("{} {}", Px(x), Px(y));
                let (a, c) = (corner(left, bottom), corner(right, top));
                let (lower, upper) = (corner(right, bottom), corner(left, top));
                // The diagonal is the deadline: below it in time, above it late.
                let shape = match (diagonal, kind) {
                    (false, _) => format!("M{a}L{lower}L{c}L{upper}Z"),
                    (true, "m") => format!("M{a}L{lower}L{c}Z"),
                    (true, _) => format!("M{a}L{c}L{upper}Z"),
                };
                *shapes.entry((kind, shade)).or_default() += &shape;
            }
        }
        for ((kind, shade), shape) in shapes {
            drawing.path(&format!("{kind}{}", shade + 1), &shape);
        }
        drawing.line(
            "reference",
            (area.left, area.bottom),
            (area.right, area.top),
        );
        let (x, y) = (area.left + 8.0, area.top + 16.0);
        drawing.text(x, y, Anchor::Start, "soft small", "late");
        let (x, y) = (area.right - 8.0, area.bottom - 10.0);
        drawing.text(x, y, Anchor::End, "soft small", "in time");
        let mut x = 2.0;
        for (shade, (_, label)) in SHADES.iter().enumerate() {
            let y = 401.0;
            drawing.rectangle(&format!("m{}", shade + 1), x, y, 13.0, 13.0);
            drawing.rectangle(&format!("l{}", shade + 1), x + 14.0, y, 13.0, 13.0);
            let text = if shade == 3 {
                format!("{label} or more")
            } else {
                format!("{label}+")
            };
            drawing.text(x + 32.0, y + 11.0, Anchor::Start, "soft small", &text);
            x += 42.0 + width(&text, SMALL);
        }
        drawing
    }
}
