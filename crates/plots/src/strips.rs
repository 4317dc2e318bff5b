//! Small areas below each other over one time: how something went in each of several runs.

use super::Size;
use super::markup::{Anchor, Drawing, Px, width};
use super::plot::{Area, foot};
use super::scale::{Axis, Ends};
use super::style::{self, FONT};
use maud::Markup;
use std::fmt::Write;

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strip {
    /// Its name.
    pub name: String,
    /// Start, end and value of each span of time, in order; values from 0 to `most`.
    pub spans: Vec<(f64, f64, f64)>,
}

/// Strips that share their axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strips {
    /// What they show. Drawn in a file of its own; read out elsewhere.
    pub title: String,
    /// What is to be seen, for those who cannot see it.
    pub description: String,
    /// The time.
    pub x: Axis,
    /// What the values are.
    pub y: String,
    /// The value at the top of each strip, > 0, and how it is written.
    pub most: (f64, String),
    /// The strips, from the top.
    pub strips: Vec<Strip>,
}

const SMALL: f64 = 12.0;
/// Height of a strip and from one to the next.
const HIGH: f64 = 54.0;

impl Strips {
    /// A file of its own, with its title and its style, light and dark.
    pub fn svg(&self) -> String {
        let heading = 30.0;
        let mut drawing = Drawing::new(self.size(Size::WIDE.width, heading));
        drawing.text(2.0, 20.0, Anchor::Start, "heading", &self.title);
        self.draw_below(&mut drawing, heading);
        drawing.file(&self.title, &self.description)
    }

    /// A part of a page that has the style sheet, as high as it needs. `id` must be unique in it
    /// and a plain word.
    pub fn inline(&self, wide: f64, id: &str, class: &str) -> Markup {
        let mut drawing = Drawing::new(self.size(wide, 0.0));
        self.draw_below(&mut drawing, 0.0);
        drawing.inline(id, class, &self.title, &self.description)
    }

    fn size(&self, width: f64, heading: f64) -> Size {
        let height = heading + 24.0 + self.strips.len() as f64 * pitch(width) + 50.0;
        Size { width, height }
    }

    fn draw_below(&self, drawing: &mut Drawing, top: f64) {
        let Size { width: wide, .. } = drawing.size();
        let narrow = drawing.size().is_narrow();
        let names = self.strips.iter().map(|strip| width(&strip.name, FONT));
        let beside = if narrow {
            0.0
        } else {
            names.fold(0.0, f64::max) + 12.0
        };
        let marks = width(&self.most.1, SMALL) + 8.0;
        let area = Area {
            left: beside + marks,
            right: wide - 14.0,
            top: top + 24.0,
            bottom: top + 26.0 + self.strips.len() as f64 * pitch(wide),
        };
        drawing.text(2.0, top + 14.0, Anchor::Start, "soft", &self.y);
        let times = self.strips.iter().flat_map(|strip| &strip.spans);
        let mut x = self.x.lay_out(
            times.flat_map(|span| [span.0, span.1]),
            Ends::Exact,
            (area.left, area.right),
        );
        x.thin(|label| width(label, SMALL));
        for (index, strip) in self.strips.iter().enumerate() {
            let bottom = area.top + (index + 1) as f64 * pitch(wide);
            let high = bottom - HIGH;
            if narrow {
                drawing.text(area.left, high - 7.0, Anchor::Start, "", &strip.name);
            } else {
                let (x, y) = (beside - 12.0, bottom - HIGH / 2.0 + 4.5);
                drawing.text(x, y, Anchor::End, "", &strip.name);
            }
            let (x_mark, most) = (area.left - 6.0, &self.most.1);
            drawing.text(x_mark, high + 8.0, Anchor::End, "soft small", most);
            drawing.text(x_mark, bottom + 1.0, Anchor::End, "soft small", "0");
            drawing.line("grid", (area.left, high), (area.right, high));
            let mut outline = String::new();
            for &(start, end, value) in &strip.spans {
                let part = (value / self.most.0).clamp(0.0, 1.0);
                let height = if part.is_finite() { part * HIGH } else { 0.0 };
                let (from, to) = (Px(x.place(start)), Px(x.place(end)));
                let (low, high) = (Px(bottom), Px(bottom - height));
                // Writing to a String cannot fail.
                let _ = match outline.is_empty() {
                    true => write!(outline, "M{from} {low}V{high}H{to}"),
                    false => write!(outline, "V{high}H{to}"),
                };
            }
            if !outline.is_empty() {
                outline += &format!("V{}Z", Px(bottom));
                drawing.path(&format!("area {}", style::fill(Some(0))), &outline);
            }
            drawing.line("axis", (area.left, bottom), (area.right, bottom));
        }
        foot(drawing, &area, &x, &self.x.label);
    }
}

/// From one strip to the next.
fn pitch(wide: f64) -> f64 {
    let any = Size {
        width: wide,
        height: 0.0,
    };
    if any.is_narrow() {
        HIGH + 28.0
    } else {
        HIGH + 14.0
    }
}
