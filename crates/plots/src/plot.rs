//! A plot of lines: series of points with markers and error bars over a pair of axes.

use super::Size;
use super::marker::marker;
use super::markup::{Anchor, Drawing, Px, width};
use super::scale::{Axis, Ends, Layout};
use super::style::{self, FONT};
use maud::Markup;
use std::fmt::Write;

/// One measured point. What is no number is a gap in the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// Lower end of the error bar; there is None if it equals `high`.
    pub low: f64,
    /// Upper end of the error bar.
    pub high: f64,
}

impl Point {
    /// A point without an error bar.
    pub fn at(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            low: y,
            high: y,
        }
    }

    /// A point with an error bar.
    pub fn between(x: f64, y: f64, low: f64, high: f64) -> Point {
        Point { x, y, low, high }
    }
}

/// Points that belong together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// What they are, for the legend.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<Point>,
    /// Colour, dash and marker, 0 to 7; its place among the series where there is none. The same
    /// thing should have the same style in all plots of a page.
    pub style: Option<usize>,
}

impl Series {
    /// A series in the style of its place.
    pub fn new(name: &str, points: Vec<Point>) -> Series {
        Series {
            name: name.to_string(),
            points,
            style: None,
        }
    }

    /// The same in this style.
    pub fn in_style(self, style: usize) -> Series {
        Series {
            style: Some(style),
            ..self
        }
    }
}

/// How the points of a series are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Joined {
    /// By straight lines, a marker on each.
    #[default]
    Lines,
    /// By straight lines, without markers: for many points.
    Curve,
    /// A value holds until the next: no markers.
    Steps,
}

/// A value that all points are compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Of the vertical axis.
    pub y: f64,
    /// What it is.
    pub label: String,
}

/// A plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plot {
    /// What it shows. Drawn in a file of its own; read out elsewhere.
    pub title: String,
    /// What is to be seen, for those who cannot see it.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis. Without a range it begins at 0 where no value is negative.
    pub y: Axis,
    /// What is plotted.
    pub series: Vec<Series>,
    /// How points are joined.
    pub joined: Joined,
    /// Lines across the plot.
    pub references: Vec<Reference>,
}

/// Font of the labels of marks.
const SMALL: f64 = 12.0;
/// Between two labels.
const LINE: f64 = 17.0;

impl Plot {
    /// A file of its own, with its title and its style, light and dark.
    pub fn svg(&self) -> String {
        self.svg_sized(Size::WIDE)
    }

    /// The same, laid out for another size; the title comes on top of it.
    pub fn svg_sized(&self, size: Size) -> String {
        let Size { width, height } = size;
        let heading = 30.0;
        let mut drawing = Drawing::new(Size {
            width,
            height: height + heading,
        });
        drawing.text(2.0, 20.0, Anchor::Start, "heading", &self.title);
        self.draw_below(&mut drawing, heading);
        drawing.file(&self.title, &self.description)
    }

    /// A part of a page that has the style sheet. `id` must be unique in it and a plain word.
    pub fn inline(&self, size: Size, id: &str, class: &str) -> Markup {
        let mut drawing = Drawing::new(size);
        self.draw_below(&mut drawing, 0.0);
        drawing.inline(id, class, &self.title, &self.description)
    }

    fn draw_below(&self, drawing: &mut Drawing, top: f64) {
        let size = drawing.size();
        let names: Vec<(&str, usize)> = self.names().collect();
        let beside = !size.is_narrow() && names.len() > 1;
        let mut area = Area {
            left: 0.0,
            right: size.width - 14.0,
            top: top + 30.0,
            bottom: size.height - 46.0,
        };
        drawing.text(2.0, top + 16.0, Anchor::Start, "soft", &self.y.label);
        if beside {
            let widest = names.iter().map(|(name, _)| width(name, FONT));
            area.right -= widest.fold(0.0, f64::max) + 34.0;
        } else if names.len() > 1 {
            let names: Vec<(&str, Option<usize>)> = names
                .iter()
                .map(|(name, style)| (*name, Some(*style)))
                .collect();
            area.top += legend(drawing, &names, self.key(), top + 38.0) + 6.0;
        }
        let values = self
            .points()
            .flat_map(|point| [point.y, point.low, point.high]);
        let references = self.references.iter().map(|reference| reference.y);
        let y = self.y.lay_out(
            values.chain(references),
            Ends::Round,
            (area.bottom, area.top),
        );
        let labels = y.marks.iter().map(|(_, label)| width(label, SMALL));
        area.left = labels.fold(0.0, f64::max) + 12.0;
        let mut x = self.x.lay_out(
            self.points().map(|point| point.x),
            Ends::Exact,
            (area.left + 8.0, area.right - 8.0),
        );
        x.thin(|label| width(label, SMALL));
        frame(drawing, &area, &x, &y, &self.x.label);
        if !self.points().any(|point| self.drawn(&point)) {
            let middle = (area.left + area.right) / 2.0;
            let height = (area.top + area.bottom) / 2.0;
            drawing.text(middle, height, Anchor::Middle, "soft", "no values");
        }
        for reference in &self.references {
            let place = y.place(reference.y);
            drawing.line("reference", (area.left, place), (area.right, place));
        }
        for (series, (_, style)) in self.series.iter().zip(self.names()) {
            self.draw_series(drawing, series, style, &x, &y);
        }
        for reference in &self.references {
            let (x, y) = (area.right - 4.0, y.place(reference.y) - 5.0);
            drawing.text(x, y, Anchor::End, "small haloed", &reference.label);
        }
        if beside {
            self.label_ends(drawing, &area, &x, &y);
        }
    }

    fn draw_series(
        &self,
        drawing: &mut Drawing,
        series: &Series,
        style: usize,
        x: &Layout,
        y: &Layout,
    ) {
        let mut bars = String::new();
        let mut line = String::new();
        let mut pen_down = false;
        let mut before = 0.0;
        for point in &series.points {
            if !self.drawn(point) {
                pen_down = false;
                continue;
            }
            let (px, py) = (x.place(point.x), y.place(point.y));
            let (px_text, py_text) = (Px(px), Px(py));
            // Writing to a String cannot fail.
            let _ = match (pen_down, self.joined) {
                (false, _) => write!(line, "M{px_text} {py_text}"),
                (true, Joined::Steps) => {
                    write!(line, "L{px_text} {}L{px_text} {py_text}", Px(before))
                }
                (true, _) => write!(line, "L{px_text} {py_text}"),
            };
            if point.low < point.high && self.y.takes(point.low) && self.y.takes(point.high) {
                let (low, high) = (Px(y.place(point.low)), Px(y.place(point.high)));
                let (left, right) = (Px(px - 4.0), Px(px + 4.0));
                let _ = write!(
                    bars,
                    "M{left} {low}L{right} {low}M{left} {high}L{right} {high}M{px_text} {low}L{px_text} {high}"
                );
            }
            pen_down = true;
            before = py;
        }
        if !line.is_empty() {
            drawing.path(&style::line(style), &line);
        }
        if !bars.is_empty() {
            drawing.path(&format!("error {}", style::stroke(style)), &bars);
        }
        if self.joined == Joined::Lines {
            for point in series.points.iter().filter(|point| self.drawn(point)) {
                marker(drawing, style, x.place(point.x), y.place(point.y));
            }
        }
    }

    /// Names beside the right ends of the lines, moved apart where they would overlap.
    fn label_ends(&self, drawing: &mut Drawing, area: &Area, x: &Layout, y: &Layout) {
        let mut ends: Vec<(f64, f64, &str, usize)> = Vec::new();
        for (series, (name, style)) in self.series.iter().zip(self.names()) {
            let last = series.points.iter().rfind(|point| self.drawn(point));
            if let Some(last) = last {
                ends.push((y.place(last.y), x.place(last.x), name, style));
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places: Vec<f64> = ends.iter().map(|end| end.0).collect();
        apart(&mut places, area.top + 4.0, area.bottom, LINE);
        for ((from, end, name, style), place) in ends.into_iter().zip(places) {
            let text = area.right + 26.0;
            drawing.line(
                &format!("leader {}", style::stroke(style)),
                (end + 6.0, from),
                (
                    text - if self.joined == Joined::Lines {
                        15.0
                    } else {
                        4.0
                    },
                    place,
                ),
            );
            if self.joined == Joined::Lines {
                marker(drawing, style, text - 9.0, place);
            }
            drawing.text(text, place + 4.5, Anchor::Start, "", name);
        }
    }

    fn key(&self) -> Key {
        match self.joined {
            Joined::Lines => Key::Line,
            Joined::Curve | Joined::Steps => Key::Curve,
        }
    }

    fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        let series = self.series.iter().enumerate();
        series.map(|(place, series)| (series.name.as_str(), series.style.unwrap_or(place)))
    }

    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let all = self.series.iter().flat_map(|series| &series.points);
        all.copied()
    }

    fn drawn(&self, point: &Point) -> bool {
        self.x.takes(point.x) && self.y.takes(point.y)
    }
}

/// Moves sorted places apart until there are `gap` pixels between each two, as little as possible
/// in sum of squares, and within `top` and `bottom` as far as there is room.
pub fn apart(places: &mut [f64], top: f64, bottom: f64, gap: f64) {
    // Less the gaps before them, places only have to be in order: isotonic regression, by pooling
    // neighbours that are not. Each block is a sum and a count.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let mut block = (place - index as f64 * gap, 1);
        while let Some(&(sum, count)) = blocks.last() {
            if sum / count as f64 <= block.0 / block.1 as f64 {
                break;
            }
            block = (block.0 + sum, block.1 + count);
            blocks.pop();
        }
        blocks.push(block);
    }
    let most = bottom - places.len().saturating_sub(1) as f64 * gap;
    let means = blocks
        .iter()
        .flat_map(|(sum, count)| std::iter::repeat_n(sum / *count as f64, *count));
    for (index, (place, mean)) in places.iter_mut().zip(means).enumerate() {
        *place = mean.min(most).max(top) + index as f64 * gap;
    }
}

/// Where the values are, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Where it begins.
    pub left: f64,
    /// Where it ends.
    pub right: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its lower edge.
    pub bottom: f64,
}

/// Grid lines, axes and their labels.
pub fn frame(drawing: &mut Drawing, area: &Area, x: &Layout, y: &Layout, label: &str) {
    for (value, text) in &y.marks {
        let place = y.place(*value);
        drawing.line("grid", (area.left, place), (area.right, place));
        let (x, y) = (area.left - 7.0, place + 4.0);
        drawing.text(x, y, Anchor::End, "soft small", text);
    }
    foot(drawing, area, x, label);
}

/// The horizontal axis.
pub fn foot(drawing: &mut Drawing, area: &Area, x: &Layout, label: &str) {
    let bottom = area.bottom;
    drawing.line("axis", (area.left, bottom), (area.right, bottom));
    for (value, text) in &x.marks {
        let place = x.place(*value);
        drawing.line("axis", (place, bottom), (place, bottom + 5.0));
        // At the right edge of the drawing a label has less room.
        let half = width(text, SMALL) / 2.0;
        let middle = place.min(drawing.size().width - half - 1.0).max(half);
        drawing.text(middle, bottom + 19.0, Anchor::Middle, "soft small", text);
    }
    let middle = (area.left + area.right) / 2.0;
    drawing.text(middle, bottom + 39.0, Anchor::Middle, "soft", label);
}

/// What a legend shows before each name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A piece of line with its marker.
    Line,
    /// A piece of line.
    Curve,
    /// A piece of area.
    Area,
}

/// Names and their styles, in as many lines as they need, the first with its baseline at `top`.
/// The answer is how high it is.
pub fn legend(drawing: &mut Drawing, names: &[(&str, Option<usize>)], key: Key, top: f64) -> f64 {
    let (mut x, mut y) = (2.0, top);
    for (name, style) in names {
        let before = if key == Key::Area { 19.0 } else { 32.0 };
        let wide = before + width(name, FONT);
        if x > 2.0 && x + wide > drawing.size().width {
            (x, y) = (2.0, y + LINE + 2.0);
        }
        match key {
            Key::Line | Key::Curve => {
                let style = style.unwrap_or(0);
                drawing.line(&style::line(style), (x, y - 4.5), (x + 26.0, y - 4.5));
                if key == Key::Line {
                    marker(drawing, style, x + 13.0, y - 4.5);
                }
            }
            Key::Area => drawing.rectangle(&style::fill(*style), x, y - 11.0, 13.0, 13.0),
        }
        drawing.text(x + before, y, Anchor::Start, "", name);
        x += wide + 14.0;
    }
    y - top + LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_no_further_than_they_must() {
        let moved = |places: &[f64]| {
            let mut places = places.to_vec();
            apart(&mut places, 0.0, 100.0, 10.0);
            places
        };
        assert_eq!(moved(&[20.0, 50.0]), [20.0, 50.0]);
        // Two in one place go five up and five down.
        assert_eq!(moved(&[20.0, 20.0]), [15.0, 25.0]);
        // 17 and 29 are far enough apart until 20 stands between them.
        assert_eq!(moved(&[17.0, 20.0, 29.0]), [12.0, 22.0, 32.0]);
        // Not beyond the ends.
        assert_eq!(moved(&[0.0, 0.0]), [0.0, 10.0]);
        assert_eq!(moved(&[99.0, 99.0, 99.0]), [80.0, 90.0, 100.0]);
        assert_eq!(moved(&[]), [0.0; 0]);
    }
}
