//! Horizontal bars, each of one part or of several behind each other.

use super::Size;
use super::markup::{Anchor, Drawing, Px, width};
use super::plot::{Area, Key, foot, legend};
use super::scale::{Axis, Ends};
use super::style::{self, FONT};
use maud::Markup;

/// What a part of each bar stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its name, for the legend.
    pub name: String,
    /// Its colour, 0 to 7; None for a quiet grey: what is left.
    pub style: Option<usize>,
}

/// One bar.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// What it is about.
    pub name: String,
    /// The length of each part, ≥ 0; what is no such number is not drawn.
    pub values: Vec<f64>,
    /// Error bar of the first part's end.
    pub between: Option<(f64, f64)>,
}

/// Bars below each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    /// What they show. Drawn in a file of its own; read out elsewhere.
    pub title: String,
    /// What is to be seen, for those who cannot see it.
    pub description: String,
    /// What the lengths are; it begins at 0.
    pub x: Axis,
    /// What the parts are.
    pub parts: Vec<Segment>,
    /// The bars, from the top.
    pub rows: Vec<Row>,
    /// Digits behind the point of the numbers at parts and ends.
    pub decimals: usize,
    /// Behind such a number.
    pub unit: String,
}

const SMALL: f64 = 12.0;

impl Bars {
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
        let any = Size { width, height: 0.0 };
        // The legend is as high as it is drawn.
        let legend = self.legend(&mut Drawing::new(any), 0.0);
        let height = heading + legend + self.rows.len() as f64 * self.pitch(any) + 50.0;
        Size { width, height }
    }

    /// From one bar to the next.
    fn pitch(&self, size: Size) -> f64 {
        if size.is_narrow() { 50.0 } else { 34.0 }
    }

    fn legend(&self, drawing: &mut Drawing, top: f64) -> f64 {
        let parts = self.parts.iter();
        let names: Vec<(&str, Option<usize>)> =
            parts.map(|part| (part.name.as_str(), part.style)).collect();
        match names.len() {
            0 | 1 => 0.0,
            _ => legend(drawing, &names, Key::Area, top + 16.0) + 6.0,
        }
    }

    fn draw_below(&self, drawing: &mut Drawing, top: f64) {
        let size = drawing.size();
        let narrow = size.is_narrow();
        let pitch = self.pitch(size);
        let top = top + self.legend(drawing, top);
        let names = self.rows.iter().map(|row| width(&row.name, FONT));
        let beside = if narrow {
            0.0
        } else {
            names.fold(0.0, f64::max) + 12.0
        };
        let single = self.parts.len() < 2;
        // The number of a single part stands behind it.
        let behind = if single { 74.0 } else { 14.0 };
        let area = Area {
            left: beside + 2.0,
            right: size.width - behind,
            top,
            bottom: top + self.rows.len() as f64 * pitch + 2.0,
        };
        let ends = self.rows.iter().flat_map(|row| {
            let whole: f64 = row.values.iter().filter(|value| drawable(**value)).sum();
            [whole, row.between.map_or(0.0, |between| between.1)]
        });
        let mut x = self
            .x
            .lay_out(ends.chain([0.0]), Ends::Round, (area.left, area.right));
        x.thin(|label| width(label, SMALL));
        for (value, _) in &x.marks {
            let place = x.place(*value);
            drawing.line("grid", (place, area.top), (place, area.bottom));
        }
        foot(drawing, &area, &x, &self.x.label);
        for (index, row) in self.rows.iter().enumerate() {
            let below = area.top + (index + 1) as f64 * pitch;
            let (high, middle) = (22.0, below - 17.0);
            if narrow {
                drawing.text(area.left, below - 33.0, Anchor::Start, "", &row.name);
            } else {
                let (x, y) = (area.left - 10.0, middle + 4.5);
                drawing.text(x, y, Anchor::End, "", &row.name);
            }
            if !row.values.iter().any(|value| drawable(*value)) {
                let (x, y) = (area.left + 6.0, middle + 4.5);
                drawing.text(x, y, Anchor::Start, "soft small", "none");
            }
            let mut sum = 0.0;
            for (part, &value) in self.parts.iter().zip(&row.values) {
                if !drawable(value) {
                    continue;
                }
                let (from, to) = (x.place(sum), x.place(sum + value));
                sum += value;
                let class = style::fill(part.style);
                drawing.rectangle(&class, from, middle - high / 2.0, to - from, high);
                let text = format!("{value:.*}{}", self.decimals, self.unit);
                if single {
                    let end = row.between.map_or(to, |between| x.place(between.1).max(to));
                    let (x, y) = (end + 7.0, middle + 4.5);
                    drawing.text(x, y, Anchor::Start, "", &text);
                } else if to - from > width(&text, SMALL) + 8.0 {
                    let class = style::text_on(part.style);
                    let (x, y) = ((from + to) / 2.0, middle + 4.5);
                    drawing.text(x, y, Anchor::Middle, &format!("small {class}"), &text);
                }
                // Neighbours stay apart in print as well.
                drawing.line("gap", (to, middle - high / 2.0), (to, middle + high / 2.0));
            }
            if let Some((low, high)) = row.between.filter(|(low, high)| low < high) {
                let (low, high) = (Px(x.place(low.max(0.0))), Px(x.place(high)));
                let (top, middle, bottom) = (Px(middle - 5.0), Px(middle), Px(middle + 5.0));
                let mut shape = format!("M{low} {top}V{bottom}M{high} {top}V{bottom}");
                shape += &format!("M{low} {middle}H{high}");
                drawing.path("halo", &shape);
                drawing.path("whisker", &shape);
            }
        }
    }
}

fn drawable(value: f64) -> bool {
    value.is_finite() && value > 0.0
}
