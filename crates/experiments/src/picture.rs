//! A bar for each job, as figures 4 to 7 of the 2004 paper have it: the time it took, the time that
//! was left until its deadline, and the jobs that were of no use.

use libra_plots::Size;
use libra_plots::markup::{Anchor, Drawing, Px, width};
use libra_plots::style::{self, FONT};
use maud::Markup;
use std::fmt::Write;

/// One job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Seconds from submission to deadline.
    pub deadline: f64,
    /// Seconds from submission to its end, where that was in time.
    pub took: Option<f64>,
}

/// All jobs under one scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was run and how many jobs it completed.
    pub title: String,
    /// The jobs, in order of submission.
    pub bars: Vec<Bar>,
}

/// Rows below each other, over the same jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// The figure's number; unique in a paper.
    pub id: &'static str,
    /// What it shows.
    pub title: String,
    /// What the bars of the last kind are.
    pub lost: &'static str,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Height of the bars of a row, and from one row to the next.
const HIGH: f64 = 130.0;
const PITCH: f64 = HIGH + 44.0;

impl Picture {
    /// A file of its own, with its title and its style.
    pub fn svg(&self) -> String {
        let heading = 30.0;
        let mut drawing = Drawing::new(self.size(heading));
        drawing.text(2.0, 20.0, Anchor::Start, "heading", &self.title);
        self.draw_below(&mut drawing, heading);
        drawing.file(&self.title, &self.description())
    }

    /// A part of a page that has the style sheet.
    pub fn inline(&self, id: &str, class: &str) -> Markup {
        let mut drawing = Drawing::new(self.size(0.0));
        self.draw_below(&mut drawing, 0.0);
        drawing.inline(id, class, &self.title, &self.description())
    }

    fn size(&self, heading: f64) -> Size {
        Size {
            width: Size::WIDE.width,
            height: heading + 30.0 + self.rows.len() as f64 * PITCH,
        }
    }

    fn description(&self) -> String {
        let titles: Vec<&str> = self.rows.iter().map(|row| row.title.as_str()).collect();
        format!("One bar for each job. {}.", titles.join(". "))
    }

    fn draw_below(&self, drawing: &mut Drawing, top: f64) {
        let classes = [
            style::fill(Some(0)),
            style::fill(None),
            style::fill(Some(1)),
        ];
        let names = [
            "time to complete",
            "time left until the deadline",
            self.lost,
        ];
        let mut x = 2.0;
        for (class, name) in classes.iter().zip(names) {
            drawing.rectangle(class, x, top + 4.0, 12.0, 12.0);
            drawing.text(x + 18.0, top + 15.0, Anchor::Start, "", name);
            x += 40.0 + width(name, FONT);
        }
        let bars = || self.rows.iter().flat_map(|row| &row.bars);
        let most = bars().map(|bar| bar.deadline).fold(1.0, f64::max);
        for (index, row) in self.rows.iter().enumerate() {
            let title = top + 44.0 + index as f64 * PITCH;
            drawing.text(2.0, title, Anchor::Start, "", &row.title);
            self.draw_row(drawing, row, title + 10.0 + HIGH, most, &classes);
        }
    }

    fn draw_row(
        &self,
        drawing: &mut Drawing,
        row: &Row,
        bottom: f64,
        most: f64,
        classes: &[String; 3],
    ) {
        let (left, right) = (52.0, drawing.size().width - 2.0);
        let pitch = (right - left) / row.bars.len().max(1) as f64;
        let height = |seconds: f64| seconds / most * HIGH;
        let mut shapes = [const { String::new() }; 3];
        for (place, bar) in row.bars.iter().enumerate() {
            let x = left + place as f64 * pitch;
            let mut add = |kind: usize, from: f64, to: f64| {
                let (x, y, wide) = (Px(x), Px(bottom - height(to)), Px(pitch * 0.8));
                let high = Px(height(to) - height(from));
                // Writing to a String cannot fail.
                let _ = write!(shapes[kind], "M{x} {y}h{wide}v{high}h-{wide}z");
            };
            match bar.took {
                Some(took) => {
                    add(0, 0.0, took.min(bar.deadline));
                    add(1, took.min(bar.deadline), bar.deadline);
                }
                None => add(2, 0.0, bar.deadline),
            }
        }
        for (class, shape) in classes.iter().zip(shapes) {
            if !shape.is_empty() {
                drawing.path(class, &shape);
            }
        }
        drawing.line("axis", (left, bottom), (right, bottom));
        let marks = [
            (bottom, "0 s".to_string()),
            (bottom - HIGH + 8.0, format!("{most:.0} s")),
        ];
        for (y, mark) in marks {
            drawing.text(left - 6.0, y, Anchor::End, "soft small", &mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_its_bar() {
        let bar = |deadline, took| Bar { deadline, took };
        let picture = Picture {
            id: "4",
            title: "Two jobs & more".to_string(),
            lost: "late",
            rows: vec![Row {
                title: "FIFO: 1 of 2".to_string(),
                bars: vec![bar(100.0, Some(40.0)), bar(50.0, None)],
            }],
        };
        let svg = picture.svg();
        assert!(svg.starts_with("<svg") && svg.contains("Two jobs &amp; more"));
        // 40 of 100 s of 130 pixels; the rest above it; the lost one.
        assert!(svg.contains("v52h"), "{svg}");
        assert!(svg.contains("v78h") && svg.contains("v65h"), "{svg}");
        let empty = Picture {
            rows: Vec::new(),
            ..picture
        };
        assert!(empty.inline("p4", "wide").0.ends_with("</svg>\n"));
    }
}
